"""What commands print about an adjustment."""

from __future__ import annotations

import json
from typing import Any

import click

from baserate.result import text
from baserate.result.facts import facts, json_number
from baserate.result.record import Result


def print_result(result: Result, lines: list[str], *, as_json: bool, quiet: bool, err: bool, **more: Any) -> None:
    """Print a summary and some lines, or all facts as JSON; ``err`` is for standard error."""
    if as_json:
        click.echo(json.dumps(json_facts(result) | more, indent=1, ensure_ascii=False), err=err)
    elif not quiet:
        click.echo("\n".join([text.summary(result), *lines]), err=err)


def json_facts(result: Result) -> dict[str, Any]:
    """The facts about a result that ``--json`` prints."""
    about = facts(result)
    columns = ("before", "at_least", "at_most", "achieved", "shift")
    return {
        **{name: about[name] for name in ("procedure", "loss", "bounded")},
        "rows": about["n_rows"],
        "passes": about["n_passes"],
        **{name: about[name] for name in ("engine", "converged", "condition")},
        **{name: json_number(about[name]) for name in ("loss_reduction", "gap", "residual")},
        "classes": [
            {"class": str(one["class"])} | {column: json_number(one[column]) for column in columns}
            for one in about["classes"]
        ],
    }
