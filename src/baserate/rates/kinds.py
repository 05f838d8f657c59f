"""The kinds of :class:`Rates`, one class per kind. The constructors of :class:`Rates` create them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from baserate.errors import BadOption, BadRates, Option
from baserate.inputs.class_numbers import (
    as_rates,
    is_one_number,
    leaves_classes_free,
    one_per_class,
    series_to_dict,
    with_names_of,
)
from baserate.inputs.validation import as_confidence, class_label, is_number, quoted_name
from baserate.rates.balls import Ball
from baserate.rates.base import DESIGN_EFFECT, Rates
from baserate.rates.intervals import batch_bounds, population_bounds, sampling_bounds
from baserate.rates.sets import ROUNDING, RateSet
from baserate.support.arrays import FloatArray
from baserate.support.text import shortened

_TOTAL = Option("total")
_MAX_CASES = 10**11  # Larger counts would lose digits of the intervals to rounding.


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
        return f": {_list_numbers(self, self.values)}"

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
            return f" {_interval(0.0 if self.low is None else self.low, 1.0 if self.high is None else self.high)}"
        if not isinstance(self.low, np.ndarray):
            return f" between {self.low} and {self.high}"
        low, high = self.rate_set(None).bounds()
        return ": " + self._list_by_class([_interval(a, b) for a, b in zip(low, high, strict=True)])

    def condition(self, *, approximate: bool = False) -> str:
        if self.n_classes is None:
            return super().condition(approximate=approximate)
        low, high = self.rate_set(None).bounds()
        if (low <= 0).all() and (high >= 1).all():
            return "whatever the class rates of these rows are"
        if self.n_classes > 2:
            return super().condition(approximate=approximate)
        return f"if the rate of {class_label(self.classes, 1)} in these rows is {_interval(low[1], high[1])}"

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
        _check_bounds(low, one_per_class(self.high, names, len(names), "high", missing=1.0), names)
        return self

    def _resolved(self, classes: tuple[Any, ...] | None, n_classes: int) -> Any:
        low, high = self.low, self.high
        if isinstance(low, Mapping) and low == high and len(low) == n_classes - 1 and None not in low.values():
            return ExactRates(self.classes, low)._resolved(classes, n_classes)  # the other class has the rest
        if n_classes == 2 and self.is_one_number:
            low, high = [None, low], [None, high]
        low = one_per_class(low, classes, n_classes, "low", missing=0.0)
        high = one_per_class(high, classes, n_classes, "high", missing=1.0)
        _check_bounds(low, high, classes)
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
        return f"{self._source()} of {_list_numbers(self, self.values)}"

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


@dataclass(frozen=True, eq=False, repr=False)
class _Sampled(Rates):
    """Rates that are known with some confidence, because the batch, or also a survey, is a random sample."""

    confidence: Any

    @property
    def certainty(self) -> float:
        return float(self.confidence)

    def condition(self, *, approximate: bool = False) -> str:
        about = "about " if approximate else ""
        return f"with {about}{_percent(self.confidence)} confidence, if {self.assumption}"

    def _validated(self) -> Self:
        as_confidence(self.confidence, BadRates)
        return super()._validated()


@dataclass(frozen=True, eq=False, repr=False)
class SurveyCounts(_Sampled):
    """See :meth:`Rates.from_counts`."""

    kind = "counts"
    counts: Any
    total: Any = None
    design_effect: Any = 1.0

    @property
    def assumption(self) -> str:
        if self.design_effect == 1:
            return "the survey and these rows are random samples from the same population"
        return (
            f"the survey has a design effect of at most {self.design_effect:.4g} and these rows are a random sample "
            "from the same population"
        )

    def rate_set(self, batch_size: int | None) -> RateSet:
        if batch_size is None:
            bounds = population_bounds(self.counts, self.confidence, self.design_effect)
        else:
            bounds = batch_bounds(self.counts, batch_size, self.confidence, self.design_effect)
        return _box_around(self.counts / self.counts.sum(), bounds)

    def estimate(self) -> FloatArray:
        # Half a case is added to each class, so that a class with count 0 does not get rate 0.
        return np.asarray((self.counts + 0.5) / (self.counts.sum() + 0.5 * len(self.counts)))

    def describe(self) -> str:
        return f"{self._source()}: {_list_numbers(self, self.counts)}; {self._remark()}"

    def _source(self) -> str:
        if self.total is not None:
            return f" counted in a survey of {int(self.total):,} cases"
        cases = int(sum(self.counts.values() if isinstance(self.counts, Mapping) else self.counts))
        return f" counted in a survey of {cases:,} case{'' if cases == 1 else 's'}"

    def _remark(self) -> str:
        text = f"{_percent(self.confidence)} confidence"
        return text if self.design_effect == 1 else f"{text}, design effect {self.design_effect:.4g}"

    def _columns(self) -> dict[str, Any]:
        return {"count": self.counts}

    def condition(self, *, approximate: bool = False) -> str:
        return super().condition(approximate=approximate or self.design_effect != 1)

    def to_json(self) -> dict[str, Any]:
        # Without what earlier versions do not know, unless it is needed, so that they can read the description.
        default = {"design_effect": 1, "total": None}
        return {name: value for name, value in super().to_json().items() if value != default.get(name, ...)}

    def _validated(self) -> Self:
        effect = self.design_effect
        if not is_number(effect) or not 1 <= float(effect) < np.inf:
            raise BadRates(
                f"{DESIGN_EFFECT} must be a number of at least 1, such as 1.9, not {quoted_name(effect)}; use 1 for "
                "a survey that is more precise than a simple random sample, such as a stratified one",
                options=[DESIGN_EFFECT],
            )
        if self.total is not None and self.n_classes is None and isinstance(self.counts, Mapping):
            self._resolved((*self.counts, "all others"), len(self.counts) + 1)
            return self
        return super()._validated()

    def _resolved(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        given = self._with_total(classes, n_classes)
        if classes is None and isinstance(given, Counter) and all(isinstance(key, int) for key in given):
            classes = tuple(range(n_classes))  # the labels are column numbers
        if isinstance(given, str) or not hasattr(given, "__iter__"):
            raise BadRates(f"counts must be a list or dict with one number per class, not {quoted_name(given)}")
        if isinstance(given, Mapping) and not isinstance(given, Counter) and len(given) == 1 and n_classes > 1:
            raise BadRates(
                f"counts has only class {quoted_name(*given)}; also pass {_TOTAL}= with the number of all cases, or "
                "the counts of all classes",
                options=[_TOTAL],
            )
        listed = given.values() if isinstance(given, Mapping) else given
        if any(value is None for value in listed):
            raise BadRates("a count is None; use 0 for a class without cases")
        counts = one_per_class(given, classes, n_classes, "counts", missing=0.0)
        _check_counts(counts, classes)
        confidence, effect = float(self.confidence), float(self.design_effect)
        return replace(self, counts=counts.astype(np.int64), total=None, confidence=confidence, design_effect=effect)

    def _with_total(self, classes: tuple[Any, ...] | None, n_classes: int) -> Any:
        """The counts with the cases that ``total`` leaves to the class that has none."""
        counts, total = self.counts, self.total
        if total is None:
            if is_one_number(counts):
                raise BadRates(
                    f"counts is one number, {counts:g}; also pass {_TOTAL}= with the number of all cases",
                    options=[_TOTAL],
                )
            return counts
        if not is_number(total) or not np.isfinite(total) or total < 1 or total != int(total):
            raise BadRates(f"total must be the number of all cases, a whole number above 0, not {quoted_name(total)}")
        if is_one_number(counts):
            if n_classes != 2:
                raise BadRates(f"counts is one number, {counts:g}, but there are {n_classes} classes; pass a dict")
            counts = {1: counts} if classes is None else {classes[1]: counts}
        if not isinstance(counts, Mapping):
            raise BadRates("total= is for one number or a dict; a list already has the counts of all classes")
        named = with_names_of(counts, classes, n_classes)
        rest = total - sum(value for value in named.values() if is_number(value))
        if rest < 0:
            raise BadRates(f"the counts sum to {total - rest:g}, which is more than the total of {total:g}")
        absent = [c for c in (range(n_classes) if classes is None else classes) if c not in named]
        if rest and len(absent) != 1:
            which = "all classes have counts" if not absent else f"{len(absent)} classes have no count"
            raise BadRates(f"the counts sum to {total - rest:g}, not to the total of {total:g}, and {which}")
        return {**named, absent[0]: rest} if absent else named


@dataclass(frozen=True, eq=False, repr=False)
class PopulationRates(_Sampled):
    """See :meth:`Rates.of_population`."""

    kind = "population"
    values: Any

    @property
    def assumption(self) -> str:
        return "these rows are a random sample from the population"

    def rate_set(self, batch_size: int | None) -> RateSet:
        if batch_size is None:
            return RateSet.point(self.values)
        return _box_around(self.values, sampling_bounds(self.values, batch_size, self.confidence))

    def estimate(self) -> FloatArray:
        return np.asarray(self.values)

    def describe(self) -> str:
        return f"{self._source()}: {_list_numbers(self, self.values)}; {self._remark()}"

    def _source(self) -> str:
        return " of a population"

    def _remark(self) -> str:
        return f"{_percent(self.confidence)} confidence for a batch"

    def _columns(self) -> dict[str, Any]:
        return {"rate": self.values}

    def _resolved(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        values = as_rates(self.values, classes, n_classes)
        return replace(self, values=values, confidence=float(self.confidence))


def _box_around(centre: FloatArray, bounds: tuple[FloatArray, FloatArray]) -> RateSet:
    # At low confidence the intervals of whole counts may exclude the estimate itself, and then no rates within them
    # sum to 1. So they are widened to contain it.
    return RateSet.box(np.minimum(bounds[0], centre), np.maximum(bounds[1], centre))


def _check_counts(counts: FloatArray, classes: tuple[Any, ...] | None) -> None:
    with np.errstate(over="ignore", invalid="ignore"):  # infinite counts are refused below
        total = counts.sum()
    for bad, rule in (
        (counts < 0, "counts must be 0 or more"),
        (~np.isfinite(counts), "counts must be finite"),
        (
            np.full(len(counts), total > _MAX_CASES),
            "counts must not sum to more than 1e11; use Rates.of_population for so many cases",
        ),
        (counts != np.floor(counts), "counts must be whole numbers of cases, not rates"),
    ):
        if bad.any():
            j = int(np.flatnonzero(bad)[0])
            raise BadRates(f"the count of {class_label(classes, j)} is {counts[j]:g}; {rule}")
    if not counts.any():
        raise BadRates("all counts are 0; a survey needs at least one case")


def _check_bounds(low: FloatArray, high: FloatArray, classes: tuple[Any, ...] | None) -> None:
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


def _list_numbers(rates: Rates, numbers: Any) -> str:
    """The numbers of all classes, each after the name of its class."""
    if isinstance(numbers, np.ndarray):
        return rates._list_by_class([f"{value:.4g}" if numbers.dtype.kind == "f" else str(value) for value in numbers])
    if is_one_number(numbers):
        return f"positive class {float(numbers):.4g}"
    return ", ".join(f"{shortened(str(name))} {value}" for name, value in dict(numbers).items())


def _interval(low: Any, high: Any) -> str:
    low, high = float(low), float(high)
    if low <= 0 and high >= 1:
        return "unknown"
    if low <= 0:
        return f"at most {high:.4g}"
    if high >= 1:
        return f"at least {low:.4g}"
    if low == high:
        return f"{low:.4g}"
    digits = 4 if f"{low:.4g}" != f"{high:.4g}" else 12  # enough digits to show two different numbers
    return f"between {low:.{digits}g} and {high:.{digits}g}"


def _percent(confidence: float) -> str:
    return f"{100 * confidence:.6g} %"


def as_known(rates: object, classes: tuple[Any, ...] | None, n_classes: int, *, what: str = "rates") -> Rates:
    """Convert the ``rates`` argument of a caller to :class:`Rates` with one number per column."""
    if isinstance(rates, Rates):
        return rates.on(classes, n_classes)
    rates = series_to_dict(rates, classes)
    if isinstance(rates, Mapping) and leaves_classes_free(rates, classes, n_classes):
        return RatesBetween(None, dict(rates), dict(rates)).on(classes, n_classes)
    return ExactRates(classes, as_rates(rates, classes, n_classes, what=what))
