"""Newton's step with a region of rates: the maximum of a quadratic model plus the region's support function.

Both live on k numbers, so the data are not touched. In the dual variables of the model this is a quadratic program over
the region; which bounds of a box bind is found by pivoting. On the sphere of a ball the support function is smooth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from baserate.rates.sets import Ball, RateSet
from baserate.support.arrays import BoolArray, FloatArray

_PIVOTING_ROUNDS = 12  # 2 to 5 are usual
_ACTIVE_SET_STEPS = 12  # per class

State = NDArray[np.int8]
"""Of each class: +1 at its lower bound, -1 at its upper, 0 free between them."""


def newton(region: RateSet, matrix: FloatArray, mean: FloatArray, shift: FloatArray) -> FloatArray:
    """Where a quadratic model of the dual function has its maximum.

    Maximises ``<-mean, x - shift> - 1/2 <x - shift, matrix (x - shift)> + h(x)`` over shifts x, with h the support
    function of the region. Equivalently ``t = mean + matrix (x - shift)`` are rates of the region that x supports.

    Returns
    -------
    array of shape (k,)
        The new shift x, not a step: free classes have exactly the same shift. Not finite where the model is degenerate.
    """
    if region.is_point:
        return np.asarray(shift + solve_centred(matrix, region.low - mean))
    if region.ball is not None:
        return _near_sphere(region, region.ball, matrix, mean, shift)
    return _Model(region, matrix, mean, shift).in_box()


def _near_sphere(region: RateSet, ball: Ball, matrix: FloatArray, mean: FloatArray, shift: FloatArray) -> FloatArray:
    """The new shift for a ball. On its sphere h is smooth, so its own curvature joins the model.

    A ball that shrinks thus becomes a point without fuss. The one kink is where all classes have the same shift; from
    there the way leads along the normal of the ball at its point nearest to the mean.
    """
    rates = region.support(shift, mean)
    if np.ptp(shift) > 0:
        return np.asarray(shift + solve_centred(matrix + region.support_curvature(shift, rates), rates - mean))
    normal = ball.scale * (rates - mean)
    flat = float(normal @ matrix @ normal)
    return np.asarray(shift + (float(normal @ (rates - mean)) / flat if flat > 0 else 0.0) * normal)


@dataclass(frozen=True, eq=False)
class _Model:
    region: RateSet
    matrix: FloatArray
    mean: FloatArray
    shift: FloatArray

    def in_box(self) -> FloatArray:
        """The new shift.

        All bounds that are violated bind at once and all that hold the wrong way are released (block principal
        pivoting, Judice and Pires 1994). That takes 2 to 5 rounds, but need not end; then one bound is taken at a time.
        """
        guess = np.sign(self.shift - self.region.margin(self.shift)).astype(np.int8)
        state = np.where(self.region.fixed, np.int8(1), guess)
        for _ in range(_PIVOTING_ROUNDS):
            if state.all():  # then the rates need not sum to 1
                break
            x, t = self._where_bound(state)
            wrong, below, above = self._held_wrong(state, x), *self._violations(state, t)
            if not (wrong | (below > 0) | (above > 0)).any():
                return x
            state = np.where(wrong, 0, state + (below > 0) - (above > 0)).astype(np.int8)
        return self._one_by_one(state)

    def _where_bound(self, state: State) -> tuple[FloatArray, FloatArray]:
        """The maximum of the model if exactly these bounds bind, and its rates; some class must be free."""
        free, bound = state == 0, state != 0
        t = np.where(state > 0, self.region.low, self.region.high)
        x = np.where(free, self.shift[free][0], self.shift)
        step = x - self.shift
        wanted = (t - self.mean - self.matrix @ step)[bound]
        step[bound] = self._solve_on(bound, wanted)
        x[bound] += step[bound]
        t[free] = (self.mean + self.matrix @ step)[free]
        return x, t

    def _held_wrong(self, state: State, x: FloatArray) -> BoolArray:
        """Classes whose bound would have to push the other way."""
        return np.asarray((state * (x - x[state == 0][0]) < 0) & ~self.region.fixed)

    def _violations(self, state: State, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How far free classes lie below their lower and above their upper bounds; 0 where only rounding says so."""
        free, slack = state == 0, 1e-13 * self.region.high + 1e-300
        below, above = self.region.low - t, t - self.region.high
        return np.where(free & (below > slack), below, 0.0), np.where(free & (above > slack), above, 0.0)

    def _one_by_one(self, state: State) -> FloatArray:
        """The same by a dual active-set method (Goldfarb and Idnani 1983), which always ends."""
        state = np.where(self.region.fixed, np.int8(1), 0 if state.all() else state).astype(np.int8)
        x, t = self._where_bound(state)
        while (wrong := self._held_wrong(state, x)).any():
            state[wrong] = 0
            x, t = self._where_bound(state)
        for _ in range(_ACTIVE_SET_STEPS * len(x)):
            below, above = self._violations(state, t)
            if not (below + above).any():
                break
            j = int(np.argmax(below + above))
            if not self._bind(state, j, 1 if below[j] > 0 else -1, x - x[state == 0][0], t):
                break
            x, t = self._where_bound(state)
        return x

    def _bind(self, state: State, j: int, side: int, price: FloatArray, t: FloatArray) -> bool:
        """Let a violated bound bind, in place of others if need be; whether that was possible."""
        region, matrix = self.region, self.matrix
        while state[j] == 0:
            bound = state != 0
            # Raise the price of the violated bound; those of the others follow so that their rates stay.
            along = np.zeros_like(price)
            along[j] = side
            along[bound] = self._solve_on(bound, -side * matrix[bound, j])
            pace = side * float(matrix[j] @ along)
            missing = max(float(region.low[j] - t[j] if side > 0 else t[j] - region.high[j]), 0.0)
            others_free = bool((state == 0).sum() > 1)
            full = missing / pace if others_free and pace > 1e-14 * matrix[j, j] else np.inf
            falls = bound & ~region.fixed & (state * along < 0)
            until = np.divide(-price, along, out=np.full_like(price, np.inf), where=falls)
            first = int(np.argmin(until))
            length = min(full, max(float(until[first]), 0.0))
            if not np.isfinite(length):
                return False
            price, t = price + length * along, t + length * (matrix @ along)
            if length == full:
                state[j] = side
            else:
                state[first], price[first] = 0, 0.0
        return True

    def _solve_on(self, bound: BoolArray, right: FloatArray) -> FloatArray:
        matrix = self.matrix[np.ix_(bound, bound)]
        scale = np.sqrt(np.maximum(np.diag(matrix), 1e-200))
        return np.asarray(_solve(matrix / scale / scale[:, None], right / scale) / scale)


def solve_centred(matrix: FloatArray, gradient: FloatArray) -> FloatArray:
    """Solve ``matrix @ step = gradient`` for a matrix and a gradient that know nothing of the all-ones direction."""
    scale = np.sqrt(np.maximum(np.diag(matrix), 1e-200))
    # Lift the all-ones direction so that the matrix can be factored.
    ones = scale / np.linalg.norm(scale)
    lifted = matrix / scale / scale[:, None] + np.outer(ones, ones)
    return np.asarray(_solve(lifted, gradient / scale) / scale)


def _solve(matrix: FloatArray, right: FloatArray) -> FloatArray:
    try:
        return cast(FloatArray, np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return np.full_like(right, np.nan)  # singular; every comparison fails and more damping is tried
