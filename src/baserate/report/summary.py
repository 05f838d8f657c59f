"""What a report says, as plain values: sentences, numbers and tables."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.analysis.compare import Comparison, compare, row_losses
from baserate.analysis.row_changes import AllRows, RowChanges, all_rows, row_changes
from baserate.inputs.labels import as_targets
from baserate.losses.base import short_name
from baserate.losses.brier import Brier
from baserate.losses.log import Log
from baserate.report.call import call
from baserate.report.wording import loss_name, number, short, signed
from baserate.result.record import Result
from baserate.result.text import counted
from baserate.support.arrays import FloatArray

SHOWN = 12
"""Classes in the first table; of more, those that changed most, and all of them in a folded one."""

_PACKAGES = ("baserate", "numpy", "scipy", "scikit-learn", "narwhals", "numba", "pyarrow", "dask")


def summary(
    result: Result,
    *,
    y: ArrayLike | None = None,
    old_rates: Any = None,
    title: str = "Predictions adjusted to class rates",
    note: str = "",
    command: str | None = None,
) -> dict[str, Any]:
    """All that a report says.

    Parameters
    ----------
    result : Result
    y : array-like of shape (n,), optional
        Labels of the rows. With them the report says what the adjustment was worth, beside all procedures.
    old_rates : array-like of shape (k,), optional
        Rates in training, for prior adjustment beside the others.
    title, note : str
    command : str, optional
        What was typed.

    Returns
    -------
    dict
        Of texts, lists and dicts; ``moves`` and ``rows`` are the data that pictures are drawn from.
    """
    moved = row_changes(result)
    rows = None if y is None else all_rows(result)
    labels = None if y is None or rows is None else as_targets(y, rows.before.shape, result.classes)
    order = np.argsort(-np.abs(result.rates - result.before), kind="stable")
    table = _rates(result)
    return {
        "title": title,
        "note": note,
        "done": _done(result),
        "guarantee": _guarantee(result) | {"checked": "" if labels is None else _checked(result, rows, labels)},
        "caveats": _caveats(result),
        "logarithmic": short_name(result.loss) == "log" or result.procedure == "prior",
        "exact": result.certificate.known.kind == "exact",
        "rates": [table[j] for j in np.sort(order[:SHOWN])],
        "all_rates": table if len(table) > SHOWN else [],
        "facts": _facts(result),
        "moved": _moved(result, moved),
        "moves": moved,
        "extremes": _extremes(result, moved),
        "worth": None if rows is None else _worth(_compared(result, rows, y, old_rates), result),
        "rows": rows,
        "sampled": "" if len(moved.before) == result.n_rows else f" {_one_in(result, moved)}",
        "versions": _versions(),
        "call": call(result),
        "command": command,
    }


def _done(result: Result) -> str:
    rows = f"{counted(result.n_rows, 'row')} with {result.model.n_classes} classes"
    if result.procedure == "prior":
        return (
            f"Prior probability adjustment (PPA): each probability of {rows} was multiplied by the new rate of its "
            "class over the old one, and each row was divided by its sum. The rows were not looked at to find the "
            "factors, so their mean need not be the new rates."
        )
    kind = "Bounded" if result.bounded else "Unbounded"
    if not result.dual_shift.any():
        return f"{kind} adjustment left the predictions of {rows} as they are: their mean is possible."
    exact = result.certificate.known.kind == "exact"
    mean = "has the wanted class rates" if exact else "has class rates that are possible"
    if not result.converged:
        near = "the wanted class rates" if exact else "class rates that are possible"
        return f"{kind} adjustment for the {loss_name(result)} brought the mean of {rows} near {near}."
    return (
        f"{kind} adjustment for the {loss_name(result)} changed the predictions of {rows} so that their mean {mean}, "
        "and changed them no more than that takes. (How far a prediction moved is measured by the loss: what it "
        "would cost to go on with the old one if the new one were right.)"
    )


def _guarantee(result: Result) -> dict[str, str]:
    certificate, prior = result.certificate, result.procedure == "prior"
    weighted = "weighted mean" if result.source is not None and result.source.weighted else "mean"
    fall, loss = certificate.loss_reduction, "log loss" if prior else loss_name(result)
    condition = certificate.known.condition(approximate=certificate.batch_size != result.n_rows)
    if certificate.known.kind == "exact":
        condition = "if the wanted rates are the true class rates of these very rows"
    if np.isnan(fall):
        return {"headline": "Nothing is guaranteed.", "condition": "It was made without rows."}
    if fall < -1e-12:
        headline = f"The {weighted} {loss} of these rows may rise, by at most {number(-fall)}."
        return {"headline": headline, "condition": f"That holds {condition}."}
    if fall < 1e-12:
        return {"headline": "Nothing had to be changed, so no loss changes.", "condition": ""}
    return {
        "headline": f"The {weighted} {loss} of these rows falls by at least {number(fall)}.",
        "condition": f"That holds whatever the labels of the rows are, {condition}.",
    }


def _checked(result: Result, rows: AllRows | None, labels: FloatArray) -> str:
    """Whether the labels fulfil the condition, and what came of it."""
    assert rows is not None
    weights = np.full(len(labels), 1 / len(labels)) if rows.weights is None else rows.weights
    true = weights @ labels
    loss = Log() if result.procedure == "prior" else result.loss
    change = float(weights @ row_losses(loss, rows.after, labels) - weights @ row_losses(loss, rows.before, labels))
    came = f"the loss {'fell' if change <= 0 else 'rose'} by {number(abs(change))}"
    if result.certificate.holds_for(true / true.sum()):
        return f"By the labels that were given, the condition is fulfilled: {came}."
    far = int(np.abs(true - result.rates).argmax())
    name, rate = short(_names(result)[far]), number(true[far])
    return f"By the labels that were given, the condition is NOT fulfilled (the rate of {name!r} is {rate}): {came}."


def _caveats(result: Result) -> list[str]:
    said = ["For other rows, for another loss and for single rows nothing is guaranteed."]
    if not result.converged:
        residual = number(result.certificate.residual)
        said.append(
            f"The search stopped early: the rates are off by up to {residual}. What is guaranteed holds nevertheless."
        )
    if result.certificate.known.kind == "exact" and result.procedure != "prior":
        said.extend(_if_wrong(result))
    if result.model.reading.smoothing:
        amount = f"{result.model.reading.smoothing:g}"
        said.append(f"{amount} was added to every probability first, and the fall is counted from there.")
    if not result.bounded and result.model.loss.domain.low < 0:
        said.append("Unbounded adjustment may leave entries below 0 or above 1, which are no probabilities.")
    return said


def _if_wrong(result: Result) -> list[str]:
    """What a rate that is off by a percentage point does to the guarantee."""
    worth = result.certificate.sensitivity
    if not np.isfinite(worth).any() or np.nanmax(worth) == np.nanmin(worth):
        return []
    high, low = int(np.nanargmax(worth)), int(np.nanargmin(worth))
    change = (worth[high] - worth[low]) / 100
    names = [short(name) for name in _names(result)]
    return [
        "If the given rates are wrong, the guarantee changes: most of all if a percentage point belongs to "
        f"{names[low]!r} that was given to {names[high]!r}; then it is less by about {number(change)}. Rates that are "
        "only known roughly should be given as bounds or counts."
    ]


def _rates(result: Result) -> list[dict[str, Any]]:
    low, high = result.certificate.bounds
    columns = (_names(result), result.before, result.wanted, low, high, result.rates, result.shift)
    return [
        {
            "name": name,
            "before": number(before),
            "wanted": number(wanted),
            "at_least": number(least),
            "at_most": number(most),
            "achieved": number(rate),
            "change": f"{100 * (rate - before):+.1f}",
            "shift": signed(shift),
        }
        for name, before, wanted, least, most, rate, shift in zip(*columns, strict=True)
    ]


def _facts(result: Result) -> list[tuple[str, str]]:
    certificate = result.certificate
    facts = [
        ("rows", f"{result.n_rows:,}"),
        ("classes", f"{result.model.n_classes:,}"),
        ("loss", repr(result.loss)[:200]),
        ("engine", result.engine),
    ]
    if result.procedure != "prior":
        facts += [
            ("largest error of a rate", number(certificate.residual)),
            ("how far from the smallest change it may be (duality gap)", number(certificate.gap)),
            ("passes over the rows", str(result.n_passes)),
            ("converged", "yes" if result.converged else "no"),
        ]
    if certificate.batch_size != result.n_rows:
        facts.insert(1, ("effective rows, by their weights", f"{certificate.batch_size:,}"))
    for bound in result.active if certificate.known.kind != "exact" else ():
        what = "the distance from the given rates" if bound.of is None else f"{bound.of}"
        facts.append((f"held at its {bound.side} bound", f"{what}: {number(bound.value)}"))
    return facts


def _moved(result: Result, moved: RowChanges) -> list[str]:
    n, entries = result.n_rows, result.n_rows * result.model.n_classes
    changed = moved.new_top_class
    have = "has" if changed == 1 else "have"
    said = [f"{changed:,} of {counted(n, 'row')} {have} another most probable class now ({changed / n:.1%})."]
    if (moved.zeros_before or moved.zeros_after) and not result.model.reading.from_logits:
        said.append(
            f"{moved.zeros_before:,} of {entries:,} entries were exactly 0 before, and {moved.zeros_after:,} are now. "
            "If a class occurs where it has probability 0, log loss is infinite."
        )
    if moved.outside:
        said.append(f"{moved.outside:,} of {entries:,} entries are below 0 or above 1.")
    return said


def _extremes(result: Result, moved: RowChanges) -> list[dict[str, Any]]:
    """The rows that moved farthest: what was most probable before and after."""
    names = _names(result)

    def likely(row: FloatArray) -> dict[str, str]:
        j = int(row.argmax())
        return {"name": short(names[j]), "probability": number(row[j])}

    return [
        {"row": one.row, "moved": number(one.divergence), "before": likely(one.before), "after": likely(one.after)}
        for one in moved.extremes
        if one.divergence > 1e-12
    ]


def _compared(result: Result, rows: AllRows, y: Any, old_rates: Any) -> Comparison:
    """What each procedure was worth, by the labels."""
    losses = (Log(), Brier()) if result.procedure == "prior" else (result.loss, Log(), Brier())
    return compare(
        rows.before,
        y,
        result.certificate.known,
        old_rates,
        losses=losses,
        classes=result.classes,
        sample_weight=rows.weights,
        others={"this adjustment": rows.after},
    )


def _one_in(result: Result, moved: RowChanges) -> str:
    return f"Drawn from one row in {round(result.n_rows / len(moved.before))}."


def _worth(found: Comparison, result: Result) -> dict[str, Any]:
    losses = [short_name(loss) for loss in found.losses]
    notes = list(found.notes)
    if result.model.reading.smoothing:
        notes.append(f"as predicted: after {result.model.reading.smoothing:g} was added to every probability")
    rows = [
        {"procedure": name, "cells": [_cell(found, i, j) for j in range(len(losses))]}
        for i, name in enumerate(found.procedures)
    ]
    return {"losses": losses, "rows": rows, "confidence": f"{100 * found.confidence:g} %", "notes": notes}


def _cell(found: Comparison, i: int, j: int) -> dict[str, str]:
    mean, change, ends = found.mean[i, j], found.change[i, j], (found.low[i, j], found.high[i, j])
    known = i > 0 and bool(np.isfinite(change))
    return {
        "mean": f"{mean:.4f}" if np.isfinite(mean) else number(mean),
        "change": f"{change:+.4f}" if known else "",
        "interval": f"{ends[0]:+.4f} to {ends[1]:+.4f}" if known and np.isfinite(ends).all() else "",
    }


def _names(result: Result) -> list[str]:
    k = result.model.n_classes
    return [f"class {j}" for j in range(k)] if result.classes is None else [str(name) for name in result.classes]


def _versions() -> list[tuple[str, str]]:
    found = [("Python", platform.python_version())]
    for name in _PACKAGES:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return found
