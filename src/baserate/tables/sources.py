"""From what a caller names to the files that are meant: a file, a folder, a glob, a dataset of pyarrow, a pipe."""

from __future__ import annotations

import glob
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import quote, unquote

import pyarrow as pa

from baserate.errors import BadFile, BadOption
from baserate.inputs.validation import listed
from baserate.tables import formats
from baserate.tables.base import Part, Source
from baserate.tables.dialect import Dialect
from baserate.tables.fragments import FragmentPart
from baserate.tables.parquet import ParquetPart
from baserate.tables.spool import Spool

PIPE = "-"
_NOTHING = "__HIVE_DEFAULT_PARTITION__"  # what Hive calls a partition for missing values


def find(where: Any, dialect: Dialect, member: str | None) -> list[Part]:
    """The parts that are meant, in order."""
    if type(where).__module__ == "pyarrow._dataset":
        parts = list(_of_dataset(where))
    elif where == PIPE:
        if sys.stdin is None:
            raise BadFile("standard input is closed; name a file, or pipe something in")
        piped = Source("standard input", "stdin", _spooled(sys.stdin.buffer).open, {})
        parts = [formats.part(piped, dialect, member)]
        parts[0].below = f"stdin{parts[0].format.suffixes[0]}"
    else:
        parts = [formats.part(source, dialect, member) for source in _named(where)]
    _check_alike(parts)
    return parts


def _named(where: Any) -> list[Source]:
    """The files that one name, or several, stand for."""
    if not isinstance(where, (list, tuple)):
        return _meant(where)
    if not where:
        raise BadOption("the list of files is empty")
    found = [source for one in where for source in _meant(one)]
    paths = [Path(source.name).absolute() for source in found]
    if len({source.below for source in found}) < len(found):  # files of one name in several folders
        root = Path(os.path.commonpath([path.parent for path in paths]))
        found = [s._replace(below=p.relative_to(root).as_posix()) for s, p in zip(found, paths, strict=True)]
    return found


def _meant(where: Any) -> list[Source]:
    text = os.fspath(where)
    if "://" in text:
        raise BadOption(f"{text} is not on this machine; pass pyarrow.dataset.dataset(...) on it, or fetch it first")
    path = Path(text)
    if path.is_dir():
        return [_source(file, path) for file in _in_folder(path)]
    if path.exists():
        return [_source(path, path.parent)]
    matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207  # a Path has no absolute patterns
    found = [Path(name) for name in matches if Path(name).is_file()]
    if not found:
        raise BadFile(f"no file matches {text}" if glob.has_magic(text) else f"there is no file {text}")
    fixed = PurePosixPath(text.split("*")[0].split("?")[0].split("[")[0] + "x").parent
    return [_source(file, Path(fixed)) for file in found]


def _in_folder(folder: Path) -> list[Path]:
    """Files of a folder and those below it, without those that are set aside by a dot or an underscore."""
    inside = sorted(path for path in folder.rglob("*") if path.is_file())
    files = [p for p in inside if not any(name.startswith((".", "_")) for name in p.relative_to(folder).parts)]
    if not files:
        raise BadFile(f"the folder {folder} holds no files")
    odd = [p for p in files if formats.of_name(p.name) is None]
    if odd:
        raise BadFile(
            f"the folder {folder} also holds {odd[0].relative_to(folder)}, which is no table; name the files by a "
            f"pattern, such as '{folder}/*.parquet'"
        )
    return files


def _source(path: Path, root: Path) -> Source:
    if not os.access(path, os.R_OK):
        raise BadFile(f"{path} cannot be read: permission denied")
    if not path.is_file():  # a pipe that has a name
        with path.open("rb") as pipe:
            return Source(str(path), path.name, _spooled(pipe).open, {})
    below = path.relative_to(root) if path.is_relative_to(root) else Path(path.name)
    opened = partial(pa.OSFile, str(path))
    return Source(str(path), below.as_posix(), opened, _partition(path.parent.parts), str(path))


def _partition(folders: Sequence[str]) -> dict[str, Any]:
    pairs = [folder.split("=", 1) for folder in folders if "=" in folder]
    return {unquote(name): None if value == _NOTHING else unquote(value) for name, value in pairs}


def _spooled(pipe: BinaryIO) -> Spool:
    """All that comes through a pipe."""
    spool = Spool()
    with spool.writing() as file:
        shutil.copyfileobj(pipe, file, 1 << 20)
    return spool


def _hive(value: Any) -> str:
    return _NOTHING if value is None else quote(str(value), safe="")


def _of_dataset(dataset: Any) -> Iterator[Part]:
    import pyarrow.dataset as ds  # which brings pandas, and takes as long to load as all the rest

    if not isinstance(dataset, ds.FileSystemDataset) or getattr(dataset, "_scan_options", None):
        yield FragmentPart(Source("the dataset", "part-0.parquet", _nothing, {}), dataset)  # filters and all
        return
    for number, fragment in enumerate(dataset.get_fragments()):
        partition = ds.get_partition_keys(fragment.partition_expression)
        folders = "/".join(f"{quote(name)}={_hive(value)}" for name, value in partition.items())
        below = PurePosixPath(folders) / f"{number:05d}-{PurePosixPath(fragment.path).name}"
        opened = partial(fragment.filesystem.open_input_file, fragment.path)
        source = Source(fragment.path, str(below), opened, partition)
        if isinstance(fragment, ds.ParquetFileFragment):
            yield ParquetPart(source, None if fragment.row_groups is None else [g.id for g in fragment.row_groups])
        else:
            yield FragmentPart(source, fragment, dataset.schema)


def _nothing() -> None:
    raise AssertionError("a dataset is not opened")


def _check_alike(parts: Sequence[Part]) -> None:
    """All files have the same columns, of the same types."""
    first = parts[0]
    types = {field.name: field.type for field in first.schema}
    for part in parts:
        names = part.schema.names
        repeated = next((name for name, times in Counter(names).items() if times > 1), None)
        if repeated is not None:
            raise BadFile(f"{part.name} has {names.count(repeated)} columns called {repeated!r}")
        if part.format.name != first.format.name:
            raise BadFile(f"{first.name} is {first.format.name}, but {part.name} is {part.format.name}")
        absent, extra = (
            [name for name in types if name not in set(names)],
            [name for name in names if name not in types],
        )
        if absent or extra:
            what = f"lacks {listed(absent)}" if absent else f"has {listed(extra)} besides"
            raise BadFile(f"the columns change between files: {part.name} {what}, compared with {first.name}")
        for field in part.schema:
            if field.type != types[field.name]:
                raise BadFile(
                    f"column {field.name!r} changes its type between files: it is {types[field.name]} in {first.name}, "
                    f"but {field.type} in {part.name}"
                )
