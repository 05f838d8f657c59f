"""Rates that were estimated from labelled rows of the batch itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from baserate.errors import BadRates
from baserate.inputs.class_names import matched_names
from baserate.inputs.class_numbers import as_rates, one_per_class
from baserate.inputs.validation import quoted_name
from baserate.rates.estimated import check_mean
from baserate.rates.kinds import _check_bounds, _interval, _Sampled
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class LabelledRates(_Sampled):
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
        if batch_size is not None and batch_size != self.n_rows:
            raise BadRates(
                f"these rates were estimated for a batch of {self.n_rows:,} rows, but are used for "
                f"{batch_size:,} rows, counted by their weights if they have some; estimate the rates of these rows"
            )
        return RateSet.box(self.low, self.high)

    def check_batch(self, mean: FloatArray) -> None:
        """Raise if the mean prediction is not that of the batch whose rows were labelled."""
        check_mean(self.mean, mean, self.classes)

    def without_batch(self) -> Self:
        """These rates for other predictions of the same rows; only their number is checked."""
        return replace(self, mean=None)

    def on(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        found = super().on(classes, n_classes)  # which puts the rates in order, but not the mean prediction
        if self.mean is None or self.classes is None or found.classes is None:
            return found
        names = list(matched_names(self.classes, found.classes))
        return replace(found, mean=np.asarray(found.mean)[[names.index(name) for name in found.classes]])

    @property
    def assumption(self) -> str:
        within = " within each stratum" if self.stratified else ""
        return f"the labelled rows were drawn at random{within} from these rows"

    def estimate(self) -> FloatArray:
        return np.asarray(self.values)

    def describe(self) -> str:
        low, high = self._bounds()
        listed = self._list_by_class([_interval(a, b) for a, b in zip(low, high, strict=True)])
        return f"{self._source()}: {listed}; {self._remark()}"

    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        return RateSet.box(self.low, self.high).bounds()

    def _source(self) -> str:
        rows = "row" if self.n_labelled == 1 else "rows"
        return f" estimated from {self.n_labelled:,} labelled {rows} of a batch of {self.n_rows:,}"

    def _remark(self) -> str:
        return self.condition()

    def _columns(self) -> dict[str, Any]:
        low, high = self._bounds()
        return {"estimate": self.values, "at least": low, "at most": high}

    def _validated(self) -> Self:
        for name in ("n_rows", "n_labelled"):
            number = getattr(self, name)
            if not isinstance(number, (int, np.integer)) or isinstance(number, bool) or number < 1:
                raise BadRates(f"{name} must be a whole number above 0, not {quoted_name(number)}")
        return super()._validated()

    def _resolved(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        low = one_per_class(self.low, classes, n_classes, "low", missing=0.0)
        high = one_per_class(self.high, classes, n_classes, "high", missing=1.0)
        _check_bounds(low, high, classes)
        return replace(
            self,
            values=as_rates(self.values, classes, n_classes),
            low=low,
            high=high,
            confidence=float(self.confidence),
            stratified=bool(self.stratified),
            mean=None if self.mean is None else as_rates(self.mean, None, n_classes),
        )
