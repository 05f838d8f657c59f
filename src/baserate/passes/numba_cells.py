"""Compiled passes for rates per group: what is passed to the kernels, and what their sums mean."""

from __future__ import annotations

import functools
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.core.cells.sums import CellDualSums, CellSurveySums, CellWrittenSums
from baserate.core.contracts import Block, CellChunk, SolvedCells
from baserate.core.fit import EASY_PASSES
from baserate.core.newton import TRUST_REGION, Target, relative_tolerance
from baserate.losses.base import laplacians
from baserate.passes.kernels.layout import (
    ABSENT,
    CURVATURE,
    DONE,
    LOWEST,
    MOVED,
    N_SUMS,
    OFFSET,
    SAFETY,
    SHORT,
    SIZE,
    VALUE,
    WIDEST,
    ZEROS,
)
from baserate.support.arrays import BoolArray, FloatArray, IndexArray
from baserate.support.threads import cores

_MANY_ROWS = 1_000_000  # More rows are sorted by several threads.


class CellArrays(NamedTuple):
    """What a compiled cell pass fills, for the cells from the first one of a block to the last one."""

    first: int
    present: IndexArray
    before: FloatArray
    mean: FloatArray
    edges: FloatArray
    sums: FloatArray
    rounded: FloatArray | None

    def of_present(self, values: NDArray[Any]) -> FloatArray:
        """The values of the cells that have rows in the block."""
        there = values if len(self.present) == len(values) else values[self.present - self.first]
        return there.astype(np.float64, copy=False)


