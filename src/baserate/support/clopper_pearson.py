"""Confidence intervals of Clopper and Pearson for probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from baserate.support.arrays import FloatArray


def clopper_pearson(successes: ArrayLike, failures: ArrayLike, tail: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """The lower and upper limits of probabilities, of arrays of any common shape.

    Parameters
    ----------
    successes, failures : array-like
        Counts. They need not be whole numbers: effective counts of a survey are not.
    tail : array-like
        Probability with which the probability may lie beyond one end of its interval, below 1/2.

    Returns
    -------
    low, high : arrays
        0 and 1 if nothing was counted.
    """
    from scipy.special import betainccinv, betaincinv

    x, others = np.asarray(successes, dtype=np.float64), np.asarray(failures, dtype=np.float64)
    # Not betaincinv at 1 - tail, which has few digits of a small tail.
    low = np.where(x > 0, betaincinv(np.where(x > 0, x, 1.0), others + 1.0, tail), 0.0)
    high = np.where(others > 0, betainccinv(x + 1.0, np.where(others > 0, others, 1.0), tail), 1.0)
    return low, high
