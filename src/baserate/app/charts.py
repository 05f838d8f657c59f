"""Positions of the marks in the pictures, in percent of the width and height. The templates draw them as SVG.

Positions in percent, so that the pictures fit every screen, and text keeps its size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from baserate.app.what_if import Matrix
from baserate.report.formatting import class_name
from baserate.result.facts import most_changed
from baserate.result.record import Result
from baserate.support.numbers import format_column

MAX_CLASSES = 12
"""Classes in a picture. If there are more, it shows those that changed most."""

_NEGLIGIBLE = 1e-3  # Bars below this share of the longest one are not drawn.
_POINTS = 400
_NICE = (0.05, 0.1, 0.2, 0.5, 1.0)  # ends of the axis of rates
_INSET = 1.5  # percent of the width that is left free on both sides for the marks at the ends


def rate_rows(about: dict[str, Any]) -> list[dict[str, Any]]:
    """One dictionary per shown class: its numbers as text, and the positions of their marks."""
    shown = most_changed(about, MAX_CLASSES)
    keys = [key for key in ("before", "wanted", "at_least", "at_most", "achieved") if key in shown[0]]
    values = np.array([[one[key] for key in keys] for one in shown])
    end = axis_end(np.nanmax(values[:, [i for i, key in enumerate(keys) if key not in ("at_least", "at_most")]]))
    flat = percentages([one[key] for key in keys for one in shown])  # one format for all, since they are compared
    texts = {key: flat[i * len(shown) : (i + 1) * len(shown)] for i, key in enumerate(keys)}
    rows = []
    for i, one in enumerate(shown):
        places = {f"x_{key}": _place(one[key], end) for key in keys}
        row = {"name": class_name(about, one["class"]), "end": f"{100 * end:g} %", **places}
        row |= {key: texts[key][i] for key in keys}
        if "at_least" in keys:
            row["is_exact"] = one["at_least"] == one["at_most"]
            row["x_width"] = round(places["x_at_most"] - places["x_at_least"], 3)
        rows.append(row)
    return rows


def sensitivity_rows(about: dict[str, Any]) -> list[dict[str, Any]]:
    """One dictionary per class whose rate the guarantee depends on, the most important first.

    With two classes there is one rate: that of the second class.
    """
    shown = [one for one in about["classes"] if np.isfinite(one.get("sensitivity", np.nan))]
    if about["n_classes"] == 2 and len(shown) == 2:  # as one rate rises, the other falls
        shown = [shown[1] | {"sensitivity": shown[1]["sensitivity"] - shown[0]["sensitivity"]}]
    largest = max((abs(one["sensitivity"]) for one in shown), default=0.0)
    shown = [one for one in shown if abs(one["sensitivity"]) > _NEGLIGIBLE * largest]
    shown = sorted(shown, key=lambda one: -abs(one["sensitivity"]))[:MAX_CLASSES]
    texts = format_column((one["sensitivity"] / 100 for one in shown), signed=True)
    return [
        {
            "name": class_name(about, one["class"]),
            "text": text,
            "x": round(50 + min(0.0, 48 * one["sensitivity"] / largest), 2),
            "width": round(max(48 * abs(one["sensitivity"]) / largest, 0.2), 2),
            "is_positive": one["sensitivity"] >= 0,
        }
        for one, text in zip(shown, texts, strict=True)
    ]


def movement(result: Result, sample: Matrix, about: dict[str, Any]) -> dict[str, Any]:
    """Some rows before and after the adjustment, for the class that changed most; the second one of two."""
    probs = sample.probs[:: max(len(sample.probs) // _POINTS, 1)]
    after = result.apply(probs[:, 1] if result.one_column else probs)  # type: ignore[attr-defined]  # of Adjustment
    change = [abs(one["achieved"] - one["before"]) for one in about["classes"]]
    j = 1 if len(change) == 2 else int(np.argmax(change))
    pairs = zip(probs[:, j].tolist(), (after if result.one_column else after[:, j]).tolist(), strict=True)
    points = sorted({(round(100 * x, 1), round(100 - 100 * min(max(y, 0.0), 1.0), 1)) for x, y in pairs})
    return {"name": class_name(about, about["classes"][j]["class"]), "points": points, "n_rows": len(probs)}


def axis_end(largest: float) -> float:
    """The end of an axis that begins at 0."""
    return next((end for end in _NICE if largest <= end), 1.0)


def percentages(values: list[float]) -> list[str]:
    """Rates as percentages, all with the same number of decimals."""
    return [f"{text} %" for text in format_column((100 * value for value in values), min_decimals=1)]


def _place(value: float, end: float) -> float:
    inside = min(max(value / end, 0.0), 1.0) if np.isfinite(value) else 0.0
    return round(_INSET + (100 - 2 * _INSET) * inside, 3)
