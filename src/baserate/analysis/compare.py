"""What each procedure does to each loss, on labelled rows."""

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

_AT_ONCE = 1 << 22  # Numbers of resampled rows that are held at a time.


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Mean losses of several procedures, and how they differ from the predictions as they are.

    Attributes
    ----------
    procedures : tuple of str
    losses : tuple of Loss
    mean : array of shape (p, l)
        Mean loss of each procedure; NaN where it is not defined, see ``notes``.
    change : array of shape (p, l)
        Mean loss minus that of the predictions as they are: below 0 is better.
    low, high : array of shape (p, l)
        Paired bootstrap interval of ``change``: rows are drawn again, the adjustment is not.
    confidence : float
    notes : tuple of str
        What could not be done, and why.
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
        """Columns of a table with one row a procedure and loss."""
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
            By default the kind of the predictions, or the first of these that is installed.
        """
        return frames.from_columns(self.as_dict(), self.kind if backend is None else backend)

    def __repr__(self) -> str:
        width = max(len(name) for name in self.procedures)
        lines: list[str] = []
        for j, loss in enumerate(self.losses):
            title = f"mean {short_name(loss)} loss"
            sure = f"{100 * self.confidence:.6g} %"
            lines += [*([""] if lines else []), f"{title:<{width}}      mean    change  {sure} interval of the change"]
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
    """What each procedure does to each loss, on labelled rows.

    Parameters
    ----------
    probs : array-like or dataframe of shape (n, k)
    y : array-like of shape (n,)
        Labels: class names, or column numbers if there are none.
    rates : array-like of shape (k,), dict, Series or Rates
        What is known of the rates of these rows. Procedures that need one guess take ``rates.estimate()``. The set is
        ``rates`` itself if it is one, else that of the chance deviations of a batch of this size
        (``Rates.of_population``).
    old_rates : array-like of shape (k,), dict or Series, optional
        Rates in training; without them there is no prior adjustment.
    losses : sequence of str or Loss, default ("log", "brier")
        Losses to measure by, and to adjust for.
    sample_weight, classes, columns
        As in :func:`adjust`.
    others : dict, optional
        Further predictions of the same rows, shape (n, k), by the name that they get in the comparison.
    confidence : float, default 0.95
        Of the bootstrap intervals.
    n_bootstrap : int, default 1000
    seed : int, default 0
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
    named = [losses] if isinstance(losses, (str, Loss)) else losses
    chosen = tuple({short_name(loss): loss for loss in map(as_loss, named)}.values())
    if "loss" in options or "bounded" in options:
        raise BadOption("compare chooses loss and bounded itself; name the losses in losses=")
    if not chosen:
        raise BadOption("losses is empty; name at least one loss")
    _check_bootstrap(confidence, n_bootstrap)
    shared = {**options, "sample_weight": sample_weight, "classes": classes, "columns": columns}
    request = requested(probs, rates, **shared)
    p, weights = read_predictions(request)
    targets = as_targets(y, p.shape, request.known.classes)
    given = {name: _like(p, rows, name) for name, rows in (others or {}).items()}
    made, notes = _made(probs, request.known, old_rates, chosen, shared)
    made = given | made
    counts = weights > 0  # a row of weight 0 does not count even if its loss is infinite
    weights, targets = weights[counts], targets[counts]
    rows = np.stack([[row_losses(loss, a[counts], targets) for loss in chosen] for a in (p, *made.values())])
    undefined = np.asarray(np.isnan(rows).any(axis=2))
    notes += [
        f"{name}: entries below 0 have no {short_name(chosen[j])} loss"
        for i, name in enumerate(("as predicted", *made))
        for j in np.flatnonzero(undefined[i])
    ]
    with np.errstate(invalid="ignore"):
        mean, gaps = rows @ weights, rows - rows[:1]
        change = gaps @ weights
    low, high = _bootstrap(gaps, weights, confidence, n_bootstrap, seed)
    kind = None if request.rows.frame is None else request.rows.frame.kind
    return Comparison(("as predicted", *made), chosen, mean, change, low, high, confidence, tuple(notes), kind)


