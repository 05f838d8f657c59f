"""From a posed problem to its shift: the plain climb, and what is done where that is not enough.

Hard zeros can make rates impossible or push the solution to infinity; a loss that is flat at 0 can put it between two
floating-point numbers. Both are told from an ordinary failure, and solved or explained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from baserate.core.feasibility import Blockage, diagnose
from baserate.core.newton import Point, Solution, Target, corrected, solve
from baserate.core.problem import Problem, Written
from baserate.core.secant import Secant
from baserate.errors import BadLoss, BaserateError, InfeasibleRates, NotConvergedWarning, warn
from baserate.inputs.validation import label
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.threads import single_threaded_blas

_SMOOTH_SHARE, _KINKED_SHARE = 64, 16  # One of so many rows is a sample: row maps that have kinks need a better start.
_LEAST_ROWS = 4000  # of a sample
_CORRECTIONS = 3  # of a foretold solution, each a pass
_NEARBY_PASSES = 20  # After so many a solution that was thought near is sought from the start again.
_LEARNT_PASSES = 20  # After so many the curvature is summed after all.
_MOST_SUMMED = 256  # Classes up to which every pass sums the curvature; beyond, where a sample was taken, few do.
_PLAIN_PASSES = 50  # After so many a loss that is flat at 0 is softened rather than fought.

Names = tuple[Any, ...] | None


class Stop(NamedTuple):
    """When the caller wants to stop."""

    tol: float
    max_passes: int


def fit(
    problem: Problem, names: Names, stop: Stop, present: tuple[FloatArray, FloatArray] | None = None
) -> tuple[Problem, Solution, Written]:
    """Solve and write the rows.

    ``present`` is a shift of the same rows, and their mean under it, to start from.
    """
    if present is None and problem.engine.n_rows < 4 * _LEAST_ROWS:  # too few to take a sample
        done = problem.at_once(Target(*stop))
        if done is not None:
            return problem, *done
    return _the_long_way(problem, names, stop, present)


@single_threaded_blas()
def _the_long_way(
    problem: Problem, names: Names, stop: Stop, present: tuple[FloatArray, FloatArray] | None
) -> tuple[Problem, Solution, Written]:
    """Solve, and if that fails, find out why and solve what can be solved."""
    path = _rehearse(problem) if present is None else None
    pinned = problem.model.loss.pins_zeros and problem.survey.n_zeros > 0
    if pinned and (problem.survey.mean[problem.model.keep] == 0).any():
        _resolve_zeros(problem, names)
        problem, present, path = _without_unpredicted(problem), None, None
    flat = problem.model.loss.flat_at_zero
    if present is not None:
        path = Path(problem.evaluate, _nearer(problem, *present))
    if pinned:  # on the way to a limit at infinity the error falls for ever
        path = (path or Path(problem.evaluate, problem.start.shift))._replace(order=0)
    solution = _climb(problem, Stop(stop.tol, min(stop.max_passes, _PLAIN_PASSES)) if flat else stop, path)
    if pinned and not (solution.converged and _coupled(solution.point)):
        levels = _resolve_zeros(problem, names, solution.point.shift)
        if levels is not None:
            problem = problem.with_model(levels=levels)
            path = Path(problem.evaluate, problem.start.shift, order=0)
            again = _climb(problem, stop, path)  # another problem, so it gets its own passes
            solution = replace(again, n_passes=solution.n_passes + again.n_passes)
    if not np.isfinite(solution.point.value):
        raise BadLoss(f"{problem.model.loss!r} maps these predictions to values that are not finite")
    if flat and not solution.converged and solution.n_passes < stop.max_passes:
        softened, softer = _soften(problem, _left(stop, solution.n_passes))
        # Before the smallest share is reached, softening costs more guarantee than it is worth.
        arrived = softened.model.softness <= _smallest_share(stop)
        if arrived and (softer.converged or softer.point.residual < solution.point.residual):
            problem, solution = softened, replace(softer, n_passes=solution.n_passes + softer.n_passes)
    written = problem.finish(solution.point.shift)
    if solution.foretold:
        problem, solution, written = _as_foretold(problem, stop, solution, written)
    if not solution.converged:
        point = solution.point
        message = (
            f"stopped after {solution.n_passes} passes with the rates off by {point.residual:.2g} (tol={stop.tol:g}) "
            f"and a duality gap of {point.gap:.2g}; raise max_passes or tol. What the certificate guarantees holds"
        )
        warn(NotConvergedWarning(message))
    return problem, solution, written


class Path(NamedTuple):
    """How to climb a problem."""

    evaluate: Callable[[FloatArray], Point]
    start: FloatArray | Point
    order: int = 2
    """How fast the error will fall, see :func:`baserate.core.newton.solve`; 0 if nobody should rely on it."""


def _rehearse(problem: Problem) -> Path | None:
    """A path from the solution for a sample of the rows, where that is cheap beside the passes that it saves."""
    model = problem.model
    n = problem.engine.n_rows
    size = max(n // (_SMOOTH_SHARE if model.loss.pins_zeros else _KINKED_SHARE), _LEAST_ROWS)
    if n < 4 * size or len(model.keep) == 1:
        return None
    problem.kernel  # noqa: B018  # once it is there for all rows, a sample uses it, too
    engine = problem.engine.sample(size)
    if engine is None:
        problem.survey  # noqa: B018  # which every way begins with, and where an engine may take a sample in passing
        engine = problem.engine.sample(size)
    if engine is None:
        return None
    sample = Problem(engine, model, problem.region)
    try:
        path = _rehearse(sample) or _learning(sample, sample.start.shift)
        if model.loss.pins_zeros and (sample.survey.mean[model.keep] == 0).any():
            return None
        solution = _climb(sample, Stop(1e-7, 50), path)
    except BaserateError:  # it is told with the number of the row when all are read
        return None
    if not solution.converged:
        return None
    kept = len(model.keep)
    if kept <= _MOST_SUMMED:
        return Path(problem.evaluate, problem.evaluate(solution.point.shift))
    # With kinks a sample's curvature is too rough; and one whose mean is possible as it is has none to give.
    if not model.loss.pins_zeros or not solution.point.curvature.any():
        return _learning(problem, solution.point.shift)
    secant = Secant(partial(problem.evaluate, curved=False), solution.point.curvature)
    return Path(secant, secant(solution.point.shift), order=1)


def _learning(problem: Problem, start: FloatArray) -> Path:
    """From a start with, where there are many classes, the curvature that is there."""
    if len(problem.model.keep) <= _MOST_SUMMED:
        return Path(problem.evaluate, start)
    first = problem.evaluate(start)
    return Path(Secant(partial(problem.evaluate, curved=False), first.curvature, first), first, order=1)


def _as_foretold(
    problem: Problem, stop: Stop, solution: Solution, written: Written
) -> tuple[Problem, Solution, Written]:
    """Look whether a foretold solution is one; if it is only close, correct it, and otherwise go on climbing."""
    target = Target(*stop)
    most = solution.n_passes + _CORRECTIONS
    while True:
        point = replace(problem.at(solution.point.shift, written), curvature=solution.point.curvature)
        if target.satisfied(point):
            return problem, solution, written
        shift = corrected(point, problem.kept_rate_set)
        if point.residual > 1e3 * stop.tol or solution.n_passes >= most or not np.isfinite(shift).all():
            break
        # The rows had to be written to see it, but one step with the curvature at hand is usually all that is missing.
        there = replace(point, shift=shift)
        solution = replace(solution, point=there, n_passes=solution.n_passes + 1)
        written = problem.finish(shift)
    problem = problem.anew()  # what the passes share lies where the rows are now
    solution = _climb_again(problem, stop, solution)
    return problem, solution, problem.finish(solution.point.shift)


def _climb_again(problem: Problem, stop: Stop, solution: Solution) -> Solution:
    """Go on from where a foretold solution turned out not to be; if that leads nowhere, from the start again."""
    used = solution.n_passes + 1
    nearby = Path(problem.evaluate, solution.point.shift, order=0)
    again = _climb(problem, Stop(stop.tol, min(_left(stop, used).max_passes, _NEARBY_PASSES)), nearby)
    if not again.converged and used + again.n_passes < stop.max_passes:
        used += again.n_passes
        again = _climb(problem, _left(stop, used), Path(problem.evaluate, problem.start.shift, order=0))
    return replace(again, n_passes=used + again.n_passes)


def _nearer(problem: Problem, shift: FloatArray, mean: FloatArray) -> FloatArray:
    """A start by way of a present shift, unless the way from the predictions is shorter."""
    metric, by_way, direct = problem.metric(), problem.guess(shift, mean).shift, problem.start.shift
    return by_way if _size(by_way - shift, metric) < _size(direct, metric) else direct


def _size(step: FloatArray, metric: FloatArray) -> float:
    return float(step @ metric @ step)


def _left(stop: Stop, used: int) -> Stop:
    return Stop(stop.tol, max(stop.max_passes - used, 1))


def _climb(problem: Problem, stop: Stop, path: Path | None = None) -> Solution:
    region = problem.kept_rate_set
    if len(region.low) == 1:
        return settled(np.zeros(1), region.low)
    mean = problem.survey.mean
    if len(region.low) == len(mean) and problem.model.levels is None and region.distance(mean) <= 1e-15:
        return settled(np.zeros_like(mean), mean)  # possible as it is
    ceiling = problem.survey.ceiling * (1 + 1e-9) + 1e-9 if problem.model.bounded else np.inf
    path = path or Path(problem.evaluate, problem.start.shift)
    learnt = isinstance(path.evaluate, Secant)
    target = Target(stop.tol, min(stop.max_passes, _LEARNT_PASSES) if learnt else stop.max_passes, ceiling)
    solution = solve(path.evaluate, path.start, problem.metric(), region, target, foresee=path.order)
    if not learnt or solution.converged or solution.n_passes >= stop.max_passes:
        return solution
    summed = Path(problem.evaluate, solution.point.shift, order=path.order)
    again = _climb(problem, _left(stop, solution.n_passes), summed)
    return replace(again, n_passes=solution.n_passes + again.n_passes)


def settled(shift: FloatArray, rates: FloatArray) -> Solution:
    """A shift that needs no search."""
    point = Point(shift, 0.0, rates, rates, np.zeros((len(shift), len(shift))), 0.0)
    return Solution(point, n_passes=0, converged=True)


def _soften(problem: Problem, stop: Stop) -> tuple[Problem, Solution]:
    """Follow the solution of ``loss + share * Brier`` while the share falls to the tolerance."""
    smallest = _smallest_share(stop)
    shift, passes, share = None, 0, max(1e-4, smallest)
    while True:
        last = share == smallest
        problem = problem.with_model(softness=share)
        left = _left(stop, passes)
        path = None if shift is None else Path(problem.evaluate, shift)
        solution = _climb(problem, left if last else Stop(1e-6, left.max_passes), path)
        shift, passes = solution.point.shift, passes + solution.n_passes + 1
        if last or passes >= stop.max_passes:
            return problem, replace(solution, n_passes=passes, converged=solution.converged and last)
        share = max(share / 10, smallest)


def _smallest_share(stop: Stop) -> float:
    return max(stop.tol, 1e-12)


def _coupled(point: Point) -> bool:
    """Whether probability visibly flows between all classes, so that the solution is no limit at infinity."""
    from scipy.sparse.csgraph import connected_components

    flow = -point.curvature > 1e-6 * np.minimum.outer(point.wanted, point.wanted)
    return bool(connected_components(flow, directed=False, return_labels=False) == 1)


def _without_unpredicted(problem: Problem) -> Problem:
    """Drop the classes to which no row gives probability; the region must allow that."""
    keep = problem.model.keep
    absent = np.zeros(problem.model.n_classes, dtype=bool)
    absent[keep[problem.survey.mean[keep] == 0]] = True
    rest = replace(problem.model, keep=np.setdiff1d(keep, np.flatnonzero(absent)))
    return Problem(problem.engine, rest, problem.region.without(absent))


def _resolve_zeros(problem: Problem, names: Names, shift: FloatArray | None = None) -> IndexArray | None:
    found = diagnose(problem, shift)
    if not isinstance(found, Blockage):
        return found
    who = " and ".join(label(names, int(j)) for j in found.classes[:5])
    if len(found.classes) > 5:
        who += f" and {len(found.classes) - 5} more"
    least = "" if problem.region.is_point else "at least "
    together = " together" if len(found.classes) > 1 else ""
    raise InfeasibleRates(
        f"{who} would need mean {least}{found.wanted:.6g}{together}, but only {found.n_rows} of "
        f"{problem.engine.n_rows} rows give {'them' if together else 'it'} a probability above 0, which allows at most "
        f"{found.reachable:.6g}; pass "
        'zeros=1e-6 to smooth the zeros, choose a loss that can move them ("brier"), or correct the rates',
        classes=[int(j) if names is None else names[j] for j in found.classes],
        reachable=found.reachable,
        wanted=found.wanted,
    )
