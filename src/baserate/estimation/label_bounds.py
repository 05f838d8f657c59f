"""Joint confidence intervals for the class counts of a batch, from the labels of rows drawn at random.

Two intervals are intersected for each class, which share the level: the one from betting, which uses the predictions,
and the exact one from the counts alone, which bad predictions cannot make wider. How they share the level depends on
what the predictions promise, but not on labels of the batch.
"""

from __future__ import annotations

import numpy as np

from baserate.estimation.betting import Counts, betting_counts, expected_distance, implied_variance
from baserate.estimation.draws import Draws
from baserate.rates.intervals import batch_bounds
from baserate.support.arrays import FloatArray, IndexArray

_HELPFUL, _USELESS = 0.75, 1.05  # Expected width with predictions, divided by the width without them.
_SHARE_HELPFUL, _SHARE_UNCLEAR = 0.25, 0.5  # Shares of the level for the interval without predictions.


def label_bounds(
    probs: FloatArray, draws: Draws, labels: IndexArray, confidence: float, *, stratified: bool = False
) -> Counts:
    """Bounds on the number of rows of each class, for all classes jointly.

    Parameters
    ----------
    probs : array of shape (n, k)
    draws : Draws
    labels : int array of shape (m,)
        Labels of the rows in ``draws``, as column numbers.
    confidence : float
    stratified : bool
        Whether rows were drawn from strata. Then the counts alone have no exact interval.
    """
    (n, k), m = probs.shape, len(labels)
    level = level_per_class(k, confidence)
    shares = np.zeros(k) if stratified else shares_without_predictions(probs, m, confidence)
    levels = level * (1.0 - shares)
    levels[shares == 1] = 1.0
    if k == 2:
        levels[0] = 1.0  # Both intervals say the same.
    low, high = betting_counts(probs, draws, labels, levels)
    counts = np.bincount(labels, minlength=k)
    for share in np.unique(shares[shares > 0]):
        exact = batch_bounds(counts, n - m, 1.0 - (1.0 - confidence) * float(share)) if n > m else (0.0, 0.0)
        at_least, at_most = (counts + np.rint((n - m) * np.asarray(bound)) for bound in exact)
        low = np.where(shares == share, np.maximum(low, at_least), low)
        high = np.where(shares == share, np.minimum(high, at_most), high)
    if k == 2:
        low, high = np.array([n - high[1], low[1]]), np.array([n - low[1], high[1]])
    return Counts(low, high)


def level_per_class(n_classes: int, confidence: float) -> float:
    """Probability with which the interval of one class may be wrong, by Bonferroni's inequality."""
    # With two classes both intervals contain the same information: either both are right or neither is.
    return (1.0 - confidence) / (1 if n_classes == 2 else n_classes)


def shares_without_predictions(probs: FloatArray, n_labelled: int, confidence: float) -> FloatArray:
    """The share of the level that goes to the interval without predictions, for each class."""
    if n_labelled == len(probs):
        return np.ones(probs.shape[1])
    level = level_per_class(probs.shape[1], confidence)
    ratio = _betting_widths(probs, n_labelled, level) / _exact_widths(probs, n_labelled, level)
    if probs.shape[1] == 2:
        ratio[:] = ratio.mean()  # equal but for rounding
    return np.where(ratio < _HELPFUL, _SHARE_HELPFUL, np.where(ratio < _USELESS, _SHARE_UNCLEAR, 1.0))


def expected_widths(probs: FloatArray, n_labelled: int, confidence: float) -> FloatArray:
    """The widths of the intervals to expect with so many labels, if the predictions are calibrated; shape (k,)."""
    if n_labelled == len(probs):
        return np.zeros(probs.shape[1])
    level = level_per_class(probs.shape[1], confidence)
    shares = shares_without_predictions(probs, n_labelled, confidence)
    with_help = _betting_widths(probs, n_labelled, level * np.where(shares < 1, 1.0 - shares, 1.0))
    without = _exact_widths(probs, n_labelled, level * shares)
    widths = np.where(shares < 1, np.minimum(with_help, without), without)
    return np.asarray(np.minimum(widths, 1.0 - n_labelled / len(probs)))


def _betting_widths(probs: FloatArray, m: int, level: FloatArray | float) -> FloatArray:
    threshold = np.log(2.0 / np.asarray(level))
    variance, skewness = implied_variance(probs)
    least = threshold * (1.0 / m - 1.0 / len(probs))  # a bet wins at most what it may lose
    above, below = (
        np.maximum(expected_distance(variance, sign * skewness, threshold, m, len(probs)).total, least)
        for sign in (1, -1)
    )
    return np.asarray(above + np.minimum(below, probs.mean(axis=0)))


def _exact_widths(probs: FloatArray, m: int, level: FloatArray | float) -> FloatArray:
    from scipy.special import ndtri

    threshold = 0.5 * ndtri(np.asarray(level) / 2.0) ** 2
    rates, step = probs.mean(axis=0), 0.5 * (1.0 / m - 1.0 / len(probs))  # counts are whole numbers
    above, below = (
        expected_distance(rates * (1.0 - rates), sign * (1.0 - 2.0 * rates), threshold, m, len(probs)).total + step
        for sign in (1, -1)
    )
    return np.asarray(above + np.minimum(below, rates))
