"""From a problem to its shift: a list of named steps over one explicit state.

Newton's method alone solves most problems. Hard zeros can make rates impossible or push the solution to infinity, and a
loss that is flat at 0 can put it between two floating-point numbers. Each of these cases has a step of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from baserate.core import sampling
from baserate.core.dual import Dual, Survey, Written
from baserate.core.feasibility import Blockage, diagnose
from baserate.core.newton import Point, Solution, Target, newton_step
from baserate.core.search import Names, Search, Start, Stop, search_from
from baserate.core.start import nearer_start
from baserate.errors import BadLoss, BaserateError, InfeasibleRates, NotConvergedWarning, Option, warn
from baserate.inputs.validation import label
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.threads import single_threaded_blas

EASY_PASSES = 15
"""A small problem that takes more passes than this is not an easy one, and is left to the general steps."""

_CORRECTIONS = 3  # Corrections of an extrapolated solution, each a pass.
_NEARBY_PASSES = 20  # After so many passes, a solution that was thought to be near is searched from the start again.
_MOST_SUMMED = 256  # Up to so many classes every pass sums the curvature; beyond, where a sample was taken, few do.
_PLAIN_PASSES = 50  # After so many passes, a loss that is flat at 0 is softened.
_SHOWN_CLASSES = 5  # Blocked classes that a message names.

_ZEROS, _BRIER = Option("zeros", "1e-6"), Option("loss", '"brier"')
_MAX_PASSES, _TOL = Option("max_passes"), Option("tol")


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted problem.

    Attributes
    ----------
    dual : Dual
        With the row model that was solved in the end.
    survey : Survey
    solution : Solution
    written : Written
    n_passes : int
        Passes over all rows, including those that check and write them.
    """

    dual: Dual
    survey: Survey
    solution: Solution
    written: Written
    n_passes: int


def fit(
    dual: Dual,
    stop: Stop,
    names: Names = None,
    *,
    survey: Survey | None = None,
    present: tuple[FloatArray, FloatArray] | None = None,
    keep_rows: bool = True,
) -> Fit:
    """Find the shift, and write the rows.

    Parameters
    ----------
    dual : Dual
    stop : Stop
    names : tuple, optional
        Class names, for messages.
    survey : Survey, optional
        Of the rows, if it has been made already.
    present : pair of arrays, optional
        A shift of the same rows and their mean at it, to start from.
    keep_rows : bool, default True
        Whether the adjusted rows are wanted, and not only the shift.
    """
    search = Search(dual, stop, names, keep_rows, present, survey, other_passes=int(survey is not None))
    search = solve_small_problem(search)
    if not search.finished:
        with single_threaded_blas():
            for step in STEPS:
                search = step(search)
        _warn_unless_converged(search)
    assert search.written is not None
    return Fit(search.dual, search.surveyed, search.found, search.written, search.n_passes)


def solve_small_problem(search: Search) -> Search:
    """Solve and write a small, easy problem in compiled code, if the passes offer that."""
    rows, dual = search.dual.rows, search.dual
    possible = dual.passes.solves_blocks and rows.in_memory and search.keep_rows and search.present is None
    small = rows.n_rows < 4 * sampling.MIN_ROWS and rows.n_values <= dual.passes.block_values
    if not (possible and small and search.model.keeps_all_classes and search.rate_set.is_point):
        return search
    if search.stop.max_passes < EASY_PASSES:
        return search
    solved = dual.solve_in_one_block(Target(*search.stop))
    if solved is None:
        return search
    written = Written(float(solved.written.divergence), solved.written.mean)
    point = dual.written_point(solved.shift, written)
    solution = Solution(point, solved.n_passes - 2, converged=True)
    survey = Survey.of(solved.survey)
    return replace(search, survey=survey, solution=solution, written=written, other_passes=2)


def start_from_sample(search: Search) -> Search:
    """Start from the solution for a sample of the rows, where that costs little beside the passes that it saves."""
    model, rows = search.model, search.dual.rows
    size = sampling.sample_size(rows.n_rows, smooth=model.loss.pins_zeros)
    if search.present is not None or size is None or len(model.kept_classes) == 1:
        return search
    sample = rows.sample(size)
    if sample is None:
        search = search.with_survey()  # an engine may collect a sample during its first pass
        sample = rows.sample(size)
    if sample is None:
        return search
    try:
        solution = _solve_sample(search.on_sample(sample, Stop(1e-7, 50)))
    except BaserateError:  # raised again with the right row number when all rows are read
        return search
    return search if solution is None else _start_at(search, solution.point)


def _solve_sample(search: Search) -> Solution | None:
    """The solution for a sample, itself started from a smaller one; None if it is no guide."""
    search = start_from_sample(search).with_survey()
    if search.model.loss.pins_zeros and (search.kept_mean == 0).any():
        return None
    start = search.start or _first_start(search, search.mean_start.shift)
    solution = search_from(search, start, search.stop)
    return solution if solution.converged else None


