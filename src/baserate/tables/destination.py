"""Output of adjusted tables to a file, a folder or standard output, completely or not at all.

A table is first written under a temporary name next to its destination. When all rows are written, it replaces what was
there before in one step. Until then, and after an error, the destination is unchanged.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import pyarrow as pa

from baserate.errors import BadFile, BadOption
from baserate.inputs.columns import Columns
from baserate.inputs.validation import quoted
from baserate.support.atomic_files import Staging
from baserate.support.locations import check_writable, location, start_staging
from baserate.support.paths import check_path, places, real_path
from baserate.support.remote_files import RemoteFile, is_url
from baserate.support.spool import Spool
from baserate.support.uploads import INCOMPLETE, SIGNATURE, SUCCESS, RemoteStaging, written_files
from baserate.tables import formats
from baserate.tables.base import Format, OutputFile, Part, Writer
from baserate.tables.dialect import Dialect
from baserate.tables.sources import PIPE, later_input, later_remote_input


class Destination:
    """Where the adjusted tables are written.

    Parameters
    ----------
    out : str or path
        A path or a URL. A file if the name has the suffix of a format, ``"-"`` for standard output, else a folder.
    where : path, list of paths, or pyarrow.dataset.Dataset
        The input as the caller wrote it.
    parts : sequence of Part
        The files of the input.
    dialect : Dialect
    pipe_format : str or None
        Format for standard output. By default CSV for CSV input, else Arrow.
    """

    def __init__(
        self, out: str | os.PathLike[str], where: Any, parts: Sequence[Part], dialect: Dialect, pipe_format: str | None
    ) -> None:
        self.dialect = dialect
        if not isinstance(out, (str, os.PathLike)):
            raise BadOption(f"out must be a path, not {out!r}")
        self.where = location(out)
        if isinstance(self.where, RemoteFile):
            self.where.check_writable_protocol()
        else:
            check_path(self.where)
        self.path: Path | str = os.fspath(out) if isinstance(self.where, RemoteFile) else self.where
        self.is_pipe = os.fspath(out) == PIPE
        format_of_name = formats.by_suffix(self.where.name)
        ends_with_slash = os.fspath(out).endswith(("/", os.sep))
        is_there = self._is_existing_folder()
        self.is_folder = not self.is_pipe and (ends_with_slash or format_of_name is None or is_there)
        self.format: Format | None = format_of_name
        """None for a folder, whose files have the formats of the input files."""
        if self.is_pipe:
            self.format = formats.by_name(pipe_format or _default_pipe_format(parts[0]))
        elif pipe_format is not None:
            raise BadOption("a format can be chosen only for standard output; that of a file follows from its name")
        elif self.is_folder:
            self.format = None
            if PurePosixPath(self.where.name).suffix and not ends_with_slash and not is_there:
                raise BadOption(
                    f"{self.path} does not end with the suffix of a known format; for a folder, write "
                    f"{self.path}{'/' if isinstance(self.where, RemoteFile) else os.sep}"
                )
        if isinstance(self.where, RemoteFile):
            self._check_url(self.where, where, parts)
        elif not self.is_pipe:
            self._check_path(self.where, where, parts)

    def _is_existing_folder(self) -> bool:
        return self.where.is_folder() if isinstance(self.where, RemoteFile) else self.where.is_dir()

    def _check_url(self, url: RemoteFile, where: Any, parts: Sequence[Part]) -> None:
        check_writable(url.joined(SUCCESS).url if self.is_folder else url.url)
        output, read = url.url.rstrip("/"), [RemoteFile(name).identity for name in _files(parts) if is_url(name)]
        within = any(f"{one}/".startswith(f"{url.identity}/") for one in read)
        # A query may read a folder or a pattern, which is not looked up.
        if within or (later_remote_input(_files(parts), [output]) is not None and url.exists()):
            raise BadOption(f"{url} is also an input; write to another path, so that the input is kept")
        self._check_files_are_known(parts, url.exists)
        if self.is_folder:
            self._check_folder(parts, _foreign_remote_content(url))
        names = [f"{output}/{part.relative_path}" for part in parts] if self.is_folder else [output]
        self._check_later_input(later_remote_input(where, names))

    def _check_path(self, path: Path, where: Any, parts: Sequence[Part]) -> None:
        check_writable(path)
        if path.exists() and (not path.is_dir() if self.is_folder else not path.is_file()):
            raise BadOption(f"{path} exists and is not a table; choose a name with a suffix, such as .parquet")
        output = real_path(path)
        for read in map(Path, _files(parts)):
            inside = any(output in (place, *place.parents) for place in places(read))
            if read.exists() and (inside or (output.is_file() and read.samefile(output))):
                raise BadOption(f"{path} is also an input; write to another path, so that the input is kept")
        self._check_files_are_known(parts, path.exists)
        if self.is_folder:
            self._check_folder(parts, _foreign_content(path) if path.is_dir() else None)
        names = [part.relative_path for part in parts] if self.is_folder else [""]
        self._check_later_input(later_input(where, [place / name for place in places(path) for name in names]))

    def _check_files_are_known(self, parts: Sequence[Part], exists: Callable[[], bool]) -> None:
        unknown = next((part for part in parts if exists() and not part.files_are_known), None)
        if unknown is not None:
            raise BadOption(
                f"{self.path} exists, and {unknown.name} may read it, since its files are not all known; write to a "
                "new path, or remove it first"
            )

    def _check_later_input(self, problem: str | None) -> None:
        if problem is not None:
            raise BadOption(
                f"{problem}, so a later run on this input would also read the adjusted rows; write to a path that is "
                "not part of the input"
            )

    def _check_folder(self, parts: Sequence[Part], foreign: str | None) -> None:
        repeated = [path for path, times in Counter(part.relative_path for part in parts).items() if times > 1]
        if repeated:
            raise BadOption(
                f"two of the files would be written to {self.member_name(repeated[0])}; write all rows to one file, or "
                "adjust the files one by one"
            )
        if foreign is not None:
            raise BadOption(
                f"the folder {self.path} exists, and its content was not all written by baserate: {foreign}; choose "
                "another name, or remove it first"
            )

    def member_name(self, relative_path: str) -> str:
        """The name of a file in the folder."""
        where = self.where
        return str(where.joined(relative_path) if isinstance(where, RemoteFile) else where / relative_path)

    @property
    def typed(self) -> bool:
        """Whether text columns of CSV input need types."""
        return self.format is not None and self.format.name != "CSV"

    def check_columns(self, parts: Sequence[Part], schema: pa.Schema, columns: Columns) -> None:
        """Raise if the format cannot hold the columns, or if other contents of the input would be lost."""
        part = parts[0]
        output_format = self.format or part.format
        lost = [name for one in parts for name in one.format_specific]
        if lost and (output_format.name != part.format.name or (len(parts) > 1 and not self.is_folder)):
            raise BadOption(f"{self.path} would lose {quoted(lost)}; write to a folder, or to {part.format.name}")
        reason = output_format.unsupported_reason(schema, part, OutputFile(str(self.path), 0, columns, self.dialect))
        if reason is not None:
            raise BadOption(
                f"{self.path} cannot be written as {output_format.name}: {reason}; choose another format, such as "
                "Parquet"
            )

    def stage(self, parts: Sequence[Part], schemas: Sequence[pa.Schema], columns: Columns) -> Staged:
        """Prepare to write under a temporary name."""
        if self.is_folder:
            return StagedFolder(self, parts, schemas, columns)
        return StagedFile(self, parts, schemas, columns)

    def writer(self, file: BinaryIO, template: Part, schema: pa.Schema, output: OutputFile) -> Writer:
        """A writer for one file."""
        return (self.format or template.format).writer(file, schema, template, output)


class Staged(ABC):
    """A table that is being written under a temporary name."""

    _writer: Writer | None = None

    def __init__(
        self, destination: Destination, parts: Sequence[Part], schemas: Sequence[pa.Schema], columns: Columns
    ) -> None:
        self.destination, self.parts, self.schemas, self.columns = destination, parts, schemas, columns
        self._stack = contextlib.ExitStack()

    @contextlib.contextmanager
    def writing(self) -> Iterator[Staged]:
        """Open the output inside a ``with`` block. After an error, remove it."""
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

    @abstractmethod
    def _begin(self) -> None:
        """Create the temporary file or folder."""

    @abstractmethod
    def _end(self) -> None:
        """Complete the temporary file or folder."""

    @abstractmethod
    def write(self, number: int, table: pa.Table) -> None:
        """Write rows of the part with this number. The parts must come in order."""

    @abstractmethod
    def commit(self) -> None:
        """Move the output to its destination."""

    @abstractmethod
    def discard(self) -> None:
        """Remove the output."""


class StagedFile(Staged):
    """All parts in one file, or on standard output."""

    _spool: Spool | None = None
    _staging: Staging | RemoteStaging | None = None

    def _begin(self) -> None:
        to = self.destination
        if to.is_pipe:
            # Not directly to standard output: what was written there could not be taken back after an error.
            self._spool = Spool()
            file = self._stack.enter_context(self._spool.writing())
        else:
            self._staging = start_staging(to.path)
            file = self._stack.enter_context(self._staging.file())
        name = "standard output" if to.is_pipe else str(to.path)
        output = OutputFile(name, sum(part.n_rows for part in self.parts), self.columns, to.dialect)
        self._writer = to.writer(file, self.parts[0], self.schemas[0], output)

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
    """A folder with one file per part."""

    _staging: Staging | RemoteStaging | None = None

    def _begin(self) -> None:
        self._staging = start_staging(self.destination.path)
        self._staging.folder()
        self._number, self._writer, self._open_file = -1, None, contextlib.ExitStack()

    def write(self, number: int, table: pa.Table) -> None:
        if number != self._number:
            self._close_file()
            self._number = number
            self._start_file(self.parts[number], self.schemas[number])
        assert self._writer is not None
        self._writer.write(table)

    def _start_file(self, part: Part, schema: pa.Schema) -> None:
        assert self._staging is not None
        file = self._open_file.enter_context(self._staging.member(part.relative_path))
        name = self.destination.member_name(part.relative_path)
        output = OutputFile(name, part.n_rows, self.columns, self.destination.dialect)
        self._writer = self.destination.writer(file, part, schema, output)

    def _close_file(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._open_file.close()
        self._writer = None

    def _end(self) -> None:
        assert self._staging is not None
        self._close_file()
        lines = [SIGNATURE, *(part.relative_path for part in self.parts)]
        with self._staging.member(SUCCESS) as file:
            file.write(("\n".join(lines) + "\n").encode())

    def commit(self) -> None:
        assert self._staging is not None
        self._staging.commit()

    def discard(self) -> None:
        if self._staging is None:
            return
        with contextlib.suppress(Exception):  # Closing may fail for the same reason as writing.
            self._open_file.close()
        self._staging.discard()


def _files(parts: Sequence[Part]) -> list[str]:
    """The paths and URLs of all files that are read."""
    return [name for part in parts for name in part.files]


def _foreign_content(folder: Path) -> str | None:
    """Why a folder cannot be replaced: content that was not written by baserate. None if there is none."""
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    if not files:
        return None
    if SUCCESS not in files:
        return f"it has no file {SUCCESS}"
    signature, *written = (folder / SUCCESS).read_bytes().decode(errors="replace").split("\n")
    if signature != SIGNATURE:
        return f"another program wrote its file {SUCCESS}"
    return next(iter(sorted(files - {SUCCESS, *written})), None)


def _foreign_remote_content(folder: RemoteFile) -> str | None:
    """The same for a folder at a URL, which a run that was stopped may have left incomplete."""
    files = set(folder.files())
    known = {SUCCESS, INCOMPLETE}
    if files and not files & known:
        return f"it has no file {SUCCESS}"
    return next(iter(sorted(files - known - set(written_files(folder)))), None)


def _default_pipe_format(part: Part) -> str:
    return "csv" if part.format.name == "CSV" else "arrow"
