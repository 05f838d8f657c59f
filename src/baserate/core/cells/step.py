"""Newton's step within the rate sets of many groups: the maximum of a quadratic model plus their support functions.

The model lives on cells, so no pass over the data is needed. For boxes the step is the solution of a quadratic program.
Block pivoting finds which bounds are active, in all groups at the same time; see also
:mod:`baserate.core.rate_set_step`, which does this for one group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.core.cells.balls import BallModel
from baserate.core.cells.dual import CellPoint
from baserate.core.cells.group_sets import GroupSets, margins
from baserate.core.cells.system import CellSystem
from baserate.support.arrays import BoolArray, FloatArray

_ROUNDS = 40
_FULL_ROUNDS = 4
_ALL_AT_ONCE = 10  # Rounds after which each group changes one bound at a time, which ends cycles.

State = NDArray[np.int8]
"""For each group and class: +1 if its lower bound is active, -1 if its upper bound is active, 0 if it is free."""


class CellStep(NamedTuple):
    """The shifts to which the model leads, the step, and the product of the undamped curvature with the step."""

    shifts: FloatArray
    step: FloatArray
    bend: FloatArray


def newton_step(
    point: CellPoint, curvature: CellSystem, damping: FloatArray, moving: BoolArray, accuracy: float
) -> CellStep:
    """The shifts at which the quadratic model of a point has its maximum.

    Parameters
    ----------
    point : CellPoint
    curvature : CellSystem
        The curvature of the dual at the point.
    damping : array of shape (G, k, k)
        Added to the curvature of each group.
    moving : bool array of shape (G,)
        The groups whose shifts may change.
    accuracy : float
        How accurately linear systems are solved.
    """
    groups, weight = point.groups, np.where(point.weight > 0, point.weight, 1.0)[:, None]
    variables = groups.free & moving[:, None]
    state, system = first_state(groups.sets, point.shifts), curvature.damped(damping)
    balls = BallModel.at(groups.sets, point.shifts, point.group_mean / weight)
    for number in range(_ROUNDS):
        step = _step_for_state(system, point, variables, state, balls, accuracy)
        bent = system.multiply(step)
        rates, shifts = (point.group_mean + bent) / weight, point.shifts + step
        state, changed = _next_state(groups.sets, variables, state, shifts, rates, one=number >= _ALL_AT_ONCE)
        if balls.groups:
            at = list(balls.groups)
            blocks, tolerance = system.blocks[at] / weight[at, :, None], max(accuracy, 1e-10)
            balls, turned = balls.moved(shifts[at], rates[at], blocks, share=_share(number), tolerance=tolerance)
            changed = changed or turned
        if not changed:
            break
    return CellStep(shifts, step, bent - np.einsum("gij,gj->gi", damping, step))


def _share(round_number: int) -> float:
    """How far the models of balls follow a step: less and less, which ends cycles."""
    return 1.0 if round_number < _FULL_ROUNDS else 0.5 if round_number < 2 * _ALL_AT_ONCE else 0.25


def first_state(sets: GroupSets, shifts: FloatArray) -> State:
    """The bounds that the present shifts support. Exact rates are always bound."""
    state = np.ones(shifts.shape, dtype=np.int8)
    if len(sets.boxes):
        at = sets.boxes
        guess = np.sign(shifts[at] - margins(sets.low[at], sets.high[at], shifts[at])[:, None]).astype(np.int8)
        state[at] = np.where(sets.fixed[at], np.int8(1), guess)
    return state


def _step_for_state(
    system: CellSystem, point: CellPoint, variables: BoolArray, state: State, balls: BallModel, accuracy: float
) -> FloatArray:
    """The step to the maximum of the model if exactly these bounds are active. Free classes get shift 0."""
    sets, weight = point.groups.sets, point.weight[:, None]
    wanted = np.where(state > 0, sets.low, sets.high)
    if balls.groups:
        at = list(balls.groups)
        state = state.copy()
        state[at] = balls.binding[:, None]
        wanted[at] = balls.pull(point.shifts[at])
        extra = np.zeros_like(system.damping)
        extra[at] = weight[at, :, None] * balls.curvature
        system = system.damped(extra)
    step = np.where(variables & (state == 0), -point.shifts, 0.0)
    missing = weight * wanted - point.group_mean
    if step.any():
        missing = missing - system.multiply(step)
    return step + system.solve(missing, variables & (state != 0), accuracy)


def _next_state(
    sets: GroupSets, variables: BoolArray, state: State, shifts: FloatArray, rates: FloatArray, *, one: bool
) -> tuple[State, bool]:
    """Activate violated bounds, and release those whose multiplier has the wrong sign.

    With ``one``, each group changes only the bound that is violated most.
    """
    if not len(sets.boxes):
        return state, False
    at = sets.boxes
    now, low, high, x, t = state[at], sets.low[at], sets.high[at], shifts[at], rates[at]
    changeable = variables[at] & ~sets.fixed[at]
    wrong = changeable & (now * x < 0)
    slack = 1e-13 * high + 1e-300
    below, above = np.maximum(low - t, 0.0), np.maximum(t - high, 0.0)
    below, above = (np.where(changeable & (now == 0) & (v > slack), v, 0.0) for v in (below, above))
    if not (wrong.any() or below.any() or above.any()):
        return state, False
    if one:
        size = np.maximum(below + above, np.where(wrong, np.abs(x) * high, 0.0))
        first = size == size.max(axis=1, keepdims=True)
        wrong, below, above = wrong & first, np.where(first, below, 0.0), np.where(first, above, 0.0)
    new = np.where(wrong, 0, now + (below > 0) - (above > 0)).astype(np.int8)
    new = _with_free_class(new, low, high, x, changeable)
    out = state.copy()
    out[at] = new
    return out, not np.array_equal(out, state)


def _with_free_class(state: State, low: FloatArray, high: FloatArray, x: FloatArray, changeable: BoolArray) -> State:
    """Release one bound of each group that has no free class, because the rates need not sum to 1 then.

    If they sum to less, a lower bound is released, and otherwise an upper one: that with the smallest multiplier.
    """
    full = np.flatnonzero((state != 0).all(axis=1))
    if not full.size:
        return state
    one = state[full]
    short = np.where(one > 0, low[full], high[full]).sum(axis=1, keepdims=True) < 1.0
    size = np.where(changeable[full], np.abs(x[full]), np.inf)
    size = np.where((one > 0) == short, size, 1e200 + size)
    state[full, size.argmin(axis=1)] = 0
    return state
