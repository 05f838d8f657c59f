"""Tables on clusters: the same results as in memory, lazily, with little data transfer, and whatever dies meanwhile.

Every test runs on record batches that are pickled as if they were elsewhere. `make test-clusters` also runs it on Spark
and on Ray.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cluster_support import (
    PlainCluster,
    PlainEngine,
    child_path,
    needs_ray,
    needs_spark,
    ray_cluster,
    spark_cluster,
)
from executor_death import Killer, descendants
from stream_support import KINDS_OF_RATES, TOL, adjusted_in_memory
from stream_support import rows as rows_of_kinds
from support import ALL_LOSSES, Array, loss_id

import baserate as br
from baserate.progress import Progress

pytestmark = pytest.mark.filterwarnings("ignore")  # Spark and Ray use deprecated functions of pandas and of their own

COLUMNS = ["p_a", "p_b", "p_c"]
RATES = {"a": 0.2, "b": 0.3, "c": 0.5}
BY_REGION = br.Rates.by("region", {"n": RATES, "s": {"a": 0.3, "b": 0.3, "c": 0.4}})
BY_AGE = br.Rates.by("age", {1: {"a": 0.24, "b": 0.3, "c": 0.46}, 2: {"a": 0.26, "b": 0.3, "c": 0.44}})
KINDS_OF_GROUPS = [
    (BY_REGION, "w"),
    (br.Margins(br.Rates.by("region", {"n": br.Rates.near(RATES, 0.05)}, unlisted="free"), BY_AGE), None),
]


@pytest.fixture(
    scope="module",
    params=["plain", pytest.param("spark", marks=needs_spark), pytest.param("ray", marks=needs_ray)],
)
def cluster(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "plain":
        yield PlainCluster()
        return
    with spark_cluster() if request.param == "spark" else ray_cluster() as started:
        yield started


def predictions(n: int = 600, k: int = 3) -> Array:
    return np.random.default_rng(0).dirichlet(np.ones(k), size=n)


def table(p: Array | None = None) -> pa.Table:
    """Predictions with ids, weights and groups."""
    p = predictions() if p is None else p
    rng = np.random.default_rng(1)
    names = [f"p_{chr(97 + j)}" for j in range(p.shape[1])]
    return pa.table(
        {"id": np.arange(len(p))}
        | {name: p[:, j] for j, name in enumerate(names)}
        | {"w": rng.random(len(p)), "region": rng.choice(["n", "s"], len(p)), "age": rng.integers(1, 3, len(p))}
    )


def matrix(rows: pa.Table) -> Array:
    return np.column_stack([rows.column(name) for name in rows.column_names if name.startswith("p_")])


def assert_same(result: br.Adjustment, known: br.Adjustment, cluster: Any) -> None:
    """Shift and rows as in memory to 1e-12."""
    np.testing.assert_allclose(result.dual_shift, known.dual_shift, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.rates, known.rates, rtol=0, atol=1e-12)
    assert result.certificate.loss_reduction == pytest.approx(known.certificate.loss_reduction, rel=1e-9, abs=1e-11)
    expected = known.probs if isinstance(known.probs, np.ndarray) else matrix(known.probs)
    np.testing.assert_allclose(matrix(cluster.rows(result.frame)), expected, rtol=0, atol=1e-12)


def one_of_each_class() -> list[Any]:
    """All losses. The first one of each class with more than two classes is in the short selection of tests."""
    short: dict[type, int] = {}
    for i, (loss, k) in enumerate(ALL_LOSSES):
        if k > 2:
            short.setdefault(type(loss), i)
    assert {cls.name for cls in short} == {cls.name for cls in br.losses.registered()}
    return [
        pytest.param(*one, marks=pytest.mark.short if i in short.values() else (), id=loss_id(one[0]) + f"-{one[1]}")
        for i, one in enumerate(ALL_LOSSES)
    ]


@pytest.mark.parametrize(("loss", "k"), one_of_each_class())
def test_every_loss_gives_the_same_result_as_in_memory(cluster: Any, loss: br.losses.Loss, k: int) -> None:
    p = predictions(300, k)
    rates = np.linspace(1, 2, k) / np.linspace(1, 2, k).sum()
    result = br.adjust(cluster.table(table(p)), rates, columns="p_*", loss=loss)
    assert result.engine == cluster.name
    assert result.converged
    assert_same(result, br.adjust(p, rates, loss=loss), cluster)


@pytest.mark.short
@pytest.mark.parametrize("kind", KINDS_OF_RATES)
def test_every_kind_of_rates_gives_the_same_result_as_in_memory(cluster: Any, kind: str) -> None:
    whole, rates = rows_of_kinds(), KINDS_OF_RATES[kind]
    result = br.adjust(cluster.table(whole), rates, columns="p_*", tol=TOL)
    assert_same(result, adjusted_in_memory(whole, rates), cluster)


@pytest.mark.short
@pytest.mark.parametrize(("rates", "weight"), KINDS_OF_GROUPS, ids=["one margin", "two margins"])
def test_groups_are_columns(cluster: Any, rates: Any, weight: str | None) -> None:
    whole, native = table(), cluster.table(table())
    result = br.adjust(native, rates, columns="p_*", sample_weight=weight)
    known = br.adjust(whole, rates, columns="p_*", sample_weight=None if weight is None else whole.column("w"))
    assert_same(result, known, cluster)
    assert cluster.rows(result.frame).column_names == whole.column_names
    applied = cluster.rows(result.apply(native, columns="p_*", whole=True))
    np.testing.assert_allclose(matrix(applied), matrix(known.probs), rtol=0, atol=1e-12)
    here, there = (one.certify(rows, rates, columns="p_*") for one, rows in ((known, whole), (result, native)))
    assert there.loss_reduction == pytest.approx(here.loss_reduction, rel=1e-9)


def test_result_has_all_columns_and_keeps_types(cluster: Any) -> None:
    whole = table()
    whole = whole.set_column(1, "p_a", whole.column("p_a").cast(pa.float32())).append_column(
        "text", pa.array(["other"] * len(whole))
    )
    native = cluster.table(whole)
    raw = matrix(whole)
    known = br.adjust(raw, list(RATES.values()), normalize=True)
    result = br.adjust(native, RATES, columns="p_*", sample_weight="w", normalize=True)
    rows = cluster.rows(result.frame)
    assert rows.schema.names == whole.schema.names
    assert [rows.schema.field(name).type for name in COLUMNS] == [pa.float32(), pa.float64(), pa.float64()]
    assert rows.column("text").to_pylist() == ["other"] * len(whole)
    assert cluster.rows(result.probs).column_names == COLUMNS
    weighted = br.adjust(raw, list(RATES.values()), sample_weight=whole.column("w").to_numpy(), normalize=True)
    np.testing.assert_allclose(matrix(rows), weighted.probs, rtol=0, atol=1e-7)
    other = cluster.rows(known.apply(native, columns="p_*", whole=True, dtype="float32", normalize=True))
    assert {other.schema.field(name).type for name in COLUMNS} == {pa.float32()}
    np.testing.assert_allclose(matrix(other), known.probs, rtol=0, atol=1e-7)


def test_names_of_columns_with_dots_and_backticks(cluster: Any) -> None:
    names = {"p_a": "p_`a", "p_b": "p_b.x", "p_c": "p_`c.`", "w": "w.`", "region": "the.region"}
    odd = table().rename_columns([names.get(name, name) for name in table().column_names])
    result = br.adjust(cluster.table(odd), [0.2, 0.3, 0.5], columns=["p_`a", "p_b.x", "p_`c.`"], sample_weight="w.`")
    known = br.adjust(predictions(), [0.2, 0.3, 0.5], sample_weight=table().column("w").to_numpy())
    assert_same(result, known, cluster)
    assert cluster.rows(result.frame).column_names == odd.column_names
    grouped = br.adjust(
        cluster.table(odd),
        br.Rates.by("the.region", {"n": [0.2, 0.3, 0.5], "s": [0.3, 0.3, 0.4]}),
        columns=["p_`a", "p_b.x", "p_`c.`"],
    )
    assert matrix(cluster.rows(grouped.probs)).mean() == pytest.approx(1 / 3)


def test_certify_what_if_and_copies(cluster: Any, tmp_path: Path) -> None:
    native = cluster.table(table())
    known = br.adjust(predictions(), [0.2, 0.3, 0.5])
    result = br.adjust(native, RATES, columns="p_*")
    here, there = (
        known.certify(predictions()[:400], [0.3, 0.3, 0.4]),
        result.certify(cluster.table(table(predictions()[:400])), {"a": 0.3, "b": 0.3, "c": 0.4}, columns="p_*"),
    )
    assert there.loss_reduction == pytest.approx(here.loss_reduction, rel=1e-9)
    np.testing.assert_allclose(there.after, here.after, rtol=0, atol=1e-12)
    other = result.what_if({"a": 0.4, "b": 0.3, "c": 0.3})
    np.testing.assert_allclose(other.shift, known.what_if([0.4, 0.3, 0.3]).shift, rtol=0, atol=1e-11)
    copy = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(copy.shift, result.shift)
    with pytest.raises(br.errors.BaserateError, match="has a shift but no rows"):
        _ = copy.probs
    result.save(tmp_path / "shift.json")
    assert br.load(tmp_path / "shift.json").apply(native, columns="p_*") is not None


def test_probabilities_of_one_class(cluster: Any) -> None:
    p = predictions()[:, 0]
    whole = pa.table({"id": np.arange(len(p)), "p_sick": p})
    result = br.adjust(cluster.table(whole), {"sick": 0.2}, columns="p_sick")
    np.testing.assert_allclose(matrix(cluster.rows(result.frame))[:, 0], br.adjust(p, 0.2).probs, rtol=0, atol=1e-12)


def test_partitions_may_be_empty(cluster: Any) -> None:
    result = br.adjust(cluster.table(table(), (400, 200, 0)), RATES, columns="p_*")
    assert_same(result, br.adjust(predictions(), list(RATES.values())), cluster)


def test_hard_zeros_give_the_same_results_and_errors_as_in_memory(cluster: Any) -> None:
    p = np.array([[1.0, 0.0, 0.0], [0.4, 0.6, 0.0], [0.2, 0.3, 0.5]] * 100)
    assert_same(
        br.adjust(cluster.table(table(p)), [0.5, 0.3, 0.2], columns="p_*"), br.adjust(p, [0.5, 0.3, 0.2]), cluster
    )
    with pytest.raises(br.InfeasibleRates, match="only 100 of 300 rows"):
        br.adjust(cluster.table(table(p)), [0.2, 0.3, 0.5], columns="p_*")


def test_many_rows_and_partitions(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Enough rows for a sample, and enough partitions for a tree of joins.
    for module in (*(["spark", "ray"] if cluster.name != "plain" else []), "engine"):
        monkeypatch.setattr(f"baserate.engines.arrow_clusters.{module}.FAN_IN", 2)
    monkeypatch.setattr("cluster_support.FAN_IN", 2)
    p = predictions(20_000)
    native = cluster.table(table(p), None if cluster.name == "spark" else (4000,) * 5)
    if cluster.name == "spark":
        native = native.repartition(5).cache()
    known = br.adjust(p, [0.2, 0.3, 0.5], tol=1e-13)
    result, again = (br.adjust(native, RATES, columns="p_*", tol=1e-13) for _ in range(2))
    np.testing.assert_allclose(result.shift, known.shift, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(result.shift, again.shift)
    assert result.source is not None
    sample = result.source.sample(10**9)
    assert sample is not None
    assert 1000 < sample.n_rows < 8000
    joined = result.source._read(result.source._fold(_sums, _joined, 1 << 16), _join)  # type: ignore[attr-defined]  # of all clusters
    assert len(joined) <= 2
    assert sum(part.n_partitions for part in joined) == 5


def _sums(block: Any) -> Any:
    return len(block.rows)


def _joined(parts: Any) -> Any:
    return sum(parts)


def _join(parts: Any) -> Any:
    from baserate.engines.arrow_clusters.workers import Outcome

    return Outcome.joined(parts, _joined)


class CountRows(Progress):
    """Counts passes."""

    def __init__(self) -> None:
        self.passes = 0

    def begin(self, what: str, n_rows: int) -> None:
        self.passes += 1


def test_lazy_rows_are_not_read_by_apply() -> None:
    native = PlainCluster().table(table())
    known = br.adjust(predictions(), [0.2, 0.3, 0.5])
    progress = CountRows()
    known.apply(native, columns="p_*", progress=progress)
    assert progress.passes == 0
    br.adjust(native, RATES, columns="p_*", progress=progress)
    assert 3 <= progress.passes <= 8


def test_bytes_received_do_not_grow_with_the_number_of_rows() -> None:
    sizes = []
    for n in (3000, 12_000):  # too few for a sample
        PlainEngine.sent = 0
        br.adjust(PlainCluster().table(table(predictions(n, 10)), (n // 2, n // 2)), np.full(10, 0.1), columns="p_*")
        sizes.append(PlainEngine.sent)
    assert sizes[0] == pytest.approx(sizes[1], rel=0.02)
    assert sizes[1] < 4000


BAD = [
    ({"columns": "q_*"}, br.errors.BadProbabilities, r"no column matches 'q_\*'; the columns are 'id'"),
    ({"columns": ["p_a", "p_x"]}, br.errors.BadProbabilities, "probs has no column 'p_x'"),
    ({"columns": ["region", "p_a"]}, br.errors.BadProbabilities, "column 'region' of probs contains string values"),
    ({"columns": None, "rates": [0.2, 0.3, 0.5]}, br.errors.BadOption, "Select the columns with probabilities"),
    ({"sample_weight": "weight"}, br.errors.BadWeights, "names the column 'weight', which probs does not have"),
    ({"sample_weight": "region"}, br.errors.BadWeights, "column 'region' of probs contains string values, not weights"),
    ({"sample_weight": np.ones(600)}, br.errors.BadWeights, "must be the name of a column .*, but is a ndarray"),
    ({"out": "x.parquet"}, br.errors.BadOption, "out= is where adjusted files go, but probs is a"),
    (
        {"groups": ["n"] * 600, "rates": BY_REGION},
        br.errors.BadGroups,
        "are columns of it, since its rows have no order",
    ),
    ({"rates": br.Rates.by("area", {"n": RATES})}, br.errors.BadGroups, "probs has no column 'area'"),
    (
        {"rates": br.Rates.by("p_a", {1: RATES}), "columns": COLUMNS},
        br.errors.BadOption,
        "both probabilities and groups",
    ),
    ({"columns": "p_a", "from_logits": True, "rates": 0.2}, br.errors.BadOption, "one column of logits"),
    ({"rates": {"a": 0.2, "d": 0.8}}, br.errors.BadRates, "'d'"),
]


@pytest.mark.parametrize(("options", "kind", "message"), BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_bad_options_are_errors_before_rows_are_read(cluster: Any, options: Any, kind: Any, message: str) -> None:
    given = {"columns": "p_*", "rates": RATES} | options
    with pytest.raises(kind, match=message):
        br.adjust(cluster.table(table()), given.pop("rates"), **given)


def changed(column: str, row: int, value: Any) -> pa.Table:
    whole = table()
    values = whole.column(column).to_pylist()
    values[row] = value
    return whole.set_column(whole.column_names.index(column), column, pa.array(values, whole.column(column).type))


@pytest.mark.parametrize(
    ("column", "value", "kind", "message"),
    [
        ("p_b", float("nan"), br.errors.BadProbabilities, "{where}, column 'p_b' is nan"),
        ("p_b", None, br.errors.BadProbabilities, "{where}, column 'p_b' is nan"),
        ("p_b", -0.5, br.errors.BadProbabilities, "{where}, column 'p_b' is -0.5"),
        ("p_b", 7.0, br.errors.BadProbabilities, "{where}.*7"),
        ("w", -1.0, br.errors.BadWeights, "{where}, column 'w' is -1.0; weights must be finite and 0 or more"),
        ("w", None, br.errors.BadWeights, "{where}, column 'w' is nan"),
        ("w", 1e300, br.errors.BadWeights, "weights in column 'w' sum to 1e\\+300, which is too large"),
        ("region", None, br.errors.BadGroups, "1 row"),
        ("region", "west", br.errors.BadGroups, "west"),
    ],
)
def test_errors_name_bad_rows(cluster: Any, column: str, value: Any, kind: Any, message: str) -> None:
    native = cluster.table(changed(column, 450, value))
    where = cluster.where.format(row=150, part=1)
    rates = BY_REGION if column == "region" else RATES
    with pytest.raises(kind, match=message.format(where=where)):
        br.adjust(native, rates, columns="p_*", sample_weight="w" if column == "w" else None)


def test_tables_without_rows_or_weights_are_errors(cluster: Any) -> None:
    whole = table()
    if cluster.name != "ray":  # which has no empty tables with columns
        with pytest.raises(br.errors.BadProbabilities, match="probs has no rows"):
            br.adjust(
                cluster.table(whole.slice(0, 0), (0,)) if cluster.name == "plain" else _empty(cluster),
                RATES,
                columns="p_*",
            )
    nothing = whole.set_column(4, "w", pa.array(np.zeros(len(whole))))
    with pytest.raises(br.errors.BadWeights, match="all weights in column 'w' are zero"):
        br.adjust(cluster.table(nothing), RATES, columns="p_*", sample_weight="w")


def _empty(cluster: Any) -> Any:
    return cluster.table(table()).filter("id < 0")


@pytest.fixture(scope="module")
def spark(request: pytest.FixtureRequest, cluster: Any) -> Any:
    if cluster.name != "spark":
        pytest.skip("about Spark")
    return cluster


@pytest.fixture(scope="module")
def ray_only(cluster: Any) -> Any:
    if cluster.name != "ray":
        pytest.skip("about Ray")
    return cluster


def test_other_objects_of_spark_are_errors(spark: Any) -> None:
    native = spark.table(table())
    for probs, message in (
        (native["p_a"], "is a Spark Column; pass a Spark DataFrame"),
        (native.selectExpr("*", "p_a as P_A"), "several columns of one name, 'p_a', 'P_A'"),
        (
            spark.session.readStream.format("rate").load().selectExpr("0.4 as p_a", "0.6 as p_b"),
            "is a streaming DataFrame",
        ),
    ):
        with pytest.raises(br.errors.BadProbabilities, match=message):
            br.adjust(probs, [0.5, 0.5], columns="p_*")


def test_a_known_shift_can_be_applied_to_a_stream(spark: Any) -> None:
    stream = spark.session.readStream.format("rate").load().selectExpr("0.4D as p_a", "0.6D as p_b", "value as id")
    adjusted = br.adjust([[0.4, 0.6]], [0.5, 0.5]).apply(stream, columns=["p_a", "p_b"], whole=True)
    assert adjusted.isStreaming
    assert adjusted.columns == ["p_a", "p_b", "id"]


def test_rows_that_change_between_passes_are_an_error(spark: Any) -> None:
    native = spark.session.range(2000).selectExpr("id", "0.3D as p_a", "0.7D as p_b").filter("uuid() < '8'")
    with pytest.raises(br.errors.BadProbabilities, match=r"must return the same rows each time: call .cache\(\)"):
        br.adjust(native.filter(_by_chance(spark)), [0.5, 0.5], columns="p_*")


def _by_chance(spark: Any) -> Any:
    from pyspark.sql.functions import udf

    @udf("boolean")
    def chance() -> bool:
        import random

        return random.random() < 0.5

    return chance.asNondeterministic()()


@pytest.fixture(scope="module")
def deaths() -> dict[str, Any]:
    """Fits on a cluster whose executors die."""
    script = Path(__file__).parent / "executor_death.py"
    environment = os.environ | {"PYTHONPATH": child_path()}
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, env=environment)
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout.strip().splitlines()[-1]))


@pytest.mark.short
@needs_spark
@pytest.mark.parametrize("when", ["between", "inside"])
def test_dead_executor_of_spark_does_not_change_the_result(deaths: dict[str, Any], when: str) -> None:
    found = deaths[when]
    assert found["killed"]
    assert found["killed"][0] not in found["left"]
    assert found["passes_after"] >= 1
    assert found["shift"] == deaths["undisturbed"]["shift"]
    known = br.adjust(predictions(), list(RATES.values())).shift
    np.testing.assert_allclose(found["shift"], known, rtol=0, atol=1e-12)


def test_dead_worker_of_ray_does_not_change_the_result(ray_only: Any) -> None:
    native = ray_only.table(table()).map_batches(_slow, batch_format="pyarrow", batch_size=None)
    undisturbed = br.adjust(native, RATES, columns="p_*")
    killer = Killer(ray_workers, 0.3)
    result = br.adjust(native, RATES, columns="p_*", progress=killer)
    assert killer.killed
    assert not Path(f"/proc/{killer.killed[0]}").exists()
    np.testing.assert_array_equal(result.shift, undisturbed.shift)


def _slow(block: pa.Table) -> pa.Table:
    time.sleep(0.6)
    return block


def ray_workers() -> list[int]:
    """The processes that work on a block; waits until there are some."""
    for _ in range(50):
        found = subprocess.run(["pgrep", "-f", "^ray::.*MapBatches"], capture_output=True, text=True, check=False)
        busy = sorted(set(map(int, found.stdout.split())) & descendants(os.getpid()))
        if busy:
            return busy
        time.sleep(0.1)
    raise AssertionError("no process works on a block")


DRIVER = """
import resource, sys, time
import numpy as np, baserate as br
from cluster_support import spark_cluster

