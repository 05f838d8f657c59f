"""The tables of a report, built from the facts about a result, the changes of its rows and a comparison."""

from __future__ import annotations

from typing import Any

import numpy as np

from baserate.analysis.comparison import Comparison
from baserate.analysis.row_changes import RowChanges
from baserate.losses.base import short_name
from baserate.report.formatting import class_name, format_number, format_signed, shortened
from baserate.support.arrays import FloatArray

_BOUNDS = {"low": "active lower bound", "high": "active upper bound", "exact": "exact rate", "radius": "active radius"}
_NOT_MOVED = 1e-12  # Rows whose divergence is below this did not change.


def rates_table(about: dict[str, Any], classes: list[dict[str, Any]]) -> list[dict[str, str]]:
    """One row per class: its rate before, as requested, and after."""
    return [
        {
            "name": class_name(about, one["class"]),
            **{column: format_number(one[column]) for column in ("before", "wanted", "at_least", "at_most")},
            "achieved": format_number(one["achieved"]),
            "change": f"{100 * (one['achieved'] - one['before']):+.1f}",
            "shift": format_signed(one["shift"]),
        }
        for one in classes
    ]


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

    def top_class(row: FloatArray) -> dict[str, str]:
        j = int(row.argmax())
        name = class_name(about, about["classes"][j]["class"])
        return {"name": shortened(name), "probability": format_number(row[j])}

    return [
        {
            "row": one.row,
            "divergence": format_number(one.divergence),
            "before": top_class(one.before),
            "after": top_class(one.after),
        }
        for one in changes.extremes
        if one.divergence > _NOT_MOVED
    ]


def comparison_table(comparison: Comparison, about: dict[str, Any]) -> dict[str, Any]:
    """Mean losses of all procedures, with notes on those that could not be computed."""
    losses = [short_name(loss) for loss in comparison.losses]
    notes = list(comparison.notes)
    if about["smoothing"]:
        notes.append(f"as predicted: after {about['smoothing']:g} was added to every probability")
    rows = [
        {"procedure": name, "cells": [_loss_cells(comparison, i, j) for j in range(len(losses))]}
        for i, name in enumerate(comparison.procedures)
    ]
    return {"losses": losses, "rows": rows, "confidence": f"{100 * comparison.confidence:g} %", "notes": notes}


def _loss_cells(comparison: Comparison, i: int, j: int) -> dict[str, str]:
    mean, change = comparison.mean[i, j], comparison.change[i, j]
    interval = (comparison.low[i, j], comparison.high[i, j])
    has_change = i > 0 and bool(np.isfinite(change))  # the first row is what the others are compared with
    return {
        "mean": f"{mean:.4f}" if np.isfinite(mean) else format_number(mean),
        "change": f"{change:+.4f}" if has_change else "",
        "interval": f"{interval[0]:+.4f} to {interval[1]:+.4f}" if has_change and np.isfinite(interval).all() else "",
    }
