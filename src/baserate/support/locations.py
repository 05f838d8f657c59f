"""Where files are: a path on this machine, or a URL such as ``s3://bucket/key``.

Tables, saved adjustments, saved rates and reports are read and written through these functions only, so that they are
possible at the same places.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

from baserate.errors import BadOption
from baserate.support import atomic_files
from baserate.support.paths import real_path
from baserate.support.remote_files import RemoteFile, is_url
from baserate.support.uploads import RemoteStaging, check_upload

PathLike = str | os.PathLike[str]

_BROKEN_URL = re.compile(r"(s3a?|gs|gcs|az|abfss?|https?):/[^/]")
_BARE_PROTOCOL = re.compile(r"[a-z0-9+.]+:/+")


def location(path: PathLike) -> Path | RemoteFile:
    """A path on this machine, or a file at a URL."""
    text = os.fspath(path)
    if _BARE_PROTOCOL.fullmatch(text):
        raise BadOption(f"{text} is only the beginning of a URL; add the place and the name, such as s3://bucket/name")
    if is_url(text):
        return RemoteFile(text)
    if _BROKEN_URL.match(text):
        raise BadOption(f"{text} is a URL with one slash; pass it as a string, because pathlib.Path merges its slashes")
    if text.startswith(("file://", "local://")):
        return _local_path(text)
    return Path(path)


def _local_path(url: str) -> Path:
    """The path of a ``file://`` URL. Not that of urlsplit, which ends at ``#`` and ``?``, and leaves out the host."""
    protocol, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if host.lower() not in ("", "localhost") or not slash:
        raise BadOption(
            f"{url} names a file of the machine {host!r}; for a file of this one, write three slashes and "
            f"the whole path, such as {protocol}:///folder/name"
        )
    return Path(unquote(f"/{path}"))


def read_bytes(path: PathLike) -> bytes:
    """The content of a file."""
    return location(path).read_bytes()


def start_staging(path: PathLike) -> atomic_files.Staging | RemoteStaging:
    """A place for the new content of a file or folder, which replaces the old content in the end."""
    where = location(path)
    return RemoteStaging(where) if isinstance(where, RemoteFile) else atomic_files.start_staging(where)


@contextlib.contextmanager
def write_atomically(path: PathLike) -> Iterator[BinaryIO]:
    """Open a file for writing. It replaces an existing file when the block ends without an error."""
    where = location(path)
    if isinstance(where, Path):
        with atomic_files.write_atomically(where) as local:
            yield local
        return
    where.check_writable_protocol()
    where.check_not_folder()
    staging = RemoteStaging(where)
    try:
        with staging.file() as file:
            yield file
        staging.commit()
    except BaseException:
        staging.discard()
        raise


def check_writable(path: PathLike) -> None:
    """Raise if a path cannot be written. Called before long computations, so that they do not fail at the end."""
    where = location(path)
    if isinstance(where, RemoteFile):
        check_upload(where)
    else:
        atomic_files.check_writable(where)


def resolved(path: PathLike) -> Path | str:
    """What is equal for two names of the same file: the real path, or :attr:`RemoteFile.identity`."""
    where = location(path)
    return where.identity if isinstance(where, RemoteFile) else real_path(where)


def identity(path: PathLike) -> Any:
    """What is equal for all names of the same file, links included. It is that of :func:`resolved` if there is none."""
    where = location(path)
    try:
        found = None if isinstance(where, RemoteFile) else os.stat(where)  # noqa: PTH116  # see state
    except (OSError, ValueError):
        found = None
    return resolved(path) if found is None else (found.st_dev, found.st_ino)


def state(path: PathLike) -> Any:
    """What distinguishes a file or folder from another one with the same name; None if there is none."""
    where = location(path)
    if isinstance(where, RemoteFile):
        return where.state()
    try:
        found = os.stat(where)  # noqa: PTH116  # a name that is too long for a path is no error here
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns
