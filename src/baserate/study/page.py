"""The results for people: one page, with its tables and figures beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baserate.study.claims import Claim
from baserate.study.figures import FIGURES, save_all
from baserate.study.reference import Comparison
from baserate.study.runs import Account
from baserate.study.tables import MEASURES, cell, cells, counted, markdown, means, medians, n_tasks, spaced
from baserate.support.atomic_files import whole

Frame = Any  # a pandas DataFrame

_MANY = 20


@dataclass(frozen=True, eq=False)
class Story:
    """All that the page tells."""

    settings: dict[str, Any]
    accounts: Sequence[Account]
    frame: Frame
    skipped: Frame
    claims: Sequence[Claim]
    comparison: Comparison | None
    seconds: float | None
    core_seconds: float
    jobs: int


def write(story: Story, folder: Path) -> list[Path]:
    """Write page, tables and figures into a folder."""
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    figures = save_all(story.frame, folder)
    corpus = pd.DataFrame([asdict(account) for account in story.accounts])
    tables = {
        "corpus.csv": corpus,
        "skipped.csv": story.skipped.reset_index(),
        **{f"cells-{measure}.csv": cells(story.frame, measure) for measure in MEASURES},
    }
    texts = {
        "README.md": _page(story),
        "claims.json": json.dumps([asdict(claim) for claim in story.claims], indent=1) + "\n",
        "settings.json": json.dumps(story.settings, indent=1) + "\n",
        **{name: table.to_csv(index=False, float_format="%.6g") for name, table in tables.items()},
    }
    for name, text in texts.items():
        with whole(folder / name) as file:
            file.write(text.encode())
    return [*(folder / name for name in texts), *figures]


def _page(story: Story) -> str:
    sections = [_what(story), _claims(story), _figures(), _means(story), _by_group(story), _corpus(story), _cost(story)]
    return "\n\n".join(sections) + "\n"


def _what(story: Story) -> str:
    frame, taken = story.frame, sum(account.taken for account in story.accounts)
    skipped = int(story.skipped.to_numpy().sum())
    datasets, models = frame["dataset"].nunique(), frame["model"].nunique()
    offline = story.settings["corpus"] == "offline"
    again = "; `make study` writes it again from a fresh checkout" if offline else ""
    folds = ", each a fold of a cross-validation" if any(account.folds > 1 for account in story.accounts) else ""
    number = int(frame["impossible"].notna().sum())
    impossible = f", {spaced(number)} of them impossible because of hard zeros" if number else ""
    adjusters = ", ".join(f"`{name}`" for name in frame["adjuster"].unique())
    return f"""# The paper's experiments, run again