def _start_at(search: Search, guide: Point) -> Search:
    """Evaluate the rows at the solution of a sample, and survey them in the same pass if that is still to be done."""
    many = len(search.model.kept_classes) > _MOST_SUMMED
    # With kinks the curvature of a sample is too rough; and if the mean of the sample is possible, it has none.
    borrowed = many and search.model.loss.pins_zeros and bool(guide.curvature.any())
    survey, point = search.survey, guide
    if survey is None:
        survey, point = search.dual.first(guide.shift, curvature=not borrowed)
    else:
        point = search.dual.evaluate(survey, guide.shift, curvature=not borrowed)
    if borrowed:
        point = replace(point, curvature=guide.curvature)
    return replace(search, survey=survey, start=Start(point, order=1 if many else 2, learned=many))


def _first_start(search: Search, shift: FloatArray) -> Start:
    """A start at a shift; with many classes from a point whose curvature is summed, to be corrected from there."""
    if len(search.model.kept_classes) <= _MOST_SUMMED:
        return Start(shift)
    return Start(search.dual.evaluate(search.surveyed, shift), order=1, learned=True)


def survey_rows(search: Search) -> Search:
    """Check every row, unless that was done in passing."""
    return search.with_survey()


def drop_unpredicted_classes(search: Search) -> Search:
    """Leave out classes to which no row gives probability, if the rates allow that."""
    kept = search.model.kept_classes
    if not search.has_pinned_zeros or search.kept_mean.all():
        return search
    _check_feasible(search)
    search = replace(search, other_passes=search.other_passes + 1)
    unpredicted = np.zeros(search.model.n_classes, dtype=bool)
    unpredicted[kept[search.kept_mean == 0]] = True
    rest = np.setdiff1d(kept, np.flatnonzero(unpredicted))
    return search.with_model(search.dual.rate_set.without(unpredicted), kept_classes=rest).with_survey()


def start_from_present(search: Search) -> Search:
    """Start from a present shift of the same rows, if that is nearer than the predictions themselves."""
    if search.present is None:
        return search
    shift = nearer_start(search.model, search.rate_set, search.kept_mean, search.present)
    return replace(search, start=Start(shift))


def search_shift(search: Search) -> Search:
    """Newton's method on all rows."""
    start = search.start or Start(search.mean_start.shift)
    if search.has_pinned_zeros:
        start = start._replace(order=0)  # On the way to a limit at infinity the error falls for ever.
    stop = search.stop.at_most(_PLAIN_PASSES) if search.model.loss.flat_at_zero else search.stop
    return replace(search, solution=search_from(search, start, stop))


def follow_to_limit(search: Search) -> Search:
    """If hard zeros push the solution to infinity, solve for its limit."""
    solution = search.found
    if search.has_pinned_zeros and not (solution.converged and _is_coupled(solution.point)):
        search = replace(search, other_passes=search.other_passes + 1)
        levels = _check_feasible(search, solution.point.shift)
        if levels is not None:
            search = search.with_model(limit_levels=levels).with_survey()
            start = Start(search.mean_start.shift, order=0)
            limit = search_from(search, start, search.stop)  # another problem, so it has its own number of passes
            search = replace(search, solution=replace(limit, n_passes=solution.n_passes + limit.n_passes))
    if not np.isfinite(search.found.point.value):
        raise BadLoss(f"{search.model.loss!r} maps these predictions to values that are not finite")
    return search


def soften_flat_loss(search: Search) -> Search:
    """If a loss is so flat at 0 that no floating-point shift is exact, solve with a trace of Brier loss added."""
    plain = search.found
    if not search.model.loss.flat_at_zero or plain.converged or plain.n_passes >= search.stop.max_passes:
        return search
    soft = _follow_softening(search, search.stop.after(plain.n_passes))
    solution = soft.found
    # With a larger share than the smallest, softening costs more of the guarantee than it is worth.
    arrived = soft.model.softness <= _smallest_share(search.stop)
    if arrived and (solution.converged or solution.point.residual < plain.point.residual):
        return replace(soft, solution=replace(solution, n_passes=plain.n_passes + solution.n_passes))
    return replace(search, other_passes=soft.other_passes)


def _follow_softening(search: Search, stop: Stop) -> Search:
    """Follow the solution of ``loss + share * Brier`` while the share falls to the tolerance."""
    smallest = _smallest_share(stop)
    shift, used, share = None, 0, max(1e-4, smallest)
    while True:
        last = share == smallest
        search = search.with_model(softness=share).with_survey()
        left = stop.after(used)
        start = Start(search.mean_start.shift if shift is None else shift)
        solution = search_from(search, start, left if last else Stop(1e-6, left.max_passes))
        shift, used = solution.point.shift, used + solution.n_passes + 1
        if last or used >= stop.max_passes:
            solution = replace(solution, n_passes=used, converged=solution.converged and last)
            return replace(search, solution=solution)
        share = max(share / 10, smallest)


