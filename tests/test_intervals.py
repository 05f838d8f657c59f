"""Prediction intervals for the rates of a batch, compared with SciPy, enumeration and simulation."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom, binom, binomtest
from support import cases

import baserate as br
from baserate.rates.intervals import batch_bounds

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from interval_coverage import CELLS, CONFIDENCE, simulate


@cases(300)
@given(st.integers(1, 3000), st.integers(1, 5000), st.integers(3, 9), st.floats(0.5, 0.999), st.data())
def test_bounds_are_beta_binomial_quantiles(m: int, n: int, k: int, confidence: float, data: st.DataObject) -> None:
    x = data.draw(st.integers(0, m))
    counts = np.zeros(k, dtype=np.int64)
    counts[0], counts[1] = x, m - x
    low, high = batch_bounds(counts, n, confidence)
    tail = (1 - confidence) / (2 * k)
    expected_low = 0 if x == 0 else betabinom.ppf(tail, n, x, m - x + 1)
    expected_high = n if x == m else betabinom.isf(tail, n, x + 1, m - x)
    # If the probability of a tail equals the limit up to the last digit, rounding decides which count is the bound.
    # Then the probabilities are compared instead.
    if round(high[0] * n) != expected_high:
        assert betabinom.sf(min(high[0] * n, expected_high), n, x + 1, m - x) == pytest.approx(tail, rel=1e-6)
    if round(low[0] * n) != expected_low:
        assert betabinom.cdf(min(low[0] * n, expected_low), n, x, m - x + 1) == pytest.approx(tail, rel=1e-6)


@pytest.mark.parametrize(("m", "n"), [(3, 7), (20, 5), (12, 40), (30, 30)])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_intervals_of_two_classes_have_the_stated_coverage_at_every_rate(m: int, n: int, confidence: float) -> None:
    # The sum over all possible surveys and batches is exact; a simulation would have sampling error.
    inside = np.zeros((m + 1, n + 1))
    for x in range(m + 1):
        low, high = br.Rates.from_counts([x, m - x], confidence).bounds(n)
        inside[x] = [low[0] - 1e-12 <= y / n <= high[0] + 1e-12 for y in range(n + 1)]
    for rate in [0, 1e-6, 1e-3, *np.linspace(0.01, 0.99, 99), 1 - 1e-6, 1]:
        covered = binom.pmf(np.arange(m + 1), m, rate) @ inside @ binom.pmf(np.arange(n + 1), n, rate)
        assert covered >= confidence - 1e-12


@pytest.mark.parametrize("counts", [[0, 5], [3, 17], [200, 1], [40, 0]])
def test_bounds_without_a_batch_size_are_clopper_pearson_intervals(counts: list[int]) -> None:
    low, high = br.Rates.from_counts(counts, 0.9).bounds()
    expected = binomtest(counts[0], sum(counts)).proportion_ci(0.9, method="exact")
    np.testing.assert_allclose([low[0], high[0]], expected, atol=1e-12)
    near_low, near_high = br.Rates.from_counts(counts, 0.9).bounds(10**9)
    np.testing.assert_allclose([near_low, near_high], [low, high], atol=1e-6)


@pytest.mark.parametrize("n", [1, 10, 1000])
def test_intervals_of_a_population_have_the_stated_coverage(n: int) -> None:
    for rates in ([0.5, 0.5], [0.999, 0.001]):
        low, high = br.Rates.of_population(rates, 0.95).bounds(n)
        y = np.arange(n + 1)
        inside = (y / n >= low[0] - 1e-12) & (y / n <= high[0] + 1e-12)
        assert binom.pmf(y, n, rates[0])[inside].sum() >= 0.95
        # The interval is not wider than necessary.
        if n > 10:
            assert binom.pmf(y, n, rates[0])[inside].sum() < 0.995


@pytest.mark.parametrize(("k", "m", "n"), CELLS)
def test_surveys_are_covered_and_no_wider_than_bonferroni(k: int, m: int, n: int) -> None:
    cell = simulate(k, m, n, draws=100, seed=1)
    assert cell.covered >= CONFIDENCE - 4 * cell.standard_error
    assert cell.width <= cell.bonferroni + 1e-12


def test_intervals_of_a_population_with_rare_classes_have_the_stated_coverage() -> None:
    rng = np.random.default_rng(0)
    rates = np.geomspace(1, 1e-4, 10) / np.geomspace(1, 1e-4, 10).sum()
    known = br.Rates.of_population(rates)
    covered = np.mean([known.contains(batch / 500, 500) for batch in rng.multinomial(500, rates, size=2000)])
    assert covered >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 2000)


@pytest.mark.stress
@pytest.mark.parametrize(("k", "m", "n"), [*CELLS, (100, 20, 1000), (100, 5000, 1000)])
def test_surveys_are_covered_in_many_simulations(k: int, m: int, n: int) -> None:
    cell = simulate(k, m, n, draws=20_000, seed=2)
    assert cell.covered >= CONFIDENCE - 3 * cell.standard_error
    assert cell.width <= cell.bonferroni + 1e-12


def cluster_survey(rng: np.random.Generator, rate: float, icc: float, clusters: int, size: int) -> list[int]:
    """The counts in a survey of whole clusters, whose own rates differ as much as the intraclass correlation says."""
    spread = 1 / icc - 1
    own_rates = rng.beta(rate * spread, (1 - rate) * spread, clusters)
    positives = int(rng.binomial(size, own_rates).sum())
    return [clusters * size - positives, positives]


@pytest.mark.parametrize("batch", [300, 20_000])
def test_cluster_samples_are_covered_with_their_design_effect_and_not_without(batch: int) -> None:
    rng, rate, n_simulations = np.random.default_rng(0), 0.2, 2000
    covered = {1.0: 0, 1 + (10 - 1) * 0.1: 0}
    for _ in range(n_simulations):
        counts, truth = cluster_survey(rng, rate, 0.1, 40, 10), rng.binomial(batch, rate) / batch
        for effect in covered:
            low, high = br.Rates.from_counts(counts, design_effect=effect).bounds(batch)
            covered[effect] += low[1] <= truth <= high[1]
    shares = {effect: count / n_simulations for effect, count in covered.items()}
    assert shares[1.9] >= 0.95
    assert shares[1.0] < 0.93


def test_population_rates_are_covered_by_cluster_samples_with_their_design_effect() -> None:
    rng, rate, n_simulations = np.random.default_rng(1), 0.05, 2000
    covered = {1.0: 0, 1.9: 0}
    for _ in range(n_simulations):
        counts = cluster_survey(rng, rate, 0.1, 40, 10)
        for effect in covered:
            low, high = br.Rates.from_counts(counts, design_effect=effect).bounds()
            covered[effect] += low[1] <= rate <= high[1]
    assert covered[1.9] / n_simulations >= 0.95
    assert covered[1.0] / n_simulations < 0.93


@pytest.mark.parametrize("counts", [[170, 30], [198, 2], [200, 0], [60, 90, 50]])
@pytest.mark.parametrize("batch", [10, 1000, None])
def test_a_design_effect_of_2_means_half_as_many_cases(counts: list[int], batch: int | None) -> None:
    whole = br.Rates.from_counts(counts, design_effect=2).bounds(batch)
    half = br.Rates.from_counts([count // 2 for count in counts]).bounds(batch)
    np.testing.assert_allclose(whole, half, atol=1e-12)


def test_effective_counts_are_rounded_to_wider_bounds() -> None:
    # 13 of 200 cases with a design effect of 1.9 are 6.8 of 105.3: between 6 and 7 of 105.
    low, high = br.Rates.from_counts([187, 13], design_effect=1.9).bounds(500)
    assert high[1] == br.Rates.from_counts([98, 7]).bounds(500)[1][1]
    assert low[1] == br.Rates.from_counts([99, 6]).bounds(500)[0][1]
    # 19 / 1.9 is 10 up to rounding.
    exact, plain = br.Rates.from_counts([171, 19], design_effect=1.9), br.Rates.from_counts([90, 10])
    np.testing.assert_array_equal(exact.bounds(500), plain.bounds(500))


def test_a_survey_of_less_than_one_effective_case_says_nothing() -> None:
    low, high = br.Rates.from_counts([3, 2], design_effect=10).bounds(50)
    assert low.tolist() == [0, 0]
    assert high.tolist() == [1, 1]
