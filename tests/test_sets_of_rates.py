"""Adjustment to a set of possible rates: the guarantee holds for every rate vector in the set."""

from __future__ import annotations

import itertools
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog
from support import (
    ALL_LOSSES,
    Array,
    assert_certified,
    cases,
    labelled_problems,
    loss_id,
    mean_loss,
    problems_with_sets,
)

import baserate as br
from baserate.core import trust_region
from baserate.losses import Loss

ROUNDING = 1e-8


def assert_loss_falls_as_guaranteed(problem: dict[str, Any], y: Array, result: br.Adjustment) -> None:
    """On labels whose rates lie in the set, the loss falls by at least the guaranteed amount."""
    loss, w = problem["loss"], problem["sample_weight"]
    before = mean_loss(loss, problem["probs"], y, w)
    fall = before - mean_loss(loss, result.probs, y, w)
    assert result.certificate.holds_for(np.average(y, axis=0, weights=w))
    assert result.certificate.loss_reduction >= 0
    assert fall >= result.certificate.loss_reduction - ROUNDING * (1 + before)


@cases(1500)
@given(problems_with_sets(zeros=True))
def test_the_loss_falls_by_the_guaranteed_amount_for_all_rates_in_the_set(problem: dict[str, Any]) -> None:
    y = problem.pop("y")
    result = br.adjust(**problem)
    assert_certified(result, relative=True)
    assert_loss_falls_as_guaranteed(problem, y, result)
    moved = mean_loss(problem["loss"], problem["probs"], result.probs, problem["sample_weight"])
    assert result.certificate.loss_reduction == pytest.approx(moved, abs=1e-8 * (1 + moved))


@cases(400)
@given(problems_with_sets())
def test_the_guarantee_of_unbounded_adjustment_holds_for_all_rates_in_the_set(problem: dict[str, Any]) -> None:
    # Unbounded spherical adjustment is left out because it converges slowly; see docs/theory.md.
    assume(not isinstance(problem["loss"], br.losses.Spherical))
    y = problem.pop("y")
    result = br.adjust(**problem, bounded=False)
    assert_certified(result, bounded=False, relative=True)
    assert_loss_falls_as_guaranteed(problem, y, result)


@cases(200)
@given(labelled_problems(zeros=True), st.sampled_from([0.0, 0.02, 0.2]))
def test_the_guarantee_holds_for_the_worst_possible_labels(problem: dict[str, Any], width: float) -> None:
    # The change of the loss is linear in the labels, so a linear program finds the worst labels within the bounds.
    p, loss, rates = problem["probs"], problem["loss"], problem["rates"]
    n, k = p.shape
    w = (
        np.full(n, 1 / n)
        if problem["sample_weight"] is None
        else problem["sample_weight"] / problem["sample_weight"].sum()
    )
    low, high = np.maximum(rates - width, 0), np.minimum(rates + width, 1)
    result = br.adjust(p, br.Rates.between(low, high), loss=loss, sample_weight=problem["sample_weight"])
    corners = [np.tile(corner, (n, 1)) for corner in np.eye(k)]
    with np.errstate(divide="ignore", invalid="ignore"):
        fall = np.stack([loss.divergence(p, c) - loss.divergence(result.probs, c) for c in corners], axis=1)
    assume(np.isfinite(fall).all())
    mean = np.kron(w, np.eye(k))
    worst = linprog(
        (w[:, None] * fall).ravel(),
        A_eq=np.kron(np.eye(n), np.ones(k)),
        b_eq=np.ones(n),
        A_ub=np.concatenate([mean, -mean]),
        b_ub=np.concatenate([high, -low]) + 1e-12,
    )
    assert worst.status == 0
    assert worst.fun >= result.certificate.loss_reduction - 1e-7 * (1 + np.abs(fall).max())


