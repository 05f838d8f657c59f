"""Compare the procedures by their losses on labelled rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.analysis.bootstrap import Bootstrap, sum_by_group
from baserate.analysis.candidates import Candidate, candidates
from baserate.analysis.comparison import NEW_ROWS, THESE_ROWS, Comparison, Evidence
from baserate.analysis.comparison_notes import OPTIONS, comparison_notes, few_groups
from baserate.analysis.cross_fitting import LabelledRows
from baserate.analysis.evaluation import Evaluation, Evaluator
from baserate.analysis.measures import MeanLoss, as_metrics
from baserate.analysis.procedure_names import ORIGINAL
from baserate.errors import BadOption, FewGroupsWarning, InfeasibleRates, Option, warn
from baserate.inputs.labels import as_targets
from baserate.inputs.validation import as_confidence, as_progress, quoted_name
from baserate.inputs.vectors import two_columns
from baserate.losses.base import Loss, short_name
from baserate.losses.registry import as_loss
from baserate.progress import Progress
from baserate.rates import Rates, RatesLike
from baserate.solving import Request, known_rates, parse_request, read_predictions
from baserate.support.arrays import BoolArray, FloatArray, IndexArray

_FIT_OPTIONS = ("tol", "max_passes")
_GROUPS = Option("groups")


def compare(
    probs: Any,
    y: ArrayLike,
    rates: RatesLike,
    old_rates: RatesLike | None = None,
    *,
    losses: Sequence[str | Loss] = ("log", "brier"),
    metrics: Sequence[str] = (),
    costs: ArrayLike | None = None,
    target: str = THESE_ROWS,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
    others: Mapping[str, ArrayLike] | None = None,
    confidence: float = 0.95,
    n_bootstrap: int = 2000,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> Comparison:
    """Compare the mean losses of all procedures on labelled rows.

    The procedures are prior adjustment (:func:`prior_adjust`), additive adjustment (:func:`additive`), and
    :func:`adjust` for each loss, to one vector of rates and to the set of likely rates.

    Parameters
    ----------
    probs : array-like or dataframe of shape (n, k), or of shape (n,) for two classes
    y : array-like of shape (n,)
        Labels: class names, or column numbers if the classes have no names. For one-dimensional ``probs`` 1 is the
        positive class.
    rates : float, array-like of shape (k,), dict, Series or Rates
        What is known about the class rates of these rows. Procedures that need one vector use ``rates.estimate()``. The
        likely rates are ``rates`` if it is a set, else ``Rates.of_population(rates)``: the rates that are likely in a
        random sample of this size. Rates that give the same number of rows of each class as ``y`` are treated as an
        estimate from ``y``. All other rates are treated as known in advance.
    old_rates : float, array-like of shape (k,), dict or Series, optional
        Class rates in training; prior adjustment is left out without them.
    losses : sequence of str or Loss, default ("log", "brier")
        Losses to measure, and to adjust for.
    metrics : sequence of str, default ()
        Further measures, for which nothing is adjusted: "accuracy"; "auc", the area under the ROC curve, with several
        classes the mean over classes against the rest; "ece", the expected calibration error of the most probable
        class, in 15 bins.
    costs : array-like of shape (k, d), optional
        The cost of each of d decisions for a row of each class. Measures the mean cost of the decision with the lowest
        expected cost according to the predictions.
    target : "these rows" or "new rows", default "these rows"
        Which data the intervals describe. In both cases the rows, or the groups, are a random sample of a population.

        - "these rows": other batches of n rows. Each is adjusted as a whole to the rates of that batch, and measured
          with its own labels, as was done here. The interval is for the mean change, averaged over such batches. If the
          rates are those of the labels, each batch has its own rates. Otherwise all batches have the stated rates.
        - "new rows": other rows of the population, to which the adjustment that was fitted here is applied. The
          interval is for the expected change in these rows. ``mean`` and ``change`` are estimated by cross-fitting: the
          rows are divided into ten folds, and each row is adjusted by a fit without its fold. Rates that are those of
          the labels are taken from the other folds.

        Neither interval describes the change in the n rows themselves, because that is known exactly.
    groups : array-like of shape (n,), optional
        For rows that are not independent: which rows belong together, such as those of one patient. Whole groups are
        resampled and left out.
    sample_weight, classes, columns
        As in :func:`adjust`.
    others : dict, optional
        Further predictions of the same rows, shape (n, k), by their name in the comparison. They are not changed, also
        for the target "new rows".
    confidence : float, default 0.95
        Confidence level of the intervals.
    n_bootstrap : int, default 2000
        Number of bootstrap samples.
    seed : int, default 0
        Seed of the bootstrap and of the folds.
    progress : Progress, optional
        Receives progress updates.
    **options
        ``zeros``, ``normalize`` and other options of :func:`adjust`.

    Returns
    -------
    Comparison

    Warns
    -----
    FewGroupsWarning
        If there are fewer than 20 groups.

    Examples
    --------
    >>> import baserate as br
    >>> br.compare([0.1, 0.4, 0.6, 0.9], [0, 0, 0, 1], 0.25, 0.5, losses=["brier"])
    mean brier loss                             mean   change       95 % interval      joint interval
    as predicted                              0.2700
    prior adjustment                          0.1040  -0.1660  -1.2518 to +0.9197  -1.2518 to +0.9197
    additive                                  0.1450  -0.1250  -0.9547 to +0.7047  -1.2623 to +1.0123
    adjusted for brier loss                   0.1300  -0.1400  -1.0043 to +0.7243  -1.4093 to +1.1293
    adjusted for brier loss, to likely rates  0.2700  +0.0000  +0.0000 to +0.0000  +0.0000 to +0.0000
    prior adjustment: Bayes' rule, from the class rates in training to the new ones
    additive: adds one number to each column; entries can be below 0 or above 1
    likely rates: the stated rate set; for exact rates, all rates that are likely in a random sample of this size
    intervals: for the mean change in other batches like this one, each adjusted separately
    joint intervals: valid for all procedures at once; use them for the procedure that turned out best
    """
    chosen = _as_losses(losses)
    if "loss" in options or "bounded" in options:
        raise BadOption("compare does not take loss= and bounded=; pass the losses as losses=")
    _check_settings(confidence, n_bootstrap, target)
    receiver = as_progress(progress)
    options |= {"sample_weight": sample_weight, "classes": classes, "columns": columns, "progress": progress}
    request = parse_request(probs, rates, **options)
    known, (p, weights) = request.known, read_predictions(request)
    measures = (*map(MeanLoss, chosen), *as_metrics(metrics, costs, p.shape[1]))
    targets = as_targets(y, p.shape, known.classes, one_column=request.rows.one_column)
    further = {name: _as_predictions(rows, p.shape, name) for name, rows in (others or {}).items()}
    old = None if old_rates is None else known_rates(request.rows, old_rates, known.classes, what="old_rates")
    tried, notes = candidates(known, old, chosen)
    made, impossible = _adjusted_by_all(probs, known, tried, options)
    counts = weights > 0  # a row of weight 0 does not count even if its loss is infinite
    rows = LabelledRows(p, targets, weights, _as_groups(groups, len(p), counts)).at(counts)
    predictions = {name: a[counts] for name, a in ({ORIGINAL: p} | further | made).items()}
    fit_options = {name: options[name] for name in _FIT_OPTIONS if name in options}
    evaluator = Evaluator(rows, known, measures, target, seed, fit_options, receiver)
    evaluated = evaluator.evaluate(predictions, [candidate for candidate in tried if candidate.name in made])
    notes += [*impossible, *evaluated.notes]
    return _comparison(evaluated, evaluator, chosen, notes, Bootstrap(confidence, n_bootstrap, seed), _kind(request))


def _comparison(
    evaluated: Evaluation,
    evaluator: Evaluator,
    losses: tuple[Loss, ...],
    notes: list[str],
    bootstrap: Bootstrap,
    kind: Any,
) -> Comparison:
    """The result: means, intervals and notes."""
    rows, measures = evaluator.rows, tuple(evaluator.measures)
    groups = sum_by_group(evaluated.contributions, rows.weights, rows.groups, bootstrap.seed)
    n_classes = rows.probs.shape[1]
    evidence = Evidence(groups, evaluated.fold_means, evaluated.share, n_classes, evaluator.target, bootstrap)
    found = evidence.intervals(0, evaluator.progress)
    with np.errstate(invalid="ignore"):
        mean = evaluated.contributions @ rows.weights
        change = mean - mean[0]
    notes = notes + comparison_notes(mean, evaluated.predictions, measures, rows, evaluator.known)
    if message := few_groups(rows):
        notes.append(message)
        warn(FewGroupsWarning(message))
    return Comparison(
        tuple(evaluated.predictions),
        losses,
        mean,
        change,
        found.low,
        found.high,
        bootstrap.confidence,
        tuple(notes),
        kind,
        joint_low=found.joint_low,
        joint_high=found.joint_high,
        target=evaluator.target,
        reference=ORIGINAL,
        options=tuple(option for option in OPTIONS if any(str(option) in note for note in notes)),
        measures=measures,
        evidence=evidence,
    )


def _kind(request: Request) -> Any:
    return None if request.rows.form is None else request.rows.form.kind


def _as_losses(losses: str | Loss | Sequence[str | Loss]) -> tuple[Loss, ...]:
    """The losses without repetitions."""
    several = [losses] if isinstance(losses, (str, Loss)) else losses
    chosen = tuple({short_name(loss): loss for loss in map(as_loss, several)}.values())
    if not chosen:
        raise BadOption("losses is empty; name at least one loss")
    return chosen


def _as_predictions(rows: ArrayLike, shape: tuple[int, ...], name: str) -> FloatArray:
    predictions = np.asarray(rows, dtype=np.float64)
    if shape[1] == 2 and predictions.shape == shape[:1]:
        predictions = two_columns(predictions)
    if predictions.shape != shape:
        raise BadOption(f"others: {name!r} has shape {predictions.shape}, but probs has shape {shape}")
    return predictions


def _as_groups(groups: ArrayLike | None, n_rows: int, counts: BoolArray) -> IndexArray | None:
    """The number of the group of each row; groups without a row that counts have none."""
    if groups is None:
        return None
    names = np.asarray(groups)
    if names.shape != (n_rows,):
        raise BadOption(f"groups has shape {names.shape}, but there are {n_rows} rows; pass one group for each row")
    if names.dtype.kind == "f" and np.isnan(names).any():
        raise BadOption(f"the group of row {int(np.flatnonzero(np.isnan(names))[0])} is NaN; give each row a group")
    try:
        different, numbers = np.unique(names[counts], return_inverse=True)
    except TypeError:
        raise BadOption("groups mixes values that cannot be sorted, such as None and strings; convert them") from None
    if len(different) < 2:
        raise BadOption(f"all rows are in one group; at least 2 are needed, or leave {_GROUPS}= out", options=[_GROUPS])
    found = np.zeros(n_rows, dtype=np.intp)
    found[counts] = numbers
    return found


def _adjusted_by_all(
    probs: Any, known: Rates, tried: Sequence[Candidate], options: dict[str, Any]
) -> tuple[dict[str, FloatArray], list[str]]:
    """The adjusted predictions of each procedure, and notes on the procedures that are impossible."""
    made, notes = {}, []
    for name, fit in tried:
        try:
            made[name] = np.asarray(fit(probs, known, **options).answer)
        except InfeasibleRates as error:
            notes.append(f"{name}: {error}")
    return made, notes


def _check_settings(confidence: Any, n_bootstrap: Any, target: Any) -> None:
    as_confidence(confidence)
    if not isinstance(n_bootstrap, (int, np.integer)) or isinstance(n_bootstrap, bool) or n_bootstrap < 1:
        raise BadOption(f"n_bootstrap must be a whole number above 0, not {n_bootstrap!r}")
    if target not in (THESE_ROWS, NEW_ROWS):
        raise BadOption(f"target must be {THESE_ROWS!r} or {NEW_ROWS!r}, not {quoted_name(target)}")
