"""The files that queries of DuckDB and polars read, found in the text or the plan of the query."""

from __future__ import annotations

import glob
import json
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from baserate.support.remote_files import is_url

_TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?P<text>(?:[^']|'')*)'|"(?P<name>(?:[^"]|"")*)"|(?P<tag>\$\w*\$)(?P<dollar>.*?)(?P=tag)""",
    re.DOTALL,
)
_CALL = re.compile(r"\b(?:read_\w+|\w+_scan|sniff_csv|st_read)\s*\(", re.IGNORECASE)
_FIXED_CALL = re.compile(_CALL.pattern + r"\s*(?:''|\[\s*''(?:\s*,\s*'')*\s*\])\s*[,)]", re.IGNORECASE)
_FILE_SCAN = re.compile(r"\b(?:READ_[A-Z_]+|(?:PARQUET|DELTA|ICEBERG)_SCAN)\b")  # in a plan of DuckDB
_LOCAL = re.compile(r"file:(?://localhost(?=/)|//(?=/))?|local://")

_SCAN = re.compile(r" SCAN \[(.*)\]")  # in a plan of polars
_MORE = re.compile(r", \.\.\. \d+ other sources$")
_NO_FILE = re.compile(r"\d+ in-mem bytes|")
_UNKNOWN = re.compile(r"PYTHON SCAN|SCAN \[open-file")
_SOURCES = re.compile(r'"sources":\s*\{"(\w+)":\s*')


@dataclass(frozen=True)
class QueryFiles:
    """What a query reads.

    Attributes
    ----------
    names : list of str
        Paths, glob patterns, folders and URLs.
    complete : bool
        Whether the query reads no other files.
    """

    names: list[str]
    complete: bool

    def existing(self) -> list[str]:
        """The files that are there now, and all URLs."""
        return list(dict.fromkeys(file for name in self.names for file in _matches(name)))


def _matches(name: str) -> Iterator[str]:
    if is_url(name):
        yield name
        return
    if not name or "\0" in name:
        return
    for one in {name, *glob.glob(name, recursive=True)}:  # noqa: PTH207  # Path.glob refuses absolute patterns
        path = Path(one)
        yield from (str(file) for file in path.rglob("*")) if path.is_dir() else (one,)


def _local(names: Iterable[str]) -> Iterator[str]:
    """Names without ``file://`` and ``~``."""
    for name in names:
        if is_url(name) or "\0" in name:
            yield name
            continue
        path = _LOCAL.sub("", name, count=1) if _LOCAL.match(name) else name
        yield from {path, unquote(path)} if path != name else (path,)
        if path.startswith("~/"):
            yield str(Path.home() / path[2:])


def files_of_relation(relation: Any) -> QueryFiles:
    """The files that the text of a DuckDB relation names. Parameters, expressions and views do not name them."""
    query = relation.sql_query()
    names: list[str] = []

    def replace(token: re.Match[str]) -> str:
        text, name, dollar = token["text"], token["name"], token["dollar"]
        names.extend(one for one in (text and text.replace("''", "'"), name and name.replace('""', '"'), dollar) if one)
        return " " if text is None and name is None and dollar is None else '""' if name is not None else "''"

    plain = _TOKEN.sub(replace, query)
    calls = len(_CALL.findall(plain))
    # Most texts of a query are no files, so they count only if files are there. Only functions read folders.
    found = [name for name in _local(names) if is_url(name) or _are_files(name, folders=calls > 0)]
    complete = len(_FIXED_CALL.findall(plain)) == calls and (bool(found) or not _scans_files(relation))
    return QueryFiles(found, complete)


def _are_files(name: str, *, folders: bool) -> bool:
    if not name or "\0" in name:
        return False
    found = [one for one in [name, *glob.glob(name, recursive=True)] if _exists(one)]  # noqa: PTH207  # see above
    return any(folders or not Path(one).is_dir() for one in found)


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:  # a text that is too long for a path
        return False


def _scans_files(relation: Any) -> bool:
    try:
        return _FILE_SCAN.search(relation.explain()) is not None
    except Exception:  # of DuckDB; reading the rows fails too
        return False


def files_of_lazy_frame(frame: Any) -> QueryFiles:
    """The files in the plan of a LazyFrame. Those of scans that call Python are not known."""
    try:
        plan = frame.explain(optimized=False)
    except Exception:  # of polars, which looks up the files at URLs
        plan = None
    scans = [] if plan is None else _SCAN.findall(plan)
    if plan is not None and not scans:
        return QueryFiles([], True)
    # A plan shows the first file of a scan, and separates files by commas, which their names may contain.
    shown = [_MORE.sub("", scan) for scan in scans]
    names = [name for scan in shown for name in [scan, *scan.split(", ")] if not _NO_FILE.fullmatch(name)]
    complete = plan is not None and shown == scans and not _UNKNOWN.search(plan)
    if complete and ("DF [" in plan or "PYTHON" in plan):
        return QueryFiles(list(_local(names)), True)  # without writing the rows of dataframes, which may be many
    named = _serialized_names(frame)
    if named is None:
        return QueryFiles(list(_local(names)), complete)
    known = named.complete and (plan is None or not _UNKNOWN.search(plan))
    return QueryFiles(list(_local([*named.names, *names])), known)


def _serialized_names(frame: Any) -> QueryFiles | None:
    """The files in the JSON of a LazyFrame, with patterns and folders as they were given; None if it has no JSON."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some versions of polars warn that other versions cannot read the JSON
            text = frame.serialize(format="json")
    except Exception:  # of polars, such as for open files and functions that cannot be pickled
        return None
    names: list[str] = []
    kinds = set()
    for match in _SOURCES.finditer(text):  # not json.loads, which would read the rows of dataframes
        kinds.add(match[1])
        if match[1] == "Paths":
            names.extend(_texts(json.JSONDecoder().raw_decode(text, match.end())[0]))
    is_complete = kinds <= {"Paths", "Buffers"} and '"PythonScan":' not in text and '"PythonDataset":' not in text
    return QueryFiles(names, is_complete and bool(kinds))


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value that was read from JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
