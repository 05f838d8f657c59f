"""The labels of groups in SQL, and how they are compared with the columns of the rows."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from baserate.deploy.sql_names import identifier, literal
from baserate.errors import BadGroups
from baserate.inputs.group_labels import Label, quoted_group

CASELESS = frozenset({"mysql", "tsql", "fabric", "teradata"})
"""Dialects of databases that by default compare text without case."""

_STRICT = frozenset({"postgres", "bigquery", "trino", "presto", "athena"})
"""Dialects that compare text only with text."""

_OTHER_TYPES = re.compile(r" *((?=.*\d)[-+\d.:/ eETZ]+|true|false|nan|-?inf(inity)?|[\da-f-]{36}) *", re.IGNORECASE)
"""Texts of numbers, dates, truth values and UUIDs."""


@dataclass(frozen=True)
class KeyColumn:
    """A column that defines groups.

    Attributes
    ----------
    name : str
    labels : list
        The label of each group in this column.
    dialect : str
    """

    name: str
    labels: Sequence[Any]
    dialect: str

    @property
    def _trims(self) -> bool:
        """Whether spaces around the text of a row are ignored, as by ``apply``."""
        labels = set(self.labels)
        if not labels or not all(isinstance(label, str) for label in labels):
            return False
        # Not if the column of the rows may have numbers or dates, for which many databases have no TRIM.
        is_text = self.dialect in _STRICT or not all(map(_OTHER_TYPES.fullmatch, labels))
        return is_text and len({label.strip(" ") for label in labels}) == len(labels)

    @property
    def _has_cases(self) -> bool:
        """Whether some labels differ only in case or spaces."""
        labels = set(self.labels)
        return len({label.strip(" ").casefold() for label in labels}) < len(labels)

    def literals(self) -> list[str]:
        """The labels as literals of one type."""
        labels = self.labels
        if any(isinstance(label, datetime.datetime) for label in labels):  # times at midnight are kept as dates
            labels = [_as_time(label) for label in labels]
        if self._trims:
            labels = [label.strip(" ") for label in labels]
        return [literal(label, self.dialect) for label in labels]

    def condition(self, alias: str) -> str:
        """Whether a row, whose alias is t, has the label of a row of the table of shifts."""
        row, group = f"t.{identifier(self.name)}", f"{alias}.{identifier(self.name)}"
        if self._trims:
            row = f"TRIM({row})"
        same = f"{row} = {group}"
        if not all(isinstance(label, str) for label in self.labels):
            return same
        if self.dialect == "sqlite":
            return f"{same} COLLATE BINARY"
        if self.dialect == "duckdb" and self._has_cases:
            return f"{same} AND HEX({row}) = HEX({group})"  # a collation cannot be written in a condition
        return same


def check_case(keys: Sequence[str], labels: Sequence[Label], dialect: str) -> None:
    """Raise if a database by default takes the labels of two groups for equal, so that rows would be repeated."""
    if dialect not in CASELESS:
        return
    groups: dict[Label, Label] = {}
    for label in labels:
        other = groups.setdefault(tuple(_as_compared(value, dialect) for value in label), label)
        if other != label:
            raise BadGroups(
                f"{quoted_group(keys, other)} and {quoted_group(keys, label)} differ only in case, spaces or accents, "
                f"which {dialect} does not distinguish in text by default, so rows would be repeated; rename one of "
                "these groups before the adjustment"
            )


def _as_compared(value: Any, dialect: str) -> Any:
    if not isinstance(value, str):
        return value
    if dialect == "mysql":
        value = "".join(c for c in unicodedata.normalize("NFKD", value) if not unicodedata.combining(c))
    return value.casefold().rstrip()


def _as_time(label: Any) -> Any:
    is_date = isinstance(label, datetime.date) and not isinstance(label, datetime.datetime)
    return datetime.datetime.combine(label, datetime.time()) if is_date else label
