"""CSV files, also compressed by gzip.

They are parsed once, into a temporary Arrow file; to parse them in every pass would take longer.

Columns without probabilities are carried as the bytes that they are, so that ``007`` does not become 7.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from baserate.errors import BadFile
from baserate.inputs.validation import listed
from baserate.tables.arrow_files import ArrowPart
from baserate.tables.base import Format, Part, Piece, Rows, Source, Writer, reading
from baserate.tables.dialect import Dialect
from baserate.tables.spool import Spool

_BLOCK_BYTES = 8 << 20
_ORDINARY = r"^[0-9]\.[0-9]+$"  # Most numbers look so, and need no closer look.
_TYPES = {  # What a column is taken for if all of its entries look like it; others are text.
    pa.int64(): r"^(0|-?[1-9][0-9]{0,17})$",
    pa.float64(): r"^(0|-?[1-9][0-9]{0,14}|-?(0|[1-9][0-9]*)\.[0-9]+([eE][-+]?[0-9]+)?|-?[1-9][eE][-+]?[0-9]+)$",
    pa.bool_(): r"^([Tt]rue|[Ff]alse|TRUE|FALSE)$",
}
_EXACT_LENGTH = 16  # A number of so few characters loses no digit; a longer one has to come back as it was.


class CsvPart(Part):
    """A text file with a header."""

    def __init__(self, source: Source, dialect: Dialect) -> None:
        self.name, self.below, self.partition = source.name, source.below, source.partition
        self.format = Csv()
        self._source, self._dialect = source, dialect
        self._delimiter = dialect.delimiter_of(source.name)
        self._left: dict[str, dict[pa.DataType, str]] = {}
        self.schema = pa.schema([(name, pa.binary()) for name in self._header()])
        self._rows: ArrowPart | None = None

    def _header(self) -> list[str]:
        with reading(self.name), self._open() as file:
            start = file.read(1 << 16)
        if not start.strip():
            raise BadFile(f"{self.name} is empty")
        if start.startswith((b"PAR1", b"ARROW1", b"\x93NUMPY")) and b"\0" in start:
            raise BadFile(f"{self.name} is a table that was packed by gzip as a whole; unpack it first")
        if start[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in start:
            raise BadFile(f"{self.name} is not text in UTF-8: it holds zero bytes, as UTF-16 does; convert it to UTF-8")
        with reading(self.name):
            names = self._parse([]).schema.names
        other = next((mark for mark in ";\t|," if mark != self._delimiter and mark in names[0]), None)
        if len(names) == 1 and other is not None:
            raise BadFile(
                f"{self.name} has one column, {names[0]!r}; if {other!r} sets its columns apart, say "
                f"delimiter={other!r}"
            )
        return names

    def load(self, numbers: Sequence[str], *, typed: bool) -> None:
        spool = Spool()
        schema = pa.schema([(name, pa.float64() if name in numbers else pa.binary()) for name in self.schema.names])
        kinds = dict.fromkeys([name for name in schema.names if typed and name not in numbers], _TYPES)
        with spool.writing() as file, pa.ipc.new_file(file, schema) as out:
            for batch in self._batches(numbers):
                kinds = {name: _still(kinds[name], batch.column(name)) for name in kinds}
                out.write_batch(batch.cast(schema))
        self._rows = ArrowPart(self._source._replace(open=spool.open))
        self._rows.load(numbers, typed=typed)
        self.schema, self._left = schema, kinds

    def take_types(self, left: dict[str, dict[pa.DataType, str]]) -> None:
        """Give columns of text a type that is left for them."""
        # That nothing speaks against any type means that there is nothing in the column.
        chosen = {name: kinds if len(kinds) < len(_TYPES) else {} for name, kinds in left.items()}
        text = {name: next(iter(kinds), pa.string()) for name, kinds in chosen.items()}
        self.schema = pa.schema([(f.name, text.get(f.name, f.type)) for f in self.schema])

    @property
    def left(self) -> dict[str, dict[pa.DataType, str]]:
        """The types that columns of text may have, by what is in them."""
        return self._left

    @property
    def n_rows(self) -> int:
        assert self._rows is not None
        return self._rows.n_rows

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        assert self._rows is not None
        for piece in self._rows.pieces(columns):
            yield piece._replace(read=partial(self._typed, piece))

    def _typed(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        for batch in piece.read():
            fields = [self.schema.field(name) for name in batch.schema.names]
            arrays = [_as_type(array, field, self.name) for array, field in zip(batch.columns, fields, strict=True)]
            yield pa.record_batch(arrays, schema=pa.schema(fields))

    def _batches(self, numbers: Sequence[str]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._parse(numbers)
        except pa.ArrowInvalid as error:
            raise self._explained(numbers, error) from None
        except (OSError, UnicodeError) as error:
            raise BadFile(f"{self.name} cannot be read: {error}") from None

    def _parse(self, numbers: Sequence[str]) -> Any:
        types = {name: pa.float64() if name in numbers else pa.binary() for name in self._names()}
        try:
            return pcsv.open_csv(
                self._open(),
                pcsv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
                pcsv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                pcsv.ConvertOptions(column_types=types, decimal_point=self._dialect.decimal, strings_can_be_null=False),
            )
        except pa.ArrowInvalid as error:
            raise self._explained(numbers, error) from None

    def _names(self) -> list[str]:
        return getattr(self, "schema", pa.schema([])).names

    def _open(self) -> Any:
        file = self._source.open()
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        return pa.CompressedInputStream(file, "gzip") if packed else file

    def _explained(self, numbers: Sequence[str], error: pa.ArrowInvalid) -> BadFile:
        """What is wrong with the text, with its row and column."""
        if "conversion error" not in str(error) or not numbers:
            return BadFile(f"{self.name} is not a table: {error}")
        start = 0
        for batch in self._parse([]):
            for name in numbers:
                column = batch.column(name)
                ordinary = pc.match_substring_regex(column, _ORDINARY)
                for i in pc.indices_nonzero(pc.invert(ordinary)).to_pylist():
                    if not _is_number(column[i].as_py(), self._dialect.decimal):
                        return BadFile(self._odd_entry(start + i, name, column[i].as_py()))
            start += batch.num_rows
        return BadFile(f"{self.name}: {error}")

    def _odd_entry(self, row: int, column: str, entry: bytes) -> str:
        text = entry.decode("utf-8", "replace")
        hint = "; for decimal commas say decimal=','" if "," in text and self._dialect.decimal == "." else ""
        hint = hint or "; choose the columns with probabilities by columns="
        return f"row {row} of {self.name}, column {column!r} is {text[:40]!r}, which is not a number{hint}"


def _is_number(entry: bytes, decimal: str) -> bool:
    text = entry.decode("utf-8", "replace")
    if text in pcsv.ConvertOptions().null_values:
        return True
    try:
        float(text.replace(decimal, "."))
    except ValueError:
        return False
    return "_" not in text and (decimal == "." or "." not in text)


def _still(kinds: dict[pa.DataType, str], column: pa.Array) -> dict[pa.DataType, str]:
    """The types that a column may have, after some more of it."""
    filled = column.filter(pc.greater(pc.binary_length(column), 0))
    if not len(filled):
        return kinds
    return {kind: like for kind, like in kinds.items() if _fits(filled, kind, like)}


def _fits(entries: pa.Array, kind: pa.DataType, like: str) -> bool:
    if not pc.all(pc.match_substring_regex(entries, like)).as_py():
        return False
    if kind != pa.float64():
        return True
    text = entries.cast(pa.string())
    numbers = text.cast(pa.float64())
    same = pc.or_(pc.less_equal(pc.binary_length(text), _EXACT_LENGTH), pc.equal(numbers.cast(pa.string()), text))
    return bool(pc.all(pc.and_(same, pc.is_finite(numbers))).as_py())


def _as_type(array: pa.Array, field: pa.Field, name: str) -> pa.Array:
    if array.type == field.type:
        return array
    try:
        text = array.cast(pa.string())
    except pa.ArrowInvalid:
        raise BadFile(f"column {field.name!r} of {name} is not text in UTF-8; convert the file to UTF-8") from None
    if field.type == pa.string():
        return text
    return pc.if_else(pc.equal(text, ""), None, text).cast(field.type)


class CsvWriter(Writer):
    """Writes text; quotes stand where they are needed."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, rows: Rows) -> None:
        self._packed = gzip.GzipFile(fileobj=file, mode="wb", mtime=0) if rows.name.lower().endswith(".gz") else None
        self._file = self._packed or file
        self._decimal = rows.dialect.decimal
        self._delimiter = rows.dialect.delimiter_of(rows.name)
        self._special = "[" + "".join(rf"\x{ord(mark):02x}" for mark in f'"\r\n{self._delimiter}') + "]"
        self._file.write((self._delimiter.join(map(self._quoted_name, schema.names)) + "\n").encode())

    def _quoted_name(self, name: str) -> str:
        special = any(mark in name for mark in f'"\r\n{self._delimiter}')
        return '"' + name.replace('"', '""') + '"' if special else name

    def write(self, table: pa.Table) -> None:
        for batch in table.to_batches(max_chunksize=1 << 16):
            lines = _joined([self._text(column) for column in batch.columns], self._delimiter)
            lines = _joined([lines, pa.scalar(b"", pa.large_binary())], "\n")
            self._file.write(lines.buffers()[2])

    def _text(self, column: pa.Array) -> pa.Array:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_float16(kind):
            kind = pa.float32()
        column = column.cast(kind)
        if pa.types.is_floating(kind):
            text = column.cast(pa.large_string())
            return text if self._decimal == "." else pc.replace_substring(text, ".", self._decimal)
        return self._quoted(column if kind == pa.binary() else column.cast(pa.large_string()))

    def _quoted(self, text: pa.Array) -> pa.Array:
        text = text.cast(pa.large_binary())
        special = pc.match_substring_regex(text, self._special)
        if not pc.any(special).as_py():
            return text
        quoted = _joined([pa.scalar(b'"', pa.large_binary()), pc.replace_substring(text, '"', '""')], "")
        return pc.if_else(special, _joined([quoted, pa.scalar(b'"', pa.large_binary())], ""), text)

    def close(self) -> None:
        if self._packed is not None:
            self._packed.close()


