"""Log loss (cross-entropy), in nats."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from baserate.losses.base import Loss, as_pair, laplacian, laplacians, outer_by_cell
from baserate.losses.registry import register
from baserate.support.arrays import FloatArray, IndexArray


@register
class Log(Loss):
    """Log loss: ``-log p_y`` for the true class ``y``, from ``phi(q) = sum q log q``.

    A shift multiplies the odds. Positive probabilities stay positive, and probabilities of 0 stay 0. Bounded and
    unbounded adjustment are the same. Other names are multiplicative adjustment, logit shift, raking or Sinkhorn
    scaling.

    Examples
    --------
    >>> import baserate as br
    >>> round(br.losses.Log().score([[0.5, 0.5], [0.9, 0.1]], [0, 1]), 6)
    1.497866
    """

    name = "log"
    pins_zeros = True
    builtin = True
    kernel = "log"

    def phi(self, q: FloatArray) -> FloatArray:
        return np.multiply(q, np.log(q, where=q > 0, out=np.zeros_like(q))).sum(axis=1)

    def gradient(self, q: FloatArray) -> FloatArray:
        return self.link(q) + 1.0

    def link(self, p: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(p)

    def cost_of_sum(self, p: FloatArray, a: FloatArray) -> FloatArray:
        # By the general formula the loss is ``-log a_y + s - 1``, but most libraries compute ``-log a_y``. With this
        # cost a guarantee holds for both.
        return np.maximum(1.0 - a.sum(axis=1), 0.0)

    def stiffness(self, q: FloatArray) -> FloatArray:
        return 1.0 / np.maximum(q, np.finfo(np.float64).tiny)

    def link_logits(self, logits: FloatArray) -> FloatArray:
        return logits

    def row_map(self, x: FloatArray, *, bounded: bool = True) -> FloatArray:
        a = np.exp(x - x.max(axis=1, keepdims=True))
        a /= a.sum(axis=1, keepdims=True)
        return a

    def conjugate(self, x: FloatArray, a: FloatArray) -> FloatArray:
        # log(sum(exp(x))) from the largest entry, not from phi(a): entries that exp() rounds to 0 would be lost there.
        return x.max(axis=1) - np.log(a.max(axis=1))

    def jacobian(self, a: FloatArray, weights: FloatArray, *, bounded: bool = True) -> FloatArray:
        return laplacian((a.T * weights) @ a)

    def jacobians(self, a: FloatArray, weights: FloatArray, starts: IndexArray, *, bounded: bool = True) -> FloatArray:
        return laplacians(outer_by_cell(a, a, weights, starts))

    def slopes(self, a: FloatArray, *, bounded: bool = True) -> FloatArray:
        return a

    def corner_values(self, n_classes: int) -> FloatArray:
        return np.zeros(n_classes)

    def divergence(self, p: ArrayLike, q: ArrayLike) -> FloatArray:
        p, q = as_pair(p, q)
        with np.errstate(divide="ignore"):
            ratio = np.log(q, where=q > 0, out=np.zeros_like(q)) - np.log(p, where=q > 0, out=np.zeros_like(q))
        return np.maximum((q * ratio - q + p).sum(axis=1), 0.0)
