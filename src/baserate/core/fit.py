"""From a problem to its shift: a short list of named steps over one explicit state.

Newton's method alone solves most problems. Hard zeros can make rates impossible or push the solution to infinity, and a
loss that is flat at 0 can put it between two floating-point numbers. Each of these cases has a step of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from baserate.core import sampling
from baserate.core.coupling import is_coupled
from baserate.core.curvature_choice import FEW_CLASSES
from baserate.core.dual import Dual, Survey, Written
from baserate.core.feasibility import Blockage, diagnose
from baserate.core.fit_messages import infeasible_rates, warn_not_converged
from baserate.core.newton import Point, Solution, Target, newton_step
from baserate.core.search import Names, Search, Start, Stop, search_from
from baserate.core.start import nearer_start
from baserate.errors import BadLoss, BaserateError
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.threads import single_threaded_blas

PLAIN_PASSES = 50
"""Passes after which a loss that is flat at 0 is softened."""

LARGEST_SHARE = 1e-8
"""The largest share of Brier loss in a solution."""

EASY_PASSES = 15
"""A problem that takes more passes than this is not an easy one, and is left to the general steps."""

_SAMPLE_STOP = Stop(sampling.TOLERANCE, 50)
_CORRECTIONS = 3  # Corrections of an extrapolated solution, each a pass.
_FEW_VALUES, _FEW_PRODUCTS = 1 << 13, 1 << 18  # OpenBLAS uses one thread up to these sizes of vectors and matrices.
_NEARBY_PASSES = 20  # Passes after which the search for a nearby solution starts from the mean again.
_SMALLER_SHARE_PASSES = 30  # For each smaller share, if there is a solution already.


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
    keep_rows: bool,
    quietly: bool = False,
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
    keep_rows : bool
        Whether the adjusted rows are wanted, and not only the shift.
    quietly : bool
        Whether not to warn if the tolerance is not reached: for one of many groups, which are reported together.
    """
    if survey is None and present is None and keep_rows:
        easy = solve_easy_problem(dual, stop)
        if easy is not None:
            return easy
    with single_threaded_blas(unless=_needs_no_limit(dual)):
        search = begin(dual, stop, names, survey=survey, present=present, keep_rows=keep_rows)
        if search.has_pinned_zeros:
            search = drop_unpredicted_classes(search)
        search = search_shift(search)
        if search.has_pinned_zeros:
            search = follow_to_limit(search)
        if not np.isfinite(search.found.point.value):
            raise BadLoss(f"{dual.model.loss!r} maps these predictions to values that are not finite")
        if dual.model.loss.flat_at_zero and not search.found.converged:
            search = soften_flat_loss(search)
        search = write_rows(search)
        if search.found.extrapolated:
            search = check_extrapolation(search)
    assert search.written is not None
    n_passes = search.found.n_passes + search.other_passes
    fitted = Fit(search.dual, search.survey, search.found, search.written, n_passes)
    if not (quietly or fitted.solution.converged):
        warn_not_converged(fitted.solution, fitted.dual.model, stop)
    return fitted


def solve_easy_problem(dual: Dual, stop: Stop) -> Fit | None:
    """Solve and write an easy problem with exact rates by the passes themselves, if they offer that.

    A large problem starts from the solution for a sample of its rows.
    """
    rows, model = dual.rows, dual.model
    exact = dual.kept_rate_set.is_point and model.keeps_all_classes
    if not (exact and rows.in_memory and dual.passes.solves(rows) and stop.max_passes >= EASY_PASSES):
        return None
    size = sampling.sample_size(rows.n_rows, smooth=model.loss.pins_zeros)
    sample = None if size is None else rows.sample(size)
    solved = dual.solve_in_one_block(Target(stop.tol, stop.max_passes), sample)
    if solved is None:
        return None
    written = Written.of(solved.written)
    solution = Solution(dual.written_point(solved.shift, written), solved.n_passes - 2, converged=True)
    return Fit(dual, Survey.of(solved.survey), solution, written, solved.n_passes)


def _needs_no_limit(dual: Dual) -> bool:
    """Whether BLAS may use its own number of threads: on a device, or for so few numbers that it uses one thread."""
    rows = dual.rows
    if rows.array_module != "numpy":
        return len(dual.model.kept_classes) > FEW_CLASSES
    # The limit would take longer than some of the passes, and the first one in a process several times as long.
    return rows.n_values <= _FEW_VALUES and rows.n_values * rows.n_classes <= _FEW_PRODUCTS


