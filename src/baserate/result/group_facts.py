"""The facts about a result with rates per group, as one dictionary of plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.inputs.group_labels import group_name
from baserate.losses.base import short_name
from baserate.rates.margins import ALL_ROWS
from baserate.result.groups import MarginResult
from baserate.support.arrays import IndexArray

if TYPE_CHECKING:
    from baserate.result.grouped import GroupedResult


def group_facts(result: GroupedResult) -> dict[str, Any]:
    """Everything that can be said about a result without reading its rows again, except for its single groups.

    ``margins`` has one dictionary per margin. ``classes`` has one dictionary per class, with means over all rows.
    """
    certificate, model, groups = result.certificate, result.model, result.groups
    names = range(model.n_classes) if result.classes is None else result.classes
    return {
        "procedure": "adjust",
        "loss": repr(result.loss),
        "loss_name": short_name(result.loss),
        "loss_key": result.loss.name,
        "bounded": result.bounded,
        "may_be_negative": not result.bounded and result.loss.domain.low < 0,
        "n_rows": result.n_rows,
        "n_classes": model.n_classes,
        "weighted": False if result.source is None else result.source.weighted,
        "smoothing": model.reading.smoothing,
        "from_logits": model.reading.from_logits,
        "normalize": model.reading.normalize,
        "columns": list(result.form.columns) if result.form is not None and result.form.selected else None,
        "one_column": result.one_column,
        "engine": result.engine,
        "n_passes": result.n_passes,
        "converged": result.converged,
        "unchanged": not result.dual_shift.any(),
        "loss_reduction": certificate.loss_reduction,
        "gap": certificate.gap,
        "residual": certificate.residual,
        "rates_kind": "groups",
        "stated_rates": repr(certificate.known),
        "condition": certificate.condition,
        "confidence": certificate.confidence,
        "guarantee_level": groups.guarantee_level,
        "n_components": len(groups.certified),
        "classes_named": result.classes is not None,
        "classes": [
            {"class": name, "before": float(result.before[j]), "achieved": float(result.rates[j])}
            for j, name in enumerate(names)
        ],
        "margins": [
            {"name": margin.name, "keys": list(margin.keys), "n_groups": margin.n_groups, "exact": margin.is_exact}
            for margin in groups.margins
        ],
    }


def group_rows(result: GroupedResult, margin: MarginResult, which: IndexArray | None = None) -> list[dict[str, Any]]:
    """For some groups of a margin, or all, one dictionary per group, with the numbers of each class as lists."""
    certified, shift = result.groups.certified[margin.component], margin.centred_shift
    return [
        {
            "group": group_name(margin.labels[i]) or ALL_ROWS,
            "values": list(margin.labels[i]),
            "known": bool(margin.known[i]),
            "n_rows": int(margin.n_rows[i]),
            "before": margin.before[i].tolist(),
            "wanted": margin.wanted[i].tolist(),
            "at_least": margin.low[i].tolist(),
            "at_most": margin.high[i].tolist(),
            "achieved": margin.achieved[i].tolist(),
            "shift": shift[i].tolist(),
            "certified": float(certified[i]),
            "certified_for": result.groups.certified_for(int(margin.component[i])),
        }
        for i in (range(margin.n_groups) if which is None else which.tolist())
    ]


def most_changed_groups(margin: MarginResult, n_groups: int) -> IndexArray:
    """The groups with the largest change of a mean, times their weight, in the order of the table."""
    change = np.abs(margin.achieved - margin.before).max(axis=1) * margin.weight
    return np.sort(np.argsort(-change, kind="stable")[:n_groups])
