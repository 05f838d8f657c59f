"""How rates are shown: as a table with one row per class, and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.inputs.class_numbers import is_one_number
from baserate.support.numbers import format_column
from baserate.support.summary import Summary, Table
from baserate.support.text import printable, shortened

if TYPE_CHECKING:
    from baserate.rates.base import Rates

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


def list_numbers(rates: Rates, numbers: Any) -> str:
    """The numbers of all classes, each after the name of its class."""
    if isinstance(numbers, np.ndarray):
        return rates._list_by_class([f"{value:.4g}" if numbers.dtype.kind == "f" else str(value) for value in numbers])
    if is_one_number(numbers):
        return f"positive class {float(numbers):.4g}"
    return ", ".join(f"{shortened(str(name))} {value}" for name, value in dict(numbers).items())


def interval(low: Any, high: Any) -> str:
    """Bounds of a rate as text, such as "at most 0.03"."""
    low, high = float(low), float(high)
    if low <= 0 and high >= 1:
        return "unknown"
    if low <= 0:
        return f"at most {high:.4g}"
    if high >= 1:
        return f"at least {low:.4g}"
    if low == high:
        return f"{low:.4g}"
    digits = 4 if f"{low:.4g}" != f"{high:.4g}" else 12  # enough digits to show two different numbers
    return f"between {low:.{digits}g} and {high:.{digits}g}"
