"""Balls of class rates, in the form that the solver uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from baserate.rates.boxes import Box
from baserate.rates.regions import Region
from baserate.support.arrays import FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class Ball(Region):
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

    def bounds_in(self, box: Box) -> tuple[FloatArray, FloatArray]:
        ends = [
            [self.support_in(box, sign * row, self.centre)[j] for j, row in enumerate(np.eye(len(box.low)))]
            for sign in (1.0, -1.0)
        ]
        return np.array(ends[0]), np.array(ends[1])

    def violation_in(self, box: Box, rates: FloatArray) -> float:
        outside_ball = self.distance(rates) - self.radius
        return max(box.distance(rates), outside_ball / float(np.sqrt(self.scale.max())))

    def support_in(self, box: Box, shift: FloatArray, near: FloatArray) -> FloatArray:
        t = box.support(shift, near)
        return t if self.distance(t) <= self.radius else self._support_on_sphere(box, shift, t)

    def support_curvature_in(self, box: Box, shift: FloatArray, rates: FloatArray) -> FloatArray:
        """Minus the Hessian of the support function; see :meth:`RateSet.support_curvature`.

        On the sphere ``rates = centre - u (shift - theta) / scale`` for some numbers u and theta. A change of the shift
        moves the rates within the sphere and keeps their sum.
        """
        curvature = np.zeros((len(shift), len(shift)))
        if np.ptp(shift) == 0 or not self.is_reached(rates):
            return curvature
        free = (rates > box.low) & (rates < box.high)
        root = 1.0 / np.sqrt(self.scale[free])
        # In units in which the ball is round, ``moved`` is -u times the shift, up to a multiple of ``constant``.
        moved = (rates - self.centre)[free] / root
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

    def squared_lengths(self, differences: FloatArray, scale: FloatArray) -> FloatArray:
        return np.asarray(differences**2 @ self.scale)

    def _support_on_sphere(self, box: Box, shift: FloatArray, in_box: FloatArray) -> FloatArray:
        """The support where the ball binds; ``in_box`` is the support of the box alone, which lies outside."""
        free = ~box.fixed
        spread = float(np.ptp(shift[free]))
        if spread == 0:  # every member supports, so choose one in the direction of ``in_box``
            return self._follow_to_sphere(box, in_box - self.centre)
        t = self.support(shift)
        if (t >= box.low).all() and (t <= box.high).all():
            return t
        inner = box.support(shift, self.centre)
        if self.distance(inner) <= self.radius:  # part of the supporting face of the box lies in the ball
            return _leave_ball(self, inner, in_box)
        direction = np.where(free, (shift[free].min() - shift) / spread / self.scale, 0.0)
        size = self.radius / np.sqrt(self.scale @ np.where(free, direction - direction[free].mean(), 0.0) ** 2)
        return self._follow_to_sphere(box, direction * size)

    def _follow_to_sphere(self, box: Box, direction: FloatArray) -> FloatArray:
        """Where the projection of ``centre + u direction`` onto the box leaves the ball as u grows from 0."""

        def projected(u: float) -> FloatArray:
            return box.project(self.centre + u * direction, self.scale)

        high = 1.0
        while self.distance(projected(high)) < self.radius and high < 1e300:
            high *= 4
        return projected(_root_of_decreasing(lambda u: self.radius - self.distance(projected(u)), 0.0, high))


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
