"""Arrow IPC files (Feather), and streams of record batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import BinaryIO

import pyarrow as pa

from baserate.errors import BadFile
from baserate.tables.base import BATCH_ROWS, Format, Part, Piece, Rows, Source, Writer
from baserate.tables.dialect import Dialect
from baserate.tables.spool import Spool

_PIECE_ROWS = 8 * BATCH_ROWS


class ArrowPart(Part):
    """An Arrow file, of which single batches and columns can be read."""

    def __init__(self, source: Source) -> None:
        self.name, self.below, self.partition = source.name, source.below, source.partition
        self.format = ArrowFile()
        self._open = source.open
        with self._reading(None) as reader:
            self.schema = reader.schema
        self._batches: list[int] = []

    def load(self, numbers: Sequence[str], *, typed: bool) -> None:
        with self._reading(numbers) as reader:  # the length of a batch is only known with one of its columns
            self._batches = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]

    @property
    def n_rows(self) -> int:
        return sum(self._batches)

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        for number, n_rows in enumerate(self._batches):
            for start in range(0, n_rows, _PIECE_ROWS):
                size = min(_PIECE_ROWS, n_rows - start)
                yield Piece(size, partial(self._read, number, start, size, columns))

    def _read(self, number: int, start: int, n_rows: int, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        with self._reading(columns) as reader:
            yield reader.get_batch(number).slice(start, n_rows)

    @contextlib.contextmanager
    def _reading(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatchFileReader]:
        fields = None if columns is None else sorted({self.schema.get_field_index(name) for name in columns})
        try:
            options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
            with pa.ipc.open_file(self._open(), options=options) as reader:
                yield reader
        except (pa.ArrowException, OSError) as error:
            raise BadFile(f"{self.name} is not a whole Arrow file: {error}") from None


class ArrowWriter(Writer):
    """Writes a file or a stream."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, *, stream: bool) -> None:
        self._schema = plain_schema(schema)
        self._writer = (pa.ipc.new_stream if stream else pa.ipc.new_file)(file, self._schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table.cast(self._schema))

    def close(self) -> None:
        self._writer.close()


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The same with dictionaries written out: an Arrow file has one dictionary a column, Parquet one a row group."""
    fields = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in schema]
    return pa.schema(fields, metadata=schema.metadata)


class ArrowFile(Format):
    """Arrow files."""

    name = "Arrow"
    suffixes = (".arrow", ".feather", ".ipc")
    magic = (b"ARROW1",)

    def part(self, source: Source, dialect: Dialect, member: str | None) -> Part:
        return ArrowPart(source)

    def writer(self, file: BinaryIO, schema: pa.Schema, like: Part, rows: Rows) -> Writer:
        return ArrowWriter(file, schema, stream=False)


class ArrowStream(Format):
    """Streams, as they go through pipes."""

    name = "Arrow stream"
    suffixes = (".arrows",)
    magic = (b"\xff\xff\xff\xff",)

    def part(self, source: Source, dialect: Dialect, member: str | None) -> Part:
        spool = Spool()
        try:
            with pa.ipc.open_stream(source.open()) as stream, spool.writing() as file:
                # A stream may change a dictionary on its way, which a file cannot.
                schema = plain_schema(stream.schema)
                with pa.ipc.new_file(file, schema) as out:
                    for batch in stream:
                        out.write_table(pa.Table.from_batches([batch]).cast(schema))
        except (pa.ArrowException, EOFError) as error:
            raise BadFile(f"{source.name} is not a whole Arrow stream: {error}") from None
        part = ArrowPart(source._replace(open=spool.open))
        part.format = self
        return part

    def writer(self, file: BinaryIO, schema: pa.Schema, like: Part, rows: Rows) -> Writer:
        return ArrowWriter(file, schema, stream=True)
