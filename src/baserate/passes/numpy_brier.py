"""The passes of the Brier score in NumPy, with fewer operations than the general formulas need.

An adjusted row is the projection of ``p + shift / 2`` onto the simplex. The curvature depends only on its support, and
the divergence is a sum of squares. Small problems use no compiled kernels, so every operation on a block counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from baserate.core.contracts import Block, DualSums, Engine, SurveySums, WrittenBlock, WrittenSums
from baserate.core.row_model import NO_CURVATURE, RowModel
from baserate.losses.base import laplacian
from baserate.losses.brier import Brier
from baserate.losses.projection import onto_simplex
from baserate.passes.numpy_predictions import PredictionPasses
from baserate.support.arrays import FloatArray

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class NumpyBrierPasses(PredictionPasses):
    """Projections of the predictions."""

    @classmethod
    def for_rows(cls, model: RowModel, rows: Engine, kernels: str) -> Self | None:
        return cls(model, rows.naming) if cls.supports(model) else None

    @classmethod
    def supports(cls, model: RowModel) -> bool:
        plain = model.bounded and not model.reading.from_logits and model.limit_levels is None and not model.softness
        return plain and type(model.loss) is Brier  # not a subclass, which may have changed the loss

    def survey(self, block: Block) -> SurveySums:
        model, w = self.model, block.weights
        model.reading.check(block.rows, block.start, self.naming)
        p = model.reading.clean(block.rows)
        kept = self._kept_points(block)
        if kept is not None:
            kept[:] = model.kept(p)
        squares = w @ np.einsum("ij,ij->i", p, p)
        return SurveySums(w @ p, squares, np.zeros(()), w @ (1.0 - 2.0 * p.min(axis=1)) + squares, w @ w)

    def reduce(self, block: Block, shift: FloatArray, *, curvature: bool = True) -> DualSums:
        w, moved = block.weights, np.add(self._kept_rows(block), 0.5 * shift, order="F")
        a = onto_simplex(moved)
        moved *= 2.0  # in place, since fresh memory takes longer than the arithmetic
        moved -= a
        conjugate = np.einsum("ij,ij->i", moved, a)
        curvature_sum = _curvature(a, w) if curvature else NO_CURVATURE
        return DualSums(w @ conjugate, w @ np.abs(conjugate), w @ a, curvature_sum)

    def write(self, block: Block, shift: FloatArray, *, check: bool = False) -> WrittenBlock:
        model, w, half = self.model, block.weights, 0.5 * shift
        if not shift.any() or not model.answer_types.are_float64 or not model.keeps_all_classes:
            return super().write(block, shift, check=check)
        if check:
            model.reading.check(block.rows, block.start, self.naming)
        p = np.asfortranarray(model.reading.clean(block.rows))
        a = onto_simplex(p + half)
        if check:
            return WrittenBlock(a, ())
        change, mean = a - p, w @ a
        fall = 2.0 * (change - half)  # r_j - shift_j, up to a constant per row; see ``RowModel.shortfall``
        rounding = 8.0 * _EPS * (4.0 + 2.0 * float(np.abs(half).max()))
        missing = np.einsum("ij,ij->i", a, fall) - fall.min(axis=1) - rounding
        divergence = w @ np.einsum("ij,ij->i", change, change)
        return WrittenBlock(a, WrittenSums(divergence, mean, w @ np.maximum(missing, 0.0), mean))


def _curvature(a: FloatArray, weights: FloatArray) -> FloatArray:
    """The curvature, from the support of each row."""
    support = (a > 0).astype(np.float64)
    return laplacian((support.T * (0.5 * weights / support.sum(axis=1))) @ support)
