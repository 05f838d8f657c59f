"""The verbs: adjust predictions to class rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.engines import engine_for
from baserate.errors import BadOption, BadRates
from baserate.fit import Names, Stop, fit, settled
from baserate.inputs import (
    Reading,
    as_classes,
    as_flag,
    as_rates,
    as_smoothing,
    label,
)
from baserate.losses.base import NONNEGATIVE, Loss
from baserate.losses.check import check_loss
from baserate.losses.registry import as_loss
from baserate.problem import Problem, RowModel
from baserate.result import Adjustment, Certificate
from baserate.solver import Solution

RatesLike = ArrayLike | Mapping[Any, float]


def adjust(
    probs: ArrayLike,
    rates: RatesLike,
    *,
    loss: str | Loss = "log",
    bounded: bool = True,
    sample_weight: ArrayLike | None = None,
    from_logits: bool = False,
    normalize: bool = False,
    zeros: str | float = "keep",
    classes: Sequence[Any] | None = None,
    tol: float = 1e-10,
    max_passes: int = 500,
) -> Adjustment:
    """Adjust predicted probabilities to the class rates of the place where they are used.

    Of all predictions whose mean equals the rates, the answer is the one nearest to ``probs`` in the Bregman
    divergence of the loss. If the rates are those of these rows, the mean loss falls by at least
    ``certificate.loss_reduction``, whatever the labels are.

    Parameters
    ----------
    probs : array-like of shape (n, k)
        Predicted probabilities; each row sums to 1. Never changed in place.
    rates : array-like of shape (k,) or dict
        Class rates among these rows. A dict maps class names to rates and needs ``classes``.
    loss : str or Loss, default "log"
        The loss that matters: ``"log"``, ``"brier"``, ``"spherical"``, ``"ranked"`` or an object of ``br.losses``.
    bounded : bool, default True
        ``True`` is bounded general adjustment (BGA). ``False`` is the unbounded one (UGA), whose entries may leave
        [0, 1]; for losses that are only defined above 0 it is the same.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows in the mean.
    from_logits : bool, default False
        ``probs`` holds logits or log probabilities. For log loss nothing ever leaves the log domain.
    normalize : bool, default False
        Divide each row by its sum first.
    zeros : "keep" or float, default "keep"
        Under a loss that forbids it (log, ``Power(beta <= 1)``) a probability of exactly 0 stays 0. A float is added
        to every probability first, and the guarantee is then against the smoothed predictions.
    classes : sequence, optional
        Names of the columns.
    tol : float, default 1e-10
        Largest error of a rate.
    max_passes : int, default 500
        Most values of the dual that are computed to find the shift, each a pass over the rows; 4 to 8 are usual.

    Returns
    -------
    Adjustment

    Raises
    ------
    InfeasibleRates
        If hard zeros make the rates impossible; it names the classes that are blocked.
    BaserateError
        For other input that cannot be used; always a ``ValueError``.

    Warns
    -----
    NotConvergedWarning
        If ``tol`` was not reached.

    Examples
    --------
    >>> import baserate as br
    >>> result = br.adjust([[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7])
    >>> result.probs.round(3)
    array([[0.425, 0.575],
           [0.175, 0.825]])
    >>> round(result.certificate.loss_reduction, 4)
    0.14
    """
    stop = Stop(_as_tolerance(tol), _as_passes(max_passes))
    problem, names = _pose(probs, rates, loss, bounded, sample_weight, from_logits, normalize, zeros, classes)
    problem, solution = fit(problem, names, stop)
    return _adjustment(problem, names, bool(bounded), solution, "adjust")


def additive(probs: ArrayLike, rates: RatesLike, **options: Any) -> Adjustment:
    """Additive adjustment: add the same vector to every row so that the mean equals the rates.

    It is unbounded adjustment for the Brier score, so entries may leave [0, 1]. Takes the other options of
    :func:`adjust`.

    Examples
    --------
    >>> import baserate as br
    >>> br.additive([[0.7, 0.3], [0.1, 0.9]], [0.2, 0.8]).probs.round(3)
    array([[ 0.5,  0.5],
           [-0.1,  1.1]])
    """
    return adjust(probs, rates, loss="brier", bounded=False, **options)


def multiplicative(probs: ArrayLike, rates: RatesLike, **options: Any) -> Adjustment:
    """Multiplicative adjustment: multiply each column by a number and renormalise the rows.

    It is bounded and unbounded adjustment for log loss. Takes the other options of :func:`adjust`.

    Examples
    --------
    >>> import baserate as br
    >>> br.multiplicative([[0.5, 0.5], [0.8, 0.2]], [0.5, 0.5]).probs.round(4)
    array([[0.3333, 0.6667],
           [0.6667, 0.3333]])
    """
    return adjust(probs, rates, loss="log", **options)


def prior_adjust(
    probs: ArrayLike,
    old_rates: RatesLike,
    new_rates: RatesLike,
    *,
    sample_weight: ArrayLike | None = None,
    from_logits: bool = False,
    normalize: bool = False,
    zeros: str | float = "keep",
    classes: Sequence[Any] | None = None,
) -> Adjustment:
    """Prior probability adjustment (PPA): Bayes' rule from the rates in training to the new ones.

    Each probability is multiplied by ``new_rate / old_rate`` of its class and the rows are renormalised. It is right
    if the classifier is calibrated for the old rates and nothing but the rates has changed; then it is the best
    there is. It does not look at the rows, so their mean need not come out at the new rates.

    Parameters
    ----------
    probs : array-like of shape (n, k)
    old_rates, new_rates : array-like of shape (k,) or dict
        Class rates in training, as the classifier saw them (after any re-sampling or class weights), and now.
    sample_weight, from_logits, normalize, zeros, classes
        As in :func:`adjust`.

    Returns
    -------
    Adjustment
        Its certificate holds for log loss and may be negative: then the loss may rise by that much.

    Examples
    --------
    >>> import baserate as br
    >>> br.prior_adjust([[0.5, 0.5], [0.9, 0.1]], [0.5, 0.5], [0.9, 0.1]).probs.round(3)
    array([[0.9  , 0.1  ],
           [0.988, 0.012]])
    """
    problem, names = _pose(probs, new_rates, "log", True, sample_weight, from_logits, normalize, zeros, classes)
    old = as_rates(old_rates, names, problem.engine.n_classes, what="old_rates")
    keep = problem.model.keep
    unseen = keep[(old[keep] == 0) & (problem.survey.mean[keep] > 0)]
    if unseen.size:
        name = label(names, int(unseen[0]))
        raise BadRates(f"the old rate of {name} is 0, but it is predicted; its probability cannot be rescaled")
    ratio = np.divide(problem.kept_rates, old[keep], out=np.ones(len(keep)), where=old[keep] > 0)
    return _adjustment(problem, names, True, settled(np.log(ratio)), "prior")


def _pose(
    probs: ArrayLike,
    rates: RatesLike,
    loss: str | Loss,
    bounded: bool,
    sample_weight: ArrayLike | None,
    from_logits: bool,
    normalize: bool,
    zeros: str | float,
    classes: Sequence[Any] | None,
) -> tuple[Problem, Names]:
    """Everything checked that can be checked without reading the rows."""
    reading = Reading(as_flag("from_logits", from_logits), as_flag("normalize", normalize), as_smoothing(zeros))
    inside = as_flag("bounded", bounded)
    chosen = as_loss(loss)
    engine = engine_for(probs, sample_weight)
    k = engine.n_classes
    names = as_classes(classes, k)
    pi = as_rates(rates, names, k)
    check_loss(chosen, k)
    inside = inside or chosen.domain == NONNEGATIVE
    keep = np.flatnonzero(pi > 0) if inside else np.arange(k)
    return Problem(engine, RowModel(chosen, inside, k, keep, reading), pi), names


def _as_tolerance(tol: object) -> float:
    if isinstance(tol, (int, float, np.number)) and not isinstance(tol, bool) and 0 < float(tol) < 1:
        return float(tol)
    raise BadOption(f"tol must be a number between 0 and 1, not {tol!r}")


def _as_passes(max_passes: object) -> int:
    if isinstance(max_passes, (int, np.integer)) and not isinstance(max_passes, bool) and max_passes >= 1:
        return int(max_passes)
    raise BadOption(f"max_passes must be a whole number above 0, not {max_passes!r}")


def _adjustment(problem: Problem, names: Names, bounded: bool, solution: Solution, procedure: str) -> Adjustment:
    model, shift = problem.model, solution.point.shift
    moved, mean = problem.finish(shift)
    missing = problem.rates - mean
    slack = float(shift @ missing[model.keep])
    guaranteed = moved + slack - 2 * model.softness
    certificate = Certificate(
        loss_reduction=max(guaranteed, 0.0) if guaranteed > -1e-12 else guaranteed,
        gap=abs(slack) + 2 * model.softness,
        residual=float(np.abs(missing).max()),
        sensitivity=model.spread(shift - shift.mean(), fill=np.nan),
    )
    return Adjustment(
        model=model,
        dual_shift=shift,
        wanted=problem.rates,
        before=problem.survey.mean,
        rates=mean,
        certificate=certificate,
        converged=solution.converged,
        n_passes=solution.n_passes + 1,
        n_rows=problem.engine.n_rows,
        engine=problem.engine.name,
        bounded=bounded,
        classes=names,
        procedure=procedure,
        answer=problem.engine.answer(),
    )