@pytest.mark.parametrize("loss", ["log", "brier", "spherical", br.losses.Power(1.5)])
@pytest.mark.parametrize("metric", ["euclidean", "chi2"])
@pytest.mark.parametrize("radius", [1e-12, 1e-8, 1e-4, 0.01, 0.3])
def test_balls_of_all_sizes_converge_and_guarantee_no_more_than_exact_rates(
    loss: Any, metric: str, radius: float
) -> None:
    rng = np.random.default_rng(0)
    for p, centre in (
        (np.array([[1e-3, 1e-3, 0.998]]), [0.05, 0.9, 0.05]),
        (np.array([[1e-7, 1e-7, 1 - 2e-7]]), [0.05, 0.9, 0.05]),
        (np.array([[0.56, 0.43, 0.01]]), [0.82, 1e-4, 0.1799]),
        (rng.dirichlet(np.full(6, 0.3), size=50) * 0.999 + 0.001 / 6, rng.dirichlet(np.ones(6))),
    ):
        exact = br.adjust(p, centre, loss=loss).certificate.loss_reduction
        result = br.adjust(p, br.Rates.near(centre, radius, metric=metric), loss=loss)
        assert_certified(result)
        assert result.certificate.loss_reduction <= exact + 1e-9
        if radius <= 1e-8:
            assert result.certificate.loss_reduction == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize(("loss", "k"), ALL_LOSSES, ids=loss_id)
def test_every_loss_keeps_its_guarantee_with_boxes(loss: Loss, k: int) -> None:
    rng = np.random.default_rng(k)
    for width in (0.0, 0.02, 0.2):
        p = rng.dirichlet(np.ones(k), size=40) * 0.99 + 0.01 / k
        y = np.eye(k)[rng.choice(k, p=rng.dirichlet(np.full(k, 2.0)), size=40)]
        rates = y.mean(axis=0)
        known = br.Rates.between(np.maximum(rates - width, 0), np.minimum(rates + width, 1))
        result = br.adjust(p, known, loss=loss)
        assert_certified(result, relative=True)
        assert_loss_falls_as_guaranteed({"probs": p, "loss": loss, "sample_weight": None}, y, result)


@cases(300)
@given(labelled_problems(), st.booleans())
def test_equal_lower_and_upper_bounds_give_the_result_of_exact_rates(problem: dict[str, Any], bounded: bool) -> None:
    problem.pop("y")
    assume(bounded or not isinstance(problem["loss"], br.losses.Spherical))
    rates = problem.pop("rates")
    exact = br.adjust(**problem, rates=rates, bounded=bounded)
    box = br.adjust(**problem, rates=br.Rates.between(rates, rates), bounded=bounded)
    np.testing.assert_allclose(box.probs, exact.probs, rtol=0, atol=1e-9)
    assert box.certificate.loss_reduction == pytest.approx(exact.certificate.loss_reduction, abs=1e-9)


@cases(200)
@given(labelled_problems(), st.sampled_from([1e-9, 1e-3, 0.5]))
def test_predictions_stay_unchanged_if_the_set_contains_their_mean(problem: dict[str, Any], width: float) -> None:
    p, w = problem["probs"], problem["sample_weight"]
    mean = np.average(p, axis=0, weights=w)
    for known in (
        br.Rates.between(np.maximum(mean - width, 0), np.minimum(mean + width, 1)),
        br.Rates.near(mean, width),
        br.Rates.near(mean, width, metric="chi2"),
    ):
        result = br.adjust(p, known, loss=problem["loss"], sample_weight=w)
        np.testing.assert_allclose(result.probs, p, rtol=0, atol=1e-15)
        assert result.certificate.loss_reduction == 0
        assert not result.active
        assert not result.shift.any()


@cases(300)
@given(st.one_of(labelled_problems(), problems_with_sets()), st.integers(1, 3))
def test_the_guarantee_holds_if_the_solver_is_stopped_early(problem: dict[str, Any], max_passes: int) -> None:
    y, loss, w = problem.pop("y"), problem["loss"], problem["sample_weight"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.NotConvergedWarning)
        result = br.adjust(**problem, max_passes=max_passes)
    before = mean_loss(loss, problem["probs"], y, w)
    fall = before - mean_loss(loss, result.probs, y, w)
    assert fall >= result.certificate.loss_reduction - ROUNDING * (1 + before)
    assert result.certificate.loss_reduction >= 0


@cases(150)
@given(problems_with_sets(), st.sampled_from([1e-3, 0.1, 1.0]))
def test_no_other_predictions_with_rates_in_the_set_are_nearer_to_the_original(
    problem: dict[str, Any], step: float
) -> None:
    y, loss, w = problem.pop("y"), problem["loss"], problem["sample_weight"]
    a = br.adjust(**problem).probs
    other = (1 - step) * a + step * y  # its mean is in the set, because the set is convex
    nearest = mean_loss(loss, problem["probs"], a, w)
    assert mean_loss(loss, problem["probs"], other, w) >= nearest - 1e-9 * (1 + nearest)


