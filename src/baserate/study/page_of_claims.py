"""The sections of the page about the claims, and about the comparisons that decide them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from baserate.study.claims import Claim
from baserate.study.contrasts import CELLS, Contrast
from baserate.study.intervals import MIN_DATASETS, N_RESAMPLES, Interval
from baserate.study.tables import MEASURES, SIZES, escape_cell, markdown_table, with_error_columns

Frame = Any  # a pandas DataFrame

_STATISTICS = {
    "means": ("difference of the mean relative reductions, the paper's statistic", "+.3g"),
    "pooled": ("difference of the pooled losses, relative to the pooled loss before adjustment", "+.1%"),
    "wins": ("share of tasks in which BGA leaves a lower loss than PPA", ".0%"),
}
"""For each statistic, an attribute of a Contrast: its name, and the format of its numbers."""

_HOW_SURE = f"""## Claims

The table has what the paper claims, what this study finds, and how sure that is. Claims that start with "New:" are not
in the paper. There are three verdicts:

- **holds** and **does not hold**: for a claim about an average or a share of tasks, a 95% interval lies entirely on one
  side. A theorem is checked in every task, where a single exception disproves it. That something can occur is proved by
  a single example.
- **undecided**: the interval contains values for which the claim holds and values for which it does not, or there
  are too few results.

The intervals are clustered by data set. They come from {N_RESAMPLES} resamples of whole data sets, with all models,
folds, shifts and errors that belong to them, because these results are dependent. The intervals of the cells of a
figure are joint: with 95% confidence all of them are correct, and so are the bounds for the number of cells. At least
{MIN_DATASETS} data sets are needed. The intervals are approximate: with few data sets they tend to be too short, joint
ones more than single ones. They describe data sets and models like these, not those of the paper."""
_LEFT_OUT = """The share of a data set is its part of the sum of absolute contributions, in the cells that are not
clearly in favour of the claim. Data sets are left out here only to find causes. Verdicts are about all data sets."""
_OTHER_STATISTICS = """The paper compares means of relative reductions. The pooled loss is the sum of the losses of all
tasks; tasks with almost no loss cannot dominate it. The share of tasks in which one adjuster beats the other does not
depend on how large the losses are."""
_READING = """- "often" and "most tasks": in more than half of the tasks.
- "reduces loss more than PPA", in claims about tasks: the loss after adjustment is lower; ties count one half.
- "the numeric feature which correlates best" with a class (section 4.1, covariate shift): the feature with the largest
  absolute correlation. The rows with its lowest values are deleted, whatever the sign of the correlation.
- "important to adjust by minimising the same divergence": adjusting for the measured loss leaves a lower loss than
  adjusting for the other loss."""
_THREE_WAYS = """## BGA compared with PPA, in three ways

A positive difference, or a share above 50%, means that BGA is better. In brackets are 95% intervals, clustered by data
set; the 15 intervals of a table are joint. All numbers are in [comparisons.csv](comparisons.csv), also for BGA for the
measured loss compared with BGA for the other loss."""


def claims_section(claims: Sequence[Claim]) -> str:
    """The claims with their verdicts, and what explains them."""
    lines = [
        _HOW_SURE,
        "",
        "| | claim | the paper | this study | how sure | verdict |",
        "|--:|---|---|---|---|---|",
    ]
    sources, besides, reasons = [], [], []
    for number, claim in enumerate(claims, 1):
        verdict = claim.verdict if claim.holds else f"**{claim.verdict}**"
        lines.append(f"| {number} | {claim.text} | {claim.paper} | {claim.ours} | {claim.certainty} | {verdict} |")
        name = f"- **{number}** *{claim.text}*"
        if claim.source:
            sources.append(f"- **{number}** Section {claim.source}".replace("Section abstract", "Abstract"))
        if claim.beside:
            besides.append(f"{name}: {_sentences(claim.beside)}.")
        if claim.why:
            reasons.append(f"{name}: {escape_cell(claim.why)}")
    for title, items in (
        ("Why some claims do not hold or are undecided", [_LEFT_OUT, "", *reasons] if reasons else []),
        ("The same comparisons by other statistics", [_OTHER_STATISTICS, "", *besides] if besides else []),
        ("Where the paper states the claims", sources),
        ("How the paper is read", [_READING]),
    ):
        if items:
            lines += ["", f"### {title}", "", *items]
    return "\n".join(lines)


def _sentences(text: str) -> str:
    """A text with semicolons between its clauses, as sentences. Semicolons before numbers stay."""
    return ". ".join(clause[:1].upper() + clause[1:] for clause in re.split(r"; (?=[a-zA-Z])", text))


def comparisons_section(frame: Frame) -> str:
    """Tables of BGA compared with PPA, by three statistics."""
    parts = [_THREE_WAYS]
    for measure, name in MEASURES.items():
        contrast = Contrast.of(frame, measure, f"bga-{measure}", "ppa")
        for statistic, (title, style) in _STATISTICS.items():
            table = _grid(getattr(contrast, statistic).intervals(), style)
            parts += ["", f"**{name}: {title}**", "", markdown_table(table)]
    return "\n".join(parts)


def comparisons_table(frame: Frame) -> Frame:
    """All comparisons of two adjusters: one row per loss, pair, statistic and cell."""
    import pandas as pd

    rows = []
    for measure, other in (("brier", "log"), ("log", "brier")):
        for second in ("ppa", f"bga-{other}"):
            contrast = Contrast.of(frame, measure, f"bga-{measure}", second)
            about = {"loss": measure, "first": f"bga-{measure}", "second": second}
            for statistic in _STATISTICS:
                ratios = getattr(contrast, statistic)
                for (size, off), n, interval in zip(CELLS, ratios.n_datasets, ratios.intervals(), strict=True):
                    cell = {"statistic": statistic, "size": size, "off": off, "datasets": n}
                    rows.append({**about, **cell, **asdict(interval)})
    return pd.DataFrame(rows)


def _grid(intervals: Sequence[Interval], style: str) -> Frame:
    """Intervals of the cells as text: one row per size of shift, one column per absolute error."""
    import pandas as pd

    texts = [_with_interval(interval, style) for interval in intervals]
    index = pd.MultiIndex.from_tuples(CELLS, names=["shift", "off"])
    return with_error_columns(pd.Series(texts, index=index).unstack("off").reindex(list(SIZES)))


def _with_interval(interval: Interval, style: str) -> str:
    if np.isnan(interval.value):
        return "-"
    ends = "" if np.isnan(interval.low) else f" [{interval.low:{style}}, {interval.high:{style}}]"
    return f"{interval.value:{style}}{ends}"
