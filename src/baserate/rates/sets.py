"""Convex sets of class rates, in the form that the solver uses.

A rate set T is the part of the simplex that lies in a box, and possibly in a region with a curved boundary: a ball, or
an ellipsoid, which is not cut with the simplex; see :mod:`baserate.rates.regions`. A single point is a box of width 0.
The set enters the dual problem through its support function ``h(lam) = min over t in T of <lam, t>``. This function is
concave but has kinks: all classes whose rate lies strictly between its bounds have *exactly* the same shift. Shifts are
therefore compared for equality in :mod:`baserate.rates.boxes`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from baserate.rates.boxes import NARROW, Box
from baserate.rates.regions import UNLIMITED, Region
from baserate.support.arrays import BoolArray, FloatArray, IndexArray

ROUNDING = 1e-9
"""Rates this close to a rate set belong to it. It is ten times the default tolerance of an adjustment."""


class EffectiveRows(int):
    """The number of rows of equal weight that vary by chance as much as rows with unequal weights."""


@dataclass(frozen=True, eq=False)
class RateSet:
    """The rates of the simplex that lie in a box and in a region. The set is not empty.

    Attributes
    ----------
    low, high : array of shape (k,)
        Tightened bounds: without the region, each bound is reached by some rates of the set.
    region : Region
        What limits the rates further. An ellipsoid alone decides which rates belong to the set; the box then only says
        which classes have rate 0.
    stated : pair of arrays, optional
        The bounds as the user stated them, before the bounds of other classes tightened them. None means that they are
        ``low`` and ``high``.
    """

    low: FloatArray
    high: FloatArray
    region: Region = UNLIMITED
    stated: tuple[FloatArray, FloatArray] | None = None

    @classmethod
    def box(cls, low: FloatArray, high: FloatArray, region: Region = UNLIMITED) -> Self:
        """The part of a box that lies in the simplex and in a region, with tightened bounds."""
        tight = Box.tightened(low, high)
        return cls(tight.low, tight.high, UNLIMITED if tight.is_point else region, (low, high))

    @classmethod
    def point(cls, rates: FloatArray) -> Self:
        """The set that contains only these rates."""
        return cls(rates, rates)

    @cached_property
    def limits(self) -> Box:
        """The bounds alone."""
        return Box(self.low, self.high)

    @cached_property
    def is_point(self) -> bool:
        return self.low is self.high or bool((self.low == self.high).all())

    @property
    def is_curved(self) -> bool:
        """Whether something other than bounds limits the rates; see :class:`Region`."""
        return self.region.is_curved

    def restrict(self, keep: IndexArray) -> RateSet:
        """Restrict the set to the classes ``keep``; all other classes have rate 0."""
        if len(keep) == len(self.low):
            return self
        low, high = self.stated_bounds()
        return RateSet(self.low[keep], self.high[keep], self.region.restrict(keep), (low[keep], high[keep]))

    def without(self, classes: BoolArray) -> RateSet:
        """The part of the set where these classes have rate 0. Their lower bounds must be 0."""
        rest = self.box(self.low, np.where(classes, 0.0, self.high), self.region)
        return replace(rest, stated=self.stated_bounds())

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """The smallest and the largest rate of each class in the set."""
        return self.region.bounds_in(self.limits)

    def distance(self, rates: FloatArray) -> float:
        """The largest violation of a bound or of the region, in units of rates; 0 for members of the set."""
        if self.is_point:
            return float(np.abs(rates - self.low).max())
        return self.region.violation_in(self.limits, rates)

    def nearest(self, rates: FloatArray, scale: FloatArray | None = None) -> FloatArray:
        """A member of the set near the given rates; for a box the nearest one, in the norm with this scale."""
        return self.low if self.is_point else self.region.nearest_in(self.limits, rates, scale)

    def support(self, shift: FloatArray, near: FloatArray) -> FloatArray:
        """The rates of the set with the least ``<shift, t>``. In a box, ties go to the rates nearest to ``near``."""
        return self.low if self.is_point else self.region.support_in(self.limits, shift, near)

    def support_curvature(self, shift: FloatArray, rates: FloatArray) -> FloatArray:
        """Minus the Hessian of the support function at ``shift``, where ``rates = support(shift)``.

        It is 0 where only bounds are active, and where all shifts are equal, so that every member supports.
        """
        return self.region.support_curvature_in(self.limits, shift, rates)

    def anchor(self, shift: FloatArray, rates: FloatArray) -> float:
        """The number to subtract from a shift, so that classes between their stated bounds get 0.

        For a curved set, and where all classes are at a bound, it is the mean of the shift.
        """
        low, high = self.stated_bounds()
        # The class farthest from its bounds, not the first one between them: rounding leaves a rate that is at its
        # bound a last digit inside.
        slack = np.minimum(rates - low, high - rates)
        if not self.is_curved and slack.max() > NARROW:
            return float(shift[slack.argmax()])
        return float(shift.mean())

    def stated_bounds(self) -> tuple[FloatArray, FloatArray]:
        """The bounds as the user stated them."""
        return (self.low, self.high) if self.stated is None else self.stated
