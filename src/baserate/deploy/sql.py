"""Write a shift as a SQL query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baserate.deploy.formula import Formula
from baserate.deploy.sql_formulas import POSSIBLE, adjusted_classes, check_sql, columns_read
from baserate.deploy.sql_groups import ShiftTables, shift_tables
from baserate.deploy.sql_names import KEEP, checked_dialect, checked_names, column_names, table_name
from baserate.deploy.sql_query import Query
from baserate.errors import BadOption
from baserate.inputs.columns import as_names
from baserate.inputs.validation import quoted
from baserate.result.grouped import GroupedResult
from baserate.result.record import Result


def to_sql(
    result: Result,
    *,
    columns: str | Sequence[Any] | None = None,
    table: str | Sequence[str] = "predictions",
    dialect: str = "duckdb",
    keep: Sequence[str] | None = None,
    unseen: str = "null",
    shift_table: str | Sequence[str] | None = None,
) -> str:
    """The adjustment as a SQL query; see :meth:`baserate.Adjustment.to_sql`."""
    write_for, names = checked_dialect(dialect), column_names(result, columns)
    others = None if keep is None else checked_names(as_names(keep, KEEP), KEEP)
    if both := [name for name in others or () if name in names]:
        raise BadOption(
            f"{KEEP} names {quoted(both)}, but the columns with probabilities are always there; leave them out",
            options=[KEEP],
        )
    groups = shift_tables(result, unseen, shift_table) if isinstance(result, GroupedResult) else None
    formula = Formula.of(result, exportable=POSSIBLE) if groups is None else groups.formula
    check_sql(formula.row_map, formula.loss)
    source = f"{table_name(table)} AS t" + ("" if groups is None else f" {groups.joins()}")
    tables = [] if groups is None or shift_table is not None else groups.tables()
    query = Query(write_for, names, others, source, tables)
    select = query.result(_adjusted(query, formula, groups))
    created = [] if groups is None or shift_table is None else groups.create()
    return _as_dialect([*created, select], write_for)


def _adjusted(query: Query, formula: Formula, groups: ShiftTables | None) -> list[str]:
    """Add the levels of a query, and return the expressions of the columns with probabilities."""
    expressions = columns_read(query)
    n_read = len(expressions)
    if groups is not None:
        expressions |= groups.numbers()
    added = query.add_level(expressions)
    adjusted = adjusted_classes(query, formula, added[:n_read], None if groups is None else added[n_read:])
    return adjusted[-n_read:]


def _as_dialect(statements: Sequence[str], dialect: str) -> str:
    """The statements in a dialect, separated by semicolons."""
    import sqlglot
    from sqlglot import exp

    texts = []
    for tree in map(sqlglot.parse_one, statements):
        for division in tree.find_all(exp.Div):
            # All numbers are double precision, and no divisor is 0, so that "/" means the same everywhere.
            division.set("typed", True)
            division.set("safe", False)
        extremes = list(tree.find_all(exp.Greatest, exp.Least))
        if dialect == "sqlite":  # older versions of sqlglot do not translate them
            for call in extremes:
                function = exp.Max if isinstance(call, exp.Greatest) else exp.Min
                call.replace(function(this=call.this, expressions=call.expressions))
            extremes = []
        texts.append(_shortest(tree, extremes, dialect))
    return ";\n\n".join(texts)


def _shortest(tree: Any, extremes: Sequence[Any], dialect: str) -> str:
    """The text of a statement, with GREATEST and LEAST in the form that is shorter in a dialect.

    Databases differ in what these functions do about NULLs. The queries work with both.
    """
    variants = []
    for ignore_nulls in (True, False)[: 1 + bool(extremes)]:
        for call in extremes:
            call.set("ignore_nulls", ignore_nulls)
        variants.append(tree.sql(dialect=dialect, pretty=True))
    return min(variants, key=len)
