"""The class rates that a scikit-learn classifier was trained for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.utils.class_weight import compute_class_weight

from baserate.errors import BadLabels
from baserate.inputs.validation import listed
from baserate.support.arrays import FloatArray

# Options by which classifiers weigh classes or state their rates, beside class_weight.
_OPTIONS = ("class_weight", "scale_pos_weight", "is_unbalance", "priors", "class_prior")


def training_rates(
    estimator: Any, classes: NDArray[Any], y: ArrayLike, sample_weight: ArrayLike | None
) -> FloatArray | None:
    """Class frequencies as a fitted classifier saw them: weighted by row, and by class where it does so itself.

    None where they cannot be told: for a frozen classifier, whose training labels are not at hand, and where something
    inside weighs classes in a way that is not known here. Better no answer than a wrong one.
    """
    labels = np.asarray(y)
    labels = labels.reshape(len(labels), -1) if labels.ndim else labels.reshape(1, 1)
    if labels.shape[1] != 1 or not isinstance(classes, np.ndarray):
        raise BadLabels(f"y has {labels.shape[1]} columns; one label a row is needed")
    labels = labels[:, 0]
    unseen = np.setdiff1d(labels, classes)
    if unseen.size:
        raise BadLabels(f"y holds the classes {listed(unseen.tolist())}, which the fitted classifier does not know")
    weights = np.ones(len(labels)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    seen = np.array([weights[labels == c].sum() for c in classes])
    return _as_weighed(estimator, classes, labels, seen, weighted=sample_weight is not None)


def _as_weighed(
    estimator: Any, classes: NDArray[Any], labels: NDArray[Any], seen: FloatArray, *, weighted: bool
) -> FloatArray | None:
    """Frequencies after what a classifier does to them."""
    if isinstance(estimator, FrozenEstimator):
        return None
    # Through wrappers that pass probabilities on as they are.
    for inner in (getattr(estimator, "best_estimator_", None), _last_step(estimator)):
        if inner is not None:
            return _as_weighed(inner, classes, labels, seen, weighted=weighted)
    if isinstance(estimator, CalibratedClassifierCV):  # undoes the weights of what it wraps
        return np.asarray(seen / seen.sum())
    stated = getattr(estimator, "priors", None)
    if stated is not None:
        return np.asarray(stated, dtype=np.float64)
    if _unclear(estimator, weighted):
        return None
    weight = getattr(estimator, "class_weight", None)
    factors = np.ones(len(classes))
    if isinstance(weight, Mapping) or (isinstance(weight, str) and weight.startswith("balanced")):
        named = weight if isinstance(weight, Mapping) else "balanced"
        factors = compute_class_weight(named, classes=classes, y=labels)
    if len(classes) == 2:
        factors = factors * [1.0, float(getattr(estimator, "scale_pos_weight", None) or 1.0)]
    return np.asarray(seen * factors / (seen @ factors))


def _last_step(estimator: Any) -> Any:
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else None


def _unclear(estimator: Any, weighted: bool) -> bool:
    """Whether classes are weighed in a way that cannot be told from here."""
    options = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    nested = any(
        name.rsplit("__", 1)[-1] in _OPTIONS and "__" in name and _weighs(value) for name, value in options.items()
    )
    balanced = str(options.get("class_weight") or "").startswith("balanced")
    calibrates_itself = getattr(estimator, "probability", False) and _weighs(options.get("class_weight"))
    odd = _weighs(options.get("is_unbalance")) or _weighs(options.get("class_prior"))
    # Some classifiers balance weighted counts, others plain ones.
    return bool(nested or odd or calibrates_itself or (weighted and (balanced or hasattr(estimator, "probability"))))


def _weighs(value: object) -> bool:
    return value is not None and value is not False and not (isinstance(value, (int, float)) and value == 1)
