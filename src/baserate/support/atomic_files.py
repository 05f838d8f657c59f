"""Files and folders written whole or not at all; saved adjustments are versioned JSON with a checksum."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import secrets
import shutil
import stat
import sys
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from baserate.errors import BadFile

FORMAT = "baserate.adjustment"
VERSION = 2

_YOUNG = 60  # Seconds in which a file may have been made but not yet locked.


def write_json(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write fields under a format name, a version and a checksum; an old file stays until the new one is complete."""
    document = {"format": FORMAT, "version": VERSION, "checksum": _checksum(fields), **fields}
    with whole(path) as file:
        file.write((json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode())


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write that appears under its name when it is complete; until then an old one stays as it is."""
    stage = staging(path)
    try:
        with stage.file() as file:
            yield file
        stage.commit()
    except BaseException:
        stage.discard()
        raise


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse a path that cannot be written, so that it is known before the work and not after it."""
    place = _real(path).parent
    if not place.is_dir():
        raise BadFile(f"there is no folder {place} to write {Path(path).name} in")
    if not os.access(place, os.W_OK):
        raise BadFile(f"{os.fspath(path)} cannot be written: no permission to write in the folder {place}")


def staging(path: str | os.PathLike[str]) -> Staging:
    """A place beside a path where its new content is made."""
    path = _real(path)
    _sweep(path)
    return Staging(path, path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp"))


def _real(path: str | os.PathLike[str]) -> Path:
    """What a link stands for is written, not the link."""
    return Path(path).resolve() if Path(path).is_symlink() else Path(path)


class Staging:
    """A file or folder under a temporary name, to be put in its place or removed.

    It is locked while its maker lives. What a killed process left behind is not locked, and the next one that writes to
    the same path removes it.
    """

    def __init__(self, path: Path, temporary: Path) -> None:
        self.path, self._temporary = path, temporary
        self._lock: int | None = None
        self._finalizer = weakref.finalize(self, _remove, temporary)

    @contextlib.contextmanager
    def file(self) -> Iterator[BinaryIO]:
        """The file, to be written."""
        with self.member(self._temporary) as file:
            self._hold()
            yield file

    def folder(self) -> Path:
        """The folder, to be filled with :meth:`member`."""
        self._temporary.mkdir()
        self._hold()
        return self._temporary

    @contextlib.contextmanager
    def member(self, path: Path) -> Iterator[BinaryIO]:
        """A new file that is on the disk for certain when it is closed."""
        with path.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

    def commit(self) -> None:
        """Put it in its place; what was there before goes in the same moment, and leaves its permissions."""
        with contextlib.suppress(OSError):
            self._temporary.chmod(stat.S_IMODE(self.path.stat().st_mode))
        if self._temporary.is_dir():
            for inside in [*self._temporary.rglob("*/"), self._temporary]:
                _sync_folder(inside)
            try:
                self._temporary.rename(self.path)
            except OSError:  # something is there, perhaps since a moment ago
                if not self.path.is_dir():
                    raise
                _exchange(self._temporary, self.path)
                _remove(self._temporary)
        else:
            self._temporary.replace(self.path)
        _sync_folder(self.path.parent)
        self.discard()

    def discard(self) -> None:
        """Remove what is not in its place."""
        self._finalizer()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _hold(self) -> None:
        self._lock = os.open(self._temporary, os.O_RDONLY)
        _locked(self._lock)


def _sweep(path: Path) -> None:
    """Remove what killed processes left beside a path."""
    for left in path.parent.glob(f".{_literally(path.name)}.{'[0-9a-f]' * 16}.tmp"):
        with contextlib.suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY)
            try:
                old = time.time() - os.fstat(descriptor).st_mtime > _YOUNG
                if old and _locked(descriptor):
                    _remove(left)
            finally:
                os.close(descriptor)


def _literally(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _locked(descriptor: int) -> bool:
    """Lock a file or folder for this process; False if another one has it, or that cannot be known."""
    try:
        import fcntl
    except ImportError:  # Windows, where nothing is swept
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders, in one step where the system can."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None, use_errno=True)
        here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
        if hasattr(library, "renameat2"):
            names = os.fsencode(one.absolute()), os.fsencode(other.absolute())
            if library.renameat2(here, names[0], here, names[1], exchange) == 0:
                return
    aside = one.with_name(f"{one.name}.old")
    other.rename(aside)
    one.rename(other)
    aside.rename(one)


def _sync_folder(folder: Path) -> None:
    """See to it that new names are on the disk, where a folder can be opened for that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields that :func:`write_json` wrote."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path} is not a JSON file: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadFile(f"{path} is not a saved adjustment: its 'format' is not {FORMAT!r}")
    if document.get("version") != VERSION:
        raise BadFile(f"{path} has version {document.get('version')!r}, but this baserate reads version {VERSION}")
    fields = {name: value for name, value in document.items() if name not in ("format", "version", "checksum")}
    if document.get("checksum") != _checksum(fields):
        raise BadFile(f"{path} was changed after it was saved: its checksum does not fit; save the adjustment again")
    return fields


def _checksum(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number")
