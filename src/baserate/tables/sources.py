"""Input files: a file, a folder, a glob pattern, a list of them, a pyarrow dataset, or standard input."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import unquote

import pyarrow as pa

from baserate.errors import BadFile, BadOption
from baserate.inputs.validation import quoted, quoted_name
from baserate.support.locations import location
from baserate.support.paths import check_path, real_path
from baserate.support.remote_files import RemoteFile, is_url
from baserate.support.spool import Spool
from baserate.support.uploads import INCOMPLETE
from baserate.tables import formats
from baserate.tables.base import Part, Source
from baserate.tables.datasets import MISSING, is_dataset, later_dataset_input, parts_of_dataset
from baserate.tables.dialect import Dialect
from baserate.tables.stream_part import StreamPart
from baserate.tables.streams import Stream

PIPE = "-"
_QUERY = re.compile(r"\s*(with\s.+\s)?select\s.+\sfrom\s", re.IGNORECASE | re.DOTALL)


def find_parts(where: Any, dialect: Dialect, array_name: str | None) -> list[Part]:
    """Open all input files, in order.

    Parameters
    ----------
    where : path, list of paths, pyarrow.dataset.Dataset, or Stream
    dialect : Dialect
    array_name : str or None
        See :meth:`baserate.tables.base.Format.open_part`.
    """
    if isinstance(where, Stream):
        parts: list[Part] = [StreamPart(where)]
    elif is_dataset(where):
        parts = list(parts_of_dataset(where))
    elif where == PIPE:
        if sys.stdin is None:
            raise BadFile("standard input is closed; pass a file instead of '-', or send the table through a pipe")
        source = Source("standard input", "stdin", _spooled(sys.stdin.buffer).open, {})
        parts = [formats.open_part(source, dialect, array_name)]
        parts[0].relative_path = f"stdin{parts[0].format.suffixes[0]}"
    else:
        parts = [formats.open_part(source, dialect, array_name) for source in _sources(where)]
    _check_same_columns(parts)
    return parts


def _sources(where: Any) -> list[Source]:
    """The files that a path or a list of paths refers to."""
    if not isinstance(where, (list, tuple)):
        return _sources_of_path(where)
    if not where:
        raise BadOption("the list of files is empty")
    found = [source for one in where for source in _sources_of_path(one)]
    if len({source.relative_path for source in found}) < len(found):  # files of the same name in several folders
        paths = [PurePosixPath(s.name) if is_url(s.name) else Path(s.name).absolute() for s in found]
        if any(is_url(source.name) for source in found) and not all(is_url(source.name) for source in found):
            return found  # those on this machine and others have no folder in common
        root = os.path.commonpath([path.parent for path in paths])
        found = [s._replace(relative_path=p.relative_to(root).as_posix()) for s, p in zip(found, paths, strict=True)]
    return found


def _sources_of_path(where: Any) -> list[Source]:
    path = location(where)
    if isinstance(path, RemoteFile):
        return list(_remote_sources(path))
    text = os.fspath(path)
    if _QUERY.match(text) and not glob.glob(text):  # noqa: PTH207  # Path.glob refuses absolute patterns
        raise BadOption(
            f"{quoted_name(text)} is a query, not a file; pass a relation of DuckDB, such as duckdb.sql(query), or, "
            "for another database, br.ArrowRows(function)"
        )
    check_path(text)
    if path.is_dir():
        return [_source(file, path) for file in _files_in(path)]
    if path.exists():
        return [_source(path, path.parent)]
    matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207  # Path.glob refuses absolute patterns
    found = _existing_files(Path(name) for name in matches)
    if not found:
        raise BadFile(f"no file matches {text}" if glob.has_magic(text) else f"there is no file {text}")
    return [_source(file, _without_wildcards(text)) for file in found]


def _remote_sources(where: RemoteFile) -> Iterator[Source]:
    """The files that a URL refers to: one file, those in a folder, or those that match a pattern."""
    if where.is_web:
        yield _remote_source(where, where.name or "download")
        return
    if glob.has_magic(where.url) and not where.exists():
        root = os.fspath(_without_wildcards(where.path))
        found = where.matches()
        if not found:
            raise BadFile(f"no file matches {where}")
        for url in found:
            file = RemoteFile(url)
            yield _remote_source(file, file.path.removeprefix(root).lstrip("/"))
    elif where.is_folder():
        for name in _files_in_remote_folder(where):
            yield _remote_source(where.joined(name), name)
    else:
        yield _remote_source(where, where.name)


def _files_in_remote_folder(folder: RemoteFile) -> list[str]:
    names = folder.files()
    if INCOMPLETE in names:
        raise BadFile(f"the folder {folder} is incomplete: its run was stopped while it replaced files; run it again")
    return _tables_in(str(folder), [PurePosixPath(name) for name in names if _is_visible(Path(name), Path())])


def _remote_source(file: RemoteFile, relative_path: str) -> Source:
    with file.open() as first:
        state = first.state
    folders = file.url.split("?")[0].split("/")[:-1]
    return Source(file.url, relative_path, partial(_open_remote, file, state), _partition(folders), is_remote=True)


def _open_remote(file: RemoteFile, state: Any) -> pa.PythonFile:
    return pa.PythonFile(file.open(state), mode="r")


def _without_wildcards(pattern: str) -> Path:
    """The folder in which a glob pattern begins to match names."""
    return Path(PurePosixPath(pattern.split("*")[0].split("?")[0].split("[")[0] + "x").parent)


def _existing_files(paths: Iterable[Path]) -> list[Path]:
    """Those of the paths that are files. Raises if a path is a link that cannot be followed."""
    found = []
    for path in paths:
        if path.is_symlink():
            check_path(path)
        if path.is_file():
            found.append(path)
    return found


def later_input(where: Any, paths: Sequence[Path]) -> str | None:
    """The first of some files that a later reading of ``where`` would include, with the reason, or None.

    Parameters
    ----------
    where : path, list of paths, or pyarrow.dataset.Dataset
        The input.
    paths : sequence of Path
        The files, which need not exist, by their real paths.
    """
    if isinstance(where, (list, tuple)):
        return next((found for one in where if (found := later_input(one, paths)) is not None), None)
    if is_dataset(where):
        return later_dataset_input(where, [os.fspath(path) for path in paths])
    if not isinstance(where, (str, os.PathLike)) or is_url(where):
        return None
    text = os.fspath(where)
    if Path(text).is_dir():
        folder = real_path(text)
        inside = next((path for path in paths if path.is_relative_to(folder) and _is_visible(path, folder)), None)
        return None if inside is None else f"{inside} is in the input folder {text}"
    if Path(text).exists() or not glob.has_magic(text):
        return None
    matching = _first_match(text, paths)
    return None if matching is None else f"{matching} matches the input pattern {text}"


def later_remote_input(where: Any, urls: Sequence[str]) -> str | None:
    """The same as :func:`later_input` for files at URLs."""
    if isinstance(where, (list, tuple)):
        return next((found for one in where if (found := later_remote_input(one, urls)) is not None), None)
    if is_dataset(where):
        return later_dataset_input(where, urls)
    if not isinstance(where, str) or not is_url(where):
        return None
    own = RemoteFile(where).identity
    if glob.has_magic(where):
        pattern = own.split("/")
        found = next((url for url in urls if _matches(pattern, RemoteFile(url).identity.split("/"))), None)
        return None if found is None else f"{found} matches the input pattern {where}"
    found = next((url for url in urls if RemoteFile(url).identity.startswith(f"{own}/")), None)
    return None if found is None else f"{found} is in the input folder {where}"


def _first_match(pattern: str, paths: Sequence[Path]) -> Path | None:
    """The first of some real paths that a glob pattern matches. They need not exist."""
    before, up, rest = pattern.rpartition("/../")
    if up and glob.has_magic(before):
        # A real path has no "..", so what comes before is replaced by the folders that it matches now.
        folders = glob.glob(f"{before}/..", recursive=True)  # noqa: PTH207  # Path.glob refuses absolute patterns
        found = (_first_match(f"{glob.escape(os.fspath(real_path(one)))}/{rest}", paths) for one in folders)
        return next((path for path in found if path is not None), None) if glob.has_magic(rest) else None
    start = _without_wildcards(pattern)
    folder, parts = real_path(start), PurePosixPath(pattern).parts[len(start.parts) :]
    below = (path for path in paths if path.is_relative_to(folder))
    return next((path for path in below if _matches(parts, path.relative_to(folder).parts)), None)


def _matches(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Whether the parts of a glob pattern match those of a path. The path need not exist, unlike for ``glob.glob``."""
    if not pattern or not names:
        return not names and all(part == "**" for part in pattern)
    first, name = pattern[0], names[0]
    if first == "**":
        return _matches(pattern[1:], names) or (not name.startswith(".") and _matches(pattern, names[1:]))
    hidden = name.startswith(".") and not first.startswith(".")
    return not hidden and fnmatch.fnmatch(name, first) and _matches(pattern[1:], names[1:])


