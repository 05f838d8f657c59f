"""The shifts of groups as tables with which the rows are joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baserate.deploy.formula import Formula
from baserate.deploy.row_maps import Projection, Reweighting, Translation, row_map_of
from baserate.deploy.sql_formulas import WIDEST_RANGE
from baserate.deploy.sql_labels import KeyColumn, check_case
from baserate.deploy.sql_names import checked_names, identifier, number, table_name, table_parts
from baserate.deploy.sql_query import unused_name
from baserate.errors import BadGroups, BadLoss, BadOption, Option
from baserate.inputs.group_labels import Label, quoted_group
from baserate.inputs.validation import quoted_name
from baserate.losses.base import short_name
from baserate.result.grouped import GroupedResult
from baserate.result.groups import MarginResult
from baserate.support.arrays import FloatArray

_UNSEEN, _SHIFT_TABLE = Option("unseen"), Option("shift_table")
_TABLE, _COLUMN = "baserate_shifts", "baserate_"
_EXCLUDED = -1e30  # The offset of a class that a group must not have.
_POSSIBLE = "Rates per group can be exported to SQL for Log, Brier and WeightedBrier"
_AT_ONCE = 400  # SELECTs in one UNION ALL; SQLite allows 500.


@dataclass(frozen=True)
class ShiftTables:
    """One table per margin, with the numbers of its groups.

    Attributes
    ----------
    formula : Formula
        The formula of all groups; its own shift is not used.
    margins : list of MarginTable
    product : bool
        Whether the numbers of several margins are multiplied, and not added.
    """

    formula: Formula
    margins: Sequence[MarginTable]
    product: bool

    def tables(self) -> list[str]:
        """The tables as common table expressions."""
        return [f"{one.name} AS ({one.select()})" for one in self.margins]

    def create(self) -> list[str]:
        """Statements that create the tables."""
        return [f"CREATE TABLE {one.name} AS {one.select()}" for one in self.margins]

    def joins(self) -> str:
        """The joins of the rows with the tables."""
        return " ".join(one.join() for one in self.margins)

    @property
    def keys(self) -> list[str]:
        """The columns that define the groups of any margin, each once."""
        return list(dict.fromkeys(key for one in self.margins for key in one.keys))

    def numbers(self) -> dict[str, str]:
        """The number of each class, as an expression."""
        operator = " * " if self.product else " + "
        k = self.formula.n_classes
        return {f"w{j}": operator.join(f"({one.number(j)})" for one in self.margins) for j in range(k)}


@dataclass(frozen=True)
class MarginTable:
    """The table of one margin.

    Attributes
    ----------
    name : str
        The table, quoted.
    alias : str
    keys : list of str
        The columns that define the groups.
    labels : list of tuples
    values : array of shape (groups, k)
    default : array of shape (k,), optional
        For rows of other groups; without it, they are NULL.
    dialect : str
    """

    name: str
    alias: str
    keys: Sequence[str]
    labels: Sequence[Label]
    values: FloatArray
    default: FloatArray | None
    dialect: str

    @property
    def prefix(self) -> str:
        """The beginning of the names of the columns with numbers, with which no key begins."""
        return unused_name(_COLUMN, "\n".join(self.keys))

    @property
    def _columns(self) -> list[KeyColumn]:
        return [KeyColumn(key, [label[i] for label in self.labels], self.dialect) for i, key in enumerate(self.keys)]

    def select(self) -> str:
        """The rows of the table. Not VALUES, which some databases do not have or do not let name its columns."""
        rows, literals = [], [column.literals() for column in self._columns]
        for i, values in enumerate(self.values):
            fields = [f"{of[i]} AS {identifier(key)}" for key, of in zip(self.keys, literals, strict=True)]
            fields += [f"{number(value)} AS {identifier(f'{self.prefix}{j}')}" for j, value in enumerate(values)]
            rows.append(f"SELECT {', '.join(fields)}")
        if len(rows) <= _AT_ONCE:
            return " UNION ALL ".join(rows)
        parts = [" UNION ALL ".join(rows[i : i + _AT_ONCE]) for i in range(0, len(rows), _AT_ONCE)]
        return " UNION ALL ".join(f"SELECT * FROM ({part}) AS part{i}" for i, part in enumerate(parts))

    def join(self) -> str:
        """The join of the rows, whose alias is t, with the table."""
        same = " AND ".join(column.condition(self.alias) for column in self._columns)
        return f"LEFT JOIN {self.name} AS {self.alias} ON {same or '1 = 1'}"

    def number(self, j: int) -> str:
        """The number of a class for the group of a row."""
        column = f"{self.alias}.{identifier(f'{self.prefix}{j}')}"
        return column if self.default is None else f"COALESCE({column}, {number(self.default[j])})"


def shift_tables(
    result: GroupedResult, unseen: str, shift_table: Any, table: Sequence[str], dialect: str
) -> ShiftTables:
    """The tables of a result with groups.

    Parameters
    ----------
    result : GroupedResult
    unseen : "null" or "pooled"
        What rows of groups that were not there in the fit become: NULL, or they get the mean shift of all groups.
    shift_table : str or list of str, optional
        Name of the tables; that of a second margin ends in "_2".
    table : list of str
        The parts of the name of the table with the predictions.
    dialect : str
    """
    if unseen not in ("null", "pooled"):
        raise BadOption(f"{_UNSEEN} must be 'null' or 'pooled', not {quoted_name(unseen)}", options=[_UNSEEN])
    margins = result.groups.margins
    for group, model in result.groups.models.items():
        if model.limit_levels is not None:
            which = quoted_group(margins[0].keys, margins[0].labels[group])
            raise BadGroups(
                f"the rates of {which} are only reached by an infinite shift, because some probabilities are 0, which "
                "a table of shifts cannot express; fit with zeros=1e-6"
            )
    formula = Formula.of(result, np.zeros(result.model.n_classes), _POSSIBLE)
    if not isinstance(formula.row_map, (Reweighting, Translation, Projection)):
        raise BadLoss(
            "rates per group can be exported to SQL for Log, Brier and WeightedBrier, not for "
            f"{short_name(result.loss)}"
        )
    product = isinstance(formula.row_map, Reweighting)
    names = _names(shift_table, table, len(margins))
    tables = [
        _table(result, i, margin, unseen, name, dialect)
        for i, (margin, name) in enumerate(zip(margins, names, strict=True))
    ]
    if product:
        _check_range(margins)
    return ShiftTables(formula, tables, product)


def _names(shift_table: Any, table: Sequence[str], n_margins: int) -> list[str]:
    """The names of the tables of shifts, quoted. None of them is the name of the table with the predictions."""
    own = [unused_name(_TABLE, "\n".join(table))] if shift_table is None else table_parts(shift_table, _SHIFT_TABLE)
    names = [[*own[:-1], f"{own[-1]}_{i + 1}" if i else own[-1]] for i in range(n_margins)]
    # "main.t" and "t" may be one table, so names are compared from their ends.
    for name in names:
        n = min(len(name), len(table))
        if [part.lower() for part in name[-n:]] == [part.lower() for part in table[-n:]]:
            raise BadOption(
                f"{_SHIFT_TABLE} would create the table {quoted_name('.'.join(name))}, but this is the table with the "
                "predictions; choose another name",
                options=[_SHIFT_TABLE],
            )
    return [table_name(name) for name in names]


def _table(result: GroupedResult, i: int, margin: MarginResult, unseen: str, name: str, dialect: str) -> MarginTable:
    shift, labels, default = margin.centred_shift, list(margin.labels), None
    if labels and margin.keys and None in labels[-1]:  # rows that are not in the table of rates
        shift, labels, default = shift[:-1], labels[:-1], shift[-1:]
    elif unseen == "pooled":
        default = margin.pooled_shift[None]
    check_case(margin.keys, labels, dialect)
    return MarginTable(
        name=name,
        alias=f"g{i + 1}",
        keys=checked_names(margin.keys, "a column with groups"),
        labels=labels,
        values=_numbers(result, shift),
        default=None if default is None else _numbers(result, default)[0],
        dialect=dialect,
    )


def _numbers(result: GroupedResult, shift: FloatArray) -> FloatArray:
    """The weights (log loss) or offsets of each class, for the shifts of some groups, shape (groups, k)."""
    rows = []
    for row in shift:
        with np.errstate(invalid="ignore"):
            row_map = row_map_of(result.model, row)
        if isinstance(row_map, Reweighting):
            rows.append(np.exp(row - row.max()))
        else:
            assert isinstance(row_map, (Translation, Projection))
            rows.append(np.clip(row_map.offset, _EXCLUDED, -_EXCLUDED))
    return np.array(rows).reshape(-1, result.model.n_classes)


def _check_range(margins: Sequence[MarginResult]) -> None:
    """Raise if the product of the weights of some groups might be too small for a double."""
    finite = [np.where(np.isfinite(margin.shift), margin.shift, np.nan) for margin in margins]
    widest = sum(float(np.nanmax(np.nanmax(one, axis=1) - np.nanmin(one, axis=1))) for one in finite if one.size)
    if widest > WIDEST_RANGE:
        raise BadGroups(
            f"the shifts of a group differ by up to {widest:.4g}, so that the weight of a class is below "
            f"exp(-{WIDEST_RANGE:g}), which cannot be exported; fit with zeros=1e-6, or correct the rates"
        )
