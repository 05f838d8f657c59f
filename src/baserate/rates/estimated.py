"""Class rates that were estimated for one batch of predictions. :func:`baserate.estimate` creates them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from baserate.errors import BadRates, Option
from baserate.inputs.class_numbers import as_rates
from baserate.inputs.validation import as_confidence, class_label, is_number, quoted, quoted_name
from baserate.rates.arguments import as_count
from baserate.rates.base import Rates
from baserate.rates.ellipsoid_arguments import checked_covariance, checked_radius
from baserate.rates.ellipsoids import Ellipsoid
from baserate.rates.kinds import check_bounds
from baserate.rates.sets import EffectiveRows, RateSet
from baserate.support.arrays import FloatArray
from baserate.support.numbers import counted, percent

ESTIMATE, WITHOUT_BATCH = Option("br.estimate"), Option("without_batch()")
_WEIGHT = Option("sample_weight")
METHODS = ("moments", "exact")
_CLOSE = 1e-6  # Rounding of rates that were computed from an ellipsoid.
_SAME_MEAN = 1e-5  # Mean predictions that differ by less are the same.
_PER_CLASS = ("values", "low", "high", "centre", "mean")


@dataclass(frozen=True, eq=False, repr=False)
class EstimatedRates(Rates):
    """The class rates of one batch, estimated from its predictions and from labelled validation data.

    Attributes
    ----------
    values : array of shape (k,)
        The best single estimate.
    low, high : array of shape (k,)
        The smallest and the largest possible rate of each class.
    centre, covariance, radius : arrays of shape (k,) and (k, k), and float; or None
        The ellipsoid of possible rates; None if all rates between the bounds are possible.
    confidence : float
    method : str
        "moments" or "exact"; see :func:`baserate.estimate`.
    p_value : float or None
        Of the test whether predictions within each class are distributed as in the validation data; None if the method
        has no such test.
    refuted : bool
        Whether this was refuted, so that all rates are possible.
    n_rows : int or None
        Number of rows of the batch; None if the batch need not be the same.
    mean : array of shape (k,) or None
        Mean prediction of the batch.
    n_validation : int
        Number of labelled validation rows.
    """

    kind = "estimated"
    values: Any
    low: Any
    high: Any
    confidence: Any
    method: Any
    n_validation: Any
    centre: Any = None
    covariance: Any = None
    radius: Any = None
    p_value: Any = None
    refuted: Any = False
    n_rows: Any = None
    mean: Any = None

    @property
    def certainty(self) -> float:
        return float(self.confidence)

    @property
    def has_fixed_confidence(self) -> bool:
        return not self.refuted  # all rates are possible then, at every confidence

    @property
    def is_approximate(self) -> bool:
        return not self.refuted and self.method != "exact"

    @property
    def assumption(self) -> str:
        if self.refuted:
            return self.condition()
        return "predictions within each class are distributed as in the validation data"

    @property
    def region(self) -> Ellipsoid | None:
        """The ellipsoid of possible rates, or None if all rates between the bounds are possible."""
        if self.covariance is None:
            return None
        return Ellipsoid.of(self.centre, self.covariance, float(self.radius))

    def rate_set(self, batch_size: int | None) -> RateSet:
        check_size(self.n_rows, batch_size)
        k, region = len(self.values), self.region
        if region is None or k == 2:
            return RateSet.box(self.low, self.high)
        return RateSet.box(np.zeros(k), np.ones(k), region)

    def check_batch(self, mean: FloatArray) -> None:
        """Raise if the mean prediction is not that of the batch for which the rates were estimated."""
        check_mean(self.mean, mean, self.classes)

    def without_batch(self) -> Self:
        """These rates for other predictions of the same rows, such as calibrated ones; the batch is not checked."""
        return replace(self, n_rows=None, mean=None)

    def estimate(self) -> FloatArray:
        return np.asarray(self.values)

    def _in_order(self, order: list[int]) -> dict[str, Any]:
        vectors = {name: getattr(self, name) for name in _PER_CLASS}
        found = {name: value[order] for name, value in vectors.items() if value is not None}
        return found if self.covariance is None else found | {"covariance": self.covariance[np.ix_(order, order)]}

    def describe(self) -> str:
        texts = [
            f"{value:.4g} ({low:.4g} to {high:.4g})"
            for value, low, high in zip(self.values, self.low, self.high, strict=True)
        ]
        return f"{self._source()}: {self._list_by_class(texts)}; {self._remark()}"

    def _source(self) -> str:
        of = "" if self.n_rows is None else f" for a batch of {counted(self.n_rows, 'row')}"
        rows = f" from {counted(self.n_validation, 'labelled row')}"
        return f" estimated{of}{rows}"

    def _remark(self) -> str:
        if self.refuted:
            return f"nothing is assumed about them, because {self._test()}"
        return f"{self.condition()}"

    def _test(self) -> str:
        if self.refuted:
            number = "no rates fit" if self.p_value is None else f"p = {p_value_text(self.p_value)}"
            return f"label shift was refuted ({number})"
        return "not tested" if self.p_value is None else f"not refuted, p = {p_value_text(self.p_value)}"

    def condition(self, *, approximate: bool = False) -> str:
        if self.refuted:
            return "whatever the class rates of these rows are"
        about = "about " if self.is_approximate else ""
        return f"with {about}{percent(self.confidence)} confidence, if {self.assumption} ({self._test()})"

    def _columns(self) -> dict[str, Any]:
        return {"estimate": self.values, "at least": self.low, "at most": self.high}

    def bounds(self, batch_size: int | None = None) -> tuple[FloatArray, FloatArray]:
        low, high = super().bounds(batch_size)
        # Within the ellipsoid and within the stated bounds, which may be tighter for the part of it in the simplex.
        return np.maximum(low, self.low), np.minimum(high, self.high)

    def _validated(self) -> Self:
        found = super()._validated()
        check_estimate(found)
        return found

    def _resolved(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        arrays = {name: getattr(self, name) for name in (*_PER_CLASS, "covariance")}
        changes: dict[str, Any] = {
            name: None if value is None else np.array(value, dtype=np.float64) for name, value in arrays.items()
        }
        if any(value is not None and value.shape[:1] != (n_classes,) for value in changes.values()):
            raise BadRates(f"the rates were estimated for {len(self.values)} classes, but there are {n_classes}")
        return replace(self, **changes)


def check_estimate(rates: EstimatedRates) -> None:
    """Raise if the numbers cannot be those of an estimate, as in a file that something else has written."""
    k = len(rates.values)
    as_confidence(rates.confidence, BadRates)
    if rates.method not in METHODS:
        raise BadRates(f"method must be one of {quoted(METHODS)}, not {quoted_name(rates.method)}")
    if rates.p_value is not None and not (is_number(rates.p_value) and 0 <= rates.p_value <= 1):
        raise BadRates(f"p_value must be a number between 0 and 1, not {quoted_name(rates.p_value)}")
    as_count("n_validation", rates.n_validation)
    if rates.n_rows is not None:
        as_count("n_rows", rates.n_rows)
    for name in _PER_CLASS:
        value = getattr(rates, name)
        if value is not None and (value.shape != (k,) or not np.isfinite(value).all()):
            raise BadRates(f"{name} must be {k} finite numbers, one for each class, not {quoted_name(value.tolist())}")
    as_rates(rates.values, rates.classes, k, what="values")
    check_bounds(rates.low, rates.high, rates.classes)
    check_within(rates.values, rates.low, rates.high)
    ellipsoid = (rates.centre, rates.covariance, rates.radius)
    if all(field is None for field in ellipsoid):
        return
    if any(field is None for field in ellipsoid):
        raise BadRates("centre, covariance and radius belong together, but only some of them are there")
    if abs(rates.centre.sum() - 1.0) > _CLOSE:
        raise BadRates(f"centre sums to {rates.centre.sum():.6g}, not 1")
    checked_covariance(rates.covariance, k)
    checked_radius(rates.radius)


def check_within(values: FloatArray, low: FloatArray, high: FloatArray) -> None:
    """Raise if an estimate does not lie within its bounds."""
    if ((values < low - _CLOSE) | (values > high + _CLOSE)).any():
        raise BadRates("the estimate is not within its bounds")


def check_size(own: int | None, batch_size: int | None) -> None:
    """Raise if a batch has another number of rows than the one for which rates were estimated."""
    if own is None or batch_size is None or own == batch_size:
        return
    weighted = isinstance(batch_size, EffectiveRows)
    note = f" (unequal weights count as fewer rows); leave {_WEIGHT}= out, or" if weighted else ";"
    raise BadRates(
        f"these rates were estimated for a batch of {counted(own, 'row')}, but are used for "
        f"{counted(batch_size, 'row')}{note} estimate the rates of these rows with {ESTIMATE}",
        options=[_WEIGHT, ESTIMATE] if weighted else [ESTIMATE],
    )


def check_mean(own: FloatArray | None, mean: FloatArray, classes: tuple[Any, ...] | None) -> None:
    """Raise if the mean prediction of a batch is not the one for which rates were estimated."""
    if own is None or same_mean(own, mean):
        return
    j = int(np.abs(mean - own).argmax())
    raise BadRates(
        f"these rates were estimated for other predictions: their mean for {class_label(classes, j)} was "
        f"{own[j]:.6g}, but here it is {mean[j]:.6g}; estimate the rates of these rows with {ESTIMATE}, or "
        f"call {WITHOUT_BATCH} on the rates if these are other predictions of the same rows",
        options=[ESTIMATE, WITHOUT_BATCH],
    )


def same_mean(first: FloatArray, second: FloatArray) -> bool:
    """Whether two mean predictions are the same, up to smoothing of zeros and rounding."""
    return bool(np.abs(first - second).max() <= _SAME_MEAN)


def p_value_text(value: float) -> str:
    """A p-value with two digits."""
    return "below 0.0001" if value < 1e-4 else f"{value:.2g}"
