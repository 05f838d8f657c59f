"""The state of the search for the shift, and Newton's method on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from baserate.core.contracts import Engine
from baserate.core.dual import Dual, Survey, Written
from baserate.core.newton import Evaluate, Point, Solution, Target, learn_curvature, maximise
from baserate.core.row_model import RowModel
from baserate.core.start import metric, start_from_mean
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray

_LEARNED_PASSES = 20  # After so many passes with a learned curvature, the curvature is summed again.

Names = tuple[Any, ...] | None


class Stop(NamedTuple):
    """When the caller wants to stop.

    Attributes
    ----------
    tol : float
        Largest error of a rate.
    max_passes : int
        Largest number of evaluations of the dual.
    """

    tol: float
    max_passes: int

    def after(self, used: int) -> Stop:
        """The same with the passes that are left after ``used`` ones, at least one."""
        return Stop(self.tol, max(self.max_passes - used, 1))

    def at_most(self, n_passes: int) -> Stop:
        """The same with at most so many passes."""
        return Stop(self.tol, min(self.max_passes, n_passes))


class Start(NamedTuple):
    """Where Newton's method starts, and what it may rely on.

    Attributes
    ----------
    at : array of shape (k,), or Point
        A shift, or a point that has been evaluated already.
    order : int
        The order of convergence to rely on, see :func:`baserate.core.newton.maximise`.
    learned : bool
        Whether the curvature is learned from the steps instead of summed in every pass.
    """

    at: FloatArray | Point
    order: int = 2
    learned: bool = False


@dataclass(frozen=True, eq=False)
class Search:
    """What is known so far in the search for the shift. Each step returns a new state.

    Attributes
    ----------
    dual : Dual
    stop : Stop
    names : tuple or None
        Class names, for messages.
    keep_rows : bool
        Whether the adjusted rows are wanted, and not only the shift.
    present : pair of arrays, optional
        A shift of the same rows and their mean at it, to start from.
    survey : Survey, optional
        Of the rows under the model of ``dual``.
    start : Start, optional
    solution : Solution, optional
        Its ``n_passes`` counts the evaluations of the dual.
    written : Written, optional
        Once it is there, the search is finished.
    other_passes : int
        Passes over all rows that were no evaluations of the dual: surveys, diagnoses, writing.
    """

    dual: Dual
    stop: Stop
    names: Names = None
    keep_rows: bool = True
    present: tuple[FloatArray, FloatArray] | None = None
    survey: Survey | None = None
    start: Start | None = None
    solution: Solution | None = None
    written: Written | None = None
    other_passes: int = 0

    @property
    def model(self) -> RowModel:
        """The row model that is being fitted."""
        return self.dual.model

    @property
    def rate_set(self) -> RateSet:
        """The rate set in the coordinates of the kept classes."""
        return self.dual.kept_rate_set

    @property
    def finished(self) -> bool:
        """Whether the shift is found and its rows are written."""
        return self.written is not None

    @property
    def n_passes(self) -> int:
        """Passes over all rows so far."""
        return self.other_passes + (0 if self.solution is None else self.solution.n_passes)

    @property
    def surveyed(self) -> Survey:
        """The survey, in steps that come after it was made."""
        assert self.survey is not None
        return self.survey

    @property
    def found(self) -> Solution:
        """The solution, in steps that come after it was found."""
        assert self.solution is not None
        return self.solution

    @property
    def kept_mean(self) -> FloatArray:
        """Mean prediction of the kept classes."""
        return self.surveyed.mean[self.model.kept_classes]

    @property
    def has_pinned_zeros(self) -> bool:
        """Whether there are hard zeros that the loss cannot move."""
        return self.model.loss.pins_zeros and self.surveyed.n_zeros > 0

    def with_survey(self) -> Self:
        """The state with a survey; one pass if there is none yet."""
        if self.survey is not None:
            return self
        return replace(self, survey=self.dual.survey(), other_passes=self.other_passes + 1)

    def with_model(self, rate_set: RateSet | None = None, **changes: object) -> Self:
        """The search on a changed row model, whose rows have not been surveyed."""
        model = replace(self.model, **changes)  # type: ignore[arg-type]  # replace checks the names
        passes = self.dual.passes.with_model(model)
        dual = replace(self.dual, passes=passes, rate_set=rate_set or self.dual.rate_set)
        return replace(self, dual=dual, survey=None, start=None, present=None)

    def on_sample(self, rows: Engine, stop: Stop) -> Self:
        """The same search on a sample of the rows."""
        return replace(self, dual=self.dual.with_rows(rows), stop=stop, survey=None, start=None, other_passes=0)

    @cached_property
    def mean_start(self) -> Point:
        """The solution if all rows were their mean."""
        return start_from_mean(self.model, self.rate_set, self.kept_mean)


def known_solution(shift: FloatArray, rates: FloatArray) -> Solution:
    """A shift that needs no search."""
    point = Point(shift, 0.0, rates, rates, np.zeros((len(shift), len(shift))), 0.0)
    return Solution(point, n_passes=0, converged=True)


def search_from(search: Search, start: Start, stop: Stop) -> Solution:
    """Newton's method on the surveyed rows of a search."""
    rate_set, mean, model = search.rate_set, search.surveyed.mean, search.model
    if len(rate_set.low) == 1:
        return known_solution(np.zeros(1), rate_set.low)
    if model.keeps_all_classes and model.limit_levels is None and rate_set.distance(mean) <= 1e-15:
        return known_solution(np.zeros_like(mean), mean)  # the predictions already have possible rates
    ceiling = search.surveyed.ceiling * (1 + 1e-9) + 1e-9 if model.bounded else np.inf
    limit = stop.at_most(_LEARNED_PASSES) if start.learned else stop
    lengths = metric(model, rate_set, search.mean_start.wanted)
    evaluate = _evaluator(search.dual, search.surveyed, start.learned)
    target = Target(limit.tol, limit.max_passes, ceiling)
    solution = maximise(evaluate, start.at, lengths, rate_set, target, order=start.order)
    if not start.learned or solution.converged or solution.n_passes >= stop.max_passes:
        return solution
    rest = search_from(search, Start(solution.point.shift, start.order), stop.after(solution.n_passes))
    return replace(rest, n_passes=solution.n_passes + rest.n_passes)


def _evaluator(dual: Dual, survey: Survey, learned: bool) -> Evaluate:
    def with_sums(shift: FloatArray, previous: Point | None) -> Point:
        return dual.evaluate(survey, shift)

    def with_learned_curvature(shift: FloatArray, previous: Point | None) -> Point:
        assert previous is not None  # such a search starts from a point
        return learn_curvature(dual.evaluate(survey, shift, curvature=False), previous)

    return with_learned_curvature if learned else with_sums
