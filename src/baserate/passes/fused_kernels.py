"""One pass over a block of rows in one compiled loop, for log loss and the Brier score.

A tile of rows is loaded with its classes below each other, so that every inner loop runs over rows and uses the
processor's vector units. What a pass sums up and the adjusted rows where they are asked
for, come from one reading of the data; nothing but the tile is held.

All compiled code is in this file: numba's cache on disk does not notice a change in another one. ``fastmath`` allows
sums in any order, but not the assumption that there are no NaN or infinite values, so checks see what they look for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import from_dtype, njit, types

from baserate.support.arrays import FloatArray

# What a pass does besides the sums of the dual, one bit each.
SURVEY, CURVATURE, WRITE = 1, 2, 4

# Where a pass puts its sums.
VALUE, SIZE, OFFSET, ZEROS, LOWEST, MOVED, N_SUMS = 0, 1, 2, 3, 4, 5, 6

DONE = -1
"""What a kernel answers if it got through the block; otherwise the row in whose tile it met something odd."""

NOT_EASY = -2
"""What the step between passes returns if the problem needs the general solver."""

# Where the step between passes keeps its numbers.
POINT_VALUE, POINT_NOISE, PREDICTED, RADIUS, EARLIER, PREVIOUS, FIRST_OFFSET, CENTRE, N_STATE = range(9)

# Where the rules of the trust region are in core.newton.TRUST_REGION.
FIRST_RADIUS, POOR, GOOD, WIDEN, OVERSHOOT, CONFIRMED, NOISE, SAFETY = range(8)

WIDEST = 600.0
"""Spread of a shift beyond which probabilities must stay logarithms."""

LANES = 64
"""Rows of a tile: some vectors long, and with 10 or 20 classes in the first-level cache."""

_SMALL, _LARGE = 1e-290, 1e290  # Beyond these a row's normaliser has lost digits, or would.


_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract", "nsz", "arcp"}, "error_model": "numpy"}
_part = njit(**_OPTIONS)
"""A piece of a pass; it is compiled into the passes that use it, and cached with them."""


@_part
def _load(raw, weights, start, tile, w, row_sum, low, smoothing, tolerance, before, sums, survey):  # type: ignore[no-untyped-def]
    """Fill a tile with clean rows; whether they are predictions. Lanes beyond the last row weigh nothing."""
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
        low[r] = 1.0
    for j in range(k):
        for r in range(lanes):  # not one minimum for all: a lane each is what vectors can do
            row_sum[r] += tile[j, r]
            low[r] = tile[j, r] if tile[j, r] < low[r] else low[r]
    scale, bad = 1.0 / (1.0 + k * smoothing), 0
    for r in range(lanes):  # a NaN or an infinite value is in the sum, too
        fair = abs(row_sum[r] - 1.0) <= tolerance and row_sum[r] > _SMALL and row_sum[r] < _LARGE
        bad += not (fair and low[r] >= 0.0)
        row_sum[r] = scale / row_sum[r]
    if bad > 0:
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
        # Zeros are seldom. Where there are any they are counted, and the smallest of the others is sought.
        for r in range(lanes):
            least = low[r] * row_sum[r] + smoothing * scale
            if least == 0.0 and r < size:
                least = 2.0
                for j in range(k):
                    sums[ZEROS] += tile[j, r] == 0.0
                    least = tile[j, r] if 0.0 < tile[j, r] < least else least
            sums[LOWEST] = least if least < sums[LOWEST] else sums[LOWEST]
    return True


@_part
def _add_edges(h, w, scaled, edges):  # type: ignore[no-untyped-def]
    """Add ``sum_r w_r h_cr h_dr`` for each pair of classes."""
    k, lanes = h.shape
    for c in range(1, k):
        for r in range(lanes):
            scaled[r] = h[c, r] * w[r]
        for d in range(0, c - 1, 2):  # two at a time read ``scaled`` once
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


@_part
def _store(a, keep, start, rows):  # type: ignore[no-untyped-def]
    """Write a tile of adjusted rows; classes that are not kept get 0."""
    size = min(a.shape[1], len(rows) - start)
    for r in range(size):
        if len(keep) < rows.shape[1]:
            for j in range(rows.shape[1]):
                rows[start + r, j] = 0.0
        for c in range(len(keep)):
            rows[start + r, keep[c]] = a[c, r]


@_part
def _logs(x, out, spare, whole, bits):  # type: ignore[no-untyped-def]
    """Logarithms of normal positive numbers, all lanes at once.

    ``x = 2^e f`` with f between 1/sqrt(2) and sqrt(2), and ``log f = 2 atanh((f - 1) / (f + 1))`` by its series.
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


