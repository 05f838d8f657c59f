"""Which procedure fits, in words and numbers."""

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
_LEVEL = 0.05  # Below this p-value the premise of prior adjustment is called refuted.
_SURE = 0.999  # A prediction above this is called sure.


class Reason(NamedTuple):
    """One finding: what it is about, the figure, and what follows.

    Attributes
    ----------
    about : str
    figure : float
    says : str
    """

    about: str
    figure: float
    says: str


@dataclass(frozen=True, eq=False, repr=False)
class Advice:
    """Which procedure fits, and why.

    Attributes
    ----------
    procedure : "prior", "adjust" or "none"
        What to call: :func:`prior_adjust`, :func:`adjust` with the rates as given, or nothing.
    summary : str
        The verdict in a sentence, with its figure.
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
    """Which procedure fits these predictions and rates, and why.

    Prior adjustment (PPA) is best if only the rates have changed since training and the classifier is calibrated. Then
    its answer is right for the new place, and its mean misses the rates only by chance. By how much chance can miss is
    known, so the premise can be refuted without labels.

    Parameters
    ----------
    probs : array-like or dataframe of shape (n, k)
    rates : array-like of shape (k,), dict, Series or Rates
        What is known of the rates of these rows.
    old_rates : array-like of shape (k,), dict or Series, optional
        Rates in training; without them prior adjustment is impossible.
    loss : str or Loss, default "log"
        The loss that matters.
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
    >>> y = rng.random(2000) < 0.1                     # here 10 % are positive
    >>> x = rng.normal(2.0 * y)
    >>> p = 1 / (1 + np.exp(2 - 2 * x))                # right where half of them are
    >>> br.advise(np.column_stack([1 - p, p]), [1 - y.mean(), y.mean()], [0.5, 0.5])
    use prior adjustment: its premise is not refuted (p = 0.94)
      - prior adjustment: its mean misses the rate of 1 by 0.000251, where chance gives about 0.0034 (chi-square 0.0055,
        p = 0.94); nothing speaks against a pure prior shift
      - adjusting to the rates lowers the mean Log() loss by at least 0.1664, if they hold
      - 0 predictions are exactly 0
      - 0.35 % of the rows give one class more than 0.999; adjustment hardly moves those
    """
    shared = {**options, "sample_weight": sample_weight, "classes": classes, "columns": columns}
    request = requested(probs, rates, loss=loss, **shared)
    predictions = read_predictions(request)
    reasons = [_zeros(predictions.probs, request.model.loss), _confidence(predictions.probs)]
    try:
        best = adjusted(probs, rates, loss=loss, **shared)
    except InfeasibleRates as error:
        says = f"hard zeros make these rates impossible: {error}"
        return Advice(
            "none",
            f"do not adjust to these rates: they are out of reach by {error.wanted - error.reachable:.4g}",
            (Reason("feasibility", error.wanted - error.reachable, says), *reasons),
        )
    reasons.insert(0, _guarantee(best))
    if old_rates is None:
        says = "prior adjustment is impossible: the rates in training are not given"
        reasons.append(Reason("prior", float("nan"), says))
    elif best.certificate.known.kind in ("between", "near"):
        says = "prior adjustment is not judged: it needs one best guess of the rates, and a set gives none"
        reasons.append(Reason("prior", float("nan"), says))
    else:
        for_prior = {name: value for name, value in shared.items() if name not in _NOT_FOR_PRIOR}
        prior = prior_adjusted(probs, old_rates, rates, **for_prior)
        reasons.insert(0, _premise(prior, best, predictions.weights))
    return _verdict(best, tuple(reasons))


def _premise(prior: Result, best: Result, weights: FloatArray) -> Reason:
    """Whether the mean of the PPA answer misses the rates by more than chance allows (a chi-square test)."""
    from scipy.stats import chi2

    known, q = best.certificate.known, np.asarray(prior.answer)
    gap = known.estimate() - prior.rates
    variance = _chance(known, q, weights)
    size, axes = np.linalg.eigh(variance)
    varies = size > 1e-10 * max(size.max(), 1e-30)
    along = axes.T @ gap
    sure = np.abs(along[~varies]).max(initial=0.0) > 1e-9  # off where chance cannot be
    statistic = np.inf if sure else float((along[varies] ** 2 / size[varies]).sum())
    p_value = float(chi2.sf(statistic, max(int(varies.sum()), 1)))
    largest = int(np.abs(gap).argmax())
    name = largest if best.classes is None else best.classes[largest]
    usual = float(np.sqrt(max(variance[largest, largest], 0.0)))
    figures = (
        f"its mean misses the rate of {name} by {abs(gap[largest]):.4g}, where chance gives about {usual:.2g} "
        f"(chi-square {statistic:.2g}, p = {p_value:.2g})"
    )
    refuted = "more than only the rates has changed, or the model was not calibrated"
    verdict = refuted if p_value < _LEVEL else "nothing speaks against a pure prior shift"
    return Reason("premise", p_value, f"prior adjustment: {figures}; {verdict}")


def _chance(known: Rates, q: FloatArray, weights: FloatArray) -> FloatArray:
    """Covariance of the given rates minus the mean of the PPA answer, if labels are drawn from right predictions.

    Where the given rates err, the mean of the answer follows them part of the way, ``follows``.
    """
    guess, squares = known.estimate(), weights**2
    rows = np.cov(q, rowvar=False, bias=True, aweights=weights) * squares.sum()
    follows = _spread(q, weights) / np.maximum(guess, 1e-300)
    rest = np.eye(len(guess)) - follows
    if known.certainty is None:  # rates of these rows: their labels vary about the predictions
        return np.asarray(rest @ _spread(q, squares) @ rest.T + follows @ rows @ follows.T)
    if isinstance(known, SurveyCounts):
        survey = (np.diag(guess) - np.outer(guess, guess)) / known.counts.sum()
        return np.asarray(rows + rest @ survey @ rest.T)
    return np.asarray(rows)  # of a population: only the rows vary


def _spread(q: FloatArray, weights: FloatArray) -> FloatArray:
    """``sum_i w_i (diag(q_i) - q_i q_i')``, its diagonal summed from the rest so that nothing cancels."""
    shared = (q * weights[:, None]).T @ q
    np.fill_diagonal(shared, 0.0)
    return np.asarray(np.diag(shared.sum(axis=1)) - shared)


def _guarantee(best: Result) -> Reason:
    fall = best.certificate.loss_reduction
    what = "the rates" if best.certificate.known.kind == "exact" else "the set of rates"
    if fall <= 0:
        says = f"adjusting to {what} guarantees nothing: the mean prediction is already possible (fall 0)"
    else:
        sure = best.certificate.confidence
        when = "" if sure is None else f" with {100 * sure:.6g} % confidence"
        says = f"adjusting to {what} lowers the mean {best.loss!r} loss by at least {fall:.4g}{when}, if they hold"
    return Reason("guarantee", fall, says)


def _zeros(probs: FloatArray, loss: Loss) -> Reason:
    zeros = int((probs == 0).sum())
    if zeros == 0:
        return Reason("zeros", 0.0, "0 predictions are exactly 0")
    fate = "stay 0 under this loss" if loss.pins_zeros else "may become positive under this loss"
    return Reason("zeros", float(zeros), f"{zeros} predictions are exactly 0 and {fate}; zeros=1e-6 smooths them")


def _confidence(probs: FloatArray) -> Reason:
    share = float((probs.max(axis=1) > _SURE).mean())
    says = f"{100 * share:.3g} % of the rows give one class more than {_SURE}; adjustment hardly moves those"
    return Reason("confidence", share, says)


def _verdict(best: Result, reasons: tuple[Reason, ...]) -> Advice:
    by = {reason.about: reason.figure for reason in reasons}
    if by.get("premise", -1.0) >= _LEVEL:
        summary = f"use prior adjustment: its premise is not refuted (p = {by['premise']:.2g})"
        return Advice("prior", summary, reasons)
    if by["guarantee"] <= 0:
        return Advice("none", "leave the predictions as they are: a fall of 0 is all that is guaranteed", reasons)
    why = f", and prior adjustment's premise is refuted (p = {by['premise']:.2g})" if "premise" in by else ""
    summary = f"use adjust: the mean loss falls by at least {by['guarantee']:.4g} if the rates hold{why}"
    return Advice("adjust", summary, reasons)
