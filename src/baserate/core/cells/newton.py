"""Newton's method on the shifts of many groups.

It takes proximal Newton steps inside a trust region, like :mod:`baserate.core.newton`, whose rules it follows. The
objective is a sum over components (see :class:`baserate.core.cells.groups.Groups`), so each component has its own
radius, and accepts or rejects its part of a step. One pass over the data evaluates all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from baserate.core.cells.dual import CellPoint
from baserate.core.cells.step import CellStep, newton_step
from baserate.core.cells.system import CellSystem, solve_blocks
from baserate.core.newton import (
    ACCEPTED,
    CONFIRMED,
    EXTRA,
    FIRST_RADIUS,
    GOOD,
    LEAST_DAMPING,
    NOISE,
    OVERSHOOT,
    PATIENCE,
    POOR,
    SAFETY,
    SHRINK,
    WIDEN,
    relative_tolerance,
)
from baserate.support.arrays import BoolArray, FloatArray

_USEFUL_DAMPING = 1e-9  # For a step that is short enough but not uphill. A smaller one hardly changes it.
_DAMPINGS = 60  # Tries to find the damping of one step.

Evaluate = Callable[[FloatArray], CellPoint]
Check = Callable[[CellPoint], None]


def accept(point: CellPoint) -> None:
    """Check nothing."""


@dataclass(frozen=True)
class CellTarget:
    """When to stop.

    Attributes
    ----------
    tol : float
        Largest error of a rate of a group.
    max_passes : int
    """

    tol: float
    max_passes: int

    def satisfied(self, point: CellPoint) -> BoolArray:
        """Whether nothing is left to gain, for each component."""
        small = np.minimum(self.tol, relative_tolerance(self.tol) * point.wanted) * point.weight[:, None]
        far = np.asarray((np.abs(point.gradient) > small).any(axis=1), dtype=np.float64)
        return np.asarray((point.groups.per_component(far) == 0) & (point.gap <= 10 * self.tol))

    def error(self, point: CellPoint) -> FloatArray:
        """How far each component is from optimal."""
        worst = worst_errors(point)
        return np.maximum(worst, 0.1 * point.gap / np.maximum(1.0, np.abs(point.value)))

    def least(self, point: CellPoint) -> FloatArray:
        """The error that each component may have at a point that is not evaluated."""
        positive = np.where(point.groups.free & (point.wanted > 0), point.wanted, 1.0).min(axis=1)
        least = np.full(point.groups.n_components, self.tol)
        np.minimum.at(least, point.groups.component_of_group, relative_tolerance(self.tol) * positive)
        return least


def worst_errors(point: CellPoint) -> FloatArray:
    """The largest error of a rate in each component."""
    out = np.zeros(point.groups.n_components)
    np.maximum.at(out, point.groups.component_of_group, point.errors)
    return out


@dataclass(frozen=True, eq=False)
class CellSolution:
    """Where Newton's method stopped, and why.

    Attributes
    ----------
    point : CellPoint
    n_passes : int
    converged : bool
    extrapolated : bool
        Whether the point was not evaluated, because the steps before it predict its error.
    """

    point: CellPoint
    n_passes: int
    converged: bool
    extrapolated: bool = False


@dataclass
class _State:
    """What Newton's method remembers between steps; arrays have one entry per component."""

    point: CellPoint
    best: CellPoint
    radius: FloatArray
    damping: FloatArray
    previous: FloatArray
    failures: FloatArray
    extra_steps: FloatArray
    n_passes: int


