"""The columns that say which groups each row belongs to: from the argument ``groups``, or from a dataframe."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.errors import BadGroups, Option
from baserate.inputs.dataframes import is_dataframe
from baserate.inputs.group_labels import plain_label
from baserate.inputs.validation import quoted, quoted_name
from baserate.support.arrays import IndexArray

GROUPS = Option("groups")
_DENSE = 4  # Whole numbers are coded by a table if it has at most this many entries per row.


class CodedValues(NamedTuple):
    """A column as the different values that it has.

    Attributes
    ----------
    values : list
        The different values, in Python's own types.
    codes : int array of shape (n,)
        Position of the value of each row in ``values``; -1 where it is missing.
    """

    values: list[Any]
    codes: IndexArray


def read_groups(groups: Any, keys: Sequence[Any], probs: Any, n_rows: int) -> list[CodedValues]:
    """The column of each key, for rows in memory.

    Parameters
    ----------
    groups : dataframe, dict of arrays, array, or None
        One array is enough for one key. None takes the columns from ``probs``, if it is a dataframe.
    keys : sequence
        The names of the columns that are needed.
    probs : object
        The predictions as the caller passed them.
    n_rows : int
    """
    where = "groups"
    if not keys:
        return []
    if groups is None:
        if not is_dataframe(probs):
            each = ", ".join(f"{key!r}: ..." for key in keys)
            names = f"{GROUPS}= with one value per row" if len(keys) == 1 else f"{GROUPS}={{{each}}}"
            raise BadGroups(
                f"the rates are given by {quoted(keys)}, but it is not known to which group each row belongs; pass "
                f"{names}, or predictions as a dataframe with these columns",
                options=[GROUPS],
            )
        groups, where = probs, "probs"
    _check_same_index(groups, probs)
    columns = _columns_of(groups, keys, where)
    return [_coded_column(columns[key], key, n_rows) for key in keys]


def missing_column(key: Any, there: Sequence[Any], where: str) -> BadGroups:
    """The error about a column that does not exist, with the names that are nearly the same."""
    texts = {str(name): name for name in there}
    near = difflib.get_close_matches(str(key), texts, n=3, cutoff=0.6)
    hint = f" (did you mean {' or '.join(quoted_name(texts[name]) for name in near)}?)" if near else ""
    return BadGroups(
        f"{where} has no column {quoted_name(key)}, by which the rates are given{hint}; it has {quoted(list(there))}"
    )


def code_values(column: Any) -> CodedValues:
    """The different values of an array, and the position of each row's value among them."""
    if hasattr(column, "cat") and hasattr(column.cat, "codes"):  # categories of pandas are codes already
        values = [plain_label(value) for value in column.cat.categories]
        return without_missing(values, np.asarray(column.cat.codes, dtype=np.intp))
    if hasattr(column, "dictionary_decode"):  # a dictionary of pyarrow
        column = column.dictionary_decode()
    # Not to_numpy for arrays of pyarrow, which does not copy, and so cannot convert text.
    by_name = hasattr(column, "to_numpy") and not hasattr(column, "to_pylist")
    array = np.asarray(column.to_numpy() if by_name else column)
    if array.dtype.kind in "iub" and array.size:
        return _code_whole_numbers(array)
    if array.dtype.kind in "fmMS":
        found, codes = np.unique(array, return_inverse=True)
        return without_missing([plain_label(value) for value in found], codes.astype(np.intp))
    return _code_objects(array)


def _columns_of(groups: Any, keys: Sequence[Any], where: str) -> dict[Any, Any]:
    if isinstance(groups, Mapping):
        if absent := [key for key in keys if key not in groups]:
            raise missing_column(absent[0], list(groups), where)
        return {key: groups[key] for key in keys}
    if is_dataframe(groups):
        return _columns_of_frame(groups, keys, where)
    if isinstance(groups, str) or not (hasattr(groups, "__len__") or hasattr(groups, "__array__")):
        raise BadGroups(
            "groups must be an array with one group per row, a dict of arrays or a dataframe, not "
            f"{quoted_name(groups)}"
        )
    if len(keys) > 1:
        raise BadGroups(
            f"groups is one array, but the rates are given by {quoted(keys)}; pass a dict or a dataframe with these "
            "columns"
        )
    return {keys[0]: groups}


