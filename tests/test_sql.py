"""Shifts as SQL queries: DuckDB and SQLite give what ``apply`` gives, on hostile rows and names."""

from __future__ import annotations

import datetime
import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from deploy_support import HOSTILE_NAMES, RUN, assert_same, fitted, hard_rows, run_duckdb, run_sqlite, table_of
from support import loss_id

import baserate as br

sqlglot = pytest.importorskip("sqlglot")
pytest.importorskip("duckdb")

DIALECTS = [
    *("athena", "bigquery", "clickhouse", "databricks", "duckdb", "mysql", "oracle", "postgres", "presto"),
    *("redshift", "snowflake", "spark", "sqlite", "teradata", "trino", "tsql"),
]
LOSSES = [
    (br.losses.Log(), 2, True),
    (br.losses.Log(), 8, True),
    (br.losses.Power(1.0), 3, True),
    (br.losses.Brier(), 2, True),
    (br.losses.Brier(), 5, True),
    (br.losses.Brier(), 5, False),
    (br.losses.WeightedBrier([0.2, 1.0, 5.0, 1.0]), 4, True),
    (br.losses.Quadratic([[1, 0.3], [0.3, 2]]), 2, True),
    (br.losses.Quadratic([[2, 0.5, 0], [0.5, 1, 0.1], [0, 0.1, 1]]), 3, False),
    (br.losses.RankedProbability(), 2, True),
    (br.losses.RankedProbability(), 5, True),
    (br.losses.Spherical(), 2, True),
    (br.losses.Spherical(), 4, True),
]


@pytest.mark.parametrize("database", RUN)
@pytest.mark.parametrize(("loss", "k", "bounded"), LOSSES, ids=loss_id)
def test_queries_give_what_apply_gives(loss: Any, k: int, bounded: bool, database: str) -> None:
    names = HOSTILE_NAMES[:k]
    result, rows = fitted(loss, k, classes=names, bounded=bounded), hard_rows(k)
    query = result.to_sql(dialect=database, keep=["id", "note"])
    assert_same(RUN[database](table_of(rows, names), query), names, result.apply(rows))


@pytest.mark.parametrize("database", RUN)
@pytest.mark.parametrize("loss", ["log", "brier", "ranked"])
@pytest.mark.parametrize("reading", ["logits", "smoothing", "rate of 0"])
def test_logits_smoothing_and_rates_of_zero(loss: str, reading: str, database: str) -> None:
    names, rows = list("abc"), hard_rows(3)
    given: dict[str, Any] = {"logits": {"from_logits": True}, "smoothing": {"zeros": 1e-4}}.get(reading, {})
    if reading == "rate of 0":
        given, rows = {"rates": [0.0, 0.3, 0.7]}, rows[(rows[:, 1:] > 0).any(axis=1)]
    if reading == "logits":
        with np.errstate(divide="ignore"):
            rows = 3.0 + np.log(rows)
    result = fitted(loss, 3, classes=names, **given)
    query = result.to_sql(dialect=database, keep=["id", "note"])
    assert_same(RUN[database](table_of(rows, names), query), names, result.apply(rows))


@pytest.mark.parametrize("database", RUN)
def test_300_classes(database: str) -> None:
    result, rows = fitted("log", 300, classes=[f"c{j}" for j in range(300)]), hard_rows(300, n=20)
    names = [f"p_c{j}" for j in range(300)]
    query = result.to_sql(columns="p_*", dialect=database, keep=["id", "note"])
    assert_same(RUN[database](table_of(rows, names), query), names, result.apply(rows))


@pytest.mark.parametrize("database", RUN)
def test_shifts_that_are_infinite_in_the_limit(database: str) -> None:
    # The rates require that class 2 gets everything in rows that allow it.
    p = np.array([[0.5, 0.0, 0.5], [0.3, 0.7, 0.0], [0.6, 0.4, 0.0], [0.2, 0.0, 0.8]])
    result = br.adjust(p, [0.25, 0.25, 0.5], classes=list("abc"))
    assert result.model.limit_levels is not None
    rows = np.vstack(
        [p, [[0.1, 0.2, 0.7], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1 - 1e-16, 0.0, 1e-200]]]
    )
    query = result.to_sql(dialect=database, keep=["id", "note"])
    assert_same(RUN[database](table_of(rows, list("abc")), query), list("abc"), result.apply(rows))


