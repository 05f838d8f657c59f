"""Comparison of this package with the paper's implementation on a random sample of the tasks.

The paper solves each adjustment as a convex program with CVXPY. The comparison checks that the answers agree and
measures how long both take.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baserate.errors import BadOption
from baserate.progress import Progress
from baserate.study.runs import PredictionSet
from baserate.study.tasks import ADJUSTERS, Task, make_task, shifted_set
from baserate.support.arrays import FloatArray

PAPERS_SOLVERS = {"brier": ("OSQP",), "log": ("ECOS", "SCS")}
"""The paper's solvers for each loss; the second is used if the first fails."""

# The paper's solvers are correct to only three to six digits, so a more precise solver checks our answers.
_PRECISE_SOLVER = {
    "solver": "CLARABEL",
    **dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12),
    "tol_ktratio": 1e-9,
}


@dataclass(frozen=True)
class Comparison:
    """Results of the comparison.

    PPA is prior probability adjustment, BGA is bounded general adjustment.

    Attributes
    ----------
    tasks : int
        Number of tasks in the sample.
    ppa_difference : float
        Largest difference between our PPA probabilities and the formula of Saerens, Latinne and Decaestecker.
    brier_checked, log_checked : int
        Number of tasks for which a precise CVXPY solver reported an optimal solution.
    brier_difference, log_difference : float
        Largest difference between our BGA probabilities and those solutions.
    largest_gap : float
        Largest duality gap of our answers.
    seconds : float
        Mean time of our BGA for both losses, per task.
    papers_seconds : float
        Mean time of the paper's implementation for both losses, per task.
    papers_residual : float
        Largest error of a class rate in the answers of the paper's implementation.
    papers_failures : int
        Number of problems in which the first of the paper's solvers failed.
    """

    tasks: int
    ppa_difference: float
    brier_checked: int
    log_checked: int
    brier_difference: float
    log_difference: float
    largest_gap: float
    seconds: float
    papers_seconds: float
    papers_residual: float
    papers_failures: int


def cvxpy_answer(p: FloatArray, rates: FloatArray, loss: str, **options: Any) -> tuple[FloatArray, bool]:
    """Solve bounded adjustment as a convex program with CVXPY.

    Returns the adjusted probabilities, and whether the solver reports that they are optimal.
    """
    cp: Any = importlib.import_module("cvxpy")  # not an import statement: its type annotations are incomplete
    a = cp.Variable(p.shape)
    divergence = cp.sum(cp.kl_div(a, p)) if loss == "log" else cp.sum_squares(a - p)
    constraints = [cp.sum(a, axis=1) == 1, cp.sum(a, axis=0) / len(p) == rates, a >= 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CVXPY warns of deprecated solvers and inaccurate answers
        problem = cp.Problem(cp.Minimize(divergence), constraints)
        problem.solve(**options)
    if a.value is None:
        raise cp.error.SolverError(f"CVXPY found no solution with {options}")
    return np.asarray(a.value), problem.status == cp.OPTIMAL


def saerens(p: FloatArray, old: FloatArray, new: FloatArray) -> FloatArray:
    """PPA by equation 2.4 of Saerens, Latinne and Decaestecker (2002), https://doi.org/10.1162/089976602753284446."""
    weighted = [[new[j] / old[j] * p[i, j] for j in range(len(new))] for i in range(len(p))]
    return np.array([[value / sum(row) for value in row] for row in weighted])


def possible_tasks(results: Any) -> Any:
    """Set, shift and error of the tasks that every adjuster could solve."""
    possible = results.groupby(["set", "shift", "error"], sort=False)["impossible"].count() == 0
    return possible[possible].reset_index()[["set", "shift", "error"]]


def sample_tasks(results: Any, sets: Mapping[str, PredictionSet], seed: int, size: int) -> list[Task]:
    """Recreate a random sample of the tasks in the results."""
    names = possible_tasks(results)
    rng = np.random.default_rng(seed)
    chosen = names.iloc[np.sort(rng.choice(len(names), min(size, len(names)), replace=False))]
    return [
        make_task(shifted_set(sets[name], kind, seed), error) for name, kind, error in chosen.itertuples(index=False)
    ]


def compare(tasks: Sequence[Task], progress: Progress) -> Comparison:
    """Solve the tasks with this package and with the paper's solvers, one after the other on one core."""
    if not tasks:
        raise BadOption("there are no tasks to compare")
    ADJUSTERS["bga-log"](tasks[0])  # do the imports now, so that they are not timed
    rows = []
    progress.begin("solving with CVXPY", len(tasks))
    for task in tasks:
        rows.append(_compare_task(task))
        progress.rows(1)
    worst = {name: float(np.nanmax([row[name] for row in rows])) for name in rows[0]}
    total = {name: sum(row[name] for row in rows) for name in rows[0]}
    return Comparison(
        tasks=len(rows),
        ppa_difference=worst["ppa_difference"],
        brier_checked=int(total["brier_checked"]),
        log_checked=int(total["log_checked"]),
        brier_difference=worst["brier_difference"],
        log_difference=worst["log_difference"],
        largest_gap=worst["gap"],
        seconds=total["seconds"] / len(rows),
        papers_seconds=total["papers_seconds"] / len(rows),
        papers_residual=worst["papers_residual"],
        papers_failures=int(total["papers_failures"]),
    )


def _compare_task(task: Task) -> dict[str, float]:
    p, rates = task.shifted.probs, task.stated
    ppa = ADJUSTERS["ppa"](task).probs
    row = {"ppa_difference": float(np.abs(ppa - saerens(p, task.shifted.training_rates, rates)).max())}
    row |= dict.fromkeys(("gap", "seconds", "papers_seconds", "papers_residual", "papers_failures"), 0.0)
    for loss in PAPERS_SOLVERS:
        start = time.perf_counter()
        ours = ADJUSTERS[f"bga-{loss}"](task)
        row["seconds"] += time.perf_counter() - start
        row["gap"] = max(row["gap"], ours.certificate.gap)
        exact = _solve_precisely(p, rates, loss)
        row[f"{loss}_checked"] = exact is not None
        row[f"{loss}_difference"] = 0.0 if exact is None else float(np.abs(ours.probs - exact).max())
        start = time.perf_counter()
        theirs, failures = _solve_as_in_the_paper(p, rates, loss)
        row["papers_seconds"] += time.perf_counter() - start
        row["papers_failures"] += failures > 0
        row["papers_residual"] = max(row["papers_residual"], float(np.abs(theirs.mean(axis=0) - rates).max()))
    return row


def _solve_precisely(p: FloatArray, rates: FloatArray, loss: str) -> FloatArray | None:
    """The solution of a precise solver, or None if it does not report an optimal solution."""
    from cvxpy.error import SolverError

    try:
        answer, is_optimal = cvxpy_answer(p, rates, loss, **_PRECISE_SOLVER)
    except SolverError:
        return None
    return answer if is_optimal else None


def _solve_as_in_the_paper(p: FloatArray, rates: FloatArray, loss: str) -> tuple[FloatArray, int]:
    """The solution of the first of the paper's solvers that succeeds, and how many failed before it."""
    from cvxpy.error import SolverError

    for failures, solver in enumerate(PAPERS_SOLVERS[loss]):
        try:
            return cvxpy_answer(p, rates, loss, solver=solver)[0], failures
        except SolverError:
            continue
    return np.full_like(p, np.nan), len(PAPERS_SOLVERS[loss])
