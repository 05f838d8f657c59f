"""Linear systems of Newton steps for overlapping groups, solved on cells.

The matrix is ``D' diag(J_c) D`` plus a block of damping per group. It has one row per group and class, but it is only
multiplied with: from groups to cells, by the curvature of each cell, and back. Conjugate gradients solve the system.
The preconditioner is the inverse of the block of each group; if the system is small, that of the whole matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from baserate.core.cells.groups import Groups
from baserate.core.conjugate_gradients import conjugate_gradients
from baserate.support.arrays import BoolArray, FloatArray, IndexArray

DENSE_SIZE = 1200
"""Systems with at most this many unknowns are factored as a whole."""

_MOST_STEPS = 2000
_RIDGE = 1e-9  # Of matrices whose diagonal is scaled to 1. The curvature is singular: margins share their totals.


@dataclass(frozen=True, eq=False)
class CellSystem:
    """A matrix ``D' diag(J_c) D + diag(B_g)``.

    Attributes
    ----------
    groups : Groups
    curvature : array of shape (C, k, k)
        The matrix J of each cell.
    damping : array of shape (G, k, k)
        The matrix B of each group.
    dense : array of shape (G k, G k), optional
        The matrix without damping, if the system is small.
    """

    groups: Groups
    curvature: FloatArray
    damping: FloatArray
    dense: FloatArray | None = None

    @classmethod
    def of(cls, groups: Groups, curvature: FloatArray) -> CellSystem:
        """The matrix without damping."""
        small = groups.n_groups * groups.n_classes <= DENSE_SIZE
        dense = dense_matrix(groups, curvature) if small else None
        return cls(groups, curvature, np.zeros((groups.n_groups, *curvature.shape[1:])), dense)

    def damped(self, damping: FloatArray) -> CellSystem:
        """The matrix with more damping."""
        return replace(self, damping=self.damping + damping)

    def multiply(self, v: FloatArray) -> FloatArray:
        """The product of the matrix with a vector of shape (G, k)."""
        bent = np.einsum("cij,cj->ci", self.curvature, self.groups.matrix @ v)
        return np.asarray(self.groups.transposed @ bent + np.einsum("gij,gj->gi", self.damping, v))

    @cached_property
    def blocks(self) -> FloatArray:
        """The block of each group on the diagonal, shape (G, k, k)."""
        return self.groups.sum(self.curvature) + self.damping

    def solve(self, right: FloatArray, bound: BoolArray, accuracy: float) -> FloatArray:
        """Solve for the entries ``bound``; the others are 0.

        Parameters
        ----------
        right : array of shape (G, k)
        bound : bool array of shape (G, k)
        accuracy : float
            How much smaller the error of the equations should be than ``right``.
        """
        precondition = _Blocks.of(self.blocks, bound) if self.dense is None else _Whole.of(self, bound)
        diagonal = np.einsum("gii->gi", self.blocks)
        scale = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=bound & (diagonal > 0))

        def multiply(v: FloatArray) -> FloatArray:
            return np.where(bound, self.multiply(v), 0.0)

        right = np.where(bound, right, 0.0)
        return conjugate_gradients(multiply, right, precondition, scale, accuracy=accuracy, most_steps=_MOST_STEPS).x


def _scaled(blocks: FloatArray, bound: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Blocks with a diagonal of 1, and the scale that does this; entries that are not bound are those of the unit."""
    diagonal = np.einsum("gii->gi", blocks)
    scale = np.where(bound & (diagonal > 0), 1.0 / np.sqrt(np.maximum(diagonal, 1e-200)), 0.0)
    scaled = blocks * scale[:, :, None] * scale[:, None, :]
    at = np.arange(blocks.shape[1])
    scaled[:, at, at] = 1.0
    return scaled, scale


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The inverse of the block of each group."""

    inverse: FloatArray

    @classmethod
    def of(cls, blocks: FloatArray, bound: BoolArray) -> _Blocks:
        scaled, scale = _scaled(blocks, bound)
        # A group with no free class has the all-ones direction, along which the curvature is 0.
        ones = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        length = np.linalg.norm(ones, axis=1, keepdims=True)
        ones = np.divide(ones, length, out=np.zeros_like(ones), where=length > 0)
        flat = np.einsum("gi,gij,gj->g", ones, scaled, ones) < 1e-8
        scaled += flat[:, None, None] * ones[:, :, None] * ones[:, None, :]
        at = np.arange(blocks.shape[1])
        scaled[:, at, at] += _RIDGE
        return cls(np.linalg.inv(scaled) * scale[:, :, None] * scale[:, None, :])

    def __call__(self, v: FloatArray) -> FloatArray:
        return np.einsum("gij,gj->gi", self.inverse, v)


def solve_blocks(blocks: FloatArray, right: FloatArray, bound: BoolArray) -> FloatArray:
    """Solve with the block of each group alone."""
    return _Blocks.of(blocks, bound)(np.where(bound, right, 0.0))


@dataclass(frozen=True, eq=False)
class _Whole:
    """The inverse of the whole matrix, by its factors."""

    at: IndexArray
    scale: FloatArray
    factor: FloatArray

    @classmethod
    def of(cls, system: CellSystem, bound: BoolArray) -> _Whole:
        at, k = np.flatnonzero(bound), bound.shape[1]
        assert system.dense is not None
        matrix = system.dense[np.ix_(at, at)]
        if system.damping.any():
            same = at[:, None] // k == at // k
            matrix[same] += system.damping[(at // k)[:, None], (at % k)[:, None], at % k][same]
        diagonal = np.diag(matrix)
        scale = np.where(diagonal > 0, 1.0 / np.sqrt(np.maximum(diagonal, 1e-200)), 0.0)
        matrix = matrix * scale[:, None] * scale
        matrix[np.diag_indices_from(matrix)] = 1.0
        ridge = _RIDGE
        while True:
            try:
                matrix[np.diag_indices_from(matrix)] = 1.0 + ridge
                return cls(at, scale, np.asarray(np.linalg.cholesky(matrix), dtype=np.float64))
            except np.linalg.LinAlgError:
                ridge *= 100.0

    def __call__(self, v: FloatArray) -> FloatArray:
        from scipy.linalg import cho_solve

        out = np.zeros(v.size)
        right = self.scale * v.ravel()[self.at]
        out[self.at] = self.scale * cho_solve((self.factor, True), right, check_finite=False)
        return out.reshape(v.shape)


def dense_matrix(groups: Groups, curvature: FloatArray) -> FloatArray:
    """The matrix ``D' diag(J_c) D`` as an array with one row per group and class."""
    k, n_groups = groups.n_classes, groups.n_groups
    pairs, incidence = groups.layout.pairs
    sums = (incidence @ curvature.reshape(len(curvature), -1)).reshape(-1, k, k)
    blocks = np.zeros((n_groups, k, n_groups, k))
    first, second = pairs // n_groups, pairs % n_groups
    blocks[second, :, first] = sums.transpose(0, 2, 1)
    blocks[first, :, second] = sums
    return blocks.reshape(n_groups * k, -1)
