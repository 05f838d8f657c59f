"""The Brier score in its multi-class form."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from baserate.losses.base import REAL, Loss, as_pair, centred_outer, centred_outer_by_cell
from baserate.losses.projection import onto_simplex
from baserate.losses.registry import register
from baserate.support.arrays import FloatArray, IndexArray


@register
class Brier(Loss):
    """Brier score: ``sum_j (p_j - y_j)^2``, between 0 and 2, from ``phi(q) = sum q^2``.

    scikit-learn's binary Brier score is half of this. Unbounded adjustment adds the same vector to every row (additive
    adjustment). Bounded adjustment also projects the rows onto the simplex.

    Examples
    --------
    >>> import baserate as br
    >>> br.losses.Brier().score([[0.5, 0.5], [1.0, 0.0]], [0, 1])
    1.25
    """

    name = "brier"
    domain = REAL
    builtin = True
    kernel = "brier"

    def phi(self, q: FloatArray) -> FloatArray:
        return np.einsum("ij,ij->i", q, q)

    def gradient(self, q: FloatArray) -> FloatArray:
        return 2.0 * q

    def stiffness(self, q: FloatArray) -> FloatArray:
        return np.full_like(q, 2.0)

    def row_map(self, x: FloatArray, *, bounded: bool = True) -> FloatArray:
        if bounded:
            return onto_simplex(0.5 * x)
        return 0.5 * x + (1.0 - 0.5 * x.sum(axis=1, keepdims=True)) / x.shape[1]

    def jacobian(self, a: FloatArray, weights: FloatArray, *, bounded: bool = True) -> FloatArray:
        return centred_outer(self.slopes(a, bounded=bounded), weights)

    def jacobians(self, a: FloatArray, weights: FloatArray, starts: IndexArray, *, bounded: bool = True) -> FloatArray:
        return centred_outer_by_cell(self.slopes(a, bounded=bounded), weights, starts)

    def slopes(self, a: FloatArray, *, bounded: bool = True) -> FloatArray:
        return np.where(a > 0, 0.5, 0.0) if bounded else np.full_like(a, 0.5)

    def corner_values(self, n_classes: int) -> FloatArray:
        return np.ones(n_classes)

    def divergence(self, p: ArrayLike, q: ArrayLike) -> FloatArray:
        p, q = as_pair(p, q)
        return self.phi(q - p)
