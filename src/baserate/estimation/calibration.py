"""Calibration for features: one temperature and one bias per class, with a ridge.

The calibrated rows are only used as features of the predictions, so the confidence of an estimate does not depend on
how well they are calibrated. Without the ridge they would over-fit small validation samples.
"""

from __future__ import annotations

import numpy as np

from baserate.support.arrays import FloatArray, IndexArray

_RIDGE = 1.0  # in rows: the penalty is ((scale - 1)^2 + |bias|^2) / 2
_FLATTEST = 0.05  # the smallest scale; predictions that say nothing about the labels would have 0
SMALLEST = 1e-6
"""Probabilities below this count as this much: a logarithm of 0 is no feature."""


def logarithms(probs: FloatArray) -> FloatArray:
    """Logarithms of predictions, with a floor."""
    return np.asarray(np.log(np.maximum(probs, SMALLEST)))


def softmax(scores: FloatArray) -> FloatArray:
    """Probabilities that are proportional to the exponentials of each row."""
    values = np.exp(scores - scores.max(axis=1, keepdims=True))
    values /= values.sum(axis=1, keepdims=True)
    return np.asarray(values)


def calibrated(logs: FloatArray, theta: FloatArray, offset: FloatArray | float = 0.0) -> FloatArray:
    """Rows ``softmax(theta_0 log p + theta_1: + offset)``."""
    return softmax(theta[0] * logs + (theta[1:] + offset))


def fit_calibration(logs: FloatArray, y: IndexArray, start: FloatArray | None = None, steps: int = 20) -> FloatArray:
    """The scale and the biases with the least log loss plus ridge, by Newton's method; shape (1 + k,)."""
    n, k = logs.shape
    theta = np.concatenate([[1.0], np.zeros(k)]) if start is None else start.copy()
    counts, of_labels = np.bincount(y, minlength=k), float(logs[np.arange(n), y].sum())
    identity = np.concatenate([[1.0], np.zeros(k)])
    for _ in range(steps):
        q = calibrated(logs, theta)
        weighted = q * logs
        expected = weighted.sum(axis=1)
        gradient = np.concatenate([[expected.sum() - of_labels], q.sum(axis=0) - counts])
        hessian = np.empty((k + 1, k + 1))
        hessian[0, 0] = (weighted * logs).sum() - expected @ expected
        hessian[0, 1:] = hessian[1:, 0] = weighted.sum(axis=0) - expected @ q
        hessian[1:, 1:] = np.diag(q.sum(axis=0)) - q.T @ q
        hessian[np.arange(k + 1), np.arange(k + 1)] += _RIDGE
        step = np.linalg.solve(hessian, gradient + _RIDGE * (theta - identity))
        largest = float(np.abs(step).max())
        theta = theta - step / max(largest, 1.0)
        theta[0] = max(theta[0], _FLATTEST)
        if largest < 1e-4:
            break
    return theta
