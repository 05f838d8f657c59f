"""Rows that are read as a stream of Arrow record batches, each time from the beginning.

A :class:`Stream` is one source of rows: a DuckDB relation, a LazyFrame of polars, a function, or any other object with
the method ``__arrow_c_stream__``. Where the source is a query, only the columns that a pass needs are requested.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from baserate.errors import BadOption, BadProbabilities
from baserate.tables.arrow_rows import ArrowRows, is_lazy_frame, is_relation
from baserate.tables.base import BATCH_ROWS
from baserate.tables.query_files import QueryFiles, files_of_lazy_frame, files_of_relation

_ONE_SHOT = "can be read only once, but the rows are needed in several passes"
_INSTEAD = (
    "pass what it was made from, such as a query, br.ArrowRows(function), where the function makes a new one for each "
    "pass, or a table in memory: {how}"
)


class Stream(ABC):
    """A source of rows that can be read repeatedly.

    Attributes
    ----------
    name : str
        The source, for messages and for ``Adjustment.engine``.
    source : object
    engine : str
        The name of the engine for results.
    if_empty : str
        What may be wrong if there are no rows.
    """

    name: str
    engine: str
    if_empty: str = ""

    def __init__(self, source: Any) -> None:
        self.source = source

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """All columns."""

    @abstractmethod
    def _open(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read these columns from the beginning."""

    @property
    def files(self) -> QueryFiles:
        """The files that the source reads, as far as they are known."""
        return QueryFiles([], complete=True)

    def _failed(self, error: Exception) -> BadProbabilities:
        """The error of a database. Only the first line of its text, since others show the plan of the query."""
        reason = str(error).strip().split("\n")[0]
        return BadProbabilities(f"{self.name} cannot be read: {type(error).__name__}: {reason}")

    def native(self, rows: Any) -> Any:
        """Adjusted rows as an object of the same kind as the source; by default the rows themselves.

        ``rows`` is a :class:`baserate.engines.arrow_streams.AdjustedRows`.
        """
        return rows

    def batches(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Read the rows from the beginning, with these columns or with all."""
        wanted = list(self.schema.names if columns is None else columns)
        try:
            for batch in self._open(wanted):
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    yield batch.slice(start, BATCH_ROWS).select(wanted)
        except (BadOption, BadProbabilities):
            raise
        except Exception as error:  # of any database
            raise self._failed(error) from error


class CapsuleStream(Stream):
    """An object with the method ``__arrow_c_stream__``."""

    engine = "arrow stream"
    if_empty = f"If it can be read only once, {_INSTEAD.format(how='pyarrow.table(stream)')}"

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.name = f"the {type(source).__name__}"

    @cached_property
    def schema(self) -> pa.Schema:
        if isinstance(self.source, pa.RecordBatchReader):
            raise BadOption(f"{self.name} {_ONE_SHOT}; {_INSTEAD.format(how='reader.read_all()')}")
        with self._reading("cannot be read"), self._reader() as reader:
            return reader.schema

    def _reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_stream(self.source)

    def _open(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with self._reading("cannot be read again"):
            reader = self._reader()
        with reader:
            yield from reader

    @contextlib.contextmanager
    def _reading(self, problem: str) -> Iterator[None]:
        try:
            yield
        except BadOption:
            raise
        except Exception as error:
            raise BadOption(f"{self.name} {problem} ({error}). {self.if_empty}") from error


class FunctionStream(CapsuleStream):
    """Rows that a function reads from the beginning; see :class:`baserate.ArrowRows`."""

    if_empty = "Its function must start a new reading each time that it is called, and not return the same one again"

    def __init__(self, source: ArrowRows) -> None:
        super().__init__(source)
        self.name = source.name

    def _reader(self) -> pa.RecordBatchReader:
        try:
            opened = self.source.read()
        except Exception as error:
            raise BadOption(
                f"{self.name} cannot be read: its function raised {type(error).__name__}: {error}. Call the function "
                "on its own to find the cause"
            ) from error
        if isinstance(opened, pa.RecordBatchReader):
            return opened
        if hasattr(opened, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(opened)
        kind = "None" if opened is None else f"a {type(opened).__name__}"
        raise BadOption(
            f"{self.name} cannot be read: its function returned {kind}, not a stream of Arrow record batches. Return a "
            "pyarrow.Table, a pyarrow.RecordBatchReader, or another object with the method __arrow_c_stream__; make "
            "one of record batches by pyarrow.RecordBatchReader.from_batches(schema, batches)"
        )


class RelationStream(Stream):
    """A relation of DuckDB."""

    name, engine = "the DuckDB relation", "duckdb"

    @cached_property
    def schema(self) -> pa.Schema:
        try:
            with contextlib.closing(self._reader(self.source.limit(0))) as reader:
                return reader.schema
        except Exception as error:  # of DuckDB, such as a table that is no longer there
            raise self._failed(error) from error

    @staticmethod
    def _reader(relation: Any) -> pa.RecordBatchReader:
        read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch  # its earlier name
        return read(BATCH_ROWS)

    def _open(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        # A new relation, because one that was executed may keep its result. A connection has one open result at a time,
        # so the reader is closed at the end, also after an error.
        chosen = self.source.project(", ".join('"' + name.replace('"', '""') + '"' for name in columns))
        with contextlib.closing(self._reader(chosen)) as reader:
            yield from reader

    @cached_property
    def files(self) -> QueryFiles:
        return files_of_relation(self.source)

    def native(self, rows: Any) -> Any:
        import duckdb

        if int(duckdb.__version__.split(".")[0]) < 2:  # which reads such an object only once
            return duckdb.from_arrow(pa.RecordBatchReader.from_stream(rows).read_all())
        # On a connection of its own: a connection cannot read a relation while it runs a query on it.
        return duckdb.connect().from_arrow(rows)


class LazyFrameStream(Stream):
    """A LazyFrame of polars, whose rows its streaming engine computes in batches."""

    name, engine = "the LazyFrame", "polars"

    @cached_property
    def schema(self) -> pa.Schema:
        if not hasattr(self.source, "collect_batches"):
            raise ImportError("LazyFrames are read in batches by polars 1.34 or later; update it, or pass .collect()")
        try:
            return _as_arrow(self.source.collect_schema().to_frame()).schema
        except Exception as error:  # of polars, such as a column that is not there
            raise self._failed(error) from error

    def _open(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        frames = _selected(self.source, columns).collect_batches(chunk_size=BATCH_ROWS, lazy=True)
        for frame in frames:
            yield from _as_arrow(frame).to_batches()

    @cached_property
    def files(self) -> QueryFiles:
        return files_of_lazy_frame(self.source)

    def native(self, rows: Any) -> Any:
        import polars as pl

        names = rows.adjusted_schema.names

        def named(table: pa.Table) -> dict[str, Any]:
            # By their names in baserate, because polars gives a column without a name another one.
            return dict(zip(names, pl.from_arrow(table).get_columns(), strict=True))

        def adjust(frame: Any) -> Any:
            new = named(rows.adjust(_as_arrow(_selected(frame, rows.needed))))
            return frame.with_columns(column.alias(name) for name, column in new.items())

        types = {name: column.dtype for name, column in named(rows.adjusted_schema.empty_table()).items()}
        chosen = self.source if rows.names is None else _selected(self.source, rows.needed)
        schema = self.source.collect_schema() | types if rows.names is None else None
        lazy = chosen.map_batches(adjust, schema=schema, streamable=True)
        return lazy if rows.names is None else _selected(lazy, rows.names)


def _selected(frame: Any, names: Sequence[str]) -> Any:
    """Some columns of a dataframe or LazyFrame of polars, whose ``select`` takes "*" and "^...$" for patterns."""
    import polars.selectors as cs

    return frame.select(cs.by_name(*names)) if names else frame.select([])


def _as_arrow(frame: Any) -> pa.Table:
    """A dataframe of polars with types that all versions of Arrow have."""
    import polars as pl

    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def as_stream(source: Any) -> Stream:
    """The stream of an object for which :func:`baserate.tables.arrow_rows.is_stream` is true."""
    if isinstance(source, ArrowRows):
        return FunctionStream(source)
    if is_relation(source):
        return RelationStream(source)
    return LazyFrameStream(source) if is_lazy_frame(source) else CapsuleStream(source)
