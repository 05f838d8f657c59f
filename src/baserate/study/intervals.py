"""Confidence intervals for statistics over many tasks, found by resampling whole data sets.

All models and folds of a data set share its difficulties, so their results are dependent. A bootstrap that resamples
tasks would take thousands of tasks for thousands of independent observations, and its intervals would be far too
narrow. Here a resample is drawn from the data sets, and each drawn data set brings all its tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.support.arrays import FloatArray, IndexArray

N_RESAMPLES, SEED, CONFIDENCE = 2000, 0, 0.95

MIN_DATASETS = 6
"""Fewer data sets give no interval.

Without any true difference, all signs of 5 data sets agree with probability 2 * 0.5**5 = 6 %, which exceeds 5 %.
"""


@dataclass(frozen=True)
class Interval:
    """A statistic with its confidence interval.

    Attributes
    ----------
    value : float
    low, high : float
        NaN if there are fewer than ``MIN_DATASETS`` data sets.
    """

    value: float
    low: float
    high: float

    def is_above(self, threshold: float) -> bool | None:
        """Whether the statistic is above a threshold; None if the interval does not decide it."""
        if self.low > threshold:
            return True
        return False if self.high < threshold else None


class Share(NamedTuple):
    """A data set and its share of a statistic, between 0 and 1."""

    dataset: str
    share: float


@dataclass(frozen=True, eq=False)
class Ratios:
    """Ratios of two sums over tasks, one ratio per cell: means, shares of tasks, and quotients of sums.

    Attributes
    ----------
    datasets : array of str, shape (d,)
    numerator, denominator : arrays of shape (d, c)
        The two sums over the tasks of each data set, in each cell. A numerator may be infinite.
    """

    datasets: NDArray[np.str_]
    numerator: FloatArray
    denominator: FloatArray

    @classmethod
    def of(
        cls,
        datasets: ArrayLike,
        numerator: ArrayLike,
        denominator: ArrayLike = 1.0,
        *,
        cells: ArrayLike = 0,
        n_cells: int = 1,
    ) -> Ratios:
        """Sum the tasks of each data set and cell; tasks with a numerator that is NaN do not count."""
        top = np.asarray(numerator, dtype=float)
        known = ~np.isnan(top)
        bottom, cell = (np.broadcast_to(values, top.shape)[known] for values in (denominator, cells))
        names, codes = np.unique(np.asarray(datasets, dtype=str)[known], return_inverse=True)

        def sums(values: FloatArray) -> FloatArray:
            flat = np.bincount(codes * n_cells + cell, weights=values, minlength=len(names) * n_cells)
            return flat.reshape(len(names), n_cells).astype(float)

        return cls(names, sums(top[known]), sums(bottom))

    @property
    def values(self) -> FloatArray:
        """The ratio of each cell; NaN if the cell has no tasks."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.numerator.sum(axis=0) / self.denominator.sum(axis=0))

    @property
    def n_datasets(self) -> IndexArray:
        """The number of data sets that have tasks, for each cell."""
        return np.asarray((self.denominator > 0).sum(axis=0))

    def over_all_cells(self) -> Ratios:
        """One ratio for the tasks of all cells together."""
        return replace(
            self,
            numerator=self.numerator.sum(axis=1, keepdims=True),
            denominator=self.denominator.sum(axis=1, keepdims=True),
        )

    def without(self, dataset: str) -> Ratios:
        """The ratios without the tasks of one data set."""
        kept = self.datasets != dataset
        return Ratios(self.datasets[kept], self.numerator[kept], self.denominator[kept])

    def intervals(self) -> list[Interval]:
        """The ratio of each cell with its interval; together, the intervals contain all true values with 95 %."""
        return _joint_intervals(lambda sums: sums[0] / sums[1], [self.numerator, self.denominator], self.n_datasets)

    def largest_share(self, threshold: float) -> Share:
        """The data set that contributes most to the distance from a threshold, in cells not clearly above it."""
        undecided = np.array([interval.is_above(threshold) is not True for interval in self.intervals()])
        cells = (undecided if undecided.any() else ~undecided) & (self.n_datasets > 0)
        distance = np.abs(self.numerator - threshold * self.denominator)[:, cells]
        infinite = np.isinf(distance)
        parts = infinite.astype(float) if infinite.any() else distance / self.denominator[:, cells].sum(axis=0)
        shares = parts.sum(axis=1) / (parts.sum() or 1.0)
        return Share(str(self.datasets[np.argmax(shares)]), float(shares.max()))


