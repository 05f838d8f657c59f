"""One-dimensional predictions: the probability of the positive class of two, as a list, array or Series.

Other modules see a matrix with two columns and a :class:`Vector`. The vector holds what is needed to return adjusted
predictions in the same form: library, shape, index, name and dtype.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baserate.errors import BadProbabilities
from baserate.inputs.reading import FROM_LOGITS, NUMBERED, Naming
from baserate.support.answer_types import AnswerTypes

LARGEST_EXCESS = 1e-5
"""How far the probability of one class may be above 1, by rounding errors of float32."""


@dataclass(frozen=True, eq=False)
class Vector:
    """One-dimensional predictions without their numbers.

    Attributes
    ----------
    kind : narwhals.Implementation or None
        The dataframe library of a Series; None for anything that becomes a NumPy array.
    shape : tuple
        (n,); (n, 1) for a matrix with one column; () for a single number.
    name : object
        Name of the Series, which is that of its class; None if it has none.
    dtype : numpy.dtype
        Of the adjusted probabilities.
    like : Series, optional
        An empty one of the same type; for pandas the one that was passed, because of its index.
    """

    kind: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    name: Any = None
    like: Any = None

    classes = None  # The names of the classes come from the rates.
    selected = False  # There are no other columns.

    @property
    def columns(self) -> tuple[Any, ...]:
        """The name of the Series, as that of a single column."""
        return (self.name,)

    @property
    def answer_types(self) -> AnswerTypes:
        """The dtype of the adjusted probabilities."""
        return AnswerTypes.of_columns([self.dtype])

    def with_dtype(self, dtype: np.dtype[Any] | None) -> Vector:
        """The same with another dtype; None for no change."""
        if dtype is None:
            return self
        like = self.like.astype(str(dtype)) if self.kind is not None and self.kind.is_pandas_like() else self.like
        return replace(self, dtype=dtype, like=like)

    def wrap(self, answer: NDArray[Any]) -> Any:
        """The second column of a matrix, whose numbers are rounded already, in the form of the predictions."""
        values = np.ascontiguousarray(answer[:, 1], dtype=self.dtype)
        if self.kind is None:
            return values.reshape(self.shape) if self.shape else values[0]
        if self.kind.is_pandas_like():
            native = self.like.dtype if self.like.dtype.kind == "f" else None
            return type(self.like)(values, index=self.like.index.copy(), name=self.name, dtype=native)
        return self._wrap_series(values)

    def _wrap_series(self, values: NDArray[Any]) -> Any:
        import narwhals as nw

        series = nw.new_series("" if self.name is None else self.name, values, backend=self.kind).to_native()
        is_array = self.kind.is_pyarrow() and not hasattr(self.like, "chunks")
        return series.combine_chunks() if is_array else series


class VectorNaming(Naming):
    """Names of the entries of a vector for use in messages."""

    def cell(self, i: int, j: int) -> str:
        return self.row(i)


def split_vector(probs: Any, *, what: str) -> tuple[NDArray[Any], Vector] | None:
    """One-dimensional predictions, or a matrix with one column, as a vector of numbers and its form.

    None if ``probs`` is something else.
    """
    series = None if isinstance(probs, (np.ndarray, list, tuple)) else _as_series(probs)
    if series is not None:
        values = _numbers(series.to_numpy(), what)
        dtype = np.dtype(str(series.dtype).lower() if series.dtype.is_float() else np.float64)
        like = probs if series.implementation.is_pandas_like() else probs[:0]
        name = None if series.name == "" else series.name
        return values, Vector(series.implementation, values.shape, dtype, name, like)
    try:
        values = np.asarray(probs)
    except ValueError:  # rows of different lengths, which are reported when a matrix is made of them
        return None
    is_vector = values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1)
    if not is_vector or np.ma.getmaskarray(probs).any():
        return None
    return _numbers(values.reshape(-1), what), Vector(
        None, values.shape, np.dtype(AnswerTypes.of_array(values.dtype).common)
    )


def two_columns(p: NDArray[Any], *, from_logits: bool = False, naming: Naming = NUMBERED) -> NDArray[Any]:
    """A matrix with the probabilities, or logits, of both classes, from those of the second class.

    It is in float64: in float32, 1 minus a probability would be rounded, and be a little off the predictions.
    """
    p = p.astype(np.float64, copy=False)
    matrix = np.empty((len(p), 2), order="F")
    if from_logits:  # so that an infinite logit becomes a probability of exactly 0 or 1
        np.minimum(-p, 0, out=matrix[:, 0])
        np.minimum(p, 0, out=matrix[:, 1])
        return matrix
    check_probabilities(p, naming)
    np.minimum(p, 1, out=matrix[:, 1])
    np.subtract(1, matrix[:, 1], out=matrix[:, 0])
    return matrix


def check_probabilities(p: NDArray[Any], naming: Naming, first_row: int = 0) -> None:
    """Raise if some of the probabilities of one class, from row ``first_row`` on, are not between 0 and 1."""
    bad = np.flatnonzero(~((p >= 0) & (p <= 1 + LARGEST_EXCESS)))
    if bad.size:
        i, more = int(bad[0]), f" ({bad.size} of {len(p)} rows are not)" if bad.size > 1 else ""
        if not np.isfinite(p[i]):
            raise BadProbabilities(f"{naming.row(first_row + i)} is {p[i]}; probabilities must be finite{more}")
        raise BadProbabilities(
            f"{naming.row(first_row + i)} is {p[i]}; probabilities must be between 0 and 1{more}. Divide percentages "
            f"by 100; for logits pass {FROM_LOGITS}",
            options=[FROM_LOGITS],
        )


def _as_series(probs: Any) -> Any:
    """A narwhals Series of a pandas or polars Series or a pyarrow array; None for anything else."""
    import narwhals as nw

    if type(probs).__module__.startswith("pyarrow") and not hasattr(probs, "chunks"):
        import pyarrow as pa

        probs = pa.chunked_array([probs])  # narwhals does not support single arrays
    found = nw.from_native(probs, series_only=True, pass_through=True)
    return found if isinstance(found, nw.Series) else None


def _numbers(values: NDArray[Any], what: str) -> NDArray[Any]:
    if values.dtype.kind == "O":  # nullable columns; missing values become NaN, which a later check reports by row
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise BadProbabilities(f"{what} must hold real numbers, but some of its entries are not") from None
    if values.dtype.kind not in "fiub":
        raise BadProbabilities(f"{what} must hold real numbers, but has dtype {values.dtype}")
    if not len(values):
        raise BadProbabilities(f"{what} is empty")
    return values
