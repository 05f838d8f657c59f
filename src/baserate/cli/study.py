"""``baserate study``: the experiments of the paper, end to end."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from baserate.cli.exit_handling import told
from baserate.cli.progress_bar import progress_bar
from baserate.support.threads import cores

if TYPE_CHECKING:
    from baserate.study.claims import Claim
    from baserate.study.runs import Account

STEPS = ("all", "corpus", "run", "compare", "pages", "claims")
_READING = ("pages", "claims")  # need nothing but what lies in the folder


@click.command(
    short_help="The experiments of the paper, or the same on your own predictions.",
    epilog="""\b
Examples:
  baserate study                                     the whole study, in ./baserate-study
  baserate study claims                              what it found
  baserate study --predictions p.parquet --label y   the same on predictions of your own
  baserate study --corpus openml --openml-max-tasks 5
""",
)
@click.argument("step", type=click.Choice(STEPS), default="all")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="baserate-study",
    show_default=True,
    help="Folder for predictions and results; a study that was stopped goes on there.",
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
    help="Where predictions come from: models trained here on data from installed packages, or OpenML.",
)
@click.option(
    "--predictions",
    "files",
    multiple=True,
    metavar="FILE",
    help="Predictions of your own, Parquet or CSV, in place of a corpus; may be given several times.",
)
@click.option("--label", default="y", show_default=True, help="Column of your files with the true class.")
@click.option(
    "--columns",
    default="p_*",
    show_default=True,
    help="Columns with probabilities: a pattern whose star is the class, or names separated by commas.",
)
@click.option("--fold", help="Column of your files with the fold.  [default: a file is one set]")
@click.option("--features", help="Numeric columns for the covariate shift, separated by commas.  [default: all others]")
@click.option("--datasets", help="Data sets of the offline corpus, separated by commas.  [default: all]")
@click.option("--models", help="Models of the offline corpus, separated by commas.  [default: all]")
@click.option("--openml-max-tasks", type=click.IntRange(1), help="Take the first so many tasks only.")
@click.option("--openml-runs-per-task", type=click.IntRange(1), help="Take so many runs of a task only.")
@click.option("--openml-min-rows", type=click.IntRange(1), help="Least rows of a data set.  [default: 2000]")
@click.option("--openml-max-rows", type=click.IntRange(1), help="Most rows of a data set.  [default: 1000000]")
@click.option("--openml-server", metavar="URL", help="Another server than OpenML's own.")
@click.option("--min-rows", default=500, show_default=True, help="Discard prediction sets with fewer rows.")
@click.option("--max-rows", default=1000, show_default=True, help="Sample larger prediction sets down.")
@click.option("--max-classes", default=8, show_default=True, help="Discard runs with more classes.")
@click.option("--hard-scores", is_flag=True, help="Keep runs with scores of exactly 0 or 1.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=cores, show_default="all cores", help="Processes.")
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Tasks that are also solved in the paper's way, with CVXPY.",
)
@click.option("--fresh", is_flag=True, help="Throw away results in the folder and begin anew; predictions are kept.")
@click.option("--json", "as_json", is_flag=True, help="Print the claims as JSON.")
@click.option("--quiet", is_flag=True, help="No progress.")
def study(step: str, **options: Any) -> None:
    """Run section 4 of the paper: predictions, shifts, wrong rates, adjusters, tables, figures, claims.

    \b
    STEP is one of
      all      everything below, in this order; what is done is not done again
      corpus   make or fetch the predictions
      run      adjust all tasks
      compare  solve a sample of the tasks in the paper's way as well
      pages    write tables, figures and the page
      claims   print each claim of the paper with what was found here
    """  # noqa: D301
    with told("what is done is kept, and the same command goes on from there"):
        _run(step, **options)


def _run(step: str, *, out: Path, pages: Path | None, jobs: int, sample: int, fresh: bool, **options: Any) -> None:
    _check_extra()
    quiet = options["quiet"]
    if step not in _READING:
        _work(step, out, jobs, sample, fresh, **options)
    elif fresh:
        raise click.UsageError(f"{step} reads what is there; --fresh would throw it away")
    from baserate.study.findings import Findings

    if step in ("all", "pages"):
        written = Findings(out).write_pages(pages or out / "pages")
        if not quiet:
            click.echo(f"wrote {written[0]} and {len(written) - 1} files beside it", err=True)
    if step in ("all", "claims"):
        _say_claims(Findings(out).claims, options["as_json"])


def _work(step: str, out: Path, jobs: int, sample: int, fresh: bool, **options: Any) -> None:
    from baserate.study.run import Study

    quiet = options["quiet"]
    work = Study(out, _plan(**options))
    with work.alone():
        work.begin(fresh=fresh)
        with progress_bar(quiet=quiet, unit="steps") as progress:
            paths = work.collect(jobs, progress)
        if step == "corpus":
            _say_corpus(work.accounts(paths))
        if step in ("all", "run"):
            with progress_bar(quiet=quiet, unit="prediction sets") as progress:
                work.run(paths, jobs, progress)
        if step in ("all", "compare"):
            with progress_bar(quiet=quiet, unit="tasks") as progress:
                work.compare(paths, sample, progress)


def _check_extra() -> None:
    """Say what to install before anything is begun."""
    for name in ("pandas", "pyarrow", "joblib", "matplotlib", "cvxpy"):
        if importlib.util.find_spec(name) is None:
            raise click.ClickException(f'the study needs {name}: pip install "baserate[study]"')


def _plan(**options: Any) -> Any:
    from baserate.study.run import Plan
    from baserate.study.runs import Rules

    rules = Rules(*(options[name] for name in ("min_rows", "max_rows", "max_classes", "hard_scores")))
    return Plan(_corpus(**options), rules, options["seed"])


def _corpus(*, corpus: str, files: tuple[str, ...], seed: int, max_classes: int, **options: Any) -> Any:
    """The corpus that the options name; what belongs to another one is left out."""
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


_BELONGS = {
    "own": ("label", "columns", "fold", "features"),
    "offline": ("datasets", "models"),
    "openml": tuple(f"openml_{name}" for name in ("max_tasks", "runs_per_task", "min_rows", "max_rows", "server")),
}


def _check_options(chosen: str) -> None:
    """Refuse options of another corpus rather than ignore them."""
    context = click.get_current_context()
    given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    strange = [name for corpus, names in _BELONGS.items() if corpus != chosen for name in names if name in given]
    if chosen == "own" and "corpus" in given:
        strange.append("corpus")
    if strange:
        what = "predictions of your own" if chosen == "own" else f"the {chosen} corpus"
        option = strange[0].replace("_", "-")
        hint = "; give the file with --predictions" if strange[0] in _BELONGS["own"] else ""
        raise click.UsageError(f"--{option} has no meaning for {what}{hint}")


def _names(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise click.UsageError(f"{text!r} names nothing; separate names by commas")
    return names


def _say_corpus(accounts: Sequence[Account]) -> None:
    for account in accounts:
        verdict = f"{account.taken} of {account.folds} folds" + (f": {account.reason}" if account.reason else "")
        click.echo(f"{account.dataset}/{account.model}: {account.rows} rows, {account.classes} classes, {verdict}")
    click.echo(f"{sum(account.taken for account in accounts)} prediction sets of {len(accounts)} runs")


def _say_claims(found: Sequence[Claim], as_json: bool) -> None:
    from baserate.study.claims import text

    click.echo(json.dumps([asdict(claim) for claim in found], indent=1) if as_json else text(found))
