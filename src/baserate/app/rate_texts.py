"""Rates in the tables and sentences of an answer, in percent."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from baserate.app.charts import percentages
from baserate.report.formatting import class_name

_LISTED = 4  # Classes whose ranges fit into a sentence.
_RATES = ("before", "wanted", "at_least", "at_most", "achieved")


def rows_in_percent(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a table whose rates are percentages instead of shares."""
    return [{key: _percent(text) if key in _RATES else text for key, text in row.items()} for row in rows]


def _percent(text: str) -> str:
    try:
        return f"{Decimal(text).scaleb(2):f} %"
    except InvalidOperation:
        return text


def condition(about: dict[str, Any], text: str) -> str:
    """The condition of a guarantee, with ranges of rates in percent."""
    start, clause, _ = text.partition(", if the rate")
    if not clause or about["rates_kind"] != "between":
        return text
    known = [one for one in about["classes"] if one["at_least"] > 0 or one["at_most"] < 1]
    if about["n_classes"] == 2:
        known = about["classes"][1:]
    if len(known) > _LISTED:
        return f"{start}, if the rate of each class is within its range in the table below."
    texts = percentages([one[side] for one in known for side in ("at_least", "at_most")])
    ranges = [
        f"{class_name(about, one['class'])} {_range(one, *texts[2 * i : 2 * i + 2])}" for i, one in enumerate(known)
    ]
    return f"{start}, if the rates of these rows are: {', '.join(ranges)}."


def _range(one: dict[str, Any], low: str, high: str) -> str:
    if one["at_least"] == one["at_most"]:
        return low
    if one["at_least"] <= 0:
        return f"at most {high}"
    return f"at least {low}" if one["at_most"] >= 1 else f"between {low} and {high}"
