"""Ray Datasets: work runs in the tasks of ``map_batches``, one block at a time, and the sums come here in order."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from baserate.engines.arrow_clusters.engine import FAN_IN, ArrowClusterEngine
from baserate.engines.arrow_clusters.tables import ClusterTable, ColumnType, check_names
from baserate.engines.arrow_clusters.workers import AdjustBatches, Batches, Outcome
from baserate.errors import BadProbabilities
from baserate.inputs.reading import Naming
from baserate.inputs.row_source import RowSource

if TYPE_CHECKING:
    import pyarrow as pa

_KEEP = "call .materialize() on it, or write it to files"
_OF_BLOCK = "of its block"


class BlockNaming(Naming):
    """Names of rows in a block whose number is not known where it is read."""

    def row(self, i: int) -> str:
        """A row by its number within the block."""
        return f"row {i} {_OF_BLOCK}"


class RayEngine(ArrowClusterEngine):
    """A Ray Dataset. Its blocks are the partitions."""

    name = "ray"

    @classmethod
    def open(cls, source: RowSource) -> Self | None:
        if not type(source.probs).__module__.startswith("ray.data"):
            return None
        ds, what = source.probs, source.argument
        if not hasattr(type(ds), "map_batches"):
            raise BadProbabilities(f"{what} is a Ray {type(ds).__name__}; pass a Ray Dataset")
        schema = ds.schema()  # reads one block if the types are not known
        if schema is None:
            raise BadProbabilities(f"{what} has no rows")
        names = list(schema.names)
        check_names(names, what)
        types = dict(zip(names, map(_column_type, schema.types), strict=True))
        return cls(ClusterTable.of(source, types, "Ray Dataset", _KEEP), source.answer_dtype, BlockNaming)

    @staticmethod
    def _select(native: Any, names: list[Any]) -> Any:
        return native.select_columns(names)

    def _outcomes(
        self,
        work: Callable[[Batches, int], Outcome],
        columns: Sequence[str],
        join: Callable[[Sequence[Outcome]], Outcome] | None,
    ) -> list[Outcome]:
        found = _mapped(self._select(self._table.native, list(columns)), partial(_on_block, work))
        if join is not None:
            n_partitions, cpus = self._counted.n_partitions if "_counted" in vars(self) else FAN_IN + 1, 1.0
            while n_partitions > FAN_IN:
                # With other resources than what comes before, or Ray would do both in one task, which sees one block.
                n_partitions, cpus = -(-n_partitions // FAN_IN), cpus / 2
                found = _mapped(found, partial(_on_group, join), batch_size=FAN_IN, num_cpus=cpus)
        found.context.execution_options.preserve_order = True  # so that equal calls add in the same order
        return [pickle.loads(row["result"]) for row in found.iter_rows()]

    def _adjusted(self, work: AdjustBatches) -> Any:
        return _mapped(self._table.native, partial(_in_block, work))

    def _raise_error(self, outcome: Outcome) -> None:
        error = outcome.error
        if error is not None:
            message, *others = error.args
            error.args = (message.replace(_OF_BLOCK, f"of block {outcome.failed}"), *others)
        super()._raise_error(outcome)


def _mapped(ds: Any, function: Callable[[pa.Table], Any], **options: Any) -> Any:
    return ds.map_batches(
        function, **{"batch_format": "pyarrow", "batch_size": None, "zero_copy_batch": True} | options
    )


def _on_block(work: Callable[[Batches, int], Outcome], block: pa.Table) -> pa.Table:
    """The outcome of work on a block, as a table with one row."""
    return _row(work(block.to_batches(), 0))


def _on_group(join: Callable[[Sequence[Outcome]], Outcome], table: pa.Table) -> pa.Table:
    """The outcomes of neighbouring blocks, joined in their order."""
    return _row(join([pickle.loads(result) for result in table.column("result").to_pylist()]))


def _in_block(work: AdjustBatches, block: pa.Table) -> pa.Table:
    """A block with adjusted probabilities."""
    import pyarrow as pa

    batches = block.to_batches() or [pa.RecordBatch.from_pylist([], schema=block.schema)]
    return pa.Table.from_batches(list(work(batches, 0)))


def _row(outcome: Outcome) -> pa.Table:
    import pyarrow as pa

    return pa.table({"result": pa.array([pickle.dumps(outcome)], pa.large_binary())})


def _column_type(kind: Any) -> ColumnType:
    """The type of a column of Arrow, or of pandas for blocks that are dataframes."""
    import pyarrow as pa

    if isinstance(kind, np.dtype):
        kind = pa.from_numpy_dtype(kind) if kind.kind in "fiub" else kind
    if not isinstance(kind, pa.DataType):
        return ColumnType(str(kind), None)
    is_number = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind)
    if pa.types.is_floating(kind):
        return ColumnType(str(kind), np.dtype(kind.to_pandas_dtype()))
    return ColumnType(str(kind), np.dtype(np.float64) if is_number else None, pa.types.is_nested(kind))