@cases(100)
@given(labelled_problems(), st.integers(0, 2**32 - 1))
def test_wider_bounds_never_guarantee_more(problem: dict[str, Any], seed: int) -> None:
    problem.pop("y")
    rates, rng = problem.pop("rates"), np.random.default_rng(seed)
    guaranteed = [
        br.adjust(
            **problem, rates=br.Rates.between(np.maximum(rates - w, 0), np.minimum(rates + w, 1))
        ).certificate.loss_reduction
        for w in np.sort(rng.uniform(0, 0.4, size=4))
    ]
    assert all(a >= b - 1e-9 * (1 + a) for a, b in itertools.pairwise(guaranteed))


@pytest.mark.parametrize("loss", ["log", "brier", "spherical", "ranked"])
def test_sensitivity_is_the_derivative_of_the_guarantee_by_an_active_bound(loss: str) -> None:
    rng = np.random.default_rng(3)
    p = rng.dirichlet([1, 2, 3, 1], size=200)
    low, high = np.array([0.25, 0.0, 0.2, 0.0]), np.array([0.4, 0.2, 0.5, 1.0])
    result = br.adjust(p, br.Rates.between(low, high), loss=loss)
    sides = {bound.of: bound.side for bound in result.active}
    assert sides
    for j in range(4):
        slope = 0.0
        if j in sides:
            h = 1e-5 * np.eye(4)[j]
            up, down = (
                br.adjust(p, br.Rates.between(*moved), loss=loss).certificate.loss_reduction
                for moved in (
                    [(low + h, high), (low - h, high)] if sides[j] == "low" else [(low, high + h), (low, high - h)]
                )
            )
            slope = (up - down) / 2e-5
        assert result.certificate.sensitivity[j] == pytest.approx(slope, rel=1e-3, abs=1e-6)
        # It is positive for active lower bounds, negative for active upper bounds, and 0 for other classes.
        assert np.sign(result.certificate.sensitivity[j]) == {"low": 1, "high": -1, None: 0}[sides.get(j)]


def test_sensitivity_of_two_classes_belongs_to_the_stated_bound() -> None:
    p = np.array([[0.90, 0.10], [0.60, 0.40], [0.30, 0.70], [0.10, 0.90]])

    def guaranteed(high: float) -> float:
        return br.adjust(p, br.Rates.between([None, 0.1], [None, high])).certificate.loss_reduction

    result = br.adjust(p, br.Rates.between([None, 0.1], [None, 0.3]))
    assert [(b.of, b.side) for b in result.active] == [(1, "high")]
    slope = (guaranteed(0.3 + 1e-5) - guaranteed(0.3 - 1e-5)) / 2e-5
    assert result.certificate.sensitivity == pytest.approx([0, slope], rel=1e-4)


def test_no_bound_is_active_if_the_mean_need_not_change() -> None:
    assert br.adjust([[1.0, 0.0]] * 26, br.Rates.of_population([0.95, 0.05])).active == ()


def test_achieved_rates_are_in_the_set() -> None:
    rng = np.random.default_rng(20)
    for _ in range(100):
        p, rates = rng.dirichlet(np.ones(4), size=20), rng.dirichlet(np.ones(4))
        for known in (br.Rates.between(rates * 0.9, np.minimum(rates * 1.1, 1)), br.Rates.near(rates, 0.05)):
            result = br.adjust(p, known)
            assert result.certificate.holds_for(result.rates)


def test_a_lower_bound_of_0_is_not_changed_by_rounding() -> None:
    for high in np.linspace(0.01, 0.99, 99):
        known = br.Rates.between(None, [1, high])
        assert known.bounds()[0][1] == 0
        assert "e-" not in repr(known)


