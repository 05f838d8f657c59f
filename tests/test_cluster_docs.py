"""The code in docs/clusters.md, on plain record batches, and on Spark and Ray if they are installed."""

from __future__ import annotations

import importlib.util
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest
from support import Array

import baserate as br

PAGE = Path(__file__).parents[1] / "docs" / "clusters.md"
COLUMNS = ["p_a", "p_b", "p_c"]
RATES = [0.2, 0.3, 0.5]


def blocks() -> dict[str, str]:
    """The code blocks of the page that are not doctests, by the comment in their first line."""
    found = re.findall(r"```python\n# (.+?)\n(.+?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return dict(found)


@pytest.fixture
def page() -> dict[str, Any]:
    """The names that the page defines."""
    names: dict[str, Any] = {"__name__": "page", "br": br}
    for title in ("functions", "engine"):
        exec(compile(blocks()[title], f"{PAGE.name}, {title}", "exec"), names)
    return names


def predictions(n: int = 600) -> Array:
    return np.random.default_rng(0).dirichlet(np.ones(3), size=n)


def table(p: Array) -> pa.Table:
    columns = {name: p[:, j] for j, name in enumerate(COLUMNS)}
    return pa.table({"id": np.arange(len(p)), **columns}).cast(
        pa.schema([("id", pa.int64()), ("p_a", pa.float64()), ("p_b", pa.float64()), ("p_c", pa.float32())])
    )


def partitions(whole: pa.Table) -> list[list[pa.RecordBatch]]:
    """Three partitions: with several batches, with none, and with an empty and a non-empty one."""
    empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in whole.schema], schema=whole.schema)
    return [whole.slice(0, 400).to_batches(150), [], [empty, *whole.slice(400).to_batches()]]


def run_on(whole: pa.Table) -> Callable[[Any], list[Any]]:
    """A function that runs another one on every partition, and pickles everything as if in another process."""

    def run(function: Any) -> list[Any]:
        sent = cloudpickle.dumps(function)
        assert len(sent) < 30_000
        return [pickle.loads(cloudpickle.dumps(pickle.loads(sent)(iter(batches)))) for batches in partitions(whole)]

    return run


def assert_adjusted(done: pa.Table, whole: pa.Table, known: br.Adjustment) -> None:
    assert done.schema == whole.schema
    assert done.column("id") == whole.column("id")
    rows = np.column_stack([done.column(name) for name in COLUMNS])
    np.testing.assert_allclose(rows, known.probs, rtol=0, atol=1e-7)


def test_saved_shift_adjusts_record_batches(page: dict[str, Any], tmp_path: Path) -> None:
    whole = table(predictions())
    known = br.adjust(predictions(), RATES)
    known.save(tmp_path / "shift.json")
    adjust_batches = pickle.loads(cloudpickle.dumps(page["adjusting"](br.load(tmp_path / "shift.json"), COLUMNS)))
    done: Iterator[pa.RecordBatch] = (batch for batches in partitions(whole) for batch in adjust_batches(iter(batches)))
    assert_adjusted(pa.Table.from_batches(done), whole, known)


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_engine_of_the_page_fits_where_the_rows_are(page: dict[str, Any], loss: str) -> None:
    p = predictions()
    p[::7, 0] = 0  # hard zeros need further kinds of tasks
    whole = table(p / p.sum(axis=1, keepdims=True))
    raw = np.column_stack([whole.column(name) for name in COLUMNS])
    known = br.adjust(raw, RATES, loss=loss)
    result = br.adjust(page["RemoteRows"](run_on(whole), COLUMNS), RATES, classes=["a", "b", "c"], loss=loss)
    assert (result.engine, result.n_rows) == ("remote", 600)
    np.testing.assert_allclose(result.shift, known.shift, rtol=0, atol=1e-11)
    adjust_batches = page["adjusting"](result.without_rows(), COLUMNS)
    done = pa.Table.from_batches(batch for batches in partitions(whole) for batch in adjust_batches(iter(batches)))
    assert_adjusted(done, whole, known)


def test_engine_of_the_page_reports_impossible_rates(page: dict[str, Any]) -> None:
    whole = table(np.array([[1.0, 0, 0], [0, 1, 0]] * 300))
    with pytest.raises(br.InfeasibleRates, match="only 0 of 600 rows"):
        br.adjust(page["RemoteRows"](run_on(whole), COLUMNS), RATES)


@pytest.mark.filterwarnings("ignore")  # Spark uses deprecated functions of pandas
@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="pyspark is not installed; tested on batches")
def test_page_on_spark(page: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    whole, known = table(predictions()), br.adjust(predictions(), RATES)
    known.save("shift.json")
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        page["df"] = spark.createDataFrame(whole.to_pandas()).repartition(3)
        for title in ("in Spark", "fit in Spark"):
            exec(blocks()[title], page)
            assert_adjusted(pa.Table.from_pandas(page["done"].toPandas(), whole.schema).sort_by("id"), whole, known)
    finally:
        spark.stop()


@pytest.mark.filterwarnings("ignore")  # Ray warns about its own code
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed; tested on batches")
def test_page_on_ray(page: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.chdir(tmp_path)
    whole, known = table(predictions()), br.adjust(predictions(), RATES)
    known.save("shift.json")
    ray.init(num_cpus=1, include_dashboard=False)
    try:
        page["ds"] = ray.data.from_arrow(whole)
        exec(blocks()["in Ray"], page)
        assert_adjusted(pa.Table.from_pandas(page["done"].to_pandas(), whole.schema).sort_by("id"), whole, known)
    finally:
        ray.shutdown()