def maximise(
    evaluate: Evaluate,
    start: CellPoint,
    metric: FloatArray,
    target: CellTarget,
    *,
    order: int = 2,
    check: Check = accept,
) -> CellSolution:
    """Maximise the dual by proximal Newton steps inside a trust region per component.

    Parameters
    ----------
    evaluate : callable
        The dual at the shifts of all groups: one pass over the data.
    start : CellPoint
    metric : array of shape (G, k, k)
        The curvature that each group would have if all its rows were equal, in which steps are measured.
    target : CellTarget
    order : 0 or 2
        With 2, the last step is not evaluated if the steps before predict that its error satisfies the target.
    check : callable
        Called with every point; raises if the point shows that the rates are impossible.
    """
    state = _begin(start, metric)
    while state.n_passes < target.max_passes:
        point = state.point
        check(point)
        moving = ~target.satisfied(point) & np.isfinite(point.value)
        moving &= (state.failures < PATIENCE) & (state.extra_steps <= EXTRA)
        if not moving.any():
            break
        # 1. Propose shifts from the quadratic model, and predict the gain.
        step, predicted = _propose(state, metric, moving)
        if not step.step.any():  # below the last digit of the shifts
            break
        shifts = _anchored(point, step.shifts)
        # 2. Near the solution, where the error falls as predicted, the last step need not be evaluated.
        worst = worst_errors(point)
        near = SAFETY * _next_error(state.previous, worst) <= target.least(point)
        if order and (near | ~moving).all():
            there = replace(point, shifts=shifts)
            return CellSolution(there, state.n_passes, converged=True, extrapolated=True)
        # 3. Evaluate the dual there: one pass over the data.
        trial = evaluate(shifts)
        share = _gain(point, trial, step.step) / np.maximum(predicted, np.finfo(np.float64).tiny)
        # 4. Adapt the trust region, and accept the step if the gain is large enough.
        _update(state, trial, share, _lengths(point, step.step, metric), target, moving)
    reached = target.error(state.best) <= target.tol
    # Short of the target, a component below 0 would guarantee less than no adjustment at all.
    final = state.point.merged(state.best, reached | (state.best.value >= 0))
    return CellSolution(final, state.n_passes, bool(reached.all()))


def _begin(start: CellPoint, metric: FloatArray) -> _State:
    n = start.groups.n_components
    pull = solve_blocks(metric, start.gradient, start.groups.free)
    radius = FIRST_RADIUS * _lengths(start, pull, metric)
    return _State(
        start, start, radius, np.full(n, LEAST_DAMPING), np.full(n, np.inf), np.zeros(n), np.zeros(n), n_passes=1
    )


@np.errstate(all="ignore")  # a step that is not finite is tried again with more damping
def _propose(state: _State, metric: FloatArray, moving: BoolArray) -> tuple[CellStep, FloatArray]:
    """The best shifts by the quadratic model, and the gain that it predicts for each component.

    The damping of a component is about the least that keeps its step within the radius and uphill.
    """
    point, groups = state.point, state.point.groups
    damping = np.clip(1e-4 * state.damping, LEAST_DAMPING, 1.0)
    accuracy = float(np.clip(0.01 * point.residual, 1e-13, 1e-4))
    of_group, curvature = groups.component_of_group, CellSystem.of(groups, point.curvature)
    for number in range(_DAMPINGS):
        blocks = damping[of_group][:, None, None] * metric
        step = newton_step(point, curvature, blocks, moving[of_group], accuracy)
        lengths, predicted = _lengths(point, step.step, metric), _predicted_gain(point, step)
        long = moving & ~(lengths <= OVERSHOOT * state.radius)
        weak = moving & ~long & ~(predicted > 0)
        if not (long | weak).any() or (damping[long | weak] > 1e16).all():
            break
        damping[weak] = np.maximum(10.0 * damping[weak], _USEFUL_DAMPING)
        better = _more_damping(curvature.damped(blocks), step.step, metric, damping, lengths, state.radius)
        # After some tries, the damping is too small to matter at all, and grows faster and faster.
        damping[long] = np.maximum(better, 10.0 ** max(number - 2, 0) * damping)[long]
    state.damping = damping
    return step, predicted


