"""Other packages that solve the same problem, and functions that time them.

Run as a program, this file times one alternative in its own process, which can be stopped if it takes too long.
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
    """An alternative, the losses that it supports, and its number of classes if it supports only one."""

    answer: Answer
    losses: tuple[str, ...]
    classes: int | None = None

    def can_do(self, loss: str, k: int) -> bool:
        return loss in self.losses and self.classes in (None, k)


def with_cvxpy(solver: str) -> Answer:
    """The method of the paper: a convex program with n * k unknowns."""
    from baserate.study.reference import cvxpy_answer

    return lambda p, rates, loss: cvxpy_answer(p, rates, loss, solver=solver)[0]


def with_sinkhorn(method: str) -> Answer:
    """For log loss the solution is n times the entropic transport plan from rows to classes with cost -log p."""

    def answer(p: np.ndarray, rates: np.ndarray, loss: str) -> np.ndarray:
        import ot

        rows, options = np.full(len(p), 1 / len(p)), {"stopThr": 1e-12, "numItermax": 100_000}
        with np.errstate(divide="ignore"):
            return len(p) * ot.sinkhorn(rows, rates, -np.log(p), 1.0, method=method, **options)

    return answer


def smooth_transport(p: np.ndarray, rates: np.ndarray, loss: str) -> np.ndarray:
    """For Brier the solution is n times the plan T that minimises <T, -p> + n/2 |T|^2, or |nT - p|^2 / 2n."""
    from ot.smooth import smooth_ot_semi_dual

    n = len(p)
    plan = smooth_ot_semi_dual(rates, np.full(n, 1 / n), -p.T, n, reg_type="l2", stopThr=1e-15, numItermax=100_000)
    return n * plan.T


def quasi_newton(p: np.ndarray, rates: np.ndarray, loss: str) -> np.ndarray:
    """SciPy's L-BFGS-B on the same dual problem that baserate solves: k unknowns."""
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
    """Scale columns and rows in turn until both sums are right, which is the solution for log loss."""
    from ipfn import ipfn

    sums = [len(p) * rates, np.ones(len(p))]
    options = {"convergence_rate": 1e-12, "max_iteration": 10_000, "rate_tolerance": 0.0}
    with contextlib.redirect_stdout(io.StringIO()):  # it prints a message when it has converged
        return ipfn.ipfn(p.copy(), sums, [[1], [0]], **options).iteration()


def logit_offset(p: np.ndarray, rates: np.ndarray, loss: str) -> np.ndarray:
    """With two classes the solution for log loss adds the same number to all log odds."""
    from probcal import LogitOffset

    second = LogitOffset(target_mean=rates[1]).fit(p[:, 1]).transform(p[:, 1])
    return np.column_stack([1 - second, second])


def rank_preserving(p: np.ndarray, rates: np.ndarray, loss: str) -> np.ndarray:
    """A different problem: the nearest matrix with these sums whose columns keep their order."""
    from rank_preserving_calibration import calibrate_dykstra

    return calibrate_dykstra(p, len(p) * rates).Q


def ours(p: np.ndarray, rates: np.ndarray, loss: str) -> np.ndarray:
    return br.adjust(p, rates, loss=loss).probs


def without_kernels(p: np.ndarray, rates: np.ndarray, loss: str) -> np.ndarray:
    """baserate as if numba were not installed."""
    before = os.environ.get("BASERATE_KERNELS", "auto")
    os.environ["BASERATE_KERNELS"] = "off"  # baserate reads it at each call
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
    """Predictions and rates. Predictions are "easy", or else over-confident, with most probabilities close to 0."""
    rng = np.random.default_rng(0)
    if data == "easy":
        p = rng.dirichlet(np.ones(k), size=n)
    else:
        logits = 20 * rng.normal(size=(n, k))
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
    return p, rng.dirichlet(np.full(k, 3.0))


def quality(p: np.ndarray, rates: np.ndarray, loss: str, a: np.ndarray) -> dict[str, float]:
    """The largest error of a rate, the largest error of the sum of a row, and the objective."""
    return {
        "residual": float(np.abs(a.mean(axis=0) - rates).max()),
        "row_error": float(np.abs(a.sum(axis=1) - 1).max()),
        "objective": float(br.losses.as_loss(loss).divergence(p, np.maximum(a, 0)).mean()),
    }


def seconds_of(call: Callable[[], Any], at_least: float = 0.02) -> float:
    """Seconds that a call takes; the mean of several calls if it is short."""
    spent, count = 0.0, 0
    while spent < at_least:
        start = time.perf_counter()
        answer = call()
        spent, count = spent + time.perf_counter() - start, count + 1
        del answer  # so that memory never holds two results
    return spent / count


def in_turns(
    calls: Mapping[str, Callable[[], Any]], repeats: int, enough: float = np.inf, warm: bool = True
) -> dict[str, float]:
    """Median seconds of each call. The calls take turns, so that other load on the machine affects all of them.

    Stops early after ``enough`` seconds. With ``warm`` every call is made once before.
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
    """Time one alternative and baserate in turns, after a first call of each that is not timed."""
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
    """Like ``measure``, but in a new process. If that fails or takes too long, the result has the key "failure"."""
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
    warnings.simplefilter("ignore")  # solvers warn about their accuracy, which is measured here
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
