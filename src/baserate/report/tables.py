"""The tables of a report, built from the facts about a result, the changes of its rows and a comparison."""

from __future__ import annotations

from typing import Any

import numpy as np

from baserate.analysis.comparison import Comparison
from baserate.analysis.row_changes import RowChanges
from baserate.losses.base import short_name
from baserate.report.formatting import class_name, format_number, shortened
from baserate.result.text import shown_shifts
from baserate.support.arrays import FloatArray
from baserate.support.numbers import format_column

THIS = "this adjustment"
"""The name of the adjustment that the report is about, among other procedures."""

_BOUNDS = {"low": "active lower bound", "high": "active upper bound", "exact": "exact rate", "radius": "active radius"}
_NOT_MOVED = 1e-12  # Rows whose divergence is below this did not change.


def rates_table(about: dict[str, Any], classes: list[dict[str, Any]]) -> list[dict[str, str]]:
    """One row per class: its rate before, as requested, and after."""
    rates = [name for name in ("before", "wanted", "at_least", "at_most", "achieved") if name in classes[0]]
    changes = (100 * (one["achieved"] - one["before"]) for one in classes)
    columns = {
        "name": [class_name(about, one["class"]) for one in classes],
        **{column: format_column(one[column] for one in classes) for column in rates},
        "change": format_column(changes, signed=True, min_decimals=1),
        # With rates per group there is one shift per group.
        **({"shift": shown_shifts(about, classes)} if "shift" in classes[0] else {}),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def details(about: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values that are of interest to an expert."""
    lines = [("rows", f"{about['n_rows']:,}")]
    if about["batch_size"] != about["n_rows"]:
        lines.append(("effective number of rows, given their weights", f"{about['batch_size']:,}"))
    lines += [("classes", f"{about['n_classes']:,}"), ("loss", about["loss"][:200]), ("engine", about["engine"])]
    if about["procedure"] != "prior":
        lines += [
            ("largest error of a rate", format_number(about["residual"])),
            ("duality gap (at most this far from the smallest change)", format_number(about["gap"])),
            ("passes over the data", str(about["n_passes"])),
            ("converged", "yes" if about["converged"] else "no"),
        ]
    for bound in about["active"] if about["rates_kind"] != "exact" else ():
        of = "distance from the stated rates" if bound["class"] is None else class_name(about, bound["class"])
        lines.append((_BOUNDS[bound["side"]], f"{of}: {format_number(bound['value'])}"))
    return lines


def extreme_rows(about: dict[str, Any], changes: RowChanges) -> list[dict[str, Any]]:
    """The rows that changed most, with their most probable class before and after."""
    shown = [one for one in changes.extremes if one.divergence > _NOT_MOVED]

    def top_classes(rows: list[FloatArray]) -> list[dict[str, str]]:
        names = [class_name(about, about["classes"][int(row.argmax())]["class"]) for row in rows]
        probabilities = format_column(row.max() for row in rows)
        return [{"name": shortened(n), "probability": p} for n, p in zip(names, probabilities, strict=True)]

    columns = {
        "row": [one.row for one in shown],
        "divergence": format_column(one.divergence for one in shown),
        "before": top_classes([one.before for one in shown]),
        "after": top_classes([one.after for one in shown]),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def comparison_table(comparison: Comparison, about: dict[str, Any]) -> dict[str, Any]:
    """Mean losses of all procedures, with a legend, and notes on those that could not be computed."""
    losses = [short_name(loss) for loss in comparison.losses]
    notes = list(comparison.notes)
    if about["smoothing"]:
        notes.append(f"as predicted: after {about['smoothing']:g} was added to every probability")
    tables = [comparison.table(j).rows for j in range(len(losses))]
    rows = {
        name: [dict(zip(("mean", "change", "interval"), row[1:4], strict=True)) for row in of]
        for name, *of in zip(comparison.procedures, *tables, strict=True)
    }
    twin = _same_procedure(comparison)
    if twin is not None:  # its interval also accounts for the fact that each batch gets its own adjustment
        rows[THIS] = rows.pop(twin)
    return {
        "losses": losses,
        "rows": [{"procedure": name, "cells": cells} for name, cells in rows.items()],
        "confidence": f"{100 * comparison.confidence:g} %",
        "legend": comparison.legend(joint=False),
        "notes": notes,
    }


def _same_procedure(comparison: Comparison) -> str | None:
    """The procedure that gives the same predictions as this adjustment, if there is one."""
    this = comparison.procedures.index(THIS)
    same = np.isclose(comparison.mean, comparison.mean[this], rtol=0, atol=1e-9).all(axis=1)
    same[[0, this]] = False  # the original predictions, which an adjustment may leave unchanged, have their own row
    return comparison.procedures[int(same.argmax())] if same.any() else None
