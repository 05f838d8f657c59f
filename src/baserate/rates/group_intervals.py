"""Prediction intervals for the class counts in many groups at once: :mod:`baserate.rates.intervals` for arrays.

All arrays have one row per group and one column per class. The limits are the same as those of a single group. They are
computed together, because a hundred thousand groups would take minutes one by one.
"""

from __future__ import annotations

import numpy as np

from baserate.rates.intervals import ROUNDING, n_intervals
from baserate.support.arrays import BoolArray, FloatArray, IndexArray
from baserate.support.clopper_pearson import clopper_pearson


def bounds_of_groups(
    of: str, numbers: FloatArray, sizes: IndexArray | None, error_probabilities: FloatArray, design_effect: float
) -> tuple[FloatArray, FloatArray]:
    """Bounds from the counts of a survey in each group, or from the rates of its population.

    Parameters
    ----------
    of : "counts" or "population"
        What the numbers are.
    numbers : array of shape (G, k)
        NaN for classes without an entry.
    sizes, error_probabilities, design_effect
        As in :func:`counted_bounds`.
    """
    filled, missing = np.where(np.isnan(numbers), 0.0, numbers), np.isnan(numbers)
    if of == "counts":  # a class without a count was not found in the survey
        low, high = counted_bounds(filled.astype(np.intp), sizes, error_probabilities, design_effect)
        centre = filled / filled.sum(axis=1, keepdims=True)
        # At low confidence the intervals of whole counts may exclude the estimate itself; see Rates.from_counts.
        return np.minimum(low, centre), np.maximum(high, centre)
    has_rest = missing.sum(axis=1, keepdims=True) <= 1  # a single class has the rest
    filled = np.where(missing & has_rest, 1.0 - filled.sum(axis=1, keepdims=True), filled)
    filled = np.where(has_rest, filled / filled.sum(axis=1, keepdims=True), filled)
    low, high = (filled, filled) if sizes is None else sampled_bounds(filled, sizes, error_probabilities)
    unknown = missing & ~has_rest
    low, high = np.minimum(low, filled), np.maximum(high, filled)
    return np.where(unknown, 0.0, low), np.where(unknown, 1.0, high)


def counted_bounds(
    counts: IndexArray, sizes: IndexArray | None, error_probabilities: FloatArray, design_effect: float
) -> tuple[FloatArray, FloatArray]:
    """Bounds from the counts of a survey in each group; see ``batch_bounds`` and ``population_bounds``.

    Parameters
    ----------
    counts : int array of shape (G, k)
    sizes : int array of shape (G,), or None
        Number of rows of each group; None for the populations.
    error_probabilities : array of shape (G,)
        Probability with which the rates of a group may lie outside its bounds.
    design_effect : float
    """
    tail, others = _tails(error_probabilities, counts.shape[1]), counts.sum(axis=1, keepdims=True) - counts
    if sizes is None:
        return clopper_pearson(counts / design_effect, others / design_effect, tail)
    # Effective counts are rounded such that the bounds get wider: the formula needs whole numbers.
    m = np.floor(counts.sum(axis=1, keepdims=True) / design_effect + ROUNDING)
    inside, outside = (np.minimum(np.ceil(x / design_effect - ROUNDING), m) for x in (counts, others))
    n = sizes[:, None].astype(np.float64)
    high, rest = (_largest_counts(x, m, n, tail) for x in (inside, outside))
    return (n - rest) / n, high / n


def sampled_bounds(
    rates: FloatArray, sizes: IndexArray, error_probabilities: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bounds for groups that are random samples from populations with known rates; see ``sampling_bounds``."""
    from scipy.stats import binom

    tail, n = _tails(error_probabilities, rates.shape[1]), sizes[:, None]
    low, high = binom.ppf(tail, n, rates), binom.isf(tail, n, rates)
    return np.maximum(low, 0.0) / n, high / n


def _tails(error_probabilities: FloatArray, n_classes: int) -> FloatArray:
    """Allowed probability that a rate lies beyond one end of its interval, for each group, shape (G, 1)."""
    return np.asarray(error_probabilities / (2 * n_intervals(n_classes)))[:, None]


def _largest_counts(x: FloatArray, m: FloatArray, n: FloatArray, tail: FloatArray) -> FloatArray:
    """The largest counts in the groups for which survey counts of x or less have a probability above ``tail``."""
    shape = np.broadcast_shapes(x.shape, m.shape, n.shape, tail.shape)
    x, m, n, tail = (np.broadcast_to(values, shape).ravel() for values in (x, m, n, tail))
    low, high = np.zeros_like(n), n.copy()
    open_ones = np.flatnonzero(low < high)
    while len(open_ones):
        at = open_ones
        middle = np.floor((low[at] + high[at] + 1) / 2)
        likely = _is_likely(x[at], x[at] + middle, m[at], n[at], tail[at])
        low[at], high[at] = np.where(likely, middle, low[at]), np.where(likely, high[at], middle - 1)
        open_ones = at[low[at] < high[at]]
    return low.reshape(shape)


def _is_likely(x: FloatArray, total: FloatArray, m: FloatArray, n: FloatArray, tail: FloatArray) -> BoolArray:
    """Whether the survey has at most x of the ``total`` cases of a class with a probability above ``tail``."""
    # From the mean on, the probability is at least a half, which is more than any tail.
    out = np.asarray((x * (m + n) >= m * total) | (x >= np.minimum(m, total)))
    at = np.flatnonzero(~out & (x >= 0) & (x >= total - n))
    if len(at):
        out[at] = _cdf(x[at], total[at], m[at], n[at]) > tail[at]
    return out


def _cdf(x: FloatArray, total: FloatArray, m: FloatArray, n: FloatArray) -> FloatArray:
    """Hypergeometric probability of at most x, for x below the mean: a sum of terms that get smaller and smaller."""
    terms = np.exp(_log_choose(m, x) + _log_choose(n, total - x) - _log_choose(m + n, total))
    summed, i, active = np.zeros_like(x), x.copy(), np.arange(len(x))
    while len(active):
        summed[active] += terms[active]
        j = i[active]
        ratio = j * (n[active] - total[active] + j) / ((m[active] - j + 1) * (total[active] - j + 1))
        terms[active] *= np.maximum(ratio, 0.0)
        i[active] -= 1
        active = active[terms[active] > 1e-17 * summed[active]]
    return np.minimum(summed, 1.0)


def _log_choose(a: FloatArray, b: FloatArray) -> FloatArray:
    from scipy.special import betaln

    return np.asarray(-betaln(a - b + 1, b + 1) - np.log1p(a))
