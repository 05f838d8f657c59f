"""Keep a fixed shift, fit again, or do nothing: what each guarantees on new batches of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from baserate.errors import BadGroups, BadOption, BaserateError, InfeasibleRates
from baserate.inputs.dataframes import from_columns
from baserate.inputs.validation import as_confidence, is_number, quoted_name
from baserate.losses.base import Loss, short_name
from baserate.rates import RatesLike, is_grouped
from baserate.result.grouped import GroupedResult
from baserate.result.record import Result
from baserate.result.shift_certificate import ShiftCertificate
from baserate.result.text import class_name
from baserate.solving import (
    DEFAULT_STOP,
    Request,
    known_rates,
    names_of_classes,
    new_row_source,
    open_new_rows,
    solve,
)
from baserate.solving.certify import certify_rows
from baserate.support.numbers import percent
from baserate.support.summary import Summary, Table

KEEP, REFIT, NOTHING = "keep", "refit", "nothing"
_ROUNDING = 1e-12  # A guarantee that is less negative is 0, up to rounding.
_MOST_BATCHES = 1_000_000  # The confidence that is left for later ones could not be told from 1.
_ROW_OPTIONS = ("sample_weight", "from_logits", "normalize", "columns")


class DriftBatch(NamedTuple):
    """What is guaranteed on one batch.

    Attributes
    ----------
    name : object
    kept : ShiftCertificate
        If its rows are adjusted by the fixed shift.
    refitted : ShiftCertificate or None
        If its rows are adjusted to the rates; None if zeros in the predictions make that impossible.
    confidence : float or None
        Confidence that the rates of this batch are in the rate set; None if that is an assumption.
    """

    name: Any
    kept: ShiftCertificate
    refitted: ShiftCertificate | None
    confidence: float | None

    def action(self, tolerance: float) -> str:
        """The least work that guarantees as much as fitting again, up to the tolerance.

        The fixed shift is never kept if the loss may rise, since doing nothing guarantees more and is less work.
        """
        keep = self.kept.loss_reduction
        best = keep if self.refitted is None else self.refitted.loss_reduction
        if keep >= max(best - tolerance, -_ROUNDING):
            return KEEP
        return NOTHING if best <= tolerance else REFIT


@dataclass(frozen=True, eq=False, repr=False)
class Drift:
    """What keeping a fixed shift, fitting again, and doing nothing guarantee on some batches, from :func:`drift`.

    Attributes
    ----------
    batches : tuple of DriftBatch
    tolerance : float
        How much of the guaranteed fall may be given up to avoid a new fit.
    confidence : float or None
        Confidence that the guarantees of all batches hold; None if no rates are known with a confidence.
    loss : Loss

    Examples
    --------
    >>> import baserate as br
    >>> result = br.adjust([0.1, 0.4, 0.7, 0.9], 0.25)
    >>> months = [("May", [0.1, 0.3, 0.7, 0.9], 0.25), ("June", [0.3, 0.4, 0.6, 0.7], 0.5)]
    >>> br.drift(result, months)
    What the fixed shift guarantees on 2 batches: fall of the mean log loss
    <BLANKLINE>
      batch  rows     keep    refit   action
      May       4  +0.2112  +0.2115     keep
      June      4  -0.3293  +0.0000  nothing
    """

    batches: tuple[DriftBatch, ...]
    tolerance: float
    confidence: float | None
    loss: Loss

    @property
    def actions(self) -> list[str]:
        """For each batch "keep", "refit" or "nothing"; see :func:`drift`."""
        return [batch.action(self.tolerance) for batch in self.batches]

    def as_dict(self) -> dict[str, list[Any]]:
        """Columns of a table, for ``pandas.DataFrame`` or ``polars.DataFrame``; see :meth:`to_frame`."""
        kept, refitted = [one.kept for one in self.batches], [one.refitted for one in self.batches]
        return {
            "batch": [one.name for one in self.batches],
            "n_rows": [one.n_rows for one in kept],
            "keep": [one.loss_reduction for one in kept],
            "keep_at_most": [one.largest_fall for one in kept],
            "refit": [np.nan if one is None else one.loss_reduction for one in refitted],
            "refit_at_most": [np.nan if one is None else one.largest_fall for one in refitted],
            "nothing": [0.0] * len(kept),
            "confidence": [np.nan if one.confidence is None else one.confidence for one in self.batches],
            "action": self.actions,
        }

    def to_frame(self, backend: str | None = None) -> Any:
        """A dataframe with one row per batch.

        Parameters
        ----------
        backend : "pandas", "polars" or "pyarrow", optional
            The dataframe library. By default the first of these that is installed.

        Returns
        -------
        dataframe
            The columns are

            - ``batch`` and ``n_rows``;
            - ``keep`` and ``refit``: the mean loss falls by at least this much with the fixed shift, and if the batch
              is adjusted to its rates; ``keep_at_most`` and ``refit_at_most``: by at most this much;
            - ``nothing``: 0, since nothing changes;
            - ``confidence`` in the rates of this batch; NaN if they are assumed;
            - ``action``: "keep", "refit" or "nothing".
        """
        return from_columns(self.as_dict(), backend)

    def __repr__(self) -> str:
        return self.summary().text()

    def _repr_html_(self) -> str:
        return self.summary().html()

    def summary(self) -> Summary:
        """What a person sees of the drift, in terminals and notebooks."""
        columns = self.as_dict()
        n = len(self.batches)
        loss = f"{short_name(self.loss)} loss"
        title = f"What the fixed shift guarantees on {n} batch{'es' * (n != 1)}: fall of the mean {loss}"
        statements = []
        if self.confidence is not None:
            statements = [self._condition(self.confidence)]
        if any(one.refitted is None for one in self.batches):
            statements.append("A new fit is impossible where zeros in the predictions do not allow the rates.")
        table = Table.of(
            {
                "batch": [class_name(name) for name in columns["batch"]],
                "rows": [f"{n:,}" for n in columns["n_rows"]],
                "keep": [f"{value:+z.4f}" for value in columns["keep"]],
                "refit": ["impossible" if np.isnan(value) else f"{value:+z.4f}" for value in columns["refit"]],
                "action": columns["action"],
            }
        )
        return Summary(title, statements, [table])

    def _condition(self, confidence: float) -> str:
        """With which confidence all guarantees hold, and what is assumed about the rates of each batch."""
        known = [one.kept.known for one in self.batches]
        clauses = dict.fromkeys(rates.assumption for rates in known if rates.certainty is not None)
        if any(rates.certainty is None for rates in known):
            clauses["the other rates are as given"] = None
        about = "about " * any(one.kept.condition.startswith("with about") for one in self.batches)
        where = "for each batch, " * (len(known) > 1)
        level = f"{about}{percent(confidence)} confidence"
        return f"with {level}, all lines hold at once, if {where}{', and '.join(clauses)}"


def drift(
    result: Result,
    batches: Iterable[Any],
    *,
    confidence: float = 0.95,
    tolerance: float = 0.01,
    first: int = 1,
) -> Drift:
    """Compare, for each of several batches: keep the fixed shift, fit again, or do nothing.

    No labels are needed. For each batch, something must be known about its class rates.

    Parameters
    ----------
    result : Adjustment
        The adjustment whose shift is in use. It may be a loaded one.
    batches : iterable of tuples or dicts
        Each is ``(name, probs, rates)``, or a dict with the keys ``name``, ``probs`` and ``rates`` and options of
        :meth:`Adjustment.certify`: ``sample_weight``, ``from_logits``, ``normalize`` and ``columns``. The order is that
        of time.
    confidence : float, default 0.95
        If rates are known with a confidence (survey counts, rates of a population), this is the confidence that the
        guarantees of all batches hold, also of those still to come. The rates of batch number t then have the error
        probability ``6 / (pi t)**2`` times ``1 - confidence``, in place of their own. These numbers sum to the whole.
        Rates that were estimated or computed from draws must already have this confidence, or a higher one.
    tolerance : float, default 0.01
        How much of the guaranteed fall may be given up to avoid a new fit. The recommended action is "keep" if the old
        shift guarantees as much as a new fit up to this number, and the loss does not rise. Otherwise it is "refit",
        or "nothing" if a new fit guarantees no more than this number.
    first : int, default 1
        The number of the first of these batches, if there were earlier ones.

    Returns
    -------
    Drift
        Its ``to_frame`` is a dataframe with one row per batch; :class:`DriftDisplay` draws it.

    Examples
    --------
    >>> import baserate as br
    >>> result = br.adjust([0.1, 0.4, 0.7, 0.9], 0.25)
    >>> found = br.drift(result, [("May", [0.1, 0.3, 0.7, 0.9], 0.25), ("June", [0.2, 0.3, 0.6, 0.9], 0.3)])
    >>> found.actions
    ['keep', 'refit']
    """
    _check_options(result, confidence, tolerance, first)
    if isinstance(batches, (Mapping, str)) or not isinstance(batches, Iterable):
        raise BadOption(f"batches must be a list of (name, probs, rates), not {type(batches).__name__}")
    found, has_levels = [], False
    for t, batch in enumerate(batches, start=first):
        name, probs, rates, options = _parse(batch, t)
        level = 1.0 - 6.0 * (1.0 - confidence) / (np.pi * t) ** 2
        try:
            one = compare_with_refit(result, probs, rates, name=name, confidence=level, **options)
        except BaserateError as error:
            error.add_note(f"This was the batch {name!r}.")
            raise
        has_levels |= one.confidence is not None
        found.append(one)
    if not found:
        raise BadOption("batches is empty; pass a list of (name, probs, rates)")
    return Drift(tuple(found), float(tolerance), float(confidence) if has_levels else None, result.loss)


def drift_of_batch(
    result: Result, probs: Any, rates: RatesLike, *, tolerance: float = 0.01, name: Any = "new rows", **options: Any
) -> Drift:
    """The same for a single batch, whose rates keep their own confidence."""
    _check_options(result, 0.95, tolerance, 1)
    one = compare_with_refit(result, probs, rates, name=name, confidence=None, **options)
    return Drift((one,), float(tolerance), one.confidence, result.loss)


def compare_with_refit(
    result: Result, probs: Any, rates: RatesLike, *, name: Any, confidence: float | None, **options: Any
) -> DriftBatch:
    """Certify the fixed shift on a batch, and fit a new one.

    ``confidence`` replaces that of the rates, unless it is None.
    """
    if is_grouped(rates):
        raise BadGroups("drift compares rates of all rows, but these are rates per group; use certify instead")
    rows, model = open_new_rows(result, new_row_source(result, probs, writes=False, **options))
    known = known_rates(rows, rates, names_of_classes(result, rows))
    if known.certainty is not None and confidence is not None:
        known = known.at_confidence(confidence)
    kept = certify_rows(result, rows, model, known)
    fresh = replace(model, kept_classes=np.arange(model.n_classes), limit_levels=None, softness=0.0)
    request = Request(rows.reopen(), fresh, known, result.bounded, result.stop or DEFAULT_STOP)
    refitted = None
    try:
        again = solve(request, keep_rows=False)
        refitted = certify_rows(again, rows.reopen(), again.model, known).without_sample()
    except InfeasibleRates:  # zeros in the predictions allow no new fit; the fixed shift may still be applied
        pass
    return DriftBatch(name, kept, refitted, known.certainty)


def _parse(batch: Any, number: int) -> tuple[Any, Any, Any, dict[str, Any]]:
    """The name, the predictions, the rates and the options of a batch."""
    if isinstance(batch, Mapping):
        options = {key: batch[key] for key in batch if key not in ("name", "probs", "rates")}
        if missing := [key for key in ("probs", "rates") if key not in batch]:
            raise BadOption(f"batch {number} has no {' and no '.join(missing)}")
        if unknown := [key for key in options if key not in _ROW_OPTIONS]:
            raise BadOption(
                f"batch {number} has an unexpected entry {unknown[0]!r}; options are {', '.join(_ROW_OPTIONS)}"
            )
        return batch.get("name", f"batch {number}"), batch["probs"], batch["rates"], options
    if isinstance(batch, (tuple, list)) and len(batch) == 3:
        return batch[0], batch[1], batch[2], {}
    given = f"a {type(batch).__name__} of {len(batch)}" if isinstance(batch, (tuple, list)) else type(batch).__name__
    raise BadOption(f"batch {number} must be a tuple (name, probs, rates) or a dict, not {given}")


def _check_options(result: Any, confidence: object, tolerance: object, first: object) -> None:
    if not isinstance(result, Result):
        raise BadOption(f"the first argument must be an adjustment, not {type(result).__name__}")
    if isinstance(result, GroupedResult):
        raise BadGroups("the adjustment has a shift per group; use certify for each batch instead")
    as_confidence(confidence)
    if not is_number(tolerance) or not 0 <= float(tolerance) < np.inf:  # type: ignore[arg-type]  # it is a number
        raise BadOption(f"tolerance must be 0 or a positive number, such as 0.01, not {quoted_name(tolerance)}")
    if isinstance(first, bool) or not isinstance(first, (int, np.integer)) or not 1 <= first <= _MOST_BATCHES:
        raise BadOption(f"first must be a whole number from 1 to {_MOST_BATCHES:,}, not {quoted_name(first)}")
