"""Where adjusted tables go: a file, a folder or a pipe, complete or not at all.

What is written is *staged* under a temporary name beside its place, and moved there in one step when all is done. Until
then, and after any error, what was there before is untouched.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from baserate.errors import BadFile, BadOption
from baserate.inputs.columns import Columns
from baserate.inputs.validation import listed
from baserate.support.atomic_files import Staging, check_place, staging
from baserate.tables import formats
from baserate.tables.base import Format, Part, Rows, Writer
from baserate.tables.dialect import Dialect
from baserate.tables.sources import PIPE
from baserate.tables.spool import Spool

SUCCESS = "_SUCCESS"
"""The last file of a folder; without it, it is not complete. It lists the others."""

_SIGNED = "written by baserate"


class Destination:
    """A place for the adjusted twins of some parts."""

    def __init__(
        self, out: str | os.PathLike[str], parts: Sequence[Part], dialect: Dialect, pipe_format: str | None
    ) -> None:
        self.dialect = dialect
        if not isinstance(out, (str, os.PathLike)):
            raise BadOption(f"out must be a path, not {out!r}")
        self.path = Path(out)
        self.is_pipe = os.fspath(out) == PIPE
        single = formats.of_name(self.path.name)
        said_folder = os.fspath(out).endswith(("/", os.sep))
        self.is_folder = not self.is_pipe and (said_folder or self.path.is_dir() or single is None)
        self.format: Format | None = single
        if self.is_pipe:
            self.format = formats.called(pipe_format or _piped(parts[0]))
        elif pipe_format is not None:
            raise BadOption("a format is said for pipes; a file has that of its name")
        elif self.is_folder:
            self.format = None  # each file has that of its twin
            if self.path.suffix and not said_folder and not self.path.is_dir():
                raise BadOption(f"{self.path} does not end as a format does; for a folder, write {self.path}{os.sep}")
        self._check(parts)

    def _check(self, parts: Sequence[Part]) -> None:
        if self.is_pipe:
            return
        check_place(self.path)
        if self.path.exists() and (not self.path.is_dir() if self.is_folder else not self.path.is_file()):
            raise BadOption(f"{self.path} is there and is no table; choose a name with an ending, such as .parquet")
        here = self.path.resolve()
        for part in parts:
            read = Path(part.name).resolve()
            if read.exists() and (here in (read, *read.parents) or (here.is_file() and read.samefile(here))):
                raise BadOption(f"{self.path} is what is read; write to another place, so that the predictions stay")
        twice = [name for name, times in Counter(part.below for part in parts).items() if times > 1]
        if self.is_folder and twice:
            raise BadOption(f"two of the files would be {self.path / twice[0]}; write them to one file, or one by one")
        if self.is_folder and self.path.is_dir():
            strange = _not_ours(self.path)
            if strange is not None:
                raise BadOption(
                    f"the folder {self.path} is there, and baserate has not written all of it: {strange}; choose "
                    "another name, or remove it first"
                )

    @property
    def typed(self) -> bool:
        """Whether columns that are text in a CSV file need types."""
        return self.format is not None and self.format.name != "CSV"

    def check_columns(self, parts: Sequence[Part], schema: pa.Schema, columns: Columns) -> None:
        """Refuse columns that the format cannot hold, and files of which something would be lost."""
        part = parts[0]
        kind = self.format or part.format
        lost = [name for one in parts for name in one.only_here]
        if lost and (kind.name != part.format.name or (len(parts) > 1 and not self.is_folder)):
            raise BadOption(f"{self.path} would lose {listed(lost)}; write to a folder, or to {part.format.name}")
        reason = kind.refuses(schema, part, Rows(str(self.path), 0, columns, self.dialect))
        if reason is not None:
            raise BadOption(f"{self.path} cannot be {kind.name}: {reason}; choose another format, such as Parquet")

    def stage(self, parts: Sequence[Part], schemas: Sequence[pa.Schema], columns: Columns) -> Staged:
        """Begin to write, beside anything that is there."""
        if self.is_folder:
            return StagedFolder(self, parts, schemas, columns)
        return StagedFile(self, parts, schemas, columns)

    def writer(self, file: BinaryIO, name: str, part: Part, schema: pa.Schema, rows: tuple[int, Columns]) -> Writer:
        """A writer of one file."""
        return (self.format or part.format).writer(file, schema, part, Rows(name, *rows, self.dialect))


class Staged:
    """A table that is being written."""

    _writer: Writer | None = None

    def __init__(
        self, place: Destination, parts: Sequence[Part], schemas: Sequence[pa.Schema], columns: Columns
    ) -> None:
        self.place, self.parts, self.schemas, self.columns = place, parts, schemas, columns
        self._stack = contextlib.ExitStack()

    @contextlib.contextmanager
    def writing(self) -> Iterator[Staged]:
        """Write all; after an error nothing is left of it."""
        try:
            with self._stack:
                self._begin()
                try:
                    yield self
                    self._end()
                except BaseException:
                    if self._writer is not None:
                        self._writer.abandon()
                    raise
        except BaseException:
            self.discard()
            raise

    def _begin(self) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError

    def write(self, number: int, table: pa.Table) -> None:
        """Write rows of the part with this number; parts come in order."""
        raise NotImplementedError

    def commit(self) -> None:
        """Put what was written in its place."""
        raise NotImplementedError

    def discard(self) -> None:
        """Remove what was written."""
        raise NotImplementedError


class StagedFile(Staged):
    """All parts in one file, or one pipe."""

    _spool: Spool | None = None
    _staging: Staging | None = None

    def _begin(self) -> None:
        rows = sum(part.n_rows for part in self.parts), self.columns
        if self.place.is_pipe:
            # A pipe takes nothing back, so it gets only what is right for certain.
            self._spool = Spool()
            file = self._stack.enter_context(self._spool.writing())
        else:
            self._staging = staging(self.place.path)
            file = self._stack.enter_context(self._staging.file())
        name = "standard output" if self.place.is_pipe else str(self.place.path)
        self._writer = self.place.writer(file, name, self.parts[0], self.schemas[0], rows)

    def write(self, number: int, table: pa.Table) -> None:
        assert self._writer is not None
        self._writer.write(table.select(self.schemas[0].names))

    def _end(self) -> None:
        assert self._writer is not None
        self._writer.close()

    def commit(self) -> None:
        if self._staging is not None:
            self._staging.commit()
        elif self._spool is not None:
            if sys.stdout is None:
                raise BadFile("standard output is closed")
            with self._spool.open() as file:
                shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)
            sys.stdout.buffer.flush()

    def discard(self) -> None:
        if self._staging is not None:
            self._staging.discard()


class StagedFolder(Staged):
    """A folder in which each part has a twin."""

    _number = -1
    _current: contextlib.ExitStack

    def _begin(self) -> None:
        self._staging = staging(self.place.path)
        self._folder = self._staging.folder()
        self._number, self._writer, self._current = -1, None, contextlib.ExitStack()

    def write(self, number: int, table: pa.Table) -> None:
        if number != self._number:
            self._close()
            self._number = number
            self._open(self.parts[number], self.schemas[number])
        assert self._writer is not None
        self._writer.write(table)

    def _open(self, part: Part, schema: pa.Schema) -> None:
        path = self._folder / part.below
        path.parent.mkdir(parents=True, exist_ok=True)
        file = self._current.enter_context(self._staging.member(path))
        name = str(self.place.path / part.below)
        self._writer = self.place.writer(file, name, part, schema, (part.n_rows, self.columns))

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._current.close()
        self._writer = None

    def _end(self) -> None:
        self._close()
        lines = [_SIGNED, *(part.below for part in self.parts)]
        with self._staging.member(self._folder / SUCCESS) as file:
            file.write(("\n".join(lines) + "\n").encode())

    def commit(self) -> None:
        self._staging.commit()

    def discard(self) -> None:
        with contextlib.suppress(Exception):  # a writer that failed fails again when it is closed
            self._current.close()
        if hasattr(self, "_staging"):
            self._staging.discard()


def _not_ours(folder: Path) -> str | None:
    """What in a folder is not of an earlier adjustment, which may be replaced; None if all is."""
    inside = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    if not inside:
        return None
    signed = (folder / SUCCESS).read_bytes().decode(errors="replace").split("\n") if SUCCESS in inside else [""]
    if signed[0] != _SIGNED:
        return f"its {SUCCESS} is not of baserate" if SUCCESS in inside else f"it has no {SUCCESS}"
    return next(iter(sorted(inside - {SUCCESS, *signed[1:]})), None)


def _piped(part: Part) -> str:
    return "csv" if part.format.name == "CSV" else "arrow"
