"""Tables of rates per group, in all forms that callers pass them, as arrays with one row per group."""

from __future__ import annotations

import csv
import datetime
import io
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from baserate.errors import BadFile, BadRates, BaserateError
from baserate.inputs.class_numbers import as_float, is_one_number
from baserate.inputs.dataframes import is_dataframe
from baserate.inputs.group_columns import missing_column
from baserate.inputs.group_labels import Label, plain_label, quoted_group
from baserate.inputs.validation import quoted, quoted_name
from baserate.rates.base import Rates
from baserate.rates.parse import parse_bounds
from baserate.support.arrays import FloatArray
from baserate.support.locations import read_bytes

CLASS = "class"
_VALUES = (("rate",), ("low", "high"), ("count",))
"""Columns with the numbers of a long table: rates, bounds, or the counts of a survey."""

_FORMS = (
    "a dataframe with one row per group and one column per class, a dict of dicts, a dict or Series with one rate per "
    "group for two classes, a long table with a column 'class', or a CSV file"
)


class GroupTable(NamedTuple):
    """A table of rates per group.

    Attributes
    ----------
    labels : list of tuples
        The groups.
    classes : tuple or None
        The class of each column; None if the numbers are given by position.
    low, high : array of shape (G, number of columns)
        Bounds, which are equal for exact rates; NaN where nothing is known. Counts are in both.
    is_counts : bool
        Whether the table says that the numbers are counts.
    own : dict
        The rates of groups that were given as :class:`Rates`, by the number of the group.
    is_one_number : bool
        Whether there is one number per group, about the second of two classes.
    """

    labels: list[Label]
    classes: tuple[Any, ...] | None
    low: FloatArray
    high: FloatArray
    is_counts: bool = False
    own: Mapping[int, Rates] = {}
    is_one_number: bool = False


def parse_table(keys: tuple[Any, ...], table: Any, classes: tuple[Any, ...] | None) -> GroupTable:
    """Parse a table; see :meth:`baserate.Rates.by` for its forms.

    Parameters
    ----------
    keys : tuple
        The columns that define the groups.
    table : object
    classes : tuple, optional
        The columns with rates, if the table has others.
    """
    if isinstance(table, (str, os.PathLike)):
        return _of_columns(keys, _read_csv(table), classes, str(table))
    if isinstance(table, Mapping):
        return _of_mapping(keys, table)
    if is_dataframe(table):
        return _of_columns(keys, _columns_of_frame(keys, table), classes, "the table")
    if hasattr(table, "index") and hasattr(table, "to_numpy") and not callable(table.index):
        return _of_series(keys, table)
    raise BadRates(f"the rates by {quoted(keys)} are a {type(table).__name__}; pass {_FORMS}")


def _of_series(keys: tuple[Any, ...], series: Any) -> GroupTable:
    """The table of a Series: one rate per group, or the class as an additional level of the index."""
    numbers = {label if isinstance(label, tuple) else (label,): value for label, value in series.items()}
    if len(numbers) < len(series):
        raise BadRates(f"the index of the Series with the rates by {quoted(keys)} contains a group twice")
    n_levels = getattr(series.index, "nlevels", 1)
    if n_levels == len(keys) + 1:
        columns = {key: [label[j] for label in numbers] for j, key in enumerate(keys)}
        values = list(numbers.values())
        counted = "count" if np.asarray(series).dtype.kind in "iu" else "rate"
        return _long(keys, columns | {CLASS: [label[-1] for label in numbers], counted: values}, "the Series")
    if n_levels != len(keys):
        raise BadRates(
            f"the index of the Series has {n_levels} level{'s' * (n_levels > 1)}, but the rates are given by "
            f"{quoted(keys)}; an index needs one level per key, and for more than two classes one for the class"
        )
    return _of_mapping(keys, {label if len(keys) > 1 else label[0]: value for label, value in numbers.items()})


def _of_mapping(keys: tuple[Any, ...], table: Mapping[Any, Any]) -> GroupTable:
    if not table:
        raise BadRates(f"the table of rates by {quoted(keys)} is empty")
    labels = [_as_label(keys, label) for label in table]
    _check_distinct(keys, labels, list(table))
    values = [None if _is_missing(value) else value for value in table.values()]
    own = {i: value for i, value in enumerate(values) if isinstance(value, Rates)}
    rest = {i: value for i, value in enumerate(values) if value is not None and i not in own}
    for i, value in rest.items():
        if isinstance(value, str) or not (is_one_number(value) or hasattr(value, "__len__")):
            raise BadRates(
                f"the rate of {quoted_group(keys, labels[i])} is {quoted_name(value)}, which is not a number"
            )
    shape = len(labels), 1
    if all(is_one_number(value) or _is_pair(value) for value in rest.values()):
        low, high = (np.full(shape, np.nan) for _ in range(2))
        for i, value in rest.items():
            low[i], high[i] = _bounds(value, f"the rate of {quoted_group(keys, labels[i])}")
        return GroupTable(labels, None, low, high, own=own, is_one_number=True)
    return _of_rows(keys, labels, rest)._replace(own=own)