@pytest.mark.parametrize("database", RUN)
def test_shifts_far_apart(database: str) -> None:
    result = br.adjust([[1 - 1e-200, 1e-200], [1.0, 1e-250]], [0.5, 0.5], classes=["a", "b"])
    assert np.ptp(result.shift) > 400
    rows = np.array([[1.0, 1e-210], [1.0, 1e-260], [0.5, 0.5], [1.0, 0.0], [1.0, 1e-300]])
    query = result.to_sql(dialect=database, keep=["id", "note"])
    assert_same(RUN[database](table_of(rows, ["a", "b"]), query), ["a", "b"], result.apply(rows))


@pytest.mark.parametrize("database", RUN)
@pytest.mark.parametrize("loss", ["log", "brier"])
@pytest.mark.parametrize("from_logits", [False, True])
def test_one_column(loss: str, from_logits: bool, database: str) -> None:
    p = np.array([0.1, 0.3, 0.9, 0.0, 1.0, 1e-300, 1 - 1e-16])
    fit = np.array([0.1, 0.4, 0.7])
    if from_logits:
        with np.errstate(divide="ignore"):
            p, fit = np.log(p) - np.log1p(-p), np.log(fit / (1 - fit))
    result = br.adjust(fit, 0.2, loss=loss, from_logits=from_logits)
    table = table_of(p[:, None], ["p_ill"])
    if from_logits:  # a database may not have infinite numbers
        table = table[~np.isinf(table["p_ill"])].reset_index(drop=True)
    answer = RUN[database](table, result.to_sql(columns="p_ill", dialect=database, keep=["id", "note"]))
    found = answer["p_ill"].to_numpy(dtype=float)
    assert np.abs(found[:-1] - result.apply(table["p_ill"].to_numpy(dtype=float)[:-1])).max() <= 1e-12
    assert math.isnan(found[-1])


def test_weights_of_log_loss_by_hand() -> None:
    result = br.prior_adjust([[0.5, 0.5]], [0.5, 0.5], [0.2, 0.8], classes=["a", "b"])
    answer = run_duckdb(table_of(np.array([[0.3, 0.7]]), ["a", "b"]), result.to_sql())
    wanted = 0.3 * 0.4 / (0.3 * 0.4 + 0.7 * 1.6)
    assert answer["a"][0] == pytest.approx(wanted, abs=1e-15)


def test_all_columns_stay_in_their_places() -> None:
    result = fitted("brier", 2, classes=["a", "b"])
    table = table_of(hard_rows(2), ["a", "b"])[["b", "note", "a", "id"]]
    assert run_duckdb(table, result.to_sql()).columns.tolist() == ["b", "note", "a", "id"]
    assert run_duckdb(table, result.to_sql(keep=["id"])).columns.tolist() == ["id", "a", "b"]


def test_hostile_tables_and_other_columns() -> None:
    result, rows = fitted("log", 2, classes=["a", "b"]), hard_rows(2)
    for name in ('my "table"; DROP', "\N{GRINNING FACE}", "baserate_level"):
        table = table_of(rows, ["a", "b"]).rename(columns={"note": 'x";--'})
        for database, run in (("duckdb", run_duckdb), ("sqlite", run_sqlite)):
            query = result.to_sql(table=[name], dialect=database, keep=["id", 'x";--'])
            answer = run(table, query, name=name.replace('"', '""') if database == "duckdb" else name)
            assert_same(answer.rename(columns={'x";--': "note"}), ["a", "b"], result.apply(rows))


def test_own_columns_do_not_collide_with_those_of_the_user() -> None:
    names = ["baserate_p0", "baserate_a1", "baserate_sum_of_products"]
    result, rows = fitted("log", 3, classes=names), hard_rows(3)
    assert_same(run_duckdb(table_of(rows, names), result.to_sql()), names, result.apply(rows))


@pytest.mark.parametrize("other", ["baserate_p0", "baserate_a1", "BASERATE_SUM_OF_PRODUCTS", "baserate_level_1", "t"])
def test_columns_that_only_the_database_knows_do_not_change_the_result(other: str) -> None:
    result, rows = fitted("log", 3, classes=list("abc")), hard_rows(3)
    table = table_of(rows, list("abc")).assign(**{other: 0.99})
    answer = run_duckdb(table, result.to_sql())
    assert_same(answer, list("abc"), result.apply(rows))
    assert answer.columns.tolist() == table.columns.tolist()
    assert (answer[other] == 0.99).all()