def _log_pass(  # type: ignore[no-untyped-def]
    raw, weights, factor, centre, keep, smoothing, tolerance, lanes, todo, before, mean, edges, sums, rows
):
    """Log loss: ``a_j = p_j exp(shift_j) / z``, so a pass takes one exponential a class and one logarithm a row."""
    n, k = raw.shape
    kept = len(keep)
    # Allocated here, not by the caller: only so does the compiler know that they are apart from each other.
    tile, a, w = np.empty((k, lanes)), np.empty((kept, lanes)), np.empty(lanes)
    z, log_z, spare = np.empty(lanes), np.empty(lanes), np.empty(lanes)
    z_bits, spare_bits = z.view(np.int64), spare.view(np.int64)
    for start in range(0, n, lanes):
        if not _load(raw, weights, start, tile, w, z, log_z, smoothing, tolerance, before, sums, todo & SURVEY):
            return start
        for r in range(lanes):
            z[r] = 0.0
        for c in range(kept):
            j = keep[c]
            for r in range(lanes):
                a[c, r] = tile[j, r] * factor[c]
                z[r] += a[c, r]
        _logs(z, log_z, spare, z_bits, spare_bits)
        value, size, odd = 0.0, 0.0, 0
        for r in range(lanes):
            odd += not (z[r] > _SMALL and z[r] < _LARGE)
            value += w[r] * (log_z[r] + centre)
            size += w[r] * abs(log_z[r] + centre)
            z[r] = 1.0 / z[r]
        if odd > 0:
            return start
        sums[VALUE] += value
        sums[SIZE] += size
        for c in range(kept):
            total = 0.0
            for r in range(lanes):
                a[c, r] *= z[r]
                total += w[r] * a[c, r]
            mean[c] += total
        if todo & WRITE:
            lost = 0  # a probability too small to be held would come out as a hard zero
            for c in range(kept):
                j = keep[c]
                for r in range(lanes):
                    lost += a[c, r] == 0.0 and tile[j, r] > 0.0
            if lost > 0:
                return start
            _store(a, keep, start, rows)
        if todo & CURVATURE:
            _add_edges(a, w, z, edges)
    return DONE


def _brier_pass(  # type: ignore[no-untyped-def]
    raw, weights, half, _, keep, smoothing, tolerance, lanes, todo, before, mean, edges, sums, rows
):
    """The Brier score: ``a = max(p + shift / 2 + theta, 0)``, with theta by Newton's method in all lanes at once."""
    n, k = raw.shape
    kept = len(keep)
    tile, a, w = np.empty((k, lanes)), np.empty((kept, lanes)), np.empty(lanes)
    total, count, theta = np.empty(lanes), np.empty(lanes), np.empty(lanes)
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
        for c in range(kept):
            j = keep[c]
            for r in range(lanes):
                a[c, r] = tile[j, r] + half[c]
                total[r] += a[c, r]
        for r in range(lanes):
            theta[r] = -total[r] / kept
        # The sum is convex in theta: it falls to 1 from above and the support only shrinks; see losses/projection.py.
        for _ in range(kept + 1):
            for r in range(lanes):
                total[r] = -1.0
                count[r] = 0.0
            for c in range(kept):
                for r in range(lanes):
                    v = a[c, r] + theta[r]
                    total[r] += v if v > 0.0 else 0.0
                    count[r] += 1.0 if v > 0.0 else 0.0
            moving = 0
            for r in range(lanes):
                step = total[r] / count[r]
                moving += step > 4e-16 * max(1.0, abs(theta[r]))
                theta[r] -= step
            if moving == 0:
                break
        for r in range(lanes):
            total[r] = 0.0
            count[r] = 0.0
        for c in range(kept):
            for r in range(lanes):
                v = a[c, r] + theta[r]
                a[c, r] = v if v > 0.0 else 0.0
                total[r] += a[c, r]
                count[r] += 1.0 if v > 0.0 else 0.0
        odd = 0
        for r in range(lanes):
            odd += not (total[r] > 0.5 and total[r] < 2.0)  # a shift so large that it has swallowed the predictions
            total[r] = 1.0 / total[r]
            count[r] = 0.5 * w[r] / count[r]
            theta[r] = 0.0
        if odd > 0:
            return start
        for c in range(kept):
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
            _store(a, keep, start, rows)
            for c in range(kept):
                j = keep[c]
                for r in range(lanes):
                    tile[j, r] -= a[c, r]
            for j in range(k):
                moved = 0.0
                for r in range(lanes):
                    moved += w[r] * tile[j, r] * tile[j, r]
                sums[MOVED] += moved
        if todo & CURVATURE:
            for c in range(kept):
                for r in range(lanes):
                    a[c, r] = 1.0 if a[c, r] > 0.0 else 0.0
            _add_edges(a, count, theta, edges)
    return DONE


