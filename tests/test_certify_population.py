"""The bound of a fixed shift for a population: its range for single rows, and how often it is correct."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from support import ALL_LOSSES, loss_id, number_of_cases
from test_certify import fitted, predictions
from tool_support import load_tool

import baserate as br
from baserate.core.fixed_shift import limits_of_rows, row_bounds
from baserate.core.mean_bound import bet_sums, lower_mean_bound
from baserate.losses import Loss

coverage = load_tool("certify_coverage")


def assert_covers(setting: Any, repetitions: int) -> None:
    """Fail if the bound is correct less often than in 95 % of the cases, unless chance explains it."""
    covered = round(coverage.simulate(setting, repetitions).covered * repetitions)
    assert binomtest(covered, repetitions, 0.95, alternative="less").pvalue > 0.001


@pytest.mark.parametrize("index", [1, 4, 7, 10, 15, 16])
def test_the_bound_is_correct_with_the_stated_confidence(index: int) -> None:
    assert_covers(coverage.SETTINGS[index], 100)


@pytest.mark.stress
@pytest.mark.parametrize("setting", coverage.SETTINGS, ids=str)
def test_the_bound_is_correct_with_the_stated_confidence_in_2000_simulations(setting: Any) -> None:
    assert_covers(setting, 2000)


def test_the_bound_is_correct_as_often_as_stated_for_numbers_that_are_hard_to_bound() -> None:
    # 1 number in 50 is 1, the others are 0: few samples contain enough of them, and the bound must stay low.
    rng = np.random.default_rng(0)
    for n in (10, 60, 400):
        for alpha in (0.05, 0.3):
            samples = (rng.random((200, n)) < 0.02).astype(float)
            bounds = [lower_mean_bound(bet_sums(one, 0, (0.0, 1.0)), (0.0, 1.0), alpha) for one in samples]
            wrong = int((np.array(bounds) > 0.02).sum())
            assert binomtest(wrong, 200, alpha, alternative="greater").pvalue > 0.001


def test_the_histogram_never_raises_the_bound_and_hardly_lowers_it() -> None:
    rng = np.random.default_rng(1)
    for n, spread in ((30, 0.3), (500, 0.1), (5000, 0.01)):
        x = np.clip(rng.normal(0.4, spread, size=n), 0.0, 1.0)
        found = lower_mean_bound(bet_sums(x, 0, (0.0, 1.0)), (0.0, 1.0), 0.05)
        exact = _bound_from_all_numbers(x, 0.05)
        assert exact - 2e-4 <= found <= exact + 5e-5  # the step of the grid


def _bound_from_all_numbers(x: Any, alpha: float) -> float:
    """The same bound without a histogram, by a search over a fine grid of means."""
    number = np.arange(1, len(x) + 1)
    part = np.array([6 - min((int(i) & -int(i)).bit_length() - 1, 6) for i in number])
    bets = np.zeros(len(x))
    for one in range(7):
        seen = x[part < one]
        mean = (0.5 + seen.sum()) / (1 + len(seen))
        variance = (0.25 + ((seen - mean) ** 2).sum()) / (1 + len(seen))
        bets[part == one] = np.sqrt(2 * np.log(1 / alpha) / (len(x) * variance))
    means = np.linspace(0.0, 1.0, 20_001)[1:]
    capital = np.array([np.log1p(np.minimum(bets, 0.75 / m) * (x - m)).sum() for m in means])
    excluded = means[capital >= np.log(1 / alpha)]
    return float(excluded.max()) if excluded.size else 0.0


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize(("loss", "k"), ALL_LOSSES, ids=loss_id)
def test_no_row_is_outside_the_limits_of_its_loss(loss: Loss, k: int, bounded: bool) -> None:
    for seed in range(number_of_cases(4)):
        rng = np.random.default_rng(seed)
        result = fitted(rng, loss, k, bounded=bounded)
        limits = limits_of_rows(result.model, result.dual_shift)
        if limits is None:
            assert not bounded
            assert not result.model.bounded
            continue
        corners = 0.999999 * np.eye(k) + 0.000001 / k
        p = np.concatenate([predictions(rng, k, 300), corners])
        least = row_bounds(result.model, result.model.adjusted(p, result.dual_shift), result.dual_shift)[0]
        assert (least >= limits[0]).all()
        if result.model.keeps_all_classes:
            assert (least <= limits[1] + 1e-9).all()


def test_more_rows_and_less_confidence_give_larger_bounds_below_the_mean() -> None:
    rng = np.random.default_rng(2)
    result = br.adjust(rng.beta(1, 2, size=500), 0.2)
    p = rng.beta(1, 2, size=100_000)
    whole = result.certify(p, 0.2)
    bounds = [result.certify(p[:n], 0.2).for_population().loss_reduction for n in (100, 1000, 10_000, 100_000)]
    assert bounds == sorted(bounds)
    assert 0 < whole.loss_reduction - bounds[-1] < 0.01
    levels = [whole.for_population(level).loss_reduction for level in (0.5, 0.9, 0.99)]
    assert levels == sorted(levels, reverse=True)


def test_what_is_known_about_the_population_enters_the_bound() -> None:
    rng = np.random.default_rng(3)
    result, p = br.adjust(rng.beta(1, 2, size=500), 0.2), rng.beta(1, 2, size=5000)

    def bound(rates: Any, confidence: float = 0.95) -> Any:
        return result.certify(p, rates).for_population(confidence)

    exact = bound(0.2)
    assert bound(br.Rates.of_population(0.2)).loss_reduction == exact.loss_reduction
    assert bound(br.Rates.between(0.15, 0.25)).loss_reduction < exact.loss_reduction
    assert bound(br.Rates.near(0.2, 0.05)).loss_reduction == pytest.approx(
        bound(br.Rates.between(0.15, 0.25)).loss_reduction
    )
    survey = bound(br.Rates.from_counts(200, total=1000))
    low, high = br.Rates.from_counts(200, total=1000, confidence=0.975).bounds()
    rows = bound(br.Rates.between(low[1], high[1]), 0.975)
    assert survey.loss_reduction == pytest.approx(rows.loss_reduction, abs=1e-12)
    assert "95 % confidence (97.5 % for the rows, 97.5 % for the rates), if the survey, these rows" in survey.condition
    assert "which has the given class rates, and the shift was fitted on other rows" in exact.condition
    assert "lie in the given set" in bound(br.Rates.between(0.15, 0.25)).condition
    assert "Guarantee of a fixed shift for a population, from 5,000 rows" in repr(exact)
    assert exact.to_json()["confidence"] == 0.95
    assert "confidence" in exact._repr_html_()


def test_numbers_below_their_limit_give_no_bound() -> None:
    assert np.isnan(bet_sums(np.array([0.5, -0.1]), 0, (0.0, 1.0)).counts).all()


def test_equal_weights_are_no_weights() -> None:
    rng = np.random.default_rng(5)
    result, p = br.adjust(rng.beta(1, 2, size=500), 0.2), rng.beta(1, 2, size=300)
    plain, weighted = result.certify(p, 0.2), result.certify(p, 0.2, sample_weight=np.full(300, 7.0))
    assert weighted.for_population().loss_reduction == pytest.approx(plain.for_population().loss_reduction)


def test_a_shift_of_zero_changes_nothing_for_a_population() -> None:
    result = br.adjust([0.2, 0.4], br.Rates.between(None, None))
    assert result.certify([0.3, 0.5], 0.9).for_population().loss_reduction == pytest.approx(0.0, abs=1e-8)


def test_a_limit_at_infinity_guarantees_nothing_for_a_population() -> None:
    p = np.array([[0.5, 0.5, 0.0], [0.5, 0.3, 0.2], [0.0, 0.4, 0.6], [0.3, 0.6, 0.1]])
    result = br.adjust(p, [0.75, 0.0625, 0.1875])
    with pytest.raises(br.BaserateError, match="zeros in the predictions pushed the shift to infinity"):
        result.certify(p, [0.75, 0.0625, 0.1875]).for_population()
