"""Predictions for labelled rows on which a classifier was not trained, which the estimate of class rates needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params

from baserate.errors import BadLabels, BadOption, Option
from baserate.inputs.validation import is_number, quoted_name
from baserate.support.arrays import FloatArray

_ESTIMATE = Option("estimate")
_FOLDS = 5


class HeldOut(NamedTuple):
    """Predictions of rows that were not used in training, and their labels."""

    probs: FloatArray
    y: NDArray[Any]


def check_estimate(value: Any) -> None:
    """Raise if the parameter ``estimate`` is neither a flag nor a share of the rows."""
    if isinstance(value, (bool, np.bool_)) or (is_number(value) and 0 < float(value) < 1):
        return
    raise BadOption(
        f"{_ESTIMATE} must be True, False or the share of rows to hold out, such as 0.2, not {quoted_name(value)}",
        options=[_ESTIMATE],
    )


def fit_with_held_out(
    make: Callable[[], Any], X: Any, y: Any, params: Mapping[str, Any], estimate: Any
) -> tuple[Any, HeldOut]:
    """Train a classifier, and predict rows on which it was not trained.

    With ``estimate=True``, predictions are cross-validated, and the classifier is trained on all rows. A share is held
    out and not used in training.
    """
    labels = np.asarray(y)
    _check_counts(labels, 2)
    if not isinstance(estimate, (bool, np.bool_)):
        _check_share(float(estimate), len(labels), len(np.unique(labels)))
        split = StratifiedShuffleSplit(1, test_size=float(estimate), random_state=0)
        train, test = next(split.split(np.zeros(len(labels)), labels))
        fitted = _fit_on(make(), X, y, params, train)
        return fitted, HeldOut(fitted.predict_proba(_safe_indexing(X, test)), labels[test])
    fitted = make().fit(X, y, **params)
    folds = StratifiedKFold(
        min(_FOLDS, int(np.unique(labels, return_counts=True)[1].min())), shuffle=True, random_state=0
    )
    probs = np.zeros((len(labels), len(fitted.classes_)))
    for train, test in folds.split(np.zeros(len(labels)), labels):
        probs[test] = _fit_on(make(), X, y, params, train).predict_proba(_safe_indexing(X, test))
    return fitted, HeldOut(probs, labels)


def _fit_on(estimator: Any, X: Any, y: Any, params: Mapping[str, Any], rows: NDArray[Any]) -> Any:
    own = _check_method_params(X, params=dict(params), indices=rows)
    return estimator.fit(_safe_indexing(X, rows), _safe_indexing(y, rows), **own)


def _check_share(share: float, n_rows: int, n_classes: int) -> None:
    n_held_out = int(np.ceil(share * n_rows))
    for number, what in ((n_held_out, "held out"), (n_rows - n_held_out, "left for training")):
        if number < n_classes:
            raise BadOption(
                f"{_ESTIMATE} is {share:g}, so that {number} of {n_rows} rows are {what}; at least one row of each of "
                f"the {n_classes} classes is needed",
                options=[_ESTIMATE],
            )


def _check_counts(labels: NDArray[Any], least: int) -> None:
    names, counts = np.unique(labels, return_counts=True)
    if counts.min() < least:
        raise BadLabels(
            f"class {quoted_name(names[counts.argmin()].item())} has {counts.min()} row, but {_ESTIMATE} needs at "
            f"least {least} rows of each class",
            options=[_ESTIMATE],
        )