@_part
def _load_row(raw, weights, i, x, smoothing, tolerance, before, lowest, sums, survey):  # type: ignore[no-untyped-def]
    """One clean row of many classes; whether it is a prediction."""
    k = raw.shape[1]
    total, negative = 0.0, 0
    for j in range(k):
        x[j] = raw[i, j]
        total += x[j]
    if survey:
        for j in range(k):
            negative += x[j] < 0.0
        if negative > 0 or not (abs(total - 1.0) <= tolerance and total > _SMALL and total < _LARGE):
            return False
    scale = 1.0 / (1.0 + k * smoothing)
    for j in range(k):
        x[j] = x[j] * (scale / total) + smoothing * scale
    if survey:
        zeros = 0
        for j in range(k):
            before[j] += weights[i] * x[j]
            zeros += x[j] == 0.0
            lowest[j] = x[j] if 0.0 < x[j] < lowest[j] else lowest[j]
        sums[ZEROS] += zeros
    return True


def _wide_log_pass(  # type: ignore[no-untyped-def]
    raw, weights, factor, centre, keep, smoothing, tolerance, lanes, todo, before, mean, edges, sums, rows
):
    """The same for many classes: a row is long enough for the vector units by itself. No class is left out."""
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
            lost = 0
            for j in range(k):
                a = x[j] * factor[j] / z
                lost += a == 0.0 and x[j] > 0.0
                rows[i, j] = a
                mean[j] += weights[i] * a
            if lost > 0:
                return i
        else:
            for j in range(k):
                mean[j] += x[j] * factor[j] * (weights[i] / z)
    for j in range(k):
        sums[LOWEST] = min(sums[LOWEST], lowest[j])
    return DONE


def _wide_brier_pass(  # type: ignore[no-untyped-def]
    raw, weights, half, _, keep, smoothing, tolerance, lanes, todo, before, mean, edges, sums, rows
):
    """The same for many classes."""
    n, k = raw.shape
    x, a, lowest = np.empty(k), np.empty(k), np.full(k, 2.0)
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
        theta = -total / k
        for _round in range(k + 1):
            total, count = -1.0, 0.0
            for j in range(k):
                v = a[j] + theta
                total += v if v > 0.0 else 0.0
                count += 1.0 if v > 0.0 else 0.0
            theta -= total / count
            if not total / count > 4e-16 * max(1.0, abs(theta)):
                break
        total = 0.0
        for j in range(k):
            v = a[j] + theta
            a[j] = v if v > 0.0 else 0.0
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
        sums[VALUE] += weights[i] * value
        sums[SIZE] += weights[i] * abs(value)
        sums[MOVED] += weights[i] * moved
        if todo & WRITE:
            for j in range(k):
                rows[i, j] = a[j]
    for j in range(k):
        sums[LOWEST] = min(sums[LOWEST], lowest[j])
    return DONE


@_part
def _newton_step(edges, gradient, matrix, step):  # type: ignore[no-untyped-def]
    """Solve with the Laplacian of the edges below the diagonal by Cholesky, the last class held; whether that works."""
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
def _length(brier, step, rates):  # type: ignore[no-untyped-def]
    """The length of a step in the metric of :meth:`baserate.core.problem.Problem.metric`."""
    squares, total, k = 0.0, 0.0, len(step)
    for j in range(k):
        weight = 1.0 / k if brier else rates[j]
        squares += weight * step[j] * step[j]
        total += weight * step[j]
    return math.sqrt(max(squares - total * total, 0.0) * (0.5 * k if brier else 1.0))


