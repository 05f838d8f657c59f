"""The labels of groups in SQL find the rows that ``apply`` finds, in every database and time zone."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from deploy_support import RUN

import baserate as br
from baserate.errors import BadGroups

pytest.importorskip("sqlglot")
duckdb = pytest.importorskip("duckdb")


def grouped(values: Any, name: str = "key") -> tuple[pd.DataFrame, br.Adjustment]:
    """A table with groups, whose rates differ much, and its adjustment."""
    values = pd.Series(values, name=name)
    table = pd.DataFrame({"id": np.arange(len(values)), "p": np.linspace(0.2, 0.6, len(values)), name: values})
    labels = list(dict.fromkeys(values))
    rates = dict(zip(labels, np.linspace(0.1, 0.9, len(labels)), strict=True))
    return table, br.adjust(table, br.Rates.by(name, rates), columns="p")


def by_apply(result: br.Adjustment, table: pd.DataFrame) -> Any:
    return result.apply(table, columns="p")["p"].to_numpy()


HOURS = pd.date_range("2020-07-01", periods=6, freq="h")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_times_with_a_time_zone_do_not_depend_on_the_session(zone: str) -> None:
    table, result = grouped(np.repeat(HOURS.tz_localize("Europe/Berlin"), 4))
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone='{zone}'")
        connection.register("predictions", table)
        query = result.to_sql(columns="p", dialect="duckdb", keep=["id"])
        found = connection.execute(query).df().sort_values("id")["p"]
    np.testing.assert_allclose(found, by_apply(result, table), atol=1e-12)


@pytest.mark.parametrize("database", RUN)
@pytest.mark.parametrize("step", ["250ms", "1h", "12h"])
def test_times_without_a_time_zone(step: str, database: str) -> None:
    table, result = grouped(np.repeat(pd.date_range("2020-07-01", periods=6, freq=step), 4))
    found = RUN[database](table, result.to_sql(columns="p", dialect=database, keep=["id"]))["p"]
    np.testing.assert_allclose(found.to_numpy(dtype=float), by_apply(result, table), atol=1e-12)


@pytest.mark.parametrize("dialect", ["sqlite", "mysql", "clickhouse", "hive"])
def test_dialects_without_time_zones_refuse_times_with_one(dialect: str) -> None:
    _, result = grouped(np.repeat(HOURS.tz_localize("Europe/Berlin"), 4))
    with pytest.raises(BadGroups, match=f"but {dialect} has no type for it; convert the column of the groups to UTC"):
        result.to_sql(columns="p", dialect=dialect, keep=["id"])


@pytest.mark.parametrize(
    ("dialect", "wanted"),
    [
        ("postgres", "CAST('2020-06-30 22:00:00+00:00' AS TIMESTAMPTZ)"),
        ("bigquery", "CAST('2020-06-30 22:00:00+00:00' AS TIMESTAMP)"),
        ("tsql", "CAST('2020-06-30 22:00:00+00:00' AS DATETIMEOFFSET)"),
        ("oracle", "TO_TIMESTAMP_TZ('2020-06-30 22:00:00+00:00', 'YYYY-MM-DD HH24:MI:SSTZH:TZM')"),
    ],
)
def test_times_with_a_time_zone_in_other_dialects(dialect: str, wanted: str) -> None:
    _, result = grouped(np.repeat(HOURS.tz_localize("Europe/Berlin"), 4))
    assert wanted in result.to_sql(columns="p", dialect=dialect, keep=["id"])


def test_mysql_keeps_the_fraction_of_seconds() -> None:
    _, result = grouped(np.repeat(pd.date_range("2020-07-01", periods=3, freq="250ms"), 4))
    assert "CAST('2020-07-01 00:00:00.250000' AS DATETIME(6))" in result.to_sql(columns="p", dialect="mysql", keep=[])


CASES = np.repeat(["a", "A", "b"], 4)


def run_without_case(database: str, given: pd.DataFrame, query: str) -> Any:
    """The answer of a database whose text columns are compared without case."""
    if database == "sqlite":
        with contextlib.closing(sqlite3.connect(":memory:")) as connection:
            connection.execute("CREATE TABLE predictions (id INTEGER, p REAL, key TEXT COLLATE NOCASE)")
            given.to_sql("predictions", connection, index=False, if_exists="append")
            return pd.read_sql(query, connection).sort_values("id")["p"]
    with duckdb.connect() as connection:
        connection.execute("SET default_collation='nocase'")
        connection.execute("CREATE TABLE predictions (id INTEGER, p DOUBLE, key VARCHAR COLLATE nocase)")
        connection.execute("INSERT INTO predictions SELECT * FROM given")
        return connection.execute(query).df().sort_values("id")["p"]


@pytest.mark.parametrize("database", RUN)
def test_groups_that_differ_only_in_case_do_not_repeat_rows(database: str) -> None:
    table, result = grouped(CASES)
    found = run_without_case(database, table, result.to_sql(columns="p", dialect=database, keep=["id"]))
    assert len(found) == len(table)
    np.testing.assert_allclose(found.to_numpy(), by_apply(result, table), atol=1e-12)


@pytest.mark.parametrize(
    ("dialect", "labels"), [("mysql", "aA"), ("tsql", "aA"), ("mysql", ["caf\xe9", "cafe"]), ("tsql", ["a", "a "])]
)
def test_groups_that_a_database_does_not_distinguish_are_refused(dialect: str, labels: Sequence[str]) -> None:
    _, result = grouped(np.repeat(list(labels), 4))
    with pytest.raises(BadGroups, match=f"which {dialect} does not distinguish in text by default, so rows would be"):
        result.to_sql(columns="p", dialect=dialect, keep=["id"])


def test_accents_are_distinguished_by_sql_server() -> None:
    _, result = grouped(np.repeat(["caf\xe9", "cafe"], 4))
    assert "café" in result.to_sql(columns="p", dialect="tsql", keep=["id"])


@pytest.mark.parametrize("database", RUN)
@pytest.mark.parametrize("unseen", ["null", "pooled"])
def test_spaces_around_text_are_ignored_as_by_apply(unseen: Any, database: str) -> None:
    table, result = grouped(np.repeat(["north", "south ", "east west"], 4))
    padded = table.assign(key=np.tile([" north", "south", "east west  "], 4))
    query = result.to_sql(columns="p", dialect=database, keep=["id"], unseen=unseen)
    for rows in (table, padded):
        found = RUN[database](rows, query)["p"].to_numpy(dtype=float)
        np.testing.assert_allclose(found, by_apply(result, rows), atol=1e-12)


@pytest.mark.parametrize("database", RUN)
def test_groups_that_differ_only_in_spaces_stay_apart(database: str) -> None:
    table, result = grouped(np.repeat(["x", "x ", "y"], 4))
    found = RUN[database](table, result.to_sql(columns="p", dialect=database, keep=["id"]))["p"].to_numpy(dtype=float)
    np.testing.assert_allclose(found, by_apply(result, table), atol=1e-12)


@pytest.mark.parametrize(
    ("labels", "values"),
    [
        (["1", "2"], [1, 2]),
        (["2026-01-02", "2026-01-03"], pd.to_datetime(["2026-01-02", "2026-01-03"])),
        (["True", "False"], [True, False]),
    ],
)
def test_labels_that_are_texts_of_other_types_find_columns_of_these_types(labels: list[str], values: Any) -> None:
    table, result = grouped(np.repeat(labels, 4))
    typed = table.assign(key=np.repeat(values, 4))
    found = RUN["duckdb"](typed, result.to_sql(columns="p", keep=["id"]))["p"].to_numpy(dtype=float)
    np.testing.assert_allclose(found, by_apply(result, table), atol=1e-12)