def _like(p: FloatArray, rows: ArrayLike, name: str) -> FloatArray:
    other = np.asarray(rows, dtype=np.float64)
    if other.shape != p.shape:
        raise BadOption(f"others: {name!r} has shape {other.shape}, but the predictions have shape {p.shape}")
    return other


def _made(
    probs: Any, known: Rates, old_rates: RatesLike | None, losses: Sequence[Loss], options: dict[str, Any]
) -> tuple[dict[str, FloatArray], list[str]]:
    """Adjusted predictions by each procedure that can be done, and notes on those that cannot."""
    try:
        guess = known.estimate()
    except BadRates as error:  # what needs no guess is still done
        sets = {loss: adjusted(probs, known, loss=loss, **options) for loss in losses}
        made = {f"BGA {short_name(loss)} to a set": _rows(result) for loss, result in sets.items()}
        return made, [f"only sets of rates: {error}"]
    in_set = known if known.kind != "exact" else Rates.of_population(guess)
    prior = {name: value for name, value in options.items() if name not in ("tol", "max_passes")}
    plan: dict[str, Callable[[], Result]] = {}
    if old_rates is not None:
        plan["prior (PPA)"] = partial(prior_adjusted, probs, old_rates, guess, **prior)
    plan["additive"] = partial(adjusted, probs, guess, loss="brier", bounded=False, **options)
    for loss in losses:
        note = " (multiplicative)" if isinstance(loss, Log) else ""
        plan[f"BGA {short_name(loss)}{note}"] = partial(adjusted, probs, guess, loss=loss, **options)
    for loss in losses:
        plan[f"BGA {short_name(loss)} to a set"] = partial(adjusted, probs, in_set, loss=loss, **options)
    made, notes = {}, []
    for name, run in plan.items():
        try:
            made[name] = _rows(run())
        except InfeasibleRates as error:
            notes.append(f"{name}: {error}")
    return made, notes


def _rows(result: Result) -> FloatArray:
    return np.asarray(result.answer)


def row_losses(loss: Loss, p: FloatArray, targets: FloatArray) -> FloatArray:
    """Loss of each row; NaN for predictions outside the domain of the loss."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = loss.divergence(p, targets)
    return np.where((p < loss.domain.low).any(axis=1), np.nan, rows)


def _bootstrap(
    gaps: FloatArray, weights: FloatArray, confidence: float, draws: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Percentile interval of weighted means over rows, all procedures on the same draws."""
    rng, n = np.random.default_rng(seed), gaps.shape[-1]
    means = []
    at_once = max(_AT_ONCE // n, 1)
    for start in range(0, draws, at_once):
        drawn = rng.integers(n, size=(min(at_once, draws - start), n))
        counts = np.stack([np.bincount(rows, minlength=n) for rows in drawn]) * weights
        with np.errstate(invalid="ignore"):
            means.append(gaps @ (counts / counts.sum(axis=1, keepdims=True)).T)
    tail = 50 * (1 - confidence)
    with np.errstate(invalid="ignore"):  # infinite losses have no interval
        low, high = np.percentile(np.concatenate(means, axis=-1), [tail, 100 - tail], axis=-1)
    return low, high


def _cell(value: float, form: str) -> str:
    if np.isfinite(value):
        return format(value, form)
    return "infinite" if np.isinf(value) else "undefined"


def _check_bootstrap(confidence: object, draws: object) -> None:
    if not is_number(confidence) or not 0 < float(confidence) < 1:  # type: ignore[arg-type]
        raise BadOption(f"confidence must be a number between 0 and 1, such as 0.95, not {confidence!r}")
    if not isinstance(draws, (int, np.integer)) or isinstance(draws, bool) or draws < 1:
        raise BadOption(f"n_bootstrap must be a whole number above 0, not {draws!r}")
