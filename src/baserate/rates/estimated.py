"""Class rates that were estimated for one batch of predictions. :func:`baserate.estimate` creates them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from baserate.errors import BadRates, Option
from baserate.inputs.class_names import matched_names
from baserate.inputs.validation import class_label
from baserate.rates.base import Rates
from baserate.rates.ellipsoids import Ellipsoid
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray

ESTIMATE, WITHOUT_BATCH = Option("br.estimate"), Option("without_batch()")
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
        "moments", "exact" or another method of :func:`baserate.estimate`.
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
    note : str
        What is assumed, as the end of a sentence; empty for the usual assumption of label shift.
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
    note: Any = ""

    @property
    def certainty(self) -> float:
        return float(self.confidence)

    @property
    def has_fixed_confidence(self) -> bool:
        return not self.refuted  # all rates are possible then, at every confidence

    @property
    def assumption(self) -> str:
        if self.refuted:
            return self.condition()
        return self.note or "predictions within each class are distributed as in the validation data"

    @property
    def region(self) -> Ellipsoid | None:
        """The ellipsoid of possible rates, or None if all rates between the bounds are possible."""
        if self.covariance is None:
            return None
        return Ellipsoid.of(self.centre, self.covariance, float(self.radius))

    def rate_set(self, batch_size: int | None) -> RateSet:
        if batch_size is not None and self.n_rows is not None and batch_size != self.n_rows:
            raise BadRates(
                f"these rates were estimated for a batch of {self.n_rows:,} rows, but there are {batch_size:,} rows "
                f"(unequal row weights lower this number); estimate the rates of these rows with {ESTIMATE}",
                options=[ESTIMATE],
            )
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

    def on(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        found = super().on(classes, n_classes)  # which puts values, low and high in order
        own = self.classes
        return found if own is None or found.classes is None else self._reordered(found, own)

    def _reordered(self, found: Self, own: tuple[Any, ...]) -> Self:
        assert found.classes is not None
        names = list(matched_names(own, found.classes))
        order = [names.index(name) for name in found.classes]
        others = {name: getattr(found, name) for name in ("centre", "mean")}
        changes: dict[str, Any] = {
            name: None if value is None else np.asarray(value)[order] for name, value in others.items()
        }
        if found.covariance is not None:
            changes["covariance"] = np.asarray(found.covariance)[np.ix_(order, order)]
        return replace(found, **changes)

    def describe(self) -> str:
        texts = [
            f"{value:.4g} ({low:.4g} to {high:.4g})"
            for value, low, high in zip(self.values, self.low, self.high, strict=True)
        ]
        return f"{self._source()}: {self._list_by_class(texts)}; {self._remark()}"

    def _source(self) -> str:
        of = "" if self.n_rows is None else f" for a batch of {self.n_rows:,} row{'' if self.n_rows == 1 else 's'}"
        rows = f" from {self.n_validation:,} labelled rows" if self.n_validation else ""
        return f" estimated{of}{rows}"

    def _remark(self) -> str:
        if self.refuted:
            return f"nothing is assumed about them, because {self._test()}"
        return f"{self.condition()}"

    def _test(self) -> str:
        if self.refuted:
            number = "no rates fit" if self.p_value is None else f"p = {_p_value(self.p_value)}"
            return f"label shift was refuted ({number})"
        return "not tested" if self.p_value is None else f"not refuted, p = {_p_value(self.p_value)}"

    def condition(self, *, approximate: bool = False) -> str:
        if self.refuted:
            return "whatever the class rates of these rows are"
        about = "" if self.method in ("exact", "labelled") else "about "
        test = "" if self.note else f" ({self._test()})"
        return f"with {about}{100 * self.confidence:.6g} % confidence, if {self.assumption}{test}"

    def _columns(self) -> dict[str, Any]:
        return {"estimate": self.values, "at least": self.low, "at most": self.high}

    def bounds(self, batch_size: int | None = None) -> tuple[FloatArray, FloatArray]:
        low, high = super().bounds(batch_size)
        # Within the ellipsoid and within the stated bounds, which may be tighter for the part of it in the simplex.
        return np.maximum(low, self.low), np.minimum(high, self.high)

    def _resolved(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        arrays = {name: getattr(self, name) for name in (*_PER_CLASS, "covariance")}
        changes: dict[str, Any] = {
            name: None if value is None else np.array(value, dtype=np.float64) for name, value in arrays.items()
        }
        if any(value is not None and value.shape[0] != n_classes for value in changes.values()):
            raise BadRates(f"the rates were estimated for {len(self.values)} classes, but there are {n_classes}")
        return replace(self, **changes)


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


def _p_value(value: float) -> str:
    return "below 0.0001" if value < 1e-4 else f"{value:.2g}"