def _advance(brier, rules, rates, tol, relative, shift, before, mean, edges, sums, prepared, work, state, todo):  # type: ignore[no-untyped-def]
    """After one pass over a small problem with exact rates, get ready for the next: Newton's step and all around it.

    The same as ``core.newton.solve`` does, as long as every step is plainly good. Answers what the next pass
    has to do, ``DONE`` after the last one, or ``NOT_EASY`` where more is needed than is here. Its numbers are those of
    that file, written out because the cache on disk would not notice if they changed there.
    """
    k = len(rates)
    matrix, gradient, step, last_gradient = work[3:], work[0], work[1], work[2]
    value, noise, predicted, radius = state[POINT_VALUE], state[POINT_NOISE], state[PREDICTED], state[RADIUS]
    earlier, previous, offset, centre = state[EARLIER], state[PREVIOUS], state[FIRST_OFFSET], 0.0
    if todo == SURVEY:
        away = 0.0
        for j in range(k):
            away = max(away, abs(rates[j] - before[j]))
            # The answer if all rows were their mean; the free constant so that <rates, shift> = 0.
            shift[j] = 2.0 * (rates[j] - before[j]) if brier else math.log(rates[j] / before[j])
            centre += rates[j] * shift[j]
        if not away > 1e-15 or (sums[ZEROS] > 0 and not brier):
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
        new_noise = 2.220446049250313e-16 * (sums[SIZE] + abs(offset) + abs(drift))
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
            bend, along = 0.0, 0.0
            for c in range(k):
                along += gradient[c] * step[c]
                for d in range(c):
                    bend += edges[c, d] * (step[c] - step[d]) ** 2
                centre += rates[c] * (shift[c] + step[c])
            predicted = along - 0.5 * bend
            if not predicted > 0.0:
                return NOT_EASY
            for j in range(k):
                shift[j] += step[j] - centre
                last_gradient[j] = gradient[j]
            if residual < 0.01 * earlier < np.inf and rules[SAFETY] * residual * (residual / earlier) ** 2 <= least:
                todo = WRITE  # the steps before predict its error
        state[POINT_VALUE], state[POINT_NOISE], state[PREDICTED] = new_value, new_noise, predicted
        state[RADIUS], state[EARLIER], state[PREVIOUS] = radius, earlier, residual
    # What the next pass starts from: the shift as it wants it, and empty sums.
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
    sums[VALUE], sums[SIZE], sums[MOVED] = 0.0, 0.0, 0.0
    return todo


PASSES = {"log": _log_pass, "brier": _brier_pass, "log wide": _wide_log_pass, "brier wide": _wide_brier_pass}


@functools.cache
def compiled(name: str, dtype: np.dtype[Any]) -> Callable[..., int]:
    """The pass of a loss for rows of a dtype, from the cache on disk or from the compiler.

    One signature serves every memory layout, read-only arrays included: what it would gain to know the layout is less
    than the second that each further compilation takes.
    """
    table, vector = types.Array(types.float64, 2, "C"), types.Array(types.float64, 1, "C")
    signature = (
        types.Array(from_dtype(dtype), 2, "A", readonly=True),
        types.Array(types.float64, 1, "C", readonly=True),
        types.Array(types.float64, 1, "C", readonly=True),
        types.float64,
        types.Array(types.intp, 1, "C", readonly=True),
        *(types.float64, types.float64, types.intp, types.intp),
        *(vector, vector, table, vector, types.Array(types.float64, 2, "A")),
    )
    return _from_cache_or_compiler(PASSES[name], signature)


@functools.cache
def compiled_advance() -> Callable[..., int]:
    """The step between two passes over a small problem."""
    vector, table, fixed = types.float64[::1], types.float64[:, ::1], types.Array(types.float64, 1, "C", readonly=True)
    signature = (
        *(types.boolean, fixed, fixed, types.float64, types.float64),
        *(vector, vector, vector, table, vector, vector, table, vector, types.intp),
    )
    return _from_cache_or_compiler(_advance, signature)


def initial_sums() -> FloatArray:
    """Empty sums of a pass; the smallest probability starts above 1."""
    sums = np.zeros(N_SUMS)
    sums[LOWEST] = 2.0
    return sums


def initial_state() -> FloatArray:
    """What the step between passes starts from."""
    state = np.zeros(N_STATE)
    state[EARLIER] = state[PREVIOUS] = np.inf
    return state


def _from_cache_or_compiler(function: Callable[..., int], signature: tuple[Any, ...]) -> Callable[..., int]:
    try:
        dispatcher = njit(cache=True, **_OPTIONS)(function)
        dispatcher.compile(signature)
    except Exception:  # no folder that can be written to, a full disk, a damaged file: then each process compiles anew
        dispatcher = njit(**_OPTIONS)(function)
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    return cast(Callable[..., int], dispatcher)
