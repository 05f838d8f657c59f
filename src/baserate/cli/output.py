"""What commands print."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

from baserate.cli.exit_handling import as_command_line
from baserate.errors import respell
from baserate.result import text
from baserate.result.facts import facts, json_number
from baserate.result.group_facts import group_facts, group_rows
from baserate.result.grouped import GroupedResult
from baserate.result.record import Result
from baserate.support.text import printable


def print_result(result: Result, lines: list[str], *, as_json: bool, quiet: bool, err: bool, **more: Any) -> None:
    """Print a summary and some lines, or all facts as JSON; ``err`` is for standard error."""
    if as_json:
        print_json(json_facts(result) | more, err=err)
    elif not quiet:
        print_lines([*summary_lines(result), *lines], err=err)


def summary_lines(result: Result) -> list[str]:
    """The lines of a summary, with options as they are typed on the command line."""
    return respell(result.summary().text(), text.OPTIONS, as_command_line).split("\n")


def print_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines that may contain names from the data of the user, with control characters escaped."""
    click.echo("\n".join(map(printable, lines)), err=err)


def print_json(value: Any, *, err: bool = False) -> None:
    """Print a value as JSON. Characters that a terminal would obey are escaped as JSON allows, so no data change."""
    shown = json.dumps(value, indent=1, ensure_ascii=False)
    click.echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in shown), err=err)


def json_facts(result: Result) -> dict[str, Any]:
    """The facts about a result that ``--json`` prints."""
    if isinstance(result, GroupedResult):
        return _json_group_facts(result)
    about = facts(result)
    columns = ("before", "at_least", "at_most", "achieved", "shift")
    return {
        **{name: about[name] for name in ("procedure", "loss", "bounded")},
        "rows": about["n_rows"],
        "passes": about["n_passes"],
        **{name: about[name] for name in ("engine", "converged", "condition")},
        **{name: json_number(about[name]) for name in ("loss_reduction", "gap", "residual", "rate_variation")},
        "classes": [
            {"class": str(one["class"])} | {column: json_number(one[column]) for column in columns}
            for one in about["classes"]
        ],
    }


def _json_group_facts(result: GroupedResult) -> dict[str, Any]:
    """The facts about a result with rates per group."""
    about = group_facts(result)
    names = [str(one["class"]) for one in about["classes"]]
    return {
        **{name: about[name] for name in ("procedure", "loss", "bounded")},
        "rows": about["n_rows"],
        "passes": about["n_passes"],
        **{name: about[name] for name in ("engine", "converged", "condition", "guarantee_level")},
        **{name: json_number(about[name]) for name in ("loss_reduction", "gap", "residual")},
        "classes": [
            {"class": str(one["class"]), "before": json_number(one["before"]), "achieved": json_number(one["achieved"])}
            for one in about["classes"]
        ],
        "margins": [
            {
                "by": list(map(str, margin.keys)),
                "groups": [_json_group(one, names) for one in group_rows(result, margin)],
            }
            for margin in result.groups.margins
        ],
    }


def _json_group(one: dict[str, Any], names: list[str]) -> dict[str, Any]:
    columns = ("before", "at_least", "at_most", "achieved", "shift")
    return {
        **{name: one[name] for name in ("group", "known", "n_rows")},
        "certified": json_number(one["certified"]),
        "certified_for": one["certified_for"],
        "classes": [
            {"class": name} | {column: json_number(one[column][j]) for column in columns}
            for j, name in enumerate(names)
        ],
    }
