"""The compiled passes for many classes, whose inner loops run over the classes of one row."""

from __future__ import annotations

import math

import numpy as np

from baserate.passes.kernels.brier import shortfall_rounding
from baserate.passes.kernels.compiler import inlined_part
from baserate.passes.kernels.layout import (
    DONE,
    LARGE,
    LOWEST,
    MOVED,
    OFFSET,
    SHORT,
    SIZE,
    SMALL,
    SURVEY,
    TINY,
    VALUE,
    WRITE,
    ZEROS,
)
from baserate.passes.kernels.tiles import TINY32, to_float32


@inlined_part
def _load_row(raw, weights, i, x, smoothing, tolerance, before, lowest, sums, survey):
    """Fill ``x`` with a normalised and smoothed row, and return whether it is a valid prediction.

    Only SURVEY checks the row. ``lowest`` gets the smallest positive probability of each class.
    """
    k = raw.shape[1]
    total, n_negative = 0.0, 0
    for j in range(k):
        x[j] = raw[i, j]
        total += x[j]
    if survey:
        for j in range(k):
            n_negative += x[j] < 0.0
        if n_negative > 0 or not (abs(total - 1.0) <= tolerance and total > SMALL and total < LARGE):
            return False
    scale = 1.0 / (1.0 + k * smoothing)
    for j in range(k):
        x[j] = x[j] * (scale / total) + smoothing * scale
    if survey:
        n_zeros = 0
        for j in range(k):
            before[j] += weights[i] * x[j]
            n_zeros += x[j] == 0.0
            lowest[j] = x[j] if 0.0 < x[j] < lowest[j] else lowest[j]
        sums[ZEROS] += n_zeros
    return True


def wide_log_pass(
    raw, weights, factor, centre, keep, smoothing, tolerance, todo, before, mean, edges, sums, rows, rounded
):
    """One pass for log loss with many classes. The inner loops run over classes, and all classes must be kept."""
    n, k = raw.shape
    x, lowest = np.empty(k), np.full(k, 2.0)
    for i in range(n):
        if not _load_row(raw, weights, i, x, smoothing, tolerance, before, lowest, sums, todo & SURVEY):
            return i
        z = 0.0
        for j in range(k):
            z += x[j] * factor[j]
        if not (z > SMALL and z < LARGE):
            return i
        log_z = math.log(z) + centre
        sums[VALUE] += weights[i] * log_z
        sums[SIZE] += weights[i] * abs(log_z)
        if todo & WRITE:
            n_lost = 0  # as in log_pass
            for j in range(k):
                a = x[j] * factor[j] / z
                small = x[j] > 0.0 and a < TINY * max(1.0 / z, 1.0)
                n_lost += small and z < 1.0
                a = TINY if small else a
                rows[i, j] = a
                mean[j] += weights[i] * a
            if n_lost > 0:
                return i
            if rounded is not None:  # as in round_log_tile
                excess, gain, least = -1.0, 0.0, np.inf
                for j in range(k):
                    v = max(x[j] * factor[j] / z, TINY if x[j] > 0.0 else 0.0)
                    b = to_float32(v)
                    e = (b - v) / v if v >= TINY32 else 0.0
                    e -= 0.5 * e * e
                    excess += b
                    gain += b * e
                    least = e if v > 0.0 and e < least else least
                    rows[i, j] = b
                    rounded[j] += weights[i] * b
                added = gain - excess * (log_z + 1.0)
                sums[MOVED] += weights[i] * added
                sums[SHORT] += weights[i] * max(added - least + max(excess, 0.0), 0.0)
        else:
            for j in range(k):
                mean[j] += x[j] * factor[j] * (weights[i] / z)
    for j in range(k):
        sums[LOWEST] = min(sums[LOWEST], lowest[j])
    return DONE


@inlined_part
def find_theta(a, theta):
    """The number to be added to a row so that its positive part sums to 1, and the number of positive entries.

    It is found by Newton's method, from a number that is not too small.
    """
    k, count = len(a), 0.0
    for _ in range(k + 1):
        total, count = -1.0, 0.0
        for j in range(k):
            v = a[j] + theta
            positive = 1.0 if v > 0.0 else 0.0  # a product with this is vectorized, a choice between v and 0 is not
            total += v * positive
            count += positive
        theta -= total / count
        if not total / count > 4e-16 * max(1.0, abs(theta)):
            break
    return theta, count


def wide_brier_pass(raw, weights, half, _, keep, smoothing, tolerance, todo, before, mean, edges, sums, rows, rounded):
    """One pass for the Brier score with many classes. The inner loops run over classes; all classes must be kept."""
    n, k = raw.shape
    x, a, lowest = np.empty(k), np.empty(k), np.full(k, 2.0)
    rounding = shortfall_rounding(half, keep)
    for i in range(n):
        if not _load_row(raw, weights, i, x, smoothing, tolerance, before, lowest, sums, todo & SURVEY):
            return i
        total, squares = -1.0, 0.0
        for j in range(k):
            squares += x[j] * x[j]
            a[j] = x[j] + half[j]
            total += a[j]
        if todo & SURVEY:
            sums[OFFSET] += weights[i] * squares
        theta, _count = find_theta(a, -total / k)
        total = 0.0
        for j in range(k):
            v = a[j] + theta
            a[j] = abs(v) * (1.0 if v > 0.0 else 0.0)  # abs(v) as in brier_pass
            total += a[j]
        if not (total > 0.5 and total < 2.0):
            return i
        value, moved = 0.0, 0.0
        for j in range(k):
            v = a[j] / total
            a[j] = v
            mean[j] += weights[i] * v
            value += v * (2.0 * (x[j] + half[j]) - v)
            moved += (v - x[j]) * (v - x[j])
        if rounded is not None and todo & WRITE:
            moved = 0.0
            for j in range(k):
                a[j] = to_float32(a[j])
                rounded[j] += weights[i] * a[j]
                moved += (a[j] - x[j]) * (a[j] - x[j])
        sums[VALUE] += weights[i] * value
        sums[SIZE] += weights[i] * abs(value)
        sums[MOVED] += weights[i] * moved
        if todo & WRITE:
            total, least = 0.0, np.inf
            for j in range(k):
                rows[i, j] = a[j]
                fall = 2.0 * (a[j] - x[j] - half[j])
                total += a[j] * fall
                least = fall if fall < least else least
            sums[SHORT] += weights[i] * max(total - least - rounding, 0.0)
    for j in range(k):
        sums[LOWEST] = min(sums[LOWEST], lowest[j])
    return DONE
