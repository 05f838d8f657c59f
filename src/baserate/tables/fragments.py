"""Datasets of pyarrow that are not Parquet files: whatever they can read, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from baserate.tables.base import BATCH_ROWS, Part, Piece, Source, reading
from baserate.tables.parquet import Parquet


class FragmentPart(Part):
    """A fragment of a dataset, or a whole one that filters its rows; what is written of it is Parquet."""

    def __init__(self, source: Source, rows: Any, schema: pa.Schema | None = None) -> None:
        self.name, self.partition, self.format = source.name, source.partition, Parquet()
        self.below = source.below if source.below.endswith(".parquet") else f"{source.below}.parquet"
        self._rows = rows
        self._whole = schema is None
        self.schema = rows.schema if schema is None else schema
        hidden = [self.schema.get_field_index(name) for name in self.partition if name in self.schema.names]
        for index in sorted(hidden, reverse=True):
            self.schema = self.schema.remove(index)

    @property
    def n_rows(self) -> int:
        return int(self._rows.count_rows())

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        names = list(self.schema.names if columns is None else columns)
        options = {} if self._whole else {"schema": self.schema}
        batches = self._rows.to_batches(columns=names, batch_size=BATCH_ROWS, batch_readahead=2, **options)
        with reading(self.name):
            for batch in batches:  # read in order, so by the one who asks
                if batch.num_rows:
                    yield Piece(batch.num_rows, partial(iter, (batch,)))
