"""The JSON format of saved adjustments: fields with a format name, a version and a checksum."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from baserate.errors import BadFile
from baserate.support.atomic_files import write_atomically
from baserate.support.paths import check_path

FORMAT = "baserate.adjustment"
VERSION = 2


def write_json(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write fields to a JSON file, together with a format name, a version and a checksum."""
    document = {"format": FORMAT, "version": VERSION, "checksum": _checksum(fields), **fields}
    with write_atomically(path) as file:
        file.write((json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode())


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the fields that :func:`write_json` wrote."""
    check_path(path)
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path} is not a JSON file: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadFile(f"{path} is not a saved adjustment: its field 'format' is not {FORMAT!r}")
    if document.get("version") != VERSION:
        raise BadFile(
            f"{path} has format version {document.get('version')!r}, but this version of baserate reads only format "
            f"version {VERSION}"
        )
    fields = {name: value for name, value in document.items() if name not in ("format", "version", "checksum")}
    if document.get("checksum") != _checksum(fields):
        raise BadFile(f"{path} was changed after it was saved: its checksum does not match; save the adjustment again")
    return fields


def _checksum(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse_constant(word: str) -> None:
    """Refuse NaN and Infinity, which Python's parser accepts but JSON does not define."""
    raise ValueError(f"{word} is not a number")
