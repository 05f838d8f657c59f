"""Rows that are read as a stream in every pass: a query of DuckDB or polars, and all else that speaks Arrow."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from baserate.core.contracts import Block, LazyAnswer, RowPasses, WrittenBlock
from baserate.engines.files import FilesEngine, PlacedPiece
from baserate.errors import BadGroups
from baserate.inputs.row_source import RowSource
from baserate.support.arrays import BLOCK_VALUES
from baserate.tables.arrow_rows import check_no_connection, is_stream

if TYPE_CHECKING:
    import pyarrow as pa

    from baserate.tables import Table
    from baserate.tables.streams import Stream


class StreamEngine(FilesEngine):
    """A stream. As with files, up to 8 million values are kept in memory, and more are read again in every pass.

    Without ``out=`` the adjusted rows are lazy: they are computed when they are read, from the rows as they are then.
    """

    name = "arrow stream"

    @classmethod
    def open(cls, source: RowSource) -> Self | None:
        check_no_connection(source.probs)
        if not is_stream(source.probs):
            return None
        if source.groups is not None:
            raise BadGroups("the groups of rows of a query are columns of the query; leave groups= out")
        try:
            import pyarrow  # noqa: F401  # tests whether it is installed
        except ImportError as error:
            kind = type(source.probs).__name__
            raise ImportError(f'{kind} is read with pyarrow: pip install "baserate[files]" ({error})') from None
        from baserate.tables.streams import as_stream

        rows = cls.opened(replace(source, probs=as_stream(source.probs)))
        rows.answers_lazily = source.out is None
        return rows

    @property
    def file_names(self) -> list[str]:
        return []

    _task: Callable[[Block], WrittenBlock] | None = None
    _block_values = BLOCK_VALUES

    def write(self, task: Callable[[Block], WrittenBlock], block_values: int = BLOCK_VALUES) -> Iterator[Any]:
        self._task, self._block_values = task, block_values
        return super().write(task, block_values)

    def write_lazily(self, task: Callable[[Block], WrittenBlock], block_values: int = BLOCK_VALUES) -> None:
        if self._table.destination is None:
            self._task, self._block_values = task, block_values
        else:
            super().write_lazily(task, block_values)

    def answer(self) -> Any:
        if self._table.destination is not None or self._task is None:
            return super().answer()
        return AdjustedRows(copy.copy(self), self._task)

    def reopen(self) -> Self:
        again = super().reopen()
        again.answers_lazily = True
        return again

    def describe(self, passes: RowPasses) -> str:
        name = self.stream.engine
        return name if passes.is_default else f"{name}, {passes.name}"

    def adjusted(
        self, rows: pa.RecordBatch | pa.Table, task: Callable[[Block], WrittenBlock], schema: pa.Schema, start: int
    ) -> pa.Table:
        """Some rows, the first of which has the number ``start``, adjusted; the result has the columns of a schema."""
        from baserate.tables.base import Piece
        from baserate.tables.conversion import adjusted_table

        batches = rows.to_batches() if hasattr(rows, "to_batches") else [rows]
        placed = PlacedPiece(0, start, Piece(rows.num_rows, lambda: iter(batches)))
        adjusted, _ = self._adjusted(placed, task, self._block_values)
        return adjusted_table(*adjusted, schema, self.table.columns, self.table.parts[0])

    @property
    def table(self) -> Table:
        """The opened stream, as a table with one part."""
        return self._table

    @property
    def needed(self) -> list[str]:
        """The columns with probabilities, weights and groups."""
        return self._needed

    @property
    def stream(self) -> Stream:
        """The source of the rows."""
        part: Any = self._table.parts[0]
        return part.stream


class AdjustedRows(LazyAnswer):
    """The adjusted rows of a stream, which can be read any number of times; each reading reads the predictions again.

    It has the method ``__arrow_c_stream__``, so that everything that speaks Arrow can read it.

    Parameters
    ----------
    engine : StreamEngine
    task : callable
        Adjusts a block.
    names : sequence of str, optional
        Only these columns.
    """

    def __init__(
        self, engine: StreamEngine, task: Callable[[Block], WrittenBlock], names: Sequence[str] | None = None
    ) -> None:
        self._engine, self._task = engine, task
        self.names = None if names is None else list(names)

    def columns(self) -> Any:
        return self._native(self._engine.table.columns.names)

    def frame(self) -> Any:
        return self._native(None)

    def _native(self, names: Sequence[str] | None) -> Any:
        return self._engine.stream.native(AdjustedRows(self._engine, self._task, names))

    @property
    def needed(self) -> list[str]:
        """The columns from which the adjusted ones are computed."""
        return self._engine.needed

    @property
    def schema(self) -> pa.Schema:
        """The columns, with their types."""
        from baserate.tables.conversion import output_schemas

        schema = output_schemas(self._engine.table)[0]
        return schema if self.names is None else _selected(schema, self.names)

    @property
    def adjusted_schema(self) -> pa.Schema:
        """The columns with probabilities, with their types."""
        return _selected(self.schema, self._engine.table.columns.names)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_batches(self.schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def adjust(self, rows: pa.Table) -> pa.Table:
        """The adjusted columns of some rows that have the columns :attr:`needed`, and are anywhere in the stream."""
        from baserate.tables import UNNUMBERED

        return self._engine.adjusted(rows, self._task, self.adjusted_schema, UNNUMBERED)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        start = 0
        for piece in self._engine.table.parts[0].pieces(None if self.names is None else self.needed):
            for batch in piece.read():
                yield from self._engine.adjusted(batch, self._task, self.schema, start).to_batches()
                start += batch.num_rows


def _selected(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in names])
