"""Adjust rows to rates per group: find the cells of the rows, solve, and state what is guaranteed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from baserate.core.cells.dual import CellDual
from baserate.core.cells.fit import CellFit, fit_cells
from baserate.core.contracts import Engine
from baserate.core.row_model import RowModel
from baserate.errors import BadGroups
from baserate.inputs.validation import quoted
from baserate.passes import choose_passes
from baserate.rates import GroupedRates, Margins, Rates, as_margins, is_grouped
from baserate.result.grouped import GroupedResult
from baserate.result.grouped_certificate import GroupedCertificate
from baserate.result.groups import GroupsResult, MarginResult
from baserate.solving.group_design import GroupDesign, group_design
from baserate.solving.request import DEFAULT_STOP, Request, known_rates
from baserate.support.arrays import FloatArray, sum_by


def solve_groups(request: Request, *, keep_rows: bool = True) -> GroupedResult:
    """Adjust the rows of a request to its rates per group."""
    assert isinstance(request.known, Margins)
    found = group_design(request.known, request.rows.group_combinations(), weighted=request.rows.weighted)
    rows = request.rows.with_cells(found.cell_of_combination, found.design.n_cells)
    passes = choose_passes(request.model, rows, request.kernels)
    if not passes.sums_cells:
        raise BadGroups(f"rates per group are not available with the passes {passes.name!r}")
    dual = CellDual.of(rows, passes, found.design)
    fitted = fit_cells(dual, request.stop, request.known.classes, keep_rows=keep_rows)
    return _result(request, rows, rows.describe(dual.passes), found, fitted, keep_rows=keep_rows)


def solve_groups_again(result: GroupedResult, rates: Any, *, keep_rows: bool = True) -> GroupedResult:
    """Adjust the same rows to other rates of the same groups."""
    assert result.source is not None
    margins = as_margins(rates) if is_grouped(rates) or isinstance(rates, Rates) else same_table(result, rates)
    there = result.source.group_combinations().keys
    if absent := [key for key in margins.keys if key not in there]:
        raise BadGroups(
            f"the rates are given by {quoted(absent)}, but the adjustment only read {quoted(there)}; call adjust again"
        )
    known = known_rates(result.source, margins, result.classes)
    model = replace(result.model, softness=0.0)
    request = Request(result.source.reopen(), model, known, result.bounded, result.stop or DEFAULT_STOP)
    return solve_groups(request, keep_rows=keep_rows)


def same_table(result: GroupedResult, table: Any) -> Margins:
    """A table for the only margin of a result, with the same options."""
    known = result.certificate.known
    assert isinstance(known, Margins)
    if len(known.parts) != 1 or not isinstance(known.parts[0], GroupedRates):
        raise BadGroups(
            f"the adjustment has the margins {', '.join(known.names)}; pass br.Margins(...) with all of them"
        )
    part = known.parts[0]
    options = {name: getattr(part, name) for name in part.options if name != "rounding"}
    rounding = part.rounding or None
    return Margins(GroupedRates.from_table(part.keys, table, classes=None, kind=part.of, rounding=rounding, **options))


def _result(
    request: Request, rows: Engine, engine: str, found: GroupDesign, fitted: CellFit, *, keep_rows: bool
) -> GroupedResult:
    groups = _groups(found, fitted)
    certificate = GroupedCertificate(
        loss_reduction=fitted.loss_reduction,
        gap=fitted.gap,
        residual=fitted.residual,
        sensitivity=np.full(request.model.n_classes, np.nan),
        known=found.known,
        batch_size=rows.n_rows,
        approximate=rows.weighted,
        batch_sizes=found.batch_sizes,
        guarantee_level=groups.guarantee_level,
    )
    first = groups.margins[0]
    return GroupedResult(
        model=_common_model(request, fitted),
        dual_shift=fitted.cell_shifts,
        wanted=first.weight @ np.where(first.known[:, None], first.wanted, first.achieved),
        before=fitted.weights @ np.nan_to_num(fitted.before),
        rates=fitted.weights @ np.nan_to_num(fitted.after),
        certificate=certificate,
        active=(),
        converged=fitted.converged,
        n_passes=fitted.n_passes,
        n_rows=rows.n_rows,
        engine=engine,
        bounded=request.bounded,
        classes=request.known.classes,
        procedure="adjust",
        answer=rows.answer() if keep_rows else None,
        form=rows.form,
        one_column=rows.one_column,
        source=rows,
        stop=request.stop,
        groups=groups,
        cell_groups=found.design.members[0],
    )


def _common_model(request: Request, fitted: CellFit) -> RowModel:
    """The row model of all cells; those of a single margin may also have models of their own."""
    if len(fitted.design.margins) == 1 or not fitted.models:
        return request.model
    return replace(request.model, softness=next(iter(fitted.models.values())).softness)


def _groups(found: GroupDesign, fitted: CellFit) -> GroupsResult:
    """What was done to each group, and what is guaranteed about each component."""
    n = len(fitted.certified)
    inside = fitted.components >= 0  # the other cells are in no group about which something is known
    weight = sum_by(fitted.components[inside], fitted.weights[inside], n)
    n_rows = sum_by(fitted.components[inside], fitted.sizes[inside], n).astype(np.intp)
    fall = np.divide(fitted.certified, weight, out=np.zeros(n), where=weight > 0)
    margins = tuple(_margin(found, fitted, m) for m in range(len(found.design.margins)))
    models = {int(found.design.members[0, cell]): model for cell, model in fitted.models.items()}
    return GroupsResult(margins, fall, weight, n_rows, models if len(margins) == 1 else {})


def _margin(found: GroupDesign, fitted: CellFit, m: int) -> MarginResult:
    margin, part = found.design.margins[m], found.known.parts[m]
    weight, wanted = found.weight[m], fitted.wanted[m]
    before, after = (_mean_of_groups(found, fitted, m, means) for means in (fitted.before, fitted.after))
    own = part.own if isinstance(part, GroupedRates) else {0: part}
    for i, rates in own.items():
        rates.check_batch(before[i])
    if not (margin.low == margin.high).all():
        wanted = np.where(margin.known[:, None], np.clip(after, margin.low, margin.high), after)
    return MarginResult(
        name=margin.name,
        keys=part.keys if isinstance(part, GroupedRates) else (),
        labels=part.labels if isinstance(part, GroupedRates) else [()],
        n_rows=found.n_rows[m],
        component=fitted.group_components[m],
        weight=weight,
        known=margin.known,
        before=before,
        low=margin.low,
        high=margin.high,
        wanted=np.where(margin.known[:, None], wanted, after),
        achieved=after,
        shift=fitted.shifts[m],
    )


def _mean_of_groups(found: GroupDesign, fitted: CellFit, m: int, means: FloatArray) -> FloatArray:
    """The mean over the rows of each group, from the means of its cells."""
    weight = found.weight[m]
    of_cells = fitted.weights[:, None] * np.nan_to_num(means)
    sums = np.stack([sum_by(found.design.members[m], column, len(weight)) for column in of_cells.T], axis=1)
    return np.divide(sums, weight[:, None], out=np.full_like(sums, np.nan), where=weight[:, None] > 0)
