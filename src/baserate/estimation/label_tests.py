"""One-sided tests of class counts, from labels of rows drawn at random: by betting, and by counting labels.

A test rejects a total that is too low, or too high, for the labels. Two tests share the level of a class: the one by
betting, which uses the predictions, and the exact one by counts, which bad predictions cannot harm. The labels of a
*first stage* decide how. In it two bettors bet, one with and one without the predictions. Their joint wealth V has an
expectation of 1 if the total is right, since each of them has. Given the first stage, the other labels are a random
sample of the other rows. So

- a bettor who starts with V after the first stage becomes richer than ``1 / level`` with a probability of at most
  ``level``;
- the exact test of the other labels at the level ``level * V`` rejects a right total with a probability of at most
  ``level``, because V has an expectation of 1.

Both hold for any shares of the level that depend on labels of the first stage only. These labels count through V, so
that little is lost. V depends on the total in the same direction as all wealth does, so that both tests reject all
totals beyond the first one that they reject.

These are tests of one end. The exact test has a better form with both tails; see
:mod:`baserate.estimation.two_tails`. Its weights are the wealths V at this end and W at the other, and it rejects at
``level * (V + W)``, whose expectation is twice the level if the total is right. It rejects whatever both one-sided
tests of the counts reject. Its totals are not always beyond a first one, so it goes from the ends inwards, and stops at
the first total that it does not reject.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from baserate.estimation.betting import Bets
from baserate.estimation.two_tails import two_tails
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
        Without them, for the first stage.
    labels : int array of shape (m,)
    n_first : int
        Number of labels of the first stage; 0 for none.
    weight : float
        The share of the initial wealth with which the bettor with predictions starts.
    thresholds : array of shape (k,)
        The log wealth for which bets are chosen. It must not depend on labels.
    levels, exact_levels : arrays of shape (k,)
        For both ends of an interval together: of the test by betting and of the exact one; 0 for none.
    has_first : bool array of shape (k,)
        For which classes there is a first stage. The others are tested by counts of all labels, or by bets from the
        start.
    """

    bets: Bets
    alone: Bets
    labels: IndexArray
    n_first: int
    weight: float
    thresholds: FloatArray
    levels: FloatArray
    exact_levels: FloatArray
    has_first: BoolArray

    def counts(self) -> Counts:
        """The totals that no test rejects."""
        k = len(self.levels)
        seen = np.bincount(self.labels, minlength=k).astype(np.float64)
        certain = Counts(seen, seen + (self.bets.n_rows - len(self.labels)))
        low = _lowest(certain, self._rejecting(1))
        # Totals that are too high are the same as totals of the other classes that are too low.
        high = -_lowest(Counts(-certain.high, -certain.low), lambda totals, at: self._rejecting(-1)(-totals, at))
        low = self._further(low, high, 1)
        return Counts(low, self._further(high, low, -1))

    def accepts(self, totals: FloatArray) -> BoolArray:
        """Whether no test rejects the total of each class. Then it lies between the ends."""
        every, exact = np.ones(len(totals), dtype=np.bool_), self.exact_levels > 0
        one_sided = self._rejecting(1)(totals, every) | self._rejecting(-1)(totals, every)
        both = (self._by_both_tails(totals, totals, sign, exact & ~one_sided) for sign in (1, -1))
        return ~(one_sided | next(both) | next(both))

    def _rejecting(self, sign: int) -> Callable[[FloatArray, BoolArray], BoolArray]:
        """The test whether totals of some classes are too low (sign 1) or too high (sign -1)."""
        used = self.levels > 0
        thresholds = np.log(2.0 / np.where(used, self.levels, 1.0))
        sizes = self.bets.sizes(self.thresholds, sign)

        def rejected(totals: FloatArray, at: BoolArray) -> BoolArray:
            wealth, start = self.bets.log_wealth(totals, sizes, sign), self._joint_wealth(totals, sign)
            largest = self.bets.largest_growth(wealth)
            if self.n_first:
                later = start + self.bets.largest_growth(wealth, self.n_first)
                largest = np.where(self.has_first, later, largest)
            by_bets = used & (largest >= thresholds)
            return by_bets | self._by_counts(totals, start, sign, at & ~by_bets)

        return rejected

    @cached_property
    def _first(self) -> tuple[Bets, Bets]:
        """The bets of both bettors in the first stage."""
        return self.bets.first(self.n_first), self.alone.first(self.n_first)

    @cached_property
    def _sizes(self) -> dict[int, tuple[FloatArray, FloatArray]]:
        """The sizes of these bets, for each sign."""
        return {
            sign: (
                self.bets.sizes(self.thresholds, sign)[: self.n_first],
                self.alone.sizes(self.thresholds, sign)[: self.n_first],
            )
            for sign in (1, -1)
        }

    def _joint_wealth(self, totals: FloatArray, sign: int) -> FloatArray:
        """The log of the wealth of both bettors together after the first stage, shape (k,); 0 without one."""
        if not self.n_first:
            return np.zeros_like(totals)
        with_predictions, without = (
            bets.log_wealth(totals, sizes, sign)[-1] for bets, sizes in zip(self._first, self._sizes[sign], strict=True)
        )
        joint = np.logaddexp(np.log(self.weight) + with_predictions, np.log1p(-self.weight) + without)
        return np.where(self.has_first, joint, 0.0)

    def _by_counts(self, totals: FloatArray, start: FloatArray, sign: int, at: BoolArray) -> BoolArray:
        """Which totals of the classes ``at`` the counts of the labels after the first stage reject."""
        rejected = np.zeros(len(totals), dtype=np.bool_)
        for j in np.flatnonzero(at & (self.exact_levels > 0)).tolist():
            counted = self._counted(j, sign)
            tail = survey_cdf(counted.found, counted.total(totals[j]), counted.m, counted.n)
            rejected[j] = tail <= 0.5 * self.exact_levels[j] * np.exp(start[j])
        return rejected

    def _further(self, ends: FloatArray, others: FloatArray, sign: int) -> FloatArray:
        """The ends after the totals that the exact test with both tails rejects, but not beyond the other ends."""
        ends, at = ends.copy(), self.exact_levels > 0
        # Many totals are tested together, and fewer if they are not rejected together.
        sizes = np.where(at, max(self.bets.n_rows // len(self.labels), 1), 0)
        while (at := sizes > 0).any():
            last = ends + sign * np.maximum(sizes - 1, 0)
            at = at & (sign * (others - last) > 0)
            rejected = self._by_both_tails(ends, np.where(at, last, ends), sign, at)
            ends = np.where(rejected, ends + sign * sizes, ends)
            sizes = np.where(rejected, sizes, sizes // 2)
        return ends

    def _by_both_tails(self, first: FloatArray, last: FloatArray, sign: int, at: BoolArray) -> BoolArray:
        """For which of the classes ``at`` all totals from the first to the last are rejected."""
        near, far = np.exp(self._joint_wealth(last, sign)), np.exp(self._joint_wealth(first, -sign))
        ratios = np.exp(self._joint_wealth(last, -sign)) / near
        # Towards the last total the near wealth falls and the far one rises.
        levels, rejected = 0.5 * self.exact_levels * (near + far), np.zeros(len(first), dtype=np.bool_)
        for j in np.flatnonzero(at).tolist():
            counted = self._counted(j, sign)
            totals = counted.total(first[j]), counted.total(last[j])
            rejected[j] = two_tails(counted.found, totals, float(ratios[j]), counted.m, counted.n) <= levels[j]
        return rejected

    def _counted(self, j: int, sign: int) -> _Counted:
        """The labels after the first stage, as counts of the class or of its complement."""
        skipped = self.n_first if self.has_first[j] else 0
        # Many rows of the class are few of the others.
        of_class = (self.labels == j) if sign < 0 else (self.labels != j)
        m, n_rows = len(self.labels), self.bets.n_rows
        before = int(of_class[:skipped].sum())
        return _Counted(int(of_class.sum()) - before, m - skipped, n_rows - m, before, n_rows if sign > 0 else None)


class _Counted(NamedTuple):
    """Rows of a class, or of all others, after the first stage.

    Attributes
    ----------
    found : int
        Number of them among the labels.
    m, n : int
        Number of labels, and of rows without a label.
    before : int
        Number of them in the first stage.
    n_rows : int or None
        Number of all rows if the others are counted.
    """

    found: int
    m: int
    n: int
    before: int
    n_rows: int | None

    def total(self, total: float) -> int:
        """How many of the m + n rows they are, if the class has this total."""
        return (int(total) if self.n_rows is None else self.n_rows - int(total)) - self.before


def _lowest(certain: Counts, rejected: Callable[[FloatArray, BoolArray], BoolArray]) -> FloatArray:
    """The lowest total of each class that is not rejected; the highest one never is."""
    low, high = certain
    while (open_ := low < high).any():
        middle = np.floor((low + high) / 2)
        too_low = rejected(middle, open_) & open_
        low, high = np.where(too_low, middle + 1, low), np.where(too_low | ~open_, high, middle)
    return low
