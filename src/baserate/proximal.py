"""Newton's step with a region of rates: the maximum of a quadratic model plus the region's support function.

Both live on k numbers, so the data are not touched. In the dual variables of the model this is a quadratic program over
the region; which bounds bind is found by pivoting, and a ball by a search for its multiplier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from baserate.arrays import BoolArray, FloatArray
from baserate.regions import Ball, Region, falling_root

_ROUNDS = 12  # of block pivoting; 2 to 5 are usual

State = NDArray[np.int8]
"""Of each class: +1 at its lower bound, -1 at its upper, 0 free between them."""


def newton(region: Region, matrix: FloatArray, mean: FloatArray, shift: FloatArray) -> FloatArray:
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
    model = _Model(region, matrix, mean, shift)
    x, t = model.in_box(np.sign(shift - region.margin(shift)).astype(np.int8))
    if region.ball is None or region.ball.distance(t) <= region.ball.radius:
        return x
    return model.in_ball(region.ball)


@dataclass(frozen=True, eq=False)
class _Model:
    region: Region
    matrix: FloatArray
    mean: FloatArray
    shift: FloatArray

    def in_box(self, guess: State) -> tuple[FloatArray, FloatArray]:
        """The new shift, and its rates, if there were no ball.

        All bounds that are violated bind at once and all that hold the wrong way are released (block principal
        pivoting, Judice and Pires 1994). That takes 2 to 5 rounds, but need not end; then one bound is taken at a time.
        """
        state = np.where(self.region.fixed, np.int8(1), guess)
        for _ in range(_ROUNDS):
            if state.all():  # then the rates need not sum to 1
                break
            x, t = self._where_bound(state)
            wrong, below, above = self._held_wrong(state, x), *self._violations(state, t)
            if not (wrong | (below > 0) | (above > 0)).any():
                return x, t
            state = np.where(wrong, 0, state + (below > 0) - (above > 0)).astype(np.int8)
        return self._one_by_one(state)

    def in_ball(self, ball: Ball) -> FloatArray:
        """The new shift, if the ball matters: its multiplier nu is searched, what is left is a problem in the box.

        With S = diag(scale), the term nu/2 |t - centre|^2 turns ``matrix`` into ``matrix (1 + nu S matrix)^-1`` and
        ``shift`` into ``shift + nu S (mean - centre)``.
        """
        root = np.sqrt(np.maximum(np.diag(self.matrix), 1e-200))  # rare classes keep their digits in these units
        scaled, weight = self.matrix / root / root[:, None], ball.scale * root**2
        spread = np.sqrt(np.outer(weight, weight))
        size, axes = np.linalg.eigh(scaled * spread)
        size = np.maximum(size, 0.0)
        one, all_free = np.eye(len(root)), np.zeros(len(root), dtype=np.int8)

        def at(log_nu: float) -> tuple[FloatArray, FloatArray]:
            nu = float(np.exp(log_nu))
            if nu * weight.max() < 1e8:
                held = _solve(one + nu * scaled * weight, scaled)
            else:  # the same, where 1 would be lost beside the rest
                half = axes * np.sqrt(size / (1 + nu * size))
                held = half @ half.T / spread
            matrix = (held + held.T) / 2 * root * root[:, None]
            pulled = self.shift + nu * ball.scale * (self.mean - ball.centre)
            y, t = replace(self, matrix=matrix, shift=pulled).in_box(all_free)
            return y - nu * ball.scale * (t - ball.centre), t

        def excess(log_nu: float) -> float:
            return ball.distance(at(log_nu)[1]) - ball.radius

        high = -float(np.log(weight.max()))
        while excess(high) > 0 and high < 400:
            high += 3.0
        low = high - 3.0
        while excess(low) <= 0 and low > -400:
            low, high = low - 3.0, low
        return at(falling_root(excess, low, high))[0]

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

    def _one_by_one(self, state: State) -> tuple[FloatArray, FloatArray]:
        """The same by a dual active-set method (Goldfarb and Idnani 1983), which always ends."""
        state = np.where(self.region.fixed, np.int8(1), 0 if state.all() else state).astype(np.int8)
        x, t = self._where_bound(state)
        while (wrong := self._held_wrong(state, x)).any():
            state[wrong] = 0
            x, t = self._where_bound(state)
        for _ in range(_ROUNDS * len(x)):
            below, above = self._violations(state, t)
            if not (below + above).any():
                break
            j = int(np.argmax(below + above))
            if not self._bind(state, j, 1 if below[j] > 0 else -1, x - x[state == 0][0], t):
                break
            x, t = self._where_bound(state)
        return x, t

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
