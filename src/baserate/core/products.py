"""Symmetric matrices of k x k numbers that are never computed, only multiplied with.

With many classes, the curvature of the dual function costs k times as much as the rest of a pass, and factoring it
costs more still. A product of the curvature with a vector costs as much as a pass, and the memory of k numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from baserate.core.conjugate_gradients import Solved, conjugate_gradients
from baserate.support.arrays import BoolArray, FloatArray

_LEAST_DIAGONAL = 1e-15  # Of the metric: the preconditioner of a class that has lost all of its curvature.


class Matrix(Protocol):
    """A symmetric matrix: an array of shape (k, k), or an object of this module."""

    def __matmul__(self, v: FloatArray, /) -> Any:
        """The product with a vector."""

    def diagonal(self) -> Any:
        """The diagonal, shape (k,)."""


@dataclass(frozen=True, eq=False)
class ProductCurvature:
    """The curvature of the dual function at a shift, as its diagonal and a function that multiplies with it."""

    entries: FloatArray
    multiply: Callable[[FloatArray], FloatArray]

    def __matmul__(self, v: FloatArray) -> FloatArray:
        return self.multiply(v)

    def diagonal(self) -> FloatArray:
        return self.entries


@dataclass(frozen=True, eq=False)
class CentredDiagonal:
    """``diag(h) - h h' / sum(h)``: the curvature of a single row."""

    h: FloatArray

    def __matmul__(self, v: FloatArray) -> FloatArray:
        return np.asarray(self.h * (v - float(self.h @ v) / float(self.h.sum())))

    def diagonal(self) -> FloatArray:
        return np.asarray(self.h * (1.0 - self.h / self.h.sum()))


@dataclass(frozen=True, eq=False)
class DampedSystem:
    """``curvature + damping * metric``, with which equations are solved by conjugate gradients.

    Attributes
    ----------
    curvature : Matrix
    metric : CentredDiagonal
    damping : float
    accuracy : float
        How much smaller than the right-hand side the error of a solution should be.
    most_steps : int
        Largest number of products for a solution.
    """

    curvature: Matrix
    metric: CentredDiagonal
    damping: float
    accuracy: float
    most_steps: int

    def __matmul__(self, v: FloatArray) -> FloatArray:
        return np.asarray(self.curvature @ v + self.damping * (self.metric @ v))

    def diagonal(self) -> FloatArray:
        return np.asarray(self.curvature.diagonal() + self.damping * self.metric.diagonal())

    def solve(self, right: FloatArray) -> Solved:
        """Solve for a right-hand side that sums to 0. Adding a constant to the solution makes no difference."""
        scale = self._scale
        return conjugate_gradients(
            self.__matmul__, right, scale.__mul__, scale, accuracy=self.accuracy, most_steps=self.most_steps
        )

    def solve_part(self, bound: BoolArray, right: FloatArray) -> FloatArray:
        """Solve with the rows and columns of some classes."""
        scale, whole = np.where(bound, self._scale, 0.0), np.zeros(len(bound))
        whole[bound] = right

        def multiply(v: FloatArray) -> FloatArray:
            return np.where(bound, self @ v, 0.0)

        options: dict[str, Any] = {"accuracy": self.accuracy, "most_steps": self.most_steps}
        return conjugate_gradients(multiply, whole, scale.__mul__, scale, **options).x[bound]

    @property
    def _scale(self) -> FloatArray:
        return np.asarray(1.0 / np.maximum(self.diagonal(), _LEAST_DIAGONAL * self.metric.h))
