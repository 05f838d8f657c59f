"""``baserate certify``: what a saved shift guarantees on new rows."""

from __future__ import annotations

import math
import sys
from typing import Any

import click

from baserate.adjustment import Adjustment, load
from baserate.adjustment.grouped import GroupedAdjustment
from baserate.cli import options
from baserate.cli.exit_handling import LESS_GUARANTEED, handled_errors
from baserate.cli.invocation import Invocation
from baserate.cli.output import print_json, print_lines
from baserate.errors import BadOption
from baserate.result.facts import json_number
from baserate.result.population_certificate import PopulationCertificate
from baserate.result.shift_certificate import ShiftCertificate


@click.command(
    short_help="What a saved shift guarantees on new rows.",
    epilog="""\b
Examples:
  baserate certify new.parquet --shift shift.json --rates fraud=0.01..0.03
  baserate certify new.csv --shift shift.json --rates counts:ill=12,healthy=188 --population
  baserate certify new.parquet --shift shift.json --rates rates.csv --at-least 0 && echo the shift still helps

\b
Exit codes:
  0  success                        4  less is guaranteed than --at-least
  1  an error                       2  the command line is invalid
""",
)
@options.source
@click.option("--shift", required=True, type=click.Path(), help="File that adjust or fit saved.")
@options.rates_or_groups
@click.option(
    "--population",
    is_flag=True,
    help="Also show a lower confidence bound for rows still to come. RATES are then those of the population, and IN is "
    "a random sample of it on which the shift was not fitted.",
)
@click.option("--refit", is_flag=True, help="Also fit again, and show what that guarantees.")
@click.option(
    "--at-least",
    type=float,
    metavar="FALL",
    help="Exit with code 4 if the guaranteed fall of the loss is smaller: that of the rows of IN or, with "
    "--population, the bound for rows still to come. With --population also if IN seems to have the rows of the fit, "
    "because the bound does not hold for them.",
)
@click.option(
    "--columns", metavar="NAMES", help="As in adjust.  [default: the columns that match the classes of the shift]"
)
@click.option("--weight", "--weights", "weight", metavar="NAME", help="Column with row weights.")
@click.option(
    "--from-logits/--from-probs", default=None, help="Whether the columns contain logits.  [default: as in the fit]"
)
@click.option("--normalize", is_flag=True, help="Divide each row by its sum first.")
@options.unseen
@options.confidence("for survey counts, rates of a population, and --population")
@options.design_effect
@options.dialect
@options.printing
def certify(source: tuple[str, ...], shift: str, unseen: str, **given: Any) -> None:
    """Say by how much the loss of new rows falls at least if a saved shift is applied to them.

    IN needs no labels, but something must be known about its class rates. If the number is negative, the loss may rise
    by at most that much. The shift is not fitted again, and nothing is written. IN and RATES are as in baserate adjust.
    """
    if given["at_least"] is not None and math.isnan(given["at_least"]):
        raise click.UsageError("--at-least must be a number, not nan")
    with handled_errors("nothing was changed"):
        call, result = Invocation(source, **given), load(shift)
        with call.progress() as progress:
            certificate = _certificate(call, result, shift, unseen, progress)
            population = certificate.for_population(call["confidence"]) if call["population"] else None
        refitted = result.drift(call.files, call.rates, **_reading(call)) if call["refit"] else None
        if call["as_json"]:
            figures = {"shift": shift, **certificate.to_json()}
            if population is not None:
                figures["population"] = population.to_json()
            if refitted is not None:
                figures["refit"] = json_number(refitted.as_dict()["refit"][0])
                figures["action"] = refitted.actions[0]
            print_json(figures)
        elif not call["quiet"]:
            blocks = [repr(one) for one in (certificate, population, refitted) if one is not None]
            print_lines("\n\n".join(blocks).split("\n"))
    if call["at_least"] is not None and not _guarantees(certificate, population, call["at_least"]):
        sys.exit(LESS_GUARANTEED)


def _guarantees(certificate: ShiftCertificate, population: PopulationCertificate | None, at_least: float) -> bool:
    """Whether the guarantee that was asked for holds, and is large enough."""
    if population is None:
        return certificate.loss_reduction >= at_least
    return population.loss_reduction >= at_least and not population.same_rows


def _certificate(call: Invocation, result: Adjustment, shift: str, unseen: str, progress: Any) -> ShiftCertificate:
    shared = {"progress": progress, **_reading(call)}
    if isinstance(result, GroupedAdjustment):
        return result.certify(call.files, call.rates, unseen=unseen, **shared)
    if unseen != "raise":
        raise BadOption(f"--unseen is for the shifts of groups, but {shift} has one shift for all rows")
    return result.certify(call.files, call.rates, **shared)


def _reading(call: Invocation) -> dict[str, Any]:
    """How the rows are read: options of :meth:`baserate.Adjustment.certify`."""
    return {name: call.row_options[name] for name in ("columns", "from_logits", "normalize", "sample_weight")}
