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


def read_predictions(request: Request, every: int = 1) -> Predictions:
    """The predictions of a request, or every n-th of them: one pass. All are checked."""
    rows = request.rows
    task = partial(_checked, request.model, rows.naming, every)
    parts = list(rows.map(task))
    return Predictions(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _checked(model: RowModel, naming: Naming, every: int, block: Block) -> Predictions:
    block = block.as_numpy()
    model.reading.check(block.rows, block.start, naming)
    probs, first = model.read(block.rows)[0], -block.start % every
    return Predictions(probs[first::every], block.weights[first::every])
