"""Exact prediction intervals for the class counts in a batch, from a survey or from population rates.

A survey of m cases counts x cases of a class. The batch has n rows, of which y belong to the class. If both are random
samples from the same population then, given ``x + y``, the count x has a hypergeometric distribution, whatever the rate
in the population is. The interval contains every y for which x is not too improbable. No rate has to be known or
assumed (A. R. Thatcher, Relationships between Bayesian and confidence limits for predictions, JRSS B 26, 1964, who also
shows that the limits are beta-binomial quantiles). As the batch grows, the limits tend to those of Clopper and Pearson.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.clopper_pearson import clopper_pearson

ROUNDING = 1e-9
"""Relative to one case: an effective count of 10.000000000000002 is 10."""
_CHUNK = 256  # Number of terms of a tail that are summed at a time.


def batch_bounds(
    counts: IndexArray, batch_size: int, confidence: float, design_effect: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Joint bounds for all class rates in a batch, from the counts of a survey."""
    tail = _tail(len(counts), confidence)
    # Effective counts are rounded such that the bounds get wider: the formula needs whole numbers.
    m = int(np.floor(counts.sum() / design_effect + ROUNDING))
    inside, outside = (
        np.minimum(np.ceil(x / design_effect - ROUNDING), m).astype(int).tolist()
        for x in (counts, counts.sum() - counts)
    )
    high = [_largest_count(x, m, batch_size, tail) for x in inside]
    low = [batch_size - _largest_count(x, m, batch_size, tail) for x in outside]
    return np.array(low) / batch_size, np.array(high) / batch_size


def population_bounds(
    counts: IndexArray, confidence: float, design_effect: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Joint bounds for all class rates in the population, from the counts of a survey (Clopper and Pearson).

    With a design effect, they are those of effective counts (E. L. Korn and B. I. Graubard, Confidence intervals for
    proportions with small expected number of positive counts estimated from survey data, Survey Methodology 24, 1998).
    """
    others = counts.sum() - counts
    return clopper_pearson(counts / design_effect, others / design_effect, _tail(len(counts), confidence))


def sampling_bounds(rates: FloatArray, batch_size: int, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Joint bounds for all class rates in a batch that is a random sample from a population with known rates."""
    from scipy.stats import binom

    tail = _tail(len(rates), confidence)
    low, high = binom.ppf(tail, batch_size, rates), binom.isf(tail, batch_size, rates)
    return np.maximum(low, 0.0) / batch_size, high / batch_size


def n_intervals(n_classes: int) -> int:
    """Number of intervals among which the probability of an error is divided, by Bonferroni's inequality."""
    # With two classes both intervals contain the same information: either both cover their rates or neither does.
    return 1 if n_classes == 2 else n_classes


def _tail(n_classes: int, confidence: float) -> float:
    """Allowed probability that a rate lies beyond one end of its interval."""
    return (1.0 - confidence) / (2 * n_intervals(n_classes))


@lru_cache(maxsize=100_000)
def _largest_count(x: int, m: int, n: int, tail: float) -> int:
    """The largest count in the batch for which a survey count of x or less has a probability above ``tail``."""
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        if survey_cdf(x, x + middle, m, n) > tail:
            low = middle
        else:
            high = middle - 1
    return low


def survey_cdf(x: int, total: int, m: int, n: int) -> float:
    """Probability that the survey has at most x of the ``total`` cases of a class; it has m of all m + n cases."""
    if x >= min(m, total):
        return 1.0
    if x * (m + n) > m * total:  # above the mean: sum the other tail, which is shorter and more precise
        return 1.0 - survey_cdf(m - x - 1, m + n - total, m, n)
    if x < 0 or x < total - n:
        return 0.0
    term, count, summed = np.exp(_log_probability(x, total, m, n)), x, 0.0
    while term > 1e-17 * summed and count >= 0:
        i = np.arange(count, max(count - _CHUNK, -1), -1, dtype=np.float64)
        ratios = i * (n - total + i) / ((m - i + 1) * (total - i + 1))
        terms = term * np.cumprod(np.concatenate([[1.0], np.maximum(ratios, 0.0)]))
        summed += float(terms[:-1].sum())
        term, count = float(terms[-1]), count - len(i)
    return min(summed, 1.0)


def _log_probability(x: int, total: int, m: int, n: int) -> float:
    """Log of the hypergeometric probability that the survey has exactly x of the ``total`` cases of a class."""
    from scipy.special import betaln

    def log_choose(a: int, b: int) -> float:
        return float(-betaln(a - b + 1, b + 1) - np.log1p(a))

    return log_choose(m, x) + log_choose(n, total - x) - log_choose(m + n, total)
