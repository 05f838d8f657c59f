"""Compare the procedures by their losses on labelled rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.errors import BadOption, BadRates, InfeasibleRates
from baserate.inputs import dataframes as frames
from baserate.inputs.labels import as_targets
from baserate.inputs.validation import is_number
from baserate.losses.base import Loss, short_name
from baserate.losses.log import Log
from baserate.losses.registry import as_loss
from baserate.rates import Rates, RatesLike
from baserate.result.record import Result
from baserate.solving import adjusted, prior_adjusted, read_predictions, requested
from baserate.support.arrays import FloatArray

_MAX_VALUES = 1 << 22  # Weights of resampled rows that are in memory at a time.
_ORIGINAL = "as predicted"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Mean losses of several procedures, compared with those of the original predictions.

    Attributes
    ----------
    procedures : tuple of str
        The first one is "as predicted", the original predictions.
    losses : tuple of Loss
    mean : array of shape (p, l)
        Mean loss of each procedure; NaN where it is not defined, see ``notes``.
    change : array of shape (p, l)
        Mean loss minus that of the original predictions: below 0 is better.
    low, high : array of shape (p, l)
        Paired bootstrap interval of ``change``. It resamples the rows, but does not repeat the adjustment.
    confidence : float
        Confidence level of the intervals.
    notes : tuple of str
        Which procedures and losses could not be computed, and why.
    kind : object
        The dataframe library of the predictions; None if they were no dataframe.
    """

    procedures: tuple[str, ...]
    losses: tuple[Loss, ...]
    mean: FloatArray
    change: FloatArray
    low: FloatArray
    high: FloatArray
    confidence: float
    notes: tuple[str, ...]
    kind: Any = None

    def as_dict(self) -> dict[str, list[Any]]:
        """Columns of a table with one row per procedure and loss."""
        cells = [(i, j) for j in range(len(self.losses)) for i in range(len(self.procedures))]
        columns: dict[str, list[Any]] = {
            "procedure": [self.procedures[i] for i, _ in cells],
            "loss": [short_name(self.losses[j]) for _, j in cells],
        }
        for name in ("mean", "change", "low", "high"):
            columns[name] = [float(getattr(self, name)[cell]) for cell in cells]
        return columns

    def to_frame(self, backend: str | None = None) -> Any:
        """The table as a dataframe.

        Parameters
        ----------
        backend : "pandas", "polars" or "pyarrow", optional
            By default the library of the predictions, or the first of these that is installed.
        """
        return frames.from_columns(self.as_dict(), self.kind if backend is None else backend)

    def __repr__(self) -> str:
        width = max(len(name) for name in self.procedures)
        lines: list[str] = []
        for j, loss in enumerate(self.losses):
            title = f"mean {short_name(loss)} loss"
            level = f"{100 * self.confidence:.6g} %"
            lines += [*([""] if lines else []), f"{title:<{width}}      mean    change  {level} interval of the change"]
            for i, name in enumerate(self.procedures):
                mean, change, low, high = (a[i, j] for a in (self.mean, self.change, self.low, self.high))
                line = f"{name:<{width}}  {_cell(mean, '8.4f')}"
                if i and np.isfinite(change):
                    line += f"  {_cell(change, '+8.4f')}  {_cell(low, '+.4f')} to {_cell(high, '+.4f')}"
                lines.append(line)
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def compare(
    probs: Any,
    y: ArrayLike,
    rates: RatesLike,
    old_rates: RatesLike | None = None,
    *,
    losses: Sequence[str | Loss] = ("log", "brier"),
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
    others: Mapping[str, ArrayLike] | None = None,
    confidence: float = 0.95,
    n_bootstrap: int = 1000,
    seed: int = 0,
    **options: Any,
) -> Comparison:
    """Compare the mean losses of all procedures on labelled rows.

    The procedures are prior probability adjustment (PPA), additive adjustment, and bounded general adjustment (BGA) for
    each loss, to one vector of rates and to a rate set.

    Parameters
    ----------
    probs : array-like or dataframe of shape (n, k)
    y : array-like of shape (n,)
        Labels: class names, or column numbers if the classes have no names.
    rates : array-like of shape (k,), dict, Series or Rates
        What is known about the class rates of these rows. Procedures that need one vector use ``rates.estimate()``. The
        rate set is ``rates`` itself if it is a set, else ``Rates.of_population(rates)``: the rates that are likely in
        a random sample of this size.
    old_rates : array-like of shape (k,), dict or Series, optional
        Class rates in training; prior adjustment is left out without them.
    losses : sequence of str or Loss, default ("log", "brier")
        Losses to measure, and to adjust for.
    sample_weight, classes, columns
        As in :func:`adjust`.
    others : dict, optional
        Further predictions of the same rows, shape (n, k), by their name in the comparison.
    confidence : float, default 0.95
        Confidence level of the bootstrap intervals.
    n_bootstrap : int, default 1000
        Number of bootstrap samples.
    seed : int, default 0
        Seed of the bootstrap.
    **options
        ``zeros``, ``normalize`` and other options of :func:`adjust`.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import baserate as br
    >>> p = [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]]
    >>> br.compare(p, [0, 0, 0, 1], [0.75, 0.25], [0.5, 0.5], losses=["brier"])
    mean brier loss         mean    change  95 % interval of the change
    as predicted          0.3350
    prior (PPA)           0.1441   -0.1909  -0.4523 to +0.0438
    additive              0.1837   -0.1512  -0.4537 to +0.1512
    BGA brier             0.1633   -0.1717  -0.5383 to +0.1889
    BGA brier to a set    0.3350   +0.0000  +0.0000 to +0.0000
    """
    chosen = _as_losses(losses)
    if "loss" in options or "bounded" in options:
        raise BadOption("compare does not take loss= and bounded=; pass the losses as losses=")
    _check_bootstrap(confidence, n_bootstrap)
    options |= {"sample_weight": sample_weight, "classes": classes, "columns": columns}
    request = requested(probs, rates, **options)
    p, weights = read_predictions(request)
    targets = as_targets(y, p.shape, request.known.classes)
    further = {name: _as_predictions(rows, p.shape, name) for name, rows in (others or {}).items()}
    made, notes = _adjusted_by_all(probs, request.known, old_rates, chosen, options)
    predictions = {_ORIGINAL: p} | further | made
    counts = weights > 0  # a row of weight 0 does not count even if its loss is infinite
    weights, targets = weights[counts], targets[counts]
    rows = np.stack([[row_losses(loss, a[counts], targets) for loss in chosen] for a in predictions.values()])
    notes += _undefined_losses(rows, list(predictions), chosen)
    with np.errstate(invalid="ignore"):
        mean, differences = rows @ weights, rows - rows[:1]
        change = differences @ weights
    low, high = _bootstrap(differences, weights, confidence, n_bootstrap, seed)
    kind = None if request.rows.frame is None else request.rows.frame.kind
    return Comparison(tuple(predictions), chosen, mean, change, low, high, confidence, tuple(notes), kind)


