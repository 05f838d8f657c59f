"""The checks of an answer. Each returns the ways in which it is wrong, as text with the figures."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import baserate as br
from baserate.errors import NotAdaptedWarning, NotConvergedWarning
from fuzzing.figures import mean_divergence, optimum, rounding_of_losses, rounding_of_rows, rows_of
from fuzzing.other_forms import check_permutation, check_weights
from fuzzing.problems import Problem, kernel_setting
from fuzzing.rate_sets import RateSet
from fuzzing.worst_labels import Labels, possible_share

SOLVER = 1e-7
"""Error that CVXPY may have, relative to 1 plus the size of the losses."""

SLOW = 5.0
"""CPU seconds that a call may take."""

OWN_WARNINGS = (NotConvergedWarning, NotAdaptedWarning)

SHARES = {"rate set": 0.1, "gap": 0.2, "save": 0.3, "weights": 0.1, "permutation": 0.1}
"""The share of the cases on which an expensive check is made."""


@dataclass(frozen=True)
class Finding:
    """Something wrong."""

    case: str
    check: str
    text: str

    def __str__(self) -> str:
        return f"{self.case} {self.check}: {self.text}"


@dataclass
class Outcome:
    """What was found out about a case."""

    case: str
    loss: str = ""
    findings: list[Finding] = field(default_factory=list)
    refused: str = ""
    answered: bool = False
    converged: bool = True
    beyond_float64: bool = False
    seconds: float = 0.0
    checks: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The outcome as plain values."""
        return asdict(self)


Check = Callable[[Problem, br.Adjustment], Iterator[str]]


def run_case(problem: Problem, *, everything: bool = False) -> Outcome:
    """Solve a problem and check its answer, with every check or with some expensive ones left out."""
    outcome = Outcome(problem.name, problem.formula.name)

    def report(check: str, texts: Any) -> None:
        outcome.findings += [Finding(problem.name, check, text) for text in texts]

    with kernel_setting(problem.kernels):
        result = watched(problem, outcome, report)
        if result is None:
            return outcome
        outcome.answered = True
        outcome.converged = result.converged or "max_passes" in problem.options
        outcome.beyond_float64 = problem.beyond_float64
        rng = np.random.default_rng([problem.seed, problem.case, 1])
        draws = {name: rng.random() for name in SHARES}
        for name, check in CHECKS.items():
            if everything or draws.get(name, 0.0) < SHARES.get(name, 1.0):
                outcome.checks.append(name)
                report(name, guarded(check, problem, result))
    return outcome


def watched(problem: Problem, outcome: Outcome, report: Callable[[str, Any], None]) -> br.Adjustment | None:
    """The answer of the library. Exceptions, warnings and the time of the call are reported."""
    result, began = None, time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = problem.call()
        except br.BaserateError as error:
            outcome.refused = type(error).__name__
            report("refusal", refusal(problem, error))
        except Exception as error:
            report("exception", [f"{type(error).__name__}: {error}"])
    outcome.seconds = time.process_time() - began
    if result is not None and outcome.seconds > 0.2 and problem.uses_kernels:
        outcome.seconds = _seconds_again(problem)  # the first call may have compiled a kernel
    if outcome.seconds > SLOW:
        report("time", [f"{outcome.seconds:.1f} s for {problem.probs.shape} and {problem.formula.code[:40]}"])
    report("warning", sorted(set(wrong_warnings(caught, result))))
    return result


def _seconds_again(problem: Problem) -> float:
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were reported the first time
        problem.call()
    return time.process_time() - began


def wrong_warnings(caught: list[Any], result: br.Adjustment | None) -> Iterator[str]:
    """Warnings that are not the library's own, and a missing or superfluous warning about convergence."""
    for warning in caught:
        if not issubclass(warning.category, OWN_WARNINGS):
            place = f"{Path(warning.filename).name}:{warning.lineno}"
            yield f"{warning.category.__name__} at {place}: {warning.message}"
    warned = any(issubclass(warning.category, NotConvergedWarning) for warning in caught)
    if result is not None and warned == result.converged:
        yield f"converged is {result.converged}, but there was {'a' if warned else 'no'} NotConvergedWarning"


def refusal(problem: Problem, error: br.BaserateError) -> Iterator[str]:
    """A problem that was refused although it is correct."""
    if not isinstance(error, br.InfeasibleRates):
        yield f"{type(error).__name__}: {error}"
    elif not problem.formula.pins_zeros:
        yield f"the loss can move zeros, but: {error}"
    elif problem.bounded and _clearly_possible(problem):
        yield f"the rates are possible, but: {error}"


