"""Estimate the class rates of a batch from a few labelled rows of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.errors import BadLabels, BadOption
from baserate.estimation.calibration import recalibrated
from baserate.estimation.drawn_rows import DrawnRows
from baserate.estimation.draws import random_order
from baserate.estimation.label_bounds import label_bounds
from baserate.estimation.label_tests import Counts
from baserate.estimation.labelled_rows import LABELLED, Y_LABELLED, LabelledBatch, find_rows, read_batch
from baserate.estimation.validation import PROBS_VAL, Y_VAL, ValidationRows, read_labelled
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import as_confidence
from baserate.rates import Rates, from_json
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.numbers import counted


def estimate_from_labels(
    probs_new: Any,
    labelled: Any,
    y_labelled: ArrayLike | None,
    *,
    confidence: float = 0.95,
    probs_val: Any = None,
    y_val: Any = None,
    classes: Sequence[Any] | None = None,
    columns: str | Sequence[Any] | None = None,
    from_logits: bool = False,
    normalize: bool = False,
) -> Rates:
    """Class rates of a batch from the labels of some of its rows, which were drawn at random.

    The set contains the class rates of the batch, for all classes jointly, with the stated confidence, for every number
    of labels and for any predictions. But the predictions must not depend on these labels: estimate before you retrain
    or calibrate with them. Predictions that are right make the set narrower. It is computed by betting on draws without
    replacement; :mod:`baserate.estimation.betting` has the method.

    Parameters
    ----------
    probs_new : array-like or dataframe of shape (n, k), or of shape (n,) for two classes
        Predictions for all rows of the batch.
    labelled : DrawnRows or array-like
        The labelled rows: what :func:`baserate.draw_rows` returned, row numbers, a mask with one boolean per row, or
        labels of the index of a pandas dataframe. Whole numbers are row numbers, unless they are a pandas Index. The
        rows must have been drawn at random from all rows, without replacement; rows that were chosen because they
        are doubtful, or recent, or easy to label, are not a random sample. Their order does not matter. If they were
        drawn from strata, pass what ``draw_rows`` returned: row numbers alone are taken for draws from all rows.
    y_labelled : array-like of shape (m,)
        Their labels, in the order of ``labelled``; for a mask, in the order of the rows.
    confidence : float, default 0.95
    probs_val, y_val : optional
        Validation data as in :func:`baserate.estimate`, with which the predictions are recalibrated first. The
        confidence does not depend on it.
    classes, columns, from_logits, normalize
        As in :func:`baserate.adjust`.

    Returns
    -------
    Rates
        For :func:`baserate.adjust` and all other functions that accept rates. It is about these rows, and is refused
        for other predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from baserate import draw_rows
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(2000) < 0.3                                    # nobody knows these labels
    >>> p = 1 / (1 + np.exp(-rng.normal(4.0 * y - 2.0)))              # predictions
    >>> drawn = draw_rows(p, 200, random_state=0)
    >>> rates = estimate_from_labels(p, drawn, y[drawn.rows])         # 200 rows are labelled
    >>> low, high = rates.bounds()
    >>> bool(low[1] <= y.mean() <= high[1]), rates.estimate().round(2)
    (True, array([0.7, 0.3]))
    """
    as_confidence(confidence)
    if labelled is None or y_labelled is None:
        missing, given = (LABELLED, Y_LABELLED) if labelled is None else (Y_LABELLED, LABELLED)
        raise BadOption(f"{missing}= is missing: {given}= needs both", options=[missing, given])
    reading = {"classes": classes, "columns": columns, "from_logits": from_logits, "normalize": normalize}
    batch = read_batch(probs_new, "probs_new", **reading)
    rows = find_rows(labelled, batch)
    strata = labelled.strata if isinstance(labelled, DrawnRows) else None
    _check_number(y_labelled, len(rows), len(batch.probs))
    labels = batch.columns_of(y_labelled, len(rows))
    probs, validation = batch.probs, _validation(probs_val, y_val, batch, **reading)
    if validation is not None:
        probs = recalibrated(probs, validation.probs, validation.y)
    draws = random_order(rows, strata)
    in_order = np.argsort(rows)
    drawn_labels = labels[in_order][np.searchsorted(rows[in_order], draws.rows)]
    found = label_bounds(probs, draws, drawn_labels, float(confidence), stratified=strata is not None)
    values, low, high = _consistent(found, probs, rows, labels, _weights(rows, strata))
    numbers = {"values": values, "low": low, "high": high, "n_rows": len(probs), "n_labelled": len(rows)}
    about = {"kind": "labelled", "confidence": float(confidence), "stratified": strata is not None}
    return from_json(about | numbers | {"mean": batch.probs.mean(axis=0)}, batch.classes)


def _validation(
    probs_val: Any, y_val: Any, batch: LabelledBatch, *, classes: Any, **reading: Any
) -> ValidationRows | None:
    """Validation data, read like the batch; None if there is none."""
    if probs_val is None and y_val is None:
        return None
    if probs_val is None or y_val is None:
        raise BadOption(f"validation data needs both {PROBS_VAL}= and {Y_VAL}=", options=[PROBS_VAL, Y_VAL])
    source = RowSource(probs=probs_val, named_classes=classes, **reading)
    return read_labelled(probs_val, y_val, batch.request.rows, batch.classes, source)


def _check_number(labels: ArrayLike, n_labelled: int, n_rows: int) -> None:
    shape = np.shape(np.asarray(labels, dtype=object))
    if shape == (n_labelled,):
        return
    given = counted(shape[0], "label") if len(shape) == 1 else f"shape {shape}"
    hint = f"; if it has the labels of all rows, pass those of {LABELLED} only" if shape == (n_rows,) else ""
    raise BadLabels(
        f"{Y_LABELLED} has {given}, but {LABELLED} has {counted(n_labelled, 'row')}; pass one label for each of "
        f"them{hint}",
        options=[Y_LABELLED, LABELLED],
    )


def _weights(rows: IndexArray, strata: IndexArray | None) -> FloatArray:
    """The share of the batch that each labelled row stands for."""
    if strata is None:
        return np.full(len(rows), 1.0 / len(rows))
    share = np.bincount(strata) / len(strata)
    return np.asarray((share / np.maximum(np.bincount(strata[rows], minlength=len(share)), 1))[strata[rows]])


def _consistent(
    found: Counts, probs: FloatArray, rows: IndexArray, labels: IndexArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The best estimate of the rates, and bounds that contain it."""
    (n, k), m = probs.shape, len(rows)
    h = recalibrated(probs, probs[rows], labels)
    raw = h.mean(axis=0) + weights @ (np.eye(k)[labels] - h[rows])
    counts = np.bincount(labels, minlength=k)
    certain = RateSet.box(counts / n, (counts + n - m) / n)
    low, high = found.low / n, found.high / n
    if (low > high).any() or low.sum() > 1.0 or high.sum() < 1.0:
        # At low confidence no rates may lie in all intervals. So they are widened to contain the estimate.
        raw = certain.nearest(raw)
        low, high = np.minimum(low, raw), np.maximum(high, raw)
    return RateSet.box(low, high).nearest(raw), low, high
