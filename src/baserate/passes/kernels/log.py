"""The compiled pass for log loss."""

from __future__ import annotations

import numpy as np

from baserate.passes.kernels.compiler import inlined_part
from baserate.passes.kernels.instructions import SQUARE, from_bits, smaller, to_bits
from baserate.passes.kernels.layout import CURVATURE, DONE, LARGE, MOVED, SHORT, SIZE, SMALL, SURVEY, TINY, VALUE, WRITE
from baserate.passes.kernels.tiles import (
    LANES,
    TINY32,
    add_edges,
    fill_tile,
    normalise_tile,
    store_tile,
    survey_tile,
    to_float32,
)


@inlined_part
def logs(x, out):
    """Write the logarithms of ``x`` to ``out``. The numbers must be positive and not denormal.

    With ``x = 2^e f`` and ``f`` between 1/sqrt(2) and sqrt(2), ``log f = 2 atanh((f - 1) / (f + 1))``, which is a power
    series. Not ``math.log``, which would not be vectorized.
    """
    for r in range(len(x)):
        bits = to_bits(x[r])
        e, f = (bits >> 52) - 1023, from_bits((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000)
        high = f > 1.4142135623730951
        f, e = (0.5 * f, e + 1) if high else (f, e)
        u = (f - 1.0) / (f + 1.0)
        q = u * u
        series = 1.0 / 21.0
        series = series * q + 1.0 / 19.0
        series = series * q + 1.0 / 17.0
        series = series * q + 1.0 / 15.0
        series = series * q + 1.0 / 13.0
        series = series * q + 1.0 / 11.0
        series = series * q + 1.0 / 9.0
        series = series * q + 1.0 / 7.0
        series = series * q + 1.0 / 5.0
        series = series * q + 1.0 / 3.0
        out[r] = e * 0.6931471805599453 + (2.0 * u + 2.0 * u * q * series)


@inlined_part
def round_log_tile(a, k, w, log_z, centre, excess, gain, least, rounded, sums):
    """The same for log loss, which also needs divergence and shortfall. The other arguments are scratch arrays.

    The exact row belongs to the shift. So with ``e_j = log(rounded_j / exact_j)``, the fall of the loss minus the shift
    is ``e_j`` plus a constant of the row. ``e`` is at most 6e-8 in size, so two terms of its series are enough. It
    counts as 0 for numbers that were rounded up, where it is larger.
    """
    lanes = len(w)
    for r in range(lanes):
        excess[r] = -1.0  # the sum of the rounded row, minus 1
        gain[r] = 0.0  # the mean of e under the rounded row
        least[r] = np.inf
    for j in range(k):
        total = 0.0
        for r in range(lanes):
            v = a[j, r]
            b = to_float32(v)
            e = (b - v) / v if v >= TINY32 else 0.0
            e -= 0.5 * e * e
            excess[r] += b
            gain[r] += b * e
            least[r] = smaller(e if v > 0.0 else np.inf, least[r])
            a[j, r] = b
            total += w[r] * b
        rounded[j] += total
    moved, short = 0.0, 0.0
    for r in range(lanes):
        added = gain[r] - excess[r] * (log_z[r] + centre + 1.0)
        missing = added - least[r] + max(excess[r], 0.0)
        moved += w[r] * added
        short += w[r] * missing if missing > 0.0 else 0.0
    sums[MOVED] += moved
    sums[SHORT] += short


def log_pass(raw, weights, factor, centre, keep, smoothing, tolerance, todo, before, mean, edges, sums, rows, rounded):
    """One pass for log loss, where ``a_j = p_j exp(shift_j) / z``.

    It needs one exponential per class, which the caller has computed, and one logarithm per row. The sum of a row as it
    was given cancels out, so rows are not normalised.
    """
    n, k = raw.shape
    # Allocated here and not by the caller, so that the compiler knows that these arrays do not overlap.
    tile, a, w = np.empty((k + SQUARE, LANES)), np.empty((k + SQUARE, LANES)), np.empty(LANES)
    total, z, log_z, spare = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    scale = 1.0 / (1.0 + k * smoothing)
    extra, all_factors = smoothing * scale, 0.0
    factors = np.empty(k + 1)
    factors[k] = 0.0
    for j in range(k):
        factors[j] = factor[j]
        all_factors += factor[j]
    for start in range(0, n, LANES):
        fill_tile(raw, weights, start, tile, w)
        for r in range(LANES):
            total[r] = 0.0
            z[r] = 0.0
        for j in range(0, k, 2):  # two classes at a time, so that the sums are stored half as often
            for r in range(LANES):
                total[r] += tile[j, r] + tile[j + 1, r]
                z[r] += tile[j, r] * factors[j] + tile[j + 1, r] * factors[j + 1]
        if todo & SURVEY and not survey_tile(tile, k, w, total, scale, extra, tolerance, spare, before, sums):
            return start
        if extra > 0.0:
            for r in range(LANES):
                z[r] = z[r] * (scale / total[r]) + extra * all_factors
            normalise_tile(tile, k, total, scale, extra)
        else:
            for r in range(LANES):
                z[r] /= total[r]
        logs(z, log_z)
        value, size, n_in_range = 0.0, 0.0, 0.0
        for r in range(LANES):
            n_in_range += (1.0 if z[r] > SMALL else 0.0) * (1.0 if z[r] < LARGE else 0.0)
            value += w[r] * (log_z[r] + centre)
            size += w[r] * abs(log_z[r] + centre)
            total[r] = 1.0 / (z[r] * total[r])
        if n_in_range < LANES:
            return start
        sums[VALUE] += value
        sums[SIZE] += size
        for j in range(k):
            sum_a = 0.0
            for r in range(LANES):
                a[j, r] = tile[j, r] * factor[j] * total[r]
                sum_a += w[r] * a[j, r]
            mean[j] += sum_a
        if todo & WRITE:
            # No shortfall is summed: each entry is p_j exp(shift_j) / z up to rounding, or TINY if that is larger.
            # If a product underflowed before the division by a small z, NumPy takes the block and uses logarithms.
            n_small, n_lost = 0.0, 0
            for r in range(LANES):
                spare[r] = TINY if z[r] > 1.0 else TINY / z[r]
            for j in range(k):
                if factor[j] > 0.0:
                    for r in range(LANES):
                        n_small += 1.0 if a[j, r] < spare[r] else 0.0
            if n_small > 0.0:  # rare, and not vectorized
                for j in range(k):
                    for r in range(LANES):
                        small = factor[j] > 0.0 and tile[j, r] > 0.0 and a[j, r] < spare[r]
                        n_lost += small and z[r] < 1.0
                        a[j, r] = TINY if small else a[j, r]
            if n_lost > 0:
                return start
            if rounded is not None:
                round_log_tile(a, k, w, log_z, centre, total, spare, z, rounded, sums)
            store_tile(a, start, rows)
        if todo & CURVATURE:
            add_edges(a, k, w, z, edges)
    return DONE
