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
from baserate.inputs.dataframes import column_names, is_dataframe
from baserate.inputs.labels import as_columns, as_labels, match_labels, whole_numbers
from baserate.inputs.reading import Naming, Reading
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import quoted, quoted_name
from baserate.losses.registry import as_loss
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.locations import identity
from baserate.support.numbers import counted
from baserate.tables import distinct_values, is_table

PROBS_NEW, PROBS_VAL, Y_VAL = Option("probs_new"), Option("probs_val"), Option("y_val")

_CHECKED = 1000  # labels that are looked at to find out whether they are probabilities
_MOST_FRACTIONS = 10  # labels between 0 and 1 that may be names of classes


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
        found = distinct_values(probs, y, "labels")
        _check_no_probabilities(found, f"column {quoted_name(y)} of {PROBS_VAL}")
        return tuple(sorted(found, key=str))
    if isinstance(y, str):
        y = probs[y] if is_dataframe(probs) and y in column_names(probs) else ()
    labels = {str(label) for label in as_validation_labels(y).ravel().tolist()}
    return tuple(sorted(labels)) or None


def are_numbers_of_two_classes(names: tuple[Any, ...] | None) -> bool:
    """Whether labels are 0 and 1, or false and true: the numbers of two classes, if the classes have other names."""
    return names is not None and None not in match_labels(names, (0, 1))


def has_several_columns(probs: Any) -> bool:
    """Whether this is a dataframe with more than one column."""
    return is_dataframe(probs) and len(column_names(probs)) > 1


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
    if batch.columns is not None and (is_dataframe(probs) or not hasattr(probs, "__array__")):
        columns = list(batch.columns.names)
    elif column is not None and columns is None and is_dataframe(probs):
        columns = [name for name in column_names(probs) if name != column]  # the batch is an array
    rows = open_rows(
        replace(source, probs=probs, argument="probs_val", columns=columns, named_classes=names, other_columns=others)
    )
    _check_other_files(batch, rows)
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


def _check_other_files(batch: Engine, validation: Engine) -> None:
    """Raise if a file belongs both to the batch and to the validation data."""
    if not (isinstance(batch, FilesEngine) and isinstance(validation, FilesEngine)):
        return
    given = set(map(identity, batch.file_names))
    both = next((name for name in validation.file_names if identity(name) in given), None)
    if both is not None:
        raise BadOption(
            f"{both} is in both {PROBS_NEW} and {PROBS_VAL}; the validation data must be other rows than those whose "
            "rates are to be estimated",
            options=[PROBS_NEW, PROBS_VAL],
        )


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
    there = column_names(probs)
    if column not in there:
        raise BadOption(
            f"{Y_VAL} is {quoted_name(column)}, but {PROBS_VAL} has no column with this name"
            f"{f'; it has {quoted(there)}' if there else ''}",
            options=[Y_VAL, PROBS_VAL],
        )
    return np.asarray(probs[column])


def as_validation_labels(y: Any) -> NDArray[Any]:
    """The labels of the validation rows. Raises if one is missing."""
    labels = whole_numbers(as_labels(y, Y_VAL, "give every validation row a label, or drop the rows without one"))
    _check_no_probabilities(labels[:_CHECKED].tolist() if labels.ndim == 1 else [], str(Y_VAL))
    return labels


def _check_no_probabilities(labels: list[Any], where: str) -> None:
    """Raise if labels are numbers between 0 and 1, of which there are more than there would be classes."""
    fractions = sorted({label for label in labels if _is_fraction(label)}, key=str)
    if len(fractions) > _MOST_FRACTIONS:
        raise BadLabels(
            f"{where} contains numbers such as {quoted_name(fractions[0])}, which seem to be probabilities; pass the "
            f"true classes as {Y_VAL}=",
            options=[Y_VAL, PROBS_VAL],
        )


def _is_fraction(label: Any) -> bool:
    try:
        return not isinstance(label, bool) and 0 < float(label) < 1
    except (TypeError, ValueError, OverflowError):
        return False


def _columns_of(y: Any, shape: tuple[int, ...], names: tuple[Any, ...] | None, batch: Engine) -> IndexArray:
    labels = as_validation_labels(y)
    if labels.shape != shape[:1]:
        swapped = labels.ndim == 1 and len(labels) == batch.n_rows
        hint = "; that is the number of rows of the batch: are the batch and the validation rows swapped?"
        raise BadLabels(
            f"{Y_VAL} has shape {labels.shape}, but {PROBS_VAL} has {counted(shape[0], 'row')}"
            f"{hint if swapped else ''}",
            options=[Y_VAL, PROBS_VAL],
        )
    return as_columns(labels, (shape[0], shape[1]), names, one_column=batch.one_column, what=Y_VAL)