@pytest.mark.parametrize("database", RUN)
@pytest.mark.parametrize("name", ["baserate_level_1", "Baserate_Level_2"])
def test_tables_with_the_names_of_levels(name: str, database: str) -> None:
    result, rows = fitted("log", 2, classes=["a", "b"]), hard_rows(2)
    query = result.to_sql(table=name, dialect=database, keep=["id", "note"])
    assert_same(RUN[database](table_of(rows, ["a", "b"]), query, name), ["a", "b"], result.apply(rows))


def test_columns_of_the_fit_are_the_default() -> None:
    frame = pd.DataFrame(hard_rows(2), columns=["p_no", "p_yes"]).assign(id=1)
    result = br.adjust(frame, {"no": 0.4, "yes": 0.6}, columns="p_*")
    assert '"p_no"' in result.to_sql()
    assert result.to_sql() == result.to_sql(columns=["p_no", "p_yes"])


def test_rows_that_apply_refuses_are_null() -> None:
    result = fitted("log", 3, classes=list("abc"), rates=[0.0, 0.5, 0.5])
    table = table_of(np.array([[1.0, 0.0, 0.0]]), list("abc"))
    for database, run in (("duckdb", run_duckdb), ("sqlite", run_sqlite)):
        found = run(table, result.to_sql(dialect=database, keep=["id", "note"]))
        assert found[["a", "b", "c"]].isna().all(axis=None)


@pytest.mark.parametrize("database", RUN)
@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("loss", [br.losses.Log(), br.losses.Power(1.0), br.losses.Brier()], ids=loss_id)
def test_one_class_with_a_rate_above_zero(loss: Any, from_logits: bool, database: str) -> None:
    rows, names = np.array([[0.5, 0.2, 0.3], [0.0, 1e-300, 1.0], [1.0, 0.0, 0.0]]), list("abc")
    if from_logits:
        with np.errstate(divide="ignore"):
            rows = np.log(rows)
    result = fitted(loss, 3, classes=names, rates=[0.0, 1.0, 0.0], from_logits=from_logits)
    answer = RUN[database](table_of(rows, names), result.to_sql(dialect=database, keep=["id", "note"]))
    found, is_refused = answer[names].to_numpy(dtype=float), loss.pins_zeros
    wanted = np.full((4, 3), np.nan)
    wanted[: 2 if is_refused else 3] = [0.0, 1.0, 0.0]
    if from_logits:
        found, wanted = found[:3], wanted[:3]
    np.testing.assert_array_equal(found, wanted)
    for row in rows[2:]:
        if is_refused:
            with pytest.raises(br.BaserateError):
                result.apply(row)
        else:
            assert result.apply(row).tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects_parse_and_keep_names(dialect: str) -> None:
    names = HOSTILE_NAMES[:6]
    result = fitted("log", 6, classes=names)
    query = result.to_sql(dialect=dialect, table=["my db", "it's"], keep=["other;"])
    if dialect == "oracle":  # sqlglot does not know its numbers of double precision
        query = re.sub(r"(?<=\d)d\b", "", query)
    tree = sqlglot.parse_one(query, read=dialect)
    found = {one.name for one in tree.find_all(sqlglot.exp.Identifier)}
    assert {*names, "it's", "my db", "other;"} <= found
    assert tree.named_selects == ["other;", *names]


@pytest.mark.parametrize("dialect", ["bigquery", "snowflake", "tsql"])
@pytest.mark.parametrize("loss", ["brier", "spherical", "ranked"])
def test_functions_of_other_losses_parse(loss: str, dialect: str) -> None:
    query = fitted(loss, 3, classes=list("abc"), from_logits=True).to_sql(dialect=dialect, keep=[])
    assert sqlglot.parse_one(query, read=dialect).named_selects == list("abc")


@pytest.mark.parametrize("dialect", ["bigquery", "clickhouse", "databricks", "duckdb", "redshift", "snowflake"])
def test_other_columns_need_not_be_named(dialect: str) -> None:
    query = fitted("log", 2, classes=["a", "b"]).to_sql(dialect=dialect)
    assert sqlglot.parse_one(query, read=dialect).find(sqlglot.exp.Star) is not None
    assert "EXCEPT" in query or "EXCLUDE" in query


