"""The class rates for which a scikit-learn classifier was trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.utils.class_weight import compute_class_weight

from baserate.errors import BadLabels
from baserate.inputs.validation import quoted
from baserate.support.arrays import FloatArray

# Parameters by which classifiers weight classes or state their rates.
_PARAMETERS = ("class_weight", "scale_pos_weight", "is_unbalance", "priors", "class_prior")


def training_rates(
    estimator: Any, classes: NDArray[Any], y: ArrayLike, sample_weight: ArrayLike | None
) -> FloatArray | None:
    """Class frequencies in the training of a fitted classifier, weighted by row and by class as in its training.

    Returns None rather than guessing if they are unknown: for a frozen classifier, whose training labels are not
    available, and if the classifier or one inside it weights classes in a way that is not supported here.
    """
    labels = np.asarray(y)
    labels = labels.reshape(len(labels), -1) if labels.ndim else labels.reshape(1, 1)
    if labels.shape[1] != 1 or not isinstance(classes, np.ndarray):
        raise BadLabels(f"y has {labels.shape[1]} columns; pass one label per row")
    labels = labels[:, 0]
    unseen = np.setdiff1d(labels, classes)
    if unseen.size:
        raise BadLabels(f"y contains the classes {quoted(unseen.tolist())}, which the fitted classifier does not have")
    weights = np.ones(len(labels)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    totals = np.array([weights[labels == c].sum() for c in classes])
    return _with_class_weights(estimator, classes, labels, totals, has_row_weights=sample_weight is not None)


def _with_class_weights(
    estimator: Any, classes: NDArray[Any], labels: NDArray[Any], totals: FloatArray, *, has_row_weights: bool
) -> FloatArray | None:
    """Class rates from the total row weight of each class and the class weights of a classifier."""
    if isinstance(estimator, FrozenEstimator):
        return None
    # Wrappers that return the probabilities of the inner classifier.
    for inner in (getattr(estimator, "best_estimator_", None), _last_step(estimator)):
        if inner is not None:
            return _with_class_weights(inner, classes, labels, totals, has_row_weights=has_row_weights)
    if isinstance(estimator, CalibratedClassifierCV):  # calibration undoes the class weights of the inner classifier
        return np.asarray(totals / totals.sum())
    priors = getattr(estimator, "priors", None)
    if priors is not None:
        return np.asarray(priors, dtype=np.float64)
    if _has_unknown_weights(estimator, has_row_weights):
        return None
    class_weight = getattr(estimator, "class_weight", None)
    factors = np.ones(len(classes))
    if isinstance(class_weight, Mapping) or (isinstance(class_weight, str) and class_weight.startswith("balanced")):
        weight = class_weight if isinstance(class_weight, Mapping) else "balanced"
        factors = compute_class_weight(weight, classes=classes, y=labels)
    if len(classes) == 2:
        factors = factors * [1.0, float(getattr(estimator, "scale_pos_weight", None) or 1.0)]
    return np.asarray(totals * factors / (totals @ factors))


def _last_step(estimator: Any) -> Any:
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else None


def _has_unknown_weights(estimator: Any, has_row_weights: bool) -> bool:
    """Whether a classifier weights classes in a way that is not supported here."""
    params = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    has_inner_weights = any(
        "__" in name and name.rsplit("__", 1)[-1] in _PARAMETERS and _is_set(value) for name, value in params.items()
    )
    is_balanced = str(params.get("class_weight") or "").startswith("balanced")
    has_calibrator = getattr(estimator, "probability", False) and _is_set(params.get("class_weight"))
    is_other = _is_set(params.get("is_unbalance")) or _is_set(params.get("class_prior"))
    # With row weights, some classifiers balance the weighted class counts, others the unweighted ones.
    is_ambiguous = has_row_weights and (is_balanced or hasattr(estimator, "probability"))
    return bool(has_inner_weights or is_other or has_calibrator or is_ambiguous)


def _is_set(value: object) -> bool:
    """Whether a weight parameter has a value other than its neutral one."""
    return value is not None and value is not False and not (isinstance(value, (int, float)) and value == 1)