def _check_distinct(keys: tuple[Any, ...], labels: Sequence[Label], given: Sequence[Any]) -> None:
    """Raise if two keys of a mapping are one group, such as times that differ by nanoseconds."""
    repeated = next((label for label, times in Counter(labels).items() if times > 1), None)
    if repeated is None:
        return
    same = [name for name, label in zip(given, labels, strict=True) if label == repeated]
    is_time = any(isinstance(value, datetime.date) for value in repeated)
    raise BadRates(
        f"the rates by {quoted(keys)} have one group more than once, as {quoted(same)}; "
        f"{'times must differ by microseconds' if is_time else 'give each group once'}"
    )


def _of_rows(keys: tuple[Any, ...], labels: list[Label], rows: Mapping[int, Any]) -> GroupTable:
    """The table of a dict whose values have several numbers: by class name, or by position."""
    by_name = {i: dict(row.items()) for i, row in rows.items() if hasattr(row, "items")}
    names = list(dict.fromkeys(name for row in by_name.values() for name in row))
    by_position = {i: row for i, row in rows.items() if i not in by_name}
    wrong = next((i for i, row in by_position.items() if not hasattr(row, "__len__")), None)
    if wrong is None and by_name:
        wrong = next(iter(by_position), None)
    if wrong is not None:
        raise BadRates(
            f"the rates of {quoted_group(keys, labels[wrong])} are {quoted_name(rows[wrong])}; pass the same for every "
            "group: a dict from class to rate, a list of rates, or one number for two classes"
        )
    width = len(names) if by_name else len(next(iter(by_position.values())))
    low, high = (np.full((len(labels), width), np.nan) for _ in range(2))
    for i, row in rows.items():
        numbers = row if by_name else dict(enumerate(row))
        if not by_name and len(row) != width:
            raise BadRates(
                f"{quoted_group(keys, labels[i])} has {len(row)} rates, but {quoted_group(keys, labels[0])} has {width}"
            )
        for name, value in numbers.items():
            j = names.index(name) if by_name else name
            what = f"the rate of class {quoted_name(name)} in {quoted_group(keys, labels[i])}"
            low[i, j], high[i, j] = _bounds(value, what)
    return GroupTable(labels, tuple(names) if by_name else None, low, high)


def _of_columns(
    keys: tuple[Any, ...], columns: dict[Any, list[Any]], classes: tuple[Any, ...] | None, where: str
) -> GroupTable:
    """The table with these columns: long, wide, or with one number per group."""
    if absent := [key for key in keys if key not in columns]:
        raise BadRates(str(missing_column(absent[0], list(columns), where)))
    if not columns[keys[0]]:
        raise BadRates(f"{where} has no rows")
    rest = [name for name in columns if name not in keys]
    if CLASS in rest:
        return _long(keys, columns, where)
    labels = _labels(keys, columns, where)
    if classes is None and (set(rest) in ({"rate"}, {"low", "high"})):
        low, high = (
            _column(columns[name], name, keys, labels)[side]
            for side, name in enumerate(("rate", "rate") if rest == ["rate"] else ("low", "high"))
        )
        return GroupTable(labels, None, low[:, None], high[:, None], is_one_number=True)
    if classes is not None and (absent := [name for name in classes if name not in rest]):
        raise BadRates(f"{where} has no column {quoted(absent)} for these classes; it has {quoted(rest)}")
    names = tuple(rest) if classes is None else classes
    if not names:
        raise BadRates(f"{where} has no columns besides {quoted(keys)}; pass {_FORMS}")
    sides = [_column(columns[name], name, keys, labels) for name in names]
    low, high = (np.stack([side[i] for side in sides], axis=1) for i in range(2))
    return GroupTable(labels, names, low, high)


def _long(keys: tuple[Any, ...], columns: dict[Any, list[Any]], where: str) -> GroupTable:
    """The table with one row per group and class."""
    found = next((names for names in _VALUES if set(names) <= set(columns)), None)
    if found is None:
        rest = [name for name in columns if name not in (*keys, CLASS)]
        raise BadRates(
            f"{where} has a column 'class', so it must also have a column 'rate', columns 'low' and 'high', or a "
            f"column 'count'; it has {quoted(rest)}"
        )
    each = [_as_label(keys, label) for label in zip(*(columns[key] for key in keys), strict=True)]
    labels, names = list(dict.fromkeys(each)), list(dict.fromkeys(map(plain_label, columns[CLASS])))
    rows, places = {label: i for i, label in enumerate(labels)}, {name: j for j, name in enumerate(names)}
    at = np.array([(rows[label], places[plain_label(name)]) for label, name in zip(each, columns[CLASS], strict=True)])
    numbers, n_times = np.unique(at @ [len(names), 1], return_counts=True)
    if (n_times > 1).any():
        i, j = divmod(int(numbers[n_times > 1][0]), len(names))
        raise BadRates(f"{where} has class {quoted_name(names[j])} of {quoted_group(keys, labels[i])} more than once")
    low, high = (np.full((len(labels), len(names)), np.nan) for _ in range(2))
    for side, (array, name) in enumerate(zip((low, high), (found[0], found[-1]), strict=True)):
        array[at[:, 0], at[:, 1]] = _column(columns[name], name, keys, each)[side]
    return GroupTable(labels, tuple(names), low, high, is_counts=found == ("count",))


