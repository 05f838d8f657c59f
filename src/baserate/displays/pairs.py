"""Predictions and their adjusted form, as people pass them, turned into arrays to draw from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.errors import BadProbabilities
from baserate.inputs.dataframes import is_frame, take_apart
from baserate.inputs.validation import as_classes, as_matrix
from baserate.support.arrays import FloatArray

_BLOCK = 1 << 18  # rows that are looked at together
_SLACK = 1e-2  # what float16 may miss 0 or 1 by


class Pairs(NamedTuple):
    """Predictions before and after.

    Attributes
    ----------
    before, after : array of shape (n, k)
        As they were passed, not copied.
    classes : tuple or None
    """

    before: NDArray[Any]
    after: NDArray[Any]
    classes: tuple[Any, ...] | None

    def blocks(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Both in pieces, so that ten million rows need no second copy."""
        for start in range(0, len(self.before), _BLOCK):
            yield self.before[start : start + _BLOCK], self.after[start : start + _BLOCK]

    def change(self) -> FloatArray:
        """How much the mean of each column changed."""
        total = np.zeros(self.before.shape[1])
        for p, a in self.blocks():
            total += a.sum(axis=0, dtype=np.float64) - p.sum(axis=0, dtype=np.float64)
        return total / len(self.before)


def as_pairs(probs: Any, adjusted: Any, classes: Sequence[Any] | None) -> Pairs:
    """Two matrices or dataframes of the same shape; predictions that are none are refused."""
    p, names = _matrix(probs, "probs")
    a, _ = _matrix(adjusted, "adjusted")
    if p.shape != a.shape:
        raise BadProbabilities(f"probs has shape {p.shape}, but adjusted has shape {a.shape}")
    pairs = Pairs(p, a, as_classes(classes, p.shape[1]) if classes is not None else names)
    for before, after in pairs.blocks():
        low, high = float(before.min()), float(before.max())
        if not (low >= -_SLACK and high <= 1 + _SLACK):
            raise BadProbabilities(f"probs must lie between 0 and 1, but has values from {low:g} to {high:g}")
        if not np.isfinite(after).all():
            raise BadProbabilities("adjusted has values that are not finite")
    return pairs


def _matrix(probs: Any, what: str) -> tuple[NDArray[Any], tuple[Any, ...] | None]:
    if not is_frame(probs):
        return as_matrix(probs, what=what), None
    matrix, frame = take_apart(probs, None, what=what)
    return matrix, frame.classes
