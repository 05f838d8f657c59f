"""Save a result with rates per group, and load it again: the parts of the file that other results do not have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from baserate.core.row_model import RowModel
from baserate.inputs.group_labels import as_json_value
from baserate.rates import Margins, from_json
from baserate.result.field_reader import MAX_ROWS, FieldReader
from baserate.result.grouped_certificate import GroupedCertificate
from baserate.result.groups import GroupsResult, MarginResult
from baserate.support.arrays import FloatArray, IndexArray

_MATRICES = ("before", "low", "high", "wanted", "achieved")


def groups_to_json(groups: GroupsResult) -> dict[str, Any]:
    """The margins and components of a result as plain JSON values."""
    return {
        "margins": [_margin_to_json(margin) for margin in groups.margins],
        "certified": groups.certified.tolist(),
        "component_weight": groups.weight.tolist(),
        "component_rows": groups.n_rows.tolist(),
        "models": [_model_to_json(group, model) for group, model in groups.models.items()],
    }


def groups_from_json(saved: FieldReader, model: RowModel) -> GroupsResult:
    """The margins and components that :func:`groups_to_json` saved."""
    fields, n_classes = FieldReader(saved.mapping("groups")), model.n_classes
    n_components = len(fields.list_of("certified"))
    margins = tuple(
        _margin_from_json(FieldReader(margin), n_classes, n_components)
        for margin in fields.list_of("margins")
        if isinstance(margin, Mapping)
    )
    if len(margins) != len(fields.list_of("margins")) or not margins:
        raise ValueError("margins must be a list of objects")
    return GroupsResult(
        margins,
        fields.numbers("certified", n_components),
        fields.numbers("component_weight", n_components),
        fields.whole_numbers("component_rows", n_components, below=MAX_ROWS),
        dict(_model_from_json(FieldReader(dict(one)), model, margins) for one in fields.list_of("models")),
    )


def certificate_from_json(
    saved: FieldReader, names: tuple[Any, ...] | None, groups: GroupsResult, n_classes: int
) -> GroupedCertificate:
    """The certificate of a saved result."""
    known = from_json(saved.mapping("known"), names)
    sizes = saved.list_of("batch_sizes", len(groups.margins))
    if not isinstance(known, Margins) or len(known.parts) != len(groups.margins):
        raise ValueError("known must describe the rates of each margin")
    return GroupedCertificate(
        loss_reduction=saved.number("loss_reduction"),
        gap=saved.number("gap"),
        residual=saved.number("residual"),
        sensitivity=np.full(n_classes, np.nan),
        known=known,
        batch_size=saved.whole("n_rows", low=1),
        approximate=saved.flag("approximate"),
        batch_sizes=tuple(
            FieldReader({"batch_sizes": size}).whole_numbers("batch_sizes", margin.n_groups, below=MAX_ROWS)
            for size, margin in zip(sizes, groups.margins, strict=True)
        ),
        guarantee_level=groups.guarantee_level,
    )


def _margin_to_json(margin: MarginResult) -> dict[str, Any]:
    shift = [[None if np.isneginf(value) else value for value in row] for row in margin.shift.tolist()]
    return {
        "name": margin.name,
        "keys": list(margin.keys),
        "labels": [[as_json_value(value) for value in label] for label in margin.labels],
        "n_rows": margin.n_rows.tolist(),
        "component": margin.component.tolist(),
        "weight": margin.weight.tolist(),
        "known": margin.known.tolist(),
        **{name: getattr(margin, name).tolist() for name in _MATRICES},
        "shift": shift,
    }


def _margin_from_json(saved: FieldReader, n_classes: int, n_components: int) -> MarginResult:
    keys = tuple(saved.list_of("keys"))
    labels = saved.list_of("labels")
    if not all(isinstance(label, list) and len(label) == len(keys) for label in labels):
        raise ValueError(f"each of the labels must be a list of {len(keys)} values")
    n = len(labels)
    known = saved.list_of("known", n)
    if not all(isinstance(value, bool) for value in known):
        raise ValueError("known must be a list of true and false")
    return MarginResult(
        name=saved.text("name"),
        keys=keys,
        labels=[tuple(label) for label in labels],
        n_rows=saved.whole_numbers("n_rows", n, below=MAX_ROWS),
        component=_components(saved, n, n_components),
        weight=saved.numbers("weight", n),
        known=np.array(known, dtype=np.bool_),
        **{name: _matrix(saved, name, n, n_classes) for name in _MATRICES},
        shift=_matrix(saved, "shift", n, n_classes, missing=-np.inf),
    )


def _model_to_json(group: int, model: RowModel) -> dict[str, Any]:
    levels = None if model.limit_levels is None else model.limit_levels.tolist()
    kept = model.kept_classes.tolist()
    return {"group": group, "kept_classes": kept, "levels": levels, "softness": model.softness}


def _model_from_json(saved: FieldReader, model: RowModel, margins: tuple[MarginResult, ...]) -> tuple[int, RowModel]:
    kept = saved.whole_numbers("kept_classes", None, below=model.n_classes)
    levels = None if saved["levels"] is None else saved.whole_numbers("levels", len(kept), below=MAX_ROWS)
    group = saved.whole("group")
    if group >= margins[0].n_groups or not len(kept):
        raise ValueError(f"there is no group {group}")
    return group, replace(model, kept_classes=kept, limit_levels=levels, softness=saved.share("softness"))


def _components(saved: FieldReader, n: int, n_components: int) -> IndexArray:
    return saved.whole_numbers("component", n, below=max(n_components, 1))


def _matrix(saved: FieldReader, name: str, n: int, n_classes: int, missing: float | None = None) -> FloatArray:
    rows = saved.list_of(name, n)
    reader = FieldReader({name: [value for row in rows if isinstance(row, list) for value in row]})
    values = reader.numbers(name, n * n_classes) if missing is None else reader.numbers_or_nan(name, n * n_classes)
    matrix = values.reshape(n, n_classes)
    return matrix if missing is None else np.where(np.isnan(matrix), missing, matrix)
