"""The commands that adjust predictions in files: adjust, fit, apply, prior."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from baserate.adjust import prior_adjust
from baserate.adjustment import load
from baserate.adjustment.grouped import GroupedAdjustment
from baserate.cli import options
from baserate.cli.exit_handling import NOT_CONVERGED, handled_errors
from baserate.cli.invocation import Invocation
from baserate.cli.output import print_lines
from baserate.errors import BadOption

_UNCHANGED = "nothing was written, and OUT was not changed"


@click.command(
    short_help="Adjust predictions in files to class rates.",
    epilog="""\b
Examples:
  baserate adjust preds.csv --rates cat=0.2,dog=0.8 --out adjusted.csv
  baserate adjust 'preds/*.parquet' --rates fraud=0.01..0.03 --columns 'p_*' --out adjusted/
  baserate adjust p.parquet --rates counts:ill=12,healthy=188 --out a.parquet --save-shift shift.json
  zcat p.csv.gz | baserate adjust - --rates rates.csv --loss brier --out - | head
  baserate adjust p.csv --by region --rates-file regions.csv --by age --rates-file ages.csv --out a.csv

\b
Exit codes:
  0  success                        2  the command line is invalid
  1  an error; the message says     3  written, but the tolerance was not reached
     whether OUT was written        130, 143  stopped by a signal; the message also says so
""",
)
@options.source
@options.rates_or_groups
@options.out
@options.fitting
@options.reading
@options.classes
@options.extra_outputs
@options.dialect
@options.pipe
@options.printing
def adjust(source: tuple[str, ...], out: str, **given: Any) -> None:
    """Adjust predictions to the class rates of the target population, and write them.

    OUT contains the predictions of IN with the smallest change that gives these class rates. The size of a change is
    measured by the loss. Other columns are copied unchanged.

    IN is a file, several files, a folder or a quoted glob pattern: Parquet (also with folders such as country=DE/), CSV
    (also .gz), Arrow or Feather, NPY, NPZ; or - to read CSV, Arrow or Parquet from standard input. Files may be larger
    than memory. CSV is parsed once, into a temporary Arrow file in TMPDIR, rather than in every pass. Paths can be
    URLs, such as s3://bucket/preds.parquet.
    """
    _adjust(source, out, given)


@click.command(
    short_help="Find the shift without writing rows.",
    epilog="""\b
Examples:
  baserate fit 'preds/*.parquet' --rates rates.json --save-shift shift.json
  baserate fit preds.csv --rates cat=0.2,dog=0.8 --json
""",
)
@options.source
@options.rates_or_groups
@options.fitting
@options.reading
@options.classes
@options.extra_outputs
@options.dialect
@options.printing
def fit(source: tuple[str, ...], **given: Any) -> None:
    """Find the shift that adjusts predictions to class rates, and its guarantee, without writing rows.

    IN and RATES are as in baserate adjust. Use --save-shift to save the shift for baserate apply.
    """
    _adjust(source, None, given)


@click.command(
    short_help="Adjust new rows by a saved shift.",
    epilog="""\b
Example:
  baserate apply new.parquet --shift shift.json --out adjusted.parquet
""",
)
@options.source
@click.option("--shift", required=True, type=click.Path(), help="File that adjust or fit saved.")
@options.out
@click.option(
    "--columns", metavar="NAMES", help="As in adjust.  [default: the columns that match the classes of the shift]"
)
@click.option(
    "--from-logits/--from-probs", default=None, help="Whether the columns contain logits.  [default: as in the fit]"
)
@click.option("--normalize", is_flag=True, help="Divide each row by its sum first.")
@options.unseen
@options.dialect
@options.pipe
@options.printing
def apply(source: tuple[str, ...], shift: str, out: str, unseen: str, **given: Any) -> None:
    """Adjust new rows by a saved shift, in one pass.

    The guarantee of the fit does not hold for other rows: neither their mean nor a lower loss. Use it for rows from the
    same population. baserate certify says what is guaranteed for them. IN and OUT are as in baserate adjust.
    """
    with handled_errors(_UNCHANGED, out):
        call, result = Invocation(source, **given), load(shift)
        row_options = {name: call.row_options[name] for name in ("columns", "from_logits", "normalize")}
        if isinstance(result, GroupedAdjustment):
            row_options["unseen"] = unseen
        elif unseen != "raise":
            raise BadOption(f"--unseen is for the shifts of groups, but {shift} has one shift for all rows")
        with call.progress() as progress:
            result.apply(call.files, out=out, progress=progress, **row_options)
        if call["as_json"]:
            click.echo(json.dumps({"out": out, "shift": shift}), err=out == "-")
        elif not call["quiet"]:
            print_lines([f"wrote {'standard output' if out == '-' else out}"], err=out == "-")


@click.command(
    short_help="Prior probability adjustment (PPA), from old to new rates.",
    epilog="""\b
Example:
  baserate prior preds.csv --old-rates cat=0.5,dog=0.5 --rates cat=0.2,dog=0.8 --out adjusted.csv
""",
)
@options.source
@click.option("--old-rates", required=True, metavar="RATES", help="Class rates in training.")
@options.new_rates
@options.out
@options.reading
@options.classes
@options.extra_outputs
@options.dialect
@options.pipe
@options.printing
def prior(source: tuple[str, ...], out: str, **given: Any) -> None:
    """Prior probability adjustment (PPA): Bayes' rule from the class rates in training to the new ones.

    Each probability is multiplied by new rate / old rate of its class, and each row is then divided by its sum.

    This is correct if the classifier is calibrated for the old rates and only the rates have changed. The mean of the
    adjusted rows can differ from the new rates. IN and OUT are as in baserate adjust.
    """
    with handled_errors(_UNCHANGED, out):
        call = Invocation(source, **given)
        call.check_outputs(out)
        assert call.old_rates is not None
        with call.progress() as progress:
            shared = {"classes": call.classes, "progress": progress, **call.row_options}
            result = prior_adjust(call.files, call.old_rates, call.rates, out=out, **shared)
        call.finish(result, out)


def _adjust(source: tuple[str, ...], out: str | None, given: dict[str, Any]) -> None:
    with handled_errors(_UNCHANGED if out is not None else "nothing was written", out):
        call = Invocation(source, **given)
        call.check_outputs(out)
        result = call.adjust(out)
        call.finish(result, out)
    if not result.converged:
        sys.exit(NOT_CONVERGED)