def _joined(columns: Sequence[Any], between: str) -> pa.Array:
    texts = [column.cast(pa.large_binary()) for column in columns]
    mark = pa.scalar(between.encode(), pa.large_binary())
    return pc.binary_join_element_wise(*texts, mark, null_handling="replace", null_replacement=b"")


class Csv(Format):
    """CSV, TSV and their like."""

    name = "CSV"
    suffixes = (".csv", ".tsv", ".tab", ".txt", ".csv.gz", ".tsv.gz", ".tab.gz", ".txt.gz")

    def part(self, source: Source, dialect: Dialect, member: str | None) -> Part:
        return CsvPart(source, dialect)

    def unify(self, parts: Sequence[Part]) -> None:
        texts = [part for part in parts if isinstance(part, CsvPart)]
        left = {
            name: {kind: like for kind, like in kinds.items() if all(kind in part.left[name] for part in texts)}
            for name, kinds in texts[0].left.items()
        }
        for part in texts:
            part.take_types(left)

    def writer(self, file: BinaryIO, schema: pa.Schema, like: Part, rows: Rows) -> Writer:
        return CsvWriter(file, schema, rows)

    def refuses(self, schema: pa.Schema, like: Part, rows: Rows) -> str | None:
        if isinstance(like, CsvPart):  # bytes, but of text
            return None
        odd = [field.name for field in schema if not _is_sayable(field.type)]
        return (
            f"the columns {listed(odd)} hold lists, structures, bytes or something else that is no text"
            if odd
            else None
        )


def _is_sayable(kind: pa.DataType) -> bool:
    """Whether values of a type can be written as text."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    if "binary" in str(inner):
        return False
    try:
        pa.nulls(1, inner).cast(pa.float32() if pa.types.is_float16(inner) else pa.large_string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return not pa.types.is_nested(inner)
