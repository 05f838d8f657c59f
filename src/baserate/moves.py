"""How single rows moved: one pass over the rows, wherever they are, that keeps only counts and a few of them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from baserate.arrays import FloatArray
from baserate.engines.base import Block, Engine
from baserate.errors import BaserateError
from baserate.problem import RowModel
from baserate.result import Adjustment

_KEPT = 10  # rows that moved most
_SAMPLED = 100_000  # rows of which a picture is drawn


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
    before, after = (np.concatenate(rows) for rows in zip(*samples, strict=True))
    return Moves(*total.zeros, total.turned, before, after, total.outside, named)


def predictions(result: Adjustment) -> tuple[FloatArray, FloatArray | None]:
    """The predictions (n, k) as they were, each row of sum 1, and the weights of the rows if they differ."""
    engine, model = _engine(result), result.model
    blocks = engine.map(lambda block: (model.probs(model.reading.clean(block.raw)), block.weights))
    probs, weights = zip(*blocks, strict=True)
    return np.concatenate(probs), np.concatenate(weights) if engine.weighted else None


def _engine(result: Adjustment) -> Engine:
    if result.origin is None:
        raise BaserateError("this adjustment holds the shift but no rows, so it cannot be said how they moved")
    return result.origin.engine


def _added(one: _Part, other: _Part) -> _Part:
    zeros = one.zeros[0] + other.zeros[0], one.zeros[1] + other.zeros[1]
    return _Part(zeros, one.turned + other.turned, one.outside + other.outside, one.sample, [])


def _moved(model: RowModel, shift: FloatArray, stride: int, block: Block) -> _Part:
    rows = model.reading.clean(block.raw)
    p = model.probs(rows)
    a = model.widen(model.at(model.kept(model.dual_points(rows)), shift)[1])
    with np.errstate(all="ignore"):
        moved = np.nan_to_num(model.loss.divergence(p, a), nan=-1.0, posinf=np.inf)
    farthest = np.argsort(-moved, kind="stable")[:_KEPT]
    kept = [(float(moved[i]), block.start + int(i), p[i].copy(), a[i].copy()) for i in farthest]
    some = slice(-block.start % stride, None, stride)
    zeros = int((p == 0).sum()), int((a == 0).sum())
    turned = int((p.argmax(axis=1) != a.argmax(axis=1)).sum())
    return _Part(zeros, turned, int(((a < 0) | (a > 1)).sum()), (p[some].copy(), a[some].copy()), kept)
