"""How rates are shown: as a table with one row per class, and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.inputs.class_numbers import is_one_number
from baserate.inputs.group_labels import group_name
from baserate.support.numbers import format_column
from baserate.support.summary import Summary, Table
from baserate.support.text import printable, shortened

if TYPE_CHECKING:
    from baserate.rates.base import Rates
    from baserate.rates.by_group import GroupedRates

_MAX_CLASSES = 12
_MAX_GROUPS = 12


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


def group_summary(rates: GroupedRates) -> Summary:
    """The stated numbers of the first groups."""
    rows = [(group_name(label), *_group_cells(rates, i)) for i, label in enumerate(rates.labels[:_MAX_GROUPS])]
    names = ["rate"] if rates.one_number else [str(name) for name in rates.classes or range(rates.low.shape[1])]
    more = rates.n_groups - len(rows)
    notes = [f"... and {more:,} more groups"] if more > 0 else []
    return Summary(repr(rates), [], [Table((rates.name, *names), rows)], notes)


def _group_cells(rates: GroupedRates, i: int) -> list[str]:
    if i in rates.own:
        return [rates.own[i].describe().strip(": "), *[""] * (rates.low.shape[1] - 1)]
    return [_stated_interval(low, high) for low, high in zip(rates.low[i], rates.high[i], strict=True)]


def _stated_interval(low: float, high: float) -> str:
    if np.isnan(low) and np.isnan(high):
        return "unknown"
    if low == high:
        return f"{low:.4g}"
    return f"{0.0 if np.isnan(low) else low:.4g} to {1.0 if np.isnan(high) else high:.4g}"


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
