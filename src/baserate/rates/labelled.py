"""Rates that were estimated from labelled rows of the batch itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from baserate.inputs.class_numbers import as_rates, one_per_class
from baserate.rates.arguments import as_count
from baserate.rates.estimated import check_mean, check_size, check_within
from baserate.rates.kinds import check_bounds
from baserate.rates.sampled import Sampled
from baserate.rates.sets import RateSet
from baserate.rates.summary import interval
from baserate.support.arrays import FloatArray
from baserate.support.numbers import counted


@dataclass(frozen=True, eq=False, repr=False)
class LabelledRates(Sampled):
    """Class rates of a batch of which some rows were labelled.

    :func:`baserate.estimation.labelled.estimate_from_labels` creates them.

    Attributes
    ----------
    values : array of shape (k,)
        The best estimate.
    low, high : arrays of shape (k,)
        Bounds, before those of the other classes tighten them.
    n_rows, n_labelled : int
        Number of rows of the batch, and of those that are labelled.
    stratified : bool
        Whether the labelled rows were drawn from each stratum.
    mean : array of shape (k,), optional
        Mean prediction of the batch; None if it need not be the same.
    """

    kind = "labelled"
    values: Any
    low: Any
    high: Any
    n_rows: int
    n_labelled: int
    stratified: bool = False
    mean: Any = None

    @property
    def has_fixed_confidence(self) -> bool:
        return True

    def rate_set(self, batch_size: int | None) -> RateSet:
        check_size(self.n_rows, batch_size)
        return RateSet.box(self.low, self.high)

    def check_batch(self, mean: FloatArray) -> None:
        """Raise if the mean prediction is not that of the batch whose rows were labelled."""
        check_mean(self.mean, mean, self.classes)

    def without_batch(self) -> Self:
        """These rates for other predictions of the same rows; only their number is checked."""
        return replace(self, mean=None)

    def _in_order(self, order: list[int]) -> dict[str, Any]:
        return super()._in_order(order) | {"mean": None if self.mean is None else np.asarray(self.mean)[order]}

    @property
    def assumption(self) -> str:
        within = " within each stratum" if self.stratified else ""
        return f"the labelled rows were drawn at random{within} from these rows"

    def estimate(self) -> FloatArray:
        return np.asarray(self.values)

    def describe(self) -> str:
        low, high = self._bounds()
        listed = self._list_by_class([interval(a, b) for a, b in zip(low, high, strict=True)])
        return f"{self._source()}: {listed}; {self._remark()}"

    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        return RateSet.box(self.low, self.high).bounds()

    def _source(self) -> str:
        return f" estimated from {counted(self.n_labelled, 'labelled row')} of a batch of {self.n_rows:,}"

    def _remark(self) -> str:
        return self.condition()

    def _columns(self) -> dict[str, Any]:
        low, high = self._bounds()
        return {"estimate": self.values, "at least": low, "at most": high}

    def _validated(self) -> Self:
        as_count("n_rows", self.n_rows)
        as_count("n_labelled", self.n_labelled)
        found = super()._validated()
        check_within(found.values, found.low, found.high)
        return found

    def _resolved(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        low = one_per_class(self.low, classes, n_classes, "low", missing=0.0)
        high = one_per_class(self.high, classes, n_classes, "high", missing=1.0)
        check_bounds(low, high, classes)
        return replace(
            self,
            values=as_rates(self.values, classes, n_classes),
            low=low,
            high=high,
            confidence=float(self.confidence),
            stratified=bool(self.stratified),
            mean=None if self.mean is None else as_rates(self.mean, None, n_classes),
        )
