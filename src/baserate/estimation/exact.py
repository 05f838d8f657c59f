"""A finite-sample confidence set for the class rates of a batch, from the confusion matrix.

Let C_jc be the probability that a row of class c is predicted as class j, and b_j the expected share of rows of the
batch that are predicted as j: ``b_j = sum_c pi_c C_jc``. Intervals of Clopper and Pearson bound every C_jc from the
validation rows, and every b_j from the batch. Given the labels, the number of rows that are predicted as j is a sum of
independent Bernoulli variables with unequal probabilities, whose tails are at most those of the binomial distribution
(W. Hoeffding, On the distribution of the number of successes in independent trials, 1956). Together they are linear
inequalities for pi.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.clopper_pearson import clopper_pearson


class Bounds(NamedTuple):
    """Bounds of all rates, shape (k,) each, and the middle of the polytope."""

    low: FloatArray
    high: FloatArray
    middle: FloatArray


def exact_bounds(most_probable: FloatArray, predicted: IndexArray, y: IndexArray, confidence: float) -> Bounds | None:
    """Joint bounds for the realised rates of a batch; None if no rates satisfy the inequalities.

    Parameters
    ----------
    most_probable : array of shape (k,)
        Number of rows of the batch that are predicted as each class.
    predicted, y : int arrays of shape (n_v,)
        Predicted and true classes of the validation rows.
    confidence : float
    """
    from scipy.optimize import linprog

    k = len(most_probable)
    confusion = np.zeros((k, k))
    np.add.at(confusion, (predicted, y), 1.0)
    # With two classes, the rates of one prediction say everything about the other one.
    n_rows = 1 if k == 2 else k
    alpha = 1.0 - confidence
    # Half of alpha is for the validation rows and half for the batch, and each interval has two ends.
    low_c, high_c = clopper_pearson(confusion, confusion.sum(axis=0) - confusion, alpha / 4 / (n_rows * k))
    low_b, high_b = clopper_pearson(most_probable, most_probable.sum() - most_probable, alpha / 4 / n_rows)
    # sum_c pi_c low_jc <= high_j and sum_c pi_c high_jc >= low_j
    left, right = np.vstack([low_c, -high_c]), np.concatenate([high_b, -low_b])
    ends = []
    for sign in (1.0, -1.0):
        for j in range(k):
            found = linprog(
                sign * np.eye(k)[j], A_ub=left, b_ub=right, A_eq=np.ones((1, k)), b_eq=[1.0], bounds=(0.0, 1.0)
            )
            if not found.success:
                return None
            ends.append(found.x)
    corners = np.array(ends)
    at = np.arange(k)
    low, high = (np.clip(corners[first + at, at], 0.0, 1.0) + 0.0 for first in (0, k))  # not -0
    return Bounds(low, np.maximum(low, high), corners.mean(axis=0) / corners.mean(axis=0).sum())
