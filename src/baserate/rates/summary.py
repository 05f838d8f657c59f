"""Rates as a table with one row per class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baserate.support.numbers import format_column
from baserate.support.summary import Summary, Table
from baserate.support.text import printable, shortened

_MAX_CLASSES = 12


def rates_summary(title: str, remark: str, columns: Mapping[str, Any], names: Sequence[Any] | None) -> Summary:
    """The numbers of each class, under a title and a remark.

    Parameters
    ----------
    title : str
    remark : str
        May be empty.
    columns : dict of arrays or dicts
        The numbers of each class by the header of their column; if they are dicts, by class name.
    names : sequence, optional
        Class names in the order of the arrays; None if the columns are dicts or the classes have no names.
    """
    first = next(iter(columns.values()))
    keys = list(first if isinstance(first, Mapping) else range(len(first)))
    shown, hidden = keys[:_MAX_CLASSES], len(keys) - _MAX_CLASSES
    labels = shown if names is None else names
    cells = {header: _texts([numbers[key] for key in shown]) for header, numbers in columns.items()}
    table = Table.of({"class": [shortened(printable(str(name))) for name in labels[: len(shown)]], **cells})
    return Summary(title, [remark] if remark else [], [table], [f"... and {hidden} more"] if hidden > 0 else [])


def _texts(numbers: list[Any]) -> list[str]:
    if all(isinstance(number, (int, np.integer)) for number in numbers):
        return [f"{number:,}" for number in numbers]
    return format_column([float(number) for number in numbers])
