"""Euclidean projection of many rows onto the simplex."""

from __future__ import annotations

import numpy as np

from baserate.support.arrays import FloatArray


def onto_simplex(z: FloatArray, spread: FloatArray | None = None) -> FloatArray:
    """The rows ``a_j = max(0, z_j + theta * spread_j)`` with sum 1.

    With equal ``spread`` this is the nearest point of the simplex. In general it is the nearest point in the norm
    ``sum_j (a_j - z_j)^2 / spread_j``.

    Notes
    -----
    Newton's method on ``sum_j a_j - 1``, a convex and piecewise linear function of ``theta``. The iterates decrease
    monotonically and only remove classes from the support, so the method ends after at most k rounds; 3 to 5 are usual.
    """
    if spread is None:
        return _onto_simplex(z)
    width = spread
    scaled = z / width
    top = scaled.argmax(axis=1)
    # The largest entry is subtracted, so that a large common constant does not round the differences.
    rows = np.arange(len(z))
    z = z - scaled[rows, top][:, None] * width
    z[rows, top] = 0.0  # not a rounding error below 0
    # Both are at least the solution: theta if no class were clipped, and theta if the largest entry alone were 1. The
    # first one may be huge, and then has too few digits to come back from.
    theta = (1.0 - z.sum(axis=1, keepdims=True)) / spread.sum()
    theta = np.minimum(theta, 1.0 / spread[top][:, None])
    for _ in range(z.shape[1] + 1):
        a = z + theta * width
        np.maximum(a, 0.0, out=a)
        support = a > 0
        slope = (support @ spread)[:, None]
        lower = theta - (a.sum(axis=1, keepdims=True) - 1.0) / slope
        if not (lower < theta - 4e-16).any():
            break
        theta = lower
    # With very different spreads theta has too few digits for the widest. The narrow ones must not pay for that by the
    # division below, since they would move by many times what they may.
    a -= np.where(support, (a.sum(axis=1, keepdims=True) - 1.0) / slope * width, 0.0)
    np.maximum(a, 0.0, out=a)
    a /= a.sum(axis=1, keepdims=True)
    return a


def _onto_simplex(z: FloatArray) -> FloatArray:
    """The same for equal spreads, with fewer operations."""
    z = z - z.max(axis=1, keepdims=True)  # the largest entry is exactly 0
    theta = np.minimum((1.0 - z.sum(axis=1, keepdims=True)) / z.shape[1], 1.0)
    a = np.empty_like(z)
    for _ in range(z.shape[1] + 1):
        np.maximum(z, -theta, out=a)  # not max(z + theta, 0), since NumPy compares with a number half as fast
        a += theta
        total = a.sum(axis=1, keepdims=True)
        step = (total - 1.0) / (a > 0).sum(axis=1, keepdims=True, dtype=np.int32)  # int64 takes twice as long
        if step.max() <= 4e-16:
            break
        theta -= step
    a /= total
    return a
