"""How single rows moved: one pass over the rows, wherever they are, that keeps only counts and a few of them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from baserate.core.problem import RowModel
from baserate.engines.base import Block, Engine
from baserate.errors import BaserateError
from baserate.result.adjustment import Adjustment
from baserate.support.arrays import FloatArray

_KEPT = 10  # rows that moved most
_SAMPLED = 100_000  # rows of which a picture is drawn
_CHANGED = 1e-9  # by how much the mean of rows that were not changed can differ when they are read again


class Extreme(NamedTuple):
    """A row that moved far.

    Attributes
    ----------
    row : str
        What it is called.
    moved : float
        Divergence of the answer from the prediction.
    before, after : array of shape (k,)
    """

    row: str
    moved: float
    before: FloatArray
    after: FloatArray


@dataclass(frozen=True, eq=False)
class Moves:
    """What adjustment did to single rows.

    Attributes
    ----------
    zeros_before, zeros_after : int
        Entries that are exactly 0.
    turned : int
        Rows whose most probable class is another one now.
    before, after : array of shape (m, k)
        Every row, or of very many one in so many: predictions, and what became of them.
    outside : int
        Adjusted entries below 0 or above 1, which only unbounded adjustment has.
    extremes : list of Extreme
        The rows that moved most, the farthest first.
    """

    zeros_before: int
    zeros_after: int
    turned: int
    before: FloatArray
    after: FloatArray
    outside: int
    extremes: list[Extreme]


class _Part(NamedTuple):
    zeros: tuple[int, int]
    turned: int
    outside: int
    sample: tuple[FloatArray, FloatArray]
    mean: FloatArray
    rows: list[tuple[float, int, FloatArray, FloatArray]]


def moves(result: Adjustment) -> Moves:
    """Look at every row once more; the adjustment must be one that was just made, and not loaded."""
    engine = _engine(result)
    stride = -(-engine.n_rows // _SAMPLED)
    samples: list[tuple[FloatArray, FloatArray]] = []
    extremes: list[tuple[float, int, FloatArray, FloatArray]] = []
    total: _Part | None = None
    for part in engine.map(partial(_moved, result.model, result.dual_shift, stride)):
        extremes = heapq.nlargest(_KEPT, [*extremes, *part.rows], key=lambda row: (row[0], -row[1]))
        samples.append(part.sample)
        total = part if total is None else _added(total, part)
    assert total is not None  # no adjustment is without rows
    named = [Extreme(engine.naming.row(row), moved, before, after) for moved, row, before, after in extremes]
    if np.abs(total.mean - result.before).max() > _CHANGED:
        raise BaserateError("the predictions were changed since they were adjusted; adjust them again")
    before, after = (np.concatenate(rows) for rows in zip(*samples, strict=True))
    return Moves(*total.zeros, total.turned, before, after, total.outside, named)


class Rows(NamedTuple):
    """All rows in memory.

    Attributes
    ----------
    before, after : array of shape (n, k)
        Predictions, each row of sum 1, and what became of them.
    weights : array of shape (n,), or None if they are equal
    """

    before: FloatArray
    after: FloatArray
    weights: FloatArray | None


def rows_of(result: Adjustment) -> Rows:
    """The rows of an adjustment, read once more."""
    engine = _engine(result)
    parts = list(engine.map(partial(_both, result.model, result.dual_shift)))
    before, after, weights = (np.concatenate(one) for one in zip(*parts, strict=True))
    return Rows(before, after, weights if engine.weighted else None)


def _engine(result: Adjustment) -> Engine:
    if result.origin is None:
        raise BaserateError("this adjustment holds the shift but no rows, so it cannot be said how they moved")
    return result.origin.engine


def _added(one: _Part, other: _Part) -> _Part:
    zeros = one.zeros[0] + other.zeros[0], one.zeros[1] + other.zeros[1]
    return _Part(zeros, one.turned + other.turned, one.outside + other.outside, one.sample, one.mean + other.mean, [])


def _both(model: RowModel, shift: FloatArray, block: Block) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Predictions, what becomes of them, and the weights of the rows."""
    rows = model.reading.clean(block.raw)
    p = model.probs(rows)
    if not shift.any() and len(shift) == model.n_classes and model.levels is None:
        return p, p, block.weights  # as it was written: without the rounding of a way there and back
    return p, model.widen(model.at(model.kept(model.dual_points(rows)), shift)[1]), block.weights


def _moved(model: RowModel, shift: FloatArray, stride: int, block: Block) -> _Part:
    p, a, weights = _both(model, shift, block)
    with np.errstate(all="ignore"):
        # Where it is not defined (an entry below 0), it cannot be ranked, and comes last.
        moved = np.nan_to_num(model.loss.divergence(p, a), nan=-1.0, posinf=np.inf)
    farthest = np.argsort(-moved, kind="stable")[:_KEPT]
    kept = [(float(moved[i]), block.start + int(i), p[i].copy(), a[i].copy()) for i in farthest]
    some = slice(-block.start % stride, None, stride)
    zeros = int((p == 0).sum()), int((a == 0).sum())
    turned = int((p.argmax(axis=1) != a.argmax(axis=1)).sum())
    return _Part(zeros, turned, int(((a < 0) | (a > 1)).sum()), (p[some].copy(), a[some].copy()), weights @ p, kept)
