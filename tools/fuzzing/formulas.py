"""The losses in formulas of the fuzzer's own, with which the answers of the library are checked.

Every loss is written as the loss of a prediction on each label. The difference of two predictions is linear in the
label, so these numbers say everything about fractional labels as well. Nothing here calls ``baserate``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr, xlogy

Array = NDArray[np.float64]
Scores = Callable[[Array], Array]
Divergence = Callable[[Array, Array], Array]


@dataclass(frozen=True, eq=False)
class Formula:
    """A loss: how the library makes it, and what it is.

    Attributes
    ----------
    name : str
    code : str
        Python that creates the loss of the library.
    scores : callable
        The loss of each row on each label, shape (n, k).
    divergence : callable
        The Bregman divergence from each row to a row of another matrix, shape (n,).
    pins_zeros : bool
        Whether a label with probability 0 has infinite loss.
    real : bool
        Whether entries may be negative if the adjustment is unbounded.
    model : callable, optional
        The divergence of one row for CVXPY, as a function of a variable and of the prediction.
    permuted : callable, optional
        The same loss after the classes were permuted. None if the loss cannot be permuted.
    strength : float
        ``divergence(p, q) >= strength * |p - q|^2``, and 0 if there is no such number.
    """

    name: str
    code: str
    scores: Scores
    divergence: Divergence
    pins_zeros: bool = False
    real: bool = False
    model: Callable[[Any, Array], Any] | None = None
    permuted: Callable[[NDArray[np.intp]], Formula] | None = None
    strength: float = 0.0


def _symmetric(make: Callable[[], Formula]) -> Callable[[NDArray[np.intp]], Formula]:
    return lambda order: make()


def log() -> Formula:
    """Log loss."""

    def scores(p: Array) -> Array:
        with np.errstate(divide="ignore"):
            return -np.log(p)

    def model(a: Any, p: Array) -> Any:
        import cvxpy as cp

        return cp.sum(cp.rel_entr(a, p))

    return Formula(
        "log", "br.losses.Log()", scores, lambda p, q: rel_entr(q, p).sum(axis=1), pins_zeros=True, model=model,
        permuted=_symmetric(log), strength=0.5,
    )  # fmt: skip


def brier() -> Formula:
    """The Brier score."""
    return _quadratic("brier", "br.losses.Brier()", lambda k: np.eye(k), _symmetric(brier), strength=1.0)


def ranked() -> Formula:
    """The ranked probability score."""

    def matrix(k: int) -> Array:
        cumulate = np.tri(k)[:-1]
        return np.asarray(cumulate.T @ cumulate)

    return _quadratic("ranked", "br.losses.RankedProbability()", matrix, None)


def weighted_brier(weights: Array) -> Formula:
    """The Brier score with one weight per class."""
    code = f"br.losses.WeightedBrier({weights.tolist()!r})"
    return _quadratic("weighted_brier", code, lambda k: np.diag(weights), lambda order: weighted_brier(weights[order]))


def quadratic(matrix: Array) -> Formula:
    """A quadratic loss."""
    code = f"br.losses.Quadratic({matrix.tolist()!r})"
    return _quadratic("quadratic", code, lambda k: matrix, lambda order: quadratic(matrix[np.ix_(order, order)]))


def _quadratic(
    name: str, code: str, matrix: Callable[[int], Array],
    permuted: Callable[[NDArray[np.intp]], Formula] | None, strength: float = 0.0,
) -> Formula:  # fmt: skip
    def scores(p: Array) -> Array:
        k = p.shape[1]
        difference = p[:, None, :] - np.eye(k)
        return np.einsum("nji,il,njl->nj", difference, matrix(k), difference, optimize=True)

    def divergence(p: Array, q: Array) -> Array:
        return np.einsum("ni,il,nl->n", p - q, matrix(p.shape[1]), p - q, optimize=True)

    def model(a: Any, p: Array) -> Any:
        import cvxpy as cp

        values, vectors = np.linalg.eigh(matrix(len(p)))
        return cp.sum_squares((a - p) @ (vectors * np.sqrt(np.maximum(values, 0.0))))

    return Formula(name, code, scores, divergence, real=True, model=model, permuted=permuted, strength=strength)


def spherical() -> Formula:
    """The spherical score."""

    def unit(p: Array) -> Array:
        return p / np.linalg.norm(p, axis=1, keepdims=True)

    def divergence(p: Array, q: Array) -> Array:
        return 0.5 * np.linalg.norm(q, axis=1) * ((unit(q) - unit(p)) ** 2).sum(axis=1)

    def model(a: Any, p: Array) -> Any:
        import cvxpy as cp

        return cp.norm(a) - a @ (p / np.linalg.norm(p))

    return Formula(
        "spherical", "br.losses.Spherical()", lambda p: 1.0 - unit(p), divergence, real=True, model=model,
        permuted=_symmetric(spherical),
    )  # fmt: skip


def power(beta: float) -> Formula:
    """The power loss."""
    b = beta - 1.0

    def deformed_log(p: Array) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            return np.expm1(b * np.log(p)) / b if b else np.log(p)

    def scores(p: Array) -> Array:
        if beta == 2:  # also for negative entries
            return ((p[:, None, :] - np.eye(p.shape[1])) ** 2).sum(axis=2)
        excess = p.sum(axis=1, keepdims=True) - 1.0  # not 0 in rows that were rounded
        return b * _times(p, deformed_log(p)).sum(axis=1, keepdims=True) + excess - beta * deformed_log(p)

    def divergence(p: Array, q: Array) -> Array:
        if beta == 2:
            return ((p - q) ** 2).sum(axis=1)
        kept = _times(p, deformed_log(p)) * b - _times(q, beta * deformed_log(p)) + _times(q, deformed_log(q))
        return kept.sum(axis=1)

    def model(a: Any, p: Array) -> Any:
        import cvxpy as cp

        slope = beta * deformed_log(p)
        return (cp.sum(cp.power(a, beta)) - 1.0) / b - a @ slope + b * float((p * deformed_log(p)).sum())

    return Formula(
        "power", f"br.losses.Power({beta!r})", scores, divergence, pins_zeros=beta <= 1, real=beta == 2,
        model=model if beta in (0.5, 1.5, 3.0) else None, permuted=_symmetric(lambda: power(beta)),
        strength=1.0 if beta == 2 else 0.0,
    )  # fmt: skip


def _times(x: Array, y: Array) -> Array:
    """Products with ``0 * inf`` counted as 0."""
    return np.multiply(x, y, where=x != 0, out=np.zeros_like(y))


SEPARABLE: dict[str, tuple[str, Scores, Scores, bool, bool]] = {
    "cosh": (
        "br.losses.Separable(np.cosh, np.sinh, np.cosh, np.arcsinh, domain=br.losses.REAL, label='cosh')",
        np.cosh, np.sinh, False, True,
    ),
    "exp": ("br.losses.Separable(np.exp, np.exp, np.exp, np.log, label='exp')", np.exp, np.exp, False, False),
    "cubic": (
        "br.losses.Separable(lambda q: q**3 + q**2, lambda q: 3 * q**2 + 2 * q, lambda q: 6 * q + 2, label='cubic')",
        lambda q: q**3 + q**2, lambda q: 3 * q**2 + 2 * q, False, False,
    ),
    "entropy": (
        "br.losses.Separable(lambda q: xlogy(q, q), lambda q: np.log(q) + 1, lambda q: 1 / q, lambda x: np.exp(x - 1), "
        "label='entropy')",
        lambda q: xlogy(q, q), lambda q: np.log(q) + 1, True, False,
    ),
}  # fmt: skip
"""Losses that a user might define: code, f, its derivative, whether zeros are pinned, whether entries may be < 0."""


def separable(label: str) -> Formula:
    """One of the separable losses of a user."""
    code, f, df, pins_zeros, real = SEPARABLE[label]

    def slope(p: Array) -> Array:
        with np.errstate(divide="ignore"):
            return df(p)

    def scores(p: Array) -> Array:
        ends = f(np.ones(1)) + (p.shape[1] - 1) * f(np.zeros(1))
        constant = ends - f(p).sum(axis=1, keepdims=True) + _times(p, slope(p)).sum(axis=1, keepdims=True)
        return constant - slope(p)

    def divergence(p: Array, q: Array) -> Array:
        return (f(q) - f(p) - _times(q, slope(p)) + _times(p, slope(p))).sum(axis=1)

    return Formula(
        f"separable {label}", code, scores, divergence, pins_zeros=pins_zeros, real=real,
        permuted=_symmetric(lambda: separable(label)),
    )  # fmt: skip


def hierarchical(groups: list[int], weight: float) -> Formula:
    """The loss of examples/hierarchical_log.py: log loss on classes plus log loss on groups of classes."""
    names, group = np.unique(groups, return_inverse=True)
    members = np.eye(len(names))[group]

    def scores(p: Array) -> Array:
        with np.errstate(divide="ignore"):
            return -np.log(p) - weight * np.log(p @ members)[:, group]

    def divergence(p: Array, q: Array) -> Array:
        return rel_entr(q, p).sum(axis=1) + weight * rel_entr(q @ members, p @ members).sum(axis=1)

    return Formula(
        "hierarchical", f"HierarchicalLog({groups!r}, {weight!r})", scores, divergence, pins_zeros=True,
        permuted=lambda order: hierarchical([groups[j] for j in order], weight), strength=0.5,
    )  # fmt: skip
