"""Newton steps for many classes, which need no matrix of k x k numbers.

The equations are solved by conjugate gradients, and each product with the curvature is a pass over the rows. So there
is one damping per step, which follows from the success of the last one (Levenberg and Marquardt), instead of a search
for the damping that fits a radius. The equations are solved as accurately as the present error deserves, which keeps
the convergence faster than linear.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from baserate.core.newton import (
    FIRST_RADIUS,
    GOOD,
    LEAST_DAMPING,
    OVERSHOOT,
    POOR,
    WIDEN,
    Point,
    Proposal,
    Steps,
    predicted_gain,
)
from baserate.core.products import CentredDiagonal, DampedSystem, ProductCurvature
from baserate.core.rate_set_step import newton
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray

_FIRST_DAMPING = 1e-6
_USEFUL_DAMPING = 1e-3  # After a failure. A smaller one hardly changes a step.
_RAISE = 4.0  # Factor of the damping after a failure, and once more for each failure just before.
_LOWER, _LOWER_MORE = 3.0, 4.0  # Factor after a success, and once more for each success just before.
_ACCURACY = 0.3  # Of the first solutions. More accurate steps are hardly better while the model is inaccurate.
_BOX_ACCURACY = 1e-3  # For sets of rates, whose active bounds depend on the signs of the solution.
_MOST_PRODUCTS = 100  # For one solution.
_TRIES = 12  # Dampings that are tried for one step.


class _NoPassesLeft(Exception):
    """A step would need more passes than may be used. The search ends at its best point."""


class DampedSteps(Steps):
    """Steps by conjugate gradients, with a damping that follows from the success of the last step."""

    metric: CentredDiagonal

    def __init__(self, metric: CentredDiagonal, rate_set: RateSet) -> None:
        self.metric = metric
        self._rate_set, self._radius, self._damping = rate_set, np.inf, _FIRST_DAMPING
        self._failures = self._successes = 0  # in a row

    def begin(self, point: Point) -> None:
        self._radius = FIRST_RADIUS * self.length(point.gradient / self.metric.h)

    @np.errstate(over="ignore", invalid="ignore")  # a step that is not finite is tried again with more damping
    def propose(self, point: Point, most_passes: int) -> Proposal:
        n_products = 0

        def multiply(v: FloatArray) -> FloatArray:
            nonlocal n_products
            if n_products >= most_passes:
                raise _NoPassesLeft
            n_products += 1
            return np.asarray(point.curvature @ v)

        there = replace(point, curvature=ProductCurvature(point.curvature.diagonal(), multiply))
        for _ in range(_TRIES):
            try:
                step, bend = self._step(there, max(most_passes - n_products, 1))
            except _NoPassesLeft:
                return Proposal(point.shift, 0.0, n_passes=n_products)
            new = point.shift + step
            predicted = predicted_gain(point, self._rate_set, new, bend)
            length = self.length(step)
            if (length <= OVERSHOOT * self._radius and predicted > 0) or not step.any():
                break
            self._raise_damping()
        return Proposal(new, predicted, length, n_products)

    def adapt(self, share: float, length: float) -> None:
        if share < POOR:
            self._raise_damping()
        elif share > GOOD:
            lower = self._damping / (_LOWER * _LOWER_MORE**self._successes)
            self._damping = lower if self._damping > _FIRST_DAMPING else LEAST_DAMPING
            self._failures, self._successes = 0, self._successes + 1
            self._radius = max(self._radius, WIDEN * length)
        else:
            self._failures = self._successes = 0

    def _raise_damping(self) -> None:
        self._failures, self._successes = self._failures + 1, 0
        self._damping = max(_RAISE**self._failures * self._damping, _USEFUL_DAMPING)

    def _step(self, point: Point, most_products: int) -> tuple[FloatArray, FloatArray]:
        """The step with the present damping, and the curvature times it."""
        system = DampedSystem(
            point.curvature, self.metric, self._damping, self._accuracy(point), min(_MOST_PRODUCTS, most_products)
        )
        if self._rate_set.is_point:
            step, rest = system.solve(point.gradient)
            return step, point.gradient - rest - self._damping * (self.metric @ step)
        step = newton(self._rate_set, system, point.mean, point.shift) - point.shift
        return step, np.asarray(point.curvature @ step)

    def _accuracy(self, point: Point) -> float:
        diagonal = np.maximum(point.curvature.diagonal() + self._damping * self.metric.diagonal(), 1e-300)
        size = float(np.sqrt((point.gradient**2 / diagonal).sum()))
        most = _ACCURACY if self._rate_set.is_point else _BOX_ACCURACY
        return min(most, float(np.sqrt(size)))
