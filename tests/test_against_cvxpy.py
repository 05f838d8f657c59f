"""Results agree with CVXPY, which the paper uses as solver, on several hundred small problems."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from support import KERNEL_LOSSES, Array, kernel_setting, loss_id, number_of_cases

import baserate as br
from baserate.losses import Loss

N_PROBLEMS = number_of_cases(60)
N_SETS = number_of_cases(48)

Divergence = Callable[[cp.Variable, Array], cp.Expression]
Constraints = Callable[[Any], list[Any]]


def _power(beta: float) -> Divergence:
    def divergence(a: cp.Variable, p: Array) -> cp.Expression:
        slope = (beta * p ** (beta - 1) - 1) / (beta - 1)
        constant = (p**beta - p).sum() / (beta - 1) - (slope * p).sum()
        return (cp.sum(cp.power(a, beta)) - cp.sum(a)) / (beta - 1) - cp.sum(cp.multiply(slope, a)) - constant

    return divergence


def _quadratic(matrix: Array) -> Divergence:
    root = np.linalg.cholesky(matrix)
    return lambda a, p: cp.sum_squares((a - p) @ root)


MATRIX = np.array([[2.0, 0.7, -0.3], [0.7, 1.0, 0.2], [-0.3, 0.2, 1.5]])
RANKED = br.losses.RankedProbability.matrix(3) + 0.5  # the constant makes it definite; the divergence is the same

SCS: tuple[str, dict[str, Any]] = ("SCS", {"eps": 1e-9, "max_iters": 200_000})
CLARABEL: list[tuple[str, dict[str, Any]]] = [
    ("CLARABEL", {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}),
    ("CLARABEL", {}),
    SCS,
]

# The loss, the same loss as a CVXPY expression, solvers with their options, and the accuracy of these solvers.
# For log loss and Brier score these are the paper's solvers. A later solver is used if those before it fail.
CASES: list[tuple[Loss, Divergence, list[tuple[str, dict[str, Any]]], float]] = [
    (
        br.losses.Brier(),
        lambda a, p: cp.sum_squares(a - p),
        [("OSQP", {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iter": 100_000, "polishing": True})],
        1e-6,
    ),
    (
        br.losses.Log(),
        lambda a, p: cp.sum(cp.kl_div(a, p)),
        [("ECOS", {"abstol": 1e-10, "reltol": 1e-10, "feastol": 1e-10}), SCS],
        1e-4,
    ),
    (
        br.losses.Spherical(),
        lambda a, p: cp.sum(cp.norm(a, axis=1)) - cp.sum(cp.multiply(p / np.linalg.norm(p, axis=1, keepdims=True), a)),
        CLARABEL,
        1e-4,
    ),
    (br.losses.Power(1.5), _power(1.5), CLARABEL, 1e-3),
    (br.losses.Power(0.5), _power(0.5), CLARABEL, 1e-3),
    (br.losses.Power(3), _power(3), CLARABEL, 1e-2),
    (br.losses.Quadratic(MATRIX), _quadratic(MATRIX), CLARABEL, 1e-4),
    (br.losses.RankedProbability(), _quadratic(RANKED), CLARABEL, 1e-4),
    (br.losses.WeightedBrier([0.5, 1, 4]), _quadratic(np.diag([0.5, 1, 4])), CLARABEL, 1e-4),
]


def exactly(rates: Array) -> Constraints:
    """The constraint that the mean equals the rates."""
    return lambda mean: [mean == rates]


def reference(
    p: Array, allowed: Constraints, divergence: Divergence, solvers: list[tuple[str, dict[str, Any]]], bounded: bool
) -> Array:
    """The adjusted predictions by CVXPY, from the first solver that succeeds."""
    a = cp.Variable(p.shape)
    constraints = [cp.sum(a, axis=1) == 1, *allowed(cp.sum(a, axis=0) / len(p))]
    constraints += [a >= 0] if bounded else []
    problem = cp.Problem(cp.Minimize(divergence(a, p)), constraints)
    for name, options in solvers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CVXPY warns about deprecated solvers and inaccurate results
            try:
                problem.solve(solver=name, warm_start=False, **options)
            except cp.SolverError:
                continue
        if problem.status == cp.OPTIMAL:
            return np.asarray(a.value)
    pytest.fail(f"no reference solver succeeded: {problem.status}")


def random_problem(seed: int) -> tuple[Array, Array]:
    """Predictions and rates, none of them 0."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 13))
    p = rng.dirichlet(np.full(3, rng.choice([0.5, 1.0, 4.0])), size=n) * 0.999 + 0.001 / 3
    return p, rng.dirichlet(np.full(3, rng.choice([0.7, 3.0]))) * 0.99 + 0.01 / 3


