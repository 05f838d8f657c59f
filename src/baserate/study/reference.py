"""The paper's way beside ours, on a random sample of the tasks: whether they agree, and what each costs."""

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
from baserate.study.tasks import ADJUSTERS, Task, shifted_set, task
from baserate.support.arrays import FloatArray

PAPERS_SOLVERS = {"brier": ("OSQP",), "log": ("ECOS", "SCS")}
"""What the paper solved with, and with what if that failed."""

_PRECISE = {
    "solver": "CLARABEL",
    **dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12),
    "tol_ktratio": 1e-9,
}
# The paper's solvers stop at three to six digits, so they say little about ours.


@dataclass(frozen=True)
class Comparison:
    """What a sample of tasks shows.

    Attributes
    ----------
    tasks : int
    ppa_difference : float
        Largest difference of a probability between our PPA and the formula of Saerens, Latinne and Decaestecker.
    brier_checked, log_checked : int
        Tasks that a precise solver behind CVXPY solved to its own satisfaction.
    brier_difference, log_difference : float
        Largest difference of a probability between our BGA and that solver on them.
    largest_gap : float
        Largest duality gap of our answers to all tasks of the sample.
    seconds : float
        That our BGA for both losses took for a task, on average.
    papers_seconds : float
        That the same took the paper's way: CVXPY with OSQP, and with ECOS or SCS.
    papers_residual : float
        Largest error of a rate that the paper's way left.
    papers_failures : int
        How often the first of the paper's solvers failed.
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
    """Bounded adjustment as the paper computes it, a convex program for CVXPY; and whether its solver is content."""
    cp: Any = importlib.import_module("cvxpy")  # its types are too incomplete to check against
    a = cp.Variable(p.shape)
    divergence = cp.sum(cp.kl_div(a, p)) if loss == "log" else cp.sum_squares(a - p)
    constraints = [cp.sum(a, axis=1) == 1, cp.sum(a, axis=0) / len(p) == rates, a >= 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CVXPY's own, on deprecated solvers and inaccurate answers
        problem = cp.Problem(cp.Minimize(divergence), constraints)
        problem.solve(**options)
    if a.value is None:
        raise cp.error.SolverError(f"{options} found no answer")
    return np.asarray(a.value), problem.status == cp.OPTIMAL


def saerens(p: FloatArray, old: FloatArray, new: FloatArray) -> FloatArray:
    """Equation 2.4 of Saerens, Latinne and Decaestecker (2002), https://doi.org/10.1162/089976602753284446."""
    weighted = [[new[j] / old[j] * p[i, j] for j in range(len(new))] for i in range(len(p))]
    return np.array([[value / sum(row) for value in row] for row in weighted])


def possible_tasks(results: Any) -> Any:
    """Set, shift and error of the tasks for which every adjuster has an answer."""
    possible = results.groupby(["set", "shift", "error"], sort=False)["impossible"].count() == 0
    return possible[possible].reset_index()[["set", "shift", "error"]]


def sample_tasks(results: Any, sets: Mapping[str, PredictionSet], seed: int, size: int) -> list[Task]:
    """Random tasks of those in the results, made again."""
    names = possible_tasks(results)
    rng = np.random.default_rng(seed)
    chosen = names.iloc[np.sort(rng.choice(len(names), min(size, len(names)), replace=False))]
    return [task(shifted_set(sets[name], kind, seed), error) for name, kind, error in chosen.itertuples(index=False)]


def compare(tasks: Sequence[Task], progress: Progress) -> Comparison:
    """Solve the tasks in both ways, one after the other on one core."""
    if not tasks:
        raise BadOption("there are no tasks to compare")
    ADJUSTERS["bga-log"](tasks[0])  # so that imports are not timed
    rows = []
    progress.begin("solving with CVXPY", len(tasks))
    for given in tasks:
        rows.append(_compared(given))
        progress.rows(1)
    worst = {name: float(np.nanmax([row[name] for row in rows])) for name in rows[0]}
    total = {name: sum(row[name] for row in rows) for name in rows[0]}
    return Comparison(
        len(rows),
        worst["ppa_difference"],
        int(total["brier_checked"]),
        int(total["log_checked"]),
        worst["brier_difference"],
        worst["log_difference"],
        worst["gap"],
        total["seconds"] / len(rows),
        total["papers_seconds"] / len(rows),
        worst["papers_residual"],
        int(total["papers_failures"]),
    )


def _compared(given: Task) -> dict[str, float]:
    p, rates = given.shifted.probs, given.stated
    ppa = ADJUSTERS["ppa"](given).probs
    row = {"ppa_difference": float(np.abs(ppa - saerens(p, given.shifted.training_rates, rates)).max())}
    row |= dict.fromkeys(("gap", "seconds", "papers_seconds", "papers_residual", "papers_failures"), 0.0)
    for loss in PAPERS_SOLVERS:
        start = time.perf_counter()
        ours = ADJUSTERS[f"bga-{loss}"](given)
        row["seconds"] += time.perf_counter() - start
        row["gap"] = max(row["gap"], ours.certificate.gap)
        exact = _precise(p, rates, loss)
        row[f"{loss}_checked"] = exact is not None
        row[f"{loss}_difference"] = 0.0 if exact is None else float(np.abs(ours.probs - exact).max())
        start = time.perf_counter()
        theirs, failures = _papers_way(p, rates, loss)
        row["papers_seconds"] += time.perf_counter() - start
        row["papers_failures"] += failures > 0
        row["papers_residual"] = max(row["papers_residual"], float(np.abs(theirs.mean(axis=0) - rates).max()))
    return row


def _precise(p: FloatArray, rates: FloatArray, loss: str) -> FloatArray | None:
    """The answer of a precise solver, if it is content with it."""
    from cvxpy.error import SolverError

    try:
        answer, content = cvxpy_answer(p, rates, loss, **_PRECISE)
    except SolverError:
        return None
    return answer if content else None


def _papers_way(p: FloatArray, rates: FloatArray, loss: str) -> tuple[FloatArray, int]:
    """The answer of the first solver that finds one, and how many did not."""
    from cvxpy.error import SolverError

    for failures, solver in enumerate(PAPERS_SOLVERS[loss]):
        try:
            return cvxpy_answer(p, rates, loss, solver=solver)[0], failures
        except SolverError:
            continue
    return np.full_like(p, np.nan), len(PAPERS_SOLVERS[loss])
