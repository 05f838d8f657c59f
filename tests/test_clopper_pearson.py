"""Intervals of Clopper and Pearson agree with SciPy, with binomial sums, and with closed forms at small levels."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest

from baserate.support.clopper_pearson import clopper_pearson


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize(("x", "n"), [(0, 1), (1, 1), (0, 30), (1, 30), (17, 30), (29, 30), (30, 30), (40, 5000)])
def test_the_limits_are_those_of_scipy(x: int, n: int, confidence: float) -> None:
    found = clopper_pearson(x, n - x, (1 - confidence) / 2)
    np.testing.assert_allclose(found, binomtest(x, n).proportion_ci(confidence), rtol=1e-9, atol=1e-15)


def probability_of_at_most(x: int, n: int, p: float) -> float:
    """A sum of binomial probabilities, without rounding errors."""
    share = Fraction(p)
    return float(sum(math.comb(n, i) * share**i * (1 - share) ** (n - i) for i in range(x + 1)))


@pytest.mark.parametrize("tail", [0.2, 0.025, 1e-6, 1e-13])
def test_at_the_limits_the_count_is_as_improbable_as_allowed(tail: float) -> None:
    n = 25
    x = np.arange(n + 1)
    low, high = clopper_pearson(x, n - x, tail)
    assert low[0] == 0
    assert high[n] == 1
    for i in range(n):
        assert probability_of_at_most(i, n, high[i]) == pytest.approx(tail, rel=1e-9)
        # At least i + 1 of n are at most n - i - 1 failures.
        assert probability_of_at_most(n - i - 1, n, 1 - Fraction(low[i + 1])) == pytest.approx(tail, rel=1e-9)


@pytest.mark.parametrize("n", [1, 100, 10**6, 10**11])
@pytest.mark.parametrize("tail", [0.025, 1e-8, 1e-15])
def test_small_probabilities_have_all_digits(n: int, tail: float) -> None:
    low, high = clopper_pearson([0, n], [n, 0], tail)
    assert high[0] == pytest.approx(-math.expm1(math.log(tail) / n), rel=1e-9)
    assert low[1] == pytest.approx(math.exp(math.log(tail) / n), rel=1e-12)


def test_nothing_is_known_without_counts_and_shapes_are_broadcast() -> None:
    np.testing.assert_array_equal(clopper_pearson(0, 0, 0.025), (0.0, 1.0))
    low, high = clopper_pearson([[1, 2, 3]], [[4], [5]], [[0.1], [0.01]])
    assert low.shape == high.shape == (2, 3)
    np.testing.assert_allclose([low[1, 2], high[1, 2]], np.ravel(clopper_pearson(3, 5, 0.01)))
