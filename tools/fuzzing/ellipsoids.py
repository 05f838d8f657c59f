"""Ellipsoids of class rates, in formulas of the fuzzer's own: by eigenvectors and by support functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzzing.formulas import Array
from fuzzing.rate_sets import RateSet, between, exact

_FLATTEST = 1e-12
"""Variances below this share of the largest one are raised to it, as the library says of flat ellipsoids."""

_ROUNDING = 1e-14  # of a variance, relative to the largest one


@dataclass(frozen=True, eq=False, kw_only=True)
class EllipsoidSet(RateSet):
    """Rates with sum 1 and ``(t - centre)' C^-1 (t - centre) <= radius^2``. They may lie outside the simplex.

    Attributes
    ----------
    variances, axes : arrays of shape (k - 1,) and (k, k - 1)
        Eigenvalues and eigenvectors of the covariance matrix C on the vectors that sum to 0.
    """

    centre: Array
    variances: Array
    axes: Array

    @property
    def is_polytope(self) -> bool:
        return False

    def length(self, t: Array) -> float:
        """Distance from the centre."""
        return float(np.sqrt((((t - self.centre) @ self.axes) ** 2 / self.variances).sum()))

    def distance(self, t: Array) -> float:
        """By how much some rate must at least move: a plane between the rates and the ellipsoid says so."""
        # Rounding of the matrix changes its small variances.
        variances = self.variances + _ROUNDING * float(self.variances.max())
        along = (t - self.centre) @ self.axes
        length = float(np.sqrt((along**2 / variances).sum()))
        if length <= self.radius:
            return 0.0
        normal = self.axes @ (along / variances)
        # <normal, t - u> is at least this much for all members u. Differences of rates sum to 0, so that a constant may
        # be added to the normal; the median gives the largest bound.
        return length * (length - self.radius) / float(np.abs(normal - np.median(normal)).sum())

    def least(self, price: Array) -> float:
        # The library gets the matrix, in which rounding has changed the small variances.
        variances = np.maximum(self.variances - _ROUNDING * float(self.variances.max()), 0.0)
        reach = self.radius * float(np.sqrt(variances @ (price @ self.axes) ** 2))
        return float(price @ self.centre) - reach

    def bounds(self) -> tuple[Array, Array]:
        low, high = super().bounds()
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)

    def constraints(self, t: Any) -> list[Any]:
        import cvxpy as cp

        whitening = (self.axes / np.sqrt(self.variances)).T
        return [cp.norm(whitening @ (t - self.centre)) <= self.radius]

    def smaller(self) -> RateSet | None:
        thinnest = float(np.sqrt(self.variances.min()))
        if self.radius * thinnest < 1e-5:
            return None  # so flat that rounding decides
        return replace(self, radius=self.radius - 1e-6 / thinnest)

    def permuted(self, order: NDArray[np.intp]) -> RateSet:
        return replace(self, centre=self.centre[order], axes=self.axes[order])

    def code(self) -> str:
        covariance = (self.axes * self.variances) @ self.axes.T
        covariance = (covariance + covariance.T) / 2
        return f"br.Rates.near({self.centre.tolist()!r}, {self.radius!r}, metric={covariance.tolist()!r})"


def ellipsoid(centre: Array, covariance: Array, radius: float) -> RateSet:
    """An ellipsoid; a point or an interval where it is no more than that."""
    k = len(centre)
    found = _spectrum(covariance)
    if radius == 0 or found is None:
        return exact(centre)
    whole = _whole(centre, radius, *found)
    return between(*whole.bounds()) if k == 2 else whole


def around(draws: Array, confidence: float) -> RateSet:
    """The ellipsoid with the mean and the covariance matrix of draws that holds enough of them."""
    centre = draws.mean(axis=0)
    covariance = (draws - centre).T @ (draws - centre) / (len(draws) - 1)
    found = _spectrum(covariance)
    if found is None:
        return exact(centre)
    whole = _whole(centre, 1.0, *found)
    lengths = sorted(whole.length(one) for one in draws)
    inside = next(i for i in range(1, len(draws) + 1) if i >= confidence * (len(draws) + 1))
    return ellipsoid(centre, covariance, lengths[inside - 1] * (1 + 1e-9))  # so that rounding leaves this draw inside


def _whole(centre: Array, radius: float, variances: Array, axes: Array) -> EllipsoidSet:
    low, high = np.zeros(len(centre)), np.ones(len(centre))
    return EllipsoidSet(low, high, centre=centre, radius=radius, variances=variances, axes=axes)


def _spectrum(covariance: Array) -> tuple[Array, Array] | None:
    """Variances and axes on the vectors that sum to 0; None if there are no variances."""
    k = len(covariance)
    centring = np.eye(k) - 1.0 / k
    # The constant vector gets the largest eigenvalue, so that it is the last one and can be left out.
    inner = centring @ covariance @ centring
    size = float(np.abs(inner).max())
    if not inner.any():
        return None
    variances, axes = np.linalg.eigh((inner + inner.T) / 2 + 10.0 * size)
    return np.maximum(variances[:-1], _FLATTEST * float(variances[-2])), axes[:, :-1]
