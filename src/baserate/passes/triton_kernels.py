"""Passes for log loss and the Brier score on a GPU, in Triton: one kernel reads, checks and adjusts the rows.

Each lane works on one row at a time and keeps its k numbers in registers, so that float64 arithmetic is not slower than
memory. (Tiles with rows and classes, and sums by matrix products, were seven times as slow for 10 classes.) A program
processes many tiles of ``BLOCK`` rows and keeps its sums per lane. At the end it writes them as one line of ``out``,
and the caller adds up the lines. Every line has a fixed position, so that equal calls give equal sums to the last
bit.

``TRITON_INTERPRET=1`` runs the same kernels on a CPU. The formulas are those of ``baserate.passes.kernels``.

Arguments of both kernels:

raw : pointer to the predictions, with the strides ``row_stride`` and ``column_stride``
weights : pointer to float64; not used unless ``WEIGHTED``
settings : pointer to float64
    For each class what the shift does (``exp(shift - centre)`` for log loss, ``shift / 2`` for the Brier score), then
    the numbers at the positions SMOOTHING to FINISHED. Not as arguments: Triton would round them to float32.
rows : pointer to the adjusted rows in float32 or float64, with the strides ``out_row_stride`` and ``out_column_stride``
out : pointer to float64, shape (programs, n_sums(K, CURVATURE))
n : number of rows
SURVEY, CURVATURE, WRITE : whether the predictions are checked and summed, the curvature is summed, the rows are written
ROUND : whether the rows are float32
LOGITS : whether the predictions are logits
WEIGHTED : whether rows have weights; otherwise each counts 1
SMOOTH : whether something is added to every probability
UNDERFLOW : whether products may be too small for float64, because the predictions are float64 or logits

Classes of rate 0 have the factor 0 for log loss, and a half shift of -1e30 for the Brier score.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Positions in ``settings`` after the numbers of the classes: what is added to every probability, how far the sum of a
# row may be from 1, what was subtracted from the shift, what rounding may add to the shortfall of a row, and the state
# of the search: 0 as long as it goes on, 1 if only the rows have to be written, 2 if it was given up.
SMOOTHING, TOLERANCE, CENTRE, ROUNDING, FINISHED = 0, 1, 2, 3, 4

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
def _zeros(BLOCK: tl.constexpr, N: tl.constexpr, DTYPE: tl.constexpr):
    """A tuple of N vectors of zeros."""
    found = ()
    for _ in tl.static_range(N):
        found = found + (tl.zeros([BLOCK], DTYPE),)
    return found


@triton.jit
def _n_tiles(settings, n, K: tl.constexpr, BLOCK: tl.constexpr, WRITE: tl.constexpr):
    """How many tiles the rows have; 0 for a pass that is to be skipped."""
    most: tl.constexpr = 1.0 if WRITE else 0.0
    return tl.where(tl.load(settings + K + 4) <= most, tl.cdiv(n, BLOCK), 0)


@triton.jit
def _read(raw, row, inside, row_stride, column_stride, K: tl.constexpr, LOGITS: tl.constexpr):
    """The entries of rows as they are, or the exponentials of logits; and whether they are valid up to their sum."""
    x = ()
    for j in tl.static_range(K):
        other = 0.0 if LOGITS else 1.0 / K
        x = x + (tl.load(raw + row * row_stride + j * column_stride, mask=inside, other=other),)
    if LOGITS:
        top = x[0].to(tl.float64)
        for j in tl.static_range(1, K):
            top = tl.maximum(top, x[j].to(tl.float64))
        valid = inside | (row >= 0)
        e = ()
        for j in tl.static_range(K):
            logit = x[j].to(tl.float64)
            v = tl.exp(logit - top)
            # A finite logit is not a hard zero, however small its probability. Such rows need logarithms.
            valid = valid & ((v > _SMALL) | (logit == float("-inf")))
            e = e + (v,)
        x = e
    else:
        # In the dtype of the predictions: comparisons in float32 take half as long as in float64. NaN shows in the sum.
        lowest = x[0]
        for j in tl.static_range(1, K):
            lowest = tl.minimum(lowest, x[j])
        valid = lowest >= 0.0
    return x, valid


@triton.jit
def _predictions(
    raw, settings, row, inside, row_stride, column_stride, K: tl.constexpr, LOGITS: tl.constexpr, SMOOTH: tl.constexpr
):  # fmt: skip
    """Rows before they are divided by their sums, these sums, and whether each row is a valid prediction.

    Smoothed rows are divided already.
    """
    x, valid = _read(raw, row, inside, row_stride, column_stride, K, LOGITS)
    total = x[0].to(tl.float64)
    for j in tl.static_range(1, K):
        total += x[j].to(tl.float64)
    if not LOGITS:
        valid = valid & (tl.abs(total - 1.0) <= tl.load(settings + K + 1))
    valid = valid & (total > _SMALL) & (total < _LARGE)  # NaN and infinite entries show here
    if SMOOTH:
        smoothing = tl.load(settings + K + 0)
        scale = 1.0 / (1.0 + K * smoothing)
        p = ()
        for j in tl.static_range(K):
            p = p + (x[j].to(tl.float64) * (scale / total) + smoothing * scale,)
        x, total = p, 0.0 * total + 1.0
    return x, total, valid


@triton.jit
def _lowest(x, inside, K: tl.constexpr):
    """The smallest positive entry of each row, and its number of hard zeros."""
    lowest = tl.where(x[0] > 0.0, x[0], 2.0)
    zeros = (x[0] == 0.0).to(tl.int32)
    for j in tl.static_range(1, K):
        lowest = tl.where(x[j] > 0.0, tl.minimum(lowest, x[j]), lowest)
        zeros += (x[j] == 0.0).to(tl.int32)
    return lowest, tl.where(inside, zeros, 0).to(tl.float64)


@triton.jit
def _scaled(x, factor, K: tl.constexpr):
    """Rows times a factor for each of them."""
    found = ()
    for j in tl.static_range(K):
        found = found + (x[j].to(tl.float64) * factor,)
    return found


@triton.jit
def _added(sums, w, values, N: tl.constexpr, WEIGHTED: tl.constexpr):
    """Sums of vectors, with those of more rows added. Without weights, rows outside have to be 0."""
    found = ()
    for j in tl.static_range(N):
        found = found + (sums[j] + w * values[j] if WEIGHTED else sums[j] + values[j],)
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
            tl.store(line + 8 + 3 * K + j, tl.sum(edges[j].to(tl.float64)))


@triton.jit
def _rounded_log_rows(a, log_z, centre, K: tl.constexpr):
    """Rows in float32, and what rounding adds to divergence and shortfall; see ``kernels.log.round_log_tile``."""
    # Seven digits of the errors are enough, and a division in float64 would take longer than the rest of the entry. The
    # logarithm of r / v is at least its relative error e, and larger by at most e^2, which is below 1e-14.
    excess = (0.0 * log_z).to(tl.float32)
    gain, least = excess, excess + 1.0
    b, stored = (), ()
    for j in tl.static_range(K):
        v = a[j]
        r, short = _to_float32(v)
        error = (r - v).to(tl.float32)
        normal = short >= _TINY32
        excess += error
        gain += tl.where(normal, error, 0.0)
        e = tl.where(normal, error, 0.0) / tl.maximum(short, _TINY32)
        least = tl.where(short > 0.0, tl.minimum(least, e), least)
        b, stored = b + (r,), stored + (short,)
    excess, gain, least = excess.to(tl.float64), gain.to(tl.float64), least.to(tl.float64)
    added = gain - excess * (log_z + centre + 1.0)
    missing = tl.maximum(added - least + tl.maximum(excess, 0.0), 0.0)
    return b, stored, added, missing


@triton.jit(do_not_specialize=_GENERAL)
def log_pass(
    raw, weights, settings, rows, out, n, row_stride, column_stride, out_row_stride, out_column_stride,
    K: tl.constexpr, BLOCK: tl.constexpr, SURVEY: tl.constexpr, CURVATURE: tl.constexpr, WRITE: tl.constexpr,
    ROUND: tl.constexpr, LOGITS: tl.constexpr, WEIGHTED: tl.constexpr, SMOOTH: tl.constexpr, UNDERFLOW: tl.constexpr,
):  # fmt: skip
    """One pass for log loss, where ``a_j = p_j exp(shift_j) / z``. The sum of a row cancels in this formula."""
    lanes = tl.arange(0, BLOCK).to(tl.int64)
    zero = tl.zeros([BLOCK], tl.float64)
    value, size, zeros, ceiling, moved, short, invalid = zero, zero, zero, zero, zero, zero, zero
    mean = _zeros(BLOCK, K, tl.float64)
    before = _zeros(BLOCK, K if SURVEY else 1, tl.float64)
    rounded = _zeros(BLOCK, K if WRITE and ROUND else 1, tl.float64)
    edges = _zeros(BLOCK, K * (K - 1) // 2 if CURVATURE else 1, tl.float32)
    centre = tl.load(settings + K + 2)
    for tile in range(tl.program_id(0), _n_tiles(settings, n, K, BLOCK, WRITE), tl.num_programs(0)):
        row = tile * BLOCK + lanes
        inside = row < n
        x, total, valid = _predictions(raw, settings, row, inside, row_stride, column_stride, K, LOGITS, SMOOTH)
        w = tl.load(weights + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0).to(tl.float64)
        y = ()
        z = 0.0 * total
        for j in tl.static_range(K):
            y = y + (x[j].to(tl.float64) * tl.load(settings + j),)
            z += y[j]
        valid = valid & (z * total > _SMALL) & (z * total < _LARGE)
        both = tl.where(inside, 1.0 / (z * total), 0.0)  # One division gives the inverses of both.
        share = tl.where(valid & inside, z * z * both, 1.0)
        log_z = tl.log(share)
        value += w * (log_z + centre)
        size += w * tl.abs(log_z + centre)
        if SURVEY:
            lowest, n_zeros = _lowest(x, inside, K)
            before = _added(before, w, _scaled(x, z * both, K), K, WEIGHTED)
            zeros += n_zeros
            ceiling += w * -tl.log(tl.where(inside, lowest.to(tl.float64) * (z * both), 1.0))
        inverse = total * both
        a = ()
        for j in tl.static_range(K):
            v = y[j] * inverse
            if WRITE and UNDERFLOW:
                least = tl.maximum(1.0 / share, 1.0) * _TINY
                small = (x[j] > 0.0) & (v < tl.where(tl.load(settings + j) > 0.0, least, 0.0))
                valid = valid & (~small | (share >= 1.0))
                v = tl.where(small, _TINY, v)
            a = a + (v,)
        mean = _added(mean, w, a, K, WEIGHTED)
        if CURVATURE:
            # Float32 is enough: a step then removes all but 1e-7 of the error, and the next pass measures what is left.
            short_a = ()
            for j in tl.static_range(K):
                short_a = short_a + (a[j].to(tl.float32),)
            edges = _with_edges(edges, w.to(tl.float32), short_a, K)
        if WRITE:
            stored = a
            if ROUND:
                a, stored, added, missing = _rounded_log_rows(a, log_z, centre, K)
                moved += w * added
                short += w * missing
                rounded = _added(rounded, w, a, K, WEIGHTED)
            _store_rows(rows, stored, row, inside, out_row_stride, out_column_stride, K)
        invalid += tl.where(valid, 0.0, 1.0)
    if not SURVEY:
        before = _zeros(BLOCK, K, tl.float64)
    if not (WRITE and ROUND):
        rounded = _zeros(BLOCK, K, tl.float64)
    _store_sums(
        out, value, size, zero, zeros, ceiling, moved, short, invalid, before, mean, rounded, edges, K, CURVATURE
    )


@triton.jit
def _excess(x, theta, K: tl.constexpr):
    """``max(x + theta, 0)``, its sum minus 1, and the number of positive entries."""
    above = (tl.maximum(x[0] + theta, 0.0),)
    total = above[0] - 1.0
    count = (x[0] + theta > 0.0).to(tl.int32)
    for j in tl.static_range(1, K):
        v = x[j] + theta
        above = above + (tl.maximum(v, 0.0),)
        total += above[j]
        count += (v > 0.0).to(tl.int32)
    return above, total, tl.maximum(count, 1)


@triton.jit
def _first_theta(x, K: tl.constexpr):
    """``theta`` for the support that a search in float32 finds. Such arithmetic takes half as long as in float64."""
    near = ()
    top = x[0].to(tl.float32)
    for j in tl.static_range(1, K):
        top = tl.maximum(top, x[j].to(tl.float32))
    total = 0.0 * top
    for j in tl.static_range(K):
        near = near + (tl.maximum(x[j].to(tl.float32) - top, -1e30),)
        total += near[j]
    # Newton's method, in all lanes at the same time. Both starts are at least the solution; see ``losses.projection``.
    t = tl.minimum((1.0 - total) / K, 1.0)
    for _ in tl.static_range(2):  # which some lane almost always needs; asking whether one does takes time
        _, error, count = _excess(near, t, K)
        t -= error / count.to(tl.float32)
    moving, rounds = 1, 0
    while (moving > 0) & (rounds <= K):
        _, error, count = _excess(near, t, K)
        step = error / count.to(tl.float32)
        t -= step
        moving = tl.max((step > 1e-6).to(tl.int32), axis=0)
        rounds += 1
    positive = near[0] + t > 0.0
    inside, count = tl.where(positive, x[0], 0.0), positive.to(tl.int32)
    for j in tl.static_range(1, K):
        positive = near[j] + t > 0.0
        inside += tl.where(positive, x[j], 0.0)
        count += positive.to(tl.int32)
    return (1.0 - inside) / tl.maximum(count, 1).to(tl.float64)


@triton.jit
def _onto_simplex(x, K: tl.constexpr):
    """``max(x + theta, 0)`` with a sum of 1, ``theta``, the error of this sum, and the size of the support."""
    theta = _first_theta(x, K)
    # This is exact, unless float32 found another support. From any start, all but the first step go down.
    above, error, count = _excess(x, theta, K)
    moving, rounds = _is_large(error, count, theta), 0
    while (moving > 0) & (rounds <= K):
        theta -= error / count.to(tl.float64)
        above, error, count = _excess(x, theta, K)
        moving = _is_large(error, count, theta)
        rounds += 1
    return above, theta, error, count


@triton.jit
def _is_large(error, count, theta):
    """Whether the error of a sum is more than rounding in some lane."""
    return tl.max((tl.abs(error) > 4e-16 * count * tl.maximum(1.0, tl.abs(theta))).to(tl.int32), axis=0)


@triton.jit(do_not_specialize=_GENERAL)
def brier_pass(
    raw, weights, settings, rows, out, n, row_stride, column_stride, out_row_stride, out_column_stride,
    K: tl.constexpr, BLOCK: tl.constexpr, SURVEY: tl.constexpr, CURVATURE: tl.constexpr, WRITE: tl.constexpr,
    ROUND: tl.constexpr, LOGITS: tl.constexpr, WEIGHTED: tl.constexpr, SMOOTH: tl.constexpr, UNDERFLOW: tl.constexpr,
    COMMON: tl.constexpr,
):  # fmt: skip
    """One pass for the Brier score, where ``a = max(p + shift / 2 + theta, 0)``.

    COMMON : a common multiple of 1 to K, the sizes that a support may have
    """
    lanes = tl.arange(0, BLOCK).to(tl.int64)
    zero = tl.zeros([BLOCK], tl.float64)
    value, size, offset, ceiling, moved, short, invalid = zero, zero, zero, zero, zero, zero, zero
    mean = _zeros(BLOCK, K, tl.float64)
    before = _zeros(BLOCK, K if SURVEY else 1, tl.float64)
    rounded = _zeros(BLOCK, K if WRITE and ROUND else 1, tl.float64)
    # Float32 is faster, and without weights exact: multiples of a common one are summed, as whole numbers.
    precision: tl.constexpr = tl.float64 if WEIGHTED else tl.float32
    edges = _zeros(BLOCK, K * (K - 1) // 2 if CURVATURE else 1, precision)
    for tile in range(tl.program_id(0), _n_tiles(settings, n, K, BLOCK, WRITE), tl.num_programs(0)):
        row = tile * BLOCK + lanes
        inside = row < n
        x, total, valid = _predictions(raw, settings, row, inside, row_stride, column_stride, K, LOGITS, SMOOTH)
        w = tl.load(weights + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0).to(tl.float64)
        inverse = 1.0 / total
        p = _scaled(x, inverse, K)
        if SURVEY:
            squares, lowest = p[0] * p[0], x[0]
            for j in tl.static_range(1, K):
                squares += p[j] * p[j]
                lowest = tl.minimum(lowest, x[j])
            before = _added(before, w, p, K, True)
            offset += w * squares
            ceiling += w * (1.0 - 2.0 * lowest.to(tl.float64) / total + squares)
        x = ()
        for j in tl.static_range(K):
            x = x + (p[j] + tl.load(settings + j),)
        above, theta, error, count = _onto_simplex(x, K)
        valid = valid & (tl.abs(error) < 0.5)  # otherwise the predictions are lost to rounding
        a = _scaled(above, tl.where(inside, 1.0 / tl.where(valid, 1.0 + error, 1.0), 0.0), K)
        conjugate = 0.0 * theta
        for j in tl.static_range(K):
            conjugate += a[j] * (2.0 * x[j] - a[j])  # <x, a> - |a|^2
        value += w * conjugate
        size += w * tl.abs(conjugate)
        mean = _added(mean, w, a, K, WEIGHTED)
        if CURVATURE:
            # The dual function is piecewise quadratic, so the last step is exact if its curvature is.
            positive = ()
            for j in tl.static_range(K):
                positive = positive + (tl.where(above[j] > 0.0, 1.0, 0.0).to(precision),)
            if WEIGHTED:
                share = w * COMMON / count.to(tl.float64)
            else:
                share = tl.where(inside, tl.floor(COMMON / count.to(tl.float32) + 0.5), 0.0)
            edges = _with_edges(edges, share, positive, K)
        if WRITE:
            stored = a
            if ROUND:
                b, stored = (), ()
                for j in tl.static_range(K):
                    r, v = _to_float32(a[j])
                    b, stored = b + (r,), stored + (v,)
                a = b
                rounded = _added(rounded, w, a, K, WEIGHTED)
            _store_rows(rows, stored, row, inside, out_row_stride, out_column_stride, K)
            fall = 0.0 * theta  # half the mean of r_j - shift_j, up to a constant of the row
            least = _HUGE + 0.0 * theta
            distance = 0.0 * theta
            for j in tl.static_range(K):
                one = a[j] - x[j]
                fall += a[j] * one
                least = tl.minimum(least, one)
                distance += (p[j] - a[j]) * (p[j] - a[j])
            moved += w * distance
            short += w * tl.maximum(2.0 * (fall - least) - tl.load(settings + K + 3), 0.0)
        invalid += tl.where(valid, 0.0, 1.0)
    if not SURVEY:
        before = _zeros(BLOCK, K, tl.float64)
    if not (WRITE and ROUND):
        rounded = _zeros(BLOCK, K, tl.float64)
    if CURVATURE:
        edges = _scaled(edges, 0.5 / COMMON, K * (K - 1) // 2)
    _store_sums(
        out, value, size, offset, zero, ceiling, moved, short, invalid, before, mean, rounded, edges, K, CURVATURE
    )
