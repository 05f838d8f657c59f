"""Class names that differ only in type, such as the number 1 in a dataframe and the text "1" in a CSV file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from baserate.errors import BadOption
from baserate.inputs.validation import quoted, quoted_name

_TOO_LONG = 10**4300  # Python does not print integers of more digits


def matched_names(given: Sequence[Any], names: Sequence[Any]) -> list[Any]:
    """Given names, each replaced by the one of ``names`` that it means.

    A name that is not among ``names`` means the one with the same text, if only one on either side has this text.
    Others are returned unchanged.
    """
    known = set(names)
    if known.issuperset(given):
        return list(given)
    candidates, times = _by_text(names), _by_text(given)

    def meant(name: Any) -> Any:
        found = candidates.get(str(name), [])
        return found[0] if name not in known and len(found) == len(times[str(name)]) == 1 else name

    return [meant(name) for name in given]


def same_text(given: Iterable[Any], names: Sequence[Any]) -> str:
    """The end of a message about names that were not matched because several have the same text; else empty."""
    candidates = _by_text(names)
    for name in set(given) - set(names):
        if found := candidates.get(str(name)):
            return (
                f". {quoted_name(name)} ({type(name).__name__}) was not matched with {quoted(found)} "
                f"({', '.join(type(one).__name__ for one in found)}), because several names have this text; rename one"
            )
    return ""


def _by_text(names: Iterable[Any]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for name in names:
        groups.setdefault(str(name), []).append(name)
    return groups


def check_class_name(name: Any) -> None:
    """Refuse a class name that would be another one after it was saved and loaded."""
    import json

    can_be_saved = isinstance(name, str)
    if isinstance(name, int):
        can_be_saved = abs(name) < _TOO_LONG
    elif isinstance(name, float):
        can_be_saved = math.isfinite(name)
    if not can_be_saved:
        raise BadOption(f"class names must be strings, finite numbers or booleans to be saved, not {quoted_name(name)}")
    # JSON joins the two halves of a surrogate pair to one character.
    if isinstance(name, str) and json.loads(json.dumps(name)) != name:
        raise BadOption(
            f"JSON would change the class name {quoted_name(name)}, so it cannot be saved; rename the class"
        )
