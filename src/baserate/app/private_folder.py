"""A folder for uploads and results that only the user can read, and that is removed at the end, whatever happens."""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

# Runs in its own process. Its standard input ends when the server ends, even if that was killed. Then it ends the
# commands that the server has started, whose numbers it was sent, and removes the folder.
_CLEAN_UP = """
import os, shutil, signal, sys, time
running = set()
for line in sys.stdin:
    change, number = line[0], int(line[1:])
    running.add(number) if change == "+" else running.discard(number)
for number in running:
    try:
        os.kill(number, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    except OSError:
        pass
for _ in range(50):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not os.path.exists(sys.argv[1]):
        break
    time.sleep(0.1)
"""


class PrivateFolder:
    """A folder with one subfolder per open file.

    Attributes
    ----------
    path : Path
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="baserate-app-"))  # readable for the current user only
        self._cleaner = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CLEAN_UP, str(self.path)],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that Ctrl-C in the terminal does not end it first
        )

    def new_subfolder(self) -> Path:
        """Create an empty folder with a name that cannot be guessed."""
        path = self.path / secrets.token_hex(8)
        path.mkdir(mode=0o700)
        return path

    def without_paths(self, text: str) -> str:
        """A message or page with names of files instead of their paths in this folder."""
        return re.sub(rf"{re.escape(str(self.path))}/[0-9a-f]+/(\.\w+\.part/|[0-9a-f]{{16}}/)?", "", text)

    @contextlib.contextmanager
    def tracking(self, process: subprocess.Popen[str]) -> Iterator[None]:
        """While the block runs, end a process if the server ends."""
        self._send(f"+{process.pid}")
        try:
            yield
        finally:
            self._send(f"-{process.pid}")

    def remove(self) -> None:
        """Remove the folder and everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._cleaner.stdin is not None:
            with contextlib.suppress(OSError):
                self._cleaner.stdin.close()
        self._cleaner.wait(timeout=10)

    def _send(self, line: str) -> None:
        if self._cleaner.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._cleaner.stdin.write(f"{line}\n")
                self._cleaner.stdin.flush()


def free_bytes(path: Path) -> int:
    """Free space on the disk of a folder."""
    return shutil.disk_usage(path).free


class FileState(NamedTuple):
    """What distinguishes a file from another one that was written to its place."""

    modified: int
    size: int
    number: int

    @classmethod
    def of(cls, path: Path) -> Self | None:
        """The state of a file, or of the one that a link leads to; None if there is none."""
        try:
            found = path.stat()
        except OSError:
            return None
        return cls(found.st_mtime_ns, found.st_size, found.st_ino)


def write_text(path: Path, text: str) -> None:
    """Write a file completely or not at all. What was there is replaced, not written to: it may be a link."""
    unfinished = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def link_or_copy(source: Path, target: Path) -> None:
    """Make a file available under another path, without copying it where the system has symbolic links."""
    try:
        target.symlink_to(source.resolve())
    except OSError:
        shutil.copyfile(source, target)
