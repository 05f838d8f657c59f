"""Euclidean projection onto the simplex, many rows at a time."""

from __future__ import annotations

import numpy as np

from baserate.arrays import FloatArray


def onto_simplex(z: FloatArray, spread: FloatArray | None = None) -> FloatArray:
    """The point ``a_j = max(0, z_j + theta * spread_j)`` of each row whose sum is 1.

    With equal ``spread`` this is the nearest point of the simplex; in general it is the nearest in the norm
    ``sum_j (a_j - z_j)^2 / spread_j``.

    Notes
    -----
    Michelot's iteration: solve for ``theta`` on the present support, drop what became negative, repeat.
    ``theta`` only falls, so at most k rounds are needed, and 3 to 5 are usual.
    """
    spread = np.ones(z.shape[1]) if spread is None else spread
    # Relative to the largest entry, so that a common constant costs no digits of the differences.
    z = z - (z / spread).max(axis=1, keepdims=True) * spread
    support = np.ones(z.shape, dtype=np.bool_)
    while True:
        theta = (1.0 - (z * support).sum(axis=1)) / (support @ spread)
        a = z + theta[:, None] * spread
        left = support & (a > 0)
        if np.array_equal(left, support):
            a = np.where(support, a, 0.0)
            return a / a.sum(axis=1, keepdims=True)
        support = left
