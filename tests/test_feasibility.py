"""Rates that hard zeros forbid, allow, or allow only in the limit."""

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
    """For each group of classes: its rates minus the weight of the rows that allow nothing else. By brute force."""
    k = p.shape[1]
    return {
        group: float(rates[list(group)].sum() - np.mean(~p[:, [j for j in range(k) if j not in group]].any(axis=1)))
        for size in range(1, k)
        for group in combinations(range(k), size)
    }


@st.composite
def supports(draw: st.DrawFn) -> tuple[Array, Array]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k = draw(st.integers(1, 10)), draw(st.integers(2, 5))
    allowed = rng.random((n, k)) < draw(st.sampled_from([0.3, 0.5, 0.7]))
    allowed[np.arange(n), rng.integers(k, size=n)] = True
    p = np.where(allowed, rng.dirichlet(np.ones(k), size=n), 0)
    p /= p.sum(axis=1, keepdims=True)
    # Labels of a possible world hit the edge of what is possible often, random rates hit it never.
    chosen = np.array([rng.choice(np.flatnonzero(row)) for row in allowed])
    rates = np.bincount(chosen, minlength=k) / n if draw(st.booleans()) else rng.dirichlet(np.ones(k))
    return p, rates


@cases(500)
@given(supports(), st.sampled_from(["log", 0.5]))
def test_exactly_what_halls_condition_allows_is_solved(problem: tuple[Array, Array], loss: str | float) -> None:
    p, rates = problem
    measure = br.losses.Power(loss) if isinstance(loss, float) else loss
    slack = hall_slack(p, rates)
    if min(slack.values()) < -1e-9:
        with pytest.raises(br.InfeasibleRates) as caught:
            br.adjust(p, rates, loss=measure)
        blocked = caught.value
        if np.isfinite(blocked.reachable):
            # The claim is checked against the definition: nothing but these classes is out of reach.
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
    """Predictions with zeros, and bounds that are often tight."""
    p, rates = draw(supports())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k, width = len(rates), draw(st.sampled_from([0.05, 0.2]))
    low = np.where(rng.random(k) < 0.3, rates, np.maximum(rates - width * rng.random(k), 0))
    high = np.where(rng.random(k) < 0.3, rates, np.minimum(rates + width * rng.random(k), 1))
    return p, low, high


def reachable(p: Array, low: Array, high: Array) -> bool:
    """Whether some predictions with these zeros have a mean between the bounds: a linear program."""
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
def test_exactly_the_boxes_that_zeros_allow_are_solved(problem: tuple[Array, Array, Array], loss: str | float) -> None:
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
            # The claim is checked by itself: what the rows can give to the group, and the least that it may have.
            allow = p[:, blocked.classes].any(axis=1).mean()
            least = max(low[blocked.classes].sum(), 1 - np.delete(high, blocked.classes).sum())
            assert blocked.reachable == pytest.approx(allow, abs=1e-9)
            assert blocked.wanted == pytest.approx(least, abs=1e-9)
            assert allow < least


@cases(100)
@given(supports(), st.sampled_from([0.03, 0.2]))
def test_balls_that_zeros_allow_are_solved_and_others_refused(problem: tuple[Array, Array], radius: float) -> None:
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
        with pytest.raises(br.InfeasibleRates, match="would need mean at least"):
            br.adjust(p, br.Rates.near(centre, radius))


def test_bounds_that_zeros_forbid_are_named_with_their_numbers() -> None:
    p = np.tile([0.5, 0.5, 0.0], (10, 1))
    p[0] = [0.2, 0.2, 0.6]
    message = r"class 'c' would need mean at least 0\.2, but only 1 of 10 rows .* at most 0\.1"
    with pytest.raises(br.InfeasibleRates, match=message):
        br.adjust(p, br.Rates.between({"c": 0.2}, {"c": 0.3}), classes=["a", "b", "c"])
    with pytest.raises(br.InfeasibleRates, match=r"would need mean at least 0\.1 together"):
        br.adjust([[1.0, 0, 0], [1.0, 0, 0]], br.Rates.between(None, [0.9, None, None]))


def test_a_class_that_no_row_predicts_is_left_out_if_the_set_allows_it() -> None:
    p = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]])
    for known in (br.Rates.from_counts([30, 10, 0]), br.Rates.near([0.7, 0.28, 0.02], 0.1)):
        result = br.adjust(p, known)
        assert_certified(result)
        assert not result.probs[:, 2].any()
        assert result.certificate.holds_for(result.rates / result.rates.sum())
    with pytest.raises(br.InfeasibleRates, match=r"class 2 would need mean at least 0\.118\d+, but only 0 of 2 rows"):
        br.adjust(p, br.Rates.near([0.5, 0.3, 0.2], 0.1))


