"""Solve a request, and state what is guaranteed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from baserate.core.dual import Dual, Survey
from baserate.core.fit import Fit, fit
from baserate.core.row_model import kept_classes
from baserate.core.search import known_solution
from baserate.errors import BadRates
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import class_label
from baserate.passes import choose_passes
from baserate.rates import Rates, RatesLike
from baserate.rates.sets import EffectiveRows, RateSet
from baserate.result.certificate import ActiveBound, Certificate
from baserate.result.record import Result
from baserate.solving.new_rows import answer_in_form, check_whole, open_new_rows
from baserate.solving.request import DEFAULT_STOP, Request, known_rates, parse_request
from baserate.support.arrays import FloatArray

_AT_BOUND = 1e-14  # Rates this close to a bound are at it.
_EPS = float(np.finfo(np.float64).eps)


class _Problem(NamedTuple):
    """The dual of a request, its survey if that had to be made, and the number of rows that the rates are for."""

    dual: Dual
    survey: Survey | None
    batch_size: int


def adjusted(probs: Any, rates: RatesLike, *, keep_rows: bool = True, **options: Any) -> Result:
    """Bounded or unbounded adjustment; takes the options of :func:`baserate.adjust`."""
    request = parse_request(probs, rates, allow_groups=True, **options)
    if not request.known.is_grouped:
        return solve(request, keep_rows=keep_rows)
    from baserate.solving.grouped import solve_groups

    return solve_groups(request, keep_rows=keep_rows)


def prior_adjusted(
    probs: Any, old_rates: RatesLike, new_rates: RatesLike, *, keep_rows: bool = True, **options: Any
) -> Result:
    """Multiply each probability by new rate over old rate, and normalise the rows.

    Takes the options of :func:`baserate.prior_adjust`.
    """
    request = parse_request(probs, new_rates, **options)
    dual, survey, batch_size = _problem(request)
    survey = dual.survey() if survey is None else survey
    names, kept = request.known.classes, dual.model.kept_classes
    old = known_rates(request.rows, old_rates, names, what="old_rates").estimate()
    new = request.known.estimate()
    unseen = kept[(old[kept] == 0) & (survey.mean[kept] > 0)]
    if unseen.size:
        name = class_label(names, int(unseen[0]))
        raise BadRates(f"the old rate of {name} is 0, but it is predicted; its probability cannot be rescaled")
    if (new[kept] == 0).any():
        name = class_label(names, int(kept[new[kept] == 0][0]))
        raise BadRates(f"the best estimate of the new rate of {name} is 0, but may be higher; give it a rate above 0")
    ratio = np.divide(new[kept], old[kept], out=np.ones(len(kept)), where=old[kept] > 0)
    shift = np.log(ratio)
    written = dual.write(shift) if keep_rows else dual.measure(shift)
    fitted = Fit(dual, survey, known_solution(shift, new[kept]), written, n_passes=2)
    return _result(request, fitted, batch_size, procedure="prior", keep_rows=keep_rows)


def solve(request: Request, *, keep_rows: bool = True, present: Result | None = None) -> Result:
    """Adjust the rows of a request to its rates.

    Parameters
    ----------
    request : Request
    keep_rows : bool, default True
        Whether the adjusted rows are wanted, and not only the shift and the guarantee.
    present : Result, optional
        An adjustment of the same rows to other rates, from whose shift the search may start.
    """
    dual, survey, batch_size = _problem(request)
    kept, start = dual.model.kept_classes, None
    if present is not None and np.array_equal(kept, present.model.kept_classes):
        start = (present.dual_shift, present.rates[kept])
    fitted = fit(dual, request.stop, request.known.classes, survey=survey, present=start, keep_rows=keep_rows)
    return _result(request, fitted, batch_size, keep_rows=keep_rows)


def solve_again(result: Result, rates: RatesLike, *, keep_rows: bool = True) -> Result:
    """Adjust the same rows to other rates, starting from the present shift."""
    assert result.source is not None
    known = known_rates(result.source, rates, result.certificate.known.classes)
    model = replace(result.model, limit_levels=None, softness=0.0)
    request = Request(result.source.reopen(), model, known, result.bounded, result.stop or DEFAULT_STOP)
    return solve(request, keep_rows=keep_rows, present=result)


def apply_shift(result: Result, source: RowSource, *, whole: bool = False) -> Any:
    """Adjust other rows by the shift of a result: one pass, or a lazy one where the engine supports that."""
    rows, model = open_new_rows(result, source)
    if whole:
        check_whole(rows, source)
    passes = choose_passes(model, rows)
    rows.write_lazily(partial(passes.write, shift=result.dual_shift, check=True), passes.block_values)
    return answer_in_form(rows, whole=whole)


def _problem(request: Request) -> _Problem:
    rows, known = request.rows, request.known
    n_rows = rows.n_rows
    dual = _dual(request, known.rate_set(n_rows))
    if known.certainty is None or not rows.weighted:
        return _Problem(dual, None, n_rows)
    # A weighted batch varies by chance as much as an unweighted one with fewer rows.
    survey = dual.survey()
    effective = EffectiveRows(max(int(survey.effective_rows * (1 + 1e-9)), 1))
    rate_set = known.rate_set(effective)
    if np.array_equal(kept_classes(rate_set, request.model.bounded), dual.model.kept_classes):
        return _Problem(Dual.of(rows, dual.passes, rate_set), survey, effective)
    return _Problem(_dual(request, rate_set), None, effective)


def _dual(request: Request, rate_set: RateSet) -> Dual:
    model, kept = request.model, kept_classes(rate_set, request.model.bounded)
    # Most models already keep these classes. Copying them would take a noticeable part of the time of small problems.
    if len(kept) < model.n_classes or not model.keeps_all_classes:
        model = replace(model, kept_classes=kept)
    return Dual.of(request.rows, choose_passes(model, request.rows, request.kernels), rate_set)


def _result(
    request: Request, fitted: Fit, batch_size: int, *, procedure: str = "adjust", keep_rows: bool = True
) -> Result:
    request.known.check_batch(fitted.survey.mean)
    dual, written = fitted.dual, fitted.written
    rows, model, shift, rate_set = dual.rows, dual.model, fitted.solution.point.shift, dual.kept_rate_set
    worst = rate_set.support(shift, written.mean[model.kept_classes])  # the possible rates that guarantee least
    is_prior = procedure == "prior"
    wanted = request.known.estimate() if is_prior else model.per_class(worst, fill=0.0)
    sensitivity = shift - rate_set.anchor(shift, worst)
    kept = model.kept_classes.tolist()
    names = kept if request.known.classes is None else [request.known.classes[j] for j in kept]
    return Result(
        model=model,
        dual_shift=shift,
        wanted=wanted,
        before=fitted.survey.mean,
        rates=written.mean,
        certificate=_certificate(request.known, fitted, sensitivity, worst, wanted, batch_size),
        active=() if is_prior else _active_bounds(rate_set, names, sensitivity, worst),
        converged=fitted.solution.converged,
        n_passes=fitted.n_passes,
        n_rows=rows.n_rows,
        engine=rows.describe(dual.passes),
        bounded=request.bounded,
        classes=request.known.classes,
        procedure=procedure,
        answer=rows.answer() if keep_rows else None,
        form=rows.form,
        one_column=rows.one_column,
        source=rows,
        stop=request.stop,
    )


def _certificate(
    known: Rates, fitted: Fit, sensitivity: FloatArray, worst: FloatArray, wanted: FloatArray, batch_size: int
) -> Certificate:
    dual, written, shift = fitted.dual, fitted.written, fitted.solution.point.shift
    model = dual.model
    mean = written.mean[model.kept_classes]
    slack = float(shift @ (worst - mean))
    rounding = 8 * _EPS * float(np.abs(shift) @ (worst + np.abs(mean)))  # of the slack; large if the shift is
    guaranteed = written.divergence + slack - written.shortfall - rounding
    return Certificate(
        loss_reduction=max(guaranteed, 0.0) if guaranteed > -1e-12 else guaranteed,
        gap=abs(slack) + written.shortfall + rounding,
        residual=float(np.abs(wanted - written.mean).max()),
        sensitivity=model.per_class(sensitivity, fill=np.nan),
        known=known,
        batch_size=batch_size,
        approximate=batch_size != dual.rows.n_rows,
    )


def _active_bounds(
    rate_set: RateSet, names: list[Any], sensitivity: FloatArray, rates: FloatArray
) -> tuple[ActiveBound, ...]:
    """The bounds, as they were stated, that determine the rates."""
    low, high = rate_set.stated_bounds()
    found = []
    if rate_set.is_curved and np.ptp(sensitivity) > 0 and rate_set.region.is_reached(rates):
        found.append(ActiveBound(None, "radius", rate_set.region.radius))
    of_class = low.tolist(), high.tolist(), rates.tolist(), sensitivity.tolist()
    for name, lower, upper, rate, change in zip(names, *of_class, strict=True):
        if lower == upper:
            found.append(ActiveBound(name, "exact", lower))
        elif abs(rate - lower) <= _AT_BOUND and change > 0:
            found.append(ActiveBound(name, "low", lower))
        elif abs(rate - upper) <= _AT_BOUND and change < 0:
            found.append(ActiveBound(name, "high", upper))
    return tuple(found)
