"""The classifier inside an ``AdjustedClassifier``: how it is copied, trained and called."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import has_fit_parameter

from baserate.errors import BadOption, BadProbabilities
from baserate.estimators.frozen import estimator_name


def unfitted(estimator: Any) -> Any:
    """A copy of a classifier that can be trained."""
    try:
        return clone(estimator)
    except RuntimeError:  # CatBoost's constructor copies lists of class weights, which scikit-learn's clone refuses
        return deepcopy(estimator)


def check_has_probabilities(estimator: Any) -> None:
    """Raise if a classifier does not predict probabilities."""
    if not hasattr(estimator, "predict_proba"):
        raise BadOption(
            f"{estimator_name(estimator)} has no predict_proba, so there are no probabilities to adjust; wrap it in "
            "sklearn.calibration.CalibratedClassifierCV first"
        )


def fit_arguments(classifier: Any, sample_weight: ArrayLike | None, fit_params: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``fit`` of the classifier in an ``AdjustedClassifier`` besides X and y."""
    if get_config()["enable_metadata_routing"]:
        routed = process_routing(classifier, "fit", sample_weight=sample_weight, **fit_params)
        return dict(routed.estimator.fit)
    if sample_weight is None:
        return dict(fit_params)
    inner = classifier.estimator
    if hasattr(inner, "steps"):  # the weights are for the last step of a pipeline
        return {**fit_params, f"{inner.steps[-1][0]}__sample_weight": sample_weight}
    parameters = inspect.signature(inner.fit).parameters.values()
    takes_any = any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters)
    if not has_fit_parameter(inner, "sample_weight") and not takes_any:
        raise BadOption(f"{type(inner).__name__}.fit takes no sample_weight; leave it out")
    return {**fit_params, "sample_weight": sample_weight}


def predicted(estimator: Any, method: str, X: Any) -> NDArray[Any]:
    """What a method of a classifier returns for some rows."""
    found = getattr(estimator, method)(X)
    if isinstance(found, list) and method == "predict_proba":
        raise BadProbabilities(
            f"predict_proba of {estimator_name(estimator)} returns a list of {len(found)} arrays, one per label; pass "
            "the probability of each label to br.adjust_multilabel"
        )
    return np.asarray(found)
