"""The verb: estimate the class rates of a batch, as a set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from baserate.core.contracts import Engine
from baserate.engines import open_rows
from baserate.errors import AssumptionRefuted, BadLabels, BadOption, BadRates, Option
from baserate.estimation.batch import Batch
from baserate.estimation.calibration import logarithms
from baserate.estimation.exact import exact_bounds
from baserate.estimation.features import class_moments
from baserate.estimation.labelled import estimate_from_labels
from baserate.estimation.moments import confidence_region
from baserate.estimation.shares import largest_misfit
from baserate.estimation.validation import (
    ValidationRows,
    are_numbers_of_two_classes,
    has_several_columns,
    names_of_labels,
    read_labelled,
    row_model,
)
from baserate.inputs.row_source import RowSource
from baserate.inputs.validation import as_confidence, class_label, quoted, quoted_name
from baserate.progress import Progress
from baserate.rates import Rates
from baserate.rates.estimated import EstimatedRates, p_value_text
from baserate.solving.request import class_names
from baserate.support.arrays import FloatArray
from baserate.support.numbers import counted
from baserate.tables import is_table

LEVEL = 0.01
"""The assumption is refuted if the p-value of its test is below this."""

SHARES_LEVEL = 0.001
"""The same for the test of the shares of predictions in intervals, which is in addition to the other one."""

_FEWEST_ROWS = 2  # of each class, for moments: a variance needs two
_MOST_CLASSES = 400  # With more, covariance matrices within all classes take gigabytes.
_FEWEST_DISTINCT = 10  # validation predictions, before equal ones in the batch are said to be the same rows
_EVERYTHING = Option("on_refuted", "'everything'")
_LABELLED, _METHOD = Option("labelled"), Option("method", "'exact'")
_PROBS_VAL, _Y_VAL, _CLASSES = Option("probs_val"), Option("y_val"), Option("classes", "[...]")


def estimate(
    probs_new: Any,
    *,
    probs_val: Any = None,
    y_val: Any = None,
    labelled: Any = None,
    y_labelled: Any = None,
    confidence: float = 0.95,
    method: str = "auto",
    on_refuted: str = "raise",
    classes: Sequence[Any] | None = None,
    columns: str | Sequence[Any] | None = None,
    from_logits: bool = False,
    normalize: bool = False,
    progress: Progress | None = None,
) -> Rates:
    """Estimate the class rates of a batch that nobody knows, as a set for :func:`adjust`.

    From validation data, the set contains the realised class rates of these rows with the stated confidence, **if
    predictions within each class are distributed as in the validation data** (label shift, also called prior
    probability shift). This is tested where the data allow it. A test that does not refute the assumption does not
    prove it. From labelled rows of the batch itself, the set needs no such assumption, only that these rows were drawn
    at random; see :func:`draw_rows`. The predictions must not depend on these labels: estimate before you retrain or
    calibrate with them.

    Parameters
    ----------
    probs_new : array-like or dataframe of shape (n, k), path, pyarrow.dataset.Dataset, or Dask array or dataframe
        Predictions of the batch, as in :func:`adjust`. Labels are not needed.
    probs_val : array-like or dataframe of shape (m, k), or path
        Predictions of the same classifier for labelled rows on which it was not trained. Columns with names are
        matched by name. They are read into memory.
    y_val : array-like of shape (m,), or str
        The true classes of the validation rows: class names, or column numbers if the classes have no names. A string
        is the name of a column of ``probs_val``.
    labelled : DrawnRows or array-like, optional
        Rows of the batch that were drawn at random and labelled: what :func:`draw_rows` returned, row numbers, a mask
        with one boolean per row, or labels of the index of a pandas dataframe. Rows drawn from strata must be passed
        as :func:`draw_rows` returned them, not as row numbers. The predictions are then held in memory.
        Validation data is optional: it can make the set narrower, and ``method`` and ``on_refuted`` have no effect.
    y_labelled : array-like, optional
        The true classes of these rows, in the same order.
    confidence : float, default 0.95
        Confidence that the set contains the rates of the batch, for all classes jointly.
    method : "auto", "moments" or "exact", default "auto"
        "moments" uses means of features of the predictions. Its confidence is approximate, and the set is an ellipsoid.
        "exact" uses intervals of Clopper and Pearson for the confusion matrix. It is valid for every sample size and
        wide for more than two classes. "auto" is "moments", unless a class has fewer than 2 validation rows.
    on_refuted : "raise" or "everything", default "raise"
        What to do if the assumption is refuted: raise an error, or return the set of all rates, to which
        :func:`adjust` adjusts by changing nothing.
    classes, columns, from_logits, normalize, progress
        As in :func:`adjust`, for both the batch and the validation rows.

    Returns
    -------
    Rates
        With ``estimate()`` and ``bounds()``. If it is from validation data, also with ``p_value``, and ``region``,
        which is the ellipsoid. It belongs to this batch: :func:`adjust` refuses to use it for other rows.

    Raises
    ------
    AssumptionRefuted
        If the p-value of the test is below 0.01, or if no rates explain the predictions of the batch.

    Examples
    --------
    >>> import numpy as np
    >>> import baserate as br
    >>> rng = np.random.default_rng(0)
    >>> def predictions(y):
    ...     return 1 / (1 + np.exp(-rng.normal(2.0 * y - 1.0, 1.0)))
    >>> y_val = rng.random(1000) < 0.5
    >>> p_val, p_new = predictions(y_val), predictions(rng.random(2000) < 0.1)
    >>> rates = br.estimate(p_new, probs_val=p_val, y_val=y_val)
    >>> low, high = rates.bounds()
    >>> bool(low[1] < 0.1 < high[1])
    True
    >>> result = br.adjust(p_new, rates)

    With labels of 200 random rows of the batch:

    >>> y_new = rng.random(2000) < 0.1  # nobody knows these
    >>> p_new = predictions(y_new)
    >>> drawn = br.draw_rows(p_new, 200, random_state=0)
    >>> rates = br.estimate(p_new, labelled=drawn, y_labelled=y_new[drawn.rows])
    >>> low, high = rates.bounds()
    >>> bool(low[1] <= y_new.mean() <= high[1])
    True
    """
    _check_options(confidence, method, on_refuted)
    if labelled is not None or y_labelled is not None:
        return estimate_from_labels(
            probs_new,
            labelled,
            y_labelled,
            confidence=confidence,
            probs_val=probs_val,
            y_val=y_val,
            classes=classes,
            columns=columns,
            from_logits=from_logits,
            normalize=normalize,
        )
    _check_validation(probs_new, probs_val, y_val)
    source = RowSource(
        probs=probs_new,
        argument="probs_new",
        columns=columns,
        named_classes=classes,
        from_logits=from_logits,
        normalize=normalize,
        progress=progress,
    )
    rows, names = _open_batch(source, probs_val, y_val)
    _check_classes(rows.n_classes)
    validation = read_labelled(probs_val, y_val, rows, names, source)
    batch = Batch.of(rows, row_model(rows.n_classes, source.reading))
    _check_overlap(batch, validation)
    return _estimated(batch, validation, names, float(confidence), method, on_refuted)


def _check_validation(probs_new: Any, probs_val: Any, y_val: Any) -> None:
    if probs_val is None or y_val is None:
        missing = _PROBS_VAL if probs_val is None else _Y_VAL
        raise BadOption(
            f"{missing}= is missing: pass predictions of labelled validation rows and their labels ({_PROBS_VAL}= and "
            f"{_Y_VAL}=), or labelled rows of the batch itself ({_LABELLED}=)",
            options=[_PROBS_VAL, _Y_VAL, _LABELLED],
        )
    if probs_new is probs_val:
        raise BadOption(
            f"probs_new and {_PROBS_VAL} are the same rows, whose class rates are those of {_Y_VAL}; pass predictions "
            "of the new rows as probs_new",
            options=[_PROBS_VAL, _Y_VAL],
        )


def _check_classes(k: int) -> None:
    if k > _MOST_CLASSES:
        raise BadOption(
            f"there are {k:,} classes, but rates can be estimated from validation data for at most {_MOST_CLASSES}; "
            f"label a few random rows of the batch and pass them as {_LABELLED}=",
            options=[_LABELLED],
        )


def _open_batch(source: RowSource, probs_val: Any, y_val: Any) -> tuple[Engine, tuple[Any, ...] | None]:
    """The batch, and the names of its classes."""
    in_files, classes = isinstance(y_val, str) and is_table(source.probs), source.named_classes
    if source.columns is not None or classes is not None or not (in_files or has_several_columns(source.probs)):
        rows = open_rows(source)
        return rows, class_names(rows, classes, named=classes)
    # The names of the columns may have a prefix before those of the labels.
    labels = names_of_labels(probs_val, y_val)
    rows = open_rows(replace(source, named_classes=labels))
    try:
        return rows, class_names(rows, None, named=labels)
    except BadRates:
        if are_numbers_of_two_classes(labels):
            return rows, class_names(rows, None, named=None)  # the only column has the probabilities of class 1
        assert labels is not None
        assert rows.columns is not None
        column = f"the only column with probabilities is {quoted_name(rows.columns.names[-1])}"
        if len(labels) > 2:
            raise BadLabels(
                f"{_Y_VAL} has {len(labels)} classes, {quoted(labels)}, but {column}, which is enough for two classes",
                options=[_Y_VAL],
            ) from None
        raise BadLabels(
            f"{_Y_VAL} has the classes {quoted(labels)}, but {column}, and it is not known to which class it belongs; "
            f"pass {_CLASSES} with both names, the name for this column last",
            options=[_Y_VAL, _CLASSES],
        ) from None


def _estimated(
    batch: Batch, validation: ValidationRows, names: Any, confidence: float, method: str, on_refuted: str
) -> Rates:
    k = batch.rows.n_classes
    counts = np.bincount(validation.y, minlength=k)
    few = np.flatnonzero(counts < _FEWEST_ROWS)
    if method == "moments" and few.size:
        raise BadLabels(
            f"{class_label(names, int(few[0]))} has {counted(int(counts[few[0]]), 'validation row')}, but moments need "
            f"at least {_FEWEST_ROWS} of each class; pass {_METHOD}, or more validation rows",
            options=[_METHOD],
        )
    chosen = "exact" if method == "exact" or few.size else "moments"
    find = _by_moments if chosen == "moments" else _by_confusions
    shared = {
        "classes": names,
        "confidence": confidence,
        "method": chosen,
        "n_validation": len(validation.y),
        "n_rows": batch.n_rows,
        "mean": batch.mean,
    }
    try:
        found = find(batch, validation, names, confidence)
        _check_shares(batch, validation, names)
        return EstimatedRates(**found, **shared)._validated()
    except AssumptionRefuted as error:
        if on_refuted == "raise":
            raise
        low, high = np.zeros(k), np.ones(k)
        return EstimatedRates(
            values=batch.mean, low=low, high=high, p_value=error.p_value, refuted=True, **shared
        )._validated()


def _check_overlap(batch: Batch, validation: ValidationRows) -> None:
    """Raise if the batch starts or ends with the validation rows, which were not taken out of it."""
    n, logs = len(validation.y), logarithms(validation.probs)
    if batch.kept is None or n > batch.n_rows:
        return
    rows = np.concatenate(batch.kept)
    if len(np.unique(logs, axis=0)) < _FEWEST_DISTINCT:
        return  # other rows may have the same few predictions by chance
    if np.array_equal(rows[:n], logs) or np.array_equal(rows[-n:], logs):
        raise BadOption(
            f"the {n:,} validation rows are also rows of the batch; pass only the other rows as probs_new, or, if the "
            f"labelled rows were drawn at random from the batch, pass their numbers and labels as {_LABELLED}=",
            options=[_LABELLED],
        )


def _by_moments(batch: Batch, validation: ValidationRows, names: Any, confidence: float) -> dict[str, Any]:
    moments = class_moments(batch, logarithms(validation.probs), validation.y)
    found = confidence_region(moments, batch.n_rows, confidence)
    if found.p_value < LEVEL:
        raise _misfit_of_means(found.p_value, found.unconstrained, names)
    reach = found.radius * np.sqrt(np.diag(found.covariance))
    low, high = np.clip(found.centre - reach, 0.0, 1.0), np.clip(found.centre + reach, 0.0, 1.0)
    region = {"centre": found.centre, "covariance": found.covariance, "radius": found.radius}
    return {"values": found.estimate, "low": low, "high": high, "p_value": found.p_value, **region}


def _by_confusions(batch: Batch, validation: ValidationRows, names: Any, confidence: float) -> dict[str, Any]:
    found = exact_bounds(batch.most_probable, validation.probs.argmax(axis=1), validation.y, confidence)
    if found is None:
        raise _refuted("no class rates explain how often each class is predicted", None)
    return {"values": found.middle, "low": found.low, "high": found.high}


def _check_shares(batch: Batch, validation: ValidationRows, names: Any) -> None:
    """Raise if no class rates explain how the predictions are spread."""
    found = largest_misfit(batch, logarithms(validation.probs), validation.y)
    if found.p_value >= SHARES_LEVEL:
        return
    if found.share > found.largest:
        limit = f"but no class of the validation data has more than {100 * found.largest:.3g} %"
    else:
        limit = f"but every class of the validation data has at least {100 * found.smallest:.3g} %"
    raise _refuted(
        f"{100 * found.share:.3g} % of the batch have a prediction from {found.low:.3g} to {found.high:.3g} for "
        f"{class_label(names, found.class_number)}, {limit} (p-value {p_value_text(found.p_value)})",
        found.p_value,
    )


def _misfit_of_means(p_value: float, rates: FloatArray, names: Any) -> AssumptionRefuted:
    figures = f"the p-value of the test is {p_value_text(p_value)}"
    if rates.min() < -0.01:
        worst = int(rates.argmin())
        figures += f", and the rates that fit best give {class_label(names, worst)} {rates[worst]:.3g}"
    return _refuted(figures, p_value)


def _refuted(figures: str, p_value: float | None) -> AssumptionRefuted:
    return AssumptionRefuted(
        "predictions within each class are not distributed as in the validation data, so the class rates cannot be "
        f"estimated from them: {figures}. Label a few random rows of the batch and pass them as {_LABELLED}=, collect "
        f"validation rows that are like the batch, or pass {_EVERYTHING} to leave predictions as they are",
        p_value,
        options=[_LABELLED, _EVERYTHING],
    )


def _check_options(confidence: Any, method: Any, on_refuted: Any) -> None:
    as_confidence(confidence)
    for name, value, known in (
        ("method", method, ("auto", "moments", "exact")),
        ("on_refuted", on_refuted, ("raise", "everything")),
    ):
        if not isinstance(value, str) or value not in known:
            raise BadOption(f"{name} must be one of {quoted(known)}, not {quoted_name(value)}", options=[Option(name)])
