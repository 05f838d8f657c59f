"""The dual function of rows with rates per group, and its values.

With the shifts ``lam`` of the groups, of shape (G, k), and ``s_c`` the shift of a cell, the sum over its groups:

    g(lam) = sum_i w_i [ conj(eta_i) - conj(eta_i + s_c(i)) ] + sum_g W_g h_g(lam_g)
    h_g(l)     = min over the possible rates t of the group of <l, t>
    gradient   of a group: W_g t_g - sum over its cells of the mean (weighted sums, not divided by the weight)
    curvature  D' diag(J_c) D

Every value is a guarantee, in total and for each component; see :class:`baserate.core.cells.groups.Groups`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from baserate.core.cells.design import CellDesign
from baserate.core.cells.groups import Groups
from baserate.core.cells.sums import CellDualSums, CellSurveySums, CellWrittenSums, fold_cells
from baserate.core.contracts import Engine, RowPasses
from baserate.core.row_model import RowModel
from baserate.support.arrays import BoolArray, FloatArray

_EPS = float(np.finfo(np.float64).eps)


class CellSurvey(NamedTuple):
    """What the first pass learns about the rows of each cell.

    Attributes
    ----------
    n_rows : array of shape (C,)
    weight : array of shape (C,)
        They sum to 1.
    mean : array of shape (C, k)
        Weighted sum of the predictions, not divided by the weight.
    offset : array of shape (C,)
        ``sum_i w_i conj(eta_i)``, from which the dual is measured.
    n_zeros : array of shape (C,)
        Hard zeros among the predictions, for losses that cannot move them.
    ceiling : array of shape (C,)
        No primal objective can exceed this.
    squared_weights : array of shape (C,)
    """

    n_rows: FloatArray
    weight: FloatArray
    mean: FloatArray
    offset: FloatArray
    n_zeros: FloatArray
    ceiling: FloatArray
    squared_weights: FloatArray

    @classmethod
    def of(cls, sums: CellSurveySums) -> CellSurvey:
        """The survey of all rows from its sums."""
        return cls(sums.n_rows, sums.weight, sums.mean, sums.offset, sums.zeros, sums.ceiling, sums.squared_weights)


@dataclass(frozen=True, eq=False)
class CellPoint:
    """The dual function at the shifts of all groups.

    Attributes
    ----------
    groups : Groups
    weight : array of shape (G,)
        The weight of each group.
    shifts : array of shape (G, k)
    mean : array of shape (C, k)
        Weighted sum of the adjusted rows of each cell.
    curvature : array of shape (C, k, k)
    wanted : array of shape (G, k)
        The possible rates of each group that its shift supports.
    value, noise : array of shape (n_components,)
        The dual function of each component, and how far rounding may have moved it.
    group_mean : array of shape (G, k)
        Weighted sum of the adjusted rows of each group.
    gradient : array of shape (G, k)
    errors : array of shape (G,)
        Largest error of a rate in each group.
    gap : array of shape (n_components,)
    """

    groups: Groups
    weight: FloatArray
    shifts: FloatArray
    mean: FloatArray
    curvature: FloatArray
    wanted: FloatArray
    value: FloatArray
    noise: FloatArray
    group_mean: FloatArray

    gradient: FloatArray = field(init=False)
    errors: FloatArray = field(init=False)
    gap: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        gradient = np.where(self.groups.free, self.weight[:, None] * self.wanted - self.group_mean, 0.0)
        errors = np.abs(gradient).max(axis=1) / np.where(self.weight > 0, self.weight, 1.0)
        gap = np.abs(self.groups.per_component((self.shifts * gradient).sum(axis=1)))
        for name, value in (("gradient", gradient), ("errors", errors), ("gap", gap)):
            object.__setattr__(self, name, value)  # the way to set a derived field of a frozen dataclass

    @property
    def residual(self) -> float:
        """Largest error of a rate of any group."""
        return float(self.errors.max(initial=0.0))

    def merged(self, other: CellPoint, take: BoolArray) -> CellPoint:
        """Take the components ``take`` from another point, and the others from this one."""
        if take.all():
            return other
        if not take.any():
            return self
        of_cell = take[self.groups.component_of_cell] & (self.groups.component_of_cell >= 0)
        of_group = take[self.groups.component_of_group]
        return replace(
            self,
            shifts=np.where(of_group[:, None], other.shifts, self.shifts),
            mean=np.where(of_cell[:, None], other.mean, self.mean),
            curvature=np.where(of_cell[:, None, None], other.curvature, self.curvature),
            wanted=np.where(of_group[:, None], other.wanted, self.wanted),
            value=np.where(take, other.value, self.value),
            noise=np.where(take, other.noise, self.noise),
            group_mean=np.where(of_group[:, None], other.group_mean, self.group_mean),
        )


class CellWritten(NamedTuple):
    """Sums over the adjusted rows of each cell; see :class:`baserate.core.cells.sums.CellWrittenSums`."""

    divergence: FloatArray
    mean: FloatArray
    shortfall: FloatArray
    exact_mean: FloatArray

    @classmethod
    def of(cls, sums: CellWrittenSums) -> CellWritten:
        """Without the numbers of the cells."""
        return cls(*sums[1:])


def cell_point(
    groups: Groups, weight: FloatArray, shifts: FloatArray, offset: FloatArray, sums: CellDualSums
) -> CellPoint:
    """The dual function at some shifts, from the sums of a pass."""
    group_mean = groups.sum(sums.mean)
    near = group_mean / np.where(weight > 0, weight, 1.0)[:, None]
    finite = np.isfinite(near).all(axis=1, keepdims=True)
    wanted = groups.sets.support(shifts, np.where(finite, near, groups.sets.low))
    support = weight * (shifts * wanted).sum(axis=1)
    value = groups.cells_per_component(offset - sums.conjugate) + groups.per_component(support)
    size = groups.cells_per_component(sums.magnitude + np.abs(offset)) + groups.per_component(weight + np.abs(support))
    value = np.where(np.isfinite(value), value, -np.inf)
    return CellPoint(groups, weight, shifts, sums.mean, sums.curvature, wanted, value, _EPS * size, group_mean)


@dataclass(frozen=True, eq=False)
class CellDual:
    """The dual function of the rows that an engine holds.

    ``survey``, ``evaluate``, ``write`` and ``measure`` each take one pass over the rows.

    Attributes
    ----------
    rows : Engine
        Its blocks have cells.
    passes : RowPasses
    groups : Groups
    model : RowModel
        With all classes.
    """

    rows: Engine
    passes: RowPasses
    groups: Groups
    model: RowModel

    @classmethod
    def of(cls, rows: Engine, passes: RowPasses, design: CellDesign) -> CellDual:
        """The dual function of some rows."""
        return cls(rows, passes, Groups.of(design, bounded=passes.model.bounded), passes.model)

    @property
    def design(self) -> CellDesign:
        """Margins, and the groups of each cell."""
        return self.groups.design

    def survey(self) -> CellSurvey:
        """Check every row, and sum what does not depend on the shift."""
        return CellSurvey.of(self._sum(partial(self.passes.survey_cells, allowed=self.groups.allowed)))

    def evaluate(self, survey: CellSurvey, shifts: FloatArray) -> CellPoint:
        """The dual at the shifts of the groups, for rows that were surveyed and not written since."""
        sums = self._sum(partial(self.passes.reduce_cells, shifts=self.groups.cell_shifts(shifts)))
        point = cell_point(self.groups, self.groups.sum(survey.weight), shifts, survey.offset, sums)
        self.rows.progress.residual(point.residual)
        return point

    def write(self, shifts: FloatArray) -> CellWritten:
        """Write the adjusted rows."""
        task = partial(self.passes.write_cells, shifts=self.groups.cell_shifts(shifts))
        return CellWritten.of(self._sum(task, write=True))

    def measure(self, shifts: FloatArray) -> CellWritten:
        """What :meth:`write` returns, without keeping the rows."""
        task = partial(self.passes.measure_cells, shifts=self.groups.cell_shifts(shifts))
        return CellWritten.of(self._sum(task))

    def with_rows(self, rows: Engine) -> CellDual:
        """The dual of the same rows in another engine."""
        return replace(self, rows=rows)

    def with_groups(self, groups: Groups) -> CellDual:
        """The dual with other rate sets or other allowed classes."""
        return replace(self, groups=groups)

    def with_model(self, model: RowModel) -> CellDual:
        """The dual with a changed model of the same rows."""
        return replace(self, passes=self.passes.with_model(model), model=model)

    def _sum(self, task: Any, *, write: bool = False) -> Any:
        return fold_cells(self.rows, task, self.design.n_cells, self.passes.block_values, write=write)
