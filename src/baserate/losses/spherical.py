"""The spherical score."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from baserate.losses.base import REAL, Loss, as_pair
from baserate.losses.registry import register
from baserate.support.arrays import FloatArray


@register
class Spherical(Loss):
    """Spherical loss: ``1 - p_y / |p|``, from ``phi(q) = |q|`` (the Euclidean norm).

    Only the direction of a prediction counts. The norm is not strictly convex along rays, but it is on the
    plane ``sum(q) = 1``, which no ray stays in.

    Examples
    --------
    >>> import baserate as br
    >>> round(br.losses.Spherical().score([[0.6, 0.4]], [0]), 6)
    0.16795
    """

    name = "spherical"
    domain = REAL
    builtin = True

    def phi(self, q: FloatArray) -> FloatArray:
        return np.sqrt(np.einsum("ij,ij->i", q, q))

    def gradient(self, q: FloatArray) -> FloatArray:
        return q / self.phi(q)[:, None]

    def row_map(self, x: FloatArray, *, bounded: bool = True) -> FloatArray:
        # a is proportional to u = x + theta (cut at 0) with |u| = 1.
        u = _unit_cut(x) if bounded else _unit_shift(x)
        return u / u.sum(axis=1, keepdims=True)

    def jacobian(self, a: FloatArray, weights: FloatArray, *, bounded: bool = True) -> FloatArray:
        # With s the support, m its size and u = a/|a|:  J = |a| (diag(s) - s a' - a s' + m a a').
        support = (a > 0).astype(np.float64) if bounded else np.ones_like(a)
        scale = weights * self.phi(a)
        cross = (support.T * scale) @ a
        return np.diag(scale @ support) - cross - cross.T + (a.T * (scale * support.sum(axis=1))) @ a

    def divergence(self, p: ArrayLike, q: ArrayLike) -> FloatArray:
        # |q| - <q, p>/|p| written as a square, which cannot cancel.
        p, q = as_pair(p, q)
        angle = self.gradient(q) - self.gradient(p)
        return 0.5 * self.phi(q) * np.einsum("ij,ij->i", angle, angle)


def _unit_shift(x: FloatArray) -> FloatArray:
    """``x + theta`` of norm 1 and positive sum; NaN in a row whose spread is too large to have one."""
    k = x.shape[1]
    centred = x - x.mean(axis=1, keepdims=True)
    room = (1.0 - np.einsum("ij,ij->i", centred, centred)) / k
    theta = np.sqrt(room, where=room > 0, out=np.full_like(room, np.nan))
    return centred + theta[:, None]


def _unit_cut(x: FloatArray) -> FloatArray:
    """``max(0, x + theta)`` of norm 1."""
    x = x - x.max(axis=1, keepdims=True)
    # theta lies between 0, where only the largest entry is left and is 0, and 1, where that entry alone is 1.
    # sum(max(0, x + theta)^2) is convex and rising there, so Newton from the right end falls monotonically.
    theta = np.ones((len(x), 1))
    for _ in range(100):
        u = np.maximum(x + theta, 0.0)
        excess = np.einsum("ij,ij->i", u, u)[:, None] - 1.0
        step = excess / (2.0 * u.sum(axis=1, keepdims=True))
        theta -= step
        if (np.abs(step) <= 4e-16).all():
            break
    return np.maximum(x + theta, 0.0)
