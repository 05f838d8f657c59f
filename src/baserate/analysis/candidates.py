"""The procedures that a comparison tries: each can be fitted to rows and then adjusts any rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from baserate.analysis.procedure_names import ADDITIVE, PRIOR, adjusted_for, adjusted_to_likely_rates
from baserate.errors import BadRates
from baserate.losses.base import Loss
from baserate.rates import Rates
from baserate.result.record import Result
from baserate.solving import adjusted, prior_adjusted
from baserate.support.arrays import FloatArray

_NOT_OF_PRIOR = ("tol", "max_passes")


class Candidate(NamedTuple):
    """A procedure.

    Attributes
    ----------
    name : str
    fit : callable
        ``fit(probs, known, **options)`` adjusts predictions to what is known about their rates.
    """

    name: str
    fit: Callable[..., Result]


class Candidates(NamedTuple):
    """The procedures that are possible with what is known, and notes on those that are not."""

    procedures: list[Candidate]
    notes: list[str]


def candidates(known: Rates, old_rates: Rates | None, losses: Sequence[Loss]) -> Candidates:
    """The procedures to compare."""
    to_sets = [Candidate(adjusted_to_likely_rates(loss), _to_a_set(loss)) for loss in losses]
    try:
        known.estimate()
    except BadRates as error:  # procedures that need one vector of rates are left out
        return Candidates(to_sets, [f"only adjustment to a rate set is compared: {error}"])
    prior = [] if old_rates is None else [Candidate(PRIOR, _prior(old_rates))]
    additive = Candidate(ADDITIVE, _to_rates("brier", bounded=False))
    to_rates = [Candidate(adjusted_for(loss), _to_rates(loss)) for loss in losses]
    return Candidates([*prior, additive, *to_rates, *to_sets], [])


def _to_rates(loss: str | Loss, **fixed: Any) -> Callable[..., Result]:
    def fit(probs: Any, known: Rates, **options: Any) -> Result:
        return adjusted(probs, known.estimate(), loss=loss, **fixed, **options)

    return fit


def _to_a_set(loss: Loss) -> Callable[..., Result]:
    def fit(probs: Any, known: Rates, **options: Any) -> Result:
        rate_set = known if known.kind != "exact" else Rates.of_population(known.estimate())
        return adjusted(probs, rate_set, loss=loss, **options)

    return fit


def _prior(old_rates: Rates) -> Callable[..., Result]:
    def fit(probs: Any, known: Rates, **options: Any) -> Result:
        rest = {name: value for name, value in options.items() if name not in _NOT_OF_PRIOR}
        return prior_adjusted(probs, old_rates, known.estimate(), **rest)

    return fit


def are_rates_of_labels(known: Rates, label_rates: FloatArray, n_rows: int) -> bool:
    """Whether the rates were taken from the labels: they give the same number of rows of each class."""
    if known.kind == "between":
        return False  # bounds are not an estimate
    stated = known.counts / known.counts.sum() if known.kind == "counts" else known.estimate()  # type: ignore[attr-defined]  # this kind has counts
    return bool(np.abs(n_rows * (stated - label_rates)).max() < 0.5)


def with_rates_of(known: Rates, targets: FloatArray, weights: FloatArray, occurs: FloatArray) -> Rates:
    """The same kind of rates, taken from the labels of other rows.

    A class that occurs in the comparison, but not in these rows, counts as half a row. A rate of 0 would give it
    probability 0, and an infinite log loss wherever it occurs.
    """
    rates = np.maximum(weights @ targets / weights.sum(), np.where(occurs, 0.5 / len(targets), 0.0))
    if known.kind == "counts":
        return replace(known, counts=np.rint(rates * len(targets)).astype(np.int64))  # type: ignore[call-arg]  # this kind has counts
    return replace(known, values=rates / rates.sum())  # type: ignore[call-arg]  # these kinds have values
