"""Arrow IPC files (Feather) and Arrow IPC streams."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import BinaryIO

import pyarrow as pa

from baserate.errors import BadFile
from baserate.support.spool import Spool
from baserate.tables.base import BATCH_ROWS, Format, OutputFile, Part, Piece, Source, Writer
from baserate.tables.dialect import Dialect

_PIECE_ROWS = 8 * BATCH_ROWS


class ArrowPart(Part):
    """An Arrow file. Its record batches and columns can be read separately."""

    def __init__(self, source: Source) -> None:
        self.name, self.relative_path, self.partition = source.name, source.relative_path, source.partition
        self.format = ArrowFile()
        self._open = source.open
        with self._reading(None) as reader:
            self.schema = reader.schema
        self._batch_rows: list[int] = []

    def prepare(self, numeric: Sequence[str], *, infer_types: bool) -> None:
        with self._reading(numeric) as reader:  # The length of a batch is known only after reading a column of it.
            self._batch_rows = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]

    def first_rows(self, n_rows: int) -> pa.Table:
        with self._reading(None) as reader:
            for i in range(reader.num_record_batches):
                if (batch := reader.get_batch(i)).num_rows:
                    return pa.Table.from_batches([batch.slice(0, n_rows)])
        return self.schema.empty_table()

    @property
    def n_rows(self) -> int:
        return sum(self._batch_rows)

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        for number, n_rows in enumerate(self._batch_rows):
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
            raise BadFile(f"{self.name} is not a complete Arrow file: {error}") from None


class ArrowWriter(Writer):
    """Writes an Arrow file or an Arrow stream."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, *, stream: bool) -> None:
        self._schema = plain_schema(schema)
        self._writer = (pa.ipc.new_stream if stream else pa.ipc.new_file)(file, self._schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table.cast(self._schema))

    def close(self) -> None:
        self._writer.close()


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with dictionary types replaced by their value types.

    An Arrow file has one dictionary per column. Parquet files may have a different one in each row group, and streams
    may change it between batches.
    """
    fields = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in schema]
    return pa.schema(fields, metadata=schema.metadata)


class ArrowFile(Format):
    """Arrow files."""

    name = "Arrow"
    suffixes = (".arrow", ".feather", ".ipc")
    magic = (b"ARROW1",)

    def open_part(self, source: Source, dialect: Dialect, array_name: str | None) -> Part:
        return ArrowPart(source)

    def writer(self, file: BinaryIO, schema: pa.Schema, template: Part, output: OutputFile) -> Writer:
        return ArrowWriter(file, schema, stream=False)


class ArrowStream(Format):
    """Arrow streams, which can be sent through pipes."""

    name = "Arrow stream"
    suffixes = (".arrows",)
    magic = (b"\xff\xff\xff\xff",)

    def open_part(self, source: Source, dialect: Dialect, array_name: str | None) -> Part:
        spool = Spool()
        try:
            with pa.ipc.open_stream(source.open()) as stream, spool.writing() as file:
                schema = plain_schema(stream.schema)
                with pa.ipc.new_file(file, schema) as out:
                    for batch in stream:
                        out.write_table(pa.Table.from_batches([batch]).cast(schema))
        except (pa.ArrowException, EOFError) as error:
            raise BadFile(f"{source.name} is not a complete Arrow stream: {error}") from None
        part = ArrowPart(source._replace(open=spool.open))
        part.format = self
        return part

    def writer(self, file: BinaryIO, schema: pa.Schema, template: Part, output: OutputFile) -> Writer:
        return ArrowWriter(file, schema, stream=True)
