"""Products of the curvature with a vector on a GPU, in Triton, for problems with many classes.

No matrix is computed. The tiles are those of ``baserate.passes.triton_wide``, and so are the arguments, with two
exceptions: after the settings there are the numbers of the vector, and a line of ``out`` has the K numbers of the
product and then the number of rows that the kernel cannot compute.
"""

from __future__ import annotations

import triton
import triton.language as tl

from baserate.passes.triton_kernels import _GENERAL, _HUGE, _LARGE, _SMALL
from baserate.passes.triton_wide import _is_on_simplex, _onto_simplex, _predictions


@triton.jit
def _store_product(out, column, product, invalid, K: tl.constexpr):
    """Add up the rows, and write a line."""
    line = out + tl.program_id(0).to(tl.int64) * (K + 1)
    tl.store(line + column, product, mask=column < K)
    tl.store(line + K, tl.sum(invalid))


@triton.jit(do_not_specialize=_GENERAL)
def log_product(
    raw, weights, settings, out, n, row_stride, column_stride,
    K: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, LOGITS: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """For log loss: the sum of ``a * (vector - <a, vector>)`` over the adjusted rows ``a``."""
    column = tl.arange(0, COLUMNS).to(tl.int64)
    product, invalid = tl.zeros([COLUMNS], tl.float64), tl.zeros([ROWS], tl.float64)
    factor = tl.load(settings + column, mask=column < K, other=0.0)
    vector = tl.load(settings + K + 5 + column, mask=column < K, other=0.0)
    for tile in range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0)):
        row = tile * ROWS + tl.arange(0, ROWS).to(tl.int64)
        inside = row < n
        p, valid = _predictions(raw, settings, row, inside, column, row_stride, column_stride, K, LOGITS)
        w = tl.load(weights + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0).to(tl.float64)
        b = p * factor[None, :]
        z = tl.sum(b, axis=1)
        valid = valid & ((z > _SMALL) & (z < _LARGE) | ~inside)
        inverse = 1.0 / tl.where(valid & inside, z, 1.0)
        mean = tl.sum(b * vector[None, :], axis=1) * inverse
        product += tl.sum((w * inverse)[:, None] * b * (vector[None, :] - mean[:, None]), axis=0)
        invalid += tl.where(valid, 0.0, 1.0)
    _store_product(out, column, product, invalid, K)


@triton.jit(do_not_specialize=_GENERAL)
def brier_product(
    raw, weights, settings, out, n, row_stride, column_stride,
    K: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr, LOGITS: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """For the Brier score: half the sum of ``vector`` minus its mean over the support of a row, on that support."""
    column = tl.arange(0, COLUMNS).to(tl.int64)
    product, invalid = tl.zeros([COLUMNS], tl.float64), tl.zeros([ROWS], tl.float64)
    half = tl.load(settings + column, mask=column < K, other=-_HUGE)
    vector = tl.load(settings + K + 5 + column, mask=column < K, other=0.0)
    for tile in range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0)):
        row = tile * ROWS + tl.arange(0, ROWS).to(tl.int64)
        inside = row < n
        p, valid = _predictions(raw, settings, row, inside, column, row_stride, column_stride, K, LOGITS)
        w = tl.load(weights + row, mask=inside, other=0.0) if WEIGHTED else tl.where(inside, 1.0, 0.0).to(tl.float64)
        x = p + half[None, :]
        theta, error, count = _onto_simplex(x, column, K)
        valid = valid & _is_on_simplex(theta, error, inside, K)
        of_support = tl.where(x + theta[:, None] > 0.0, vector[None, :], 0.0)
        mean = tl.sum(of_support, axis=1) / count
        centred = tl.where(x + theta[:, None] > 0.0, vector[None, :] - mean[:, None], 0.0)
        product += tl.sum((0.5 * w)[:, None] * centred, axis=0)
        invalid += tl.where(valid, 0.0, 1.0)
    _store_product(out, column, product, invalid, K)
