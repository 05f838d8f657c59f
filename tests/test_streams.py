"""Rows that are read as streams: queries of DuckDB, polars and ADBC, and other objects that speak Arrow."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import adbc_driver_sqlite.dbapi as sqlite
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from stream_support import KINDS_OF_RATES, RATES, TOL, adjusted_in_memory, assert_same, exact_rates, rows
from support import ALL_LOSSES, loss_id

import baserate as br
from baserate.engines import files
from baserate.errors import BadFile, BadGroups, BadOption, BadProbabilities, BadRates, BaserateError
from baserate.tables import streams

Make = Callable[[pa.Table], Any]


class ManyReadings:
    """An object of another library that can be read repeatedly, and counts how often it was."""

    def __init__(self, table: pa.Table) -> None:
        self._table, self.n_readings = table, 0

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        self.n_readings += 1
        return self._table.to_reader(max_chunksize=100).__arrow_c_stream__(requested_schema)


class OneReading:
    """An object of another library that is empty after it was read."""

    def __init__(self, table: pa.Table) -> None:
        self._reader, self._schema = table.to_reader(), table.schema

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader, self._reader = self._reader, pa.RecordBatchReader.from_batches(self._schema, [])
        return reader.__arrow_c_stream__(requested_schema)


def relation(table: pa.Table, query: str = "SELECT * FROM predictions") -> duckdb.DuckDBPyRelation:
    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute("CREATE TABLE predictions AS SELECT * FROM given")
    return connection.sql(query)


@contextlib.contextmanager
def adbc(table: pa.Table) -> Iterator[br.ArrowRows]:
    connection = sqlite.connect()
    cursor = connection.cursor()
    cursor.adbc_ingest("predictions", table)

    def read() -> pa.RecordBatchReader:
        cursor.execute("SELECT * FROM predictions")
        return cursor.fetch_record_batch()

    try:
        yield br.ArrowRows(read, "the ADBC query")
    finally:
        cursor.close()
        connection.close()


SOURCES: dict[str, Make] = {
    "duckdb": relation,
    "duckdb in another order each time": lambda table: relation(table, "SELECT * FROM predictions ORDER BY random()"),
    "polars": lambda table: pl.from_arrow(table).lazy(),  # type: ignore[union-attr]  # a table becomes a DataFrame
    "function": lambda table: br.ArrowRows(lambda: table.to_reader(max_chunksize=77)),
    "capsule": ManyReadings,
}


def read_rows(frame: Any) -> pa.Table:
    """A lazy answer as a table."""
    if isinstance(frame, pl.LazyFrame):
        return frame.collect().to_arrow(compat_level=pl.CompatLevel.oldest())
    return pa.RecordBatchReader.from_stream(frame).read_all()


@pytest.fixture(params=[files._HELD_VALUES, 0], ids=["kept in memory", "read in every pass"])
def held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(files, "_HELD_VALUES", request.param)
    monkeypatch.setattr(streams, "BATCH_ROWS", 250)  # several batches in these few rows
    return int(request.param)


@pytest.mark.parametrize("source", list(SOURCES)[:3])
@pytest.mark.parametrize(("loss", "k"), ALL_LOSSES, ids=loss_id)
def test_rows_of_every_loss_are_those_in_memory(source: str, loss: br.losses.Loss, k: int) -> None:
    table = rows(k=k, seed=k)
    found = br.adjust(SOURCES[source](table), exact_rates(k), columns="p_*", loss=loss, tol=TOL)
    assert_same(found, read_rows(found.frame), adjusted_in_memory(table, exact_rates(k), loss=loss))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", KINDS_OF_RATES)
def test_rows_for_every_kind_of_rates_are_those_in_memory(source: str, kind: str, held: int) -> None:
    table, rates = rows(), KINDS_OF_RATES[kind]
    found = br.adjust(SOURCES[source](table), rates, columns="p_*", tol=TOL)
    assert_same(found, read_rows(found.frame), adjusted_in_memory(table, rates))


def test_every_kind_of_rates_is_compared_and_changes_the_rows() -> None:
    kinds = {getattr(rates, "kind", "exact") for rates in KINDS_OF_RATES.values()}
    assert kinds == set(br.Rates.kinds)
    for rates in KINDS_OF_RATES.values():
        assert np.abs(adjusted_in_memory(rows(), rates).dual_shift).max() > 1e-3


def test_adbc_query_is_executed_in_every_pass() -> None:
    table = rows()
    with adbc(table) as source:
        found = br.adjust(source, RATES, columns="p_*", tol=TOL)
        assert_same(found, read_rows(found.frame), adjusted_in_memory(table, RATES))


def test_weights_types_and_one_column(held: int) -> None:
    table = rows(dtype="float32")
    expected = br.adjust(table, RATES, columns="p_*", sample_weight=table["weight"].to_numpy(), tol=1e-9)
    found = br.adjust(relation(table), RATES, columns="p_*", sample_weight="weight", tol=1e-9)
    np.testing.assert_allclose(found.dual_shift, expected.dual_shift, atol=1e-8)
    assert read_rows(found.frame).schema.field("p_cat").type == pa.float32()
    lazy = pl.from_arrow(table).lazy()  # type: ignore[union-attr]  # a table becomes a DataFrame
    found = br.adjust(lazy, RATES, columns="p_*", dtype="float64")
    assert found.frame.collect_schema()["p_cat"] == pl.Float64
    one = br.adjust(relation(rows()), 0.2, columns="p_cat", tol=TOL)
    alone = br.adjust(rows()["p_cat"].to_numpy(), 0.2, tol=TOL)
    np.testing.assert_allclose(read_rows(one.probs)["p_cat"].to_numpy(), alone.probs, atol=1e-12)


def test_frame_is_a_lazy_object_of_the_same_kind() -> None:
    table = rows()
    found = br.adjust(relation(table), RATES, columns="p_*")
    assert found.engine.startswith("duckdb")
    assert isinstance(found.frame, duckdb.DuckDBPyRelation)
    assert found.probs.columns == ["p_cat", "p_dog", "p_owl"]
    [(n_rows, mean)] = found.frame.aggregate("count(*), avg(p_cat)").fetchall()
    assert n_rows == 600
    assert mean == pytest.approx(0.2, abs=1e-9)
    assert len(found.frame.filter("id < 3").fetchall()) == 3
    lazy = br.adjust(pl.from_arrow(table).lazy(), RATES, columns="p_*")  # type: ignore[union-attr]  # a DataFrame
    assert isinstance(lazy.frame, pl.LazyFrame)
    assert lazy.probs.collect().columns == ["p_cat", "p_dog", "p_owl"]
    assert lazy.frame.filter(pl.col("id") < 3).select("id", "p_owl").collect().shape == (3, 2)
    with pytest.raises(BaserateError, match="has a shift but no rows"):
        _ = pickle.loads(pickle.dumps(lazy)).probs


def test_other_columns_of_a_lazyframe_keep_their_types() -> None:
    frame = pl.from_arrow(rows()).with_columns(  # type: ignore[union-attr]  # a table becomes a DataFrame
        pl.col("region").cast(pl.Categorical), day=pl.date(2024, 1, 1), tags=pl.concat_list("age", "age")
    )
    found = br.adjust(frame.lazy(), KINDS_OF_RATES["groups"], columns="p_*").frame
    assert found.collect_schema() == found.collect().schema == frame.schema
    assert (
        found.collect(engine="streaming").drop("p_cat", "p_dog", "p_owl").equals(frame.drop("p_cat", "p_dog", "p_owl"))
    )


@pytest.mark.parametrize("name", ["", "*", "^p.*$", "p"])
def test_every_column_name_of_a_lazyframe_is_a_name(name: str) -> None:
    p = np.linspace(0.1, 0.7, 20)
    lazy = pl.LazyFrame({name: p, "plan": range(20)})
    result = br.adjust(lazy, 0.3, columns=[name])
    expected = br.adjust(p, 0.3).probs
    assert result.frame.collect().columns == [name, "plan"]
    for lazily in (result.frame.select(pl.selectors.exclude("plan")), result.probs, result.apply(lazy, columns=[name])):
        found = lazily.collect()
        assert found.columns == [name]
        np.testing.assert_allclose(found.to_series().to_numpy(), expected, atol=1e-12)


def test_a_bad_row_of_a_lazy_step_has_no_number() -> None:
    bad = [False]
    lazy = pl.LazyFrame({"p": np.linspace(0.1, 0.7, 200_000)}).map_batches(
        lambda frame: frame.with_columns(p=pl.lit(float("nan"))) if bad[0] else frame, schema={"p": pl.Float64}
    )
    frame = br.adjust(lazy, 0.3, columns="p").frame
    bad[0] = True
    with pytest.raises(BadProbabilities, match=r"^a row of the LazyFrame is nan"):
        frame.collect()


def test_apply_certify_and_what_if_accept_streams() -> None:
    table = rows()
    fitted = adjusted_in_memory(table, RATES)
    new = rows(seed=5)
    expected = fitted.apply(new, columns="p_*", whole=True)
    for make in SOURCES.values():
        whole = read_rows(fitted.apply(make(new), columns="p_*", whole=True)).sort_by("id")
        assert whole.cast(expected.schema).equals(expected)
        assert read_rows(fitted.apply(make(new), columns="p_*")).column_names == ["p_cat", "p_dog", "p_owl"]
    certified = fitted.certify(relation(new), RATES, columns="p_*").loss_reduction
    assert certified == pytest.approx(fitted.certify(new, RATES, columns="p_*").loss_reduction, abs=1e-12)
    other = {"cat": 0.3, "dog": 0.3, "owl": 0.4}
    again = br.adjust(relation(table), RATES, columns="p_*", tol=TOL).what_if(other)
    assert_same(again, read_rows(again.frame), adjusted_in_memory(table, other))


def test_adjusted_rows_are_written_to_files_without_the_table_in_memory(tmp_path: Path, held: int) -> None:
    table = rows()
    found = br.adjust(relation(table), RATES, columns="p_*", tol=TOL, out=tmp_path / "out.parquet")
    assert_same(found, pq.read_table(tmp_path / "out.parquet"), adjusted_in_memory(table, RATES))


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("in.parquet", lambda: pl.scan_parquet("in.parquet").filter(pl.col("id") < 9)),
        ("in.parquet", lambda: pl.concat([pl.scan_parquet("other.parquet"), pl.scan_parquet("*.parquet")])),
        ("in.csv", lambda: pl.scan_csv("in.csv").join(pl.scan_csv("in.csv"), on="id", how="semi")),
        ("in.parquet", lambda: duckdb.sql("SELECT * FROM 'in.parquet' WHERE id < 9")),
        ("in.csv", lambda: duckdb.read_csv("*.csv")),
        ("it's.csv", lambda: duckdb.sql("SELECT * FROM 'it''s.csv'")),
        ("in.parquet", lambda: ds.dataset("in.parquet").filter(ds.field("id") < 9)),
        ("in.parquet", lambda: ds.dataset([ds.dataset("other.parquet"), ds.dataset("in.parquet")])),
    ],
)
def test_a_file_that_a_query_reads_is_not_overwritten(
    name: str, query: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for suffix in ("in.parquet", "other.parquet"):
        pq.write_table(rows(30), suffix)
    for suffix in ("in.csv", "it's.csv"):
        pl.from_arrow(rows(30)).write_csv(suffix)
    before = Path(name).read_bytes()
    with pytest.raises(BadOption, match="is also an input; write to another path, so that the input is kept"):
        br.adjust(query(), RATES, columns="p_*", out=tmp_path / name)
    assert Path(name).read_bytes() == before
    br.adjust(query(), RATES, columns="p_*", out=tmp_path / "out.parquet")


def test_only_the_columns_of_a_pass_are_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    kept = streams.RelationStream._open

    def listen(self: Any, columns: list[str]) -> Iterator[pa.RecordBatch]:
        asked.append(list(columns))
        return kept(self, columns)

    monkeypatch.setattr(streams.RelationStream, "_open", listen)
    br.adjust(relation(rows()), RATES, columns="p_*")
    assert {tuple(columns) for columns in asked} == {("p_cat", "p_dog", "p_owl")}


def test_a_connection_can_be_used_after_an_error() -> None:
    found = relation(rows().append_column("p_yak", pa.array([2.0] * 600)))
    with pytest.raises(BadProbabilities):
        br.adjust(found, exact_rates(4), columns="p_*")
    assert found.aggregate("count(*)").fetchall() == [(600,)]


def changing(n: int) -> br.ArrowRows:
    """Rows of which a later reading has others."""
    seeds = iter(range(10))
    return br.ArrowRows(lambda: rows(n if (seed := next(seeds)) > 1 else 600, seed=seed).to_reader())


@pytest.mark.parametrize("held", [10**9, 0])
@pytest.mark.parametrize("swapped", [False, True])
def test_groups_that_change_between_two_readings_are_noticed(
    swapped: bool, held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_HELD_VALUES", held)
    table = rows()
    regions = table["region"].to_pylist()
    new = regions[::-1] if swapped else ["south" if regions[0] == "north" else "north", *regions[1:]]
    other = table.set_column(table.schema.get_field_index("region"), "region", [new])
    readings = iter(range(100))
    # The first four readings are those of the schema, the number of rows, the groups, and all of these columns.
    source = br.ArrowRows(lambda: (table if next(readings) < 4 else other).to_reader())
    out = tmp_path / "out.parquet"
    with pytest.raises(BadProbabilities, match=r"the values of .*'region' in its 600 rows differ between two readings"):
        br.adjust(source, KINDS_OF_RATES["groups"], columns="p_*", out=out)
    assert not out.exists()


P = "SELECT p_cat, p_dog, p_owl FROM predictions"
BAD: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    (
        "reader",
        lambda: rows().to_reader(),
        BadOption,
        r"RecordBatchReader can be read only once, .* br\.ArrowRows\(fun",
    ),
    ("one reading", lambda: OneReading(rows()), BadFile, "OneReading has no rows. If it can be read only once"),
    ("other rows", lambda: changing(600), BadProbabilities, "numbers in its 600 rows differ between two readings"),
    ("more rows", lambda: changing(601), BadProbabilities, "the first reading gave 600 rows, and a later one 601"),
    ("fewer rows", lambda: changing(10), BadProbabilities, "gave 600 rows, and a later one 10.*CREATE TEMP TABLE"),
    ("no more rows", lambda: changing(0), BadProbabilities, "and a later one 0"),
    ("random()", lambda: relation(rows(), f"{P} WHERE random() < 0.5"), BadProbabilities, r"It may use random\(\)"),
    (
        "no column",
        lambda: relation(rows(), "SELECT id FROM predictions"),
        BadProbabilities,
        r"no column matches 'p_\*'",
    ),
    ("class missing", lambda: relation(rows(), "SELECT p_cat, p_dog FROM predictions"), BadRates, "'owl'"),
    (
        "null",
        lambda: relation(rows(), f"{P} UNION ALL SELECT NULL, 0.5, 0.5"),
        BadProbabilities,
        "row .* 'p_cat' is nan",
    ),
    (
        "text",
        lambda: relation(rows(), "SELECT region AS p_cat, p_dog, p_owl FROM predictions"),
        BadProbabilities,
        "column 'p_cat' of the DuckDB relation contains string values, not probabilities",
    ),
    ("no rows", lambda: relation(rows(), f"{P} LIMIT 0"), BadFile, "the DuckDB relation has no rows"),
    (
        "sum",
        lambda: relation(rows(), "SELECT p_cat, p_dog, 0.9 AS p_owl FROM predictions"),
        BadProbabilities,
        "sums to",
    ),
    (
        "polars column",
        lambda: pl.LazyFrame({"a": [1]}).select(pl.col("p_cat")),
        BadProbabilities,
        "the LazyFrame cannot be read: ColumnNotFoundError",
    ),
    (
        "function fails",
        lambda: br.ArrowRows(lambda: 1 / 0),
        BadOption,
        "function raised ZeroDivisionError: division by",
    ),
    ("function result", lambda: br.ArrowRows(lambda: [1]), BadOption, "returned a list, not a stream of Arrow"),
    (
        "no result",
        lambda: br.ArrowRows(lambda: None),
        BadOption,
        r"returned None.*Return a pyarrow\.Table, .*from_batches",
    ),
    ("one reader", lambda: br.ArrowRows(repeat(rows(0).to_reader()).__next__), BadFile, "must start a new reading"),
    ("named", lambda: br.ArrowRows(lambda: None, "the view v"), BadOption, "the view v cannot be read"),
]


@pytest.mark.parametrize(("make", "error", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_messages_about_bad_streams(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        br.adjust(make(), RATES, columns="p_*")


def test_messages_about_bad_streams_do_not_ask_for_what_was_passed() -> None:
    with pytest.raises(BadOption) as caught:
        br.adjust(br.ArrowRows(lambda: [1]), RATES, columns="p_*")
    assert "br.ArrowRows" not in str(caught.value)


def test_messages_about_bad_options_for_streams() -> None:
    with pytest.raises(BadOption, match="ArrowRows needs a function that starts a new reading, not a Table"):
        br.ArrowRows(rows())  # type: ignore[arg-type]  # the mistake
    with pytest.raises(BadGroups, match="columns of the query; leave groups= out"):
        br.adjust(relation(rows()), KINDS_OF_RATES["groups"], columns="p_*", groups=["north"] * 600)
    with pytest.raises(BadOption, match="sample_weight must be the name of a column"):
        br.adjust(relation(rows()), RATES, columns="p_*", sample_weight=np.ones(600))
    dropped = relation(rows())
    dropped.query("p", "DROP TABLE predictions")
    with pytest.raises(BadProbabilities, match="the DuckDB relation cannot be read"):
        br.adjust(dropped, RATES, columns="p_*")


def test_dataframes_and_datasets_are_read_as_before() -> None:
    table = rows()
    for eager in (table, pl.from_arrow(table), table.to_pandas()):
        assert not br.adjust(eager, RATES, columns="p_*").engine.startswith("arrow")
    assert br.adjust(ds.dataset(table), RATES, columns="p_*").engine.startswith("files")
