"""Rates that hard zeros forbid, allow, or allow only in the limit."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
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
