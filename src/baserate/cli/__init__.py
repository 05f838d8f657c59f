"""The command line, one file a group of commands."""

from __future__ import annotations

import click

import baserate
from baserate.cli.study import study


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(baserate.__version__, prog_name="baserate")
def main() -> None:
    """Adjust classifier predictions to the class rates of the place where they are used."""


main.add_command(study)
