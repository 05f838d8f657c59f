"""Tiles: rows of a block are copied to them, checked, normalised, multiplied, rounded and copied back."""

from __future__ import annotations

import numpy as np

from baserate.passes.kernels.compiler import inlined_part
from baserate.passes.kernels.instructions import SQUARE, load_square, smaller, store_square
from baserate.passes.kernels.layout import LARGE, LOWEST, SMALL, ZEROS

LANES = 64
"""Rows per tile: several vectors long, and with 10 or 20 classes a tile fits into the first-level cache."""

TINY32, _STEP32 = 1.1754943508222875e-38, 1.401298464324817e-45  # The smallest normal and positive float32 numbers.


@inlined_part
def fill_tile(raw, weights, start, tile, w):
    """Copy rows and weights to a tile. Lanes after the last row of the block get weight 0."""
    n, k = raw.shape
    size = min(LANES, n - start)
    # A square may reach beyond the columns into the rows below it, so these must be there. What it reads there is not
    # used: the tile has a multiple of eight classes.
    in_row = raw.strides[1] == raw.itemsize and raw.strides[0] >= k * raw.itemsize
    if in_row and start + LANES + SQUARE <= n:
        for j in range(0, k, SQUARE):
            for r in range(0, LANES, SQUARE):
                load_square(raw, start + r, j, tile, r)
    else:
        for j in range(k):
            for r in range(size):
                tile[j, r] = raw[start + r, j]
            for r in range(size, LANES):
                tile[j, r] = 1.0 / k
    of_rows = weights[start:]  # not weights[start + r], which is not vectorized
    for r in range(size):
        w[r] = of_rows[r]
    for r in range(size, LANES):
        w[r] = 0.0
    for r in range(LANES):
        tile[k, r] = 0.0


@inlined_part
def survey_tile(tile, k, w, row_sum, scale, extra, tolerance, smallest, before, sums):
    """Check the rows of a tile, and add them to ``before`` and ``sums``; return whether all are valid predictions.

    A prediction is ``tile * scale / row_sum + extra``. ``smallest`` is scratch.
    """
    for r in range(LANES):
        smallest[r] = tile[k - 1, r]
    for j in range(0, k - 1, 2):  # two classes at a time, so that the minimum is stored half as often
        for r in range(LANES):
            smallest[r] = smaller(smaller(tile[j, r], tile[j + 1, r]), smallest[r])
    n_valid = 0.0
    for r in range(LANES):  # NaN and infinite values also show in the sum
        # Products of numbers, since a chain of conditions is not vectorized.
        in_range = (1.0 if row_sum[r] > SMALL else 0.0) * (1.0 if row_sum[r] < LARGE else 0.0)
        near_one = 1.0 if abs(row_sum[r] - 1.0) <= tolerance else 0.0
        n_valid += near_one * in_range * (1.0 if smallest[r] >= 0.0 else 0.0)
    if n_valid < LANES:
        return False
    n_zeros, weight = 0.0, 0.0
    for r in range(LANES):
        smallest[r] = smallest[r] * (scale / row_sum[r]) + extra
        n_zeros += 1.0 if smallest[r] == 0.0 else 0.0
        weight += w[r]
    # Hard zeros are rare, so only rows that have any are searched for their smallest positive probability.
    if n_zeros > 0.0:
        for r in range(LANES):
            if smallest[r] == 0.0:
                smallest[r] = 2.0
                for j in range(k):
                    v = tile[j, r] * (scale / row_sum[r]) + extra
                    sums[ZEROS] += v == 0.0
                    smallest[r] = v if 0.0 < v < smallest[r] else smallest[r]
    half = LANES
    while half > 1:  # the number of lanes is a power of 2
        half //= 2
        for r in range(half):
            smallest[r] = smallest[r + half] if smallest[r + half] < smallest[r] else smallest[r]
    sums[LOWEST] = smallest[0] if smallest[0] < sums[LOWEST] else sums[LOWEST]
    for r in range(LANES):
        smallest[r] = w[r] * (scale / row_sum[r])
    for j in range(k):
        total = extra * weight
        for r in range(LANES):
            total += smallest[r] * tile[j, r]
        before[j] += total
    return True


