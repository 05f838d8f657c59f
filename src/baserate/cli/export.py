"""``baserate export``: write a saved shift as SQL, ONNX, Python or JavaScript."""

from __future__ import annotations

from typing import Any

import click

from baserate.adjustment import Adjustment, load
from baserate.adjustment.grouped import GroupedAdjustment
from baserate.cli.exit_handling import handled_errors
from baserate.cli.options import parse_columns, parse_names
from baserate.cli.output import print_lines
from baserate.errors import BadOption
from baserate.support.locations import check_writable, resolved, write_atomically

_OF_SQL = ("dialect", "table", "columns", "keep", "unseen", "shift_table")
_OF_ONNX = ("dtype", "opset")


@click.command(
    short_help="Write a saved shift as SQL, ONNX, Python or JavaScript.",
    epilog="""\b
Examples:
  baserate export shift.json --to sql --dialect bigquery --table sales.predictions --columns 'p_*'
  baserate export shift.json --to sql --dialect postgres --table predictions --keep id,day --out adjust.sql
  baserate export shift.json --to onnx --out shift.onnx
  baserate export shift.json --to javascript --out adjust.js
""",
)
@click.argument("shift", type=click.Path())
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Choice(["sql", "onnx", "python", "javascript"]),
    help="A SQL query, an ONNX model, or a function in Python or JavaScript that needs no packages.",
)
@click.option("--out", metavar="FILE", default="-", help="The file to write.  [default: standard output]")
@click.option(
    "--dialect",
    metavar="NAME",
    help="SQL: the database, such as bigquery, postgres, snowflake, spark or sqlite.  [default: duckdb]",
)
@click.option("--table", metavar="NAME", help="SQL: the table with the predictions.  [default: predictions]")
@click.option(
    "--columns",
    metavar="NAMES",
    help="SQL: the columns with probabilities, in the order of the classes: a pattern such as 'p_*', where * is the "
    "class name, or names separated by commas.  [default: the class names]",
)
@click.option(
    "--keep",
    metavar="NAMES",
    help="SQL: the other columns of the result, separated by commas; '' for none. BigQuery, ClickHouse, Databricks, "
    "DuckDB, Redshift and Snowflake keep all columns by default. All other dialects need it.",
)
@click.option(
    "--unseen",
    type=click.Choice(["null", "pooled"]),
    help="SQL with shifts per group: rows of groups that were not there in the fit become NULL, or they get the mean "
    "shift of all groups.  [default: null]",
)
@click.option(
    "--shift-table",
    metavar="NAME",
    help="SQL with shifts per group: write a statement that creates a table of shifts with this name, and a query that "
    "uses it.  [default: the shifts are in the query]",
)
@click.option(
    "--dtype", type=click.Choice(["float32", "float64"]), help="ONNX: type of input and output.  [default: float32]"
)
@click.option("--opset", type=int, help="ONNX: version of the operators, from 16 to 23.  [default: 18]")
@click.option("--quiet", is_flag=True, help="Print only errors and warnings.")
def export(shift: str, target: str, out: str, quiet: bool, **given: Any) -> None:
    """Write the shift in the file SHIFT, which adjust or fit saved, for systems that do not run Python.

    An existing FILE is replaced when the new one is complete.
    """
    options = {name: value for name, value in given.items() if value is not None}
    _check_options(target, options)
    with handled_errors("nothing was written", out):
        if out != "-":
            _check_out(shift, out)
        elif target == "onnx":
            raise BadOption("an ONNX model is a binary file; pass --out FILE")
        result = load(shift)
        if target == "onnx":
            result.to_onnx(out, **options)
        else:
            text = _sql(result, shift, options) if target == "sql" else result.to_code(target)
            _write(text, out)
        if out != "-" and not quiet:
            print_lines([f"wrote {out}"])


def _check_options(target: str, options: dict[str, Any]) -> None:
    """Raise if there are options for something else than the target."""
    allowed = {"sql": _OF_SQL, "onnx": _OF_ONNX}.get(target, ())
    other = next((name for name in options if name not in allowed), None)
    if other is not None:
        owner = "sql" if other in _OF_SQL else "onnx"
        raise click.UsageError(f"--{other.replace('_', '-')} is for --to {owner}, not for --to {target}")


def _check_out(shift: str, out: str) -> None:
    check_writable(out)
    if resolved(out) == resolved(shift):
        raise BadOption(f"{out} is the file with the shift, which would be overwritten; choose another name")


def _sql(result: Adjustment, shift: str, options: dict[str, Any]) -> str:
    for name in ("unseen", "shift_table"):
        if name in options and not isinstance(result, GroupedAdjustment):
            raise BadOption(
                f"--{name.replace('_', '-')} is for the shifts of groups, but {shift} has one shift for all rows"
            )
    if "columns" in options:
        options["columns"] = parse_columns(options["columns"])
    if "keep" in options:
        options["keep"] = parse_names(options["keep"], "--keep") if options["keep"].strip() else []
    return result.to_sql(**options) + ";"


def _write(text: str, out: str) -> None:
    if out == "-":
        click.echo(text)
        return
    with write_atomically(out) as file:
        file.write(f"{text.rstrip()}\n".encode())
