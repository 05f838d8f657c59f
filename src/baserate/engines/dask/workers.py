"""What runs where the rows of a Dask collection are: tasks on the blocks of one partition.

A task comes as bytes. So each partition works on a copy of the problem that knows nothing of the collection, whoever
computes it, and a lazy answer holds on to nothing else.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from baserate.engines.base import Block, Sums, total
from baserate.errors import BadWeights, BaserateError
from baserate.inputs.dataframes import Frame, take_apart
from baserate.inputs.validation import as_matrix
from baserate.support.arrays import CACHED, FloatArray, IndexArray, rows_of_a_block

P = ParamSpec("P")
T = TypeVar("T")


class Place(NamedTuple):
    """Where a partition belongs, and how its rows are read.

    Attributes
    ----------
    start : int
        Number of its first row in the whole input.
    n_rows : int
        Of the whole input, or 0 where nobody has counted them.
    scale : tuple of float
        The largest weight, and the sum of all after they were divided by it.
    names : list or None
        Columns of a dataframe that hold the probabilities.
    dtype : numpy.dtype or None
        What the rows are made of, if that was promised.
    """

    start: int
    n_rows: int
    scale: tuple[float, float]
    names: list[Any] | None
    dtype: np.dtype[Any] | None


class WeightSums(NamedTuple):
    """What one partition of the weights adds to their scale, and its first bad one."""

    length: int
    largest: float
    share: float
    """Their sum, after they were divided by the largest."""
    bad: tuple[int, float] | None


def telling(run: Callable[P, T]) -> Callable[P, T | BaserateError]:
    """Answer an error of this package instead of raising it: which one a cluster passes on is a matter of luck."""

    @functools.wraps(run)
    def careful(*args: P.args, **kwargs: P.kwargs) -> T | BaserateError:
        try:
            return run(*args, **kwargs)
        except BaserateError as error:
            return error

    return careful


@telling
def summed(task: bytes, part: Any, weights: Any, place: Place, block_values: int) -> Sums:
    """The sums of a task over the rows of a partition; nothing if it has none."""
    return total(_answers(pickle.loads(task), part, weights, place, block_values))


@telling
def listed_answers(task: bytes, part: Any, weights: Any, place: Place, block_values: int) -> list[Any]:
    """The answers of a task for the blocks of a partition."""
    return list(_answers(pickle.loads(task), part, weights, place, block_values))


@telling
def written_sums(task: bytes, part: Any, weights: Any, place: Place, block_values: int) -> Sums:
    """The sums of a task that also answers rows; those are made again when somebody wants them."""
    run = pickle.loads(task)
    return total(_answers(lambda block: run(block)[1], part, weights, place, block_values))


def adjusted_rows(task: bytes, part: Any, place: Place, block_values: int) -> Any:
    """The rows that a task answers for a partition, in the form of the partition."""
    run = pickle.loads(task)
    raw, frame = matrix_of(part, place)
    rows = np.empty(raw.shape, dtype=np.float64, order="F" if frame is not None else "C")
    for block in _blocks(raw, None, place, block_values):  # rows do not depend on their weights
        start = block.start - place.start
        rows[start : start + len(block.raw)] = run(block)[0]
    return rows if frame is None else frame.wrap(rows)


@telling
def picked(part: Any, weights: Any, place: Place, rows: IndexArray) -> tuple[NDArray[Any], FloatArray | None]:
    """Some rows of a partition, by their numbers in it, and their weights."""
    raw, _ = matrix_of(part, place)
    return raw[rows], None if weights is None else _as_numbers(weights)[rows]


def matrix_of(part: Any, place: Place) -> tuple[NDArray[Any], Frame | None]:
    """The matrix in a partition, and what it was besides if that was a dataframe."""
    if place.names is not None:
        raw, frame = take_apart(part, place.names, selected=True)
    else:
        raw, frame = as_matrix(part) if len(part) else np.asarray(part), None
    return (raw if place.dtype is None else np.asarray(raw, dtype=place.dtype)), frame


def length(part: Any) -> int:
    """Rows of a partition."""
    return len(part)


def given_weights(weights: FloatArray) -> FloatArray:
    """Weights that came from the caller's side."""
    return weights


def weight_column(part: Any, name: Any) -> NDArray[Any]:
    """A column of a partition, as numbers."""
    return np.asarray(part[name])


@telling
def weight_sums(weights: Any) -> WeightSums:
    """Look through the weights of a partition."""
    w = _as_numbers(weights)
    bad = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if bad.size:
        return WeightSums(len(w), 0.0, 0.0, (int(bad[0]), float(w[bad[0]])))
    largest = float(w.max()) if w.size else 0.0
    return WeightSums(len(w), largest, float((w / largest).sum()) if largest else 0.0, None)


def _as_numbers(weights: Any) -> FloatArray:
    values = np.asarray(weights)
    if values.dtype.kind not in "fiub":
        raise BadWeights(f"sample_weight must hold real numbers, but has dtype {values.dtype}")
    return values.astype(np.float64)


def _answers(run: Callable[[Block], Any], part: Any, weights: Any, place: Place, block_values: int) -> Iterator[Any]:
    raw, _ = matrix_of(part, place)
    return map(run, _blocks(raw, weights, place, block_values))


def _blocks(raw: NDArray[Any], weights: Any, place: Place, block_values: int) -> Iterator[Block]:
    block_rows = max(block_values * rows_of_a_block(raw.shape[1]) // CACHED, 1)
    largest, share = place.scale
    own = None if weights is None else _as_numbers(weights) / largest / share
    equal = np.full(min(block_rows, len(raw)), 1.0 / max(place.n_rows, 1))
    for start in range(0, len(raw), block_rows):
        rows = raw[start : start + block_rows]
        w = equal[: len(rows)] if own is None else own[start : start + block_rows]
        yield Block(rows, w, place.start + start)