def _is_visible(path: Path, folder: Path) -> bool:
    """Whether no name of a path below a folder begins with a dot or an underscore; other files are not read."""
    return not any(name.startswith((".", "_")) for name in path.relative_to(folder).parts)


def _files_in(folder: Path) -> list[Path]:
    """The files in a folder and its subfolders, without names that begin with a dot or an underscore."""
    paths = sorted(folder.rglob("*"))
    files = _existing_files([path for path in paths if _is_visible(path, folder)])
    return [folder / name for name in _tables_in(str(folder), [path.relative_to(folder) for path in files])]


def _tables_in(folder: str, names: Sequence[PurePath]) -> list[str]:
    """The names of files in a folder. Raises if there are none, or one that is not a table."""
    if not names:
        raise BadFile(f"the folder {folder} contains no files")
    unknown = next((name for name in names if formats.by_suffix(name.name) is None), None)
    if unknown is not None:
        raise BadFile(
            f"the folder {folder} also contains {unknown}, which is not a table; select the files by a pattern, such "
            f"as '{folder.rstrip('/')}/*.parquet'"
        )
    return [str(name) for name in names]


def _source(path: Path, root: Path) -> Source:
    if not os.access(path, os.R_OK):
        raise BadFile(f"{path} cannot be read: permission denied")
    if not path.is_file():  # a named pipe
        with path.open("rb") as pipe:
            return Source(str(path), path.name, _spooled(pipe).open, {})
    relative = path.relative_to(root) if path.is_relative_to(root) else Path(path.name)
    open_file = partial(pa.OSFile, str(path))
    return Source(str(path), relative.as_posix(), open_file, _partition(path.parent.parts), str(path))


