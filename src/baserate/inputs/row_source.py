"""The predictions that a caller passed, and what was said about how to find and read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from baserate.inputs.columns import ColumnSelection
from baserate.inputs.dataframes import Frame
from baserate.inputs.reading import Reading
from baserate.inputs.validation import as_dtype, as_flag, as_smoothing
from baserate.inputs.vectors import Vector
from baserate.progress import Progress

Form = Frame | Vector
"""What predictions in memory were, without their numbers."""


@dataclass(frozen=True, kw_only=True)
class RowSource:
    """Predictions as a caller passed them. An engine opens them; see :class:`baserate.core.contracts.Engine`.

    Attributes
    ----------
    probs : object
        An array, a dataframe, files, a query, a Dask collection, a Spark DataFrame, or a Ray Dataset.
    sample_weight, from_logits, normalize, zeros, columns, out, dtype, progress
        Options of :func:`baserate.adjust`.
    argument : str
        The name of the argument, for messages.
    named_classes : sequence, optional
        Classes that the caller names. They help to find the columns.
    names_all : bool
        Whether there are no classes besides ``named_classes``.
    fitted : bool
        Whether ``named_classes`` are the classes of a fitted adjustment, so that the columns are wanted in their order
        and one row may be passed as a vector.
    fitted_form : Frame or Vector, optional
        The form of the predictions to which the adjustment was fitted. The columns of a dataframe are expected again.
    one_column : bool
        Whether the adjustment was fitted to one number per row, so that a vector holds many rows.
    writes : bool
        Whether the adjusted rows are wanted. Files then need ``out`` to apply a fitted adjustment.
    other_columns : dict
        Further columns of files that will be read, by what they contain: ``{"labels": "y"}``. Opening the files fails
        if one is missing. :meth:`baserate.engines.files.FilesEngine.read_column` reads them.
    groups : object
        Option of :func:`baserate.adjust`: the groups of the rows, if they are not columns of ``probs``.
    group_keys : tuple, optional
        The columns by which rates per group are given; None if there are no rates per group.
    """

    probs: Any
    sample_weight: Any = None
    from_logits: bool = False
    normalize: bool = False
    zeros: str | float = "keep"
    columns: str | Sequence[Any] | None = None
    out: Any = None
    dtype: Any = None
    progress: Progress | None = None
    argument: str = "probs"
    named_classes: Sequence[Any] | None = None
    names_all: bool = False
    fitted: bool = False
    fitted_form: Form | None = None
    one_column: bool = False
    writes: bool = True
    other_columns: Mapping[str, str] = field(default_factory=dict)
    groups: Any = None
    group_keys: tuple[Any, ...] | None = None

    @property
    def reading(self) -> Reading:
        """How single rows become probabilities."""
        return Reading(
            as_flag("from_logits", self.from_logits), as_flag("normalize", self.normalize), as_smoothing(self.zeros)
        )

    @property
    def answer_dtype(self) -> np.dtype[Any] | None:
        """The dtype that the caller asked for, or None for that of the predictions."""
        return None if self.dtype is None else as_dtype(self.dtype)

    @property
    def choice(self) -> ColumnSelection:
        """What is known about the columns that hold the probabilities."""
        return ColumnSelection(self.columns, self.named_classes, self.fitted, self.group_keys or ())
