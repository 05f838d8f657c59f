"""Datasets of pyarrow as input: their files, and the folder that they were probably found in."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from baserate.support.locations import resolved
from baserate.tables.base import Part, Source
from baserate.tables.fragments import FragmentPart
from baserate.tables.parquet import ParquetPart

MISSING = "__HIVE_DEFAULT_PARTITION__"
"""The name that Hive gives to the partition of missing values."""

_PROTOCOLS = {"s3": "s3", "gcs": "gs", "abfs": "az", "hdfs": "hdfs"}  # by the names of file systems of pyarrow


def is_dataset(where: Any) -> bool:
    """Whether this is a dataset of pyarrow. Does not import ``pyarrow.dataset``."""
    return type(where).__module__ == "pyarrow._dataset"


def parts_of_dataset(dataset: Any) -> Iterator[Part]:
    """The files of a dataset, or all of it if it is in memory or has filters."""
    # Imported here because it imports pandas, which takes longer than all other imports together.
    import pyarrow.dataset as ds

    if not isinstance(dataset, ds.FileSystemDataset) or getattr(dataset, "_scan_options", None):
        yield FragmentPart(Source("the dataset", "part-0.parquet", _not_a_file, {}), dataset, files=_files(dataset))
        return
    for number, fragment in enumerate(dataset.get_fragments()):
        partition = ds.get_partition_keys(fragment.partition_expression)
        folders = "/".join(_partition_folder(name, value) for name, value in partition.items())
        relative_path = PurePosixPath(folders) / f"{number:05d}-{PurePosixPath(fragment.path).name}"
        open_file = partial(fragment.filesystem.open_input_file, fragment.path)
        source = Source(_path_or_url(fragment.filesystem, fragment.path), str(relative_path), open_file, partition)
        if isinstance(fragment, ds.ParquetFileFragment):
            yield ParquetPart(source, None if fragment.row_groups is None else [g.id for g in fragment.row_groups])
        else:
            yield FragmentPart(source, fragment, dataset.schema)


def _files(dataset: Any) -> list[str]:
    """The paths and URLs of the files of a dataset, or of the datasets that it consists of; none for one in memory."""
    if hasattr(dataset, "files"):
        return [_path_or_url(dataset.filesystem, name) for name in dataset.files]
    return [name for child in getattr(dataset, "children", ()) for name in _files(child)]


def later_dataset_input(dataset: Any, outputs: Sequence[str]) -> str | None:
    """The first of some output files that a dataset of the same folder would include, with the reason, or None.

    A dataset does not say whether it was made from a folder or from a list of files. It is taken for one of a folder if
    it has all files of the folder.
    """
    if not getattr(dataset, "files", None):
        return None
    system = dataset.filesystem
    # Local paths may be relative, or begin with "./".
    files = [Path(name).absolute().as_posix() if system.type_name == "local" else name for name in dataset.files]
    for folder in _common_folders(files):
        root = str(resolved(_path_or_url(system, folder))).rstrip("/")
        inside = next((name for name in outputs if str(resolved(name)).startswith(f"{root}/")), None)
        if inside is not None and set(_files_below(system, folder)) <= set(files):
            return f"{inside} is in the folder {folder}, all files of which are in the dataset"
    return None


def _common_folders(files: Sequence[str]) -> Iterator[str]:
    """The folder that contains all files and, if it is that of a partition, those above it."""
    folder = posixpath.commonpath([posixpath.dirname(name) for name in files])
    yield folder
    while "=" in posixpath.basename(folder):
        folder = posixpath.dirname(folder)
        yield folder


def _files_below(system: Any, folder: str) -> list[str]:
    """The files in a folder and its subfolders that a dataset of the folder would have."""
    from pyarrow.fs import FileSelector, FileType

    found = system.get_file_info(FileSelector(folder, recursive=True))
    names = [one.path for one in found if one.type == FileType.File]
    return [name for name in names if not any(part.startswith((".", "_")) for part in name[len(folder) :].split("/"))]


def _path_or_url(system: Any, path: str) -> str:
    """The path of a file on this machine, or the URL of a file elsewhere."""
    from pyarrow import fs

    if isinstance(system, fs.SubTreeFileSystem):
        return _path_or_url(system.base_fs, posixpath.join(system.base_path, path))
    if isinstance(system, fs.PyFileSystem) and isinstance(system.handler, fs.FSSpecHandler):
        url = str(system.handler.fs.unstrip_protocol(path))
        return path if url.startswith(("file://", "local://")) else url
    protocol = _PROTOCOLS.get(system.type_name)
    return path if protocol is None else f"{protocol}://{path}"


def _partition_folder(name: str, value: Any) -> str:
    """The name of the folder that encodes the value of a partition column."""
    return f"{quote(name)}={MISSING if value is None else quote(str(value), safe='')}"


def _not_a_file() -> None:
    raise AssertionError("a dataset is not opened as a file")
