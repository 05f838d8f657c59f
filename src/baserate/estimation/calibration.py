"""Calibration of predictions with few labels: one slope for all logarithms, and one constant per class.

The slope is the inverse of a temperature. Both are shrunk towards no change, because they would over-fit small samples.
Calibrated rows only help to find a confidence set: its confidence does not depend on how well they are calibrated, but
it is narrower if they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baserate.support.arrays import FloatArray, IndexArray


class Shrinkage(NamedTuple):
    """How much a calibration is shrunk towards no change.

    Attributes
    ----------
    slope, constants : float
        Weights of the squares ``(slope - 1)^2 / 2`` and ``|constants|^2 / 2``, in rows.
    least_slope : float
        Predictions that say nothing about the labels have slope 0, and misleading ones a negative slope.
    smallest : float
        Probabilities below this count as this much: a single wrong label must not decide about the slope.
    """

    slope: float
    constants: float
    least_slope: float
    smallest: float


FOR_FEATURES = Shrinkage(1.0, 1.0, 0.05, 1e-6)
"""For features of predictions, which must vary, from some hundred labels."""

FOR_BETS = Shrinkage(10.0, 2.0, -np.inf, 1e-4)
"""For bets on labels, from as few as 16 labels."""

FOR_FIRST_STAGE = FOR_BETS._replace(slope=2.0)
"""To find out with a dozen labels what predictions know: misleading ones know as much as their opposite."""


_LARGEST_LOG = -np.log(FOR_FEATURES.smallest)  # the floors of all kinds of shrinkage are at least this high
_SAFE_EXPONENT = 600.0  # exp of plus or minus this much is a normal number


def logarithms(probs: FloatArray, shrinkage: Shrinkage = FOR_FEATURES) -> FloatArray:
    """Logarithms of predictions, with a floor."""
    return np.asarray(np.log(np.maximum(probs, shrinkage.smallest)))


def calibrated(logs: FloatArray, theta: FloatArray, offset: FloatArray | float = 0.0) -> FloatArray:
    """Rows ``softmax(theta_0 log p + theta_1: + offset)``, for logarithms with a floor."""
    constants = theta[1:] + offset
    scores = theta[0] * logs
    scores += constants - constants.max()
    # The largest score of each row is subtracted only where it must be: finding it takes longer than the exponentials.
    if abs(theta[0]) * _LARGEST_LOG + np.ptp(constants) > _SAFE_EXPONENT:
        scores -= scores.max(axis=1, keepdims=True)
    values = np.exp(scores, out=scores)
    values /= (values @ np.ones(values.shape[1]))[:, None]  # a product, because sums of short rows are slow
    return values


def fit_calibration(
    logs: FloatArray,
    y: IndexArray,
    start: FloatArray | None = None,
    *,
    steps: int = 30,
    shrinkage: Shrinkage = FOR_FEATURES,
) -> FloatArray:
    """The slope and the constants with the least penalised log loss, by Newton's method; shape (1 + k,)."""
    n, k = logs.shape
    identity = np.concatenate([[1.0], np.zeros(k)])
    theta = identity.copy() if start is None else start.copy()
    ridge = np.concatenate([[shrinkage.slope], np.full(k, shrinkage.constants)])
    counts, of_labels = np.bincount(y, minlength=k), float(logs[np.arange(n), y].sum())
    for _ in range(steps):
        q = calibrated(logs, theta)
        weighted = q * logs
        expected = weighted @ np.ones(k)
        gradient = np.concatenate([[expected.sum() - of_labels], q.sum(axis=0) - counts])
        hessian = np.empty((k + 1, k + 1))
        hessian[0, 0] = np.vdot(weighted, logs) - expected @ expected
        hessian[0, 1:] = hessian[1:, 0] = weighted.sum(axis=0) - expected @ q
        hessian[1:, 1:] = np.diag(q.sum(axis=0)) - q.T @ q
        step = np.linalg.solve(hessian + np.diag(ridge), gradient + ridge * (theta - identity))
        largest = float(np.abs(step).max())
        theta = theta - step / max(largest, 1.0)
        theta[0] = max(theta[0], shrinkage.least_slope)
        if largest < 1e-4:
            break
    return theta


def recalibrated(
    probs: FloatArray, labelled: FloatArray, labels: IndexArray, shrinkage: Shrinkage = FOR_BETS
) -> FloatArray:
    """Predictions that are calibrated with the predictions and the labels of a few rows, for bets."""
    theta = fit_calibration(logarithms(labelled, shrinkage), labels, shrinkage=shrinkage)
    return calibrated(logarithms(probs, shrinkage), theta)
