"""The rows of a Dask collection on the client: delayed partitions, their lengths and their weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from baserate.engines.dask.collections import Partitions, delayed_parts, is_partitioned, known_lengths
from baserate.engines.dask.graphs import calls, compute_all
from baserate.engines.dask.memory import persisted
from baserate.engines.dask.workers import (
    Place,
    WeightSums,
    combinations_in,
    given_weights,
    length,
    weight_column,
    weight_sums,
)
from baserate.engines.partitions import STRIDE
from baserate.errors import BadProbabilities, BadWeights
from baserate.inputs.group_combinations import Combinations
from baserate.inputs.validation import as_weights, quoted_name
from baserate.support.arrays import FloatArray, IndexArray

_UNKNOWN_VALUES = 1 << 20  # Assumed values of a partition that was not counted: enough to use kernels.


class DaskRows:
    """Rows and weights in partitions. Nothing is computed before it is needed.

    Parameters
    ----------
    source : Partitions
    sample_weight : array-like, Dask array or series, name of a column, or None
    """

    def __init__(self, source: Partitions, sample_weight: Any) -> None:
        self.source = source
        self.weighted = sample_weight is not None
        self._sample_weight = sample_weight
        self._weight_name = self._named_weights()
        self._lengths = source.lengths
        self._persisted: tuple[list[Any], list[Any]] | None = None

    @cached_property
    def _parts(self) -> list[Any]:
        """The partitions that the passes read, unless they are kept in memory."""
        weight = [] if self._weight_name is None else [self._weight_name]
        return self.source.delayed([*weight, *(self.source.group_keys or ())])

    @property
    def counted(self) -> bool:
        """Whether the lengths are known."""
        return self._lengths is not None

    @property
    def lengths(self) -> tuple[int, ...]:
        """Rows of each partition. If they are unknown, they are counted first, which takes a pass."""
        if self._lengths is None:
            counts = calls(length, [(part,) for part in self._parts], [{}] * len(self._parts))
            self._lengths = tuple(compute_all(counts))
        if not any(self._lengths):
            raise BadProbabilities(f"{self.source.what} is empty: its shape is {(0, self.source.n_classes)}")
        return self._lengths

    @property
    def n_values(self) -> int:
        """Number of values, or an estimate if the rows have not been counted."""
        if self._lengths is None:
            return self.n_partitions * _UNKNOWN_VALUES
        return sum(self._lengths) * self.source.n_classes

    @cached_property
    def kept(self) -> tuple[list[Any], list[Any]]:
        """The partitions of the rows and of the weights (or None in their place), kept in memory if they fit."""
        parts, weights = self._parts, self._weight_parts()
        itemsize = 8 if self.source.dtype is None else self.source.dtype.itemsize
        n_bytes = sum(self.lengths) * (self.source.n_classes * itemsize + 8 * self.weighted)
        both = persisted([*parts, *(w for w in weights if w is not None)], n_bytes)
        if both is None:
            return parts, weights
        self._persisted = both[: len(parts)], both[len(parts) :] or weights
        return self._persisted

    @cached_property
    def scale(self) -> tuple[float, float]:
        """The largest weight, and the sum of all weights divided by it, which cannot overflow."""
        if not self.weighted:
            return 1.0, 1.0
        starts = self.starts
        sums = calls(weight_sums, [(part,) for part in self.kept[1]], [{}] * len(starts))
        found: list[WeightSums] = compute_all(sums)
        for i, (part, n) in enumerate(zip(found, self.lengths, strict=True)):
            if part.length != n:
                raise BadWeights(f"partition {i} has {n} rows, but {part.length} weights")
            if part.bad is not None:
                row, value = part.bad
                raise BadWeights(f"sample_weight[{starts[i] + row}] is {value}; weights must be finite and 0 or more")
        largest = max(part.largest for part in found)
        if not largest:
            raise BadWeights("all weights are zero; at least one row must count")
        return largest, math.fsum(part.share * (part.largest / largest) for part in found)

    @property
    def starts(self) -> list[int]:
        """The number of the first row of each partition."""
        if not self.counted:
            return [i * STRIDE for i in range(self.n_partitions)]
        return [0, *np.cumsum(self.lengths)[:-1].tolist()]

    def places(self) -> list[Place]:
        """What the tasks on each partition need to know."""
        n_rows, scale = (sum(self.lengths), self.scale) if self.counted else (0, (1.0, 1.0))
        names, dtype, keys = self.source.names, self.source.dtype, self.source.group_keys
        return [Place(start, n_rows, scale, names, dtype, keys) for start in self.starts]

    def for_answer(self) -> list[Any]:
        """The partitions from which the answer is computed: those in memory if a pass has kept them."""
        if self._persisted is not None:
            return self._persisted[0]
        return self.source.delayed(self.source.group_keys or (), optimized=False)

    @cached_property
    def combinations(self) -> Combinations:
        """The combinations of groups that occur among the rows."""
        parts = zip(*self.kept, strict=True)
        found = compute_all(calls(combinations_in, parts, [{"place": place} for place in self.places()]))
        return Combinations.collected(part for part in found if part is not None)

    def split(self, rows: IndexArray) -> list[IndexArray]:
        """Increasing row numbers as numbers within each partition."""
        ends = np.searchsorted(rows, np.cumsum(self.lengths))
        return [part - start for part, start in zip(np.split(rows, ends[:-1]), self.starts, strict=True)]

    @property
    def n_partitions(self) -> int:
        """Number of partitions, empty ones included."""
        return int(self.source.collection.npartitions)

    def _named_weights(self) -> str | None:
        given = self._sample_weight
        if not isinstance(given, str):
            return None
        if self.source.columns is None:
            raise BadWeights(
                f"sample_weight names the column {quoted_name(given)}, but {self.source.what} is a Dask array"
            )
        if given not in list(self.source.collection.columns):
            raise BadWeights(
                f"sample_weight names the column {quoted_name(given)}, which {self.source.what} does not have"
            )
        return given

    def _weight_parts(self) -> list[Any]:
        given, lengths = self._sample_weight, self.lengths
        if given is None:
            return [None] * len(lengths)
        if self._weight_name is not None:
            return calls(weight_column, [(part,) for part in self._parts], [{"name": given}] * len(lengths))
        if is_partitioned(given):
            return _dask_weights(given, lengths)
        w: FloatArray | None = as_weights(given, sum(lengths))
        assert w is not None
        pieces = np.split(w, np.cumsum(lengths)[:-1])
        return calls(given_weights, [()] * len(pieces), [{"weights": piece} for piece in pieces])


def _dask_weights(given: Any, lengths: Sequence[int]) -> list[Any]:
    if not hasattr(type(given), "ndim") or given.ndim != 1:
        raise BadWeights(f"sample_weight must have one number for each row, but is a Dask {type(given).__name__}")
    known = known_lengths(given)
    if known is not None and sum(known) != sum(lengths):
        raise BadWeights(f"sample_weight must have shape ({sum(lengths)},), one for each row, but has {given.shape}")
    if known is not None and known != tuple(lengths):
        given = given.rechunk((tuple(lengths),))
    parts = delayed_parts(given)
    if len(parts) != len(lengths):
        raise BadWeights(
            f"sample_weight has {len(parts)} partitions, but there are {len(lengths)} of rows; where lengths are not "
            "known, the partitions must be the same"
        )
    return parts
