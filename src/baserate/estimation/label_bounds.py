"""Joint confidence intervals for the class counts of a batch, from the labels of rows drawn at random.

Two tests share the level of each class; see :mod:`baserate.estimation.label_tests`. If the predictions say
themselves that they know little, only labels are counted. Otherwise the first labels decide about the shares: with
them the predictions are calibrated, and then say how much they really know.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baserate.estimation.betting import Bets, expected_distance, implied_variance
from baserate.estimation.calibration import FOR_FIRST_STAGE, recalibrated
from baserate.estimation.draws import Draws
from baserate.estimation.label_tests import Counts, LabelTests
from baserate.rates.intervals import n_intervals
from baserate.support.arrays import FloatArray, IndexArray

_HELPFUL, _USELESS = 0.6, 0.88  # Expected width with predictions, divided by the width without them.
_SHARE_HELPFUL, _SHARE_UNCLEAR = 0.25, 0.5  # Shares of the level for the test without predictions.
_FIRST = 16  # One of so many labels belongs to the first stage,
_FEWEST_FIRST = 12  # but at least so many labels,
_MOST_FIRST = 4  # and at most one of so many.
_WEIGHT = 0.25  # Share of the initial wealth with which the bettor with predictions starts.


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
        Whether rows were drawn from strata. Then the counts alone have no exact test, and there is no first
        stage.
    """
    (n, k), m = probs.shape, len(labels)
    if n == m:
        counts = np.bincount(labels, minlength=k).astype(np.float64)
        return Counts(counts, counts)
    low, high = tests_of(probs, draws, labels, confidence, stratified=stratified).counts()
    if k == 2:  # Both classes say the same.
        low, high = np.array([n - high[1], low[1]]), np.array([n - low[1], high[1]])
    return Counts(low, high)


def tests_of(probs: FloatArray, draws: Draws, labels: IndexArray, confidence: float, *, stratified: bool) -> LabelTests:
    """The tests of the counts, after the first stage."""
    (n, k), m = probs.shape, len(labels)
    level = level_per_class(k, confidence)
    bets = Bets.of(probs, draws, labels)
    alone = Bets.without_predictions(probs.mean(axis=0), n, draws, labels)
    n_first = 0 if stratified else _n_first(m)
    shares = np.zeros(k) if stratified else _shares(_Knowledge.of(probs), m, n, level)
    has_first = (shares < 1) & (n_first > 0)
    if has_first.any():
        calibrated = recalibrated(probs, probs[draws.rows[:n_first]], labels[:n_first], FOR_FIRST_STAGE)
        shares = np.where(has_first, _shares(_Knowledge.of(calibrated), m, n, level), shares)
    needed = np.array([False, True]) if k == 2 else np.ones(k, dtype=np.bool_)
    return LabelTests(
        bets,
        alone,
        labels,
        n_first,
        _WEIGHT,
        thresholds=np.full(k, np.log(2.0 / level)),
        levels=np.where(needed, level * (1.0 - shares), 0.0),
        exact_levels=np.where(needed, level * shares, 0.0),
        has_first=has_first,
    )


def _n_first(m: int) -> int:
    """Number of labels of the first stage."""
    return min(max(m // _FIRST, _FEWEST_FIRST), m // _MOST_FIRST)


def level_per_class(n_classes: int, confidence: float) -> float:
    """Probability with which the interval of one class may be wrong."""
    return (1.0 - confidence) / n_intervals(n_classes)


def expected_widths(probs: FloatArray, n_labelled: int, confidence: float) -> FloatArray:
    """The widths of the intervals to expect with so many labels, if the predictions are calibrated; shape (k,)."""
    n, k = probs.shape
    if n_labelled == n:
        return np.zeros(k)
    level, knowledge = level_per_class(k, confidence), _Knowledge.of(probs)
    shares = _shares(knowledge, n_labelled, n, level)
    after = n_labelled - _n_first(n_labelled)  # those of the first stage add little
    by_bets = _betting_widths(knowledge, after, n, level * np.where(shares < 1, 1.0 - shares, 1.0))
    by_counts = _exact_widths(knowledge, n_labelled, n, level * shares)
    widths = np.where(shares < 1, np.minimum(by_bets, by_counts), by_counts)
    return np.asarray(np.minimum(widths, 1.0 - n_labelled / n))


class _Knowledge(NamedTuple):
    """How much predictions say that they know about labels; all arrays have shape (k,).

    Attributes
    ----------
    variance, skewness : arrays
        Variance of a label given its prediction, and its change per unit of the rate.
    rates : array
    """

    variance: FloatArray
    skewness: FloatArray
    rates: FloatArray

    @classmethod
    def of(cls, probs: FloatArray) -> _Knowledge:
        """What the variances of labels are if the predictions are calibrated."""
        return cls(*implied_variance(probs), probs.mean(axis=0))


def _shares(knowledge: _Knowledge, m: int, n: int, level: float) -> FloatArray:
    """The share of the level that goes to the test without predictions, for each class."""
    ratio = _betting_widths(knowledge, m, n, level) / _exact_widths(knowledge, m, n, level)
    if len(ratio) == 2:
        ratio[:] = ratio.mean()  # equal but for rounding
    return np.where(ratio < _HELPFUL, _SHARE_HELPFUL, np.where(ratio < _USELESS, _SHARE_UNCLEAR, 1.0))


def _betting_widths(knowledge: _Knowledge, m: int, n: int, level: FloatArray | float) -> FloatArray:
    threshold = np.log(2.0 / np.asarray(level))
    least = threshold * (1.0 / m - 1.0 / n)  # a bet wins at most what it may lose
    above, below = (
        np.maximum(expected_distance(knowledge.variance, sign * knowledge.skewness, threshold, m, n).total, least)
        for sign in (1, -1)
    )
    return np.asarray(above + np.minimum(below, knowledge.rates))


def _exact_widths(knowledge: _Knowledge, m: int, n: int, level: FloatArray | float) -> FloatArray:
    from scipy.special import ndtri

    threshold = 0.5 * ndtri(np.asarray(level) / 2.0) ** 2
    rates, step = knowledge.rates, 0.5 * (1.0 / m - 1.0 / n)  # counts are whole numbers
    above, below = (
        expected_distance(rates * (1.0 - rates), sign * (1.0 - 2.0 * rates), threshold, m, n).total + step
        for sign in (1, -1)
    )
    return np.asarray(above + np.minimum(below, rates))
