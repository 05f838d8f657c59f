"""Rates that are known with some confidence, because the rows are a random sample: survey counts, population rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from baserate.errors import BadRates, Option
from baserate.inputs.class_numbers import as_rates, is_one_number, one_per_class, with_names_of
from baserate.inputs.validation import as_confidence, class_label, is_number, quoted_name
from baserate.rates.base import DESIGN_EFFECT, Rates
from baserate.rates.intervals import batch_bounds, population_bounds, sampling_bounds
from baserate.rates.sets import RateSet
from baserate.rates.summary import list_numbers
from baserate.support.arrays import FloatArray
from baserate.support.numbers import counted, percent

_TOTAL = Option("total")
_MAX_CASES = 10**11  # Larger counts would lose digits of the intervals to rounding.


@dataclass(frozen=True, eq=False, repr=False)
class Sampled(Rates):
    """Rates that are known with some confidence, because the batch, or also a survey, is a random sample."""

    confidence: Any

    @property
    def certainty(self) -> float:
        return float(self.confidence)

    def condition(self, *, approximate: bool = False) -> str:
        about = "about " if approximate or self.is_approximate else ""
        return f"with {about}{percent(self.confidence)} confidence, if {self.assumption}"

    def _validated(self) -> Self:
        as_confidence(self.confidence, BadRates)
        return super()._validated()


@dataclass(frozen=True, eq=False, repr=False)
class SurveyCounts(Sampled):
    """See :meth:`Rates.from_counts`."""

    kind = "counts"
    counts: Any
    total: Any = None
    design_effect: Any = 1.0

    @property
    def is_approximate(self) -> bool:
        return bool(self.design_effect != 1)

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
        return f"{self._source()}: {list_numbers(self, self.counts)}; {self._remark()}"

    def _source(self) -> str:
        if self.total is not None:
            return f" counted in a survey of {counted(int(self.total), 'case')}"
        cases = int(sum(self.counts.values() if isinstance(self.counts, Mapping) else self.counts))
        return f" counted in a survey of {counted(cases, 'case')}"

    def _remark(self) -> str:
        text = f"{percent(self.confidence)} confidence"
        return text if self.design_effect == 1 else f"{text}, design effect {self.design_effect:.4g}"

    def _columns(self) -> dict[str, Any]:
        return {"count": self.counts}

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
class PopulationRates(Sampled):
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
        return f"{self._source()}: {list_numbers(self, self.values)}; {self._remark()}"

    def _source(self) -> str:
        return " of a population"

    def _remark(self) -> str:
        return f"{percent(self.confidence)} confidence for a batch"

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
