"""The groups of rows in files: key columns that are read together with the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.engines.arrow_blocks import coded_column
from baserate.errors import BadGroups, BadOption
from baserate.inputs.group_columns import CodedValues, missing_column
from baserate.inputs.group_combinations import CombinationIndex, Combinations
from baserate.inputs.validation import quoted_name
from baserate.support.arrays import FloatArray, IndexArray
from baserate.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from baserate.tables.base import Part


@dataclass(frozen=True, eq=False)
class FileGroups:
    """The key columns of some files.

    Attributes
    ----------
    keys : tuple of str
    parts : sequence of Part
        The files.
    combinations : Combinations, optional
        Those that occur in all files, once they have been read.
    index : CombinationIndex, optional
    cells : int array, optional
        The cell of each combination.
    """

    keys: tuple[str, ...]
    parts: Sequence[Part]
    combinations: Combinations | None = None
    index: CombinationIndex | None = None
    cells: IndexArray | None = None

    @classmethod
    def of(cls, table: Table, keys: Sequence[Any]) -> FileGroups:
        """The key columns of the files of a table. Raises if one is missing or cannot hold groups."""
        import pyarrow as pa

        for key in keys:
            for part in table.parts:
                there = [*part.schema.names, *part.partition]
                if key not in there:
                    raise missing_column(key, there, part.name)
                if key in part.schema.names and pa.types.is_nested(part.schema.field(key).type):
                    kind = part.schema.field(key).type
                    raise BadGroups(f"column {quoted_name(key)} of {part.name} contains {kind} values, not groups")
            if key in table.columns.names:
                raise BadOption(f"column {quoted_name(key)} cannot contain both probabilities and groups")
        return cls(tuple(keys), table.parts)

    @property
    def columns(self) -> list[str]:
        """The key columns that are read from the files; others are encoded in their paths."""
        return [key for key in self.keys if key in self.parts[0].schema.names]

    def found_in(
        self, batch: pa.RecordBatch | pa.Table, part: int, weights: FloatArray | None, equal: float
    ) -> Combinations:
        """The combinations in some rows of a file; ``equal`` is the weight of a row if all have the same."""
        coded = [self._coded(batch, key, part) for key in self.keys]
        own = np.full(batch.num_rows, equal) if weights is None else weights
        return Combinations.of(self.keys, coded, batch.num_rows, own)[0]

    def with_combinations(self, parts: Iterable[Combinations]) -> FileGroups:
        """The same, after all rows were read."""
        combinations = Combinations.collected(parts)
        return replace(self, combinations=combinations, index=CombinationIndex.of(combinations))

    def numbers(self, batch: pa.RecordBatch | pa.Table, part: int) -> IndexArray:
        """The combination of each row."""
        assert self.index is not None
        return self.index.find([self._coded(batch, key, part) for key in self.keys], batch.num_rows)

    def _coded(self, batch: pa.RecordBatch | pa.Table, key: str, part: int) -> CodedValues:
        if key in batch.schema.names:
            return coded_column(batch, key)
        value = self.parts[part].partition.get(key)
        codes = np.zeros(batch.num_rows, dtype=np.intp)
        return CodedValues([value], codes) if value is not None else CodedValues([], codes - 1)
