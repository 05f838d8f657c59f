"""The search for the shifts of all groups at the same time, and the rows that are written at its end.

Each step returns a new :class:`CellSearch`, which also counts the passes over all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from baserate.core.cell_dual import CellDual, CellPoint, CellSurvey, CellWritten, cell_point
from baserate.core.cell_newton import CellSolution, CellTarget, Check, accept, maximise
from baserate.core.cell_start import metric_of, starting_shifts
from baserate.core.cell_step import newton_step
from baserate.core.cell_sums import CellDualSums
from baserate.core.cell_system import CellSystem
from baserate.core.fit import LARGEST_SHARE, PLAIN_PASSES, shares
from baserate.core.search import Stop
from baserate.support.arrays import FloatArray

_CORRECTIONS = 3  # Corrections of an extrapolated solution, each a pass.
_SHARE_PASSES = 60  # For each share of Brier loss.


@dataclass(frozen=True, eq=False)
class CellSearch:
    """What is known so far.

    Attributes
    ----------
    dual : CellDual
    survey : CellSurvey
    stop : Stop
    check : callable
        Raises if a point shows that the rates are impossible.
    solution : CellSolution or None
    written : CellWritten or None
    n_passes : int
        Passes over all rows.
    """

    dual: CellDual
    survey: CellSurvey
    stop: Stop
    check: Check = accept
    solution: CellSolution | None = None
    written: CellWritten | None = None
    n_passes: int = 0

    @property
    def found(self) -> CellSolution:
        """The solution, in steps that come after it was found."""
        assert self.solution is not None
        return self.solution

    @property
    def shifts(self) -> FloatArray:
        """The shifts that were found."""
        return self.found.point.shifts

    def with_solution(self, solution: CellSolution) -> CellSearch:
        """Add a solution, and count its passes."""
        return replace(self, solution=solution, n_passes=self.n_passes + solution.n_passes)


def search_shifts(search: CellSearch, start: FloatArray | None = None, order: int = 2) -> CellSearch:
    """Newton's method from some shifts, by default from the solution if all rows of a cell were their mean.

    ``order`` is that of :func:`baserate.core.cell_newton.maximise`.
    """
    dual, survey, groups = search.dual, search.survey, search.dual.groups
    metric = metric_of(dual.model, groups, survey)
    shifts = starting_shifts(dual.model, groups, survey, metric) if start is None else start
    evaluate, used = partial(dual.evaluate, survey), 0
    point = evaluate(shifts)
    good = point.value >= 0  # the dual is 0 at shift 0, so a start below that is a bad one
    if shifts.any() and not good.all():
        point, used = evaluate(np.where(good[groups.component_of_group][:, None], shifts, 0.0)), 1
    if dual.model.loss.flat_at_zero or (dual.model.loss.pins_zeros and survey.n_zeros.any()):
        order = 0
    target = CellTarget(search.stop.tol, search.stop.max_passes)
    found = maximise(evaluate, point, metric, target, order=order, check=search.check)
    return search.with_solution(replace(found, n_passes=found.n_passes + used))


def search_flat_loss(search: CellSearch) -> CellSearch:
    """Search under a loss that is flat at 0: plainly, and if that fails with a trace of Brier loss added.

    See :func:`baserate.core.fit.soften_flat_loss`.
    """
    plain = replace(search_shifts(replace(search, stop=search.stop.at_most(PLAIN_PASSES))), stop=search.stop)
    if plain.found.converged or search.stop.max_passes <= PLAIN_PASSES:
        return plain
    soft = _follow_softening(plain)
    if soft is not None and (soft.found.converged or soft.found.point.residual < plain.found.point.residual):
        return soft
    return plain


def _follow_softening(search: CellSearch) -> CellSearch | None:
    """Follow the solution while the share of Brier loss falls, as long as the tolerance can be met."""
    best, shifts, stop = None, None, search.stop
    for share in shares(stop.tol):
        dual = search.dual.with_model(replace(search.dual.model, softness=share))
        search = replace(search, dual=dual, survey=dual.survey(), n_passes=search.n_passes + 1)
        is_small = share <= LARGEST_SHARE
        limit = Stop(stop.tol if is_small else 1e-6, stop.after(search.n_passes).max_passes).at_most(_SHARE_PASSES)
        search = search_shifts(replace(search, stop=limit), shifts, order=0)
        shifts = search.shifts
        if is_small and (best is None or search.found.converged):
            best = search
        if (is_small and not search.found.converged) or search.n_passes >= stop.max_passes:
            break
    return None if best is None else replace(best, stop=stop, n_passes=search.n_passes)


def write_rows(search: CellSearch, *, keep_rows: bool) -> CellSearch:
    """Write the adjusted rows, or only measure them if they are not wanted."""
    written = search.dual.write(search.shifts) if keep_rows else search.dual.measure(search.shifts)
    return replace(search, written=written, n_passes=search.n_passes + 1)


def check_extrapolation(search: CellSearch, *, keep_rows: bool) -> CellSearch:
    """Check an extrapolated solution at its written rows; if it is not accurate, correct it or continue the search."""
    target, groups = CellTarget(search.stop.tol, search.stop.max_passes), search.dual.groups
    for n_corrected in range(_CORRECTIONS + 1):
        point = _written_point(search)
        search = replace(search, solution=replace(search.found, point=point))
        if bool((target.satisfied(point) | (target.error(point) <= target.tol)).all()):
            return search
        if point.residual > 1e3 * target.tol or n_corrected == _CORRECTIONS:
            break
        # The rows had to be written to see it, but one step with the curvature at hand is usually all that is missing.
        curvature = CellSystem.of(groups, point.curvature)
        step = newton_step(point, curvature, np.zeros_like(curvature.damping), np.ones(groups.n_groups, bool), 1e-6)
        corrected = replace(search.found, point=replace(point, shifts=step.shifts))
        search = write_rows(replace(search, solution=corrected), keep_rows=keep_rows)
    survey = search.dual.survey()  # again, because scratch memory holds the written rows
    search = replace(search, survey=survey, n_passes=search.n_passes + 1)
    return write_rows(search_shifts(search, search.shifts, order=0), keep_rows=keep_rows)


def _written_point(search: CellSearch) -> CellPoint:
    """The dual at shifts whose rows were written, with the curvature of the point before."""
    point, survey, groups, written = search.found.point, search.survey, search.dual.groups, search.written
    assert written is not None
    conjugate = survey.offset - written.divergence + ((groups.matrix @ point.shifts) * written.mean).sum(axis=1)
    cells = np.arange(groups.design.n_cells)
    sums = CellDualSums(cells, conjugate, np.abs(conjugate), written.exact_mean, point.curvature)
    return cell_point(groups, point.weight, point.shifts, survey.offset, sums)
