"""Newton steps inside a trust region, for problems whose curvature is a matrix of k x k numbers.

Unlike those for many classes (:mod:`baserate.core.damped_steps`), each step searches for the damping with which it fits
the radius.
"""

from __future__ import annotations

import math

import numpy as np

from baserate.core.newton import (
    FIRST_RADIUS,
    GOOD,
    LEAST_DAMPING,
    OVERSHOOT,
    POOR,
    SHRINK,
    WIDEN,
    Point,
    Proposal,
    Steps,
    predicted_gain,
)
from baserate.core.rate_set_step import newton, solve_centred
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray


class TrustRegion(Steps):
    """Steps inside a trust region, whose equations are solved by factoring a matrix of k x k numbers.

    Parameters
    ----------
    metric : array of shape (k, k)
    rate_set : RateSet
    """

    metric: FloatArray

    def __init__(self, metric: FloatArray, rate_set: RateSet) -> None:
        self.metric, self._rate_set, self._radius, self._damping = metric, rate_set, 0.0, LEAST_DAMPING

    def begin(self, point: Point) -> None:
        self._radius = FIRST_RADIUS * self.length(solve_centred(self.metric, point.gradient))

    @np.errstate(over="ignore", invalid="ignore")  # a step that is not finite is tried again with more damping
    def propose(self, point: Point, most_passes: int) -> Proposal:
        """The best shift by the quadratic model; the damping is about the least that keeps it in reach and uphill."""
        radius, metric, damping = self._radius, self.metric, min(max(1e-4 * self._damping, LEAST_DAMPING), 1.0)
        while damping <= 1e16:
            matrix = point.curvature + damping * metric
            new = newton(self._rate_set, matrix, point.mean, point.shift)
            step = new - point.shift
            length, predicted = self.length(step), predicted_gain(point, self._rate_set, new, point.curvature @ step)
            if (length <= OVERSHOOT * radius and predicted > 0) or not step.any():
                break
            if length <= OVERSHOOT * radius:
                damping *= 10.0  # The step is short enough but not uphill, so its length cannot tell the right damping.
                continue
            # Newton's update for 1/length = 1/radius, which is nearly linear in the damping (More and Sorensen).
            pull = metric @ step
            pace = float(pull @ solve_centred(matrix, pull))
            better = damping + (length / radius - 1.0) * length**2 / pace if min(pace, radius) > 0 else np.inf
            damping = min(max(better, 1.25 * damping), 1e6 * damping) if math.isfinite(better) else 10.0 * damping
        self._damping = damping
        return Proposal(new, predicted, length) if math.isfinite(length) else Proposal(point.shift, 0.0)

    def adapt(self, share: float, length: float) -> None:
        if share < POOR:
            self._radius = SHRINK * length
        elif share > GOOD:
            self._radius = max(self._radius, WIDEN * length)
