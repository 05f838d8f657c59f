"""What the results say, in numbers: cells of the paper's figures, and where tasks were skipped."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

Frame = Any  # a pandas DataFrame

MEASURES = {"brier": "Brier score", "log": "log loss"}
"""The losses that are measured, as people call them."""

SIZES = ("high", "medium", "low")
"""Thirds of the shifted sets by the distance between old and new class rates, as the rows of the figures."""

ABSOLUTE_ERRORS = (0.0, 0.01, 0.02, 0.04, 0.08)
"""Columns of the figures."""


def read_results(path: Path) -> Frame:
    """The results with two more columns: ``size`` of the shift and ``off``, the error without its sign."""
    import pandas as pd

    frame = pd.read_parquet(path)
    shifted = frame.drop_duplicates(["set", "shift"])[["set", "shift", "distance"]]
    rank = shifted["distance"].rank(method="first").to_numpy() - 1  # ties are split, so that the thirds are equal
    third = np.minimum((3 * rank / len(shifted)).astype(int), 2)
    shifted = shifted.assign(size=pd.Categorical(np.array(SIZES[::-1])[third], categories=SIZES))
    frame = frame.merge(shifted.drop(columns="distance"), on=["set", "shift"], how="left")
    return frame.assign(off=frame["error"].abs())


def cells(frame: Frame, measure: str) -> Frame:
    """For each adjuster, size of shift and error: mean and median relative reduction, and the share of tasks harmed."""
    reduction = f"{measure}_reduction"
    known = frame[frame[reduction].notna()]
    groups = known.groupby(["adjuster", "size", "off"], observed=True)[reduction]
    return groups.agg(
        tasks="size",
        mean="mean",
        median="median",
        worse=lambda values: float((values < -1e-12).mean()),
        infinite=lambda values: int(np.isneginf(values).sum()),
    ).reset_index()


def means(frame: Frame, measure: str, adjuster: str) -> Frame:
    """Mean relative reduction by one adjuster, a row a size of shift and a column an error."""
    return _cells_of(frame, measure, adjuster).mean().unstack("off").reindex(list(SIZES))


def medians(frame: Frame, measure: str, adjuster: str) -> Frame:
    """The same by medians."""
    return _cells_of(frame, measure, adjuster).median().unstack("off").reindex(list(SIZES))


def _cells_of(frame: Frame, measure: str, adjuster: str) -> Any:
    return frame[frame["adjuster"] == adjuster].groupby(["size", "off"], observed=True)[f"{measure}_reduction"]


def n_tasks(frame: Frame) -> int:
    """Adjustment tasks: combinations of prediction set, shift and stated rates."""
    return len(frame.drop_duplicates(["set", "shift", "error"]))


def skipped_by_cause(path: Path) -> Frame:
    """How many tasks were skipped for which cause, a column a shift."""
    import pandas as pd

    frame = pd.read_parquet(path)
    return pd.crosstab(frame["skipped"], frame["shift"])


def spaced(value: int) -> str:
    """A whole number with a blank between groups of three digits."""
    return f"{value:,}".replace(",", " ")


def counted(value: int, noun: str) -> str:
    """So many things."""
    return f"{spaced(value)} {noun}{'' if value == 1 else 's'}"


def cell(value: Any) -> str:
    """A value for a table in Markdown, whatever it holds."""
    text = " ".join(str(value).split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_|~])", r"\\\1", text)


def markdown(table: Frame) -> str:
    """A table as Markdown, its index as the first column."""
    whole = table.reset_index()
    lines = [["" if name is None else str(name) for name in whole.columns], ["---"] * len(whole.columns)]
    lines += [[cell(value) for value in row] for row in whole.itertuples(index=False)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
