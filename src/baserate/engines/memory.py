"""Rows in memory: an array or a dataframe, worked on in blocks by one thread per core."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from baserate.core.contracts import Block, CellChunk, Engine, RowPasses, RowsByCell, WrittenBlock
from baserate.core.sampling import sampled_rows
from baserate.engines.memory_input import values_and_form
from baserate.inputs.columns import Columns
from baserate.inputs.reading import NUMBERED, Naming
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import as_matrix, as_weights
from baserate.inputs.vectors import VectorNaming, two_columns
from baserate.support.answer_types import FLOAT64, AnswerTypes
from baserate.support.arrays import BLOCK_VALUES, FloatArray, IndexArray, rows_per_block, sum_by
from baserate.support.threads import cores, in_order, single_threaded_blas, worker_pool

if TYPE_CHECKING:
    from baserate.inputs.group_combinations import Combinations

T = TypeVar("T")

_CHUNK_ROWS = 16384  # Rows in a chunk of cells, at least.
_AHEAD = 4  # Blocks in flight per thread: enough to keep all threads busy, few enough to hold little memory.


class MemoryEngine(Engine):
    """An array of predictions in memory.

    It allocates one array of the size of the input: the adjusted rows. Until they are written, this array is the
    scratch memory of the blocks.

    Parameters
    ----------
    raw : array of shape (n, k)
    weights : array of shape (n,), optional
        They sum to 1. By default all are equal.
    answer_types : AnswerTypes
    cells : int array of shape (n,), optional
        The cell of each row, for rates per group.
    n_cells : int, optional
        Number of cells.
    """

    name = "memory"
    in_memory = True

    @classmethod
    def open(cls, source: RowSource) -> Self:
        probs = source.probs
        is_matrix = type(probs) is np.ndarray and probs.ndim == 2 and probs.shape[1] > 1 and source.columns is None
        values, form = (probs, None) if is_matrix else values_and_form(source)
        form = None if form is None else form.with_dtype(source.answer_dtype)
        one_column = form is not None and len(form.columns) == 1
        naming = NUMBERED if form is None else VectorNaming() if one_column else Naming(form.columns)
        if one_column:
            values = two_columns(values.reshape(-1), from_logits=source.from_logits, naming=naming)
        raw = as_matrix(values, what=source.argument, one_row=source.fitted)
        types = AnswerTypes.of_array(source.answer_dtype or raw.dtype) if form is None else form.answer_types
        rows = cls(raw, as_weights(source.sample_weight, len(raw)), types)
        rows.form, rows.naming, rows.one_column = form, naming, one_column
        rows._is_one_row = np.ndim(values) == 1
        if form is not None and form.columns != (None,):
            rows.columns = Columns(form.columns, form.classes)
        if source.group_keys is not None:
            from baserate.inputs.group_columns import read_groups
            from baserate.inputs.group_combinations import Combinations

            columns = read_groups(source.groups, source.group_keys, source.probs, rows.n_rows)
            rows.set_groups(*Combinations.of(source.group_keys, columns, rows.n_rows, rows._weights))
        return rows

    def __init__(
        self,
        raw: NDArray[Any],
        weights: FloatArray | None,
        answer_types: AnswerTypes = FLOAT64,
        *,
        cells: IndexArray | None = None,
        n_cells: int | None = None,
    ) -> None:
        self.n_rows, self.n_classes = raw.shape
        self._raw = raw
        self._weights = weights
        self._cells, self.n_cells = cells, n_cells
        if cells is not None and n_cells is not None:
            self.cell_weights = np.bincount(cells, weights, minlength=n_cells).astype(np.float64)
            self.cell_weights /= self.cell_weights.sum()
        self._is_one_row = False
        self._groups: tuple[Combinations, IndexArray] | None = None  # and the combination of each row
        self.weighted = weights is not None
        self.dtype, self.answer_types = raw.dtype, answer_types
        # In the memory order of the input: columns of a dataframe stay columns.
        by_column = raw.flags.f_contiguous and not raw.flags.c_contiguous
        self._answer = np.empty(raw.shape, dtype=answer_types.common, order="F" if by_column else "C")

    def map(self, task: Callable[[Block], T], block_values: int = BLOCK_VALUES) -> Iterator[T]:
        block_rows = rows_per_block(self.n_classes, block_values)
        n_blocks = -(-self.n_rows // block_rows)
        self.progress.begin("reading", self.n_rows)
        threads = min(cores(), n_blocks) if n_blocks > 1 else 1
        if threads == 1:
            yield from map(task, self._blocks(block_rows))
            return
        _keep_freed_memory()
        with single_threaded_blas():
            yield from in_order(worker_pool(threads), task, self._blocks(block_rows), threads * _AHEAD)

    def write(self, task: Callable[[Block], WrittenBlock], block_values: int = BLOCK_VALUES) -> Iterator[Any]:
        def keep(block: Block) -> Any:
            rows, sums = task(block)
            if rows is not block.scratch:
                self._answer[block.start : block.start + len(rows)] = rows
            return sums

        return self.map(keep, block_values)

    def answer(self) -> Any:
        return self._answer[0] if self._is_one_row else self._answer

    def reopen(self) -> Self:
        again = type(self)(self._raw, self._weights, self.answer_types, cells=self._cells, n_cells=self.n_cells)
        again.form, again.naming, again.columns = self.form, self.naming, self.columns
        again.one_column = self.one_column
        again._groups = self._groups
        return again

    def set_groups(self, combinations: Combinations, numbers: IndexArray) -> None:
        """State the groups of the rows: the combinations that occur, and the number of that of each row."""
        self._groups = combinations, numbers

    def group_combinations(self) -> Combinations:
        return super().group_combinations() if self._groups is None else self._groups[0]

    def with_cells(self, cell_of_combination: IndexArray, n_cells: int) -> Self:
        if self._groups is None:
            return super().with_cells(cell_of_combination, n_cells)
        rows = copy.copy(self)
        numbers, n_combinations = self._groups[1], len(cell_of_combination)
        are_cells = n_cells == n_combinations and np.array_equal(cell_of_combination, np.arange(n_cells))
        rows._cells, rows.n_cells = numbers if are_cells else cell_of_combination[numbers], n_cells
        rows.cell_weights = sum_by(cell_of_combination, self._groups[0].weight, n_cells)
        return rows

    def sample(self, n_rows: int) -> MemoryEngine | None:
        rows = sampled_rows(self.n_rows, n_rows)
        weights = None if self._weights is None else self._weights[rows]
        if weights is not None:
            if not weights.any():
                return None
            weights /= weights.sum()
        # Column-major arrays stay column-major.
        raw = self._raw.T[:, rows].T if self._raw.flags.f_contiguous else self._raw[rows]
        return MemoryEngine(raw, weights)

    def sorted_by_cell(self, passes: RowPasses) -> Engine | None:
        if self._cells is None or self.n_cells is None:
            return None
        return SortedRows(self, self._cells, self.n_cells, passes.order_by_cell(self._cells, self.n_cells)[0])

    def rows_by_cell(self, passes: RowPasses) -> RowsByCell | None:
        if self._cells is None or self.n_cells is None:
            return None
        return MemoryCells(self, *passes.order_by_cell(self._cells, self.n_cells))

    def describe(self, passes: RowPasses) -> str:
        return passes.name

    def _blocks(self, block_rows: int) -> Iterator[Block]:
        equal = np.full(min(block_rows, self.n_rows), 1.0 / self.n_rows)
        for start in range(0, self.n_rows, block_rows):
            stop = min(start + block_rows, self.n_rows)
            weights = equal[: stop - start] if self._weights is None else self._weights[start:stop]
            cells = None if self._cells is None else self._cells[start:stop]
            yield Block(self._raw[start:stop], weights, start, self._answer[start:stop], cells)
            self.progress.rows(stop - start)


class SortedRows(MemoryEngine):
    """A copy of the rows of another engine in the order of their cells.

    The rows of a cell are then next to each other. Without the copy, each pass would have to gather them, which takes
    several times as long as the pass.
    """

    def __init__(self, parent: MemoryEngine, cells: IndexArray, n_cells: int, order: IndexArray) -> None:
        self._parent, self._order = parent, order
        raw, weights = parent._raw, parent._weights
        # Column-major arrays stay column-major.
        raw = raw.T[:, self._order].T if raw.flags.f_contiguous else raw[self._order]
        weights = None if weights is None else weights[self._order]
        super().__init__(raw, weights, parent.answer_types, cells=cells[self._order], n_cells=n_cells)
        self.progress = parent.progress

    def answer(self) -> Any:
        self._parent._answer[self._order] = self._answer
        return self._parent.answer()


class RowsOfCell(MemoryEngine):
    """A copy of some rows of another engine, with weights that sum to 1."""

    def __init__(self, parent: MemoryEngine, which: IndexArray) -> None:
        weights = None if parent._weights is None else parent._weights[which]
        if weights is not None and weights.any():
            weights = weights / weights.sum()
        super().__init__(parent._raw[which], weights, parent.answer_types)
        self._parent, self._which = parent, which

    def answer(self) -> Any:
        self._parent._answer[self._which] = self._answer
        return self._answer


class MemoryCells(RowsByCell):
    """The rows of each cell of an engine in memory."""

    def __init__(self, parent: MemoryEngine, order: IndexArray, starts: IndexArray) -> None:
        self._parent, self._order, self.starts = parent, order, starts

    def rows_of_cell(self, cell: int) -> MemoryEngine:
        return RowsOfCell(self._parent, self._order[self.starts[cell] : self.starts[cell + 1]])

    def map(self, task: Callable[[CellChunk], T]) -> Iterator[T]:
        threads = cores()
        n_chunks = max(min(self._parent.n_rows // _CHUNK_ROWS, 16 * threads), 1)
        wanted = np.linspace(0, self._parent.n_rows, n_chunks + 1)
        edges = np.unique(np.searchsorted(self.starts, wanted[1:-1]))
        edges = np.unique(np.concatenate([[0], edges, [len(self.starts) - 1]]))
        chunks = (self._chunk(int(first), int(stop)) for first, stop in itertools.pairwise(edges))
        if threads == 1 or len(edges) == 2:
            yield from map(task, chunks)
        else:
            yield from in_order(worker_pool(threads), task, chunks, threads * _AHEAD)

    def _chunk(self, first: int, stop: int) -> CellChunk:
        starts, parent = self.starts[first : stop + 1], self._parent
        return CellChunk(
            parent._raw, parent._weights, self._order[starts[0] : starts[-1]], starts - starts[0], first, parent._answer
        )


def _keep_freed_memory() -> None:
    # glibc returns freed memory to the system above a threshold, which it raises to the largest block that was ever
    # freed, up to 32 MiB. Without this block, which is never touched, every temporary array of every block is fetched
    # from the system page by page, which takes as long as the arithmetic.
    np.empty(31 << 20, dtype=np.uint8)
