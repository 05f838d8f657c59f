"""Files and folders that are written completely or not at all.

New content is written under a temporary name next to its final path, and renamed when it is complete. Until then, and
after an error, the old content is unchanged.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import secrets
import shutil
import stat
import sys
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from baserate.errors import BadFile

_MIN_AGE = 60  # Seconds. A younger temporary file may belong to a process that has not locked it yet.


@contextlib.contextmanager
def write_atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing. It replaces an existing file when the block ends without an error."""
    staging = start_staging(path)
    try:
        with staging.file() as file:
            yield file
        staging.commit()
    except BaseException:
        staging.discard()
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise if a path cannot be written. Called before long computations, so that they are not done in vain."""
    folder = _link_target(path).parent
    if not folder.is_dir():
        raise BadFile(f"{os.fspath(path)} cannot be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise BadFile(f"{os.fspath(path)} cannot be written: no permission to write in the folder {folder}")


def start_staging(path: str | os.PathLike[str]) -> Staging:
    """A temporary name next to ``path`` for its new content. Removes what killed processes left there."""
    path = _link_target(path)
    _remove_abandoned(path)
    return Staging(path, path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp"))


def _link_target(path: str | os.PathLike[str]) -> Path:
    """The target of a symbolic link, so that the link itself is not replaced; other paths are returned unchanged."""
    return Path(path).resolve() if Path(path).is_symlink() else Path(path)


class Staging:
    """A file or folder under a temporary name that will replace ``path`` or be removed.

    It is locked while the process that created it runs. If that process is killed, the lock ends, and the next process
    that writes to the same path removes the file.
    """

    def __init__(self, path: Path, temporary: Path) -> None:
        self.path, self._temporary = path, temporary
        self._lock: int | None = None
        self._finalizer = weakref.finalize(self, _remove, temporary)

    @contextlib.contextmanager
    def file(self) -> Iterator[BinaryIO]:
        """Create the temporary file and open it for writing."""
        with self.member(self._temporary) as file:
            self._lock_temporary()
            yield file

    def folder(self) -> Path:
        """Create the temporary folder. Its files are written with :meth:`member`."""
        self._temporary.mkdir()
        self._lock_temporary()
        return self._temporary

    @contextlib.contextmanager
    def member(self, path: Path) -> Iterator[BinaryIO]:
        """Open a new file for writing, and flush it to the disk at the end."""
        with path.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

    def commit(self) -> None:
        """Replace ``path`` in one step. The new file or folder keeps the permissions of the old one."""
        with contextlib.suppress(OSError):
            self._temporary.chmod(stat.S_IMODE(self.path.stat().st_mode))
        if self._temporary.is_dir():
            for folder in [*self._temporary.rglob("*/"), self._temporary]:
                _sync_folder(folder)
            try:
                self._temporary.rename(self.path)
            except OSError:  # The path exists. Not checked beforehand: it may have been created meanwhile.
                if not self.path.is_dir():
                    raise
                _exchange(self._temporary, self.path)
                _remove(self._temporary)
        else:
            self._temporary.replace(self.path)
        _sync_folder(self.path.parent)
        self.discard()

    def discard(self) -> None:
        """Remove the temporary file or folder, unless it was committed."""
        self._finalizer()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _lock_temporary(self) -> None:
        self._lock = os.open(self._temporary, os.O_RDONLY)
        _try_lock(self._lock)


def _remove_abandoned(path: Path) -> None:
    """Remove temporary files and folders for ``path`` whose process was killed."""
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.tmp"):
        with contextlib.suppress(OSError):
            descriptor = os.open(temporary, os.O_RDONLY)
            try:
                old = time.time() - os.fstat(descriptor).st_mtime > _MIN_AGE
                if old and _try_lock(descriptor):
                    _remove(temporary)
            finally:
                os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Lock a file or folder. False if another process has locked it, or if the system has no such locks."""
    try:
        import fcntl
    except ImportError:  # Windows. Abandoned files are not removed there.
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
    """Exchange two folders. Linux does so in one step; other systems need three."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None, use_errno=True)
        at_fdcwd, rename_exchange = -100, 2
        if hasattr(library, "renameat2"):
            names = os.fsencode(one.absolute()), os.fsencode(other.absolute())
            if library.renameat2(at_fdcwd, names[0], at_fdcwd, names[1], rename_exchange) == 0:
                return
    third = one.with_name(f"{one.name}.old")
    other.rename(third)
    one.rename(other)
    third.rename(one)


def _sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, on systems where a folder can be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