def _clearly_possible(problem: Problem) -> bool:
    """Whether the rates are possible and not only just so, which rounding could decide."""
    p, known = problem.predictions, problem.rate_set
    if (known.low > problem.weights @ (p > 0)).any():
        return False  # by less than the solver notices, perhaps
    if not (p > 0)[:, known.high > 0].any(axis=1).all():
        return False  # a row that has only classes of rate 0 cannot be adjusted, even if its weight is 0
    if known.is_point:
        move = known.low - problem.weights @ p
        beyond = known.low + 1e-6 * move / max(float(np.abs(move).max()), 1e-300)
        inner: RateSet | None = RateSet(beyond, beyond)
    else:
        inner = known.smaller()
    if inner is None or (inner.low < 0).any():
        return False
    return possible_share(p > 0, problem.weights, inner) is True


def guarded(check: Check, problem: Problem, result: br.Adjustment) -> list[str]:
    """The texts of a check. An exception or a warning that the library raises during the check is also a text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            texts = list(check(problem, result))
        except Exception as error:
            texts = [f"{type(error).__name__}: {error}"]
    inside = [one for one in caught if "baserate" in one.filename]
    return texts + sorted(set(wrong_warnings(inside, None)))


# Rows and rates


def check_rows(problem: Problem, result: br.Adjustment) -> Iterator[str]:
    """Rows have the right dtype, are finite, sum to 1, and lie in [0, 1] if they are bounded."""
    probs = result.probs
    if not isinstance(probs, np.ndarray) or probs.dtype != problem.answer_dtype or probs.shape != problem.probs.shape:
        yield f"probs is {type(probs).__name__} of dtype {getattr(probs, 'dtype', '?')} and shape {np.shape(probs)}"
        return
    a, rounding = rows_of(result), rounding_of_rows(result)
    if not np.isfinite(a).all():
        yield f"{np.count_nonzero(~np.isfinite(a))} entries are not finite"
        return
    error = np.abs(a.sum(axis=1) - 1.0).max()
    if error > 1e-9 * max(1.0, np.abs(a).max()) + a.shape[1] * rounding:
        yield f"a row misses the sum 1 by {error:.3g}"
    if problem.bounded and (a.min() < 0 or a.max() > 1 + 1e-12):
        yield f"entries from {a.min():.3g} to {a.max():.17g}"


def check_mean(problem: Problem, result: br.Adjustment) -> Iterator[str]:
    """The mean of the rows is as far from the rates as the certificate says, and in the rate set if converged."""
    certificate, a = result.certificate, rows_of(result)
    mean = problem.weights @ a
    rounding = 1e-13 * max(1.0, float(np.abs(a).max()))
    if (error := float(np.abs(mean - result.rates).max())) > rounding:
        yield f"rates differs from the mean of the rows by {error:.3g}"
    residual = float(np.abs(mean - result.wanted).max())
    if not abs(residual - certificate.residual) <= rounding:
        yield f"residual is {certificate.residual:.3g}, but the rows miss the wanted rates by {residual:.3g}"
    if problem.verb == "prior_adjust":
        return
    if (error := problem.rate_set.distance(result.wanted)) > 1e-9:
        yield f"wanted is outside the rate set by {error:.3g}"
    tol = problem.options.get("tol", 1e-10)
    rounding += rounding_of_rows(result)
    if result.converged and not (error := problem.rate_set.distance(mean)) <= tol + rounding + 1e-14:
        yield f"converged with tol={tol:.3g}, but the mean is outside the rate set by {error:.3g}"
    if result.converged and not certificate.residual <= tol + rounding:
        yield f"converged with tol={tol:.3g}, but the residual is {certificate.residual:.3g}"


def check_rate_set(problem: Problem, result: br.Adjustment) -> Iterator[str]:
    """The certificate states the rate set that our own formulas give."""
    certificate, known = result.certificate, problem.rate_set
    if certificate.batch_size != problem.batch_size:
        yield f"batch_size is {certificate.batch_size}, not {problem.batch_size}"
        return
    low, high = certificate.bounds
    ends = known.bounds()
    error = max(float(np.abs(ends[0] - low).max()), float(np.abs(ends[1] - high).max()))
    if error > 1e-7:
        yield f"bounds differ from ours by {error:.3g}"


# The certificate


def check_certificate(problem: Problem, result: br.Adjustment) -> Iterator[str]:
    """The loss falls by at least ``loss_reduction`` on the worst labels."""
    claim = result.certificate.loss_reduction
    if claim is None or claim == -np.inf:
        return
    if not np.isfinite(claim):
        yield f"loss_reduction is {claim}"
        return
    after = problem.formula.scores(rows_of(result))
    labels = Labels.of(problem.scores, after, problem.weights, problem.rate_set)
    slack = rounding_of_losses(problem, after)
    if labels.proved_by(result.shift) >= claim - slack:
        return
    worst = labels.solve()
    if worst is None or max(worst.proved, worst.reached) >= claim - slack:
        return
    yield (
        f"loss_reduction is {claim:.10g}, but on the worst labels the loss falls by {worst.reached:.10g} "
        f"(less by {claim - worst.reached:.3g}; rounding {slack:.1g}; converged {result.converged})"
    )


_ROUNDING_OF_WEIGHTS = 1e-14
"""Rows with a smaller share of the weight do not count where the loss is infinite: rates are not known so exactly."""


def check_whole_labels(problem: Problem, result: br.Adjustment) -> Iterator[str]:
    """For a few rows: all whole labels whose rates are possible, one after another."""
    (n, k), claim = problem.probs.shape, result.certificate.loss_reduction
    if k**n > 300 or claim is None or not np.isfinite(claim):
        return
    after = problem.formula.scores(rows_of(result))
    slack = rounding_of_losses(problem, after)
    used = problem.weights > 0
    for code in range(k**n):
        y = np.array([code // k**i % k for i in range(n)])
        impossible = (problem.rate_set.high[y] == 0)[used].any()  # perhaps with a weight that is lost in rounding
        if impossible or problem.rate_set.distance(problem.weights @ np.eye(k)[y]) > 1e-15:
            continue
        one, other = problem.scores[np.arange(n), y][used], after[np.arange(n), y][used]
        if problem.weights[used] @ np.isinf(other) < _ROUNDING_OF_WEIGHTS:
            other = np.where(np.isinf(other), one, other)
        if np.isfinite(one).all() and not problem.weights[used] @ (one - other) >= claim - slack:
            fall = problem.weights[used] @ (one - other)
            yield f"on the labels {y.tolist()} the loss falls by {fall:.10g}, not by {claim:.10g}"
            return


# The gap


def check_gap(problem: Problem, result: br.Adjustment) -> Iterator[str]:
    """The objective is above its optimum by at most ``gap``."""
    p, formula = problem.predictions, problem.formula
    small = problem.probs.size <= 60 and problem.weights.min() > 1e-4
    if formula.model is None or not small or problem.verb == "prior_adjust" or not np.isfinite(result.probs).all():
        return
    # Cone solvers lose their digits near the end of logarithms and powers; at 0 a slope may be infinite.
    least = p.min() if formula.name == "power" else p[p > 0].min()
    if formula.name in ("log", "power") and least < 1e-8:
        return
    best = optimum(problem)
    if best is None:
        return
    ours, scores = mean_divergence(problem, rows_of(result)), problem.scores
    allowed = SOLVER * (1.0 + float(np.abs(scores[np.isfinite(scores)]).max()))
    if not ours <= best + result.certificate.gap + allowed:
        yield f"the objective is {ours:.10g}, but can be {best:.10g}; the gap is {result.certificate.gap:.3g}"


# Applying and saving


def check_apply(problem: Problem, result: br.Adjustment) -> Iterator[str]:
    """Applying the shift to the same rows gives the same answer."""
    again = apply(problem, result)
    error = np.abs(again - result.probs)
    wrong = ~(error <= 1e-12 * np.maximum(1.0, np.abs(result.probs)) + 2 * rounding_of_rows(result))
    if wrong.any():
        yield f"{np.count_nonzero(wrong)} entries of apply differ from probs, by up to {np.max(error):.3g}"


def apply(problem: Problem, result: br.Adjustment) -> Any:
    """``result.apply`` on the predictions of the problem."""
    options = {name: problem.options[name] for name in ("normalize", "dtype") if name in problem.options}
    return result.apply(problem.matrix, **options)


def check_save(problem: Problem, result: br.Adjustment) -> Iterator[str]:
    """A saved and loaded adjustment gives the same to the last bit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved.json"
        result.save(path)
        loaded = br.load(path, loss=problem.loss if "Separable" in problem.formula.code else None)
    one, other = apply(problem, result), apply(problem, loaded)
    if not np.array_equal(one, other, equal_nan=True):
        yield f"apply after loading differs by up to {np.max(np.abs(one - other)):.3g}"


CHECKS: dict[str, Check] = {
    "rows": check_rows,
    "mean": check_mean,
    "rate set": check_rate_set,
    "certificate": check_certificate,
    "whole labels": check_whole_labels,
    "gap": check_gap,
    "apply": check_apply,
    "save": check_save,
    "weights": check_weights,
    "permutation": check_permutation,
}
