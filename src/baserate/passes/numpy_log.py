"""The passes of log loss in NumPy, by products instead of logarithms and exponentials of every value.

A shift multiplies probabilities by ``f = exp(shift)``, so that with ``z = p @ f`` an adjusted row is ``p * f / z``, its
conjugate is ``log(z)``, and the mean and the curvature are products of ``p`` with weights. Small problems use no
compiled kernels, so every operation on a block counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from baserate.core.contracts import (
    Block,
    DualSums,
    Engine,
    ProductSums,
    SurveySums,
    WrittenBlock,
    WrittenSums,
)
from baserate.core.row_model import NO_CURVATURE, RowModel
from baserate.losses.base import laplacian
from baserate.losses.log import Log
from baserate.passes.numpy_predictions import PredictionPasses
from baserate.support.arrays import FloatArray

_WIDEST = 600.0  # Largest range of a shift. With a larger one, ``exp(shift)`` could overflow or underflow.
_SMALL = 1e-140  # If the sum of a row is smaller, its square loses digits or underflows.
_TINY = float(np.finfo(np.float64).tiny)


class _Factors(NamedTuple):
    """The factors ``f = exp(shift - centre)``, and their sums ``z = p @ f``."""

    f: FloatArray
    centre: float
    z: FloatArray


@dataclass(frozen=True, eq=False)
class NumpyLogPasses(PredictionPasses):
    """Products of the predictions with vectors."""

    @classmethod
    def for_rows(cls, model: RowModel, rows: Engine, kernels: str) -> Self | None:
        return cls(model, rows.naming) if cls.supports(model) else None

    @classmethod
    def supports(cls, model: RowModel) -> bool:
        plain = not model.reading.from_logits and model.limit_levels is None and not model.softness
        return plain and type(model.loss) is Log  # not a subclass, which may have changed the loss

    def survey(self, block: Block) -> SurveySums:
        model, w = self.model, block.weights
        model.reading.check(block.rows, block.start, self.naming)
        p = model.reading.clean(block.rows)
        smallest = p.min(axis=1)
        if not smallest.min() > 0:
            sums = super().survey(block)
        else:
            zero = np.zeros(())
            sums = SurveySums(w @ p, zero, zero, -(w @ np.log(smallest)), w @ w)
        kept = self._kept_points(block)
        if kept is not None:
            kept[:] = model.kept(p)
        return sums

    def reduce(self, block: Block, shift: FloatArray, *, curvature: bool = True) -> DualSums:
        p, w = self._kept_rows(block), block.weights
        found = self._factors_and_sums(p, shift)
        if found is None:
            return super().reduce(block, shift, curvature=curvature)
        f, centre, z = found
        conjugate, share = np.log(z) + centre, w / z
        mean = f * (share @ p)
        curvature_sum = laplacian((p.T * (share / z)) @ p * (f * f[:, None])) if curvature else NO_CURVATURE
        return DualSums(w @ conjugate, w @ np.abs(conjugate), mean, curvature_sum)

    def reduce_diagonal(self, block: Block, shift: FloatArray) -> DualSums:
        p, w = self._kept_rows(block), block.weights
        found = self._factors_and_sums(p, shift)
        if found is None:
            return super().reduce_diagonal(block, shift)
        f, centre, z = found
        conjugate, a = np.log(z) + centre, p * f / z[:, None]
        return DualSums(w @ conjugate, w @ np.abs(conjugate), w @ a, w @ (a * (1.0 - a)))

    def multiply(self, block: Block, shift: FloatArray, vector: FloatArray) -> ProductSums:
        p, w = self._kept_rows(block), block.weights
        found = self._factors_and_sums(p, shift)
        if found is None:
            return super().multiply(block, shift, vector)
        f, _, z = found
        mean = (p @ (f * vector)) / z
        return ProductSums(f * ((p * (vector - mean[:, None])).T @ (w / z)))

    def write(self, block: Block, shift: FloatArray, *, check: bool = False) -> WrittenBlock:
        model, w, factors = self.model, block.weights, _factors(shift)
        if factors is None or not shift.any() or not model.answer_types.are_float64:
            return super().write(block, shift, check=check)
        f, centre = factors
        if check:
            model.reading.check(block.rows, block.start, self.naming)
        a = np.asfortranarray(model.kept(model.reading.clean(block.rows)))
        a *= f
        # Not p @ f, whose last digits depend on the number of rows and on their layout in memory.
        z = a.sum(axis=1)
        if not z.min() > _SMALL:
            return super().write(block, shift, check=check)
        a /= z[:, None]
        if self._underflows(block, a, z):
            return super().write(block, shift, check=check)  # with logarithms
        if check:
            return WrittenBlock(model.with_all_classes(a), ())
        mean = w @ a
        # By Fenchel's identity. Each entry belongs to the shift up to rounding, so there is no shortfall.
        divergence = np.asarray(shift @ mean - w @ (np.log(z) + centre))
        of_all = model.per_class(mean, fill=0.0)
        return WrittenBlock(model.with_all_classes(a), WrittenSums(divergence, of_all, np.zeros(()), of_all))

    def _underflows(self, block: Block, a: FloatArray, z: FloatArray) -> bool:
        """Whether a positive probability underflows in the adjusted rows ``a``, whose sums were ``z``."""
        if a.min() >= _TINY * max(1.0 / z.min(), 1.0):  # a cheap check, since few are small
            return False
        positive = self.model.kept(self.model.reading.clean(block.rows)) > 0
        return bool(((a < _TINY * np.maximum(1.0 / z, 1.0)[:, None]) & positive).any())

    def _factors_and_sums(self, p: FloatArray, shift: FloatArray) -> _Factors | None:
        """The factors of a shift and their sums, or None if they have lost digits or are about to."""
        factors = _factors(shift)
        if factors is None:
            return None
        f, centre = factors
        z = p @ f
        # Rows that sum to 1 have sums between the smallest and the largest factor, which are in range.
        return _Factors(f, centre, z) if self.model.keeps_all_classes or z.min() > _SMALL else None


def _factors(shift: FloatArray) -> tuple[FloatArray, float] | None:
    """``exp(shift - centre)``, and ``centre``; None for a shift with too large a range."""
    low, high = float(shift.min()), float(shift.max())
    if not high - low <= _WIDEST:
        return None
    centre = 0.5 * (low + high)
    return np.exp(shift - centre), centre
