"""Rows in the partitions of a Dask collection: tasks are sent to the rows, and sums come back.

A task of a few kilobytes is sent to each partition, and the sums of a partition are sent back. Once, in the first pass,
some rows come along as a sample, whose size does not depend on the number of rows. The answer is a Dask collection that
adjusts its partitions when it is computed, so adjusted rows are not transferred either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from baserate.core.contracts import Block, LazyEngine, WrittenBlock
from baserate.core.sampling import collected_size, sampled_rows
from baserate.engines.dask import workers
from baserate.engines.dask.collections import Partitions, is_partitioned, partitioned
from baserate.engines.dask.graphs import calls, compute_all
from baserate.engines.dask.rows import DaskRows
from baserate.engines.memory import MemoryEngine
from baserate.engines.partitions import SAMPLE_VALUES, CellFinder, PartitionNaming, sample_engine
from baserate.errors import BadGroups
from baserate.inputs.dataframes import split_dataframe
from baserate.inputs.group_combinations import CombinationIndex, Combinations
from baserate.inputs.reading import Naming
from baserate.inputs.row_source import RowSource
from baserate.support.answer_types import AnswerTypes
from baserate.support.arrays import BLOCK_VALUES, IndexArray, sum_by

T = TypeVar("T")


class PickledTask(NamedTuple):
    """A task whose rows are the answer."""

    task: bytes
    block_values: int


class DaskEngine(LazyEngine):
    """A Dask array or dataframe."""

    name = "dask"

    @classmethod
    def open(cls, source: RowSource) -> Self | None:
        if not is_partitioned(source.probs):
            return None
        if source.groups is not None:
            raise BadGroups("the groups of a Dask dataframe are columns of it; leave groups= out")
        partitions = partitioned(source.probs, source.choice, what=source.argument, group_keys=source.group_keys)
        return cls(partitions, DaskRows(partitions, source.sample_weight), source.answer_dtype)

    def __init__(self, partitions: Partitions, rows: DaskRows, answer_dtype: np.dtype[Any] | None) -> None:
        self._partitions = partitions
        self._rows = rows
        self._answer_dtype = answer_dtype
        self._meta, self.answer_types = _meta(partitions, answer_dtype)
        self._answer: PickledTask | None = None
        self._sample: MemoryEngine | None = None
        self._has_read = False
        self._finder: CellFinder | None = None
        self.n_classes, self.dtype = partitions.n_classes, partitions.dtype
        self.columns = partitions.columns
        self.weighted = rows.weighted

    @property
    def n_rows(self) -> int:  # type: ignore[override]  # Counted on first use, which takes a pass.
        """Number of rows."""
        return sum(self._rows.lengths)

    @property
    def n_values(self) -> int:
        return self._rows.n_values

    @property
    def naming(self) -> Naming:  # type: ignore[override]  # It depends on whether the rows have been counted.
        """How rows and columns are named in messages: by partition as long as the rows have not been counted."""
        names = None if self._partitions.columns is None else self._partitions.columns.names
        return Naming(names) if self._rows.counted else PartitionNaming(names)

    def map(self, task: Callable[[Block], T], block_values: int = BLOCK_VALUES) -> Iterator[T]:
        for results in self._run(workers.all_results, _pickled(task), block_values):
            yield from results

    def fold(self, task: Callable[[Block], T], add: Callable[[Iterable[T]], T], block_values: int = BLOCK_VALUES) -> T:
        parts = self._run(workers.fold_blocks, _pickled((task, add)), block_values)
        return add(part for part in parts if part is not None)  # an empty partition has no results

    def write_lazily(self, task: Callable[[Block], WrittenBlock], block_values: int = BLOCK_VALUES) -> None:
        self._answer = PickledTask(_pickled(task), block_values)

    def answer(self) -> Any:
        from dask.delayed import delayed

        assert self._answer is not None
        source, task = self._partitions, delayed(self._answer.task)
        more = {
            "block_values": self._answer.block_values,
            "dtype": self._answer_dtype,
            "common": self.answer_types.common,
        }
        options = [{"place": place} | more for place in self._rows.places()]
        finder = self._delayed_finder()
        parts = calls(workers.adjusted_rows, [(task, part, finder) for part in self._rows.for_answer()], options)
        lengths = self._rows.lengths if self._rows.counted else None
        return source.like(parts, lengths, self._meta)

    def reopen(self) -> Self:
        again = type(self)(self._partitions, self._rows, self._answer_dtype)
        again._finder, again.n_cells = self._finder, self.n_cells
        return again

    def group_combinations(self) -> Combinations:
        return super().group_combinations() if self._partitions.group_keys is None else self._rows.combinations

    def with_cells(self, cell_of_combination: IndexArray, n_cells: int) -> Self:
        rows = self.reopen()
        rows.progress, rows.n_cells = self.progress, n_cells
        combinations = self.group_combinations()
        rows._finder = CellFinder(CombinationIndex.of(combinations), cell_of_combination)
        rows.cell_weights = sum_by(cell_of_combination, combinations.weight, n_cells)
        return rows

    def sample(self, n_rows: int) -> MemoryEngine | None:
        if self._sample is None or n_rows >= self._sample.n_rows:
            return self._sample
        return self._sample.sample(n_rows)

    def _run(self, function: Callable[..., Any], task: bytes, block_values: int) -> list[Any]:
        """Run a function of :mod:`baserate.engines.dask.workers` on every partition."""
        from dask.delayed import delayed

        self.progress.begin("reading", self.n_rows)
        shared = delayed(task)  # one for all partitions: with many classes it may have megabytes
        (parts, weights), places = self._rows.kept, self._rows.places()
        finder = self._delayed_finder()
        arguments = [(shared, *one, finder) for one in zip(parts, weights, strict=True)]
        results = calls(function, arguments, [{"place": place, "block_values": block_values} for place in places])
        picks = [] if self._has_read else self._picks()
        found = compute_all([*results, *picks])
        self._has_read = True
        if picks:
            self._sample = sample_engine(found[len(parts) :])
        for length in self._rows.lengths:
            self.progress.rows(length)
        return found[: len(parts)]

    def _delayed_finder(self) -> Any:
        """What finds the cells of rows, as one object for all partitions; None if rows have no cells."""
        from dask.delayed import delayed

        return None if self._finder is None else delayed(self._finder, pure=False, traverse=False)

    def _picks(self) -> list[Any]:
        """The rows of the sample from each partition, to be computed in the first pass."""
        size = collected_size(self.n_rows, self.n_classes, max_values=SAMPLE_VALUES)
        if size is None:
            return []
        chosen = self._rows.split(sampled_rows(self.n_rows, size))
        options = [{"place": p, "rows": rows} for p, rows in zip(self._rows.places(), chosen, strict=True)]
        return calls(workers.picked, zip(*self._rows.kept, strict=True), options)


def _meta(partitions: Partitions, dtype: np.dtype[Any] | None) -> tuple[Any, AnswerTypes]:
    """A partition of the answer without rows, and the types of the answer. Rejects columns without numbers.

    ``dtype`` is the one that the caller asked for.
    """
    if partitions.names is None:
        types = AnswerTypes.of_array(partitions.dtype or np.dtype(np.float64) if dtype is None else dtype)
        return np.empty((0, partitions.n_classes), types.common), types
    frame = split_dataframe(partitions.meta, partitions.names, what=partitions.what)[1].with_dtype(dtype)
    types = frame.answer_types
    return frame.wrap(np.empty((0, partitions.n_classes), types.common)), types


def _pickled(task: Any) -> bytes:
    import cloudpickle  # Dask depends on it; tasks may hold functions of a user's loss, which pickle rejects.

    return bytes(cloudpickle.dumps(task))
