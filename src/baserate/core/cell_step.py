"""Newton's step within the rate sets of many groups: the maximum of a quadratic model plus their support functions.

The model lives on cells, so no pass over the data is needed. For boxes the step is the solution of a quadratic program.
Block pivoting finds which bounds are active, in all groups at the same time; see also
:mod:`baserate.core.rate_set_step`, which does this for one group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.core.cell_dual import CellPoint
from baserate.core.cell_system import CellSystem
from baserate.core.group_sets import GroupSets, margins
from baserate.support.arrays import BoolArray, FloatArray

_ROUNDS = 40
_ALL_AT_ONCE = 10  # After so many rounds, each group changes one bound at a time, which ends cycles.

State = NDArray[np.int8]
"""For each group and class: +1 if its lower bound is active, -1 if its upper bound is active, 0 if it is free."""


class CellStep(NamedTuple):
    """The shifts to which the model leads, the step, and the product of the undamped curvature with the step."""

    shifts: FloatArray
    step: FloatArray
    bend: FloatArray


def newton_step(point: CellPoint, damping: FloatArray, moving: BoolArray, accuracy: float) -> CellStep:
    """The shifts at which the quadratic model of a point has its maximum.

    Parameters
    ----------
    point : CellPoint
    damping : array of shape (G, k, k)
        Added to the curvature of each group.
    moving : bool array of shape (G,)
        The groups whose shifts may change.
    accuracy : float
        How accurately linear systems are solved.
    """
    system = CellSystem(point.groups, point.curvature, damping)
    variables = point.groups.free & moving[:, None]
    sets = point.groups.sets
    state = first_state(sets, point.shifts)
    step = np.zeros_like(point.shifts)
    for number in range(_ROUNDS):
        step = _step_for_state(system, point, variables, state, accuracy)
        rates = _rates(system, point, step)
        state, changed = _next_state(sets, variables, state, point.shifts + step, rates, one=number >= _ALL_AT_ONCE)
        if not changed:
            break
    bend = system.multiply(step) - np.einsum("gij,gj->gi", damping, step)
    return CellStep(point.shifts + step, step, bend)


def first_state(sets: GroupSets, shifts: FloatArray) -> State:
    """The bounds that the present shifts support. Exact rates are always bound."""
    state = np.ones(shifts.shape, dtype=np.int8)
    if len(sets.boxes):
        at = sets.boxes
        guess = np.sign(shifts[at] - margins(sets.low[at], sets.high[at], shifts[at])[:, None]).astype(np.int8)
        state[at] = np.where(sets.fixed[at], np.int8(1), guess)
    return state


def _step_for_state(
    system: CellSystem, point: CellPoint, variables: BoolArray, state: State, accuracy: float
) -> FloatArray:
    """The step to the maximum of the model if exactly these bounds are active. Free classes get shift 0."""
    sets = point.groups.sets
    step = np.where(variables & (state == 0), -point.shifts, 0.0)
    wanted = np.where(state > 0, sets.low, sets.high)
    missing = point.weight[:, None] * wanted - point.group_mean
    if step.any():
        missing = missing - system.multiply(step)
    return step + system.solve(missing, variables & (state != 0), accuracy)


def _rates(system: CellSystem, point: CellPoint, step: FloatArray) -> FloatArray:
    """The rates of each group that the model predicts after a step."""
    weight = np.where(point.weight > 0, point.weight, 1.0)[:, None]
    return np.asarray((point.group_mean + system.multiply(step)) / weight)


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
    # Without a free class the rates need not sum to 1, so that the least violated one stays free.
    full = (new != 0).all(axis=1)
    if full.any():
        violation = np.where((now == 0) & changeable, below + above, np.inf)
        new[full, violation[full].argmin(axis=1)] = 0
    out = state.copy()
    out[at] = new
    return out, True
