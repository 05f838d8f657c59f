"""Rows in memory: NumPy on blocks that fit the cache, one thread a core."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.engines.base import Block, Engine, Sums
from baserate.inputs.validation import as_matrix, as_weights
from baserate.support.arrays import CACHED, FloatArray, IndexArray, rows_of_a_block
from baserate.support.threads import cores, single_threaded_blas

S = TypeVar("S")
T = TypeVar("T")

_SEED = 20190  # Which rows are a sample; any number would do.
_NEIGHBOURS = 8  # Rows of a sample that are taken from one place.
_AHEAD = 4  # Blocks in flight for each thread: enough to keep all busy, few enough to hold no memory.


class NumpyBlocks(Engine):
    """An array of predictions in memory.

    The one array of the input's size that it allocates is the answer. Until the answer is written, that space
    serves as the blocks' scratch.
    """

    name = "numpy"
    with_kernels = "numba"
    last_resort = True
    in_memory = True

    @classmethod
    def open(cls, probs: Any, sample_weight: ArrayLike | None) -> Self:
        raw = as_matrix(probs)
        return cls(raw, as_weights(sample_weight, len(raw)))

    def __init__(self, raw: NDArray[Any], weights: FloatArray | None) -> None:
        self.n_rows, self.n_classes = raw.shape
        self._raw = raw
        self._weights = weights
        self.weighted = weights is not None
        self.dtype = raw.dtype
        # In the order of the input: columns of a dataframe stay columns.
        by_column = raw.flags.f_contiguous and not raw.flags.c_contiguous
        self._answer = np.empty(raw.shape, dtype=np.float64, order="F" if by_column else "C")

    def map(self, task: Callable[[Block], T], block_values: int = CACHED) -> Iterator[T]:
        block_rows = max(block_values * rows_of_a_block(self.n_classes) // CACHED, 1)
        n_blocks = -(-self.n_rows // block_rows)
        self.progress.begin("reading", self.n_rows)
        threads = min(cores(), n_blocks)
        if threads == 1:
            yield from map(task, self._blocks(block_rows))
            return
        _keep_freed_memory()
        with single_threaded_blas():
            yield from in_order(worker_pool(threads), task, self._blocks(block_rows), threads * _AHEAD)

    def write(self, task: Callable[[Block], tuple[FloatArray, Sums]], block_values: int = CACHED) -> Iterator[Sums]:
        def keep(block: Block) -> Sums:
            rows, sums = task(block)
            if rows is not block.scratch:
                self._answer[block.start : block.start + len(rows)] = rows
            return sums

        return self.map(keep, block_values)

    def answer(self) -> FloatArray:
        return self._answer

    def again(self) -> Self:
        return type(self)(self._raw, self._weights)

    def sample(self, n_rows: int) -> Self | None:
        rows = sampled_rows(self.n_rows, n_rows)
        weights = None if self._weights is None else self._weights[rows]
        if weights is not None:
            if not weights.any():
                return None
            weights /= weights.sum()
        # Column by column stays column by column.
        return type(self)(self._raw.T[:, rows].T if self._raw.flags.f_contiguous else self._raw[rows], weights)

    def _blocks(self, block_rows: int) -> Iterator[Block]:
        equal = np.full(min(block_rows, self.n_rows), 1.0 / self.n_rows)
        for start in range(0, self.n_rows, block_rows):
            stop = min(start + block_rows, self.n_rows)
            weights = equal[: stop - start] if self._weights is None else self._weights[start:stop]
            yield Block(self._raw[start:stop], weights, start, self._answer[start:stop])
            self.progress.rows(stop - start)


def sampled_rows(n_rows: int, size: int) -> IndexArray:
    """Which of so many rows are a sample of about that size, in rising order."""
    # A few neighbours, since memory gives them together, from each stretch: so rows that are sorted are sampled evenly,
    # too, and at random places, since their order may have a period.
    n_places = max(size // _NEIGHBOURS, 1)
    stretch = n_rows / n_places
    places = np.arange(n_places) * stretch + np.random.default_rng(_SEED).random(n_places) * (stretch - _NEIGHBOURS)
    return (places.astype(np.intp)[:, None] + np.arange(_NEIGHBOURS)).ravel()


@functools.cache
def worker_pool(threads: int) -> ThreadPoolExecutor:
    """Threads that work on blocks."""
    # Kept for the next pass: on a busy core a new thread may wait as long for its first turn as a pass takes.
    return ThreadPoolExecutor(threads, thread_name_prefix="baserate")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=worker_pool.cache_clear)  # a child has the pool, but not its threads


def in_order(pool: ThreadPoolExecutor, task: Callable[[S], T], blocks: Iterator[S], ahead: int) -> Iterator[T]:
    """Run a task on each item in a pool, at most so many ahead, and yield the answers in order."""
    # Executor.map would queue every block at once, and with it the answers of all that run ahead.
    waiting = [pool.submit(task, block) for block in itertools.islice(blocks, ahead)]
    try:
        while waiting:
            yield waiting.pop(0).result()
            waiting.extend(pool.submit(task, block) for block in itertools.islice(blocks, 1))
    finally:  # after an error nothing goes on behind the caller's back
        for future in waiting:
            future.cancel()
        wait(waiting)


def _keep_freed_memory() -> None:
    # glibc hands freed memory back to the system from a size on that it raises to the largest block that was ever
    # freed, up to 32 MiB. Without this (never touched) one, each temporary array of each block is fetched page by page
    # from the system again, which takes as long as the arithmetic.
    np.empty(31 << 20, dtype=np.uint8)
