"""Rows for which an adjustment was not fitted, to which its shift is applied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from baserate.core.contracts import Engine, LazyAnswer
from baserate.core.row_model import RowModel
from baserate.engines import open_rows
from baserate.errors import BadOption, BadProbabilities, Option
from baserate.inputs.dataframes import Frame
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import as_flag
from baserate.result.record import Result
from baserate.solving.request import class_names


def new_row_source(result: Result, probs: Any, *, from_logits: bool | None = None, **given: Any) -> RowSource:
    """Rows to which the shift of a result is applied, with the columns of its fit.

    Parameters
    ----------
    result : Result
    probs : object
    from_logits : bool, optional
        By default as in the fit.
    **given
        Other fields of :class:`RowSource`.
    """
    logits = result.model.reading.from_logits if from_logits is None else as_flag("from_logits", from_logits)
    return RowSource(
        probs=probs,
        from_logits=logits,
        argument="new_probs",
        named_classes=result.classes,
        fitted=True,
        fitted_form=result.form,
        one_column=result.one_column,
        **given,
    )


def open_new_rows(result: Result, source: RowSource) -> tuple[Engine, RowModel]:
    """Rows that a shift is applied to, and the model by which they are adjusted."""
    normalize = as_flag("normalize", source.normalize)
    rows = open_rows(source)
    k = result.model.n_classes
    if rows.n_classes != k:
        raise BadProbabilities(
            f"{source.argument} has {rows.n_classes} columns, but the adjustment was fitted on {k} classes",
            options=[Option(source.argument)],
        )
    reading = replace(result.model.reading, from_logits=source.from_logits, normalize=normalize)
    return rows, replace(result.model, reading=reading, answer_types=rows.answer_types)


def check_whole(rows: Engine, source: RowSource) -> None:
    """Raise if rows are to be returned with all columns, but are not a table that has others."""
    if not isinstance(rows.form, Frame) and not rows.answers_lazily:
        raise BadOption(
            f"whole= is for a dataframe in memory, in Spark or in Ray, or for a query, but {source.argument} is not one"
        )


def answer_in_form(rows: Engine, *, whole: bool) -> Any:
    """The rows that an engine has written, in the form of the predictions; ``whole`` with all columns."""
    answer = rows.answer()
    if isinstance(answer, LazyAnswer):
        return answer.frame() if whole else answer.columns()
    if whole:
        assert isinstance(rows.form, Frame)
        return rows.form.wrap_whole(answer)
    return answer if rows.form is None else rows.form.wrap(answer)


def names_of_classes(result: Result, rows: Engine) -> tuple[Any, ...] | None:
    """The names of the classes: those of the fit, or of the columns."""
    return class_names(rows, None) if result.classes is None else result.classes
