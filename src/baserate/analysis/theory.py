"""Functions that check the paper's theorems on your own data.

UGA and BGA are the unbounded and the bounded general adjustment; ``bounded=False`` and ``bounded=True`` in
:func:`baserate.adjust`.

Heiser, Allikivi, Kull, "Shift Happens: Adjusting Classifiers", ECML PKDD 2019, doi:10.48550/arXiv.2111.02529.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from baserate.inputs.labels import as_targets
from baserate.inputs.validation import weighted_mean
from baserate.losses.base import Loss, as_rows
from baserate.losses.registry import as_loss
from baserate.solving import adjusted
from baserate.support.arrays import FloatArray


@dataclass(frozen=True)
class Decomposition:
    """The terms of Theorem 1: for an adjustment that is coherent with the loss, ``total = adjustment + remaining``.

    Attributes
    ----------
    total : float
        Mean loss of the predictions, ``d(p, y)``.
    adjustment : float
        The part that the adjustment removes: the mean divergence ``d(p, a)``.
    remaining : float
        Mean loss of the adjusted predictions, ``d(a, y)``.
    """

    total: float
    adjustment: float
    remaining: float

    @property
    def surplus(self) -> float:
        """``total - adjustment - remaining``. It is 0 for unbounded and at least 0 for bounded adjustment."""
        return self.total - self.adjustment - self.remaining


@dataclass(frozen=True)
class Coherence:
    """How an adjustment changes the difference between the losses of two classes.

    Attributes
    ----------
    constants : array of shape (k, k)
        Mean over rows of ``(d(a, c_j) - d(p, c_j)) - (d(a, c_l) - d(p, c_l))`` for classes j and l.
    spread : float
        Largest deviation of a row from that mean. It is 0 if and only if the adjustment is coherent with the loss.
    """

    constants: FloatArray
    spread: float


@dataclass(frozen=True)
class InequalityChain:
    """The four terms of Theorem 4, on bounded general adjustment (BGA), largest first. The last two are equal.

    Attributes
    ----------
    bounded_fall : float
        Decrease of the mean loss by BGA.
    bounded_move : float
        Mean divergence between the predictions and the BGA result.
    unbounded_move : float
        Mean divergence between the predictions and the result of unbounded general adjustment (UGA).
    unbounded_fall : float
        Decrease of the mean loss by UGA.
    """

    bounded_fall: float
    bounded_move: float
    unbounded_move: float
    unbounded_fall: float


def class_rates(y: ArrayLike, n_classes: int, sample_weight: ArrayLike | None = None) -> FloatArray:
    """Weighted class frequencies of the labels ``y``, a vector of class positions or a matrix of probabilities."""
    targets = as_targets(y, (np.shape(y)[0] if np.ndim(y) else 0, n_classes))
    return np.array([weighted_mean(column, sample_weight) for column in targets.T])


def decomposition(
    probs: ArrayLike,
    adjusted: ArrayLike,
    y: ArrayLike,
    *,
    loss: str | Loss = "log",
    sample_weight: ArrayLike | None = None,
) -> Decomposition:
    """Compute the terms of Theorem 1 for predictions, adjusted predictions and labels.

    Examples
    --------
    >>> import baserate as br
    >>> p, y = [[0.8, 0.2], [0.6, 0.4], [0.9, 0.1]], [0, 1, 1]
    >>> a = br.additive(p, br.theory.class_rates(y, 2)).probs
    >>> terms = br.theory.decomposition(p, a, y, loss="brier")
    >>> round(terms.total, 4), round(terms.adjustment, 4), round(terms.remaining, 4), round(abs(terms.surplus), 12)
    (0.8067, 0.3756, 0.4311, 0.0)
    """
    measure, p, a = as_loss(loss), as_rows(probs), as_rows(adjusted)
    targets = as_targets(y, p.shape)
    terms = (measure.divergence(p, targets), measure.divergence(p, a), measure.divergence(a, targets))
    return Decomposition(*(weighted_mean(term, sample_weight) for term in terms))


def coherence(probs: ArrayLike, adjusted: ArrayLike, *, loss: str | Loss = "log") -> Coherence:
    """Compute the coherence constants of an adjustment, and how far it is from being coherent with the loss."""
    measure, p, a = as_loss(loss), as_rows(probs), as_rows(adjusted)
    corners = np.eye(p.shape[1])
    with np.errstate(invalid="ignore"):  # the difference of two infinite divergences is NaN
        change = np.stack([_to_corner(measure, a, c) - _to_corner(measure, p, c) for c in corners], axis=1)
        pairs = change[:, :, None] - change[:, None, :]
        constants = pairs.mean(axis=0)
        return Coherence(constants, float(np.abs(pairs - constants).max()))


def _to_corner(measure: Loss, p: FloatArray, corner: FloatArray) -> FloatArray:
    return measure.divergence(p, np.broadcast_to(corner, p.shape))


def inequality_chain(
    probs: ArrayLike, y: ArrayLike, *, loss: str | Loss = "log", sample_weight: ArrayLike | None = None
) -> InequalityChain:
    """Compare how much bounded and unbounded adjustment to the class rates of the labels reduce the loss."""
    measure, p = as_loss(loss), as_rows(probs)
    rates = class_rates(y, p.shape[1], sample_weight)
    chain: list[float] = []
    for bounded in (True, False):
        a = adjusted(p, rates, loss=measure, bounded=bounded, sample_weight=sample_weight).probs
        terms = decomposition(p, a, y, loss=measure, sample_weight=sample_weight)
        chain += [terms.total - terms.remaining, terms.adjustment]
    return InequalityChain(chain[0], chain[1], chain[3], chain[2])


def adjustment_loss(
    probs: ArrayLike,
    y: ArrayLike,
    *,
    loss: str | Loss = "log",
    bounded: bool = True,
    sample_weight: ArrayLike | None = None,
) -> float:
    """The decrease of the mean loss that is guaranteed when adjusting to the class rates of the labels.

    Examples
    --------
    >>> import baserate as br
    >>> round(br.theory.adjustment_loss([[0.8, 0.2], [0.6, 0.4], [0.9, 0.1]], [0, 1, 1], loss="brier"), 4)
    0.3756
    """
    p = as_rows(probs)
    rates = class_rates(y, p.shape[1], sample_weight)
    return adjusted(p, rates, loss=loss, bounded=bounded, sample_weight=sample_weight).certificate.loss_reduction
