"""Validation of predictions and adjusted predictions for the displays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.errors import BadProbabilities
from baserate.inputs.dataframes import is_dataframe, split_dataframe
from baserate.inputs.validation import as_classes, as_matrix
from baserate.inputs.vectors import split_vector
from baserate.support.arrays import FloatArray

_BLOCK_ROWS = 1 << 18
_TOLERANCE = 1e-2  # by which float16 probabilities may be outside [0, 1]


class Pairs(NamedTuple):
    """Predictions and adjusted predictions of the same rows.

    Attributes
    ----------
    before, after : array of shape (n, k)
        The arrays that were passed, without a copy if possible.
    classes : tuple or None
        Class names in column order.
    one_column : bool
        Whether one number per row was passed: the probability of the second of two classes.
    """

    before: NDArray[Any]
    after: NDArray[Any]
    classes: tuple[Any, ...] | None
    one_column: bool = False

    def blocks(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Both arrays in blocks of rows, so that no copy of millions of rows is needed."""
        for start in range(0, len(self.before), _BLOCK_ROWS):
            yield self.before[start : start + _BLOCK_ROWS], self.after[start : start + _BLOCK_ROWS]

    def change(self) -> FloatArray:
        """Change of the mean of each column."""
        total = np.zeros(self.before.shape[1])
        for p, a in self.blocks():
            total += a.sum(axis=0, dtype=np.float64) - p.sum(axis=0, dtype=np.float64)
        return total / len(self.before)


def as_pairs(probs: Any, adjusted: Any, classes: Sequence[Any] | None) -> Pairs:
    """Validate two matrices, dataframes or vectors of the same shape."""
    p, names = _matrix(probs, "probs")
    a, _ = _matrix(adjusted, "adjusted")
    one_column = p.shape[1] == 1
    if one_column and a.shape == p.shape:
        p, a = (np.hstack([1.0 - column, column]) for column in (p, a))
        names = None if names is None else (f"not {names[0]}", names[0])
    if p.shape != a.shape:
        raise BadProbabilities(f"probs has shape {p.shape}, but adjusted has shape {a.shape}")
    pairs = Pairs(p, a, as_classes(classes, p.shape[1]) if classes is not None else names, one_column)
    for before, after in pairs.blocks():
        low, high = float(before.min()), float(before.max())
        if not (low >= -_TOLERANCE and high <= 1 + _TOLERANCE):
            raise BadProbabilities(f"probs must be between 0 and 1, but has values from {low:g} to {high:g}")
        if not np.isfinite(after).all():
            raise BadProbabilities("adjusted contains values that are not finite")
    return pairs


def _matrix(probs: Any, what: str) -> tuple[NDArray[Any], tuple[Any, ...] | None]:
    if is_dataframe(probs):
        matrix, frame = split_dataframe(probs, None, what=what)
        return matrix, frame.classes
    found = split_vector(probs, what=what)
    if found is None:
        return as_matrix(probs, what=what), None
    values, form = found
    return values[:, None], None if form.name is None else (form.name,)
