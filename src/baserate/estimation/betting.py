"""Confidence intervals for the number of rows of each class in a batch, by betting on labels of rows drawn at random.

To test whether ``total`` rows of the batch have a class, a bettor starts with a wealth of 1 and bets on each label
before it is seen. ``x`` rows of the class were seen among the first t; so if the total is right, the next label is 1
with probability ``(total - x) / (n - t)``. With ``h`` a prediction for every row, the bettor's wealth is multiplied by

    1 ± b (y - r),    r = (total - x) / (n - t) + g (h - mean of h over the n - t rows that were not seen yet),

where ``b`` and ``g`` depend only on labels that were seen before. The expectation of this factor is 1 if the total is
right, whatever the predictions are, as long as they do not depend on these labels: good predictions only make the
wealth grow faster if the total is wrong. By Ville's
inequality the wealth ever exceeds ``1 / level`` with a probability of at most ``level``. The interval contains the
totals for which it never did (I. Waudby-Smith and A. Ramdas, Estimating means of bounded random variables by betting,
JRSS B 86, 2024, section 5 on draws without replacement; the predictions are control variates).

Strata: in a round with ``c_s`` rows of stratum s, the bet on each of them is ``b`` times a weight, such that the
weights times ``c_s`` are proportional to the remaining sizes of the strata. The mean of the logarithms of the expected
factors is at most the logarithm of their mean, which is 0. Within a stratum, Maclaurin's inequality says the same of
draws without replacement. So the expected wealth after a round is at most the wealth before it.

The wealth of a bettor who bets against large totals (minus sign) grows with the total, since ``b`` depends on the
total only through its largest allowed value. So bisection finds the ends of the interval exactly. Arrays have one row
per labelled row and one column per class. All numbers that do not depend on the total are computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from baserate.estimation.calibration import recalibrated
from baserate.estimation.draws import Draws
from baserate.support.arrays import FloatArray, IndexArray

_FIRST_REFIT = 16  # labels; the predictions are recalibrated at this and at every further power of 2
_LARGEST_BET = 0.995  # as a share of the bet that could lose everything
_PRIOR_ROWS = 20.0  # Weight of what the predictions say about themselves, in labels.
_PRIOR_ROWS_OF_MEAN = 2.0
_LARGEST_SLOPE = 1.2  # of ``g``; 1 for calibrated predictions
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Bets:
    """All that bets depend on, except for the total and the level.

    Attributes
    ----------
    draws : Draws
    n_rows : int
    targets : array of shape (m, k)
        1 for the class of a labelled row, else 0.
    seen : array of shape (m, k)
        Number of rows of each class before each round.
    offsets, lowest, highest : arrays of shape (m, k)
        ``g (h - mean of h)`` for this row, and bounds of it for all rows.
    variances : array of shape (m, k)
        Estimated variance of ``y - r``.
    skewness : array of shape (m, k)
        By how much the variance rises per unit of the rate: 1 for rare classes, -1 for very frequent ones.
    """

    draws: Draws
    n_rows: int
    targets: FloatArray
    seen: FloatArray
    offsets: FloatArray
    lowest: FloatArray
    highest: FloatArray
    variances: FloatArray
    skewness: FloatArray

    @classmethod
    def of(cls, probs: FloatArray, draws: Draws, labels: IndexArray) -> Bets:
        """Look at the labels one round after the other."""
        return cls._with(_control_variates(probs, draws, labels), len(probs), draws, labels)

    @classmethod
    def without_predictions(cls, rates: FloatArray, n_rows: int, draws: Draws, labels: IndexArray) -> Bets:
        """Bets that know only about what rates to expect, shape (k,)."""
        every_row = np.broadcast_to(rates, (len(labels), len(rates)))
        moments = (0.0 * every_row, every_row * (1.0 - every_row), 1.0 - 2.0 * every_row)
        return cls._with(_ControlVariates(every_row, every_row, every_row, every_row, *moments), n_rows, draws, labels)

    @classmethod
    def _with(cls, predicted: _ControlVariates, n: int, draws: Draws, labels: IndexArray) -> Bets:
        k = predicted.values.shape[1]
        targets = np.eye(k)[labels]

        def before(values: FloatArray) -> FloatArray:
            sums = np.concatenate([np.zeros((1, k)), np.cumsum(values, axis=0)])
            return np.asarray(sums[draws.before])

        deviations, seen_rows = predicted.values - predicted.means, draws.before[:, None]
        prior = _PRIOR_ROWS * predicted.spreads
        slopes = (prior + before(deviations * (targets - predicted.means))) / (prior + before(deviations**2) + _TINY)
        slopes = np.clip(slopes, 0.0, _LARGEST_SLOPE)
        offsets = slopes * deviations
        rates = before(targets - offsets) + _PRIOR_ROWS_OF_MEAN * predicted.means
        residuals = targets - offsets - rates / (seen_rows + _PRIOR_ROWS_OF_MEAN)
        variances = (_PRIOR_ROWS * predicted.variances + before(residuals**2)) / (_PRIOR_ROWS + seen_rows)
        lowest, highest = slopes * (predicted.lowest - predicted.means), slopes * (predicted.highest - predicted.means)
        return cls(draws, n, targets, before(targets), offsets, lowest, highest, variances, predicted.skewness)

    def first(self, n_labels: int) -> Bets:
        """The bets on the first labels; their sizes are still those for all labels."""
        at = slice(n_labels)
        arrays = (self.targets, self.seen, self.offsets, self.lowest, self.highest, self.variances, self.skewness)
        return Bets(self.draws.first(n_labels), self.n_rows, *(one[at] for one in arrays))

    @property
    def left(self) -> FloatArray:
        """Number of rows that were not seen before each round, shape (m, 1)."""
        return (self.n_rows - self.draws.before)[:, None].astype(np.float64)

    def sizes(self, thresholds: FloatArray, sign: int) -> FloatArray:
        """Bets that reach the threshold with the last label at the total that is as near as possible, shape (m, k)."""
        n, m = self.n_rows, len(self.targets)
        distance = expected_distance(self.variances, -sign * self.skewness, thresholds, m, n)
        # If errors are so rare that the bets are limited, the totals that can be excluded are farther away.
        reach = distance.total + 2.0 * thresholds * (1.0 / m - 1.0 / n)
        return np.asarray(reach / np.maximum(distance.variance, _TINY) * n / self.left)

    def largest_growth(self, log_wealth: FloatArray, start: int = 0) -> FloatArray:
        """By how much the log wealth has grown at most after any round from row ``start`` on, shape (k,)."""
        before = log_wealth[start - 1] if start else 0.0
        rounds = log_wealth[start:][self.draws.ends_round[start:]] - before
        return np.asarray(rounds.max(axis=0, initial=0.0))

    def log_wealth(self, totals: FloatArray, sizes: FloatArray, sign: int) -> FloatArray:
        """The log wealth after each row, shape (m, k), of a bettor who bets that these totals are wrong.

        Parameters
        ----------
        totals : array of shape (k,)
        sizes : array of shape (m, k)
        sign : 1 or -1
            1 for bets on a higher total, -1 for bets on a lower one.
        """
        means = (totals - self.seen) / self.left
        worst = means + self.highest if sign > 0 else 1.0 - means - self.lowest  # the largest loss of a bet of 1
        limit = 1.0 / np.maximum(worst * self.draws.largest_weights[:, None], _TINY)
        # Optimal if losses and gains of the same size are equally frequent. It approaches the limit but stays below it.
        bets = _LARGEST_BET * 2.0 * sizes / (1.0 + np.sqrt(1.0 + 4.0 * (sizes / limit) ** 2))
        gains = sign * self.draws.weights[:, None] * bets * (self.targets - means - self.offsets)
        return np.asarray(np.cumsum(np.log1p(gains), axis=0))


class Distance(NamedTuple):
    """How far from the truth a total can be excluded, as a rate, and the variance of a label there."""

    total: FloatArray
    variance: FloatArray


def expected_distance(
    variances: FloatArray, skewness: FloatArray, thresholds: FloatArray, n_labelled: int, n_rows: int
) -> Distance:
    """Where bets with this variance reach the thresholds, if the variance changes linearly with the rate."""
    scale = 2.0 * thresholds * (1.0 / n_labelled - 1.0 / n_rows)
    # distance^2 = scale * (variance + skewness * distance)
    distance = 0.5 * (scale * skewness + np.sqrt((scale * skewness) ** 2 + 4.0 * scale * variances))
    return Distance(distance, variances + skewness * distance)


class _ControlVariates(NamedTuple):
    """What predictions say about each labelled row before its label is seen; all arrays have shape (m, k).

    Attributes
    ----------
    values : array
        Predictions of the labelled rows.
    means : array
        Mean prediction of the rows that were not seen yet.
    lowest, highest, spreads, variances, skewness : arrays
        Of all rows: least and largest prediction, variance of the predictions, and variance of the labels that the
        predictions imply, with its change per unit of the rate.
    """

    values: FloatArray
    means: FloatArray
    lowest: FloatArray
    highest: FloatArray
    spreads: FloatArray
    variances: FloatArray
    skewness: FloatArray


def _control_variates(probs: FloatArray, draws: Draws, labels: IndexArray) -> _ControlVariates:
    """The predictions, recalibrated from time to time with the labels that were seen."""
    n, m = len(probs), len(labels)
    starts = [0, *(_FIRST_REFIT * 2**i for i in range(m.bit_length()) if _FIRST_REFIT * 2**i < m)]
    parts = []
    for start, stop in zip(starts, [*starts[1:], m + 1], strict=True):
        at = np.flatnonzero((draws.before >= start) & (draws.before < stop))
        if not len(at):
            continue
        # The first ``start`` labels were seen before the rounds of all of these rows.
        h = recalibrated(probs, probs[draws.rows[:start]], labels[:start]) if start else probs
        columns = np.ascontiguousarray(h.T)  # sums over long rows are faster
        seen = np.concatenate([np.zeros((1, h.shape[1])), np.cumsum(h[draws.rows], axis=0)])[draws.before[at]]
        means = (columns.sum(axis=1) - seen) / (n - draws.before[at])[:, None]
        of_all = (columns.min(axis=1), columns.max(axis=1), columns.var(axis=1), *_implied(columns))
        parts.append((h[draws.rows[at]], means, *(np.broadcast_to(one, means.shape) for one in of_all)))
    return _ControlVariates(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def implied_variance(probs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean variance of the labels given the predictions, and its change per unit of the rate; shapes (k,)."""
    return _implied(np.ascontiguousarray(probs.T))


def _implied(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    variances = columns * (1.0 - columns)
    mean = variances.mean(axis=1)
    return mean, np.einsum("ki,ki->k", variances, 1.0 - 2.0 * columns) / len(columns[0]) / np.maximum(mean, _TINY)