def _labels(keys: tuple[Any, ...], columns: dict[Any, list[Any]], where: str) -> list[Label]:
    labels = [_as_label(keys, label) for label in zip(*(columns[key] for key in keys), strict=True)]
    seen: set[Label] = set()
    for label in labels:
        if label in seen:
            raise BadRates(
                f"{where} has {quoted_group(keys, label)} more than once; a table with one row per group and class "
                "needs a column 'class'"
            )
        seen.add(label)
    return labels


def _as_label(keys: tuple[Any, ...], label: Any) -> Label:
    values = tuple(label) if isinstance(label, tuple) else (label,)
    if len(values) != len(keys):
        raise BadRates(
            f"the rates are given by {quoted(keys)}, but the table has the group {quoted_name(label)}; a group needs "
            f"{len(keys)} value{'s' * (len(keys) > 1)}{', as a tuple' * (len(keys) > 1)}"
        )
    plain = tuple(None if value == "" else plain_label(value) for value in values)
    if None in plain:
        raise BadRates(
            f"the table has a group without a value of {quoted_name(keys[plain.index(None)])}; leave this group out"
        )
    return plain


def _column(values: Sequence[Any], name: Any, keys: tuple[Any, ...], labels: Sequence[Label]) -> list[FloatArray]:
    """Lower and upper bounds of a column; both are the same number if it has no bounds."""
    array = np.asarray(values)
    if array.dtype.kind in "fiu":
        return [array.astype(np.float64)] * 2
    both = [
        _bounds(value, f"the entry of {quoted_group(keys, label)} in column {quoted_name(name)}")
        for value, label in zip(values, labels, strict=True)
    ]
    return [np.array(side) for side in zip(*both, strict=True)]


def _bounds(value: Any, what: str) -> tuple[float, float]:
    """The lower and the upper bound that an entry of a table states; NaN if it is missing."""
    if _is_missing(value) or (isinstance(value, str) and not value.strip()):
        return np.nan, np.nan
    if isinstance(value, str):
        try:
            low, high = parse_bounds(value, what)
        except BadRates:
            raise BadRates(
                f"{what} is {quoted_name(value)}, which is not a number, nor bounds such as 0.1..0.2"
            ) from None
        return np.nan if low is None else low, np.nan if high is None else high
    if _is_pair(value):
        low, high = (np.nan if _is_missing(one) else as_float(one, what) for one in value)
        return low, high
    number = as_float(value, what)
    return number, number


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2


def _is_missing(value: Any) -> bool:
    return plain_label(value) is None


def _columns_of_frame(keys: tuple[Any, ...], frame: Any) -> dict[Any, list[Any]]:
    """The columns of a dataframe; for pandas, the levels of the index as well, if they are the keys."""
    import narwhals as nw

    try:
        columns = nw.from_native(frame, eager_only=True)
    except Exception as error:  # narwhals raises a different type for each kind of dataframe that it cannot read
        raise BadRates(f"the table of rates cannot be read: {error}") from None
    found = {name: columns.get_column(name).to_list() for name in columns.columns}
    index = getattr(frame, "index", None)
    if index is None or all(key in found for key in keys) or not hasattr(index, "get_level_values"):
        return found
    names = list(index.names)
    levels = [names.index(key) if key in names else j for j, key in enumerate(keys)]
    numeric = all(columns.schema[name].is_numeric() for name in columns.columns)
    is_default = names == [None] and list(index) == list(range(len(index))) and not numeric
    if len(names) != len(keys) or is_default:
        return found  # a key is missing, which is reported together with the columns that there are
    return {key: list(index.get_level_values(level)) for key, level in zip(keys, levels, strict=True)} | found


def _read_csv(path: str | os.PathLike[str]) -> dict[Any, list[Any]]:
    try:
        text = io.StringIO(read_bytes(path).decode("utf-8-sig"), newline="")
        rows = [row for row in csv.reader(text) if any(cell.strip() for cell in row)]
    except BaserateError:
        raise
    except OSError as error:
        raise BadFile(f"the file {path} with the rates cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadFile(f"the file {path} with the rates is not a CSV file in UTF-8: {error}") from None
    if len(rows) < 2:
        raise BadFile(f"the file {path} with the rates has {'a header, but no rows' if rows else 'no rows'}")
    header = [cell.strip() for cell in rows[0]]
    if len(set(header)) < len(header):
        raise BadFile(f"the header of {path} contains a column twice: {quoted_name(','.join(header))}")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise BadFile(f"line {number} of {path} has {len(row)} entries, but the header has {len(header)}")
    return {name: [row[j].strip() for row in rows[1:]] for j, name in enumerate(header)}
