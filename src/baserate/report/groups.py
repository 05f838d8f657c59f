"""What a report says about an adjustment to rates per group."""

from __future__ import annotations

from typing import Any

import numpy as np

from baserate.report.formatting import class_name, format_number, loss_phrase
from baserate.result.group_facts import group_rows, most_changed_groups
from baserate.result.grouped import GroupedResult
from baserate.result.groups import EACH_GROUP, MarginResult
from baserate.support.arrays import IndexArray
from baserate.support.numbers import counted, format_column

MAX_ROWS = 6000
"""Lines of the table of a margin. If it needs more, it has the groups that changed most."""

_UNCHANGED = 1e-12  # A guaranteed fall below this is rounding error.
_SCOPES = {
    EACH_GROUP: "The groups do not overlap, so each group has a guarantee of its own, which is in its table.",
    "all rows": "The groups overlap, so this holds for all rows together. The loss of a single group may rise.",
    "each component": "Some groups overlap. The guarantee holds for all rows, and for each set of connected groups. "
    "The loss of a single group may rise.",
}


def group_page(result: GroupedResult, about: dict[str, Any]) -> dict[str, Any]:
    """The parts of a report that differ from those of an adjustment without groups."""
    return {
        "description": _description(about),
        "guarantee": _guarantee(about) | {"check": ""},
        "caveats": _caveats(about),
        "is_exact": True,
        "margins": [_margin(result, about, i) for i, margin in enumerate(result.groups.margins) if margin.keys],
        "details": _details(about),
        "code": _code(about),
    }


def _description(about: dict[str, Any]) -> str:
    rows = f"{counted(about['n_rows'], 'row')} with {about['n_classes']} classes"
    groups = ", ".join(f"{counted(one['n_groups'], 'group')} by {one['name']}" for one in about["margins"])
    kind = "Bounded" if about["bounded"] else "Unbounded"
    return (
        f"{kind} adjustment for the {loss_phrase(about)} made the smallest change to the predictions of {rows} that "
        f"brings the mean of each group to its class rates, or between their bounds. There are {groups}. The size of a "
        "change is measured by the loss: it is the extra loss that the old prediction is expected to have if the new "
        "one is right."
    )


def _guarantee(about: dict[str, Any]) -> dict[str, str]:
    fall, mean = about["loss_reduction"], "weighted mean" if about["weighted"] else "mean"
    if fall < _UNCHANGED:
        return {"headline": "The predictions did not have to change, so no loss changes.", "condition": ""}
    return {
        "headline": f"The {mean} {loss_phrase(about)} of these rows falls by at least {format_number(fall)}.",
        "condition": f"This holds whatever the labels are, {about['condition']}. {_SCOPES[about['guarantee_level']]}",
    }


def _caveats(about: dict[str, Any]) -> list[str]:
    lines = ["Nothing is guaranteed for other rows, for other losses or for single rows."]
    if not about["converged"]:
        lines.append(
            "The solver stopped before it reached the tolerance: the rates of a group are off by up to "
            f"{format_number(about['residual'])}. The guarantee holds nevertheless."
        )
    lines.append(
        "Exact rates are those of the rows at hand. The rates of a small group vary by chance around those of its "
        "population. State rates of a population with Rates.by(..., kind='population'), and counts with kind='counts'."
    )
    if about["smoothing"]:
        lines.append(
            f"{about['smoothing']:g} was added to every probability first. The change of the loss is measured from "
            "these smoothed predictions."
        )
    if about["may_be_negative"]:
        lines.append("Unbounded adjustment can produce entries below 0 or above 1, which are not probabilities.")
    return lines


def _details(about: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("rows", f"{about['n_rows']:,}"),
        ("classes", f"{about['n_classes']:,}"),
        *((f"groups by {one['name']}", f"{one['n_groups']:,}") for one in about["margins"]),
        ("sets of connected groups", f"{about['n_components']:,}"),
        ("loss", about["loss"][:200]),
        ("engine", about["engine"]),
        ("largest error of a rate", format_number(about["residual"])),
        ("duality gap (at most this far from the smallest change)", format_number(about["gap"])),
        ("passes over the data", str(about["n_passes"])),
        ("converged", "yes" if about["converged"] else "no"),
    ]


def _margin(result: GroupedResult, about: dict[str, Any], number: int) -> dict[str, Any]:
    """The section about one margin."""
    margin = result.groups.margins[number]
    classes = [1] if about["one_column"] else list(range(about["n_classes"]))
    shown = most_changed_groups(margin, max(MAX_ROWS // len(classes), 1))
    hidden = margin.n_groups - len(shown)
    listed = counted(len(shown), "group")
    return {
        "name": margin.name,
        "title": f"Groups by {margin.name}",
        "picture": f"groups{number}",
        "caption": "" if margin.is_exact else "The bars show the possible rates.",
        "summary": f"The {listed} that changed most" if hidden else f"All {listed}",
        "hidden": f"{counted(hidden, 'group')} that changed less are not listed." if hidden else "",
        "is_exact": margin.is_exact,
        "certified": about["guarantee_level"] == EACH_GROUP,
        "rows": _rows(result, about, margin, shown, classes),
    }


def _rows(
    result: GroupedResult, about: dict[str, Any], margin: MarginResult, shown: IndexArray, classes: list[int]
) -> list[dict[str, str]]:
    """One line per group and class, as text."""
    each = [(one, j) for one in group_rows(result, margin, shown) for j in classes]
    rates = ("before", "wanted", "at_least", "at_most", "achieved")
    columns = {
        "group": [one["group"] for one, _ in each],
        "n_rows": [f"{one['n_rows']:,}" for one, _ in each],
        "class": [class_name(about, about["classes"][j]["class"]) for _, j in each],
        **{name: format_column(np.array([one[name][j] for one, j in each])) for name in rates},
        "shift": format_column((one["shift"][j] for one, j in each), signed=True),
        "certified": format_column(one["certified"] for one, _ in each),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _code(about: dict[str, Any]) -> str:
    """The call that makes the adjustment again, without the tables and the predictions."""
    keys = [one["keys"] if len(one["keys"]) > 1 else next(iter(one["keys"]), None) for one in about["margins"]]
    parts = ["rates" if key is None else f"br.Rates.by({key!r}, table{i})" for i, key in enumerate(keys, start=1)]
    rates = parts[0] if len(parts) == 1 and keys[0] is not None else f"br.Margins({', '.join(parts)})"
    options = "" if about["loss"] == "Log()" else f", loss={about['loss_key']!r}"
    options += "" if about["bounded"] else ", bounded=False"
    comment = "# probs: the predictions; groups: the columns that define the groups; tables: the rates of each group"
    return f"import baserate as br\n{comment}\nresult = br.adjust(probs, {rates}, groups=groups{options})"
