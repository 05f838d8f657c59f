"""The compiled pass for the Brier score."""

from __future__ import annotations

import numpy as np

from baserate.passes.kernels.compiler import inlined_part
from baserate.passes.kernels.instructions import SQUARE, smaller
from baserate.passes.kernels.layout import (
    ABSENT,
    CURVATURE,
    DONE,
    EPS,
    MOVED,
    OFFSET,
    SHORT,
    SIZE,
    SURVEY,
    VALUE,
    WRITE,
)
from baserate.passes.kernels.tiles import (
    LANES,
    add_edges,
    fill_tile,
    normalise_tile,
    store_tile,
    survey_tile,
    to_float32,
)


@inlined_part
def shortfall_rounding(half, keep):
    """What rounding may contribute to the shortfall of a row for the Brier score."""
    largest = 0.0
    for c in range(len(keep)):
        largest = max(largest, abs(half[keep[c]]))
    return 8.0 * EPS * (4.0 + 2.0 * largest)


@inlined_part
def _round_tile(a, k, w, rounded):
    """Round the adjusted rows of a tile to float32, and add them to ``rounded``."""
    for j in range(k):
        total = 0.0
        for r in range(len(w)):
            a[j, r] = to_float32(a[j, r])
            total += w[r] * a[j, r]
        rounded[j] += total


def brier_pass(raw, weights, half, _, keep, smoothing, tolerance, todo, before, mean, edges, sums, rows, rounded):
    """One pass for the Brier score, where ``a = max(p + shift / 2 + theta, 0)``.

    ``theta`` makes the row sum to 1. It is found by Newton's method in all lanes at the same time.
    """
    n, k = raw.shape
    n_kept = len(keep)
    tile, a, x = np.empty((k + SQUARE, LANES)), np.empty((k + SQUARE, LANES)), np.empty((k + 1, LANES))
    w = np.empty(LANES)
    for j in range(k + 1):  # classes that are not kept stay so
        for r in range(LANES):
            a[j, r] = 0.0
            x[j, r] = ABSENT
    total, count, theta, least = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    rounding, scale = shortfall_rounding(half, keep), 1.0 / (1.0 + k * smoothing)
    extra = smoothing * scale
    for start in range(0, n, LANES):
        fill_tile(raw, weights, start, tile, w)
        for r in range(LANES):
            total[r] = 0.0
        for j in range(k):
            for r in range(LANES):
                total[r] += tile[j, r]
        if todo & SURVEY and not survey_tile(tile, k, w, total, scale, extra, tolerance, theta, before, sums):
            return start
        normalise_tile(tile, k, total, scale, extra)
        if todo & SURVEY:
            squares = 0.0
            for j in range(k):
                for r in range(LANES):
                    squares += w[r] * tile[j, r] * tile[j, r]
            sums[OFFSET] += squares
        for r in range(LANES):
            total[r] = -1.0
        for c in range(n_kept):
            j = keep[c]
            for r in range(LANES):
                x[j, r] = tile[j, r] + half[j]
                total[r] += x[j, r]
        for r in range(LANES):
            theta[r] = -total[r] / n_kept
        # The sum is a convex function of theta, so it falls to 1 from above and the support only gets smaller; see
        # ``baserate.losses.projection``.
        n_moving = 1.0
        for _ in range(n_kept + 3):
            for r in range(LANES):
                total[r] = -1.0
                count[r] = 0.0
            for j in range(0, k, 2):
                for r in range(LANES):
                    v, u = x[j, r] + theta[r], x[j + 1, r] + theta[r]
                    # Products, as in find_theta.
                    v_counts, u_counts = 1.0 if v > 0.0 else 0.0, 1.0 if u > 0.0 else 0.0
                    total[r] += v * v_counts + u * u_counts
                    count[r] += v_counts + u_counts
            n_moving = 0.0
            for r in range(LANES):
                n_moving += 1.0 if total[r] / count[r] > 4e-16 + 4e-16 * abs(theta[r]) else 0.0
            if n_moving == 0.0:
                break
            for r in range(LANES):
                theta[r] -= total[r] / count[r]
        n_in_range, value, size = 0.0, 0.0, 0.0
        for r in range(LANES):
            # Otherwise the shift is so large that the predictions are lost to rounding.
            n_in_range += (1.0 if total[r] > -0.5 else 0.0) * (1.0 if total[r] < 1.0 else 0.0)
            total[r] = 1.0 / (1.0 + total[r])
            least[r] = 0.0  # for now, the conjugate of the row: <x, a> - |a|^2
        if n_in_range < LANES or n_moving > 0.0:
            return start
        for c in range(n_kept):
            j = keep[c]
            sum_a = 0.0
            for r in range(LANES):
                v = x[j, r] + theta[r]
                # abs(v), because a negative number times 0.0 is -0.0. The compiler may ignore the sign of 0, so
                # test_kernels_write_no_negative_zeros checks it.
                v = abs(v) * total[r] * (1.0 if v > 0.0 else 0.0)
                a[j, r] = v
                sum_a += w[r] * v
                least[r] += v * (2.0 * x[j, r] - v)
            mean[j] += sum_a
        for r in range(LANES):
            value += w[r] * least[r]
            size += w[r] * abs(least[r])
        sums[VALUE] += value
        sums[SIZE] += size
        if todo & WRITE:
            if rounded is not None:
                _round_tile(a, k, w, rounded)
            store_tile(a, start, rows)
            for r in range(LANES):
                total[r] = 0.0  # from here on the mean of r_j - shift_j, up to a constant of the row
                least[r] = np.inf
            moved, short = 0.0, 0.0
            for j in range(k):
                for r in range(LANES):
                    tile[j, r] -= a[j, r]
                    moved += w[r] * tile[j, r] * tile[j, r]
            for c in range(n_kept):
                j = keep[c]
                for r in range(LANES):
                    fall = -2.0 * (tile[j, r] + half[j])
                    total[r] += a[j, r] * fall
                    least[r] = smaller(fall, least[r])
            for r in range(LANES):
                missing = total[r] - least[r] - rounding
                short += w[r] * missing * (1.0 if missing > 0.0 else 0.0)
            sums[SHORT] += short
            sums[MOVED] += moved
        if todo & CURVATURE:
            for r in range(LANES):
                w[r] = 0.5 * w[r] / count[r]
            for j in range(k):
                for r in range(LANES):
                    a[j, r] = 1.0 if a[j, r] > 0.0 else 0.0
            add_edges(a, k, w, theta, edges)
    return DONE
