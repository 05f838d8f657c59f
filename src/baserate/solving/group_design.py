"""Which groups of each margin the rows belong to, and the cells that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from baserate.core.cells.design import CellDesign, Margin
from baserate.errors import BadGroups, GroupsWarning, Option, warn
from baserate.inputs.group_combinations import Combinations, numbered
from baserate.inputs.group_labels import GroupIndex, GroupNames, Label, listed_groups
from baserate.rates import GroupedRates, Margins
from baserate.support.arrays import FloatArray, IndexArray, sum_by

UNLISTED = Option("Rates.by(..., unlisted='free')")
POPULATION = Option("Rates.by(..., kind='population')")


class GroupDesign(NamedTuple):
    """The cells of some rows.

    Attributes
    ----------
    known : Margins
        What is known, restricted to the groups that have rows. Rows of groups that are not in a table form an
        additional group of it, about which nothing is known; all its values are None.
    design : CellDesign
    cell_of_combination : int array of shape (U,)
    n_rows : tuple of int arrays of shape (G,)
        Number of rows of each group of each margin.
    weight : tuple of arrays of shape (G,)
        Their weights; those of each margin sum to 1.
    batch_sizes : tuple of int arrays of shape (G,)
        The number of rows for which the rates were interpreted; with unequal weights, the effective number.
    """

    known: Margins
    design: CellDesign
    cell_of_combination: IndexArray
    n_rows: tuple[IndexArray, ...]
    weight: tuple[FloatArray, ...]
    batch_sizes: tuple[IndexArray, ...]


class _Table(NamedTuple):
    """A margin: its rates for groups that have rows, and the group of each combination."""

    known: GroupedRates
    group_of: IndexArray
    n_rows: IndexArray
    weight: FloatArray
    batch_size: IndexArray


def group_design(known: Margins, combinations: Combinations, *, weighted: bool) -> GroupDesign:
    """The cells of rows with these combinations of groups.

    Parameters
    ----------
    known : Margins
        For the classes of the rows; see :meth:`Margins.on`.
    combinations : Combinations
    weighted : bool
        Whether rows have unequal weights.
    """
    tables = [_table(table, combinations, weighted=weighted) for table in known.tables]
    members, cells = numbered([table.group_of for table in tables], len(combinations.codes))
    margins = tuple(_margin(name, table) for name, table in zip(known.names, tables, strict=True))
    for table, margin in zip(tables, margins, strict=True):
        _warn_about_single_rows(table, margin)
    restricted = known.with_tables([table.known for table in tables])
    return GroupDesign(
        restricted,
        CellDesign(margins, np.ascontiguousarray(members.T)),
        cells,
        tuple(table.n_rows for table in tables),
        tuple(table.weight for table in tables),
        tuple(table.batch_size for table in tables),
    )


def groups_of(known: GroupedRates, combinations: Combinations) -> tuple[IndexArray, list[Label]]:
    """The number of the group of each combination, -1 if it is not in the table, and the labels that are not."""
    if not known.keys:
        return np.zeros(len(combinations.codes), dtype=np.intp), []
    labels, at = combinations.groups_by(known.keys)
    found = GroupIndex(known.labels).find_all(labels)
    absent = [label for label, group in zip(labels, found, strict=True) if group is None]
    return np.array([-1 if group is None else group for group in found], dtype=np.intp)[at], absent


def _table(known: GroupedRates, combinations: Combinations, *, weighted: bool) -> _Table:
    group_of, absent = groups_of(known, combinations)
    if absent and known.unlisted == "raise":
        raise _unlisted_groups(known, combinations, group_of, absent)
    n_rows = np.bincount(group_of + 1, combinations.n_rows, minlength=known.n_groups + 1).astype(np.intp)
    used = np.flatnonzero(n_rows[1:])
    _warn_about_empty_groups(known, n_rows[1:])
    new = np.full(known.n_groups + 1, len(used), dtype=np.intp)  # the last entry is for rows that are not in the table
    new[used] = np.arange(len(used))
    group_of = new[group_of]
    restricted = known.take(used)
    if absent:
        restricted = restricted.with_unknown_group()
    size, weight, squared = (
        sum_by(group_of, values, restricted.n_groups)
        for values in (combinations.n_rows, combinations.weight, combinations.squared_weight)
    )
    batch_size = size
    if weighted:  # a weighted group varies by chance as much as an unweighted one with fewer rows
        effective = np.divide(weight**2, squared, out=np.ones_like(weight), where=squared > 0)
        batch_size = np.maximum(np.floor(effective * (1 + 1e-9)), 1.0)
    return _Table(restricted, group_of, size.astype(np.intp), weight, batch_size.astype(np.intp))


def _margin(name: str, table: _Table) -> Margin:
    sets = table.known.group_sets(table.batch_size, weighted=bool((table.batch_size != table.n_rows).any()))
    labels = GroupNames(table.known.labels)
    known = sets.known & (table.weight > 0)  # the rates of rows that do not count are no constraint
    return Margin(name, labels, sets.low, sets.high, known, sets.regions)


def _unlisted_groups(
    known: GroupedRates, combinations: Combinations, group_of: IndexArray, absent: Sequence[Label]
) -> BadGroups:
    n_rows = int(combinations.n_rows[group_of < 0].sum())
    missing = [label for label in absent if None in label]
    if missing:
        key = known.keys[missing[0].index(None)]
        of_missing = np.zeros(len(group_of), dtype=bool)
        for j in (combinations.keys.index(key) for key in known.keys):
            of_missing |= combinations.codes[:, j] < 0
        n_missing = int(combinations.n_rows[of_missing].sum())
        return BadGroups(
            f"{_counted(n_missing)} no value of {key!r}; fill in the missing values, or pass {UNLISTED} to assume "
            "nothing about the rates of these rows",
            options=[UNLISTED],
        )
    table = listed_groups(known.keys, known.labels, most=3)
    return BadGroups(
        f"{_counted(n_rows)} groups that are not in the table by {known.name}: {listed_groups(known.keys, absent)}. "
        f"The table has {table}. Add them to the table, with missing values if their rates are not known, or pass "
        f"{UNLISTED} to assume nothing about the rates of all such rows",
        options=[UNLISTED],
    )


def _counted(n_rows: int) -> str:
    return "1 row has" if n_rows == 1 else f"{n_rows:,} rows have"


def _warn_about_empty_groups(known: GroupedRates, n_rows: IndexArray) -> None:
    empty = [known.labels[i] for i in np.flatnonzero(n_rows == 0)]
    if empty:
        groups = f"{len(empty):,} groups have" if len(empty) > 1 else "1 group has"
        warn(GroupsWarning(f"{groups} rates but no rows, which changes nothing: {listed_groups(known.keys, empty)}"))


def _warn_about_single_rows(table: _Table, margin: Margin) -> None:
    exact = (margin.low == margin.high).all(axis=1) & margin.known
    single = [table.known.labels[i] for i in np.flatnonzero((table.n_rows == 1) & exact)]
    if single and table.known.keys:
        groups = f"{len(single):,} groups have a single row" if len(single) > 1 else "1 group has a single row"
        warn(
            GroupsWarning(
                f"{groups} and exact rates: the rates of one row are its label. Join small groups, or pass "
                f"{POPULATION} if these are rates of a population: {listed_groups(table.known.keys, single)}",
                options=[POPULATION],
            )
        )
