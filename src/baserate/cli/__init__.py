"""The command line, with one file per group of commands."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import click

import baserate
from baserate.cli.app import app
from baserate.cli.bench import bench
from baserate.cli.certify import certify
from baserate.cli.check import check
from baserate.cli.demo import demo
from baserate.cli.export import export
from baserate.cli.procedures import advise, compare
from baserate.cli.rates import rates
from baserate.cli.study import study
from baserate.cli.tables import adjust, apply, fit, prior
from baserate.support.text import printable


class Commands(click.Group):
    """The commands. Messages of their errors are printed with control characters escaped."""

    def invoke(self, context: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(context)
        except click.ClickException as error:
            error.message = printable(error.message)  # type: ignore[misc]  # final, but click has no other hook
            raise


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Completion in bash:  eval "$(_BASERATE_COMPLETE=bash_source baserate)"   (also zsh_source, fish_source)
""",
)
@click.version_option(baserate.__version__, prog_name="baserate")
@click.pass_context
def main(context: click.Context) -> None:
    """Adjust classifier predictions to the class rates of the target population."""
    if os.environ.get("NO_COLOR"):
        context.color = False
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # so that a name that cannot be encoded is no error


for command in (adjust, fit, apply, certify, prior, check, rates, compare, advise, export, app, study, bench, demo):
    main.add_command(command)
