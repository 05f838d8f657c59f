"""Which format a file has: what it begins with decides, and its name where that says nothing."""

from __future__ import annotations

from baserate.errors import BadFile, BadOption
from baserate.tables.arrow_files import ArrowFile, ArrowStream
from baserate.tables.base import Format, Part, Source
from baserate.tables.csv_files import Csv
from baserate.tables.dialect import Dialect
from baserate.tables.numpy_files import Npy, Npz
from baserate.tables.parquet import Parquet

FORMATS: tuple[Format, ...] = (Parquet(), ArrowFile(), ArrowStream(), Npy(), Npz(), Csv())
_TEXT = FORMATS[-1]
_FOREIGN = {  # how they begin; but for the last two, no text begins so and goes on as these do
    b"\xd0\xcf\x11\xe0": "an old Excel file; save it as CSV",
    b"SQLite format 3": "an SQLite database; export the table as CSV or Parquet",
    b"\x89HDF": "an HDF5 file; export the table as Parquet",
    b"ORC": "an ORC file; pass pyarrow.dataset.dataset(path, format='orc'), or convert it to Parquet",
    b"Obj\x01": "an Avro file; convert it to Parquet",
    b"FEA1": "a Feather file of version 1; write it again with a present pyarrow or pandas",
    b"BZh": "compressed by bzip2; use gzip, or unpack it",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; use gzip, or unpack it",
    b"%PDF-": "a PDF",
    b'{"': "JSON; convert it to CSV or Parquet",
}
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r"))


def part(source: Source, dialect: Dialect, member: str | None) -> Part:
    """Open a file."""
    with source.open() as file:
        start = file.read(64)
    binary = any(mark in _CONTROL for mark in start) or not _is_text(start)
    named = of_name(source.name)
    found = next((kind for kind in FORMATS if kind.magic and binary and start.startswith(kind.magic)), None)
    if found is None and not start:
        raise BadFile(f"{source.name} is empty: it has no bytes at all")
    foreign = next((m for m in _FOREIGN if start.startswith(m) and (binary or m in (b"%PDF-", b'{"'))), None)
    if found is None and foreign is not None:
        raise BadFile(f"{source.name} is {_FOREIGN[foreign]}")
    if found is None and named is not None and named is not _TEXT:
        raise BadFile(
            f"{source.name} is not what its name says: it does not begin as {named.name} does, but with {start[:16]!r}"
        )
    return (found or _TEXT).part(source, dialect, member)


def _is_text(start: bytes) -> bool:
    try:
        start.decode()
    except UnicodeDecodeError as error:
        return error.start > len(start) - 4  # a character that was cut
    return True


def of_name(name: str) -> Format | None:
    """The format that a name stands for."""
    endings = {suffix: kind for kind in FORMATS for suffix in kind.suffixes}
    found = [suffix for suffix in endings if name.lower().endswith(suffix)]
    return endings[max(found, key=len)] if found else None


def called(name: str) -> Format:
    """A format by its own name, as it is said for pipes."""
    names = {"csv": _TEXT, "arrow": FORMATS[2], "parquet": FORMATS[0]}
    if name not in names:
        raise BadOption(f"the format must be one of {', '.join(names)}, not {name!r}")
    return names[name]
