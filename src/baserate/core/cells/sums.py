"""Sums over the rows of each cell, and how those of all blocks are added up.

A pass over a block returns sums only for the cells that have rows in it. It does not return zeros for the others: with
100,000 cells and 5 classes, the curvature alone would be 20 MB per block, which is more than the rows of the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from baserate.core.contracts import Block, Engine
from baserate.support.arrays import FloatArray, IndexArray

S = TypeVar("S", bound=tuple[Any, ...])


class CellSurveySums(NamedTuple):
    """Sums that do not depend on the shift; see :class:`baserate.core.contracts.SurveySums`.

    Attributes
    ----------
    cells : int array of shape (u,)
        The cells that have rows, in increasing order. All other fields have this leading axis.
    n_rows, weight, squared_weights : array of shape (u,)
    mean : array of shape (u, k)
    offset, zeros, ceiling : array of shape (u,)
    """

    cells: IndexArray
    n_rows: FloatArray
    weight: FloatArray
    squared_weights: FloatArray
    mean: FloatArray
    offset: FloatArray
    zeros: FloatArray
    ceiling: FloatArray


class CellDualSums(NamedTuple):
    """Sums of the dual function at a shift per cell; see :class:`baserate.core.contracts.DualSums`.

    Attributes
    ----------
    cells : int array of shape (u,)
    conjugate, magnitude : array of shape (u,)
    mean : array of shape (u, k)
    curvature : array of shape (u, k, k)
    """

    cells: IndexArray
    conjugate: FloatArray
    magnitude: FloatArray
    mean: FloatArray
    curvature: FloatArray


class CellWrittenSums(NamedTuple):
    """Sums over adjusted rows as they are returned; see :class:`baserate.core.contracts.WrittenSums`.

    Attributes
    ----------
    cells : int array of shape (u,)
    divergence : array of shape (u,)
    mean : array of shape (u, k)
    shortfall : array of shape (u,)
    exact_mean : array of shape (u, k)
    """

    cells: IndexArray
    divergence: FloatArray
    mean: FloatArray
    shortfall: FloatArray
    exact_mean: FloatArray


def total_by_cell(parts: Iterable[S], n_cells: int) -> S:
    """Add up the sums of all blocks, for all cells, by Neumaier's compensated summation.

    See :func:`baserate.core.contracts.total`, which adds sums over all rows.
    """
    sums: list[FloatArray] = []
    lost: list[FloatArray] = []
    kind: Any = None
    for part in parts:
        cells, *values = part
        if kind is None:
            kind = type(part)
            sums = [np.zeros((n_cells, *value.shape[1:])) for value in values]
            lost = [np.zeros_like(value if value.ndim < 3 else 0.0) for value in sums]
        where = _as_slice(cells)
        for i, value in enumerate(values):
            if value.ndim == 3:  # the curvature, which is large and need not be so accurate
                sums[i][where] += value
            else:
                _add(sums[i], lost[i], where, value)
    whole = [np.where(np.isfinite(value), value + rest, value) for value, rest in zip(sums, lost, strict=True)]
    return cast(S, kind(np.arange(n_cells), *whole))


def total_of_present_cells(parts: Iterable[S], n_cells: int) -> S:
    """The same for the cells that occur in some parts, so that parts of it can be sent elsewhere and added there."""
    present = np.zeros(n_cells, dtype=bool)

    def noted() -> Iterator[S]:
        for part in parts:
            present[_as_slice(part[0])] = True
            yield part

    whole = total_by_cell(noted(), n_cells)
    if present.all():
        return whole
    cells = np.flatnonzero(present)
    return type(whole)(cells, *(value[cells] for value in whole[1:]))


def fold_cells(rows: Engine, task: Callable[[Block], S], n_cells: int, block_values: int, *, write: bool = False) -> S:
    """Run a task that returns sums per cell on every block, and add them up, for all cells.

    With ``write`` the task also returns rows, which the engine keeps.
    """
    add = partial(total_of_present_cells, n_cells=n_cells)
    found: S = (rows.write_and_fold if write else rows.fold)(task, add, block_values)  # type: ignore[arg-type]  # what the task returns depends on ``write``
    return found if len(found[0]) == n_cells else total_by_cell([found], n_cells)


def _as_slice(cells: IndexArray) -> IndexArray | slice:
    """Consecutive cells as a slice, with which arrays are not copied."""
    first, last = int(cells[0]), int(cells[-1])
    return slice(first, last + 1) if last - first + 1 == len(cells) else cells


def _add(sums: FloatArray, lost: FloatArray, where: IndexArray | slice, value: FloatArray) -> None:
    old = sums[where]
    new = old + value
    with np.errstate(invalid="ignore"):  # an infinite value shows in the sum itself
        lost[where] += np.where(np.abs(old) >= np.abs(value), (old - new) + value, (value - new) + old)
    sums[where] = new
