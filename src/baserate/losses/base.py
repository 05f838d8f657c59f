"""Proper losses as Bregman generators: the conventions and the abstract base.

Every proper loss is, up to a constant, the Bregman divergence of a convex generator ``phi``:

    d(p, q) = phi(q) - phi(p) - <q - p, gradient(p)>

The first argument is the prediction, the second is what it is judged against (the paper's order; many
authors have it the other way round).

Conventions, for every method of every loss:

- ``p``, ``q``, ``a``, ``x`` are float64 arrays of shape (n, k); one row is one prediction.
- Methods work row by row and never change their arguments.
- ``gradient`` is a gradient *on the simplex*: a constant added to a whole row changes nothing, because
  rows sum to 1. ``link`` may therefore differ from ``gradient`` by a constant, where that keeps digits.
- ``x`` is a point of the dual space, ``link(p) + shift``. The **row map** takes it back:

      row_map(x) = argmin over a in the simplex of  phi(a) - <x, a>

  With ``bounded=False`` only ``sum(a) = 1`` is asked, and entries may leave [0, 1].
- ``jacobian(a, weights)`` is ``sum_i weights_i * d row_map(x_i) / d x_i``, a symmetric positive semidefinite
  (k, k) matrix with zero row sums. It depends on ``x`` only through ``a = row_map(x)``.
- An entry ``x = -inf`` means probability 0, and occurs only where ``pins_zeros`` is true.
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
from baserate.support.arrays import FloatArray


@dataclass(frozen=True)
class Domain:
    """Where the generator is defined and convex, the same interval for each coordinate."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{'(' if np.isinf(self.low) else '['}{self.low:g}, {self.high:g})"


NONNEGATIVE = Domain(0.0, np.inf)
REAL = Domain(-np.inf, np.inf)


