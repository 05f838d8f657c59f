"""Rates that are stated without a confidence: exact rates, bounds, and rates near others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from baserate.errors import BadOption, BadRates
from baserate.inputs.class_numbers import (
    as_rates,
    is_mapping,
    is_one_number,
    leaves_classes_free,
    one_per_class,
    series_to_dict,
)
from baserate.inputs.validation import class_label, is_number, quoted_name
from baserate.rates.balls import Ball
from baserate.rates.base import Rates, is_rates
from baserate.rates.sets import ROUNDING, RateSet
from baserate.rates.summary import interval, list_numbers
from baserate.support.arrays import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class ExactRates(Rates):
    """See :meth:`Rates.exact`."""

    kind = "exact"
    values: Any

    def rate_set(self, batch_size: int | None) -> RateSet:
        return RateSet.point(self.values)

    def estimate(self) -> FloatArray:
        return np.asarray(self.values)

    def describe(self) -> str:
        return f": {list_numbers(self, self.values)}"

    def _columns(self) -> dict[str, Any]:
        return {"rate": self.values}

    def condition(self, *, approximate: bool = False) -> str:
        return "if these rows have the requested class rates"

    def _resolved(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        return replace(self, values=as_rates(self.values, classes, n_classes))


@dataclass(frozen=True, eq=False, repr=False)
class RatesBetween(Rates):
    """See :meth:`Rates.between`."""

    kind = "between"
    low: Any
    high: Any

    def rate_set(self, batch_size: int | None) -> RateSet:
        return RateSet.box(self.low, self.high)

    def estimate(self) -> FloatArray:
        low, high = self.rate_set(None).bounds()
        if np.abs(high - low).max() <= ROUNDING:
            return low / low.sum()
        raise BadRates(
            f"one rate per class is needed here, but only bounds are known ({self.describe().removeprefix(': ')}); "
            "pass one number for each class"
        )

    def describe(self) -> str:
        if self.is_one_number:
            return f" {interval(0.0 if self.low is None else self.low, 1.0 if self.high is None else self.high)}"
        if not isinstance(self.low, np.ndarray):
            return f" between {self.low} and {self.high}"
        low, high = self.rate_set(None).bounds()
        return ": " + self._list_by_class([interval(a, b) for a, b in zip(low, high, strict=True)])

    def condition(self, *, approximate: bool = False) -> str:
        if self.n_classes is None:
            return super().condition(approximate=approximate)
        low, high = self.rate_set(None).bounds()
        if (low <= 0).all() and (high >= 1).all():
            return "whatever the class rates of these rows are"
        if self.n_classes > 2:
            return super().condition(approximate=approximate)
        return f"if the rate of {class_label(self.classes, 1)} in these rows is {interval(low[1], high[1])}"

    def _columns(self) -> dict[str, Any]:
        if not isinstance(self.low, np.ndarray):
            return {}
        low, high = self.rate_set(None).bounds()
        return {"at least": low, "at most": high}

    def _validated(self) -> Self:
        if self.n_classes is not None:
            return super()._validated()
        # The classes are not known yet, but each bound can be checked.
        keys = [key for given in (self.low, self.high) if isinstance(given, Mapping) for key in given]
        names = tuple(dict.fromkeys(keys)) or ("any",)
        low = one_per_class(self.low, names, len(names), "low", missing=0.0)
        check_bounds(low, one_per_class(self.high, names, len(names), "high", missing=1.0), names)
        return self

    def _resolved(self, classes: tuple[Any, ...] | None, n_classes: int) -> Any:
        low, high = self.low, self.high
        if isinstance(low, Mapping) and low == high and len(low) == n_classes - 1 and None not in low.values():
            return ExactRates(self.classes, low)._resolved(classes, n_classes)  # the other class has the rest
        if n_classes == 2 and self.is_one_number:
            low, high = [None, low], [None, high]
        low = one_per_class(low, classes, n_classes, "low", missing=0.0)
        high = one_per_class(high, classes, n_classes, "high", missing=1.0)
        check_bounds(low, high, classes)
        if np.array_equal(low, high) and abs(low.sum() - 1.0) > ROUNDING:
            raise BadRates(f"rates sum to {low.sum():.6g}, not 1; to rescale them, divide each by their sum")
        if low.sum() > 1.0 + ROUNDING:
            raise BadRates(f"the lower bounds sum to {low.sum():.6g}, but class rates sum to 1; lower some of them")
        if high.sum() < 1.0 - ROUNDING:
            raise BadRates(f"the upper bounds sum to {high.sum():.6g}, but class rates sum to 1; raise some of them")
        return replace(self, low=low, high=high)


@dataclass(frozen=True, eq=False, repr=False)
class RatesNear(Rates):
    """See :meth:`Rates.near`."""

    kind = "near"
    values: Any
    radius: Any
    metric: Any

    def rate_set(self, batch_size: int | None) -> RateSet:
        if self.radius == 0:
            return RateSet.point(self.values)
        if self.metric == "largest":
            return RateSet.box(np.maximum(self.values - self.radius, 0.0), np.minimum(self.values + self.radius, 1.0))
        positive = self.values > 0
        scale = np.ones(len(self.values))
        high = np.ones(len(self.values))
        if self.metric == "chi2":
            scale[positive] = 1.0 / self.values[positive]
            high[~positive] = 0.0
        return RateSet.box(np.zeros(len(self.values)), high, Ball(self.values, scale, self.radius))

    def estimate(self) -> FloatArray:
        return np.asarray(self.values)

    def describe(self) -> str:
        return f"{self._source()} of {list_numbers(self, self.values)}"

    def _source(self) -> str:
        if self.metric == "largest" or is_one_number(self.values):
            return f" within {self.radius:g}"
        distance = "chi-square" if self.metric == "chi2" else "Euclidean"
        return f" within {self.radius:g} ({distance} distance)"

    def _columns(self) -> dict[str, Any]:
        return {"centre": self.values}

    def _validated(self) -> Self:
        if self.metric not in (None, "euclidean", "chi2", "largest"):
            raise BadOption(f"metric must be 'euclidean', 'chi2' or 'largest', not {quoted_name(self.metric)}")
        if not is_number(self.radius) or not 0 <= float(self.radius) < np.inf:
            raise BadRates(f"radius must be 0 or a positive number, not {quoted_name(self.radius)}")
        return super()._validated()

    def _resolved(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        one_rate = self.is_one_number or (isinstance(self.values, Mapping) and len(self.values) == 1)
        metric = self.metric or ("largest" if one_rate else "euclidean")
        return replace(self, values=as_rates(self.values, classes, n_classes), radius=float(self.radius), metric=metric)


def check_bounds(low: FloatArray, high: FloatArray, classes: tuple[Any, ...] | None) -> None:
    """Raise if bounds are not between 0 and 1, or a lower bound is above the upper one."""

    def of(j: int) -> str:
        return "" if classes == ("any",) else f" of {class_label(classes, j)}"

    for side, values in (("lower", low), ("upper", high)):
        bad = ~((values >= 0) & (values <= 1))
        if bad.any():
            j = int(np.flatnonzero(bad)[0])
            raise BadRates(f"the {side} bound{of(j)} is {values[j]:g}; bounds must be between 0 and 1, or None")
    if (low > high).any():
        j = int(np.flatnonzero(low > high)[0])
        raise BadRates(f"the lower bound{of(j)} ({low[j]:g}) is above the upper bound ({high[j]:g})")


def as_known(rates: object, classes: tuple[Any, ...] | None, n_classes: int, *, what: str = "rates") -> Rates:
    """Convert the ``rates`` argument of a caller to :class:`Rates` with one number per column."""
    if is_rates(rates):
        return rates.on(classes, n_classes)
    rates = series_to_dict(rates, classes)
    if is_mapping(rates) and leaves_classes_free(rates, classes, n_classes):
        return RatesBetween(None, dict(rates), dict(rates)).on(classes, n_classes)
    return ExactRates(classes, as_rates(rates, classes, n_classes, what=what))
