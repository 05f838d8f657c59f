"""A stream as a part of a table, with a check that every reading gives the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from baserate.errors import BadFile, BadProbabilities
from baserate.inputs.group_labels import plain_label
from baserate.inputs.validation import quoted
from baserate.tables.base import Part, Piece
from baserate.tables.conversion import coded_array, column_to_numpy
from baserate.tables.parquet import Parquet
from baserate.tables.streams import Stream

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # an odd number with random bits: 2^64 divided by the golden ratio
_HALF = np.uint64(32)
_RANGE = 1 << 64


class StreamPart(Part):
    """All rows of a stream. Files that are written from it are Parquet files.

    The first reading counts the rows. Each reading adds up a hash of the numbers in each row, so that the sum does not
    depend on the order of the rows, and must give the sum of earlier readings of the same columns. The same is done
    with each further column that is used, such as those of the groups, and with all of them together.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.name, self.relative_path, self.partition, self.format = stream.name, "part-0.parquet", {}, Parquet()
        self.schema = stream.schema
        self._numeric: list[str] = []
        self._others: list[str] = []  # further columns that were requested, and so are used
        self._n_rows: int | None = None
        self._hashes: dict[tuple[str, ...], int] = {}

    def prepare(self, numeric: Sequence[str], *, infer_types: bool) -> None:
        self._numeric = list(numeric)
        self._n_rows = sum(batch.num_rows for batch in self._hashed(self._numeric))
        if self._n_rows == 0 and self.stream.if_empty:
            raise BadFile(f"{self.name} has no rows. {self.stream.if_empty}")

    @property
    def files(self) -> Sequence[str]:
        return self.stream.files.existing()

    @property
    def files_are_known(self) -> bool:
        return self.stream.files.complete

    @property
    def n_rows(self) -> int:
        assert self._n_rows is not None  # prepare() has counted them
        return self._n_rows

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        for batch in self._hashed(columns):
            yield Piece(batch.num_rows, partial(iter, (batch,)))

    def _hashed(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The batches of a new reading. Raises at its end if the rows are not those of earlier readings."""
        known = {*self._numeric, *self._others}
        self._others += [name for name in columns or () if name not in known]
        numeric = tuple(name for name in self._numeric if columns is None or name in columns)
        others = tuple(name for name in self._others if columns is None or name in columns)
        expected, n_rows, found = self._n_rows, 0, Counter[tuple[str, ...]]()
        for batch in self.stream.batches(columns):
            n_rows += batch.num_rows
            if batch.num_rows and (expected is None or n_rows <= expected):
                found.update(_sums_of_hashes(batch, numeric, others))
                yield batch
        if expected is not None and n_rows != expected:
            raise self._changed(f"the first reading gave {expected:,} rows, and a later one {n_rows:,}")
        for names, total in found.items():
            if self._hashes.setdefault(names, total % _RANGE) != total % _RANGE:
                what = "numbers" if names == numeric else f"values of {quoted(names)}"
                raise self._changed(f"the {what} in its {n_rows:,} rows differ between two readings")

    def _changed(self, how: str) -> BadProbabilities:
        return BadProbabilities(
            f"{self.name} does not give the same rows each time it is read: {how}. It may use random(), now(), LIMIT "
            "without an order or sums in parallel, its tables may have been changed meanwhile, or it may be a stream "
            "that can be read only once. Store its rows first: CREATE TEMP TABLE ... AS, .collect(), or a Parquet file"
        )


def _sums_of_hashes(batch: pa.RecordBatch, numeric: Sequence[str], others: Sequence[str]) -> dict[tuple[str, ...], int]:
    """The sums of a hash of each row, by columns: of the numbers, of each other column, and of all columns."""
    hashes: NDArray[np.uint64] = np.zeros(batch.num_rows, dtype=np.uint64)
    for name in numeric:
        values = np.ascontiguousarray(column_to_numpy(batch.column(name), np.dtype(np.float64)))
        _mix(hashes, values.view(np.uint64))
    sums = {tuple(numeric): int(hashes.sum())}
    for name in others:
        values = _values_of(batch.column(name))
        own = np.zeros_like(hashes)
        _mix(own, values)
        _mix(hashes, values)
        sums[(name,)] = int(own.sum())
    return sums | {(*numeric, *others): int(hashes.sum())}


def _mix(hashes: NDArray[np.uint64], values: NDArray[np.uint64]) -> None:
    """Add the values of a column to the hashes of its rows, in place."""
    hashes ^= values
    hashes *= _MULTIPLIER
    hashes ^= hashes >> _HALF


def _values_of(column: pa.Array) -> NDArray[np.uint64]:
    """A number for each value of a column of any type. It is the same in every reading of this process."""
    if pa.types.is_nested(column.type):  # which has neither groups nor labels
        return np.zeros(len(column), dtype=np.uint64)
    values, codes = coded_array(column)
    # In tuples, because hash(-1) equals hash(-2). The last number is for missing values, whose code is -1.
    numbers = np.array([*(hash((plain_label(value),)) for value in values), 1], dtype=np.int64)
    return numbers.view(np.uint64)[codes]
