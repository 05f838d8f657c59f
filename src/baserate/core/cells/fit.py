"""From a problem with rates per group to its shifts, and what is guaranteed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from baserate.core.cells.design import CellDesign
from baserate.core.cells.dual import CellDual, CellSurvey, CellWritten
from baserate.core.cells.margin_checks import Counted, check_totals, narrowed, reconciled, separation_check
from baserate.core.cells.newton import Check, accept
from baserate.core.cells.partition import solve_partition
from baserate.core.cells.search import CellSearch, check_extrapolation, search_flat_loss, search_shifts, write_rows
from baserate.core.contracts import RowsByCell
from baserate.core.fit_messages import advice_on_convergence
from baserate.core.row_model import RowModel
from baserate.core.search import Names, Stop
from baserate.errors import BadProbabilities, InfeasibleRates, NotConvergedWarning, warn
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.threads import single_threaded_blas

_CACHE = 1 << 18  # Bytes of sums over cells that stay in the cache while rows of any cell are added.
_MANY_GROUPS = 200  # More groups with bounds are solved at the same time.
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class CellFit:
    """A fitted problem with rates per group.

    Lists have one array per margin. Values that are certified are parts of the fall of the mean loss over all rows, so
    that they add up; divide one by the weight of its component for the fall of the mean loss of that component.

    Attributes
    ----------
    design : CellDesign
    shifts : list of arrays of shape (G, k)
        -inf where a class must not get probability, and 0 for groups about which nothing is known.
    cell_shifts : array of shape (C, k)
        The sum of the shifts of the groups of each cell.
    weights : array of shape (C,)
        They sum to 1.
    sizes : int array of shape (C,)
        Number of rows.
    before, after : array of shape (C, k)
        Mean prediction, and mean of the adjusted rows as they are returned; NaN for cells without weight.
    wanted : list of arrays of shape (G, k)
        The possible rates of each group that its shift supports: those that guarantee least.
    components : int array of shape (C,)
        The component of each cell, for which the guarantee holds; -1 for cells that are in no known group.
    group_components : list of int arrays of shape (G,)
        The component of each group.
    certified : array of shape (n_components,)
        By how much the loss falls at least, as part of the total.
    gap : float
        How much of the fall may be missing, because the solution or the returned rows are not exact.
    residual : float
        Largest difference between an achieved rate of a group and the wanted one.
    converged : bool
    n_passes : int
        Passes over all rows, including those that check and write them.
    survey : CellSurvey
    models : dict
        The row models of cells that need one of their own, by the number of the cell; see ``RowModel.limit_levels``
        and ``RowModel.softness``.
    """

    design: CellDesign
    shifts: list[FloatArray]
    cell_shifts: FloatArray
    weights: FloatArray
    sizes: IndexArray
    before: FloatArray
    after: FloatArray
    wanted: list[FloatArray]
    components: IndexArray
    group_components: list[IndexArray]
    certified: FloatArray
    gap: float
    residual: float
    survey: CellSurvey
    converged: bool = False
    n_passes: int = 0
    models: Mapping[int, RowModel] = field(default_factory=dict)

    @property
    def loss_reduction(self) -> float:
        """By how much the mean loss over all rows falls at least."""
        return float(self.certified.sum())


def fit_cells(dual: CellDual, stop: Stop, names: Names = None, *, keep_rows: bool) -> CellFit:
    """Find the shifts, and write the rows.

    Parameters
    ----------
    dual : CellDual
    stop : Stop
    names : tuple, optional
        Class names, for messages.
    keep_rows : bool
        Whether the adjusted rows are wanted, and not only the shifts.
    """
    counted = Counted(dual.rows.n_rows, dual.rows.weighted)
    if dual.rows.cell_weights is not None and len(dual.design.margins) > 1:
        check_totals(dual.groups, dual.rows.cell_weights, counted, names)
    rows = dual.rows.rows_by_cell(dual.passes) if dual.groups.layout.is_partition else None
    with single_threaded_blas():
        try:
            if rows is None:
                fitted = _fit_sorted(dual, stop, names, counted, keep_rows=keep_rows)
            else:
                fitted = _fit_many(dual, stop, names, counted, keep_rows=keep_rows) or _fit_apart(
                    dual, rows, stop, names, keep_rows=keep_rows
                )
        except (BadProbabilities, InfeasibleRates):
            dual.survey()  # raises first, with the number of the row in the order of the caller, if a row is the reason
            raise
    if not fitted.converged:
        _warn_not_converged(fitted, dual.model, stop)
    return fitted


def _fit_many(dual: CellDual, stop: Stop, names: Names, counted: Counted, *, keep_rows: bool) -> CellFit | None:
    """One margin with many groups that compiled code cannot solve: all of them at the same time.

    One by one, each of them would take about a millisecond. Returns None if there are few, or if this did not succeed.
    """
    groups = dual.groups
    difficult = groups.known if dual.passes.is_default else groups.known & ~groups.sets.are_points
    if difficult.sum() <= _MANY_GROUPS or dual.model.loss.flat_at_zero:
        return None
    try:
        fitted = _fit_sorted(dual, stop, names, counted, keep_rows=keep_rows)
    except (BadProbabilities, InfeasibleRates):  # the search in a single group says which group it is
        return None
    return fitted if fitted.converged else None


def _fit_apart(dual: CellDual, rows: RowsByCell, stop: Stop, names: Names, *, keep_rows: bool) -> CellFit:
    """One margin: each group is a problem of its own."""
    found = solve_partition(dual, rows, stop, names, keep_rows=keep_rows)
    result = _result(dual.with_groups(found.groups), found.survey, found.shifts, found.written)
    return replace(result, converged=found.converged, n_passes=found.n_passes, models=found.models)


def _fit_sorted(dual: CellDual, stop: Stop, names: Names, counted: Counted, *, keep_rows: bool) -> CellFit:
    """Several margins, on a copy of the rows in the order of their cells if that makes passes faster."""
    k, n_cells = dual.model.n_classes, dual.design.n_cells
    large = dual.passes.is_default or 8 * n_cells * k * (k + 2) > _CACHE
    rows = dual.rows.sorted_by_cell(dual.passes) if large and n_cells > 1 else None
    if rows is None:
        return _fit_together(dual, stop, names, counted, keep_rows=keep_rows)
    fitted = _fit_together(dual.with_rows(rows), stop, names, counted, keep_rows=keep_rows)
    if keep_rows:
        rows.answer()
    return fitted


def _fit_together(dual: CellDual, stop: Stop, names: Names, counted: Counted, *, keep_rows: bool) -> CellFit:
    """Find the shifts of all groups at the same time."""
    survey = dual.survey()
    if dual.rows.cell_weights is None:
        check_totals(dual.groups, survey.weight, counted, names)
    groups = dual.groups
    check: Check = accept
    if dual.model.bounded:  # otherwise a class may have a negative mass in a cell
        groups = narrowed(groups, survey.weight, names)
        pinned = dual.model.loss.pins_zeros & (survey.mean == 0)
        check = separation_check(groups, groups.allowed & ~pinned, survey, counted)
    searched = dual.with_groups(reconciled(groups, survey.weight))
    search = CellSearch(searched, survey, stop, check, n_passes=1)
    search = search_flat_loss(search) if dual.model.loss.flat_at_zero else search_shifts(search)
    search = write_rows(search, keep_rows=keep_rows)
    if search.found.extrapolated:
        search = check_extrapolation(search, keep_rows=keep_rows)
    assert search.written is not None
    result = _result(dual.with_groups(groups), survey, search.shifts, search.written)
    model = search.dual.model
    models = dict.fromkeys(range(groups.design.n_cells), model) if model.softness else {}
    return replace(result, converged=search.found.converged, n_passes=search.n_passes, models=models)


def _result(dual: CellDual, survey: CellSurvey, shifts: FloatArray, written: CellWritten) -> CellFit:
    """What is guaranteed for the rows that were written."""
    groups = dual.groups
    weight, group_mean = groups.sum(survey.weight), groups.sum(written.mean)
    per_weight = np.where(weight > 0, weight, 1.0)[:, None]
    wanted = groups.sets.support(shifts, group_mean / per_weight)
    missing = np.where(groups.known[:, None], weight[:, None] * wanted - group_mean, 0.0)
    slack = (shifts * missing).sum(axis=1)
    rounding = 8 * _EPS * (np.abs(shifts) * (weight[:, None] * wanted + np.abs(group_mean))).sum(axis=1)
    certified = groups.cells_per_component(written.divergence - written.shortfall)
    certified += groups.per_component(slack - rounding)
    per_cell = np.where(survey.weight > 0, survey.weight, np.nan)[:, None]
    excluded = groups.known[:, None] & ~groups.free & (weight > 0)[:, None]
    return CellFit(
        design=dual.design,
        shifts=groups.by_margin(np.where(excluded, -np.inf, shifts)),
        cell_shifts=groups.cell_shifts(shifts),
        weights=survey.weight,
        sizes=survey.n_rows.astype(np.intp),
        before=survey.mean / per_cell,
        after=written.mean / per_cell,
        wanted=groups.by_margin(wanted),
        components=groups.component_of_cell,
        group_components=groups.by_margin(groups.component_of_group),
        certified=np.where((certified < 0) & (certified > -1e-12), 0.0, certified),
        gap=float(np.abs(slack).sum() + written.shortfall.sum() + rounding.sum()),
        residual=float((np.abs(missing) / per_weight).max(initial=0.0)),
        survey=survey,
    )


def _warn_not_converged(fitted: CellFit, model: RowModel, stop: Stop) -> None:
    advice, options = advice_on_convergence(model)
    warn(
        NotConvergedWarning(
            f"stopped after {fitted.n_passes} passes with the rates of a group off by {fitted.residual:.2g} "
            f"(tol={stop.tol:g}) and a duality gap of {fitted.gap:.2g}; {advice}. The guarantee is valid "
            "nevertheless",
            options=options,
        )
    )
