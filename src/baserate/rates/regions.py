"""Regions that limit class rates in addition to bounds: none, a ball, or an ellipsoid.

A rate set is a box and a region; see :mod:`baserate.rates.sets`. The methods of a region that take a box are those of
the rate set that both make, and are called only if the box is not a single point.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from baserate.rates.boxes import Box
from baserate.support.arrays import FloatArray, IndexArray


class Region(ABC):
    """A convex set of class rates, which limits the rates of a box.

    Attributes
    ----------
    is_curved : bool
        Whether the region limits rates at all. Its boundary is then smooth, and has a centre and normals. Without it,
        the rate set is a polytope.
    is_cut : bool
        Whether only the part of the region in the box belongs to the rate set. If not, the region alone decides, and
        the box only says which classes have rate 0.
    centre : array of shape (k,)
        Only if the region is curved.
    radius : float
        The largest distance of a member from the centre.
    """

    is_curved: ClassVar[bool] = True
    is_cut: ClassVar[bool] = True
    centre: FloatArray
    radius: float

    @property
    @abstractmethod
    def whitening(self) -> FloatArray:
        """The matrix W for which ``|W (t - centre)|`` is the distance of rates from the centre, shape (m, k)."""

    @abstractmethod
    def distance(self, t: FloatArray) -> float:
        """Distance from the centre, in the norm of the region."""

    @abstractmethod
    def normal(self, direction: FloatArray) -> FloatArray:
        """The normal of the boundary where the ray from the centre in this direction leaves the region."""

    @abstractmethod
    def restrict(self, keep: IndexArray) -> Region:
        """The part of the region where all classes but ``keep`` have rate 0."""

    @abstractmethod
    def bounds_in(self, box: Box) -> tuple[FloatArray, FloatArray]:
        """The smallest and the largest rate of each class."""

    @abstractmethod
    def violation_in(self, box: Box, rates: FloatArray) -> float:
        """The largest violation of a bound or of the region, in units of rates; 0 for members."""

    @abstractmethod
    def support_in(self, box: Box, shift: FloatArray, near: FloatArray) -> FloatArray:
        """The member with the least ``<shift, t>``; see :meth:`RateSet.support`."""

    @abstractmethod
    def support_curvature_in(self, box: Box, shift: FloatArray, rates: FloatArray) -> FloatArray:
        """Minus the Hessian of the support function; see :meth:`RateSet.support_curvature`."""

    def nearest_in(self, box: Box, rates: FloatArray, scale: FloatArray | None) -> FloatArray:
        """A member near the given rates; in a box without limit the nearest one in the norm with this scale."""
        return self.support_in(box, np.zeros_like(rates), rates)

    def squared_lengths(self, differences: FloatArray, scale: FloatArray) -> FloatArray:
        """Squares of the lengths of differences between rates, shape (n,), for differences of shape (n, k).

        The norm is one in which :meth:`nearest_in` finds the nearest member; ``scale`` is that of a box.
        """
        return np.asarray(((differences @ self.whitening.T) ** 2).sum(axis=1))

    def is_reached(self, rates: FloatArray) -> bool:
        """Whether these rates lie on the boundary, up to rounding, or outside."""
        return self.distance(rates) >= self.radius * (1 - 1e-9)


class Unlimited(Region):
    """All rates: only the bounds of the box count."""

    is_curved = False
    radius = np.inf

    @property
    def whitening(self) -> FloatArray:
        raise TypeError("a rate set with bounds only has no centre")

    def distance(self, t: FloatArray) -> float:
        return 0.0

    def normal(self, direction: FloatArray) -> FloatArray:
        return direction

    def restrict(self, keep: IndexArray) -> Region:
        return self

    def bounds_in(self, box: Box) -> tuple[FloatArray, FloatArray]:
        return box.low, box.high

    def violation_in(self, box: Box, rates: FloatArray) -> float:
        return box.distance(rates)

    def support_in(self, box: Box, shift: FloatArray, near: FloatArray) -> FloatArray:
        return box.support(shift, near)

    def support_curvature_in(self, box: Box, shift: FloatArray, rates: FloatArray) -> FloatArray:
        return np.zeros((len(shift), len(shift)))

    def nearest_in(self, box: Box, rates: FloatArray, scale: FloatArray | None) -> FloatArray:
        return super().nearest_in(box, rates, scale) if scale is None else box.project(rates, scale)

    def squared_lengths(self, differences: FloatArray, scale: FloatArray) -> FloatArray:
        return np.asarray(differences**2 @ scale)


UNLIMITED = Unlimited()
"""The region of rate sets that have bounds only."""
