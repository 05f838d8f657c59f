"""Saved sets of class rates, in JSON."""

from __future__ import annotations

import json
import os
from typing import Any

from baserate.errors import BadFile
from baserate.inputs.class_names import check_class_name
from baserate.support.json_file import RATES, read_json, write_json
from baserate.support.locations import read_bytes


def save_rates(path: str | os.PathLike[str], description: dict[str, Any], classes: tuple[Any, ...] | None) -> None:
    """Write the description of rates, see ``Rates.to_json``, and the names of their classes."""
    for name in classes or ():
        check_class_name(name)
    write_json(path, {"classes": None if classes is None else list(classes), "rates": description}, RATES)


def load_rates(path: str | os.PathLike[str]) -> tuple[dict[str, Any], tuple[Any, ...] | None]:
    """The description and the class names that :func:`save_rates` wrote."""
    fields = read_json(path, RATES)
    description, classes = fields.get("rates"), fields.get("classes")
    if not isinstance(description, dict) or "kind" not in description or not isinstance(classes, (list, type(None))):
        raise BadFile(f"{path} does not describe a set of class rates; save it again")
    return description, None if classes is None else tuple(classes)


def is_saved(text: str) -> bool:
    """Whether a text is the path of a file that :func:`save_rates` wrote."""
    if not text.lower().endswith(".json"):
        return False
    try:
        found = json.loads(read_bytes(text).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return False  # for the parser of other files with rates, which says what is wrong
    return isinstance(found, dict) and found.get("format") == RATES.name
