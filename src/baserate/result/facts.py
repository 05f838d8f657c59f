"""The facts about a result, as one dictionary of plain values. Text, JSON, command line and report render it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.losses.base import short_name

if TYPE_CHECKING:
    from baserate.result.record import Result


# When the chance variation of the rates of a batch is worth a line: always from five percentage points, because then
# the guarantee for exact rates is misleading. Below, if it exceeds half of the change of the mean, because then the
# true rates may be closer to the old mean than to the new one, and the loss may rise. But not if the variation or the
# change is below half a percentage point, because then the loss hardly changes.
_LARGE = 0.05
_NEGLIGIBLE = 0.005


def facts(result: Result) -> dict[str, Any]:
    """Everything that can be said about a result without reading its rows again.

    Numbers are not rounded; a number that does not exist is NaN. ``classes`` has one dictionary per class, whose
    ``class`` is the number of the column if ``classes_named`` is false. ``columns`` are the columns of a dataframe or
    file that were selected among others, else None. ``one_column`` is true if the predictions are one number per row,
    the probability of the second of two classes. ``rate_variation`` is by how much the class rates of a random
    sample of this size vary around those of its population, as half of a 95 % interval; NaN if that does not matter
    here.
    """
    certificate, model = result.certificate, result.model
    weighted = certificate.batch_size != result.n_rows if result.source is None else result.source.weighted
    return {
        "procedure": result.procedure,
        "loss": repr(result.loss),
        "loss_name": short_name(result.loss),
        "loss_key": result.loss.name,
        "bounded": result.bounded,
        "may_be_negative": not result.bounded and result.loss.domain.low < 0,
        "n_rows": result.n_rows,
        "n_classes": model.n_classes,
        "weighted": weighted,
        "batch_size": certificate.batch_size,
        "smoothing": model.reading.smoothing,
        "from_logits": model.reading.from_logits,
        "normalize": model.reading.normalize,
        "columns": _selected_columns(result),
        "one_column": result.one_column,
        "engine": result.engine,
        "n_passes": result.n_passes,
        "converged": result.converged,
        "unchanged": not result.dual_shift.any(),
        "loss_reduction": certificate.loss_reduction,
        "gap": certificate.gap,
        "residual": certificate.residual,
        "rates_kind": certificate.known.kind,
        "stated_rates": certificate.known.to_json(),
        "condition": certificate.condition,
        "confidence": certificate.confidence,
        "rate_variation": _rate_variation(result),
        "classes_named": result.classes is not None,
        "classes": _class_facts(result),
        "active": [{"class": bound.of, "side": bound.side, "value": bound.value} for bound in result.active],
    }


def _selected_columns(result: Result) -> list[Any] | None:
    if result.form is not None:
        return list(result.form.columns) if result.form.selected else None
    columns = None if result.source is None else result.source.columns
    return None if columns is None else list(columns.names)


def _rate_variation(result: Result) -> float:
    """Half of the 95 % interval of the class that varies most, if the rates are exact and this matters, else NaN."""
    if result.certificate.known.kind != "exact" or result.procedure == "prior":
        return float("nan")
    # Rows of unequal weight vary more. Their effective number is not computed for exact rates: it takes another pass.
    half_widths = 1.96 * np.sqrt(result.wanted * (1.0 - result.wanted) / result.certificate.batch_size)
    change, largest = np.abs(result.rates - result.before), float(half_widths.max())
    most_changed = int(change.argmax())
    can_raise_loss = half_widths[most_changed] > change[most_changed] / 2
    is_negligible = min(change[most_changed], largest) < _NEGLIGIBLE
    return largest if largest >= _LARGE or (can_raise_loss and not is_negligible) else float("nan")


def _class_facts(result: Result) -> list[dict[str, Any]]:
    low, high = result.certificate.bounds
    columns = {
        "before": result.before,
        "wanted": result.wanted,
        "at_least": low,
        "at_most": high,
        "achieved": result.rates,
        "shift": result.shift,
        "sensitivity": result.certificate.sensitivity,
    }
    names = range(len(result.rates)) if result.classes is None else result.classes
    return [
        {"class": name, **{column: float(values[j]) for column, values in columns.items()}}
        for j, name in enumerate(names)
    ]


def most_changed(about: dict[str, Any], n_classes: int) -> list[dict[str, Any]]:
    """The facts about the ``n_classes`` classes whose mean changed most, in the order of the columns.

    If the predictions are one number per row, only those about its class.
    """
    classes: list[dict[str, Any]] = about["classes"]
    if about["one_column"]:
        return classes[1:]
    if len(classes) <= n_classes:
        return classes
    change = np.array([abs(one["achieved"] - one["before"]) for one in classes])
    return [classes[j] for j in np.sort(np.argsort(-change, kind="stable")[:n_classes])]


def json_number(value: float) -> float | None:
    """A number that JSON can hold, or None."""
    return float(value) if np.isfinite(value) else None