def test_warnings_point_at_the_line_of_the_caller() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(3) * 0.1, size=50)
    result = br.adjust(p, [0.2, 0.3, 0.5], zeros=1e-9)
    for call in (
        lambda: br.adjust(p, [0.7, 0.2, 0.1], max_passes=1, zeros=1e-9),
        lambda: br.multiplicative(p, [0.7, 0.2, 0.1], max_passes=1, zeros=1e-9),
        lambda: br.adjust(p, [0.7, 0.2, 0.1], max_passes=1, zeros=1e-9).what_if(br.Rates.near([0.2, 0.3, 0.5], 0.1)),
    ):
        with pytest.warns(br.NotConvergedWarning) as caught:
            call()
        assert {warning.filename for warning in caught} == {__file__}
    assert result.converged


def test_without_an_impossible_class_the_mean_may_already_lie_in_a_ball() -> None:
    # Then all other classes keep the same shift. The support function has a kink there.
    n_unshifted = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = rng.dirichlet(np.full(4, 0.3), size=6)
        known = br.Rates.near([*rng.dirichlet([20, 20, 20]), 0.0], 0.3, metric="chi2")
        for loss in ("log", "brier", "spherical"):
            result = br.adjust(p, known, loss=loss)
            assert result.converged
            if not result.active:
                assert np.ptp(result.shift[:3]) <= 1e-12
                n_unshifted += 1
    assert n_unshifted >= 5


def test_active_bounds_of_boxes_balls_and_exact_rates() -> None:
    p = np.random.default_rng(0).dirichlet([1, 1, 4], size=50)
    named = br.adjust(p, br.Rates.between([0.4, None, None], None, classes=["a", "b", "c"]))
    assert [(b.of, b.side, b.value) for b in named.active] == [("a", "low", 0.4)]
    assert named.rates[0] == pytest.approx(0.4)
    assert named.shift[1] == named.shift[2]
    ball = br.adjust(p, br.Rates.near([0.5, 0.3, 0.2], 0.1))
    assert [(b.of, b.side, b.value) for b in ball.active] == [(None, "radius", 0.1)]
    assert np.linalg.norm(ball.rates - [0.5, 0.3, 0.2]) == pytest.approx(0.1)
    exact = br.adjust(p, [0.5, 0.3, 0.2])
    assert [b.side for b in exact.active] == ["exact"] * 3


def test_bounds_on_one_class_keep_the_proportions_of_the_others_under_log_loss() -> None:
    p = np.random.default_rng(1).dirichlet([5, 3, 1], size=300)
    known = br.Rates.between({"fraud": 0.01}, {"fraud": 0.03}, classes=["fine", "odd", "fraud"])
    result = br.adjust(p, known)
    assert result.rates[2] == pytest.approx(0.03)
    np.testing.assert_allclose(result.probs[:, 0] / result.probs[:, 1], p[:, 0] / p[:, 1])
    assert result.classes == ("fine", "odd", "fraud")


def test_a_hundred_classes() -> None:
    rng = np.random.default_rng(5)
    k = 100
    p = rng.dirichlet(np.full(k, 0.2), size=3000)
    rates = rng.dirichlet(np.full(k, 1.0))
    for known in (
        br.Rates.between(rates * 0.8, np.minimum(rates * 1.2, 1)),
        br.Rates.from_counts(rng.multinomial(300, rates)),
        br.Rates.near(rates, 0.05, metric="chi2"),
        br.Rates.near(rates, 0.05),
    ):
        for loss in ("log", "brier"):
            assert_certified(br.adjust(p, known, loss=loss))


@pytest.mark.parametrize("sharpness", [20, 300])
def test_over_confident_predictions(sharpness: float) -> None:
    rng = np.random.default_rng(6)
    logits, rates = sharpness * rng.normal(size=(500, 5)), rng.dirichlet(np.ones(5))
    for known in (br.Rates.between(rates * 0.9, np.minimum(rates * 1.1, 1)), br.Rates.near(rates, 0.02)):
        assert_certified(br.adjust(logits, known, from_logits=True))


def test_rare_classes() -> None:
    rng = np.random.default_rng(7)
    p = rng.dirichlet([0.001, 1, 1], size=2000)
    p = p * (1 - 1e-9) + 1e-9 / 3
    known = br.Rates.between([1e-12, 0.3, 0.3], [1e-10, 0.6, 0.6])
    result = br.adjust(p, known)
    assert_certified(result)
    assert result.rates[0] == pytest.approx(1e-10, rel=1e-5)


