"""A multi-label adjustment in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.result.text import counted
from baserate.support.text import printable, shortened

if TYPE_CHECKING:
    from baserate.multilabel.adjustment import MultilabelAdjustment

_SHOWN = 30  # Labels in the table; of more, those whose mean changed most.
_LONGEST_NAME = 30


def summary(result: MultilabelAdjustment) -> str:
    """Several lines of plain text, with a table of the labels."""
    header = ("label", "before", "wanted", "achieved", "loss reduction")
    change = -np.abs(result.rates - result.before)
    shown = np.sort(np.argsort(change, kind="stable")[:_SHOWN])
    rows = [header, *(_row(result, int(j)) for j in shown)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    lines = [_title(result), *(f"  {line}" for line in _statements(result)), ""]
    for name, *cells in rows:
        aligned = "".join(f"  {cell.rjust(width)}" for cell, width in zip(cells, widths[1:], strict=True))
        lines.append(f"  {name.ljust(widths[0])}{aligned}".rstrip())
    hidden = len(result.labels) - len(shown)
    return "\n".join(lines + ([f"  ... and {counted(hidden, 'label')} that changed less"] if hidden else []))


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
        lines.append(f"all rates are right with a confidence of at least {certificate.confidence:.4g}")
    left = len(result.labels) - len(result.results)
    if left:
        lines.append(f"{counted(left, 'label')} without a rate {'is' if left == 1 else 'are'} left unchanged")
    failed = [label for label, one in result.results.items() if not one.converged]
    if failed:
        lines.append(f"NOT CONVERGED: {', '.join(map(_name, failed[:_SHOWN]))}")
    return lines


def _row(result: MultilabelAdjustment, j: int) -> tuple[str, ...]:
    label, before, achieved = result.labels[j], _number(result.before[j]), _number(result.rates[j])
    one = result.results.get(label)
    if one is None:
        return _name(label), before, "-", achieved, "-"
    wanted = _number(one.wanted[1])
    if one.certificate.known.kind != "exact":
        low, high = (float(bound[1]) for bound in one.certificate.bounds)
        wanted = f"{_number(low)} to {_number(high)}"
    return _name(label), before, wanted, achieved, f"{one.certificate.loss_reduction:.4g}"


def _name(label: Any) -> str:
    return shortened(printable(str(label)), _LONGEST_NAME)


def _number(value: float) -> str:
    return f"{value:.4f}" if value == 0 or abs(value) >= 1e-3 else f"{value:.3g}"
