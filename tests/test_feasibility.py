"""Class rates that hard zeros make impossible, leave possible, or leave possible only in the limit."""

from __future__ import annotations

from itertools import combinations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog
from support import Array, assert_certified, cases

import baserate as br


def hall_slack(p: Array, rates: Array) -> dict[tuple[int, ...], float]:
    """For each group of classes, its rates minus the share of rows that allow no class outside it.

    By Hall's condition the rates are possible if no difference is negative. Computed by brute force.
    """
    k = p.shape[1]
    return {
        group: float(rates[list(group)].sum() - np.mean(~p[:, [j for j in range(k) if j not in group]].any(axis=1)))
        for size in range(1, k)
        for group in combinations(range(k), size)
    }


@st.composite
def supports(draw: st.DrawFn) -> tuple[Array, Array]:
    """Predictions with hard zeros, and class rates."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k = draw(st.integers(1, 10)), draw(st.integers(2, 5))
    allowed = rng.random((n, k)) < draw(st.sampled_from([0.3, 0.5, 0.7]))
    allowed[np.arange(n), rng.integers(k, size=n)] = True
    p = np.where(allowed, rng.dirichlet(np.ones(k), size=n), 0)
    p /= p.sum(axis=1, keepdims=True)
    # Rates of labels that the rows allow are often just barely possible; random rates never are.
    chosen = np.array([rng.choice(np.flatnonzero(row)) for row in allowed])
    rates = np.bincount(chosen, minlength=k) / n if draw(st.booleans()) else rng.dirichlet(np.ones(k))
    return p, rates


@cases(500)
@given(supports(), st.sampled_from(["log", 0.5]))
def test_rates_are_solved_if_halls_condition_allows_them_and_rejected_otherwise(
    problem: tuple[Array, Array], loss: str | float
) -> None:
    p, rates = problem
    measure = br.losses.Power(loss) if isinstance(loss, float) else loss
    slack = hall_slack(p, rates)
    if min(slack.values()) < -1e-9:
        with pytest.raises(br.InfeasibleRates) as caught:
            br.adjust(p, rates, loss=measure)
        blocked = caught.value
        if np.isfinite(blocked.reachable):
            # The attributes of the error agree with the definition of Hall's condition.
            others = tuple(j for j in range(p.shape[1]) if j not in blocked.classes)
            assert blocked.wanted == pytest.approx(rates[blocked.classes].sum())
            assert blocked.reachable == pytest.approx(1 - (rates[list(others)].sum() - slack[others]), abs=1e-9)
            assert blocked.reachable < blocked.wanted
    else:
        result = br.adjust(p, rates, loss=measure)
        assert_certified(result)
        assert not result.probs[p == 0].any()
        np.testing.assert_allclose(result.apply(p), result.probs, atol=1e-12)


@st.composite
def boxes(draw: st.DrawFn) -> tuple[Array, Array, Array]:
    """Predictions with hard zeros, and lower and upper bounds that are often tight."""
    p, rates = draw(supports())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k, width = len(rates), draw(st.sampled_from([0.05, 0.2]))
    low = np.where(rng.random(k) < 0.3, rates, np.maximum(rates - width * rng.random(k), 0))
    high = np.where(rng.random(k) < 0.3, rates, np.minimum(rates + width * rng.random(k), 1))
    return p, low, high


def reachable(p: Array, low: Array, high: Array) -> bool:
    """Whether predictions with these hard zeros can have a mean between the bounds; solved as a linear program."""
    n, k = p.shape
    rows, columns = np.nonzero(p)
    in_row, in_class = np.arange(n)[:, None] == rows, (np.arange(k)[:, None] == columns) / n
    bounds = np.concatenate([high, -low]) + 1e-10
    found = linprog(
        np.zeros(len(rows)), A_eq=in_row, b_eq=np.ones(n), A_ub=np.concatenate([in_class, -in_class]), b_ub=bounds
    )
    return bool(found.status == 0)


@cases(400)
@given(boxes(), st.sampled_from(["log", 0.5]))
def test_bounds_are_solved_if_the_zeros_allow_them_and_rejected_otherwise(
    problem: tuple[Array, Array, Array], loss: str | float
) -> None:
    p, low, high = problem
    known = br.Rates.between(low, high)
    measure = br.losses.Power(loss) if isinstance(loss, float) else loss
    if reachable(p, low, high):
        result = br.adjust(p, known, loss=measure)
        assert_certified(result)
        assert known.contains(result.rates / result.rates.sum())
        assert not result.probs[p == 0].any()
    else:
        with pytest.raises(br.InfeasibleRates) as caught:
            br.adjust(p, known, loss=measure)
        blocked = caught.value
        if np.isfinite(blocked.reachable):
            # Recomputed here: the most that the rows can give to the group, and the least that it needs.
            most = p[:, blocked.classes].any(axis=1).mean()
            least = max(low[blocked.classes].sum(), 1 - np.delete(high, blocked.classes).sum())
            assert blocked.reachable == pytest.approx(most, abs=1e-9)
            assert blocked.wanted == pytest.approx(least, abs=1e-9)
            assert most < least


@cases(100)
@given(supports(), st.sampled_from([0.03, 0.2]))
def test_balls_are_solved_if_the_zeros_allow_them_and_rejected_otherwise(
    problem: tuple[Array, Array], radius: float
) -> None:
    p, centre = problem
    a = cp.Variable(p.shape)
    nearest = cp.Problem(
        cp.Minimize(cp.norm(cp.sum(a, axis=0) / len(p) - centre)),
        [a >= 0, cp.sum(a, axis=1) == 1, cp.multiply(a, p == 0) == 0],
    ).solve(solver="CLARABEL")
    assume(abs(nearest - radius) > 1e-4)
    if nearest < radius:
        assert_certified(br.adjust(p, br.Rates.near(centre, radius)))
    else:
        with pytest.raises(br.InfeasibleRates, match=r"would need a mean of at least|allow no rates within") as caught:
            br.adjust(p, br.Rates.near(centre, radius))
        assert caught.value.wanted > caught.value.reachable


def test_a_ball_is_rejected_although_each_group_of_classes_could_reach_it() -> None:
    p = np.array(
        [
            [0.67, 0.0, 0.0, 0.07, 0.26],
            [0.0, 0.2, 0.8, 0.0, 0.0],
            [1.0, 0.0, 0.0, 0.0, 0.0],
            [0.96, 0.0, 0.04, 0.0, 0.0],
            [0.0, 0.0, 0.6, 0.2, 0.2],
            [0.0, 0.7, 0.0, 0.0, 0.3],
        ]
    )
    centre = [0.002, 0.232, 0.163, 0.007, 0.596]  # the nearest possible rates are at a distance of 0.2016
    with pytest.raises(br.InfeasibleRates, match=r"allow no rates within 0\.2 of the stated ones; pass zeros=1e-6"):
        br.adjust(p, br.Rates.near(centre, 0.2))
    assert br.adjust(p, br.Rates.near(centre, 0.21)).converged


def test_the_message_names_the_class_whose_bounds_are_impossible() -> None:
    p = np.tile([0.5, 0.5, 0.0], (10, 1))
    p[0] = [0.2, 0.2, 0.6]
    message = r"class 'c' would need a mean of at least 0\.2, but only 1 of 10 rows .* at most 0\.1"
    with pytest.raises(br.InfeasibleRates, match=message):
        br.adjust(p, br.Rates.between({"c": 0.2}, {"c": 0.3}), classes=["a", "b", "c"])
    with pytest.raises(br.InfeasibleRates, match=r"would need a mean of at least 0\.1 together"):
        br.adjust([[1.0, 0, 0], [1.0, 0, 0]], br.Rates.between(None, [0.9, None, None]))


def test_a_class_that_no_row_predicts_gets_0_if_the_rate_set_allows_it() -> None:
    p = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]])
    for known in (br.Rates.from_counts([30, 10, 0]), br.Rates.near([0.7, 0.28, 0.02], 0.1)):
        result = br.adjust(p, known)
        assert_certified(result)
        assert not result.probs[:, 2].any()
        assert result.certificate.holds_for(result.rates / result.rates.sum())
    with pytest.raises(
        br.InfeasibleRates, match=r"class 2 would need a mean of at least 0\.118\d+, but no row gives it"
    ):
        br.adjust(p, br.Rates.near([0.5, 0.3, 0.2], 0.1))


def test_the_message_names_the_class_whose_rate_is_impossible() -> None:
    p = np.tile([0.5, 0.5, 0.0], (10, 1))
    p[0] = [0.2, 0.2, 0.6]
    with pytest.raises(
        br.InfeasibleRates, match=r"class 'c' would need a mean of 0\.3, but only 1 of 10 rows .* at most 0\.1"
    ):
        br.adjust(p, {"a": 0.3, "b": 0.4, "c": 0.3}, classes=["a", "b", "c"])


def test_the_message_names_a_group_whose_rates_are_only_impossible_together() -> None:
    # Half of the rows allow only classes 0 and 1, the others only 2 and 3. So 0 and 1 together cannot get 0.7.
    p = np.array([[0.5, 0.5, 0, 0], [0.1, 0.9, 0, 0], [0, 0, 0.5, 0.5], [0, 0, 0.3, 0.7]])
    with pytest.raises(br.InfeasibleRates, match=r"class 0 and class 1 would need a mean of 0\.7 together") as caught:
        br.adjust(p, [0.35, 0.35, 0.15, 0.15])
    assert caught.value.classes == [0, 1]
    assert caught.value.reachable == pytest.approx(0.5)
    assert br.adjust(p, [0.2, 0.3, 0.4, 0.1]).converged


def test_the_message_suggests_options_that_work() -> None:
    p = np.array([[1.0, 0.0], [0.4, 0.6]])
    with pytest.raises(br.InfeasibleRates, match="zeros=1e-6"):
        br.adjust(p, [0.2, 0.8])
    assert_certified(br.adjust(p, [0.2, 0.8], zeros=1e-6))
    assert_certified(br.adjust(p, [0.2, 0.8], loss="brier"))


def test_rates_that_are_just_possible_give_rows_of_0_and_1() -> None:
    # Row 0 allows only class 0 and uses up its rate, so row 1 must be class 1.
    result = br.adjust([[1.0, 0.0], [0.4, 0.6]], [0.5, 0.5])
    np.testing.assert_array_equal(result.probs, [[1, 0], [0, 1]])
    assert_certified(result)
    np.testing.assert_array_equal(result.apply([0.9, 0.1]), [0, 1])


def test_the_result_for_just_possible_rates_is_the_limit_of_results_for_nearby_rates() -> None:
    p = np.array([[0.7, 0.3, 0, 0], [0.5, 0.5, 0, 0], [0.1, 0.2, 0.3, 0.4], [0.2, 0.2, 0.5, 0.1]])
    tight = np.array([0.2, 0.3, 0.3, 0.2])  # rows 0 and 1 alone use up the rates of classes 0 and 1
    limit = br.adjust(p, tight)
    assert_certified(limit)
    assert not limit.probs[2:, :2].any()
    near = br.adjust(p, tight + 1e-7 * np.array([1, 1, -1, -1])).probs
    np.testing.assert_allclose(near, limit.probs, atol=1e-5)


def test_a_limit_with_three_levels_of_classes() -> None:
    p = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]])
    result = br.adjust(p, np.full(3, 1 / 3))
    np.testing.assert_array_equal(result.probs, np.eye(3))
    np.testing.assert_array_equal(result.apply([[0.98, 0.01, 0.01], [0.9, 0.1, 0]]), [[0, 0, 1], [0, 1, 0]])


def test_a_row_that_allows_only_classes_of_rate_0_is_rejected() -> None:
    with pytest.raises(br.InfeasibleRates, match=r"row 1 gives probability only to classes whose rate is 0"):
        br.adjust([[0.5, 0.5, 0], [0, 0, 1.0]], [0.5, 0.5, 0])


def test_thousands_of_different_zero_patterns() -> None:
    rng = np.random.default_rng(0)
    p = np.where(rng.random((3000, 30)) < 0.8, 0, rng.random((3000, 30)))
    p[np.arange(3000), rng.integers(30, size=3000)] += 0.1
    p /= p.sum(axis=1, keepdims=True)
    assert_certified(br.adjust(p, rng.dirichlet(np.full(30, 20.0))))
    too_much = np.full(30, 0.05 / 29)
    too_much[4] = 0.95
    with pytest.raises(br.InfeasibleRates, match=r"class 4 would need a mean of 0\.95"):
        br.adjust(p, too_much)


def test_the_message_shows_a_difference_in_the_last_digits() -> None:
    p = np.array([[0.0, 1.0], [0.4, 0.6], [0.4, 0.6]])
    with pytest.raises(br.InfeasibleRates, match=r"needs? a mean of 0\.666666666672.* at most 0\.666666666667"):
        br.adjust(p, [2 / 3 + 5e-12, 1 / 3 - 5e-12])
