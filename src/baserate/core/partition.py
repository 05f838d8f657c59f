"""One margin, with rows in memory: each group is a problem of its own.

The rows are put in the order of their groups once. Each group is then solved by :func:`baserate.core.fit.fit` on its
part of the rows, so that everything that works without groups works the same way here: hard zeros, limits at infinity,
flat losses, bounds, balls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from baserate.core.cell_dual import CellDual, CellSurvey, CellWritten
from baserate.core.contracts import Engine, SortedEngine
from baserate.core.dual import Dual
from baserate.core.fit import Fit, fit_quietly
from baserate.core.group_sets import GroupSets
from baserate.core.groups import Groups
from baserate.core.row_model import RowModel, kept_classes
from baserate.core.search import Names, Stop, known_solution
from baserate.errors import BaserateError
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class PartitionFit:
    """The solutions of all groups.

    Attributes
    ----------
    groups : Groups
        With the classes that were kept in the end.
    shifts : array of shape (G, k)
    survey : CellSurvey
    written : CellWritten
    fits : dict
        The fit of each cell that has rows.
    """

    groups: Groups
    shifts: FloatArray
    survey: CellSurvey
    written: CellWritten
    fits: Mapping[int, Fit]

    @property
    def converged(self) -> bool:
        """Whether all groups reached the tolerance."""
        return all(fitted.solution.converged for fitted in self.fits.values())

    @property
    def n_passes(self) -> int:
        """The largest number of passes over the rows of a group."""
        return max(fitted.n_passes for fitted in self.fits.values())

    @property
    def models(self) -> dict[int, RowModel]:
        """Row models of cells that need one of their own."""
        models = {cell: fitted.dual.model for cell, fitted in self.fits.items()}
        return {cell: model for cell, model in models.items() if model.limit_levels is not None or model.softness}


class _Sums:
    """The sums over the rows of each cell, which are filled group by group."""

    def __init__(self, n_cells: int, k: int) -> None:
        shapes: list[tuple[int, ...]] = [(n_cells,), (n_cells, k)]
        numbers, vectors = (partial(np.zeros, shape) for shape in shapes)
        self.survey = CellSurvey(numbers(), numbers(), vectors(), numbers(), numbers(), numbers(), numbers())
        self.written = CellWritten(numbers(), vectors(), numbers(), vectors())

    def put(self, cell: int, n_rows: int, weight: float, fitted: Fit) -> None:
        """Fill in the sums of a cell. Those of its fit are divided by its weight."""
        survey, written, into = fitted.survey, fitted.written, self.survey
        into.n_rows[cell], into.weight[cell], into.n_zeros[cell] = n_rows, weight, survey.n_zeros
        into.mean[cell], into.offset[cell] = weight * survey.mean, weight * survey.offset
        into.ceiling[cell], into.squared_weights[cell] = weight * survey.ceiling, weight**2 / survey.effective_rows
        self.written.divergence[cell], self.written.mean[cell] = weight * written.divergence, weight * written.mean
        self.written.shortfall[cell] = weight * written.shortfall
        self.written.exact_mean[cell] = weight * written.exact_mean


def solve_partition(dual: CellDual, rows: SortedEngine, stop: Stop, names: Names, *, keep_rows: bool) -> PartitionFit:
    """Solve each group of a single margin on its rows.

    Parameters
    ----------
    dual : CellDual
        With one margin, whose groups are the cells.
    rows : SortedEngine
        The rows of ``dual`` in the order of their cells.
    stop : Stop
    names : tuple or None
    keep_rows : bool
    """
    groups, k = dual.groups, dual.model.n_classes
    assert dual.rows.cell_weights is not None
    weights, sizes = dual.rows.cell_weights, np.diff(rows.starts)
    sums, shifts = _Sums(groups.design.n_cells, k), np.zeros((groups.n_groups, k))
    found: dict[int, Fit] = {}
    for cell in np.flatnonzero(sizes):
        group = int(groups.numbers[0, cell])
        one = _dual_of_group(dual, rows.rows_of_cell(int(cell)), group)
        known = bool(groups.known[group]) and weights[cell] > 0
        try:
            fitted = fit_quietly(one, stop, names, keep_rows=keep_rows) if known else _unchanged(one, keep_rows)
        except BaserateError as error:
            error.args = (f"{groups.name(group)}: {error}", *error.args[1:])
            raise
        sums.put(int(cell), int(sizes[cell]), float(weights[cell]), fitted)
        shifts[group][fitted.dual.model.kept_classes] = fitted.solution.point.shift
        found[int(cell)] = fitted
    return PartitionFit(_with_dropped_classes(groups, found), shifts, sums.survey, sums.written, found)


def _dual_of_group(dual: CellDual, rows: Engine, group: int) -> Dual:
    """The problem of one group; nothing is known about the rates of a group that is not known."""
    rate_set, k = dual.groups.sets.rate_set(group), dual.model.n_classes
    if not dual.groups.known[group]:
        rate_set = RateSet(np.zeros(k), np.ones(k))
    model = replace(dual.model, kept_classes=kept_classes(rate_set, dual.model.bounded))
    return Dual.of(rows, dual.passes.with_model(model), rate_set)


def _unchanged(dual: Dual, keep_rows: bool) -> Fit:
    """The fit of rows that stay as they are."""
    shift, survey = np.zeros(len(dual.model.kept_classes)), dual.survey()
    written = dual.write(shift) if keep_rows else dual.measure(shift)
    return Fit(dual, survey, known_solution(shift, survey.mean[dual.model.kept_classes]), written, n_passes=2)


def _with_dropped_classes(groups: Groups, found: Mapping[int, Fit]) -> Groups:
    """The groups with the classes and rate sets that were used in the end: nothing may predict a class."""
    allowed, low, high = np.zeros_like(groups.allowed), groups.sets.low.copy(), groups.sets.high.copy()
    for cell, fitted in found.items():
        group = groups.numbers[0, cell]
        allowed[cell, fitted.dual.model.kept_classes] = True
        if groups.known[group]:
            low[group], high[group] = fitted.dual.rate_set.low, fitted.dual.rate_set.high
    empty = ~allowed.any(axis=1, keepdims=True)
    sets = GroupSets(low, high, groups.sets.balls)
    return replace(groups, allowed=np.where(empty, groups.allowed, allowed), sets=sets)
