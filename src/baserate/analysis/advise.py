"""Advice on which procedure to use, with the figures behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.analysis.findings import Findings, find, read_validation
from baserate.analysis.plausibility import may_be_exact, rates_between
from baserate.analysis.premise import largest_entry
from baserate.analysis.reasons import (
    OF_POPULATION,
    OPTIONS,
    Reason,
    about_confidence,
    about_zeros,
    contradiction,
    reasons_for,
    stakes,
)
from baserate.errors import InfeasibleRates, Option
from baserate.inputs.validation import class_label
from baserate.losses.base import Loss, short_name
from baserate.losses.log import Log
from baserate.rates import Rates, RatesLike
from baserate.result.facts import json_number
from baserate.solving import Request, adjusted, known_rates, parse_request, read_predictions
from baserate.support.summary import Summary


@dataclass(frozen=True, eq=False, repr=False)
class Advice:
    """Which procedure to use, and why.

    Attributes
    ----------
    procedure : "prior", "adjust", "check" or "none"
        What to do. "prior": call :func:`prior_adjust`. "adjust": call :func:`adjust` with ``rates`` and ``loss``.
        "check": check the stated rates first, because they contradict the predictions; until then, it is safe to call
        :func:`adjust` with ``rates``. "none": leave the predictions as they are.
    summary : str
        The advice in one sentence.
    reasons : tuple of Reason
    rates : Rates
        The rates to adjust to: the stated ones, or a set that contains them and other plausible rates.
    loss : Loss
        The loss to adjust for.
    doubtful : bool
        Whether the stated rates and the predictions contradict each other, and nothing shows that the rates are right.
    options : tuple of Option
        The options that the summary and the reasons mention.
    """

    procedure: str
    summary: str
    reasons: tuple[Reason, ...]
    rates: Rates
    loss: Loss
    doubtful: bool = False

    @property
    def options(self) -> tuple[Option, ...]:
        return tuple(option for option in OPTIONS if str(option) in repr(self))

    def to_json(self) -> dict[str, Any]:
        """The advice as plain JSON values; None for numbers that are NaN or infinite."""
        classes = None if self.rates.classes is None else [str(name) for name in self.rates.classes]
        return {
            "procedure": self.procedure,
            "summary": self.summary,
            "doubtful": self.doubtful,
            "loss": repr(self.loss),
            "rates": {"classes": classes} | self.rates.to_json(),
            "reasons": [reason._asdict() | {"figure": json_number(reason.figure)} for reason in self.reasons],
        }

    def __repr__(self) -> str:
        return self._summary("- ").text()

    def _repr_html_(self) -> str:
        return self._summary().html()

    def _summary(self, bullet: str = "") -> Summary:
        return Summary(self.summary, [f"{bullet}{reason.says}" for reason in self.reasons])


def advise(
    probs: Any,
    rates: RatesLike,
    old_rates: RatesLike | None = None,
    *,
    probs_val: ArrayLike | None = None,
    y_val: ArrayLike | None = None,
    loss: str | Loss = "log",
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
    **options: Any,
) -> Advice:
    """Which procedure to use for these predictions and rates, whether the rates are plausible, and why.

    If the model is calibrated in the target population, the class rates of these rows differ from the mean prediction
    only by chance. If the stated rates differ more than that, either the rates are wrong or the population has changed
    since training. Unlabelled rows alone cannot show which of the two is true. The class rates in training, or
    validation data, can: if only the class rates have changed, Bayes' rule says what the predictions must be like.

    If the exact class rates of a batch are known, no reweighting of the classes has a lower log loss on it than
    :func:`adjust` for log loss. This includes prior probability adjustment (PPA, :func:`prior_adjust`). PPA is for
    rates of a population, for surveys and for single rows. It assumes that only the class rates have changed and that
    the model is calibrated. This assumption is tested.

    Parameters
    ----------
    probs : array-like or dataframe of shape (n, k), or of shape (n,) for two classes
    rates : float, array-like of shape (k,), dict, Series or Rates
        What is known about the class rates of these rows.
    old_rates : float, array-like of shape (k,), dict or Series, optional
        Class rates in training; by default those of ``y_val``. Prior adjustment needs them.
    probs_val, y_val : array-like of shape (m, k) and (m,), optional
        Validation data: predictions for labelled rows from before the change, on which the model was not trained, and
        their labels. Labels are class names, or column numbers if the classes have no names.
    loss : str or Loss, default "log"
        The loss that should fall.
    sample_weight, classes, columns
        As in :func:`adjust`.
    **options
        ``zeros``, ``normalize`` and other options of :func:`adjust`.

    Returns
    -------
    Advice

    Examples
    --------
    >>> import numpy as np, baserate as br
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(2000) < 0.1                     # 10 % are positive
    >>> x = rng.normal(2.0 * y)
    >>> p = 1 / (1 + np.exp(2 - 2 * x))                # calibrated where 50 % are positive
    >>> br.advise(p, y.mean(), old_rates=0.5)
    use adjust: the mean loss falls by at least 0.1664 if the rates are right
      - the mean prediction for class 1 is 0.2809; the stated rate is 0.105; if the predictions are right, chance alone
        gives a difference of about 0.0079 (p at most 0.002); a change of the class rates since training explains it
      - adjusting to the rates lowers the mean log loss by at least 0.1664, if they are right
      - if the predictions are right and the rates are wrong, adjusting raises the mean log loss by about 0.2098
      - the mean after prior adjustment differs from the rate of class 1 by 0.000251; chance alone gives about 0.0033
        (p = 0.94): this is compatible with a change of the class rates only
      - the mean log loss after prior adjustment is 5.7e-07 higher than after adjustment for log loss, if the rates
        are right
      - no probability is exactly 0
      - 0.35 % of the rows have a probability above 0.999; adjustment changes them very little
    """
    shared = {**options, "sample_weight": sample_weight, "classes": classes, "columns": columns}
    request = parse_request(probs, rates, loss=loss, **shared)
    predictions = read_predictions(request)
    validation = read_validation(probs_val, y_val, request)
    if old_rates is not None:
        old_rates = known_rates(request.rows, old_rates, request.known.classes, what="old_rates")
    notes = (about_zeros(predictions.probs, request.model.loss), about_confidence(predictions.probs))
    try:
        best = adjusted(probs, rates, loss=loss, **shared)
    except InfeasibleRates as error:
        return _infeasible(error, request, notes)
    if validation is not None and old_rates is None:
        old_rates = np.bincount(validation.y) / len(validation.y)
    found = find(predictions, best, old_rates, validation, options)
    if not found.doubtful and not may_be_exact(request.known, len(predictions.probs), weighted=request.rows.weighted):
        population = Rates.of_population(request.known.estimate(), classes=request.known.classes)
        passed = {**shared, "probs_val": probs_val, "y_val": y_val, "loss": loss}
        return _for_population(found, advise(probs, population, old_rates, **passed))
    return _advice(found, (*reasons_for(found, has_old_rates=old_rates is not None), *notes))


def _for_population(found: Findings, advice: Advice) -> Advice:
    """The advice for rates of a population, if the rates were stated as those of these rows but cannot be."""
    n, rate = len(found.predictions.probs), found.known.estimate()
    j = largest_entry(n * rate - np.round(n * rate))
    says = (
        f"a rate of {rate[j]:.4g} of {class_label(found.known.classes, j)} would be {n * rate[j]:.2f} of these {n} "
        f"rows, so the rates are those of a population, and this advice is for {OF_POPULATION}"
    )
    return replace(advice, reasons=(Reason("population", float(rate[j]), says), *advice.reasons))


def _infeasible(error: InfeasibleRates, request: Request, notes: tuple[Reason, ...]) -> Advice:
    missing = error.wanted - error.reachable
    return Advice(
        "none",
        f"do not adjust to these rates: zeros in the predictions make them impossible (too high by {missing:.4g})",
        (Reason("feasibility", missing, f"zeros in the predictions make these rates impossible: {error}"), *notes),
        request.known,
        request.model.loss,
    )


def _advice(found: Findings, reasons: tuple[Reason, ...]) -> Advice:
    known, loss, prior = found.known, found.best.loss, found.prior
    if found.doubtful:
        return _doubtful_advice(found, reasons)
    holds = prior is not None and not prior.rejected
    if prior is not None and holds and known.kind != "exact" and prior.log_odds > 0:
        summary = f"use prior adjustment: its assumption is not rejected (p = {prior.test.p_value:.2g})"
        return Advice("prior", summary, reasons, known, loss)
    if found.fall <= 0:
        summary = "leave the predictions as they are: the guaranteed fall of the loss is 0"
        return Advice("none", summary, reasons, known, loss)
    summary = f"use adjust: the mean loss falls by at least {found.fall:.4g} if the rates are right"
    if holds and found.shift_confirmed and not isinstance(loss, Log):
        summary = (
            f"use adjust for log loss: if only the rates have changed, as it seems, this lowers the {short_name(loss)} "
            f"loss by {_figure(reasons, 'loss'):.2g} more than adjusting for the {short_name(loss)} loss"
        )
        loss = Log()
    return Advice("adjust", summary, reasons, known, loss)


def _doubtful_advice(found: Findings, reasons: tuple[Reason, ...]) -> Advice:
    known, loss, (p, weights) = found.known, found.best.loss, found.predictions
    if found.fits_population:
        summary = (
            f"adjust to {OF_POPULATION}: {contradiction(found)}, but they agree with the predictions if they "
            "are the rates of a population and these rows are a sample from it"
        )
        rates = Rates.of_population(known.estimate(), classes=known.classes)
        return Advice("adjust", summary, reasons, rates, loss, doubtful=True)
    other, procedure = found.check.expected, "check"
    summary = f"check the rates first: {contradiction(found)}; {stakes(found)}"
    if found.prior is not None and found.moved_towards_rates:
        other, procedure = found.prior.most_likely, "adjust"
        summary = (
            f"adjust to a set of rates: {contradiction(found)}; the rows show a change towards the stated rates, but "
            "a change of the class rates alone does not explain them; the set also contains the most likely rates"
        )
    rates = rates_between(known, other, p, weights, found.best.certificate.batch_size)
    return Advice(procedure, summary, reasons, rates, loss, doubtful=True)


def _figure(reasons: tuple[Reason, ...], about: str) -> float:
    return next(reason.figure for reason in reasons if reason.about == about)
