"""Newton's method on the k numbers of the dual problem.

It knows nothing of losses, rows or files. It maximises a concave function: the sum of a smooth function, whose value,
slope and curvature cost one pass over the data per point, and of the support function of a rate set.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from baserate.core.products import Matrix
from baserate.core.rate_set_step import newton
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray

# The rules of the trust region. The compiled solver of small problems takes them from TRUST_REGION as well.
FIRST_RADIUS = 30.0  # In Sinkhorn steps. A Newton step is longer by as much as the predictions are over-confident.
POOR, GOOD = 0.25, 0.75  # A smaller share of the predicted gain shrinks the radius, a larger one widens it.
SHRINK, WIDEN = 0.25, 4.0  # The new radius, in lengths of the step.
OVERSHOOT = 1.2  # A step may be longer than the radius by this factor.
CONFIRMED = 0.9  # With this share of the predicted gain, the model describes the function well.
# With this share, the step is taken. Log loss with rates of 1e-13 shows why it is not smaller: a step with 1e-4 of the
# predicted gain pushed a class so far that its probability underflowed, and the way back has no slope. (Compiled code
# leaves steps below POOR to the general method.)
ACCEPTED = 0.1
NOISE = 10.0  # Differences of values smaller than this many rounding errors are computed from the slopes.
SAFETY = 2.0  # The extrapolated error must satisfy the tolerance with this factor to spare.
PATIENCE = 60  # Failed steps in a row; each is a quarter of the one before, so that the last is almost 0.
LEAST_DAMPING = 1e-15  # Of the metric; it only makes the curvature regular.
EXTRA = 5  # Steps spent on relative accuracy once the tolerance is reached.

_TINY = float(np.finfo(np.float64).tiny)

TRUST_REGION = np.array([FIRST_RADIUS, POOR, GOOD, WIDEN, OVERSHOOT, CONFIRMED, NOISE, SAFETY])
"""The rules that compiled code needs, in this order."""


@dataclass(eq=False)
class Point:
    """The dual function at one shift.

    Attributes
    ----------
    shift : array of shape (k,)
    value : float
        The dual function there; -inf outside its domain.
    wanted : array of shape (k,)
        The rates in the rate set that the shift supports.
    mean : array of shape (k,)
        Mean of the adjusted rows.
    curvature : array of shape (k, k), or ProductCurvature
        Minus the Hessian of the smooth part; positive semidefinite, and 0 along the all-ones direction.
    noise : float
        How far rounding may have moved ``value``.
    gradient : array of shape (k,)
        Wanted rates minus the mean; at a kink, one of several slopes.
    residual : float
        Largest absolute error of a rate.
    gap : float
        Primal objective of these rows minus the dual value.
    """

    shift: FloatArray
    value: float
    wanted: FloatArray
    mean: FloatArray
    curvature: Any
    noise: float

    gradient: FloatArray = field(init=False)
    residual: float = field(init=False)
    gap: float = field(init=False)

    def __post_init__(self) -> None:
        self.gradient = self.wanted - self.mean
        self.residual = float(np.abs(self.gradient).max())
        self.gap = abs(float(self.shift @ self.gradient))


Evaluate = Callable[[FloatArray], Point]
"""The dual function at a shift."""


@dataclass(frozen=True)
class Target:
    """When to stop.

    Attributes
    ----------
    tol : float
        Largest error of a rate.
    max_passes : int
    ceiling : float
        No dual value can exceed this if the problem has a solution.
    """

    tol: float
    max_passes: int
    ceiling: float = np.inf

    def satisfied(self, point: Point) -> bool:
        """Whether nothing is left to gain.

        Then the gap is small even if the objective is large, and the first digits of a rate of 1e-12 are right.
        """
        if not (point.gap <= 10 * self.tol and point.residual <= self.tol):
            return False
        return bool((np.abs(point.gradient) <= relative_tolerance(self.tol) * point.wanted).all())

    def error(self, point: Point) -> float:
        """How far a point is from optimal: its residual, or a tenth of its gap relative to large objectives."""
        return max(point.residual, 0.1 * point.gap / max(1.0, abs(point.value)))


def relative_tolerance(tol: float) -> float:
    """Relative error of a rate that the search aims for but does not require."""
    return min(max(1e4 * tol, 1e-6), 0.1)


@dataclass(frozen=True)
class Solution:
    """Where Newton's method stopped, and why.

    Attributes
    ----------
    point : Point
    n_passes : int
    converged : bool
    extrapolated : bool
        Whether the point was not evaluated, because the steps before it predict its error; see :func:`maximise`.
    """

    point: Point
    n_passes: int
    converged: bool
    extrapolated: bool = False


class Proposal(NamedTuple):
    """A shift to be tried.

    Attributes
    ----------
    shift : array of shape (k,)
    predicted : float
        The gain that the quadratic model predicts.
    length : float
        The length of the step.
    n_passes : int
        The passes that were needed to find it.
    """

    shift: FloatArray
    predicted: float
    length: float = 0.0
    n_passes: int = 0


class Steps(ABC):
    """How steps are chosen: a quadratic model, and how far it is trusted.

    Attributes
    ----------
    metric : Matrix
        Steps are measured in this matrix.
    """

    metric: Matrix

    @abstractmethod
    def begin(self, point: Point) -> None:
        """Prepare for steps from a first point."""

    @abstractmethod
    def propose(self, point: Point, most_passes: int) -> Proposal:
        """Return the next shift, using at most about ``most_passes`` passes over the rows."""

    @abstractmethod
    def adapt(self, share: float, length: float) -> None:
        """Widen or shrink the trust region, given the length of the last step and its share of the predicted gain."""

    @np.errstate(over="ignore")  # an infinite length is fine
    def length(self, step: FloatArray) -> float:
        """The length of a step."""
        return math.sqrt(max(float(step @ (self.metric @ step)), 0.0))


@dataclass
class _State:
    """What Newton's method remembers between steps."""

    point: Point
    latest: Point
    best: Point
    n_passes: int
    previous_residual: float = np.inf
    failures: int = 0
    extra_steps: int = 0


