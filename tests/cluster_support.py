"""Clusters on which the same tests run: record batches that are pickled as if they were elsewhere, Spark, and Ray."""

from __future__ import annotations

import importlib.util
import os
import pickle
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from baserate.engines.arrow_clusters.engine import FAN_IN, ArrowClusterEngine
from baserate.engines.arrow_clusters.tables import ClusterTable, ColumnType, check_names
from baserate.engines.arrow_clusters.workers import Outcome
from baserate.engines.partitions import STRIDE, PartitionNaming
from baserate.inputs.row_source import RowSource

ROOT = Path(__file__).parents[1]


def has(*modules: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in modules)


needs_spark = pytest.mark.skipif(not has("pyspark") or shutil.which("java") is None, reason="Spark and Java are needed")
needs_ray = pytest.mark.skipif(not has("ray"), reason="Ray is needed")


class Plain:
    """A table in partitions of record batches."""

    def __init__(self, partitions: list[list[pa.RecordBatch]]) -> None:
        self.partitions = partitions

    @property
    def schema(self) -> pa.Schema:
        return self.partitions[0][0].schema


class PlainEngine(ArrowClusterEngine):
    """Pickles everything that would be sent between processes."""

    name = "plain"
    sent: int = 0

    @classmethod
    def open(cls, source: RowSource) -> Self | None:
        if not isinstance(source.probs, Plain):
            return None
        types = {field.name: _type(field.type) for field in source.probs.schema}
        check_names(source.probs.schema.names, source.argument)
        return cls(ClusterTable.of(source, types, "plain table", "copy it"), source.answer_dtype, PartitionNaming)

    @staticmethod
    def _select(native: Plain, names: list[Any]) -> Plain:
        return Plain([[batch.select(names) for batch in batches] for batches in native.partitions])

    def _outcomes(
        self, work: Any, columns: Sequence[str], join: Callable[[Sequence[Outcome]], Outcome] | None
    ) -> list[Outcome]:
        payload = cloudpickle.dumps(work)
        assert len(payload) < 50_000
        found = []
        for i, batches in enumerate(self._select(self._table.native, list(columns)).partitions):
            result = pickle.dumps(pickle.loads(payload)(iter(batches), i * STRIDE))
            type(self).sent = max(type(self).sent, len(result))
            found.append(pickle.loads(result))
        while join is not None and len(found) > FAN_IN:
            found = [join(found[i : i + FAN_IN]) for i in range(0, len(found), FAN_IN)]
        return found

    def _adjusted(self, work: Any) -> Plain:
        payload = cloudpickle.dumps(work)
        parts = enumerate(self._table.native.partitions)
        return Plain([list(pickle.loads(payload)(iter(batches), i * STRIDE)) for i, batches in parts])


def _type(kind: pa.DataType) -> ColumnType:
    if pa.types.is_floating(kind):
        return ColumnType(str(kind), np.dtype(kind.to_pandas_dtype()))
    return ColumnType(str(kind), np.dtype(np.float64) if pa.types.is_integer(kind) else None, pa.types.is_nested(kind))


class PlainCluster:
    """Record batches of this process."""

    name = "plain"
    where = "row {row} of partition {part}"

    def table(self, whole: pa.Table, sizes: Sequence[int] | None = None) -> Any:
        """The table in partitions of these sizes; by default in two halves."""
        empty = pa.RecordBatch.from_pylist([], schema=whole.schema)
        parts = cut(whole, sizes)
        return Plain([[empty, *part.combine_chunks().to_batches(max_chunksize=150)] for part in parts])

    def rows(self, table: Any) -> pa.Table:
        """All rows of a table, in the order of their ids if they have them."""
        return in_order(pa.Table.from_batches([batch for part in table.partitions for batch in part]))


class SparkCluster:
    """Spark on this machine."""

    name = "spark"
    where = PlainCluster.where

    def __init__(self, session: Any, folder: Path) -> None:
        self.session, self.folder = session, folder

    def table(self, whole: pa.Table, sizes: Sequence[int] | None = None) -> Any:
        """Two halves, or one Parquet file per partition, the largest first, since Spark reads them in this order."""
        if sizes is None:
            return self.session.createDataFrame(whole)
        folder = self.folder / uuid.uuid4().hex
        folder.mkdir()
        for i, part in enumerate(cut(whole, sizes)):
            pq.write_table(part, folder / f"{i:03}.parquet")
        return self.session.read.parquet(str(folder))

    def rows(self, table: Any) -> pa.Table:
        return in_order(table.toArrow())


class RayCluster:
    """Ray on this machine, with two worker processes."""

    name = "ray"
    where = "row {row} of block {part}"

    def table(self, whole: pa.Table, sizes: Sequence[int] | None = None) -> Any:
        import ray

        return ray.data.from_arrow(cut(whole, sizes))

    def rows(self, table: Any) -> pa.Table:
        import ray

        blocks = [part for part in ray.get(table.to_arrow_refs()) if part.num_columns]
        return in_order(pa.concat_tables(blocks))


def cut(whole: pa.Table, sizes: Sequence[int] | None) -> list[pa.Table]:
    """Consecutive pieces of a table; by default two halves, the second of which is not the smaller one."""
    sizes = (len(whole) // 2, len(whole) - len(whole) // 2) if sizes is None else sizes
    starts = [0, *np.cumsum(sizes)[:-1].tolist()]
    return [whole.slice(start, size) for start, size in zip(starts, sizes, strict=True)]


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by("id") if "id" in table.column_names else table


def child_path() -> str:
    """The path on which other processes find the package, the tests and the examples."""
    return os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "examples")])


QUICK = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "150",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.files.openCostInBytes": str(1 << 30),  # one partition per file
    # Compiling takes longer than running where there are few rows.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings with which small jobs take less time."""


@contextmanager
def spark_cluster(executors: int | None = None, settings: Mapping[str, str] = QUICK) -> Iterator[SparkCluster]:
    """Start Spark with two threads, or with executors that are processes of their own, and stop it."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = child_path()
    builder = SparkSession.builder.master("local[2]" if executors is None else f"local-cluster[{executors},1,700]")
    own = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "800m",
        "spark.executor.memory": "600m",
        "spark.executorEnv.PYTHONPATH": child_path(),
        "spark.executorEnv.OMP_NUM_THREADS": "1",
    }
    for name, value in (own | dict(settings)).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield SparkCluster(session, Path(folder))
    finally:
        session.stop()


@contextmanager
def ray_cluster(cpus: int = 2) -> Iterator[RayCluster]:
    """Start Ray, and stop it."""
    import logging

    import ray

    ray.init(
        num_cpus=cpus,
        include_dashboard=False,
        object_store_memory=150_000_000,
        log_to_driver=False,
        logging_level=logging.ERROR,
        runtime_env={"env_vars": {"PYTHONPATH": child_path(), "OMP_NUM_THREADS": "1"}},
    )
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    try:
        yield RayCluster()
    finally:
        ray.shutdown()
