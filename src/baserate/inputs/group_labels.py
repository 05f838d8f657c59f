"""Labels of groups, such as regions or days, and how those of a table are matched with those of the rows."""

from __future__ import annotations

import datetime
import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from baserate.inputs.validation import quoted_name

Label = tuple[Any, ...]
"""The values of a group in each of its key columns; one value if there is one key."""


def plain_label(value: Any) -> Any:
    """A value as Python's own type, so that equal values have equal hashes; None if it is missing."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else _date(value.astype("datetime64[us]").item())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, datetime.datetime):
        # The missing time of pandas is a datetime that does not equal itself.
        return _date(value.to_pydatetime() if hasattr(value, "to_pydatetime") else value) if value == value else None
    if value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value


def label_text(value: Any) -> str:
    """The text of a value, by which labels of different types are matched: "3" for 3, 3.0 and "3"."""
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value).strip()


def group_name(label: Label) -> str:
    """The name of a group for tables: its values, separated by commas."""
    if label and all(value is None for value in label):
        return "not in the table"
    return ", ".join(label_text(value) for value in label)


def quoted_group(keys: Sequence[Any], label: Label) -> str:
    """A group for use in messages, such as ``region 'north'`` or ``state 'CA', age '18-29'``."""
    return ", ".join(f"{key} {quoted_name(value)}" for key, value in zip(keys, label, strict=True)) or "all rows"


def listed_groups(keys: Sequence[Any], labels: Sequence[Label], most: int = 5) -> str:
    """The first groups and the number of the others, for use in messages."""
    shown = "; ".join(quoted_group(keys, label) for label in labels[:most])
    return shown + (f" and {len(labels) - most:,} more" if len(labels) > most else "")


def positions_by_label(values: Iterable[Any]) -> dict[Any, int]:
    """The position of each value in a list, by value and, where that is unambiguous, by text as well.

    The text has the key ``("text", ...)``, which no value has: values of a table are not tuples of this form.
    """
    positions: dict[Any, int] = {}
    by_text: dict[str, list[int]] = {}
    for i, value in enumerate(values):
        positions.setdefault(value, i)
        by_text.setdefault(label_text(value), []).append(i)
    positions |= {("text", text): found[0] for text, found in by_text.items() if len(found) == 1}
    return positions


def find_value(positions: dict[Any, int], value: Any) -> int | None:
    """The position of a value, or else of the only value with the same text; None if there is none."""
    if not isinstance(value, Hashable):
        return None
    found = positions.get(value)
    return positions.get(("text", label_text(value))) if found is None else found


def _date(value: Any) -> Any:
    """A date if a datetime is at midnight without a time zone, else the datetime."""
    if not isinstance(value, datetime.datetime):
        return value
    return value.date() if value.time() == datetime.time() and value.tzinfo is None else value


class GroupIndex:
    """Finds the groups of rates by their values."""

    def __init__(self, positions: list[dict[Any, int]], groups: dict[tuple[int, ...], int]) -> None:
        self._positions, self._groups = positions, groups

    @classmethod
    def of(cls, labels: Sequence[Label]) -> GroupIndex:
        """The index of the groups of some labels."""
        values = [list(dict.fromkeys(column)) for column in zip(*labels, strict=True)]
        positions = [positions_by_label(column) for column in values]
        exact = [{value: i for i, value in enumerate(column)} for column in values]
        codes = {tuple(exact[j][v] for j, v in enumerate(label)): i for i, label in enumerate(labels)}
        return cls(positions, codes)

    def find(self, label: Label) -> int | None:
        """The number of the group with these values; None if there is none."""
        codes = [find_value(known, value) for known, value in zip(self._positions, label, strict=True)]
        return None if None in codes else self._groups.get(tuple(codes))  # type: ignore[arg-type]  # without None
