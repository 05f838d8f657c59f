"""Newton's method on the k numbers of the dual problem.

It knows nothing of losses, rows or files: it climbs a concave function, the sum of a smooth one whose value, slope and
curvature someone else sums up, one pass over the data for each point that it asks about, and of the support function of
a region of rates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from baserate.core.rate_set_step import newton, solve_centred
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray

_PATIENCE = 60  # Steps in a row that may fail; each is a quarter of the one before, so the last is all but 0.
_EXTRA = 5  # Steps spent on relative accuracy once the tolerance is reached.
_FIRST_RADIUS = 30.0  # In Sinkhorn steps. Newton's step is longer by as much as the predictions are over-confident.


@dataclass(frozen=True)
class Point:
    """The dual function at one shift.

    Attributes
    ----------
    shift : array of shape (k,)
    value : float
        What the dual function is there; -inf outside its domain.
    wanted : array of shape (k,)
        The rates in the region that the shift supports.
    mean : array of shape (k,)
        Mean of the adjusted rows.
    curvature : array of shape (k, k)
        Minus the Hessian; positive semidefinite, and 0 along the all-ones direction.
    noise : float
        How far rounding may have moved ``value``.
    """

    shift: FloatArray
    value: float
    wanted: FloatArray
    mean: FloatArray
    curvature: FloatArray
    noise: float

    @property
    def gradient(self) -> FloatArray:
        """Wanted rates minus the mean; of several slopes at a kink, a small one."""
        return np.asarray(self.wanted - self.mean)

    @property
    def residual(self) -> float:
        """Largest absolute error of a rate."""
        return float(np.abs(self.gradient).max())

    @property
    def gap(self) -> float:
        """Primal objective of these rows minus the dual value."""
        return abs(float(self.shift @ self.gradient))


@dataclass(frozen=True)
class Target:
    """When to stop."""

    tol: float
    max_passes: int
    ceiling: float = np.inf
    """No dual value can pass this if the problem has a solution."""

    @property
    def relative(self) -> float:
        """What a rate may be off by as a share of itself; asked for, but not fought for."""
        return min(max(1e4 * self.tol, 1e-6), 0.1)

    def reached(self, point: Point) -> bool:
        """Whether the promised tolerance holds."""
        return self.error(point) <= self.tol

    def satisfied(self, point: Point) -> bool:
        """Whether nothing is left to gain.

        Then the gap is small also where the objective is large, and a rate of 1e-12 has its first digits right.
        """
        small = np.minimum(self.tol, self.relative * point.wanted)
        return point.gap <= 10 * self.tol and bool((np.abs(point.gradient) <= small).all())

    def least(self, point: Point) -> float:
        """The error of a rate that satisfies, whichever rate it is."""
        return min(self.tol, self.relative * float(point.wanted.min()))

    def error(self, point: Point) -> float:
        """How far a point is from optimal: its residual, or a tenth of its gap, relative to large objectives."""
        return max(point.residual, 0.1 * point.gap / max(1.0, abs(point.value)))


@dataclass(frozen=True)
class Solution:
    """Where the solver stopped, and why."""

    point: Point
    n_passes: int
    converged: bool
    foretold: bool = False
    """Whether the point was not visited, because the steps before it leave no doubt; see :func:`solve`."""


def solve(
    evaluate: Callable[[FloatArray], Point],
    start: FloatArray | Point,
    metric: FloatArray,
    region: RateSet,
    target: Target,
    *,
    foresee: int = 0,
) -> Solution:
    """Maximise a concave function by (proximal) Newton steps inside a trust region.

    Steps are measured in ``metric``, the curvature that the dual would have if every row were alike. Short
    steps are then generalised Sinkhorn steps, an ascent for the common losses, and long ones are Newton's. Plain
    Newton with back-tracking fails here: the dual of over-confident predictions is all but piecewise linear.

    With ``foresee`` the last step is not evaluated: near the solution the error falls in a way that is known (2: each
    step squares it; 1: each takes the same share of it), and so is what the next step leaves. The caller, who is about
    to compute the rows there anyway, sees whether it is true.

    ``start`` is a shift, or a point that has cost its pass already.
    """
    point = start if isinstance(start, Point) else evaluate(start)
    passes = 1
    # The dual is 0 at shift 0, so a guess below that was a bad one. A point whose pass is paid for is near the solution
    # all the same.
    good = np.isfinite(point.value) if isinstance(start, Point) else point.value >= 0
    if not good and np.any(point.shift):
        point = evaluate(np.zeros_like(point.shift))
        passes += 1
    if not np.isfinite(point.value):
        return Solution(point, passes, converged=False)
    best, misses, extra, before = point, 0, 0, np.inf
    radius = _FIRST_RADIUS * _length(solve_centred(metric, point.gradient), metric)
    while passes < target.max_passes and not target.satisfied(point) and point.value <= target.ceiling:
        # 1. The shift that the quadratic model proposes, and what it promises.
        new, promise = _proposal(point, metric, region, radius)
        step = new - point.shift
        if not step.any():  # less than the last digit of the shift
            break
        if foresee and 2 * _error_ahead(before, point.residual, foresee) <= target.least(point):
            there = replace(point, shift=_anchored(new, point.wanted), value=point.value + promise, mean=point.wanted)
            return Solution(there, passes, converged=True, foretold=True)
        # 2. One pass over the data, and how much of the promise was kept.
        trial = evaluate(_anchored(new, point.wanted))
        passes += 1
        kept = float(_gain(point, trial, step)) / float(max(promise, np.finfo(np.float64).tiny))  # may be infinite
        # 3. Trust the model less or more.
        if kept < 0.25:
            radius = 0.25 * _length(step, metric)
        elif kept > 0.75:
            radius = max(radius, 4.0 * _length(step, metric))
        # 4. Go there if it is higher.
        if np.isfinite(trial.value) and target.error(trial) < target.error(best):
            best = trial
        if kept > 1e-4:
            before = point.residual if kept > 0.9 else np.inf
            point, misses = trial, 0
        else:
            misses += 1
            if misses >= _PATIENCE:
                break
        # 5. What is left after the tolerance is reached is worth a few steps, not a fight with rounding.
        extra += target.reached(best)
        if extra > _EXTRA:
            break
    reached = target.reached(best)
    # Short of the goal, a point below the start would promise less than no adjustment at all.
    return Solution(best if reached or best.value >= 0 else point, passes, reached)


@np.errstate(over="ignore")  # infinitely long is a length, too
def _length(step: FloatArray, metric: FloatArray) -> float:
    return float(np.sqrt(np.maximum(step @ metric @ step, 0.0)))


@np.errstate(over="ignore", invalid="ignore")  # a step that is not finite is tried again with more damping
def _proposal(point: Point, metric: FloatArray, region: RateSet, radius: float) -> tuple[FloatArray, float]:
    """The best shift by the quadratic model, with the least damping that keeps it to the radius and uphill."""
    damping = 1e-15
    while damping <= 1e16:
        matrix = point.curvature + damping * metric
        new = newton(region, matrix, point.mean, point.shift)
        step = new - point.shift
        length, promise = _length(step, metric), _promise(point, region, new)
        if (length <= 1.2 * radius and promise > 0) or not step.any():
            return new, promise
        # Newton's update for 1/length = 1/radius, which is nearly linear in the damping (More and Sorensen).
        pull = metric @ step
        pace = float(pull @ solve_centred(matrix, pull))
        better = damping + (length / radius - 1.0) * length**2 / pace if min(pace, radius) > 0 else np.inf
        damping = better if damping < better < 1e6 * damping else 10.0 * damping
    return (new, promise) if np.isfinite(length) else (point.shift, 0.0)


@np.errstate(over="ignore", invalid="ignore")  # the caller looks whether it is finite
def corrected(point: Point, region: RateSet) -> FloatArray:
    """The shift that Newton's method proposes from a point, with the curvature that it has."""
    return _anchored(newton(region, point.curvature, point.mean, point.shift), point.wanted)


