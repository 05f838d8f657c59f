"""Files that the browser sends: streamed to the private folder, and limited in size, also after decompression."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

from baserate.app.private_folder import free_bytes
from baserate.errors import BadFile

EXPANSION = 10
"""How many times the limit of an upload its content may have after decompression."""

_RESERVE = 256 << 20  # Bytes that stay free on the disk.
_CHUNK = 1 << 20


class TooLarge(BadFile):
    """An upload is larger than the limit."""


def check_size(size: int, limit: int, folder: Path) -> None:
    """Raise if a file of this size is not accepted."""
    if size > limit:
        raise TooLarge(
            f"The file has more than {readable(limit)}, which is the limit for uploads. Start the server with the name "
            "of the file instead: baserate app FILE. Such files can have any size."
        )
    if size + _RESERVE > free_bytes(folder):
        raise TooLarge(f"The disk of the server has not enough space for {readable(size)}.")


async def receive(chunks: AsyncIterator[bytes], path: Path, limit: int) -> None:
    """Write the body of a request to a file. The file is removed if the request is too large or not complete."""
    size = 0
    try:
        with path.open("xb") as file:
            async for chunk in chunks:
                size += len(chunk)
                check_size(size, limit, path.parent)
                file.write(chunk)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    if size == 0:
        path.unlink()
        raise BadFile("The file is empty.")


def check_expansion(path: Path, limit: int) -> None:
    """Raise if a compressed file would become too large when it is read."""
    with path.open("rb") as file:
        start = file.read(4)
    size = 0
    if start[:2] == b"\x1f\x8b":
        size = _gzip_size(path, limit)
    elif start == b"PK\x03\x04":
        size = _zip_size(path)
    elif start == b"PAR1":
        size = _parquet_size(path)
    if size > limit:
        raise TooLarge(
            f"The file has more than {readable(limit)} after decompression. Start the server with the name of the file "
            "instead: baserate app FILE."
        )


def _gzip_size(path: Path, limit: int) -> int:
    """Size of the content, counted only until it is above the limit."""
    size = 0
    try:
        with gzip.open(path) as file:
            while size <= limit and (chunk := file.read(_CHUNK)):
                size += len(chunk)
    except (OSError, EOFError, zlib.error) as error:
        raise BadFile(f"The file is not a complete gzip file: {error}") from None
    return size


def _zip_size(path: Path) -> int:
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError) as error:
        raise BadFile(f"The file is not a complete archive: {error}") from None


def _parquet_size(path: Path) -> int:
    """Size as declared, and at least one byte per value: equal values take hardly any space in the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        about = pq.ParquetFile(path).metadata
    except (pa.ArrowException, OSError) as error:
        raise BadFile(f"The file is not a complete Parquet file: {error}") from None
    declared = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    return max(declared, about.num_rows * about.num_columns)


def readable(size: int) -> str:
    """A number of bytes as people write it."""
    for unit, factor in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} bytes"
