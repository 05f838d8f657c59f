"""Save a result, and load it again."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import numpy as np

from baserate.core.row_model import RowModel, is_bounded
from baserate.errors import BadFile
from baserate.inputs.class_names import check_class_name
from baserate.inputs.reading import Reading
from baserate.inputs.validation import as_classes
from baserate.losses.base import Loss
from baserate.losses.check import check_loss
from baserate.losses.registry import as_loss, from_json, to_json
from baserate.rates import from_json as rates_from_json
from baserate.result.certificate import ActiveBound, Certificate
from baserate.result.facts import facts, json_number
from baserate.result.field_reader import MAX_ROWS, FieldReader
from baserate.result.group_saving import certificate_from_json, groups_from_json, groups_to_json
from baserate.result.grouped import GroupedResult
from baserate.result.grouped_certificate import GroupedCertificate
from baserate.result.record import Result
from baserate.support.json_file import read_json, write_json

R = TypeVar("R", bound=Result)
G = TypeVar("G", bound=GroupedResult)

_GROUPS = "groups"  # The procedure of results with rates per group. Earlier versions refuse to load it.


def save(result: Result, path: str | os.PathLike[str]) -> None:
    """Write the shift and the facts of a result, not its rows."""
    write_json(path, saved_fields(result))


def load(kind: type[R], grouped: type[G], path: str | os.PathLike[str], loss: Loss | None = None) -> R | G:
    """Read a result that :func:`save` wrote, as an object of a class of results, or of results with groups."""
    saved = FieldReader(read_json(path))
    try:
        if "procedure" in saved and saved["procedure"] == _GROUPS:
            return _from_group_fields(grouped, saved, loss)
        return _from_fields(kind, saved, loss)
    except ValueError as error:
        raise BadFile(f"{path} does not describe an adjustment: {error}") from error
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        # The constructors of losses and rates, users' own losses among them, were called with values of any type.
        raise BadFile(f"{path} does not describe an adjustment: {type(error).__name__}: {error}") from error


def saved_fields(result: Result) -> dict[str, Any]:
    """The fields of a saved adjustment: facts, and what is needed to adjust further rows."""
    if isinstance(result, GroupedResult):
        return _group_fields(result)
    model, about = result.model, facts(result)
    for name in result.classes or ():
        check_class_name(name)
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
        **({"one_column": True} if result.one_column else {}),
        "known": result.certificate.known.to_json(),
        "active": [[None if b.of is None else column[b.of], b.side, b.value] for b in result.active],
    }


def _group_fields(result: GroupedResult) -> dict[str, Any]:
    """The fields of a saved adjustment to rates per group."""
    certificate, model = result.certificate, result.model
    assert isinstance(certificate, GroupedCertificate)
    for name in result.classes or ():
        check_class_name(name)
    return {
        "procedure": _GROUPS,
        **{name: getattr(result, name) for name in ("bounded", "converged", "n_passes", "n_rows", "engine")},
        "one_column": result.one_column,
        "n_classes": model.n_classes,
        "smoothing": model.reading.smoothing,
        "from_logits": model.reading.from_logits,
        "softness": model.softness,
        **{name: json_number(getattr(certificate, name)) for name in ("loss_reduction", "gap", "residual")},
        "approximate": certificate.approximate,
        "loss": to_json(result.loss),
        "classes": None if result.classes is None else list(result.classes),
        **{name: getattr(result, name).tolist() for name in ("wanted", "before", "rates")},
        "known": certificate.known.to_json(),
        "batch_sizes": [sizes.tolist() for sizes in certificate.batch_sizes],
        "groups": groups_to_json(result.groups),
    }


def _from_group_fields(kind: type[G], saved: FieldReader, loss: Loss | None) -> G:
    k = saved.whole("n_classes", low=2)
    wanted = saved.numbers("wanted", k)
    names = as_classes(saved["classes"], k)
    for name in names or ():
        check_class_name(name)
    bounded, chosen = saved.flag("bounded"), _loss(saved, loss, k)
    reading = Reading(saved.flag("from_logits"), False, saved.share("smoothing"))
    softness = saved.share("softness")
    model = RowModel(chosen, is_bounded(chosen, bounded), k, np.arange(k), reading, softness=softness)
    groups = groups_from_json(saved, model)
    return kind(
        model=model,
        dual_shift=np.concatenate([margin.shift for margin in groups.margins]),
        wanted=wanted,
        before=saved.numbers("before", k),
        rates=saved.numbers("rates", k),
        certificate=certificate_from_json(saved, names, groups, k),
        active=(),
        converged=saved.flag("converged"),
        n_passes=saved.whole("n_passes"),
        n_rows=saved.whole("n_rows"),
        engine=saved.text("engine"),
        bounded=bounded,
        classes=names,
        procedure="adjust",
        answer=None,
        form=None,
        one_column=saved.flag("one_column"),
        source=None,
        stop=None,
        groups=groups,
        cell_groups=np.zeros(0, dtype=np.intp),
    )


def _from_fields(kind: type[R], saved: FieldReader, loss: Loss | None) -> R:
    k = saved.whole("n_classes", low=2)
    # Read first: it shows that the file really has k numbers, before anything of size k is allocated.
    wanted = saved.numbers("wanted", k)
    names = as_classes(saved["classes"], k)
    for name in names or ():
        check_class_name(name)
    bounded = saved.flag("bounded")
    model = _model(saved, k, bounded, loss)
    of = {None: None} | dict(enumerate(range(k) if names is None else names))
    return kind(
        model=model,
        dual_shift=saved.numbers("shift", len(model.kept_classes)),
        wanted=wanted,
        before=saved.numbers("before", k),
        rates=saved.numbers("rates", k),
        certificate=_certificate(saved, names, k),
        active=tuple(ActiveBound(of[j], side, value) for j, side, value in saved.active_bounds("active", k)),
        converged=saved.flag("converged"),
        n_passes=saved.whole("n_passes"),
        n_rows=saved.whole("n_rows"),
        engine=saved.text("engine"),
        bounded=bounded,
        classes=names,
        procedure=saved.text("procedure", one_of=("adjust", "prior")),
        answer=None,
        form=None,
        one_column=saved.flag("one_column") if "one_column" in saved else False,  # new in version 0.2
        source=None,
        stop=None,
    )


def _model(saved: FieldReader, k: int, bounded: bool, loss: Loss | None) -> RowModel:
    kept = saved.whole_numbers("kept_classes", None, below=k)
    if not len(kept) or (np.diff(kept) <= 0).any():
        raise ValueError(f"kept_classes must be increasing numbers of classes, not {kept.tolist()}")
    levels = None if saved["levels"] is None else saved.whole_numbers("levels", len(kept), below=MAX_ROWS)
    chosen = _loss(saved, loss, k)
    if levels is not None and not chosen.pins_zeros:
        raise ValueError(f"levels must be null for the loss {to_json(chosen)}")
    reading = Reading(saved.flag("from_logits"), False, saved.share("smoothing"))
    return RowModel(chosen, is_bounded(chosen, bounded), k, kept, reading, levels, saved.share("softness"))


def _loss(saved: FieldReader, loss: Loss | None, k: int) -> Loss:
    described = saved.mapping("loss")
    chosen = from_json(described) if loss is None else as_loss(loss)
    if to_json(chosen) != described:
        raise ValueError(f"it was saved for the loss {described}, not for {to_json(chosen)}")
    check_loss(chosen, k)
    return chosen


def _certificate(saved: FieldReader, names: tuple[Any, ...] | None, k: int) -> Certificate:
    known = rates_from_json(saved.mapping("known"), names)
    if known.n_classes != k:
        raise ValueError(f"known must describe the rates of {k} classes, but describes {known.n_classes}")
    batch_size = saved.whole("batch_size", low=1)
    return Certificate(
        loss_reduction=saved.number("loss_reduction"),
        gap=saved.number("gap"),
        residual=saved.number("residual"),
        sensitivity=saved.numbers_or_nan("sensitivity", k),
        known=known,
        batch_size=batch_size,
        approximate=batch_size != saved.whole("n_rows"),
    )