def begin(
    dual: Dual,
    stop: Stop,
    names: Names = None,
    *,
    survey: Survey | None = None,
    present: tuple[FloatArray, FloatArray] | None = None,
    keep_rows: bool = True,
) -> Search:
    """Survey the rows, and decide where to start: at a present shift, at the solution of a sample, or at the mean."""
    n_surveys = int(survey is not None)
    # With many classes a sample has few rows per class, and its solution is no better than the start from the mean.
    if present is None and len(dual.model.kept_classes) > 1 and not dual.uses_products:
        size = sampling.sample_size(dual.rows.n_rows, smooth=dual.model.loss.pins_zeros)
        sample = None if size is None else dual.rows.sample(size)
        if size is not None and sample is None and survey is None:
            survey, n_surveys = dual.survey(), 1  # an engine may collect a sample during its first pass
            sample = dual.rows.sample(size)
        guide = None if sample is None else solve_sample(dual.with_rows(sample))
        if guide is not None:
            survey, start = _start_at(dual, survey, guide)
            return Search(dual, survey, stop, names, keep_rows, start, other_passes=n_surveys)
    if survey is None:
        survey, n_surveys = dual.survey(), 1
    search = Search(dual, survey, stop, names, keep_rows, other_passes=n_surveys)
    if present is None or len(dual.model.kept_classes) == 1:
        return search
    shift = nearer_start(dual.model, dual.kept_rate_set, search.mean_start, present)
    return replace(search, start=Start(shift))


def solve_sample(dual: Dual) -> Point | None:
    """The solution for a sample of the rows, itself started from a smaller one; None if it is no guide."""
    try:
        search = begin(dual, _SAMPLE_STOP)
        if dual.model.loss.pins_zeros and (search.kept_mean == 0).any():
            return None
        start = search.start
        if start.at is None and len(dual.model.kept_classes) > FEW_CLASSES:
            start = Start(dual.evaluate(search.survey, search.mean_start.shift), order=1, learned=True)
        solution = search_from(search, start, search.stop)
    except BaserateError:  # raised again with the right row number when all rows are read
        return None
    return solution.point if solution.converged else None


def _start_at(dual: Dual, survey: Survey | None, guide: Point) -> tuple[Survey, Start]:
    """Evaluate all rows at the solution of a sample, and survey them in the same pass if that is still to be done."""
    many = len(dual.model.kept_classes) > FEW_CLASSES
    # With kinks the curvature changes so much from step to step that using it again costs more passes than it saves.
    learned = many or (dual.passes.reuses_curvature and dual.model.loss.pins_zeros)
    # With kinks the curvature of a sample is too rough; and if the mean of the sample is possible, it has none.
    borrowed = many and dual.model.loss.pins_zeros and bool(guide.curvature.any())
    if survey is None:
        survey, point = dual.first(guide.shift, curvature=not borrowed)
    else:
        point = dual.evaluate(survey, guide.shift, curvature=not borrowed)
    if borrowed:
        point = replace(point, curvature=guide.curvature)
    return survey, Start(point, order=1 if learned else 2, learned=learned)


def drop_unpredicted_classes(search: Search) -> Search:
    """Leave out classes to which no row gives probability, if the rates allow that."""
    if search.kept_mean.all():
        return search
    search, _ = _check_feasible(search)
    model = search.dual.model
    unpredicted = np.zeros(model.n_classes, dtype=bool)
    unpredicted[model.kept_classes[search.kept_mean == 0]] = True
    rest = np.setdiff1d(model.kept_classes, np.flatnonzero(unpredicted))
    return search.with_model(search.dual.rate_set.without(unpredicted), kept_classes=rest)


def search_shift(search: Search) -> Search:
    """Newton's method on all rows."""
    if search.dual.kept_rate_set.is_curved and not search.dual.model.keeps_all_classes:
        search = _try_without_shift(search)
        if search.solution is not None:
            return search
    start, stop, is_flat = search.start, search.stop, search.dual.model.loss.flat_at_zero
    if search.has_pinned_zeros or is_flat:
        # On the way to a limit at infinity the error falls for ever, and under a flat loss it stops falling.
        start = start._replace(order=0)
    return replace(search, solution=search_from(search, start, stop.at_most(PLAIN_PASSES) if is_flat else stop))


def _try_without_shift(search: Search) -> Search:
    """Without the dropped classes, the mean may already lie in the ball.

    Newton's method would only come close to that solution, because the support function has a kink there.
    """
    point = search.dual.evaluate(search.survey, np.zeros_like(search.kept_mean))
    is_solution = Target(search.stop.tol, search.stop.max_passes).satisfied(point)
    solution = Solution(point, n_passes=0, converged=True) if is_solution else None
    return replace(search, solution=solution, other_passes=search.other_passes + 1)


def follow_to_limit(search: Search) -> Search:
    """If hard zeros push the solution to infinity, solve for its limit."""
    solution = search.found
    if solution.converged and is_coupled(search.dual, search.survey, solution.point):
        return search
    search, levels = _check_feasible(search, solution.point.shift)
    if levels is None:
        return search
    at_limit = search.with_model(limit_levels=levels)
    limit = search_from(at_limit, Start(order=0), search.stop)  # another problem, so it has its own number of passes
    n_passes = solution.n_passes + limit.n_passes
    # Labels of a class that gets no probability would have an infinite loss, so the limit is wrong if there are any.
    unreached = bool(((limit.point.mean == 0) & (at_limit.dual.kept_rate_set.low > 0)).any())
    if limit.converged and not unreached:
        return replace(at_limit, solution=replace(limit, n_passes=n_passes))
    return replace(search, solution=replace(solution, n_passes=n_passes), other_passes=at_limit.other_passes)


