"""The exact test of a class count with both tails of the distribution of the counted labels.

``m`` of all rows are drawn at random, ``n`` are not, and ``total`` of all rows have the class. A count is extreme if a
tail of its hypergeometric distribution is improbable. A test that adds up the nearer tail only, at half the level,
ignores that the other tail may have no count as extreme as this one. The test adds the other tail as far as it is
as improbable (H. Blaker, Confidence curves and improved exact confidence intervals for discrete distributions, Canadian
Journal of Statistics 28, 2000). It rejects all totals that the former test rejects, and more.

Here each tail has a weight. The *score* of a count x is ``min(P(X <= x) / near, P(X >= x) / far)``. If the score is
``s = P(X <= x) / near``, the counts with a score of at most s are those up to x, and those from x' on, where x' is the
least count with ``P(X >= x') / far <= s``. So the probability of a score of at most s is at most

    P(X <= x) + P(X >= x').

This is a valid p-value whatever the weights are, as long as they do not depend on the count. If s is
larger than the score of x, it is even larger. If ``P(X <= x) <= near * level``, the sum is at most
``(near + far) * level``.
"""

from __future__ import annotations

import numpy as np

from baserate.rates.intervals import survey_cdf
from baserate.support.arrays import FloatArray, IndexArray

_TIE = 1.0 + 1e-9  # of probabilities that are equal but for rounding


def two_tails(count: int, totals: tuple[int, int], ratio: float, m: int, n: int) -> float:
    """An upper bound of the p-values of all totals between two, for the count and all smaller ones.

    Parameters
    ----------
    count : int
    totals : pair of int
        The largest and the smallest total. If they are equal, the bound is the p-value.
    ratio : float
        The weight of the far tail divided by that of the near one; at least that of each total.
    m, n : int
        Number of rows that were drawn, and of the others.
    """
    # The nearer tail is the most probable for the smallest total, and x' is the smallest there. From x' on, the other
    # tail is the most probable for the largest total.
    largest, smallest = totals
    counts, probabilities = _distribution(smallest, m, n)
    near = float(probabilities[counts <= count].sum())
    tails = np.cumsum(probabilities[::-1])[::-1]
    first = int(counts[0] + (tails > near * ratio * _TIE).sum())
    return near + survey_cdf(m - first, m + n - largest, m, n)


def _distribution(total: int, m: int, n: int) -> tuple[IndexArray, FloatArray]:
    """The possible counts of a class with ``total`` rows, and their probabilities."""
    counts = np.arange(max(0, total - n), min(m, total) + 1)
    # From ratios of neighbours. Logarithms of factorials of millions have too few digits to find ties.
    x = counts[:-1].astype(np.float64)
    logs = np.cumsum(np.log((m - x) * (total - x)) - np.log((x + 1) * (n - total + x + 1)))
    logs = np.concatenate([[0.0], logs])
    weights = np.exp(logs - logs.max())
    return counts, np.asarray(weights / weights.sum())
