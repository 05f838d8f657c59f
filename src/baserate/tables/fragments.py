"""Datasets of pyarrow that do not consist of Parquet files. They are read from start to end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from baserate.tables.base import BATCH_ROWS, Part, Piece, Source, name_file_in_errors
from baserate.tables.parquet import Parquet


class FragmentPart(Part):
    """A fragment of a dataset, or a whole dataset that cannot be split. The adjusted rows are written as Parquet.

    Parameters
    ----------
    source : Source
    rows : pyarrow.dataset.Fragment or pyarrow.dataset.Dataset
    schema : pyarrow.Schema, optional
        Schema of the dataset that the fragment belongs to. None for a whole dataset.
    files : sequence of str, optional
        The paths and URLs of the files of a whole dataset.
    """

    def __init__(
        self, source: Source, rows: Any, schema: pa.Schema | None = None, files: Sequence[str] | None = None
    ) -> None:
        self.name, self.partition, self.format = source.name, source.partition, Parquet()
        path = source.relative_path
        self.relative_path = path if path.endswith(".parquet") else f"{path}.parquet"
        self._rows, self._files = rows, files
        self._is_dataset = schema is None
        self.schema = rows.schema if schema is None else schema
        in_path = [self.schema.get_field_index(name) for name in self.partition if name in self.schema.names]
        for index in sorted(in_path, reverse=True):
            self.schema = self.schema.remove(index)

    @property
    def files(self) -> Sequence[str]:
        return super().files if self._files is None else self._files

    @property
    def n_rows(self) -> int:
        return int(self._rows.count_rows())

    def pieces(self, columns: Sequence[str] | None) -> Iterator[Piece]:
        names = list(self.schema.names if columns is None else columns)
        options = {} if self._is_dataset else {"schema": self.schema}
        batches = self._rows.to_batches(columns=names, batch_size=BATCH_ROWS, batch_readahead=2, **options)
        with name_file_in_errors(self.name):
            # Each batch is read here and not when the piece is used: a fragment can only be read in order.
            for batch in batches:
                if batch.num_rows:
                    yield Piece(batch.num_rows, partial(iter, (batch,)))
