"""Recalibrate predictions with few labels: one slope for all logits, and one constant per class.

The predictions that help a confidence set need not be calibrated, but the set is narrower if they are. The slope is the
inverse of a temperature. Both are shrunk towards no change, because they are fitted to as few as 16 labels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baserate.support.arrays import FloatArray, IndexArray

_SMALLEST = 1e-4  # Probabilities below this are raised to it: a single wrong label must not decide about the slope.
_RIDGE = 2.0  # Weight of the square of each constant; about that of two labels.
_RIDGE_SLOPE = 10.0
_MAX_STEPS = 30
_MAX_HALVINGS = 20
_SMALL_STEP = 1e-6  # The predictions need not be more exact than that.


class Scaling(NamedTuple):
    """The recalibrated logits are ``slope * logits + constants``."""

    slope: float
    constants: FloatArray

    def apply(self, logits: FloatArray) -> FloatArray:
        """The recalibrated probabilities."""
        return _softmax(self.slope * logits + self.constants)


def as_logits(probs: FloatArray) -> FloatArray:
    """The logits of probabilities, with mean 0 in each row."""
    logits = np.log(np.maximum(probs, _SMALLEST))
    return np.asarray(logits - logits.mean(axis=1, keepdims=True))


def fit_scaling(logits: FloatArray, labels: IndexArray) -> Scaling:
    """The slope and the constants with the least penalised log loss on labelled rows, by Newton's method."""
    k = logits.shape[1]
    targets = np.eye(k)[labels]
    at = np.concatenate([[1.0], np.zeros(k)])
    value = _objective(at, logits, labels)
    for _ in range(_MAX_STEPS):
        step = _newton_step(at, logits, targets)
        for _ in range(_MAX_HALVINGS):
            if (new := _objective(at - step, logits, labels)) <= value:
                break
            step = step / 2
        else:
            break
        at, value = at - step, new
        if np.abs(step).max() < _SMALL_STEP:
            break
    return Scaling(float(at[0]), at[1:])


def _objective(at: FloatArray, logits: FloatArray, labels: IndexArray) -> float:
    """Log loss and penalty; ``at`` is the slope, then the constants."""
    scores = at[0] * logits + at[1:]
    top = scores.max(axis=1)
    losses = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top - scores[np.arange(len(labels)), labels]
    return float(losses.sum() + 0.5 * _RIDGE * (at[1:] @ at[1:]) + 0.5 * _RIDGE_SLOPE * (at[0] - 1.0) ** 2)


def _newton_step(at: FloatArray, logits: FloatArray, targets: FloatArray) -> FloatArray:
    """The gradient, divided by the Hessian, which is positive definite because of the penalty."""
    p = _softmax(at[0] * logits + at[1:])
    residuals, weighted = p - targets, p * logits
    means = weighted.sum(axis=1)
    gradient = np.concatenate(
        [[(residuals * logits).sum() + _RIDGE_SLOPE * (at[0] - 1.0)], residuals.sum(axis=0) + _RIDGE * at[1:]]
    )
    hessian = np.empty((len(at), len(at)))
    hessian[0, 0] = (weighted * logits).sum() - means @ means + _RIDGE_SLOPE
    hessian[0, 1:] = hessian[1:, 0] = weighted.sum(axis=0) - means @ p
    hessian[1:, 1:] = np.diag(p.sum(axis=0) + _RIDGE) - p.T @ p
    return np.linalg.solve(hessian, gradient)


def _softmax(scores: FloatArray) -> FloatArray:
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))
