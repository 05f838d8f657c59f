"""Tables of the results: the cells of the paper's figures, and the skipped tasks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

Frame = Any  # a pandas DataFrame

MEASURES = {"brier": "Brier score", "log": "log loss"}
"""The measured losses, and their names in text."""

LOSS_NAMES = {"brier": "the Brier score", "log": "log loss"}
"""The measured losses, with their article, for use in sentences."""

ROUNDING = 1e-12
"""Smaller differences between losses are attributed to rounding."""

SIZES = ("high", "medium", "low")
"""Thirds of the shifted sets by the distance between old and new class rates; the rows of the figures."""

ABSOLUTE_ERRORS = (0.0, 0.01, 0.02, 0.04, 0.08)
"""Absolute errors of the stated rates; the columns of the figures."""


def read_results(path: Path) -> Frame:
    """The results with two more columns: ``size`` of the shift, and ``off``, the absolute error of the rates."""
    import pandas as pd

    frame = pd.read_parquet(path)
    shifted = frame.drop_duplicates(["set", "shift"])[["set", "shift", "distance"]]
    rank = shifted["distance"].rank(method="first").to_numpy() - 1  # splits ties, so that the thirds are of equal size
    third = np.minimum((3 * rank / len(shifted)).astype(int), 2)
    shifted = shifted.assign(size=pd.Categorical(np.array(SIZES[::-1])[third], categories=SIZES))
    frame = frame.merge(shifted.drop(columns="distance"), on=["set", "shift"], how="left")
    return frame.assign(off=frame["error"].abs())


def rows_of(frame: Frame, adjuster: str, measure: str) -> Frame:
    """The results of one adjuster for tasks with a finite loss before and a defined loss after adjustment.

    With hard scores, the loss before can be infinite, and some tasks cannot be adjusted.
    """
    rows = frame[(frame["adjuster"] == adjuster) & np.isfinite(frame[f"{measure}_before"])]
    return rows[rows[f"{measure}_after"].notna()]


def cells(frame: Frame, measure: str) -> Frame:
    """One row per adjuster, size of the shift and absolute error, with statistics of the relative reduction.

    ``worse`` is the share of tasks whose loss increased, ``infinite`` the number of tasks whose loss became infinite.
    """
    reduction = f"{measure}_reduction"
    known = frame[frame[reduction].notna()]
    groups = known.groupby(["adjuster", "size", "off"], observed=True)[reduction]
    return groups.agg(
        tasks="size",
        mean="mean",
        median="median",
        worse=lambda values: float((values < -ROUNDING).mean()),
        infinite=lambda values: int(np.isneginf(values).sum()),
    ).reset_index()


def means(frame: Frame, measure: str, adjuster: str) -> Frame:
    """Mean relative reduction by one adjuster: one row per size of shift, one column per absolute error."""
    return _cells_of(frame, measure, adjuster).mean().unstack("off").reindex(list(SIZES))


def medians(frame: Frame, measure: str, adjuster: str) -> Frame:
    """Median relative reduction by one adjuster: one row per size of shift, one column per absolute error."""
    return _cells_of(frame, measure, adjuster).median().unstack("off").reindex(list(SIZES))


def _cells_of(frame: Frame, measure: str, adjuster: str) -> Any:
    return frame[frame["adjuster"] == adjuster].groupby(["size", "off"], observed=True)[f"{measure}_reduction"]


def with_error_columns(table: Frame) -> Frame:
    """A table with one column per absolute error, with names of its rows and columns for the page."""
    table = table.rename_axis(index="shift", columns=None)
    return table.rename(columns=lambda off: "exact rates" if off == 0 else f"off by {off:g}")


def n_tasks(frame: Frame) -> int:
    """The number of adjustment tasks: combinations of prediction set, shift and stated rates."""
    return len(frame.drop_duplicates(["set", "shift", "error"]))


def skipped_by_cause(path: Path) -> Frame:
    """The number of skipped tasks: one row per cause, one column per shift."""
    import pandas as pd

    frame = pd.read_parquet(path)
    return pd.crosstab(frame["skipped"], frame["shift"])


def format_integer(value: int) -> str:
    """An integer with a space between groups of three digits."""
    return f"{value:,}".replace(",", " ")


def format_count(value: int, noun: str) -> str:
    """A number with a noun in singular or plural, such as "3 tasks"."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{format_integer(value)} {noun if value == 1 else plural}"


def escape_cell(value: Any) -> str:
    """A value as text for a cell of a Markdown table, with special characters escaped."""
    text = " ".join(str(value).split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_|~])", r"\\\1", text)


def markdown_table(table: Frame) -> str:
    """A dataframe as a Markdown table, with the index as the first column."""
    frame = table.reset_index()
    lines = [["" if name is None else str(name) for name in frame.columns], ["---"] * len(frame.columns)]
    lines += [[escape_cell(value) for value in row] for row in frame.itertuples(index=False)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
