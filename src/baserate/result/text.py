"""A result in words, for terminals and notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.errors import Option
from baserate.result.facts import facts, most_changed
from baserate.result.rates_note import ADVISE, rates_note
from baserate.support.numbers import counted, format_column
from baserate.support.summary import Summary, Table
from baserate.support.text import printable, shortened

if TYPE_CHECKING:
    from baserate.result.record import Result

OF_POPULATION = Option("rates", "Rates.of_population(...)")
OPTIONS = (OF_POPULATION, ADVISE)
"""What the text mentions that is written differently on the command line."""

MAX_CLASSES = 12
"""Number of classes in a table; of more, those that changed most."""

_LONGEST_NAME = 30


def summary(result: Result) -> Summary:
    """The text and tables that terminals and notebooks show for a result."""
    about = facts(result)
    shown = most_changed(about, MAX_CLASSES)
    hidden = 0 if about["one_column"] else about["n_classes"] - len(shown)
    notes = [f"... and {hidden} classes that changed less"] if hidden else []
    return Summary(_title(about), _statements(about), [_table(about, shown)], notes)


def _title(about: dict[str, Any]) -> str:
    kind = f"{'Bounded' if about['bounded'] else 'Unbounded'} adjustment for {_loss(about['loss'])}"
    if about["procedure"] == "prior":
        kind = "Prior probability adjustment"
    return f"{kind}: {counted(about['n_rows'], 'row')}, {about['n_classes']} classes"


def _statements(about: dict[str, Any]) -> list[str]:
    fall, is_prior = about["loss_reduction"], about["procedure"] == "prior"
    loss = "log loss" if is_prior else "loss"
    lines = [_rounding(fall, loss) if about["unchanged"] and fall < 0 else guarantee(fall, about["condition"], loss)]
    if np.isnan(fall):
        return lines
    if about["smoothing"]:
        lines.append(f"the fall is relative to smoothed predictions: {about['smoothing']:g} was added to each entry")
    if is_prior:
        lines.append(f"the mean of the adjusted predictions misses the rates by up to {_bound(about['residual'])}")
        return lines
    lines.append(accuracy(about["residual"], about["gap"]))
    state = "converged" if about["converged"] else "NOT CONVERGED"
    lines.append(f"{state} in {about['n_passes']} passes ({about['engine']} engine)")
    if not np.isnan(about["rate_variation"]):
        lines.append(f"{rate_variation(about)}; for rates of a population, pass {OF_POPULATION}")
    note = rates_note(about)
    return lines if note is None else [*lines, note]


def guarantee(fall: float, condition: str, loss: str = "loss") -> str:
    """By how much the loss falls, or may rise, and under which condition."""
    if np.isnan(fall):
        return "nothing is guaranteed, because the adjustment was made without rows"
    change = f"falls by at least {fall:.6g}" if fall >= 0 else f"may rise, by at most {-fall:.6g}"
    return f"mean {loss} {change}, {condition}"


def _rounding(fall: float, loss: str) -> str:
    """What is guaranteed if the shift is 0, so that the rows were only rounded to the dtype of the result."""
    return f"the predictions did not have to change; their rounding raises the mean {loss} by at most {-fall:.2g}"


def accuracy(residual: float, gap: float) -> str:
    """How far the adjusted predictions are from the requested rates and from the smallest change."""
    return f"rates off by at most {_bound(residual)}, duality gap at most {_bound(gap)}"


def rate_variation(about: dict[str, Any]) -> str:
    """By how much the rates of a random sample of this size vary by chance, as the beginning of a sentence."""
    rows = f"{counted(about['n_rows'], 'row')} drawn at random"
    variation = f"vary by about +-{about['rate_variation']:.2g} (95 %)"
    return f"the rates of {rows} {variation} around those of their population"


def _bound(value: float) -> str:
    """Two digits, or the next power of ten where it is small; below 1e-12 it is rounding, which machines differ in."""
    if value >= 1e-6:
        return f"{value:.2g}"
    return f"{10.0 ** np.ceil(np.log10(max(value, 1e-12)) - 1e-9):.0e}"


def shown_shifts(about: dict[str, Any], shown: list[dict[str, Any]]) -> list[str]:
    """The shifts of some classes. For one number per row, relative to the other class: the change of the log odds."""
    other = about["classes"][0]["shift"] if about["one_column"] else 0.0
    return format_column((one["shift"] - other for one in shown), signed=True)


def _loss(loss: str) -> str:
    return loss if len(loss) <= 60 else f"{loss.partition('(')[0]}(...)"


def _table(about: dict[str, Any], shown: list[dict[str, Any]]) -> Table:
    requested = ["wanted"] if about["rates_kind"] == "exact" else ["at_least", "at_most"]
    rates = {
        column.replace("_", " "): format_column(one[column] for one in shown)
        for column in ["before", *requested, "achieved"]
    }
    shifts = shown_shifts(about, shown)
    unnamed = about["one_column"] and not about["classes_named"]
    names = ["positive"] if unnamed else [class_name(one["class"]) for one in shown]
    return Table.of({"class": names, **rates, "shift": shifts})


def class_name(name: Any) -> str:
    """A class name in one short line, without control characters that a terminal would obey."""
    return shortened(printable(str(name)), _LONGEST_NAME)
