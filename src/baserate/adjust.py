"""The verbs: adjust predictions to class rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from baserate.arrays import FloatArray, IndexArray
from baserate.engines import engine_for
from baserate.engines.base import Engine
from baserate.errors import BadOption, BadRates, BaserateError
from baserate.fit import Names, Stop, fit, settled
from baserate.frames import Frame, is_frame, take_apart
from baserate.inputs import Reading, as_classes, as_flag, as_smoothing, label, listed
from baserate.kernels import prepare
from baserate.losses.base import NONNEGATIVE, Loss
from baserate.losses.check import check_loss
from baserate.losses.registry import as_loss
from baserate.problem import Problem, RowModel, Written, kept_classes
from baserate.rates import Rates, as_known
from baserate.regions import Region
from baserate.result import ActiveBound, Adjustment, Certificate
from baserate.solver import Solution

NOT_FOR_PRIOR = ("tol", "max_passes", "bounded", "loss")
"""Options of :func:`adjust` that :func:`prior_adjust` does not have."""

_AT_BOUND = 1e-14  # Rates this close to a bound are at it.

RatesLike = ArrayLike | Mapping[Any, float] | Rates


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
    columns: Sequence[Any] | None = None,
    tol: float = 1e-10,
    max_passes: int = 500,
) -> Adjustment:
    """Adjust predicted probabilities to the class rates of the place where they are used.

    Of all predictions whose mean equals the rates, or lies in the set of rates that are possible, the answer is the one
    nearest to ``probs`` in the Bregman divergence of the loss. If the rates of these rows are the given ones, or any
    of the set, the mean loss falls by at least ``certificate.loss_reduction``, whatever the labels are.

    Parameters
    ----------
    probs : array-like or dataframe of shape (n, k)
        Predicted probabilities; each row sums to 1. Never changed in place. Of a dataframe (pandas, polars, pyarrow)
        the answer is one of the same kind, with its column names, index and dtypes.
    rates : array-like of shape (k,), dict, Series or Rates
        Class rates among these rows. A dict or a pandas Series goes by class name, in any order. Rates that are not
        exactly known are a :class:`baserate.Rates`: bounds, a ball, or the counts of a survey.
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
        Names of the classes, in the order of the columns; by default the column names of a dataframe.
    columns : sequence, optional
        The columns of a dataframe that hold the probabilities, if there are others.
    tol : float, default 1e-10
        Largest error of a rate.
    max_passes : int, default 500
        Most values of the dual that are computed to find the shift, each a pass over the rows; 2 to 5 are usual. Passes
        that only check or write the rows are not among them.

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
    case = _pose(probs, rates, loss, bounded, sample_weight, from_logits, normalize, zeros, classes, columns)
    return _solved(case, stop)


Item = tuple[ArrayLike, RatesLike] | Mapping[str, Any]


@overload
def adjust_many(
    problems: Iterable[Item], *, errors: Literal["raise"] = "raise", **options: Any
) -> list[Adjustment]: ...


@overload
def adjust_many(
    problems: Iterable[Item], *, errors: Literal["keep"], **options: Any
) -> list[Adjustment | BaserateError]: ...


def adjust_many(problems: Iterable[Item], *, errors: str = "raise", **options: Any) -> Any:
    """Adjust many batches, each to its own rates: what :func:`adjust` does for each, without waiting for it.

    It is made for thousands of small batches. A single small batch does not wait for the kernels of numba to be loaded;
    many are worth it, and a batch of 1000 x 8 then takes a fraction of a millisecond.

    Parameters
    ----------
    problems : iterable of pairs or dicts
        Read to its end first. Each a pair ``(probs, rates)``, or a dict of arguments of :func:`adjust` for a batch with
        options of its own.
    errors : "raise" or "keep", default "raise"
        Whether a batch that cannot be adjusted stops all, with an error that says which one it was; or leaves its
        error in its place among the answers.
    **options
        Options of :func:`adjust` for all batches.

    Returns
    -------
    list of Adjustment
        In the order of the problems.

    Examples
    --------
    >>> import baserate as br
    >>> batches = [([[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7]), ([[0.9, 0.1]], [0.8, 0.2])]
    >>> [round(result.certificate.loss_reduction, 4) for result in br.adjust_many(batches)]
    [0.14, 0.0444]
    >>> br.adjust_many([([[0.7, 0.3]], [0.3, 0.6])], errors="keep")
    [BadRates('rates sum to 0.9, not 1; if they are proportions, divide them by their sum')]
    """
    if errors not in ("raise", "keep"):
        raise BadOption(f"errors must be 'raise' or 'keep', not {errors!r}")
    items = list(problems)
    _load_kernels(items, options)
    answers: list[Adjustment | BaserateError] = []
    # One after the other: a large batch uses all cores by itself, and on small ones threads would wait for each other.
    for i, item in enumerate(items):
        try:
            answers.append(adjust(**_as_call(item, options)))
        except BaserateError as error:
            if errors == "raise":
                error.add_note(f"This was problem {i} of {len(items)}, counted from 0.")
                raise
            answers.append(error)
    return answers


