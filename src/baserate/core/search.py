"""The state of the search for the shift, and Newton's method on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np

from baserate.core.curvature_choice import fits_memory
from baserate.core.dual import Dual, Survey, Written
from baserate.core.newton import Point, Solution, Target, maximise
from baserate.core.row_model import NO_CURVATURE
from baserate.core.start import guess, steps_of
from baserate.rates.sets import RateSet
from baserate.support.arrays import MOST_MATRIX_CLASSES, FloatArray

_LEARNED_PASSES = 20  # Passes after which a learned curvature is replaced by one that is summed in every pass.
_PRODUCT_PASSES = 400  # Passes, products included, after which the curvature is computed if it fits into memory.

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
        """A copy with ``max_passes`` reduced by ``used``, but at least 1."""
        return Stop(self.tol, max(self.max_passes - used, 1))

    def at_most(self, n_passes: int) -> Stop:
        """A copy with at most ``n_passes`` passes."""
        return Stop(self.tol, min(self.max_passes, n_passes))


class Start(NamedTuple):
    """Where Newton's method starts, and what it may rely on.

    Attributes
    ----------
    at : array of shape (k,), Point or None
        A shift, a point that has been evaluated already, or None for the solution if all rows were their mean.
    order : int
        The order of convergence to rely on, see :func:`baserate.core.newton.maximise`.
    learned : bool
        Whether the curvature is learned from the steps instead of summed in every pass.
    by_products : bool
        Whether the curvature is multiplied with instead of computed, where that is possible.
    """

    at: FloatArray | Point | None = None
    order: int = 2
    learned: bool = False
    by_products: bool = True


FROM_MEAN = Start()
"""Start from the solution if all rows were their mean."""


def known_solution(shift: FloatArray, rates: FloatArray) -> Solution:
    """A shift that needs no search."""
    k = len(shift)
    curvature = np.zeros((k, k)) if k <= MOST_MATRIX_CLASSES else NO_CURVATURE
    point = Point(shift, 0.0, rates, rates, curvature, 0.0)
    return Solution(point, n_passes=0, converged=True)


@dataclass(frozen=True, eq=False)
class Search:
    """What is known so far in the search for the shift. Each step returns a new state.

    Attributes
    ----------
    dual : Dual
    survey : Survey
        Of the rows under the model of ``dual``.
    stop : Stop
    names : tuple or None
        Class names, for messages.
    keep_rows : bool
        Whether the adjusted rows are wanted, and not only the shift.
    start : Start
    solution : Solution or None
        Its ``n_passes`` counts the evaluations of the dual.
    written : Written or None
        Once it is there, the search is finished.
    other_passes : int
        Passes over all rows that were not evaluations of the dual: surveys, diagnoses, writing.
    """

    dual: Dual
    survey: Survey
    stop: Stop
    names: Names = None
    keep_rows: bool = True
    start: Start = FROM_MEAN
    solution: Solution | None = None
    written: Written | None = None
    other_passes: int = 0

    @property
    def found(self) -> Solution:
        """The solution, in steps that come after it was found."""
        assert self.solution is not None
        return self.solution

    @cached_property
    def kept_mean(self) -> FloatArray:
        """Mean prediction of the kept classes."""
        return self.survey.mean[self.dual.model.kept_classes]

    @property
    def has_pinned_zeros(self) -> bool:
        """Whether there are hard zeros that the loss cannot move."""
        return self.dual.model.loss.pins_zeros and self.survey.n_zeros > 0

    @property
    def ceiling(self) -> float:
        """No dual value can exceed this if the problem has a solution."""
        return self.survey.ceiling * (1 + 1e-9) + 1e-9 if self.dual.model.bounded else np.inf

    @cached_property
    def mean_start(self) -> Point:
        """The solution if all rows were their mean."""
        return guess(self.dual.model, self.dual.kept_rate_set, np.zeros(len(self.kept_mean)), self.kept_mean)

    def with_model(self, rate_set: RateSet | None = None, **changes: object) -> Self:
        """The search on a changed row model, whose rows are surveyed again."""
        model = replace(self.dual.model, **changes)  # type: ignore[arg-type]  # replace checks the names
        dual = Dual.of(self.dual.rows, self.dual.passes.with_model(model), rate_set or self.dual.rate_set)
        return replace(self, dual=dual, survey=dual.survey(), start=FROM_MEAN, other_passes=self.other_passes + 1)


def search_from(search: Search, start: Start, stop: Stop) -> Solution:
    """Newton's method on the rows of a search."""
    dual, survey = search.dual, search.survey
    rate_set, model = dual.kept_rate_set, dual.model
    if len(rate_set.low) == 1:
        return known_solution(np.zeros(1), rate_set.low)
    if model.keeps_all_classes and model.limit_levels is None and rate_set.distance(survey.mean) <= 1e-15:
        return known_solution(np.zeros_like(survey.mean), survey.mean)  # the predictions already have possible rates
    if start.by_products and dual.uses_products:
        return _search_by_products(search, start, stop)
    limit = stop.at_most(_LEARNED_PASSES) if start.learned else stop
    target = Target(limit.tol, limit.max_passes, search.ceiling)
    evaluate = partial(dual.evaluate, survey, curvature=not start.learned)
    at = search.mean_start.shift if start.at is None else start.at
    steps = steps_of(model, rate_set, search.mean_start.wanted, by_products=False)
    solution = maximise(evaluate, at, steps, target, order=start.order, learn=start.learned)
    if not start.learned or solution.converged or solution.n_passes >= stop.max_passes:
        return solution
    rest = search_from(search, Start(solution.point.shift, start.order), stop.after(solution.n_passes))
    return replace(rest, n_passes=solution.n_passes + rest.n_passes)


def _search_by_products(search: Search, start: Start, stop: Stop) -> Solution:
    """Newton's method for many classes, whose passes include the products with the curvature."""
    dual, rate_set, model = search.dual, search.dual.kept_rate_set, search.dual.model
    fits = fits_memory(model)
    limit = stop.at_most(_PRODUCT_PASSES) if fits else stop
    at = search.mean_start.shift if start.at is None else start.at
    shift = at.shift if isinstance(at, Point) else at
    steps = steps_of(model, rate_set, search.mean_start.wanted, by_products=True)
    evaluate = partial(dual.evaluate_by_products, search.survey)
    solution = maximise(evaluate, shift, steps, Target(limit.tol, limit.max_passes, search.ceiling))
    if solution.converged or solution.n_passes >= stop.max_passes or not fits:
        return solution
    rest = search_from(search, Start(solution.point.shift, order=0, by_products=False), stop.after(solution.n_passes))
    return replace(rest, n_passes=solution.n_passes + rest.n_passes)