def _error_ahead(before: float, now: float, order: int) -> float:
    """The error after the next step, if it falls as it did; infinite where that is not to be seen."""
    return now * (now / before) ** order if now < 10.0**-order * before < np.inf else np.inf


def _promise(point: Point, region: RateSet, new: FloatArray) -> float:
    """How much the quadratic model rises from a point to a new shift."""
    step = new - point.shift
    if not np.isfinite(step).all():
        return -np.inf
    bend = point.curvature @ step
    wanted = region.support(new, point.mean + bend)
    # The support function rises by <wanted, step> plus something between 0 and <old wanted - wanted, step>; it is
    # concave, so what lies outside is rounding.
    most = max(float((point.wanted - wanted) @ step), 0.0)
    turn = min(max(float(point.shift @ (wanted - point.wanted)), 0.0), most)
    return float((wanted - point.mean) @ step - 0.5 * step @ bend + turn)


def _anchored(shift: FloatArray, rates: FloatArray) -> FloatArray:
    # The free constant is chosen so that <rates, shift> = 0, not mean(shift) = 0: a rare class with a huge shift
    # would otherwise push all others to where they have no digits left.
    return shift - float(rates @ shift)


def _gain(point: Point, trial: Point, step: FloatArray) -> float:
    """How much higher the trial is; by its slopes where rounding hides the values."""
    if not np.isfinite(trial.value):
        return -np.inf
    gain = trial.value - point.value
    if abs(gain) > 10 * (point.noise + trial.noise):
        return gain
    return 0.5 * float((point.gradient + trial.gradient) @ step)
