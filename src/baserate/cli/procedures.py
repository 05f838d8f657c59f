"""The commands that help to choose a procedure: compare, with labels, and advise, without."""

from __future__ import annotations

import itertools
import math
import shlex
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import click
import numpy as np

from baserate.analysis.advise import Advice
from baserate.analysis.advise import advise as find_advice
from baserate.analysis.compare import compare as compare_procedures
from baserate.analysis.comparison import NEW_ROWS, THESE_ROWS, Comparison
from baserate.cli import options
from baserate.cli.exit_handling import as_command_line, handled_errors
from baserate.cli.invocation import Invocation
from baserate.cli.output import print_json, print_lines
from baserate.errors import FewGroupsWarning, Option, respell
from baserate.progress import Progress
from baserate.rates import Rates
from baserate.solving.held_rows import HeldRows
from baserate.support.text import printable

_UNFINISHED = "nothing was changed"


@click.command(
    short_help="Compare the procedures on labelled rows.",
    epilog="""\b
Examples:
  baserate compare preds.csv --labels y --rates cat=0.2,dog=0.8
  baserate compare preds.csv --labels y --rates dog=0.8,cat=0.2 --metrics accuracy,auc
  baserate compare 'preds/*.parquet' --labels y --rates rates.csv --groups patient --json
""",
)
@options.source
@click.option("--labels", required=True, metavar="NAME", help="Column of IN with the true classes.")
@options.rates
@options.old_rates
@click.option(
    "--losses",
    default="log,brier",
    show_default=True,
    metavar="NAMES",
    help="Losses to measure and to adjust for: log, brier, spherical or ranked, separated by commas.",
)
@click.option("--metrics", metavar="NAMES", help="Further measures: accuracy, auc or ece, separated by commas.")
@click.option(
    "--target",
    type=click.Choice([THESE_ROWS, NEW_ROWS]),
    default=THESE_ROWS,
    show_default=True,
    help="Which data the intervals describe: other batches like this one, each adjusted separately, or new rows to "
    "which the adjustment of these rows is applied.",
)
@click.option("--groups", metavar="NAME", help="Column with groups of rows that are not independent, such as patients.")
@options.row_reading
@options.classes
@options.confidence("of the intervals, and for survey counts and rates of a population")
@options.design_effect
@options.dialect
@options.as_json
def compare(source: tuple[str, ...], labels: str, groups: str | None, **given: Any) -> None:
    """Compare the mean losses of all procedures on labelled rows, with confidence intervals.

    The procedures are those of baserate adjust and baserate prior. Prior adjustment needs --old-rates. Labels match the
    names of the classes; 1, 1.0 and true are the same. With a single column of probabilities, labels may also be 0 and
    1. Nothing is written.

    IN and RATES are as in baserate adjust. Several copies of all rows are kept in memory.
    """
    with handled_errors(_UNFINISHED):
        call = Invocation(source, **given)
        losses, metrics = (options.parse_names(call[name], f"--{name}") or [] for name in ("losses", "metrics"))
        with call.progress() as progress, warnings.catch_warnings():
            warnings.simplefilter("ignore", FewGroupsWarning)  # a note says the same
            held = _read(call, progress, labels=labels, groups=groups)
            found = compare_procedures(
                held.probs,
                held.labels(labels),
                held.known,
                call.old_rates,
                losses=losses,
                metrics=metrics,
                target=call["target"],
                groups=None if groups is None else held.groups(groups),
                sample_weight=held.weights,
                classes=held.classes,
                confidence=call["confidence"],
                progress=progress,
            )
        found = replace(found, notes=tuple(respell(note, found.options, _spelling) for note in found.notes))
        _print_comparison(found, held, as_json=call["as_json"])


