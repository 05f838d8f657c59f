"""The ranked probability score, for ordered classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.losses.base import REAL, Loss, as_pair, laplacians
from baserate.losses.registry import register
from baserate.support.arrays import FloatArray, IndexArray

_ROWS_AT_ONCE = 256  # Rows per isotonic regression; more would be less precise, see _isotonic.


@register
class RankedProbability(Loss):
    """Ranked probability score for ordered classes: ``sum_t (P_t - Y_t)^2`` over cumulative probabilities.

    An error of one class costs less than an error of three classes. It is the :class:`Quadratic` loss with the matrix
    :meth:`matrix`, and is solved by isotonic regression of the cumulative probabilities. Some authors divide the sum by
    k - 1; this class does not.

    Examples
    --------
    >>> import baserate as br
    >>> ranked = br.losses.RankedProbability()
    >>> ranked.score([[0, 1, 0, 0]], [0]), ranked.score([[0, 0, 0, 1]], [0])
    (1.0, 3.0)
    """

    name = "ranked"
    domain = REAL
    builtin = True

    def __init__(self) -> None:
        # Number of thresholds between neighbouring classes: 1, unless on_face dropped classes between them.
        self._steps: FloatArray | None = None

    @staticmethod
    def matrix(n_classes: int) -> FloatArray:
        """The matrix M with which the score is ``(p - y)' M (p - y)``."""
        cumulate = np.tri(n_classes)[:-1]
        return cumulate.T @ cumulate

    def phi(self, q: FloatArray) -> FloatArray:
        return np.square(np.cumsum(q, axis=1)[:, :-1]) @ self._thresholds(q)

    def gradient(self, q: FloatArray) -> FloatArray:
        weighted = 2.0 * np.cumsum(q, axis=1)[:, :-1] * self._thresholds(q)
        out = np.zeros_like(q)
        out[:, :-1] = np.cumsum(weighted[:, ::-1], axis=1)[:, ::-1]
        return out

    def row_map(self, x: FloatArray, *, bounded: bool = True) -> FloatArray:
        steps = self._thresholds(x)
        cumulative = (x[:, :-1] - x[:, 1:]) / (2.0 * steps)
        if bounded:
            cumulative = np.clip(_isotonic(cumulative, steps), 0.0, 1.0)
        return np.diff(cumulative, axis=1, prepend=0.0, append=1.0)

    def jacobian(self, a: FloatArray, weights: FloatArray, *, bounded: bool = True) -> FloatArray:
        return self.jacobians(a, weights, np.zeros(1, dtype=np.intp), bounded=bounded)[0]

    def jacobians(self, a: FloatArray, weights: FloatArray, starts: IndexArray, *, bounded: bool = True) -> FloatArray:
        # Probability moves only between neighbouring classes of the support, so the Jacobian is a graph Laplacian.
        k, n_cells = a.shape[1], len(starts)
        position = np.concatenate([[0.0], np.cumsum(self._thresholds(a))])
        rows, classes = np.nonzero(a > 0 if bounded else np.ones(a.shape, dtype=np.bool_))
        same = rows[1:] == rows[:-1]
        left, right, row = classes[:-1][same], classes[1:][same], rows[1:][same]
        flow = 0.5 * weights[row] / (position[right] - position[left])
        edges = np.zeros((n_cells, k, k))
        np.add.at(edges, (np.searchsorted(starts, row, side="right") - 1, left, right), flow)
        return laplacians(edges + edges.transpose(0, 2, 1))

    def divergence(self, p: ArrayLike, q: ArrayLike) -> FloatArray:
        p, q = as_pair(p, q)
        return self.phi(q - p)

    def on_face(self, keep: NDArray[np.intp], n_classes: int) -> Loss:
        face = RankedProbability()
        position = np.concatenate([[0.0], np.cumsum(self._thresholds(np.empty((0, n_classes))))])
        face._steps = np.diff(position[keep])
        return face

    def thresholds(self, n_classes: int) -> FloatArray:
        """Number of thresholds between each pair of neighbouring classes."""
        return np.ones(n_classes - 1) if self._steps is None else self._steps

    def _thresholds(self, q: FloatArray) -> FloatArray:
        return self.thresholds(q.shape[1])


def _isotonic(z: FloatArray, weights: FloatArray) -> FloatArray:
    """The nearest non-decreasing row for each row of ``z``, in the norm with these weights.

    Rows are concatenated, each raised above the row before, so that one regression finds the blocks of equal values in
    all of them. Raising the rows rounds their values but does not change the blocks; the values are recomputed from the
    original rows.
    """
    from scipy.optimize import isotonic_regression

    out = np.empty_like(z)
    raise_by = 1.0 + z.max() - z.min()
    for start in range(0, len(z), _ROWS_AT_ONCE):
        part = z[start : start + _ROWS_AT_ONCE]
        stacked = (part + raise_by * np.arange(len(part))[:, None]).ravel()
        w = np.tile(weights, len(part))
        blocks = isotonic_regression(stacked, weights=w).blocks[:-1]
        means = np.add.reduceat(part.ravel() * w, blocks) / np.add.reduceat(w, blocks)
        sizes = np.diff(blocks, append=stacked.size)
        out[start : start + _ROWS_AT_ONCE] = np.repeat(means, sizes).reshape(part.shape)
    return np.maximum.accumulate(out, axis=1)
