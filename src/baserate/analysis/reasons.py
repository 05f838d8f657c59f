"""The findings behind an advice, as sentences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baserate.analysis.findings import LEVEL, PROBS_VAL, Y_VAL, Findings, PriorFindings
from baserate.analysis.plausibility import LabelShiftCheck, expected_rise
from baserate.errors import Option
from baserate.inputs.validation import class_label
from baserate.losses.base import Loss, short_name
from baserate.losses.log import Log
from baserate.rates import Rates
from baserate.result.record import Result
from baserate.support.arrays import FloatArray
from baserate.support.numbers import percent

_OLD_RATES, _ZEROS = Option("old_rates"), Option("zeros", "1e-6")
OF_POPULATION = Option("Rates.of_population(rates)")
OPTIONS = (_OLD_RATES, PROBS_VAL, Y_VAL, _ZEROS, OF_POPULATION, Option("loss", '"brier"'))
"""What advice can mention that is written differently elsewhere, also in the messages of errors that it quotes."""

_CONFIDENT = 0.999  # Adjustment hardly changes rows that give a class more than this.


class Reason(NamedTuple):
    """One finding that the advice is based on.

    Attributes
    ----------
    about : str
        The subject: "rates" (whether they agree with the predictions), "doubt" (the possible explanations), "risk" (the
        rise of the loss if the predictions are right), "shift" (the test on validation data), "premise" (the assumption
        of prior adjustment), "population" (the rates cannot be those of these rows), "prior" (prior adjustment compared
        with adjustment), "loss" (another loss to adjust for), "guarantee", "zeros", "confidence" or "feasibility".
    figure : float
        The p-value, guaranteed fall, number or share that was found; NaN if there is none.
    says : str
        The finding as a sentence.
    """

    about: str
    figure: float
    says: str


def contradiction(found: Findings) -> str:
    """The rates and the predictions that contradict each other, as the beginning of a sentence."""
    check, j = found.check, found.check.largest
    return (
        f"a rate of {check.stated[j]:.4g} of {class_label(found.known.classes, j)} contradicts the predictions, whose "
        f"mean is {check.expected[j]:.4g} ({_p_value(check.p_value)})"
    )


def stakes(found: Findings) -> str:
    """How much the loss falls if the rates are right, and how much it rises if the predictions are."""
    return (
        f"adjusting lowers the mean {short_name(found.best.loss)} loss by at least {found.fall:.4g} if the rates are "
        f"right, and raises it by about {found.rise:.4g} if the predictions are right"
    )


def _p_value(p: float) -> str:
    # With 99 to 499 simulated batches the smallest p-value is 0.002 to 0.01.
    return f"p = {p:.2g}" if p > 0.01 else f"p at most {p:.2g}"


def reasons_for(found: Findings, *, has_old_rates: bool) -> list[Reason]:
    """What was found out about the rates, the guarantee and prior adjustment."""
    reasons = [_about_rates(found)]
    if found.doubtful:
        reasons.append(_about_doubt(found, has_old_rates=has_old_rates))
    reasons.append(_guarantee(found.best))
    if found.conflicting:
        says = (
            f"if the predictions are right and the rates are wrong, adjusting raises the mean "
            f"{short_name(found.best.loss)} loss by about {found.rise:.4g}"
        )
        reasons.append(Reason("risk", found.rise, says))
    if found.shift is not None:
        reasons.append(_about_shift(found.shift))
    if found.prior is not None:
        reasons += [_about_premise(found.prior, found.known), _about_prior(found.prior, found.known)]
        if found.shift_confirmed and not isinstance(found.best.loss, Log):
            reasons.append(_about_loss(found, found.prior))
    else:
        obstacle = "not tested: it needs one vector of rates, and a rate set has none"
        if not has_old_rates:
            obstacle = f"impossible without the class rates in training; pass them as {_OLD_RATES}="
        reasons.append(Reason("prior", float("nan"), f"prior adjustment is {obstacle}"))
    return reasons


def _about_rates(found: Findings) -> Reason:
    check, j = found.check, found.check.largest
    nearest = "" if found.known.kind == "exact" else "nearest "
    says = (
        f"the mean prediction for {class_label(found.known.classes, j)} is {check.expected[j]:.4g}; the "
        f"{nearest}stated rate is {check.stated[j]:.4g}; if the predictions are right, chance alone gives a difference "
        f"of about {check.deviation[j]:.2g} ({_p_value(check.p_value)})"
    )
    if found.conflicting and found.shift_confirmed:
        says += "; a change of the class rates since training explains it"
    elif found.conflicting and found.estimated:
        says += "; this does not speak against the rates, which were estimated for these rows"
    return Reason("rates", check.p_value, says)


def _about_doubt(found: Findings, *, has_old_rates: bool) -> Reason:
    """The possible explanations of a contradiction, most likely first, and what would tell them apart."""
    check, prior = found.shift_check, found.prior
    changed = "the class rates have changed since training and the stated rates are right"
    wrong = "the rates are wrong, or they are the rates of a population and not of these rows"
    if prior is not None:
        j = found.check.largest
        name = class_label(found.known.classes, j)
        wrong += f" (if only the rates have changed, the most likely rate of {name} is {prior.most_likely[j]:.4g})"
    explanations = [wrong, "the model is not calibrated", "something other than the class rates has changed"]
    if check is None:
        explanations.insert(1, changed)
        needed = "one vector of rates" if has_old_rates else f"{_OLD_RATES}="
        remedy = (
            f"unlabelled rows cannot tell these apart; pass {needed}, or validation data as {PROBS_VAL}= and {Y_VAL}="
        )
    elif check.p_value > LEVEL:
        explanations.insert(0 if check.log_odds > 0 else 1, changed)
        remedy = "these rows are too few or too similar to tell these apart; count the classes of some of them"
    else:
        if check.log_odds > 0:  # the rows did move towards the stated rates, so that these are not the first suspect
            explanations = [*explanations[1:], explanations[0]]
        remedy = "a change of the class rates alone does not explain it; count the classes of some of these rows"
    listed = "; ".join(f"({i}) {text}" for i, text in enumerate(explanations, 1))
    says = f"possible explanations, most likely first: {listed}. {remedy[0].upper()}{remedy[1:]}"
    return Reason("doubt", float("nan") if check is None else check.p_value, says)


def _about_shift(check: LabelShiftCheck) -> Reason:
    conclusion = "the stated rates, with no other change, explain these predictions"
    if check.p_value <= LEVEL:
        conclusion = "the stated rates are wrong, or something other than the class rates has changed"
    says = f"compared with the validation data ({_p_value(check.p_value)}): {conclusion}"
    return Reason("shift", check.p_value, says)


def _about_premise(prior: PriorFindings, known: Rates) -> Reason:
    test = prior.test
    j = test.largest
    conclusion = "this is compatible with a change of the class rates only"
    if prior.rejected:
        conclusion = "the rates are wrong, or something else has changed, or the classifier was not calibrated"
    says = (
        f"the mean after prior adjustment differs from the rate of {class_label(known.classes, j)} by "
        f"{abs(test.difference[j]):.4g}; chance alone gives about {test.deviation[j]:.2g} ({_p_value(test.p_value)}): "
        f"{conclusion}"
    )
    return Reason("premise", test.p_value, says)


def _about_prior(prior: PriorFindings, known: Rates) -> Reason:
    condition = "the rates are right" if known.kind == "exact" else "these rows have exactly the estimated rates"
    says = (
        f"the mean log loss after prior adjustment is {max(prior.extra_loss, 0.0):.2g} higher than after adjustment "
        f"for log loss, if {condition}"
    )
    return Reason("prior", prior.extra_loss, says)


def _about_loss(found: Findings, prior: PriorFindings) -> Reason:
    name = short_name(found.best.loss)
    more = expected_rise(found.best.loss, prior.reweighted, np.asarray(found.best.answer), found.predictions.weights)
    says = (
        f"if only the rates have changed, adjusting for log loss lowers the {name} loss by {more:.2g} more than "
        f"adjusting for {name}, on average; the guarantee is only for adjusting for {name}"
    )
    return Reason("loss", more, says)


def _guarantee(best: Result) -> Reason:
    fall, confidence = best.certificate.loss_reduction, best.certificate.confidence
    is_exact = best.certificate.known.kind == "exact"
    target = "the rates" if is_exact else "the rate set"
    if fall <= 0:
        says = f"the guaranteed fall of the loss is 0, because the mean prediction already agrees with {target}"
        return Reason("guarantee", fall, says)
    condition = "if they are right" if is_exact else "if it contains the true rates"
    if confidence is not None:
        condition = f"with {percent(confidence)} confidence"
    says = f"adjusting to {target} lowers the mean {short_name(best.loss)} loss by at least {fall:.4g}, {condition}"
    return Reason("guarantee", fall, says)


def about_zeros(probs: FloatArray, loss: Loss) -> Reason:
    """How many probabilities are exactly 0."""
    n_zeros = int((probs == 0).sum())
    if n_zeros == 0:
        return Reason("zeros", 0.0, "no probability is exactly 0")
    effect = "stay 0 under this loss" if loss.pins_zeros else "may become positive under this loss"
    says = f"{n_zeros} probabilities are exactly 0 and {effect}; pass {_ZEROS} to smooth them"
    return Reason("zeros", float(n_zeros), says)


def about_confidence(probs: FloatArray) -> Reason:
    """How many rows are nearly certain."""
    share = float((probs.max(axis=1) > _CONFIDENT).mean())
    says = f"{100 * share:.3g} % of the rows have a probability above {_CONFIDENT}; adjustment changes them very little"
    return Reason("confidence", share, says)
