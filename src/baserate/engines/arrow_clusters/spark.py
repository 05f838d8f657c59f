"""Spark DataFrames: work runs in the Python processes of the executors, and a tree of joins brings the sums here."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from baserate.engines.arrow_clusters.engine import FAN_IN, ArrowClusterEngine
from baserate.engines.arrow_clusters.tables import ClusterTable, ColumnType, check_names
from baserate.engines.arrow_clusters.workers import AdjustBatches, Batches, Outcome
from baserate.engines.partitions import STRIDE, PartitionNaming
from baserate.errors import BadProbabilities
from baserate.inputs.row_source import RowSource

if TYPE_CHECKING:
    import pyarrow as pa

_KEEP = "call .cache() on it, or write it to files"
_RESULT = "part int, result binary"
_FLOATING = {"double": "float64", "float": "float32"}
_OTHER_NUMBERS = ("tinyint", "smallint", "int", "bigint", "boolean", "decimal")
_NESTED = ("array", "map", "struct", "variant")


class SparkEngine(ArrowClusterEngine):
    """A Spark DataFrame, of a classic session or of Spark Connect."""

    name = "spark"

    @classmethod
    def open(cls, source: RowSource) -> Self | None:
        if type(source.probs).__module__.split(".")[0] != "pyspark":
            return None
        df, what = source.probs, source.argument
        if type(df).__module__.startswith("pyspark.pandas"):
            raise BadProbabilities(f"{what} is a pandas-on-Spark {type(df).__name__}; pass {what}.to_spark()")
        if not hasattr(type(df), "mapInArrow"):
            raise BadProbabilities(f"{what} is a Spark {type(df).__name__}; pass a Spark DataFrame")
        check_names(df.columns, what, ignore_case=True)  # as Spark does
        types = {field.name: _column_type(field.dataType.simpleString()) for field in df.schema.fields}
        table = ClusterTable.of(source, types, "Spark DataFrame", _KEEP)
        return cls(table, source.answer_dtype, PartitionNaming)

    @staticmethod
    def _select(native: Any, names: list[Any]) -> Any:
        return native.select(*(_quoted(name) for name in names))

    def _outcomes(
        self,
        work: Callable[[Batches, int], Outcome],
        columns: Sequence[str],
        join: Callable[[Sequence[Outcome]], Outcome] | None,
    ) -> list[Outcome]:
        if self._table.native.isStreaming:
            raise BadProbabilities(
                f"{self._table.what} is a streaming DataFrame, which has no last row; fit a shift on a table, and call "
                "apply on the stream, or adjust each batch in foreachBatch"
            )
        found = _mapped(self._select(self._table.native, list(columns)), partial(_on_partition, work), _RESULT)
        if join is not None:
            n_partitions = self._counted.n_partitions if "_counted" in vars(self) else FAN_IN + 1
            while n_partitions > FAN_IN:
                found = found.selectExpr(f"part div {FAN_IN} as part", "part as member", "result")
                # Not partial(_on_group, join): Spark looks at the arguments of a plain function.
                found = found.groupBy("part").applyInArrow(lambda table: _on_group(join, table), _RESULT)
                n_partitions = -(-n_partitions // FAN_IN)
        rows = sorted(found.collect(), key=lambda row: row.part)
        return [pickle.loads(row.result) for row in rows]

    def _adjusted(self, work: AdjustBatches) -> Any:
        from pyspark.sql.types import DoubleType, FloatType, StructField, StructType

        df = self._table.native
        new = dict(zip(self._table.columns.names, work.dtypes, strict=True))
        kinds = {"float32": FloatType(), "float64": DoubleType()}
        fields = [
            StructField(old.name, kinds[new[old.name]] if old.name in new else old.dataType, old.nullable, old.metadata)
            for old in df.schema.fields
        ]
        return _mapped(df, partial(_in_partition, work), StructType(fields))


def _mapped(df: Any, function: Callable[[Iterator[pa.RecordBatch]], Iterator[Any]], schema: Any) -> Any:
    """``df.mapInArrow``, which looks columns up without quotes, for all names of columns."""
    names = list(df.columns)
    if not any(character in name for name in names for character in ".`"):
        return df.mapInArrow(function, schema)
    renamed = df.toDF(*(f"column{i}" for i in range(len(names))))
    return renamed.mapInArrow(partial(_with_names, names, function), schema)


def _with_names(
    names: Sequence[str], function: Callable[[Iterator[pa.RecordBatch]], Iterator[Any]], batches: Iterator[Any]
) -> Iterator[Any]:
    return function(batch.rename_columns(names) for batch in batches)


def _on_partition(work: Callable[[Batches, int], Outcome], batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    """The outcome of work on a partition, as a record batch with one row."""
    number = _partition()
    yield _row(number, work(batches, number * STRIDE))


def _in_partition(work: AdjustBatches, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of a partition with adjusted probabilities."""
    return work(batches, _partition() * STRIDE)


def _on_group(join: Callable[[Sequence[Outcome]], Outcome], table: pa.Table) -> pa.Table:
    """The outcomes of neighbouring partitions, joined in their order."""
    import pyarrow as pa

    table = table.sort_by("member")
    joined = join([pickle.loads(result) for result in table.column("result").to_pylist()])
    return pa.Table.from_batches([_row(table.column("part")[0].as_py(), joined)])


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def _row(part: int, outcome: Outcome) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.record_batch(
        [pa.array([part], pa.int32()), pa.array([pickle.dumps(outcome)], pa.binary())], names=["part", "result"]
    )


def _column_type(name: str) -> ColumnType:
    import numpy as np

    kind = name.partition("(")[0].partition("<")[0]
    if kind in _FLOATING:
        return ColumnType(name, np.dtype(_FLOATING[kind]))
    return ColumnType(name, np.dtype(np.float64) if kind in _OTHER_NUMBERS else None, kind in _NESTED)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