def maximise(
    evaluate: Evaluate,
    start: FloatArray | Point,
    steps: Steps,
    target: Target,
    *,
    order: int = 0,
    learn: bool = False,
) -> Solution:
    """Maximise a concave function by proximal Newton steps, each as far as the model of the function is trusted.

    Steps are measured in the curvature that the dual would have if all rows were equal. Short steps are then
    generalised Sinkhorn steps, which ascend for the common losses, and long ones are Newton steps. Plain Newton with
    backtracking fails here: the dual of over-confident predictions is almost piecewise linear.

    Parameters
    ----------
    evaluate : callable
    start : array of shape (k,), or Point
        A shift, or a point that has been evaluated already.
    steps : Steps
    target : Target
    order : 0, 1 or 2
        The order of convergence near the solution. With 2 each step squares the error, with 1 each removes the same
        share of it. The last step is then not evaluated if the steps before predict that its error satisfies the
        target; the caller, who computes the rows there anyway, sees whether it does. With 0 every step is evaluated.
    learn : bool
        Whether the points have no curvature, which is then learned from the steps; see :func:`learn_curvature`. The
        start must be a point with its curvature.

    Returns
    -------
    Solution
    """
    state = _begin(evaluate, start, steps, learn=learn)
    while math.isfinite(state.point.value) and state.n_passes < target.max_passes:
        point = state.point
        if target.satisfied(point) or point.value > target.ceiling:
            break
        # 1. Propose a shift from the quadratic model, and predict the gain.
        new, predicted, length, n_passes = steps.propose(point, target.max_passes - state.n_passes - 1)
        state.n_passes += n_passes
        step = new - point.shift
        if not step.any():  # below the last digit of the shift
            break
        new = _anchored(new, point.wanted)
        # 2. Near the solution, where the error falls as predicted, the last step need not be evaluated.
        if order and _next_step_satisfies(target, state, order):
            there = replace(point, shift=new, value=point.value + predicted, mean=point.wanted)
            return Solution(there, state.n_passes, converged=True, extrapolated=True)
        # 3. Evaluate the dual there: one pass over the data.
        trial = evaluate(new)
        if learn:
            trial = learn_curvature(trial, state.latest)
        share = _gain(point, trial, step) / max(predicted, _TINY)  # may be infinite
        # 4. Adapt the trust region, and accept the step if the gain is large enough.
        steps.adapt(share, length)
        _update(state, trial, share, target)
        if state.failures >= PATIENCE or state.extra_steps > EXTRA:
            break
    if not math.isfinite(state.point.value):
        return Solution(state.point, state.n_passes, converged=False)
    reached = target.error(state.best) <= target.tol
    # Short of the target, a point below the start would guarantee less than no adjustment at all.
    return Solution(state.best if reached or state.best.value >= 0 else state.point, state.n_passes, reached)


