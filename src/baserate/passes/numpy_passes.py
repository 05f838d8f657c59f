"""The passes in NumPy, for every loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from baserate.core.cells.rows import Segments, adjust_by_cell, dual_sums_by_cell, survey_by_cell
from baserate.core.cells.sums import CellDualSums, CellSurveySums
from baserate.core.contracts import (
    Block,
    DualSums,
    Engine,
    ProductSums,
    RowPasses,
    SurveySums,
    WrittenBlock,
    WrittenSums,
)
from baserate.core.row_model import RowModel
from baserate.inputs.reading import Naming
from baserate.support.arrays import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class NumpyPasses(RowPasses):
    """The methods of the loss, on blocks that fit the cache of a core.

    Attributes
    ----------
    model : RowModel
    naming : Naming
        How rows and columns are named in messages.
    uses_scratch : bool
        Whether the survey stores the dual points in the scratch memory of a block, from which later passes read them.
        Scratch memory of float32 is not used, because the dual points would lose digits. Later passes then compute them
        again.
    """

    model: RowModel
    naming: Naming
    uses_scratch: bool = True

    name = "numpy"
    array_module = "numpy"
    is_default = True
    sums_cells = True
    multiplies = True

    @classmethod
    def for_rows(cls, model: RowModel, rows: Engine, kernels: str) -> Self | None:
        return cls(model, rows.naming)

    def survey(self, block: Block) -> SurveySums:
        model, w = self.model, block.weights
        model.reading.check(block.rows, block.start, self.naming)
        p, eta = model.read(block.rows)
        model.check_support(model.kept(eta), block.start, self.naming)
        kept_points = self._kept_points(block)
        if kept_points is not None:
            kept_points[:] = model.kept(eta)
        # The conjugate over the whole simplex, where p lies, even if classes are dropped.
        conjugate = model.solved_loss.conjugate(eta, p)
        height = model.corner_values - eta
        zeros = np.zeros(())
        if model.loss.pins_zeros and (pinned := np.isneginf(eta)).any():
            height[pinned] = -np.inf
            zeros = np.asarray(pinned.sum(), dtype=np.float64)
        with np.errstate(invalid="ignore"):  # A loss that overflows is rejected when its dual is not finite.
            ceiling = w @ (height.max(axis=1) + conjugate)
        return SurveySums(w @ p, w @ conjugate, zeros, ceiling, w @ w)

    def reduce(self, block: Block, shift: FloatArray, *, curvature: bool = True) -> DualSums:
        return self.model.dual_sums(self._dual_points(block), block.weights, shift, curvature=curvature)

    def reduce_diagonal(self, block: Block, shift: FloatArray) -> DualSums:
        return self.model.diagonal_sums(self._dual_points(block), block.weights, shift)

    def multiply(self, block: Block, shift: FloatArray, vector: FloatArray) -> ProductSums:
        return ProductSums(self.model.multiply(self._dual_points(block), block.weights, shift, vector))

    def write(self, block: Block, shift: FloatArray, *, check: bool = False) -> WrittenBlock:
        if check:
            rows = self.model.adjust_new_rows(block.rows, block.start, self.naming, shift)
            return WrittenBlock(self._stored(rows.after), ())
        # Not from scratch memory: that holds the dual points of the last model that was surveyed, which may have been
        # given up.
        rows = self.model.adjusted(block.rows, shift)
        w, p, a = block.weights, rows.before, rows.after
        mean = w @ a
        if a is p:
            return WrittenBlock(a, WrittenSums(np.zeros(()), mean, np.zeros(()), mean))
        shortfall = np.where(w > 0, self.model.shortfall(rows, shift), 0.0)  # which may be infinite
        exact_mean = mean if a is rows.exact else w @ rows.exact
        sums = WrittenSums(w @ self.model.divergence(rows), mean, w @ shortfall, exact_mean)
        return WrittenBlock(self._stored(a), sums)

    def survey_cells(self, block: Block, allowed: BoolArray) -> CellSurveySums:
        model = self.model
        model.reading.check(block.rows, block.start, self.naming)
        p, eta = model.read(block.rows)
        kept_points = self._kept_points(block)
        if kept_points is not None:
            kept_points[:] = eta
        segments = _segments(block)
        if model.loss.pins_zeros and np.isneginf(eta).any():
            self._check_supports(block, eta, allowed)
        p, eta, weights = segments.sorted(p), segments.sorted(eta), segments.sorted(block.weights)
        return survey_by_cell(model, p, eta, weights, segments)

    def reduce_cells(self, block: Block, shifts: FloatArray, *, curvature: bool = True) -> CellDualSums:
        segments = _segments(block)
        eta, weights = segments.sorted(self._kept_dual_points(block)), segments.sorted(block.weights)
        return dual_sums_by_cell(self.model, eta, weights, segments, shifts, curvature=curvature)

    def write_cells(self, block: Block, shifts: FloatArray, *, check: bool = False) -> WrittenBlock:
        if check:
            self.survey_cells(replace(block, scratch=None), ~np.isneginf(shifts))
        segments = _segments(block)
        raw, weights = segments.sorted(block.rows), segments.sorted(block.weights)
        adjusted, sums = adjust_by_cell(self.model, raw, weights, segments, shifts)
        rows = self._stored(adjusted)
        if segments.order is not None:
            sorted_rows, rows = rows, np.empty_like(rows)
            rows[segments.order] = sorted_rows
        return WrittenBlock(rows, sums)

    def _check_supports(self, block: Block, eta: FloatArray, allowed: BoolArray) -> None:
        """Reject rows that give probability only to classes that their cell excludes."""
        assert block.cells is not None
        of_row = allowed[block.cells]
        unsupported = np.flatnonzero((np.isneginf(eta) | ~of_row).all(axis=1))
        if unsupported.size:
            row = int(unsupported[0])
            model = replace(self.model, kept_classes=np.flatnonzero(of_row[row]))
            model.check_support(model.kept(eta[row : row + 1]), block.start + row, self.naming)

    def _stored(self, rows: FloatArray) -> NDArray[Any]:
        """Rounded rows in the dtype of the answer."""
        return rows.astype(self.model.answer_types.common, copy=False)

    def _dual_points(self, block: Block) -> FloatArray:
        """The dual points of a block. Subclasses whose survey keeps something else compute them from that."""
        return self._kept_dual_points(block)

    def _kept_dual_points(self, block: Block) -> FloatArray:
        kept_points = self._kept_points(block)
        return self.model.kept(self.model.read(block.rows)[1]) if kept_points is None else kept_points

    def _kept_points(self, block: Block) -> FloatArray | None:
        """The memory in which the dual points of the block are kept, if there is any."""
        if block.scratch is None or not self.uses_scratch or block.scratch.dtype != np.float64:
            return None
        return block.scratch[:, : len(self.model.kept_classes)]


def _segments(block: Block) -> Segments:
    assert block.cells is not None  # the engine has cells
    return Segments.of(block.cells)
