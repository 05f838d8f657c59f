"""The base class of proper losses, and the conventions that all of them follow.

Every proper loss is, up to a constant, the Bregman divergence of a convex generator ``phi``:

    d(p, q) = phi(q) - phi(p) - <q - p, gradient(p)>

The first argument is the prediction, the second is the label or distribution that it is compared with. This is the
order of the paper; many authors use the opposite order.

Conventions for every method of every loss:

- ``p``, ``q``, ``a``, ``x`` are float64 arrays of shape (n, k), with one prediction per row.
- Methods work on each row separately and never modify their arguments.
- ``gradient`` is a gradient *on the simplex*: adding a constant to a whole row makes no difference, because rows sum
  to 1. So ``link`` may differ from ``gradient`` by a constant per row if that is more precise numerically.
- ``x`` is a point of the dual space, ``link(p) + shift``. The **row map** converts it to a prediction:

      row_map(x) = argmin over a in the simplex of  phi(a) - <x, a>

  With ``bounded=False`` the only constraint is ``sum(a) = 1``, and entries may lie outside [0, 1].
- ``jacobian(a, weights)`` is ``sum_i weights_i * d row_map(x_i) / d x_i``, a symmetric positive semidefinite
  (k, k) matrix with zero row sums. It depends on ``x`` only through ``a = row_map(x)``.
- An entry ``x = -inf`` means probability 0. It occurs only if ``pins_zeros`` is true.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.errors import BadProbabilities
from baserate.inputs.labels import as_targets
from baserate.inputs.validation import as_matrix, weighted_mean
from baserate.inputs.vectors import split_vector, two_columns
from baserate.support.arrays import FloatArray, IndexArray


@dataclass(frozen=True)
class Domain:
    """The interval on which the generator is defined and convex, the same for each coordinate."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{'(' if np.isinf(self.low) else '['}{self.low:g}, {self.high:g})"


MAX_SCALE = 1e100
"""Largest size of a generator, and the inverse of the smallest one. Beyond it, products would overflow or underflow."""

_LARGE_CELL = 1000  # Products per cell from which a call of BLAS for each cell is faster than one sum over all rows.

NONNEGATIVE = Domain(0.0, np.inf)
REAL = Domain(-np.inf, np.inf)


