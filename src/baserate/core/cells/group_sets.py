"""The rate sets of many groups, computed together; see :mod:`baserate.rates.sets` for one set.

Arrays have shape (G, k): one row per group. Bounds of all groups are handled by array operations. Groups with a
curved region are handled one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from baserate.rates.regions import UNLIMITED, Region
from baserate.rates.sets import RateSet
from baserate.support.arrays import BoolArray, FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class GroupSets:
    """The possible rates of each group.

    Attributes
    ----------
    low, high : array of shape (G, k)
        Tightened bounds.
    regions : dict
        The curved region that limits the rates of a group as well, by the number of the group.
    """

    low: FloatArray
    high: FloatArray
    regions: Mapping[int, Region]

    @cached_property
    def fixed(self) -> BoolArray:
        """Which rates are known exactly, shape (G, k)."""
        return np.asarray(self.low == self.high)

    @cached_property
    def are_points(self) -> BoolArray:
        """Which groups have exact rates."""
        return np.asarray(self.fixed.all(axis=1))

    @cached_property
    def boxes(self) -> IndexArray:
        """The groups whose rates have bounds that are not exact, and nothing else."""
        is_box = ~self.are_points
        is_box[list(self.regions)] = False
        return np.flatnonzero(is_box)

    @cached_property
    def curved(self) -> tuple[int, ...]:
        """The groups whose rates are limited by a curved region."""
        return tuple(g for g in self.regions if not self.are_points[g])

    def rate_set(self, group: int) -> RateSet:
        """The set of one group."""
        return RateSet(self.low[group], self.high[group], self.regions.get(group, UNLIMITED))

    def support(self, shifts: FloatArray, near: FloatArray) -> FloatArray:
        """The rates with the least ``<shift, t>`` of each group; ties go to the rates nearest to ``near``."""
        out = self.low.copy()
        if len(self.boxes):
            at = self.boxes
            out[at] = _support_in_boxes(self.low[at], self.high[at], shifts[at], near[at])
        for g in self.curved:
            out[g] = self.rate_set(g).support(shifts[g], near[g])
        return out

    def anchors(self, shifts: FloatArray, wanted: FloatArray) -> FloatArray:
        """The free constant of each group, shape (G, 1), which is subtracted from its shift.

        In a box, classes between their bounds get shift 0. With exact rates, the mean of the shift under the rates is
        0. Then the huge shift of a rare class does not push the others to where floating point has no digits left.
        """
        out: FloatArray = (wanted * shifts).sum(axis=1)
        if len(self.boxes):
            at = self.boxes
            out[at] = margins(self.low[at], self.high[at], shifts[at])
        return out[:, None]


def margins(low: FloatArray, high: FloatArray, shifts: FloatArray) -> FloatArray:
    """The shift of the classes between their bounds where ``<shift, t>`` is least, for each group."""
    order = np.argsort(shifts, axis=1, kind="stable")
    filled = np.cumsum(np.take_along_axis(high - low, order, axis=1), axis=1)
    rest = 1.0 - low.sum(axis=1, keepdims=True)
    i = np.minimum((filled < rest).sum(axis=1), low.shape[1] - 1)
    at = np.arange(len(low))
    return np.asarray(shifts[at, order[at, i]])


def _support_in_boxes(low: FloatArray, high: FloatArray, shifts: FloatArray, near: FloatArray) -> FloatArray:
    margin = margins(low, high, shifts)[:, None]
    t = np.where(shifts < margin, high, low)
    tied = shifts == margin
    rest = 1.0 - np.where(tied, 0.0, t).sum(axis=1)
    # The other classes are fixed where they are, so that only the tied ones move.
    bottom, top = np.where(tied, low, 0.0), np.where(tied, high, 0.0)
    shared = project(np.where(tied, near, 0.0), bottom, top, rest)
    return np.where(tied, shared, t)


def project(v: FloatArray, low: FloatArray, high: FloatArray, total: FloatArray) -> FloatArray:
    """The points between bounds, each with its sum ``total``, that are nearest to the rows of ``v``.

    The point is ``clip(v + theta, low, high)``. Its sum is piecewise linear in theta, with kinks where a class reaches
    a bound; theta is interpolated between two kinks.
    """
    kinks = np.sort(np.concatenate([low - v, high - v], axis=1), axis=1)
    sums = np.minimum(np.maximum(v[:, None, :] + kinks[:, :, None], low[:, None, :]), high[:, None, :]).sum(axis=2)
    at = np.arange(len(v))
    i = np.clip((sums < total[:, None]).sum(axis=1), 1, kinks.shape[1] - 1)
    rise = sums[at, i] - sums[at, i - 1]
    share = np.divide(total - sums[at, i - 1], rise, out=np.zeros_like(rise), where=rise > 0)
    theta = kinks[at, i - 1] + np.clip(share, 0.0, 1.0) * (kinks[at, i] - kinks[at, i - 1])
    return np.asarray(np.minimum(np.maximum(v + theta[:, None], low), high))