@click.command(
    short_help="Advise which procedure to use.",
    epilog="""\b
Examples:
  baserate advise preds.csv --rates cat=0.2,dog=0.8 --old-rates cat=0.5,dog=0.5
  baserate advise preds.csv --rates cat=0.2,dog=0.8 --validation val.csv --labels y
""",
)
@options.source
@options.rates
@options.old_rates
@click.option(
    "--validation",
    multiple=True,
    metavar="FILE",
    help="Validation data: predictions for labelled rows from before the change, on which the classifier was not "
    "trained. A file, a folder or a quoted glob pattern, with the same columns as IN. Can be repeated.",
)
@click.option("--labels", metavar="NAME", help="Column of the validation files with the true classes.")
@options.loss
@options.row_reading
@options.classes
@options.confidence("for survey counts and rates of a population")
@options.design_effect
@options.dialect
@options.as_json
def advise(source: tuple[str, ...], validation: tuple[str, ...], labels: str | None, **given: Any) -> None:
    """Say which procedure to use for these predictions and rates, whether the rates are plausible, and why.

    IN needs no labels. To distinguish wrong rates from a real change of the class rates, pass the class rates in
    training or validation data. Nothing is written.

    IN and RATES are as in baserate adjust. Several copies of all rows are kept in memory.
    """
    if bool(validation) != (labels is not None):
        given_one, needed = ("--validation", "--labels") if validation else ("--labels", "--validation")
        raise click.UsageError(f"{given_one} also needs {needed}: the files, and their column with the true classes")
    with handled_errors(_UNFINISHED):
        call = Invocation(source, **given)
        with call.progress() as progress:
            held = _read(call, progress)
            shared: dict[str, Any] = {}
            if labels is not None:
                before = held.read_validation(call.files_at(validation), labels, progress=progress, **call.row_options)
                shared = {"probs_val": before.probs, "y_val": before.labels(labels)}
            found = find_advice(
                held.probs,
                held.known,
                call.old_rates,
                loss=call["loss"],
                sample_weight=held.weights,
                classes=held.classes,
                progress=progress,
                **shared,
            )
        _print_advice(_respelled(found), held, as_json=call["as_json"])


def _read(call: Invocation, progress: Progress, **other_columns: str | None) -> HeldRows:
    """All rows of the input of a command."""
    options = {"classes": call.classes, "progress": progress, **call.row_options}
    return HeldRows.read(call.files, call.rates, other_columns=other_columns, **options)


def _print_comparison(found: Comparison, held: HeldRows, *, as_json: bool) -> None:
    if as_json:
        print_json({"rows": len(held.probs), **found.to_json()})
    else:
        tables = [found.table(j) for j in range(len(found.measures))]
        needed = max(len(line) for table in tables for line in table.lines())
        if is_narrow := _terminal_width() < needed:
            tables = [found.table(j, joint=False) for j in range(len(found.measures))]
        left_out = [f"joint intervals: left out, since they need {needed} columns; --json has them"] * is_narrow
        notes = [*found.legend(joint=not is_narrow), *left_out, *(f"note: {note}" for note in found.notes)]
        print_lines([line for table in tables for line in ["", *table.lines()]][1:] + list(_wrapped(notes)))


def _print_advice(found: Advice, held: HeldRows, *, as_json: bool) -> None:
    if as_json:
        print_json({"rows": len(held.probs), **found.to_json()})
        return
    lines = repr(found).split("\n")
    if found.procedure in ("adjust", "check") and found.rates.to_json() != held.known.to_json():
        until = " until the rates have been checked" if found.procedure == "check" else ""
        typed = shlex.quote(_as_typed(found.rates, one_column=held.rows.one_column))
        lines.append(f"  - rates to adjust to{until}: --rates {typed}")
    print_lines(_wrapped(lines))


def _respelled(found: Advice) -> Advice:
    """The advice with options as they are typed on the command line."""
    mentioned = found.options
    reasons = (one._replace(says=respell(one.says, mentioned, as_command_line)) for one in found.reasons)
    return replace(found, summary=respell(found.summary, mentioned, as_command_line), reasons=tuple(reasons))


def _spelling(option: Option) -> str:
    """An option as it is typed after ``baserate compare``."""
    return as_command_line(option._replace(name="losses") if option.name == "loss" else option)


def _as_typed(rates: Rates, *, one_column: bool) -> str:
    """Rates that advice can recommend, a population's or bounds, as the value of --rates."""
    if rates.kind == "population":
        prefix, texts = "population:", [f"{value:.10g}" for value in rates.estimate()]
    else:
        # Rounded outwards: wider bounds are safe.
        low, high = (1e4 * bound for bound in rates.bounds())
        prefix, texts = "", [f"{a:.4g}..{b:.4g}" for a, b in zip(np.floor(low) / 1e4, np.ceil(high) / 1e4, strict=True)]
    if one_column:
        return prefix + texts[1]
    names = [] if rates.classes is None else [f"{name}=" for name in rates.classes]
    return prefix + ",".join(f"{name}{text}" for name, text in itertools.zip_longest(names, texts, fillvalue=""))


def _terminal_width() -> float:
    """Columns of the terminal; infinite for a pipe or a file, where lines are not broken."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf


def _wrapped(lines: Iterable[str]) -> Iterator[str]:
    """Lines of text, broken at spaces to the width of the terminal."""
    width = _terminal_width()
    for line in map(printable, lines):
        if len(line) <= width:
            yield line
        else:
            yield from textwrap.wrap(
                line, int(width), subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
            )