def test_names_of_databases_that_sqlglot_spells_differently() -> None:
    result = fitted("log", 2, classes=["a", "b"])
    assert result.to_sql(dialect="postgresql", keep=[]) == result.to_sql(dialect="postgres", keep=[])


# Rates per group


def grouped_table(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.dirichlet(np.ones(3), size=n), columns=["p_a", "p_b", "p_c"])
    return table.assign(
        id=np.arange(n), note="kept", region=rng.choice(["it's", "we;st", "\\"], n), age=rng.choice([1, 2], n)
    )


def rates_by(column: str, values: list[Any], seed: int, **given: Any) -> br.Rates:
    rows = np.random.default_rng(seed).dirichlet(np.full(3, 8.0), size=len(values))
    return br.Rates.by(
        column, {v: dict(zip("abc", row, strict=True)) for v, row in zip(values, rows, strict=True)}, **given
    )


REGIONS = rates_by("region", ["it's", "we;st", "\\"], 1)


@pytest.mark.parametrize("database", RUN)
@pytest.mark.parametrize("loss", ["log", "brier"])
@pytest.mark.parametrize("shift_table", [None, "my shifts"])
def test_groups_are_joined(loss: str, shift_table: str | None, database: str) -> None:
    table = grouped_table()
    result = br.adjust(table, REGIONS, columns="p_*", loss=loss)
    other = table.copy()
    other.loc[5, "region"] = "elsewhere"
    script = result.to_sql(columns="p_*", dialect=database, keep=["id"], shift_table=shift_table)
    found = RUN[database](other, script)[["p_a", "p_b", "p_c"]].to_numpy(dtype=float)
    assert np.isnan(found[5]).all()
    wanted = np.delete(result.probs.to_numpy(), 5, axis=0)
    assert np.abs(np.delete(found, 5, axis=0) - wanted).max() <= 1e-12


@pytest.mark.parametrize("database", RUN)
def test_groups_that_were_not_there_get_the_mean_shift_if_asked(database: str) -> None:
    table = grouped_table()
    result = br.adjust(table, REGIONS, columns="p_*")
    other = table.assign(region="elsewhere")
    query = result.to_sql(columns="p_*", dialect=database, keep=["id"], unseen="pooled")
    found = RUN[database](other, query)[["p_a", "p_b", "p_c"]].to_numpy(dtype=float)
    assert np.abs(found - result.apply(other, unseen="pooled", columns="p_*").to_numpy()).max() <= 1e-12


def two_margins() -> br.Adjustment:
    table = grouped_table()
    labels = np.random.default_rng(0).dirichlet(np.ones(3), size=len(table))  # so that both tables can hold

    def by(column: str, values: list[Any], **given: Any) -> br.Rates:
        means = {v: labels[(table[column] == v).to_numpy()].mean(axis=0) for v in values}
        return br.Rates.by(column, {v: dict(zip("abc", mean, strict=True)) for v, mean in means.items()}, **given)

    known = br.Margins(by("age", [1, 2]), by("region", ["it's", "we;st"], unlisted="free"))
    return br.adjust(table, known, columns="p_*")


def test_two_margins_and_groups_that_are_not_in_the_table() -> None:
    table, result = grouped_table(), two_margins()
    for database, run in RUN.items():
        found = run(table, result.to_sql(columns="p_*", dialect=database, keep=["id"]))[["p_a", "p_b", "p_c"]]
        assert np.abs(found.to_numpy() - result.probs.to_numpy()).max() <= 1e-12


@pytest.mark.parametrize("database", RUN)
def test_names_that_the_query_would_use_itself(database: str) -> None:
    table = grouped_table().rename(columns={"region": "baserate_0"})
    result = br.adjust(table, rates_by("baserate_0", ["it's", "we;st", "\\"], 1), columns="p_*")
    for name, shift_table in (
        ("baserate_shifts", None),
        ("baserate_level_1", 'my "shifts"'),
        ("t", "baserate_level_2"),
    ):
        query = result.to_sql(dialect=database, keep=["id", "baserate_0"], table=name, shift_table=shift_table)
        found = RUN[database](table, query, name)
        assert found["baserate_0"].tolist() == table["baserate_0"].tolist()
        assert np.abs(found[["p_a", "p_b", "p_c"]].to_numpy() - result.probs.to_numpy()).max() <= 1e-12


