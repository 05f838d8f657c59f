"""Figures about an answer that several checks use."""

from __future__ import annotations

import numpy as np

import baserate as br
from fuzzing.formulas import Array
from fuzzing.problems import Problem
from fuzzing.worst_labels import solved

SLACK = 1e-12
"""Rounding that a guarantee may have, relative to 1 plus the mean of the largest loss of each row.

Of 1200 cases, correct guarantees were above the worst labels by up to 5e-14 in this unit, and wrong ones by 2e-8 or
more. The library also reports 0 for what it computes as down to -1e-12.
"""


def rows_of(result: br.Adjustment) -> Array:
    """The adjusted rows as they were returned, for computations in float64."""
    return np.asarray(result.probs, dtype=np.float64)


def rounding_of_rows(result: br.Adjustment) -> float:
    """How far float32 may be from the number that was rounded to it; 0 for float64."""
    largest = float(np.abs(result.probs).max())
    return 6e-8 * max(1.0, largest) if result.probs.dtype == np.float32 else 0.0


def rounding_of_losses(problem: Problem, after: Array) -> float:
    """What rounding may change of a mean loss."""
    possible = np.isfinite(problem.scores) & np.isfinite(after) & (problem.rate_set.high > 0)
    size = np.where(possible, np.abs(np.where(possible, problem.scores, 0.0)) + np.abs(np.where(possible, after, 0)), 0)
    return SLACK * (1.0 + float(problem.weights @ size.max(axis=1)))


def mean_divergence(problem: Problem, a: Array) -> float:
    """The objective."""
    used = problem.weights > 0
    return float(problem.weights[used] @ problem.formula.divergence(problem.predictions[used], a[used]))


def optimum(problem: Problem) -> float | None:
    """The smallest objective by CVXPY; None if it has no accurate answer."""
    import cvxpy as cp

    p, known, model = problem.predictions, problem.rate_set, problem.formula.model
    assert model is not None
    n, k = p.shape
    a, rows, constraints = cp.Variable((n, k)), [], []
    for i in range(n):
        seen = np.flatnonzero(p[i] > 0) if problem.formula.pins_zeros else np.arange(k)
        rows.append(problem.weights[i] * model(a[i, seen], p[i, seen]))
        constraints += [a[i, j] == 0 for j in np.setdiff1d(np.arange(k), seen)]
    mean = problem.weights @ a
    constraints += [cp.sum(a, axis=1) == 1, *([a >= 0] if problem.bounded else [])]
    constraints += [mean == known.low] if known.is_point else known.constraints(mean)
    answer = cp.Problem(cp.Minimize(cp.sum(rows)), constraints)
    if not solved(answer):
        return None
    found = np.maximum(a.value, 0.0) if problem.bounded else np.asarray(a.value)
    if problem.formula.pins_zeros:
        found = np.where(p > 0, found, 0.0)
    missed = max(known.distance(problem.weights @ found), float(np.abs(found.sum(axis=1) - 1.0).max()))
    return mean_divergence(problem, found) if missed < 1e-8 else None