def _columns_of_frame(frame: Any, keys: Sequence[Any], where: str) -> dict[Any, Any]:
    import narwhals as nw

    try:
        columns = nw.from_native(frame, eager_only=True)
    except TypeError:
        library, kind = type(frame).__module__.split(".")[0], type(frame).__name__
        raise BadGroups(
            f"{where} is a {library} {kind}, whose rows are not in memory; collect or compute it first"
        ) from None
    there = list(columns.columns)
    if absent := [key for key in keys if key not in there]:
        raise missing_column(absent[0], there, where)
    return {key: columns.get_column(key).to_native() for key in keys}


def _coded_column(column: Any, key: Any, n_rows: int) -> CodedValues:
    try:
        n_values, ndim = len(column), np.ndim(column) if isinstance(column, (np.ndarray, list, tuple)) else 1
    except (TypeError, ValueError):
        n_values, ndim = -1, 0
    if isinstance(column, (str, bytes, set, Mapping)) or ndim != 1:
        raise BadGroups(
            f"the groups {quoted_name(key)} must be one value per row, but are a {type(column).__name__}"
            + (f" of shape {np.shape(column)}" if isinstance(column, np.ndarray) else "")
        )
    if n_values != n_rows:
        raise BadGroups(f"the groups {quoted_name(key)} have {n_values:,} values, but there are {n_rows:,} rows")
    try:
        return code_values(column)
    except TypeError as error:
        raise BadGroups(f"the groups {quoted_name(key)} have values that cannot be compared: {error}") from None


def _check_same_index(groups: Any, probs: Any) -> None:
    """Raise if predictions and groups are of pandas and have the same index in different orders."""
    own, other = getattr(groups, "index", None), getattr(probs, "index", None)
    if groups is probs or own is None or other is None or not (hasattr(own, "equals") and hasattr(other, "equals")):
        return
    if len(own) == len(other) and not own.equals(other) and own.sort_values().equals(other.sort_values()):
        raise BadGroups(
            "groups and probs have the same index in different orders; bring them into the same order with "
            "groups.loc[probs.index]"
        )


def _code_whole_numbers(array: NDArray[Any]) -> CodedValues:
    low, high = int(array.min()), int(array.max())
    if high - low >= _DENSE * len(array):
        found, codes = np.unique(array, return_inverse=True)
        return CodedValues(found.tolist(), codes.astype(np.intp))
    # Not np.unique: sorting ten million numbers takes longer than all the rest.
    at = (array.astype(np.int64, copy=False) - low).astype(np.intp, copy=False)
    present = np.zeros(high - low + 1, dtype=bool)
    present[at] = True
    values = (np.flatnonzero(present) + low).tolist()
    codes = at if len(values) == len(present) else (np.cumsum(present) - 1)[at]
    return CodedValues([bool(v) for v in values] if array.dtype.kind == "b" else values, codes)


def _code_objects(array: NDArray[Any]) -> CodedValues:
    try:
        import pandas
    except ImportError:
        positions: dict[Any, int] = {}
        codes = np.fromiter(
            (positions.setdefault(value, len(positions)) for value in array.tolist()), np.intp, len(array)
        )
        return without_missing([plain_label(value) for value in positions], codes)
    codes, found = pandas.factorize(np.asarray(array, dtype=object))
    _check_hashable(found)
    return without_missing([plain_label(value) for value in found], codes.astype(np.intp))


def _check_hashable(values: Any) -> None:
    if bad := [value for value in values if not isinstance(value, Hashable)]:
        raise TypeError(f"unhashable type: {type(bad[0]).__name__}")


def without_missing(values: list[Any], codes: IndexArray) -> CodedValues:
    """The values with their codes, without missing ones, and with equal ones joined."""
    positions: dict[Any, int] = {}
    new = [-1 if value is None else positions.setdefault(value, len(positions)) for value in values]
    return CodedValues(list(positions), np.array([*new, -1], dtype=np.intp)[codes])
