"""Statements in the dialect of a database. sqlglot writes them, except for what it does not know about numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def in_dialect(statement: str, dialect: str) -> str:
    """A statement in the general dialect of sqlglot, in another dialect."""
    import sqlglot
    from sqlglot import exp

    tree = sqlglot.parse_one(statement)
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
    if dialect == "oracle":
        _adapt_to_oracle(tree)
    return _shortest(tree, extremes, dialect)


def _adapt_to_oracle(tree: Any) -> None:
    """Replace what Oracle reads in another way.

    DOUBLE PRECISION and numbers with an exponent are decimal numbers from 1e-130 to 1e126. BINARY_DOUBLE and the suffix
    "d" are double precision. Text becomes a date by the settings of the session unless its format is given. Before
    version 23, a SELECT needs a FROM.
    """
    from sqlglot import exp

    for number in list(tree.find_all(exp.Literal)):
        if not number.is_string and "e" in number.this:
            number.set("this", f"{number.this}d")
    for kind in list(tree.find_all(exp.DataType)):
        if kind.this == exp.DataType.Type.DOUBLE:
            kind.replace(exp.DataType(this=exp.DataType.Type.USERDEFINED, kind="BINARY_DOUBLE"))
    seconds = "YYYY-MM-DD HH24:MI:SS"
    formats = {
        "DATE": ("TO_DATE", "YYYY-MM-DD", ""),
        "TIMESTAMP": ("TO_TIMESTAMP", seconds, ""),
        "TIMESTAMPTZ": ("TO_TIMESTAMP_TZ", seconds, "TZH:TZM"),
    }
    for cast in list(tree.find_all(exp.Cast)):
        name = cast.to.this.value if isinstance(cast.to.this, exp.DataType.Type) else ""
        if name in formats:
            function, start, end = formats[name]
            fraction = ".FF" if "." in cast.this.this else ""
            arguments = [cast.this, exp.Literal.string(f"{start}{fraction}{end}")]
            cast.replace(exp.Anonymous(this=function, expressions=arguments))
    for select in list(tree.find_all(exp.Select)):
        if not (select.args.get("from_") or select.args.get("from")):  # the name before and after version 28
            select.from_("DUAL", copy=False)


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
