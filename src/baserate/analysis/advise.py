"""Advice on which procedure to use, with the figures behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from baserate.errors import InfeasibleRates
from baserate.losses.base import Loss
from baserate.rates import Rates, RatesLike, SurveyCounts
from baserate.result.record import Result
from baserate.solving import adjusted, prior_adjusted, read_predictions, requested
from baserate.support.arrays import FloatArray

_NOT_FOR_PRIOR = ("tol", "max_passes", "bounded")  # Options of adjust that prior adjustment does not have.
_LEVEL = 0.05  # Below this p-value the assumption of prior adjustment is rejected.
_CONFIDENT = 0.999  # Adjustment hardly changes rows that give a class more than this.


class Reason(NamedTuple):
    """One finding that the advice is based on.

    Attributes
    ----------
    about : "premise", "prior", "guarantee", "zeros", "confidence" or "feasibility"
        The subject; "premise" is the assumption of prior adjustment.
    figure : float
        The p-value, guaranteed fall, number or share that was found; NaN if there is none.
    says : str
        The finding as a sentence.
    """

    about: str
    figure: float
    says: str


@dataclass(frozen=True, eq=False, repr=False)
class Advice:
    """Which procedure to use, and why.

    Attributes
    ----------
    procedure : "prior", "adjust" or "none"
        What to call: :func:`prior_adjust`, :func:`adjust` with the same rates, or nothing.
    summary : str
        The advice in one sentence.
    reasons : tuple of Reason
    """

    procedure: str
    summary: str
    reasons: tuple[Reason, ...]

    def __repr__(self) -> str:
        return "\n".join([self.summary, *(f"  - {reason.says}" for reason in self.reasons)])


def advise(
    probs: Any,
    rates: RatesLike,
    old_rates: RatesLike | None = None,
    *,
    loss: str | Loss = "log",
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
    **options: Any,
) -> Advice:
    """Which procedure to use for these predictions and rates, and why.

    Prior probability adjustment (PPA) assumes that only the class rates have changed since training, and that the
    classifier is calibrated. If so, no procedure is better: its predictions are right for the target population, and
    their mean differs from the class rates only by chance. The distribution of this difference is known, so the
    assumption can be tested without labels.

    Parameters
    ----------
    probs : array-like or dataframe of shape (n, k)
    rates : array-like of shape (k,), dict, Series or Rates
        What is known about the class rates of these rows.
    old_rates : array-like of shape (k,), dict or Series, optional
        Class rates in training; prior adjustment is impossible without them.
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
    >>> br.advise(np.column_stack([1 - p, p]), [1 - y.mean(), y.mean()], [0.5, 0.5])
    use prior adjustment: its assumption is not rejected (p = 0.94)
      - the mean after prior adjustment differs from the rate of 1 by 0.000251; chance alone gives about 0.0034
        (chi-square 0.0055, p = 0.94): this is compatible with a change of the class rates only
      - adjusting to the rates lowers the mean Log() loss by at least 0.1664, if they are right
      - 0 probabilities are exactly 0
      - 0.35 % of the rows give one class more than 0.999; adjustment hardly changes them
    """
    shared = {**options, "sample_weight": sample_weight, "classes": classes, "columns": columns}
    request = requested(probs, rates, loss=loss, **shared)
    predictions = read_predictions(request)
    reasons = [_zeros(predictions.probs, request.model.loss), _confidence(predictions.probs)]
    try:
        best = adjusted(probs, rates, loss=loss, **shared)
    except InfeasibleRates as error:
        missing = error.wanted - error.reachable
        return Advice(
            "none",
            f"do not adjust to these rates: hard zeros put them out of reach by {missing:.4g}",
            (Reason("feasibility", missing, f"hard zeros make these rates impossible: {error}"), *reasons),
        )
    reasons.insert(0, _guarantee(best))
    if old_rates is None:
        says = "prior adjustment is impossible without the class rates in training; pass them as old_rates="
        reasons.append(Reason("prior", float("nan"), says))
    elif best.certificate.known.kind in ("between", "near"):
        says = "prior adjustment is not tested: it needs one vector of rates, and a rate set has none"
        reasons.append(Reason("prior", float("nan"), says))
    else:
        for_prior = {name: value for name, value in shared.items() if name not in _NOT_FOR_PRIOR}
        prior = prior_adjusted(probs, old_rates, rates, **for_prior)
        reasons.insert(0, _test_assumption(prior, best, predictions.weights))
    return _advice(tuple(reasons))


def _test_assumption(prior: Result, best: Result, weights: FloatArray) -> Reason:
    """Chi-square test of whether the mean after prior adjustment differs from the rates by chance only."""
    from scipy.stats import chi2

    known, q = best.certificate.known, np.asarray(prior.answer)
    difference = known.estimate() - prior.rates
    covariance = _covariance(known, q, weights)
    variances, axes = np.linalg.eigh(covariance)
    varies = variances > 1e-10 * max(variances.max(), 1e-30)
    along = axes.T @ difference
    impossible = np.abs(along[~varies]).max(initial=0.0) > 1e-9  # a difference where there is no variance
    statistic = np.inf if impossible else float((along[varies] ** 2 / variances[varies]).sum())
    p_value = float(chi2.sf(statistic, max(int(varies.sum()), 1)))
    largest = int(np.abs(difference).argmax())
    name = largest if best.classes is None else best.classes[largest]
    deviation = float(np.sqrt(max(covariance[largest, largest], 0.0)))
    figures = (
        f"the mean after prior adjustment differs from the rate of {name} by {abs(difference[largest]):.4g}; chance "
        f"alone gives about {deviation:.2g} (chi-square {statistic:.2g}, p = {p_value:.2g})"
    )
    rejected = "more than the class rates has changed, or the classifier was not calibrated"
    conclusion = rejected if p_value < _LEVEL else "this is compatible with a change of the class rates only"
    return Reason("premise", p_value, f"{figures}: {conclusion}")


def _covariance(known: Rates, q: FloatArray, weights: FloatArray) -> FloatArray:
    """Covariance of the given rates minus the mean of the prior-adjusted rows ``q``, if ``q`` is right.

    If the given rates are off by ``e``, the mean of ``q`` is off by ``follows @ e``.
    """
    rates, squares = known.estimate(), weights**2
    of_mean = np.cov(q, rowvar=False, bias=True, aweights=weights) * squares.sum()
    follows = _label_covariance(q, weights) / np.maximum(rates, 1e-300)
    rest = np.eye(len(rates)) - follows
    if known.certainty is None:  # rates of these rows, whose labels vary about the predictions
        return np.asarray(rest @ _label_covariance(q, squares) @ rest.T + follows @ of_mean @ follows.T)
    if isinstance(known, SurveyCounts):
        of_survey = (np.diag(rates) - np.outer(rates, rates)) / known.counts.sum()
        return np.asarray(of_mean + rest @ of_survey @ rest.T)
    return np.asarray(of_mean)  # rates of a population, which do not vary


def _label_covariance(q: FloatArray, weights: FloatArray) -> FloatArray:
    """``sum_i w_i (diag(q_i) - q_i q_i')``. The diagonal is the sum of the rest, which avoids cancellation."""
    products = (q * weights[:, None]).T @ q
    np.fill_diagonal(products, 0.0)
    return np.asarray(np.diag(products.sum(axis=1)) - products)


def _guarantee(best: Result) -> Reason:
    fall, confidence = best.certificate.loss_reduction, best.certificate.confidence
    is_exact = best.certificate.known.kind == "exact"
    target = "the rates" if is_exact else "the rate set"
    if fall <= 0:
        says = f"adjusting to {target} guarantees a fall of 0: the mean of the predictions is already possible"
        return Reason("guarantee", fall, says)
    condition = "if they are right" if is_exact else "if it contains the true rates"
    if confidence is not None:
        condition = f"with {100 * confidence:.6g} % confidence"
    says = f"adjusting to {target} lowers the mean {best.loss!r} loss by at least {fall:.4g}, {condition}"
    return Reason("guarantee", fall, says)


def _zeros(probs: FloatArray, loss: Loss) -> Reason:
    n_zeros = int((probs == 0).sum())
    if n_zeros == 0:
        return Reason("zeros", 0.0, "0 probabilities are exactly 0")
    effect = "stay 0 under this loss" if loss.pins_zeros else "may become positive under this loss"
    says = f"{n_zeros} probabilities are exactly 0 and {effect}; pass zeros=1e-6 to smooth them"
    return Reason("zeros", float(n_zeros), says)


def _confidence(probs: FloatArray) -> Reason:
    share = float((probs.max(axis=1) > _CONFIDENT).mean())
    says = f"{100 * share:.3g} % of the rows give one class more than {_CONFIDENT}; adjustment hardly changes them"
    return Reason("confidence", share, says)


def _advice(reasons: tuple[Reason, ...]) -> Advice:
    figures = {reason.about: reason.figure for reason in reasons}
    p_value, fall = figures.get("premise"), figures["guarantee"]
    if p_value is not None and p_value >= _LEVEL:
        return Advice("prior", f"use prior adjustment: its assumption is not rejected (p = {p_value:.2g})", reasons)
    if fall <= 0:
        return Advice("none", "leave the predictions as they are: the guaranteed fall of the loss is 0", reasons)
    summary = f"use adjust: the mean loss falls by at least {fall:.4g} if the rates are right"
    if p_value is not None:
        summary += f"; the assumption of prior adjustment is rejected (p = {p_value:.2g})"
    return Advice("adjust", summary, reasons)
