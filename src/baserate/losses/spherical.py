"""The spherical score."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from baserate.losses.base import REAL, Loss, as_pair, outer_by_cell
from baserate.losses.registry import register
from baserate.support.arrays import FloatArray, IndexArray


@register
class Spherical(Loss):
    """Spherical loss: ``1 - p_y / |p|``, from ``phi(q) = |q|`` (the Euclidean norm).

    It depends only on the direction of a prediction. The norm is linear along rays from 0, but strictly convex on the
    plane ``sum(q) = 1``, which contains no such ray.

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
        # a is proportional to u = max(0, x + theta), or u = x + theta if not bounded, with |u| = 1.
        u = _clipped_unit_vector(x) if bounded else _unit_vector(x)
        return u / u.sum(axis=1, keepdims=True)

    def jacobian(self, a: FloatArray, weights: FloatArray, *, bounded: bool = True) -> FloatArray:
        # J = |a| (diag(s) - s a' - a s' + m a a'), where s is the indicator of the support and m its size.
        support = (a > 0).astype(np.float64) if bounded else np.ones_like(a)
        scale = weights * self.phi(a)
        cross = (support.T * scale) @ a
        return np.diag(scale @ support) - cross - cross.T + (a.T * (scale * support.sum(axis=1))) @ a

    def jacobians(self, a: FloatArray, weights: FloatArray, starts: IndexArray, *, bounded: bool = True) -> FloatArray:
        support = (a > 0).astype(np.float64) if bounded else np.ones_like(a)
        scale = weights * self.phi(a)
        cross = outer_by_cell(support, a, scale, starts)
        out = outer_by_cell(a, a, scale * support.sum(axis=1), starts) - cross - cross.transpose(0, 2, 1)
        at = np.arange(a.shape[1])
        out[:, at, at] += np.add.reduceat(support * scale[:, None], starts, axis=0)
        return out

    def divergence(self, p: ArrayLike, q: ArrayLike) -> FloatArray:
        # |q| - <q, p>/|p| as a square, because the difference would lose digits by cancellation.
        p, q = as_pair(p, q)
        angle = self.gradient(q) - self.gradient(p)
        return 0.5 * self.phi(q) * np.einsum("ij,ij->i", angle, angle)


def _unit_vector(x: FloatArray) -> FloatArray:
    """``x + theta`` with norm 1 and positive sum; NaN in rows for which no such theta exists."""
    k = x.shape[1]
    centred = x - x.mean(axis=1, keepdims=True)
    theta_squared = (1.0 - np.einsum("ij,ij->i", centred, centred)) / k
    theta = np.sqrt(theta_squared, where=theta_squared > 0, out=np.full_like(theta_squared, np.nan))
    return centred + theta[:, None]


def _clipped_unit_vector(x: FloatArray) -> FloatArray:
    """``max(0, x + theta)`` with norm 1."""
    x = x - x.max(axis=1, keepdims=True)
    # The largest entry of x is now 0, so the norm is 0 at theta = 0 and at least 1 at theta = 1. Between them
    # sum(max(0, x + theta)^2) is convex and increasing, so Newton's method from theta = 1 decreases monotonically.
    theta = np.ones((len(x), 1))
    for _ in range(100):
        u = np.maximum(x + theta, 0.0)
        excess = np.einsum("ij,ij->i", u, u)[:, None] - 1.0
        step = excess / (2.0 * u.sum(axis=1, keepdims=True))
        theta -= step
        if (np.abs(step) <= 4e-16).all():
            break
    return np.maximum(x + theta, 0.0)
