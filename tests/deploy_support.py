"""Rows that are hard to adjust outside of Python, names that are hard to quote, and databases that run queries."""

from __future__ import annotations

import sqlite3
from typing import Any

import numpy as np
import pandas as pd
from support import Array

import baserate as br

HOSTILE_NAMES = [
    'p "a"',
    "p;b; DROP TABLE predictions;--",
    "p_\N{GRINNING FACE}",
    "it's",
    "back\\slash",
    "`c`",
    "[d]",
    "$1 {}",
]
"""Names with quotes, semicolons, emoji, backslashes and brackets."""

TINY = 5e-324


def hard_rows(k: int, n: int = 60, seed: int = 0) -> Array:
    """Sharp random rows, rows with zeros, and rows with numbers whose products are too small for a double."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(k, 0.3), size=n)
    zeros = rng.dirichlet(np.full(k, 0.5), size=n)
    zeros[rng.random(zeros.shape) < 0.3] = 0.0
    zeros[np.arange(n), rng.integers(k, size=n)] += 0.1
    extreme = [np.eye(k)[0], np.eye(k)[-1], np.full(k, 1.0 / k)]
    for tiny, at in ((1e-300, k - 1), (TINY, 0), (1e-160, 1), (1e-17, 0)):
        row = np.full(k, tiny)
        row[at] = 1.0
        extreme.append(row)
    rows = np.vstack([rows, zeros, extreme])
    return rows / rows.sum(axis=1, keepdims=True)


def fitted(loss: Any, k: int, *, rates: Any = None, classes: Any = None, bounded: bool = True, **given: Any) -> Any:
    """An adjustment of random rows by a shift that changes them noticeably."""
    rng = np.random.default_rng(k)
    p = rng.dirichlet(np.full(k, 0.7), size=200) + 1e-9
    p /= p.sum(axis=1, keepdims=True)
    if given.get("from_logits"):
        p = np.log(p)
    wanted = rng.dirichlet(np.full(k, 3.0)) if rates is None else rates
    return br.adjust(p, wanted, loss=loss, bounded=bounded, classes=classes, **given)


def table_of(rows: Array, names: list[str]) -> pd.DataFrame:
    """A table with a number, a column of text, the rows, and a last row with a NULL."""
    last = np.full((1, len(names)), 0.5)
    last[0, 0] = np.nan
    table = pd.DataFrame(np.vstack([rows, last]), columns=names)
    table.insert(0, "id", np.arange(len(table)))
    return table.assign(note=["kept"] * len(rows) + ["null"])


def run_duckdb(table: pd.DataFrame, script: str, name: str = "predictions") -> pd.DataFrame:
    """The answer of DuckDB to the last statement of a script."""
    import duckdb
    import pyarrow as pa

    with duckdb.connect() as connection:
        connection.register("given", pa.Table.from_pandas(table, preserve_index=False))  # its missing values are NULL
        connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM given')
        *before, query = script.split(";\n\n")
        for statement in before:
            connection.execute(statement)
        return connection.execute(query).df().sort_values("id", ignore_index=True)


def run_sqlite(table: pd.DataFrame, script: str, name: str = "predictions") -> pd.DataFrame:
    """The answer of SQLite to the last statement of a script."""
    connection = sqlite3.connect(":memory:")
    try:
        table.to_sql(name, connection, index=False)
        *before, query = script.split(";\n\n")
        for statement in before:
            connection.execute(statement)
        return pd.read_sql(query, connection).sort_values("id", ignore_index=True)
    finally:
        connection.close()


RUN = {"duckdb": run_duckdb, "sqlite": run_sqlite}


def assert_same(answer: pd.DataFrame, names: list[str], wanted: Array, tolerance: float = 1e-12) -> None:
    """The rows of a database equal those of ``apply``, and the last row, which has a NULL, is NULL in all classes."""
    found = answer[names].to_numpy(dtype=float)
    assert np.abs(found[:-1] - wanted).max() <= tolerance
    assert np.isnan(found[-1]).all()
    assert answer["note"].tolist() == ["kept"] * len(wanted) + ["null"]
