"""Sums over the unlabelled rows of a batch, by the engine that holds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from baserate.core.contracts import Block, Engine, total
from baserate.core.row_model import RowModel
from baserate.estimation.calibration import logarithms
from baserate.inputs.reading import Naming
from baserate.support.arrays import BLOCK_VALUES, FloatArray
from baserate.support.threads import single_threaded_blas

S = TypeVar("S", bound=tuple[Any, ...])

_MOST_KEPT = 20_000_000  # Values of rows in memory whose logarithms are kept between passes.


class CheckedSums(NamedTuple):
    """Sums of the first pass: the predictions, and how often each class is the most probable one."""

    mean: FloatArray
    most_probable: FloatArray


@dataclass(frozen=True, eq=False)
class Batch:
    """The rows of a batch, which need not be in memory.

    Attributes
    ----------
    rows : Engine
    model : RowModel
        How rows are read.
    n_rows : int
    mean : array of shape (k,)
        Mean prediction.
    most_probable : array of shape (k,)
        Number of rows in which each class is the most probable one.
    kept : list of arrays, optional
        The logarithms of the rows, if they are few enough to be kept.
    """

    rows: Engine
    model: RowModel
    n_rows: int
    mean: FloatArray
    most_probable: FloatArray
    kept: list[FloatArray] | None = None

    @classmethod
    def of(cls, rows: Engine, model: RowModel) -> Batch:
        """Check the rows: one pass."""
        if rows.in_memory and rows.n_values <= _MOST_KEPT:
            pairs = list(rows.map(partial(_checked_logs, model, rows.naming)))
            sums = total(sums for sums, _ in pairs)
            kept = [logs for _, logs in pairs]
        else:
            sums, kept = rows.sum(partial(_checked_sums, model, rows.naming)), None
        counts = np.asarray(sums.most_probable)
        n = int(counts.sum())
        return cls(rows, model, n, np.asarray(sums.mean) / n, counts, kept)

    def sum(self, task: Callable[[FloatArray], S]) -> S:
        """The sums of a task over the logarithms of all rows."""
        with single_threaded_blas():
            if self.kept is not None:
                return total(map(task, self.kept))
            return self.rows.sum(partial(_on_logs, self.model, task), BLOCK_VALUES)


def _checked_logs(model: RowModel, naming: Naming, block: Block) -> tuple[CheckedSums, FloatArray]:
    block = block.as_numpy()
    model.reading.check(block.rows, block.start, naming)
    p = model.read(block.rows)[0]
    counts = np.bincount(p.argmax(axis=1), minlength=p.shape[1]).astype(np.float64)
    return CheckedSums(p.sum(axis=0), counts), logarithms(p)


def _checked_sums(model: RowModel, naming: Naming, block: Block) -> CheckedSums:
    return _checked_logs(model, naming, block)[0]


def _on_logs(model: RowModel, task: Callable[[FloatArray], S], block: Block) -> S:
    return task(logarithms(model.read(block.as_numpy().rows)[0]))
