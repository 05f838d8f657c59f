"""A proper loss of one's own that is not separable: log loss on classes and on the groups that they form.

A wrong disease is bad, a wrong family of diseases is worse:

    score = -log p_y - weight * log P_g,     P_g = the probability of the group g that y belongs to

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
        Above 0.
    """

    name = "hierarchical_log"
    pins_zeros = True  # log 0 is -inf: a class of probability 0 stays there

    def __init__(self, groups: Sequence[int], weight: float = 1.0) -> None:
        self.groups = [int(g) for g in groups]
        self.weight = float(weight)
        names, self._of = np.unique(self.groups, return_inverse=True)  # the number of each class's group
        self._members = np.eye(len(names))[self._of]  # (k, groups): q @ members are the groups' probabilities

    def phi(self, q: FloatArray) -> FloatArray:
        return _entropy(q) + self.weight * _entropy(q @ self._members)

    def gradient(self, q: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(q) + self.weight * np.log(q @ self._members)[:, self._of]

    def row_map(self, x: FloatArray, *, bounded: bool = True) -> FloatArray:
        # Softmax inside each group, then softmax over the groups: a nested logit model.
        top = np.where(self._members.T > 0, x[:, None, :], -np.inf).max(axis=2)
        inside = np.exp(x - np.maximum(top, -1e300)[:, self._of])
        total = inside @ self._members
        with np.errstate(divide="ignore"):
            height = (top + np.log(total)) / (1.0 + self.weight)
        share = np.exp(height - height.max(axis=1, keepdims=True)) / np.maximum(total, 1.0)
        return inside * share[:, self._of] / (share * total).sum(axis=1, keepdims=True)

    def jacobian(self, a: FloatArray, weights: FloatArray, *, bounded: bool = True) -> FloatArray:
        same = self._members @ self._members.T
        mass = (a @ self._members)[:, self._of]
        within = (a.T * weights) @ np.divide(a, mass, out=np.zeros_like(a), where=mass > 0) * same
        return laplacian((self.weight * within + (a.T * weights) @ a) / (1.0 + self.weight))

    def on_face(self, keep: IndexArray, n_classes: int) -> Loss:
        return HierarchicalLog([self.groups[j] for j in keep], self.weight)

    def params(self) -> Mapping[str, Any]:
        return {"groups": self.groups, "weight": self.weight}

    @classmethod
    def examples(cls) -> list[tuple[Loss, int]]:
        return [(cls([0, 0, 1]), 3), (cls([0, 1, 0, 1, 2], weight=0.3), 5)]


def _entropy(q: FloatArray) -> FloatArray:
    return (q * np.log(q, where=q > 0, out=np.zeros_like(q))).sum(axis=1)
