"""Kinds of :class:`Rates` whose region is an ellipsoid: with a given matrix, or around draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from baserate.errors import BadRates, Option
from baserate.inputs.class_names import matched_names
from baserate.inputs.class_numbers import as_rates
from baserate.inputs.validation import is_number, quoted, quoted_name
from baserate.rates.base import Rates
from baserate.rates.ellipsoids import Ellipsoid
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray

_METRIC, _CLASSES = Option("metric"), Option("classes")
_SYMMETRY = 1e-8  # relative to the largest entry; covariances that were printed and read again are less exact than sums
_SUM_TOLERANCE = 1e-3  # of a draw: posterior samplers often return float32


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
        return f"{self._source()} of {self._list_by_class([f'{value:.4g}' for value in self.values])}"

    def _source(self) -> str:
        return f" within {self.radius:g} (distance by a matrix)"

    def _columns(self) -> dict[str, Any]:
        low, high = self.bounds()
        return {"centre": self.values, "at least": low, "at most": high}

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

    def condition(self, *, approximate: bool = False) -> str:
        return (
            f"with {100 * self.confidence:.6g} % confidence, if the {self.n_draws:,} draws represent what is known "
            "about the class rates of these rows"
        )

    def describe(self) -> str:
        return f"{self._source()}: {self._list_by_class([f'{value:.4g}' for value in self.values])}; {self._remark()}"

    def _source(self) -> str:
        return f" from {self.n_draws:,} draws"

    def _remark(self) -> str:
        return f"an ellipsoid that holds {100 * self.confidence:.6g} % of the draws"


def near_by_matrix(values: Any, radius: Any, metric: Any, classes: Any) -> dict[str, Any]:
    """The fields of :class:`EllipsoidRates` from the arguments of :meth:`Rates.near`, and the names of the classes."""
    names = tuple(values) if isinstance(values, Mapping) and classes is None else classes
    index, columns = getattr(metric, "index", None), getattr(metric, "columns", None)
    if index is not None and columns is not None and not callable(index):
        own = tuple(np.asarray(columns).tolist())
        if tuple(np.asarray(index).tolist()) != own:
            raise BadRates(f"the rows and columns of {_METRIC} have different names", options=[_METRIC])
        names = own if names is None else names
        if set(own) != set(names):
            raise BadRates(
                f"the columns of {_METRIC} are {quoted(own)}, but the classes are {quoted(names)}", options=[_METRIC]
            )
        order = [own.index(name) for name in names]
        metric = np.asarray(metric)[np.ix_(order, order)]
    elif isinstance(values, Mapping) and classes is not None:
        raise BadRates(f"with a dict of rates, {_METRIC} has the order of the dict; leave out {_CLASSES}=")
    return {"classes": names, "values": values, "covariance": metric, "radius": radius}


def around_draws(draws: Any, confidence: float, classes: Any) -> dict[str, Any]:
    """The fields of :class:`SampledRates` from the arguments of :meth:`Rates.from_samples`."""
    if not is_number(confidence) or not 0 < float(confidence) < 1:
        raise BadRates(f"confidence must be a number between 0 and 1, such as 0.95, not {quoted_name(confidence)}")
    if classes is None and getattr(draws, "columns", None) is not None and not callable(draws.columns):
        classes = tuple(np.asarray(draws.columns).tolist())
    rows = _checked_draws(draws)
    m = len(rows)
    needed = int(np.ceil(confidence * (m + 1)))  # one more than the share of m, as for a draw still to come
    if needed > m:
        raise BadRates(
            f"{m} draws are too few for a confidence of {confidence:g}; pass at least "
            f"{int(np.ceil(1 / (1 - confidence) - 1e-9))}"
        )
    centre = rows.mean(axis=0)
    covariance = np.atleast_2d(np.cov(rows, rowvar=False))
    radius = 0.0
    if covariance.any():
        whitening = Ellipsoid.of(centre, covariance, 1.0).whitening
        distances = np.linalg.norm((rows - centre) @ whitening.T, axis=1)
        radius = float(np.sort(distances)[needed - 1]) * (1 + 1e-9)
    fields = {"values": centre, "covariance": covariance, "radius": radius}
    return {"classes": classes, **fields, "confidence": float(confidence), "n_draws": m}


def _checked_draws(draws: Any) -> FloatArray:
    try:
        rows = np.asarray(draws, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadRates("draws must be numbers, with one row per draw and one column per class") from None
    if rows.ndim == 1:  # of the positive class
        rows = np.column_stack([1.0 - rows, rows])
    if rows.ndim != 2 or rows.shape[1] < 2 or len(rows) < 2:
        raise BadRates(f"draws must have one row per draw and one column per class, but their shape is {rows.shape}")
    for bad, rule in (
        (~np.isfinite(rows).all(axis=1), "has values that are not finite"),
        ((rows < -_SUM_TOLERANCE).any(axis=1), "has a rate below 0"),
        (np.abs(rows.sum(axis=1) - 1.0) > _SUM_TOLERANCE, "does not sum to 1"),
    ):
        if bad.any():
            i = int(bad.argmax())
            more = f" ({int(bad.sum()):,} draws are like that)" if bad.sum() > 1 else ""
            raise BadRates(f"draw {i} {rule}: {quoted(rows[i].round(6).tolist())}{more}")
    rows = np.maximum(rows, 0.0)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def checked_radius(radius: Any) -> float:
    """The radius of an ellipsoid as a number."""
    if not is_number(radius) or not 0 <= float(radius) < np.inf:
        raise BadRates(f"radius must be 0 or a positive number, not {quoted_name(radius)}")
    return float(radius)


def checked_covariance(matrix: Any, k: int) -> FloatArray:
    """The covariance matrix, of which only the part that keeps the sum of rates counts."""
    try:
        found = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadRates(f"{_METRIC} must be a matrix of numbers", options=[_METRIC]) from None
    size = float(np.abs(found).max(initial=0.0))
    if found.shape != (k, k):
        problem = f"has shape {found.shape}, but there are {k} classes; pass a matrix of shape ({k}, {k})"
    elif not np.isfinite(found).all():
        problem = "has entries that are not finite"
    elif np.abs(found - found.T).max() > _SYMMETRY * size:
        problem = "is not symmetric; pass a covariance matrix"
    elif np.linalg.eigvalsh((found + found.T) / 2)[0] < -_SYMMETRY * size:
        problem = "has a negative variance in some direction; pass a covariance matrix"
    else:
        centred = found - found.mean(axis=0)
        centred = centred - centred.mean(axis=1, keepdims=True)
        return np.asarray((centred + centred.T) / 2)
    raise BadRates(f"{_METRIC} {problem}", options=[_METRIC])
