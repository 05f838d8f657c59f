"""Temporary files for what can only be read once, or is slow to read."""

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

_FOLDER = Path("/proc/self/fd")


class Spool:
    """A file in the folder for temporary files (``TMPDIR``); it is gone when nobody uses it, however that ends."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="baserate-")  # noqa: SIM115  # open as long as it is used
        weakref.finalize(self, self._file.close)
        self._path = _FOLDER / str(self._file.fileno())
        if not self._path.exists():  # a system where a file without a name cannot be opened again
            folder = tempfile.mkdtemp(prefix="baserate-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._path = Path(folder) / "spool"
            self._path.touch()

    @contextlib.contextmanager
    def writing(self) -> Iterator[BinaryIO]:
        """The empty file, to be filled once."""
        try:
            with self._path.open("r+b", buffering=1 << 20) as file:
                yield file
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise
            folder = tempfile.gettempdir()
            raise BadFile(f"no space for a temporary file in {folder}; set TMPDIR to a folder with more") from None

    def open(self) -> Any:
        """A reader of its own position."""
        import pyarrow as pa

        return pa.OSFile(os.fspath(self._path))
