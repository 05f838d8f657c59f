"""The facts about a result, as one dictionary of plain values. Text, JSON, command line and report render it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.losses.base import short_name

if TYPE_CHECKING:
    from baserate.result.record import Result


def facts(result: Result) -> dict[str, Any]:
    """Everything that can be said about a result without reading its rows again.

    Numbers are not rounded; a number that does not exist is NaN. ``classes`` has one dictionary per class.
    """
    certificate, model = result.certificate, result.model
    weighted = certificate.batch_size != result.n_rows if result.source is None else result.source.weighted
    return {
        "procedure": result.procedure,
        "loss": repr(result.loss),
        "loss_name": short_name(result.loss),
        "bounded": result.bounded,
        "n_rows": result.n_rows,
        "n_classes": model.n_classes,
        "weighted": weighted,
        "batch_size": certificate.batch_size,
        "smoothing": model.reading.smoothing,
        "from_logits": model.reading.from_logits,
        "engine": result.engine,
        "n_passes": result.n_passes,
        "converged": result.converged,
        "unchanged": not result.dual_shift.any(),
        "loss_reduction": certificate.loss_reduction,
        "gap": certificate.gap,
        "residual": certificate.residual,
        "rates_kind": certificate.known.kind,
        "condition": certificate.known.condition(approximate=certificate.batch_size != result.n_rows),
        "confidence": certificate.confidence,
        "classes": _class_facts(result),
        "active": [{"class": bound.of, "side": bound.side, "value": bound.value} for bound in result.active],
    }


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


def json_number(value: float) -> float | None:
    """A number that JSON can hold, or None."""
    return float(value) if np.isfinite(value) else None
