"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def together(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator; help lists them in this order."""

    def decorate(command: F) -> F:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


source = click.argument("source", metavar="IN...", nargs=-1, required=True)

rates = click.option(
    "--rates",
    required=True,
    metavar="RATES",
    help="Class rates among these rows: cat=0.2,dog=0.8, or bounds fraud=0.01..0.03, or a survey counts:cat=20,dog=80, "
    "or population:..., or a file: CSV (class,rate; class,low,high; class,count) or JSON.",
)
out = click.option(
    "--out",
    required=True,
    metavar="OUT",
    help="A file (its ending is the format), a folder in which each file of IN gets a twin, or - for a pipe. It "
    "appears when it is complete, and replaces an old one then.",
)
loss = click.option(
    "--loss",
    default="log",
    show_default=True,
    metavar="LOSS",
    help="The loss that matters: log, brier, spherical or ranked.",
)
fitting = together(
    loss,
    click.option("--unbounded", is_flag=True, help="UGA: entries may leave [0, 1]."),
    click.option("--tol", type=float, default=1e-10, show_default=True, help="Largest error of a rate."),
    click.option(
        "--max-passes", type=click.IntRange(1), default=500, show_default=True, help="Most passes over the rows."
    ),
)

reading = together(
    click.option(
        "--columns",
        metavar="NAMES",
        help="Columns with probabilities: a pattern whose star is the class, as in 'p_*', or names separated by "
        "commas. One column alone is the probability of the second of two classes. Of NPZ files, the name of the "
        "matrix.  [default: found by the classes that the rates name]",
    ),
    click.option("--weight", metavar="NAME", help="Column with row weights."),
    click.option("--from-logits", is_flag=True, help="The columns hold logits or log probabilities."),
    click.option("--normalize", is_flag=True, help="Divide each row by its sum first."),
    click.option("--zeros", type=float, metavar="AMOUNT", help="Add this to every probability first, such as 1e-6."),
    click.option(
        "--confidence",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        default=0.95,
        show_default=True,
        help="Of rates that are counted in a survey, or are those of a population.",
    ),
)
dialect = together(
    click.option("--delimiter", help="What sets the columns of CSV files apart.  [default: comma; tab for .tsv]"),
    click.option("--decimal", default=".", show_default=True, help="The decimal point of CSV files."),
)
pipe = click.option(
    "--format",
    "pipe_format",
    type=click.Choice(["csv", "arrow", "parquet"]),
    help="Of what goes through a pipe.  [default: CSV for CSV, Arrow else]",
)
saying = together(
    click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON."),
    click.option("--quiet", is_flag=True, help="Print nothing but errors and warnings."),
)
keeping = together(
    click.option(
        "--save-shift",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Save the shift, k numbers, for baserate apply.",
    ),
    click.option(
        "--report",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write a page about the adjustment, HTML or Markdown.",
    ),
)


def names(text: str | None) -> str | list[str] | None:
    """The option --columns as the library wants it."""
    if text is None or "*" in text:
        return text
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise click.UsageError(f"--columns {text!r} names nothing; separate names by commas")
    return found
