"""What is guaranteed about an adjustment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from baserate.rates import Rates
from baserate.result.text import MAX_CLASSES, accuracy, class_name, guarantee
from baserate.support.arrays import FloatArray
from baserate.support.numbers import counted, format_column
from baserate.support.summary import Summary, Table


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """The guarantee of an adjustment.

    Attributes
    ----------
    loss_reduction : float
        The mean loss of these rows falls by at least this much, whatever the labels are, if their class rates satisfy
        :meth:`holds_for`. It is computed for the rows as they are returned, after rounding. It also holds if the solver
        did not converge. It is exact up to the rounding error of the losses themselves.
    gap : float
        Upper bound on how much larger the change is than the smallest possible one: the mean divergence of the adjusted
        rows from the predictions, minus a lower bound on the smallest one.
    residual : float
        Largest absolute difference between the mean of the adjusted rows and a requested rate.
    sensitivity : array of shape (k,)
        Change of ``loss_reduction`` per unit of each rate, or of its active bound. Rates sum to 1, so for exact rates
        only differences count: moving 0.01 from class j to class l changes ``loss_reduction`` by about
        ``0.01 * (sensitivity[l] - sensitivity[j])``. For bounds, a class without an active bound has 0, and raising the
        active bound of class j by 0.01 changes ``loss_reduction`` by about ``0.01 * sensitivity[j]``. If every class
        has an active bound, only differences count. NaN for classes of rate 0.
    known : Rates
        What was known about the rates.
    batch_size : int
        The number of rows for which the rates were interpreted; with unequal weights, the effective number.
    approximate : bool
        Whether ``batch_size`` is an effective number. A confidence is then approximate.
    """

    loss_reduction: float
    gap: float
    residual: float
    sensitivity: FloatArray
    known: Rates
    batch_size: int
    approximate: bool = False

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """The smallest and the largest rate of each class for which the guarantee holds; see :meth:`holds_for`."""
        return self.known.bounds(self.batch_size)

    @property
    def confidence(self) -> float | None:
        """Confidence that the rates of these rows are in the rate set; None if that is an assumption."""
        return self.known.certainty

    @property
    def condition(self) -> str:
        """The condition under which the guarantee holds, as the end of a sentence."""
        return self.known.condition(approximate=self.approximate)

    def holds_for(self, rates: ArrayLike | Mapping[Any, float]) -> bool:
        """Whether the guarantee holds if these are the class rates of the adjusted rows."""
        return self.known.contains(rates, self.batch_size)

    def __repr__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return self._summary().html()

    def _summary(self) -> Summary:
        promise = guarantee(self.loss_reduction, self.condition)
        if np.isnan(self.loss_reduction):
            return Summary("Guarantee", [promise])
        size = f"{'effectively ' if self.approximate else ''}{counted(self.batch_size, 'row')}"
        low, high = (bounds[:MAX_CLASSES] for bounds in self.bounds)
        rates = {"rate": low} if self.known.kind == "exact" else {"at least": low, "at most": high}
        columns = {name: format_column(values) for name, values in rates.items()}
        columns["sensitivity"] = format_column(self.sensitivity[:MAX_CLASSES], signed=True)
        names = [class_name(name) for name in (self.known.classes or range(len(low)))[:MAX_CLASSES]]
        hidden = len(self.sensitivity) - len(names)
        notes = [f"... and {counted(hidden, 'more class')}"] if hidden else []
        title = f"Guarantee for {size}, {len(self.sensitivity)} classes"
        statements = [promise, accuracy(self.residual, self.gap)]
        return Summary(title, statements, [Table.of({"class": names, **columns})], notes)


class ActiveBound(NamedTuple):
    """A bound that determines a rate of the adjusted predictions.

    Attributes
    ----------
    of : class name or column number
        None for the ball of ``Rates.near``.
    side : "low", "high", "exact" or "radius"
    value : float
        The bound as the caller stated it.
    """

    of: Any
    side: str
    value: float