@inlined_part
def normalise_tile(tile, k, row_sum, scale, extra):
    """Turn the rows of a tile into predictions. ``row_sum`` becomes 1."""
    for r in range(LANES):
        row_sum[r] = scale / row_sum[r]
    for j in range(k):
        for r in range(LANES):
            tile[j, r] = tile[j, r] * row_sum[r] + extra
    for r in range(LANES):
        row_sum[r] = 1.0


@inlined_part
def load_tile(raw, weights, start, tile, w, row_sum, smallest, smoothing, tolerance):
    """Fill a tile with normalised and smoothed rows, and return whether all of them are valid predictions."""
    n, k = raw.shape
    size = min(LANES, n - start)
    for r in range(size):
        for j in range(k):
            tile[j, r] = raw[start + r, j]
        w[r] = weights[start + r]
    for r in range(size, LANES):
        for j in range(k):
            tile[j, r] = 1.0 / k
        w[r] = 0.0
    for r in range(LANES):
        row_sum[r] = 0.0
        smallest[r] = 1.0
    for j in range(k):
        for r in range(LANES):
            row_sum[r] += tile[j, r]
            smallest[r] = tile[j, r] if tile[j, r] < smallest[r] else smallest[r]
    n_valid = 0.0
    for r in range(LANES):
        in_range = (1.0 if row_sum[r] > SMALL else 0.0) * (1.0 if row_sum[r] < LARGE else 0.0)
        near_one = 1.0 if abs(row_sum[r] - 1.0) <= tolerance else 0.0
        n_valid += near_one * in_range * (1.0 if smallest[r] >= 0.0 else 0.0)
    if n_valid < LANES:
        return False
    scale = 1.0 / (1.0 + k * smoothing)
    normalise_tile(tile, k, row_sum, scale, smoothing * scale)
    return True


@inlined_part
def add_edges(h, k, w, scaled, edges):
    """Add ``sum_r w_r h_cr h_dr`` to ``edges[c, d]`` for each pair of classes ``c > d``. ``scaled`` is scratch."""
    for c in range(0, k - 1, 2):  # two by two classes, so that each number that is read serves two products
        for d in range(0, c, 2):
            one, two, three, four = 0.0, 0.0, 0.0, 0.0
            for r in range(LANES):
                x, y, p, q = h[c, r] * w[r], h[c + 1, r] * w[r], h[d, r], h[d + 1, r]
                one += x * p
                two += x * q
                three += y * p
                four += y * q
            edges[c, d] += one
            edges[c, d + 1] += two
            edges[c + 1, d] += three
            edges[c + 1, d + 1] += four
        total = 0.0
        for r in range(LANES):
            total += h[c, r] * h[c + 1, r] * w[r]
        edges[c + 1, c] += total
    if k % 2:
        for d in range(k - 1):
            total = 0.0
            for r in range(LANES):
                total += h[k - 1, r] * h[d, r] * w[r]
            edges[k - 1, d] += total


@inlined_part
def store_tile(a, start, rows):
    """Copy the adjusted rows of a tile to ``rows``."""
    n, k = rows.shape
    if rows.strides[1] == rows.itemsize and rows.strides[0] == k * rows.itemsize and start + LANES + SQUARE <= n:
        # What a square writes beyond the last column belongs to the rows below it, which are stored after that.
        last = (k - 1) // SQUARE
        for r in range(0, LANES, SQUARE):
            for part in range(last + 1):
                store_square(a, r, rows, start + r, (last - part) * SQUARE)
        return
    for j in range(k):
        for r in range(min(LANES, n - start)):
            rows[start + r, j] = a[j, r]


@inlined_part
def to_float32(v):
    """A probability rounded to float32, as float64; see :func:`baserate.support.answer_types.round_to`."""
    b = np.float64(np.float32(v))
    return b + _STEP32 if b < v < TINY32 else b
