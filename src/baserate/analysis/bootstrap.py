"""Confidence intervals for differences of means of rows, or of groups of rows, by the bootstrap.

The interval of a difference is ``difference +- c * standard error``. The standard error treats the groups as a random
sample (each row is a group unless groups are given). The number c is a quantile of ``|t|``, where t is the error of the
difference in a bootstrap sample divided by the standard error that this sample gives: the symmetric bootstrap-t
interval (P. Hall, The Bootstrap and Edgeworth Expansion, 1992, section 3.6). Not the percentile interval, which is too
short for few groups. The joint interval of several differences takes the quantile of the largest ``|t|``.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from baserate.progress import Progress
from baserate.support.arrays import FloatArray, IndexArray

_MAX_COUNTS = 1 << 22  # Counts of resampled groups that are in memory at a time.
_MAX_GROUPS = 2048
_ROUNDING = 1e-12  # A difference is rounding error if its standard error is this small, relative to the values.
_LEAST_SHARE = 0.05  # Of the variance of the sample, in a bootstrap sample; few groups may be drawn several times.


@dataclass(frozen=True)
class Bootstrap:
    """Settings of the bootstrap.

    Attributes
    ----------
    confidence : float
    n_samples : int
    seed : int
    """

    confidence: float
    n_samples: int
    seed: int


class Intervals(NamedTuple):
    """Differences and their intervals, each of shape (p, l)."""

    difference: FloatArray
    low: FloatArray
    high: FloatArray
    joint_low: FloatArray
    joint_high: FloatArray


class GroupSums(NamedTuple):
    """Sums over groups of rows.

    Attributes
    ----------
    sums : array of shape (p, l, g)
        Sum of weight times contribution, for p procedures and l measures.
    weights : array of shape (g,)
        Sum of the weights; all together 1.
    """

    sums: FloatArray
    weights: FloatArray


def sum_by_group(rows: FloatArray, weights: FloatArray, groups: IndexArray | None, seed: int) -> GroupSums:
    """The sums of contributions of shape (p, l, n) over groups with the numbers 0 to g - 1.

    More than some thousand groups are put together at random to that many larger ones. These are a random sample of
    independent groups as well, with the same variance and skewness of the mean, and take far less time.
    """
    groups = np.arange(len(weights)) if groups is None else groups
    n_groups = int(groups.max()) + 1
    if n_groups > _MAX_GROUPS:
        groups = (np.random.default_rng(seed).permutation(n_groups) % _MAX_GROUPS)[groups]
        n_groups = _MAX_GROUPS
    if n_groups == len(weights):
        order = np.argsort(groups)
        return GroupSums((rows * weights)[..., order], weights[order])
    flat = [*(rows * weights).reshape(-1, len(weights)), weights]
    sums = np.array([np.bincount(groups, row, minlength=n_groups) for row in flat], dtype=np.float64)
    return GroupSums(sums[:-1].reshape(*rows.shape[:2], -1), sums[-1])


def bootstrap_intervals(
    groups: GroupSums, base: int, added: FloatArray, bootstrap: Bootstrap, progress: Progress
) -> Intervals:
    """Intervals of the differences between each procedure and the procedure ``base``.

    Parameters
    ----------
    groups : GroupSums
    base : int
    added : array of shape (p, l)
        What to add to the variance of each difference.
    bootstrap : Bootstrap
    progress : Progress
    """
    with np.errstate(invalid="ignore"):
        contrasts = groups.sums - groups.sums[base]
    known = np.isfinite(contrasts).all(axis=2)
    contrasts = np.where(known[..., None], contrasts, 0.0)
    difference = contrasts.sum(axis=2)
    residuals = contrasts - difference[..., None] * groups.weights
    n_groups = len(groups.weights)
    variance = (residuals**2).sum(axis=2) * n_groups / max(n_groups - 1, 1)
    size = np.where(known, np.abs(groups.sums).sum(axis=2), 0.0)
    varies = np.sqrt(variance) > _ROUNDING * size
    residuals, variance = np.where(varies[..., None], residuals, 0.0), np.where(varies, variance, 0.0)
    t = np.abs(_t_values(residuals, groups.weights, variance, bootstrap, progress))
    error = np.sqrt(variance + added) if n_groups > 1 else np.full_like(variance, np.nan)
    # A change of 0 in all rows has no t, but other samples may have a change: then ``added`` is above 0.
    normal = np.where(varies, 0.0, NormalDist().inv_cdf((1 + bootstrap.confidence) / 2))
    single = error * np.maximum(np.quantile(t, bootstrap.confidence, axis=0), normal)
    joint = error * np.maximum(np.quantile(t.max(axis=1, keepdims=True), bootstrap.confidence, axis=0), normal)
    difference, single, joint = (np.where(known, values, np.nan) for values in (difference, single, joint))
    return Intervals(difference, difference - single, difference + single, difference - joint, difference + joint)


def _t_values(
    residuals: FloatArray, weights: FloatArray, variance: FloatArray, bootstrap: Bootstrap, progress: Progress
) -> FloatArray:
    """Errors of the differences in bootstrap samples over their standard errors, shape (n_samples, p, l).

    All differences use the same samples. The error of a sample with the counts c is ``e = c.r / c.w``, where r are the
    residuals and w the weights, and its variance follows from the sums ``c.r^2``, ``c.rw`` and ``c.w^2``: one matrix
    product for all samples of a chunk.
    """
    n_groups, shape = len(weights), variance.shape
    r = residuals.reshape(-1, n_groups)
    columns = np.concatenate([r, r**2, r * weights, weights[None], weights[None] ** 2]).T
    rng, n_cells, chunks = np.random.default_rng(bootstrap.seed), len(r), []
    progress.begin("resampling", bootstrap.n_samples)
    chunk = max(_MAX_COUNTS // n_groups, 1)
    for start in range(0, bootstrap.n_samples, chunk):
        size = min(chunk, bootstrap.n_samples - start)
        summed = _counts(rng, size, n_groups) @ columns
        linear, square, mixed = (summed[:, i * n_cells : (i + 1) * n_cells] for i in range(3))
        total, total_square = summed[:, -2:-1], summed[:, -1:]
        error = linear / total
        spread = (square - 2 * error * mixed + error**2 * total_square) / total**2 * n_groups / max(n_groups - 1, 1)
        least = _LEAST_SHARE * variance.ravel()
        scale = np.sqrt(np.maximum(spread, least))
        chunks.append(np.divide(error, scale, out=np.zeros_like(error), where=scale > 0))
        progress.rows(size)
    return np.concatenate(chunks).reshape(-1, *shape)


def _counts(rng: np.random.Generator, n_samples: int, n_groups: int) -> FloatArray:
    """How often each group was drawn in each sample, shape (n_samples, n_groups)."""
    # Not rng.multinomial, which draws one binomial number per group and takes several times as long.
    drawn = rng.integers(n_groups, size=(n_samples, n_groups))
    drawn += np.arange(n_samples)[:, None] * n_groups
    return np.bincount(drawn.ravel(), minlength=n_samples * n_groups).reshape(n_samples, n_groups).astype(np.float64)
