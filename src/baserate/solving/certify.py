"""The guarantee of a fixed shift on other rows: one pass, without labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baserate.core.contracts import Engine
from baserate.core.fixed_shift import ExcludedClasses, FixedShift, FixedShiftSums, limits_of_rows
from baserate.core.row_model import RowModel
from baserate.errors import BadGroups
from baserate.inputs.row_source import RowSource
from baserate.rates import Rates, RatesLike, is_grouped
from baserate.rates.sets import ROUNDING, EffectiveRows, RateSet
from baserate.result.population_certificate import RowSample
from baserate.result.record import Result
from baserate.result.shift_certificate import ShiftCertificate
from baserate.solving.new_rows import names_of_classes, open_new_rows
from baserate.solving.request import known_rates
from baserate.support.arrays import FloatArray

_EPS = float(np.finfo(np.float64).eps)
_SAME_MEAN = 1e-12  # Means that differ by less are those of the same rows.


def certify_shift(result: Result, source: RowSource, rates: RatesLike) -> ShiftCertificate:
    """What the shift of a result guarantees on other rows whose rates are known.

    Parameters
    ----------
    result : Result
    source : RowSource
        The other rows.
    rates : array-like, dict, Series, number or Rates
        What is known about their rates.
    """
    if is_grouped(rates):
        raise BadGroups(
            "these are rates per group, but the adjustment has one shift for all rows; pass the rates of all rows, or "
            "certify the rows of each group by themselves"
        )
    rows, model = open_new_rows(result, source)
    return certify_rows(result, rows, model, known_rates(rows, rates, names_of_classes(result, rows)))


def certify_rows(result: Result, rows: Engine, model: RowModel, known: Rates) -> ShiftCertificate:
    """The same for rows that were opened, which ``model`` adjusts."""
    task = FixedShift(model, result.dual_shift, rows.naming, limits_of_rows(model, result.dual_shift))
    sums = rows.sum(task)
    known.check_batch(sums.before)
    batch_size = rows.n_rows
    if known.certainty is not None and rows.weighted:  # as many rows of equal weight vary as much by chance
        batch_size = EffectiveRows(max(int((1 + 1e-9) / float(sums.squared_weights)), 1))
    bounds = _bounds(task, sums, rows, known.rate_set(batch_size))
    return ShiftCertificate(
        loss_reduction=bounds.least,
        largest_fall=bounds.most,
        known=known,
        batch_size=batch_size,
        approximate=batch_size != rows.n_rows,
        n_rows=rows.n_rows,
        before=sums.before,
        after=sums.after,
        loss=result.loss,
        smoothing=model.reading.smoothing,
        same_rows=_are_same_rows(result, rows.n_rows, sums.before),
        infinite=tuple(j if known.classes is None else known.classes[j] for j in bounds.infinite),
        classes=known.classes,
        sample=_sample(task, sums, rows),
    )


class _Bounds(NamedTuple):
    """The smallest and the largest possible fall, and the classes by which the loss may become infinite."""

    least: float
    most: float
    infinite: list[int]


def _bounds(task: FixedShift, sums: FixedShiftSums, rows: Engine, rate_set: RateSet) -> _Bounds:
    model, kept = task.model, task.model.kept_classes
    lower, upper = (np.full(model.n_classes, end) for end in (task.shift.max(), task.shift.min()))
    lower[kept] = upper[kept] = task.shift
    # A class to which no row gives probability may have any shift: under a loss that pins zeros, its labels have an
    # infinite loss before and after, and are not considered.
    excluded = np.setdiff1d(np.flatnonzero(rate_set.high > 0), kept)
    infinite: list[int] = []
    if model.loss.pins_zeros:
        infinite = [int(j) for j in excluded if sums.before[j] > 0]
    elif excluded.size:
        lower[excluded], upper[excluded] = ExcludedClasses(model, task.shift, excluded, task.naming).run(rows.reopen())
    least = float(sums.limit_least if _limit_applies(model, sums, rate_set) else sums.least)
    least = -np.inf if infinite else least + _support(rate_set, lower, sums.after)
    return _Bounds(least, float(sums.most) - _support(rate_set, -upper, sums.after), infinite)


def _limit_applies(model: RowModel, sums: FixedShiftSums, rate_set: RateSet) -> bool:
    """Whether all labels with a finite loss are among the classes that a limit at infinity leaves in a row.

    They are if the classes with high levels need all rows that allow them.
    """
    if model.limit_levels is None:
        return False
    levels = np.zeros(model.n_classes)
    levels[model.kept_classes] = model.limit_levels
    return float(levels @ rate_set.support(levels, sums.after)) >= float(sums.top_level) - ROUNDING


def _support(rate_set: RateSet, lam: FloatArray, near: FloatArray) -> float:
    """The least ``<lam, t>`` over the rate set, less what may be rounding."""
    possible = np.flatnonzero(rate_set.high > 0)
    lam, near = lam[possible], near[possible]
    worst = rate_set.restrict(possible).support(lam, near)
    return float(lam @ worst) - 8 * _EPS * float(np.abs(lam) @ (np.abs(worst) + np.abs(near)))


def _are_same_rows(result: Result, n_rows: int, mean: FloatArray) -> bool:
    return n_rows == result.n_rows and bool(np.abs(mean - result.before).max() <= _SAME_MEAN)


def _sample(task: FixedShift, sums: FixedShiftSums, rows: Engine) -> RowSample:
    if rows.weighted and rows.n_rows * float(sums.squared_weights) > 1 + 1e-9:
        return RowSample.refused("the rows have unequal weights; pass a random sample without weights")
    if task.model.limit_levels is not None:
        return RowSample.refused(
            "zeros in the predictions pushed the shift to infinity, so the loss of other rows may become infinite"
        )
    if task.limits is None:
        return RowSample.refused(
            f"the unbounded adjustment for {task.model.loss!r} has no bound for single rows; fit with bounded=True"
        )
    return RowSample(sums.bets, task.limits, task.model.kept_classes, task.shift, "")
