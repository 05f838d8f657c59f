"""Files and folders that are written completely or not at all.

New content is written under a temporary name next to its final path, and renamed when it is complete. Until then, and
after an error, the old content is unchanged. New content is never readable by more users than the content that it
replaces; if there is none, only by the current user until it is complete.
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

from baserate.errors import BadFile, MissingFile
from baserate.support.paths import check_path, real_path

_LONGEST_NAME = 200  # Bytes of a name in the name of its temporary file; most systems allow 255 bytes.
_MIN_AGE = 60  # Seconds. A younger temporary file may belong to a process that has not locked it yet.


@contextlib.contextmanager
def write_atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing. It replaces an existing file when the block ends without an error."""
    _check_file(path)
    staging = start_staging(path)
    try:
        with staging.file() as file:
            yield file
        staging.commit()
    except BaseException:
        staging.discard()
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise if a path cannot be written. Called before long computations, so that they do not fail at the end."""
    check_path(path)
    folder = _existing_folder(path)
    if not os.access(folder, os.W_OK):
        raise BadFile(f"{os.fspath(path)} cannot be written: no permission to write in the folder {folder}")


def _check_file(path: str | os.PathLike[str]) -> None:
    """Raise if a path is that of a folder, or in a folder that is not there."""
    check_path(path)
    if Path(path).is_dir():
        raise BadFile(f"{os.fspath(path)} cannot be written: it is a folder; pass the name of a file in it")
    _existing_folder(path)


def _existing_folder(path: str | os.PathLike[str]) -> Path:
    folder = _link_target(path).parent
    if not folder.is_dir():
        raise MissingFile(f"{os.fspath(path)} cannot be written: there is no folder {folder}")
    return folder


def start_staging(path: str | os.PathLike[str]) -> Staging:
    """A temporary name next to ``path`` for its new content. Removes what killed processes left there."""
    check_path(path)
    path = _link_target(path)
    _remove_abandoned(path)
    return Staging(path, path.with_name(f"{_temporary_prefix(path)}{secrets.token_hex(8)}.tmp"))


def _temporary_prefix(path: Path) -> str:
    return f".{os.fsencode(path.name)[:_LONGEST_NAME].decode(errors='ignore')}."


def _link_target(path: str | os.PathLike[str]) -> Path:
    """The target of a symbolic link, so that the link itself is not replaced; other paths are returned unchanged."""
    return real_path(path) if Path(path).is_symlink() else Path(path)


class Staging:
    """A file or folder under a temporary name that will replace ``path`` or be removed.

    It is locked while the process that created it runs. If that process is killed, the lock ends, and the next process
    that writes to the same path removes the file.
    """

    def __init__(self, path: Path, temporary: Path) -> None:
        self.path, self._temporary = path, temporary
        self._lock: int | None = None
        self._mode: int | None = None
        self._finalizer = weakref.finalize(self, _remove, temporary)

    @contextlib.contextmanager
    def file(self) -> Iterator[BinaryIO]:
        """Create the temporary file and open it for writing."""
        with self._naming_path():
            self._mode = _mode(self.path)
            if self._mode is None:
                # A file that is created and removed again shows the permissions that new files get. Not os.umask, which
                # can only be read by changing it for all threads, and does not hold for folders with default ACLs.
                os.close(_create(self._temporary, 0o666))
                self._mode = _mode(self._temporary)
                self._temporary.unlink()
                descriptor = _create(self._temporary, 0o600)
            else:
                descriptor = _create(self._temporary, self._mode)
        with os.fdopen(descriptor, "wb") as file:
            self._lock_temporary(os.dup(descriptor))
            yield file
            _sync_file(file)

    def folder(self) -> None:
        """Create the temporary folder. Its files are written with :meth:`member`."""
        with self._naming_path():
            self._temporary.mkdir()
            self._mode = _mode(self._temporary)
            self._temporary.rmdir()
            self._temporary.mkdir(mode=0o700)  # Until it is complete, nobody else can read the files in it.
            self._lock_temporary(os.open(self._temporary, os.O_RDONLY))

    @contextlib.contextmanager
    def member(self, relative_path: str) -> Iterator[BinaryIO]:
        """Open a new file in the temporary folder for writing, and flush it to the disk at the end."""
        path = self._temporary / relative_path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            _set_mode(path, _mode(self.path / relative_path))
            yield file
            _sync_file(file)

    def commit(self) -> None:
        """Replace ``path`` in one step. The new file or folder has the permissions of the old one."""
        if self._temporary.is_dir():
            # Folders inside other folders come first, so that they are accessible until their own turn.
            for folder in reversed(list(self._temporary.rglob("*/"))):
                _sync_folder(folder)
                _set_mode(folder, _mode(self.path / folder.relative_to(self._temporary)))
            _sync_folder(self._temporary)
        mode = _mode(self.path)
        _set_mode(self._temporary, self._mode if mode is None else mode)
        if self._temporary.is_dir():
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

    def _lock_temporary(self, descriptor: int) -> None:
        self._lock = descriptor
        _try_lock(descriptor)

    @contextlib.contextmanager
    def _naming_path(self) -> Iterator[None]:
        """Let errors name the path that the caller wrote, and not the temporary one."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None


def _mode(path: Path) -> int | None:
    """The permissions of a file or folder, or None if there is none."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def _set_mode(path: Path, mode: int | None) -> None:
    """Set the permissions of a file or folder, unless they are None or the system has none."""
    if mode is not None:
        with contextlib.suppress(OSError):
            path.chmod(mode)


def _create(path: Path, mode: int) -> int:
    """Create a file with at most these permissions, and open it for writing."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)


def _sync_file(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _remove_abandoned(path: Path) -> None:
    """Remove temporary files and folders for ``path`` whose process was killed."""
    for temporary in path.parent.glob(f"{glob.escape(_temporary_prefix(path))}{'[0-9a-f]' * 16}.tmp"):
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
