"""One margin, with rows in memory: each group is a problem of its own.

Easy groups with exact rates are solved by compiled code, which gathers the rows of a group once and keeps them in the
cache. Each other group is solved by :func:`baserate.core.fit.fit` on its rows, so that everything that works without
groups works the same way here: hard zeros, limits at infinity, flat losses, bounds, balls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from baserate.core.cells.dual import CellDual, CellSurvey, CellWritten
from baserate.core.cells.group_sets import GroupSets
from baserate.core.cells.groups import Groups
from baserate.core.contracts import CellChunk, Engine, RowsByCell, SolvedCells
from baserate.core.dual import Dual
from baserate.core.fit import EASY_PASSES, Fit, fit
from baserate.core.newton import Target
from baserate.core.row_model import RowModel, kept_classes
from baserate.core.search import Names, Stop, known_solution
from baserate.errors import BaserateError
from baserate.rates.sets import RateSet
from baserate.support.arrays import BoolArray, FloatArray

_FEW_GROUPS = 20  # At most this many difficult groups are solved one by one. Of more, most only need one more step.

LARGEST_GROUP = 1 << 13
"""Groups with at most this many rows are solved by compiled code, in the cache of a core."""


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
    n_passes : int
        The largest number of passes over the rows of a group.
    fits : dict
        The fit of each cell that was not solved by compiled code.
    """

    groups: Groups
    shifts: FloatArray
    survey: CellSurvey
    written: CellWritten
    n_passes: int
    fits: Mapping[int, Fit]

    @property
    def converged(self) -> bool:
        """Whether all groups reached the tolerance."""
        return all(fitted.solution.converged for fitted in self.fits.values())

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

    def put(self, cell: int, weight: float, fitted: Fit) -> None:
        """Fill in the sums of a cell. Those of its fit are divided by its weight."""
        survey, written, into = fitted.survey, fitted.written, self.survey
        into.n_zeros[cell] = survey.n_zeros
        into.mean[cell], into.offset[cell] = weight * survey.mean, weight * survey.offset
        into.ceiling[cell], into.squared_weights[cell] = weight * survey.ceiling, weight**2 / survey.effective_rows
        self.written.divergence[cell], self.written.mean[cell] = weight * written.divergence, weight * written.mean
        self.written.shortfall[cell] = weight * written.shortfall
        self.written.exact_mean[cell] = weight * written.exact_mean

    def put_solved(self, solved: SolvedCells, weights: FloatArray) -> None:
        """Fill in the sums of cells that were solved by compiled code."""
        at = solved.cells
        w, into = weights[at], self.survey
        into.mean[at], into.offset[at] = w[:, None] * solved.before, w * solved.offset
        into.ceiling[at], into.squared_weights[at] = w * solved.ceiling, w**2 * solved.squared_weights
        self.written.divergence[at], self.written.mean[at] = w * solved.divergence, w[:, None] * solved.mean
        self.written.shortfall[at], self.written.exact_mean[at] = w * solved.shortfall, w[:, None] * solved.exact_mean


def solve_partition(dual: CellDual, rows: RowsByCell, stop: Stop, names: Names, *, keep_rows: bool) -> PartitionFit:
    """Solve each group of a single margin on its rows.

    Parameters
    ----------
    dual : CellDual
        With one margin, whose groups are the cells.
    rows : RowsByCell
        The rows of ``dual``.
    stop : Stop
    names : tuple or None
    keep_rows : bool
    """
    groups, k = dual.groups, dual.model.n_classes
    weights, sizes = _weights(dual), np.diff(rows.starts)
    sums, shifts = _Sums(groups.design.n_cells, k), np.zeros((groups.n_groups, k))
    sums.survey.n_rows[:], sums.survey.weight[:] = sizes, weights
    rest, n_passes = sizes > 0, 0
    for order in (2, 0):
        if order == 2 or rest.sum() > _FEW_GROUPS:
            for solved in _sweep(dual, rows, stop, keep_rows, rest, order):
                sums.put_solved(solved, weights)
                shifts[groups.numbers[0, solved.cells]] = solved.shifts
                rest[solved.cells], n_passes = False, max(n_passes, int(solved.n_passes.max(initial=0)))
    found: dict[int, Fit] = {}
    for cell in np.flatnonzero(rest).tolist():
        group = int(groups.numbers[0, cell])
        found[cell] = _fit_group(dual, rows.rows_of_cell(cell), group, stop, names, keep_rows)
        sums.put(cell, float(weights[cell]), found[cell])
        shifts[group][found[cell].dual.model.kept_classes] = found[cell].solution.point.shift
        n_passes = max(n_passes, found[cell].n_passes)
    used = _with_dropped_classes(groups, found)
    return PartitionFit(used, shifts, sums.survey, sums.written, n_passes, found)


def _weights(dual: CellDual) -> FloatArray:
    assert dual.rows.cell_weights is not None  # an engine that has the rows of each cell knows their weights
    return dual.rows.cell_weights


def _sweep(
    dual: CellDual, rows: RowsByCell, stop: Stop, keep_rows: bool, rest: BoolArray, order: int
) -> Iterator[SolvedCells]:
    """Solve the easy groups among those that are left, in compiled code if the passes can do that."""
    number, sets, sizes = dual.groups.numbers[0], dual.groups.sets, np.diff(rows.starts)
    easy = (dual.groups.known & sets.are_points & ((sets.low > 0).sum(axis=1) > 1))[number]
    easy &= rest & (sizes <= LARGEST_GROUP)
    easy &= _weights(dual) > 0
    if not easy.any() or stop.max_passes < EASY_PASSES:
        return
    rates, target = sets.low[number], Target(stop.tol, stop.max_passes)

    def task(chunk: CellChunk) -> SolvedCells | None:
        at = slice(chunk.first, chunk.first + len(chunk.starts) - 1)
        return dual.passes.solve_cells(chunk, rates[at], easy[at], target, store=keep_rows, order=order)

    for solved in rows.map(task):
        if solved is not None:
            yield solved


def _fit_group(dual: CellDual, rows: Engine, group: int, stop: Stop, names: Names, keep_rows: bool) -> Fit:
    """Solve one group like a problem without groups."""
    one = _dual_of_group(dual, rows, group)
    try:
        known = dual.groups.known[group] and _weights(dual)[dual.groups.numbers[0] == group].any()
        fitted = fit(one, stop, names, keep_rows=keep_rows, quietly=True) if known else _unchanged(one, keep_rows)
    except BaserateError as error:
        error.args = (f"{dual.groups.name(group)}: {error}", *error.args[1:])
        raise
    if keep_rows:
        rows.answer()
    return fitted


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
    allowed, low, high = groups.allowed.copy(), groups.sets.low.copy(), groups.sets.high.copy()
    for cell, fitted in found.items():
        group = groups.numbers[0, cell]
        allowed[cell] = False
        allowed[cell, fitted.dual.model.kept_classes] = True
        if groups.known[group]:
            low[group], high[group] = fitted.dual.rate_set.low, fitted.dual.rate_set.high
    return replace(groups, allowed=allowed, sets=GroupSets(low, high, groups.sets.regions))
