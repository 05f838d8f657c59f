"""The dtypes in which adjusted probabilities are returned, and the rounding to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from baserate.support.arrays import FloatArray

_FLOAT32, _FLOAT64 = "float32", "float64"


@dataclass(frozen=True)
class AnswerTypes:
    """The dtypes in which adjusted rows are returned, by their names, which can be saved with an estimator.

    Attributes
    ----------
    common : str
        The dtype of a matrix that holds the rows.
    columns : tuple of str, optional
        The dtype of each column, if not all of them have the common one.
    is_one_column : bool
        Whether only the probability of the second of two classes is returned. That of the first is 1 minus it.
    """

    common: str = _FLOAT64
    columns: tuple[str, ...] | None = None
    is_one_column: bool = False

    @classmethod
    def of_array(cls, dtype: np.dtype[Any]) -> Self:
        """The types for an array of a dtype: float32 for float32 and float16, otherwise float64."""
        return cls(_FLOAT32 if dtype.kind == "f" and dtype.itemsize <= 4 else _FLOAT64)

    @classmethod
    def of_columns(cls, dtypes: Iterable[DTypeLike]) -> Self:
        """The types for columns that keep their floating dtypes; a single one is that of the second of two classes."""
        columns = tuple(np.dtype(dtype).name for dtype in dtypes)
        if len(columns) == 1:
            return cls(_FLOAT64, columns, is_one_column=True)
        return cls(columns[0]) if len(set(columns)) == 1 else cls(np.result_type(*columns).name, columns)

    @property
    def are_float64(self) -> bool:
        """Whether float64 rows are returned as they are."""
        return self.common == _FLOAT64 and self.columns is None

    def rounded(self, probs: FloatArray) -> FloatArray:
        """The rows as they are returned, but still in float64; ``probs`` itself if it needs no rounding."""
        if self.are_float64:
            return probs
        if self.columns is None:
            return round_to(probs, self.common).astype(np.float64)
        if self.is_one_column:
            second = round_to(probs[:, 1], self.columns[0])
            # Readers take 1 minus this for the first class, which must not become 0.
            second = np.where((second == 1) & (probs[:, 0] > 0), np.nextafter(second, second.dtype.type(0)), second)
            return np.stack([1.0 - second.astype(np.float64), second], axis=1)
        columns = [round_to(probs[:, j], dtype) for j, dtype in enumerate(self.columns)]
        return np.stack(columns, axis=1, dtype=np.float64)


FLOAT64 = AnswerTypes()


def round_to(probs: FloatArray, name: str) -> NDArray[Any]:
    """Probabilities in a floating dtype. Those below its smallest normal number are rounded up.

    To the nearest number, they would lose their digits, or become 0, which has an infinite loss.
    """
    dtype = np.dtype(name)
    out = probs.astype(dtype)
    smallest = np.finfo(dtype).smallest_normal
    if dtype.itemsize < probs.dtype.itemsize and out.min(initial=1.0) < smallest:  # a cheap check, since few are small
        small = (probs > 0) & (probs < smallest) & (out < probs)
        out[small] = np.nextafter(out[small], dtype.type(1))
    return out
