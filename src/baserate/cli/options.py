"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from baserate.support.remote_files import is_url

F = TypeVar("F", bound=Callable[..., Any])


class FileName(click.Path):
    """The name of a file to be written: a path, or a URL."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if is_url(value) else super().convert(value, param, ctx)


FILE = FileName(dir_okay=False, path_type=Path)


def combined(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator. The help text lists them in this order."""

    def decorate(command: F) -> F:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


source = click.argument("source", metavar="IN...", nargs=-1, required=True)

old_rates = click.option("--old-rates", metavar="RATES", help="Class rates in training.")
_RATES_HELP = (
    "Class rates of these rows, in one of these forms: exact rates, cat=0.2,dog=0.8; bounds, fraud=0.01..0.03; "
    "counts of a survey, counts:cat=20,dog=80; rates of a population, population:cat=0.2,dog=0.8; or the name of a CSV "
    "file (class,rate or class,low,high or class,count) or JSON file, one that baserate rates wrote too. If there is a "
    "single column of probabilities, one number is enough: 0.05, 0.03..0.07, population:0.05 or counts:4/50."
)
rates = click.option("--rates", required=True, metavar="RATES", help=_RATES_HELP)
new_rates = click.option(
    "--rates",
    required=True,
    metavar="RATES",
    help="Class rates of the target population, one number per class: cat=0.2,dog=0.8, or the name of a CSV file "
    "(class,rate) or JSON file. If there is a single column of probabilities, one number is enough: 0.05.",
)
by_group = combined(
    click.option(
        "--by",
        multiple=True,
        metavar="NAMES",
        help="Column of IN that defines groups, each with its own class rates; several columns, separated by commas, "
        "define their combinations. Can be repeated, each time with its own --rates-file.",
    ),
    click.option(
        "--rates-file",
        multiple=True,
        metavar="FILE",
        help="Class rates of each group of --by: a CSV file with these columns and one column per class, or with "
        "the columns class and rate, class, low and high, or class and count; for a single column of probabilities, "
        "rate alone. Empty cells are unknown.",
    ),
    click.option(
        "--rates-kind",
        type=click.Choice(["rates", "counts", "population"]),
        default="rates",
        show_default=True,
        help="What the numbers of a --rates-file with one column per class are: rates of the rows, counts of a survey, "
        "or rates of the population of each group.",
    ),
    click.option(
        "--rounding",
        metavar="AMOUNT",
        help="Largest rounding error of a rate in the --rates-file, such as 0.005, or auto for half a unit of its last "
        "decimal.",
    ),
    click.option(
        "--unlisted",
        type=click.Choice(["raise", "free"]),
        default="raise",
        show_default=True,
        help="Rows whose group is not in the --rates-file: an error, or nothing is assumed about their rates.",
    ),
    click.option(
        "--each-group",
        is_flag=True,
        help="The confidence of survey counts is for each group by itself, not for all groups together.",
    ),
)
rates_or_groups = combined(
    click.option("--rates", metavar="RATES", help=f"{_RATES_HELP} Required unless --by is given."), by_group
)
unseen = click.option(
    "--unseen",
    type=click.Choice(["raise", "pooled"]),
    default="raise",
    show_default=True,
    help="Rows of groups that were not there in the fit: an error, or they get the mean shift of all groups.",
)
out = click.option(
    "--out",
    required=True,
    metavar="OUT",
    help="A file, whose suffix determines the format; a folder, which gets one file per file of IN; or - for standard "
    "output. An existing OUT is replaced when the new one is complete.",
)
loss = click.option(
    "--loss",
    default="log",
    show_default=True,
    metavar="LOSS",
    help="The loss that should fall: log, brier, spherical or ranked.",
)
fitting = combined(
    loss,
    click.option(
        "--unbounded", is_flag=True, help="Unbounded general adjustment (UGA): entries can be outside [0, 1]."
    ),
    click.option("--tol", type=float, default=1e-10, show_default=True, help="Largest accepted error of a rate."),
    click.option(
        "--max-passes",
        type=click.IntRange(1),
        default=500,
        show_default=True,
        help="Maximum number of passes over the data that find the shift.",
    ),
)

row_reading = combined(
    click.option(
        "--columns",
        metavar="NAMES",
        help="Columns with probabilities: a pattern such as 'p_*', where * matches the class name, or names separated "
        "by commas. A single column is the probability of the second of two classes. For NPZ files, the name of the "
        "matrix.  [default: the columns that match the class names in the rates]",
    ),
    click.option("--weight", "--weights", "weight", metavar="NAME", help="Column with row weights."),
    click.option("--from-logits", is_flag=True, help="The columns contain logits or log probabilities."),
    click.option("--normalize", is_flag=True, help="Divide each row by its sum first."),
    click.option("--zeros", type=float, metavar="AMOUNT", help="Add this number to every probability first."),
)


def confidence(of: str) -> Callable[[F], F]:
    """The option --confidence, with what it is about."""
    return click.option(
        "--confidence",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        default=0.95,
        show_default=True,
        help=f"Confidence level {of}.",
    )


design_effect = click.option(
    "--design-effect",
    type=float,
    default=1.0,
    show_default=True,
    metavar="EFFECT",
    help="Design effect of survey counts, at least 1. For clusters of m cases: 1 + (m - 1) * ICC.",
)
reading = combined(row_reading, confidence("for survey counts and rates of a population"), design_effect)
classes = click.option(
    "--classes",
    metavar="NAMES",
    help="Names of the classes, separated by commas, in the order of the columns. For a single column, the two names: "
    "no,yes.  [default: from the names of the columns]",
)
dialect = combined(
    click.option("--delimiter", help="Separator of the columns of CSV files.  [default: comma; tab for .tsv]"),
    click.option("--decimal", default=".", show_default=True, help="Decimal separator of CSV files."),
)
pipe = click.option(
    "--format",
    "pipe_format",
    type=click.Choice(["csv", "arrow", "parquet"]),
    help="Format of standard output.  [default: CSV if the input is CSV, else Arrow]",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
printing = combined(
    as_json,
    click.option("--quiet", is_flag=True, help="Print only errors and warnings."),
)
extra_outputs = combined(
    click.option(
        "--save-shift",
        type=FILE,
        metavar="FILE",
        help="Save the shift, one number per class, for baserate apply.",
    ),
    click.option(
        "--report",
        type=FILE,
        metavar="FILE",
        help="Write a page about the adjustment, as HTML or Markdown.",
    ),
)


def parse_columns(text: str | None) -> str | list[str] | None:
    """The value of --columns as the argument ``columns`` of the library."""
    return text if text is not None and "*" in text else parse_names(text, "--columns")


def parse_names(text: str | None, option: str) -> list[str] | None:
    """The names between the commas of an option's value."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise click.UsageError(f"{option} {text!r} contains no name; separate names by commas")
    return names
