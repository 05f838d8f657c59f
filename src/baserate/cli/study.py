"""``baserate study``: run the experiments of the paper."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from baserate.cli.exit_handling import handled_errors
from baserate.cli.output import print_lines
from baserate.cli.progress_bar import progress_bar
from baserate.support.threads import cores

if TYPE_CHECKING:
    from baserate.study.claims import Claim
    from baserate.study.runs import RunSummary

STEPS = ("all", "corpus", "run", "compare", "pages", "claims")
_READING = ("pages", "claims")  # these steps only read files in the folder of the study


_HELP = """Run the experiments in section 4 of the paper and check its claims.

\b
STEP is one of
  all      all steps below, in this order; finished steps are not repeated
  corpus   train the models, or download the predictions
  run      adjust the predictions of all tasks
  compare  also solve a sample of the tasks with the paper's solvers
  pages    write the page with tables and figures
  claims   print each claim of the paper with the result of this study
"""
_EXAMPLES = """\b
Examples:
  baserate study                                     run all steps, in ./baserate-study
  baserate study claims                              print the claims and the results
  baserate study --predictions p.parquet --label y   use your own predictions
  baserate study --corpus openml --openml-max-tasks 5
"""


@click.command(
    short_help="Run the experiments of the paper, also on your own predictions.",
    help=_HELP,
    epilog=_EXAMPLES,
)
@click.argument("step", type=click.Choice(STEPS), default="all")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="baserate-study",
    show_default=True,
    help="Folder for predictions and results. An interrupted study is resumed from it.",
)
@click.option(
    "--pages",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the page with tables and figures.  [default: OUT/pages]",
)
@click.option(
    "--corpus",
    type=click.Choice(["offline", "openml"]),
    default="offline",
    show_default=True,
    help="Source of the predictions: models trained on data from installed packages, or OpenML.",
)
@click.option(
    "--predictions",
    "files",
    multiple=True,
    metavar="FILE",
    help="Your own predictions, a Parquet or CSV file, instead of a corpus. Can be repeated.",
)
@click.option("--label", default="y", show_default=True, help="Column with the true class in your files.")
@click.option(
    "--columns",
    default="p_*",
    show_default=True,
    help="Columns with probabilities: a pattern, where * matches the class name, or names separated by commas.",
)
@click.option("--fold", help="Column with the fold in your files.  [default: a file is one prediction set]")
@click.option("--features", help="Numeric columns for the covariate shift, separated by commas.  [default: all others]")
@click.option("--datasets", help="Data sets of the offline corpus, separated by commas.  [default: all]")
@click.option("--models", help="Models of the offline corpus, separated by commas.  [default: all]")
@click.option("--openml-max-tasks", type=click.IntRange(1), help="Maximum number of tasks.")
@click.option("--openml-runs-per-task", type=click.IntRange(1), help="Maximum number of runs per task.")
@click.option("--openml-min-rows", type=click.IntRange(1), help="Minimum rows of a data set.  [default: 2000]")
@click.option("--openml-max-rows", type=click.IntRange(1), help="Maximum rows of a data set.  [default: 1000000]")
@click.option("--openml-server", metavar="URL", help="Use another server instead of openml.org.")
@click.option("--min-rows", default=500, show_default=True, help="Discard prediction sets with fewer rows.")
@click.option("--max-rows", default=1000, show_default=True, help="Sample larger prediction sets down to this size.")
@click.option("--max-classes", default=8, show_default=True, help="Discard runs with more classes.")
@click.option("--hard-scores", is_flag=True, help="Keep runs with scores of exactly 0 or 1.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@click.option("--jobs", type=click.IntRange(1), default=cores, show_default="all cores", help="Number of processes.")
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Number of tasks that are also solved with the paper's CVXPY solvers.",
)
@click.option("--fresh", is_flag=True, help="Delete the results in the folder and start again; predictions are kept.")
@click.option("--json", "as_json", is_flag=True, help="Print the claims as JSON.")
@click.option("--quiet", is_flag=True, help="Show no progress bar.")
def study(step: str, **options: Any) -> None:
    """Run one step of the study, or all steps."""
    with handled_errors("finished work is kept; run the same command again to resume"):
        _run(step, **options)


def _run(step: str, *, out: Path, pages: Path | None, jobs: int, sample: int, fresh: bool, **options: Any) -> None:
    _check_extra()
    quiet = options["quiet"]
    if step not in _READING:
        _run_steps(step, out, jobs, sample, fresh, **options)
    elif fresh:
        raise click.UsageError(f"--fresh would delete the results that {step} reads; leave it out")
    from baserate.study.findings import Findings

    if step in ("all", "pages"):
        written = Findings(out).write_pages(pages or out / "pages")
        if not quiet:
            print_lines([f"wrote {written[0]} and {len(written) - 1} more files in the same folder"], err=True)
    if step in ("all", "claims"):
        _print_claims(Findings(out).claims, options["as_json"])


def _run_steps(step: str, out: Path, jobs: int, sample: int, fresh: bool, **options: Any) -> None:
    from baserate.study.run import Study

    quiet = options["quiet"]
    study = Study(out, _plan(**options))
    with study.lock():
        study.prepare(fresh=fresh)
        with progress_bar(quiet=quiet, unit="steps") as progress:
            paths = study.collect(jobs, progress)
        if step == "corpus":
            _print_corpus(study.summaries(paths))
        if step in ("all", "run"):
            with progress_bar(quiet=quiet, unit="prediction sets") as progress:
                study.run(paths, jobs, progress)
        if step in ("all", "compare"):
            with progress_bar(quiet=quiet, unit="tasks") as progress:
                study.compare(paths, sample, progress)


def _check_extra() -> None:
    """Report a missing package before any work starts."""
    for name in ("pandas", "pyarrow", "joblib", "matplotlib", "cvxpy"):
        if importlib.util.find_spec(name) is None:
            raise click.ClickException(f'the study needs {name}: pip install "baserate[study]"')


def _plan(**options: Any) -> Any:
    from baserate.study.run import Plan
    from baserate.study.runs import Rules

    rules = Rules(*(options[name] for name in ("min_rows", "max_rows", "max_classes", "hard_scores")))
    return Plan(_corpus(**options), rules, options["seed"])


def _corpus(*, corpus: str, files: tuple[str, ...], seed: int, max_classes: int, **options: Any) -> Any:
    """The corpus that the options select."""
    _check_options("own" if files else corpus)
    if files:
        from baserate.study.own import OwnFiles

        features = _names(options["features"])
        return OwnFiles(files, options["label"], _names(options["columns"]) or (), options["fold"], features)
    if corpus == "openml":
        from baserate.study.openml_runs import OpenMLRuns

        given = {name.removeprefix("openml_"): value for name, value in options.items() if name.startswith("openml_")}
        given |= {"max_classes": max_classes, "keep_hard_scores": options["hard_scores"]}
        return OpenMLRuns(**{name: value for name, value in given.items() if value is not None})
    from baserate.study.offline import Offline

    default = Offline()
    datasets, models = _names(options["datasets"]), _names(options["models"])
    return replace(default, datasets=datasets or default.datasets, models=models or default.models, seed=seed)


_OPTIONS_OF_CORPUS = {
    "own": ("label", "columns", "fold", "features"),
    "offline": ("datasets", "models"),
    "openml": tuple(f"openml_{name}" for name in ("max_tasks", "runs_per_task", "min_rows", "max_rows", "server")),
}


def _check_options(chosen: str) -> None:
    """Raise an error for options of another corpus, instead of ignoring them."""
    context = click.get_current_context()
    given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    unused = [
        name for corpus, names in _OPTIONS_OF_CORPUS.items() if corpus != chosen for name in names if name in given
    ]
    if chosen == "own" and "corpus" in given:
        unused.append("corpus")
    if unused:
        what = "your own predictions" if chosen == "own" else f"the {chosen} corpus"
        option = unused[0].replace("_", "-")
        hint = "; add --predictions FILE" if unused[0] in _OPTIONS_OF_CORPUS["own"] else ""
        raise click.UsageError(f"--{option} cannot be used with {what}{hint}")


def _names(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise click.UsageError(f"{text!r} contains no names; separate names by commas")
    return names


def _print_corpus(summaries: Sequence[RunSummary]) -> None:
    for run in summaries:
        used = f"{run.taken} of {run.folds} folds used" + (f": {run.reason}" if run.reason else "")
        print_lines([f"{run.dataset}/{run.model}: {run.rows} rows, {run.classes} classes, {used}"])
    click.echo(f"{sum(run.taken for run in summaries)} prediction sets from {len(summaries)} runs")


def _print_claims(found: Sequence[Claim], as_json: bool) -> None:
    from baserate.study.claims import claims_text

    if as_json:
        click.echo(json.dumps([asdict(claim) for claim in found], indent=1))
    else:
        print_lines(claims_text(found).split("\n"))
