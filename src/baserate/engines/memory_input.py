"""The numbers of arrays, dataframes, vectors and single rows that a caller passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baserate.errors import BadOption, BadProbabilities, Option
from baserate.inputs.class_numbers import is_one_number, one_per_class, series_to_dict
from baserate.inputs.columns import ColumnSelection
from baserate.inputs.dataframes import Frame, column_names, is_dataframe, split_dataframe
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import quoted, quoted_name
from baserate.inputs.vectors import Vector, split_vector


def values_and_form(source: RowSource) -> tuple[Any, Frame | Vector | None]:
    """The numbers of an array, a dataframe or a vector, and what else it was."""
    if is_dataframe(source.probs):
        return _take_frame_apart(source)
    if source.columns is not None:
        option = Option("columns")
        raise BadOption(
            f"{option}= selects columns of a dataframe, but {source.argument} is a {type(source.probs).__name__}",
            options=[option],
        )
    if not source.fitted or source.one_column:
        is_number = source.fitted and is_one_number(source.probs)
        found = split_vector([source.probs] if is_number else source.probs, what=source.argument)
        if found is not None:
            return found[0], replace(found[1], shape=()) if is_number else found[1]
        return source.probs, None
    _check_one_row(source)
    classes = None if source.named_classes is None else tuple(source.named_classes)
    named = series_to_dict(source.probs, classes)
    if isinstance(named, Mapping):  # one row by class name
        return one_per_class(named, classes, len(classes or ()), source.argument, missing=np.nan), None
    return source.probs, None


def _check_one_row(source: RowSource) -> None:
    """Raise if a vector of two numbers seems to be meant as the probabilities of one class."""
    listed = isinstance(source.probs, (list, tuple, np.ndarray))
    if source.from_logits or source.normalize or not listed or not len(source.probs):
        return
    values = np.asarray(source.probs) if np.ndim(source.probs[0]) == 0 else None
    if values is not None and values.shape == (2,) and values.dtype.kind == "f" and abs(values.sum() - 1) > 0.01:
        raise BadProbabilities(
            f"{source.argument} is a vector of two numbers, which is one row of the two classes, but it sums to "
            f"{values.sum():.4g}; to adjust probabilities of one class, pass np.column_stack([1 - p, p])"
        )


def _take_frame_apart(source: RowSource) -> tuple[NDArray[Any], Frame]:
    columns, selected, fitted = source.columns, None, source.fitted_form
    if source.one_column and columns is None and not isinstance(fitted, Frame):
        return split_dataframe(source.probs, [_column_of_class(source)], what=source.argument, selected=True)
    if source.fitted and columns is None and isinstance(fitted, Frame):
        columns, selected = fitted.columns, fitted.selected
    elif source.fitted:
        columns, selected = source.named_classes if columns is None else columns, columns is not None
        there = column_names(source.probs)
        if source.columns is None and source.named_classes is not None and not set(source.named_classes) & set(there):
            choice = ColumnSelection(None, source.named_classes, ordered=True)
            columns, selected = choice.among(there, what=source.argument).names, True
    if source.fitted and source.group_keys:
        selected = True  # the columns of the groups are there, too
    named = None if source.fitted else source.named_classes
    return split_dataframe(
        source.probs,
        columns,
        what=source.argument,
        selected=selected,
        named=named,
        names_all=source.names_all,
        excluded=source.group_keys or (),
    )


def _column_of_class(source: RowSource) -> Any:
    """The column of a dataframe that holds the probabilities for which a shift of one class was fitted."""
    there = column_names(source.probs)
    if len(there) == 1:
        return there[0]
    positive = None if source.named_classes is None else source.named_classes[1]
    try:
        found = ColumnSelection(None, None if positive is None else [positive]).among(there, what=source.argument)
    except BadOption:
        found = None
    if found is None or len(found.names) != 1:
        option, of = Option("columns", "'name'"), "" if positive is None else f" of class {quoted_name(positive)}"
        raise BadProbabilities(
            f"{source.argument} has the columns {quoted(there)}; name the one with the probabilities{of}: {option}",
            options=[option],
        )
    return found.names[0]
