"""Read the predictions of a caller into one array, without adjusting them."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from baserate.core.contracts import Block
from baserate.core.row_model import RowModel
from baserate.inputs.reading import Naming
from baserate.solving.request import Request
from baserate.support.arrays import FloatArray


class Predictions(NamedTuple):
    """Predictions that were checked, each row with sum 1, and weights that sum to 1."""

    probs: FloatArray
    weights: FloatArray


def read_predictions(request: Request) -> Predictions:
    """The predictions of a request: one pass."""
    rows = request.rows
    task = partial(_checked, request.model, rows.naming)
    parts = list(rows.map(task))
    return Predictions(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _checked(model: RowModel, naming: Naming, block: Block) -> Predictions:
    block = block.as_numpy()
    model.reading.check(block.rows, block.start, naming)
    return Predictions(model.read(block.rows)[0], block.weights)