class Loss(ABC):
    """A proper loss, given by its Bregman generator.

    A subclass writes four methods (``phi``, ``gradient``, ``row_map``, ``jacobian``); the rest follows from
    them. Override ``divergence`` where the difference in its definition cancels digits, and ``link`` where
    the gradient has a constant that does.
    """

    name: ClassVar[str]
    """Short name, used in files and, for the built-in losses, wherever a loss is taken."""

    domain: Domain = NONNEGATIVE
    """Where each coordinate may lie. On ``NONNEGATIVE`` the unbounded problem is the bounded one."""

    pins_zeros: bool = False
    """Whether the gradient is -inf at 0, so that no finite shift can move a probability of 0."""

    builtin: ClassVar[bool] = False
    """Built-in losses are tested here; a user's generator is checked before its first use."""

    kernel: ClassVar[str | None] = None
    """The fused pass of ``baserate.passes`` that does what the methods of exactly this class do, if any."""

    @property
    def flat_at_zero(self) -> bool:
        """Whether the second derivative vanishes at 0, so that small entries are hard to tell apart."""
        return False

    @abstractmethod
    def phi(self, q: FloatArray) -> FloatArray:
        """The convex generator, one value a row."""

    @abstractmethod
    def gradient(self, q: FloatArray) -> FloatArray:
        """The gradient of ``phi``, shape (n, k)."""

    @abstractmethod
    def row_map(self, x: FloatArray, *, bounded: bool = True) -> FloatArray:
        """The predictions that belong to the dual points ``x`` (see the conventions of this module)."""

    @abstractmethod
    def jacobian(self, a: FloatArray, weights: FloatArray, *, bounded: bool = True) -> FloatArray:
        """The weighted sum over rows of the derivative of the row map, shape (k, k)."""

    def link(self, p: FloatArray) -> FloatArray:
        """The dual point of a prediction: its gradient, up to a constant."""
        return self.gradient(p)

    def stiffness(self, q: FloatArray) -> FloatArray | None:
        """Second derivatives of ``phi`` by each coordinate, if it has no mixed ones and a start may rely on them."""
        return None

    def link_logits(self, logits: FloatArray) -> FloatArray:
        """The dual point of normalised log probabilities."""
        return self.link(self.probs_of_logits(logits))

    def probs_of_logits(self, logits: FloatArray) -> FloatArray:
        """Probabilities of normalised log probabilities; a finite logit never becomes a hard zero."""
        p: FloatArray = np.exp(logits)
        if self.pins_zeros:
            np.maximum(p, np.finfo(np.float64).tiny, out=p, where=np.isfinite(logits))
        return p

    def conjugate(self, x: FloatArray, a: FloatArray) -> FloatArray:
        """``<x, a> - phi(a)`` a row: the convex conjugate at ``x``, if ``a = row_map(x)``."""
        return inner(x, a) - self.phi(a)

    def divergence(self, p: ArrayLike, q: ArrayLike) -> FloatArray:
        """The Bregman divergence from the prediction ``p`` to ``q``, one value a row.

        Infinite where ``q`` gives probability to a class to which ``p`` gives 0 under a loss that forbids it.
        """
        p, q = as_pair(p, q)
        with np.errstate(divide="ignore", invalid="ignore"):
            d = self.phi(q) - self.phi(p) - inner(self.gradient(p), q - p)
        return np.maximum(d, 0.0)

    def score(self, probs: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Mean loss of predictions against labels.

        Parameters
        ----------
        probs : array-like of shape (n, k)
        y : array-like of shape (n,) or (n, k)
            Column numbers of the true classes, or one-hot rows, or true posteriors.
        sample_weight : array-like of shape (n,), optional
        """
        p = as_rows(probs)
        return weighted_mean(self.divergence(p, as_targets(y, p.shape)), sample_weight)

    def on_face(self, keep: NDArray[np.intp], n_classes: int) -> Loss:
        """The loss on predictions that are 0 outside the classes ``keep``, in those coordinates.

        ``row_map`` and ``jacobian`` of the answer take and give ``len(keep)`` columns. Losses that treat all
        classes alike answer themselves.
        """
        return self

    def params(self) -> Mapping[str, Any]:
        """What the constructor needs to build this loss again, as plain JSON values."""
        return {}

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Self:
        """The loss that ``params`` describes."""
        return cls(**params)

    @classmethod
    def examples(cls) -> list[tuple[Loss, int]]:
        """Instances, each with a number of classes, on which the battery of tests runs."""
        return [(cls(), k) for k in (2, 3, 6)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.params().items())})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.params() == other.params()

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))


def as_rows(q: ArrayLike) -> FloatArray:
    """Predictions as a float64 matrix; their values are not checked."""
    return as_matrix(q, one_row=True).astype(np.float64, copy=False)


def as_pair(p: ArrayLike, q: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Two matrices of the same shape."""
    first, second = as_rows(p), as_rows(q)
    if first.shape != second.shape:
        raise BadProbabilities(f"p has shape {first.shape}, but q has shape {second.shape}")
    return first, second


def inner(x: FloatArray, a: FloatArray) -> FloatArray:
    """Row-wise inner products in which ``-inf * 0`` is 0."""
    if np.isfinite(x).all():
        return np.einsum("ij,ij->i", x, a)
    return np.multiply(x, a, where=a != 0, out=np.zeros_like(a)).sum(axis=1)


def centred_outer(h: FloatArray, weights: FloatArray) -> FloatArray:
    """``sum_i w_i (diag(h_i) - h_i h_i' / sum(h_i))``: the Jacobian of every separable loss.

    It is a graph Laplacian. The diagonal is summed from the edges, since the difference above loses all digits
    where one entry of a row dwarfs the others.
    """
    total = h.sum(axis=1)
    scale = np.divide(weights, total, out=np.zeros_like(total), where=total > 0)
    return laplacian((h.T * scale) @ h)


def laplacian(edges: FloatArray) -> FloatArray:
    """The Laplacian of a symmetric matrix of edge weights; its diagonal does not count."""
    np.fill_diagonal(edges, 0.0)
    return np.diag(edges.sum(axis=1)) - edges


def short_name(loss: Loss) -> str:
    """What to call a loss in a table: "log", "Power(beta=1.5)"."""
    text = repr(loss)
    plain = text.removesuffix("()").lower() if text.endswith("()") else text
    return plain if len(plain) <= 30 else f"{type(loss).__name__}(...)"
