"""Labels of groups, such as regions or days, and how those of a table are matched with those of the rows."""

from __future__ import annotations

import datetime
import math
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
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
        return (
            _date(value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value)
            if value == value
            else None
        )
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


def as_json_value(value: Any) -> Any:
    """A value of a label that JSON can hold: dates and infinity become their text, by which they are matched again."""
    is_infinite = isinstance(value, float) and math.isinf(value)
    return value if value is None or (isinstance(value, (str, int, float)) and not is_infinite) else label_text(value)


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


class GroupNames(Sequence[str]):
    """The names of groups, made when they are needed: few of thousands of groups are ever named."""

    def __init__(self, labels: Sequence[Label]) -> None:
        self._labels = labels

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, i: Any) -> Any:
        return group_name(self._labels[i]) or "all rows"


class ValueIndex:
    """Finds values by equality, or by their text if only one value has it."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._positions: dict[Any, int] = {}
        for i, value in enumerate(values):
            self._positions.setdefault(value, i)

    @cached_property
    def _by_text(self) -> dict[str, int]:
        found: dict[str, list[int]] = {}
        for value, i in self._positions.items():
            found.setdefault(label_text(value), []).append(i)
        return {text: at[0] for text, at in found.items() if len(at) == 1}

    def find(self, value: Any) -> int | None:
        """The position of a value; None if it is not there or missing."""
        if value is None or not isinstance(value, Hashable):
            return None
        found = self._positions.get(value)
        return self._by_text.get(label_text(value)) if found is None else found


class GroupIndex:
    """Finds groups by their values in all key columns."""

    def __init__(self, labels: Sequence[Label]) -> None:
        self._groups = {label: i for i, label in enumerate(labels)}

    @cached_property
    def _columns(self) -> list[list[Any]]:
        """The different values of each key column."""
        return [list(dict.fromkeys(column)) for column in zip(*self._groups, strict=True)]

    @cached_property
    def _values(self) -> list[ValueIndex]:
        return [ValueIndex(column) for column in self._columns]

    def find(self, label: Label) -> int | None:
        """The number of the group with these values; None if there is none."""
        found = self._groups.get(label)
        if found is not None or not self._groups:
            return found
        at = [index.find(value) for index, value in zip(self._values, label, strict=True)]
        if None in at:
            return None
        return self._groups.get(tuple(column[i] for column, i in zip(self._columns, at, strict=True) if i is not None))

    def find_all(self, labels: Sequence[Label]) -> list[int | None]:
        """The numbers of the groups with these values."""
        found = list(map(self._groups.get, labels))  # nearly always all of them
        return [self.find(label) if at is None else at for at, label in zip(found, labels, strict=True)]


def _date(value: Any) -> Any:
    """A date if a datetime is at midnight without a time zone, else the datetime."""
    if not isinstance(value, datetime.datetime):
        return value
    return value.date() if value.time() == datetime.time() and value.tzinfo is None else value
