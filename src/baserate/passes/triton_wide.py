"""Passes for log loss and the Brier score with many classes on a GPU, in Triton.

A tile has ``ROWS`` rows and as many columns as classes, rounded up to a power of 2. One warp holds it if the classes
are few enough, so that sums along rows need no shared memory. The arguments and sums are those of
``baserate.passes.triton_kernels``, except for the curvature: if ``SCALED``, rows are written to ``scaled``, of shape
(n, K) in float64, whose product with itself holds the edge weights. If ``DIAGONAL``, a line of sums ends with the K
numbers of the diagonal of the curvature.
"""

from __future__ import annotations

import triton
import triton.language as tl

from baserate.passes.triton_kernels import _GENERAL, _HUGE, _LARGE, _SMALL, _TINY, _TINY32, _to_float32


@triton.jit
def _predictions(
    raw, settings, row, inside, column, row_stride, column_stride, K: tl.constexpr, LOGITS: tl.constexpr
):  # fmt: skip
    """Normalised and smoothed rows, which are 0 outside, and whether each is a valid prediction."""
    within = inside[:, None] & (column < K)[None, :]
    other = float("-inf") if LOGITS else 0.0
    places = raw + row[:, None] * row_stride + column[None, :] * column_stride
    x = tl.load(places, mask=within, other=other).to(tl.float64)
    if LOGITS:
        top = tl.where(inside, tl.max(x, axis=1), 0.0)
        e = tl.exp(x - top[:, None])
        # A finite logit is not a hard zero, however small its probability. Such rows need logarithms.
        lost = (e <= _SMALL) & (x != float("-inf"))
        valid = tl.max(lost.to(tl.int32), axis=1) == 0
        x = e
    else:
        valid = tl.min(x, axis=1) >= 0.0
    total = tl.sum(x, axis=1)
    smoothing = tl.load(settings + K + 0)
    scale = 1.0 / (1.0 + K * smoothing)
    if not LOGITS:
        valid = valid & (tl.abs(total - 1.0) <= tl.load(settings + K + 1))
    valid = valid & (total > _SMALL) & (total < _LARGE)  # NaN and infinite entries show here
    factor = scale / tl.where(valid, total, 1.0)
    p = x * factor[:, None] + smoothing * scale
    return tl.where(within, p, 0.0), valid | ~inside


@triton.jit
def _store(rows, a, row, inside, column, row_stride, column_stride, K: tl.constexpr):
    within = inside[:, None] & (column < K)[None, :]
    places = rows + row[:, None] * row_stride + column[None, :] * column_stride
    tl.store(places, a.to(rows.dtype.element_ty), mask=within)


@triton.jit
def _store_sums(
    out, column, value, size, offset, zeros, ceiling, moved, short, invalid, before, mean, rounded, diagonal,
    K: tl.constexpr, DIAGONAL: tl.constexpr,
):  # fmt: skip
    """Add up the rows, and write a line of sums."""
    line = out + tl.program_id(0).to(tl.int64) * (8 + (4 if DIAGONAL else 3) * K)
    tl.store(line + 0, tl.sum(value))
    tl.store(line + 1, tl.sum(size))
    tl.store(line + 2, tl.sum(offset))
    tl.store(line + 3, tl.sum(zeros))
    tl.store(line + 4, tl.sum(ceiling))
    tl.store(line + 5, tl.sum(moved))
    tl.store(line + 6, tl.sum(short))
    tl.store(line + 7, tl.sum(invalid))
    tl.store(line + 8 + column, before, mask=column < K)
    tl.store(line + 8 + K + column, mean, mask=column < K)
    tl.store(line + 8 + 2 * K + column, rounded, mask=column < K)
    if DIAGONAL:
        tl.store(line + 8 + 3 * K + column, diagonal, mask=column < K)


@triton.jit
def _rounded_log_rows(a, log_z, centre):
    """As ``triton_kernels._rounded_log_rows``, for tiles."""
    b, stored = _to_float32(a)
    normal = stored >= _TINY32
    error = (b - a).to(tl.float32)
    e = tl.where(normal, error / tl.where(normal, stored, 1.0), 0.0)
    e = e + 0.5 * e * e
    excess = tl.sum(error, axis=1).to(tl.float64)
    added = tl.sum(stored * e, axis=1).to(tl.float64) - excess * (log_z + centre + 1.0)
    least = tl.min(tl.where(stored > 0.0, e, 1.0), axis=1).to(tl.float64)
    return b, stored, added, tl.maximum(added - least + tl.maximum(excess, 0.0), 0.0)


