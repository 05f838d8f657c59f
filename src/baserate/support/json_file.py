"""JSON files of this package: fields with a format name, a version and a checksum."""

from __future__ import annotations

import hashlib
import json
import math
import os
import reprlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from baserate.errors import BadFile, MissingFile, Option
from baserate.support.locations import location, write_atomically
from baserate.support.paths import check_path


class JsonFormat(NamedTuple):
    """A kind of files.

    Attributes
    ----------
    name : str
        Written to the field "format".
    version : int
    what : str
        What a file contains, for messages.
    writer : Option
        What writes such a file, for messages.
    """

    name: str
    version: int
    what: str
    writer: Option


ADJUSTMENT = JsonFormat("baserate.adjustment", 2, "adjustment", Option("Adjustment.save"))
RATES = JsonFormat("baserate.rates", 1, "set of class rates", Option("Rates.save"))
FORMATS = {of.name: of for of in (ADJUSTMENT, RATES)}


def write_json(path: str | os.PathLike[str], fields: Mapping[str, Any], of: JsonFormat = ADJUSTMENT) -> None:
    """Write fields to a JSON file, together with a format name, a version and a checksum."""
    content = json_document(fields, of)
    with write_atomically(path) as file:
        file.write(content)


def json_document(fields: Mapping[str, Any], of: JsonFormat) -> bytes:
    """The content of the file that :func:`write_json` writes."""
    document = {"format": of.name, "version": of.version, "checksum": _checksum(fields), **fields}
    # One line per number is easy to read, but for thousands of groups it takes seconds. Then each field is one line.
    lines = (f" {json.dumps(name)}: {_dumps(value, None)}" for name, value in document.items())
    text = "{\n" + ",\n".join(lines) + "\n}\n" if "groups" in fields else _dumps(document, 1) + "\n"
    # UTF-8 cannot encode half of a surrogate pair, which a class name may contain. JSON's escape for it is the one
    # that "backslashreplace" writes. Not ensure_ascii=True: it would also escape all other names.
    return text.encode(errors="backslashreplace")


def read_json(path: str | os.PathLike[str], of: JsonFormat = ADJUSTMENT) -> dict[str, Any]:
    """Read the fields that :func:`write_json` wrote."""
    where = location(path)
    if isinstance(where, Path):
        check_path(where)
        if where.exists() and not where.is_file():  # A folder cannot be read, a pipe may never end.
            raise BadFile(
                f"{path} is not a regular file; pass the path of a file that {of.writer} wrote", options=[of.writer]
            )
    try:
        return _fields(where.read_bytes(), path, of)
    except MissingFile:
        raise
    except FileNotFoundError:
        raise MissingFile(
            f"there is no file {path}; pass the path of a file that {of.writer} wrote", options=[of.writer]
        ) from None
    except RecursionError:
        raise BadFile(f"{path} is not a saved {of.what}: its values are nested too deeply") from None


def _fields(data: bytes, path: str | os.PathLike[str], of: JsonFormat) -> dict[str, Any]:
    try:
        document = json.loads(
            data.decode(),
            parse_float=_finite_number,
            parse_constant=_refuse_constant,
            object_pairs_hook=_unique_names,
        )
    except ValueError as error:
        raise BadFile(f"{path} is not a JSON file: {error}") from None
    found = document.get("format") if isinstance(document, dict) else None
    if found != of.name:
        other = FORMATS.get(found) if isinstance(found, str) else None
        is_other = f"its field 'format' is not {of.name!r}"
        if other is not None:
            is_other = f"it is a saved {other.what}, which {other.writer} wrote; pass a file that {of.writer} wrote"
        raise BadFile(
            f"{path} is not a saved {of.what}: {is_other}", options=[] if other is None else [of.writer, other.writer]
        )
    if document.get("version") != of.version:
        raise BadFile(
            f"{path} has format version {reprlib.repr(document.get('version'))}, but this version of baserate reads "
            f"only format version {of.version}"
        )
    fields = {name: value for name, value in document.items() if name not in ("format", "version", "checksum")}
    if document.get("checksum") != _checksum(fields):
        raise BadFile(f"{path} was changed after it was saved: its checksum does not match; save the {of.what} again")
    return fields


def _dumps(value: Any, indent: int | None) -> str:
    return json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=False)


def _checksum(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse_constant(word: str) -> None:
    """Refuse NaN and Infinity, which Python's parser accepts but JSON does not define."""
    raise ValueError(f"{word} is not a number")


def _finite_number(digits: str) -> float:
    """Refuse numbers such as 1e999, which Python's parser makes infinite."""
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is too large for a float")
    return number


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a field that occurs twice, since readers differ in which of the two they take."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the field {name!r} occurs more than once")
    return fields
