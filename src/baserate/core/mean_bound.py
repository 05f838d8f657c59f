"""A lower confidence bound on a mean, from sums over rows; it is valid for every number of rows.

The bound is that of betting (Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, 2024).
If independent numbers ``x_i >= 0`` have the mean m, then ``K(m) = prod_i (1 + b_i (x_i - m))`` has the expectation 1
for all bets ``b_i`` from 0 to 1/m that depend only on the numbers before ``x_i``. By Markov's inequality, K(m) exceeds
1/alpha with a probability of at most alpha. The bound is the smallest m for which it does not: K falls with m.

Two changes make it a sum over rows. The rows are split into seven parts by their number, of a half, a quarter, and so
on; all rows of a part have the same bet, which depends on the smaller parts before it. And instead of the numbers,
their histogram is kept, in which each number is split between the two nearest points of a grid, so that its mean is
kept. ``log(1 + b (x - m))`` is concave in x, so this can only make K smaller, and the bound stays valid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baserate.support.arrays import FloatArray, IndexArray

N_PARTS = 7
"""Parts of the rows. The last one has half of them, and the first two have 1/64 each."""

N_BINS = 1024
"""Bins of the histogram. Its rounding adds at most half a bin to the standard deviation of a number."""

_LARGEST_BET = 0.75  # As a share of the largest possible bet, so that no single row can lose everything.
_STEPS = 60  # Steps of the bisection.


class BetSums(NamedTuple):
    """The histogram of each part of the rows.

    Attributes
    ----------
    counts : array of shape (N_PARTS, N_BINS + 1), or (0, 0) if there are no limits
        Number of rows at each point of a grid between the limits.
    """

    counts: FloatArray


def bet_sums(values: FloatArray, start: int, limits: tuple[float, float] | None) -> BetSums:
    """The sums of some rows, the first of which has the number ``start``.

    Parameters
    ----------
    values : array of shape (m,)
        Those above the upper limit count as this limit, which can only lower the bound. If one is below the lower
        limit, the sums are NaN, and there is no bound.
    start : int
    limits : pair of float or None
    """
    if limits is None:
        return BetSums(np.zeros((0, 0)))
    low, high = limits
    if not (values >= low).all():
        return BetSums(np.full((N_PARTS, N_BINS + 1), np.nan))
    place = np.clip((values - low) / (high - low), 0.0, 1.0) * N_BINS
    left = np.minimum(place.astype(np.intp), N_BINS - 1)
    share = place - left
    first = _part(start, len(values)) * (N_BINS + 1) + left
    size = N_PARTS * (N_BINS + 1)
    counts = np.bincount(first, 1.0 - share, minlength=size) + np.bincount(first + 1, share, minlength=size)
    return BetSums(np.asarray(counts, dtype=np.float64).reshape(N_PARTS, N_BINS + 1))


def _part(start: int, n_rows: int) -> IndexArray:
    """The part of each row: a half of the row numbers is odd, a quarter is divisible by 2 but not by 4, and so on."""
    number = np.arange(start + 1, start + 1 + n_rows, dtype=np.int64)
    lowest_bit = np.minimum(number & -number, 1 << (N_PARTS - 1))
    return (N_PARTS - 1 - np.log2(lowest_bit)).astype(np.intp)


def lower_mean_bound(sums: BetSums, limits: tuple[float, float], alpha: float) -> float:
    """A number that the mean of the population exceeds with a probability of at least ``1 - alpha``."""
    low, high = limits
    points = np.linspace(0.0, 1.0, N_BINS + 1)
    bets = _bets(sums.counts, points, alpha)
    counts = sums.counts

    def log_capital(mean: float) -> float:
        bet = np.minimum(bets, _LARGEST_BET / mean)
        return float((counts * np.log1p(bet[:, None] * (points - mean))).sum())

    needed = -np.log(alpha)
    below, above = 0.0, 1.0  # the capital at ``below`` is large enough, that at ``above`` is not
    for _ in range(_STEPS):
        middle = 0.5 * (below + above)
        below, above = (middle, above) if log_capital(middle) >= needed else (below, middle)
    return low + (high - low) * below


def _bets(counts: FloatArray, points: FloatArray, alpha: float) -> FloatArray:
    """The bet of each part: the best one for the variance of the parts before it."""
    n_rows = float(counts.sum())
    of_part = np.stack([counts.sum(axis=1), counts @ points, counts @ points**2])
    n, total, squares = np.cumsum(of_part, axis=1) - of_part  # of the parts before
    mean = (0.5 + total) / (1.0 + n)
    variance = (0.25 + np.maximum(squares - 2 * mean * total + n * mean**2, 0.0)) / (1.0 + n)
    return np.asarray(np.sqrt(-2.0 * np.log(alpha) / (n_rows * variance)))
