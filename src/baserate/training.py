"""The class rates that a scikit-learn classifier was trained for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils.class_weight import compute_class_weight

from baserate.arrays import FloatArray
from baserate.errors import BadLabels
from baserate.inputs import listed


def training_rates(estimator: Any, classes: NDArray[Any], y: ArrayLike, sample_weight: ArrayLike | None) -> FloatArray:
    """Class frequencies as the classifier saw them: weighted by row, and by class where it does so itself."""
    labels = np.asarray(y).reshape(len(np.asarray(y)), -1)
    if labels.shape[1] != 1 or not isinstance(classes, np.ndarray):
        raise BadLabels(f"y has {labels.shape[1]} columns; one label a row is needed")
    labels = labels[:, 0]
    unseen = np.setdiff1d(labels, classes)
    if unseen.size:
        raise BadLabels(f"y holds the classes {listed(unseen.tolist())}, which the fitted classifier does not know")
    weights = np.ones(len(labels)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    seen = np.array([weights[labels == c].sum() for c in classes])
    seen = seen * _class_weights(estimator, classes, labels)
    return np.asarray(seen / seen.sum())


def _class_weights(estimator: Any, classes: NDArray[Any], labels: NDArray[Any]) -> FloatArray:
    """What a classifier multiplies the classes by: its ``class_weight``, or ``scale_pos_weight`` of boosted trees."""
    # Through wrappers that pass probabilities on as they are; a calibrator undoes the weights of what it wraps.
    if hasattr(estimator, "best_estimator_"):
        return _class_weights(estimator.best_estimator_, classes, labels)
    if isinstance(estimator, FrozenEstimator):
        return _class_weights(estimator.estimator, classes, labels)
    if hasattr(estimator, "steps"):
        return _class_weights(estimator.steps[-1][1], classes, labels)
    weight = getattr(estimator, "class_weight", None)
    factors = np.ones(len(classes))
    if isinstance(weight, Mapping) or (isinstance(weight, str) and weight.startswith("balanced")):
        named = weight if isinstance(weight, Mapping) else "balanced"
        factors = factors * compute_class_weight(named, classes=classes, y=labels)
    positive = getattr(estimator, "scale_pos_weight", None)
    if positive is not None and len(classes) == 2:
        factors = factors * np.array([1.0, float(positive)])
    return factors