def _more_damping(
    system: CellSystem,
    step: FloatArray,
    metric: FloatArray,
    damping: FloatArray,
    lengths: FloatArray,
    radius: FloatArray,
) -> FloatArray:
    """Newton's update for 1/length = 1/radius, which is nearly linear in the damping (More and Sorensen)."""
    pull = np.einsum("gij,gj->gi", metric, step)
    answer = system.solve(np.where(np.isfinite(pull), pull, 0.0), system.groups.free, 1e-3)
    pace = system.groups.per_component((pull * answer).sum(axis=1))
    better = damping + (lengths / radius - 1.0) * lengths**2 / pace
    better = np.where(np.isfinite(better), better, 10.0 * damping)
    return np.minimum(np.maximum(better, 1.25 * damping), 1e6 * damping)


def _update(
    state: _State, trial: CellPoint, share: FloatArray, lengths: FloatArray, target: CellTarget, moving: BoolArray
) -> None:
    """Adapt each radius to the share of the predicted gain, and take the components whose gain is large enough."""
    state.n_passes += 1
    radius = np.where(share < POOR, SHRINK * lengths, state.radius)
    radius = np.where(share > GOOD, np.maximum(radius, WIDEN * lengths), radius)
    state.radius = np.where(moving, radius, state.radius)
    better = np.isfinite(trial.value) & (target.error(trial) < target.error(state.best)) & moving
    state.best = state.best.merged(trial, better)
    accepted = moving & (share > ACCEPTED)
    worst = worst_errors(state.point)
    state.previous = np.where(accepted, np.where(share > CONFIRMED, worst, np.inf), state.previous)
    state.failures = np.where(accepted, 0, state.failures + moving)
    state.point = state.point.merged(trial, accepted)
    # Beyond the tolerance, only a few more steps are taken, because rounding limits the accuracy.
    state.extra_steps = state.extra_steps + (moving & (target.error(state.best) <= target.tol))


@np.errstate(over="ignore")  # an infinite length is fine
def _lengths(point: CellPoint, step: FloatArray, metric: FloatArray) -> FloatArray:
    squares = np.einsum("gi,gij,gj->g", step, metric, step)
    return np.sqrt(point.groups.per_component(np.maximum(squares, 0.0)))


def _next_error(before: FloatArray, now: FloatArray) -> FloatArray:
    """The error after the next step if it falls as it did before; infinite if that cannot be predicted."""
    falls = (now < 0.01 * before) & np.isfinite(before)
    ratio = np.divide(now, before, out=np.ones_like(now), where=falls & (before > 0))
    return np.where(falls, now * ratio**2, np.inf)


def _predicted_gain(point: CellPoint, step: CellStep) -> FloatArray:
    """How much the quadratic model rises, for each component."""
    groups, weight = point.groups, point.weight
    if not np.isfinite(step.step).all():
        return np.full(groups.n_components, -np.inf)
    near = (point.group_mean + step.bend) / np.where(weight > 0, weight, 1.0)[:, None]
    wanted = groups.sets.support(step.shifts, near)
    # The support function rises by <wanted, step> plus something between 0 and <old wanted - wanted, step>. It is
    # concave, so whatever lies outside that range is rounding.
    most = np.maximum(((point.wanted - wanted) * step.step).sum(axis=1), 0.0)
    turn = np.clip((point.shifts * (wanted - point.wanted)).sum(axis=1), 0.0, most)
    rise = ((weight[:, None] * wanted - point.group_mean - 0.5 * step.bend) * step.step).sum(axis=1)
    return groups.per_component(rise + weight * turn)


def _anchored(point: CellPoint, shifts: FloatArray) -> FloatArray:
    sets, free = point.groups.sets, point.groups.free
    return np.where(free, shifts - sets.anchors(np.where(free, shifts, 0.0), point.wanted), 0.0)


def _gain(point: CellPoint, trial: CellPoint, step: FloatArray) -> FloatArray:
    """How much higher the trial point is; computed from the slopes where rounding hides the difference of values."""
    with np.errstate(invalid="ignore"):
        gain = trial.value - point.value
        slope = 0.5 * point.groups.per_component(((point.gradient + trial.gradient) * step).sum(axis=1))
    clear = np.abs(gain) > NOISE * (point.noise + trial.noise)
    return np.where(np.isfinite(trial.value), np.where(clear, gain, slope), -np.inf)
