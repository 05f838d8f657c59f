"""An adjustment in words, for terminals and notebooks."""

from __future__ import annotations

import html as _html
from typing import TYPE_CHECKING

import numpy as np

from baserate.support.arrays import FloatArray

if TYPE_CHECKING:
    from baserate.result.adjustment import Adjustment

_SHOWN = 12  # classes in a table; of more, those that changed most


def summary(result: Adjustment) -> str:
    """Several lines of plain text."""
    lines = [_title(result), *(f"  {line}" for line in _facts(result)), ""]
    header, rows, hidden = _table(result)
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for name, *cells in [header, *rows]:
        aligned = "".join(f"  {cell.rjust(width)}" for cell, width in zip(cells, widths[1:], strict=True))
        lines.append(f"  {name.ljust(widths[0])}{aligned}".rstrip())
    return "\n".join(lines + ([f"  ... and {hidden} classes that changed less"] if hidden else []))


def html(result: Adjustment) -> str:
    """A small HTML fragment; everything that comes from outside is escaped."""
    header, rows, hidden = _table(result)
    head, *body = (
        "<tr>" + "".join(_cell(tag, i, text) for i, text in enumerate(row)) + "</tr>"
        for tag, row in [("th", header), *(("td", row) for row in rows)]
    )
    more = f"<p>&hellip; and {hidden} classes that changed less</p>" if hidden else ""
    facts = "".join(f"<li>{_html.escape(fact)}</li>" for fact in _facts(result))
    return (
        f"<div><strong>{_html.escape(_title(result))}</strong><ul>{facts}</ul>"
        f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>{more}</div>"
    )


def _cell(tag: str, column: int, text: str) -> str:
    side = "left" if column == 0 else "right"
    return f"<{tag} style='text-align:{side};padding:0.1em 0.6em'>{_html.escape(text)}</{tag}>"


def _title(result: Adjustment) -> str:
    kind = {"prior": "Prior probability adjustment"}.get(
        result.procedure, f"{'Bounded' if result.bounded else 'Unbounded'} adjustment for {_loss(result)}"
    )
    return f"{kind}: {counted(result.n_rows, 'row')}, {result.model.n_classes} classes"


def counted(n: int, what: str) -> str:
    """A number with its noun, in the plural if it is not 1: "1,000 rows", "2 classes"."""
    return f"{n:,} {what if n == 1 else what + ('es' if what.endswith('s') else 's')}"


def _facts(result: Adjustment) -> list[str]:
    certificate = result.certificate
    fall, prior = certificate.loss_reduction, result.procedure == "prior"
    change = f"falls by at least {fall:.6g}" if fall >= 0 else f"may rise, by at most {-fall:.6g}"
    weighted = certificate.batch_size != result.n_rows
    condition = certificate.known.condition(approximate=weighted)
    if np.isnan(fall):
        return ["made without rows, so nothing is guaranteed for any"]
    facts = [f"mean {'log ' if prior else ''}loss {change}, {condition}"]
    if result.model.reading.smoothing:
        facts.append(f"predictions were smoothed by {result.model.reading.smoothing:g}, and are compared as smoothed")
    if prior:
        facts.append(f"the mean of the answer misses the wanted rates by up to {_bound(certificate.residual)}")
    else:
        gap = _bound(certificate.gap)
        facts.append(f"rates off by at most {_bound(certificate.residual)}, duality gap at most {gap}")
        state = "converged" if result.converged else "NOT CONVERGED"
        facts.append(f"{state} in {result.n_passes} passes ({result.engine} engine)")
    return facts


def _bound(value: float) -> str:
    """Two digits, or the next power of ten where it is small; below 1e-12 lies rounding, another on every machine."""
    if value >= 1e-6:
        return f"{value:.2g}"
    return f"{10.0 ** np.ceil(np.log10(max(value, 1e-12)) - 1e-9):.0e}"


def _loss(result: Adjustment) -> str:
    name = repr(result.loss)
    return name if len(name) <= 60 else f"{type(result.loss).__name__}(...)"


def _table(result: Adjustment) -> tuple[tuple[str, ...], list[tuple[str, ...]], int]:
    """Header, rows, and how many classes are not shown."""
    k = result.model.n_classes
    names = [str(j) for j in range(k)] if result.classes is None else [_printable(str(c)) for c in result.classes]
    names = [name if len(name) <= 30 else name[:27] + "..." for name in names]
    order = np.arange(k)
    if k > _SHOWN:
        order = np.sort(np.argsort(-np.abs(result.rates - result.before), kind="stable")[:_SHOWN])
    columns: list[tuple[str, list[str]]] = [("before", _numbers(result.before))]
    if result.certificate.known.kind == "exact":
        columns.append(("wanted", _numbers(result.wanted)))
    else:
        low, high = result.certificate.bounds
        columns += [("at least", _numbers(low)), ("at most", _numbers(high))]
    columns += [("achieved", _numbers(result.rates)), ("shift", [f"{value:+.4g}" for value in result.shift])]
    header = ("class", *(name for name, _ in columns))
    return header, [(names[j], *(cells[j] for _, cells in columns)) for j in order], k - len(order)


def _printable(name: str) -> str:
    """A name in one line, without codes that a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in name)


def _numbers(values: FloatArray) -> list[str]:
    return [_number(value) for value in values]


def _number(value: float) -> str:
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e3 else f"{value:.3g}"
