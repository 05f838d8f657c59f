"""CSV files, also compressed by gzip.

A file is parsed once, into a temporary Arrow file. Parsing it again in every pass would take longer.

Columns without probabilities are kept as bytes, so that ``007`` does not become 7.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from baserate.errors import BadFile, Option
from baserate.inputs.columns import COLUMN_LIST
from baserate.inputs.validation import quoted, quoted_name
from baserate.support.spool import Spool
from baserate.tables.arrow_files import ArrowPart
from baserate.tables.base import Format, OutputFile, Part, Piece, Source, Writer, name_file_in_errors
from baserate.tables.dialect import Dialect
from baserate.tables.text_files import WithoutEmptyEnds

_DECIMAL_COMMA = Option("decimal", "','")
_DECIMAL_COMMA_NUMBER = re.compile(r"(?<![0-9,])[0-9]+,[0-9]+(?![0-9,])")
_BLOCK_BYTES = 8 << 20
_PLAIN_NUMBER = r"^[0-9]\.[0-9]+$"  # Most entries match this, and need no slower check.
_TYPES = {  # A column gets the first type whose pattern matches all of its entries, else it is text.
    pa.int64(): r"^(0|-?[1-9][0-9]{0,17})$",
    pa.float64(): r"^(0|-?[1-9][0-9]{0,14}|-?(0|[1-9][0-9]*)\.[0-9]+([eE][-+]?[0-9]+)?|-?[1-9][eE][-+]?[0-9]+)$",
    pa.bool_(): r"^([Tt]rue|[Ff]alse|TRUE|FALSE)$",
}
_EXACT_LENGTH = 16  # A number of at most this many characters loses no digit as float64.

PossibleTypes = dict[str, dict[pa.DataType, str]]
"""For each text column, the entries of ``_TYPES`` that match all of its values."""


class CsvPart(Part):
    """A text file with a header."""

    def __init__(self, source: Source, dialect: Dialect) -> None:
        self.name, self.relative_path, self.partition = source.name, source.relative_path, source.partition
        self.format = Csv()
        self._source, self._dialect = source, dialect
        self._delimiter = dialect.delimiter_for(source.name)
        self.possible_types: PossibleTypes = {}
        self.schema = pa.schema([(name, pa.binary()) for name in self._read_header()])
        self._parsed: ArrowPart | None = None

    def _read_header(self) -> list[str]:
        with name_file_in_errors(self.name), self._open() as file:
            start = file.read(1 << 16)
        if not start.strip():
            raise BadFile(f"{self.name} is empty")
        if start.startswith((b"PAR1", b"ARROW1", b"\x93NUMPY")) and b"\0" in start:
            raise BadFile(f"{self.name} is a binary table that was compressed by gzip; decompress it first")
        if start[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in start:
            raise BadFile(
                f"{self.name} is not UTF-8 text: it contains zero bytes, as UTF-16 text does; convert it to UTF-8"
            )
        try:
            with name_file_in_errors(self.name):
                names = self._parse([]).schema.names
        except BadFile:
            self._check_delimiter(start, f"{self.name} cannot be split into columns by {self._delimiter!r}")
            raise
        if len(names) == 1:
            self._check_delimiter(start, f"{self.name} has only one column, {quoted_name(names[0])}")
        return names

    def _check_delimiter(self, start: bytes, problem: str) -> None:
        """Raise if the header contains another delimiter more often than that of this file.

        Parameters
        ----------
        start : bytes
            The first lines of the file.
        problem : str
            What is wrong with the file, as the beginning of the message.
        """
        header, *lines = start.decode(errors="replace").strip().splitlines()
        other = max(";\t|,", key=header.count)  # the first of those that are equally frequent
        if header.count(other) <= header.count(self._delimiter):
            return
        options = [Option("delimiter", repr(other))]
        advice = f"If its columns are separated by {other!r}, pass {options[0]}"
        if other != "," and self._dialect.decimal == "." and any(_DECIMAL_COMMA_NUMBER.search(line) for line in lines):
            options.append(_DECIMAL_COMMA)
            advice += f"; for decimal commas also pass {_DECIMAL_COMMA}"
        raise BadFile(f"{problem}. {advice}", options=options)

    def prepare(self, numeric: Sequence[str], *, infer_types: bool) -> None:
        spool = Spool()
        schema = pa.schema([(name, pa.float64() if name in numeric else pa.binary()) for name in self.schema.names])
        possible = dict.fromkeys([name for name in schema.names if infer_types and name not in numeric], _TYPES)
        with spool.writing() as file, pa.ipc.new_file(file, schema) as out:
            for batch in self._batches(numeric):
                possible = {name: _matching_types(types, batch.column(name)) for name, types in possible.items()}
                out.write_batch(batch.cast(schema))
        self._parsed = ArrowPart(self._source._replace(open=spool.open))
        self._parsed.prepare(numeric, infer_types=infer_types)
        self.schema, self.possible_types = schema, possible

    def first_rows(self, n_rows: int) -> pa.Table:
        with name_file_in_errors(self.name):
            first = next(iter(self._batches([])), None)
        if first is None:
            return pa.schema([(name, pa.string()) for name in self.schema.names]).empty_table()
        columns = [_as_text(column) for column in first.slice(0, n_rows).columns]
        return pa.table(columns, names=self.schema.names)

    def set_types(self, possible: PossibleTypes) -> None:
        """Give each text column the first of its possible types."""
        # If all types are possible, the column has no entries, and becomes text.
        types = {
            name: next(iter(types)) if 0 < len(types) < len(_TYPES) else pa.string() for name, types in possible.items()
        }
        self.schema = pa.schema([(field.name, types.get(field.name, field.type)) for field in self.schema])

    @property
    def n_rows(self) -> int:
        assert self._parsed is not None
        return self._parsed.n_rows

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        assert self._parsed is not None
        for piece in self._parsed.pieces(columns):
            yield piece._replace(read=partial(self._read_typed, piece))

    def _read_typed(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        for batch in piece.read():
            fields = [self.schema.field(name) for name in batch.schema.names]
            arrays = [_cast_text(array, field, self.name) for array, field in zip(batch.columns, fields, strict=True)]
            yield pa.record_batch(arrays, schema=pa.schema(fields))

    def _batches(self, numeric: Sequence[str]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._parse(numeric)
        except pa.ArrowInvalid as error:
            raise self._parse_error(numeric, error) from None
        except (OSError, UnicodeError) as error:
            raise BadFile(f"{self.name} cannot be read: {error}") from None

    def _parse(self, numeric: Sequence[str]) -> Any:
        names = getattr(self, "schema", pa.schema([])).names  # There is no schema yet while the header is read.
        types = {name: pa.float64() if name in numeric else pa.binary() for name in names}
        one_column = len(names) == 1  # in which an empty line is a missing value, except at the end
        try:
            return pcsv.open_csv(
                WithoutEmptyEnds(self._open()) if one_column else self._open(),
                pcsv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
                pcsv.ParseOptions(
                    delimiter=self._delimiter, newlines_in_values=True, ignore_empty_lines=not one_column
                ),
                pcsv.ConvertOptions(column_types=types, decimal_point=self._dialect.decimal, strings_can_be_null=False),
            )
        except pa.ArrowInvalid as error:
            raise self._parse_error(numeric, error) from None

    def _open(self) -> Any:
        file = self._source.open()
        compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        return pa.CompressedInputStream(file, "gzip") if compressed else file

    def _parse_error(self, numeric: Sequence[str], error: pa.ArrowInvalid) -> BadFile:
        """An error that names the row and column of the first entry that is not a number."""
        if "conversion error" not in str(error) or not numeric:
            return BadFile(f"{self.name} is not a valid CSV file: {error}")
        start = 0
        for batch in self._parse([]):
            for name in numeric:
                column = batch.column(name)
                plain = pc.match_substring_regex(column, _PLAIN_NUMBER)
                for i in pc.indices_nonzero(pc.invert(plain)).to_pylist():
                    if not _is_number(column[i].as_py(), self._dialect.decimal):
                        return self._entry_error(start + i, name, column[i].as_py())
            start += batch.num_rows
        return BadFile(f"{self.name} cannot be read: {error}")

    def _entry_error(self, row: int, column: str, entry: bytes) -> BadFile:
        text = entry.decode("utf-8", "replace")
        problem = f"row {row} of {self.name}, column {quoted_name(column)} is {text[:40]!r}, which is not a number"
        if "," in text and self._dialect.decimal == ".":
            return BadFile(f"{problem}; for decimal commas pass {_DECIMAL_COMMA}", options=[_DECIMAL_COMMA])
        return BadFile(f"{problem}; select the columns with probabilities by {COLUMN_LIST}", options=[COLUMN_LIST])


def _is_number(entry: bytes, decimal: str) -> bool:
    text = entry.decode("utf-8", "replace")
    if text in pcsv.ConvertOptions().null_values:
        return True
    try:
        float(text.replace(decimal, "."))
    except ValueError:
        return False
    return "_" not in text and (decimal == "." or "." not in text)


def _matching_types(types: dict[pa.DataType, str], column: pa.Array) -> dict[pa.DataType, str]:
    """Those of the types that match all entries of a column. Empty entries match every type."""
    entries = column.filter(pc.greater(pc.binary_length(column), 0))
    if not len(entries):
        return types
    return {kind: pattern for kind, pattern in types.items() if _all_match(entries, kind, pattern)}


def _all_match(entries: pa.Array, kind: pa.DataType, pattern: str) -> bool:
    if not pc.all(pc.match_substring_regex(entries, pattern)).as_py():
        return False
    if kind != pa.float64():
        return True
    text = entries.cast(pa.string())
    numbers = text.cast(pa.float64())
    exact = pc.or_(pc.less_equal(pc.binary_length(text), _EXACT_LENGTH), pc.equal(numbers.cast(pa.string()), text))
    return bool(pc.all(pc.and_(exact, pc.is_finite(numbers))).as_py())


def _as_text(column: pa.Array) -> pa.Array:
    """Bytes of a file as text, with a replacement character for what is not UTF-8."""
    return pa.array([entry.decode("utf-8", "replace") for entry in column.to_pylist()], pa.string())


def _cast_text(array: pa.Array, field: pa.Field, name: str) -> pa.Array:
    if array.type == field.type:
        return array
    try:
        text = array.cast(pa.string())
    except pa.ArrowInvalid:
        raise BadFile(
            f"column {quoted_name(field.name)} of {name} is not UTF-8 text; convert the file to UTF-8"
        ) from None
    if field.type == pa.string():
        return text
    return pc.if_else(pc.equal(text, ""), None, text).cast(field.type)


class CsvWriter(Writer):
    """Writes CSV text. Entries are quoted only if necessary.

    Not pyarrow.csv.write_csv: it has no decimal comma, and it quotes all text.
    """

    def __init__(self, file: BinaryIO, schema: pa.Schema, output: OutputFile) -> None:
        compress = output.name.lower().endswith(".gz")
        self._compressed = gzip.GzipFile(fileobj=file, mode="wb", mtime=0) if compress else None
        self._file = self._compressed or file
        self._decimal = output.dialect.decimal
        self._delimiter = output.dialect.delimiter_for(output.name)
        self._special = "[" + "".join(rf"\x{ord(mark):02x}" for mark in f'"\r\n{self._delimiter}') + "]"
        self._file.write((self._delimiter.join(map(self._quoted_name, schema.names)) + "\n").encode())

    def _quoted_name(self, name: str) -> str:
        special = any(mark in name for mark in f'"\r\n{self._delimiter}')
        return '"' + name.replace('"', '""') + '"' if special else name

    def write(self, table: pa.Table) -> None:
        for batch in table.to_batches(max_chunksize=1 << 16):
            lines = _join([self._text(column) for column in batch.columns], self._delimiter)
            lines = _join([lines, pa.scalar(b"", pa.large_binary())], "\n")
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
        quoted = _join([pa.scalar(b'"', pa.large_binary()), pc.replace_substring(text, '"', '""')], "")
        return pc.if_else(special, _join([quoted, pa.scalar(b'"', pa.large_binary())], ""), text)

    def close(self) -> None:
        if self._compressed is not None:
            self._compressed.close()


def _join(columns: Sequence[Any], separator: str) -> pa.Array:
    """Concatenate columns of text row by row. Missing values become empty text."""
    texts = [column.cast(pa.large_binary()) for column in columns]
    scalar = pa.scalar(separator.encode(), pa.large_binary())
    return pc.binary_join_element_wise(*texts, scalar, null_handling="replace", null_replacement=b"")


class Csv(Format):
    """CSV and TSV files."""

    name = "CSV"
    suffixes = (".csv", ".tsv", ".tab", ".txt", ".csv.gz", ".tsv.gz", ".tab.gz", ".txt.gz")

    def open_part(self, source: Source, dialect: Dialect, array_name: str | None) -> Part:
        return CsvPart(source, dialect)

    def unify_types(self, parts: Sequence[Part]) -> None:
        texts = [part for part in parts if isinstance(part, CsvPart)]
        possible = {
            name: {kind: one for kind, one in types.items() if all(kind in part.possible_types[name] for part in texts)}
            for name, types in texts[0].possible_types.items()
        }
        for part in texts:
            part.set_types(possible)

    def writer(self, file: BinaryIO, schema: pa.Schema, template: Part, output: OutputFile) -> Writer:
        return CsvWriter(file, schema, output)

    def unsupported_reason(self, schema: pa.Schema, template: Part, output: OutputFile) -> str | None:
        if isinstance(template, CsvPart):  # Its columns have the type of bytes, but hold text.
            return None
        bad = [field.name for field in schema if not _has_text_form(field.type)]
        return (
            f"the columns {quoted(bad)} contain lists, structs, bytes or other values without a text form"
            if bad
            else None
        )


def _has_text_form(kind: pa.DataType) -> bool:
    """Whether values of a type can be written as text."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    if "binary" in str(inner):
        return False
    try:
        pa.nulls(1, inner).cast(pa.float32() if pa.types.is_float16(inner) else pa.large_string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return not pa.types.is_nested(inner)
