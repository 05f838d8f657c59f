"""The labels of groups in SQL, and how they are compared with the columns of the rows."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from baserate.deploy.sql_names import identifier, literal


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

    def literals(self) -> list[str]:
        """The labels as literals of one type."""
        labels = self.labels
        if any(isinstance(label, datetime.datetime) for label in labels):  # times at midnight are kept as dates
            labels = [_as_time(label) for label in labels]
        return [literal(label, self.dialect) for label in labels]

    def condition(self, alias: str) -> str:
        """Whether a row, whose alias is t, has the label of a row of the table of shifts."""
        return f"t.{identifier(self.name)} = {alias}.{identifier(self.name)}"


def _as_time(label: Any) -> Any:
    is_date = isinstance(label, datetime.date) and not isinstance(label, datetime.datetime)
    return datetime.datetime.combine(label, datetime.time()) if is_date else label
