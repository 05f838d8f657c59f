"""Rates of groups that cannot hold at the same time, and classes that a cell cannot have."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from cells_support import Ints, dual_of, margin, random_rows, rates_by_group, solve
from scipy.optimize import linprog
from support import Array, loss_id

import baserate as br
from baserate.core.cells.fit import fit_cells
from baserate.core.search import Stop
from baserate.errors import BadProbabilities, BadRates, InfeasibleRates
from baserate.losses import Loss

LOG = br.losses.Log()


def test_totals_that_disagree_are_named_in_rows_before_any_pass() -> None:
    rng = np.random.default_rng(1)
    p, groups = random_rows(rng, 1000, 2), [np.arange(1000) % 2, np.arange(1000) // 250]
    rates = [np.array([[0.25, 0.75], [0.35, 0.65]]), np.full((4, 2), [0.32, 0.68])]
    dual = dual_of(p, groups, [margin("region", rates[0]), margin("age", rates[1])], LOG)
    dual.rows.map = None  # type: ignore[method-assign, assignment]  # no pass is made
    message = "region and age disagree: for class 'late' region sums to 700 rows, age to 680 rows; correct the tables"
    with pytest.raises(BadRates, match=message):
        fit_cells(dual, Stop(1e-10, 500), ("in time", "late"), keep_rows=True)


def test_bounds_that_disagree_and_the_component_are_named() -> None:
    rng = np.random.default_rng(2)
    p = random_rows(rng, 400, 2)
    groups = [np.arange(400) // 100, np.arange(400) // 50]  # four components
    low = np.tile([0.1, 0.4], (4, 1))
    high = np.tile([0.6, 0.9], (4, 1))
    age_low, age_high = np.tile([0.0, 0.0], (8, 1)), np.tile([1.0, 1.0], (8, 1))
    age_high[4:6, 1] = 0.3
    margins = [margin("region", low, high), margin("age", age_low, age_high)]
    expected = (
        "region and age disagree on the rows of region 'region2' and of the groups that overlap with it: for class 1 "
        "region needs at least 40 rows, age allows at most 30 rows"
    )
    with pytest.raises(BadRates, match=expected):
        solve(p, groups, margins, LOG)


def test_weighted_totals_are_shares() -> None:
    p, groups = random_rows(np.random.default_rng(3), 100, 2), [np.arange(100) % 2, np.arange(100) // 50]
    margins = [margin("a", np.full((2, 2), 0.5)), margin("b", np.full((2, 2), [0.4, 0.6]))]
    with pytest.raises(BadRates, match="for class 0 a sums to 50 % of the weight, b to 40 % of the weight"):
        solve(p, groups, margins, LOG, weights=np.linspace(1, 2, 100))


def test_tables_that_differ_in_the_tenth_digit_are_reconciled() -> None:
    rng = np.random.default_rng(4)
    p, groups = random_rows(rng, 600, 3), [rng.integers(5, size=600), rng.integers(4, size=600)]
    labels = rng.dirichlet(np.ones(3), size=600)
    tables = [rates_by_group(labels, g, g.max() + 1) for g in groups]
    tables[0] = tables[0] + 3e-10 * rng.normal(size=(5, 3))
    tables[0] /= tables[0].sum(axis=1, keepdims=True)
    fit, rows = solve(p, groups, [margin("a", tables[0]), margin("b", tables[1])], LOG)
    assert fit.converged
    for of_row, table in zip(groups, tables, strict=True):
        np.testing.assert_allclose(rates_by_group(rows, of_row, len(table)), table, rtol=0, atol=2e-9)


def test_classes_that_a_cell_cannot_have_are_excluded() -> None:
    # Of the four rows of the second column group, the two in the first row group have class 0. It needs no more of it,
    # so the other two cannot have it, although none of their own groups excludes it.
    groups = [np.array([0, 0, 0, 1, 1, 1, 1]), np.array([0, 1, 1, 1, 1, 0, 0])]
    p = random_rows(np.random.default_rng(5), 7, 3)
    rows_rates = np.array([[1.0, 0.0, 0.0], [0.25, 0.5, 0.25]])
    labels = np.array([[1, 0, 0]] * 3 + [[0, 1, 0], [0, 0.5, 0.5], [0.5, 0.25, 0.25], [0.5, 0.25, 0.25]])
    columns = rates_by_group(labels, groups[1], 2)
    for loss in (LOG, br.losses.Brier(), br.losses.Spherical()):
        for kernels in ("off", "always"):
            margins = [margin("a", rows_rates), margin("b", columns)]
            fit, rows = solve(p, groups, margins, loss, kernels=kernels)
            assert fit.converged
            assert (rows[3:5, 0] == 0).all()
            np.testing.assert_allclose(rows[:3, 0], 1.0)
            np.testing.assert_allclose(rates_by_group(rows, groups[1], 2), columns, rtol=0, atol=1e-10)


def test_groups_that_exclude_each_other_are_named() -> None:
    # Both row groups are certain of their class, so the mixed column groups cannot be.
    groups = [np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])]
    certain = np.array([[1.0, 0.0], [0.0, 1.0]])
    p = random_rows(np.random.default_rng(6), 4, 2)
    with pytest.raises(
        InfeasibleRates, match=r"the rates of the groups exclude each other: .* should have a rate of 1"
    ):
        solve(p, groups, [margin("a", certain), margin("b", certain)], LOG)


@functools.cache
def matching_problem(seed: int, n: int) -> tuple[list[Ints], list[Array], Array, bool]:
    """Groups of rows in two or three margins, random tables with equal totals, rows, and whether a solution exists."""
    rng = np.random.default_rng(seed)
    groups, tables = matching_tables(rng, n)
    return groups, tables, random_rows(rng, n, tables[0].shape[1]), are_possible(groups, tables)


def matching_tables(rng: np.random.Generator, n: int) -> tuple[list[Ints], list[Array]]:
    n_margins, n_groups, k = (int(rng.integers(*ends)) for ends in ((2, 4), (2, 6), (2, 5)))
    groups = [
        np.concatenate([np.arange(n_groups), rng.integers(n_groups, size=n - n_groups)]) for _ in range(n_margins)
    ]
    weights = [np.bincount(g) / n for g in groups]
    tables = [rng.dirichlet(np.full(k, rng.choice([0.6, 1.0, 2.0])), size=n_groups) for _ in groups]
    total = np.mean([w @ t for w, t in zip(weights, tables, strict=True)], axis=0)
    for w, t in zip(weights, tables, strict=True):
        for _ in range(2000):  # proportional fitting
            before = t.copy()
            t *= total / (w @ t)
            t /= t.sum(axis=1, keepdims=True)
            if (t == before).all():
                break
    return groups, tables


def are_possible(groups: list[Ints], tables: list[Array]) -> bool:
    """Whether some class masses of the cells have all these rates: a linear program."""
    members, cells = np.unique(np.stack(groups), axis=1, return_inverse=True)
    weights, k = np.bincount(cells.ravel()) / len(groups[0]), tables[0].shape[1]
    left, right = [np.kron(np.eye(len(weights)), np.ones(k))], [weights]
    for of_cell, table in zip(members, tables, strict=True):
        inside = (of_cell == np.arange(len(table))[:, None]).astype(np.float64)
        left.append(np.kron(inside, np.eye(k)))
        right.append(((inside @ weights)[:, None] * table).ravel())
    found = linprog(np.zeros(len(weights) * k), A_eq=np.concatenate(left), b_eq=np.concatenate(right), bounds=(0, None))
    return bool(found.status == 0)


@pytest.mark.parametrize("loss", [LOG, br.losses.Brier()], ids=loss_id)
def test_margins_are_called_impossible_exactly_if_a_linear_program_says_so(loss: Loss) -> None:
    reasons: set[str] = set()
    for seed in range(60):
        groups, tables, p, possible = matching_problem(seed, 150)
        margins = [margin(f"m{i}", t) for i, t in enumerate(tables)]
        if possible:
            assert solve(p, groups, margins, loss).fit.converged
        else:
            with pytest.raises(InfeasibleRates) as caught:
                solve(p, groups, margins, loss)
            reasons.add("at the same time" if "at the same time" in str(caught.value) else "exclude each other")
    assert reasons == {"at the same time", "exclude each other"}  # before the search, and during the search


def test_hard_zeros_of_single_rows_that_make_margins_impossible_are_recognised() -> None:
    rng = np.random.default_rng(8)
    p, groups = random_rows(rng, 40, 2), [np.arange(40) % 2, np.arange(40) // 20]
    p[:12] = [1.0, 0.0]
    p[20:] = 0.5
    margins = [margin("a", np.full((2, 2), 0.5)), margin("b", np.array([[0.3, 0.7], [0.7, 0.3]]))]
    with pytest.raises(InfeasibleRates, match="because 12 probabilities of the 40 rows are 0 and stay 0; pass zeros="):
        solve(p, groups, margins, LOG)
    fit, _ = solve(p, groups, margins, br.losses.Brier())
    assert fit.converged


def test_hard_zeros_of_a_group_name_the_group() -> None:
    p, groups = random_rows(np.random.default_rng(9), 20, 2), np.arange(20) % 2
    p[1::2] = [1.0, 0.0]
    with pytest.raises(
        InfeasibleRates, match=r"region 'region1': class 1 would need a mean of 0\.5, but no row gives it"
    ):
        solve(p, [groups], [margin("region", np.full((2, 2), 0.5))], LOG)


@pytest.mark.parametrize("kernels", ["off", "always"])
@pytest.mark.parametrize("n_margins", [1, 2])
def test_messages_name_the_row_in_the_order_of_the_caller(n_margins: int, kernels: str) -> None:
    p, groups = random_rows(np.random.default_rng(10), 30, 2), [np.arange(30) % 3, np.arange(30) // 15]
    margins = [margin("a", np.full((3, 2), 0.5)), margin("b", np.full((2, 2), 0.5))]
    p[16, 1] = np.nan
    with pytest.raises(BadProbabilities, match="row 16, column 1 is nan"):
        solve(p, groups[:n_margins], margins[:n_margins], LOG, kernels=kernels)


@pytest.mark.parametrize("n_margins", [1, 2])
def test_a_row_that_allows_only_classes_of_rate_0_is_named(n_margins: int) -> None:
    p, groups = random_rows(np.random.default_rng(11), 30, 3), [np.arange(30) % 3, np.arange(30) // 15]
    labels = np.where((groups[0] == 1)[:, None], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5])
    margins = [margin("a", rates_by_group(labels, groups[0], 3)), margin("b", rates_by_group(labels, groups[1], 2))]
    p[19] = [0.0, 0.0, 1.0]
    with pytest.raises(InfeasibleRates, match="row 19 gives probability only to classes whose rate is 0"):
        solve(p, groups[:n_margins], margins[:n_margins], LOG)
