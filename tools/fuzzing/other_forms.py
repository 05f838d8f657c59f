"""Checks that the same problem in another form has the same answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import baserate as br
from fuzzing.figures import rounding_of_losses, rows_of
from fuzzing.formulas import Array
from fuzzing.problems import Known, Problem


def check_weights(problem: Problem, result: br.Adjustment) -> Iterator[str]:
    """Integer weights give the same as repeated rows."""
    weights = problem.options.get("sample_weight")
    if weights is None or not all(isinstance(w, int) for w in weights) or problem.known.of_sample:
        return
    rows = np.repeat(np.arange(len(weights)), weights)
    options = {name: value for name, value in problem.options.items() if name != "sample_weight"}
    repeated = replace(problem, probs=problem.probs[rows], options=options)
    first = np.unique(rows, return_index=True)[1]
    yield from same_answer(problem, result, repeated, lambda a: _scatter(a[first], rows[first], rows_of(result)))


def _scatter(rows: Array, places: NDArray[np.intp], like: Array) -> Array:
    out = like.copy()
    out[places] = rows
    return out


def check_permutation(problem: Problem, result: br.Adjustment) -> Iterator[str]:
    """Permuted rows and, where the loss allows it, permuted classes give the permuted answer."""
    rng = np.random.default_rng([problem.seed, problem.case, 2])
    n, k = problem.probs.shape
    order = rng.permutation(n)
    options = dict(problem.options)
    if "sample_weight" in options:
        options["sample_weight"] = [options["sample_weight"][i] for i in order]
    permuted = replace(problem, probs=problem.probs[order], options=options)
    yield from same_answer(problem, result, permuted, lambda a: a[np.argsort(order)])
    known = problem.rate_set
    if problem.formula.permuted is None or problem.verb == "prior_adjust" or "classes" in problem.options:
        return
    order = rng.permutation(k)
    same = known.permuted(order)
    formula = problem.formula.permuted(order)
    permuted = replace(
        problem, probs=problem.probs[:, order], known=Known(same.code(), lambda size: same), formula=formula
    )
    yield from same_answer(problem, result, permuted, lambda a: a[:, np.argsort(order)])


def same_answer(
    problem: Problem, result: br.Adjustment, other: Problem, back: Callable[[Array], Array]
) -> Iterator[str]:
    """Whether another form of the problem has the same answer, as far as tolerances allow to say so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.NotConvergedWarning)
        again = other.call()
    if not (result.converged and again.converged and problem.bounded):
        return
    one, two = result.certificate, again.certificate
    shifts = np.concatenate([result.dual_shift - result.dual_shift.mean(), again.dual_shift - again.dual_shift.mean()])
    missed = (one.residual + two.residual) * (1.0 + float(np.abs(shifts).max())) * problem.probs.shape[1]
    allowed = 10 * (one.gap + two.gap + missed) + 100 * rounding_of_losses(
        problem, problem.formula.scores(rows_of(result))
    )
    difference = abs(one.loss_reduction - two.loss_reduction)
    if not difference <= allowed and problem.verb != "prior_adjust":
        yield f"loss_reduction is {one.loss_reduction:.10g} and {two.loss_reduction:.10g} (allowed {allowed:.2g})"
    strength = problem.formula.strength
    if strength and not problem.from_logits:
        distance = problem.weights @ ((rows_of(result) - back(rows_of(again))) ** 2).sum(axis=1)
        if not distance <= allowed / strength:
            yield f"the rows differ by {np.sqrt(distance):.3g} on average (allowed {np.sqrt(allowed / strength):.2g})"