@triton.jit(do_not_specialize=_GENERAL)
def log_wide(
    raw, weights, settings, rows, scaled, out, n, row_stride, column_stride, out_row_stride, out_column_stride,
    K: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, SURVEY: tl.constexpr, SCALED: tl.constexpr,
    DIAGONAL: tl.constexpr, WRITE: tl.constexpr, ROUND: tl.constexpr, LOGITS: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """One pass for log loss, where ``a_j = p_j exp(shift_j) / z``."""
    column = tl.arange(0, COLUMNS).to(tl.int64)
    zero, none = tl.zeros([ROWS], tl.float64), tl.zeros([COLUMNS], tl.float64)
    value, size, zeros, ceiling, moved, short, invalid = zero, zero, zero, zero, zero, zero, zero
    before, mean, rounded, diagonal = none, none, none, none
    factor = tl.load(settings + column, mask=column < K, other=0.0)
    centre = tl.load(settings + K + 2)
    for tile in range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0)):
        row = tile * ROWS + tl.arange(0, ROWS).to(tl.int64)
        inside = row < n
        p, valid = _predictions(raw, settings, row, inside, column, row_stride, column_stride, K, LOGITS)
        w = tl.load(weights + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0).to(tl.float64)
        if SURVEY:
            lowest = tl.min(tl.where(p > 0.0, p, 2.0), axis=1)
            n_zeros = tl.sum(((p == 0.0) & (column < K)[None, :]).to(tl.int32), axis=1)
            before += tl.sum(w[:, None] * p, axis=0)
            zeros += tl.where(inside, n_zeros, 0).to(tl.float64)
            ceiling += w * -tl.log(lowest)
        b = p * factor[None, :]
        z = tl.sum(b, axis=1)
        valid = valid & ((z > _SMALL) & (z < _LARGE) | ~inside)
        z = tl.where(valid & inside, z, 1.0)
        log_z = tl.log(z)
        value += w * (log_z + centre)
        size += w * tl.abs(log_z + centre)
        inverse = 1.0 / z
        a = b * inverse[:, None]
        if WRITE:
            small = (p > 0.0) & (factor > 0.0)[None, :] & (a < (tl.maximum(inverse, 1.0) * _TINY)[:, None])
            valid = valid & ((tl.max(small.to(tl.int32), axis=1) == 0) | (inverse <= 1.0))
            a = tl.where(small, _TINY, a)
        mean += tl.sum(w[:, None] * a, axis=0)
        if DIAGONAL:
            diagonal += tl.sum(w[:, None] * a * (1.0 - a), axis=0)
        if SCALED:
            _store(scaled, tl.sqrt(w)[:, None] * a, row, inside, column, K, 1, K)
        if WRITE:
            stored = a
            if ROUND:
                a, stored, added, missing = _rounded_log_rows(a, log_z, centre)
                moved += w * added
                short += w * missing
                rounded += tl.sum(w[:, None] * a, axis=0)
            _store(rows, stored, row, inside, column, out_row_stride, out_column_stride, K)
        invalid += tl.where(valid, 0.0, 1.0)
    _store_sums(
        out, column, value, size, zero, zeros, ceiling, moved, short, invalid, before, mean, rounded, diagonal,
        K, DIAGONAL,
    )  # fmt: skip


@triton.jit
def _excess(x, theta):
    """The sum of ``max(x + theta, 0)`` minus 1, and the number of positive entries."""
    v = x + theta[:, None]
    count = tl.sum((v > 0.0).to(tl.int32), axis=1)
    return tl.sum(tl.maximum(v, 0.0), axis=1) - 1.0, tl.maximum(count, 1)


