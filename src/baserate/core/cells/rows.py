"""What a row model computes on rows of different cells, each with its own shift.

The rows of a block are ordered by cell once, and sums over the rows of a cell are segment sums. A shift of -inf means
that a cell must not give probability to a class. Cells that exclude the same classes are computed together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.core.cells.sums import CellDualSums, CellSurveySums, CellWrittenSums
from baserate.core.row_model import RowModel
from baserate.support.arrays import FloatArray, IndexArray, row_patterns


class Segments(NamedTuple):
    """Rows ordered by cell.

    Attributes
    ----------
    order : int array of shape (m,), or None
        The numbers of the rows in this order; None if they are in this order already.
    starts : int array of shape (u,)
        Where the rows of each cell start.
    cells : int array of shape (u,)
        The cells that have rows, in increasing order.
    """

    order: IndexArray | None
    starts: IndexArray
    cells: IndexArray

    @classmethod
    def of(cls, cells: IndexArray) -> Segments:
        """Order rows by their cells. There must be at least one row."""
        order = None
        if (cells[1:] < cells[:-1]).any():
            order = np.argsort(cells, kind="stable")
            cells = cells[order]
        starts = np.concatenate([[0], np.flatnonzero(cells[1:] != cells[:-1]) + 1])
        return cls(order, starts, cells[starts].astype(np.intp, copy=False))

    def sorted(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the rows, in the order of the cells."""
        return values if self.order is None else values[self.order]

    def sum(self, values: FloatArray) -> FloatArray:
        """The sum over the rows of each cell, of values in the order of the cells."""
        return np.add.reduceat(values, self.starts, axis=0)


class Face(NamedTuple):
    """Cells that exclude the same classes.

    Attributes
    ----------
    model : RowModel
        Keeps the other classes.
    which : int array or slice
        Positions of the cells among those of the segments.
    rows : int array or slice
        Their rows, in the order of the cells.
    starts : int array
        Where the rows of each of these cells start among ``rows``.
    shift : array of shape (n_rows, n_kept)
        The shift of each row.
    unchanged : bool
        Whether the shift is 0 and no class is excluded, so that the rows need not be adjusted.
    """

    model: RowModel
    which: IndexArray | slice
    rows: IndexArray | slice
    starts: IndexArray
    shift: FloatArray
    unchanged: bool


def faces(
    model: RowModel, segments: Segments, n_rows: int, shifts: FloatArray, *, separate_unchanged: bool
) -> Iterator[Face]:
    """The cells of a block by the classes that they exclude; ``shifts`` has shape (C, k).

    With ``separate_unchanged``, cells whose rows stay as they are form a face of their own.
    """
    of_cell, sizes = shifts[segments.cells], np.diff(segments.starts, append=n_rows)
    allowed = ~np.isneginf(of_cell) if model.bounded else np.ones(of_cell.shape, dtype=np.bool_)
    same = np.zeros(len(of_cell), dtype=np.bool_)
    if separate_unchanged:
        same[:] = ~of_cell.any(axis=1)
    first, pattern_of = row_patterns(np.column_stack([allowed, same]))
    for number, example in enumerate(first):
        kept = np.flatnonzero(allowed[example])
        of_face = model if len(kept) == model.n_classes else replace(model, kept_classes=kept)
        which: IndexArray | slice = slice(None)
        rows: IndexArray | slice = slice(None)
        starts = segments.starts
        if len(first) > 1:
            which = np.flatnonzero(pattern_of == number)
            rows = np.flatnonzero(np.repeat(pattern_of == number, sizes))
            starts = np.concatenate([[0], np.cumsum(sizes[which])[:-1]])
        shift = np.repeat(of_cell[which][:, kept], sizes[which], axis=0)
        yield Face(of_face, which, rows, starts, shift, bool(same[example]))


def survey_by_cell(
    model: RowModel, p: FloatArray, eta: FloatArray, weights: FloatArray, segments: Segments
) -> CellSurveySums:
    """The sums of a survey, for rows ``p`` with dual points ``eta`` in the order of the cells."""
    w = weights
    # The conjugate over the whole simplex, where p lies, even if classes are excluded.
    conjugate = model.solved_loss.conjugate(eta, p)
    height = model.corner_values - eta
    zeros = np.zeros(len(w))
    if model.loss.pins_zeros and (pinned := np.isneginf(eta)).any():
        height[pinned] = -np.inf
        zeros = pinned.sum(axis=1).astype(np.float64)
    with np.errstate(invalid="ignore"):  # A loss that overflows is rejected when its dual is not finite.
        ceiling = segments.sum(w * (height.max(axis=1) + conjugate))
    return CellSurveySums(
        segments.cells,
        segments.sum(np.ones(len(w))),
        segments.sum(w),
        segments.sum(w * w),
        segments.sum(w[:, None] * p),
        segments.sum(w * conjugate),
        segments.sum(zeros),
        ceiling,
    )


