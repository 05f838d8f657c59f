"""Predictions in bins, and what came of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.rates.intervals import population_bounds
from baserate.support.arrays import FloatArray, IndexArray

_BARS = 40  # of the histogram


class Curve(NamedTuple):
    """Predictions in bins of about equal count, and what came of them.

    Attributes
    ----------
    predicted, observed : array of shape (b,)
        Mean probability in a bin, and how often it came true.
    low, high : array of shape (b,)
        Interval of the latter (Clopper and Pearson), of each bin by itself.
    counts : array of shape (b,)
    histogram, edges : array of shape (40,) and (41,)
        Rows by predicted probability.
    """

    predicted: FloatArray
    observed: FloatArray
    low: FloatArray
    high: FloatArray
    counts: FloatArray
    histogram: FloatArray
    edges: FloatArray


def curve_of(rows: NDArray[Any], column: int | None, truth: IndexArray, n_bins: int, confidence: float) -> Curve:
    """The curve of one column, or of the most probable class of each row."""
    said = (rows.max(axis=1) if column is None else rows[:, column]).astype(np.float64)
    came = truth == (rows.argmax(axis=1) if column is None else column)
    at = np.unique(np.linspace(0, len(said), n_bins + 1).astype(np.intp)[1:-1])
    cuts = np.unique(np.partition(said, at)[at]) if at.size else at  # a sort of ten million rows takes seconds
    which = np.searchsorted(cuts, said, side="right")  # equal probabilities stay together
    counts = np.bincount(which, minlength=len(cuts) + 1)
    full = counts > 0
    hits = np.bincount(which[came], minlength=len(counts))[full]
    total = np.bincount(which, weights=said, minlength=len(counts))[full]
    counts = counts[full]
    bounds = [population_bounds(np.array([h, m - h]), confidence) for h, m in zip(hits, counts, strict=True)]
    edges = np.linspace(min(0.0, said.min()), max(1.0, said.max()), _BARS + 1)
    return Curve(
        predicted=total / counts,
        observed=hits / counts,
        low=np.array([low[0] for low, _ in bounds]),
        high=np.array([high[0] for _, high in bounds]),
        counts=counts.astype(np.float64),
        histogram=np.histogram(said, edges)[0].astype(np.float64),
        edges=edges,
    )
