"""What the engines for clusters have in common: rows in partitions that only other processes read."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from baserate.engines.memory import MemoryEngine
from baserate.errors import BaserateError
from baserate.inputs.group_columns import CodedValues
from baserate.inputs.group_combinations import CombinationIndex
from baserate.inputs.reading import Naming
from baserate.support.arrays import FloatArray, IndexArray

P = ParamSpec("P")
T = TypeVar("T")

STRIDE = 1 << 40
"""Row numbers reserved for each partition where the rows of the partitions before it are not counted."""

SAMPLE_VALUES = 1 << 17
"""Values of the sample: a megabyte, which any client can hold and solve quickly."""


class PartitionNaming(Naming):
    """Names of rows whose numbers are multiples of ``STRIDE`` plus a number within the partition."""

    def row(self, i: int) -> str:
        """A row by its partition and its number within the partition."""
        return f"row {i % STRIDE} of partition {i // STRIDE}"


class CellFinder(NamedTuple):
    """Finds the cells of rows by their groups."""

    combinations: CombinationIndex
    cells: IndexArray

    def find(self, coded: Sequence[CodedValues], n_rows: int) -> IndexArray:
        """The cell of each row of a partition."""
        return self.cells[self.combinations.find(coded, n_rows)]


class SampledRows(NamedTuple):
    """Some rows of a partition; ``weights`` is None if all rows have the same weight."""

    rows: NDArray[Any]
    weights: FloatArray | None


def folded(results: Iterator[T], add: Callable[[Iterable[T]], T]) -> T | None:
    """One result of all results; None if there are none."""
    first = next(results, None)
    return None if first is None else add(itertools.chain([first], results))


def returns_errors(run: Callable[P, T]) -> Callable[P, T | BaserateError]:
    """Return errors of this package instead of raising them, so that the first partition's error is the one shown."""

    @functools.wraps(run)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T | BaserateError:
        try:
            return run(*args, **kwargs)
        except BaserateError as error:
            return error

    return wrapper


def sample_engine(parts: Sequence[SampledRows]) -> MemoryEngine | None:
    """An engine on the rows of a sample; None if it has no rows that count."""
    pieces = [part.rows for part in parts if len(part.rows)]
    if not pieces:
        return None
    own = [part.weights for part in parts if part.weights is not None]
    if not own:
        return MemoryEngine(np.concatenate(pieces), None)
    weights = np.concatenate(own)
    if not weights.any():
        return None
    weights /= weights.max()
    return MemoryEngine(np.concatenate(pieces), weights / weights.sum())
