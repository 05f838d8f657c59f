"""Detection of the format of a file.

The first bytes of a file decide. Its name decides only if these bytes are not characteristic of a format.
"""

from __future__ import annotations

from baserate.errors import BadFile, BadOption
from baserate.tables.arrow_files import ArrowFile, ArrowStream
from baserate.tables.base import Format, Part, Source
from baserate.tables.csv_files import Csv
from baserate.tables.dialect import Dialect
from baserate.tables.numpy_files import Npy, Npz
from baserate.tables.parquet import Parquet

_PARQUET, _ARROW_STREAM, _CSV = Parquet(), ArrowStream(), Csv()
FORMATS: tuple[Format, ...] = (_PARQUET, ArrowFile(), _ARROW_STREAM, Npy(), Npz(), _CSV)

_UNSUPPORTED = {  # The first bytes of formats that cannot be read, and what to do.
    b"\xd0\xcf\x11\xe0": "an old Excel file; save it as CSV",
    b"SQLite format 3": "an SQLite database; export the table as CSV or Parquet",
    b"\x89HDF": "an HDF5 file; export the table as Parquet",
    b"ORC": "an ORC file; pass pyarrow.dataset.dataset(path, format='orc'), or convert it to Parquet",
    b"Obj\x01": "an Avro file; convert it to Parquet",
    b"FEA1": "a Feather file of version 1; write it again with a current version of pyarrow or pandas",
    b"BZh": "compressed by bzip2; decompress it, or use gzip",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; decompress it, or use gzip",
    b"%PDF-": "a PDF; export the table as CSV or Parquet",
    b'{"': "JSON; convert it to CSV or Parquet",
    b"[{": "JSON; convert it to CSV or Parquet",
    b"<!DOCTYPE": "a web page or XML; export the table as CSV or Parquet",
    b"<html": "a web page; export the table as CSV or Parquet",
    b"<?xml": "XML; export the table as CSV or Parquet",
}
# A CSV file may begin with the other sequences, for example with "ORCID".
_UNSUPPORTED_TEXT = (b"%PDF-", b'{"', b"[{", b"<!DOCTYPE", b"<html", b"<?xml")
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r"))


def open_part(source: Source, dialect: Dialect, array_name: str | None) -> Part:
    """Open a file in its format."""
    with source.open() as file:
        start = file.read(64)
    binary = any(byte in _CONTROL for byte in start) or not _is_text(start)
    expected = by_suffix(source.name)
    found = next((one for one in FORMATS if one.magic and binary and start.startswith(one.magic)), None)
    if found is None and not start:
        raise BadFile(f"{source.name} is empty: it has no bytes at all")
    unsupported = next((m for m in _UNSUPPORTED if start.startswith(m) and (binary or m in _UNSUPPORTED_TEXT)), None)
    if found is None and unsupported is not None:
        raise BadFile(f"{source.name} is {_UNSUPPORTED[unsupported]}")
    if found is None and expected is not None and expected is not _CSV:
        raise BadFile(
            f"the name of {source.name} says that it is {expected.name}, but its content is not: it begins with "
            f"{start[:16]!r}"
        )
    return (found or _CSV).open_part(source, dialect, array_name)


def _is_text(start: bytes) -> bool:
    try:
        start.decode()
    except UnicodeDecodeError as error:
        return error.start > len(start) - 4  # The last character may be cut off.
    return True


def by_suffix(name: str) -> Format | None:
    """The format that the suffix of a file name indicates, or None."""
    suffixes = {suffix: one for one in FORMATS for suffix in one.suffixes}
    found = [suffix for suffix in suffixes if name.lower().endswith(suffix)]
    return suffixes[max(found, key=len)] if found else None


def by_name(name: str) -> Format:
    """The format for standard output with this name."""
    formats = {"csv": _CSV, "arrow": _ARROW_STREAM, "parquet": _PARQUET}
    if name not in formats:
        raise BadOption(f"the format must be one of {', '.join(formats)}, not {name!r}")
    return formats[name]
