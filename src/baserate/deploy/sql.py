"""Write a shift as a SQL query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baserate.deploy.formula import Formula
from baserate.deploy.sql_dialects import in_dialect
from baserate.deploy.sql_formulas import POSSIBLE, adjusted_classes, check_sql, columns_read
from baserate.deploy.sql_groups import ShiftTables, shift_tables
from baserate.deploy.sql_names import (
    KEEP,
    check_distinct,
    checked_dialect,
    checked_names,
    column_names,
    table_name,
    table_parts,
)
from baserate.deploy.sql_query import Query
from baserate.inputs.columns import as_names
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
    read = table_parts(table)
    groups = shift_tables(result, unseen, shift_table, read, write_for) if isinstance(result, GroupedResult) else None
    check_distinct(names, others, [] if groups is None else groups.keys)
    formula = Formula.of(result, exportable=POSSIBLE) if groups is None else groups.formula
    check_sql(formula.row_map, formula.loss)
    source = f"{table_name(read)} AS t" + ("" if groups is None else f" {groups.joins()}")
    tables = [] if groups is None or shift_table is not None else groups.tables()
    query = Query(write_for, names, others, source, tables)
    select = query.result(_adjusted(query, formula, groups))
    created = [] if groups is None or shift_table is None else groups.create()
    return ";\n\n".join(in_dialect(statement, write_for) for statement in [*created, select])


def _adjusted(query: Query, formula: Formula, groups: ShiftTables | None) -> list[str]:
    """Add the levels of a query, and return the expressions of the columns with probabilities."""
    expressions = columns_read(query)
    n_read = len(expressions)
    if groups is not None:
        expressions |= groups.numbers()
    added = query.add_level(expressions)
    adjusted = adjusted_classes(query, formula, added[:n_read], None if groups is None else added[n_read:])
    return adjusted[-n_read:]
