"""The rows on which a classifier inside others was trained, after the samplers of imbalanced-learn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from baserate.support.arrays import FloatArray, IndexArray


@dataclass(frozen=True)
class TrainingRows:
    """The labels and weights of the rows that a classifier got.

    Attributes
    ----------
    classes : array of shape (k,)
        The classes as this classifier knows them: class names, or numbers if it is inside an ensemble.
    labels : array of shape (n,)
        The class of each row, as a position in ``classes``.
    weights : array of shape (n,) or None
        The row weights, if there are any.
    """

    classes: NDArray[Any]
    labels: IndexArray
    weights: FloatArray | None = None

    @property
    def totals(self) -> FloatArray:
        """Total weight of each class."""
        return np.bincount(self.labels, self.weights, minlength=len(self.classes)).astype(np.float64)

    def inside_ensemble(self) -> Self:
        """These rows as scikit-learn's ensembles pass them on: the classes are numbered."""
        return replace(self, classes=np.arange(len(self.classes)))

    def take(self, rows: IndexArray) -> Self:
        """Some of these rows."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, labels=self.labels[rows], weights=weights)


def resampled(rows: TrainingRows, samplers: Iterable[Any]) -> TrainingRows | None:
    """The rows after some fitted samplers, one after the other; None if they cannot be determined."""
    for sampler in samplers:
        after = _after_sampler(rows, sampler)
        if after is None:
            return None
        rows = after
    return rows


def _after_sampler(rows: TrainingRows, sampler: Any) -> TrainingRows | None:
    """The rows after one fitted sampler.

    Known from what it has stored. Sampling again would take as long as in training, and needs the features as well.
    """
    if getattr(sampler, "sample_indices_", None) is not None:
        return rows.take(sampler.sample_indices_)
    combined = [getattr(sampler, name) for name in ("smote_", "enn_", "tomek_") if hasattr(sampler, name)]
    if combined:
        return resampled(rows, combined)
    numbers, kind = getattr(sampler, "sampling_strategy_", None), getattr(sampler, "_sampling_type", None)
    if rows.weights is not None or numbers is None or kind not in ("over-sampling", "under-sampling"):
        return None
    by_class = [int(numbers.get(name, 0)) for name in rows.classes.tolist()]
    if kind == "over-sampling":  # the numbers of rows that were added, at the end
        added = np.repeat(np.arange(len(by_class)), by_class)
        return replace(rows, labels=np.concatenate([rows.labels, added]))
    counts = np.bincount(rows.labels, minlength=len(by_class))
    kept = [by_class[j] if name in numbers else counts[j] for j, name in enumerate(rows.classes.tolist())]
    return replace(rows, labels=np.repeat(np.arange(len(kept)), kept))  # the numbers of rows that were kept