def _begin(evaluate: Evaluate, start: FloatArray | Point, steps: Steps, *, learn: bool) -> _State:
    assert isinstance(start, Point) or not learn
    point = start if isinstance(start, Point) else evaluate(start)
    n_passes = 1
    # The dual is 0 at shift 0, so a start below that is a bad one, unless it was evaluated on purpose.
    good = math.isfinite(point.value) if isinstance(start, Point) else point.value >= 0
    if not good and np.any(point.shift):
        at_zero = evaluate(np.zeros_like(point.shift))
        point = learn_curvature(at_zero, point) if learn else at_zero
        n_passes += 1
    if math.isfinite(point.value):
        steps.begin(point)
    return _State(point, point, point, n_passes)


def _update(state: _State, trial: Point, share: float, target: Target) -> None:
    """Go to the trial point if the gain is large enough."""
    state.n_passes += 1
    if math.isfinite(trial.value):
        state.latest = trial
        if target.error(trial) < target.error(state.best):
            state.best = trial
    if share > ACCEPTED:
        state.previous_residual = state.point.residual if share > CONFIRMED else np.inf
        state.point, state.failures = trial, 0
    else:
        state.failures += 1
    # Beyond the tolerance, only a few more steps are taken, because rounding limits the accuracy.
    state.extra_steps += target.error(state.best) <= target.tol


@np.errstate(over="ignore", invalid="ignore")  # the caller checks whether it is finite
def newton_step(point: Point, rate_set: RateSet) -> FloatArray:
    """The shift that an undamped Newton step from a point leads to."""
    return _anchored(newton(rate_set, point.curvature, point.mean, point.shift), point.wanted)


def learn_curvature(point: Point, previous: Point) -> Point:
    """A point without curvature, with that of the previous one corrected by what the step between them shows.

    The curvature of n rows costs n k^2 operations, the rest of a pass n k. With many classes it is cheaper to correct
    an estimate by as little as possible (in the sense of Broyden, Fletcher, Goldfarb and Shanno) so that it explains
    how the mean moved.
    """
    estimate = previous.curvature
    if not math.isfinite(point.value):
        return replace(point, curvature=estimate)
    step, moved = point.shift - previous.shift, point.mean - previous.mean
    bend = estimate @ step
    known, seen = float(step @ bend), float(step @ moved)
    if min(known, seen) > 1e-14 * max(known, seen):
        estimate = estimate - np.outer(bend, bend / known) + np.outer(moved, moved / seen)
    return replace(point, curvature=estimate)


def _next_step_satisfies(target: Target, state: _State, order: int) -> bool:
    """Whether the steps so far predict that the error after the next one satisfies the target."""
    error = SAFETY * _next_error(state.previous_residual, state.point.residual, order)
    return error <= target.tol and error <= relative_tolerance(target.tol) * float(state.point.wanted.min())


def _next_error(before: float, now: float, order: int) -> float:
    """The error after the next step if it falls as it did before; infinite if that cannot be predicted."""
    return now * (now / before) ** order if now < 10.0**-order * before < np.inf else np.inf


def predicted_gain(point: Point, rate_set: RateSet, new: FloatArray, bend: FloatArray) -> float:
    """How much the quadratic model rises from a point to a new shift; ``bend`` is the curvature times the step."""
    step = new - point.shift
    if not np.isfinite(step).all():
        return -np.inf
    if rate_set.is_point:  # whose support function is linear
        return float(point.gradient @ step - 0.5 * step @ bend)
    wanted = rate_set.support(new, point.mean + bend)
    # The support function rises by <wanted, step> plus something between 0 and <old wanted - wanted, step>. It is
    # concave, so whatever lies outside that range is rounding.
    most = max(float((point.wanted - wanted) @ step), 0.0)
    turn = min(max(float(point.shift @ (wanted - point.wanted)), 0.0), most)
    return float((wanted - point.mean) @ step - 0.5 * step @ bend + turn)


def _anchored(shift: FloatArray, rates: FloatArray) -> FloatArray:
    # The free constant is chosen so that <rates, shift> = 0, not mean(shift) = 0: otherwise the huge shift of a rare
    # class would push all others to where floating point has no digits left for them.
    return shift - float(rates @ shift)


def _gain(point: Point, trial: Point, step: FloatArray) -> float:
    """How much higher the trial point is; computed from the slopes where rounding hides the difference of values."""
    if not math.isfinite(trial.value):
        return -np.inf
    gain = trial.value - point.value
    if abs(gain) > NOISE * (point.noise + trial.noise):
        return gain
    return 0.5 * float((point.gradient + trial.gradient) @ step)
