"""A result with rates per group in words, for terminals and notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.inputs.group_labels import group_name
from baserate.rates.margins import ALL_ROWS
from baserate.result.group_facts import group_facts, most_changed_groups
from baserate.result.grouped_certificate import level_sentence
from baserate.result.groups import EACH_GROUP, MarginResult
from baserate.result.text import accuracy, class_name, guarantee
from baserate.support.numbers import counted, format_column
from baserate.support.summary import Summary, Table

if TYPE_CHECKING:
    from baserate.result.grouped import GroupedResult

MAX_GROUPS = 12
"""Number of groups in a table; of more, those that changed most."""


def summary(result: GroupedResult) -> Summary:
    """What a person sees of a result, in terminals and notebooks."""
    about = group_facts(result)
    tables = [_table(result, margin, about) for margin in result.groups.margins]
    return Summary(_title(about), _statements(about), tables, _notes(result))


def _title(about: dict[str, Any]) -> str:
    kind = f"{'Bounded' if about['bounded'] else 'Unbounded'} adjustment for {about['loss'][:60]}"
    margins = ", ".join(
        f"{counted(one['n_groups'], 'group')} by {one['name']}" for one in about["margins"] if one["keys"]
    )
    return f"{kind}: {counted(about['n_rows'], 'row')}, {about['n_classes']} classes, {margins or 'rates of all rows'}"


def _statements(about: dict[str, Any]) -> list[str]:
    lines = [guarantee(about["loss_reduction"], about["condition"])]
    if np.isnan(about["loss_reduction"]):
        return lines
    lines.append(level_sentence(about["guarantee_level"]))
    if about["smoothing"]:
        lines.append(f"predictions were smoothed by {about['smoothing']:g}; the loss is relative to the smoothed ones")
    state = "converged" if about["converged"] else "NOT CONVERGED"
    lines.append(accuracy(about["residual"], about["gap"]))
    return [*lines, f"{state} in {about['n_passes']} passes ({about['engine']} engine)"]


def _table(result: GroupedResult, margin: MarginResult, about: dict[str, Any]) -> Table:
    """One line per group, with the numbers of the class that changed most in it."""
    shown = most_changed_groups(margin, MAX_GROUPS)
    change = np.abs(margin.achieved - margin.before)[shown]
    of = np.ones(len(shown), dtype=np.intp) if about["one_column"] else change.argmax(axis=1)
    numbers = {"before": margin.before, "wanted": margin.wanted}
    if not margin.is_exact:
        numbers = {"before": margin.before, "at least": margin.low, "at most": margin.high}
    numbers["achieved"] = margin.achieved
    columns = {
        margin.name: [class_name(group_name(margin.labels[i]) or ALL_ROWS) for i in shown],
        "rows": [f"{n:,}" for n in margin.n_rows[shown]],
    }
    if not about["one_column"]:
        columns["class"] = [class_name(about["classes"][j]["class"]) for j in of]
    columns |= {name: format_column(values[shown, of]) for name, values in numbers.items()}
    if about["guarantee_level"] == EACH_GROUP:
        columns["certified"] = format_column(result.groups.certified[margin.component[shown]])
    return Table.of(columns)


def _notes(result: GroupedResult) -> list[str]:
    notes = []
    if result.model.n_classes > 2 and not result.one_column:
        notes.append("each line has the class that changed most in the group")
    hidden = [(margin.name, margin.n_groups - MAX_GROUPS) for margin in result.groups.margins]
    notes += [f"... and {n:,} groups by {name} that changed less" for name, n in hidden if n > 0]
    return [*notes, "by_group() has all groups and classes"]
