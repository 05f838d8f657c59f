"""What runs where the rows of a Dask collection are: tasks on the blocks of one partition.

A task arrives as bytes. So a lazy answer holds on to the task only, and never to the collection.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.core.contracts import Block
from baserate.engines.partitions import CellFinder, SampledRows, folded, returns_errors
from baserate.errors import BadWeights
from baserate.inputs.dataframes import Frame, split_dataframe
from baserate.inputs.group_columns import CodedValues, code_values
from baserate.inputs.group_combinations import Combinations
from baserate.inputs.validation import as_matrix
from baserate.support.arrays import FloatArray, IndexArray, rows_per_block


class Place(NamedTuple):
    """Where a partition belongs, and how its rows are read.

    Attributes
    ----------
    start : int
        Number of its first row in the whole input.
    n_rows : int
        Rows of the whole input, or 0 if they have not been counted.
    scale : tuple of float
        The largest weight, and the sum of all weights divided by it.
    names : list or None
        Columns of a dataframe that hold the probabilities.
    dtype : numpy.dtype or None
        The dtype of the rows, if it is known.
    group_keys : tuple, optional
        Columns of a dataframe that hold the groups of the rows.
    """

    start: int
    n_rows: int
    scale: tuple[float, float]
    names: list[Any] | None
    dtype: np.dtype[Any] | None
    group_keys: tuple[Any, ...] | None = None


class WeightSums(NamedTuple):
    """What one partition of the weights adds to their scale, and its first bad weight.

    ``share`` is the sum of the weights divided by the largest one.
    """

    length: int
    largest: float
    share: float
    bad: tuple[int, float] | None


@returns_errors
def fold_blocks(task: bytes, part: Any, weights: Any, finder: Any, place: Place, block_values: int) -> Any:
    """The results of a task for the blocks of a partition, put together; None if it has no rows."""
    run, add = pickle.loads(task)
    return folded(_results(run, part, weights, finder, place, block_values), add)


@returns_errors
def all_results(task: bytes, part: Any, weights: Any, finder: Any, place: Place, block_values: int) -> list[Any]:
    """The results of a task for the blocks of a partition."""
    return list(_results(pickle.loads(task), part, weights, finder, place, block_values))


def adjusted_rows(
    task: bytes,
    part: Any,
    finder: Any,
    place: Place,
    block_values: int,
    dtype: np.dtype[Any] | None,
    common: np.dtype[Any],
) -> Any:
    """The rows that a task returns for a partition, in the form of the partition.

    ``dtype`` is the one that the caller asked for, if any, and ``common`` that of the rows of the task.
    """
    run = pickle.loads(task)
    raw, frame = matrix_of(part, place)
    rows = np.empty(raw.shape, dtype=common, order="F" if frame is not None else "C")
    cells = _cells(part, finder, place)
    for block in _blocks(raw, None, cells, place, block_values):  # rows do not depend on their weights
        start = block.start - place.start
        rows[start : start + len(block.rows)] = run(block).rows
    return rows if frame is None else frame.with_dtype(dtype).wrap(rows)


@returns_errors
def picked(part: Any, weights: Any, place: Place, rows: IndexArray) -> SampledRows:
    """Some rows of a partition, by their numbers in it, and their weights."""
    raw, _ = matrix_of(part, place)
    return SampledRows(raw[rows], None if weights is None else _as_numbers(weights)[rows])


@returns_errors
def combinations_in(part: Any, weights: Any, place: Place) -> Combinations | None:
    """The combinations of groups in a partition; None if it has no rows."""
    if not len(part):
        return None
    largest, share = place.scale
    own = np.full(len(part), 1.0 / place.n_rows) if weights is None else _as_numbers(weights) / largest / share
    return Combinations.of(place.group_keys or (), _coded_groups(part, place), len(part), own)[0]


def _coded_groups(part: Any, place: Place) -> list[CodedValues]:
    return [code_values(part[key]) for key in place.group_keys or ()]


def _cells(part: Any, finder: CellFinder | None, place: Place) -> IndexArray | None:
    return None if finder is None or not len(part) else finder.find(_coded_groups(part, place), len(part))


def matrix_of(part: Any, place: Place) -> tuple[NDArray[Any], Frame | None]:
    """The matrix of a partition, and what else it was if it is a dataframe."""
    if place.names is not None:
        raw, frame = split_dataframe(part, place.names, selected=True)
    else:
        raw, frame = as_matrix(part) if len(part) else np.asarray(part), None
    return (raw if place.dtype is None else np.asarray(raw, dtype=place.dtype)), frame


def length(part: Any) -> int:
    """Rows of a partition."""
    return len(part)


def given_weights(weights: FloatArray) -> FloatArray:
    """Weights that the caller passed."""
    return weights


def weight_column(part: Any, name: Any) -> NDArray[Any]:
    """A column of a partition, as numbers."""
    return np.asarray(part[name])


@returns_errors
def weight_sums(weights: Any) -> WeightSums:
    """Check and sum the weights of a partition."""
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


def _results(
    run: Callable[[Block], Any], part: Any, weights: Any, finder: Any, place: Place, block_values: int
) -> Iterator[Any]:
    raw, _ = matrix_of(part, place)
    return map(run, _blocks(raw, weights, _cells(part, finder, place), place, block_values))


def _blocks(
    raw: NDArray[Any], weights: Any, cells: IndexArray | None, place: Place, block_values: int
) -> Iterator[Block]:
    largest, share = place.scale
    equal = weights is None
    own = np.full(len(raw), 1.0 / max(place.n_rows, 1)) if equal else _as_numbers(weights) / largest / share
    yield from Block(raw, own, place.start, cells=cells).split(rows_per_block(raw.shape[1], block_values))
