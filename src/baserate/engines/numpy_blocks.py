"""Rows in memory: NumPy on blocks that fit the cache, one thread a core."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.arrays import FloatArray
from baserate.engines.base import Block, Engine, Sums
from baserate.inputs import as_matrix, as_weights
from baserate.threads import cores, single_threaded_blas

T = TypeVar("T")

_BLOCK_VALUES = 1 << 16  # 512 KiB of float64: in a core's cache, and worth the Python calls on it.
_AHEAD = 4  # Blocks in flight for each thread: enough to keep all busy, few enough to hold no memory.


class NumpyBlocks(Engine):
    """An array of predictions in memory.

    The one array of the input's size that it allocates is the answer. Until the answer is written, that space
    serves as the blocks' scratch.
    """

    name = "numpy"
    last_resort = True

    @classmethod
    def open(cls, probs: Any, sample_weight: ArrayLike | None) -> Self:
        raw = as_matrix(probs)
        return cls(raw, as_weights(sample_weight, len(raw)))

    def __init__(self, raw: NDArray[Any], weights: FloatArray | None) -> None:
        self.n_rows, self.n_classes = raw.shape
        self._raw = raw
        self._weights = weights
        self.weighted = weights is not None
        # In the order of the input: columns of a dataframe stay columns.
        by_column = raw.flags.f_contiguous and not raw.flags.c_contiguous
        self._answer = np.empty(raw.shape, dtype=np.float64, order="F" if by_column else "C")
        # The sum over rows is a product of (k, m) and (m, k) matrices, worth its call from m = k on.
        self._block_rows = max(_BLOCK_VALUES // self.n_classes, self.n_classes, 64)
        n_blocks = -(-self.n_rows // self._block_rows)
        self._threads = min(cores(), n_blocks)
        if n_blocks > 1:
            _keep_freed_memory()

    def map(self, task: Callable[[Block], T]) -> Iterator[T]:
        if self._threads == 1:
            yield from map(task, self._blocks())
            return
        with single_threaded_blas(), ThreadPoolExecutor(self._threads) as pool:
            yield from _in_order(pool, task, self._blocks(), self._threads * _AHEAD)

    def write(self, task: Callable[[Block], tuple[FloatArray, Sums]]) -> Iterator[Sums]:
        def keep(block: Block) -> Sums:
            rows, sums = task(block)
            self._answer[block.start : block.start + len(rows)] = rows
            return sums

        return self.map(keep)

    def answer(self) -> FloatArray:
        return self._answer

    def again(self) -> Self:
        return type(self)(self._raw, self._weights)

    def _blocks(self) -> Iterator[Block]:
        for start in range(0, self.n_rows, self._block_rows):
            stop = min(start + self._block_rows, self.n_rows)
            weights = np.full(stop - start, 1.0 / self.n_rows) if self._weights is None else self._weights[start:stop]
            yield Block(self._raw[start:stop], weights, start, self._answer[start:stop])


def _in_order(pool: ThreadPoolExecutor, task: Callable[[Block], T], blocks: Iterator[Block], ahead: int) -> Iterator[T]:
    # Executor.map would queue every block at once, and with it the answers of all that run ahead.
    waiting = [pool.submit(task, block) for block in itertools.islice(blocks, ahead)]
    while waiting:
        yield waiting.pop(0).result()
        waiting.extend(pool.submit(task, block) for block in itertools.islice(blocks, 1))


def _keep_freed_memory() -> None:
    # glibc hands freed memory back to the system from a size on that it raises to the largest block that was ever
    # freed, up to 32 MiB. Without this (never touched) one, each temporary array of each block is fetched page by page
    # from the system again, which takes as long as the arithmetic.
    np.empty(31 << 20, dtype=np.uint8)
