"""Quadratic losses: any positive definite matrix, and the class-weighted Brier score as the diagonal case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.errors import BadLoss
from baserate.inputs.validation import quoted_name
from baserate.losses.base import MAX_SCALE, REAL, Loss, as_pair
from baserate.losses.projection import onto_simplex
from baserate.losses.registry import register
from baserate.support.arrays import FloatArray, IndexArray, row_patterns

_SLACK = 1e-13  # A multiplier is considered negative below minus this, relative to the size of its terms.


@register
class Quadratic(Loss):
    """Quadratic loss ``(p - y)' M (p - y)``, from ``phi(q) = q' M q``.

    Parameters
    ----------
    matrix : array-like of shape (k, k)
        Symmetric, and positive definite on vectors that sum to 0. Other directions do not affect the loss.

    Notes
    -----
    Unless the matrix is diagonal, each distinct support (the set of classes with positive probability in a row) needs
    its own factorisation. With 50 or more classes this takes seconds, where other losses take milliseconds.

    Examples
    --------
    Confusing classes 0 and 1 costs half as much as any other error:

    >>> import baserate as br
    >>> loss = br.losses.Quadratic([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])
    >>> loss.score([[0, 1, 0]], [0]), loss.score([[0, 0, 1]], [0])
    (1.0, 2.0)
    """

    name = "quadratic"
    domain = REAL
    builtin = True

    def __init__(self, matrix: ArrayLike) -> None:
        self.matrix = _validated(matrix)
        self._diagonal = bool(np.count_nonzero(self.matrix - np.diag(np.diag(self.matrix))) == 0)
        self._diagonal &= bool((np.diag(self.matrix) > 0).all())
        # On the simplex a'Ma equals a'CMCa plus a linear term and a constant, where C is the centring matrix. A
        # multiple of the all-ones matrix adds a constant. With it the matrix is positive definite on all vectors, so
        # that its restriction to any set of classes can be factored. The matrix M alone need not have this property.
        centre = _centre(len(self.matrix))
        self._lifted = centre @ self.matrix @ centre + _lift(self.matrix)
        self._linear = 2.0 * (centre @ self.matrix).mean(axis=1)

    def phi(self, q: FloatArray) -> FloatArray:
        self.check_n_classes(q.shape[1])
        return np.einsum("ij,ij->i", q @ self.matrix, q)

    def gradient(self, q: FloatArray) -> FloatArray:
        self.check_n_classes(q.shape[1])
        return 2.0 * q @ self.matrix

    def row_map(self, x: FloatArray, *, bounded: bool = True) -> FloatArray:
        if bounded and self._diagonal:
            spread = 0.5 / np.diag(self.matrix)
            return onto_simplex(x * spread, spread)
        x = x - self._linear
        if not bounded:
            return self._solve_on_support(x, np.ones(x.shape[1], dtype=np.bool_))[0]
        return self._active_set(x)

    def jacobian(self, a: FloatArray, weights: FloatArray, *, bounded: bool = True) -> FloatArray:
        return self.jacobians(a, weights, np.zeros(1, dtype=np.intp), bounded=bounded)[0]

    def jacobians(self, a: FloatArray, weights: FloatArray, starts: IndexArray, *, bounded: bool = True) -> FloatArray:
        support = a > 0 if bounded else np.ones(a.shape, dtype=np.bool_)
        total, block = np.zeros((len(starts), *self.matrix.shape)), np.empty_like(self.matrix)
        for kept, rows in _by_support(support):
            inverse = np.linalg.inv(self._lifted[np.ix_(kept, kept)])
            margin = inverse.sum(axis=1)
            block[:] = 0.0
            block[np.ix_(kept, kept)] = 0.5 * (inverse - np.outer(margin, margin) / margin.sum())
            cells = np.searchsorted(starts, rows, side="right") - 1
            total += np.bincount(cells, weights[rows], minlength=len(starts))[:, None, None] * block
        return total

    def divergence(self, p: ArrayLike, q: ArrayLike) -> FloatArray:
        p, q = as_pair(p, q)
        return self.phi(q - p)

    def on_face(self, keep: NDArray[np.intp], n_classes: int) -> Loss:
        return Quadratic(self.matrix[np.ix_(keep, keep)])

    def params(self) -> Mapping[str, Any]:
        return {"matrix": self.matrix.tolist()}

    @classmethod
    def examples(cls) -> list[tuple[Loss, int]]:
        root = np.random.default_rng(5).normal(size=(5, 5))
        full = root @ root.T + 0.05 * np.eye(5)
        return [
            (cls(full), 5),
            (cls(full - 1.0), 5),
            (cls(np.diag([1.0, 2.0, 0.5])), 3),
            (cls([[1, 0.3], [0.3, 2]]), 2),
        ]

    def check_n_classes(self, n_classes: int) -> None:
        if n_classes != len(self.matrix):
            raise BadLoss(
                f"this {type(self).__name__} loss has {len(self.matrix)} classes, but the predictions have {n_classes}"
            )

    def _solve_on_support(self, x: FloatArray, kept: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """The best rows that are 0 outside ``kept`` and sum to 1, and the multipliers of the sum."""
        face = self._lifted[np.ix_(kept, kept)]
        solved = np.linalg.solve(face, np.column_stack([x[:, kept].T, np.ones(len(face))]))
        free, ones = 0.5 * solved[:, :-1].T, 0.5 * solved[:, -1]
        theta = (1.0 - free.sum(axis=1)) / ones.sum()
        a = np.zeros_like(x)
        a[:, kept] = free + theta[:, None] * ones
        return a, theta

    def _solve_rows(self, x: FloatArray, support: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """The same for rows with different supports."""
        a, theta = np.empty_like(x), np.empty(len(x))
        for kept, rows in _by_support(support):
            a[rows], theta[rows] = self._solve_on_support(x[rows], kept)
        return a, theta

    def _active_set(self, x: FloatArray) -> FloatArray:
        """Primal active-set method on all rows at once. Rows with the same support share a factorisation.

        First, negative entries are removed from the support until none is left. This gives a feasible point with nearly
        the right support. After that each step lowers the objective, so that no support occurs twice.
        """
        support = np.ones(x.shape, dtype=np.bool_)
        a, theta = self._solve_rows(x, support)
        while (negative := support & (a < 0)).any():
            support &= ~negative
            rows = negative.any(axis=1)
            a[rows], theta[rows] = self._solve_rows(x[rows], support[rows])
        result, todo = a.copy(), np.arange(len(x))
        for _ in range(20 * x.shape[1] + 100):
            multiplier = 2.0 * a @ self._lifted - x[todo] - theta[:, None]
            scale = _SLACK * (1.0 + np.abs(x[todo]).max(axis=1) + np.abs(theta))
            worst = np.where(support, np.inf, multiplier).argmin(axis=1)
            inside = (support | (multiplier >= -scale[:, None])).all(axis=1) & (a >= 0).all(axis=1)
            result[todo[inside]] = a[inside]
            if inside.all():
                return result
            todo, a, support, worst = todo[~inside], a[~inside], support[~inside], worst[~inside]
            theta = theta[~inside]
            a, theta, support = self._pivot(x[todo], a, theta, support, worst)
        result[todo] = a
        return result

    def _pivot(
        self, x: FloatArray, a: FloatArray, theta: FloatArray, support: NDArray[np.bool_], worst: NDArray[np.intp]
    ) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        """Add the class with the worst multiplier to the support, then move until no entry is negative."""
        support = support.copy()
        support[np.arange(len(x)), worst] = True
        while True:
            target, theta = self._solve_rows(x, support)
            negative = support & (target < 0)
            blocked = negative.any(axis=1)
            if not blocked.any():
                return target, theta, support
            with np.errstate(divide="ignore", invalid="ignore"):
                reach = np.where(negative, a / (a - target), np.inf)
            first = reach.argmin(axis=1)
            length = np.where(blocked, reach.min(axis=1), 1.0)
            a = np.maximum(a + length[:, None] * (target - a), 0.0)
            support[blocked, first[blocked]] = False
            a[blocked, first[blocked]] = 0.0


@register
class WeightedBrier(Quadratic):
    """Brier score with one weight per class: ``sum_j weight_j (p_j - y_j)^2``.

    Parameters
    ----------
    weights : array-like of shape (k,)
        One weight above 0 per class.

    Examples
    --------
    >>> import baserate as br
    >>> br.losses.WeightedBrier([1, 4]).score([[0.5, 0.5]], [0])
    1.25
    """

    name = "weighted_brier"

    def __init__(self, weights: ArrayLike) -> None:
        try:
            values = np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            values = np.full(1, np.nan)
        if values.ndim != 1 or not (np.isfinite(values) & (values > 0)).all():
            raise BadLoss(f"class weights must be finite numbers above 0, one per class, not {quoted_name(weights)}")
        super().__init__(np.diag(values))

    def params(self) -> Mapping[str, Any]:
        return {"weights": np.diag(self.matrix).tolist()}

    @classmethod
    def examples(cls) -> list[tuple[Loss, int]]:
        return [(cls([1.0, 1.0]), 2), (cls([0.2, 1.0, 5.0, 1.0]), 4)]


def _validated(matrix: ArrayLike) -> FloatArray:
    """The matrix as float64, after a check that it defines a strictly proper loss."""
    try:
        m = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BadLoss(f"Quadratic needs a square matrix of real numbers, not {quoted_name(matrix)}") from None
    if m.ndim != 2 or m.shape[0] != m.shape[1] or len(m) < 2:
        raise BadLoss(f"Quadratic needs a square matrix with at least 2 rows, not one of shape {m.shape}")
    if not np.isfinite(m).all():
        raise BadLoss("the matrix of Quadratic contains NaN or infinite entries; all must be finite")
    with np.errstate(over="ignore"):  # a difference that overflows is refused, too
        skew = np.abs(m - m.T)
    if skew.max() > 1e-12 * np.abs(m).max():
        i, j = np.unravel_index(skew.argmax(), skew.shape)
        raise BadLoss(
            f"the matrix of Quadratic is not symmetric: entry ({i}, {j}) is {m[i, j]:g}, "
            f"but entry ({j}, {i}) is {m[j, i]:g}"
        )
    if not 1 / MAX_SCALE <= (size := np.abs(m).max()) <= MAX_SCALE and size:
        raise BadLoss(
            f"the largest entry of the matrix of Quadratic is {size:.3g}, but it must be between {1 / MAX_SCALE:g} and "
            f"{MAX_SCALE:g}. If you multiply the matrix by a constant, the adjusted predictions stay the same"
        )
    centre = _centre(len(m))
    values, vectors = np.linalg.eigh(centre @ m @ centre + _lift(m))
    if values[0] <= 1e-12 * values[-1]:
        direction = np.array2string(vectors[:, 0] - vectors[:, 0].mean(), precision=4, suppress_small=True)
        raise BadLoss(
            "the matrix of Quadratic is not positive definite on vectors that sum to 0, so the loss is not strictly "
            f"proper: in the direction {direction} its eigenvalue is {values[0]:.3g}"
        )
    return (m + m.T) / 2.0


def _centre(k: int) -> FloatArray:
    """The matrix that subtracts the mean from a vector."""
    return np.eye(k) - 1.0 / k


def _lift(m: FloatArray) -> FloatArray:
    """A multiple of the all-ones matrix that is as large as the matrix is on vectors that sum to 0."""
    centre = _centre(len(m))
    return np.full_like(m, np.abs(centre @ m @ centre).max() or 1.0)


def _by_support(support: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.intp]]]:
    """Each distinct support, with the numbers of the rows that have it."""
    first, group = row_patterns(support)
    order = np.argsort(group, kind="stable")
    bounds = np.flatnonzero(np.diff(group[order])) + 1
    for start, rows in zip(first, np.split(order, bounds), strict=True):
        yield support[start], rows
