"""Losses whose generator is a sum over classes of one function."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from baserate.errors import BadLoss
from baserate.losses.base import NONNEGATIVE, Loss, centred_outer, centred_outer_by_cell
from baserate.losses.roots import root_of_increasing
from baserate.support.arrays import FloatArray, IndexArray

ScalarFunction = Callable[[FloatArray], FloatArray]

_MAX_SLOPE = 1e100  # Limit of 1/f'', so that it stays finite where f'' is 0.


class SeparableLoss(Loss):
    """``phi(q) = sum_j f(q_j)`` for a strictly convex ``f``.

    The row map is ``a_j = max(0, inverse_link(x_j + theta))``, with ``theta`` such that the row sums to 1.
    """

    @abstractmethod
    def f(self, q: FloatArray) -> FloatArray:
        """The generator of one coordinate, applied to each element."""

    @abstractmethod
    def df(self, q: FloatArray) -> FloatArray:
        """The first derivative of ``f``."""

    @abstractmethod
    def ddf(self, q: FloatArray) -> FloatArray:
        """The second derivative of ``f``."""

    @abstractmethod
    def inverse_link(self, x: FloatArray) -> FloatArray:
        """The inverse of ``link``, applied to each element; 0 or negative below ``link(0)``."""

    @property
    def flat_at_zero(self) -> bool:
        with np.errstate(all="ignore"):
            return self.domain == NONNEGATIVE and float(self.ddf(np.zeros(1))[0]) == 0.0

    def phi(self, q: FloatArray) -> FloatArray:
        return self.f(q).sum(axis=1)

    def corner_values(self, n_classes: int) -> FloatArray:
        one, zero = self.f(np.array([1.0, 0.0]))
        return np.full(n_classes, one + (n_classes - 1) * zero)

    def gradient(self, q: FloatArray) -> FloatArray:
        return self.df(q)

    def row_map(self, x: FloatArray, *, bounded: bool = True) -> FloatArray:
        # The unknown is the largest entry s of the row, not theta: s is between 1/k and 1 for every scale of x, and
        # only differences of x are used.
        top = x.max(axis=1, keepdims=True)
        gap = top - x
        low, high = np.full_like(top, 1.0 / x.shape[1]), np.ones_like(top)
        if not bounded:
            high = self._bracket_above(gap, high)

        def excess(s: FloatArray, rows: IndexArray) -> tuple[FloatArray, FloatArray]:
            a = self._entries(self.link(s) - gap[rows], bounded)
            return _sum(a) - 1.0, self.ddf(s) * _sum(self.slopes(a, bounded=bounded))

        s, _, _ = root_of_increasing(excess, low, high, _rounding(x))
        a = self._entries(self.link(s) - gap, bounded)
        inexact = np.abs(a.sum(axis=1) - 1.0) > 1e-13
        if inexact.any():
            rounding = 2e-15 * (np.abs(top) + np.abs(self.link(s)) + s * self.ddf(s))
            y = x[inexact] + (self.link(s) - top)[inexact]
            a[inexact] = self._refine(y, rounding[inexact], bounded)
        a /= _sum(a)
        if bounded and (a == 0).any() and not self.flat_at_zero:
            # Not 0, but too small for a float64. If f' is steep at 0, the difference matters: see Power(1.005).
            a[(a == 0) & (self.link(s) - gap > self.link(np.zeros(1)))] = np.finfo(np.float64).tiny
        return a

    def _refine(self, y: FloatArray, width: FloatArray, bounded: bool) -> FloatArray:
        """Solve rows again in which a change of the last digit of ``theta`` changes small entries noticeably.

        This happens if f'' is 0 at 0. The small entries of ``y`` are exact differences, so a correction that is much
        smaller than the rounding error ``width`` of ``theta`` still has an effect. If even the last digit of the
        correction changes the sum too much, the row is interpolated between those of two neighbouring corrections.
        """
        for _ in range(60):
            above, below = _sum(self._entries(y + width, bounded)), _sum(self._entries(y - width, bounded))
            too_narrow = (below > 1.0) | (above < 1.0)
            if not too_narrow.any():
                break
            width = np.where(too_narrow, 2.0 * width, width)

        def excess(delta: FloatArray, rows: IndexArray) -> tuple[FloatArray, FloatArray]:
            a = self._entries(y[rows] + delta, bounded)
            return _sum(a) - 1.0, _sum(self.slopes(a, bounded=bounded))

        _, low, high = root_of_increasing(excess, -width, width, _rounding(y))
        below, above = self._entries(y + low, bounded), self._entries(y + high, bounded)
        rise = _sum(above) - _sum(below)
        share = np.divide(1.0 - _sum(below), rise, out=np.zeros_like(rise), where=rise > 0)
        return below + np.clip(share, 0.0, 1.0) * (above - below)

    def jacobian(self, a: FloatArray, weights: FloatArray, *, bounded: bool = True) -> FloatArray:
        return centred_outer(self.slopes(a, bounded=bounded), weights)

    def jacobians(self, a: FloatArray, weights: FloatArray, starts: IndexArray, *, bounded: bool = True) -> FloatArray:
        return centred_outer_by_cell(self.slopes(a, bounded=bounded), weights, starts)

    def slopes(self, a: FloatArray, *, bounded: bool = True) -> FloatArray:
        """1/f'' on the support: the derivative of an entry with respect to its dual point."""
        with np.errstate(divide="ignore", over="ignore"):
            h = np.minimum(1.0 / self.ddf(a), _MAX_SLOPE)
        return np.where(a > 0, h, 0.0) if bounded else h

    def _entries(self, y: FloatArray, bounded: bool) -> FloatArray:
        """The entries of a row for the dual points ``y`` = ``x + theta``."""
        a = self.inverse_link(y)
        return np.maximum(a, 0.0) if bounded else a

    def _bracket_above(self, gap: FloatArray, high: FloatArray) -> FloatArray:
        """An upper bound of the largest entry, which may exceed 1 because other entries may be negative."""
        for _ in range(200):
            too_small = _sum(self._entries(self.link(high) - gap, False)) < 1.0
            if not too_small.any():
                return high
            high = np.where(too_small, 2.0 * high, high)
        raise BadLoss(f"{self!r} has no unbounded adjustment of some row: its entries cannot sum to 1")


def invert(df: ScalarFunction, ddf: ScalarFunction, x: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Solve ``df(q) = x`` between ``low`` and ``high`` for each element."""
    wanted = x.reshape(-1, 1)
    with np.errstate(invalid="ignore"):  # at a hard zero -inf - (-inf) gives NaN, which ends the search there at once
        q, _, _ = root_of_increasing(
            lambda q, rows: (df(q) - wanted[rows], ddf(q)),
            low.reshape(-1, 1),
            high.reshape(-1, 1),
            tolerance=2e-16 * np.abs(wanted),
        )
    return q.reshape(x.shape)


def _sum(a: FloatArray) -> FloatArray:
    return a.sum(axis=1, keepdims=True)


def _rounding(x: FloatArray) -> float:
    """The expected rounding error of the sum of a row."""
    return 1e-16 * (4.0 + float(np.sqrt(x.shape[1])))