def _as_call(item: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(item, Mapping):
        call = {**options, **item}
    elif isinstance(item, (tuple, list)) and len(item) == 2:
        call = {**options, "probs": item[0], "rates": item[1]}
    else:
        raise BadOption(f"a problem must be a pair (probs, rates) or a dict of arguments, not {type(item).__name__}")
    if absent := [name for name in ("probs", "rates") if name not in call]:
        raise BadOption(f"the problem has no {' and no '.join(absent)}")
    return call


def _load_kernels(items: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Load what all of the batches together are worth, though each of them may be too small for it."""
    wanted: dict[tuple[str, int, np.dtype[Any]], Loss] = {}
    n_values = 0
    for item in items:
        try:
            call = _as_call(item, options)
            loss, probs = as_loss(call.get("loss", "log")), call["probs"]
        except BaserateError:  # told in its turn
            continue
        shape = np.shape(probs) if isinstance(probs, (np.ndarray, list)) else getattr(probs, "shape", ())
        if len(shape) == 2 and call.get("bounded", True) and not call.get("from_logits"):
            dtype = probs.dtype if isinstance(probs, np.ndarray) else np.dtype(np.float64)
            wanted[loss.name, shape[1], dtype] = loss
            n_values += shape[0] * shape[1]
    for (_, n_classes, dtype), loss in wanted.items():
        prepare(loss, n_classes, dtype, n_values)


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
    columns: Sequence[Any] | None = None,
) -> Adjustment:
    """Prior probability adjustment (PPA): Bayes' rule from the rates in training to the new ones.

    Each probability is multiplied by ``new_rate / old_rate`` of its class and the rows are renormalised. It is right
    if the classifier is calibrated for the old rates and nothing but the rates has changed; then it is the best
    there is. It does not look at the rows, so their mean need not come out at the new rates.

    Parameters
    ----------
    probs : array-like of shape (n, k)
    old_rates, new_rates : array-like of shape (k,), dict or Rates
        Class rates in training, as the classifier saw them (after any re-sampling or class weights), and now. Of rates
        that are not exactly known the best guess is used, and the certificate holds for all that are possible.
    sample_weight, from_logits, normalize, zeros, classes, columns
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
    case = _pose(probs, new_rates, "log", True, sample_weight, from_logits, normalize, zeros, classes, columns)
    problem, names, k = case.problem, case.known.classes, case.problem.engine.n_classes
    old, new = as_known(old_rates, names, k, what="old_rates").estimate(), case.known.estimate()
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
    return _adjustment(case, problem, solution, problem.finish(solution.point.shift), "prior", again=None)


class Case(NamedTuple):
    """A problem as it was posed, and what the caller knows of the rates."""

    problem: Problem
    known: Rates
    batch_size: int
    bounded: bool
    frame: Frame | None


def _pose(
    probs: Any,
    rates: RatesLike,
    loss: str | Loss,
    bounded: bool,
    sample_weight: ArrayLike | None,
    from_logits: bool,
    normalize: bool,
    zeros: str | float,
    classes: Sequence[Any] | None,
    columns: Sequence[Any] | None,
) -> Case:
    """Everything checked that can be checked without reading the rows."""
    reading = Reading(as_flag("from_logits", from_logits), as_flag("normalize", normalize), as_smoothing(zeros))
    inside = as_flag("bounded", bounded)
    chosen = as_loss(loss)
    frame = None
    if is_frame(probs):
        probs, frame = take_apart(probs, columns)
    elif columns is not None:
        raise BadOption(f"columns= selects columns of a dataframe, but probs is a {type(probs).__name__}")
    engine = engine_for(probs, sample_weight)
    k = engine.n_classes
    names = as_classes(classes, k)
    if names is None and frame is not None:
        names = as_classes(frame.columns, k)
    if classes is not None and frame is not None and names != frame.columns and set(names or ()) == set(frame.columns):
        raise BadOption(f"classes {listed(names or ())} are the column names in another order; leave classes= out")
    try:
        known = as_known(rates, names, k)
    except BadRates as error:
        if frame is None or columns is not None:
            raise
        hint = f"the columns are {listed(frame.columns)}; select those with probabilities by columns=[...]"
        raise BadRates(f"{error}; {hint}") from None
    check_loss(chosen, k)
    model = RowModel(chosen, inside or chosen.domain == NONNEGATIVE, k, np.arange(k), reading)
    return _case(engine, model, known, inside, frame)


def _case(engine: Engine, model: RowModel, known: Rates, bounded: bool, frame: Frame | None) -> Case:
    region = known.region(engine.n_rows)
    keep = kept_classes(region, model.bounded)
    problem = Problem(engine, replace(model, keep=keep), region)
    if known.certainty is None or not engine.weighted:
        return Case(problem, known, engine.n_rows, bounded, frame)
    # A weighted batch varies by chance as much as one of fewer rows.
    rows = max(int(problem.survey.effective_rows * (1 + 1e-9)), 1)
    return Case(problem.with_region(known.region(rows)), known, rows, bounded, frame)


def _solved(case: Case, stop: Stop, present: tuple[FloatArray, FloatArray] | None = None) -> Adjustment:
    problem, solution, written = fit(case.problem, case.known.classes, stop, present)
    return _adjustment(case, problem, solution, written, "adjust", again=partial(_what_if, case, stop))


def _what_if(case: Case, stop: Stop, rates: RatesLike, present: Adjustment) -> Adjustment:
    """The same rows for other rates, starting from the present answer if it has the same classes."""
    problem = case.problem
    known = as_known(rates, case.known.classes, problem.engine.n_classes)
    changed = _case(problem.engine.again(), problem.model, known, case.bounded, case.frame)
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
    case: Case,
    problem: Problem,
    solution: Solution,
    written: Written,
    procedure: str,
    again: Callable[..., Adjustment] | None,
) -> Adjustment:
    model, shift, region = problem.model, solution.point.shift, problem.kept_region
    moved, mean = written
    worst = region.support(shift, mean[model.keep])  # of all possible rates, those that promise least
    slack = float(shift @ (worst - mean[model.keep]))
    prior = procedure == "prior"
    wanted = case.known.estimate() if prior else model.spread(worst, fill=0.0)
    guaranteed = moved + slack - 2 * model.softness
    anchor = region.anchor(shift, worst)
    certificate = Certificate(
        loss_reduction=max(guaranteed, 0.0) if guaranteed > -1e-12 else guaranteed,
        gap=abs(slack) + 2 * model.softness,
        residual=float(np.abs(wanted - mean).max()),
        sensitivity=model.spread(shift - anchor, fill=np.nan),
        known=case.known,
        batch_size=case.batch_size,
    )
    return Adjustment(
        model=model,
        dual_shift=shift,
        wanted=wanted,
        before=problem.survey.mean,
        rates=mean,
        certificate=certificate,
        active=() if prior else _active(region, model.keep, case.known.classes, shift, worst),
        converged=solution.converged,
        n_passes=problem.survey.passes + solution.n_passes + 1,
        n_rows=problem.engine.n_rows,
        engine=problem.engine.name if problem.kernel is None else "numba",
        bounded=case.bounded,
        classes=case.known.classes,
        procedure=procedure,
        answer=problem.engine.answer(),
        frame=case.frame,
        again=again,
    )


def _active(
    region: Region, keep: IndexArray, names: Names, shift: FloatArray, rates: FloatArray
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
