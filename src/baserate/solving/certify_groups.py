"""The guarantee of the shifts of groups on other rows, whose rates are known per group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from baserate.core.cells.group_sets import GroupSets
from baserate.core.cells.sums import fold_cells
from baserate.core.contracts import Block, RowPasses
from baserate.core.fixed_shift import row_bounds
from baserate.core.row_model import RowModel
from baserate.errors import BadGroups
from baserate.inputs.group_labels import Label
from baserate.inputs.reading import Naming
from baserate.inputs.row_source import RowSource
from baserate.rates import GroupedRates, Margins, Rates, as_margins, is_grouped
from baserate.result.grouped import GroupedResult
from baserate.result.grouped_shift_certificate import CertifiedGroups, GroupedShiftCertificate
from baserate.result.population_certificate import RowSample
from baserate.solving.apply_groups import NewCells, open_cells
from baserate.solving.group_design import GroupDesign, group_design
from baserate.solving.grouped import same_table
from baserate.solving.new_rows import names_of_classes
from baserate.solving.request import known_rates
from baserate.support.arrays import FloatArray, IndexArray, sum_by

_EPS = float(np.finfo(np.float64).eps)


def certify_group_shifts(
    result: GroupedResult, source: RowSource, rates: Any, *, unseen: str
) -> GroupedShiftCertificate:
    """What the shifts of a result guarantee on other rows: one pass over the groups, and one over the rows.

    With ``s_i`` the sum of the shifts of the groups of row i, the fall is at least ``sum_i w_i min_j (r_ij - s_ij)``
    plus, for each margin, the sum over its groups of their weight times ``h(lam)``. Rows of a group about which nothing
    is known may have any rates.
    """
    margins = _same_margins(result, rates)
    cells = open_cells(result, source, unseen=unseen)
    rows = cells.rows
    known = known_rates(rows, margins, names_of_classes(result, rows))
    assert isinstance(known, Margins)
    found = group_design(known, cells.combinations, weighted=rows.weighted)
    sums = fold_cells(rows, _CellBounds.of(cells), len(cells.shifts), cells.passes.block_values)
    members = found.design.members[:, found.cell_of_combination]
    parts = [_margin_part(found, m, cells, members[m], sums.after) for m in range(len(members))]
    weight = cells.combinations.weight
    fall = float(sums.least.sum()) + sum(float(part.sum()) for part in parts)
    one_margin = len(parts) == 1
    groups = _certified_groups(found, members[0], sums.least + parts[0], weight) if one_margin else None
    return GroupedShiftCertificate(
        loss_reduction=fall,
        largest_fall=np.inf,
        known=found.known,
        batch_size=rows.n_rows,
        approximate=rows.weighted,
        n_rows=rows.n_rows,
        before=sums.before.sum(axis=0),
        after=sums.after.sum(axis=0),
        loss=result.loss,
        smoothing=result.model.reading.smoothing,
        same_rows=False,
        infinite=(),
        classes=known.classes,
        sample=RowSample.refused("the adjustment has a shift per group; certify the rows of one group by themselves"),
        batch_sizes=found.batch_sizes,
        groups=groups,
    )


def _same_margins(result: GroupedResult, rates: Any) -> Margins:
    """Rates by the columns by which the shifts were fitted, in the same order."""
    wanted = [margin.keys for margin in result.groups.margins]
    names = ", ".join(margin.name for margin in result.groups.margins)
    if isinstance(rates, Rates) and not is_grouped(rates) and any(wanted):
        raise BadGroups(f"the shifts were fitted by {names}, but these are rates of all rows; pass rates by {names}")
    margins = as_margins(rates) if isinstance(rates, Rates) else same_table(result, rates)
    given = [part.keys if isinstance(part, GroupedRates) else () for part in margins.parts]
    if sorted(given, key=str) != sorted(wanted, key=str) or len(set(given)) < len(given):
        raise BadGroups(
            f"the shifts were fitted by {names}, but the rates are given by {', '.join(margins.names)}; pass rates by "
            "the same columns"
        )
    return Margins(*(margins.parts[given.index(keys)] for keys in wanted))


class _CellSums(NamedTuple):
    """Sums of each cell: ``min_j (r_ij - s_ij)``, predictions and adjusted rows."""

    cells: IndexArray
    least: FloatArray
    before: FloatArray
    after: FloatArray


@dataclass(frozen=True, eq=False)
class _CellBounds:
    """A task that computes the sums of the cells of a block."""

    passes: RowPasses
    shifts: FloatArray
    models: Mapping[int, RowModel]
    naming: Naming

    @classmethod
    def of(cls, cells: NewCells) -> _CellBounds:
        return cls(cells.passes, cells.shifts, cells.models, cells.rows.naming)

    def __call__(self, block: Block) -> _CellSums:
        block = replace(block, scratch=None)
        before = self.passes.survey_cells(block, ~np.isneginf(self.shifts))
        sums = self.passes.write_cells(block, self.shifts).sums
        shifts = np.where(np.isneginf(self.shifts[sums.cells]), 0.0, self.shifts[sums.cells])
        least = sums.divergence - (shifts * sums.mean).sum(axis=1) - sums.shortfall
        after = np.array(sums.mean)
        for place, cell in enumerate(sums.cells):
            if int(cell) in self.models:
                least[place], after[place] = self._of_own_model(block, int(cell))
        return _CellSums(sums.cells, least, before.mean, after)

    def _of_own_model(self, block: Block, cell: int) -> tuple[float, FloatArray]:
        """The sums of a cell with a model of its own, such as a limit at infinity."""
        model = self.models[cell]
        assert block.cells is not None
        at = np.flatnonzero(block.cells == cell)
        one = replace(block, rows=block.rows[at], weights=block.weights[at], cells=None)
        shift = self.shifts[cell][model.kept_classes]
        rows = model.adjust_new_rows(one.rows, one.start, self.naming, shift)
        least = row_bounds(replace(model, limit_levels=None), rows, shift)[0]
        return float(one.weights @ np.where(one.weights > 0, least, 0.0)), one.weights @ rows.after


def _margin_part(found: GroupDesign, m: int, cells: NewCells, group: IndexArray, after: FloatArray) -> FloatArray:
    """The weight of each cell times ``h`` of the group that it has in a margin, less what may be rounding.

    The shift of a class of rate 0 is -inf. If the class may occur, nothing is guaranteed.
    """
    margin, weight, lam = found.design.margins[m], cells.combinations.weight, cells.margin_shifts[m]
    excluded = np.isneginf(lam)
    finite = np.where(excluded, 0.0, lam)
    low, high = margin.low[group], margin.high[group]
    regions = {cell: margin.regions[int(g)] for cell, g in enumerate(group) if int(g) in margin.regions}
    near = np.divide(after, weight[:, None], out=np.zeros_like(after), where=weight[:, None] > 0)
    worst = GroupSets(low, high, regions).support(finite, near)
    value = (finite * worst).sum(axis=1) - 8 * _EPS * (np.abs(finite) * (np.abs(worst) + near)).sum(axis=1)
    value[(excluded & (high > 0)).any(axis=1)] = -np.inf
    return np.where(weight > 0, weight * np.where(weight > 0, value, 0.0), 0.0)


def _certified_groups(found: GroupDesign, group: IndexArray, parts: FloatArray, weight: FloatArray) -> CertifiedGroups:
    """What is guaranteed for each group, if no two groups overlap."""
    part = found.known.parts[0]
    n = found.design.margins[0].n_groups
    labels: list[Label] = part.labels if isinstance(part, GroupedRates) else [()]
    keys = part.keys if isinstance(part, GroupedRates) else ()
    total = sum_by(group, weight, n)
    fall = np.divide(sum_by(group, parts, n), total, out=np.zeros(n), where=total > 0)
    return CertifiedGroups(keys, labels, found.n_rows[0], fall)
