"""Combinations of groups: which ones occur among the rows, and which one each row has.

A row has one value in each key column. The different combinations of values are numbered, so that everything that is
computed about groups is computed once per combination, and rows only carry a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from baserate.errors import BadGroups
from baserate.inputs.group_columns import CodedValues
from baserate.support.arrays import FloatArray, IndexArray, sum_by

_WAITING = 1 << 18  # Combinations of parts that wait to be joined.
_DENSE = 1 << 22  # Combinations are numbered by a table if it has at most this many entries.


class Combinations(NamedTuple):
    """The combinations of groups that occur among the rows.

    Attributes
    ----------
    keys : tuple
        Names of the key columns.
    values : tuple of lists
        The different values of each key column.
    codes : int array of shape (U, number of keys)
        Position of the value of each combination in each key column; -1 where it is missing.
    n_rows : int array of shape (U,)
    weight, squared_weight : array of shape (U,)
        Sums of the weights, which sum to 1 over all rows, and of their squares.
    """

    keys: tuple[Any, ...]
    values: tuple[list[Any], ...]
    codes: IndexArray
    n_rows: IndexArray
    weight: FloatArray
    squared_weight: FloatArray

    @classmethod
    def of(
        cls, keys: Sequence[Any], columns: Sequence[CodedValues], all_rows: int, weights: FloatArray | None
    ) -> tuple[Combinations, IndexArray]:
        """The combinations of rows in memory, and the number of the combination of each row."""
        codes, at = _numbered_values(columns) or numbered([column.codes for column in columns], all_rows)
        n_rows = np.bincount(at, minlength=len(codes))
        weight, squared = n_rows / n_rows.sum(), n_rows / float(n_rows.sum()) ** 2
        if weights is not None:
            weight, squared = (sum_by(at, w, len(codes)) for w in (weights, weights**2))
        return cls(tuple(keys), tuple(column.values for column in columns), codes, n_rows, weight, squared), at

    @classmethod
    def joined(cls, parts: Sequence[Combinations]) -> Combinations:
        """The combinations of several parts of the rows, whose weights sum to 1 together."""
        keys = parts[0].keys
        values: tuple[dict[Any, int], ...] = tuple({} for _ in keys)
        codes = []
        for part in parts:
            new = [_translation(own, known) for own, known in zip(part.values, values, strict=True)]
            codes.append(
                np.stack([table[part.codes[:, j]] for j, table in enumerate(new)], axis=1) if new else part.codes
            )
        found, at = numbered(np.concatenate(codes).T, sum(len(part.codes) for part in parts))

        def summed(sums: list[Any]) -> FloatArray:
            return sum_by(at, np.concatenate(sums), len(found))

        n_rows = summed([part.n_rows for part in parts]).astype(np.intp)
        weight, squared = summed([part.weight for part in parts]), summed([part.squared_weight for part in parts])
        return cls(keys, tuple(map(list, values)), found, n_rows, weight, squared)

    @classmethod
    def collected(cls, parts: Iterable[Combinations]) -> Combinations:
        """The same for parts that arrive one by one. They are joined in between, so that they take little memory."""
        waiting: list[Combinations] = []
        for part in parts:
            waiting.append(part)
            if sum(len(one.codes) for one in waiting) > max(_WAITING, 2 * len(waiting[0].codes)):
                waiting = [cls.joined(waiting)]
        return cls.joined(waiting)

    def groups_by(self, keys: Sequence[Any]) -> tuple[list[tuple[Any, ...]], IndexArray]:
        """The labels of the different groups by some key columns, and the number of the group of each combination."""
        which = [self.keys.index(key) for key in keys]
        codes, at = numbered(self.codes[:, which].T, len(self.codes))
        first = np.empty(len(codes), dtype=np.intp)
        first[at] = np.arange(len(at))
        return self.labels(first, which), at

    def labels(self, at: IndexArray, which: Sequence[int]) -> list[tuple[Any, ...]]:
        """The values of some combinations in some key columns; None where a value is missing."""
        columns = [[None if c < 0 else self.values[j][c] for c in self.codes[at, j].tolist()] for j in which]
        return list(zip(*columns, strict=True)) if columns else [()] * len(at)


@dataclass(frozen=True, eq=False)
class CombinationIndex:
    """Finds the combination of rows that are read in pieces.

    Attributes
    ----------
    positions : tuple of dict
        The position of each value of each key column.
    levels : tuple of arrays
        For each key column, the increasing numbers of the combinations of the columns up to this one.
    order : int array of shape (U,)
        The number of each combination, in the order of the last level.
    """

    positions: tuple[dict[Any, int], ...]
    levels: tuple[IndexArray, ...]
    order: IndexArray

    @classmethod
    def of(cls, combinations: Combinations) -> CombinationIndex:
        """The index of these combinations."""
        positions = tuple({value: i for i, value in enumerate(values)} for values in combinations.values)
        numbers, levels = np.zeros(len(combinations.codes), dtype=np.intp), []
        for j, known in enumerate(positions):
            keys = _extended(numbers, combinations.codes[:, j], len(known))
            levels.append(np.unique(keys))
            numbers = np.searchsorted(levels[-1], keys)
        order = np.empty(len(numbers), dtype=np.intp)
        order[numbers] = np.arange(len(numbers))
        return cls(positions, tuple(levels), order)

    def find(self, columns: Sequence[CodedValues], n_rows: int) -> IndexArray:
        """The number of the combination of each row."""
        numbers: IndexArray | None = None
        for column, known, level in zip(columns, self.positions, self.levels, strict=True):
            table = np.array([*(known.get(value, -2) for value in column.values), -1], dtype=np.intp)
            if numbers is None:  # the values of the first column are few, so they are found before the rows are
                numbers = _found(level, table + 1)[column.codes]
            else:
                numbers = _found(level, _extended(numbers, table[column.codes], len(known)))
            if numbers.min(initial=0) < 0:
                raise BadGroups("the groups were changed while they were read; adjust the rows again")
        return np.zeros(n_rows, dtype=np.intp) if numbers is None else self.order[numbers]


def _found(level: IndexArray, keys: IndexArray) -> IndexArray:
    """The positions of keys in an increasing list; -1 where they are not in it."""
    n_keys = int(level[-1]) + 1
    if n_keys > max(_DENSE, len(keys)):
        at = np.minimum(np.searchsorted(level, keys), len(level) - 1)
        return np.where(level[at] == keys, at, -1)
    table = np.full(n_keys + 1, -1, dtype=np.intp)  # not a search: it takes longer than reading the rows
    table[level] = np.arange(len(level))
    return table[np.where((keys < 0) | (keys > n_keys), n_keys, keys)]


def _extended(numbers: IndexArray, codes: IndexArray, n_values: int) -> IndexArray:
    """One number for the combination of the columns so far, and the value of the next one; -1 is a missing value."""
    return numbers * (n_values + 1) + codes + 1


def numbered(columns: Sequence[IndexArray] | IndexArray, n_rows: int) -> tuple[IndexArray, IndexArray]:
    """The different combinations of codes from -1 on, one per row of an array, and the number of each row's one.

    Parameters
    ----------
    columns : sequence of int arrays of shape (n,)
        May be empty.
    n_rows : int
    """
    numbers, n_numbers = np.zeros(n_rows, dtype=np.intp), 1
    for column in columns:
        n_values = int(column.max(initial=-1)) + 1
        keys = column + 1 if n_numbers == 1 else _extended(numbers, column, n_values)
        numbers, n_numbers = _dense_numbers(keys, n_numbers * (n_values + 1))
    first = np.empty(n_numbers, dtype=np.intp)
    first[numbers] = np.arange(n_rows)  # some row of each combination
    return np.stack([*(column[first] for column in columns), first], axis=1)[:, :-1], numbers


def _numbered_values(columns: Sequence[CodedValues]) -> tuple[IndexArray, IndexArray] | None:
    """The same for one column whose values all occur and are never missing: its codes are the numbers already."""
    if len(columns) != 1 or columns[0].codes.min(initial=0) < 0:
        return None
    n_values, codes = len(columns[0].values), columns[0].codes
    occurs = np.zeros(n_values, dtype=bool)
    occurs[codes] = True
    return (np.arange(n_values)[:, None], codes) if occurs.all() else None


def _dense_numbers(keys: IndexArray, bound: int) -> tuple[IndexArray, int]:
    """Numbers from 0 on without gaps, in the order of the keys, and how many there are."""
    if bound > max(_DENSE, len(keys)):
        found, numbers = np.unique(keys, return_inverse=True)
        return numbers.astype(np.intp), len(found)
    present = np.zeros(bound, dtype=bool)  # not np.unique: sorting many rows takes longer than all the rest
    present[keys] = True
    return (np.cumsum(present) - 1)[keys], int(present.sum())


def _translation(values: list[Any], known: dict[Any, int]) -> IndexArray:
    """The codes of values among all that are known, to which new ones are added; the last entry is for missing ones."""
    return np.array([*(known.setdefault(value, len(known)) for value in values), -1], dtype=np.intp)
