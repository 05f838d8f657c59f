"""Saved sets of class rates, in JSON."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from baserate.errors import BadFile, BadOption
from baserate.inputs.class_names import check_class_name
from baserate.support.json_file import FORMATS, RATES, json_document, read_json, write_json
from baserate.support.locations import read_bytes

if TYPE_CHECKING:
    from baserate.rates.base import Rates


def save_rates(path: str | os.PathLike[str], rates: Rates) -> None:
    """Write rates, and the names of their classes."""
    check_name(path)
    write_json(path, _fields(rates), RATES)


def check_name(path: str | os.PathLike[str]) -> None:
    """Raise if rates in a file with this name would not be recognized by :func:`is_saved`. Ignores folders."""
    if not _is_json(os.fspath(path)) and not os.path.isdir(path):  # noqa: PTH112  # it may be a URL
        raise BadOption(
            f"{os.fspath(path)} does not end in .json, but the rates are written as JSON and read again only from "
            "names that end in .json; choose such a name"
        )


def rates_document(rates: Rates) -> bytes:
    """The content of the file that :func:`save_rates` writes."""
    return json_document(_fields(rates), RATES)


def _fields(rates: Rates) -> dict[str, Any]:
    for name in rates.classes or ():
        check_class_name(name)
    return {"classes": None if rates.classes is None else list(rates.classes), "rates": rates.to_json()}


def load_rates(path: str | os.PathLike[str]) -> tuple[dict[str, Any], tuple[Any, ...] | None]:
    """The description and the class names that :func:`save_rates` wrote."""
    fields = read_json(path, RATES)
    description, classes = fields.get("rates"), fields.get("classes")
    if not isinstance(description, dict) or "kind" not in description or not isinstance(classes, (list, type(None))):
        raise BadFile(f"{path} does not describe a set of class rates; save it again")
    return description, None if classes is None else tuple(classes)


def is_saved(text: str) -> bool:
    """Whether a text is the path of a file that this package saved: of rates or, by mistake, of an adjustment."""
    if not _is_json(text):
        return False
    try:
        found = json.loads(read_bytes(text).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return False  # for the parser of other files with rates, which says what is wrong
    return isinstance(found, dict) and found.get("format") in list(FORMATS)


def _is_json(name: str) -> bool:
    return name.lower().endswith(".json")