Section 4 of *Shift Happens: Adjusting Classifiers* ([Heiser, Allikivi and Kull 2019](https://arxiv.org/abs/2111.02529)):
predictions of many classifiers are shifted in four ways, the new class rates are stated exactly or with an error, and
adjusters change the predictions to fit them. How much of the loss is gone afterwards?

This page was written by `baserate study`{again}.

- **{counted(taken, "prediction set")}** of {counted(datasets, "data set")} and {counted(models, "model")}{folds}.
- **{counted(n_tasks(frame), "adjustment task")}**, and {spaced(skipped)} that were impossible and skipped.
- **{counted(len(frame), "adjustment")}**{impossible}: {adjusters}. `bga-*` and `ppa` are the
  paper's; `set-*` adjusts to all rates that the error allows, `uga-brier` is additive adjustment.
- Seed {story.settings["study_seed"]}; everything but the seconds is the same in every run with the same versions.
  Settings and versions are in [settings.json](settings.json)."""


def _claims(story: Story) -> str:
    lines = ["## Claims", "", "| claim | paper | here | |", "|---|---|---|---|"]
    notes = []
    for claim in story.claims:
        verdict = claim.verdict if claim.holds else f"**{claim.verdict}**"
        if claim.why:
            notes.append(f"- *{claim.text}*: {cell(claim.why)}")
        lines.append(f"| {claim.text} | {claim.paper} | {claim.ours} | {verdict} |")
    if notes:
        lines += ["", "Where they do not hold or cannot be told, and why:", "", *notes]
    return "\n".join(lines)


def _figures() -> str:
    shown = "\n\n".join(f"![{title}]({name}.png)\n\n[as SVG]({name}.svg)" for name, (title, _, _) in FIGURES.items())
    return f"""## Figures

Rows: thirds of the shifted sets by the squared Euclidean distance between old and new class rates. Columns: by how much
the stated rate of each majority class is off. Each half violin shows, for all tasks of its cell, the reduction of the
loss in proportion to the loss before.

{shown}"""


def _means(story: Story) -> str:
    parts = [
        "## Mean and median relative reduction",
        "",
        "In proportion to the loss before, so 1 is all of it, and a loss that was almost 0 can rise by thousands.",
        "With the share of tasks that each adjuster harmed: [cells-brier.csv](cells-brier.csv),",
        "[cells-log.csv](cells-log.csv).",
    ]
    for measure, name in MEASURES.items():
        for adjuster in (f"bga-{measure}", "ppa", f"set-{measure}"):
            pair = (table(story.frame, measure, adjuster) for table in (means, medians))
            both = _side_by_side(*pair).rename_axis(index="shift", columns=None)
            both = both.rename(columns=lambda off: "exact rates" if off == 0 else f"off by {off:g}")
            parts += ["", f"**{name}, `{adjuster}`: mean (median)**", "", markdown(both)]
    return "\n".join(parts)


def _by_group(story: Story) -> str:
    exact = story.frame[story.frame["error"] == 0]
    parts = ["## At exact rates, by model and shift", "", "Median relative reduction by BGA (by PPA)."]
    if exact["model"].nunique() > _MANY:  # of OpenML every run is a model
        exact = exact.assign(model="all")
    for measure, name in MEASURES.items():
        pair = (
            exact[exact["adjuster"] == adjuster].pivot_table(
                index="model", columns="shift", values=f"{measure}_reduction", aggfunc="median"
            )
            for adjuster in (f"bga-{measure}", "ppa")
        )
        parts += ["", f"**{name}**", "", markdown(_side_by_side(*pair).rename_axis(columns=None))]
    return "\n".join(parts)


def _side_by_side(one: Frame, other: Frame) -> Frame:
    return one.map(_signed) + " (" + other.map(_signed) + ")"


def _signed(value: float) -> str:
    return f"{value:+.3f}" if np.isfinite(value) else ("-infinite" if value < 0 else "-")


def _corpus(story: Story) -> str:
    lines = [
        "## Corpus",
        "",
        "| data set | from | rows | classes | folds taken | left out |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(account.dataset for account in story.accounts):
        runs = [account for account in story.accounts if account.dataset == name]
        left_out = "; ".join(f"{account.model}: {account.reason}" for account in runs if account.reason)
        taken = sum(account.taken for account in runs)
        fields = (name, runs[0].source, runs[0].rows, runs[0].classes, taken, left_out)
        lines.append("| " + " | ".join(map(cell, fields)) + " |")
    if len(story.skipped):
        lines += ["", "Skipped tasks by cause and shift:", "", markdown(story.skipped.rename_axis(columns=None))]
    return "\n".join(lines)


def _cost(story: Story) -> str:
    tasks = n_tasks(story.frame)
    took = (
        f"in {story.seconds:.3g} s with {counted(story.jobs, 'worker')}" if story.seconds else "over several sittings"
    )
    text = f"""## Cost

All {counted(tasks, "task")} with all adjusters: {took}, {story.core_seconds:.3g} s of work,
models and figures aside."""
    if story.comparison is None:
        return text
    found = story.comparison
    theirs, ours, minutes = found.papers_seconds, found.seconds, found.papers_seconds * tasks / 60
    return f"""{text}

The paper's way, CVXPY with OSQP for Brier and ECOS for log loss, took {1e3 * theirs:.0f} ms a task on a random sample
of {found.tasks} tasks in the same run: an estimated {minutes:.3g} minutes of work for all tasks. Ours for the same two
adjusters: {1e3 * ours:.1f} ms a task, {theirs / ours:.0f} times faster. The paper's way left rates off by up to
{found.papers_residual:.0e}, and its first solver failed in {found.papers_failures} of {2 * found.tasks} problems;
our largest duality gap was {found.largest_gap:.0e}."""
