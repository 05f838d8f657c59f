"""Where the search for the shifts of groups starts, and how its steps are measured.

Everything here is computed from one mean per cell: the problem is solved as if all rows of a cell were equal.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from baserate.core.cells.dual import CellPoint, CellSurvey, cell_point
from baserate.core.cells.groups import Groups
from baserate.core.cells.newton import CellTarget, maximise
from baserate.core.cells.rows import Segments, dual_sums_by_cell
from baserate.core.cells.sums import CellDualSums, total_by_cell
from baserate.core.row_model import RowModel
from baserate.support.arrays import FloatArray

_START_PASSES = 15  # Evaluations on cells; a start need not be exact.
_MOST_CELLS = 0.25  # With more cells than this share of the rows, the start would cost as much as it saves.


def starting_shifts(model: RowModel, groups: Groups, survey: CellSurvey, metric: FloatArray) -> FloatArray:
    """The solution if all rows of a cell were their mean, or 0 where that does not help."""
    zero = np.zeros((groups.n_groups, groups.n_classes))
    n_cells, n_rows = np.count_nonzero(survey.n_rows), survey.n_rows.sum()
    if n_cells <= 1 or n_cells > max(_MOST_CELLS * n_rows, 50):
        return zero
    present = np.flatnonzero(survey.weight > 0)
    means = survey.mean[present] / survey.weight[present, None]
    eta = model.solved_loss.link(means)
    offset = np.zeros(groups.design.n_cells)
    offset[present] = survey.weight[present] * model.solved_loss.conjugate(eta, means)
    segments = Segments(None, np.arange(len(present)), present)
    sums = partial(dual_sums_by_cell, model, eta, survey.weight[present], segments)
    weight = groups.sum(survey.weight)

    def evaluate(shifts: FloatArray) -> CellPoint:
        of_cells: CellDualSums = total_by_cell([sums(groups.cell_shifts(shifts))], groups.design.n_cells)
        return cell_point(groups, weight, shifts, offset, of_cells)

    found = maximise(evaluate, evaluate(zero), metric, CellTarget(1e-4, _START_PASSES), order=0).point
    good = np.isfinite(found.value) & (found.value > 0)
    return np.where(good[groups.component_of_group][:, None], found.shifts, 0.0)


def metric_of(model: RowModel, groups: Groups, survey: CellSurvey) -> FloatArray:
    """The curvature that each group would have if every row of a cell were its mean, shape (G, k, k)."""
    present = np.flatnonzero(survey.weight > 0)
    least = np.ones(groups.allowed.shape)
    for number in groups.numbers:
        least = np.minimum(least, np.where(groups.known[number][:, None], groups.sets.high[number], 1.0))
    # A class that may be at 0 but need not stay there has to be able to move.
    inside = np.maximum(survey.mean[present] / survey.weight[present, None], 1e-3 * least[present])
    inside = np.where(groups.allowed[present], inside, 0.0)
    inside /= inside.sum(axis=1, keepdims=True)
    out = np.zeros((groups.design.n_cells, groups.n_classes, groups.n_classes))
    segments = Segments(None, np.arange(len(present)), present)
    shifts = np.where(groups.allowed, 0.0, -np.inf)
    # The Jacobian at the mean itself: the row map of its dual point.
    with np.errstate(divide="ignore"):
        eta = model.solved_loss.link(inside)
    out[present] = dual_sums_by_cell(model, eta, survey.weight[present], segments, shifts).curvature
    return groups.sum(out)
