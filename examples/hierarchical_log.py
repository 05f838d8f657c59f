"""Example of a user-defined loss that is not separable: log loss on classes plus log loss on groups of classes.

Predicting the wrong disease is bad, but predicting a disease of the wrong family is worse:

    score = -log p_y - weight * log P_g,     P_g = the probability of the group g that contains y

docs/new-loss.md derives the four methods below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baserate.losses import Loss, register
from baserate.losses.base import laplacian
from baserate.support.arrays import FloatArray, IndexArray


@register
class HierarchicalLog(Loss):
    """Log loss on classes plus ``weight`` times log loss on groups.

    Parameters
    ----------
    groups : sequence of int
        The group of each class.
    weight : float, default 1
        Weight of the log loss on groups, above 0.
    """

    name = "hierarchical_log"
    pins_zeros = True  # log(0) is -inf, so a hard zero stays 0

    def __init__(self, groups: Sequence[int], weight: float = 1.0) -> None:
        self.groups = [int(g) for g in groups]
        self.weight = float(weight)
        names, self._group = np.unique(self.groups, return_inverse=True)  # the group number of each class
        # Shape (k, groups): q @ self._members are the probabilities of the groups.
        self._members = np.eye(len(names))[self._group]

    def phi(self, q: FloatArray) -> FloatArray:
        return _entropy(q) + self.weight * _entropy(q @ self._members)

    def gradient(self, q: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(q) + self.weight * np.log(q @ self._members)[:, self._group]

    def row_map(self, x: FloatArray, *, bounded: bool = True) -> FloatArray:
        # Softmax within each group, then softmax over the groups: a nested logit model.
        top = np.where(self._members.T > 0, x[:, None, :], -np.inf).max(axis=2)
        within_group = np.exp(x - np.maximum(top, -1e300)[:, self._group])
        total = within_group @ self._members
        with np.errstate(divide="ignore"):
            log_mass = (top + np.log(total)) / (1.0 + self.weight)
        share = np.exp(log_mass - log_mass.max(axis=1, keepdims=True)) / np.maximum(total, 1.0)
        return within_group * share[:, self._group] / (share * total).sum(axis=1, keepdims=True)

    def jacobian(self, a: FloatArray, weights: FloatArray, *, bounded: bool = True) -> FloatArray:
        same_group = self._members @ self._members.T
        group_mass = (a @ self._members)[:, self._group]
        edges = (a.T * weights) @ np.divide(a, group_mass, out=np.zeros_like(a), where=group_mass > 0) * same_group
        return laplacian((self.weight * edges + (a.T * weights) @ a) / (1.0 + self.weight))

    def on_face(self, keep: IndexArray, n_classes: int) -> Loss:
        return HierarchicalLog([self.groups[j] for j in keep], self.weight)

    def params(self) -> Mapping[str, Any]:
        return {"groups": self.groups, "weight": self.weight}

    @classmethod
    def examples(cls) -> list[tuple[Loss, int]]:
        return [(cls([0, 0, 1]), 3), (cls([0, 1, 0, 1, 2], weight=0.3), 5)]


def _entropy(q: FloatArray) -> FloatArray:
    return (q * np.log(q, where=q > 0, out=np.zeros_like(q))).sum(axis=1)
