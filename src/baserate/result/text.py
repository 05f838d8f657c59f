"""A result in words, for terminals and notebooks."""

from __future__ import annotations

import html as _html
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.errors import Option
from baserate.result.facts import facts, most_changed
from baserate.result.rates_note import rates_note
from baserate.support.text import printable, shortened

if TYPE_CHECKING:
    from baserate.result.record import Result

OF_POPULATION = Option("rates", "Rates.of_population(...)")  # an option that the text mentions
_SHOWN = 12  # Classes in a table; of more, those that changed most.
_LONGEST_NAME = 30


def summary(result: Result) -> str:
    """Several lines of plain text."""
    about = facts(result)
    lines = [_title(about), *(f"  {printable(line)}" for line in _statements(about)), ""]
    header, rows, hidden = _table(about)
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for name, *cells in [header, *rows]:
        aligned = "".join(f"  {cell.rjust(width)}" for cell, width in zip(cells, widths[1:], strict=True))
        lines.append(f"  {name.ljust(widths[0])}{aligned}".rstrip())
    return "\n".join(lines + ([f"  ... and {hidden} classes that changed less"] if hidden else []))


def html(result: Result) -> str:
    """A small HTML fragment; class names and other text of the caller are escaped."""
    about = facts(result)
    header, rows, hidden = _table(about)
    head, *body = (
        "<tr>" + "".join(_cell(tag, i, text) for i, text in enumerate(row)) + "</tr>"
        for tag, row in [("th", header), *(("td", row) for row in rows)]
    )
    more = f"<p>&hellip; and {hidden} classes that changed less</p>" if hidden else ""
    statements = "".join(f"<li>{_html.escape(line)}</li>" for line in _statements(about))
    return (
        f"<div><strong>{_html.escape(_title(about))}</strong><ul>{statements}</ul>"
        f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>{more}</div>"
    )


def _cell(tag: str, column: int, text: str) -> str:
    side = "left" if column == 0 else "right"
    return f"<{tag} style='text-align:{side};padding:0.1em 0.6em'>{_html.escape(text)}</{tag}>"


def _title(about: dict[str, Any]) -> str:
    kind = f"{'Bounded' if about['bounded'] else 'Unbounded'} adjustment for {_loss(about['loss'])}"
    if about["procedure"] == "prior":
        kind = "Prior probability adjustment"
    return f"{kind}: {counted(about['n_rows'], 'row')}, {about['n_classes']} classes"


def counted(n: int, what: str) -> str:
    """A number with its noun, in the plural unless it is 1: "1,000 rows", "2 classes"."""
    return f"{n:,} {what if n == 1 else what + ('es' if what.endswith('s') else 's')}"


def _statements(about: dict[str, Any]) -> list[str]:
    fall, is_prior = about["loss_reduction"], about["procedure"] == "prior"
    if np.isnan(fall):
        return ["made without rows, so nothing is guaranteed"]
    change = f"falls by at least {fall:.6g}" if fall >= 0 else f"may rise, by at most {-fall:.6g}"
    lines = [f"mean {'log ' if is_prior else ''}loss {change}, {about['condition']}"]
    if about["smoothing"]:
        lines.append(f"predictions were smoothed by {about['smoothing']:g}; the loss is relative to the smoothed ones")
    if is_prior:
        lines.append(f"the mean of the adjusted predictions misses the rates by up to {_bound(about['residual'])}")
        return lines
    lines.append(f"rates off by at most {_bound(about['residual'])}, duality gap at most {_bound(about['gap'])}")
    state = "converged" if about["converged"] else "NOT CONVERGED"
    lines.append(f"{state} in {about['n_passes']} passes ({about['engine']} engine)")
    if not np.isnan(about["rate_variation"]):
        lines.append(f"{rate_variation(about)}; if the rates are a population's, pass {OF_POPULATION}")
    note = rates_note(about)
    return lines if note is None else [*lines, note]


def rate_variation(about: dict[str, Any]) -> str:
    """By how much the rates of so many rows vary by chance, as the beginning of a sentence."""
    rows = f"{counted(about['n_rows'], 'row')} drawn at random"
    variation = f"vary by about +-{about['rate_variation']:.2g} (95 %)"
    return f"the rates of {rows} {variation} around those of their population"


def _bound(value: float) -> str:
    """Two digits, or the next power of ten where it is small; below 1e-12 it is rounding, which machines differ in."""
    if value >= 1e-6:
        return f"{value:.2g}"
    return f"{10.0 ** np.ceil(np.log10(max(value, 1e-12)) - 1e-9):.0e}"


def _loss(loss: str) -> str:
    return loss if len(loss) <= 60 else f"{loss.partition('(')[0]}(...)"


def _table(about: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]], int]:
    """Header, rows, and the number of classes that are not shown."""
    shown = most_changed(about, _SHOWN)
    requested = ["wanted"] if about["rates_kind"] == "exact" else ["at_least", "at_most"]
    columns = ["before", *requested, "achieved"]
    rows = [
        (_class_name(about, one["class"]), *(_number(one[column]) for column in columns), f"{one['shift']:+.4g}")
        for one in shown
    ]
    header = ("class", *(column.replace("_", " ") for column in columns), "shift")
    return header, rows, 0 if about["one_column"] else about["n_classes"] - len(shown)


def _class_name(about: dict[str, Any], name: Any) -> str:
    """A class name in one short line, without control characters that a terminal would obey."""
    if about["one_column"] and not about["classes_named"]:
        return "positive"
    return shortened(printable(str(name)), _LONGEST_NAME)


def _number(value: float) -> str:
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e3 else f"{value:.3g}"
