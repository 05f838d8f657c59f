"""What a fixed shift guarantees on rows for which it was not fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.losses.base import Loss, short_name
from baserate.rates import Rates
from baserate.result.facts import json_number
from baserate.result.population_certificate import PopulationCertificate, RowSample
from baserate.result.text import MAX_CLASSES, class_name, guarantee
from baserate.support.arrays import FloatArray
from baserate.support.numbers import counted, format_column
from baserate.support.summary import Summary, Table

_ROUNDING = 1e-12  # Smaller changes of the mean loss are printed as 0.
_SAME_FALL = 1e-9  # Falls that differ by less are printed as one number.


@dataclass(frozen=True, eq=False, repr=False)
class ShiftCertificate:
    """The guarantee of a fixed shift on other rows, from :meth:`baserate.Adjustment.certify`.

    Attributes
    ----------
    loss_reduction : float
        If these rows are adjusted by the shift, their mean loss falls by at least this much, whatever the labels are,
        if their class rates satisfy :meth:`holds_for`. If it is negative, the loss may rise, but by no more than that.
        It is -inf if the loss may become infinite. It is computed for the rows as ``apply`` returns them.
    largest_fall : float
        Under the same condition, the mean loss falls by at most this much. If it is negative, the loss certainly rises.
    known : Rates
        What is known about the class rates of these rows.
    batch_size : int
        The number of rows for which the rates were interpreted; with unequal weights, the effective number.
    approximate : bool
        Whether ``batch_size`` is an effective number. A confidence is then approximate.
    n_rows : int
    before, after : array of shape (k,)
        Mean of the predictions, and of the adjusted rows.
    loss : Loss
        The loss that is meant.
    smoothing : float
        What was added to each probability before the adjustment. The guarantee compares with these predictions.
    same_rows : bool
        Whether these seem to be the rows for which the shift was fitted: they have the same number and the same mean.
    infinite : tuple
        The classes that may occur, but get probability 0 from the shift, so that the loss may become infinite.
    classes : tuple or None
    sample : RowSample
        What :meth:`for_population` needs.
    """

    loss_reduction: float
    largest_fall: float
    known: Rates
    batch_size: int
    approximate: bool
    n_rows: int
    before: FloatArray
    after: FloatArray
    loss: Loss
    smoothing: float
    same_rows: bool
    infinite: tuple[Any, ...]
    classes: tuple[Any, ...] | None
    sample: RowSample

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
        return self.known.condition(approximate=self.approximate).replace("the requested", "the given")

    def holds_for(self, rates: ArrayLike | Mapping[Any, float]) -> bool:
        """Whether the guarantee holds if these are the class rates of the rows."""
        return self.known.contains(rates, self.batch_size)

    def for_population(self, confidence: float = 0.95) -> PopulationCertificate:
        """What the shift guarantees for rows still to come from the population of these rows.

        Parameters
        ----------
        confidence : float, default 0.95
            The probability with which the bound is correct. If the rates were counted in a survey, half of the error
            probability is for the rates.

        Returns
        -------
        PopulationCertificate
            A lower confidence bound on the expected fall of the loss. It is valid for every number of rows.

        Raises
        ------
        BaserateError
            If there is no bound: for rows with unequal weights, for rates per group, for rates that were estimated for
            these rows, and for adjustments under which the loss of a single row has no lower bound.

        Examples
        --------
        >>> import baserate as br
        >>> result = br.adjust([0.1, 0.4, 0.7, 0.9], 0.25)
        >>> new = [0.2, 0.3, 0.5, 0.8] * 500
        >>> round(result.certify(new, 0.25).for_population().loss_reduction, 3)
        0.042
        """
        return self.sample.certificate(self.known, confidence, self.loss, same_rows=self.same_rows)

    def to_json(self) -> dict[str, Any]:
        """The figures as plain JSON values."""
        low, high = self.bounds
        names = range(len(self.before)) if self.classes is None else self.classes
        columns = {"before": self.before, "after": self.after, "at_least": low, "at_most": high}
        return {
            "rows": self.n_rows,
            "loss": repr(self.loss),
            "loss_reduction": json_number(self.loss_reduction),
            "largest_fall": json_number(self.largest_fall),
            "condition": self.condition,
            "same_rows": self.same_rows,
            "classes": [
                {"class": str(name), **{column: json_number(values[j]) for column, values in columns.items()}}
                for j, name in enumerate(names)
            ],
        }

    def without_sample(self) -> ShiftCertificate:
        """The same without what :meth:`for_population` needs, which is some ten kilobytes."""
        refused = RowSample.refused("the sums over the rows were not kept")
        return replace(self, sample=refused)

    def __repr__(self) -> str:
        return self.summary().text()

    def _repr_html_(self) -> str:
        return self.summary().html()

    def summary(self) -> Summary:
        """What a person sees of the certificate, in terminals and notebooks."""
        low, high = self.bounds
        rates = {"rate": low} if self.known.kind == "exact" else {"at least": low, "at most": high}
        numbers = {"before": self.before, "after": self.after, **rates}
        columns = {name: format_column(values[:MAX_CLASSES]) for name, values in numbers.items()}
        names = [class_name(name) for name in (self.classes or range(len(low)))[:MAX_CLASSES]]
        hidden = len(low) - len(names)
        notes = [f"... and {counted(hidden, 'more class')}"] if hidden else []
        table = Table.of({"class": names, **columns})
        return Summary(title(self.n_rows, len(low)), self._statements(), [table], notes)

    def _statements(self) -> list[str]:
        loss = f"{short_name(self.loss)} loss"
        if self._rises_by_one_number():
            lines = [f"mean {loss} rises by {-self.loss_reduction:.6g}, {self.condition}"]
        else:
            lines = [promise(self.loss_reduction, self.condition, loss, self.infinite)]
            lines += _most(self.loss_reduction, self.largest_fall)
        if self.smoothing:
            lines.append(f"the change is relative to smoothed predictions: {self.smoothing:g} was added to each entry")
        if self.same_rows:
            lines.append("these seem to be the rows for which the shift was fitted: same number, same mean")
        return lines

    def _rises_by_one_number(self) -> bool:
        least, most = self.loss_reduction, self.largest_fall
        return bool(np.isfinite(least) and least < -_ROUNDING and most < 0 and most - least <= _SAME_FALL)


def title(n_rows: int, n_classes: int) -> str:
    """The first line about a fixed shift."""
    return f"Guarantee of a fixed shift for {counted(n_rows, 'row')}, {n_classes} classes"


def promise(fall: float, condition: str, loss: str, infinite: tuple[Any, ...]) -> str:
    """By how much the loss falls, or may rise, and under which condition."""
    if not np.isneginf(fall):
        return guarantee(0.0 if -_ROUNDING < fall < 0 else fall, condition, loss)
    names = f": {', '.join(class_name(name) for name in infinite)}" if infinite else ""
    return (
        f"mean {loss} may become infinite, {condition}; the shift gives probability 0 to classes that may occur{names}"
    )


def _most(least: float, largest: float) -> list[str]:
    """The largest possible fall in words, if that says more than the smallest one."""
    if largest < -_ROUNDING:
        return [f"it certainly rises, by at least {-largest:.6g}"]
    if not np.isfinite(largest) or largest - least <= _SAME_FALL:
        return []
    return [f"at most it falls by {largest:.6g}"]
