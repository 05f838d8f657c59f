"""Blocks of rows from Arrow record batches, and adjusted rows back in record batches.

Engines whose rows arrive as Arrow data share this module: files, streams, Spark and Ray.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from baserate.errors import BadOption, BadWeights
from baserate.inputs.group_columns import CodedValues, without_missing
from baserate.inputs.group_labels import plain_label
from baserate.inputs.reading import Naming
from baserate.inputs.validation import quoted_name
from baserate.inputs.vectors import check_probabilities
from baserate.support.arrays import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ArrowColumns:
    """The columns of record batches that hold probabilities and weights.

    Attributes
    ----------
    names : tuple of str
        Columns with probabilities. A single one holds the probability of the second of two classes.
    dtype : numpy.dtype
        The dtype of the matrix.
    weight : str, optional
        The column with the weights of the rows.
    naming : Naming
        How rows and columns are named in messages.
    """

    names: tuple[str, ...]
    dtype: np.dtype[Any]
    weight: str | None
    naming: Naming

    @property
    def one_column(self) -> bool:
        """Whether the probabilities are those of one of two classes."""
        return len(self.names) == 1

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return max(len(self.names), 2)

    def matrix(self, batch: pa.RecordBatch | pa.Table, start: int) -> NDArray[Any]:
        """The probabilities, of shape (m, k); ``start`` is the number of the first row."""
        from baserate.tables.conversion import column_to_numpy

        matrix = np.empty((batch.num_rows, self.n_classes), dtype=self.dtype, order="F")
        for j, name in enumerate(self.names):
            matrix[:, j - len(self.names)] = column_to_numpy(batch.column(name), matrix.dtype)
        if self.one_column:
            np.subtract(1, matrix[:, 1], out=matrix[:, 0])
            check_probabilities(matrix[:, 1], self.naming, start)
            np.maximum(matrix, 0, out=matrix)
        return matrix

    def weights(self, batch: pa.RecordBatch | pa.Table, start: int) -> FloatArray | None:
        """The weights as they are in the batch, or None if there is no column of weights."""
        from baserate.tables.conversion import column_to_numpy

        if self.weight is None:
            return None
        weights = column_to_numpy(batch.column(self.weight), np.dtype(np.float64))
        bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
        if bad.size:
            row, value = self.naming.row(start + int(bad[0])), weights[bad[0]]
            raise BadWeights(
                f"{row}, column {quoted_name(self.weight)} is {value}; weights must be finite and 0 or more"
            )
        return weights


def check_single_column(names: Sequence[str], *, from_logits: bool) -> None:
    """Raise if a single column holds logits."""
    if from_logits and len(names) == 1:
        raise BadOption(
            f"{quoted_name(names[0])} is one column of logits, but tables need one column per class; convert the "
            "logits z to probabilities, 1 / (1 + exp(-z))"
        )


def coded_column(batch: pa.RecordBatch | pa.Table, key: str) -> CodedValues:
    """The groups of the rows in a key column."""
    from baserate.tables.conversion import coded_array

    column = batch.column(key)
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    values, codes = coded_array(column)
    return without_missing([plain_label(value) for value in values], codes)


def with_adjusted(batch: pa.RecordBatch, answer: NDArray[Any], names: Sequence[str], dtypes: Sequence[str]) -> Any:
    """A record batch with adjusted probabilities in place of the predicted ones.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
    answer : array of shape (m, k)
        The adjusted probabilities, rounded to the types of their columns.
    names : sequence of str
        Columns with probabilities. A single one holds the probability of the second of two classes.
    dtypes : sequence of str
        The dtype of each of them in the result.
    """
    from baserate.tables.conversion import float_array

    for j, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
        at = batch.schema.get_field_index(name)
        column = float_array(answer[:, j - len(names)], np.dtype(dtype))
        batch = batch.set_column(at, batch.schema.field(at).with_type(column.type), column)
    return batch
