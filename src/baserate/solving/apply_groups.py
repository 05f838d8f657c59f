"""Adjust other rows by the shifts of their groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from baserate.core.contracts import Engine, RowPasses
from baserate.core.row_model import RowModel
from baserate.errors import BadGroups, BadOption, Option
from baserate.inputs.group_combinations import Combinations
from baserate.inputs.group_labels import listed_groups
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import quoted_name
from baserate.passes import choose_passes
from baserate.result.grouped import GroupedResult
from baserate.result.groups import MarginResult
from baserate.solving.cell_writer import CellWriter
from baserate.solving.new_rows import answer_in_form, check_whole, open_new_rows
from baserate.support.arrays import FloatArray, IndexArray

_UNSEEN = Option("unseen", "'pooled'")


def apply_group_shifts(result: GroupedResult, source: RowSource, *, unseen: str, whole: bool) -> Any:
    """Adjust other rows by the shifts of a result: one pass over the groups, and one over the rows.

    Parameters
    ----------
    result : GroupedResult
    source : RowSource
    unseen : "raise" or "pooled"
        What is done about groups that were not there in the fit.
    whole : bool
        As in :meth:`baserate.Adjustment.apply`.
    """
    cells = open_cells(result, source, unseen=unseen)
    rows = cells.rows
    if whole:
        check_whole(rows, source)
    rows.write_lazily(CellWriter(cells.passes, cells.shifts, cells.models), cells.passes.block_values)
    return answer_in_form(rows, whole=whole)


class NewCells(NamedTuple):
    """Other rows in cells, each with its shift. A cell is a combination of groups.

    Attributes
    ----------
    rows : Engine
    passes : RowPasses
    combinations : Combinations
    margin_shifts : list of arrays of shape (C, k)
        The shift of each cell in each margin of the result.
    shifts : array of shape (C, k)
        Their sums.
    models : dict
        The row models of cells that need one of their own.
    """

    rows: Engine
    passes: RowPasses
    combinations: Combinations
    margin_shifts: list[FloatArray]
    shifts: FloatArray
    models: dict[int, RowModel]


def open_cells(result: GroupedResult, source: RowSource, *, unseen: str) -> NewCells:
    """Open other rows, and find the shift of each combination of groups."""
    if unseen not in ("raise", "pooled"):
        raise BadOption(f"unseen must be 'raise' or 'pooled', not {quoted_name(unseen)}")
    keys = tuple(dict.fromkeys(key for margin in result.groups.margins for key in margin.keys))
    source = replace(source, group_keys=keys)
    rows, model = open_new_rows(result, source)
    combinations = rows.group_combinations()
    found = [_groups_of(margin, combinations, unseen) for margin in result.groups.margins]
    margin_shifts = [_shifts(margin, at) for margin, at in zip(result.groups.margins, found, strict=True)]
    shifts = np.sum(margin_shifts, axis=0)
    rows = rows.with_cells(np.arange(len(shifts)), len(shifts))
    changes: dict[str, Any] = {"reading": model.reading, "answer_types": rows.answer_types}
    models = {
        int(cell): replace(own, **changes)
        for group, own in result.groups.models.items()
        for cell in np.flatnonzero(found[0] == group)
    }
    return NewCells(rows, choose_passes(model, rows), combinations, margin_shifts, shifts, models)


def _shifts(margin: MarginResult, groups: IndexArray) -> FloatArray:
    """The shift of a margin for each combination of groups, shape (U, k)."""
    return np.concatenate([margin.centred_shift, margin.pooled_shift[None]])[groups]


def _groups_of(margin: MarginResult, combinations: Combinations, unseen: str) -> IndexArray:
    """The number of the group of each combination; the number of all groups if it was not there in the fit."""
    labels, at = combinations.groups_by(margin.keys)
    found = margin.find(labels)
    absent = [label for label, group in zip(labels, found, strict=True) if group is None]
    if absent and unseen == "raise":
        of_absent = np.array([group is None for group in found])[at]
        n_rows = int(combinations.n_rows[of_absent].sum())
        raise BadGroups(
            f"{n_rows:,} row{' is' if n_rows == 1 else 's are'} of groups by {margin.name} that were not there in the "
            f"fit: {listed_groups(margin.keys, absent)}. Nothing is known about them; pass {_UNSEEN} to adjust them by "
            "the mean shift of all groups, or leave these rows out",
            options=[_UNSEEN],
        )
    return np.array([margin.n_groups if group is None else group for group in found], dtype=np.intp)[at]
