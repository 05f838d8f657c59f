"""A multi-label adjustment in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.result.text import class_name
from baserate.support.numbers import counted, format_column
from baserate.support.summary import Summary, Table

if TYPE_CHECKING:
    from baserate.multilabel.adjustment import MultilabelAdjustment

_SHOWN = 30  # Labels in the table; of more, those whose mean changed most.


def summary(result: MultilabelAdjustment) -> Summary:
    """The text and tables that terminals and notebooks show for a multi-label adjustment."""
    change = -np.abs(result.rates - result.before)
    shown = [int(j) for j in np.sort(np.argsort(change, kind="stable")[:_SHOWN])]
    hidden = len(result.labels) - len(shown)
    notes = [f"... and {counted(hidden, 'label')} that changed less"] if hidden else []
    return Summary(_title(result), _statements(result), [_table(result, shown)], notes)


def _title(result: MultilabelAdjustment) -> str:
    one = next(iter(result.results.values()))
    kind = "Bounded" if one.bounded else "Unbounded"
    size = f"{counted(one.n_rows, 'row')}, {counted(len(result.labels), 'label')}"
    return f"{kind} adjustment of each label for {one.loss!r}: {size}"


def _statements(result: MultilabelAdjustment) -> list[str]:
    certificate = result.certificate
    lines = [
        f"the sum of the mean losses of the labels falls by at least {certificate.total:.4g}, their mean by at least "
        f"{certificate.mean:.4g}, if the rates are right"
    ]
    if certificate.confidence is not None:
        lines.append(f"all rates from surveys are as stated with a confidence of at least {certificate.confidence:.4g}")
    left = len(result.labels) - len(result.results)
    if left:
        lines.append(f"{counted(left, 'label')} without a rate {'is' if left == 1 else 'are'} left unchanged")
    failed = [label for label, one in result.results.items() if not one.converged]
    if failed:
        lines.append(f"NOT CONVERGED: {', '.join(map(class_name, failed[:_SHOWN]))}")
    return lines


def _table(result: MultilabelAdjustment, shown: list[int]) -> Table:
    """One row per label."""
    adjusted = [result.results.get(result.labels[j]) for j in shown]
    low = _or_dash(adjusted, lambda one: one.certificate.bounds[0][1])
    high = _or_dash(adjusted, lambda one: one.certificate.bounds[1][1])
    is_exact = all(one is None or one.certificate.known.kind == "exact" for one in adjusted)
    return Table.of(
        {
            "label": [class_name(result.labels[j]) for j in shown],
            "before": format_column(result.before[shown]),
            **({"wanted": low} if is_exact else {"at least": low, "at most": high}),
            "achieved": format_column(result.rates[shown]),
            "loss reduction": _or_dash(adjusted, lambda one: one.certificate.loss_reduction),
        }
    )


def _or_dash(values: list[Any], number: Callable[[Any], float]) -> list[str]:
    """A number for each value that is there, all in the same format, and a dash for the others."""
    texts = iter(format_column([number(value) for value in values if value is not None]))
    return ["-" if value is None else next(texts) for value in values]
