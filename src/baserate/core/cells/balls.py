"""Balls and ellipsoids in Newton's step for many groups; both are called balls here.

On the boundary of a ball the support function is smooth, so that it gets a second-order model of its own, around shifts
that move with the step. It has one kink, where all classes have the same shift: there the ball does not bind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from baserate.core.cells.group_sets import GroupSets
from baserate.rates.regions import Region
from baserate.support.arrays import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class BallModel:
    """The second-order model of the support functions of all groups with a ball.

    Attributes
    ----------
    sets : GroupSets
    groups : tuple of int
        The groups with a ball.
    around : array of shape (n, k)
        The shifts around which each support function is modelled; equal for all classes where the ball does not bind.
    wanted : array of shape (n, k)
        The rates that these shifts support.
    curvature : array of shape (n, k, k)
    """

    sets: GroupSets
    groups: tuple[int, ...]
    around: FloatArray
    wanted: FloatArray
    curvature: FloatArray

    @classmethod
    def at(cls, sets: GroupSets, shifts: FloatArray, near: FloatArray) -> BallModel:
        """The model around the shifts of all groups, whose rates are near to ``near``."""
        groups = sets.curved
        return cls(sets, groups, *cls._model(sets, groups, shifts[list(groups)], near[list(groups)]))

    @staticmethod
    def _model(
        sets: GroupSets, groups: tuple[int, ...], around: FloatArray, near: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        wanted, curvature = np.zeros_like(around), np.zeros((*around.shape, around.shape[-1]))
        for i, g in enumerate(groups):
            rate_set = sets.rate_set(g)
            wanted[i] = rate_set.support(around[i], near[i])
            curvature[i] = rate_set.support_curvature(around[i], wanted[i])
        return around, wanted, curvature

    @property
    def binding(self) -> BoolArray:
        """Which of the balls bind."""
        return np.asarray(np.ptp(self.around, axis=1) > 0) if len(self.groups) else np.zeros(0, dtype=np.bool_)

    def pull(self, shifts: FloatArray) -> FloatArray:
        """The rates that the model supports at the present shifts of the groups with a ball, shape (n, k)."""
        return self.wanted + np.einsum("gij,gj->gi", self.curvature, self.around - shifts)

    def moved(
        self, shifts: FloatArray, rates: FloatArray, blocks: FloatArray, *, share: float, tolerance: float
    ) -> tuple[BallModel, bool]:
        """The model around the shifts of a step, and whether it differs from this one.

        Parameters
        ----------
        shifts : array of shape (n, k)
            To which the step leads.
        rates : array of shape (n, k)
            The rates that the model of the rows predicts there.
        blocks : array of shape (n, k, k)
            The curvature of each group, divided by its weight.
        share : float
            How far the model moves towards these shifts. With 1, it may jump across the kink and back without end.
        tolerance : float
            Shifts that move by less than this, relative to their size, count as unchanged.
        """
        around = self.around + share * (shifts - self.around)
        for i, g in enumerate(self.groups):
            rate_set = self.sets.rate_set(g)
            without = rates[i] - blocks[i] @ shifts[i]  # if this group alone had no shift
            if rate_set.distance(without) <= 1e-14:
                around[i] = 0.0
            elif not self.binding[i]:
                around[i] = _leave_kink(self.sets.regions[g], rate_set.nearest(without) - without, blocks[i])
        scale = np.abs(around).max(initial=0.0)
        changed = bool((np.abs(around - self.around) > tolerance * scale).any())
        new = replace(self, around=around)
        _, wanted, curvature = self._model(self.sets, self.groups, around, rates)
        return replace(new, wanted=wanted, curvature=curvature), changed


def _leave_kink(region: Region, missing: FloatArray, block: FloatArray) -> FloatArray:
    """A first shift along the normal of the region at the nearest member; ``missing`` leads to that member."""
    normal = region.normal(missing)
    bend = float(normal @ block @ normal)
    return np.asarray(normal * (float(normal @ missing) / bend)) if bend > 0 else normal
