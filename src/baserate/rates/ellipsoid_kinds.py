"""Kinds of :class:`Rates` whose region is an ellipsoid: with a given matrix, or around draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from baserate.errors import BadRates
from baserate.inputs.class_numbers import as_rates, is_one_number
from baserate.inputs.validation import as_confidence
from baserate.rates.arguments import as_count
from baserate.rates.base import Rates
from baserate.rates.ellipsoid_arguments import checked_covariance, checked_radius
from baserate.rates.ellipsoids import Ellipsoid
from baserate.rates.sets import RateSet
from baserate.rates.summary import list_numbers
from baserate.support.arrays import FloatArray
from baserate.support.numbers import counted, percent


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

    def _in_order(self, order: list[int]) -> dict[str, Any]:
        return super()._in_order(order) | {"covariance": np.asarray(self.covariance)[np.ix_(order, order)]}

    def describe(self) -> str:
        return f"{self._source()} of {self._list_by_class([f'{value:.4g}' for value in self.estimate()])}"

    def _source(self) -> str:
        return f" within {self.radius:g} (distance by a matrix)"

    def _columns(self) -> dict[str, Any]:
        if self.n_classes is None:
            return {}
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

    def _validated(self) -> Self:
        as_confidence(self.confidence, BadRates)
        as_count("n_draws", self.n_draws)
        return super()._validated()

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
        return f"with {percent(self.confidence)} confidence, if {self.assumption}"

    def describe(self) -> str:
        values = self.values
        if isinstance(values, Mapping):  # the rate of one class, until the other one is known
            values = {name: f"{value:.4g}" for name, value in values.items()}
        return f"{self._source()}: {list_numbers(self, values)}; {self._remark()}"

    def _source(self) -> str:
        return f" from {counted(self.n_draws, 'draw')}"

    def _remark(self) -> str:
        return f"an ellipsoid that holds {percent(self.confidence)} of the draws"
