"""Names and numbers in SQL: columns, tables, dialects and literals."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from typing import Any

from baserate.errors import BadGroups, BadOption, BadProbabilities, Option
from baserate.inputs.columns import COLUMN_LIST, as_names
from baserate.inputs.validation import quoted, quoted_name, suggestion
from baserate.result.record import Result
from baserate.support.numbers import counted

COLUMNS, TABLE, DIALECT, KEEP = Option("columns"), Option("table"), Option("dialect"), Option("keep")
KEEP_LIST = Option("keep", "[...]")

_OTHER_NAMES = {"postgresql": "postgres", "sqlserver": "tsql", "mssql": "tsql", "mariadb": "mysql"}

REPLACING = frozenset({"bigquery", "clickhouse", "duckdb", "snowflake"})
"""Dialects with ``SELECT * EXCEPT (...) REPLACE (...)``, which keeps all columns in their places."""

EXCEPTING = frozenset({"databricks", "redshift"})
"""Dialects with ``SELECT * EXCEPT (...)`` only."""

ZONED = frozenset({"duckdb", "postgres", "redshift", "materialize", "risingwave", "snowflake", "bigquery", "tsql"}) | {
    *("oracle", "teradata", "trino", "presto", "athena", "dune", "spark", "spark2", "databricks")
}
"""Dialects with a type for a time with a time zone, or for a point in time."""

_WHOLE_SECONDS = frozenset({"mysql", "doris", "starrocks"})
"""Dialects whose type for a time has no fraction unless its digits are given."""


def column_names(result: Result, columns: str | Sequence[Any] | None) -> list[str]:
    """The columns with the probabilities, in the order of the classes; a single one is that of the second class."""
    k, classes = result.model.n_classes, result.classes
    if columns is None and result.form is not None and None not in result.form.columns:
        names: Sequence[Any] = result.form.columns
    elif isinstance(columns, str) and "*" in columns:
        names = _matching(columns, result)
    elif columns is None:
        if classes is None:
            raise BadOption(
                f"the classes have no names, so the columns with probabilities are not known; pass {COLUMN_LIST}, "
                "with their names in the order of the classes",
                options=[COLUMN_LIST],
            )
        names = classes[1:] if result.one_column else classes
    else:
        names = as_names([columns] if isinstance(columns, str) else columns)
    allowed = (1, 2) if result.one_column else (k,)
    if len(names) not in allowed:
        raise BadProbabilities(
            f"{COLUMNS} has {counted(len(names), 'name')}, {quoted(names)}, but the adjustment has {k} classes",
            options=[COLUMNS],
        )
    return checked_names(names, COLUMNS)


def _matching(pattern: str, result: Result) -> list[str]:
    if pattern.count("*") > 1:
        raise BadOption(
            f"{COLUMNS} is {quoted_name(pattern)}; a pattern must contain a single *, which stands for the class name",
            options=[COLUMNS],
        )
    if result.classes is None:
        raise BadOption(
            f"{COLUMNS} is the pattern {quoted_name(pattern)}, but the classes have no names; pass a list of names",
            options=[COLUMNS],
        )
    classes = result.classes[1:] if result.one_column else result.classes
    return [pattern.replace("*", str(name)) for name in classes]


def checked_names(names: Iterable[Any], what: str | Option) -> list[str]:
    """Names as text, if a database can have them; ``what`` has the names, for messages."""
    checked = [str(name) for name in names]
    for name in checked:
        if not name or "\0" in name or any("\ud800" <= c <= "\udfff" for c in name):
            raise BadOption(
                f"{what} has the name {quoted_name(name)}, which no database accepts as a name",
                options=[what] if isinstance(what, Option) else [],
            )
    return checked


def table_parts(table: Any, option: Option = TABLE) -> list[str]:
    """The parts of the name of a table. Text is split at its dots; a list has one entry per part."""
    if isinstance(table, str):
        parts = table.split(".")
    elif isinstance(table, (list, tuple)) and all(isinstance(part, str) for part in table) and table:
        parts = list(table)
    else:
        raise BadOption(
            f"{option} must be the name of a table, or a list such as ['schema', 'table'], not {quoted_name(table)}",
            options=[option],
        )
    return checked_names(parts, option)


def table_name(parts: Sequence[str]) -> str:
    """A table, as quoted names separated by dots."""
    return ".".join(map(identifier, parts))


def check_distinct(columns: Sequence[str], keep: Sequence[str] | None, keys: Sequence[str]) -> None:
    """Raise if two columns of the result, or of a table of shifts, have one name; ``keys`` are those of the groups."""
    _check_case(columns, "columns", [COLUMNS])
    _check_case(keep or (), "keep", [KEEP])
    _check_case(keys, "the rates by group", [])
    own = {name.lower() for name in columns}
    if both := [name for name in keep or () if name.lower() in own]:
        raise BadOption(
            f"{KEEP} names {quoted(both)}, but the columns with probabilities are always there; leave them out",
            options=[KEEP],
        )
    if both := [name for name in keys if name.lower() in own]:
        raise BadOption(
            f"{COLUMNS} names {quoted(both)}, but this column has the groups; pass the columns with probabilities",
            options=[COLUMNS],
        )


def _check_case(names: Sequence[str], what: str, options: Sequence[Option]) -> None:
    if repeated := [name for name in dict.fromkeys(names) if names.count(name) > 1]:  # such as 1 and "1"
        raise BadOption(f"{what} has the name {quoted_name(repeated[0])} more than once", options=options)
    if len({name.lower() for name in names}) < len(names):
        raise BadOption(
            f"{what} has names that differ only in case, {quoted(names)}, which most databases do not distinguish; "
            "rename one",
            options=options,
        )


def checked_dialect(dialect: Any) -> str:
    """The name of a dialect of sqlglot."""
    try:
        import sqlglot
    except ImportError:
        raise ImportError('SQL needs sqlglot: pip install "baserate[sql]"') from None
    known = sorted(one.value for one in sqlglot.Dialects if one.value)
    name = _OTHER_NAMES.get(dialect, dialect) if isinstance(dialect, str) else None
    if name not in known:
        raise BadOption(
            f"{DIALECT} must be one of {', '.join(known)}, not {quoted_name(dialect)}"
            f"{suggestion(dialect, [*known, *_OTHER_NAMES])}",
            options=[DIALECT],
        )
    return str(name)


def identifier(name: str) -> str:
    """A name in quotes."""
    return '"' + name.replace('"', '""') + '"'


def number(value: float) -> str:
    """A number as a literal of double precision, with all its digits. An exponent makes it one in every dialect."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def literal(value: Any, dialect: str = "duckdb") -> str:
    """The label of a group as a literal for a dialect."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    if isinstance(value, datetime.datetime):
        return _timestamp(value, dialect)
    if isinstance(value, datetime.date):
        return f"CAST('{value.isoformat()}' AS DATE)"
    return "'" + str(value).replace("'", "''") + "'"


def _timestamp(value: datetime.datetime, dialect: str) -> str:
    if value.tzinfo is not None:
        if dialect not in ZONED:
            raise BadGroups(
                f"a group is a time with a time zone, {quoted_name(value)}, but {dialect} has no type for it; convert "
                "the column of the groups to UTC without a time zone before the adjustment"
            )
        # In UTC, because time zones of earlier centuries have offsets with seconds, which few databases read.
        return f"CAST('{value.astimezone(datetime.UTC).isoformat(' ')}' AS TIMESTAMPTZ)"
    if dialect == "sqlite":  # which stores times as text, and whose DATETIME() drops the fraction
        return f"'{value.isoformat(' ')}'"
    kind = "TIMESTAMP(6)" if dialect in _WHOLE_SECONDS else "TIMESTAMP"
    return f"CAST('{value.isoformat(' ')}' AS {kind})"


def total(terms: Sequence[str]) -> str:
    """A sum. Many terms are added in groups, because databases limit the depth of expressions."""
    if len(terms) <= 20:
        return " + ".join(terms)
    size = math.ceil(len(terms) / 20)
    return " + ".join(f"({total(terms[i : i + size])})" for i in range(0, len(terms), size))


def extreme(function: str, terms: Sequence[str]) -> str:
    """GREATEST or LEAST of some terms, nested because databases limit the number of arguments."""
    if len(terms) == 1:
        return terms[0]
    if len(terms) <= 100:
        return f"{function}({', '.join(terms)})"
    size = math.ceil(len(terms) / 100)
    return extreme(function, [extreme(function, terms[i : i + size]) for i in range(0, len(terms), size)])