def soften_flat_loss(search: Search) -> Search:
    """If a loss is so flat at 0 that no floating-point shift is exact, solve with a trace of Brier loss added."""
    plain = search.found
    if plain.n_passes >= search.stop.max_passes:
        return search
    soft = _follow_softening(search, search.stop.after(plain.n_passes))
    solution = soft.found
    # A larger share costs more of the guarantee than it is worth.
    arrived = soft.dual.model.softness <= LARGEST_SHARE
    if arrived and (solution.converged or solution.point.residual < plain.point.residual):
        return replace(soft, solution=replace(solution, n_passes=plain.n_passes + solution.n_passes))
    return replace(search, other_passes=soft.other_passes)


def _follow_softening(search: Search, stop: Stop) -> Search:
    """Follow the solution of ``loss + share * Brier`` while the share falls, as long as the tolerance can be met.

    The smaller the share, the less it costs of the guarantee, but the more digits of the shift matter.
    """
    best, shift, evaluations = None, None, 0
    for n_surveys, share in enumerate(shares(stop.tol), start=1):
        search = search.with_model(softness=share)
        left, is_small = stop.after(evaluations + n_surveys - 1), share <= LARGEST_SHARE
        if best is not None:
            left = left.at_most(_SMALLER_SHARE_PASSES)
        start = Start(shift, order=0)  # The error is lost in rounding long before it falls as predicted.
        solution = search_from(search, start, left if is_small else Stop(1e-6, left.max_passes))
        shift, evaluations = solution.point.shift, evaluations + solution.n_passes
        if is_small and (best is None or solution.converged):
            best = replace(search, solution=solution)
        if (is_small and not solution.converged) or evaluations + n_surveys >= stop.max_passes:
            break
    if best is None:
        best = replace(search, solution=replace(solution, converged=False))
    return replace(best, solution=replace(best.found, n_passes=evaluations), other_passes=search.other_passes)


def shares(tol: float) -> Iterator[float]:
    """Shares of Brier loss that fall by factors of 10, to 1e-10 or to the tolerance if that is smaller.

    They do not end at a larger tolerance, because the guarantee would fall with the share, by up to twice as much.
    """
    smallest = min(max(tol, 1e-12), 1e-10)
    for exponent in range(4, 13):
        yield max(10.0**-exponent, smallest)
        if 10.0**-exponent <= smallest:
            return


def write_rows(search: Search) -> Search:
    """Write the adjusted rows, or only measure them if they are not wanted."""
    write = search.dual.write if search.keep_rows else search.dual.measure
    return replace(search, written=write(search.found.point.shift), other_passes=search.other_passes + 1)


def check_extrapolation(search: Search) -> Search:
    """Check an extrapolated solution at its written rows; if it is not accurate, correct it or continue the search."""
    target, stop = Target(search.stop.tol, search.stop.max_passes), search.stop
    most = search.found.n_passes + _CORRECTIONS
    while True:
        solution = search.found
        assert search.written is not None
        point = search.dual.written_point(solution.point.shift, search.written)
        if target.satisfied(point):
            return search
        point = replace(point, curvature=solution.point.curvature)
        shift = newton_step(point, search.dual.kept_rate_set)
        if point.residual > 1e3 * stop.tol or solution.n_passes >= most or not np.isfinite(shift).all():
            break
        # The rows had to be written to see it, but one step with the curvature at hand is usually all that is missing.
        corrected = replace(solution, point=replace(point, shift=shift), n_passes=solution.n_passes + 1)
        search = write_rows(replace(search, solution=corrected, other_passes=search.other_passes - 1))
    return write_rows(_search_again(search))


def _search_again(search: Search) -> Search:
    """Continue from an extrapolated solution that is not accurate; if that fails, from the mean again."""
    solution, stop = search.found, search.stop
    survey, point = search.dual.first(solution.point.shift)  # a survey, too: scratch memory holds the written rows
    search = replace(search, survey=survey)
    used = solution.n_passes
    again = search_from(search, Start(point, order=0), stop.after(used).at_most(_NEARBY_PASSES))
    if not again.converged and used + again.n_passes < stop.max_passes:
        used += again.n_passes
        again = search_from(search, Start(order=0), stop.after(used))
    return replace(search, solution=replace(again, n_passes=used + again.n_passes))


def _check_feasible(search: Search, shift: FloatArray | None = None) -> tuple[Search, IndexArray | None]:
    """Raise if hard zeros make the rates impossible; else the levels of a limit at infinity, if it is one."""
    found = diagnose(search.dual, search.survey, shift)
    if isinstance(found, Blockage):
        raise infeasible_rates(search.dual, search.names, found)
    return replace(search, other_passes=search.other_passes + 1), found
