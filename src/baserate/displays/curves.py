"""Data of reliability curves: predicted probabilities and observed frequencies in bins."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.rates.intervals import population_bounds
from baserate.support.arrays import FloatArray, IndexArray

_N_BARS = 40  # of the histogram


class Curve(NamedTuple):
    """A reliability curve: predictions in bins with about the same number of rows.

    Attributes
    ----------
    predicted, observed : array of shape (b,)
        Mean predicted probability of the bin, and relative frequency of the event.
    low, high : array of shape (b,)
        Confidence interval of the frequency (Clopper and Pearson), for each bin separately.
    counts : array of shape (b,)
        Number of rows in the bin.
    histogram, edges : array of shape (40,) and (41,)
        Number of rows by predicted probability.
    """

    predicted: FloatArray
    observed: FloatArray
    low: FloatArray
    high: FloatArray
    counts: FloatArray
    histogram: FloatArray
    edges: FloatArray


def reliability_curve(
    rows: NDArray[Any], column: int | None, truth: IndexArray, n_bins: int, confidence: float
) -> Curve:
    """The reliability curve of one column, or of the most probable class of each row if ``column`` is None."""
    predicted = (rows.max(axis=1) if column is None else rows[:, column]).astype(np.float64)
    event = truth == (rows.argmax(axis=1) if column is None else column)
    at = np.unique(np.linspace(0, len(predicted), n_bins + 1).astype(np.intp)[1:-1])
    # Not np.sort, which takes seconds for ten million rows.
    cuts = np.unique(np.partition(predicted, at)[at]) if at.size else at
    bin_of = np.searchsorted(cuts, predicted, side="right")  # equal probabilities get the same bin
    counts = np.bincount(bin_of, minlength=len(cuts) + 1)
    nonempty = counts > 0
    hits = np.bincount(bin_of[event], minlength=len(counts))[nonempty]
    total = np.bincount(bin_of, weights=predicted, minlength=len(counts))[nonempty]
    counts = counts[nonempty]
    bounds = [population_bounds(np.array([h, m - h]), confidence) for h, m in zip(hits, counts, strict=True)]
    edges = np.linspace(min(0.0, predicted.min()), max(1.0, predicted.max()), _N_BARS + 1)
    return Curve(
        predicted=total / counts,
        observed=hits / counts,
        low=np.array([low[0] for low, _ in bounds]),
        high=np.array([high[0] for _, high in bounds]),
        counts=counts.astype(np.float64),
        histogram=np.histogram(predicted, edges)[0].astype(np.float64),
        edges=edges,
    )