def adjust_by_all_passes(p: Array, rates: Any, loss: Loss, *, bounded: bool = True) -> dict[str, Array]:
    """The adjusted predictions by NumPy and, if the loss has them, by compiled kernels."""
    settings = ["off", "always"] if bounded and loss in KERNEL_LOSSES else ["off"]
    found = {}
    for setting in settings:
        with kernel_setting(setting):
            result = br.adjust(p, rates, loss=loss, bounded=bounded)
        found[result.engine] = result.probs
    assert len(found) == len(settings)
    return found


@pytest.mark.parametrize(("loss", "divergence", "solvers", "accuracy"), CASES, ids=loss_id)
def test_bounded_adjustment_agrees_with_cvxpy(
    loss: Loss, divergence: Divergence, solvers: list[tuple[str, dict[str, Any]]], accuracy: float
) -> None:
    for seed in range(N_PROBLEMS):
        p, rates = random_problem(seed)
        theirs = reference(p, exactly(rates), divergence, solvers, bounded=True)
        for engine, ours in adjust_by_all_passes(p, rates, loss).items():
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=accuracy, err_msg=f"{engine}, seed {seed}")
            assert_not_worse(loss, p, ours, np.maximum(theirs, 0))


@pytest.mark.parametrize(
    ("loss", "divergence", "solvers", "accuracy"),
    [case for case in CASES if case[0].domain == br.losses.REAL],
    ids=loss_id,
)
def test_unbounded_adjustment_agrees_with_cvxpy(
    loss: Loss, divergence: Divergence, solvers: list[tuple[str, dict[str, Any]]], accuracy: float
) -> None:
    for seed in range(N_PROBLEMS):
        p, rates = random_problem(1000 + seed)
        ours = br.adjust(p, rates, loss=loss, bounded=False)
        theirs = reference(p, exactly(rates), divergence, solvers, bounded=False)
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(ours.probs, theirs, rtol=0, atol=accuracy * scale, err_msg=f"seed {seed}")
        assert_not_worse(loss, p, ours.probs, theirs)


def random_set(seed: int) -> tuple[br.Rates, Constraints]:
    """A rate set, and the same set as constraints of CVXPY."""
    rng = np.random.default_rng(seed)
    centre = rng.dirichlet(np.full(3, 2.0)) * 0.9 + 0.1 / 3
    low, high = np.maximum(centre - rng.uniform(0, 0.15, 3), 0), np.minimum(centre + rng.uniform(0, 0.15, 3), 1)
    if seed % 4 == 0:
        return br.Rates.between(low, high), lambda mean: [mean >= low, mean <= high]
    if seed % 4 == 1:
        one = br.Rates.between([low[0], None, None], [high[0], None, None])
        return one, lambda mean: [mean[0] >= low[0], mean[0] <= high[0], mean >= 0]
    radius = float(rng.uniform(0.01, 0.2))
    metric, root = ("euclidean", np.ones(3)) if seed % 4 == 2 else ("chi2", 1 / np.sqrt(centre))
    ball = br.Rates.near(centre, radius, metric=metric)
    return ball, lambda mean: [cp.norm(cp.multiply(mean - centre, root)) <= radius, mean >= 0]


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize(("loss", "divergence", "solvers", "accuracy"), CASES, ids=loss_id)
def test_adjustment_to_rate_sets_agrees_with_cvxpy(
    loss: Loss, divergence: Divergence, solvers: list[tuple[str, dict[str, Any]]], accuracy: float, bounded: bool
) -> None:
    if not bounded and loss.domain != br.losses.REAL:
        pytest.skip("for this loss the unbounded problem is the same as the bounded one")
    # Balls need a cone solver. On their curved boundary, an objective accurate to e gives rows accurate to sqrt(e).
    cone = solvers if solvers[0][0] != "OSQP" else CLARABEL
    for seed in range(N_SETS):
        p, _ = random_problem(2000 + seed)
        known, allowed = random_set(seed)
        if isinstance(loss, br.losses.Spherical) and not bounded:
            p = 0.8 * p + 0.2 / 3  # see docs/theory.md on unbounded spherical adjustment
        theirs = reference(p, allowed, divergence, cone, bounded=bounded)
        atol = (accuracy if known.kind == "between" else max(accuracy, 1e-4)) * max(np.abs(theirs).max(), 1)
        for engine, ours in adjust_by_all_passes(p, known, loss, bounded=bounded).items():
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol, err_msg=f"{engine}, seed {seed}")
            assert_not_worse(loss, p, ours, np.maximum(theirs, 0) if bounded else theirs)


def assert_not_worse(loss: Loss, p: Array, ours: Array, theirs: Array) -> None:
    """Check that our objective is at most theirs, plus what they gain by violating the constraints slightly."""
    objective, other = float(loss.divergence(p, ours).mean()), float(loss.divergence(p, theirs).mean())
    missed = np.abs(theirs.sum(axis=1) - 1).max() + np.abs(theirs.mean(axis=0) - ours.mean(axis=0)).max()
    slope = np.abs(loss.gradient(ours.clip(1e-12)) - loss.gradient(p)).max()
    assert objective <= other + 10 * slope * missed + 1e-12
