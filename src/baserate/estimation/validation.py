"""Labelled validation rows, which are read into memory, with the columns in the order of the batch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.core.contracts import Block, Engine
from baserate.core.row_model import RowModel
from baserate.engines import open_rows
from baserate.engines.files import FilesEngine
from baserate.errors import BadLabels, BadOption, BadProbabilities, Option
from baserate.inputs.dataframes import is_dataframe
from baserate.inputs.labels import as_columns
from baserate.inputs.reading import Naming, Reading
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import quoted, quoted_name
from baserate.losses.registry import as_loss
from baserate.support.arrays import FloatArray, IndexArray
from baserate.tables import distinct_values, is_table

Y_VAL, PROBS_VAL = Option("y_val"), Option("probs_val")


class ValidationRows(NamedTuple):
    """Predictions of shape (n, k), and the column number of the true class of each row."""

    probs: FloatArray
    y: IndexArray


def row_model(n_classes: int, reading: Reading) -> RowModel:
    """How rows are read; nothing is adjusted here."""
    return RowModel(as_loss("log"), True, n_classes, np.arange(n_classes), reading)


def names_of_labels(probs: Any, y: Any) -> tuple[Any, ...] | None:
    """The labels that occur, in a column or by themselves, which help to find the columns with probabilities."""
    if isinstance(y, str) and is_table(probs):
        return tuple(sorted(distinct_values(probs, y, "labels"), key=str))
    if isinstance(y, str):
        y = probs[y] if is_dataframe(probs) and y in _column_names(probs) else ()
    labels = {str(label) for label in np.asarray(y).ravel().tolist()} - {"None", "nan", "<NA>", "NaT"}
    return tuple(sorted(labels)) or None


def has_several_columns(probs: Any) -> bool:
    """Whether this is a dataframe with more than one column."""
    return is_dataframe(probs) and len(_column_names(probs)) > 1


def read_labelled(
    probs: Any, y: Any, batch: Engine, names: tuple[Any, ...] | None, source: RowSource
) -> ValidationRows:
    """Read validation rows.

    Parameters
    ----------
    probs, y : objects
        The arguments ``probs_val`` and ``y_val``.
    batch : Engine
        The unlabelled rows, whose columns are expected again.
    names : tuple or None
        The names of the classes of the batch.
    source : RowSource
        The batch as the caller passed it, whose options also hold for the validation rows.
    """
    column = y if isinstance(y, str) else None
    others = {} if column is None else {"labels": column}
    columns = source.columns
    if batch.columns is not None and (hasattr(probs, "columns") or not hasattr(probs, "__array__")):
        columns = list(batch.columns.names)
    elif column is not None and columns is None and is_dataframe(probs):
        columns = [name for name in _column_names(probs) if name != column]  # the batch is an array
    rows = open_rows(
        replace(source, probs=probs, argument="probs_val", columns=columns, named_classes=names, other_columns=others)
    )
    k = batch.n_classes
    if rows.n_classes != k:
        raise BadProbabilities(
            f"{PROBS_VAL} has {rows.n_classes} classes, but the batch has {k}; pass predictions of the same classifier",
            options=[PROBS_VAL],
        )
    parts = list(rows.map(partial(_checked, row_model(k, source.reading), rows.naming)))
    values = np.concatenate(parts)
    labels = y if column is None else _label_column(probs, rows, column)
    return ValidationRows(values, _columns_of(labels, values.shape, names, batch))


def _checked(model: RowModel, naming: Naming, block: Block) -> FloatArray:
    block = block.as_numpy()
    model.reading.check(block.rows, block.start, naming)
    return model.read(block.rows)[0]


def _label_column(probs: Any, rows: Engine, column: str) -> NDArray[Any]:
    if isinstance(rows, FilesEngine):
        found = rows.read_column(column)
        if (found.codes < 0).any():
            first = int((found.codes < 0).argmax())
            raise BadLabels(f"{rows.naming.row(first)}, column {quoted_name(column)} is empty; give every row a label")
        return np.asarray(found.values)[found.codes]
    there = _column_names(probs)
    if column not in there:
        raise BadOption(
            f"{Y_VAL} is {quoted_name(column)}, but {PROBS_VAL} has no column with this name"
            f"{f'; it has {quoted(there)}' if there else ''}",
            options=[Y_VAL, PROBS_VAL],
        )
    return np.asarray(probs[column])


def _column_names(probs: Any) -> list[Any]:
    # The attribute ``columns`` of a pyarrow table holds the values, not the names.
    return list(probs.column_names if hasattr(probs, "column_names") else getattr(probs, "columns", []))


def _columns_of(y: Any, shape: tuple[int, ...], names: tuple[Any, ...] | None, batch: Engine) -> IndexArray:
    labels = np.asarray(y)
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        i = int(np.isnan(labels).argmax()) if labels.ndim == 1 else 0
        raise BadLabels(f"{Y_VAL}[{i}] is NaN; give every validation row a label, or drop it", options=[Y_VAL])
    if labels.dtype.kind == "f" and (labels == np.floor(labels)).all():
        labels = labels.astype(np.intp)  # labels of a column that once had missing values
    if labels.shape != shape[:1]:
        swapped = labels.ndim == 1 and len(labels) == batch.n_rows
        hint = "; that is the number of rows of the batch: are the batch and the validation rows swapped?"
        raise BadLabels(
            f"{Y_VAL} has shape {labels.shape}, but {PROBS_VAL} has {shape[0]:,} rows{hint if swapped else ''}",
            options=[Y_VAL, PROBS_VAL],
        )
    try:
        return as_columns(labels, (shape[0], shape[1]), names, one_column=batch.one_column)
    except BadLabels as error:
        raise BadLabels(f"{Y_VAL}: {error}", options=[*error.options, Y_VAL]) from None