def test_oracle_computes_in_double_precision() -> None:
    region = rates_by("day", [datetime.date(2026, 1, 2), datetime.date(2026, 1, 3)], 1)
    table = grouped_table().assign(day=lambda t: [datetime.date(2026, 1, 1 + int(age)) for age in t["age"] + 0])
    script = br.adjust(table, region, columns="p_*").to_sql(dialect="oracle", keep=["id"], shift_table="s")
    assert "DOUBLE PRECISION" not in script
    assert script.count("AS BINARY_DOUBLE") == 3
    assert re.search(r"\de[+-]?\d+(?![d\d])", script) is None  # a decimal number, which has no 1e-300
    assert script.count("FROM DUAL") == 2
    assert "TO_DATE('2026-01-02', 'YYYY-MM-DD')" in script


def test_600_groups_on_sqlite() -> None:
    rng, n = np.random.default_rng(0), 1200
    table = pd.DataFrame({"p": rng.uniform(0.1, 0.9, n), "g": np.arange(n) % 600, "id": np.arange(n)})
    known = br.Rates.by("g", {int(g): float(rate) for g, rate in enumerate(rng.uniform(0.2, 0.8, 600))})
    result = br.adjust(table, known, columns="p")
    found = run_sqlite(table, result.to_sql(columns="p", dialect="sqlite", keep=["id"]))["p"]
    assert np.abs(found.to_numpy() - result.apply(table, columns="p")["p"].to_numpy()).max() <= 1e-12


@pytest.mark.parametrize("dialect", ["bigquery", "postgres", "snowflake", "spark"])
def test_groups_parse_in_dialects(dialect: str) -> None:
    result = br.adjust(grouped_table(), REGIONS, columns="p_*")
    script = result.to_sql(columns="p_*", dialect=dialect, keep=["id"], shift_table="s")
    create, query = sqlglot.parse(script, read=dialect)
    assert create.find(sqlglot.exp.Create)
    assert {one.this for one in create.find_all(sqlglot.exp.Literal) if one.is_string} == {"it's", "we;st", "\\"}
    assert query.named_selects == ["id", "p_a", "p_b", "p_c"]


# Messages

