"""Kinds of :class:`Rates` whose region is an ellipsoid: with a given matrix, or around draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from baserate.inputs.class_names import matched_names
from baserate.inputs.class_numbers import as_rates, is_one_number
from baserate.rates.base import Rates
from baserate.rates.ellipsoid_arguments import checked_covariance, checked_radius
from baserate.rates.ellipsoids import Ellipsoid
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class EllipsoidRates(Rates):
    """See :meth:`Rates.near` with a matrix. The fields are those of the ellipsoid.

    Attributes
    ----------
    values : array of shape (k,)
        The centre.
    covariance : array of shape (k, k)
    radius : float
    """

    kind = "ellipsoid"
    values: Any
    covariance: Any
    radius: Any

    @property
    def region(self) -> Ellipsoid:
        """The ellipsoid of possible rates."""
        return Ellipsoid.of(self.values, self.covariance, float(self.radius))

    def rate_set(self, batch_size: int | None) -> RateSet:
        k = len(self.values)
        if self.radius == 0 or not self.covariance.any():
            return RateSet.point(self.estimate())
        if k == 2:  # An ellipsoid of one dimension is an interval, for which the solver is simpler.
            return RateSet.box(*self.region.bounds())
        return RateSet.box(np.zeros(k), np.ones(k), self.region)

    def estimate(self) -> FloatArray:
        if is_one_number(self.values):  # the rate of the second of two classes
            return as_rates(self.values, None, len(self.covariance))
        return np.asarray(self.values)

    def on(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        found = super().on(classes, n_classes)
        own = self.classes
        if own is None or found.classes is None:
            return found
        names = matched_names(own, found.classes) if classes is not None else own
        order = [list(names).index(name) for name in found.classes]
        return replace(found, covariance=np.asarray(found.covariance)[np.ix_(order, order)])

    def describe(self) -> str:
        return f"{self._source()} of {self._list_by_class([f'{value:.4g}' for value in self.estimate()])}"

    def _source(self) -> str:
        return f" within {self.radius:g} (distance by a matrix)"

    def _columns(self) -> dict[str, Any]:
        low, high = self.bounds()
        return {"centre": self.estimate(), "at least": low, "at most": high}

    def _resolved(self, classes: tuple[Any, ...] | None, n_classes: int) -> Self:
        values = as_rates(self.values, classes, n_classes)
        covariance = checked_covariance(self.covariance, n_classes)
        return replace(self, values=values, covariance=covariance, radius=checked_radius(self.radius))


@dataclass(frozen=True, eq=False, repr=False)
class SampledRates(EllipsoidRates):
    """See :meth:`Rates.from_samples`.

    Attributes
    ----------
    confidence : float
    n_draws : int
    """

    kind = "samples"
    confidence: Any
    n_draws: Any

    @property
    def certainty(self) -> float:
        return float(self.confidence)

    @property
    def has_fixed_confidence(self) -> bool:
        return True

    @property
    def assumption(self) -> str:
        return f"the {self.n_draws:,} draws represent what is known about the class rates of these rows"

    def condition(self, *, approximate: bool = False) -> str:
        return f"with {100 * self.confidence:.6g} % confidence, if {self.assumption}"

    def describe(self) -> str:
        return f"{self._source()}: {self._list_by_class([f'{value:.4g}' for value in self.values])}; {self._remark()}"

    def _source(self) -> str:
        return f" from {self.n_draws:,} draws"

    def _remark(self) -> str:
        return f"an ellipsoid that holds {100 * self.confidence:.6g} % of the draws"
