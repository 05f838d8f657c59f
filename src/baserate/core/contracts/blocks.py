"""Blocks of rows, and the sums over them: named tuples of float64 arrays that add field by field."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from baserate.support.arrays import FloatArray, IndexArray

S = TypeVar("S", bound=tuple[Any, ...])


@dataclass(frozen=True)
class Block:
    """Some consecutive rows.

    Attributes
    ----------
    rows : array of shape (m, k)
        The rows as the caller passed them.
    weights : array of shape (m,)
        Weights of the rows; those of all blocks sum to 1.
    start : int
        Number of the first row in the whole input.
    scratch : array of shape (m, k), optional
        Memory for these rows that keeps its values between passes until the adjusted rows are written. Its dtype is
        that of the answer.
    cells : int array of shape (m,), optional
        The cell of each row, for rates per group; None if all rows share one shift.
    """

    rows: Any
    weights: FloatArray
    start: int
    scratch: NDArray[Any] | None = None
    cells: IndexArray | None = None

    def as_numpy(self) -> Block:
        """The block with NumPy arrays. Engines whose blocks hold other arrays override this."""
        return self

    def split(self, n_rows: int) -> Iterator[Block]:
        """The block in pieces of at most ``n_rows`` rows."""
        for first in range(0, len(self.weights), n_rows):
            piece = slice(first, first + n_rows)
            yield replace(
                self,
                rows=self.rows[piece],
                weights=self.weights[piece],
                start=self.start + first,
                scratch=None if self.scratch is None else self.scratch[piece],
                cells=None if self.cells is None else self.cells[piece],
            )


class SurveySums(NamedTuple):
    """Sums that do not depend on the shift.

    Attributes
    ----------
    mean : array of shape (k,)
        Weighted sum of the predictions.
    offset : float
        Weighted sum of ``conj(eta)``, the constant of the dual function.
    zeros : float
        Number of hard zeros, for losses that cannot move them.
    ceiling : float
        Upper bound on the weighted sum of divergences that any adjustment can reach.
    squared_weights : float
    """

    mean: FloatArray
    offset: FloatArray
    zeros: FloatArray
    ceiling: FloatArray
    squared_weights: FloatArray


class DualSums(NamedTuple):
    """Sums of the dual function at a shift.

    Attributes
    ----------
    conjugate : float
        Weighted sum of ``conj(eta + shift)``.
    magnitude : float
        Weighted sum of its absolute values, from which the rounding error is estimated.
    mean : array of shape (k,)
        Weighted sum of the adjusted rows.
    curvature : array of shape (k, k), or (0, 0) if it was not requested
        Weighted sum of the Jacobians of the row map. For :meth:`RowPasses.reduce_diagonal` only its diagonal, (k,).
    """

    conjugate: FloatArray
    magnitude: FloatArray
    mean: FloatArray
    curvature: FloatArray


class ProductSums(NamedTuple):
    """The curvature at a shift times a vector, shape (k,)."""

    product: FloatArray


class FirstSums(NamedTuple):
    """Survey and dual sums of one pass."""

    survey: SurveySums
    dual: DualSums


class WrittenSums(NamedTuple):
    """Weighted sums over adjusted rows as they are returned, after rounding to the dtype of the answer.

    Attributes
    ----------
    divergence : float
        Sum of the divergences of the rows from the predictions.
    mean : array of shape (k,)
        Sum of the rows, for all classes.
    shortfall : float
        How far the fall of the loss may be below the dual value, because the rows are not exactly those that belong to
        the shift; see :meth:`baserate.core.row_model.RowModel.shortfall`.
    exact_mean : array of shape (k,)
        Sum of the rows before rounding. The search uses it, so that the shift does not depend on the dtype.
    """

    divergence: FloatArray
    mean: FloatArray
    shortfall: FloatArray
    exact_mean: FloatArray


class WrittenBlock(NamedTuple):
    """Adjusted rows of a block, and sums over them."""

    rows: Any
    sums: Any


@dataclass(frozen=True)
class SumsOf:
    """A task that returns only the sums of another one, for engines that compute the rows when they are needed."""

    task: Callable[[Block], WrittenBlock]

    def __call__(self, block: Block) -> Any:
        """The sums of a block."""
        return self.task(block).sums


class SolvedBlock(NamedTuple):
    """A problem whose rows all lie in one block, solved and written by compiled code.

    Attributes
    ----------
    shift : array of shape (k,)
    n_passes : int
        Passes over the block, the survey and the writing included.
    survey : SurveySums
    written : WrittenSums
    """

    shift: FloatArray
    n_passes: int
    survey: SurveySums
    written: WrittenSums


class CellChunk(NamedTuple):
    """Some consecutive cells of rows in memory, which are not copied.

    Attributes
    ----------
    raw : array of shape (n, k)
        All rows as the caller passed them.
    weights : array of shape (n,), or None if all rows have the same weight
    order : int array of shape (m,)
        The numbers of the rows of the chunk, in the order of their cells.
    starts : int array of shape (u + 1,)
        Where the rows of each cell start in ``order``, and m.
    first : int
        Number of the first cell.
    answer : array of shape (n, k)
        Where adjusted rows go.
    """

    raw: Any
    weights: FloatArray | None
    order: IndexArray
    starts: IndexArray
    first: int
    answer: Any


class SolvedCells(NamedTuple):
    """Cells that were solved and written by compiled code, each as a problem of its own whose weights sum to 1.

    Attributes
    ----------
    cells : int array of shape (u,)
    n_passes : int array of shape (u,)
    shifts : array of shape (u, k)
        0 for classes of rate 0.
    before : array of shape (u, k)
        Mean prediction.
    offset, ceiling, squared_weights : array of shape (u,)
        See :class:`SurveySums`.
    divergence, mean, shortfall, exact_mean : arrays
        See :class:`WrittenSums`.
    """

    cells: IndexArray
    n_passes: IndexArray
    shifts: FloatArray
    before: FloatArray
    offset: FloatArray
    ceiling: FloatArray
    squared_weights: FloatArray
    divergence: FloatArray
    mean: FloatArray
    shortfall: FloatArray
    exact_mean: FloatArray


def total(parts: Iterable[S]) -> S:
    """The sum of named tuples of arrays, one per block, by Neumaier's compensated summation.

    With compensation neither the number of blocks nor a billion rows cost digits. The order of the parts matters for
    the last bit, so engines yield them in the order of the rows. Parts are added as they arrive, not collected.
    """
    iterator = iter(parts)
    first = next(iterator)
    sums = lost = None
    for part in iterator:
        if sums is None or lost is None:
            sums = _flat(first)
            lost = np.zeros_like(sums)
        value = _flat(part)
        new = sums + value
        with np.errstate(invalid="ignore"):  # an infinite value shows in the sum itself
            lost += np.where(np.abs(sums) >= np.abs(value), (sums - new) + value, (value - new) + sums)
        sums = new
    if sums is None or lost is None:
        return first
    shapes = [np.shape(leaf) for leaf in _leaves(first)]
    pieces = np.split(np.where(np.isfinite(sums), sums + lost, sums), np.cumsum([math.prod(s) for s in shapes])[:-1])
    return cast(S, _rebuilt(first, iter([x.reshape(shape) for x, shape in zip(pieces, shapes, strict=True)])))


def _flat(part: Any) -> FloatArray:
    """The numbers of a tuple in one vector, because the numbers of a block are few and each operation has its cost."""
    return np.concatenate([np.ravel(leaf) for leaf in _leaves(part)]).astype(np.float64, copy=False)


def _leaves(part: Any) -> Iterator[Any]:
    """The arrays of a tuple, those of tuples within it included."""
    for field in part:
        if isinstance(field, tuple):
            yield from _leaves(field)
        else:
            yield field


def _rebuilt(like: Any, leaves: Iterator[FloatArray]) -> Any:
    """A tuple like another one with new arrays."""
    fields = [_rebuilt(field, leaves) if isinstance(field, tuple) else next(leaves) for field in like]
    return type(like)(*fields) if hasattr(like, "_fields") else tuple(fields)
