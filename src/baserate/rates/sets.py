"""Convex sets of rates, as the solver sees them.

A region T is a box, and possibly a ball, cut out of the simplex; a single point is a box without width. It enters the
dual problem through its support function ``h(lam) = min over t in T of <lam, t>``, which is concave but has kinks: a
class whose rate lies strictly between its bounds has a shift that is *exactly* that of all other such classes. So
shifts are compared for equality here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from baserate.support.arrays import BoolArray, FloatArray, IndexArray

_NARROW = 1e-14  # A box that leaves less room than this is a point.


@dataclass(frozen=True, eq=False)
class Ball:
    """``sum_j scale_j (t_j - centre_j)^2 <= radius^2``."""

    centre: FloatArray
    scale: FloatArray
    radius: float

    def distance(self, t: FloatArray) -> float:
        """From the centre, in the norm of the ball."""
        return float(np.sqrt(self.scale @ (t - self.centre) ** 2))

    def support(self, shift: FloatArray) -> FloatArray:
        """The point of the ball, within sum 1 but of any sign, with the least ``<shift, t>``."""
        spread = 1.0 / self.scale
        middle = self.centre + (1.0 - self.centre.sum()) * spread / spread.sum()
        radius = np.sqrt(max(self.radius**2 - self.distance(middle) ** 2, 0.0))
        slope = shift - (shift @ spread) / spread.sum()
        slope = slope / np.abs(slope).max()
        return np.asarray(middle - radius * slope * spread / np.sqrt(slope**2 @ spread))


@dataclass(frozen=True, eq=False)
class RateSet:
    """A box, and possibly a ball, cut with the simplex; not empty.

    Attributes
    ----------
    low, high : array of shape (k,)
        Bounds that single rates can reach; the ball aside, all of them do.
    ball : Ball, optional
    stated : pair of arrays, optional
        The bounds as they were given, before those of other classes tightened them; by default the same.
    """

    low: FloatArray
    high: FloatArray
    ball: Ball | None = None
    stated: tuple[FloatArray, FloatArray] | None = None

    @classmethod
    def box(cls, low: FloatArray, high: FloatArray, ball: Ball | None = None) -> Self:
        """Cut a box with the simplex: what the bounds of the other classes leave to a class bounds it, too."""
        up, down = 1.0 - float(low.sum()), float(high.sum()) - 1.0
        stated = (low, high)
        if min(up, down) <= _NARROW:
            corner = low / low.sum() if up <= down else high / high.sum()
            return cls(corner, corner, None, stated)
        # Not where only rounding would tighten: a bound of 0 stays 0.
        tight_low, tight_high = high - down, low + up
        return cls(
            np.where(tight_low > low + _NARROW, tight_low, low),
            np.where(tight_high < high - _NARROW, tight_high, high),
            ball,
            stated,
        )

    @classmethod
    def point(cls, rates: FloatArray) -> Self:
        """Rates that are exactly known."""
        return cls(rates, rates)

    @cached_property
    def fixed(self) -> BoolArray:
        """Classes whose rate is exactly known."""
        return np.asarray(self.low == self.high)

    @cached_property
    def is_point(self) -> bool:
        return bool(self.fixed.all())

    def take(self, keep: IndexArray) -> RateSet:
        """The region in the coordinates of some classes, where all others have rate 0."""
        if len(keep) == len(self.low):
            return self
        ball = self.ball
        if ball is not None:
            gone = np.setdiff1d(np.arange(len(self.low)), keep)
            used = float(ball.scale[gone] @ ball.centre[gone] ** 2)
            left = np.sqrt(max(ball.radius**2 - used, 0.0))
            ball = Ball(ball.centre[keep], ball.scale[keep], float(left))
        low, high = (self.low, self.high) if self.stated is None else self.stated
        return RateSet(self.low[keep], self.high[keep], ball, (low[keep], high[keep]))

    def without(self, classes: BoolArray) -> RateSet:
        """The part of the region where these classes have rate 0; their lower bounds must allow it."""
        rest = self.box(self.low, np.where(classes, 0.0, self.high), self.ball)
        return replace(rest, stated=self.stated or (self.low, self.high))

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """The smallest and the largest rate of each class."""
        if self.ball is None:
            return self.low, self.high
        ends = [
            [self.support(sign * row, self.ball.centre)[j] for j, row in enumerate(np.eye(len(self.low)))]
            for sign in (1.0, -1.0)
        ]
        return np.array(ends[0]), np.array(ends[1])

    def distance(self, rates: FloatArray) -> float:
        """Largest violation of a bound, in units of rates; 0 inside."""
        outside = float(np.maximum(self.low - rates, rates - self.high).max(initial=0.0))
        if self.ball is None:
            return outside
        beyond = self.ball.distance(rates) - self.ball.radius
        return max(outside, beyond / float(np.sqrt(self.ball.scale.max())))

    def nearest(self, rates: FloatArray, scale: FloatArray | None = None) -> FloatArray:
        """A point of the region that is near to some rates; in a box, the nearest in the norm with this scale."""
        if scale is not None and self.ball is None and not self.is_point:
            return _share(rates, scale, self.low, self.high, 1.0)
        return self.support(np.zeros_like(rates), rates)

    def support(self, shift: FloatArray, near: FloatArray) -> FloatArray:
        """The rates in the region with the least ``<shift, t>``; of several, those nearest to ``near``."""
        if self.is_point:
            return self.low
        t = self._face(shift, near)
        if self.ball is None or self.ball.distance(t) <= self.ball.radius:
            return t
        return self._on_sphere(self.ball, shift, t)

    def support_curvature(self, shift: FloatArray, rates: FloatArray) -> FloatArray:
        """Minus the Hessian of the support function of a ball, on the face where the rates are.

        Off the sphere, and where every point supports, it is 0. On it ``rates = centre - u (shift - theta) / scale``
        for some u and theta, and a change of the shift moves them within the sphere and within sum 1.
        """
        none = np.zeros((len(shift), len(shift)))
        if self.ball is None or np.ptp(shift) == 0 or self.ball.distance(rates) < self.ball.radius * (1 - 1e-9):
            return none
        free = (rates > self.low) & (rates < self.high)
        root = 1.0 / np.sqrt(self.ball.scale[free])
        moved = (rates - self.ball.centre)[free] / root  # -u times the shift, in these units, but for the free constant
        along = root / np.linalg.norm(root)
        across = root * shift[free] - along * (along @ (root * shift[free]))
        length = float(np.linalg.norm(across))
        if length == 0:
            return none
        across /= length
        u = float(np.linalg.norm(moved - along * (along @ moved))) / length
        bend = np.eye(len(root)) - np.outer(along, along) - np.outer(across, across)
        none[np.ix_(free, free)] = u * bend * np.outer(root, root)
        return none

    def anchor(self, shift: FloatArray, rates: FloatArray) -> float:
        """The common constant of a shift from which prices are counted: a class between its stated bounds has 0."""
        low, high = (self.low, self.high) if self.stated is None else self.stated
        # The class farthest from its bounds, not the first one between them: rounding leaves a rate that is at its
        # bound a last digit inside.
        room = np.minimum(rates - low, high - rates)
        if self.ball is None and room.max() > _NARROW:
            return float(shift[room.argmax()])
        return float(shift.mean())

    def margin(self, shift: FloatArray) -> float:
        """The shift of the classes that lie between their bounds where ``<shift, t>`` is least in the box."""
        order = np.argsort(shift, kind="stable")
        filled = np.cumsum((self.high - self.low)[order])
        i = int(np.searchsorted(filled, 1.0 - self.low.sum()))
        return float(shift[order[min(i, len(order) - 1)]])

    def _face(self, shift: FloatArray, near: FloatArray) -> FloatArray:
        """Support of the box: classes of small shift are filled, of large shift left; those at the margin share."""
        margin = self.margin(shift)
        t = np.where(shift < margin, self.high, self.low)
        tie = shift == margin
        total = 1.0 - float(t[~tie].sum())
        low, high, number = self.low[tie], self.high[tie], int(tie.sum())
        t[tie] = np.clip(total, low, high) if number == 1 else _share(near[tie], np.ones(number), low, high, total)
        return t

    def _on_sphere(self, ball: Ball, shift: FloatArray, on_face: FloatArray) -> FloatArray:
        """Support where the ball matters; ``on_face`` is that of the box."""
        if np.ptp(shift) == 0:  # every point supports; so towards the one that was asked for
            return self._towards(ball, on_face - ball.centre)
        t = ball.support(shift)
        if (t >= self.low).all() and (t <= self.high).all():
            return t
        inner = self._face(shift, ball.centre)
        if ball.distance(inner) <= ball.radius:  # the box decides which face, the ball cuts it
            return _cut(ball, inner, on_face)
        path = (shift.min() - shift) / np.ptp(shift) / ball.scale
        return self._towards(ball, path * (ball.radius / np.sqrt(ball.scale @ (path - path.mean()) ** 2)))

    def _towards(self, ball: Ball, path: FloatArray) -> FloatArray:
        """Where the points of the box that are nearest to ``centre + u path`` leave the ball as u grows from 0."""

        def at(u: float) -> FloatArray:
            return _share(ball.centre + u * path, ball.scale, self.low, self.high, 1.0)

        high = 1.0
        while ball.distance(at(high)) < ball.radius and high < 1e300:
            high *= 4
        return at(falling_root(lambda u: ball.radius - ball.distance(at(u)), 0.0, high))


def _share(v: FloatArray, scale: FloatArray, low: FloatArray, high: FloatArray, total: float) -> FloatArray:
    """The point nearest to ``v`` in the norm with this scale, between the bounds and with this sum."""
    kinks = np.sort(np.concatenate([scale * (low - v), scale * (high - v)]))

    def at(theta: FloatArray) -> FloatArray:
        return np.clip(v + theta[:, None] / scale, low, high)

    sums = at(kinks).sum(axis=1)
    i = int(np.clip(np.searchsorted(sums, total), 1, len(kinks) - 1))
    rise = sums[i] - sums[i - 1]
    part = (total - sums[i - 1]) / rise if rise > 0 else 0.0
    theta = kinks[i - 1] + np.clip(part, 0.0, 1.0) * (kinks[i] - kinks[i - 1])
    return np.asarray(at(np.array([theta]))[0])


def _cut(ball: Ball, inside: FloatArray, outside: FloatArray) -> FloatArray:
    """Where the way from a point in the ball to one outside leaves it."""
    a, b = inside - ball.centre, outside - inside
    bb, ab, aa = ball.scale @ b**2, ball.scale @ (a * b), ball.scale @ a**2
    part = (np.sqrt(max(float(ab**2 + bb * (ball.radius**2 - aa)), 0.0)) - ab) / bb
    return np.asarray(inside + np.clip(part, 0.0, 1.0) * b)


def falling_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function of one number is 0, to the last digits."""
    from scipy.optimize import brentq

    if function(low) <= 0 or function(high) >= 0:
        return low if function(low) <= 0 else high
    try:
        return float(brentq(function, low, high, xtol=1e-300, rtol=1e-15, maxiter=200))
    except ValueError:  # the function is not a number somewhere
        return float("nan")
