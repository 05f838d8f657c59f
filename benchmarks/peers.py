"""Other ways to the same answer, and how one of them is timed beside ours.

As a program it times one alternative in a process of its own, which can be stopped when it takes too long.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import baserate as br

Answer = Callable[[np.ndarray, np.ndarray, str], np.ndarray]
BOTH = ("log", "brier")


class Peer(NamedTuple):
    """An alternative, the losses that it can do, and the number of classes if it can do only so many."""

    answer: Answer
    losses: tuple[str, ...]
    classes: int | None = None

    def can_do(self, loss: str, k: int) -> bool:
        return loss in self.losses and self.classes in (None, k)


def with_cvxpy(solver: str) -> Answer:
    """The paper's way: a convex program with n * k unknowns."""
    from baserate.study.reference import cvxpy_answer

    return lambda p, rates, loss: cvxpy_answer(p, rates, loss, solver=solver)[0]


def with_sinkhorn(method: str) -> Answer:
    """For log loss the answer is n times an entropic transport plan from rows to classes at the cost -log p."""

    def answer(p: np.ndarray, rates: np.ndarray, loss: str) -> np.ndarray:
        import ot

        rows, options = np.full(len(p), 1 / len(p)), {"stopThr": 1e-12, "numItermax": 100_000}
        with np.errstate(divide="ignore"):
            return len(p) * ot.sinkhorn(rows, rates, -np.log(p), 1.0, method=method, **options)

    return answer


def smooth_transport(p: np.ndarray, rates: np.ndarray, loss: str) -> np.ndarray:
    """For Brier it is n times the plan T that minimises <T, -p> + n/2 |T|^2, or |nT - p|^2 / 2n."""
    from ot.smooth import smooth_ot_semi_dual

    n = len(p)
    plan = smooth_ot_semi_dual(rates, np.full(n, 1 / n), -p.T, n, reg_type="l2", stopThr=1e-15, numItermax=100_000)
    return n * plan.T


def quasi_newton(p: np.ndarray, rates: np.ndarray, loss: str) -> np.ndarray:
    """SciPy's L-BFGS-B on the dual that ours solves: k unknowns."""
    from scipy.optimize import minimize
    from scipy.special import logsumexp

    brier = br.losses.Brier()
    with np.errstate(divide="ignore"):
        link = np.log(p) if loss == "log" else 2 * p

    def rows(shift: np.ndarray) -> tuple[np.ndarray, float]:
        """The adjusted rows, and the mean of the conjugate."""
        x = link + shift
        if loss == "log":
            top = logsumexp(x, axis=1, keepdims=True)
            return np.exp(x - top), top.mean()
        a = brier.row_map(x)
        return a, np.einsum("ij,ij->", x - a, a) / len(a)

    def dual(shift: np.ndarray) -> tuple[float, np.ndarray]:
        a, conjugate = rows(shift)
        return conjugate - shift @ rates, a.mean(axis=0) - rates

    options = {"ftol": 1e-15, "gtol": 1e-11, "maxiter": 10_000, "maxfun": 100_000}
    return rows(minimize(dual, np.zeros(len(rates)), jac=True, method="L-BFGS-B", options=options).x)[0]


def raking(p: np.ndarray, rates: np.ndarray, loss: str) -> np.ndarray:
    """Columns and rows are scaled in turn until both sums fit, which is the answer for log loss."""
    from ipfn import ipfn

    sums = [len(p) * rates, np.ones(len(p))]
    options = {"convergence_rate": 1e-12, "max_iteration": 10_000, "rate_tolerance": 0.0}
    with contextlib.redirect_stdout(io.StringIO()):  # it says when it has converged
        return ipfn.ipfn(p.copy(), sums, [[1], [0]], **options).iteration()


def logit_offset(p: np.ndarray, rates: np.ndarray, loss: str) -> np.ndarray:
    """With two classes the answer for log loss is one number added to all log odds."""
    from probcal import LogitOffset

    second = LogitOffset(target_mean=rates[1]).fit(p[:, 1]).transform(p[:, 1])
    return np.column_stack([1 - second, second])


def rank_preserving(p: np.ndarray, rates: np.ndarray, loss: str) -> np.ndarray:
    """Another problem: the nearest matrix with these sums whose columns are ordered as they were."""
    from rank_preserving_calibration import calibrate_dykstra

    return calibrate_dykstra(p, len(p) * rates).Q


def ours(p: np.ndarray, rates: np.ndarray, loss: str) -> np.ndarray:
    return br.adjust(p, rates, loss=loss).probs


