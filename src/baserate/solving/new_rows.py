"""Rows for which an adjustment was not fitted, to which its shift is applied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from baserate.core.contracts import Engine
from baserate.core.row_model import RowModel
from baserate.engines import open_rows
from baserate.errors import BadProbabilities, Option
from baserate.inputs.row_source import RowSource
from baserate.result.record import Result
from baserate.solving.request import class_names


def open_new_rows(result: Result, source: RowSource, *, from_logits: bool, normalize: bool) -> tuple[Engine, RowModel]:
    """Rows that a shift is applied to, and the model by which they are adjusted."""
    rows = open_rows(source)
    k = result.model.n_classes
    if rows.n_classes != k:
        raise BadProbabilities(
            f"{source.argument} has {rows.n_classes} columns, but the adjustment was fitted on {k} classes",
            options=[Option(source.argument)],
        )
    reading = replace(result.model.reading, from_logits=from_logits, normalize=normalize)
    return rows, replace(result.model, reading=reading, answer_types=rows.answer_types)


def names_of_classes(result: Result, rows: Engine) -> tuple[Any, ...] | None:
    """The names of the classes: those of the fit, or of the columns."""
    return class_names(rows, None) if result.classes is None else result.classes
