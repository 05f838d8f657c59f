"""``baserate rates``: estimate class rates that nobody knows."""

from __future__ import annotations

from typing import Any

import click

from baserate.cli import options
from baserate.cli.exit_handling import handled_errors
from baserate.cli.invocation import Invocation
from baserate.cli.output import print_json, print_lines
from baserate.estimation import estimate
from baserate.rates import EstimatedRates
from baserate.rates.saving import check_name, rates_document
from baserate.support.numbers import counted
from baserate.support.text import shortened


@click.command(
    short_help="Estimate class rates that nobody knows.",
    epilog="""\b
Examples:
  baserate rates new.parquet --validation val.parquet --labels y --out rates.json
  baserate adjust new.parquet --rates rates.json --out adjusted.parquet
""",
)
@options.source
@click.option(
    "--validation",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Validation data: predictions for labelled rows on which the classifier was not trained. A file, a folder or "
    "a quoted glob pattern, with the same columns as IN. Can be repeated.",
)
@click.option("--labels", required=True, metavar="NAME", help="Column of the validation files with the true classes.")
@click.option(
    "--out",
    type=options.FILE,
    metavar="FILE",
    help="JSON file for the rates, which the option --rates of the other commands accepts, or - for standard output.",
)
@click.option(
    "--method",
    type=click.Choice(["auto", "moments", "exact"]),
    default="auto",
    show_default=True,
    help="Moments of the predictions, or intervals for the confusion matrix, which are valid for every sample size and "
    "wide for more than two classes.",
)
@click.option(
    "--on-refuted",
    type=click.Choice(["raise", "everything"]),
    default="raise",
    show_default=True,
    help="If the validation data contradict the assumption: an error, or the set of all rates.",
)
@click.option(
    "--columns",
    metavar="NAMES",
    help="Columns with probabilities, as in baserate adjust.  [default: the columns that match the labels]",
)
@click.option("--from-logits", is_flag=True, help="The columns contain logits or log probabilities.")
@click.option("--normalize", is_flag=True, help="Divide each row by its sum first.")
@options.classes
@options.confidence("of the set")
@options.dialect
@options.printing
def rates(source: tuple[str, ...], validation: tuple[str, ...], labels: str, **given: Any) -> None:
    """Estimate the class rates of IN, as a set that contains them with the stated confidence.

    It is assumed that predictions within each class are distributed as in the validation data, and only the class rates
    have changed. This is tested; if the data contradict it, nothing is written.
    """
    with handled_errors("nothing was written"):
        call = Invocation(source, validation=validation, **given)
        call.check_validation()
        out = None if call["out"] is None else str(call["out"])
        _check_out(call, out)
        row_options = {name: call.row_options[name] for name in ("columns", "from_logits", "normalize")}
        with call.progress() as progress:
            found = estimate(
                call.files,
                probs_val=call.files_at(validation),
                y_val=labels,
                confidence=call["confidence"],
                method=call["method"],
                on_refuted=call["on_refuted"],
                classes=call.classes,
                progress=progress,
                **row_options,
            )
        assert isinstance(found, EstimatedRates)
        if out == "-":
            click.echo(rates_document(found), nl=False)
        elif out is not None:
            found.save(out)
        if call["as_json"]:
            print_json(_as_json(found), err=out == "-")
        elif not call["quiet"]:
            written = [] if out is None else ["", f"wrote {'standard output' if out == '-' else out}"]
            print_lines([*_lines(found), *written], err=out == "-")


def _check_out(call: Invocation, out: str | None) -> None:
    """Raise if the rates cannot be written, or if other commands would not accept the file."""
    call.check_outputs(out)
    if out in (None, "-"):
        return
    check_name(str(out))
    call.check_extra_output(str(out))


def _names(found: EstimatedRates) -> list[str]:
    return [str(name) for name in found.classes or range(len(found.values))]


def _lines(found: EstimatedRates) -> list[str]:
    names, (low, high) = [shortened(name) for name in _names(found)], found.bounds()
    width = max(map(len, [*names, "class"]))
    lines = [
        f"Class rates of {counted(found.n_rows, 'row')}, estimated from {counted(found.n_validation, 'validation row')}"
    ]
    lines += [f"  {found.condition()}", "", f"  {'class':{width}}  estimate  at least  at most"]
    for name, value, a, b in zip(names, found.estimate(), low, high, strict=True):
        lines.append(f"  {name:{width}}  {value:8.4f}  {a:8.4f}  {b:7.4f}")
    return lines


def _as_json(found: EstimatedRates) -> dict[str, Any]:
    low, high = found.bounds()
    return {
        "rows": found.n_rows,
        "validation_rows": found.n_validation,
        "method": found.method,
        "confidence": found.confidence,
        "p_value": found.p_value,
        "refuted": found.refuted,
        "condition": found.condition(),
        "classes": [
            {"class": name, "estimate": float(value), "at_least": float(a), "at_most": float(b)}
            for name, value, a, b in zip(_names(found), found.estimate(), low, high, strict=True)
        ],
    }