def without_kernels(p: np.ndarray, rates: np.ndarray, loss: str) -> np.ndarray:
    """Ours as it is where numba is not installed."""
    before = os.environ.get("BASERATE_KERNELS", "auto")
    os.environ["BASERATE_KERNELS"] = "off"  # read at each call
    try:
        return ours(p, rates, loss)
    finally:
        os.environ["BASERATE_KERNELS"] = before


OURS, WITHOUT = "baserate", "baserate, without numba"
PEERS = {
    "CVXPY + ECOS": Peer(with_cvxpy("ECOS"), ("log",)),
    "CVXPY + SCS": Peer(with_cvxpy("SCS"), ("log",)),
    "CVXPY + OSQP": Peer(with_cvxpy("OSQP"), ("brier",)),
    "CVXPY + CLARABEL": Peer(with_cvxpy("CLARABEL"), ("brier",)),
    "POT sinkhorn": Peer(with_sinkhorn("sinkhorn"), ("log",)),
    "POT sinkhorn_log": Peer(with_sinkhorn("sinkhorn_log"), ("log",)),
    "POT smooth_ot_semi_dual": Peer(smooth_transport, ("brier",)),
    "SciPy L-BFGS-B": Peer(quasi_newton, BOTH),
    "ipfn": Peer(raking, ("log",)),
    "probcal LogitOffset": Peer(logit_offset, ("log",), classes=2),
    "rank-preserving-calibration": Peer(rank_preserving, ("brier",)),
}


def problem(data: str, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and rates: easy ones, or over-confident ones that give most classes next to nothing."""
    rng = np.random.default_rng(0)
    if data == "easy":
        p = rng.dirichlet(np.ones(k), size=n)
    else:
        logits = 20 * rng.normal(size=(n, k))
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
    return p, rng.dirichlet(np.full(k, 3.0))


def quality(p: np.ndarray, rates: np.ndarray, loss: str, a: np.ndarray) -> dict[str, float]:
    """How far an answer is from the rates and its rows from sums of 1, and what it minimises."""
    return {
        "residual": float(np.abs(a.mean(axis=0) - rates).max()),
        "row_error": float(np.abs(a.sum(axis=1) - 1).max()),
        "objective": float(br.losses.as_loss(loss).divergence(p, np.maximum(a, 0)).mean()),
    }


def seconds_of(call: Callable[[], Any], at_least: float = 0.02) -> float:
    """Seconds that a call takes; the mean of some if it is quick."""
    spent, count = 0.0, 0
    while spent < at_least:
        start = time.perf_counter()
        answer = call()
        spent, count = spent + time.perf_counter() - start, count + 1
        del answer  # so that two are never there at once
    return spent / count


def in_turns(
    calls: Mapping[str, Callable[[], Any]], repeats: int, enough: float = np.inf, warm: bool = True
) -> dict[str, float]:
    """Median seconds of each call; they take turns, so that a busy machine is busy for all.

    It ends early when enough seconds are spent. ``warm`` calls each once before.
    """
    for call in calls.values() if warm else ():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    began = time.perf_counter()
    for _ in range(repeats):
        for name, call in calls.items():
            seconds[name].append(seconds_of(call))
        if time.perf_counter() - began > enough:
            break
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def measure(name: str, data: str, n: int, k: int, loss: str) -> dict[str, Any]:
    """One alternative beside ours, in turns, after it has seen some rows and ours all."""
    p, rates = problem(data, n, k)
    theirs = {OURS: ours, WITHOUT: without_kernels}.get(name) or PEERS[name].answer
    theirs(p[:100], rates, loss)
    ours(p, rates, loss)
    kept = {}

    def keep_theirs() -> None:
        kept["answer"] = theirs(p, rates, loss)

    seconds = in_turns({"ours": lambda: ours(p, rates, loss), "theirs": keep_theirs}, 3, enough=5.0, warm=False)
    times = {"seconds": seconds["theirs"], "times_ours": 1.0 if name == OURS else seconds["theirs"] / seconds["ours"]}
    return times | quality(p, rates, loss, kept["answer"])


def measure_apart(limit: float, **what: Any) -> dict[str, Any]:
    """The same in a process of its own; if it fails or takes too long, what was asked and the failure."""
    try:
        done = subprocess.run(
            [sys.executable, __file__, json.dumps(what)], capture_output=True, text=True, timeout=limit, check=True
        )
    except subprocess.TimeoutExpired:
        return what | {"failure": f"> {limit:.0f} s"}
    except subprocess.CalledProcessError as error:
        return what | {"failure": (error.stderr.strip().splitlines() or ["killed"])[-1][:80]}
    return what | json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of solvers on their own accuracy, which is measured here
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
