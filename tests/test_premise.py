"""The test of the assumption of prior adjustment: its level, its power, and batches that are hard for it."""

from __future__ import annotations

import numpy as np
import pytest
from support import Array, number_of_cases
from tool_support import load_tool

import baserate as br
from baserate.analysis.premise import check_premise, most_likely_rates

premise_level = load_tool("premise_level")
EQUAL = np.full(100, 0.01)


@pytest.mark.parametrize(("k", "n"), [(2, 100), (3, 50), (10, 100)])
def test_a_true_assumption_is_rejected_in_at_most_5_percent(k: int, n: int) -> None:
    repetitions = number_of_cases(400)
    found = premise_level.rejected(k, n, repetitions, n_draws=99, seed=1)
    assert found.present.max() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / repetitions)
    if k == 10:
        assert found.chi_square.max() > 0.2, "the former test rejected true assumptions, so this batch is hard enough"


def test_an_over_confident_model_is_rejected_as_often_as_by_a_chi_square_test() -> None:
    found = premise_level.rejected(5, 300, 60, n_draws=99, seed=1, sharpen=2.0)
    assert (found.present >= found.chi_square - 0.07).all()
    assert found.present.min() > 0.4


def test_a_rare_class_that_is_missing_from_the_batch_is_no_surprise() -> None:
    q = np.column_stack([np.full(100, 1 - 1e-9), np.full(100, 1e-9)])
    assert check_premise(q, EQUAL, br.Rates.of_population([0.99, 0.01])).p_value > 0.2  # happens in 37 % of the batches
    assert check_premise(q, EQUAL, br.Rates.of_population([0.9, 0.1])).p_value < 0.01  # and here in 0.003 %
    assert check_premise(q, EQUAL, br.Rates.exact([0.99, 0.01])).p_value < 0.01  # there is such a row in the batch


def test_certain_predictions_that_agree_with_the_rates_are_not_rejected() -> None:
    q = np.repeat(np.eye(2), [30, 70], axis=0)
    for known in (br.Rates.exact([0.3, 0.7]), br.Rates.of_population([0.3, 0.7]), br.Rates.from_counts([30, 70])):
        assert check_premise(q, EQUAL, known).p_value > 0.5


def test_many_rows_are_tested_in_the_same_way_as_fewer() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(30_000) < 0.3).astype(int)
    logit = 2 * rng.normal(2.0 * y) - 2 + np.log(0.3 / 0.7)

    def p_values(sharpen: float) -> list[float]:
        p = 1 / (1 + np.exp(-sharpen * logit))
        rows, w = np.column_stack([1 - p, p]), np.full(len(p), 1 / len(p))
        found = []
        for known in (
            br.Rates.exact([1 - y.mean(), y.mean()]),
            br.Rates.of_population([0.7, 0.3]),
            br.Rates.from_counts([7000, 3000]),
        ):
            q = br.prior_adjust(rows, [0.7, 0.3], known.estimate()).probs
            found.append(check_premise(q, w, known).p_value)
        return found

    assert min(p_values(1.0)) > 0.05
    assert max(p_values(0.8)) <= 0.002


def test_the_most_likely_rates_are_those_of_the_em_algorithm() -> None:
    rng = np.random.default_rng(1)
    y = rng.choice(4, size=400, p=[0.6, 0.3, 0.1, 0.0])
    density = np.exp(-0.5 * (rng.normal(y * 1.5)[:, None] - 1.5 * np.arange(4)) ** 2)
    b = np.full(4, 0.25)
    for _ in range(20_000):
        b = b * (density / (density @ b)[:, None]).mean(axis=0)
    np.testing.assert_allclose(most_likely_rates(density, np.full(400, 1 / 400)), b, atol=1e-4)


def weighted_rows(seed: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    times = rng.integers(1, 3, size=200).astype(float)
    p = rng.dirichlet([2.0, 3.0], size=200)
    return p, times / times.sum(), p.T @ times / times.sum()


def test_weights_and_classes_of_rate_0_are_accepted_and_results_are_reproducible() -> None:
    p, w, mean = weighted_rows(0)
    q = np.column_stack([p, np.zeros(200)])
    known = br.Rates.exact([*mean, 0.0])
    first, second = (check_premise(q, w, known) for _ in range(2))
    assert first.p_value == second.p_value > 0.9
    assert first.difference[2] == first.deviation[2] == 0
