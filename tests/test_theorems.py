"""Property tests of the theorems in the paper and in docs/theory.md."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import (
    KERNEL_LOSSES,
    assert_certified,
    cases,
    kernel_setting,
    labelled_problems,
    mean_loss,
    random_loss,
)

import baserate as br

ROUNDING = 1e-8


def adjust_and_check_the_guarantee(problem: dict[str, Any]) -> br.Adjustment:
    """Adjust to the rates of the labels, and check that the loss falls by at least the guaranteed amount."""
    y, loss, w = problem.pop("y"), problem["loss"], problem["sample_weight"]
    result = br.adjust(**problem)
    assert_certified(result, relative=True)
    reduction = mean_loss(loss, problem["probs"], y, w) - mean_loss(loss, result.probs, y, w)
    scale = 1 + mean_loss(loss, problem["probs"], y, w)
    assert reduction >= result.certificate.loss_reduction - ROUNDING * scale
    distance = mean_loss(loss, problem["probs"], result.probs, w)
    assert result.certificate.loss_reduction == pytest.approx(distance, abs=1e-8 * (1 + distance))
    return result


@cases(600)
@given(labelled_problems(zeros=True))
def test_bounded_adjustment_lowers_the_loss_by_the_guaranteed_amount(problem: dict[str, Any]) -> None:
    adjust_and_check_the_guarantee(problem)


@cases(200)
@given(labelled_problems(zeros=True, losses=KERNEL_LOSSES))
def test_the_guarantee_also_holds_with_compiled_kernels(problem: dict[str, Any]) -> None:
    with kernel_setting("always"):
        assert adjust_and_check_the_guarantee(problem).engine == "numba"


@cases(300)
@given(labelled_problems())
def test_unbounded_adjustment_decomposes_the_loss_and_is_coherent(problem: dict[str, Any]) -> None:
    y, loss, w = problem.pop("y"), problem["loss"], problem["sample_weight"]
    result = br.adjust(**problem, bounded=False)
    assert_certified(result, bounded=False, relative=True)
    assume(loss.domain == br.losses.REAL or result.probs.min() > 0)  # at the boundary there is only an inequality
    terms = br.theory.decomposition(problem["probs"], result.probs, y, loss=loss, sample_weight=w)
    assert abs(terms.surplus) <= ROUNDING * (1 + terms.total)
    spread = br.theory.coherence(problem["probs"], result.probs, loss=loss).spread
    corners = np.eye(len(problem["rates"]))
    largest = max(
        float(loss.divergence(m, np.tile(c, (len(m), 1))).max())
        for m in (problem["probs"], result.probs)
        for c in corners
    )
    assert spread <= 1e-8 * (1 + largest)


@cases(200)
@given(labelled_problems())
def test_bounded_adjustment_guarantees_at_least_as_much_as_unbounded(problem: dict[str, Any]) -> None:
    w = problem["sample_weight"]
    chain = br.theory.inequality_chain(problem["probs"], problem["y"], loss=problem["loss"], sample_weight=w)
    slack = ROUNDING * (1 + abs(chain.bounded_fall))
    assert chain.bounded_fall >= chain.bounded_move - slack
    assert chain.bounded_move >= chain.unbounded_move - slack
    assert chain.unbounded_move >= -slack
    if problem["loss"].domain == br.losses.REAL:
        assert chain.unbounded_move == pytest.approx(chain.unbounded_fall, abs=slack)


@cases(200)
@given(labelled_problems(), st.sampled_from([1e-4, 1e-2, 0.3, 1.0]))
def test_no_other_predictions_with_the_same_rates_are_nearer(problem: dict[str, Any], step: float) -> None:
    y, loss, w = problem.pop("y"), problem["loss"], problem["sample_weight"]
    a = br.adjust(**problem).probs
    other = (1 - step) * a + step * y  # same class rates, since a and y have the same
    nearest = mean_loss(loss, problem["probs"], a, w)
    assert mean_loss(loss, problem["probs"], other, w) >= nearest - 1e-10 * (1 + nearest)


@cases(100)
@given(labelled_problems())
def test_additive_and_multiplicative_adjustment_match_their_closed_forms(problem: dict[str, Any]) -> None:
    p, rates, w = problem["probs"], problem["rates"], problem["sample_weight"]
    mean = np.average(p, axis=0, weights=w)
    np.testing.assert_allclose(br.additive(p, rates, sample_weight=w).probs, p + (rates - mean), atol=1e-12)
    if (rates > 0).all():
        result = br.multiplicative(p, rates, sample_weight=w)
        factors = np.exp(result.shift)
        expected = p * factors / (p @ factors)[:, None]
        np.testing.assert_allclose(result.probs, expected, atol=1e-12)
        np.testing.assert_array_equal(br.adjust(p, rates, sample_weight=w, bounded=False).probs, result.probs)


@cases(100)
@given(labelled_problems())
def test_applying_the_shift_to_the_fitted_rows_gives_the_result(problem: dict[str, Any]) -> None:
    problem.pop("y")
    result = br.adjust(**problem)
    np.testing.assert_allclose(result.apply(problem["probs"]), result.probs, rtol=0, atol=1e-9)


@cases(100)
@given(labelled_problems())
def test_a_second_adjustment_changes_nothing(problem: dict[str, Any]) -> None:
    problem.pop("y")
    assume(not problem["loss"].flat_at_zero)
    once = br.adjust(**problem).probs
    assume(not problem["loss"].pins_zeros or once.min() > 0)
    again = br.adjust(**{**problem, "probs": once, "rates": np.maximum(problem["rates"], 0)})
    np.testing.assert_allclose(again.probs, once, atol=1e-7)
    assert again.certificate.loss_reduction <= 1e-9


@cases(60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_row_order_does_not_matter_and_weights_count_like_repeated_rows(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    p, rates, loss = rng.dirichlet(np.ones(k), size=9), rng.dirichlet(np.full(k, 3.0)), random_loss(rng, k)
    assume(not loss.flat_at_zero)
    base = br.adjust(p, rates, loss=loss).probs
    order = rng.permutation(9)
    np.testing.assert_allclose(br.adjust(p[order], rates, loss=loss).probs, base[order], atol=1e-8)
    times = rng.integers(1, 4, size=9)
    repeated = br.adjust(np.repeat(p, times, axis=0), rates, loss=loss).probs
    weighted = br.adjust(p, rates, loss=loss, sample_weight=times).probs
    np.testing.assert_allclose(repeated, np.repeat(weighted, times, axis=0), atol=1e-8)


@cases(60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.sampled_from(["log", "brier", "spherical"]))
def test_class_order_does_not_matter(seed: int, k: int, loss: str) -> None:
    rng = np.random.default_rng(seed)
    p, rates, order = rng.dirichlet(np.ones(k), size=9), rng.dirichlet(np.full(k, 3.0)), rng.permutation(k)
    base = br.adjust(p, rates, loss=loss).probs
    np.testing.assert_allclose(br.adjust(p[:, order], rates[order], loss=loss).probs, base[:, order], atol=1e-8)


@cases(300)
@given(labelled_problems(losses=[br.losses.Log()]), st.sampled_from([0.01, 0.3, 1.0, 3.0, 10.0]))
def test_no_class_reweighting_has_a_lower_log_loss_than_adjustment_to_the_exact_rates(
    problem: dict[str, Any], scale: float
) -> None:
    y, p, w, pi = problem.pop("y"), problem["probs"], problem["sample_weight"], problem["rates"]
    least = mean_loss(problem["loss"], br.adjust(**problem).probs, y, w)
    rng = np.random.default_rng(int(1e6 * p[0, 0]))
    old, k = rng.dirichlet(np.ones(p.shape[1])), p.shape[1]
    prior = np.log(np.maximum(pi, 1e-6) / old)
    for lam in (scale * rng.normal(size=k), prior, np.zeros(k)):
        weighted = p * np.exp(lam)
        normalizer = weighted.sum(axis=1)
        loss = mean_loss(problem["loss"], weighted / normalizer[:, None], y, w)
        assert least <= loss + ROUNDING * (1 + loss)
        before = mean_loss(problem["loss"], p, y, w)
        fall = lam @ pi - np.average(np.log(normalizer), weights=w)
        assert before - loss == pytest.approx(
            fall, abs=ROUNDING * (1 + before + loss)
        )  # for log loss it is an equality
    if (pi > 0).all():
        ppa = br.prior_adjust(p, old, pi, sample_weight=w).probs
        loss = mean_loss(problem["loss"], ppa, y, w)
        assert least <= loss + ROUNDING * (1 + loss)


@cases(80)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_sensitivity_is_the_derivative_of_the_guarantee(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    p, rates, loss = rng.dirichlet(np.ones(k), size=30), rng.dirichlet(np.full(k, 4.0)), random_loss(rng, k)
    assume(not loss.flat_at_zero and rates.min() > 0.02)
    direction = rng.normal(size=k)
    direction -= direction.mean()
    h = 1e-5 / np.abs(direction).max()
    up, down = (br.adjust(p, rates + s * h * direction, loss=loss).certificate.loss_reduction for s in (1, -1))
    reported = br.adjust(p, rates, loss=loss).certificate.sensitivity @ direction
    assert reported == pytest.approx((up - down) / (2 * h), rel=1e-3, abs=1e-4 * (1 + abs(reported)))


@cases(100)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_prior_adjustment_is_bayes_rule_and_keeps_its_guarantee(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    p, old, new = rng.dirichlet(np.ones(k), size=7), rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k))
    expected = np.array([[row[j] * new[j] / old[j] for j in range(k)] for row in p])
    expected /= expected.sum(axis=1, keepdims=True)
    result = br.prior_adjust(p, old, new)
    np.testing.assert_allclose(result.probs, expected, atol=1e-13)
    assert result.certificate.loss_reduction <= br.adjust(p, new).certificate.loss_reduction + 1e-9
    y = np.eye(k)[rng.integers(k, size=7)]
    to_true_rates = br.prior_adjust(p, old, y.mean(axis=0))
    with np.errstate(divide="ignore"):
        reduction = br.losses.Log().score(p, y) - br.losses.Log().score(to_true_rates.probs, y)
    assert reduction >= to_true_rates.certificate.loss_reduction - 1e-9