with spark_cluster(settings={"spark.sql.execution.arrow.maxRecordsPerBatch": "50000"}) as cluster:
    spark = cluster.session
    for n in map(int, sys.argv[1:]):
        raw = spark.range(0, n, 1, 8).selectExpr("id", "1.5D + (hash(id) % 100) / 101D as a")
        rows = raw.selectExpr("id", "a / (a + 1) as p_a", "1 / (a + 1) as p_b")
        result = br.adjust(rows, {"a": 0.3, "b": 0.7}, columns="p_*")
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, result.n_rows, result.converged)
"""


@pytest.mark.stress
@needs_spark
def test_memory_of_the_driver_does_not_grow_with_the_number_of_rows(tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    ran = subprocess.run(
        [sys.executable, script, "200000", "20000000"],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"PYTHONPATH": child_path()},
    )
    assert ran.returncode == 0, ran.stderr
    (few, *_), (many, n_rows, converged) = (line.split() for line in ran.stdout.strip().splitlines())
    assert (n_rows, converged) == ("20000000", "True")
    assert int(many) - int(few) < 20 * 2**20  # the additional rows have 300 MiB


def test_code_of_the_page_about_clusters_runs(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if cluster.name == "plain":
        pytest.skip("the page is about Spark and Ray")
    import pyarrow.parquet as pq

    page = Path(__file__).parents[1] / "docs" / "clusters.md"
    blocks = dict(re.findall(r"```python\n# (.+?)\n(.+?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "predictions").mkdir()
    whole = table().rename_columns(["id", *COLUMNS, "weight", "region", "age"])
    pq.write_table(whole, tmp_path / "predictions" / "part.parquet")
    names: dict[str, Any] = {"br": br, "__name__": "page"}
    if cluster.name == "spark":
        names["spark"] = cluster.session
        for folder in ("predictions", "adjusted"):  # the JVM has a working directory of its own
            blocks["in Spark"] = blocks["in Spark"].replace(f'"{folder}"', f'"{tmp_path / folder}"')
    else:
        import ray

        names["ray"] = ray
        for folder in ("predictions", "adjusted"):
            blocks["in Ray"] = blocks["in Ray"].replace(f'"{folder}"', f'"{tmp_path / folder}"')
    exec(blocks[f"in {cluster.name.capitalize()}"], names)
    known = br.adjust(predictions(), [0.2, 0.3, 0.5])
    for rows in (pq.read_table(tmp_path / "adjusted"), cluster.rows(names["later"])):
        np.testing.assert_allclose(matrix(rows.sort_by("id")), known.probs, rtol=0, atol=1e-12)
