"""The verbs: adjust predictions to class rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.core.fit import Names, Stop, fit, settled
from baserate.core.newton import Solution
from baserate.core.problem import Problem, Written
from baserate.errors import BadOption, BadRates
from baserate.inputs.validation import label
from baserate.losses.base import Loss
from baserate.progress import Progress
from baserate.rates import as_known
from baserate.rates.sets import RateSet
from baserate.result.adjustment import ActiveBound, Adjustment, Certificate
from baserate.result.origin import Origin
from baserate.solving.request import Case, RatesLike, Rows, case, pose
from baserate.support.arrays import FloatArray, IndexArray

NOT_FOR_PRIOR = ("tol", "max_passes", "bounded", "loss")
"""Options of :func:`adjust` that :func:`prior_adjust` does not have."""

_AT_BOUND = 1e-14  # Rates this close to a bound are at it.


def adjust(
    probs: Any,
    rates: RatesLike,
    *,
    loss: str | Loss = "log",
    bounded: bool = True,
    sample_weight: ArrayLike | str | None = None,
    from_logits: bool = False,
    normalize: bool = False,
    zeros: str | float = "keep",
    classes: Sequence[Any] | None = None,
    columns: str | Sequence[Any] | None = None,
    out: Any = None,
    tol: float = 1e-10,
    max_passes: int = 500,
    progress: Progress | None = None,
) -> Adjustment:
    """Adjust predicted probabilities to the class rates of the place where they are used.

    Of all predictions whose mean equals the rates, or lies in the set of rates that are possible, the answer is the one
    nearest to ``probs`` in the Bregman divergence of the loss. If the rates of these rows are the given ones, or any
    of the set, the mean loss falls by at least ``certificate.loss_reduction``, whatever the labels are.

    Parameters
    ----------
    probs : array-like or dataframe of shape (n, k), path, pyarrow.dataset.Dataset, or Dask array or dataframe
        Predicted probabilities; each row sums to 1. Never changed in place. Of a dataframe (pandas, polars, pyarrow)
        the answer is one of the same kind, with its column names, index and dtypes; of a Dask collection a lazy one.
        A path, a glob or a folder of files is read in pieces and may be larger than memory; see docs/files.md.
    rates : array-like of shape (k,), dict, Series or Rates
        Class rates among these rows. A dict or a pandas Series goes by class name, in any order. Rates that are not
        exactly known are a :class:`baserate.Rates`: bounds, a ball, or the counts of a survey.
    loss : str or Loss, default "log"
        The loss that matters: ``"log"``, ``"brier"``, ``"spherical"``, ``"ranked"`` or an object of ``br.losses``.
    bounded : bool, default True
        ``True`` is bounded general adjustment (BGA). ``False`` is the unbounded one (UGA), whose entries may leave
        [0, 1]; for losses that are only defined above 0 it is the same.
    sample_weight : array-like of shape (n,), or str, optional
        Weights of the rows in the mean; of files, the name of a column.
    from_logits : bool, default False
        ``probs`` holds logits or log probabilities. For log loss nothing ever leaves the log domain.
    normalize : bool, default False
        Divide each row by its sum first.
    zeros : "keep" or float, default "keep"
        Under a loss that forbids it (log, ``Power(beta <= 1)``) a probability of exactly 0 stays 0. A float is added
        to every probability first, and the guarantee is then against the smoothed predictions.
    classes : sequence, optional
        Names of the classes, in the order of the columns; by default the column names of a dataframe.
    columns : str or sequence, optional
        The columns of a dataframe or file that hold the probabilities, if there are others: a pattern such as
        ``"p_*"``, whose star is the class, or names.
    out : path-like, optional
        Where adjusted files go: a file, or a folder. Other columns are carried through. It appears when it is complete;
        without it, files are fitted but not written.
    tol : float, default 1e-10
        Largest error of a rate.
    max_passes : int, default 500
        Most values of the dual that are computed to find the shift, each a pass over the rows; 2 to 5 are usual. Passes
        that only check or write the rows are not among them.
    progress : Progress, optional
        Told how far the work is; see :class:`baserate.progress.Progress`.

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
    >>> roughly = br.adjust([[0.7, 0.3], [0.4, 0.6]], br.Rates.between([0.2, None], [0.4, None]))
    >>> roughly.rates.round(3), round(roughly.certificate.loss_reduction, 4)
    (array([0.4, 0.6]), 0.0498)
    """
    stop = Stop(_as_tolerance(tol), _as_passes(max_passes))
    rows = Rows(
        probs=probs,
        sample_weight=sample_weight,
        from_logits=from_logits,
        normalize=normalize,
        zeros=zeros,
        classes=classes,
        columns=columns,
        out=out,
        progress=progress,
    )
    return _solved(pose(rows, rates, loss, bounded), stop)


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
    probs: Any,
    old_rates: RatesLike,
    new_rates: RatesLike,
    *,
    sample_weight: ArrayLike | str | None = None,
    from_logits: bool = False,
    normalize: bool = False,
    zeros: str | float = "keep",
    classes: Sequence[Any] | None = None,
    columns: str | Sequence[Any] | None = None,
    out: Any = None,
    progress: Progress | None = None,
) -> Adjustment:
    """Prior probability adjustment (PPA): Bayes' rule from the rates in training to the new ones.

    Each probability is multiplied by ``new_rate / old_rate`` of its class and the rows are renormalised. It is right
    if the classifier is calibrated for the old rates and nothing but the rates has changed; then it is the best
    there is. It does not look at the rows, so their mean need not come out at the new rates.

    Parameters
    ----------
    probs : array-like or dataframe of shape (n, k), path, pyarrow.dataset.Dataset, or Dask array or dataframe
    old_rates, new_rates : array-like of shape (k,), dict or Rates
        Class rates in training, as the classifier saw them (after any re-sampling or class weights), and now. Of rates
        that are not exactly known the best guess is used, and the certificate holds for all that are possible.
    sample_weight, from_logits, normalize, zeros, classes, columns, out, progress
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
    rows = Rows(
        probs=probs,
        sample_weight=sample_weight,
        from_logits=from_logits,
        normalize=normalize,
        zeros=zeros,
        classes=classes,
        columns=columns,
        out=out,
        progress=progress,
    )
    posed = pose(rows, new_rates, "log", True)
    problem, names, k = posed.problem, posed.known.classes, posed.problem.engine.n_classes
    old, new = as_known(old_rates, names, k, what="old_rates").estimate(), posed.known.estimate()
    keep = problem.model.keep
    unseen = keep[(old[keep] == 0) & (problem.survey.mean[keep] > 0)]
    if unseen.size:
        name = label(names, int(unseen[0]))
        raise BadRates(f"the old rate of {name} is 0, but it is predicted; its probability cannot be rescaled")
    if (new[keep] == 0).any():
        name = label(names, int(keep[new[keep] == 0][0]))
        raise BadRates(f"the best guess for the new rate of {name} is 0, though it may be more; give it a rate above 0")
    ratio = np.divide(new[keep], old[keep], out=np.ones(len(keep)), where=old[keep] > 0)
    solution = settled(np.log(ratio), new[keep])
    return _adjustment(posed, problem, solution, problem.finish(solution.point.shift), "prior", what_if=None)