def test_classes_with_rate_0_get_probability_0() -> None:
    p = np.random.default_rng(8).dirichlet(np.ones(3), size=20)
    result = br.adjust(p, br.Rates.between([0.5, 0.1, 0], [0.7, 0.4, 0]))
    assert not result.probs[:, 2].any()
    assert_certified(result)
    forced = br.adjust(
        p, br.Rates.between([0.6, 0.4, None], None)
    )  # the lower bounds sum to 1, so the third class has rate 0
    np.testing.assert_allclose(forced.rates, [0.6, 0.4, 0], atol=1e-10)


def test_bounds_from_a_survey_are_wider_for_small_batches_and_unequal_weights() -> None:
    p = np.random.default_rng(9).dirichlet([1, 1], size=400)
    survey = br.Rates.from_counts([30, 70])
    small, large = br.adjust(p[:40], survey), br.adjust(p, survey)
    widths = [float(np.subtract(*r.certificate.bounds[::-1])[0]) for r in (small, large)]
    assert widths[0] > widths[1]
    assert small.certificate.batch_size == 40
    equal = br.adjust(p, survey, sample_weight=np.full(400, 3.0))
    assert equal.certificate.batch_size == 400
    weights = np.r_[np.full(40, 1.0), np.full(360, 1e-9)]
    assert br.adjust(p, survey, sample_weight=weights).certificate.batch_size == 40


def test_what_if_gives_the_result_of_adjust_in_no_more_passes() -> None:
    rng = np.random.default_rng(10)
    p = rng.dirichlet([1, 2, 3], size=500)
    result = br.adjust(p, [0.5, 0.3, 0.2], classes=["a", "b", "c"])
    before = result.probs.copy()
    for rates in ([0.49, 0.31, 0.2], {"c": 0.21, "a": 0.5, "b": 0.29}, br.Rates.between(0.2, 0.6), [0.5, 0.5, 0]):
        other = result.what_if(rates)
        fresh = br.adjust(p, rates, classes=["a", "b", "c"])
        np.testing.assert_allclose(other.probs, fresh.probs, rtol=0, atol=1e-9)
        assert other.n_passes <= fresh.n_passes
        assert other.classes == ("a", "b", "c")
        assert_certified(other)
    np.testing.assert_array_equal(result.probs, before)
    again = result.what_if([0.4, 0.3, 0.3]).what_if([0.5, 0.3, 0.2])
    np.testing.assert_allclose(again.probs, before, rtol=0, atol=1e-9)


def test_what_if_keeps_the_options_and_restores_classes_of_rate_0() -> None:
    rng = np.random.default_rng(11)
    p, w = rng.dirichlet([1, 2, 3], size=50), rng.random(50)
    p[0] = [1, 0, 0]
    options: dict[str, Any] = {"sample_weight": w, "zeros": 1e-4, "loss": "brier", "bounded": False}
    result = br.adjust(p, [0.7, 0.3, 0], **options)
    np.testing.assert_allclose(
        result.what_if([0.3, 0.3, 0.4]).probs, br.adjust(p, [0.3, 0.3, 0.4], **options).probs, atol=1e-9
    )


def test_what_if_without_the_original_rows_is_refused() -> None:
    result = br.adjust([[0.5, 0.5], [0.2, 0.8]], [0.5, 0.5])
    copy = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(copy.probs, result.probs)
    with pytest.raises(br.BaserateError, match=r"call adjust\(probs, rates\)"):
        copy.what_if([0.4, 0.6])


def test_what_if_of_a_prior_adjustment_names_the_function_to_call() -> None:
    prior = br.prior_adjust([[0.5, 0.5]], [0.5, 0.5], [0.4, 0.6])
    with pytest.raises(br.BaserateError, match="call prior_adjust with the other rates"):
        prior.what_if([0.4, 0.6])


