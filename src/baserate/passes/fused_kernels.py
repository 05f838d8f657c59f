"""Compiled passes for log loss and the Brier score: one loop over the rows of a block reads, checks and adjusts them.

A pass copies 64 rows at a time into a *tile*, an array with one line per class. The inner loops then run over the rows
of the tile, its *lanes*, and use the vector units of the processor. The *wide* passes are for many classes: their inner
loops run over the classes of one row. Each pass reads the data once and allocates only the tile.

All passes take the same arguments:

raw : array of shape (n, k)
    The predictions as given.
weights : array of shape (n,)
factor or half : array of shape (n_kept,)
    The shift of the kept classes in the form that the pass needs: ``exp(shift - centre)`` for log loss, ``shift / 2``
    for the Brier score.
centre : float
    What was subtracted from the shift before exponentiation; not used for the Brier score.
keep : array of shape (n_kept,)
    Indices of the kept classes: those with a positive rate.
smoothing, tolerance : float
    What is added to every probability, and how far the sum of a row may be from 1.
lanes : int
    Rows per tile. Not used by the wide passes.
todo : int
    What to compute besides the sums of the dual function: the bits SURVEY, CURVATURE and WRITE. The wide passes do not
    compute CURVATURE.
before : array of shape (k,)
    Filled by SURVEY: the weighted sum of the predictions.
mean : array of shape (n_kept,)
    Filled by every pass: the weighted sum of the adjusted rows.
edges : array of shape (n_kept, n_kept)
    Filled by CURVATURE, below the diagonal: edge weights of the graph whose Laplacian is the curvature.
sums : array of shape (N_SUMS,)
    Other sums, at the positions below.
rows : array of shape (n, k)
    Filled by WRITE: the adjusted rows, in float64 or float32.
rounded : array of shape (n_kept,), or None if ``rows`` is float64
    Filled by WRITE: the weighted sum of the rows after rounding to float32. The divergence and the shortfall in
    ``sums`` are then those of the rounded rows, while ``mean`` is that of the exact ones. The compiler removes the code
    for float32 if it is None.

Sums are added to what the arrays already contain. A pass returns DONE, or else a row in whose tile it found something
that it cannot compute. The caller then uses NumPy for the block, which also writes the error message for invalid rows.

All compiled code is in this file, because numba's cache on disk does not notice changes in other files. ``fastmath``
allows sums in any order. It does not allow the compiler to assume that there are no NaN or infinite values, because the
checks look for them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import from_dtype, njit, types

from baserate.support.arrays import FloatArray

# Bits of ``todo``: check and summarize the predictions, sum the curvature, write the adjusted rows.
SURVEY, CURVATURE, WRITE = 1, 2, 4

# Positions in ``sums``: the conjugate, the absolute values of its terms (for a bound on rounding errors), the offset of
# the dual function, the number of hard zeros, the smallest positive probability, the divergence from the predictions to
# the adjusted rows (for log loss, only what rounding to float32 adds to it), and the shortfall of the adjusted rows
# (see ``RowModel.shortfall``).
VALUE, SIZE, OFFSET, ZEROS, LOWEST, MOVED, SHORT, N_SUMS = 0, 1, 2, 3, 4, 5, 6, 7

DONE = -1
"""Returned by a pass that computed the whole block, and by ``_advance`` after the last pass."""

NOT_EASY = -2
"""Returned by ``_advance`` if the problem needs the general method of ``baserate.core.newton``."""

# Positions in ``state``, which ``_advance`` keeps between passes: value and rounding error of the dual function at the
# last point, the gain that was predicted for the next point, the radius of the trust region, the residual at the last
# point but one (infinite if the step from there gained less than predicted), the residual at the last point, the offset
# from the survey, and ``centre`` of the next pass.
POINT_VALUE, POINT_NOISE, PREDICTED, RADIUS, EARLIER, PREVIOUS, FIRST_OFFSET, CENTRE, N_STATE = range(9)

# Positions in ``rules``, which is ``baserate.core.newton.TRUST_REGION``; the rules are explained there.
FIRST_RADIUS, POOR, GOOD, WIDEN, OVERSHOOT, CONFIRMED, NOISE, SAFETY = range(8)

WIDEST = 600.0
"""Largest range of a shift for log loss. With a larger one, ``exp(shift)`` could overflow or underflow."""

LANES = 64
"""Rows per tile: several vectors long, and with 10 or 20 classes a tile fits into the first-level cache."""

_SMALL, _LARGE = 1e-290, 1e290  # A row sum outside this range has lost digits or is about to.
_TINY = 2.2250738585072014e-308  # The smallest normal number: under log loss, positive probabilities are not less.
_EPS = 2.220446049250313e-16
_TINY32, _STEP32 = 1.1754943508222875e-38, 1.401298464324817e-45  # The smallest normal and positive float32 numbers.


_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract", "nsz", "arcp"}, "error_model": "numpy"}
_part = njit(**_OPTIONS)
"""Compile a part of a pass. It is compiled into the passes that call it, and cached with them."""

_inlined_part = njit(forceinline=True, **_OPTIONS)
"""The same, always inlined. Otherwise the process that compiles a pass may call a copy of the part that was compiled
separately, and whose last bits differ from those of the cached code.
"""


@_inlined_part
def _load(raw, weights, start, tile, w, row_sum, smallest, smoothing, tolerance, before, sums, survey):
    """Fill a tile with normalised and smoothed rows, and return whether all of them are valid predictions.

    Lanes after the last row of the block get weight 0. With ``survey`` the rows are added to ``before`` and ``sums``.
    ``row_sum`` and ``smallest`` are scratch arrays.
    """
    n, k = raw.shape
    lanes = tile.shape[1]
    size = min(lanes, n - start)
    for r in range(size):
        for j in range(k):
            tile[j, r] = raw[start + r, j]
        w[r] = weights[start + r]
    for r in range(size, lanes):
        for j in range(k):
            tile[j, r] = 1.0 / k
        w[r] = 0.0
    for r in range(lanes):
        row_sum[r] = 0.0
        smallest[r] = 1.0
    for j in range(k):
        for r in range(lanes):  # one minimum per lane, since one for all lanes would not be vectorized
            row_sum[r] += tile[j, r]
            smallest[r] = tile[j, r] if tile[j, r] < smallest[r] else smallest[r]
    scale, n_valid = 1.0 / (1.0 + k * smoothing), 0.0
    for r in range(lanes):  # NaN and infinite values also show in the sum
        # Products of numbers, since a chain of conditions is not vectorized.
        in_range = (1.0 if row_sum[r] > _SMALL else 0.0) * (1.0 if row_sum[r] < _LARGE else 0.0)
        near_one = 1.0 if abs(row_sum[r] - 1.0) <= tolerance else 0.0
        n_valid += near_one * in_range * (1.0 if smallest[r] >= 0.0 else 0.0)
        row_sum[r] = scale / row_sum[r]
    if n_valid < lanes:
        return False
    for j in range(k):
        for r in range(lanes):
            tile[j, r] = tile[j, r] * row_sum[r] + smoothing * scale
    if survey:
        for j in range(k):
            total = 0.0
            for r in range(lanes):
                total += w[r] * tile[j, r]
            before[j] += total
        n_zeros = 0.0
        for r in range(lanes):
            smallest[r] = smallest[r] * row_sum[r] + smoothing * scale
            n_zeros += 1.0 if smallest[r] == 0.0 else 0.0
        # Hard zeros are rare, so only rows that have any are searched for their smallest positive probability.
        if n_zeros > 0.0:
            for r in range(lanes):
                if smallest[r] == 0.0:
                    smallest[r] = 2.0
                    for j in range(k):
                        sums[ZEROS] += tile[j, r] == 0.0
                        smallest[r] = tile[j, r] if 0.0 < tile[j, r] < smallest[r] else smallest[r]
        half = lanes
        while half > 1:  # the number of lanes is a power of 2
            half //= 2
            for r in range(half):
                smallest[r] = smallest[r + half] if smallest[r + half] < smallest[r] else smallest[r]
        sums[LOWEST] = smallest[0] if smallest[0] < sums[LOWEST] else sums[LOWEST]
    return True


@_inlined_part
def _add_edges(h, w, scaled, edges):
    """Add ``sum_r w_r h_cr h_dr`` to ``edges[c, d]`` for each pair of classes ``c > d``. ``scaled`` is scratch."""
    k, lanes = h.shape
    for c in range(1, k):
        for r in range(lanes):
            scaled[r] = h[c, r] * w[r]
        for d in range(0, c - 1, 2):  # two classes at a time, so that ``scaled`` is read half as often
            one, two = 0.0, 0.0
            for r in range(lanes):
                one += scaled[r] * h[d, r]
                two += scaled[r] * h[d + 1, r]
            edges[c, d] += one
            edges[c, d + 1] += two
        if c % 2:
            total = 0.0
            for r in range(lanes):
                total += scaled[r] * h[c - 1, r]
            edges[c, c - 1] += total


@_inlined_part
def _store(a, keep, start, rows):
    """Copy the adjusted rows of a tile to ``rows``. Classes that are not kept get 0."""
    size, k = min(a.shape[1], len(rows) - start), rows.shape[1]
    if len(keep) == k:
        for r in range(size):
            for j in range(k):
                rows[start + r, j] = a[j, r]
        return
    for r in range(size):
        for j in range(k):
            rows[start + r, j] = 0.0
        for c in range(len(keep)):
            rows[start + r, keep[c]] = a[c, r]


@_inlined_part
def _to_float32(v):
    """A probability rounded to float32, as float64; see :func:`baserate.support.answer_types.round_to`."""
    b = np.float64(np.float32(v))
    return b + _STEP32 if b < v < _TINY32 else b


@_inlined_part
def _round_tile(a, w, rounded):
    """Round the adjusted rows of a tile to float32, and add them to ``rounded``."""
    n_kept, lanes = a.shape
    for c in range(n_kept):
        total = 0.0
        for r in range(lanes):
            a[c, r] = _to_float32(a[c, r])
            total += w[r] * a[c, r]
        rounded[c] += total


@_inlined_part
def _round_log_tile(a, w, log_z, centre, excess, gain, least, rounded, sums):
    """The same for log loss, which also needs divergence and shortfall. The other arguments are scratch arrays.

    The exact row belongs to the shift. So with ``e_j = log(rounded_j / exact_j)``, the fall of the loss minus the shift
    is ``e_j`` plus a constant of the row. ``e`` is at most 6e-8 in size, so two terms of its series are enough. It
    counts as 0 for numbers that were rounded up, where it is larger.
    """
    n_kept, lanes = a.shape
    for r in range(lanes):
        excess[r] = -1.0  # the sum of the rounded row, minus 1
        gain[r] = 0.0  # the mean of e under the rounded row
        least[r] = np.inf
    for c in range(n_kept):
        for r in range(lanes):
            v = a[c, r]
            b = _to_float32(v)
            e = (b - v) / v if v >= _TINY32 else 0.0
            e -= 0.5 * e * e
            excess[r] += b
            gain[r] += b * e
            least[r] = e if v > 0.0 and e < least[r] else least[r]
    moved, short = 0.0, 0.0
    for r in range(lanes):
        added = gain[r] - excess[r] * (log_z[r] + centre + 1.0)
        missing = added - least[r] + max(excess[r], 0.0)
        moved += w[r] * added
        short += w[r] * missing if missing > 0.0 else 0.0
    sums[MOVED] += moved
    sums[SHORT] += short
    _round_tile(a, w, rounded)


@_inlined_part
def _logs(x, out, spare, whole, bits):
    """Write the logarithms of ``x`` to ``out``. The numbers must be positive and not denormal.

    With ``x = 2^e f`` and ``f`` between 1/sqrt(2) and sqrt(2), ``log f = 2 atanh((f - 1) / (f + 1))``, which is a power
    series. Not ``math.log``, which would not be vectorized. ``spare`` is a scratch array; ``whole`` and ``bits`` are
    views of ``x`` and ``spare`` as integers.
    """
    lanes = len(x)
    for r in range(lanes):
        bits[r] = (whole[r] & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000
    for r in range(lanes):
        e, f = (whole[r] >> 52) - 1023, spare[r]
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


def _log_pass(
    raw, weights, factor, centre, keep, smoothing, tolerance, lanes, todo, before, mean, edges, sums, rows, rounded
):
    """One pass for log loss, where ``a_j = p_j exp(shift_j) / z``.

    It needs one exponential per class, which the caller has computed, and one logarithm per row.
    """
    n, k = raw.shape
    n_kept = len(keep)
    # Allocated here and not by the caller, so that the compiler knows that these arrays do not overlap.
    tile, a, w = np.empty((k, lanes)), np.empty((n_kept, lanes)), np.empty(lanes)
    z, log_z, spare = np.empty(lanes), np.empty(lanes), np.empty(lanes)
    z_bits, spare_bits = z.view(np.int64), spare.view(np.int64)
    for start in range(0, n, lanes):
        if not _load(raw, weights, start, tile, w, z, log_z, smoothing, tolerance, before, sums, todo & SURVEY):
            return start
        for r in range(lanes):
            z[r] = 0.0
        for c in range(n_kept):
            j = keep[c]
            for r in range(lanes):
                a[c, r] = tile[j, r] * factor[c]
                z[r] += a[c, r]
        _logs(z, log_z, spare, z_bits, spare_bits)
        value, size, n_in_range = 0.0, 0.0, 0.0
        for r in range(lanes):
            n_in_range += (1.0 if z[r] > _SMALL else 0.0) * (1.0 if z[r] < _LARGE else 0.0)
            value += w[r] * (log_z[r] + centre)
            size += w[r] * abs(log_z[r] + centre)
            z[r] = 1.0 / z[r]
        if n_in_range < lanes:
            return start
        sums[VALUE] += value
        sums[SIZE] += size
        for c in range(n_kept):
            total = 0.0
            for r in range(lanes):
                a[c, r] *= z[r]
                total += w[r] * a[c, r]
            mean[c] += total
        if todo & WRITE:
            # No shortfall is summed: each entry is p_j exp(shift_j) / z up to rounding, or _TINY if that is larger.
            # If a product underflowed before the division by a small z, NumPy takes the block and uses logarithms.
            n_small, n_lost = 0.0, 0
            for r in range(lanes):
                spare[r] = _TINY if z[r] < 1.0 else _TINY * z[r]  # z is 1 / z here
            for c in range(n_kept):
                for r in range(lanes):
                    n_small += 1.0 if a[c, r] < spare[r] else 0.0
            if n_small > 0.0:  # rare, and not vectorized
                for c in range(n_kept):
                    j = keep[c]
                    for r in range(lanes):
                        small = tile[j, r] > 0.0 and a[c, r] < spare[r]
                        n_lost += small and z[r] > 1.0
                        a[c, r] = _TINY if small else a[c, r]
            if n_lost > 0:
                return start
            if rounded is not None:
                _round_log_tile(a, w, log_z, centre, tile[0], tile[1], z, rounded, sums)
            _store(a, keep, start, rows)
        if todo & CURVATURE:
            _add_edges(a, w, z, edges)
    return DONE


@_inlined_part
def _shortfall_rounding(half):
    """What rounding may contribute to the shortfall of a row for the Brier score."""
    largest = 0.0
    for c in range(len(half)):
        largest = max(largest, abs(half[c]))
    return 8.0 * _EPS * (4.0 + 2.0 * largest)


def _brier_pass(
    raw, weights, half, _, keep, smoothing, tolerance, lanes, todo, before, mean, edges, sums, rows, rounded
):
    """One pass for the Brier score, where ``a = max(p + shift / 2 + theta, 0)``.

    ``theta`` makes the row sum to 1. It is found by Newton's method in all lanes at the same time.
    """
    n, k = raw.shape
    n_kept = len(keep)
    tile, a, w = np.empty((k, lanes)), np.empty((n_kept, lanes)), np.empty(lanes)
    total, count, theta, least = np.empty(lanes), np.empty(lanes), np.empty(lanes), np.empty(lanes)
    rounding = _shortfall_rounding(half)
    for start in range(0, n, lanes):
        if not _load(raw, weights, start, tile, w, total, theta, smoothing, tolerance, before, sums, todo & SURVEY):
            return start
        if todo & SURVEY:
            squares = 0.0
            for j in range(k):
                for r in range(lanes):
                    squares += w[r] * tile[j, r] * tile[j, r]
            sums[OFFSET] += squares
        for r in range(lanes):
            total[r] = -1.0
        for c in range(n_kept):
            j = keep[c]
            for r in range(lanes):
                a[c, r] = tile[j, r] + half[c]
                total[r] += a[c, r]
        for r in range(lanes):
            theta[r] = -total[r] / n_kept
        # The sum is a convex function of theta, so it falls to 1 from above and the support only gets smaller; see
        # ``baserate.losses.projection``.
        for _ in range(n_kept + 1):
            for r in range(lanes):
                total[r] = -1.0
                count[r] = 0.0
            for c in range(n_kept):
                for r in range(lanes):
                    v = a[c, r] + theta[r]
                    positive = 1.0 if v > 0.0 else 0.0  # as in _theta
                    total[r] += v * positive
                    count[r] += positive
            n_moving = 0.0
            for r in range(lanes):
                step = total[r] / count[r]
                n_moving += 1.0 if step > 4e-16 + 4e-16 * abs(theta[r]) else 0.0
                theta[r] -= step
            if n_moving == 0.0:
                break
        for r in range(lanes):
            total[r] = 0.0
            count[r] = 0.0
        for c in range(n_kept):
            for r in range(lanes):
                v = a[c, r] + theta[r]
                positive = 1.0 if v > 0.0 else 0.0
                a[c, r] = v * positive
                total[r] += a[c, r]
                count[r] += positive
        n_in_range = 0.0
        for r in range(lanes):
            # Otherwise the shift is so large that the predictions are lost to rounding.
            n_in_range += (1.0 if total[r] > 0.5 else 0.0) * (1.0 if total[r] < 2.0 else 0.0)
            total[r] = 1.0 / total[r]
            count[r] = 0.5 * w[r] / count[r]
            theta[r] = 0.0  # from here on the conjugate of the row
        if n_in_range < lanes:
            return start
        for c in range(n_kept):
            j = keep[c]
            sum_a = 0.0
            for r in range(lanes):
                a[c, r] *= total[r]
                sum_a += w[r] * a[c, r]
                theta[r] += a[c, r] * (2.0 * (tile[j, r] + half[c]) - a[c, r])  # <x, a> - |a|^2
            mean[c] += sum_a
        value, size = 0.0, 0.0
        for r in range(lanes):
            value += w[r] * theta[r]
            size += w[r] * abs(theta[r])
        sums[VALUE] += value
        sums[SIZE] += size
        if todo & WRITE:
            if rounded is not None:
                _round_tile(a, w, rounded)
            _store(a, keep, start, rows)
            for r in range(lanes):
                total[r] = 0.0  # from here on the mean of r_j - shift_j, up to a constant of the row
                least[r] = np.inf
            for c in range(n_kept):
                j = keep[c]
                for r in range(lanes):
                    tile[j, r] -= a[c, r]
                    fall = -2.0 * (tile[j, r] + half[c])
                    total[r] += a[c, r] * fall
                    least[r] = fall if fall < least[r] else least[r]
            short = 0.0
            for r in range(lanes):
                missing = total[r] - least[r] - rounding
                short += w[r] * missing * (1.0 if missing > 0.0 else 0.0)
            sums[SHORT] += short
            for j in range(k):
                moved = 0.0
                for r in range(lanes):
                    moved += w[r] * tile[j, r] * tile[j, r]
                sums[MOVED] += moved
        if todo & CURVATURE:
            for c in range(n_kept):
                for r in range(lanes):
                    a[c, r] = 1.0 if a[c, r] > 0.0 else 0.0
            _add_edges(a, count, theta, edges)
    return DONE


@_inlined_part
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
        if n_negative > 0 or not (abs(total - 1.0) <= tolerance and total > _SMALL and total < _LARGE):
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


def _wide_log_pass(
    raw, weights, factor, centre, keep, smoothing, tolerance, lanes, todo, before, mean, edges, sums, rows, rounded
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
        if not (z > _SMALL and z < _LARGE):
            return i
        log_z = math.log(z) + centre
        sums[VALUE] += weights[i] * log_z
        sums[SIZE] += weights[i] * abs(log_z)
        if todo & WRITE:
            n_lost = 0  # as in _log_pass
            for j in range(k):
                a = x[j] * factor[j] / z
                small = x[j] > 0.0 and a < _TINY * max(1.0 / z, 1.0)
                n_lost += small and z < 1.0
                a = _TINY if small else a
                rows[i, j] = a
                mean[j] += weights[i] * a
            if n_lost > 0:
                return i
            if rounded is not None:  # as in _round_log_tile
                excess, gain, least = -1.0, 0.0, np.inf
                for j in range(k):
                    v = max(x[j] * factor[j] / z, _TINY if x[j] > 0.0 else 0.0)
                    b = _to_float32(v)
                    e = (b - v) / v if v >= _TINY32 else 0.0
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


@_inlined_part
def _theta(a, theta):
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


def _wide_brier_pass(
    raw, weights, half, _, keep, smoothing, tolerance, lanes, todo, before, mean, edges, sums, rows, rounded
):
    """One pass for the Brier score with many classes. The inner loops run over classes; all classes must be kept."""
    n, k = raw.shape
    x, a, lowest = np.empty(k), np.empty(k), np.full(k, 2.0)
    rounding = _shortfall_rounding(half)
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
        theta, _count = _theta(a, -total / k)
        total = 0.0
        for j in range(k):
            v = a[j] + theta
            a[j] = v * (1.0 if v > 0.0 else 0.0)
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
                a[j] = _to_float32(a[j])
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


@_inlined_part
def _four(i, weights):
    """The numbers and the weights of four rows. After the last row of the block, it is repeated with weight 0."""
    last = len(weights) - 1
    one, two, three = min(i + 1, last), min(i + 2, last), min(i + 3, last)
    w1, w2, w3 = weights[one], weights[two], weights[three]
    return (i, one, two, three), (
        weights[i],
        w1 if i + 1 <= last else 0.0,
        w2 if i + 2 <= last else 0.0,
        w3 if i + 3 <= last else 0.0,
    )


def _wide_log_diagonal(raw, weights, factor, centre, smoothing, mean, diagonal, sums):
    """The sums of the dual function for log loss with many classes, and the diagonal of the curvature.

    All classes are kept. Four rows at a time, ``factor``, ``mean`` and ``diagonal`` are read a quarter as often:
    with thousands of classes they do not fit the first-level cache. Returns DONE, or a row that it cannot compute.
    """
    n, k = raw.shape
    scale = 1.0 / (1.0 + k * smoothing)
    for start in range(0, n, 4):
        (r0, r1, r2, r3), (w0, w1, w2, w3) = _four(start, weights)
        t0, t1, t2, t3, z0, z1, z2, z3, all_factors = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(k):
            f, p0, p1, p2, p3 = factor[j], raw[r0, j], raw[r1, j], raw[r2, j], raw[r3, j]
            t0 += p0
            t1 += p1
            t2 += p2
            t3 += p3
            z0 += p0 * f
            z1 += p1 * f
            z2 += p2 * f
            z3 += p3 * f
            all_factors += f
        # The smoothed row is raw * s + extra.
        s0, s1, s2, s3, extra = scale / t0, scale / t1, scale / t2, scale / t3, smoothing * scale
        z0, z1 = z0 * s0 + extra * all_factors, z1 * s1 + extra * all_factors
        z2, z3 = z2 * s2 + extra * all_factors, z3 * s3 + extra * all_factors
        low, high = min(min(z0, z1), min(z2, z3)), max(max(z0, z1), max(z2, z3))
        if not (low > _SMALL and high < _LARGE):
            return start
        l0, l1, l2, l3 = math.log(z0) + centre, math.log(z1) + centre, math.log(z2) + centre, math.log(z3) + centre
        sums[VALUE] += w0 * l0 + w1 * l1 + w2 * l2 + w3 * l3
        sums[SIZE] += w0 * abs(l0) + w1 * abs(l1) + w2 * abs(l2) + w3 * abs(l3)
        e0, e1, e2, e3 = extra / z0, extra / z1, extra / z2, extra / z3
        s0, s1, s2, s3 = s0 / z0, s1 / z1, s2 / z2, s3 / z3
        for j in range(k):
            f = factor[j]
            a0, a1 = (raw[r0, j] * s0 + e0) * f, (raw[r1, j] * s1 + e1) * f
            a2, a3 = (raw[r2, j] * s2 + e2) * f, (raw[r3, j] * s3 + e3) * f
            mean[j] += w0 * a0 + w1 * a1 + w2 * a2 + w3 * a3
            diagonal[j] += w0 * a0 * (1.0 - a0) + w1 * a1 * (1.0 - a1) + w2 * a2 * (1.0 - a2) + w3 * a3 * (1.0 - a3)
    return DONE


def _wide_log_product(raw, weights, factor, vector, smoothing, out):
    """Add the curvature for log loss times a vector to ``out``; all classes are kept.

    With ``a`` an adjusted row, ``a * (vector - <a, vector>)`` is added. Four rows at a time, as above.
    """
    n, k = raw.shape
    sums, by_class = np.zeros(k), np.empty(k)
    all_factors, all_products = 0.0, 0.0
    for j in range(k):
        by_class[j] = factor[j] * vector[j]
        all_factors += factor[j]
        all_products += by_class[j]
    for start in range(0, n, 4):
        (r0, r1, r2, r3), (w0, w1, w2, w3) = _four(start, weights)
        z0, z1, z2, z3, m0, m1, m2, m3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(k):
            f, v, p0, p1, p2, p3 = factor[j], by_class[j], raw[r0, j], raw[r1, j], raw[r2, j], raw[r3, j]
            z0 += p0 * f
            z1 += p1 * f
            z2 += p2 * f
            z3 += p3 * f
            m0 += p0 * v
            m1 += p1 * v
            m2 += p2 * v
            m3 += p3 * v
        e0, e1, e2, e3 = 0.0, 0.0, 0.0, 0.0
        if smoothing > 0.0:  # raw + e is the smoothed row, up to a factor that cancels out
            for j in range(k):
                e0 += smoothing * raw[r0, j]
                e1 += smoothing * raw[r1, j]
                e2 += smoothing * raw[r2, j]
                e3 += smoothing * raw[r3, j]
            z0, z1, z2, z3 = z0 + e0 * all_factors, z1 + e1 * all_factors, z2 + e2 * all_factors, z3 + e3 * all_factors
            m0, m1 = m0 + e0 * all_products, m1 + e1 * all_products
            m2, m3 = m2 + e2 * all_products, m3 + e3 * all_products
        m0, m1, m2, m3 = m0 / z0, m1 / z1, m2 / z2, m3 / z3
        w0, w1, w2, w3 = w0 / z0, w1 / z1, w2 / z2, w3 / z3
        for j in range(k):
            v = vector[j]
            first = (raw[r0, j] + e0) * (w0 * (v - m0)) + (raw[r1, j] + e1) * (w1 * (v - m1))
            sums[j] += first + (raw[r2, j] + e2) * (w2 * (v - m2)) + (raw[r3, j] + e3) * (w3 * (v - m3))
    for j in range(k):
        out[j] += sums[j] * factor[j]


def _wide_brier_diagonal(raw, weights, half, _, smoothing, mean, diagonal, sums):
    """The same as ``_wide_log_diagonal`` for the Brier score."""
    n, k = raw.shape
    a, scale = np.empty(k), 1.0 / (1.0 + k * smoothing)
    for i in range(n):
        total, excess = 0.0, -1.0
        for j in range(k):
            total += raw[i, j]
        for j in range(k):
            a[j] = raw[i, j] * (scale / total) + smoothing * scale + half[j]
            excess += a[j]
        theta, count = _theta(a, -excess / k)
        total = 0.0
        for j in range(k):
            total += (a[j] + theta) * (1.0 if a[j] + theta > 0.0 else 0.0)
        if not (total > 0.5 and total < 2.0):
            return i
        value, slope = 0.0, 0.5 * weights[i] * (1.0 - 1.0 / count)
        for j in range(k):
            positive = 1.0 if a[j] + theta > 0.0 else 0.0
            v = positive * (a[j] + theta) / total
            mean[j] += weights[i] * v
            diagonal[j] += slope * positive
            value += v * (2.0 * a[j] - v)
        sums[VALUE] += weights[i] * value
        sums[SIZE] += weights[i] * abs(value)
    return DONE


def _wide_brier_product(raw, weights, half, vector, smoothing, out):
    """The same for the Brier score. ``0.5 * (vector - its mean over the support)`` is added on the support of a row."""
    n, k = raw.shape
    a, scale = np.empty(k), 1.0 / (1.0 + k * smoothing)
    for i in range(n):
        total = 0.0
        for j in range(k):
            total += raw[i, j]
        excess = -1.0
        for j in range(k):
            a[j] = raw[i, j] * (scale / total) + smoothing * scale + half[j]
            excess += a[j]
        theta, count = _theta(a, -excess / k)
        mean = 0.0
        for j in range(k):
            a[j] = 1.0 if a[j] + theta > 0.0 else 0.0  # the support, from here on
            mean += vector[j] * a[j]
        mean /= count
        for j in range(k):
            out[j] += 0.5 * weights[i] * (vector[j] - mean) * a[j]


@_part
def _newton_step(edges, gradient, matrix, step):
    """Solve for the Newton step, and return whether the curvature is positive definite enough.

    The curvature is the Laplacian of the graph in ``edges``. The step of the last class is 0, which removes the free
    constant, and the remaining system is solved by Cholesky decomposition in ``matrix``.
    """
    k = len(gradient)
    m = k - 1
    for c in range(k):
        for d in range(c):
            edges[d, c] = edges[c, d]
    for c in range(m):
        total = 0.0
        for d in range(k):
            if d != c:
                total += edges[c, d]
        for d in range(c):
            matrix[c, d] = -edges[c, d]
        matrix[c, c] = total
        step[c] = gradient[c]
    for c in range(m):
        pivot = matrix[c, c]
        for d in range(c):
            entry = matrix[c, d]
            for e in range(d):
                entry -= matrix[c, e] * matrix[d, e]
            entry /= matrix[d, d]
            matrix[c, d] = entry
            pivot -= entry * entry
            step[c] -= entry * step[d]
        if not pivot > 1e-12 * matrix[c, c]:
            return False
        matrix[c, c] = math.sqrt(pivot)
        step[c] /= matrix[c, c]
    for c in range(m - 1, -1, -1):
        for d in range(c + 1, m):
            step[c] -= matrix[d, c] * step[d]
        step[c] /= matrix[c, c]
    step[m] = 0.0
    return True


@_part
def _length(brier, step, rates):
    """The length of a step in the metric of :func:`baserate.core.start.metric`."""
    squares, total, k = 0.0, 0.0, len(step)
    for j in range(k):
        weight = 1.0 / k if brier else rates[j]
        squares += weight * step[j] * step[j]
        total += weight * step[j]
    return math.sqrt(max(squares - total * total, 0.0) * (0.5 * k if brier else 1.0))


def _advance(brier, rules, rates, tol, relative, shift, before, mean, edges, sums, prepared, work, state, todo):
    """Take one Newton step between two passes over a small problem with exact rates, and prepare the next pass.

    It takes the same steps as :func:`baserate.core.newton.maximise` as long as every step is good, and gives up
    otherwise. ``before``, ``mean``, ``edges`` and ``sums`` were filled by the last pass. ``shift``, and ``prepared``,
    which is the shift in the form that a pass needs, are replaced by those of the next pass. ``work`` and ``state``
    must be kept between calls.
    """
    k = len(rates)
    matrix, gradient, step, last_gradient = work[3:], work[0], work[1], work[2]
    value, noise, predicted, radius = state[POINT_VALUE], state[POINT_NOISE], state[PREDICTED], state[RADIUS]
    earlier, previous, offset, centre = state[EARLIER], state[PREVIOUS], state[FIRST_OFFSET], 0.0
    if todo == SURVEY:
        distance = 0.0
        for j in range(k):
            distance = max(distance, abs(rates[j] - before[j]))
            # The solution if all rows were equal to their mean. The free constant is such that <rates, shift> = 0.
            shift[j] = 2.0 * (rates[j] - before[j]) if brier else math.log(rates[j] / before[j])
            centre += rates[j] * shift[j]
        if not distance > 1e-15 or (sums[ZEROS] > 0 and not brier):
            return NOT_EASY
        for j in range(k):
            shift[j] -= centre
        state[FIRST_OFFSET], todo = sums[OFFSET], CURVATURE
    else:
        drift, slope, residual, gap, least, satisfied = 0.0, 0.0, 0.0, 0.0, tol, True
        for j in range(k):
            gradient[j] = rates[j] - mean[j]
            drift += shift[j] * rates[j]
            gap += shift[j] * gradient[j]
            slope += 0.5 * (gradient[j] + last_gradient[j]) * step[j]
            residual = max(residual, abs(gradient[j]))
            least = min(least, relative * rates[j])
            satisfied = satisfied and abs(gradient[j]) <= min(tol, relative * rates[j])
        satisfied = satisfied and abs(gap) <= 10.0 * tol
        if todo == WRITE:
            return DONE if satisfied else NOT_EASY
        new_value = offset - sums[VALUE] + drift
        new_noise = _EPS * (sums[SIZE] + abs(offset) + abs(drift))
        if not (new_value >= 0.0 and new_value < np.inf):
            return NOT_EASY
        if radius == 0.0:
            for j in range(k):
                step[j] = 2.0 * gradient[j] if brier else gradient[j] / rates[j]
            radius = rules[FIRST_RADIUS] * _length(brier, step, rates)
        else:
            gain = new_value - value
            gain = gain if abs(gain) > rules[NOISE] * (noise + new_noise) else slope
            share = gain / max(predicted, 2.2250738585072014e-308)
            if not share >= rules[POOR]:
                return NOT_EASY
            earlier = previous if share > rules[CONFIRMED] else np.inf
            if share > rules[GOOD]:
                radius = max(radius, rules[WIDEN] * _length(brier, step, rates))
        if satisfied:
            todo = WRITE
        else:
            if not _newton_step(edges, gradient, matrix, step):
                return NOT_EASY
            if _length(brier, step, rates) > rules[OVERSHOOT] * radius:
                return NOT_EASY
            curvature, slope_along_step = 0.0, 0.0
            for c in range(k):
                slope_along_step += gradient[c] * step[c]
                for d in range(c):
                    curvature += edges[c, d] * (step[c] - step[d]) ** 2
                centre += rates[c] * (shift[c] + step[c])
            predicted = slope_along_step - 0.5 * curvature
            if not predicted > 0.0:
                return NOT_EASY
            for j in range(k):
                shift[j] += step[j] - centre
                last_gradient[j] = gradient[j]
            if residual < 0.01 * earlier < np.inf and rules[SAFETY] * residual * (residual / earlier) ** 2 <= least:
                todo = WRITE  # the last two steps predict that the error at the next point is small enough
        state[POINT_VALUE], state[POINT_NOISE], state[PREDICTED] = new_value, new_noise, predicted
        state[RADIUS], state[EARLIER], state[PREVIOUS] = radius, earlier, residual
    # Prepare the next pass: the shift in the form that it needs, and empty sums.
    low, high = shift[0], shift[0]
    for j in range(k):
        low, high = min(low, shift[j]), max(high, shift[j])
    centre = 0.0 if brier else 0.5 * (low + high)
    if high - low > WIDEST and not brier:
        return NOT_EASY
    state[CENTRE] = centre
    for j in range(k):
        prepared[j] = 0.5 * shift[j] if brier else math.exp(shift[j] - centre)
        mean[j] = 0.0
        for c in range(k):
            edges[j, c] = 0.0
    sums[VALUE], sums[SIZE], sums[MOVED], sums[SHORT] = 0.0, 0.0, 0.0, 0.0
    return todo


PASSES = {"log": _log_pass, "brier": _brier_pass, "log wide": _wide_log_pass, "brier wide": _wide_brier_pass}

PRODUCTS = {"log": _wide_log_product, "brier": _wide_brier_product}
DIAGONALS = {"log": _wide_log_diagonal, "brier": _wide_brier_diagonal}


@functools.cache
def compiled(name: str, dtype: np.dtype[Any], answer_dtype: np.dtype[Any]) -> Callable[..., int]:
    """The compiled pass for a loss and the dtypes of predictions and adjusted rows, from the cache if it is there.

    One signature is used for all memory layouts, also of read-only arrays. A signature per layout would save less time
    than the second that each additional compilation takes.
    """
    table, vector = types.Array(types.float64, 2, "C"), types.Array(types.float64, 1, "C")
    signature = (
        types.Array(from_dtype(dtype), 2, "A", readonly=True),
        types.Array(types.float64, 1, "C", readonly=True),
        types.Array(types.float64, 1, "C", readonly=True),
        types.float64,
        types.Array(types.intp, 1, "C", readonly=True),
        *(types.float64, types.float64, types.intp, types.intp),
        *(vector, vector, table, vector, types.Array(from_dtype(answer_dtype), 2, "A")),
        types.none if answer_dtype == np.float64 else vector,
    )
    return _from_cache_or_compiler(PASSES[name], signature)


@functools.cache
def compiled_product(name: str, dtype: np.dtype[Any]) -> Callable[..., None]:
    """The compiled product with the curvature for a loss and the dtype of predictions, in row-major order.

    Only then are its loops vectorized. They read the predictions themselves, where other passes read a copy of a row.
    """
    fixed, vector = types.Array(types.float64, 1, "C", readonly=True), types.Array(types.float64, 1, "C")
    raw = types.Array(from_dtype(dtype), 2, "C", readonly=True)
    return _from_cache_or_compiler(PRODUCTS[name], (raw, fixed, fixed, fixed, types.float64, vector))


@functools.cache
def compiled_diagonal(name: str, dtype: np.dtype[Any]) -> Callable[..., int]:
    """The compiled pass for the diagonal of the curvature, in the same way."""
    fixed, vector = types.Array(types.float64, 1, "C", readonly=True), types.Array(types.float64, 1, "C")
    raw, number = types.Array(from_dtype(dtype), 2, "C", readonly=True), types.float64
    return _from_cache_or_compiler(DIAGONALS[name], (raw, fixed, fixed, number, number, vector, vector, vector))


@functools.cache
def compiled_advance() -> Callable[..., int]:
    """The compiled function ``_advance``, from the cache on disk if it is there."""
    vector, table, fixed = types.float64[::1], types.float64[:, ::1], types.Array(types.float64, 1, "C", readonly=True)
    signature = (
        *(types.boolean, fixed, fixed, types.float64, types.float64),
        *(vector, vector, vector, table, vector, vector, table, vector, types.intp),
    )
    return _from_cache_or_compiler(_advance, signature)


def initial_sums() -> FloatArray:
    """The array ``sums`` before a pass. The smallest probability starts above 1."""
    sums = np.zeros(N_SUMS)
    sums[LOWEST] = 2.0
    return sums


def initial_state() -> FloatArray:
    """The array ``state`` before the first pass."""
    state = np.zeros(N_STATE)
    state[EARLIER] = state[PREVIOUS] = np.inf
    return state


def _from_cache_or_compiler(function: Callable[..., Any], signature: tuple[Any, ...]) -> Callable[..., Any]:
    try:
        dispatcher = njit(cache=True, **_OPTIONS)(function)
        dispatcher.compile(signature)
    except Exception:  # without a writable folder, on a full disk or with a damaged file, each process compiles again
        dispatcher = njit(**_OPTIONS)(function)
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    return cast(Callable[..., Any], dispatcher)
