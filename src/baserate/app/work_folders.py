"""Folders for what is written for an open file: one per answer or download, so that two tabs do not share files."""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import tempfile
from collections import deque
from collections.abc import Collection, Iterator
from pathlib import Path

from baserate.app.private_folder import link_or_copy

ANSWER, FILES = "answer", "files"
_KEPT = {ANSWER: 50, FILES: 3}  # Answers have small files with rates; the adjusted files may be large.


class WorkFolders:
    """The folders of one open file.

    Attributes
    ----------
    parent : Path
        The folder with the file, which contains the others.
    """

    def __init__(self, parent: Path) -> None:
        self.parent = parent
        self._kept: dict[str, deque[Path]] = {purpose: deque() for purpose in _KEPT}

    @contextlib.contextmanager
    def kept(self, purpose: str) -> Iterator[Path]:
        """A folder that is kept for links of the page, until there are many newer ones; not if the block raises."""
        folder = self.parent / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        kept = self._kept[purpose]
        kept.append(folder)
        while len(kept) > _KEPT[purpose]:
            shutil.rmtree(kept.popleft(), ignore_errors=True)

    @contextlib.contextmanager
    def temporary(self) -> Iterator[Path]:
        """A folder that is removed at the end of the block."""
        with tempfile.TemporaryDirectory(prefix=".", suffix=".part", dir=self.parent) as folder:
            yield Path(folder)

    def add_inputs(self, folder: Path, names: Collection[str]) -> None:
        """Make files of the user available in a folder in which commands run."""
        for name in names:
            link_or_copy(self.parent / name, folder / name)

    def remove_inputs(self, folder: Path, names: Collection[str]) -> None:
        """Remove these files again, which are copies where the system has no symbolic links."""
        for name in names:
            (folder / name).unlink()

    def written(self, folder: str, name: str) -> Path | None:
        """A file that was written to a folder that is kept; None if there is no such file."""
        if not re.fullmatch("[0-9a-f]+", folder):
            return None
        path = self.parent / folder
        known = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
        return path / name if name in known else None
