"""The commands that adjust tables of predictions: adjust, fit, apply, prior."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from baserate.adjust import prior_adjust
from baserate.adjustment import load
from baserate.cli import options
from baserate.cli.exit_handling import NOT_CONVERGED, handled_errors
from baserate.cli.invocation import Invocation
from baserate.rates import Rates

_UNTOUCHED = "nothing was written, and anything at OUT is as it was"


@click.command(
    short_help="Adjust predictions in files to class rates.",
    epilog="""\b
Examples:
  baserate adjust preds.csv --rates cat=0.2,dog=0.8 --out adjusted.csv
  baserate adjust 'preds/*.parquet' --rates fraud=0.01..0.03 --columns 'p_*' --out adjusted/
  baserate adjust p.parquet --rates counts:ill=12,healthy=188 --out a.parquet --save-shift shift.json
  zcat p.csv.gz | baserate adjust - --rates rates.csv --loss brier --out - | head

\b
Exit codes:
  0  done                      2  the command was not understood
  1  an error; it says if      3  written, but the tolerance was not reached
     anything was written      130, 143  stopped by a signal; it says so, too
""",
)
@options.source
@options.rates
@options.out
@options.fitting
@options.reading
@options.keeping
@options.dialect
@options.pipe
@options.saying
def adjust(source: tuple[str, ...], out: str, **given: Any) -> None:
    """Adjust predictions to the class rates of the place where they are used, and write them.

    Of all predictions whose mean has these rates, OUT gets the nearest ones in the sense of the loss. Other columns are
    carried through as they are.

    IN is a file, several of them, a folder or a glob in quotes: Parquet (folders country=DE/ are understood), CSV (also
    .gz), Arrow or Feather, NPY, NPZ; or - for CSV, Arrow or Parquet from a pipe. Files may be larger than memory. CSV
    is parsed once, into a temporary Arrow file (in TMPDIR), since every pass would have to parse it again.
    """
    _adjust(source, out, given)


@click.command(
    short_help="Find the shift, without writing rows.",
    epilog="""\b
Examples:
  baserate fit 'preds/*.parquet' --rates rates.json --save-shift shift.json
  baserate fit preds.csv --rates cat=0.2,dog=0.8 --json
""",
)
@options.source
@options.rates
@options.fitting
@options.reading
@options.keeping
@options.dialect
@options.saying
def fit(source: tuple[str, ...], **given: Any) -> None:
    """Find the shift that adjusts predictions to class rates, and what it guarantees, without writing rows.

    IN and RATES are those of baserate adjust. The shift that --save-shift keeps is what baserate apply takes.
    """
    _adjust(source, None, given)


@click.command(
    short_help="Adjust new rows by a shift that was saved.",
    epilog="""\b
Example:
  baserate apply new.parquet --shift shift.json --out adjusted.parquet
""",
)
@options.source
@click.option("--shift", required=True, type=click.Path(), help="What adjust or fit saved.")
@options.out
@click.option("--columns", metavar="NAMES", help="As for adjust.  [default: found by the classes of the shift]")
@click.option("--from-logits/--from-probs", default=None, help="What the columns hold.  [default: as in the fit]")
@click.option("--normalize", is_flag=True, help="Divide each row by its sum first.")
@options.dialect
@options.pipe
@options.saying
def apply(source: tuple[str, ...], shift: str, out: str, **given: Any) -> None:
    """Adjust new rows by a shift that was saved: one pass.

    Nothing is guaranteed for rows other than the fitted ones, neither their mean nor a fall of their loss. It is sound
    where they come from the same place. IN and OUT are those of baserate adjust.
    """
    with handled_errors(_UNTOUCHED, out):
        call, result = Invocation(source, **given), load(shift)
        how = {name: call.row_options[name] for name in ("columns", "from_logits", "normalize")}
        with call.progress() as progress:
            result.apply(call.files, out=out, progress=progress, **how)
        if call["as_json"]:
            click.echo(json.dumps({"out": out, "shift": shift}), err=out == "-")
        elif not call["quiet"]:
            click.echo(f"wrote {'standard output' if out == '-' else out}", err=out == "-")


@click.command(
    short_help="Bayes' rule from old to new rates (PPA).",
    epilog="""\b
Example:
  baserate prior preds.csv --old-rates cat=0.5,dog=0.5 --rates cat=0.2,dog=0.8 --out adjusted.csv
""",
)
@options.source
@click.option("--old-rates", required=True, metavar="RATES", help="Class rates that the classifier was trained with.")
@options.rates
@options.out
@options.reading
@options.keeping
@options.dialect
@options.pipe
@options.saying
def prior(source: tuple[str, ...], old_rates: str, out: str, **given: Any) -> None:
    """Prior probability adjustment: multiply by new rate over old rate, and renormalise.

    It is right if the classifier is calibrated for the old rates and nothing but the rates has changed. The mean of the
    answer need not have the new rates. IN, RATES and OUT are those of baserate adjust.
    """
    with handled_errors(_UNTOUCHED, out):
        call = Invocation(source, old_rates=old_rates, **given)
        call.check_outputs(out)
        old = Rates.parse(old_rates, given["confidence"])
        with call.progress() as progress:
            result = prior_adjust(call.files, old, call.rates, out=out, progress=progress, **call.row_options)
        call.finish(result, out)


def _adjust(source: tuple[str, ...], out: str | None, given: dict[str, Any]) -> None:
    with handled_errors(_UNTOUCHED if out is not None else "nothing was written", out):
        call = Invocation(source, **given)
        call.check_outputs(out)
        result = call.adjust(out)
        call.finish(result, out)
    if not result.converged:
        sys.exit(NOT_CONVERGED)
