"""The guarantee for rates per group, as property tests with the worst labels that the rates allow."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from cells_support import STOP, Solved, margin, random_rows, rates_by_group, solve
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array
from support import Array, cases, random_loss

import baserate as br
from baserate.core.search import Stop
from baserate.errors import NotConvergedWarning


@st.composite
def group_problems(draw: st.DrawFn) -> dict[str, Any]:
    """Rows with groups in one to three margins, and tables that some labels satisfy exactly or within bounds."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k, n_margins = draw(st.integers(2, 14)), draw(st.integers(2, 4)), draw(st.integers(1, 3))
    loss = random_loss(rng, k)
    sharpness = float(rng.choice([0.3, 1.0, 3.0]))
    groups = [rng.integers(int(rng.integers(1, 4)), size=n) for _ in range(n_margins)]
    weights = None if draw(st.booleans()) else rng.uniform(0.1, 3.0, size=n)
    labels = np.eye(k)[rng.integers(k, size=n)] if draw(st.booleans()) else rng.dirichlet(np.ones(k), size=n)
    width = draw(st.sampled_from([0.0, 0.0, 0.05, 0.3]))
    margins = []
    for i, of_row in enumerate(groups):
        rates = rates_by_group(labels, of_row, int(of_row.max()) + 1, weights)
        low = np.maximum(rates - width * rng.random(rates.shape), 0.0)
        high = np.minimum(rates + width * rng.random(rates.shape), 1.0)
        margins.append(margin(f"m{i}", rates) if width == 0 else margin(f"m{i}", low, high))
    p = random_rows(rng, n, k, sharpness)
    return {"p": p, "groups": groups, "margins": margins, "loss": loss, "weights": weights}


def row_weights(problem: dict[str, Any]) -> Array:
    """The weights of the rows, which sum to 1."""
    w = np.ones(len(problem["p"])) if problem["weights"] is None else problem["weights"]
    return np.asarray(w / w.sum())


def solved_problem(problem: dict[str, Any], stop: Stop = STOP) -> Solved:
    arguments = (problem[name] for name in ("p", "groups", "margins", "loss"))
    return solve(*arguments, weights=problem["weights"], stop=stop)


def least_fall(problem: dict[str, Any], solved: Solved, rows: NDArray[Any]) -> float:
    """The smallest fall of the loss on some rows, over all labels that satisfy the tables: a linear program."""
    p, loss = problem["p"], problem["loss"]
    corners = [np.tile(corner, (len(p), 1)) for corner in np.eye(p.shape[1])]
    falls = np.stack([loss.divergence(p, y) - loss.divergence(solved.rows, y) for y in corners], axis=1)
    cost = (row_weights(problem) * rows)[:, None] * np.where(np.isfinite(falls), falls, 0.0)
    infinite = np.isneginf(falls) & (rows > 0)[:, None]
    if infinite.any():  # no labels that satisfy the tables may have these classes
        assert least_cost(problem, -infinite.astype(np.float64)) >= -1e-7
    scale = max(float(np.abs(cost).max()), 1e-12)
    return scale * least_cost(problem, cost / scale)


def least_cost(problem: dict[str, Any], cost: Array) -> float:
    """The smallest ``sum(cost * y)`` over the labels y that satisfy the tables."""
    n, k = cost.shape
    w, left, right = row_weights(problem), [], []
    for of_row, table in zip(problem["groups"], problem["margins"], strict=True):
        for g in np.unique(of_row):
            share = np.where(of_row == g, w, 0.0)
            for j in range(k):
                one = np.zeros((n, k))
                one[:, j] = share / share.sum()
                left += [one.ravel(), -one.ravel()]
                right += [table.high[g, j] + 1e-11, 1e-11 - table.low[g, j]]
    sums = csr_array((np.ones(n * k), (np.repeat(np.arange(n), k), np.arange(n * k))))
    found = linprog(cost.ravel(), A_ub=np.array(left), b_ub=right, A_eq=sums, b_eq=np.ones(n), bounds=(0, 1))
    assert found.status == 0, found.message
    return float(found.fun)


@cases(150)
@given(group_problems())
def test_the_loss_falls_by_what_is_certified_on_the_worst_labels(problem: dict[str, Any]) -> None:
    solved = solved_problem(problem)
    fit = solved.fit
    of_cell = np.unique(np.stack(problem["groups"]), axis=1, return_inverse=True)[1].ravel()
    component = fit.components[of_cell]
    total = least_fall(problem, solved, np.ones(len(component)))
    slack = 1e-8 * (1.0 + abs(total))
    assert fit.loss_reduction <= total + slack
    assert fit.loss_reduction >= -slack
    assert fit.converged
    for one in np.unique(component):
        assert fit.certified[one] <= least_fall(problem, solved, component == one) + slack


@cases(100)
@given(group_problems())
def test_the_certificate_is_the_divergence_of_the_adjusted_rows(problem: dict[str, Any]) -> None:
    solved = solved_problem(problem)
    moved = float(row_weights(problem) @ problem["loss"].divergence(problem["p"], solved.rows))
    if all((table.low == table.high).all() for table in problem["margins"]):
        assert solved.fit.loss_reduction == pytest.approx(moved, rel=1e-7, abs=1e-8)
    else:  # the possible rates that guarantee least are those of the adjusted rows
        assert solved.fit.loss_reduction <= moved + 1e-8 * (1.0 + moved)


@cases(60)
@given(group_problems(), st.integers(1, 3))
def test_a_search_that_stops_early_does_not_promise_too_much(problem: dict[str, Any], n_passes: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        solved = solved_problem(problem, Stop(1e-10, n_passes))
    total = least_fall(problem, solved, np.ones(len(problem["p"])))
    assert solved.fit.loss_reduction <= total + 1e-8 * (1.0 + abs(total))


def test_a_single_group_may_get_worse_where_margins_overlap() -> None:
    first = np.array([0.5, 0.5, 0.8, 0.2])
    p, labels = np.column_stack([first, 1 - first]), np.eye(2)[[0, 1, 1, 0]]
    groups, half = [np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])], np.full((2, 2), 0.5)
    fit, rows = solve(p, groups, [margin("a", half), margin("b", half)], br.losses.Brier())
    before, after = (br.losses.Brier().divergence(one, labels) for one in (p, rows))
    assert fit.loss_reduction == pytest.approx(0.045)
    assert before.mean() - after.mean() == pytest.approx(0.045)
    assert before[:2].mean() == pytest.approx(0.5)
    assert after[:2].mean() == pytest.approx(0.845)
    assert set(fit.components) == {0}  # so the guarantee is one for all four rows


def test_one_margin_certifies_each_group_on_its_own() -> None:
    rng = np.random.default_rng(5)
    p, groups = random_rows(rng, 60, 3), rng.integers(4, size=60)
    labels = rng.dirichlet(np.ones(3), size=60)
    loss, rates = br.losses.Brier(), rates_by_group(labels, groups, 4)
    fit, rows = solve(p, [groups], [margin("region", rates)], loss)
    for g in range(4):
        alone = br.adjust(p[groups == g], rates[g], loss=loss)
        weight = (groups == g).mean()
        assert fit.certified[fit.components[g]] == pytest.approx(weight * alone.certificate.loss_reduction, abs=1e-14)
        fall = loss.divergence(p, labels)[groups == g].mean() - loss.divergence(rows, labels)[groups == g].mean()
        assert fall >= fit.certified[fit.components[g]] / weight - 1e-12
