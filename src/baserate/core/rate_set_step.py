"""Newton's step within a rate set: the maximum of a quadratic model plus the support function of the set.

The model has only k variables, so no pass over the data is needed. For a box the step is the solution of a quadratic
program; pivoting finds which bounds are active. On the sphere of a ball the support function is smooth, so its own
curvature is added to the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from baserate.core.products import DampedSystem
from baserate.rates.boxes import Box
from baserate.rates.sets import RateSet
from baserate.support.arrays import BoolArray, FloatArray

_PIVOTING_ROUNDS = 12  # 2 to 5 are usual
_ACTIVE_SET_STEPS = 12  # per class
_LEAST_CURVATURE = 1e-300  # Of a class, by which equations are scaled; its inverse is a finite number.

State = NDArray[np.int8]
"""For each class: +1 if its lower bound is active, -1 if its upper bound is active, 0 if it is free."""


def newton(rate_set: RateSet, matrix: FloatArray | DampedSystem, mean: FloatArray, shift: FloatArray) -> FloatArray:
    """The shift at which a quadratic model of the dual function has its maximum.

    Maximises ``<-mean, x - shift> - 1/2 <x - shift, matrix (x - shift)> + h(x)`` over shifts x, where h is the support
    function of the rate set. Equivalently, ``t = mean + matrix (x - shift)`` are the rates of the set with the least
    ``<x, t>``. For a ball h is replaced by its own second-order model.

    Returns
    -------
    array of shape (k,)
        The new shift x, not the step. Classes between their bounds get exactly the same shift. A singular matrix may
        give entries that are not finite, or too large to be useful; the caller then adds damping.
    """
    if rate_set.is_point:
        return np.asarray(shift + solve_centred(matrix, rate_set.low - mean))
    region = rate_set.region
    if not region.is_curved or (region.is_cut and rate_set.limits.fixed.any()):  # the bounds may be all that matters
        x = _BoxStep(rate_set.limits, matrix, mean, shift).by_block_pivoting()
        if not region.is_curved or region.distance(mean + matrix @ (x - shift)) <= region.radius:
            return x
    assert isinstance(matrix, np.ndarray)  # see ``curvature_choice.many_classes``
    return _curved_step(rate_set, matrix, mean, shift)


def _curved_step(rate_set: RateSet, matrix: FloatArray, mean: FloatArray, shift: FloatArray) -> FloatArray:
    """The new shift for a set with a curved boundary.

    The curvature of the support function is added to the model, so that a very small ball behaves like a point. The
    support function has one kink, where all classes have the same shift. From there the step is along the normal of
    the region at the member near the mean.
    """
    rates = rate_set.support(shift, mean)
    if np.ptp(shift) > 0:
        return np.asarray(shift + solve_centred(matrix + rate_set.support_curvature(shift, rates), rates - mean))
    normal = rate_set.region.normal(rates - mean)
    curvature = float(normal @ matrix @ normal)
    length = float(normal @ (rates - mean)) / curvature if curvature > 0 else 0.0
    return np.asarray(shift + length * normal)


@dataclass(frozen=True, eq=False)
class _BoxStep:
    """The quadratic program for a box; see :func:`newton`."""

    box: Box
    matrix: FloatArray | DampedSystem
    mean: FloatArray
    shift: FloatArray

    def by_block_pivoting(self) -> FloatArray:
        """The new shift, by block principal pivoting (Judice and Pires 1994).

        Each round activates all violated bounds and releases all bounds whose multiplier has the wrong sign. This
        usually ends after 2 to 5 rounds, but it may cycle; then the active-set method takes over.
        """
        guess = np.sign(self.shift - self.box.margin(self.shift)).astype(np.int8)
        state = np.where(self.box.fixed, np.int8(1), guess)
        if state.all():
            return self._one_by_one(state)
        for _ in range(_PIVOTING_ROUNDS):
            x, t = self._solve_for_state(state)
            wrong, below, above = self._wrong_sign(state, x), *self._violations(state, t)
            if not (wrong | (below > 0) | (above > 0)).any():
                return x
            nearest = int(np.argmin(np.where(state == 0, below + above, np.inf)))
            state = np.where(wrong, 0, state + (below > 0) - (above > 0)).astype(np.int8)
            if state.all():  # without a free class the rates need not sum to 1
                state[nearest] = 0
        return self._one_by_one(state)

    def _solve_for_state(self, state: State) -> tuple[FloatArray, FloatArray]:
        """The maximum of the model, and its rates, if exactly these bounds are active. Some class must be free."""
        free, bound = state == 0, state != 0
        t = np.where(state > 0, self.box.low, self.box.high)
        x = np.where(free, self.shift[free][0], self.shift)
        step = x - self.shift
        missing = (t - self.mean - self.matrix @ step)[bound]
        step[bound] = self._solve_on(bound, missing)
        x[bound] += step[bound]
        t[free] = (self.mean + self.matrix @ step)[free]
        return x, t

    def _wrong_sign(self, state: State, x: FloatArray) -> BoolArray:
        """Active bounds whose multiplier has the wrong sign."""
        return np.asarray((state * (x - x[state == 0][0]) < 0) & ~self.box.fixed)

    def _violations(self, state: State, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How far free classes lie below their lower and above their upper bounds; 0 if it may be rounding."""
        free, rounding = state == 0, 1e-13 * self.box.high + 1e-300
        below, above = self.box.low - t, t - self.box.high
        return np.where(free & (below > rounding), below, 0.0), np.where(free & (above > rounding), above, 0.0)

    def _one_by_one(self, state: State) -> FloatArray:
        """The new shift, by a dual active-set method (Goldfarb and Idnani 1983).

        It cycles only by rounding, if the matrix is nearly singular. Then it stops, and the caller adds damping.
        """
        state = np.where(self.box.fixed, np.int8(1), 0 if state.all() else state).astype(np.int8)
        x, t = self._solve_for_state(state)
        while (wrong := self._wrong_sign(state, x)).any():
            state[wrong] = 0
            x, t = self._solve_for_state(state)
        seen: set[bytes] = set()
        for _ in range(_ACTIVE_SET_STEPS * len(x)):
            below, above = self._violations(state, t)
            if not (below + above).any() or state.tobytes() in seen:
                break
            seen.add(state.tobytes())
            j = int(np.argmax(below + above))
            if not self._bind(state, j, 1 if below[j] > 0 else -1, x - x[state == 0][0], t):
                break
            x, t = self._solve_for_state(state)
        return x

    def _bind(self, state: State, j: int, side: int, multiplier: FloatArray, t: FloatArray) -> bool:
        """Activate a violated bound, and release others if needed. Changes ``state``; returns whether it was possible.

        ``side`` is 1 for the lower bound of class ``j`` and -1 for its upper bound.
        """
        box, matrix = self.box, self.matrix
        while state[j] == 0:
            bound = state != 0
            # Increase the multiplier of the violated bound. Those of the active bounds follow to keep their rates.
            direction = np.zeros_like(multiplier)
            direction[j] = side
            column = self._column(j)
            direction[bound] = self._solve_on(bound, -side * column[bound])
            slope = side * float(column @ direction)
            violation = max(float(box.low[j] - t[j] if side > 0 else t[j] - box.high[j]), 0.0)
            others_free = bool((state == 0).sum() > 1)
            full = violation / slope if others_free and slope > 1e-14 * column[j] else np.inf
            shrinking = bound & ~box.fixed & (state * direction < 0)
            until_zero = np.divide(-multiplier, direction, out=np.full_like(multiplier, np.inf), where=shrinking)
            first = int(np.argmin(until_zero))
            length = min(full, max(float(until_zero[first]), 0.0))
            if not np.isfinite(length):
                return False
            multiplier, t = multiplier + length * direction, t + length * (matrix @ direction)
            if length == full:
                state[j] = side
            else:
                state[first], multiplier[first] = 0, 0.0
        return True

    def _column(self, j: int) -> FloatArray:
        if isinstance(self.matrix, DampedSystem):
            return self.matrix @ (np.arange(len(self.mean)) == j).astype(np.float64)
        return np.asarray(self.matrix[:, j])

    def _solve_on(self, bound: BoolArray, right: FloatArray) -> FloatArray:
        """Solve with the rows and columns of the bound classes."""
        if isinstance(self.matrix, DampedSystem):
            return self.matrix.solve_part(bound, right)
        matrix = self.matrix[np.ix_(bound, bound)]
        scale = np.sqrt(np.maximum(np.diag(matrix), _LEAST_CURVATURE))
        return np.asarray(_solve(matrix / scale / scale[:, None], right / scale) / scale)


def solve_centred(matrix: FloatArray | DampedSystem, gradient: FloatArray) -> FloatArray:
    """Solve ``matrix @ step = gradient`` for a matrix with zero row sums and a gradient that sums to 0."""
    if isinstance(matrix, DampedSystem):
        return matrix.solve(gradient).x
    scale = np.sqrt(np.maximum(matrix.diagonal(), _LEAST_CURVATURE))
    # Adding curvature along the all-ones direction makes the matrix regular and does not change the other directions.
    ones = scale / math.sqrt(scale @ scale)
    lifted = matrix / (scale * scale[:, None]) + ones * ones[:, None]
    return np.asarray(_solve(lifted, gradient / scale) / scale)


def _solve(matrix: FloatArray, right: FloatArray) -> FloatArray:
    try:
        return cast(FloatArray, np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return np.full_like(right, np.nan)  # not an exception: the caller sees NaN and adds damping
