"""A page in Markdown that presents the results of a study, with tables and figures in separate files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baserate.study.claims import Claim
from baserate.study.figures import FIGURES, save_all
from baserate.study.page_of_claims import claims_section, comparisons_section, comparisons_table
from baserate.study.reference import Comparison
from baserate.study.runs import RunSummary
from baserate.study.tables import (
    MEASURES,
    cells,
    escape_cell,
    format_count,
    format_integer,
    markdown_table,
    means,
    medians,
    n_tasks,
    with_error_columns,
)
from baserate.support.atomic_files import write_atomically

Frame = Any  # a pandas DataFrame

_MANY_MODELS = 20  # with more models, the table has one row for all of them


@dataclass(frozen=True, eq=False)
class PageContent:
    """The data that the page presents."""

    settings: dict[str, Any]
    summaries: Sequence[RunSummary]
    frame: Frame
    skipped: Frame
    claims: Sequence[Claim]
    comparison: Comparison | None
    seconds: float | None
    core_seconds: float
    jobs: int


def write_page(content: PageContent, folder: Path) -> list[Path]:
    """Write the page, its tables and its figures into a folder, and return the paths of all files."""
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    figures = save_all(content.frame, folder)
    corpus = pd.DataFrame([asdict(summary) for summary in content.summaries])
    tables = {
        "corpus.csv": corpus,
        "skipped.csv": content.skipped.reset_index(),
        "comparisons.csv": comparisons_table(content.frame),
        **{f"cells-{measure}.csv": cells(content.frame, measure) for measure in MEASURES},
    }
    texts = {
        "README.md": _page(content),
        "claims.json": json.dumps([asdict(claim) for claim in content.claims], indent=1) + "\n",
        "settings.json": json.dumps(content.settings, indent=1) + "\n",
        **{name: table.to_csv(index=False, float_format="%.6g") for name, table in tables.items()},
    }
    for name, text in texts.items():
        with write_atomically(folder / name) as file:
            file.write(text.encode())
    return [*(folder / name for name in texts), *figures]


def _page(content: PageContent) -> str:
    sections = [
        _introduction(content),
        claims_section(content.claims),
        comparisons_section(content.frame),
        _figures(),
        _means(content),
        _by_model_and_shift(content),
        _corpus(content),
        _cost(content),
    ]
    return "\n\n".join(sections) + "\n"


def _introduction(content: PageContent) -> str:
    frame, n_sets = content.frame, sum(summary.taken for summary in content.summaries)
    skipped = int(content.skipped.to_numpy().sum())
    datasets = format_count(frame["dataset"].nunique(), "data set")
    models = format_count(frame["model"].nunique(), "model")
    offline = content.settings["corpus"] == "offline"
    how_to_repeat = ". To repeat the study, run `make study` in a checkout of the repository" if offline else ""
    folds = (
        ". Each set is a fold of a cross-validation" if any(summary.folds > 1 for summary in content.summaries) else ""
    )
    n_impossible = int(frame["impossible"].notna().sum())
    impossible = f", {format_integer(n_impossible)} of them impossible because of hard zeros" if n_impossible else ""
    return f"""# The paper's experiments, repeated

