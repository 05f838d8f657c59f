"""The adjusted rows of a tile, for cell passes and for the sweep: rows may have different shifts."""

from __future__ import annotations

import numpy as np

from baserate.passes.kernels.compiler import inlined_part, part
from baserate.passes.kernels.layout import ABSENT, EPS, LARGE, SMALL, TINY
from baserate.passes.kernels.log import logs
from baserate.passes.kernels.tiles import to_float32


@part
def finish_log(a, z, log_z):
    """Divide the rows of a tile by their sums, and return whether all sums are in range.

    ``z`` becomes the inverse of the sum, and ``log_z`` its logarithm, unless it is None.
    """
    k, lanes = a.shape
    for r in range(lanes):
        z[r] = 0.0
    for c in range(k):
        for r in range(lanes):
            z[r] += a[c, r]
    if log_z is not None:
        logs(z, log_z)
    n_out_of_range = 0
    for r in range(lanes):
        n_out_of_range += not (z[r] > SMALL and z[r] < LARGE)
        z[r] = 1.0 / z[r]
    for c in range(k):
        for r in range(lanes):
            a[c, r] *= z[r]
    return n_out_of_range == 0


@part
def lift_log(tile, a, z, allowed):
    """Replace entries that underflowed by the smallest number, as in ``log_pass``; False if digits were lost."""
    n_lost = 0
    for c in range(a.shape[0]):
        for r in range(a.shape[1]):
            small = allowed[c, r] > 0.0 and tile[c, r] > 0.0 and a[c, r] < TINY * max(z[r], 1.0)
            n_lost += small and z[r] > 1.0
            a[c, r] = TINY if small else a[c, r]
    return n_lost == 0


@part
def finish_brier(a, total, count, theta, n_kept):
    """Project the rows of a tile onto the simplex, and return whether they are in range."""
    k, lanes = a.shape
    for r in range(lanes):
        total[r] = -1.0
    for c in range(k):
        for r in range(lanes):
            total[r] += a[c, r] if a[c, r] > ABSENT else 0.0
    for r in range(lanes):
        theta[r] = -total[r] / n_kept[r]
    for _ in range(k + 1):
        for r in range(lanes):
            total[r] = -1.0
            count[r] = 0.0
        for c in range(k):
            for r in range(lanes):
                v = a[c, r] + theta[r]
                total[r] += v if v > 0.0 else 0.0
                count[r] += 1.0 if v > 0.0 else 0.0
        n_moving = 0
        for r in range(lanes):
            step = total[r] / count[r]
            n_moving += step > 4e-16 * max(1.0, abs(theta[r]))
            theta[r] -= step
        if n_moving == 0:
            break
    for r in range(lanes):
        total[r] = 0.0
        count[r] = 0.0
    for c in range(k):
        for r in range(lanes):
            v = a[c, r] + theta[r]
            a[c, r] = v if v > 0.0 else 0.0
            total[r] += a[c, r]
            count[r] += 1.0 if v > 0.0 else 0.0
    n_out_of_range = 0
    for r in range(lanes):
        n_out_of_range += not (total[r] > 0.5 and total[r] < 2.0)
        total[r] = 1.0 / total[r]
    for c in range(k):
        for r in range(lanes):
            a[c, r] *= total[r]
    return n_out_of_range == 0


@part
def brier_values(tile, a, half, values):
    """The conjugate of each row, ``<x, a> - |a|^2``."""
    for r in range(a.shape[1]):
        values[r] = 0.0
    for c in range(a.shape[0]):
        for r in range(a.shape[1]):
            values[r] += a[c, r] * (2.0 * (tile[c, r] + half[c, r]) - a[c, r]) if a[c, r] > 0.0 else 0.0


@part
def brier_shortfall(tile, a, half, w, moved, short):
    """The divergence and the shortfall of each row of a tile, after rounding; see ``RowModel.shortfall``."""
    k, lanes = a.shape
    for r in range(lanes):
        total, least, squares, largest = 0.0, np.inf, 0.0, 0.0
        for c in range(k):
            difference = tile[c, r] - a[c, r]
            squares += difference * difference
            if half[c, r] > ABSENT:
                fall = -2.0 * (difference + half[c, r])
                total += a[c, r] * fall
                least = fall if fall < least else least
                largest = max(largest, abs(half[c, r]))
        missing = total - least - 8.0 * EPS * (4.0 + 2.0 * largest)
        moved[r] = squares
        short[r] = missing if missing > 0.0 else 0.0


@inlined_part
def round_tile(a):
    """Round all numbers of a tile to float32."""
    for c in range(a.shape[0]):
        for r in range(a.shape[1]):
            a[c, r] = to_float32(a[c, r])