@triton.jit
def _onto_simplex(x, column, K: tl.constexpr):
    """``theta`` such that ``max(x + theta, 0)`` sums to 1, the error of this sum, and the size of the support.

    The number of steps is fixed, because Triton 3.6 cannot compile a loop over tiles that ends when all rows are done.
    """
    top = tl.max(x, axis=1)
    near = tl.maximum(x - top[:, None], -1e30).to(tl.float32)
    # Newton's method in float32 finds the support. Both starts are at least the solution.
    total = tl.sum(tl.where((column < K)[None, :], near, 0.0), axis=1)
    t = tl.minimum((1.0 - total) / K, 1.0)
    for _ in range(12):
        error, count = _excess(near, t)
        t -= error / count.to(tl.float32)
    # A step in float64 is then exact, unless the support changes. From any start, all but the first step go down.
    theta = t.to(tl.float64) - top
    for _ in range(2):
        error, count = _excess(x, theta)
        theta -= error / count.to(tl.float64)
    error, count = _excess(x, theta)
    return theta, error, count.to(tl.float64)


@triton.jit
def _is_on_simplex(theta, error, inside, K: tl.constexpr):
    """Whether the steps were enough, and the predictions are not lost to rounding."""
    return (tl.abs(error) <= 4e-16 * K * tl.maximum(1.0, tl.abs(theta))) & (tl.abs(error) < 0.5) | ~inside


@triton.jit(do_not_specialize=_GENERAL)
def brier_wide(
    raw, weights, settings, rows, scaled, out, n, row_stride, column_stride, out_row_stride, out_column_stride,
    K: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, SURVEY: tl.constexpr, SCALED: tl.constexpr,
    DIAGONAL: tl.constexpr, WRITE: tl.constexpr, ROUND: tl.constexpr, LOGITS: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """One pass for the Brier score, where ``a = max(p + shift / 2 + theta, 0)``."""
    column = tl.arange(0, COLUMNS).to(tl.int64)
    zero, none = tl.zeros([ROWS], tl.float64), tl.zeros([COLUMNS], tl.float64)
    value, size, offset, ceiling, moved, short, invalid = zero, zero, zero, zero, zero, zero, zero
    before, mean, rounded, diagonal = none, none, none, none
    half = tl.load(settings + column, mask=column < K, other=-_HUGE)
    for tile in range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0)):
        row = tile * ROWS + tl.arange(0, ROWS).to(tl.int64)
        inside = row < n
        p, valid = _predictions(raw, settings, row, inside, column, row_stride, column_stride, K, LOGITS)
        w = tl.load(weights + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0).to(tl.float64)
        if SURVEY:
            squares = tl.sum(p * p, axis=1)
            lowest = tl.min(tl.where((column < K)[None, :], p, 2.0), axis=1)
            before += tl.sum(w[:, None] * p, axis=0)
            offset += w * squares
            ceiling += w * (1.0 - 2.0 * lowest + squares)
        x = p + half[None, :]
        theta, error, count = _onto_simplex(x, column, K)
        valid = valid & _is_on_simplex(theta, error, inside, K)
        total = 1.0 / tl.where(valid, 1.0 + error, 1.0)
        a = tl.maximum(x + theta[:, None], 0.0) * total[:, None]
        conjugate = tl.sum(a * (2.0 * x - a), axis=1)  # <x, a> - |a|^2
        value += w * conjugate
        size += w * tl.abs(conjugate)
        mean += tl.sum(w[:, None] * a, axis=0)
        if DIAGONAL:
            slope = 0.5 * w * (1.0 - 1.0 / count)
            diagonal += tl.sum(tl.where(a > 0.0, slope[:, None], 0.0), axis=0)
        if SCALED:
            scale = tl.sqrt(0.5 * w / count)
            _store(scaled, tl.where(a > 0.0, scale[:, None], 0.0), row, inside, column, K, 1, K)
        if WRITE:
            stored = a
            if ROUND:
                a, stored = _to_float32(a)
                rounded += tl.sum(w[:, None] * a, axis=0)
            _store(rows, stored, row, inside, column, out_row_stride, out_column_stride, K)
            d = p - a
            one = -2.0 * (d + half[None, :])  # r_j - shift_j, up to a constant of the row
            fall = tl.sum(a * one, axis=1)
            moved += w * tl.sum(d * d, axis=1)
            short += w * tl.maximum(fall - tl.min(one, axis=1) - tl.load(settings + K + 3), 0.0)
        invalid += tl.where(valid, 0.0, 1.0)
    _store_sums(
        out, column, value, size, offset, zero, ceiling, moved, short, invalid, before, mean, rounded, diagonal,
        K, DIAGONAL,
    )  # fmt: skip
