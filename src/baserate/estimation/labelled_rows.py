"""Which rows of a batch are labelled: row numbers, a mask, index labels, or rows from ``draw_rows``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.engines.memory import MemoryEngine
from baserate.errors import BadOption, BadProbabilities, Option
from baserate.estimation.drawn_rows import DrawnRows
from baserate.inputs.dataframes import Frame
from baserate.inputs.labels import as_columns, as_labels
from baserate.inputs.validation import quoted, quoted_name
from baserate.inputs.vectors import Vector
from baserate.rates import Rates
from baserate.rates.estimated import same_mean
from baserate.solving import Request, parse_request, read_predictions
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.numbers import counted
from baserate.tables import is_table

LABELLED, Y_LABELLED = Option("labelled"), Option("y_labelled")
WITHOUT_BATCH = Option("without_batch()")


class LabelledBatch(NamedTuple):
    """Predictions that were read, and how the caller passed them."""

    probs: FloatArray
    request: Request

    @property
    def classes(self) -> tuple[Any, ...] | None:
        return self.request.known.classes

    def columns_of(self, y_labelled: ArrayLike, n_labels: int) -> IndexArray:
        """Labels as column numbers."""
        shape, one_column = (n_labels, self.probs.shape[1]), self.request.rows.one_column
        advice = "label all rows that were drawn"
        return as_columns(y_labelled, shape, self.classes, one_column=one_column, what=Y_LABELLED, advice=advice)


def read_batch(probs: Any, what: str, **options: Any) -> LabelledBatch:
    """The predictions of a batch in memory; takes options of :func:`baserate.adjust` that say how to read them."""
    advice = "labelled rows are found by their number; read the predictions into an array or a dataframe first"
    if is_table(probs):
        raise BadProbabilities(f"{what} is in a file, but {advice}")
    request = parse_request(probs, Rates.between(None, None), argument=what, **options)
    if not isinstance(request.rows, MemoryEngine):
        raise BadProbabilities(f"{what} is a {type(probs).__name__}, whose rows are not in memory, but {advice}")
    return LabelledBatch(read_predictions(request).probs, request)


def find_rows(labelled: Any, batch: LabelledBatch) -> IndexArray:
    """The numbers of the labelled rows, in the order in which they were passed."""
    n = len(batch.probs)
    if isinstance(labelled, DrawnRows):
        _check_drawn(labelled, batch)
        return labelled.rows
    values = _as_array(labelled)
    if values.dtype.kind == "b":
        rows = _from_mask(values, n)
    elif values.dtype.kind in "iu" and not _is_index(labelled):
        _check_no_mask(values, n)
        rows = values.astype(np.intp)
    else:
        rows = _from_index(values, _index(batch))
    _check(rows, n)
    return rows


def _check_drawn(drawn: DrawnRows, batch: LabelledBatch) -> None:
    n, mean = batch.probs.shape[0], batch.probs.mean(axis=0)
    if drawn.n_rows != n:
        raise BadOption(
            f"{LABELLED} was drawn from {counted(drawn.n_rows, 'row')}, but probs_new has {n:,}; pass the predictions "
            "from which it was drawn",
            options=[LABELLED],
        )
    # The columns of a dataframe may be in another order than before.
    if drawn.mean is not None and not (len(drawn.mean) == len(mean) and same_mean(np.sort(drawn.mean), np.sort(mean))):
        before, here = (quoted(values.round(6).tolist()) for values in (drawn.mean, mean))
        raise BadOption(
            f"{LABELLED} was drawn from rows with other predictions, whose mean was {before}, but here it is {here}; "
            f"pass the predictions from which it was drawn, or call {WITHOUT_BATCH} on it if these are other "
            "predictions of the same rows",
            options=[LABELLED, WITHOUT_BATCH],
        )


def _check_no_mask(values: NDArray[Any], n: int) -> None:
    if len(values) == n > 2 and np.isin(values, (0, 1)).all():
        raise BadOption(
            f"{LABELLED} has {n:,} numbers that are 0 or 1, as many as probs_new has rows; if it is a mask, pass "
            "booleans: mask.astype(bool)",
            options=[LABELLED],
        )


def _as_array(labelled: Any) -> NDArray[Any]:
    try:
        values = np.asarray(labelled)
    except ValueError:
        values = np.empty((0, 0))
    if values.ndim != 1:
        raise BadOption(
            f"{LABELLED} must be a list of row numbers, a mask with one boolean per row, or the rows from "
            f"br.draw_rows, not {quoted_name(labelled)}",
            options=[LABELLED],
        )
    if values.size == 0:
        raise BadOption(f"{LABELLED} is empty; label at least one row", options=[LABELLED])
    return as_labels(labelled, LABELLED, "pass only the rows that were labelled", BadOption)


def _from_mask(mask: NDArray[Any], n: int) -> IndexArray:
    if len(mask) != n:
        raise BadOption(
            f"{LABELLED} is a mask for {counted(len(mask), 'row')}, but probs_new has {n:,}; pass one boolean per row, "
            "or the numbers of the labelled rows",
            options=[LABELLED],
        )
    if not mask.any():
        raise BadOption(f"{LABELLED} is a mask without a labelled row; label at least one row", options=[LABELLED])
    return np.flatnonzero(mask)


def _is_index(labelled: Any) -> bool:
    """Whether this is the index of a pandas dataframe, whose numbers are labels and not row numbers."""
    return type(labelled).__module__.startswith("pandas.") and hasattr(labelled, "get_indexer")


def _index(batch: LabelledBatch) -> Any:
    """The pandas index of the predictions, or None."""
    form = batch.request.rows.form
    if isinstance(form, Frame):
        return form.index
    if isinstance(form, Vector):
        return getattr(form.like, "index", None)
    return None


def _from_index(values: NDArray[Any], index: Any) -> IndexArray:
    if index is None:
        raise BadOption(
            f"{LABELLED} must be whole row numbers or booleans, not {quoted_name(values[0])}; only predictions in a "
            "pandas dataframe or Series have an index",
            options=[LABELLED],
        )
    if not index.is_unique:
        raise BadOption(
            f"{LABELLED} has labels of the index, but the index of probs_new has the same label for several rows; pass "
            "row numbers",
            options=[LABELLED],
        )
    rows = np.asarray(index.get_indexer(values), dtype=np.intp)
    if (rows < 0).any():
        missing = values[np.flatnonzero(rows < 0)[0]]
        raise BadOption(
            f"{LABELLED} contains {quoted_name(missing)}, which is not in the index of probs_new", options=[LABELLED]
        )
    return rows


def _check(rows: IndexArray, n: int) -> None:
    outside = np.flatnonzero((rows < 0) | (rows >= n))
    if outside.size:
        raise BadOption(
            f"{LABELLED}[{outside[0]}] is {rows[outside[0]]}, but the rows of probs_new are numbered 0 to {n - 1}",
            options=[LABELLED],
        )
    found, times = np.unique(rows, return_counts=True)
    if (times > 1).any():
        raise BadOption(
            f"{LABELLED} contains row {found[times.argmax()]} {times.max()} times; rows must be drawn without "
            "replacement, and each labelled once",
            options=[LABELLED],
        )
