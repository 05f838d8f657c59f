"""The labels on which an adjustment does worst: a linear program, with proofs in both directions.

With ``r_ij`` the loss of prediction i on label j minus that of the adjusted row, the mean loss falls by
``sum_i w_i <y_i, r_i>`` on labels ``y``. A guarantee is correct if this is at least as large for all rows ``y_i`` of
the simplex whose weighted mean is in the rate set. For every vector ``mu``

    sum_i w_i min_j (r_ij - mu_j)  +  min over t in the rate set of <mu, t>

is a lower bound. So a guarantee is proved by any ``mu`` whose bound is as large, for example by the shift of the
library. Only if that fails, the program is solved.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from fuzzing.formulas import Array
from fuzzing.rate_sets import RateSet

_HIGHS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_CLARABEL = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
MASS = 1e-7
"""Labels of which more than this share falls where the adjusted rows lose infinitely much are possible."""


@dataclass(frozen=True, eq=False)
class Worst:
    """The smallest fall of the loss lies between what is proved for all labels and what some labels reach."""

    proved: float
    reached: float


@dataclass(frozen=True, eq=False)
class Labels:
    """The program.

    Attributes
    ----------
    fall : array of shape (n, k)
        How much the loss falls on each label; -inf where only the adjusted row loses infinitely much.
    allowed : array of bool of shape (n, k)
        Labels that count: their class is possible, and the prediction does not lose infinitely much.
    weights : array of shape (n,)
    rate_set : RateSet
    """

    fall: Array
    allowed: NDArray[np.bool_]
    weights: Array
    rate_set: RateSet

    @classmethod
    def of(cls, before: Array, after: Array, weights: Array, rate_set: RateSet) -> Labels:
        """The program for the losses of predictions and of adjusted rows on each label."""
        used = weights > 0
        before, after = before[used], after[used]
        allowed = np.isfinite(before) & (rate_set.high > 0)
        with np.errstate(invalid="ignore"):
            fall = np.where(allowed, before - after, 0.0)
        return cls(fall, allowed, weights[used], rate_set)

    def proved_by(self, mu: Array) -> float:
        """A lower bound of the fall on all possible labels."""
        mu = np.where(self.rate_set.high > 0, mu, 0.0)
        with np.errstate(invalid="ignore"):
            lowest = np.where(self.allowed, self.fall - mu, np.inf).min(axis=1)
        if not np.isfinite(lowest).all() or not np.isfinite(mu).all():
            return -np.inf
        return float(self.weights @ lowest) + self.rate_set.least(mu)

    def solve(self) -> Worst | None:
        """Bounds of the smallest fall; infinite if no labels are possible, None if the solver failed."""
        lost = self.allowed & np.isneginf(self.fall)
        if lost.any():
            mass = self._least(np.where(lost, -1.0, 0.0), self.allowed)
            if mass is None or mass.reached == np.inf:
                return mass
            if mass.reached < -MASS:
                return Worst(-np.inf, -np.inf)
        return self._least(np.where(lost, 0.0, self.fall), self.allowed & ~lost)

    def _least(self, cost: Array, allowed: NDArray[np.bool_]) -> Worst | None:
        program = Labels(cost, allowed, self.weights, self.rate_set)
        return program._by_simplex() if self.rate_set.is_polytope else program._by_cones()

    def _columns(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return np.nonzero(self.allowed)

    def _by_simplex(self) -> Worst | None:
        n, k = self.fall.shape
        row, column = self._columns()
        m = len(row)
        cost, ones = self.fall[row, column] * self.weights[row], np.ones(m)
        scale = float(np.abs(cost).max()) or 1.0
        in_rows = sparse.csr_matrix((ones, (row, np.arange(m))), shape=(n, m + k))
        mean = sparse.csr_matrix((self.weights[row], (column, np.arange(m))), shape=(k, m))
        matrix = sparse.vstack([in_rows, sparse.hstack([mean, -sparse.eye(k)])])
        bounds = [(0.0, None)] * m + list(zip(self.rate_set.low.tolist(), self.rate_set.high.tolist(), strict=True))
        target = np.concatenate([np.ones(n), np.zeros(k)])
        found = linprog(
            np.concatenate([cost / scale, np.zeros(k)]), A_eq=matrix, b_eq=target, bounds=bounds, options=_HIGHS
        )
        if found.status == 2:
            return Worst(np.inf, np.inf)
        if found.status != 0:
            return None
        return self._bounds(found.x[:m], scale * found.eqlin.marginals[n:])

    def _by_cones(self) -> Worst | None:
        import cvxpy as cp

        n, k = self.fall.shape
        row, column = self._columns()
        m = len(row)
        cost = self.fall[row, column] * self.weights[row]
        scale = float(np.abs(cost).max()) or 1.0
        y, t = cp.Variable(m, nonneg=True), cp.Variable(k, nonneg=True)
        in_rows = sparse.csr_matrix((np.ones(m), (row, np.arange(m))), shape=(n, m))
        mean = sparse.csr_matrix((self.weights[row], (column, np.arange(m))), shape=(k, m))
        linked = mean @ y == t
        constraints = [in_rows @ y == 1, linked, *self.rate_set.constraints(t)]
        problem = cp.Problem(cp.Minimize(cost / scale @ y), constraints)
        if not solved(problem):
            return Worst(np.inf, np.inf) if problem.status == cp.INFEASIBLE else None
        mu = scale * np.asarray(linked.dual_value)
        return self._bounds(y.value, max(mu, -mu, key=self.proved_by))  # the sign depends on the version of CVXPY

    def _bounds(self, y: Array, mu: Array) -> Worst:
        """What the labels of a solver, which may be a little off the rates, and its prices prove."""
        labels = np.zeros(self.fall.shape)
        labels[self.allowed] = np.maximum(y, 0.0)
        labels /= labels.sum(axis=1, keepdims=True)
        missed = self.rate_set.distance(self.weights @ labels)
        reached = float(self.weights @ (labels * self.fall).sum(axis=1))
        return Worst(self.proved_by(mu), reached + 2 * len(mu) * missed * float(np.ptp(mu)))


def solved(problem: Any) -> bool:
    """Solve with Clarabel; whether that succeeded."""
    import cvxpy as cp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CVXPY warns about inaccurate results, which are not used
        try:
            problem.solve(solver="CLARABEL", **_CLARABEL)
        except (cp.SolverError, ValueError):
            return False
    return bool(problem.status == cp.OPTIMAL)


def possible_share(support: NDArray[np.bool_], weights: Array, rate_set: RateSet) -> bool | None:
    """Whether rows with this support can have a mean in the rate set; None if the solver failed."""
    used = weights > 0
    allowed = support[used] & (rate_set.high > 0)
    found = Labels(np.zeros(allowed.shape), allowed, weights[used], rate_set).solve()
    return None if found is None else found.reached < np.inf
