"""Bounds of class rates: the part of the simplex that lies in a box.

All classes whose rate lies strictly between its bounds have *exactly* the same shift. Shifts are therefore compared for
equality here.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from baserate.support.arrays import BoolArray, FloatArray

NARROW = 1e-14
"""Differences between rates that are smaller than this are attributed to rounding."""


@dataclass(frozen=True, eq=False)
class Box:
    """The rates of the simplex between bounds. It is not empty.

    Attributes
    ----------
    low, high : array of shape (k,)
        Tightened bounds: each of them is reached by some rates of the box.
    """

    low: FloatArray
    high: FloatArray

    @classmethod
    def tightened(cls, low: FloatArray, high: FloatArray) -> Self:
        """The box with these bounds. Rates sum to 1, so each class is also limited by the bounds of the others."""
        largest_rise, largest_fall = 1.0 - float(low.sum()), float(high.sum()) - 1.0
        if min(largest_rise, largest_fall) <= NARROW:
            corner = low / low.sum() if largest_rise <= largest_fall else high / high.sum()
            return cls(corner, corner)
        tight_low, tight_high = high - largest_fall, low + largest_rise
        # Changes that may be rounding are ignored, so that a bound of 0 stays exactly 0.
        return cls(
            np.where(tight_low > low + NARROW, tight_low, low),
            np.where(tight_high < high - NARROW, tight_high, high),
        )

    @cached_property
    def fixed(self) -> BoolArray:
        """Which classes have an exactly known rate."""
        return np.asarray(self.low == self.high)

    @cached_property
    def is_point(self) -> bool:
        return bool(self.fixed.all())

    def distance(self, rates: FloatArray) -> float:
        """The largest violation of a bound; 0 for members of the box."""
        return float(np.maximum(self.low - rates, rates - self.high).max(initial=0.0))

    def project(self, rates: FloatArray, scale: FloatArray) -> FloatArray:
        """The member that is nearest to the given rates in the norm with this scale."""
        return project(rates, scale, self.low, self.high, 1.0)

    def margin(self, shift: FloatArray) -> float:
        """The shift of the classes that lie between their bounds where ``<shift, t>`` is least."""
        order = np.argsort(shift, kind="stable")
        filled = np.cumsum((self.high - self.low)[order])
        i = int(np.searchsorted(filled, 1.0 - self.low.sum()))
        return float(shift[order[min(i, len(order) - 1)]])

    def support(self, shift: FloatArray, near: FloatArray) -> FloatArray:
        """The member with the least ``<shift, t>``. Ties go to the rates nearest to ``near``.

        Classes whose shift is below the margin get their upper bound, those above it their lower bound. The classes at
        the margin share the rest.
        """
        margin = self.margin(shift)
        t = np.where(shift < margin, self.high, self.low)
        tied = shift == margin
        rest = 1.0 - float(t[~tied].sum())
        low, high, n_tied = self.low[tied], self.high[tied], int(tied.sum())
        t[tied] = np.clip(rest, low, high) if n_tied == 1 else project(near[tied], np.ones(n_tied), low, high, rest)
        return t


def project(v: FloatArray, scale: FloatArray, low: FloatArray, high: FloatArray, total: float) -> FloatArray:
    """The point between the bounds with sum ``total`` that is nearest to ``v`` in the norm with this scale."""
    # The point is clip(v + theta / scale, low, high). Its sum is piecewise linear in theta; theta is found by
    # interpolation between the kinks.
    kinks = np.sort(np.concatenate([scale * (low - v), scale * (high - v)]))

    def clipped(theta: float) -> FloatArray:  # not by np.clip, whose overhead is half of the time
        return np.minimum(np.maximum(v + theta / scale, low), high)

    def total_at(theta: float) -> float:
        return float(clipped(theta).sum())

    # By bisection, not at all kinks together, which would take a matrix of 2k x k numbers.
    i = min(max(bisect_left(kinks, total, key=total_at), 1), len(kinks) - 1)
    before = total_at(kinks[i - 1])
    rise = total_at(kinks[i]) - before
    fraction = (total - before) / rise if rise > 0 else 0.0
    return clipped(kinks[i - 1] + min(max(fraction, 0.0), 1.0) * (kinks[i] - kinks[i - 1]))
