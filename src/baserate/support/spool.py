"""Temporary files for input that can only be read once, such as a pipe, or that is slow to parse."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from baserate.errors import BadFile

_OPEN_FILES = Path("/proc/self/fd")


class Spool:
    """A temporary file that is removed when it is no longer used. On Linux this holds even if the process is killed.

    It is in the folder for temporary files, which the environment variable ``TMPDIR`` sets.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="baserate-")  # noqa: SIM115  # stays open as long as the object
        weakref.finalize(self, self._file.close)
        self._path = _OPEN_FILES / str(self._file.fileno())
        if not self._path.exists():  # Systems other than Linux cannot open a file without a name a second time.
            folder = tempfile.mkdtemp(prefix="baserate-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._path = Path(folder) / "spool"
            self._path.touch()

    @contextlib.contextmanager
    def writing(self) -> Iterator[BinaryIO]:
        """Open the empty file for writing."""
        try:
            with self._path.open("r+b", buffering=1 << 20) as file:
                yield file
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise
            folder = tempfile.gettempdir()
            raise BadFile(
                f"there is not enough space for a temporary file in {folder}; set the environment variable TMPDIR to a "
                "folder with more space"
            ) from None

    def open(self) -> Any:
        """Open the file for reading. Each reader has its own position."""
        import pyarrow as pa

        return pa.OSFile(self.path)

    @property
    def path(self) -> str:
        """The path by which this process can open the file."""
        return os.fspath(self._path)
