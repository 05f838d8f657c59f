"""Convex sets of class rates, in the form that the solver uses.

A rate set T is the part of the simplex that lies in a box, and possibly in a ball. A single point is a box of width 0.
Instead of the ball it may have an ellipsoid, which is not cut with the simplex; see :mod:`baserate.rates.ellipsoids`.
The set enters the dual problem through its support function ``h(lam) = min over t in T of <lam, t>``. This function is
concave but has kinks: all classes whose rate lies strictly between its bounds have *exactly* the same shift. Shifts are
therefore compared for equality here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from baserate.rates.ellipsoids import Ellipsoid
from baserate.support.arrays import BoolArray, FloatArray, IndexArray

ROUNDING = 1e-9
"""Rates this close to a rate set belong to it. It is ten times the default tolerance of an adjustment."""

_NARROW = 1e-14  # Differences between rates that are smaller than this are attributed to rounding.


@dataclass(frozen=True, eq=False)
class Ball:
    """``sum_j scale_j (t_j - centre_j)^2 <= radius^2``."""

    centre: FloatArray
    scale: FloatArray
    radius: float

    def distance(self, t: FloatArray) -> float:
        """Distance from the centre, in the norm of the ball."""
        return float(np.sqrt(self.scale @ (t - self.centre) ** 2))

    @property
    def whitening(self) -> FloatArray:
        """The matrix W for which ``|W (t - centre)|`` is the distance of rates from the centre."""
        return np.diag(np.sqrt(self.scale))

    def normal(self, direction: FloatArray) -> FloatArray:
        """The normal of the sphere where the ray from the centre in this direction leaves the ball."""
        return self.scale * direction

    def restrict(self, keep: IndexArray) -> Ball:
        """The part of the ball where all classes but ``keep`` have rate 0."""
        dropped = np.setdiff1d(np.arange(len(self.centre)), keep)
        used = float(self.scale[dropped] @ self.centre[dropped] ** 2)
        return Ball(self.centre[keep], self.scale[keep], float(np.sqrt(max(self.radius**2 - used, 0.0))))

    def support(self, shift: FloatArray) -> FloatArray:
        """The point of the ball with sum 1 that has the least ``<shift, t>``. Its entries may be negative."""
        spread = 1.0 / self.scale
        middle = self.centre + (1.0 - self.centre.sum()) * spread / spread.sum()
        radius = np.sqrt(max(self.radius**2 - self.distance(middle) ** 2, 0.0))
        slope = shift - (shift @ spread) / spread.sum()
        slope = slope / np.abs(slope).max()
        return np.asarray(middle - radius * slope * spread / np.sqrt(slope**2 @ spread))


@dataclass(frozen=True, eq=False)
class RateSet:
    """The rates of the simplex that lie in a box, and possibly in a ball. The set is not empty.

    Attributes
    ----------
    low, high : array of shape (k,)
        Tightened bounds: without the ball, each bound is reached by some rates of the set.
    ball : Ball or Ellipsoid, optional
        An ellipsoid alone decides which rates belong to the set. The box then only says which classes have rate 0.
    stated : pair of arrays, optional
        The bounds as the user stated them, before the bounds of other classes tightened them. None means that they are
        ``low`` and ``high``.
    """

    low: FloatArray
    high: FloatArray
    ball: Ball | Ellipsoid | None = None
    stated: tuple[FloatArray, FloatArray] | None = None

    @classmethod
    def box(cls, low: FloatArray, high: FloatArray, ball: Ball | Ellipsoid | None = None) -> Self:
        """The part of a box that lies in the simplex, with tightened bounds."""
        # Rates sum to 1, so each class is also limited by the bounds of the other classes.
        largest_rise, largest_fall = 1.0 - float(low.sum()), float(high.sum()) - 1.0
        stated = (low, high)
        if min(largest_rise, largest_fall) <= _NARROW:
            corner = low / low.sum() if largest_rise <= largest_fall else high / high.sum()
            return cls(corner, corner, None, stated)
        tight_low, tight_high = high - largest_fall, low + largest_rise
        # Changes that may be rounding are ignored, so that a bound of 0 stays exactly 0.
        return cls(
            np.where(tight_low > low + _NARROW, tight_low, low),
            np.where(tight_high < high - _NARROW, tight_high, high),
            ball,
            stated,
        )

    @classmethod
    def point(cls, rates: FloatArray) -> Self:
        """The set that contains only these rates."""
        return cls(rates, rates)

    @cached_property
    def fixed(self) -> BoolArray:
        """Which classes have an exactly known rate."""
        return np.asarray(self.low == self.high)

    @cached_property
    def is_point(self) -> bool:
        return bool(self.fixed.all())

    def restrict(self, keep: IndexArray) -> RateSet:
        """Restrict the set to the classes ``keep``; all other classes have rate 0."""
        if len(keep) == len(self.low):
            return self
        ball = None if self.ball is None else self.ball.restrict(keep)
        low, high = self._stated_bounds()
        return RateSet(self.low[keep], self.high[keep], ball, (low[keep], high[keep]))

    def without(self, classes: BoolArray) -> RateSet:
        """The part of the set where these classes have rate 0. Their lower bounds must be 0."""
        rest = self.box(self.low, np.where(classes, 0.0, self.high), self.ball)
        return replace(rest, stated=self._stated_bounds())

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """The smallest and the largest rate of each class in the set."""
        if self.ball is None:
            return self.low, self.high
        if isinstance(self.ball, Ellipsoid):
            return self.ball.bounds()
        ends = [
            [self.support(sign * row, self.ball.centre)[j] for j, row in enumerate(np.eye(len(self.low)))]
            for sign in (1.0, -1.0)
        ]
        return np.array(ends[0]), np.array(ends[1])

    def distance(self, rates: FloatArray) -> float:
        """The largest violation of a bound or of the ball, in units of rates; 0 for members of the set."""
        if isinstance(self.ball, Ellipsoid):
            return float(np.abs(rates - self.ball.towards(rates)).max(initial=0.0))
        outside_box = float(np.maximum(self.low - rates, rates - self.high).max(initial=0.0))
        if self.ball is None:
            return outside_box
        outside_ball = self.ball.distance(rates) - self.ball.radius
        return max(outside_box, outside_ball / float(np.sqrt(self.ball.scale.max())))

    def nearest(self, rates: FloatArray, scale: FloatArray | None = None) -> FloatArray:
        """A member of the set near the given rates; for a box the nearest one, in the norm with this scale."""
        if scale is not None and self.ball is None and not self.is_point:
            return _project(rates, scale, self.low, self.high, 1.0)
        return self.support(np.zeros_like(rates), rates)

    def support(self, shift: FloatArray, near: FloatArray) -> FloatArray:
        """The rates of the set with the least ``<shift, t>``. In a box, ties go to the rates nearest to ``near``."""
        if self.is_point:
            return self.low
        if isinstance(self.ball, Ellipsoid):
            return self.ball.support(shift) if np.ptp(shift) > 0 else self.ball.towards(near)
        t = self._support_in_box(shift, near)
        if self.ball is None or self.ball.distance(t) <= self.ball.radius:
            return t
        return self._support_on_sphere(self.ball, shift, t)

    def support_curvature(self, shift: FloatArray, rates: FloatArray) -> FloatArray:
        """Minus the Hessian of the support function at ``shift``, where ``rates = support(shift)``.

        It is 0 where the ball does not bind, and where all shifts are equal, so that every member supports. On the
        sphere ``rates = centre - u (shift - theta) / scale`` for some numbers u and theta. A change of the shift moves
        the rates within the sphere and keeps their sum.
        """
        if isinstance(self.ball, Ellipsoid) and np.ptp(shift) > 0:
            return self.ball.support_curvature(shift)
        curvature = np.zeros((len(shift), len(shift)))
        if isinstance(self.ball, Ellipsoid):
            return curvature
        if self.ball is None or np.ptp(shift) == 0 or self.ball.distance(rates) < self.ball.radius * (1 - 1e-9):
            return curvature
        free = (rates > self.low) & (rates < self.high)
        root = 1.0 / np.sqrt(self.ball.scale[free])
        # In units in which the ball is round, ``moved`` is -u times the shift, up to a multiple of ``constant``.
        moved = (rates - self.ball.centre)[free] / root
        constant = root / np.linalg.norm(root)
        radial = root * shift[free] - constant * (constant @ (root * shift[free]))
        length = float(np.linalg.norm(radial))
        if length == 0:
            return curvature
        radial /= length
        u = float(np.linalg.norm(moved - constant * (constant @ moved))) / length
        tangential = np.eye(len(root)) - np.outer(constant, constant) - np.outer(radial, radial)
        curvature[np.ix_(free, free)] = u * tangential * np.outer(root, root)
        return curvature

    def anchor(self, shift: FloatArray, rates: FloatArray) -> float:
        """The number to subtract from a shift, so that classes between their stated bounds get 0.

        For a ball, and where all classes are at a bound, it is the mean of the shift.
        """
        low, high = self._stated_bounds()
        # The class farthest from its bounds, not the first one between them: rounding leaves a rate that is at its
        # bound a last digit inside.
        slack = np.minimum(rates - low, high - rates)
        if self.ball is None and slack.max() > _NARROW:
            return float(shift[slack.argmax()])
        return float(shift.mean())

    def margin(self, shift: FloatArray) -> float:
        """The shift of the classes that lie between their bounds where ``<shift, t>`` is least in the box."""
        order = np.argsort(shift, kind="stable")
        filled = np.cumsum((self.high - self.low)[order])
        i = int(np.searchsorted(filled, 1.0 - self.low.sum()))
        return float(shift[order[min(i, len(order) - 1)]])

    def _stated_bounds(self) -> tuple[FloatArray, FloatArray]:
        return (self.low, self.high) if self.stated is None else self.stated

    def _support_in_box(self, shift: FloatArray, near: FloatArray) -> FloatArray:
        """The support of the box alone.

        Classes whose shift is below the margin get their upper bound, those above it their lower bound. The classes at
        the margin share the rest.
        """
        margin = self.margin(shift)
        t = np.where(shift < margin, self.high, self.low)
        tied = shift == margin
        rest = 1.0 - float(t[~tied].sum())
        low, high, n_tied = self.low[tied], self.high[tied], int(tied.sum())
        t[tied] = np.clip(rest, low, high) if n_tied == 1 else _project(near[tied], np.ones(n_tied), low, high, rest)
        return t

    def _support_on_sphere(self, ball: Ball, shift: FloatArray, in_box: FloatArray) -> FloatArray:
        """The support where the ball binds; ``in_box`` is the support of the box alone, which lies outside the ball."""
        free = ~self.fixed
        spread = float(np.ptp(shift[free]))
        if spread == 0:  # every member supports, so choose one in the direction of ``in_box``
            return self._follow_to_sphere(ball, in_box - ball.centre)
        t = ball.support(shift)
        if (t >= self.low).all() and (t <= self.high).all():
            return t
        inner = self._support_in_box(shift, ball.centre)
        if ball.distance(inner) <= ball.radius:  # part of the supporting face of the box lies in the ball
            return _leave_ball(ball, inner, in_box)
        direction = np.where(free, (shift[free].min() - shift) / spread / ball.scale, 0.0)
        size = ball.radius / np.sqrt(ball.scale @ np.where(free, direction - direction[free].mean(), 0.0) ** 2)
        return self._follow_to_sphere(ball, direction * size)

    def _follow_to_sphere(self, ball: Ball, direction: FloatArray) -> FloatArray:
        """Where the projection of ``centre + u direction`` onto the box leaves the ball as u grows from 0."""

        def projected(u: float) -> FloatArray:
            return _project(ball.centre + u * direction, ball.scale, self.low, self.high, 1.0)

        high = 1.0
        while ball.distance(projected(high)) < ball.radius and high < 1e300:
            high *= 4
        return projected(_root_of_decreasing(lambda u: ball.radius - ball.distance(projected(u)), 0.0, high))


def _project(v: FloatArray, scale: FloatArray, low: FloatArray, high: FloatArray, total: float) -> FloatArray:
    """The point between the bounds with sum ``total`` that is nearest to ``v`` in the norm with this scale."""
    # The point is clip(v + theta / scale, low, high). Its sum is piecewise linear in theta; theta is found by
    # interpolation between the kinks.
    kinks = np.sort(np.concatenate([scale * (low - v), scale * (high - v)]))

    def clipped(theta: FloatArray | float) -> FloatArray:  # not by np.clip, whose overhead is half of the time
        return np.minimum(np.maximum(v + theta / scale, low), high)

    sums = clipped(kinks[:, None]).sum(axis=1)
    i = min(max(int(np.searchsorted(sums, total)), 1), len(kinks) - 1)
    rise = sums[i] - sums[i - 1]
    fraction = (total - sums[i - 1]) / rise if rise > 0 else 0.0
    return clipped(kinks[i - 1] + min(max(fraction, 0.0), 1.0) * (kinks[i] - kinks[i - 1]))


def _leave_ball(ball: Ball, inside: FloatArray, outside: FloatArray) -> FloatArray:
    """Where the straight line from a point in the ball to a point outside crosses the sphere."""
    a, b = inside - ball.centre, outside - inside
    bb, ab, aa = ball.scale @ b**2, ball.scale @ (a * b), ball.scale @ a**2
    fraction = (np.sqrt(max(float(ab**2 + bb * (ball.radius**2 - aa)), 0.0)) - ab) / bb
    return np.asarray(inside + np.clip(fraction, 0.0, 1.0) * b)


def _root_of_decreasing(function: Callable[[float], float], low: float, high: float) -> float:
    """The root of a decreasing function between ``low`` and ``high``, to full precision.

    Returns an end of the interval if the function does not change its sign, and NaN if a value is not a number.
    """
    from scipy.optimize import brentq

    if function(low) <= 0 or function(high) >= 0:
        return low if function(low) <= 0 else high
    try:
        return float(brentq(function, low, high, xtol=1e-300, rtol=1e-15, maxiter=200, disp=False))
    except ValueError:  # brentq refuses values that are not a number
        return float("nan")