def _as_losses(losses: str | Loss | Sequence[str | Loss]) -> tuple[Loss, ...]:
    """The losses without repetitions."""
    several = [losses] if isinstance(losses, (str, Loss)) else losses
    chosen = tuple({short_name(loss): loss for loss in map(as_loss, several)}.values())
    if not chosen:
        raise BadOption("losses is empty; name at least one loss")
    return chosen


def _as_predictions(rows: ArrayLike, shape: tuple[int, ...], name: str) -> FloatArray:
    predictions = np.asarray(rows, dtype=np.float64)
    if predictions.shape != shape:
        raise BadOption(f"others: {name!r} has shape {predictions.shape}, but probs has shape {shape}")
    return predictions


def _adjusted_by_all(
    probs: Any, known: Rates, old_rates: RatesLike | None, losses: Sequence[Loss], options: dict[str, Any]
) -> tuple[dict[str, FloatArray], list[str]]:
    """The adjusted predictions of each procedure, and notes on the procedures that are impossible."""
    try:
        rates = known.estimate()
    except BadRates as error:  # procedures that need one vector of rates are left out
        results = {loss: adjusted(probs, known, loss=loss, **options) for loss in losses}
        made = {f"BGA {short_name(loss)} to a set": _rows(result) for loss, result in results.items()}
        return made, [f"only adjustment to a rate set is compared: {error}"]
    rate_set = known if known.kind != "exact" else Rates.of_population(rates)
    calls: dict[str, Callable[[], Result]] = {}
    if old_rates is not None:
        prior_options = {name: value for name, value in options.items() if name not in ("tol", "max_passes")}
        calls["prior (PPA)"] = partial(prior_adjusted, probs, old_rates, rates, **prior_options)
    calls["additive"] = partial(adjusted, probs, rates, loss="brier", bounded=False, **options)
    for loss in losses:
        addition = " (multiplicative)" if isinstance(loss, Log) else ""
        calls[f"BGA {short_name(loss)}{addition}"] = partial(adjusted, probs, rates, loss=loss, **options)
    for loss in losses:
        calls[f"BGA {short_name(loss)} to a set"] = partial(adjusted, probs, rate_set, loss=loss, **options)
    made, notes = {}, []
    for name, call in calls.items():
        try:
            made[name] = _rows(call())
        except InfeasibleRates as error:
            notes.append(f"{name}: {error}")
    return made, notes


