"""What a fixed shift guarantees for rows still to come from a population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from baserate.core.mean_bound import BetSums, lower_mean_bound
from baserate.errors import BaserateError
from baserate.inputs.validation import as_confidence, class_label
from baserate.losses.base import Loss, short_name
from baserate.rates import Rates
from baserate.result.facts import json_number
from baserate.result.text import guarantee
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.numbers import counted, percent
from baserate.support.summary import Summary

_EPS = float(np.finfo(np.float64).eps)
_ABOUT_ROWS = {
    "estimated": "estimated from their predictions",
    "labelled": "estimated from labels of some of them",
    "samples": "draws of their class rates",
}
"""Kinds of rates that say nothing about other rows of the population, and where they are from."""
_SET = ", whose class rates lie in the given set"


@dataclass(frozen=True, eq=False, repr=False)
class PopulationCertificate:
    """A lower confidence bound on the expected fall of the loss, from :meth:`ShiftCertificate.for_population`.

    Attributes
    ----------
    loss_reduction : float
        The expected loss of a row of the population falls by at least this much if the row is adjusted by the shift.
        If it is negative, the expected loss may rise, but by no more than that. It holds for predictions that are
        returned as float64.
    confidence : float
        The probability with which the bound is correct.
    n_rows : int
        The number of rows from which it was computed.
    known : Rates
        What is known about the class rates of the population. If it was counted in a survey, its confidence is a part
        of the whole one.
    condition : str
        The condition under which the bound holds, as the end of a sentence.
    same_rows : bool
        Whether the rows seem to be those for which the shift was fitted. The bound does not hold then.
    loss : Loss
    """

    loss_reduction: float
    confidence: float
    n_rows: int
    known: Rates
    condition: str
    same_rows: bool
    loss: Loss

    def to_json(self) -> dict[str, Any]:
        """The figures as plain JSON values."""
        names = ("confidence", "condition", "same_rows")
        return {
            "loss_reduction": json_number(self.loss_reduction),
            **{name: getattr(self, name) for name in names},
            "rows": self.n_rows,
        }

    def __repr__(self) -> str:
        return self.summary().text()

    def _repr_html_(self) -> str:
        return self.summary().html()

    def summary(self) -> Summary:
        """What a person sees of the certificate, in terminals and notebooks."""
        lines = [guarantee(self.loss_reduction, self.condition, f"{short_name(self.loss)} loss of rows to come")]
        if self.same_rows:
            lines.append(
                "these seem to be the rows for which the shift was fitted (same number, same mean): the bound does not "
                "hold; pass other rows"
            )
        return Summary(f"Guarantee of a fixed shift for a population, from {counted(self.n_rows, 'row')}", lines)


class RowSample(NamedTuple):
    """What is known about the rows of a population from some of them.

    Attributes
    ----------
    bets : BetSums or None
    limits : pair of float or None
    kept : int array
        The classes that may get probability.
    shift : array
        Their shift.
    refusal : str
        Why there is no bound; empty if there is one.
    """

    bets: BetSums | None
    limits: tuple[float, float] | None
    kept: IndexArray
    shift: FloatArray
    refusal: str

    @classmethod
    def refused(cls, why: str) -> RowSample:
        """A sample from which nothing can be concluded."""
        return cls(None, None, np.zeros(0, dtype=np.intp), np.zeros(0), why)

    def certificate(self, known: Rates, confidence: object, loss: Loss, *, same_rows: bool) -> PopulationCertificate:
        """The bound for a population with these rates."""
        level = as_confidence(confidence)
        if self.refusal:
            raise BaserateError(f"nothing can be guaranteed for a population: {self.refusal}")
        _check_about_population(known)
        assert self.bets is not None
        if np.isnan(self.bets.counts).any():
            raise BaserateError(
                f"nothing can be guaranteed for a population: {loss!r} is not computed precisely enough"
            )
        assert self.limits is not None
        alpha_rows, known = _split(known, 1.0 - level)
        rate_set = known.rate_set(None)
        self._check_kept(known, rate_set.high)
        n_rows = round(float(self.bets.counts.sum()))
        worst = rate_set.restrict(self.kept).support(self.shift, rate_set.low[self.kept])
        rounding = 8 * _EPS * float(np.abs(self.shift) @ (np.abs(worst) + 1.0))
        fall = lower_mean_bound(self.bets, self.limits, alpha_rows) + float(self.shift @ worst) - rounding
        condition = _condition(known, level, alpha_rows)
        return PopulationCertificate(fall, level, n_rows, known, condition, same_rows, loss)

    def _check_kept(self, known: Rates, high: FloatArray) -> None:
        excluded = np.setdiff1d(np.flatnonzero(high > 0), self.kept)
        if excluded.size:
            name = class_label(known.classes, int(excluded[0]))
            raise BaserateError(
                f"nothing can be guaranteed for a population: the shift was fitted for a rate of 0 of {name}, but it "
                "may occur in the population; fit again with a rate above 0"
            )


def _check_about_population(known: Rates) -> None:
    if known.kind in _ABOUT_ROWS:
        raise BaserateError(
            "nothing can be guaranteed for a population: the rates are about "
            f"these rows ({_ABOUT_ROWS[known.kind]}), not about their population; pass the counts of a survey of the "
            "population, its rates, or bounds on them"
        )


def _split(known: Rates, alpha: float) -> tuple[float, Rates]:
    """The error probability for the rows, and the rates with the rest of it."""
    if known.certainty is None or known.rate_set(None).is_point:
        return alpha, known
    return alpha / 2, known.at_confidence(1.0 - alpha / 2)


def _condition(known: Rates, level: float, alpha_rows: float) -> str:
    is_survey = known.kind == "counts"
    about = "about " if known.is_approximate else ""
    split = ""
    if known.certainty is not None and not known.rate_set(None).is_point:
        split = f" ({percent(1 - alpha_rows)} for the rows, {percent(known.certainty)} for the rates)"
    which = ", which has the given class rates" if known.kind in ("exact", "population") else _SET
    return (
        f"with {about}{percent(level)} confidence{split}, if {'the survey, ' * is_survey}these rows and the rows to "
        f"come are independent draws from the same population{'' if is_survey else which}, and the shift was fitted on "
        "other rows"
    )
