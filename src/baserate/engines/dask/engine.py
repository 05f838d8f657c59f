"""Rows in the partitions of a Dask collection: tasks go to the rows, sums come back.

What travels is a task of a few kilobytes to each partition, and the sums of a partition back. Once, in the first pass,
some rows come along as a sample; how many does not depend on how many there are. The answer is a Dask collection that
adjusts its partitions when it is computed, so adjusted rows do not travel either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from baserate.engines.base import Block, Engine, Sums, total
from baserate.engines.dask import workers as dask_workers
from baserate.engines.dask.collections import Partitions
from baserate.engines.dask.graphs import ask, calls
from baserate.engines.dask.rows import STRIDE, DaskRows
from baserate.engines.memory import NumpyBlocks, sampled_rows
from baserate.inputs.dataframes import take_apart
from baserate.inputs.reading import Naming
from baserate.support.arrays import CACHED, FloatArray

T = TypeVar("T")

_SAMPLED_VALUES = 1 << 17  # of a sample in all: a megabyte, which any client can hold and solve in no time
_SAMPLED_SHARE = 16  # One of so many rows at most: a sample is to be smaller than the input.
_LEAST_SAMPLED = 1000  # Rows; fewer are no guide.


class PartitionNaming(Naming):
    """Names of rows in partitions whose lengths nobody knows."""

    def row(self, i: int) -> str:
        """A row by its partition and its number in that."""
        return f"row {i % STRIDE} of partition {i // STRIDE}"


class Kept(NamedTuple):
    """A task whose rows are the answer."""

    task: bytes
    block_values: int


class DaskPartitions(Engine):
    """A Dask array or dataframe.

    Copies that travel with a task know how many rows there are and what they are called, and have none.
    """

    name = "dask"
    with_kernels = "dask, numba"

    @classmethod
    def open(cls, probs: Any, sample_weight: Any) -> Self | None:
        if not isinstance(probs, Partitions):
            return None
        if probs.columns is not None:
            take_apart(probs.meta, probs.names, what=probs.what)  # refuses columns that are no numbers
        return cls(DaskRows(probs, sample_weight))

    def __init__(self, rows: DaskRows) -> None:
        self._rows = rows
        self._n_rows: int | None = None
        self._n_values: int | None = None  # of a copy without rows
        self._kept: Kept | None = None
        self._sample: NumpyBlocks | None = None
        self._first = True
        self.n_classes, self.dtype = rows.source.n_classes, rows.source.dtype
        self.weighted = rows.weighted
        self.naming = Naming(None if rows.source.columns is None else rows.source.columns.names)

    @property
    def n_rows(self) -> int:  # type: ignore[override]  # counted when it is first wanted, which takes a pass
        """How many rows there are."""
        if self._n_rows is None:
            self._n_rows = sum(self._rows.lengths)
        return self._n_rows

    @property
    def n_values(self) -> int:
        return self._rows.n_values if self._n_values is None else self._n_values

    def __getstate__(self) -> dict[str, Any]:
        names = ("_n_rows", "n_classes", "dtype", "weighted", "naming")
        return {name: vars(self)[name] for name in names} | {"_n_values": self.n_values}

    def map(self, task: Callable[[Block], T], block_values: int = CACHED) -> Iterator[T]:
        for answers in self._pass(dask_workers.listed_answers, _as_bytes(task), block_values):
            yield from answers

    def sum(self, task: Callable[[Block], Sums], block_values: int = CACHED) -> Sums:
        parts = self._pass(dask_workers.summed, _as_bytes(task), block_values)
        return total(part for part in parts if part)  # an empty partition has no sums

    def write(self, task: Callable[[Block], tuple[FloatArray, Sums]], block_values: int = CACHED) -> Iterator[Sums]:
        self._kept = Kept(_as_bytes(task), block_values)
        parts = self._pass(dask_workers.written_sums, *self._kept)
        return (part for part in parts if part)

    def put_off(self, task: Callable[[Block], tuple[FloatArray, Sums]], block_values: int = CACHED) -> None:
        if not self._rows.counted:
            self.naming = PartitionNaming(self.naming.columns)
        self._kept = Kept(_as_bytes(task), block_values)

    def answer(self) -> Any:
        from dask.delayed import delayed

        assert self._kept is not None
        source, task = self._rows.source, delayed(self._kept.task)
        options = [{"place": place, "block_values": self._kept.block_values} for place in self._rows.places()]
        parts = calls(dask_workers.adjusted_rows, [(task, part) for part in self._rows.rows_as_they_are()], options)
        lengths = self._rows.lengths if self._rows.counted else None
        meta = np.empty((0, source.n_classes))
        if source.names is not None:
            meta = take_apart(source.meta, source.names, selected=True)[1].wrap(meta)
        return source.like(parts, lengths, meta)

    def again(self) -> Self:
        return type(self)(self._rows)

    def sample(self, n_rows: int) -> NumpyBlocks | None:
        if self._sample is None or n_rows >= self._sample.n_rows:
            return self._sample
        return self._sample.sample(n_rows)

    def _pass(self, run: Callable[..., Any], task: bytes, block_values: int) -> list[Any]:
        """Run a function of :mod:`baserate.engines.dask.workers` on every partition."""
        from dask.delayed import delayed

        self.progress.begin("reading", self.n_rows)
        shared = delayed(task)  # one for all partitions: with many classes it may have megabytes
        (parts, weights), places = self._rows.kept, self._rows.places()
        given = [(shared, *one) for one in zip(parts, weights, strict=True)]
        answers = calls(run, given, [{"place": place, "block_values": block_values} for place in places])
        picks = self._picks() if self._first else []
        found = ask([*answers, *picks])
        self._first = False
        if picks:
            self._sample = _as_sample(found[len(parts) :])
        for length in self._rows.lengths:
            self.progress.rows(length)
        return found[: len(parts)]

    def _picks(self) -> list[Any]:
        """The rows of a sample from each partition, to be computed in passing."""
        size = min(_SAMPLED_VALUES // self.n_classes, self.n_rows // _SAMPLED_SHARE)
        if size < _LEAST_SAMPLED:
            return []
        chosen = self._rows.split(sampled_rows(self.n_rows, size))
        options = [{"place": p, "rows": rows} for p, rows in zip(self._rows.places(), chosen, strict=True)]
        return calls(dask_workers.picked, zip(*self._rows.kept, strict=True), options)


def _as_bytes(task: Callable[[Block], Any]) -> bytes:
    import cloudpickle  # which Dask needs, too; tasks are closures, which pickle alone does not take

    return bytes(cloudpickle.dumps(task))


def _as_sample(picked: list[tuple[NDArray[Any], FloatArray | None]]) -> NumpyBlocks | None:
    """An engine on the rows that came along."""
    raw = np.concatenate([rows for rows, _ in picked if len(rows)])
    own = [weights for rows, weights in picked if weights is not None]
    weights = np.concatenate(own) if own else None
    if weights is None:
        return NumpyBlocks(raw, None)
    if not weights.any():
        return None
    weights /= weights.max()
    return NumpyBlocks(raw, weights / weights.sum())
