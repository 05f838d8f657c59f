"""``baserate demo``: an example of an adjustment on real data."""

from __future__ import annotations

from pathlib import Path

import click

from baserate.cli.exit_handling import handled_errors
from baserate.cli.output import print_lines


@click.command(short_help="Show an example of an adjustment on real data.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    default="baserate-demo.html",
    show_default=True,
    help="File for the report.",
)
def demo(report: Path) -> None:
    """Train a classifier, adjust its predictions to the class rates of new data, and compare with the true labels.

    This takes a few seconds and writes a report. The data are included in scikit-learn.
    """
    with handled_errors("no report was written"):
        from baserate.cli.story import story
        from baserate.report import check_report

        try:
            check_report(report)
            report_path: Path | None = report
        except ImportError as error:
            click.secho(f"No report will be written: {error}\n", fg="yellow", err=True)
            report_path = None
        for paragraph in story(report_path):
            print_lines([*paragraph.split("\n"), ""])
