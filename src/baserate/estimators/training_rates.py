"""The class rates for which a scikit-learn classifier was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.utils.class_weight import compute_class_weight

from baserate.errors import BadLabels
from baserate.estimators.resampling import TrainingRows, resampled
from baserate.inputs.validation import quoted
from baserate.support.arrays import FloatArray

# Parameters by which classifiers weight classes or state their rates. The last two are LightGBM's other names.
_PARAMETERS = (
    *("class_weight", "class_weights", "auto_class_weights", "scale_pos_weight", "priors", "class_prior"),
    *("is_unbalance", "unbalance", "unbalanced_sets"),
)
_UNBALANCE = _PARAMETERS[-3:]
_SAME_RATES = 0.1  # Members of an ensemble whose rates differ by less, relatively, count as trained for the same rates.


def training_rows(classes: NDArray[Any], y: ArrayLike, sample_weight: ArrayLike | None) -> TrainingRows:
    """The rows passed to ``fit`` of a classifier, which now has these classes."""
    labels = np.asarray(y)
    labels = labels.reshape(len(labels), -1) if labels.ndim else labels.reshape(1, 1)
    if labels.shape[1] != 1 or not isinstance(classes, np.ndarray):
        raise BadLabels(f"y has {labels.shape[1]} columns; pass one label per row")
    labels = labels[:, 0]
    unseen = np.setdiff1d(labels, classes)
    if unseen.size:
        raise BadLabels(f"y contains the classes {quoted(unseen.tolist())}, which the fitted classifier does not have")
    positions = np.zeros(len(labels), dtype=np.intp)
    for j, name in enumerate(classes):
        positions[labels == name] = j
    return TrainingRows(classes, positions, None if sample_weight is None else np.asarray(sample_weight, dtype=float))


def training_rates(estimator: Any, rows: TrainingRows) -> FloatArray | None:
    """Class rates for which a fitted classifier was trained, after its samplers, row weights and class weights.

    Returns None rather than guessing if they are unknown: for a frozen classifier, whose training labels are not
    available, and if the classifier or one inside it weights or samples classes in a way that is not supported here.
    """
    if isinstance(estimator, FrozenEstimator):
        return None
    inner = _classifier_that_predicts(estimator)
    if inner is not None:
        return training_rates(inner, rows)
    if hasattr(estimator, "steps"):
        samplers = [step for _, step in estimator.steps[:-1] if hasattr(step, "fit_resample")]
        sampled = resampled(rows, samplers)
        return None if sampled is None else training_rates(estimator.steps[-1][1], sampled)
    if isinstance(estimator, CalibratedClassifierCV):  # calibration undoes weights and samplers of the inner classifier
        return _normalised(rows.totals)
    if isinstance(estimator, StackingClassifier):  # and so does the classifier that combines the others
        return training_rates(estimator.final_estimator_, rows.inside_ensemble())
    if isinstance(estimator, VotingClassifier):
        return _if_equal([training_rates(member, rows.inside_ensemble()) for member in estimator.estimators_])
    if isinstance(estimator, BaggingClassifier) and _weights_or_samples(estimator.estimator_):
        return _rates_of_bags(estimator, rows.inside_ensemble())
    priors = getattr(estimator, "priors", None)
    if priors is not None:
        return np.asarray(priors, dtype=np.float64)
    return _weighted_rates(estimator, rows)


def _classifier_that_predicts(estimator: Any) -> Any:
    """The fitted classifier inside a wrapper that returns its probabilities unchanged; None for other estimators."""
    if isinstance(estimator, (FixedThresholdClassifier, TunedThresholdClassifierCV, RFE)):
        return estimator.estimator_
    return getattr(estimator, "best_estimator_", None)


def _rates_of_bags(estimator: Any, rows: TrainingRows) -> FloatArray | None:
    """The mean of the rates of the members, each trained on its own random sample of the rows."""
    if rows.weights is not None:  # how bags use row weights depends on the version of scikit-learn
        return None
    bags = zip(estimator.estimators_, estimator.estimators_samples_, strict=True)
    rates = [training_rates(member, rows.take(drawn)) for member, drawn in bags]
    known = [one for one in rates if one is not None]
    return np.mean(known, axis=0) if len(known) == len(rates) else None


def _if_equal(rates: Sequence[FloatArray | None]) -> FloatArray | None:
    """The mean of the rates of several members, if they are about the same: else no single rates are right."""
    known = [one for one in rates if one is not None]
    if len(known) < len(rates) or not np.allclose(known, known[0], rtol=_SAME_RATES, atol=0.0):
        return None
    return np.asarray(np.mean(known, axis=0))


def _weighted_rates(estimator: Any, rows: TrainingRows) -> FloatArray | None:
    """Class rates from the rows and the class weights of a classifier that contains no others, or none with weights."""
    factors = _class_factors(estimator, rows)
    # In imbalanced-learn's forest each tree has its own sampler. Class weights are those of all rows.
    samplers = getattr(estimator, "samplers_", None)
    trained = [rows] if samplers is None else [resampled(rows, [sampler]) for sampler in samplers]
    if factors is None or any(one is None for one in trained):
        return None
    return np.asarray(np.mean([_normalised(one.totals * factors) for one in trained if one is not None], axis=0))


def _normalised(totals: FloatArray) -> FloatArray:
    return np.asarray(totals / totals.sum())


def _class_factors(estimator: Any, rows: TrainingRows) -> FloatArray | None:
    """By how much a classifier weights each class; None if it does so in a way that is not supported here."""
    params = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    if _has_unknown_weights(estimator, params, has_row_weights=rows.weights is not None):
        return None
    if hasattr(estimator, "get_all_params"):  # CatBoost states the weights that follow from all its parameters
        return np.asarray(estimator.get_all_params().get("class_weights") or np.ones(len(rows.classes)))
    factors = np.ones(len(rows.classes))
    class_weight = getattr(estimator, "class_weight", None)
    if isinstance(class_weight, Mapping):
        factors = np.array([float(class_weight.get(name, 1.0)) for name in rows.classes.tolist()])
    elif isinstance(class_weight, str):
        present = np.unique(rows.labels)  # a bag may lack a class
        factors[present] = compute_class_weight("balanced", classes=present, y=rows.labels)
    if len(rows.classes) == 2:
        if any(_is_set(params.get(name)) for name in _UNBALANCE):
            factors = factors * _normalised(1.0 / np.maximum(np.bincount(rows.labels, minlength=2), 1))
        factors = factors * [1.0, float(getattr(estimator, "scale_pos_weight", None) or 1.0)]
    return factors


def _has_unknown_weights(estimator: Any, params: Mapping[str, Any], *, has_row_weights: bool) -> bool:
    """Whether a classifier weights or samples classes in a way that is not supported here."""
    inside = [value for value in params.values() if hasattr(value, "get_params") and not isinstance(value, type)]
    contains_weights = any(map(_weights_or_samples, inside))
    is_balanced = str(params.get("class_weight") or "").startswith("balanced")
    has_calibrator = getattr(estimator, "probability", False) and _is_set(params.get("class_weight"))
    one_vs_all = "ova" in str(getattr(estimator, "objective_", "")) and any(
        _is_set(params.get(name)) for name in (*_UNBALANCE, "scale_pos_weight")
    )
    is_other = one_vs_all or _is_set(params.get("class_prior"))
    # With row weights, some classifiers balance the weighted class counts, others the unweighted ones.
    is_ambiguous = has_row_weights and (is_balanced or hasattr(estimator, "probability"))
    return bool(contains_weights or is_other or has_calibrator or is_ambiguous)


def _weights_or_samples(estimator: Any) -> bool:
    """Whether an estimator or one inside it weights classes or is a sampler."""
    return hasattr(estimator, "fit_resample") or any(
        hasattr(value, "fit_resample") or (name.rsplit("__", 1)[-1] in _PARAMETERS and _is_set(value))
        for name, value in estimator.get_params(deep=True).items()
    )


def _is_set(value: object) -> bool:
    """Whether a weight parameter has a value other than its neutral one."""
    if value is None or isinstance(value, bool):
        return value is True  # not a weight of 1: LightGBM's is_unbalance=True balances the classes
    return not (isinstance(value, (int, float)) and value == 1)
