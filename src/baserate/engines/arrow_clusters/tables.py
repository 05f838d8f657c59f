"""A table on a cluster, and checks of what a caller said about its columns. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from baserate.engines.arrow_blocks import check_single_column
from baserate.errors import BadGroups, BadOption, BadProbabilities, BadWeights
from baserate.inputs.columns import COLUMN_LIST, Columns
from baserate.inputs.group_columns import GROUPS, missing_column
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import quoted, quoted_name


@dataclass(frozen=True, eq=False)
class ColumnType:
    """The type of a column.

    Attributes
    ----------
    name : str
        Its name in messages.
    dtype : numpy.dtype or None
        The floating dtype in which its numbers are read; None if it has no numbers.
    is_nested : bool
        Whether its values are lists, structures or the like.
    """

    name: str
    dtype: np.dtype[Any] | None
    is_nested: bool = False


@dataclass(frozen=True, eq=False)
class ClusterTable:
    """A table on a cluster, and which of its columns hold what.

    Attributes
    ----------
    native : object
        The table as the caller passed it.
    columns : Columns
        The columns with probabilities.
    dtypes : tuple of numpy.dtype
        The dtype of each of them.
    weight : str or None
        The column with the weights of the rows.
    keys : tuple of str or None
        Columns that hold the groups of the rows; None if there are no rates per group.
    what : str
        Its name in messages.
    keep : str
        What a caller does to keep its rows, for messages.
    """

    native: Any
    columns: Columns
    dtypes: tuple[np.dtype[Any], ...]
    weight: str | None
    keys: tuple[str, ...] | None
    what: str
    keep: str

    @classmethod
    def of(cls, source: RowSource, types: Mapping[str, ColumnType], kind: str, keep: str) -> ClusterTable:
        """The table that a caller passed.

        Parameters
        ----------
        source : RowSource
        types : dict
            The type of each column.
        kind : str
            What the table is, for messages.
        keep : str
        """
        what = source.argument
        if source.groups is not None:
            raise BadGroups(
                f"the groups of a {kind} are columns of it, since its rows have no order; leave {GROUPS}= out, and "
                "name the columns in Rates.by",
                options=[GROUPS],
            )
        columns = source.choice.among(list(types), what=what)
        for name in columns.names:
            if types[name].dtype is None:
                raise BadProbabilities(
                    f"column {quoted_name(name)} of {what} contains {types[name].name} values, not probabilities; "
                    f"select the columns with probabilities by {COLUMN_LIST}",
                    options=[COLUMN_LIST],
                )
        check_single_column(columns.names, from_logits=source.from_logits)
        weight = _weight_column(source.sample_weight, types, what, kind)
        for key in source.group_keys or ():
            _check_key(key, types, columns, what)
        dtypes = tuple(dtype for name in columns.names if (dtype := types[name].dtype) is not None)
        return cls(source.probs, columns, dtypes, weight, source.group_keys, what, keep)


def check_names(names: list[str], what: str, *, ignore_case: bool = False) -> None:
    """Raise if several columns have one name."""
    seen = [name.lower() if ignore_case else name for name in names]
    if repeated := [name for name, key in zip(names, seen, strict=True) if seen.count(key) > 1]:
        raise BadProbabilities(f"{what} has several columns of one name, {quoted(repeated)}; rename them")


def _weight_column(given: Any, types: Mapping[str, ColumnType], what: str, kind: str) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str):
        raise BadWeights(
            f"sample_weight must be the name of a column of the {kind}, but is a {type(given).__name__}; its rows have "
            "no order in which other weights could be matched to them"
        )
    if given not in types:
        raise BadWeights(
            f"sample_weight names the column {quoted_name(given)}, which {what} does not have; it has "
            f"{quoted(list(types))}"
        )
    if types[given].dtype is None:
        raise BadWeights(f"column {quoted_name(given)} of {what} contains {types[given].name} values, not weights")
    return given


def _check_key(key: Any, types: Mapping[str, ColumnType], columns: Columns, what: str) -> None:
    if key not in types:
        raise missing_column(key, list(types), what)
    if key in columns.names:
        raise BadOption(f"column {quoted_name(key)} cannot contain both probabilities and groups")
    if types[key].is_nested:
        raise BadGroups(f"column {quoted_name(key)} of {what} contains {types[key].name} values, not groups")
