"""Passes for log loss and the Brier score on a GPU, in Triton: one kernel reads, checks and adjusts the rows.

Each lane works on one row at a time and keeps its k numbers in registers, so that float64 arithmetic is not slower than
memory. (Tiles with rows and classes, and sums by matrix products, were seven times as slow for 10 classes.) A program
processes many tiles of ``BLOCK`` rows and keeps its sums per lane. At the end it writes them as one line of ``out``,
and the caller adds up the lines. Every line has a fixed position, so that equal calls give equal sums to the last
bit.

``TRITON_INTERPRET=1`` runs the same kernels on a CPU. The formulas are those of ``baserate.passes.fused_kernels``.

Arguments of both kernels:

raw : pointer to the predictions, with the strides ``row_stride`` and ``column_stride``
weights : pointer to float64; not used unless ``WEIGHTED``
settings : pointer to float64
    For each class what the shift does (``exp(shift - centre)`` for log loss, ``shift / 2`` for the Brier score), then
    the numbers at the positions SMOOTHING to ROUNDING. Not as arguments: Triton would round them to float32.
rows : pointer to the adjusted rows in float32 or float64, with the strides ``out_row_stride`` and ``out_column_stride``
out : pointer to float64, shape (programs, n_sums(K, CURVATURE))
n : number of rows
SURVEY, CURVATURE, WRITE : whether the predictions are checked and summed, the curvature is summed, the rows are written
ROUND : whether the rows are float32
LOGITS : whether the predictions are logits
WEIGHTED : whether rows have weights; otherwise each counts 1

Classes of rate 0 have the factor 0 for log loss, and a half shift of -1e300 for the Brier score.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Positions in ``settings`` after the numbers of the classes: what is added to every probability, how far the sum of a
# row may be from 1, what was subtracted from the shift, and what rounding may add to the shortfall of a row.
SMOOTHING, TOLERANCE, CENTRE, ROUNDING, N_PARAMS = 0, 1, 2, 3, 4

# Positions in a line of ``out``: the conjugate, the absolute values of its terms, the offset of the dual function, the
# number of hard zeros, the bound on the divergence, the divergence (for log loss, what rounding adds to it), the
# shortfall, and the number of rows that the kernel cannot compute. After them, k numbers each: the sums of the
# predictions, of the adjusted rows and of the rounded rows. Then the edge weights below the diagonal.
VALUE, SIZE, OFFSET, ZEROS, CEILING, MOVED, SHORT, INVALID, N_SUMS = 0, 1, 2, 3, 4, 5, 6, 7, 8


def n_sums(k: int, curvature: bool) -> int:
    """Length of a line of ``out``."""
    return N_SUMS + 3 * k + (k * (k - 1) // 2 if curvature else 0)


# Arguments whose values may not lead to compiled code of their own: any number of rows and any layout share one kernel.
_GENERAL = ["n", "row_stride", "out_row_stride", "out_column_stride"]

_SMALL = tl.constexpr(1e-290)  # A sum outside this range has lost digits or is about to.
_LARGE = tl.constexpr(1e290)
_TINY = tl.constexpr(2.2250738585072014e-308)  # The smallest normal number of float64.
_TINY32 = tl.constexpr(1.1754943508222875e-38)  # The smallest normal and the smallest positive number of float32.
_STEP32 = tl.constexpr(1.401298464324817e-45)
_HUGE = tl.constexpr(1e300)


@triton.jit
def _zeros(BLOCK: tl.constexpr, N: tl.constexpr):
    """A tuple of N vectors of zeros."""
    found = ()
    for _ in tl.static_range(N):
        found = found + (tl.zeros([BLOCK], tl.float64),)
    return found


@triton.jit
def _read(raw, row, inside, row_stride, column_stride, K: tl.constexpr, LOGITS: tl.constexpr):
    """The entries of rows as they are, or the exponentials of logits; and whether they are valid up to their sum."""
    x = ()
    valid = inside | (row >= 0)
    for j in tl.static_range(K):
        other = 0.0 if LOGITS else 1.0 / K
        v = tl.load(raw + row * row_stride + j * column_stride, mask=inside, other=other).to(tl.float64)
        x = x + (v,)
    if LOGITS:
        top = x[0]
        for j in tl.static_range(1, K):
            top = tl.maximum(top, x[j])
        e = ()
        for j in tl.static_range(K):
            v = tl.exp(x[j] - top)
            # A finite logit is not a hard zero, however small its probability. Such rows need logarithms.
            valid = valid & ((v > _SMALL) | (x[j] == float("-inf")))
            e = e + (v,)
        x = e
    else:
        for j in tl.static_range(K):
            valid = valid & (x[j] >= 0.0)
    return x, valid


@triton.jit
def _predictions(raw, settings, row, inside, row_stride, column_stride, K: tl.constexpr, LOGITS: tl.constexpr):
    """Normalised and smoothed rows, and whether each is a valid prediction."""
    x, valid = _read(raw, row, inside, row_stride, column_stride, K, LOGITS)
    total = x[0]
    for j in tl.static_range(1, K):
        total += x[j]
    smoothing = tl.load(settings + K + 0)
    scale = 1.0 / (1.0 + K * smoothing)
    if not LOGITS:
        valid = valid & (tl.abs(total - 1.0) <= tl.load(settings + K + 1))
    valid = valid & (total > _SMALL) & (total < _LARGE)  # NaN and infinite entries show here
    total = scale / total
    p = ()
    for j in tl.static_range(K):
        p = p + (x[j] * total + smoothing * scale,)
    return p, valid


@triton.jit
def _lowest(p, inside, K: tl.constexpr):
    """The smallest positive probability of each row, and its number of hard zeros."""
    lowest = tl.where(p[0] > 0.0, p[0], 2.0)
    zeros = (p[0] == 0.0).to(tl.int32)
    for j in tl.static_range(1, K):
        lowest = tl.where(p[j] > 0.0, tl.minimum(lowest, p[j]), lowest)
        zeros += (p[j] == 0.0).to(tl.int32)
    return lowest, tl.where(inside, zeros, 0).to(tl.float64)


@triton.jit
def _added(sums, w, values, N: tl.constexpr):
    """Sums of vectors, with those of more rows added."""
    found = ()
    for j in tl.static_range(N):
        found = found + (sums[j] + w * values[j],)
    return found


@triton.jit
def _with_edges(edges, w, h, K: tl.constexpr):
    """Edge weights below the diagonal, with ``w h_j h_i`` of more rows added."""
    found = ()
    for j in tl.static_range(1, K):
        scaled = w * h[j]
        for i in tl.static_range(j):
            found = found + (edges[j * (j - 1) // 2 + i] + scaled * h[i],)
    return found


@triton.jit
def _to_float32(v):
    """Probabilities rounded to float32, as float64 and float32; see :func:`baserate.support.answer_types.round_to`."""
    b = v.to(tl.float32)
    r = b.to(tl.float64)
    lost = (b < _TINY32) & (r < v)
    return tl.where(lost, r + _STEP32, r), tl.where(lost, b + _STEP32, b)


@triton.jit
def _store_rows(rows, a, row, inside, row_stride, column_stride, K: tl.constexpr):
    for j in tl.static_range(K):
        v = a[j].to(rows.dtype.element_ty)
        tl.store(rows + row * row_stride + j * column_stride, v, mask=inside)


@triton.jit
def _store_sums(
    out, value, size, offset, zeros, ceiling, moved, short, invalid, before, mean, rounded, edges,
    K: tl.constexpr, CURVATURE: tl.constexpr,
):  # fmt: skip
    """Add up the lanes, and write a line of sums."""
    n_edges: tl.constexpr = K * (K - 1) // 2 if CURVATURE else 0
    line = out + tl.program_id(0).to(tl.int64) * (8 + 3 * K + n_edges)
    tl.store(line + 0, tl.sum(value))
    tl.store(line + 1, tl.sum(size))
    tl.store(line + 2, tl.sum(offset))
    tl.store(line + 3, tl.sum(zeros))
    tl.store(line + 4, tl.sum(ceiling))
    tl.store(line + 5, tl.sum(moved))
    tl.store(line + 6, tl.sum(short))
    tl.store(line + 7, tl.sum(invalid))
    for j in tl.static_range(K):
        tl.store(line + 8 + j, tl.sum(before[j]))
        tl.store(line + 8 + K + j, tl.sum(mean[j]))
        tl.store(line + 8 + 2 * K + j, tl.sum(rounded[j]))
    if CURVATURE:
        for j in tl.static_range(K * (K - 1) // 2):
            tl.store(line + 8 + 3 * K + j, tl.sum(edges[j]))


@triton.jit
def _rounded_log_rows(a, log_z, centre, K: tl.constexpr):
    """Rows in float32, and what rounding adds to divergence and shortfall; see ``fused_kernels._round_log_tile``."""
    # Seven digits of the errors are enough, and a division in float64 would take longer than the rest of the entry.
    excess = (0.0 * log_z).to(tl.float32)
    gain, least = excess, excess + 1.0
    b, stored = (), ()
    for j in tl.static_range(K):
        v = a[j]
        r, short = _to_float32(v)
        error = (r - v).to(tl.float32)
        e = tl.where(short >= _TINY32, error / tl.where(short >= _TINY32, short, 1.0), 0.0)
        e = e + 0.5 * e * e  # log(r / v), with the error relative to r
        excess += error
        gain += short * e
        least = tl.where(short > 0.0, tl.minimum(least, e), least)
        b, stored = b + (r,), stored + (short,)
    excess, gain, least = excess.to(tl.float64), gain.to(tl.float64), least.to(tl.float64)
    added = gain - excess * (log_z + centre + 1.0)
    missing = tl.maximum(added - least + tl.maximum(excess, 0.0), 0.0)
    return b, stored, added, missing


@triton.jit(do_not_specialize=_GENERAL)
def log_pass(
    raw, weights, settings, rows, out, n, row_stride, column_stride, out_row_stride, out_column_stride,
    K: tl.constexpr, BLOCK: tl.constexpr, SURVEY: tl.constexpr, CURVATURE: tl.constexpr,
    WRITE: tl.constexpr, ROUND: tl.constexpr, LOGITS: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """One pass for log loss, where ``a_j = p_j exp(shift_j) / z``."""
    lanes = tl.arange(0, BLOCK).to(tl.int64)
    zero = tl.zeros([BLOCK], tl.float64)
    value, size, zeros, ceiling, moved, short, invalid = zero, zero, zero, zero, zero, zero, zero
    mean = _zeros(BLOCK, K)
    before = _zeros(BLOCK, K if SURVEY else 1)
    rounded = _zeros(BLOCK, K if WRITE and ROUND else 1)
    edges = _zeros(BLOCK, K * (K - 1) // 2 if CURVATURE else 1)
    centre = tl.load(settings + K + 2)
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        row = tile * BLOCK + lanes
        inside = row < n
        p, valid = _predictions(raw, settings, row, inside, row_stride, column_stride, K, LOGITS)
        w = tl.load(weights + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0).to(tl.float64)
        if SURVEY:
            lowest, n_zeros = _lowest(p, inside, K)
            before = _added(before, w, p, K)
            zeros += n_zeros
            ceiling += w * -tl.log(lowest)
        z = p[0] * tl.load(settings)
        for j in tl.static_range(1, K):
            z += p[j] * tl.load(settings + j)
        valid = valid & (z > _SMALL) & (z < _LARGE)
        log_z = tl.log(tl.where(valid, z, 1.0))
        value += w * (log_z + centre)
        size += w * tl.abs(log_z + centre)
        inverse = 1.0 / z
        a = ()
        for j in tl.static_range(K):
            factor = tl.load(settings + j)
            v = p[j] * factor * inverse
            if WRITE:
                small = (p[j] > 0.0) & (v < tl.where(factor > 0.0, tl.maximum(inverse, 1.0) * _TINY, 0.0))
                valid = valid & (~small | (inverse <= 1.0))
                v = tl.where(small, _TINY, v)
            a = a + (v,)
        mean = _added(mean, w, a, K)
        if CURVATURE:
            edges = _with_edges(edges, w, a, K)
        if WRITE:
            stored = a
            if ROUND:
                a, stored, added, missing = _rounded_log_rows(a, log_z, centre, K)
                moved += w * added
                short += w * missing
                rounded = _added(rounded, w, a, K)
            _store_rows(rows, stored, row, inside, out_row_stride, out_column_stride, K)
        invalid += tl.where(valid, 0.0, 1.0)
    if not SURVEY:
        before = _zeros(BLOCK, K)
    if not (WRITE and ROUND):
        rounded = _zeros(BLOCK, K)
    _store_sums(
        out, value, size, zero, zeros, ceiling, moved, short, invalid, before, mean, rounded, edges, K, CURVATURE
    )


@triton.jit
def _excess(x, theta, K: tl.constexpr):
    """The sum of ``max(x + theta, 0)`` minus 1, and the number of positive entries."""
    total = tl.maximum(x[0] + theta, 0.0) - 1.0
    count = (x[0] + theta > 0.0).to(tl.int32)
    for j in tl.static_range(1, K):
        v = x[j] + theta
        total += tl.maximum(v, 0.0)
        count += (v > 0.0).to(tl.int32)
    return total, tl.maximum(count, 1)


@triton.jit
def _support_step(x, K: tl.constexpr):
    """How far the largest entry is from 0 in the nearest points of the simplex, in float32: this finds the support."""
    top = x[0]
    for j in tl.static_range(1, K):
        top = tl.maximum(top, x[j])
    near = ()
    total = (0.0 * top).to(tl.float32)
    for j in tl.static_range(K):
        v = tl.maximum(x[j] - top, -1e30).to(tl.float32)
        total += v
        near = near + (v,)
    # Newton's method, in all lanes at the same time. Both starts are at least the solution; see ``losses.projection``.
    t = tl.minimum((1.0 - total) / K, 1.0)
    moving, rounds = 1, 0
    while (moving > 0) & (rounds <= K):
        error, count = _excess(near, t, K)
        step = error / count.to(tl.float32)
        t -= step
        moving = tl.max((step > 1e-6).to(tl.int32), axis=0)
        rounds += 1
    return t.to(tl.float64) - top


@triton.jit
def _onto_simplex(x, K: tl.constexpr):
    """``theta`` such that ``max(x + theta, 0)`` sums to 1, the error of this sum, and the size of the support."""
    theta = _support_step(x, K)
    # A step in float64 is then exact, unless the support changes. From any start, all but the first step go down.
    error, count = _excess(x, theta, K)
    moving, rounds = 1, 0
    while (moving > 0) & (rounds <= K):
        theta -= error / count.to(tl.float64)
        error, count = _excess(x, theta, K)
        moving = tl.max((tl.abs(error) > 4e-16 * count * tl.maximum(1.0, tl.abs(theta))).to(tl.int32), axis=0)
        rounds += 1
    return theta, error, count.to(tl.float64)


@triton.jit(do_not_specialize=_GENERAL)
def brier_pass(
    raw, weights, settings, rows, out, n, row_stride, column_stride, out_row_stride, out_column_stride,
    K: tl.constexpr, BLOCK: tl.constexpr, SURVEY: tl.constexpr, CURVATURE: tl.constexpr,
    WRITE: tl.constexpr, ROUND: tl.constexpr, LOGITS: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """One pass for the Brier score, where ``a = max(p + shift / 2 + theta, 0)``."""
    lanes = tl.arange(0, BLOCK).to(tl.int64)
    zero = tl.zeros([BLOCK], tl.float64)
    value, size, offset, ceiling, moved, short, invalid = zero, zero, zero, zero, zero, zero, zero
    mean = _zeros(BLOCK, K)
    before = _zeros(BLOCK, K if SURVEY else 1)
    rounded = _zeros(BLOCK, K if WRITE and ROUND else 1)
    edges = _zeros(BLOCK, K * (K - 1) // 2 if CURVATURE else 1)
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        row = tile * BLOCK + lanes
        inside = row < n
        p, valid = _predictions(raw, settings, row, inside, row_stride, column_stride, K, LOGITS)
        w = tl.load(weights + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0).to(tl.float64)
        if SURVEY:
            squares, lowest = p[0] * p[0], p[0]
            for j in tl.static_range(1, K):
                squares += p[j] * p[j]
                lowest = tl.minimum(lowest, p[j])
            before = _added(before, w, p, K)
            offset += w * squares
            ceiling += w * (1.0 - 2.0 * lowest + squares)
        x = ()
        for j in tl.static_range(K):
            x = x + (p[j] + tl.load(settings + j),)
        theta, error, count = _onto_simplex(x, K)
        valid = valid & (tl.abs(error) < 0.5)  # otherwise the predictions are lost to rounding
        total = 1.0 / tl.where(valid, 1.0 + error, 1.0)
        conjugate = 0.0 * theta
        a = ()
        for j in tl.static_range(K):
            v = tl.maximum(x[j] + theta, 0.0) * total
            conjugate += v * (2.0 * x[j] - v)  # <x, a> - |a|^2
            a = a + (v,)
        value += w * conjugate
        size += w * tl.abs(conjugate)
        mean = _added(mean, w, a, K)
        if CURVATURE:
            support = ()
            for j in tl.static_range(K):
                support = support + (tl.where(a[j] > 0.0, 1.0, 0.0).to(tl.float64),)
            edges = _with_edges(edges, 0.5 * w / count, support, K)
        if WRITE:
            stored = a
            if ROUND:
                b, stored = (), ()
                for j in tl.static_range(K):
                    r, v = _to_float32(a[j])
                    b, stored = b + (r,), stored + (v,)
                a = b
                rounded = _added(rounded, w, a, K)
            _store_rows(rows, stored, row, inside, out_row_stride, out_column_stride, K)
            fall = 0.0 * theta  # the mean of r_j - shift_j, up to a constant of the row
            least = _HUGE + 0.0 * theta
            distance = 0.0 * theta
            for j in tl.static_range(K):
                d = p[j] - a[j]
                one = -2.0 * (d + tl.load(settings + j))
                fall += a[j] * one
                least = tl.minimum(least, one)
                distance += d * d
            moved += w * distance
            short += w * tl.maximum(fall - least - tl.load(settings + K + 3), 0.0)
        invalid += tl.where(valid, 0.0, 1.0)
    if not SURVEY:
        before = _zeros(BLOCK, K)
    if not (WRITE and ROUND):
        rounded = _zeros(BLOCK, K)
    _store_sums(
        out, value, size, offset, zero, ceiling, moved, short, invalid, before, mean, rounded, edges, K, CURVATURE
    )
