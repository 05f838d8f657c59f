"""One-sided tests of class counts, from labels of rows drawn at random: by betting, and by counting labels.

A test rejects a total that is too low, or too high, for the labels. Two tests share the level of a class: the one by
betting, which uses the predictions, and the exact one by counts, which bad predictions cannot harm. A *trial*, the
first labels, decides how. In the trial two gamblers bet, one with and one without the predictions. Their joint wealth V
has an expectation of 1 if the total is right, since each of them has. Given the trial, the other labels are a random
sample of the other rows. So

- a gambler who starts with V after the trial becomes richer than ``1 / level`` with a probability of at most ``level``;
- the exact test of the other labels at the level ``level * V`` rejects a right total with a probability of at most
  ``level``, because V has an expectation of 1.

Both hold for any shares of the level that depend on labels of the trial only. The labels of the trial count through V,
so that little is lost. V depends on the total in the same direction as all wealth does, so that both tests reject all
totals beyond the first one that they reject.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from baserate.estimation.betting import Bets
from baserate.rates.intervals import survey_cdf
from baserate.support.arrays import BoolArray, FloatArray, IndexArray


class Counts(NamedTuple):
    """The smallest and the largest possible number of rows of each class, each of shape (k,)."""

    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class LabelTests:
    """Tests of the totals of all classes.

    Attributes
    ----------
    bets : Bets
        With the predictions.
    alone : Bets
        Without them, for the trial.
    labels : int array of shape (m,)
    trial : int
        Number of labels of the trial; 0 for none.
    helped : float
        The share of the first wealth with which the gambler with predictions starts.
    thresholds : array of shape (k,)
        The log wealth for which bets are chosen. It must not depend on labels.
    levels, exact_levels : arrays of shape (k,)
        For both ends of an interval together: of the test by betting and of the exact one; 0 for none.
    in_trial : bool array of shape (k,)
        For which classes there is a trial. The others are tested by counts of all labels, or by bets from the start.
    """

    bets: Bets
    alone: Bets
    labels: IndexArray
    trial: int
    helped: float
    thresholds: FloatArray
    levels: FloatArray
    exact_levels: FloatArray
    in_trial: BoolArray

    def counts(self) -> Counts:
        """The totals that no test rejects."""
        k = len(self.levels)
        seen = np.bincount(self.labels, minlength=k).astype(np.float64)
        certain = Counts(seen, seen + (self.bets.n_rows - len(self.labels)))
        low = _lowest(certain, self._rejecting(1))
        # Totals that are too high are the same as totals of the other classes that are too low.
        high = -_lowest(Counts(-certain.high, -certain.low), lambda totals, at: self._rejecting(-1)(-totals, at))
        return Counts(low, high)

    def _rejecting(self, sign: int) -> Callable[[FloatArray, BoolArray], BoolArray]:
        """The test whether totals of some classes are too low (sign 1) or too high (sign -1)."""
        used = self.levels > 0
        thresholds = np.log(2.0 / np.where(used, self.levels, 1.0))
        sizes, first = self.bets.sizes(self.thresholds, sign), self.alone.sizes(self.thresholds, sign)

        def rejected(totals: FloatArray, at: BoolArray) -> BoolArray:
            wealth, start = self.bets.log_wealth(totals, sizes, sign), np.zeros_like(totals)
            largest = self.bets.largest_growth(wealth)
            if self.trial:
                start = np.where(self.in_trial, self._joint_wealth(totals, wealth, first, sign), 0.0)
                later = start + self.bets.largest_growth(wealth, self.trial)
                largest = np.where(self.in_trial, later, largest)
            by_bets = used & (largest >= thresholds)
            return by_bets | self._by_counts(totals, start, sign, at & ~by_bets)

        return rejected

    def _joint_wealth(self, totals: FloatArray, wealth: FloatArray, first: FloatArray, sign: int) -> FloatArray:
        """The log of the wealth of both gamblers together after the trial, shape (k,)."""
        with_help = wealth[self.trial - 1]
        without = self.alone.log_wealth(totals, first, sign)[self.trial - 1]
        return np.logaddexp(np.log(self.helped) + with_help, np.log1p(-self.helped) + without)

    def _by_counts(self, totals: FloatArray, start: FloatArray, sign: int, at: BoolArray) -> BoolArray:
        """Which totals of the classes ``at`` the counts of the labels reject that do not belong to the trial."""
        n, m = self.bets.n_rows, len(self.labels)
        rejected = np.zeros(len(totals), dtype=np.bool_)
        for j in np.flatnonzero(at & (self.exact_levels > 0)):
            skipped = self.trial if self.in_trial[j] else 0
            of_class = self.labels == j
            count, total = int(of_class[skipped:].sum()), int(totals[j]) - int(of_class[:skipped].sum())
            m_left, n_left = m - skipped, n - skipped
            if sign > 0:  # as many of the class or more, that is, as few of the others or fewer
                count, total = m_left - count, n_left - total
            tail = survey_cdf(count, total, m_left, n - m)
            rejected[j] = tail <= 0.5 * self.exact_levels[j] * np.exp(start[j])
        return rejected


def _lowest(certain: Counts, rejected: Callable[[FloatArray, BoolArray], BoolArray]) -> FloatArray:
    """The lowest total of each class that is not rejected; the highest one never is."""
    low, high = certain
    while (open_ := low < high).any():
        middle = np.floor((low + high) / 2)
        too_low = rejected(middle, open_) & open_
        low, high = np.where(too_low, middle + 1, low), np.where(too_low | ~open_, high, middle)
    return low