This page repeats section 4 of *Shift Happens: Adjusting Classifiers*
([Heiser, Allikivi and Kull 2019](https://arxiv.org/abs/2111.02529)). The predictions of many classifiers are shifted in
four ways. The new class rates are stated exactly or with an error. Adjusters then change the predictions so that they
agree with the stated rates. The question is how much of the loss this removes.

This page was written by `baserate study`{how_to_repeat}.

- **{format_count(n_sets, "prediction set")}** of {datasets} and {models}{folds}.
- **{format_count(n_tasks(frame), "adjustment task")}**. Another {format_integer(skipped)} were impossible and skipped.
- **{format_count(len(frame), "adjustment")}**{impossible}, by these adjusters:
  - from the paper, `bga-brier` and `bga-log`: bounded general adjustment (BGA) for the Brier score and for log loss;
  - from the paper, `ppa`: prior probability adjustment (PPA);
  - new, `set-brier` and `set-log`: BGA to the set of all rates that the error allows;
  - new, `uga-brier`: unbounded general adjustment (UGA) for the Brier score, which is additive.
- Seed {content.settings["study_seed"]}. With the same versions, every run gives the same results, except for times.
  Settings and versions are in [settings.json](settings.json)."""


def _figures() -> str:
    shown = "\n\n".join(f"![{title}]({name}.png)\n\n[as SVG]({name}.svg)" for name, (title, _, _) in FIGURES.items())
    return f"""## Figures

The rows are thirds of the shifted sets by the squared Euclidean distance between old and new class rates. The columns
are absolute errors in the stated rate of each majority class. Each half violin shows the relative reduction of the loss
in all tasks of its cell: the decrease divided by the loss before adjustment.

{shown}"""


def _means(content: PageContent) -> str:
    parts = [
        "## Mean and median relative reduction",
        "",
        "The relative reduction is the decrease of the loss divided by the loss before adjustment. It is 1 if no loss",
        "remains. It can be far below -1000 if the loss was almost 0 before. The files",
        "[cells-brier.csv](cells-brier.csv) and [cells-log.csv](cells-log.csv) also contain the share of tasks whose",
        "loss increased.",
    ]
    for measure, name in MEASURES.items():
        for adjuster in (f"bga-{measure}", "ppa", f"set-{measure}"):
            pair = (table(content.frame, measure, adjuster) for table in (means, medians))
            parts += ["", f"**{name}, `{adjuster}`: mean (median)**", ""]
            parts.append(markdown_table(with_error_columns(_side_by_side(*pair))))
    return "\n".join(parts)


def _by_model_and_shift(content: PageContent) -> str:
    exact = content.frame[content.frame["error"] == 0]
    parts = ["## Exact rates, by model and shift", "", "Median relative reduction by BGA, and in parentheses by PPA."]
    if exact["model"].nunique() > _MANY_MODELS:  # every run of OpenML is a model of its own
        exact = exact.assign(model="all")
    for measure, name in MEASURES.items():
        pair = (
            exact[exact["adjuster"] == adjuster].pivot_table(
                index="model", columns="shift", values=f"{measure}_reduction", aggfunc="median"
            )
            for adjuster in (f"bga-{measure}", "ppa")
        )
        parts += ["", f"**{name}**", "", markdown_table(_side_by_side(*pair).rename_axis(columns=None))]
    return "\n".join(parts)


def _side_by_side(one: Frame, other: Frame) -> Frame:
    return one.map(_signed) + " (" + other.map(_signed) + ")"


def _signed(value: float) -> str:
    return f"{value:+.3f}" if np.isfinite(value) else ("-infinite" if value < 0 else "-")


def _corpus(content: PageContent) -> str:
    lines = [
        "## Corpus",
        "",
        "| data set | source | rows | classes | folds used | models left out |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(summary.dataset for summary in content.summaries):
        runs = [summary for summary in content.summaries if summary.dataset == name]
        left_out = "; ".join(f"{summary.model}: {summary.reason}" for summary in runs if summary.reason)
        used = sum(summary.taken for summary in runs)
        fields = (name, runs[0].source, runs[0].rows, runs[0].classes, used, left_out)
        lines.append("| " + " | ".join(map(escape_cell, fields)) + " |")
    if len(content.skipped):
        table = content.skipped.rename_axis(columns=None)
        lines += ["", "Number of skipped tasks by cause and shift:", "", markdown_table(table)]
    return "\n".join(lines)


def _cost(content: PageContent) -> str:
    tasks = n_tasks(content.frame)
    duration = (
        f"{content.seconds:.3g} s with {format_count(content.jobs, 'worker process')}"
        if content.seconds
        else "an unknown time, since the study was interrupted"
    )
    text = f"""## Cost

All {format_count(tasks, "task")} with all adjusters took {duration}.
The sum over all processes is {content.core_seconds:.3g} s. This does not include training the models and drawing the
figures."""
    if content.comparison is None:
        return text
    found = content.comparison
    theirs, ours, minutes = 1e3 * found.papers_seconds, 1e3 * found.seconds, found.papers_seconds * tasks / 60
    return f"""{text}

The paper's implementation uses CVXPY, with OSQP for the Brier score and ECOS for log loss. It took
{theirs:.0f} ms per task on a random sample of {found.tasks} tasks in the same run, an estimated {minutes:.3g} minutes
for all tasks. For the same two adjusters, this package took {ours:.1f} ms per task: it is {theirs / ours:.0f} times
faster.

The paper's implementation left errors of up to {found.papers_residual:.0e} in the rates, and its first solver failed in
{found.papers_failures} of {2 * found.tasks} problems. The largest duality gap of this package was
{found.largest_gap:.0e}."""
