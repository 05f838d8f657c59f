"""Classifiers that are fitted already: how they are recognised, and what is known about them without ``fit``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from baserate.errors import BadProbabilities

_LARGEST_SUM_ERROR = 0.1  # Rounding of float16 stays far below it; sums of independent labels do not.


class FromFrozen:
    """An attribute that ``fit`` sets, and that is known without ``fit`` if the classifier is frozen.

    It decorates the method that computes the attribute in that case. Not a property: an attribute that ``fit`` has set
    takes precedence, and scikit-learn sets and deletes ``feature_names_in_``.
    """

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self._compute = compute

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self
        used = vars(owner).get("estimator_", owner.estimator)
        if isinstance(used, FrozenEstimator) and is_fitted(used):
            return self._compute(owner)
        raise AttributeError(f"{type(owner).__name__!r} object has no attribute {self._compute.__name__!r}")


def is_fitted(estimator: Any) -> bool:
    """Whether an estimator is fitted. False for objects that scikit-learn does not count as estimators."""
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return True


def estimator_name(estimator: Any) -> str:
    """The class of a classifier, for messages; of a frozen one, the class of what is frozen."""
    return type(estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator).__name__


def not_fitted_message(estimator: Any) -> str:
    """What to do if an AdjustedClassifier is used before the classifier in it is fitted."""
    begin, name = "This AdjustedClassifier instance is not fitted yet", estimator_name(estimator)
    if isinstance(estimator, FrozenEstimator):
        return f"{begin}, because the {name} in FrozenEstimator is not fitted. Fit it before you freeze it"
    wrap = "wrap it: AdjustedClassifier(FrozenEstimator(model)), with FrozenEstimator from sklearn.frozen"
    if is_fitted(estimator):
        return f"{begin}, but the {name} inside is. To use it as it is, {wrap}. To train it again, call fit(X, y)"
    return f"{begin}. Call fit(X, y) to train the {name}. If you have a model that is already fitted, {wrap}"


def check_one_label_per_row(probs: NDArray[Any], name: str) -> None:
    """Raise if the classifier of this class name seems to predict several labels per row.

    Such rows must not be divided by their sums.
    """
    if probs.ndim != 2:
        what = f"has shape {probs.shape}"
    else:
        sums = probs.sum(axis=1)
        far = np.flatnonzero(np.abs(sums - 1.0) > _LARGEST_SUM_ERROR)
        if not far.size:
            return
        what = f"has rows that do not sum to 1, such as row {far[0]}, which sums to {sums[far[0]]:.3g}"
    raise BadProbabilities(
        f"predict_proba of {name} {what}, but each row must hold the probabilities of classes that exclude each other. "
        "For labels that can occur together, pass the probability of each label to br.adjust_multilabel"
    )
