"""Problems with rates per group for several test files: designs, random tables, and solving without the interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from support import Array

from baserate.core.cells.design import CellDesign, Margin
from baserate.core.cells.dual import CellDual
from baserate.core.cells.fit import CellFit, fit_cells
from baserate.core.row_model import RowModel, is_bounded
from baserate.core.search import Stop
from baserate.engines.memory import MemoryEngine
from baserate.inputs.reading import Reading
from baserate.losses import Loss
from baserate.passes import choose_passes
from baserate.rates.balls import Ball
from baserate.rates.sets import RateSet
from baserate.support.answer_types import FLOAT64, AnswerTypes

Ints = NDArray[np.intp]

STOP = Stop(1e-10, 500)


class Solved(NamedTuple):
    """A fit, and the adjusted rows in the order of the caller."""

    fit: CellFit
    rows: Array


def margin(
    name: str,
    low: Array,
    high: Array | None = None,
    *,
    known: NDArray[np.bool_] | None = None,
    regions: dict[int, Ball] | None = None,
) -> Margin:
    """A margin with exact rates, or with bounds that are tightened as the interface does."""
    labels = [f"{name}{g}" for g in range(len(low))]
    if high is not None:
        sets = [RateSet.box(one, other) for one, other in zip(low, high, strict=True)]
        low, high = np.array([s.low for s in sets]), np.array([s.high for s in sets])
    known = np.ones(len(low), dtype=bool) if known is None else known
    return Margin(name, labels, low, low if high is None else high, known, regions or {})


def dual_of(
    p: NDArray[Any],
    groups: Sequence[Ints],
    margins: Sequence[Margin],
    loss: Loss,
    *,
    bounded: bool = True,
    weights: Array | None = None,
    kernels: str = "off",
    reading: Reading | None = None,
    answer_types: AnswerTypes = FLOAT64,
) -> CellDual:
    """The dual of rows in memory, each with its group in every margin."""
    members, cells = np.unique(np.stack(groups), axis=1, return_inverse=True)
    w = None if weights is None else weights / weights.sum()
    rows = MemoryEngine(p, w, answer_types, cells=cells.ravel(), n_cells=members.shape[1])
    k = p.shape[1]
    read = Reading() if reading is None else reading
    model = RowModel(loss, is_bounded(loss, bounded), k, np.arange(k), read, answer_types=answer_types)
    return CellDual.of(rows, choose_passes(model, rows, kernels), CellDesign(tuple(margins), members))


def solve(*args: Any, stop: Stop = STOP, **options: Any) -> Solved:
    """Fit a problem; the arguments are those of :func:`dual_of`."""
    dual = dual_of(*args, **options)
    fit = fit_cells(dual, stop, keep_rows=True)
    return Solved(fit, dual.rows.answer())


def rates_by_group(labels: Array, groups: Ints, n_groups: int, weights: Array | None = None) -> Array:
    """Mean label of each group; equal rates for groups without rows."""
    w = np.ones(len(labels)) if weights is None else weights
    sums, size = np.zeros((n_groups, labels.shape[1])), np.bincount(groups, w, minlength=n_groups)
    np.add.at(sums, groups, w[:, None] * labels)
    empty = size == 0
    sums[empty], size[empty] = 1.0, labels.shape[1]
    return np.asarray(sums / size[:, None])


def random_rows(rng: np.random.Generator, n: int, k: int, sharpness: float = 1.0) -> Array:
    """Predictions without zeros."""
    logits = sharpness * rng.normal(size=(n, k))
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))
