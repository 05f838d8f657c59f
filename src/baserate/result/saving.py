"""Save a result, and load it again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from baserate.core.row_model import RowModel, is_bounded
from baserate.errors import BadFile, BadOption
from baserate.inputs.reading import Reading
from baserate.inputs.validation import as_classes, as_flag, quoted_name
from baserate.losses.base import Loss
from baserate.losses.registry import as_loss, from_json, to_json
from baserate.rates import from_json as rates_from_json
from baserate.result.certificate import ActiveBound, Certificate
from baserate.result.facts import facts, json_number
from baserate.result.json_file import read_json, write_json
from baserate.result.record import Result
from baserate.support.arrays import FloatArray

R = TypeVar("R", bound=Result)


def save(result: Result, path: str | os.PathLike[str]) -> None:
    """Write the shift and the facts of a result, not its rows."""
    write_json(path, saved_fields(result))


def load(kind: type[R], path: str | os.PathLike[str], loss: Loss | None = None) -> R:
    """Read a result that :func:`save` wrote, as an object of a class of results."""
    fields = read_json(path)
    try:
        return _from_fields(kind, fields, loss)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadFile(f"{path} does not describe an adjustment: {type(error).__name__}: {error}") from error


def saved_fields(result: Result) -> dict[str, Any]:
    """The fields of a saved adjustment: facts, and what is needed to adjust further rows."""
    model, about = result.model, facts(result)
    for name in result.classes or ():
        if not isinstance(name, (str, int, float, bool)) or (isinstance(name, float) and not np.isfinite(name)):
            raise BadOption(
                f"class names must be strings, finite numbers or booleans to be saved, not {quoted_name(name)}"
            )
    column = {name: j for j, name in enumerate(one["class"] for one in about["classes"])}
    same = ("procedure", "bounded", "n_classes", "smoothing", "from_logits", "batch_size")
    return {
        **{name: about[name] for name in (*same, "converged", "n_passes", "n_rows", "engine")},
        **{name: json_number(about[name]) for name in ("loss_reduction", "gap", "residual")},
        "loss": to_json(result.loss),
        "classes": None if result.classes is None else list(result.classes),
        "kept_classes": model.kept_classes.tolist(),
        "levels": None if model.limit_levels is None else model.limit_levels.tolist(),
        "softness": model.softness,
        "shift": result.dual_shift.tolist(),
        "wanted": [one["wanted"] for one in about["classes"]],
        "before": [one["before"] for one in about["classes"]],
        "rates": [one["achieved"] for one in about["classes"]],
        "sensitivity": [json_number(one["sensitivity"]) for one in about["classes"]],
        "known": result.certificate.known.to_json(),
        "active": [[None if b.of is None else column[b.of], b.side, b.value] for b in result.active],
    }


def _from_fields(kind: type[R], fields: Mapping[str, Any], loss: Loss | None) -> R:
    k = int(fields["n_classes"])
    names = as_classes(fields["classes"], k)
    bounded = as_flag("bounded", fields["bounded"])
    model = _model(fields, k, bounded, loss)
    of = {None: None} | dict(enumerate(range(k) if names is None else names))
    return kind(
        model=model,
        dual_shift=_vector(fields["shift"], len(model.kept_classes)),
        wanted=_vector(fields["wanted"], k),
        before=_vector(fields["before"], k),
        rates=_vector(fields["rates"], k),
        certificate=_certificate(fields, names),
        active=tuple(ActiveBound(of[j], str(side), float(value)) for j, side, value in fields["active"]),
        converged=as_flag("converged", fields["converged"]),
        n_passes=int(fields["n_passes"]),
        n_rows=int(fields["n_rows"]),
        engine=str(fields["engine"]),
        bounded=bounded,
        classes=names,
        procedure=str(fields["procedure"]),
        answer=None,
        frame=None,
        source=None,
        stop=None,
    )


def _model(fields: Mapping[str, Any], k: int, bounded: bool, loss: Loss | None) -> RowModel:
    kept = np.asarray(fields["kept_classes"], dtype=np.intp)
    if not len(kept) or (np.diff(kept) <= 0).any() or kept[0] < 0 or kept[-1] >= k:
        raise ValueError(f"kept_classes is {kept.tolist()}, not increasing numbers of {k} classes")
    levels = None if fields["levels"] is None else _vector(fields["levels"], len(kept)).astype(np.intp)
    chosen = from_json(fields["loss"]) if loss is None else as_loss(loss)
    if to_json(chosen) != dict(fields["loss"]):
        raise ValueError(f"it was saved for the loss {fields['loss']}, not for {to_json(chosen)}")
    reading = Reading(as_flag("from_logits", fields["from_logits"]), False, _share(fields["smoothing"]))
    return RowModel(chosen, is_bounded(chosen, bounded), k, kept, reading, levels, _share(fields["softness"]))


def _certificate(fields: Mapping[str, Any], names: tuple[Any, ...] | None) -> Certificate:
    return Certificate(
        loss_reduction=_number(fields["loss_reduction"]),
        gap=_number(fields["gap"]),
        residual=_number(fields["residual"]),
        sensitivity=np.array([_number(value) for value in fields["sensitivity"]]),
        known=rates_from_json(fields["known"], names),
        batch_size=int(fields["batch_size"]),
    )


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _share(value: Any) -> float:
    share = float(value)
    if not 0 <= share < 1:
        raise ValueError(f"expected a number from 0 to less than 1, not {value!r}")
    return share


def _vector(values: Any, length: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (length,) or not np.isfinite(array).all():
        raise ValueError(f"expected {length} finite numbers, not {values!r}")
    return array
