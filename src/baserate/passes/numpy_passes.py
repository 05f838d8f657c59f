"""The passes in NumPy, for every loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from baserate.core.contracts import Block, DualSums, Engine, RowPasses, SurveySums, WrittenBlock, WrittenSums
from baserate.core.row_model import RowModel
from baserate.inputs.reading import Naming
from baserate.support.arrays import FloatArray


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
    """

    model: RowModel
    naming: Naming
    uses_scratch: bool = True

    name = "numpy"
    is_default = True

    @classmethod
    def for_rows(cls, model: RowModel, rows: Engine, kernels: str) -> Self | None:
        return cls(model, rows.naming) if rows.array_module == "numpy" else None

    def survey(self, block: Block) -> SurveySums:
        model, w = self.model, block.weights
        model.reading.check(block.rows, block.start, self.naming)
        p, eta = model.read(block.rows)
        model.check_support(model.kept(eta), block.start, self.naming)
        if block.scratch is not None and self.uses_scratch:
            block.scratch[:, : len(model.kept_classes)] = model.kept(eta)
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

    def write(self, block: Block, shift: FloatArray, *, check: bool = False) -> WrittenBlock:
        if check:
            return WrittenBlock(self.model.adjust_new_rows(block.rows, block.start, self.naming, shift), ())
        # Not from scratch memory: that holds the dual points of the last model that was surveyed, which may have been
        # given up.
        rows = self.model.adjusted(block.rows, shift)
        w, p, a = block.weights, rows.before, rows.after
        if a is p:
            return WrittenBlock(a, WrittenSums(np.zeros(()), w @ a, np.zeros(())))
        shortfall = np.where(w > 0, self.model.shortfall(rows, shift), 0.0)  # which may be infinite
        return WrittenBlock(a, WrittenSums(w @ self.model.loss.divergence(p, a), w @ a, w @ shortfall))

    def _dual_points(self, block: Block) -> FloatArray:
        if block.scratch is not None and self.uses_scratch:
            return block.scratch[:, : len(self.model.kept_classes)]
        return self.model.kept(self.model.read(block.rows)[1])