def _partition(folders: Sequence[str]) -> dict[str, Any]:
    """The columns that are encoded in names of folders, such as ``country=DE``."""
    pairs = [folder.split("=", 1) for folder in folders if "=" in folder]
    return {unquote(name): None if value == MISSING else unquote(value) for name, value in pairs}


def _spooled(pipe: BinaryIO) -> Spool:
    """A temporary file with the whole content of a pipe."""
    spool = Spool()
    with spool.writing() as file:
        shutil.copyfileobj(pipe, file, 1 << 20)
    return spool


def _check_same_columns(parts: Sequence[Part]) -> None:
    """Raise unless all files have the same format, and the same columns with the same types."""
    first = parts[0]
    types = {field.name: field.type for field in first.schema}
    for part in parts:
        names = part.schema.names
        repeated = next((name for name, times in Counter(names).items() if times > 1), None)
        if repeated is not None:
            raise BadFile(
                f"{part.name} has {names.count(repeated)} columns named {quoted_name(repeated)}; rename all but one"
            )
        if part.format.name != first.format.name:
            raise BadFile(
                f"the files have different formats: {first.name} is {first.format.name}, but {part.name} is "
                f"{part.format.name}"
            )
        present = set(names)
        missing = [name for name in types if name not in present]
        extra = [name for name in names if name not in types]
        if missing or extra:
            problem = f"has no column {quoted(missing)}" if missing else f"has the additional columns {quoted(extra)}"
            raise BadFile(f"the files have different columns: compared with {first.name}, {part.name} {problem}")
        for field in part.schema:
            if field.type != types[field.name]:
                raise BadFile(
                    f"column {quoted_name(field.name)} has different types: it is {types[field.name]} in {first.name}, "
                    f"but {field.type} in {part.name}"
                )
