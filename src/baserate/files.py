"""Files written whole or not at all; saved adjustments are versioned JSON with a checksum."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from baserate.errors import BadFile

FORMAT = "baserate.adjustment"
VERSION = 2


def write_json(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write fields under a format name, a version and a checksum; an old file stays until the new one is complete."""
    document = {"format": FORMAT, "version": VERSION, "checksum": _checksum(fields), **fields}
    with whole(path) as file:
        file.write((json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode())


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write that appears under its name when it is complete; until then an old one stays as it is."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields that :func:`write_json` wrote."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path} is not a JSON file: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadFile(f"{path} is not a saved adjustment: its 'format' is not {FORMAT!r}")
    if document.get("version") != VERSION:
        raise BadFile(f"{path} has version {document.get('version')!r}, but this baserate reads version {VERSION}")
    fields = {name: value for name, value in document.items() if name not in ("format", "version", "checksum")}
    if document.get("checksum") != _checksum(fields):
        raise BadFile(f"{path} was changed after it was saved: its checksum does not fit; save the adjustment again")
    return fields


def _checksum(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number")