def test_a_single_blocked_class_is_named_with_its_numbers() -> None:
    p = np.tile([0.5, 0.5, 0.0], (10, 1))
    p[0] = [0.2, 0.2, 0.6]
    with pytest.raises(
        br.InfeasibleRates, match=r"class 'c' would need mean 0\.3, but only 1 of 10 rows .* at most 0\.1"
    ):
        br.adjust(p, {"a": 0.3, "b": 0.4, "c": 0.3}, classes=["a", "b", "c"])


def test_a_blocked_group_is_named_though_each_of_its_classes_could_be_served() -> None:
    # Rows are sure to be one of {0, 1} or one of {2, 3}, half of them each; 0 and 1 together cannot get 0.7.
    p = np.array([[0.5, 0.5, 0, 0], [0.1, 0.9, 0, 0], [0, 0, 0.5, 0.5], [0, 0, 0.3, 0.7]])
    with pytest.raises(br.InfeasibleRates, match=r"class 0 and class 1 would need mean 0\.7 together") as caught:
        br.adjust(p, [0.35, 0.35, 0.15, 0.15])
    assert caught.value.classes == [0, 1]
    assert caught.value.reachable == pytest.approx(0.5)
    assert br.adjust(p, [0.2, 0.3, 0.4, 0.1]).converged


def test_the_message_says_what_to_do_and_doing_it_works() -> None:
    p = np.array([[1.0, 0.0], [0.4, 0.6]])
    with pytest.raises(br.InfeasibleRates, match="zeros=1e-6"):
        br.adjust(p, [0.2, 0.8])
    assert_certified(br.adjust(p, [0.2, 0.8], zeros=1e-6))
    assert_certified(br.adjust(p, [0.2, 0.8], loss="brier"))


def test_tight_rates_get_their_limit() -> None:
    # Row 0 can only be class 0, and with it the rate of class 0 is used up; so row 1 must be class 1 entirely.
    result = br.adjust([[1.0, 0.0], [0.4, 0.6]], [0.5, 0.5])
    np.testing.assert_array_equal(result.probs, [[1, 0], [0, 1]])
    assert_certified(result)
    np.testing.assert_array_equal(result.apply([0.9, 0.1]), [0, 1])


def test_the_limit_is_where_smaller_and_smaller_shortfalls_lead() -> None:
    p = np.array([[0.7, 0.3, 0, 0], [0.5, 0.5, 0, 0], [0.1, 0.2, 0.3, 0.4], [0.2, 0.2, 0.5, 0.1]])
    tight = np.array([0.2, 0.3, 0.3, 0.2])  # classes 0 and 1 get just what rows 0 and 1 must give them
    limit = br.adjust(p, tight)
    assert_certified(limit)
    assert not limit.probs[2:, :2].any()
    near = br.adjust(p, tight + 1e-7 * np.array([1, 1, -1, -1])).probs
    np.testing.assert_allclose(near, limit.probs, atol=1e-5)


def test_limits_in_three_levels() -> None:
    p = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]])
    result = br.adjust(p, np.full(3, 1 / 3))
    np.testing.assert_array_equal(result.probs, np.eye(3))
    np.testing.assert_array_equal(result.apply([[0.98, 0.01, 0.01], [0.9, 0.1, 0]]), [[0, 0, 1], [0, 1, 0]])


def test_a_row_that_allows_only_classes_of_rate_0() -> None:
    with pytest.raises(br.InfeasibleRates, match=r"row 1 gives probability only to classes whose rate is 0"):
        br.adjust([[0.5, 0.5, 0], [0, 0, 1.0]], [0.5, 0.5, 0])


def test_many_supports() -> None:
    rng = np.random.default_rng(0)
    p = np.where(rng.random((3000, 30)) < 0.8, 0, rng.random((3000, 30)))
    p[np.arange(3000), rng.integers(30, size=3000)] += 0.1
    p /= p.sum(axis=1, keepdims=True)
    assert_certified(br.adjust(p, rng.dirichlet(np.full(30, 20.0))))
    greedy = np.full(30, 0.05 / 29)
    greedy[4] = 0.95
    with pytest.raises(br.InfeasibleRates, match=r"class 4 would need mean 0\.95"):
        br.adjust(p, greedy)
