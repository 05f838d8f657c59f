"""``baserate demo``: the whole story on real data."""

from __future__ import annotations

from pathlib import Path

import click

from baserate.cli.exit_handling import handled_errors


@click.command(short_help="A classifier meets another population: the whole story on real data.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    default="baserate-demo.html",
    show_default=True,
    help="Where the report is written.",
)
def demo(report: Path) -> None:
    """Train a model, meet a place with other class rates, adjust, compare with the labels, and write a report.

    Takes a few seconds. The data come with scikit-learn.
    """
    with handled_errors("no report was written"):
        from baserate.cli.story import story
        from baserate.report import check_report

        try:
            check_report(report)
            place: Path | None = report
        except ImportError as error:
            click.secho(f"Without a report: {error}\n", fg="yellow", err=True)
            place = None
        for paragraph in story(place):
            click.echo(f"{paragraph}\n")
