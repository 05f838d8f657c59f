"""Rows in files: pieces are read, worked on and written a few at a time, so that memory use stays constant."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np

from baserate.core.contracts import Block, Engine, WrittenBlock, total
from baserate.core.sampling import collected_size, sampled_rows
from baserate.engines.arrow_blocks import ArrowColumns, check_single_column
from baserate.engines.file_groups import FileGroups
from baserate.engines.memory import MemoryEngine
from baserate.errors import BadGroups, BadOption, BadWeights, Option
from baserate.inputs.group_combinations import Combinations
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import quoted_name
from baserate.support.arrays import BLOCK_VALUES, FloatArray, IndexArray, rows_per_block, sum_by
from baserate.support.threads import cores, in_order, single_threaded_blas, worker_pool
from baserate.tables import Table, is_table

if TYPE_CHECKING:
    import pyarrow as pa

    from baserate.tables.base import CodedColumn, Piece
    from baserate.tables.destination import Staged

T = TypeVar("T")

_HELD_VALUES = 1 << 23  # Inputs with at most this many values are read once and kept in memory: 64 MiB of float64.
_SAMPLE_VALUES = 1 << 22  # Values of a sample that is collected in the first pass.

_OUT = Option("out")


class PlacedPiece(NamedTuple):
    """A piece, with the number of its part and the number of its first row in the whole input."""

    part: int
    start: int
    piece: Piece


class WeightSum(NamedTuple):
    """The sum of some weights."""

    weight: FloatArray


class FilesEngine(Engine):
    """Files. Small ones are kept in memory after they were read; large ones are read in every pass."""

    name = "files"
    takes_out = True

    @classmethod
    def open(cls, source: RowSource) -> Self | None:
        if not is_table(source.probs):
            return None
        if source.groups is not None:
            raise BadGroups("the groups of rows in files are columns of the files; leave groups= out")
        if source.fitted and source.writes and source.out is None:
            raise BadOption(f"say where the adjusted files should go: {_OUT}=", options=[_OUT])
        return cls.opened(source)

    @classmethod
    def opened(cls, source: RowSource) -> Self:
        """An engine on predictions of its kind."""
        table = Table.open(
            source.probs,
            source.choice,
            weight=source.sample_weight,
            others=source.other_columns,
            out=source.out,
            dtype=source.answer_dtype,
        )
        check_single_column(table.columns.names, from_logits=source.from_logits)
        return cls(table, None if source.group_keys is None else FileGroups.of(table, source.group_keys))

    def __init__(self, table: Table, groups: FileGroups | None = None) -> None:
        from baserate.tables.conversion import answer_types, numpy_dtype

        self._table = table
        self.columns = table.columns
        self.one_column = len(table.columns.names) == 1
        self.n_rows, self.n_classes = table.n_rows, max(len(table.columns.names), 2)
        self.weighted = table.weight is not None
        self.naming = table.naming
        schema = table.parts[0].schema
        self.dtype = np.result_type(*(numpy_dtype(schema.field(name).type) for name in table.columns.names))
        if self.one_column:
            self.dtype = np.dtype(np.float64)  # so that 1 minus the probability is not rounded
        self._arrow = ArrowColumns(tuple(table.columns.names), self.dtype, table.weight, self.naming)
        self.answer_types = answer_types(table)
        self._groups = groups
        self._scale = self._sum_of_weights() if self.weighted else float(self.n_rows)
        if groups is not None and groups.combinations is None:
            self._groups = groups.with_combinations(self._combinations(groups))
        self._staged: Staged | None = None
        self._sample: _Sample | None = None
        self._held: MemoryEngine | None = None
        if self.n_rows * self.n_classes <= _HELD_VALUES:
            self._held = self._read_into_memory()

    @property
    def file_names(self) -> list[str]:
        """The names of the files."""
        return [part.name for part in self._table.parts]

    def map(self, task: Callable[[Block], T], block_values: int = BLOCK_VALUES) -> Iterator[T]:
        if self._held is not None:
            self._held.progress = self.progress
            yield from self._held.map(task, block_values)
            return
        sample = _Sample(self) if self._sample is None else None

        def work(placed: PlacedPiece) -> tuple[int, list[T]]:
            answers = []
            for block in self._blocks(placed, block_values):
                if sample is not None:
                    sample.take(block)
                answers.append(task(block))
            return placed.piece.n_rows, answers

        self.progress.begin("reading", self.n_rows)
        for n_rows, answers in self._run(work, self._needed):
            self.progress.rows(n_rows)
            yield from answers
        self._sample = self._sample or sample

    def write(self, task: Callable[[Block], WrittenBlock], block_values: int = BLOCK_VALUES) -> Iterator[Any]:
        table = self._table
        if table.destination is None:
            yield from (sums for _, sums in self.map(task, block_values))
            return
        if self._staged is not None:
            self._staged.discard()
        from baserate.tables.conversion import adjusted_table, output_schemas

        schemas = output_schemas(table)

        def work(placed: PlacedPiece) -> tuple[PlacedPiece, pa.Table, Any]:
            rows, sums = self._adjusted(placed, task, block_values)
            return placed, adjusted_table(*rows, schemas[placed.part], table.columns, table.parts[placed.part]), sums

        self._staged = table.destination.stage(table.parts, schemas, table.columns)
        self.progress.begin("writing", self.n_rows)
        with self._staged.writing() as staged:
            for placed, rows, sums in self._run(work, None):
                staged.write(placed.part, rows)
                self.progress.rows(placed.piece.n_rows)
                yield from sums

    def answer(self) -> Any:
        if self._staged is None or self._table.destination is None:
            return None
        self._staged.commit()
        return self._table.destination.path

    def reopen(self) -> Self:
        return type(self)(replace(self._table, destination=None), self._groups)

    def group_combinations(self) -> Combinations:
        if self._groups is None or self._groups.combinations is None:
            return super().group_combinations()
        return self._groups.combinations

    def with_cells(self, cell_of_combination: IndexArray, n_cells: int) -> Self:
        if self._groups is None:
            return super().with_cells(cell_of_combination, n_cells)
        rows = copy.copy(self)
        rows._groups, rows.n_cells = replace(self._groups, cells=cell_of_combination), n_cells
        rows.cell_weights = sum_by(cell_of_combination, self.group_combinations().weight, n_cells)
        if self._held is not None:
            rows._held = self._held.with_cells(cell_of_combination, n_cells)
        return rows

    def sample(self, n_rows: int) -> Engine | None:
        if self._held is not None:
            return self._held.sample(n_rows)
        return None if self._sample is None else self._sample.engine(n_rows)

    def read_column(self, name: str) -> CodedColumn:
        """The values of another column of the same rows, such as their labels; see ``RowSource.other_columns``."""
        return self._table.read_column(name)

    @property
    def _needed(self) -> list[str]:
        weight = self._table.weight
        names = [*self._table.columns.names, *([] if weight is None else [weight])]
        return names if self._groups is None else list(dict.fromkeys([*names, *self._groups.columns]))

    def _run(self, work: Callable[[PlacedPiece], T], columns: list[str] | None) -> Iterator[T]:
        threads = cores()
        with single_threaded_blas():
            yield from in_order(worker_pool(threads), work, self._pieces(columns), threads + 1)

    def _pieces(self, columns: list[str] | None) -> Iterator[PlacedPiece]:
        for number, part in enumerate(self._table.parts):
            start = self._table.starts[number]
            for piece in part.pieces(columns):
                yield PlacedPiece(number, start, piece)
                start += piece.n_rows
            if part.n_rows == 0 and columns is None:  # it has a twin, too
                yield PlacedPiece(number, start, part.nothing)

    def _blocks(self, placed: PlacedPiece, block_values: int) -> Iterator[Block]:
        start = placed.start
        for batch in placed.piece.read():
            yield from self._cut(batch, placed.part, start, block_values)
            start += batch.num_rows

    def _cut(self, batch: pa.RecordBatch | pa.Table, part: int, start: int, block_values: int) -> Iterator[Block]:
        raw, weights, cells = self._arrow.matrix(batch, start), self._weights(batch, start), self._cells(batch, part)
        yield from Block(raw, weights, start, cells=cells).split(rows_per_block(self.n_classes, block_values))

    def _cells(self, batch: pa.RecordBatch | pa.Table, part: int) -> IndexArray | None:
        if self._groups is None:
            return None
        numbers = self._groups.numbers(batch, part)  # of combinations, as long as they have no cells
        return numbers if self._groups.cells is None else self._groups.cells[numbers]

    def _weights(self, batch: pa.RecordBatch | pa.Table, start: int) -> FloatArray:
        weights = self._arrow.weights(batch, start)
        return np.full(batch.num_rows, 1.0 / self._scale) if weights is None else weights / self._scale

    def _sum_of_weights(self) -> float:
        name = str(self._table.weight)

        def work(placed: PlacedPiece) -> WeightSum:
            weight, start = 0.0, placed.start
            for batch in placed.piece.read():
                own = self._arrow.weights(batch, start)
                weight += 0.0 if own is None else float(own.sum())
                start += batch.num_rows
            return WeightSum(np.asarray(weight))

        whole = float(total(self._run(work, [name])).weight)
        if whole == 0:
            raise BadWeights(f"all weights in column {quoted_name(name)} are zero; at least one row must count")
        if not np.isfinite(whole):
            raise BadWeights(
                f"the weights in column {quoted_name(name)} are so large that their sum is infinite; divide them"
            )
        return whole

    def _read_into_memory(self) -> MemoryEngine:
        matrix = np.empty((self.n_rows, self.n_classes), dtype=self.dtype, order="F")
        weights = np.empty(self.n_rows) if self.weighted else None
        numbers = np.empty(self.n_rows if self._groups is not None else 0, dtype=np.intp)

        def work(placed: PlacedPiece) -> None:
            for block in self._blocks(placed, 1 << 62):
                matrix[block.start : block.start + len(block.rows)] = block.rows
                if weights is not None:
                    weights[block.start : block.start + len(block.rows)] = block.weights
                if block.cells is not None:
                    numbers[block.start : block.start + len(block.rows)] = block.cells

        for _ in self._run(work, self._needed):
            pass
        rows = MemoryEngine(matrix, weights)
        if self._groups is not None and self._groups.combinations is not None:
            rows.set_groups(self._groups.combinations, numbers)
        return rows

    def _combinations(self, groups: FileGroups) -> Iterator[Combinations]:
        """The combinations of groups in each piece, from a pass over the key columns and the weights."""
        weight, names = self._table.weight, groups.columns
        # A piece needs at least one column, from which the number of its rows follows.
        needed = [*names, *([] if weight is None else [weight])] or [self._table.columns.names[0]]

        def work(placed: PlacedPiece) -> list[Combinations]:
            start, found = placed.start, []
            for batch in placed.piece.read():
                weights = None if weight is None else self._weights(batch, start)
                found.append(groups.found_in(batch, placed.part, weights, 1.0 / self._scale))
                start += batch.num_rows
            return [Combinations.joined(found)] if found else []

        for parts in self._run(work, list(dict.fromkeys(needed))):
            yield from parts

    def _adjusted(
        self, placed: PlacedPiece, task: Callable[[Block], WrittenBlock], block_values: int
    ) -> tuple[tuple[pa.Table, FloatArray], list[Any]]:
        """The rows of a piece, their adjusted form, and the sums of each of its blocks."""
        import pyarrow as pa

        batches = list(placed.piece.read())
        table = pa.Table.from_batches(batches) if batches else self._table.parts[placed.part].schema.empty_table()
        answer = np.empty((table.num_rows, self.n_classes), self.answer_types.common, order="F")
        parts = []
        for block in self._cut(table, placed.part, placed.start, block_values):
            rows, sums = task(block)
            at = block.start - placed.start
            answer[at : at + len(rows)] = rows
            parts.append(sums)
        return (table, answer), parts


class _Sample:
    """Rows that are collected while all rows are read."""

    def __init__(self, engine: FilesEngine) -> None:
        n, k = engine.n_rows, engine.n_classes
        size = collected_size(n, k, max_values=_SAMPLE_VALUES)
        self._at = np.empty(0, dtype=np.intp) if size is None else sampled_rows(n, size)
        self._rows = np.empty((len(self._at), k), dtype=engine.dtype, order="F")
        self._weights = np.empty(len(self._at)) if engine.weighted else None

    def take(self, block: Block) -> None:
        """Keep the rows of a block that are in the sample."""
        first, last = np.searchsorted(self._at, [block.start, block.start + len(block.rows)])
        inside = self._at[first:last] - block.start
        self._rows[first:last] = block.rows[inside]
        if self._weights is not None:
            self._weights[first:last] = block.weights[inside]

    def engine(self, n_rows: int) -> Engine | None:
        """An engine on about ``n_rows`` of them."""
        if not len(self._at):
            return None
        weights = self._weights
        if weights is not None:
            if not weights.any():
                return None
            weights = weights / weights.sum()
        whole = MemoryEngine(self._rows, weights)
        return whole if len(self._at) <= n_rows else whole.sample(n_rows)