def _smallest_share(stop: Stop) -> float:
    return max(stop.tol, 1e-12)


def write_and_correct(search: Search) -> Search:
    """Write the rows. If the solution was extrapolated, check it there, and correct it or continue the search."""
    search = _write(search, search.found.point.shift)
    if not search.found.extrapolated:
        return search
    target, stop = Target(*search.stop), search.stop
    most = search.found.n_passes + _CORRECTIONS
    while True:
        solution = search.found
        assert search.written is not None
        point = search.dual.written_point(solution.point.shift, search.written)
        point = replace(point, curvature=solution.point.curvature)
        if target.satisfied(point):
            return search
        shift = newton_step(point, search.rate_set)
        if point.residual > 1e3 * stop.tol or solution.n_passes >= most or not np.isfinite(shift).all():
            break
        # The rows had to be written to see it, but one step with the curvature at hand is usually all that is missing.
        corrected = replace(solution, point=replace(point, shift=shift), n_passes=solution.n_passes + 1)
        search = _write(replace(search, solution=corrected, other_passes=search.other_passes - 1), shift)
    search = _search_again(search)
    return _write(search, search.found.point.shift)


def _write(search: Search, shift: FloatArray) -> Search:
    write = search.dual.write if search.keep_rows else search.dual.measure
    return replace(search, written=write(shift), other_passes=search.other_passes + 1)


def _search_again(search: Search) -> Search:
    """Continue from an extrapolated solution that is not accurate; if that fails, from the mean again."""
    solution, stop = search.found, search.stop
    survey, point = search.dual.first(solution.point.shift)  # a survey, too: scratch memory holds the written rows
    search = replace(search, survey=survey)
    used = solution.n_passes
    again = search_from(search, Start(point, order=0), stop.after(used).at_most(_NEARBY_PASSES))
    if not again.converged and used + again.n_passes < stop.max_passes:
        used += again.n_passes
        again = search_from(search, Start(search.mean_start.shift, order=0), stop.after(used))
    return replace(search, solution=replace(again, n_passes=used + again.n_passes))


STEPS = (
    start_from_sample,
    survey_rows,
    drop_unpredicted_classes,
    start_from_present,
    search_shift,
    follow_to_limit,
    soften_flat_loss,
    write_and_correct,
)
"""The general way, in this order. Each step takes the state of the search and returns a new one."""


def _is_coupled(point: Point) -> bool:
    """Whether probability visibly flows between all classes, so that the solution is not a limit at infinity."""
    from scipy.sparse.csgraph import connected_components

    flow = -point.curvature > 1e-6 * np.minimum.outer(point.wanted, point.wanted)
    return bool(connected_components(flow, directed=False, return_labels=False) == 1)


def _check_feasible(search: Search, shift: FloatArray | None = None) -> IndexArray | None:
    """Raise if hard zeros make the rates impossible; else the levels of a limit at infinity, if it is one."""
    found = diagnose(search.dual, search.surveyed, shift)
    if not isinstance(found, Blockage):
        return found
    names = search.names
    who = " and ".join(label(names, int(j)) for j in found.classes[:_SHOWN_CLASSES])
    if len(found.classes) > _SHOWN_CLASSES:
        who += f" and {len(found.classes) - _SHOWN_CLASSES} more"
    least = "" if search.dual.rate_set.is_point else "at least "
    together, them = (" together", "them") if len(found.classes) > 1 else ("", "it")
    raise InfeasibleRates(
        f"{who} would need a mean of {least}{found.wanted:.6g}{together}, but only {found.n_rows} of "
        f"{search.dual.rows.n_rows} rows give {them} a probability above 0, which allows at most "
        f"{found.reachable:.6g}; pass {_ZEROS} to smooth the zeros, choose a loss that can move them ({_BRIER}), or "
        "correct the rates",
        classes=[int(j) if names is None else names[j] for j in found.classes],
        reachable=found.reachable,
        wanted=found.wanted,
        options=[_ZEROS, _BRIER],
    )


def _warn_unless_converged(search: Search) -> None:
    solution = search.found
    if solution.converged:
        return
    point, tol = solution.point, search.stop.tol
    warn(
        NotConvergedWarning(
            f"stopped after {solution.n_passes} passes with the rates off by {point.residual:.2g} (tol={tol:g}) and a "
            f"duality gap of {point.gap:.2g}; raise {_MAX_PASSES} or {_TOL}. The certificate is valid all the same",
            options=[_MAX_PASSES, _TOL],
        )
    )