def test_prior_adjustment_uses_the_estimate_and_guarantees_for_the_set() -> None:
    rng = np.random.default_rng(12)
    p = rng.dirichlet([2, 2], size=60)
    for known, estimate in (
        (br.Rates.exact([0.3, 0.7]), [0.3, 0.7]),
        (br.Rates.of_population([0.3, 0.7]), [0.3, 0.7]),
        (br.Rates.near([0.3, 0.7], 0.1), [0.3, 0.7]),
        (br.Rates.from_counts([3, 7]), [3.5 / 11, 7.5 / 11]),
    ):
        result = br.prior_adjust(p, [0.5, 0.5], known)
        np.testing.assert_allclose(result.probs, br.prior_adjust(p, [0.5, 0.5], estimate).probs, atol=1e-12)
        low, high = result.certificate.bounds
        for rates in (low[0], high[0]):
            y = np.column_stack([np.full(60, rates), np.full(60, 1 - rates)])
            fall = mean_loss(br.losses.Log(), p, y, None) - mean_loss(br.losses.Log(), result.probs, y, None)
            assert fall >= result.certificate.loss_reduction - 1e-9
    with pytest.raises(br.errors.BadRates, match="one rate per class is needed"):
        br.prior_adjust(p, [0.5, 0.5], br.Rates.between(0.2, 0.8))


@pytest.mark.parametrize(
    "known",
    [
        br.Rates.exact({"a": 0.2, "b": 0.3, "c": 0.5}, classes=["a", "b", "c"]),
        br.Rates.between([0.1, None, 0.4], [0.2, 0.5, None]),
        br.Rates.near([0.2, 0.3, 0.5], 0.05),
        br.Rates.near([0.2, 0.3, 0.5], 0.05, metric="chi2"),
        br.Rates.from_counts([3, 0, 50], 0.9, classes=["a", "b", "c"]),
        br.Rates.of_population([0.2, 0.3, 0.5], 0.99),
    ],
    ids=lambda known: known.kind,
)
def test_saving_and_loading_keeps_the_rates_and_the_certificate(known: br.Rates, tmp_path: Any) -> None:
    p = np.random.default_rng(13).dirichlet([3, 1, 1], size=80)
    result = br.adjust(p, known, loss="brier")
    result.save(tmp_path / "shift.json")
    loaded = br.load(tmp_path / "shift.json")
    assert repr(loaded) == repr(result)
    assert loaded.active == result.active
    assert loaded.certificate.confidence == result.certificate.confidence
    assert loaded.certificate.batch_size == 80
    np.testing.assert_array_equal(loaded.certificate.sensitivity, result.certificate.sensitivity)
    np.testing.assert_array_equal(loaded.certificate.bounds, result.certificate.bounds)
    np.testing.assert_array_equal(loaded.apply(p), result.apply(p))
    for rates in ([0.2, 0.3, 0.5], [0.1, 0.1, 0.8]):
        assert loaded.certificate.holds_for(rates) == result.certificate.holds_for(rates)


def test_repr_of_an_adjustment_states_the_condition_of_the_guarantee() -> None:
    p = [[0.7, 0.3], [0.4, 0.6], [0.9, 0.1]]
    text = repr(br.adjust(p, br.Rates.between({"ill": 0.5}, None, classes=["well", "ill"])))
    assert "if the rate of class 'ill' in these rows is at least 0.5" in text
    assert "at least  at most  achieved" in text
    survey = repr(br.adjust(p, br.Rates.from_counts([1, 9])))
    assert "with 95 % confidence, if the survey and these rows are random samples from the same population" in survey
    population = repr(br.adjust(p, br.Rates.of_population([0.1, 0.9], 0.8)))
    assert "with 80 % confidence, if these rows are a random sample from the population" in population


@pytest.mark.stress
@pytest.mark.parametrize("loss", ["log", "brier"])
def test_ten_million_rows_converge(loss: str) -> None:
    rng = np.random.default_rng(14)
    p = rng.dirichlet([1, 1, 2, 4], size=10_000_000).astype(np.float32)
    assert_certified(br.adjust(p, br.Rates.from_counts([300, 200, 100, 50]), loss=loss))


def test_bounds_on_rates_under_a_very_flat_loss_end_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    n_steps = 0

    def counted(*args: Any) -> Any:
        nonlocal n_steps
        n_steps += 1
        return step_within(*args)

    step_within = trust_region.newton
    monkeypatch.setattr(trust_region, "newton", counted)
    p = [[0.0, 0.0, 1.0], [0.9913835114924795, 0.008616488507520512, 0.0]]
    known = br.Rates.between([0.29954, 0.015488, 0.3676], [0.48917, 0.16816, 0.66004])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.errors.NotConvergedWarning)
        br.adjust(p, known, loss=br.losses.Power(100), sample_weight=[1.17e9, 4.25e9], max_passes=5)
    assert 0 < n_steps < 3000
