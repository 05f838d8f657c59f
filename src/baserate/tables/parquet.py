"""Parquet files.

A piece is a row group. The adjusted file has the row groups, compression and metadata of the input file.
"""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from baserate.errors import BadFile
from baserate.tables.base import (
    BATCH_ROWS,
    PIECE_BYTES,
    Format,
    OutputFile,
    Part,
    Piece,
    Source,
    Writer,
    name_file_in_errors,
)
from baserate.tables.dialect import Dialect


class ParquetPart(Part):
    """A Parquet file, or some of its row groups.

    Parameters
    ----------
    source : Source
    groups : sequence of int, optional
        Numbers of the row groups. By default all.
    """

    def __init__(self, source: Source, groups: Sequence[int] | None = None) -> None:
        self.name, self.relative_path, self.partition = source.name, source.relative_path, source.partition
        self.format = Parquet()
        self._open, self._is_remote = source.open, source.is_remote
        try:
            file = pq.ParquetFile(self._open())
        except (pa.ArrowException, OSError) as error:
            raise BadFile(f"{self.name} is not a complete Parquet file: {error}") from None
        self.metadata = file.metadata
        self.schema = file.schema_arrow
        self._groups = range(self.metadata.num_row_groups) if groups is None else groups

    @property
    def n_rows(self) -> int:
        return sum(self.metadata.row_group(group).num_rows for group in self._groups)

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        for group in self._groups:
            n_rows, n_bytes = self._size(group, columns)
            if n_bytes <= PIECE_BYTES:
                yield Piece(n_rows, partial(self._read, group, columns, BATCH_ROWS))
                continue
            # Several row groups of this size may not fit into memory, so this one is read here, some rows at a time.
            for batch in self._read(group, columns, max(n_rows * PIECE_BYTES // n_bytes, 1)):
                yield Piece(batch.num_rows, partial(iter, (batch,)))

    def _size(self, group: int, columns: Sequence[str] | None) -> tuple[int, int]:
        """Number of rows of a row group, and number of bytes of the given columns."""
        metadata = self.metadata.row_group(group)
        leaves = [metadata.column(i) for i in range(metadata.num_columns)]
        chosen = [leaf for leaf in leaves if columns is None or leaf.path_in_schema.split(".")[0] in columns]
        return metadata.num_rows, sum(leaf.total_uncompressed_size for leaf in chosen)

    def _read(self, group: int, columns: Sequence[str] | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
        with name_file_in_errors(self.name):
            # On another machine, all columns of a row group are requested at once, if that does not take much memory.
            at_once = self._is_remote and self._size(group, columns)[1] <= PIECE_BYTES
            file = self._file(is_copied=columns is None, pre_buffer=at_once)
            chosen = None if columns is None else list(columns)
            yield from file.iter_batches(batch_rows, row_groups=[group], columns=chosen, use_threads=False)

    def _file(self, *, is_copied: bool, pre_buffer: bool) -> Any:
        """The opened file. Each thread opens it once and keeps it until it reads another part.

        Texts that are only looked at, such as groups, stay as they are stored: each different text once, and a number
        for each row. Columns that are copied to another file keep their type.
        """
        key = (id(self), is_copied, pre_buffer)
        if getattr(_opened, "key", None) != key:
            _opened.part, _opened.key, _opened.file = self, key, None  # releases the previous file
            texts = [] if is_copied else [field.name for field in self.schema if pa.types.is_string(field.type)]
            options = {"metadata": self.metadata, "pre_buffer": pre_buffer, "buffer_size": 1 << 20}
            _opened.file = pq.ParquetFile(self._open(), read_dictionary=texts, **options)
        return _opened.file


_opened = threading.local()


class ParquetWriter(Writer):
    """Writes one row group per piece."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, template: Part, output: OutputFile) -> None:
        self._writer = pq.ParquetWriter(file, schema, **_writer_options(template, schema, output))

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def close(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        with contextlib.suppress(Exception):  # for example because the disk is full
            self._writer.close()
        self._writer.is_open = False  # or its finalizer would try to close it again


class Parquet(Format):
    """Parquet files."""

    name = "Parquet"
    suffixes = (".parquet", ".pq", ".parq")
    magic = (b"PAR1", b"PARE")

    def open_part(self, source: Source, dialect: Dialect, array_name: str | None) -> Part:
        return ParquetPart(source)

    def writer(self, file: BinaryIO, schema: pa.Schema, template: Part, output: OutputFile) -> Writer:
        return ParquetWriter(file, schema, template, output)

    def unsupported_reason(self, schema: pa.Schema, template: Part, output: OutputFile) -> str | None:
        try:
            pq.write_table(schema.empty_table(), io.BytesIO())
        except (pa.ArrowException, NotImplementedError) as error:
            return f"a column has a type that Parquet does not support ({error})"
        return None


def _writer_options(template: Part, schema: pa.Schema, output: OutputFile) -> dict[str, Any]:
    """Options of the writer that keep the compression, dictionaries and sort order of the input file."""
    # Adjusted probabilities are nearly all distinct, so a dictionary of them would only cost time.
    others = {name for name in schema.names if name not in output.columns.names}
    if not isinstance(template, ParquetPart) or template.metadata.num_row_groups == 0:
        return {"use_dictionary": sorted(others)}
    group = template.metadata.row_group(0)
    leaves = {leaf.path_in_schema: leaf for leaf in (group.column(i) for i in range(group.num_columns))}
    column_of = {path: path.split(".")[0] for path in leaves}
    with_dictionary = [p for p, leaf in leaves.items() if leaf.has_dictionary_page and column_of[p] in others]
    sorting = group.sorting_columns
    # The rows are no longer sorted by a column that was adjusted.
    still_sorted = all(column_of[list(leaves)[one.column_index]] in others for one in sorting)
    return {
        "compression": {path: _codec(leaf.compression) for path, leaf in leaves.items()},
        "use_dictionary": with_dictionary,
        "sorting_columns": sorting if sorting and still_sorted else None,
    }


def _codec(name: str) -> str:
    """The name of a codec for the writer, from its name in the metadata."""
    return {"UNCOMPRESSED": "none", "LZ4_RAW": "lz4"}.get(name, name.lower())