class Loss(ABC):
    """A proper loss, defined by its Bregman generator.

    A subclass implements four methods: ``phi``, ``gradient``, ``row_map`` and ``jacobian``. All other methods are
    derived from them. Override ``divergence`` if its definition loses digits by cancellation, and ``link`` if the
    gradient contains a constant that loses digits.
    """

    name: ClassVar[str]
    """Short name, used in saved files and, for losses without parameters, as the ``loss`` argument."""

    domain: Domain = NONNEGATIVE
    """Where the generator is defined. With ``NONNEGATIVE``, unbounded adjustment equals bounded adjustment."""

    pins_zeros: bool = False
    """Whether the gradient is -inf at 0, so that no finite shift can move a probability of 0."""

    builtin: ClassVar[bool] = False
    """Whether the loss need not be checked before its first use. Subclasses inherit it: set it to False in a subclass
    of a built-in loss that changes its formulas."""

    checks_itself: ClassVar[bool] = False
    """Whether the constructor checks that the loss is proper, so that it need not be checked again."""

    kernel: ClassVar[str | None] = None
    """Name of the compiled pass in ``baserate.passes`` that replaces the methods of exactly this class, if any."""

    @property
    def flat_at_zero(self) -> bool:
        """Whether the second derivative is 0 at 0, so that small probabilities have nearly equal dual points."""
        return False

    @abstractmethod
    def phi(self, q: FloatArray) -> FloatArray:
        """The convex generator, one value per row."""

    @abstractmethod
    def gradient(self, q: FloatArray) -> FloatArray:
        """The gradient of ``phi``, shape (n, k)."""

    @abstractmethod
    def row_map(self, x: FloatArray, *, bounded: bool = True) -> FloatArray:
        """The predictions for the dual points ``x``; see the conventions of this module."""

    @abstractmethod
    def jacobian(self, a: FloatArray, weights: FloatArray, *, bounded: bool = True) -> FloatArray:
        """The weighted sum over rows of the derivative of the row map, shape (k, k)."""

    def jacobians(self, a: FloatArray, weights: FloatArray, starts: IndexArray, *, bounded: bool = True) -> FloatArray:
        """The Jacobian of each cell, shape (n_cells, k, k). Cell c has the rows from ``starts[c]`` to the next start.

        No cell is empty. A loss that overrides :meth:`jacobian` overrides this as well if it can be computed for all
        cells at the same time.
        """
        cells = zip(np.split(a, starts[1:]), np.split(weights, starts[1:]), strict=True)
        return np.stack([self.jacobian(rows, w, bounded=bounded) for rows, w in cells])

    def slopes(self, a: FloatArray, *, bounded: bool = True) -> FloatArray | None:
        """Numbers h of shape (n, k) with ``jacobian = sum_i w_i (diag(h_i) - h_i h_i' / sum(h_i))``, if there are any.

        Every separable loss has them. With many classes, the solver uses them to multiply the Jacobian with vectors,
        and never computes the matrix. None means that it needs the matrix.
        """
        return None

    def check_n_classes(self, n_classes: int) -> None:  # noqa: B027  # most losses are for any number of classes
        """Raise an error if the loss is only for another number of classes."""

    def corner_values(self, n_classes: int) -> FloatArray:
        """The generator at each corner of the simplex, shape (n_classes,)."""
        return self.phi(np.eye(n_classes))

    def link(self, p: FloatArray) -> FloatArray:
        """The dual point of a prediction: its gradient, up to a constant per row."""
        return self.gradient(p)

    def stiffness(self, q: FloatArray) -> FloatArray | None:
        """Second derivatives of ``phi`` with respect to each coordinate, if the mixed ones are 0; else None.

        The solver uses them only to choose its first shift.
        """
        return None

    def link_logits(self, logits: FloatArray) -> FloatArray:
        """The dual point of normalised log probabilities."""
        return self.link(self.probs_of_logits(logits))

    def probs_of_logits(self, logits: FloatArray) -> FloatArray:
        """Probabilities of normalised log probabilities. A finite logit never becomes a hard zero."""
        p: FloatArray = np.exp(logits)
        if self.pins_zeros:
            np.maximum(p, np.finfo(np.float64).tiny, out=p, where=np.isfinite(logits))
        return p

    def conjugate(self, x: FloatArray, a: FloatArray) -> FloatArray:
        """``<x, a> - phi(a)`` per row: the convex conjugate at ``x`` if ``a = row_map(x)``."""
        return inner(x, a) - self.phi(a)

    def divergence(self, p: ArrayLike, q: ArrayLike) -> FloatArray:
        """The Bregman divergence from the prediction ``p`` to ``q``, one value per row.

        If ``pins_zeros`` is true, it is infinite where ``p`` has a hard zero and ``q`` a positive probability.
        """
        p, q = as_pair(p, q)
        with np.errstate(divide="ignore", invalid="ignore"):
            d = self.phi(q) - self.phi(p) - inner(self.gradient(p), q - p)
        return np.maximum(d, 0.0)

    def cost_of_sum(self, p: FloatArray, a: FloatArray) -> FloatArray:
        """What the loss of each row gains because the rounded row ``a`` does not sum to 1.

        If the gradient is ``link + c``, the loss of a row with sum s contains ``c (s - 1)``.
        """

        def constant(q: FloatArray) -> FloatArray:
            largest = np.arange(len(q)), q.argmax(axis=1)  # where neither of the two is infinite
            return np.asarray(self.gradient(q)[largest] - self.link(q)[largest])

        return (constant(a) - constant(p)) * (a.sum(axis=1) - 1.0)

    def score(self, probs: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Mean loss of predictions against labels.

        Parameters
        ----------
        probs : array-like of shape (n, k), or (n,) for the probabilities of the second of two classes
        y : array-like of shape (n,) or (n, k)
            Column numbers of the true classes, or one-hot rows, or true class probabilities.
        sample_weight : array-like of shape (n,), optional
        """
        found = split_vector(probs, what="probs")
        # A vector is one row of k classes if there is one label for all of it.
        p = two_columns(found[0]) if found is not None and len(found[0]) == _length(y) else as_rows(probs)
        return weighted_mean(self.divergence(p, as_targets(y, p.shape)), sample_weight)

    def on_face(self, keep: NDArray[np.intp], n_classes: int) -> Loss:
        """The same loss for predictions that are 0 outside the classes ``keep``, with only these columns.

        ``row_map`` and ``jacobian`` of the returned loss use ``len(keep)`` columns. A loss that treats all classes
        alike returns itself.
        """
        return self

    def params(self) -> Mapping[str, Any]:
        """The constructor arguments of this loss, as plain JSON values."""
        return {}

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Self:
        """Create the loss from the output of :meth:`params`."""
        return cls(**params)

    @classmethod
    def examples(cls) -> list[tuple[Loss, int]]:
        """Instances for the shared loss tests, each with a number of classes."""
        return [(cls(), k) for k in (2, 3, 6)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.params().items())})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.params() == other.params()

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))


def _length(y: Any) -> int:
    return len(y) if hasattr(y, "__len__") else 0


def as_rows(q: ArrayLike) -> FloatArray:
    """Predictions as a float64 matrix. The values are not checked."""
    return as_matrix(q, one_row=True).astype(np.float64, copy=False)


def as_pair(p: ArrayLike, q: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Two arguments as float64 matrices of the same shape."""
    first, second = as_rows(p), as_rows(q)
    if first.shape != second.shape:
        raise BadProbabilities(f"p has shape {first.shape}, but q has shape {second.shape}; pass equal shapes")
    return first, second


def inner(x: FloatArray, a: FloatArray) -> FloatArray:
    """Inner products of the rows, with ``-inf * 0`` counted as 0."""
    if np.isfinite(x).all():
        return np.einsum("ij,ij->i", x, a)
    return np.multiply(x, a, where=a != 0, out=np.zeros_like(a)).sum(axis=1)


def centred_outer(h: FloatArray, weights: FloatArray) -> FloatArray:
    """``sum_i w_i (diag(h_i) - h_i h_i' / sum(h_i))``: the Jacobian of every separable loss.

    The matrix is a graph Laplacian. The diagonal is computed as a sum of edge weights. Computing the difference above
    instead would lose all digits where one entry of a row is much larger than the others.
    """
    total = h.sum(axis=1)
    scale = np.divide(weights, total, out=np.zeros_like(total), where=total > 0)
    return laplacian((h.T * scale) @ h)


def laplacian(edges: FloatArray) -> FloatArray:
    """The graph Laplacian of a symmetric matrix of edge weights. Overwrites the diagonal of ``edges`` with 0."""
    every = len(edges) + 1  # from one entry of the diagonal to the next; np.fill_diagonal takes several times as long
    edges.flat[::every] = 0.0
    out = -edges
    out.flat[::every] = edges.sum(axis=1)
    return out


def outer_by_cell(left: FloatArray, right: FloatArray, weights: FloatArray, starts: IndexArray) -> FloatArray:
    """``sum_i w_i left_i right_i'`` over the rows of each cell, shape (n_cells, k, k)."""
    left = left * weights[:, None]
    if left.size * left.shape[1] > _LARGE_CELL * len(starts):
        cells = zip(np.split(left, starts[1:]), np.split(right, starts[1:]), strict=True)
        return np.stack([one.T @ other for one, other in cells])
    return np.add.reduceat(left[:, :, None] * right[:, None, :], starts, axis=0)


def laplacians(edges: FloatArray) -> FloatArray:
    """The graph Laplacian of each of several symmetric matrices. Overwrites the diagonals of ``edges`` with 0."""
    at = np.arange(edges.shape[1])
    edges[:, at, at] = 0.0
    out = -edges
    out[:, at, at] = edges.sum(axis=2)
    return out


def centred_outer_by_cell(h: FloatArray, weights: FloatArray, starts: IndexArray) -> FloatArray:
    """What :func:`centred_outer` computes, for each cell."""
    total = h.sum(axis=1)
    scale = np.divide(weights, total, out=np.zeros_like(total), where=total > 0)
    return laplacians(outer_by_cell(h, h, scale, starts))


def short_name(loss: Loss) -> str:
    """A short name of a loss for tables, such as "log" or "Power(beta=1.5)"."""
    text = repr(loss)
    plain = text.removesuffix("()").lower() if text.endswith("()") else text
    return plain if len(plain) <= 30 else f"{type(loss).__name__}(...)"