@dataclass(frozen=True)
class CellKernel:
    """The compiled passes over cells for one loss and one dtype of predictions.

    Attributes
    ----------
    loss : "log" or "brier"
    dtype : dtype
        Of the predictions.
    answer_dtype : dtype
        Of the adjusted rows.
    smoothing, tolerance : float
        What is added to a probability, and how far a row's sum may be from 1.
    """

    loss: str
    dtype: np.dtype[Any]
    answer_dtype: np.dtype[Any]
    smoothing: float
    tolerance: float

    def run(
        self, block: Block, shifts: FloatArray, todo: int, *, curvature: bool, rows: NDArray[Any] | None = None
    ) -> CellArrays | None:
        """One compiled pass over a block; None if it cannot compute the pass or met a row that is not a prediction."""
        assert block.cells is not None
        kernels, k = cell_kernels(), shifts.shape[1]
        first, last = int(block.cells.min()), int(block.cells.max())
        n = last - first + 1
        prepared = self.prepared(shifts[first : last + 1])
        if prepared is None:
            return None
        edges = np.zeros((n, k, k)) if curvature else np.zeros((n, 0, 0))
        sums = np.zeros((n, N_SUMS))
        sums[:, LOWEST] = 2.0
        rows = np.empty((0, 0), self.answer_dtype) if rows is None else rows
        rounded = None if self.answer_dtype == np.float64 else np.zeros((n, k))
        before, mean = np.zeros((n, k)), np.zeros((n, k))
        stopped = kernels.compiled_pass(self.loss, self.dtype, self.answer_dtype)(
            block.rows, block.weights, block.cells - first, *prepared, self.smoothing, self.tolerance,
            todo | (CURVATURE if curvature else 0), before, mean, edges, sums, rows, rounded,
        )  # fmt: skip
        if stopped != DONE:
            return None
        present = np.flatnonzero(np.bincount(block.cells - first, minlength=n)) + first
        return CellArrays(first, present, before, mean, edges, sums, rounded)

    def prepared(self, shifts: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """The shifts in the form that the compiled pass expects; None if it cannot take them."""
        absent = np.isneginf(shifts)
        if self.loss == "brier":
            return np.where(absent, ABSENT, 0.5 * shifts), np.zeros(len(shifts))
        low, high = np.where(absent, np.inf, shifts).min(axis=1), shifts.max(axis=1)
        if not (high - low <= WIDEST).all():
            return None
        centre = 0.5 * (low + high)
        return np.exp(shifts - centre[:, None]), centre

    def survey(self, block: Block, done: CellArrays) -> CellSurveySums:
        """The survey of a block."""
        assert block.cells is not None
        cells, n = block.cells - done.first, len(done.before)
        w = block.weights
        n_rows = done.of_present(np.bincount(cells, minlength=n))
        weight = done.of_present(np.bincount(cells, w, minlength=n))
        squared = done.of_present(np.bincount(cells, w * w, minlength=n))
        sums, before = done.of_present(done.sums), done.of_present(done.before)
        zeros, lowest = sums[:, ZEROS], sums[:, LOWEST]
        if self.loss == "log":
            offset, ceiling = np.zeros(len(sums)), -np.log(lowest) * weight
        else:
            offset = sums[:, OFFSET]
            ceiling = weight * (1.0 - 2.0 * np.where(zeros > 0, 0.0, lowest)) + offset
            zeros = np.zeros(len(sums))
        return CellSurveySums(done.present, n_rows, weight, squared, before, offset, zeros, ceiling)

    def dual_sums(self, done: CellArrays) -> CellDualSums:
        """The sums of the dual function of a block."""
        sums, edges = done.of_present(done.sums), done.of_present(done.edges)
        if edges.shape[1]:
            edges = laplacians(edges + edges.transpose(0, 2, 1))  # the kernel fills what lies below the diagonal
        value, size = sums[:, VALUE], sums[:, SIZE]
        return CellDualSums(done.present, value, size, done.of_present(done.mean), edges)

    def written_sums(self, done: CellArrays, shifts: FloatArray) -> CellWrittenSums:
        """The sums over the adjusted rows of a block."""
        sums, mean = done.of_present(done.sums), done.of_present(done.mean)
        returned = mean if done.rounded is None else done.of_present(done.rounded)
        divergence = self._divergence(sums, shifts[done.present], returned)
        return CellWrittenSums(done.present, divergence, returned, sums[:, SHORT], mean)

    def _divergence(self, sums: FloatArray, shifts: FloatArray, mean: FloatArray) -> FloatArray:
        """The divergence of adjusted rows, whose sums are ``mean``, from the predictions; one number per cell."""
        if self.loss == "brier":
            return np.asarray(sums[:, MOVED])
        # By Fenchel's identity, with conj(link(p)) = 0. The last term is what rounding adds.
        pull = (np.where(mean > 0, shifts, 0.0) * mean).sum(axis=1)
        return np.asarray(pull - sums[:, VALUE] + sums[:, MOVED])

    def solve(
        self, chunk: CellChunk, rates: FloatArray, easy: BoolArray, target: Target, *, store: bool, order: int
    ) -> SolvedCells:
        """Solve the groups of a chunk that are marked as easy, each for its own exact rates."""
        kernels, (n, k) = cell_kernels(), rates.shape
        shifts, before, mean = np.zeros((n, k)), np.zeros((n, k)), np.zeros((n, k))
        sums, n_passes, solved = np.zeros((n, N_SUMS)), np.zeros(n, dtype=np.int64), easy.copy()
        rounded, squared = None if self.answer_dtype == np.float64 else np.zeros((n, k)), np.zeros(n)
        weights = np.zeros(0) if chunk.weights is None else chunk.weights
        rules = TRUST_REGION.copy()
        if not order:
            rules[SAFETY] = np.inf
        kernels.compiled_sweep(self.dtype, self.answer_dtype)(
            self.loss == "brier", chunk.raw, weights, chunk.order, chunk.starts, solved, rates, self.smoothing,
            self.tolerance, rules, target.tol, relative_tolerance(target.tol), EASY_PASSES, store,
            shifts, before, mean, sums, squared, n_passes, chunk.answer, rounded,
        )  # fmt: skip
        at, returned = np.flatnonzero(solved), mean if rounded is None else rounded
        divergence = self._divergence(sums[at], shifts[at], returned[at])
        lowest, zeros = sums[at, LOWEST], sums[at, ZEROS]
        if self.loss == "log":
            offset, ceiling = np.zeros(len(at)), -np.log(lowest)
        else:
            offset = sums[at, OFFSET]
            ceiling = 1.0 - 2.0 * np.where(zeros > 0, 0.0, lowest) + offset
        return SolvedCells(
            at + chunk.first, n_passes[at], shifts[at], before[at], offset, ceiling, squared[at], divergence,
            returned[at], sums[at, SHORT], mean[at],
        )  # fmt: skip


def order_by_cell(cells: IndexArray, n_cells: int) -> tuple[IndexArray, IndexArray]:
    """The numbers of the rows in the order of their cells, and where the rows of each cell start.

    A sort by counting, in which each thread has a part of the rows.
    """
    count, place = cell_kernels().compiled_sort()
    n_parts = cores() if len(cells) > _MANY_ROWS else 1
    pieces = np.linspace(0, len(cells), n_parts + 1).astype(np.int64)
    parts = [cells[first:stop] for first, stop in itertools.pairwise(pieces)]
    counts, order = np.zeros((len(parts), n_cells), dtype=np.int64), np.empty(len(cells), dtype=np.int64)
    with ThreadPoolExecutor(n_parts) as pool:  # which starts threads only when they are used
        run = map if n_parts == 1 else pool.map
        list(run(count, parts, counts))
        starts = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
        places = starts[:-1] + np.cumsum(counts, axis=0) - counts
        list(run(place, parts, pieces, places, itertools.repeat(order)))
    return order, starts


@functools.cache
def cell_kernels() -> ModuleType:
    """The compiled code, which needs numba."""
    from baserate.passes.kernels import cell_signatures

    return cell_signatures