def dual_sums_by_cell(
    model: RowModel,
    eta: FloatArray,
    weights: FloatArray,
    segments: Segments,
    shifts: FloatArray,
    *,
    curvature: bool = True,
) -> CellDualSums:
    """The sums of the dual function, for rows with dual points ``eta`` of all classes in the order of the cells."""
    u, k = len(segments.cells), model.n_classes
    conjugate, magnitude, mean = np.zeros(u), np.zeros(u), np.zeros((u, k))
    curvature_sum = np.zeros((u, k, k)) if curvature else np.zeros((u, 0, 0))
    for face in faces(model, segments, len(weights), shifts, separate_unchanged=False):
        kept, w = face.model.kept_classes, weights[face.rows]
        x, a = face.model.shifted(face.model.kept(eta[face.rows]), face.shift)
        value = _conjugate(face.model, x, a)
        conjugate[face.which] = np.add.reduceat(w * value, face.starts)
        magnitude[face.which] = np.add.reduceat(w * np.abs(value), face.starts)
        mean[_outer(face.which, kept)] = np.add.reduceat(w[:, None] * a, face.starts, axis=0)
        if curvature and len(kept) > 1:
            jacobians = face.model.kept_loss.jacobians(a, w, face.starts, bounded=model.bounded)
            curvature_sum[_outer(face.which, kept, kept)] = jacobians
    return CellDualSums(segments.cells, conjugate, magnitude, mean, curvature_sum)


def _conjugate(model: RowModel, x: FloatArray, a: FloatArray) -> FloatArray:
    """The conjugate on a face. The generator there may differ from that of the whole simplex by a constant."""
    kept = model.kept_classes
    if len(kept) == 1 and model.bounded:
        return np.asarray(x[:, 0] - model.corner_values[kept[0]])
    value = model.kept_loss.conjugate(x, a)
    if model.keeps_all_classes:
        return value
    corner = np.zeros((1, len(kept)))
    corner[0, 0] = 1.0
    return np.asarray(value + (model.kept_loss.phi(corner)[0] - model.corner_values[kept[0]]))


def _outer(which: IndexArray | slice, *classes: IndexArray) -> Any:
    """The index of some cells and some classes of arrays with a leading axis of cells."""
    if isinstance(which, slice):
        if len(classes) == 1:
            return which, classes[0]
        return which, classes[0][:, None], classes[1][None, :]
    return np.ix_(which, *classes)


class AdjustedCells(NamedTuple):
    """Adjusted rows in the order of the cells, in float64 but rounded as they are returned, and their sums."""

    rows: FloatArray
    sums: CellWrittenSums


def adjust_by_cell(
    model: RowModel, raw: NDArray[Any], weights: FloatArray, segments: Segments, shifts: FloatArray
) -> AdjustedCells:
    """Adjust raw rows that were checked, in the order of the cells."""
    u, k = len(segments.cells), model.n_classes
    divergence, shortfall, mean, exact_mean = np.zeros(u), np.zeros(u), np.zeros((u, k)), np.zeros((u, k))
    out = np.empty(raw.shape)
    for face in faces(model, segments, len(weights), shifts, separate_unchanged=True):
        w, which, starts = weights[face.rows], face.which, face.starts
        done = face.model.adjusted(raw[face.rows], np.zeros(k) if face.unchanged else face.shift)
        out[face.rows] = done.after
        mean[which] = np.add.reduceat(w[:, None] * done.after, starts, axis=0)
        exact_mean[which] = mean[which]
        if done.after is done.before:
            continue
        if done.after is not done.exact:
            exact_mean[which] = np.add.reduceat(w[:, None] * done.exact, starts, axis=0)
        short = np.where(w > 0, face.model.shortfall(done, face.shift), 0.0)  # which may be infinite
        shortfall[which] = np.add.reduceat(w * short, starts)
        divergence[which] = np.add.reduceat(w * face.model.divergence(done), starts)
    return AdjustedCells(out, CellWrittenSums(segments.cells, divergence, mean, shortfall, exact_mean))