PLAIN = fitted("log", 2)
NAMED = fitted("log", 3, classes=["a", "b", "c"])
BY_REGION = br.adjust(grouped_table(), REGIONS, columns="p_*")
TWO_MARGINS = two_margins()
BY_NAMELESS = br.adjust(
    pd.DataFrame({"a": [0.2, 0.6] * 2, "b": [0.8, 0.4] * 2, "": ["n", "n", "s", "s"]}),
    br.Rates.by("", {"n": {"a": 0.3, "b": 0.7}, "s": {"a": 0.5, "b": 0.5}}),
    columns=["a", "b"],
)
BAD = [
    (lambda: PLAIN.to_sql(), r"classes have no names.*pass columns=\[\.\.\.\]"),
    (lambda: PLAIN.to_sql(columns="p_*"), "is the pattern 'p_\\*', but the classes have no names"),
    (lambda: NAMED.to_sql(columns=["a", "b"]), "columns has 2 names, 'a', 'b', but the adjustment has 3 classes"),
    (lambda: NAMED.to_sql(columns=["a", "a", "b"]), "contains 'a' more than once"),
    (lambda: NAMED.to_sql(columns=["a", "A", "b"]), "differ only in case"),
    (lambda: NAMED.to_sql(columns=["a", "", "b"]), "the name '', which no database accepts as a name"),
    (lambda: NAMED.to_sql(columns=["a", "x\0y", "b"]), "which no database accepts as a name"),
    (lambda: NAMED.to_sql(columns="p_*_*"), "a pattern must contain a single \\*"),
    (lambda: NAMED.to_sql(columns=7), "columns must be a list of column names"),
    (
        lambda: NAMED.to_sql(table=7),
        r"table must be the name of a table, or a list such as \['schema', 'table'\], not 7",
    ),
    (lambda: NAMED.to_sql(table="a..b"), "table has the name ''"),
    (lambda: NAMED.to_sql(dialect="access"), "dialect must be one of athena, bigquery.*not 'access'"),
    (lambda: NAMED.to_sql(dialect="bigqurey"), "not 'bigqurey'; did you mean 'bigquery'\\?"),
    (lambda: NAMED.to_sql(dialect="DuckDB"), "not 'DuckDB'; did you mean 'duckdb'\\?"),
    (lambda: NAMED.to_sql(dialect=["duckdb"]), r"dialect must be one of .*, not \['duckdb'\]"),
    (lambda: NAMED.to_sql(keep=["A"]), "keep names 'A', but the columns with probabilities are always there"),
    (lambda: NAMED.to_sql(keep=["id", "ID"]), "keep has names that differ only in case, 'id', 'ID'"),
    (lambda: NAMED.to_sql(keep=[1, "1"]), "keep has the name '1' more than once"),
    (lambda: NAMED.to_sql(keep=[["id"]]), r"keep must be a list of column names, but contains \['id'\]"),
    (lambda: NAMED.to_sql(columns=[["a"], "b", "c"]), r"columns must be a list of column names, but contains \['a'\]"),
    (lambda: NAMED.to_sql(keep=["id", ""]), "keep has the name '', which no database accepts as a name"),
    (
        lambda: BY_REGION.to_sql(columns=["p_a", "REGION", "p_b"]),
        "columns names 'region', but this column has the groups",
    ),
    (lambda: BY_REGION.to_sql(shift_table=7), "shift_table must be the name of a table, or a list such as .*, not 7"),
    (lambda: BY_REGION.to_sql(shift_table=[]), r"shift_table must be the name of a table, .*, not \[\]"),
    (lambda: BY_REGION.to_sql(shift_table={"a": 1}), "shift_table must be the name of a table"),
    (lambda: BY_NAMELESS.to_sql(), "^a column with groups has the name '', which no database accepts as a name"),
    (lambda: BY_REGION.to_sql(shift_table="a..b"), "shift_table has the name '', which no database accepts"),
    (lambda: BY_REGION.to_sql(shift_table="s\0"), "shift_table has the name 's\\\\x00', which no database accepts"),
    (
        lambda: BY_REGION.to_sql(shift_table="Predictions"),
        "would create the table 'Predictions', but this is the table",
    ),
    (
        lambda: BY_REGION.to_sql(shift_table="main.predictions"),
        "would create the table 'main.predictions', but this is",
    ),
    (lambda: TWO_MARGINS.to_sql(shift_table="s", table="s_2"), "would create the table 's_2', but this is the table"),
    (lambda: NAMED.to_sql(dialect="sqlite"), r"in sqlite, SELECT \* cannot leave out columns.*pass keep=\[\.\.\.\]"),
    (lambda: NAMED.to_sql(keep=["id", "a"]), "keep names 'a', but the columns with probabilities are always there"),
    (lambda: NAMED.to_sql(keep="id"), "keep must be a list of column names, not 'id'"),
    (lambda: NAMED.to_sql(columns=["a"]), "columns has 1 name, 'a', but the adjustment has 3 classes"),
    (lambda: fitted(br.losses.Power(1.5), 3, classes=list("abc")).to_sql(), "has no formula in SQL.*use to_onnx"),
    (lambda: fitted(br.losses.Power(3), 3, classes=list("abc")).to_sql(), "for beta above 2.*SQL is possible for Log"),
    (lambda: fitted("brier", 41, classes=[f"c{j}" for j in range(41)]).to_sql(), "with 41 classes would need a query"),
    (
        lambda: br.adjust(grouped_table(), REGIONS, columns="p_*", loss="spherical").to_sql(),
        "rates per group can be exported to SQL for Log, Brier and WeightedBrier, not for spherical",
    ),
    (
        lambda: br.adjust(grouped_table(), REGIONS, columns="p_*").to_sql(unseen="drop"),
        "unseen must be 'null' or 'pooled', not 'drop'",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_messages(call: Any, message: str) -> None:
    with pytest.raises(br.BaserateError, match=message):
        call()


def test_without_sqlglot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sqlglot", None)
    with pytest.raises(ImportError, match=r'pip install "baserate\[sql\]"'):
        NAMED.to_sql()