def _rows(result: Result) -> FloatArray:
    return np.asarray(result.answer)


def _undefined_losses(rows: FloatArray, procedures: Sequence[str], losses: Sequence[Loss]) -> list[str]:
    """Notes on predictions outside the domain of a loss."""
    undefined = np.asarray(np.isnan(rows).any(axis=2))
    return [
        f"{name}: entries below 0 have no {short_name(loss)} loss"
        for i, name in enumerate(procedures)
        for j, loss in enumerate(losses)
        if undefined[i, j]
    ]


def row_losses(loss: Loss, p: FloatArray, targets: FloatArray) -> FloatArray:
    """The loss of each row; NaN for predictions outside the domain of the loss."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = loss.divergence(p, targets)
    return np.where((p < loss.domain.low).any(axis=1), np.nan, rows)


def _bootstrap(
    differences: FloatArray, weights: FloatArray, confidence: float, n_samples: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Percentile interval of the weighted mean over rows; all procedures use the same bootstrap samples."""
    rng, n = np.random.default_rng(seed), differences.shape[-1]
    means = []
    batch = max(_MAX_VALUES // n, 1)
    for start in range(0, n_samples, batch):
        samples = rng.integers(n, size=(min(batch, n_samples - start), n))
        counts = np.stack([np.bincount(rows, minlength=n) for rows in samples]) * weights
        with np.errstate(invalid="ignore"):
            means.append(differences @ (counts / counts.sum(axis=1, keepdims=True)).T)
    tail = 50 * (1 - confidence)
    with np.errstate(invalid="ignore"):  # infinite losses have no interval
        low, high = np.percentile(np.concatenate(means, axis=-1), [tail, 100 - tail], axis=-1)
    return low, high


def _cell(value: float, format_spec: str) -> str:
    if np.isfinite(value):
        return format(value, format_spec)
    return "infinite" if np.isinf(value) else "undefined"


def _check_bootstrap(confidence: Any, n_bootstrap: Any) -> None:
    if not is_number(confidence) or not 0 < float(confidence) < 1:
        raise BadOption(f"confidence must be a number between 0 and 1, such as 0.95, not {confidence!r}")
    if not isinstance(n_bootstrap, (int, np.integer)) or isinstance(n_bootstrap, bool) or n_bootstrap < 1:
        raise BadOption(f"n_bootstrap must be a whole number above 0, not {n_bootstrap!r}")
