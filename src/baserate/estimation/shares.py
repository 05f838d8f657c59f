"""Whether the predictions of a batch are spread as some class rates would spread them.

Under label shift, the share of the batch in any interval of predictions lies between the smallest and the largest share
of that interval in a class of the validation data, whatever the class rates are. The means of features, from which
rates are estimated, do not show whether that is so: they can have any value although all predictions are equal, as
those of a broken pipeline are. The test is valid for every sample size, by intervals of Clopper and Pearson for the
validation data and binomial tails for the batch (see :mod:`baserate.estimation.exact`).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from baserate.estimation.batch import Batch
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.clopper_pearson import clopper_pearson

_N_INTERVALS = 10
_UNSURE = 1e-6  # Probability that an interval of Clopper and Pearson is wrong; part of the p-value.


class Misfit(NamedTuple):
    """The interval of predictions whose share in the batch is hardest to explain.

    Attributes
    ----------
    p_value : float
        Of all intervals together.
    class_number : int
        The class whose predictions are meant.
    low, high : float
        Ends of the interval of probabilities.
    share : float
        Share of the batch with predictions in the interval.
    smallest, largest : float
        The smallest and the largest share in a class of the validation data.
    """

    p_value: float
    class_number: int
    low: float
    high: float
    share: float
    smallest: float
    largest: float


class _Counts(NamedTuple):
    """Rows above each inner edge, shape (edges, k)."""

    above: FloatArray


def largest_misfit(batch: Batch, logs: FloatArray, y: IndexArray) -> Misfit:
    """Compare a batch with validation rows that have these logarithms of predictions and these labels."""
    from scipy.special import bdtr, bdtrc

    k = logs.shape[1]
    edges = np.quantile(logs, np.linspace(0.0, 1.0, _N_INTERVALS + 1)[1:-1], axis=0)
    found = _in_intervals(np.asarray(batch.sum(partial(_above, edges)).above), batch.n_rows)
    sizes = np.bincount(y, minlength=k).astype(np.float64)
    of_classes = np.array([_in_intervals(_above(edges, logs[y == c]).above, int(sizes[c])) for c in range(k)])
    first = 1 if k == 2 else 0  # with two classes, both columns say the same
    n_tests = _N_INTERVALS * (k - first)
    low, high = clopper_pearson(of_classes, sizes[:, None, None] - of_classes, _UNSURE / (2 * n_tests * k))
    too_many = np.where(found > 0, bdtrc(np.maximum(found - 1, 0), batch.n_rows, high.max(axis=0)), 1.0)
    too_few = bdtr(found, batch.n_rows, low.min(axis=0))
    tails = np.minimum(too_many, too_few)
    at, j = np.unravel_index(int(tails[:, first:].argmin()), (_N_INTERVALS, k - first))
    j += first
    ends = np.concatenate([[0.0], np.exp(edges[:, j]), [1.0]])
    shares = of_classes[:, at, j] / np.maximum(sizes, 1)
    p_value = min(_UNSURE + 2.0 * n_tests * float(tails[at, j]), 1.0)
    share = float(found[at, j]) / batch.n_rows
    return Misfit(
        p_value, int(j), float(ends[at]), float(ends[at + 1]), share, float(shares.min()), float(shares.max())
    )


def _above(edges: FloatArray, logs: FloatArray) -> _Counts:
    return _Counts(np.array([(logs > edge).sum(axis=0) for edge in edges], dtype=np.float64))


def _in_intervals(above: FloatArray, n_rows: int) -> FloatArray:
    """The number of rows in each interval, from those above each edge."""
    k = above.shape[1]
    ends = np.vstack([np.full((1, k), float(n_rows)), above, np.zeros((1, k))])
    return ends[:-1] - ends[1:]
