"""Rates per group agree with CVXPY: one margin, overlapping margins and bounds, for the common losses."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import pytest
from cells_support import Ints, margin, random_rows, rates_by_group, solve
from support import KERNEL_LOSSES, Array, loss_id

import baserate as br
from baserate.losses import Loss

N_PROBLEMS, N_SAMPLED = 20, 4
"""Problems for each loss and kind, in `make stress` and in ordinary tests."""

ROWS, OBJECTIVE = 1e-6, 1e-8

SOLVERS: list[tuple[str, dict[str, Any]]] = [
    *(
        ("CLARABEL", {"tol_gap_abs": tol, "tol_gap_rel": tol, "tol_feas": tol, "tol_ktratio": 1e-9, "max_iter": 500})
        for tol in (1e-13, 1e-11, 1e-9)
    ),
    ("ECOS", {"abstol": 1e-13, "reltol": 1e-13, "feastol": 1e-13}),
]
"""Reference solvers. The tolerances are more than they can always reach, so the best answer of all is taken."""

PENALTY = 100.0
"""Price of a violated constraint, which is more than it can gain."""

Divergence = Callable[[cp.Variable, Array], cp.Expression]


def _power(a: cp.Variable, p: Array) -> cp.Expression:
    slope = 3.0 * np.sqrt(p) - 2.0
    constant = 2.0 * (p**1.5 - p).sum() - (slope * p).sum()
    return 2.0 * (cp.sum(cp.power(a, 1.5)) - cp.sum(a)) - cp.sum(cp.multiply(slope, a)) - constant


def _spherical(a: cp.Variable, p: Array) -> cp.Expression:
    return cp.sum(cp.norm(a, axis=1)) - cp.sum(cp.multiply(p / np.linalg.norm(p, axis=1, keepdims=True), a))


def _ranked(a: cp.Variable, p: Array) -> cp.Expression:
    return cp.sum_squares((a - p) @ np.tri(3).T[:, :-1])


CASES: list[tuple[Loss, Divergence]] = [
    (br.losses.Log(), lambda a, p: cp.sum(cp.kl_div(a, p))),
    (br.losses.Brier(), lambda a, p: cp.sum_squares(a - p)),
    (br.losses.Power(1.5), _power),
    (br.losses.Spherical(), _spherical),
    (br.losses.RankedProbability(), _ranked),
]


class GroupProblem(NamedTuple):
    """Rows, the group of each row in every margin, and the bounds of the rates of each group."""

    p: Array
    groups: list[Ints]
    low: list[Array]
    high: list[Array]

    @classmethod
    def random(cls, kind: str, seed: int) -> GroupProblem:
        """A problem that has a solution, because the tables are around those of some labels."""
        rng = np.random.default_rng([seed, len(kind)])
        n = int(rng.integers(6, 25))
        p = random_rows(rng, n, 3, float(rng.choice([0.5, 1.0, 2.0]))) * 0.99 + 0.01 / 3
        groups = [rng.integers(size, size=n) for size in ((3,) if kind == "one margin" else (3, 2))]
        labels = rng.dirichlet(np.ones(3), size=n)
        low = [rates_by_group(labels, g, int(g.max()) + 1) for g in groups]
        high = list(low)
        if kind == "bounds":  # some rates stay exact
            low = [np.maximum(t - rng.uniform(0, 0.2, t.shape) * (rng.random(t.shape) < 0.8), 0) for t in low]
            high = [np.minimum(t + rng.uniform(0, 0.2, t.shape) * (rng.random(t.shape) < 0.8), 1) for t in high]
        return cls(p, groups, low, high)

    def reference(self, divergence: Divergence) -> Array:
        """The adjusted rows by CVXPY: the best of what several solvers find."""
        a = cp.Variable(self.p.shape)
        constraints = [cp.sum(a, axis=1) == 1, a >= 0]
        for of_row, low, high in zip(self.groups, self.low, self.high, strict=True):
            for g in np.unique(of_row):
                mean = cp.sum(a[of_row == g], axis=0) / (of_row == g).sum()
                constraints += [mean >= low[g], mean <= high[g]] if (low[g] < high[g]).any() else [mean == low[g]]
        problem = cp.Problem(cp.Minimize(divergence(a, self.p)), constraints)
        found = []
        for name, options in SOLVERS:
            with warnings.catch_warnings(), contextlib.suppress(cp.SolverError):
                warnings.simplefilter("ignore")  # CVXPY warns about deprecated solvers and inaccurate results
                problem.solve(solver=name, warm_start=False, **options)
            if problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
                violation = sum(float(np.abs(one.violation()).sum()) for one in constraints)
                found.append((float(problem.value) + PENALTY * violation, np.asarray(a.value)))
        return min(found, key=lambda one: one[0])[1]

    def solved(self, loss: Loss, kernels: str) -> Any:
        """The adjusted rows, and what is guaranteed."""
        exact = all((low == high).all() for low, high in zip(self.low, self.high, strict=True))
        tables = zip(self.low, self.high, strict=True)
        margins = [margin(f"m{i}", low, None if exact else high) for i, (low, high) in enumerate(tables)]
        return solve(self.p, self.groups, margins, loss, kernels=kernels)


def check(loss: Loss, divergence: Divergence, problem: GroupProblem, name: str) -> None:
    theirs = problem.reference(divergence)
    objective = float(loss.divergence(problem.p, np.maximum(theirs, 0)).mean())
    for kernels in ["off", "always"] if loss in KERNEL_LOSSES else ["off"]:
        fit, ours = problem.solved(loss, kernels)
        assert fit.converged, name
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=ROWS, err_msg=f"{name}, kernels {kernels}")
        assert float(loss.divergence(problem.p, ours).mean()) == pytest.approx(objective, abs=OBJECTIVE), name
        assert fit.loss_reduction == pytest.approx(objective, abs=OBJECTIVE), name


@pytest.mark.parametrize("kind", ["one margin", "overlapping margins", "bounds"])
@pytest.mark.parametrize(("loss", "divergence"), CASES, ids=loss_id)
def test_a_sample_of_problems_agrees_with_cvxpy(loss: Loss, divergence: Divergence, kind: str) -> None:
    for seed in range(N_SAMPLED):
        check(loss, divergence, GroupProblem.random(kind, seed), f"{kind}, seed {seed}")


@pytest.mark.stress
@pytest.mark.parametrize("kind", ["one margin", "overlapping margins", "bounds"])
@pytest.mark.parametrize(("loss", "divergence"), CASES, ids=loss_id)
def test_all_problems_agree_with_cvxpy(loss: Loss, divergence: Divergence, kind: str) -> None:
    for seed in range(N_PROBLEMS):
        check(loss, divergence, GroupProblem.random(kind, seed), f"{kind}, seed {seed}")