def _solved(posed: Case, stop: Stop, present: tuple[FloatArray, FloatArray] | None = None) -> Adjustment:
    problem, solution, written = fit(posed.problem, posed.known.classes, stop, present)
    return _adjustment(posed, problem, solution, written, "adjust", what_if=partial(_what_if, posed, stop))


def _what_if(posed: Case, stop: Stop, rates: RatesLike, present: Adjustment) -> Adjustment:
    """The same rows for other rates, starting from the present answer if it has the same classes."""
    problem = posed.problem
    known = as_known(rates, posed.known.classes, problem.engine.n_classes)
    changed = case(problem.engine.again(), problem.model, known, posed.bounded, posed.frame)
    keep = changed.problem.model.keep
    if not np.array_equal(keep, present.model.keep):
        return _solved(changed, stop)
    return _solved(changed, stop, (present.dual_shift, present.rates[keep]))


def _as_tolerance(tol: object) -> float:
    if isinstance(tol, (int, float, np.number)) and not isinstance(tol, bool) and 0 < float(tol) < 1:
        return float(tol)
    raise BadOption(f"tol must be a number between 0 and 1, not {tol!r}")


def _as_passes(max_passes: object) -> int:
    if isinstance(max_passes, (int, np.integer)) and not isinstance(max_passes, bool) and max_passes >= 1:
        return int(max_passes)
    raise BadOption(f"max_passes must be a whole number above 0, not {max_passes!r}")


def _adjustment(
    posed: Case,
    problem: Problem,
    solution: Solution,
    written: Written,
    procedure: str,
    what_if: Callable[..., Adjustment] | None,
) -> Adjustment:
    model, shift, region = problem.model, solution.point.shift, problem.kept_rate_set
    moved, mean = written
    worst = region.support(shift, mean[model.keep])  # of all possible rates, those that promise least
    slack = float(shift @ (worst - mean[model.keep]))
    prior = procedure == "prior"
    wanted = posed.known.estimate() if prior else model.spread(worst, fill=0.0)
    guaranteed = moved + slack - 2 * model.softness
    anchor = region.anchor(shift, worst)
    certificate = Certificate(
        loss_reduction=max(guaranteed, 0.0) if guaranteed > -1e-12 else guaranteed,
        gap=abs(slack) + 2 * model.softness,
        residual=float(np.abs(wanted - mean).max()),
        sensitivity=model.spread(shift - anchor, fill=np.nan),
        known=posed.known,
        batch_size=posed.batch_size,
    )
    return Adjustment(
        model=model,
        dual_shift=shift,
        wanted=wanted,
        before=problem.survey.mean,
        rates=mean,
        certificate=certificate,
        active=() if prior else _active(region, model.keep, posed.known.classes, shift, worst),
        converged=solution.converged,
        n_passes=problem.survey.passes + solution.n_passes + 1,
        n_rows=problem.engine.n_rows,
        engine=problem.engine.name if problem.kernel is None else problem.engine.with_kernels,
        bounded=posed.bounded,
        classes=posed.known.classes,
        procedure=procedure,
        answer=problem.engine.answer(),
        frame=posed.frame,
        origin=Origin(problem.engine, what_if),
    )


def _active(
    region: RateSet, keep: IndexArray, names: Names, shift: FloatArray, rates: FloatArray
) -> tuple[ActiveBound, ...]:
    """The bounds, as they were stated, that hold the rates where they are."""
    of = keep.tolist() if names is None else [names[j] for j in keep]
    low, high = (region.low, region.high) if region.stated is None else region.stated
    price = shift - region.anchor(shift, rates)
    found = []
    if region.ball is not None and np.ptp(shift) > 0 and region.ball.distance(rates) >= region.ball.radius * (1 - 1e-9):
        found.append(ActiveBound(None, "radius", region.ball.radius))
    for j, name in enumerate(of):
        if low[j] == high[j]:
            found.append(ActiveBound(name, "exact", float(low[j])))
        elif abs(rates[j] - low[j]) <= _AT_BOUND and price[j] > 0:
            found.append(ActiveBound(name, "low", float(low[j])))
        elif abs(rates[j] - high[j]) <= _AT_BOUND and price[j] < 0:
            found.append(ActiveBound(name, "high", float(high[j])))
    return tuple(found)
