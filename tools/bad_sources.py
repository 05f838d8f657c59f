"""Mistakes with queries, streams, URLs and exports, in Python and on the command line, and the message of each.

    python tools/bad_sources.py            # a Markdown table of all calls and messages

The tests run the same calls, and compare the messages with those that are expected here. Mistakes that need a server or
a cluster are in tests/test_object_stores.py, tests/test_cloud_stores.py and tests/test_clusters.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import fsspec
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from bad_calls import BadCall, print_table

import baserate as br

CALLS: tuple[BadCall, ...] = (
    BadCall(
        'br.adjust(duckdb.connect().execute("SELECT 1 AS p_a"), rates, columns="p_*")',
        "BadOption: a DuckDB connection has the result of one query, which can be read only once; pass a relation: "
        "connection.sql(query), not connection.execute(query)",
    ),
    BadCall(
        'br.adjust(sql("SELECT * FROM predictions"), rates, columns="q_*")',
        "BadProbabilities: no column matches 'q_*'; the columns are 'id', 'p_a', 'p_b', 'p_c'",
    ),
    BadCall(
        'br.adjust(sql("SELECT id FROM predictions"), rates, columns="p_*")',
        "BadProbabilities: no column matches 'p_*'; the columns are 'id'",
    ),
    BadCall(
        'br.adjust(sql("SELECT p_a, p_b FROM predictions"), rates, columns="p_*")',
        "BadRates: 'c' is not among the classes 'a', 'b'",
    ),
    BadCall(
        'br.adjust(sql("SELECT \'x\' AS p_a, p_b, p_c FROM predictions"), rates, columns="p_*")',
        "BadProbabilities: column 'p_a' of the DuckDB relation contains string values, not probabilities; "
        "select the columns with probabilities by columns=[...]",
    ),
    BadCall(
        'br.adjust(sql("SELECT NULL::DOUBLE AS p_a, p_b, p_c FROM predictions"), rates, columns="p_*")',
        "BadProbabilities: row 0 of the DuckDB relation, column 'p_a' is nan (600 of the 600 rows checked "
        "together have such entries); probabilities must be finite",
    ),
    BadCall(
        'br.adjust(sql("SELECT 2 * p_a AS p_a, p_b, p_c FROM predictions"), rates, columns="p_*")',
        "BadProbabilities: 600 of the 600 rows starting at row 0 of the DuckDB relation do not sum to 1; the "
        "worst is row 189 of the DuckDB relation, which sums to 1.76161. Pass normalize=True to divide each "
        "row by its sum, or from_logits=True if these are logits",
    ),
    BadCall(
        'br.adjust(sql("SELECT -p_a AS p_a, p_b, p_c FROM predictions"), rates, columns="p_*")',
        "BadProbabilities: row 0 of the DuckDB relation, column 'p_a' is -0.13535117638893246 (600 of the 600"
        " rows checked together have such entries); probabilities must not be negative; for logits or log "
        "probabilities pass from_logits=True",
    ),
    BadCall(
        'br.adjust(sql("SELECT * FROM predictions LIMIT 0"), rates, columns="p_*")',
        "BadFile: the DuckDB relation has no rows",
    ),
    BadCall(
        'br.adjust(sql("SELECT * FROM predictions"), rates, columns="p_*", sample_weight=np.ones(600))',
        "BadOption: sample_weight must be the name of a column of the DuckDB relation, not a ndarray",
    ),
    BadCall(
        'br.adjust(sql("SELECT * FROM predictions"), rates, columns="p_*", sample_weight="weight")',
        "BadOption: the DuckDB relation has no column 'weight' with weights; its columns are 'id', 'p_a', 'p_b', 'p_c'",
    ),
    BadCall(
        'br.adjust(sql("SELECT *, -1 AS w FROM predictions"), rates, columns="p_*", sample_weight="w")',
        "BadWeights: row 0 of the DuckDB relation, column 'w' is -1.0; weights must be finite and 0 or more",
    ),
    BadCall(
        'br.adjust(sql("SELECT * FROM predictions"), br.Rates.by("region", {"n": rates}), columns="p_*")',
        "BadGroups: the DuckDB relation has no column 'region', by which the rates are given; it has 'id', "
        "'p_a', 'p_b', 'p_c'",
    ),
    BadCall(
        'br.adjust(sql("SELECT *, \'n\' AS region FROM predictions"), br.Rates.by("region", {"n": rates}), '
        'columns="p_*", groups=["n"] * 600)',
        "BadGroups: the groups of rows of a query are columns of the query; leave groups= out",
    ),
    BadCall(
        'br.adjust(pl.LazyFrame({"x": [1]}).select("y"), rates, columns="p_*")',
        'BadProbabilities: the LazyFrame cannot be read: ColumnNotFoundError: unable to find column "y"; '
        'valid columns: ["x"]',
    ),
    BadCall(
        'br.adjust(pl.LazyFrame({"p_a": [0.5], "p_b": [0.5]}), rates, columns="p_*")',
        "BadRates: 'c' is not among the classes 'a', 'b'",
    ),
    BadCall(
        'br.adjust(table.to_reader(), rates, columns="p_*")',
        "BadOption: the RecordBatchReader can be read only once, but the rows are needed in several passes; "
        "pass what it was made from, such as a query, br.ArrowRows(function), where the function makes a new "
        "one for each pass, or a table in memory: reader.read_all()",
    ),
    BadCall(
        "br.ArrowRows(table)",
        "BadOption: ArrowRows needs a function that starts a new reading, not a Table; write br.ArrowRows(lambda: ...)",
    ),
    BadCall(
        'br.adjust(br.ArrowRows(lambda: [1]), rates, columns="p_*")',
        "BadOption: the stream cannot be read: its function returned a list, not a stream of Arrow record batches. "
        "Return a pyarrow.Table, a pyarrow.RecordBatchReader, or another object with the method "
        "__arrow_c_stream__; make one of record batches by pyarrow.RecordBatchReader.from_batches(schema, batches)",
    ),
    BadCall(
        'br.adjust(br.ArrowRows(lambda: 1 / 0), rates, columns="p_*")',
        "BadOption: the stream cannot be read: its function raised ZeroDivisionError: division by zero. Call the "
        "function on its own to find the cause",
    ),
    BadCall(
        'br.adjust(br.ArrowRows(lambda: None, "the view v"), rates, columns="p_*")',
        "BadOption: the view v cannot be read: its function returned None, not a stream of Arrow record batches. "
        "Return a pyarrow.Table, a pyarrow.RecordBatchReader, or another object with the method "
        "__arrow_c_stream__; make one of record batches by pyarrow.RecordBatchReader.from_batches(schema, batches)",
    ),
    BadCall(
        'br.adjust("SELECT * FROM predictions", rates, columns="p_*")',
        "BadOption: 'SELECT * FROM predictions' is a query, not a file; pass a relation of DuckDB, such as "
        "duckdb.sql(query), or, for another database, br.ArrowRows(function)",
    ),
    BadCall(
        "plain.frame",
        "BaserateError: there is no dataframe: the predictions were not one. The adjusted ones are in probs "
        "(ndarray); or use apply(dataframe, whole=True)",
    ),
    BadCall(
        'br.adjust("memory://shelf/none.parquet", rates, columns="p_*")',
        "MissingFile: memory://shelf/none.parquet does not exist; check the name, and that of the bucket",
    ),
    BadCall(
        'br.adjust("memory://shelf/none/*.parquet", rates, columns="p_*")',
        "BadFile: no file matches memory://shelf/none/*.parquet",
    ),
    BadCall(
        'br.adjust("memory://shelf/empty.csv", rates, columns="p_*")',
        "BadFile: memory://shelf/empty.csv is empty: it has no bytes at all",
    ),
    BadCall(
        'br.adjust("memory://shelf/broken.parquet", rates, columns="p_*")',
        "BadFile: memory://shelf/broken.parquet is not a complete Parquet file: Parquet magic bytes not found"
        " in footer. Either the file is corrupted or this is not a parquet file.",
    ),
    BadCall(
        'br.adjust("moon://shelf/in.parquet", rates, columns="p_*")',
        "BadOption: moon://shelf/in.parquet cannot be used: Protocol not known: moon; the protocols s3://, "
        "gs://, az:// and https:// are possible, and those of other packages for fsspec",
    ),
    BadCall(
        'br.adjust(Path("s3://shelf/in.parquet"), rates, columns="p_*")',
        "BadOption: s3:/shelf/in.parquet is a URL with one slash; pass it as a string, because pathlib.Path "
        "merges its slashes",
    ),
    BadCall(
        'br.adjust("memory://shelf/in.parquet", rates, columns="p_*", out="https://example.org/out.parquet")',
        "BadOption: https://example.org/out.parquet cannot be written: https:// can only be read; "
        "write to a path or another URL",
    ),
    BadCall(
        'br.adjust("memory://shelf/in.parquet", rates, columns="p_*", out="memory://shelf/in.parquet")',
        "BadOption: memory://shelf/in.parquet is also an input; write to another path, so that the input is kept",
    ),
    BadCall(
        'br.adjust("memory://shelf/in.parquet", rates, columns="p_*", out="memory://shelf/out.xyz")',
        "BadOption: memory://shelf/out.xyz does not end with the suffix of a known format; for a folder, "
        "write memory://shelf/out.xyz/",
    ),
    BadCall(
        'br.adjust("memory://shelf/in.parquet", rates, columns="p_*", out="memory://theirs/")',
        "BadOption: the folder memory://theirs/ exists, and its content was not all written by baserate: it "
        "has no file _SUCCESS; choose another name, or remove it first",
    ),
    BadCall(
        'br.adjust("memory://shelf/in.parquet", "memory://shelf/rates.csv", columns="p_*")',
        "BadRates: rates is the text 'memory://shelf/rates.csv'; pass a number or a dict, or parse it by Rates.parse",
    ),
    BadCall(
        'br.load("memory://shelf/none.json")',
        "MissingFile: memory://shelf/none.json does not exist; check the name, and that of the bucket",
    ),
    BadCall(
        'br.adjust("memory://shelf/in.parquet", rates, columns="p_*", out="memory:///shelf/x/../in.parquet")',
        "BadOption: memory:///shelf/x/../in.parquet is also an input; write to another path, so that the input is kept",
    ),
    BadCall(
        'br.adjust("s3://", rates, columns="p_*")',
        "BadOption: s3:// is only the beginning of a URL; add the place and the name, such as s3://bucket/name",
    ),
    BadCall(
        'fitted.save("https://")',
        "BadOption: https:// is only the beginning of a URL; add the place and the name, such as s3://bucket/name",
    ),
    BadCall(
        'fitted.save("memory://shelf/")',
        "BadFile: memory://shelf/ cannot be written: it is a folder; add the name of a file in it",
    ),
    BadCall(
        'fitted.to_onnx("memory://shelf")',
        "BadFile: memory://shelf cannot be written: it is a folder; add the name of a file in it",
    ),
    BadCall(
        'br.load("memory://shelf/")',
        "MissingFile: memory://shelf/ does not exist; check the name, and that of the bucket",
    ),
    BadCall(
        'br.load("memory://shelf/in.parquet")',
        "BadFile: memory://shelf/in.parquet is not a JSON file: 'utf-8' codec can't decode byte 0x80 in "
        "position 7: invalid start byte",
    ),
    BadCall(
        'fitted.save("https://example.org/shift.json")',
        "BadOption: https://example.org/shift.json cannot be written: https:// can only be read; "
        "write to a path or another URL",
    ),
    BadCall(
        "plain.to_sql()",
        "BadOption: the classes have no names, so the columns with probabilities are not known; pass "
        "columns=[...], with their names in the order of the classes",
    ),
    BadCall(
        'plain.to_sql(columns="p_*")',
        "BadOption: columns is the pattern 'p_*', but the classes have no names; pass a list of names",
    ),
    BadCall(
        'fitted.to_sql(columns=["p_a", "p_b"])',
        "BadProbabilities: columns has 2 names, 'p_a', 'p_b', but the adjustment has 3 classes",
    ),
    BadCall(
        'fitted.to_sql(columns=["p_a", "P_A", "p_b"])',
        "BadOption: columns has names that differ only in case, 'p_a', 'P_A', 'p_b', which most databases do "
        "not distinguish; rename one",
    ),
    BadCall(
        'fitted.to_sql(columns="p_*", dialect="access")',
        "BadOption: dialect must be one of athena, bigquery, clickhouse, databricks, dax, doris, dremio, "
        "drill, druid, duckdb, dune, exasol, fabric, hive, materialize, mysql, oracle, postgres, presto, "
        "prql, redshift, risingwave, snowflake, solr, spark, spark2, sqlite, starrocks, tableau, teradata, "
        "trino, tsql, not 'access'",
    ),
    BadCall(
        'fitted.to_sql(columns="p_*", dialect="sqlite")',
        "BadOption: in sqlite, SELECT * cannot leave out columns, so the other columns of the result must be "
        "named: pass keep=[...], which may be empty. Only bigquery, clickhouse, databricks, duckdb, redshift,"
        " snowflake do not need it",
    ),
    BadCall(
        'fitted.to_sql(columns="p_*", keep="id")',
        "BadOption: keep must be a list of column names, not 'id'",
    ),
    BadCall(
        'fitted.to_sql(columns="p_*", table="a..b")',
        "BadOption: table has the name '', which no database accepts as a name",
    ),
    BadCall(
        "power.to_sql()",
        "BadLoss: Power(beta=3.0) cannot be exported: for beta above 2, rounding errors of the shift change "
        "small probabilities noticeably. SQL is possible for Log, for Brier, WeightedBrier and Spherical with"
        " up to 40 classes, for RankedProbability with up to 20, and for quadratic losses with bounded=False",
    ),
    BadCall(
        'grouped.to_sql(columns="p", unseen="drop")',
        "BadOption: unseen must be 'null' or 'pooled', not 'drop'",
    ),
    BadCall(
        'power.to_onnx(folder / "x.onnx")',
        "BadLoss: Power(beta=3.0) cannot be exported: for beta above 2, rounding errors of the shift change "
        "small probabilities noticeably. ONNX is possible for Log, Brier, WeightedBrier, Spherical, "
        "RankedProbability with up to 50 classes, Power with beta up to 2, and Quadratic with a diagonal "
        "matrix, up to 8 classes, or bounded=False",
    ),
    BadCall(
        'grouped.to_onnx(folder / "x.onnx")',
        "BadOption: an ONNX model has one shift for all rows, but this adjustment has shifts per group, by "
        "'region'; use to_sql, which joins the rows with a table of shifts",
    ),
    BadCall(
        'fitted.to_onnx(folder / "x.onnx", dtype="float16")',
        "BadOption: dtype must be 'float32' or 'float64', not 'float16'",
    ),
    BadCall(
        'fitted.to_onnx(folder / "x.onnx", opset=11)',
        "BadOption: opset must be a whole number from 16 to 23, not 11",
    ),
    BadCall(
        'fitted.to_onnx(folder / "no" / "x.onnx")',
        "MissingFile: no/x.onnx cannot be written: there is no folder no",
    ),
    BadCall(
        'fitted.to_code("java")',
        "BadOption: language must be one of python, javascript, not 'java'",
    ),
    BadCall(
        'grouped.to_code("python")',
        "BadOption: a function in python has one shift for all rows, but this adjustment has shifts per "
        "group, by 'region'; use to_sql, which joins the rows with a table of shifts",
    ),
    BadCall(
        "baserate export shift.json --to cobol",
        "Error: Invalid value for '--to': 'cobol' is not one of 'sql', 'onnx', 'python', 'javascript'.",
    ),
    BadCall(
        "baserate export shift.json --to onnx",
        "Error: an ONNX model is a binary file; pass --out FILE",
    ),
    BadCall(
        "baserate export shift.json --to sql --dialect sqlite",
        "Error: in sqlite, SELECT * cannot leave out columns, so the other columns of the result must be "
        "named: pass --keep NAME,NAME, which may be empty. Only bigquery, clickhouse, databricks, duckdb, "
        "redshift, snowflake do not need it",
    ),
    BadCall(
        "baserate export shift.json --to python --table t",
        "Error: --table is for --to sql, not for --to python",
    ),
    BadCall(
        "baserate export none.json --to sql",
        "Error: there is no file none.json; pass the path of a file that --save-shift wrote",
    ),
    BadCall(
        "baserate adjust memory://shelf/none.parquet --rates a=0.2,b=0.3,c=0.5 --columns 'p_*' --out out.csv",
        "Error: memory://shelf/none.parquet does not exist; check the name, and that of the bucket",
    ),
    BadCall(
        "baserate adjust in.parquet --rates a=0.2,b=0.3,c=0.5 --columns 'p_*' --out https://example.org/out.parquet",
        "Error: https://example.org/out.parquet cannot be written: https:// can only be read; "
        "write to a path or another URL",
    ),
    BadCall(
        "baserate adjust in.parquet --rates memory://shelf/rates.csv --columns 'p_*' --out out.csv",
        "Error: the rate of class 'b' is 'x', which is not a number; write cat=0.2,dog=0.8, or "
        "fraud=0.01..0.03, or counts:cat=20,dog=80, or 0.02 for a single column, or the name of a CSV or JSON"
        " file",
    ),
)


def inputs(folder: Path) -> dict[str, Any]:
    """The names that the calls use; files for the command line are written to a folder."""
    p = np.random.default_rng(0).dirichlet([1.0, 2.0, 3.0], size=600)
    table = pa.table({"id": np.arange(600), **{f"p_{name}": p[:, j] for j, name in enumerate("abc")}})
    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute("CREATE TABLE predictions AS SELECT * FROM given")
    memory = fsspec.filesystem("memory")
    for path in ("/shelf", "/theirs"):
        if memory.exists(path):
            memory.rm(path, recursive=True)
    with memory.open("/shelf/in.parquet", "wb") as file:
        pq.write_table(table, file)
    memory.pipe_file("/shelf/empty.csv", b"")
    memory.pipe_file("/shelf/broken.parquet", b"PAR1" + b"\x15" * 90)
    memory.pipe_file("/shelf/rates.csv", b"class,rate\na,0.2\nb,x\nc,0.5\n")
    memory.pipe_file("/theirs/data.csv", b"a,b\n")
    rates = {"a": 0.2, "b": 0.3, "c": 0.5}
    fitted = br.adjust(table, rates, columns="p_*")
    by = br.Rates.by("region", {"n": 0.2, "s": 0.4})
    fitted.save(folder / "shift.json")
    pq.write_table(table, folder / "in.parquet")
    return {
        "br": br,
        "Path": Path,
        "np": np,
        "pl": pl,
        "duckdb": duckdb,
        "table": table,
        "sql": connection.sql,
        "rates": rates,
        "fitted": fitted,
        "plain": br.adjust(p, [0.2, 0.3, 0.5]),
        "grouped": br.adjust([0.1, 0.3, 0.5, 0.6], by, groups=["n", "n", "s", "s"]),
        "power": br.adjust(p, [0.2, 0.3, 0.5], loss=br.losses.Power(3), classes=list("abc")),
        "folder": folder,
    }


def main() -> None:
    """Print the table."""
    print_table(CALLS, inputs)


if __name__ == "__main__":
    main()
