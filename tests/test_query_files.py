"""Output never replaces a file that a query of polars or DuckDB reads, however the query names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from stream_support import RATES, rows

import baserate as br
from baserate.errors import BadOption

duckdb = pytest.importorskip("duckdb")
pl = pytest.importorskip("polars")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files ``q/1.parquet`` to ``q/4.parquet``, one with a comma in its name, and one in the home folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in [*(f"q/{i}.parquet" for i in range(1, 5)), "q/a, b.parquet", "home/3.parquet"]:
        Path(name).parent.mkdir(exist_ok=True)
        pq.write_table(rows(30), name)


def url(name: str) -> str:
    return f"file://{Path(name).absolute()}"


def view() -> Any:
    connection = duckdb.connect()
    connection.execute("CREATE VIEW v AS SELECT * FROM 'q/3.parquet'")
    return connection.sql("FROM v")


FRAME = pl.LazyFrame({"id": range(30)})
KNOWN = {
    "list": lambda: pl.scan_parquet(["q/1.parquet", "q/2.parquet", "q/3.parquet"]).filter(pl.col("id") < 9),
    "pattern": lambda: pl.scan_parquet("q/*.parquet"),
    "folder": lambda: pl.scan_parquet("q/"),
    "URL": lambda: pl.scan_parquet(url("q/3.parquet")),
    "home": lambda: pl.scan_parquet("~/3.parquet"),
    "comma": lambda: pl.scan_parquet("q/a, b.parquet"),
    "frame in memory": lambda: pl.scan_parquet("q/*.parquet").join(FRAME, on="id"),
    "function": lambda: pl.scan_parquet("q/*.parquet").map_batches(lambda frame: frame),
    "union": lambda: pl.concat([pl.scan_parquet("q/1.parquet"), pl.scan_parquet(["q/2.parquet", "q/3.parquet"])]),
    "name": lambda: duckdb.sql('SELECT * FROM "q/3.parquet"'),
    "DuckDB URL": lambda: duckdb.sql(f"SELECT * FROM '{url('q/3.parquet')}'"),
    "DuckDB home": lambda: duckdb.sql("SELECT * FROM '~/3.parquet'"),
    "dollars": lambda: duckdb.sql("SELECT * FROM read_parquet($$q/3.parquet$$)"),
    "tagged dollars": lambda: duckdb.sql("SELECT * FROM read_parquet($x$q/3.parquet$x$)"),
    "comment": lambda: duckdb.sql("SELECT * -- it's\nFROM 'q/3.parquet'"),
    "DuckDB folder": lambda: duckdb.sql("SELECT * FROM read_parquet('q')"),
}
UNKNOWN = {
    "dataset": lambda: pl.scan_pyarrow_dataset(ds.dataset("q/3.parquet")),
    "parameter": lambda: duckdb.sql("SELECT * FROM read_parquet(?)", params=["q/3.parquet"]),
    "expression": lambda: duckdb.sql("SELECT * FROM read_parquet(chr(113) || '/3.parquet')"),
    "view": view,
}


def adjust(query: Any, out: str) -> br.Adjustment:
    return br.adjust(query, RATES, columns="p_*", out=out)


@pytest.mark.parametrize("kind", KNOWN)
def test_a_file_that_a_query_reads_is_not_overwritten(kind: str) -> None:
    query: Callable[[], Any] = KNOWN[kind]
    name = {"comma": "q/a, b.parquet", "home": "home/3.parquet", "DuckDB home": "home/3.parquet"}.get(
        kind, "q/3.parquet"
    )
    before = Path(name).read_bytes()
    with pytest.raises(BadOption, match="is also an input; write to another path, so that the input is kept"):
        adjust(query(), name)
    assert Path(name).read_bytes() == before
    pq.write_table(rows(30), "other.parquet")
    adjust(query(), "other.parquet")  # which the query does not read


@pytest.mark.parametrize("kind", UNKNOWN)
def test_no_file_is_overwritten_if_those_of_the_query_are_not_known(kind: str) -> None:
    query: Callable[[], Any] = UNKNOWN[kind]
    before = Path("q/3.parquet").read_bytes()
    with pytest.raises(BadOption, match=r"exists, and the .* may read it, since its files are not all known"):
        adjust(query(), "q/3.parquet")
    assert Path("q/3.parquet").read_bytes() == before
    adjust(query(), "new.parquet")


def test_tables_in_a_database_do_not_prevent_output_to_a_file_that_exists() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT * FROM 'q/1.parquet'")
    for query in (connection.sql("SELECT * FROM t WHERE region <> 'q'"), pl.read_parquet("q/1.parquet").lazy()):
        pq.write_table(rows(10), "q/3.parquet")
        adjust(query, "q/3.parquet")
        assert pq.read_table("q/3.parquet")["id"].to_pylist() == pq.read_table("q/1.parquet")["id"].to_pylist()


def test_no_file_is_overwritten_if_the_query_reads_an_open_file() -> None:
    with Path("q/3.parquet").open("rb") as file, pytest.raises(BadOption, match="its files are not all known"):
        adjust(pl.scan_parquet(file), "q/3.parquet")
