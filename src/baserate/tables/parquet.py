"""Parquet files. A piece is a row group; what is written has the row groups, codecs and metadata of what was read."""

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
from baserate.tables.base import BATCH_ROWS, PIECE_BYTES, Format, Part, Piece, Rows, Source, Writer, reading
from baserate.tables.dialect import Dialect


class ParquetPart(Part):
    """A Parquet file, or some of its row groups."""

    def __init__(self, source: Source, groups: Sequence[int] | None = None) -> None:
        self.name, self.below, self.partition = source.name, source.below, source.partition
        self.format = Parquet()
        self._open = source.open
        try:
            file = pq.ParquetFile(self._open())
        except (pa.ArrowException, OSError) as error:
            raise BadFile(f"{self.name} is not a whole Parquet file: {error}") from None
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
            # Too large to be held several times, so this one is read in order, a stretch at a time.
            for batch in self._read(group, columns, max(n_rows * PIECE_BYTES // n_bytes, 1)):
                yield Piece(batch.num_rows, partial(iter, (batch,)))

    def _size(self, group: int, columns: Sequence[str] | None) -> tuple[int, int]:
        about = self.metadata.row_group(group)
        leaves = [about.column(i) for i in range(about.num_columns)]
        wanted = [leaf for leaf in leaves if columns is None or leaf.path_in_schema.split(".")[0] in columns]
        return about.num_rows, sum(leaf.total_uncompressed_size for leaf in wanted)

    def _read(self, group: int, columns: Sequence[str] | None, batch_rows: int) -> Iterator[pa.RecordBatch]:
        with reading(self.name):
            yield from self._file().iter_batches(
                batch_rows, row_groups=[group], columns=None if columns is None else list(columns), use_threads=False
            )

    def _file(self) -> Any:
        """The file, opened once by each thread for as long as it reads nothing else."""
        if getattr(_open, "part", None) is not self:
            _open.part, _open.file = self, None  # the one before is closed when nobody reads it
            opened = {"metadata": self.metadata, "pre_buffer": False, "buffer_size": 1 << 20}
            _open.file = pq.ParquetFile(self._open(), **opened)
        return _open.file


_open = threading.local()


class ParquetWriter(Writer):
    """Writes one row group for each piece."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, like: Part, rows: Rows) -> None:
        self._writer = pq.ParquetWriter(file, schema, **_like(like, schema, rows))

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def close(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        with contextlib.suppress(Exception):  # the disk may be full, and would be again when it is collected
            self._writer.close()
        self._writer.is_open = False


class Parquet(Format):
    """Parquet."""

    name = "Parquet"
    suffixes = (".parquet", ".pq", ".parq")
    magic = (b"PAR1", b"PARE")

    def part(self, source: Source, dialect: Dialect, member: str | None) -> Part:
        return ParquetPart(source)

    def writer(self, file: BinaryIO, schema: pa.Schema, like: Part, rows: Rows) -> Writer:
        return ParquetWriter(file, schema, like, rows)

    def refuses(self, schema: pa.Schema, like: Part, rows: Rows) -> str | None:
        try:
            pq.write_table(schema.empty_table(), io.BytesIO())
        except (pa.ArrowException, NotImplementedError) as error:
            return f"it has a column of a type that Parquet does not know ({error})"
        return None


def _like(part: Part, schema: pa.Schema, rows: Rows) -> dict[str, Any]:
    """Options that make a file like another one."""
    # Hardly two adjusted probabilities are equal, so a dictionary of them would be made in vain.
    others = {name for name in schema.names if name not in rows.columns.names}
    if not isinstance(part, ParquetPart) or part.metadata.num_row_groups == 0:
        return {"use_dictionary": sorted(others)}
    group = part.metadata.row_group(0)
    leaves = {leaf.path_in_schema: leaf for leaf in (group.column(i) for i in range(group.num_columns))}
    top = {path: path.split(".")[0] for path in leaves}
    with_dictionary = [p for p, leaf in leaves.items() if leaf.has_dictionary_page and top[p] in others]
    sorting = group.sorting_columns
    ordered = [one for one in sorting if top[list(leaves)[one.column_index]] in others]
    return {
        "compression": {path: _codec(leaf.compression) for path, leaf in leaves.items()},
        "use_dictionary": with_dictionary,
        "sorting_columns": ordered if ordered and len(ordered) == len(sorting) else None,
    }


def _codec(name: str) -> str:
    return {"UNCOMPRESSED": "none", "LZ4_RAW": "lz4"}.get(name, name.lower())