def rank_correlation(datasets: ArrayLike, x: FloatArray, y: FloatArray) -> Interval:
    """Spearman's correlation of two columns of tasks, with its interval.

    The ranks are those among all tasks. They are not computed again in every resample.
    """
    from scipy.stats import rankdata

    _, codes = np.unique(np.asarray(datasets), return_inverse=True)
    x, y = (rankdata(values) - (len(values) + 1) / 2 for values in (x, y))
    products = (np.ones_like(x), x, y, x * x, y * y, x * y)
    sums = [np.bincount(codes, weights=values)[:, None].astype(float) for values in products]

    def correlation(totals: list[FloatArray]) -> FloatArray:
        n, sx, sy, sxx, syy, sxy = totals
        covariance, variances = sxy - sx * sy / n, (sxx - sx**2 / n) * (syy - sy**2 / n)
        return np.asarray(covariance / np.sqrt(variances))

    return _joint_intervals(correlation, sums, (sums[0] > 0).sum(axis=0))[0]


def _joint_intervals(
    statistic: Callable[[list[FloatArray]], FloatArray], sums: list[FloatArray], n_datasets: IndexArray
) -> list[Interval]:
    """Bootstrap percentile intervals of a statistic of sums over data sets, one per cell.

    The intervals are joint (Mandel and Betensky 2008): the same number of resamples is cut off at both ends of all
    cells, such that 95 % of the resamples are inside the intervals of all cells.
    """
    size = len(sums[0])
    with np.errstate(invalid="ignore", divide="ignore"):
        values = statistic([one.sum(axis=0) for one in sums])
        known = (n_datasets >= MIN_DATASETS) & ~np.isnan(values)
        low, high = np.full((2, len(values)), np.nan)
        if known.any():
            drawn = np.random.default_rng(SEED).multinomial(size, np.full(size, 1 / size), N_RESAMPLES).astype(float)
            resampled = statistic([_weighted_sums(drawn, one) for one in sums])[:, known]
            # A resample without a task of some cell says nothing about it.
            resampled = np.where(np.isnan(resampled), values[known], resampled)
            low[known], high[known] = _joint_ends(resampled, int(n_datasets[known].min()))
    return [Interval(*map(float, numbers)) for numbers in zip(values, low, high, strict=True)]


def _weighted_sums(weights: FloatArray, values: FloatArray) -> FloatArray:
    """``weights @ values`` in which infinite values with weight 0 do not count."""
    total = weights @ np.where(np.isfinite(values), values, 0.0)
    for infinity in (np.inf, -np.inf):
        total = np.where(weights @ (values == infinity) > 0, total + infinity, total)
    return np.asarray(total)


def _joint_ends(resampled: FloatArray, n_datasets: int) -> tuple[FloatArray, FloatArray]:
    """The lower and upper ends of joint intervals, one per column of the resamples."""
    ordered = np.sort(resampled, axis=0)
    n = len(ordered)
    columns = list(zip(ordered.T, resampled.T, strict=True))
    from_below = [np.searchsorted(column, values, side="right") for column, values in columns]
    from_above = [n - np.searchsorted(column, values, side="left") for column, values in columns]
    depth = np.sort(np.min([*from_below, *from_above], axis=0))  # how far inside its worst cell a resample is
    tail = min(int(depth[int((1 - CONFIDENCE) * n)]) / n, 0.5)
    k = max(int(_expanded(tail, n_datasets) * n), 1)
    return ordered[k - 1], ordered[n - k]


def _expanded(tail: float, n_datasets: int) -> float:
    """The share of resamples that is cut off at one end, so that few data sets give an interval that is wide enough.

    Percentile intervals of few observations are too narrow. These are the expanded percentile intervals of Hesterberg
    (2015): for a mean, they are as wide as the interval of Student's t.
    """
    from scipy.special import ndtr, stdtrit

    t = stdtrit(n_datasets - 1, tail)
    return float(ndtr(t * np.sqrt(n_datasets / (n_datasets - 1))))
