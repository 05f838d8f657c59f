"""The curvature for many classes in compiled code: its diagonal, and products with a vector."""

from __future__ import annotations

import math

import numpy as np

from baserate.passes.kernels.compiler import inlined_part
from baserate.passes.kernels.layout import DONE, LARGE, SIZE, SMALL, VALUE
from baserate.passes.kernels.wide import find_theta


@inlined_part
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


def wide_log_diagonal(raw, weights, factor, centre, smoothing, mean, diagonal, sums):
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
        if not (low > SMALL and high < LARGE):
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


def wide_log_product(raw, weights, factor, vector, smoothing, out):
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


def wide_brier_diagonal(raw, weights, half, _, smoothing, mean, diagonal, sums):
    """The same as ``wide_log_diagonal`` for the Brier score."""
    n, k = raw.shape
    a, scale = np.empty(k), 1.0 / (1.0 + k * smoothing)
    for i in range(n):
        total, excess = 0.0, -1.0
        for j in range(k):
            total += raw[i, j]
        for j in range(k):
            a[j] = raw[i, j] * (scale / total) + smoothing * scale + half[j]
            excess += a[j]
        theta, count = find_theta(a, -excess / k)
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


def wide_brier_product(raw, weights, half, vector, smoothing, out):
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
        theta, count = find_theta(a, -excess / k)
        mean = 0.0
        for j in range(k):
            a[j] = 1.0 if a[j] + theta > 0.0 else 0.0  # the support, from here on
            mean += vector[j] * a[j]
        mean /= count
        for j in range(k):
            out[j] += 0.5 * weights[i] * (vector[j] - mean) * a[j]
