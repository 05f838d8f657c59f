"""What is found out about predictions and stated rates before advice is given."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from baserate.analysis.plausibility import LabelShiftCheck, RatesCheck, check_label_shift, check_rates, expected_rise
from baserate.analysis.premise import PremiseTest, check_premise, effective_rows, most_likely_rates
from baserate.errors import BadLabels, BadOption, InfeasibleRates, Option
from baserate.inputs.labels import as_columns
from baserate.inputs.validation import class_label
from baserate.rates import Rates, RatesLike, as_known
from baserate.result.record import Result
from baserate.solving import Request, adjusted, parse_request, prior_adjusted, read_predictions
from baserate.solving.predictions import Predictions
from baserate.support.arrays import FloatArray, IndexArray

LEVEL = 0.05
"""Up to this p-value the assumption of prior adjustment, or of a change of the class rates alone, is rejected."""

DOUBT_LEVEL = 0.07
"""Up to this p-value the stated rates contradict the predictions.

It is not 0.05: an error of 5 points in a batch of 1000 rows should be noticed in 95 % of the batches.
"""

_CLEAR_ODDS = float(np.log(20.0))  # Rows that are this much more likely under the stated rates clear them of doubt.
_ONE_VECTOR = ("exact", "population", "counts")  # Kinds of rates that have one best estimate.
_ESTIMATED = ("estimated", "labelled")  # Kinds of rates that were estimated for these very rows.
PROBS_VAL, Y_VAL = Option("probs_val"), Option("y_val")


class Validation(NamedTuple):
    """Labelled rows from before the change: predictions, and classes as column numbers."""

    probs: FloatArray
    y: IndexArray


class PriorFindings(NamedTuple):
    """What is found out about prior adjustment.

    Attributes
    ----------
    test : PremiseTest
    extra_loss : float
        Its mean log loss on these rows minus that of adjustment for log loss, if the rates are those of these rows.
    log_odds : float
        Log-likelihood of these rows under the stated rates, minus that under the rates in training.
    most_likely : array of shape (k,)
        The rates under which these rows are most likely, if only the class rates have changed.
    reweighted : array of shape (n, k)
        The rows adjusted for log loss.
    """

    test: PremiseTest
    extra_loss: float
    log_odds: float
    most_likely: FloatArray
    reweighted: FloatArray

    @property
    def rejected(self) -> bool:
        """Whether the assumption of prior adjustment is rejected."""
        return self.test.p_value <= LEVEL


class Findings(NamedTuple):
    """Everything that the advice is based on.

    Attributes
    ----------
    predictions : Predictions
    best : Result
        The adjustment to the stated rates.
    check : RatesCheck
        The stated rates, compared with the predictions.
    as_population : RatesCheck or None
        The same for the stated rates as those of a population, if they are exact and contradict the predictions.
    rise : float
        Expected rise of the mean loss by adjustment, if the labels follow the predictions.
    prior : PriorFindings or None
    shift : LabelShiftCheck or None
        The stated rates, compared with validation data.
    """

    predictions: Predictions
    best: Result
    check: RatesCheck
    as_population: RatesCheck | None
    rise: float
    prior: PriorFindings | None
    shift: LabelShiftCheck | None

    @property
    def known(self) -> Rates:
        """The stated rates."""
        return self.best.certificate.known

    @property
    def fall(self) -> float:
        """The guaranteed fall of the loss."""
        return self.best.certificate.loss_reduction

    @property
    def conflicting(self) -> bool:
        """Whether the rates contradict predictions that are calibrated in the population of these rows."""
        return self.check.p_value <= DOUBT_LEVEL

    @property
    def shift_check(self) -> LabelShiftCheck | None:
        """The comparison with validation data, or with the rates in training."""
        if self.shift is not None or self.prior is None:
            return self.shift
        return LabelShiftCheck(self.prior.test.p_value, self.prior.log_odds)

    @property
    def shift_confirmed(self) -> bool:
        """Whether these rows show a change of the class rates to the stated ones."""
        check = self.shift_check
        return check is not None and check.p_value > LEVEL and self.moved_towards_rates

    @property
    def moved_towards_rates(self) -> bool:
        """Whether these rows are clearly more likely under the stated rates than under those in training."""
        return self.shift_check is not None and self.shift_check.log_odds >= _CLEAR_ODDS

    @property
    def doubtful(self) -> bool:
        """Whether the rates contradict the predictions, and no change of the class rates explains it."""
        return self.conflicting and not self.shift_confirmed and not self.estimated

    @property
    def estimated(self) -> bool:
        """Whether the rates were estimated for these rows. Then the mean prediction says nothing against them."""
        return self.known.kind in _ESTIMATED

    @property
    def fits_population(self) -> bool:
        """Whether the rates, though not those of these rows, may be those of a population that these rows are from."""
        return self.as_population is not None and self.as_population.p_value > DOUBT_LEVEL


def read_validation(probs_val: Any, y_val: ArrayLike | None, request: Request) -> Validation | None:
    """The validation data of a caller, or None if there is none."""
    if probs_val is None and y_val is None:
        return None
    if probs_val is None or y_val is None:
        raise BadOption(f"validation data needs both {PROBS_VAL}= and {Y_VAL}=", options=[PROBS_VAL, Y_VAL])
    known = request.known
    one_column = request.rows.one_column
    p = read_predictions(parse_request(probs_val, known, classes=known.classes if one_column else None)).probs
    y = as_columns(y_val, p.shape, known.classes, one_column=one_column, what=Y_VAL)
    missing = np.flatnonzero(np.bincount(y, minlength=p.shape[1]) == 0)
    if missing.size:
        name = class_label(known.classes, int(missing[0]))
        raise BadLabels(f"{Y_VAL} has no rows of {name}; every class must occur", options=[Y_VAL])
    return Validation(p, y)


def find(
    predictions: Predictions,
    best: Result,
    old_rates: RatesLike | None,
    validation: Validation | None,
    options: dict[str, Any],
) -> Findings:
    """Compare the stated rates with the predictions, with the rates in training, and with validation data."""
    p, weights = predictions
    known, shift, prior, as_population = best.certificate.known, None, None, None
    check = check_rates(p, weights, known)
    if validation is not None and known.kind in _ONE_VECTOR:
        shift = check_label_shift(p, weights, known, validation.probs, validation.y)
    if old_rates is not None and known.kind in _ONE_VECTOR:
        prior = _find_prior(p, weights, known, old_rates, options)
    if known.kind == "exact" and check.p_value <= DOUBT_LEVEL:
        as_population = check_rates(p, weights, Rates.of_population(known.estimate(), classes=known.classes))
    rise = expected_rise(best.loss, p, np.asarray(best.answer), weights)
    return Findings(predictions, best, check, as_population, rise, prior, shift)


def _find_prior(
    p: FloatArray, weights: FloatArray, known: Rates, old_rates: RatesLike, options: dict[str, Any]
) -> PriorFindings:
    """Test the assumption of prior adjustment, and compare it with adjustment for log loss."""
    pi = known.estimate()
    old = as_known(old_rates, known.classes, p.shape[1], what="old_rates").estimate()
    # The predictions were read before, so options that say how to read them do not apply.
    prior = prior_adjusted(p, old, pi, sample_weight=weights)
    stop = {name: options[name] for name in ("tol", "max_passes") if name in options}
    try:
        best = adjusted(p, pi, sample_weight=weights, **stop)
        extra, rows = best.certificate.loss_reduction - prior.certificate.loss_reduction, np.asarray(best.answer)
    except InfeasibleRates:
        extra, rows = float("nan"), np.asarray(prior.answer)
    trained = old > 0
    with np.errstate(divide="ignore"):
        log_odds = effective_rows(weights) * float(weights @ np.log(p[:, trained] @ (pi / old)[trained]))
    most_likely = np.zeros(len(pi))
    most_likely[trained] = most_likely_rates(p[:, trained] / old[trained], weights)
    return PriorFindings(check_premise(np.asarray(prior.answer), weights, known), extra, log_odds, most_likely, rows)
