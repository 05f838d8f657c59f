"""A fitted adjustment without its rows and its guarantee: how a row is read, and what is done to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from baserate.deploy.row_maps import IN_ONNX, Reweighting, RowMap, row_map_of
from baserate.errors import BadOption, Option
from baserate.inputs.validation import quoted_name
from baserate.losses.base import short_name
from baserate.losses.log import Log
from baserate.result.grouped import GroupedResult
from baserate.result.record import Result
from baserate.support.arrays import FloatArray, IndexArray

TO_SQL, TO_ONNX, TO_CODE = Option("to_sql"), Option("to_onnx"), Option("to_code")

TINY = float(np.finfo(np.float64).tiny)
"""The smallest probability of a class that log loss must not lose by underflow."""


@dataclass(frozen=True)
class Formula:
    """What a shift does to a row.

    Attributes
    ----------
    classes : tuple
        Names of the classes, or their numbers.
    kept : int array
        The classes that may get probability; the others get 0.
    row_map : RowMap
    from_logits : bool
    smoothing : float
        Added to every probability before the row is divided by its sum again.
    one_column : bool
        Whether a row is one number: the probability, or the log odds, of the second of two classes.
    pins_zeros : bool
        Whether a probability of 0 stays 0, and others stay above 0.
    takes_logits : bool
        Whether the loss adds the shift to logits, and not to a function of probabilities.
    loss : str
        Name of the loss.
    """

    classes: tuple[Any, ...]
    kept: IndexArray
    row_map: RowMap
    from_logits: bool
    smoothing: float
    one_column: bool
    pins_zeros: bool
    takes_logits: bool
    loss: str

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def needs_kept(self) -> bool:
        """Whether a row must give probability to one of the kept classes, because a probability of 0 stays 0."""
        return self.pins_zeros and not self.smoothing

    @property
    def shifts_logits(self) -> bool:
        """Whether rows are logits to which the shift is added."""
        return self.takes_logits and self.from_logits and not self.smoothing and isinstance(self.row_map, Reweighting)

    @property
    def lifts_probabilities(self) -> bool:
        """Whether probabilities of finite logits that are below :data:`TINY` are replaced by it, as ``apply`` does."""
        return self.pins_zeros and self.from_logits and not self.smoothing

    @classmethod
    def of(cls, result: Result, shift: FloatArray | None = None, exportable: str = IN_ONNX) -> Formula:
        """The formula of a result; ``shift`` is that of its kept classes by default.

        ``exportable`` is a sentence about the losses that can be exported, for messages.
        """
        model = result.model
        classes = tuple(range(model.n_classes)) if result.classes is None else tuple(result.classes)
        return cls(
            classes=classes,
            kept=model.kept_classes,
            row_map=row_map_of(model, result.dual_shift if shift is None else shift, exportable),
            from_logits=model.reading.from_logits,
            smoothing=model.reading.smoothing,
            one_column=result.one_column,
            pins_zeros=model.loss.pins_zeros,
            takes_logits=isinstance(model.loss, Log),
            loss=short_name(model.loss),
        )

    def reading(self, *, from_logits: bool) -> Formula:
        """The same for rows of probabilities, or of logits."""
        return replace(self, from_logits=from_logits)


def formula_for_all_rows(result: Result, what: str, exportable: str = IN_ONNX) -> Formula:
    """The formula of a result with one shift for all rows; ``what`` is what is to be written, for the message."""
    if isinstance(result, GroupedResult):
        by = ", ".join(quoted_name(margin.name) for margin in result.groups.margins)
        raise BadOption(
            f"{what} has one shift for all rows, but this adjustment has shifts per group, by {by}; use {TO_SQL}, "
            "which joins the rows with a table of shifts",
            options=[TO_SQL],
        )
    return Formula.of(result, exportable=exportable)
