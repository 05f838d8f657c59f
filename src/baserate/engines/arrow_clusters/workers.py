"""What runs where the rows of a cluster are: work on the record batches of one partition.

Work is sent with the task that it runs, and returns an :class:`Outcome` that can be added to those of other partitions.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from baserate.core.contracts import Block, WrittenBlock
from baserate.core.sampling import NEIGHBOURS, sampled_rows
from baserate.engines.arrow_blocks import ArrowColumns, coded_column, with_adjusted
from baserate.engines.partitions import CellFinder, SampledRows, folded
from baserate.errors import BaserateError
from baserate.inputs.group_columns import CodedValues
from baserate.inputs.group_combinations import Combinations
from baserate.support.arrays import rows_per_block

if TYPE_CHECKING:
    import pyarrow as pa

Batches = Iterable["pa.RecordBatch"]


class Outcome(NamedTuple):
    """What some consecutive partitions return.

    Attributes
    ----------
    n_rows, n_partitions : int
    value : object
        The results of all blocks, put together; None if there are no rows.
    sample : tuple of SampledRows
    error : BaserateError, optional
        The error of the first partition that has one.
    failed : int
        The number of this partition among these.
    """

    n_rows: int
    n_partitions: int
    value: Any
    sample: tuple[SampledRows, ...] = ()
    error: BaserateError | None = None
    failed: int = 0

    @classmethod
    def joined(cls, parts: Sequence[Outcome], add: Callable[[Iterable[Any]], Any]) -> Outcome:
        """The outcome of all partitions, which are in order."""
        n_partitions = 0
        for part in parts:
            if part.error is not None:
                return cls(0, n_partitions, None, (), part.error, n_partitions + part.failed)
            n_partitions += part.n_partitions
        value = folded((part.value for part in parts if part.n_rows), add)
        sample = tuple(rows for part in parts for rows in part.sample)
        return cls(sum(part.n_rows for part in parts), n_partitions, value, sample)


class Summary(NamedTuple):
    """What must be known about the rows before the first task: their weights and groups.

    Attributes
    ----------
    weight : float
        Sum of the weights; the number of rows if they have none.
    combinations : Combinations, optional
        Those of the groups, with weights that do not sum to 1.
    """

    weight: float
    combinations: Combinations | None

    @classmethod
    def joined(cls, parts: Iterable[Summary]) -> Summary:
        """The summary of all rows."""
        weights: list[float] = []

        def combinations() -> Iterator[Combinations]:
            for part in parts:
                weights.append(part.weight)
                if part.combinations is not None:
                    yield part.combinations

        found = folded(combinations(), Combinations.collected)
        return cls(float(np.sum(weights)), found)


@dataclass(frozen=True)
class BatchReader:
    """Reads record batches as blocks.

    Attributes
    ----------
    columns : ArrowColumns
    keys : tuple of str, optional
        Columns that hold the groups of the rows.
    weight : float
        Sum of the weights of all rows; their number if they have none.
    finder : CellFinder, optional
        Finds the cells of rows.
    """

    columns: ArrowColumns
    keys: tuple[str, ...] | None = None
    weight: float = 1.0
    finder: CellFinder | None = None

    def blocks(self, batches: Batches, start: int) -> Iterator[Block]:
        """One block per batch that has rows; ``start`` is the number of the first row."""
        for batch in batches:
            if batch.num_rows:
                yield self.block(batch, start)
                start += batch.num_rows

    def block(self, batch: pa.RecordBatch, start: int) -> Block:
        """The rows of a batch."""
        own = self.columns.weights(batch, start)
        weights = np.full(batch.num_rows, 1.0 / self.weight) if own is None else own / self.weight
        cells = None if self.finder is None else self.finder.find(self.groups(batch), batch.num_rows)
        return Block(self.columns.matrix(batch, start), weights, start, cells=cells)

    def summary(self, batch: pa.RecordBatch, start: int) -> Summary:
        """What a batch adds to the summary of all rows."""
        own, n_rows = self.columns.weights(batch, start), batch.num_rows
        weights = np.ones(n_rows) if own is None else own
        if self.keys is None:
            return Summary(float(weights.sum()), None)
        return Summary(float(weights.sum()), Combinations.of(self.keys, self.groups(batch), n_rows, weights)[0])

    def groups(self, batch: pa.RecordBatch) -> list[CodedValues]:
        """The groups of the rows in each key column."""
        return [coded_column(batch, key) for key in self.keys or ()]


@dataclass(frozen=True)
class Summarise:
    """Work: the summary of a partition."""

    reader: BatchReader

    def __call__(self, batches: Batches, start: int) -> Outcome:
        """The outcome of one partition, whose first row has the number ``start``."""
        n_rows = 0

        def summaries() -> Iterator[Summary]:
            nonlocal n_rows
            for batch in batches:
                if batch.num_rows:
                    yield self.reader.summary(batch, start + n_rows)
                    n_rows += batch.num_rows

        try:
            value = folded(summaries(), Summary.joined)
        except BaserateError as error:
            return Outcome(0, 1, None, error=error)
        return Outcome(n_rows, 1, value)


@dataclass(frozen=True)
class Fold:
    """Work: the results of a task on the blocks of a partition, put together.

    Attributes
    ----------
    reader : BatchReader
    task : callable
        Takes a block.
    add : callable
        Puts results together; see :meth:`baserate.core.contracts.Engine.fold`.
    block_values : int
    sample_share : float
        Share of the rows that are returned as a sample.
    """

    reader: BatchReader
    task: Callable[[Block], Any]
    add: Callable[[Iterable[Any]], Any]
    block_values: int
    sample_share: float = 0.0

    def __call__(self, batches: Batches, start: int) -> Outcome:
        """The outcome of one partition, whose first row has the number ``start``."""
        n_rows, sample = 0, []
        size = rows_per_block(self.reader.columns.n_classes, self.block_values)

        def results() -> Iterator[Any]:
            nonlocal n_rows
            for block in self.reader.blocks(batches, start):
                n_rows += len(block.weights)
                if self.sample_share:
                    sample.append(self._sampled(block))
                yield from map(self.task, block.split(size))

        try:
            value = folded(results(), self.add)
        except BaserateError as error:
            return Outcome(0, 1, None, error=error)
        return Outcome(n_rows, 1, value, tuple(sample))

    def _sampled(self, block: Block) -> SampledRows:
        # Places are rounded up or down by chance, so that many small batches do not add up to a large sample. The
        # chance comes from the rows, so that the same rows give the same sample, wherever they are read.
        n_rows = len(block.weights)
        chance = zlib.crc32(np.ascontiguousarray(block.rows[0]).tobytes()) / 2**32
        n_places = min(int(self.sample_share * n_rows / NEIGHBOURS + chance), n_rows // NEIGHBOURS)
        at = sampled_rows(n_rows, n_places * NEIGHBOURS) if n_places else np.empty(0, dtype=np.intp)
        weighted = self.reader.columns.weight is not None
        return SampledRows(block.rows[at], block.weights[at] if weighted else None)


@dataclass(frozen=True)
class AdjustBatches:
    """Work: the record batches of a partition with adjusted probabilities.

    Attributes
    ----------
    reader : BatchReader
    task : callable
        Takes a block, and returns a :class:`baserate.core.contracts.WrittenBlock`.
    block_values : int
    dtypes : tuple of str
        The dtype of each column with probabilities in the result.
    common : str
        The dtype of the rows of the task.
    """

    reader: BatchReader
    task: Callable[[Block], WrittenBlock]
    block_values: int
    dtypes: tuple[str, ...]
    common: str

    def __call__(self, batches: Batches, start: int) -> Iterator[pa.RecordBatch]:
        """The batches of one partition, whose first row has the number ``start``."""
        for batch in batches:
            yield self._adjusted(batch, start)
            start += batch.num_rows

    def _adjusted(self, batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
        columns = self.reader.columns
        answer = np.empty((batch.num_rows, columns.n_classes), dtype=self.common, order="F")
        if batch.num_rows:
            for block in self.reader.block(batch, start).split(rows_per_block(columns.n_classes, self.block_values)):
                first = block.start - start
                answer[first : first + len(block.weights)] = self.task(block).rows
        return with_adjusted(batch, answer, columns.names, self.dtypes)
