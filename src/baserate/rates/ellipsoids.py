"""Ellipsoids of class rates, in the form that the solver uses.

An ellipsoid is ``{centre + root u : |u| <= radius}``, where ``root root'`` is a covariance matrix whose rows sum to 0.
It is not cut with the simplex: the mean of bounded predictions lies in the simplex anyway, so the adjusted predictions
are the same, and the guarantee holds for a larger set of rates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baserate.errors import InfeasibleRates
from baserate.rates.boxes import Box
from baserate.rates.regions import Region
from baserate.support.arrays import FloatArray, IndexArray

_FLATTEST = 1e-12
"""The smallest variance, relative to the largest. A flat ellipsoid gets this thickness, so that it has an inside."""


@dataclass(frozen=True, eq=False)
class Ellipsoid(Region):
    """Rates whose distance from the centre, measured by a covariance matrix, is at most the radius.

    Attributes
    ----------
    centre : array of shape (k,)
        It sums to 1. It may lie outside the simplex.
    root : array of shape (k, m)
        ``root @ root.T`` is the covariance matrix. Its columns sum to 0.
    radius : float
    """

    is_cut = False
    centre: FloatArray
    root: FloatArray
    radius: float

    @classmethod
    def of(cls, centre: FloatArray, covariance: FloatArray, radius: float) -> Ellipsoid:
        """The ellipsoid with this covariance matrix, of which only the part that keeps the sum of rates counts."""
        basis = centred_basis(len(centre))
        variances, axes = np.linalg.eigh(basis.T @ covariance @ basis)
        variances = np.maximum(variances, max(_FLATTEST * float(variances[-1]), 1e-300))
        return cls(centre, basis @ (axes * np.sqrt(variances)), radius)

    @property
    def whitening(self) -> FloatArray:
        """The matrix W for which ``|W (t - centre)|`` is the distance of rates from the centre, shape (m, k)."""
        squares = np.maximum((self.root**2).sum(axis=0), 1e-300)
        is_orthogonal = np.allclose(self.root.T @ self.root, np.diag(squares), rtol=0, atol=1e-13 * squares.max())
        # The columns of a new ellipsoid are orthogonal. Dividing keeps the digits of a flat one.
        return np.asarray((self.root / squares).T if is_orthogonal else np.linalg.pinv(self.root, rcond=1e-14))

    def distance(self, t: FloatArray) -> float:
        """Distance from the centre, in units of the covariance matrix."""
        return float(np.linalg.norm(self.whitening @ (t - self.centre)))

    def normal(self, direction: FloatArray) -> FloatArray:
        """The normal of the boundary where the ray from the centre in this direction leaves it."""
        whitening = self.whitening
        return np.asarray(whitening.T @ (whitening @ direction))

    def towards(self, rates: FloatArray) -> FloatArray:
        """These rates if they are a member, else the member on the way to them from the centre."""
        distance = self.distance(rates)
        return rates if distance <= self.radius else self.centre + (rates - self.centre) * (self.radius / distance)

    def support(self, shift: FloatArray) -> FloatArray:
        """The member with the least ``<shift, t>``. Its entries may be negative. The shifts must not all be equal."""
        slope = (shift - shift.mean()) / np.ptp(shift)
        along = slope @ self.root
        return np.asarray(self.centre - self.radius * (self.root @ (along / np.linalg.norm(along))))

    def support_curvature(self, shift: FloatArray) -> FloatArray:
        """Minus the Hessian of the support function at shifts that are not all equal."""
        along = (shift - shift.mean()) @ self.root
        length = float(np.linalg.norm(along))
        radial = self.root @ (along / length)
        return np.asarray((self.radius / length) * (self.root @ self.root.T - np.outer(radial, radial)))

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """The smallest and the largest rate of each class in the ellipsoid, within 0 and 1."""
        reach = self.radius * np.sqrt((self.root**2).sum(axis=1))
        return np.clip(self.centre - reach, 0.0, 1.0), np.clip(self.centre + reach, 0.0, 1.0)

    def bounds_in(self, box: Box) -> tuple[FloatArray, FloatArray]:
        return self.bounds()

    def violation_in(self, box: Box, rates: FloatArray) -> float:
        return float(np.abs(rates - self.towards(rates)).max(initial=0.0))

    def support_in(self, box: Box, shift: FloatArray, near: FloatArray) -> FloatArray:
        return self.support(shift) if np.ptp(shift) > 0 else self.towards(near)

    def support_curvature_in(self, box: Box, shift: FloatArray, rates: FloatArray) -> FloatArray:
        return self.support_curvature(shift) if np.ptp(shift) > 0 else np.zeros((len(shift), len(shift)))

    def restrict(self, keep: IndexArray) -> Ellipsoid:
        """The part of the ellipsoid where all classes but ``keep`` have rate 0."""
        dropped = np.setdiff1d(np.arange(len(self.centre)), keep)
        nearest = -np.linalg.pinv(self.root[dropped]) @ self.centre[dropped]
        rest = self.radius**2 - float(nearest @ nearest)
        if rest < -1e-9 * self.radius**2:
            raise InfeasibleRates(
                f"no row predicts {len(dropped)} of the classes, but no rates in the ellipsoid are 0 for all of them; "
                "correct the rates, or choose a loss that can move probabilities of 0",
                classes=dropped.tolist(),
                reachable=0.0,
                wanted=float(max(self.bounds()[0][dropped].max(), 0.0)),
            )
        _, _, axes = np.linalg.svd(self.root[dropped])
        root = (self.root @ axes[len(dropped) :].T)[keep]
        return Ellipsoid((self.centre + self.root @ nearest)[keep], root, float(np.sqrt(max(rest, 0.0))))


def centred_basis(k: int) -> FloatArray:
    """An orthonormal basis of the vectors that sum to 0, shape (k, k - 1), after Helmert."""
    basis = np.zeros((k, k - 1))
    for j in range(1, k):
        basis[:j, j - 1], basis[j, j - 1] = 1.0, -float(j)
        basis[:, j - 1] /= np.sqrt(j * (j + 1.0))
    return basis
