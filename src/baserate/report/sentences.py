"""The sentences of a report, built from the facts about a result and from the changes of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from baserate.analysis.row_changes import RowChanges
from baserate.report.formatting import class_name, format_number, loss_phrase, shortened
from baserate.result.text import rate_variation
from baserate.support.arrays import FloatArray
from baserate.support.numbers import counted

_UNCHANGED = 1e-12  # A guaranteed fall below this is rounding error.


def description(about: dict[str, Any]) -> str:
    """What was done."""
    rows = f"{counted(about['n_rows'], 'row')} with {about['n_classes']} classes"
    if about["procedure"] == "prior":
        return (
            f"Prior probability adjustment (PPA) multiplied each probability of {rows} by the new rate of its class, "
            "divided by the old rate, and then divided each row by its sum. The factors do not depend on the rows, so "
            "the mean of the adjusted rows can differ from the new rates."
        )
    kind = "Bounded" if about["bounded"] else "Unbounded"
    is_exact = about["rates_kind"] == "exact"
    if about["unchanged"]:
        mean = "already has the requested class rates" if is_exact else "is already in the set of possible class rates"
        return f"{kind} adjustment left the predictions of {rows} unchanged, because their mean {mean}."
    target = "the requested class rates" if is_exact else "the set of possible class rates"
    if not about["converged"]:
        return f"{kind} adjustment for the {loss_phrase(about)} brought the mean of {rows} close to {target}."
    return (
        f"{kind} adjustment for the {loss_phrase(about)} made the smallest change to the predictions of {rows} that "
        f"brings their mean {'to' if is_exact else 'into'} {target}. The size of a change is measured by the loss: it "
        "is the extra loss that the old prediction is expected to have if the new one is right."
    )


def guarantee(about: dict[str, Any]) -> dict[str, str]:
    """What is guaranteed (``headline``), and under which ``condition``."""
    fall, mean = about["loss_reduction"], "weighted mean" if about["weighted"] else "mean"
    if np.isnan(fall):
        return {"headline": "Nothing is guaranteed.", "condition": "The adjustment was made without rows."}
    loss = f"The {mean} {loss_phrase(about)} of these rows"
    if fall < -_UNCHANGED and about["unchanged"]:
        rounding = f"Rounding them raises the loss by at most {format_number(-fall)}."
        return {"headline": "The predictions did not have to change.", "condition": rounding}
    if fall < -_UNCHANGED:
        headline = f"{loss} may rise, by at most {format_number(-fall)}."
        return {"headline": headline, "condition": f"This holds {about['condition']}."}
    if fall < _UNCHANGED:
        return {"headline": "The predictions did not have to change, so no loss changes.", "condition": ""}
    return {
        "headline": f"{loss} falls by at least {format_number(fall)}.",
        "condition": f"This holds whatever the labels are, {about['condition']}.",
    }


def condition_check(about: dict[str, Any], true_rates: FloatArray, *, is_met: bool, loss_change: float) -> str:
    """Whether the labels meet the condition of the guarantee, and how much the loss changed."""
    change = f"the loss {'fell' if loss_change <= 0 else 'rose'} by {format_number(abs(loss_change))}"
    if np.isnan(loss_change):
        change = "the change of the loss is not defined"
    if is_met:
        return f"According to the labels, the condition is met: {change}."
    achieved = np.array([one["achieved"] for one in about["classes"]])
    farthest = int(np.abs(true_rates - achieved).argmax())
    name = shortened(class_name(about, about["classes"][farthest]["class"]))
    rate = format_number(true_rates[farthest])
    return f"According to the labels, the condition is NOT met (the rate of {name!r} is {rate}): {change}."


def caveats(about: dict[str, Any]) -> list[str]:
    """What the guarantee does not cover."""
    lines = ["Nothing is guaranteed for other rows, for other losses or for single rows."]
    if not about["converged"]:
        residual = format_number(about["residual"])
        lines.append(
            f"The solver stopped before it reached the tolerance: the rates are off by up to {residual}. The guarantee "
            "holds nevertheless."
        )
    if about["rates_kind"] == "exact" and about["procedure"] != "prior":
        lines.extend(_wrong_rates(about))
    if not np.isnan(about["rate_variation"]):
        variation = rate_variation(about)
        lines.append(
            f"{variation[0].upper()}{variation[1:]}. If the requested rates are those of a population, state them as "
            "such: Rates.of_population(...) in Python, population:... on the command line."
        )
    if about["smoothing"]:
        lines.append(
            f"{about['smoothing']:g} was added to every probability first. The change of the loss is measured from "
            "these smoothed predictions."
        )
    if about["may_be_negative"]:
        lines.append("Unbounded adjustment can produce entries below 0 or above 1, which are not probabilities.")
    return lines


def _wrong_rates(about: dict[str, Any]) -> list[str]:
    """How much the guarantee changes if a rate is off by a percentage point."""
    sensitivity = np.array([one["sensitivity"] for one in about["classes"]])
    if not np.isfinite(sensitivity).any() or np.nanmax(sensitivity) == np.nanmin(sensitivity):
        return []
    high, low = int(np.nanargmax(sensitivity)), int(np.nanargmin(sensitivity))
    change = (sensitivity[high] - sensitivity[low]) / 100
    too_high, too_low = (shortened(class_name(about, about["classes"][j]["class"])) for j in (high, low))
    return [
        "The guarantee changes if the requested rates are wrong. In the worst case it shrinks by about "
        f"{format_number(change)} per percentage point: if the rate of {too_high!r} is too high and that of "
        f"{too_low!r} is too low. If the rates are known only roughly, state them as bounds or counts."
    ]


def row_change_sentences(about: dict[str, Any], changes: RowChanges) -> list[str]:
    """How many rows and entries changed in a way that matters."""
    n_rows, n_entries = about["n_rows"], about["n_rows"] * about["n_classes"]
    n_changed = changes.new_top_class
    verb = "has" if n_changed == 1 else "have"
    share = f"{n_changed / n_rows:.1%}"
    lines = [f"{n_changed:,} of {counted(n_rows, 'row')} {verb} a different most probable class now ({share})."]
    if (changes.zeros_before or changes.zeros_after) and not about["from_logits"]:
        lines.append(
            f"{changes.zeros_before:,} of {n_entries:,} entries were exactly 0 before, and {changes.zeros_after:,} are "
            "now. If a class occurs where its probability is 0, log loss is infinite."
        )
    if changes.outside:
        lines.append(f"{changes.outside:,} of {n_entries:,} entries are below 0 or above 1.")
    return lines


def sample_note(about: dict[str, Any], changes: RowChanges) -> str:
    """That a picture shows only some of the rows; empty if it shows all."""
    n_shown = len(changes.before)
    if n_shown == about["n_rows"]:
        return ""
    return f"The picture shows a sample: one row in {round(about['n_rows'] / n_shown)}."
