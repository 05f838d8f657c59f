"""``baserate check``: find invalid rows, and preview an adjustment."""

from __future__ import annotations

import sys
from typing import Any

import click

from baserate.adjustment import Adjustment
from baserate.analysis.row_checks import Fault, RowCheck, check_rows
from baserate.cli import options
from baserate.cli.exit_handling import as_command_line, handled_errors
from baserate.cli.invocation import Invocation
from baserate.cli.output import json_facts, print_json, print_lines, summary_lines
from baserate.core.contracts import Engine
from baserate.engines import open_rows
from baserate.errors import respell
from baserate.inputs.row_source import RowSource
from baserate.result.facts import json_number
from baserate.solving.request import class_names, with_classes_of_rates
from baserate.support.numbers import counted
from baserate.support.text import shortened


@click.command(
    short_help="Find invalid rows, and preview an adjustment.",
    epilog="""\b
Examples:
  baserate check preds.csv --columns 'p_*'
  baserate check 'preds/*.parquet' --rates cat=0.2,dog=0.8
""",
)
@options.source
@click.option("--rates", metavar="RATES", help="As in adjust; also show the result of adjusting to these rates.")
@options.by_group
@options.fitting
@options.reading
@options.classes
@options.dialect
@options.printing
def check(source: tuple[str, ...], **given: Any) -> None:
    """Check every row and report what is wrong. With --rates, also show the result of an adjustment.

    Nothing is written. The exit code is 1 if some rows cannot be adjusted as they are, and 0 otherwise.
    """
    with handled_errors("nothing was changed"):
        call = Invocation(source, **given)
        known = call.rates if call.has_rates else None
        with call.progress() as progress:
            table = with_classes_of_rates(RowSource(probs=call.files, progress=progress, **call.row_options), known)
            rows = open_rows(table)
            classes = class_names(rows, call.classes)
            found = check_rows(rows, table.reading)
        result = call.adjust(None) if known is not None and not found.faults else None
        if call["as_json"]:
            print_json(_as_json(rows, classes, found, result))
        elif not call["quiet"]:
            print_lines(_lines(rows, classes, found, result))
    if found.faults:
        sys.exit(1)


def _lines(rows: Engine, classes: tuple[Any, ...] | None, found: RowCheck, result: Adjustment | None) -> list[str]:
    assert rows.columns is not None
    names = range(rows.n_classes) if classes is None else classes
    listed = [f"{shortened(str(name))} {value:.4g}" for name, value in zip(names, found.mean, strict=True)]
    means = ", ".join(listed[1:] if rows.one_column else listed)
    lines = [
        f"{rows.n_rows:,} rows, {rows.n_classes} classes",
        f"  columns with probabilities: {', '.join(shortened(str(name)) for name in rows.columns.names)}",
    ]
    for fault in found.faults:
        lines.append(f"  {counted(fault.n_rows, 'row')} {fault.what}, the first at {fault.first}; {_advice(fault)}")
    if found.n_zeros:
        number = f"{found.n_zeros:,} {'entry is' if found.n_zeros == 1 else 'entries are'}"
        lines.append(f"  {number} exactly 0, and will stay 0 under log loss unless you pass --zeros")
    lines.append(f"  mean{' of the other rows' if found.faults else ''}: {means}")
    lines.append("  these rows cannot be adjusted as they are" if found.faults else "  all rows are valid")
    return lines if result is None else [*lines, "", "Result of an adjustment:", *summary_lines(result)]


def _advice(fault: Fault) -> str:
    """What to do about a fault, with options as they are typed on the command line."""
    return respell(fault.advice, fault.options, as_command_line)


def _as_json(
    rows: Engine, classes: tuple[Any, ...] | None, found: RowCheck, result: Adjustment | None
) -> dict[str, Any]:
    assert rows.columns is not None
    return {
        "rows": rows.n_rows,
        "columns": list(rows.columns.names),
        "classes": None if classes is None else list(map(str, classes)),
        "faults": [
            {"what": fault.what, "n_rows": fault.n_rows, "first": fault.first, "advice": _advice(fault)}
            for fault in found.faults
        ],
        "zeros": found.n_zeros,
        "mean": [json_number(value) for value in found.mean],
        "adjustment": None if result is None else json_facts(result),
    }
