"""``baserate check``: what is wrong with a table, and what adjustment would do."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from baserate.analysis.row_checks import Findings, look
from baserate.cli import options
from baserate.cli.exit_handling import in_options, told
from baserate.cli.invocation import Asked
from baserate.cli.output import facts, plain
from baserate.inputs.columns import classes_named
from baserate.result.adjustment import Adjustment
from baserate.result.text import summary
from baserate.solving.request import Opened, Rows, opened


@click.command(
    short_help="What is wrong with a file, and what adjustment would do.",
    epilog="""\b
Examples:
  baserate check preds.csv --columns 'p_*'
  baserate check 'preds/*.parquet' --rates cat=0.2,dog=0.8
""",
)
@options.source
@click.option("--rates", metavar="RATES", help="As for adjust: also say what adjustment to them would do.")
@options.fitting
@options.reading
@options.dialect
@options.saying
def check(source: tuple[str, ...], **given: Any) -> None:
    """Look at every row and say what is wrong with it; with --rates also what adjustment would do. Nothing is written.

    The exit code is 1 if rows cannot be used as they are, and 0 if all is well.
    """
    with told("nothing was changed"):
        asked = Asked(source, **given)
        known = None if asked["rates"] is None else asked.rates
        with asked.bar() as shown:
            rows = Rows(probs=asked.files, progress=shown, **asked.reading)
            table = opened(rows, None if known is None else classes_named(known))
            found = look(table.engine, rows.reading)
        result = asked.solved(None) if known is not None and not found.faults else None
        if asked["as_json"]:
            click.echo(json.dumps(_as_json(table, found, result), indent=1, ensure_ascii=False))
        elif not asked["quiet"]:
            click.echo("\n".join(_lines(table, found, result)))
    if found.faults:
        sys.exit(1)


def _lines(table: Opened, found: Findings, result: Adjustment | None) -> list[str]:
    engine, columns = table.engine, table.columns
    assert columns is not None
    classes = columns.classes or tuple(range(engine.n_classes))
    means = ", ".join(f"{name} {value:.4g}" for name, value in zip(classes, found.mean, strict=True))
    lines = [
        f"{engine.n_rows:,} rows, {engine.n_classes} classes",
        f"  columns with probabilities: {', '.join(map(str, columns.names))}",
    ]
    for fault in found.faults:
        number = f"{fault.n_rows:,} row{'s are' if fault.n_rows > 1 else ' is'}"
        lines.append(f"  {number} {fault.what}, the first at {fault.first}; {in_options(fault.advice)}")
    if found.n_zeros:
        lines.append(
            f"  {found.n_zeros:,} entries are exactly 0; under log loss they stay so, unless --zeros smooths them"
        )
    lines.append(f"  mean{' of the other rows' if found.faults else ''}: {means}")
    lines.append("  these rows cannot be adjusted as they are" if found.faults else "  all rows can be used")
    return lines if result is None else [*lines, "", "Adjustment would give:", summary(result)]


def _as_json(table: Opened, found: Findings, result: Adjustment | None) -> dict[str, Any]:
    assert table.columns is not None
    return {
        "rows": table.engine.n_rows,
        "columns": list(table.columns.names),
        "classes": None if table.columns.classes is None else list(map(str, table.columns.classes)),
        "faults": [vars(fault) for fault in found.faults],
        "zeros": found.n_zeros,
        "mean": [plain(value) for value in found.mean],
        "adjustment": None if result is None else facts(result),
    }
