"""A scikit-learn classifier whose probabilities are adjusted to new class rates."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from baserate.adjustment import Adjustment, load
from baserate.errors import BadOption, BadRates, NotAdaptedWarning, warn
from baserate.estimators.training_check import warn_if_not_trained_for
from baserate.estimators.training_rates import training_rates, training_rows
from baserate.inputs.class_numbers import as_rates
from baserate.inputs.validation import quoted
from baserate.losses.base import Loss
from baserate.rates import RatesLike
from baserate.result.record import Result
from baserate.solving import adjusted, prior_adjusted
from baserate.support.arrays import FloatArray


def _has_decision_function(self: AdjustedClassifier) -> bool:
    return hasattr(getattr(self, "estimator_", self.estimator), "decision_function")


def _unfitted(estimator: Any) -> Any:
    """A copy of a classifier that can be trained."""
    try:
        return clone(estimator)
    except RuntimeError:  # CatBoost's constructor copies lists of class weights, which scikit-learn's clone refuses
        return deepcopy(estimator)


class AdjustedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are adjusted to the class rates of the target population.

    ``fit`` trains the wrapped classifier. ``adapt`` learns the shift from unlabelled rows of the target population.
    Before ``adapt``, it predicts as the wrapped classifier does. ``adapt`` may be called again when the rates change.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        Wrap a fitted one in ``sklearn.frozen.FrozenEstimator``.
    rates : array-like of shape (k,), dict, Series or Rates, optional
        Class rates of the target population, in the order of ``classes_`` or by class name; they may be passed to
        ``adapt`` instead.
    method : "adjust" or "prior", default "adjust"
        "adjust" makes the smallest change to the predictions for the rows passed to ``adapt`` that gives the class
        rates, see :func:`adjust`. "prior" is Bayes' rule from the class rates in training to the new ones, see
        :func:`prior_adjust`. It needs no new rows, so ``fit`` does it if ``rates`` is passed to the constructor.
    loss, bounded, zeros, tol, max_passes
        As in :func:`adjust`.
    old_rates : array-like of shape (k,), dict or Series, optional
        For "prior": the class rates for which the classifier was trained. By default the frequencies of the labels
        passed to ``fit``, after the samplers inside the wrapped classifier, weighted by ``sample_weight`` and by the
        class weights of the classifier. If its predictions for the training rows do not agree with these rates, ``fit``
        issues an ``errors.TrainingRatesWarning``. ``old_rates`` are not checked.

    Attributes
    ----------
    estimator_ : fitted classifier
    classes_ : array of shape (k,)
    training_rates_ : array of shape (k,) or None
        The class rates for which the classifier was trained: ``old_rates``, or those of the labels passed to ``fit``
        after all samplers and weights. None if they cannot be determined; then "prior" requires ``old_rates``.
    adjustment_ : Adjustment or None
        The adjustment with its certificate; None before ``adapt``.

    Examples
    --------
    Probabilities of a model that was trained on under-sampled data:

    >>> import numpy as np, baserate as br
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> x = np.r_[rng.normal(0, 1, (500, 1)), rng.normal(2, 1, (500, 1))]       # equal class rates
    >>> y = np.repeat([0, 1], 500)
    >>> model = br.AdjustedClassifier(LogisticRegression(), method="prior", rates=[0.99, 0.01]).fit(x, y)
    >>> model.estimator_.predict_proba([[2.0]])[0, 1].round(2), model.predict_proba([[2.0]])[0, 1].round(2)
    (np.float64(0.89), np.float64(0.08))
    """

    def __init__(
        self,
        estimator: Any,
        rates: Any = None,
        *,
        method: str = "adjust",
        loss: str | Loss = "log",
        bounded: bool = True,
        zeros: str | float = "keep",
        old_rates: Any = None,
        tol: float = 1e-10,
        max_passes: int = 500,
    ) -> None:
        self.estimator = estimator
        self.rates = rates
        self.method = method
        self.loss = loss
        self.bounded = bounded
        self.zeros = zeros
        self.old_rates = old_rates
        self.tol = tol
        self.max_passes = max_passes

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: Any) -> Self:
        """Train the wrapped classifier.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe
            Whatever the wrapped classifier accepts.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Passed to the wrapped classifier, and used for ``training_rates_``.
        **fit_params
            Passed to the wrapped classifier.
        """
        if self.method not in ("adjust", "prior"):
            raise BadOption(f"method must be 'adjust' or 'prior', not {self.method!r}")
        if not hasattr(self.estimator, "predict_proba"):
            raise BadOption(
                f"{type(self.estimator).__name__} has no predict_proba, so there are no probabilities to adjust; wrap "
                "it in sklearn.calibration.CalibratedClassifierCV first"
            )
        validate_data(self, X, skip_check_array=True)
        self.adjustment_: Adjustment | None = None
        params = self._inner_fit_params(sample_weight, fit_params)
        self.estimator_ = _unfitted(self.estimator).fit(X, y, **params)
        self.classes_ = self.estimator_.classes_
        weights = [value for name, value in params.items() if name.rsplit("__", 1)[-1] == "sample_weight"]
        rows = training_rows(self.classes_, y, *(weights[:1] or [None]))
        self.training_rates_ = training_rates(self.estimator_, rows)
        if self.old_rates is not None:
            k = len(self.classes_)
            self.training_rates_ = as_rates(self.old_rates, tuple(self.classes_.tolist()), k, what="old_rates")
        elif self.method == "prior" and self.training_rates_ is not None:
            probs = self._call_estimator("predict_proba", X)
            warn_if_not_trained_for(self.training_rates_, rows, probs, type(self.estimator).__name__)
        if self.method == "prior" and self.rates is not None:
            self.adapt()
        return self

    def adapt(
        self,
        X: Any = None,
        rates: RatesLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        adjustment: Adjustment | str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn the shift for the target population.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe
            Rows of the target population, without labels.
        rates : array-like of shape (k,), dict, Series or Rates, optional
            Class rates of these rows; by default those passed to the constructor.
        sample_weight : array-like of shape (n,), optional
        adjustment : Adjustment or path, optional
            Use the shift of this adjustment, or of a file written by ``Adjustment.save``, instead of learning one.
        """
        check_is_fitted(self)
        if adjustment is not None:
            if X is not None or rates is not None:
                raise BadOption("adapt takes either X and rates, to learn a shift, or an adjustment, not both")
            self.adjustment_ = self._checked(adjustment).without_rows()
            return self
        known = self.rates if rates is None else rates
        if known is None:
            raise BadRates(
                "adapt needs the class rates of the target population: pass adapt(X, rates) or "
                "AdjustedClassifier(rates=...)"
            )
        if self.method == "prior":
            result = self._prior_adjustment(X, known, sample_weight)
        elif X is None:
            raise BadOption("adapt needs rows of the target population, without labels: pass adapt(X, rates)")
        else:
            result = adjusted(
                self._call_estimator("predict_proba", X),
                known,
                loss=self.loss,
                bounded=self.bounded,
                sample_weight=sample_weight,
                normalize=True,
                zeros=self.zeros,
                classes=self.classes_.tolist(),
                tol=self.tol,
                max_passes=self.max_passes,
                keep_rows=False,
            )
        self.adjustment_ = Adjustment.of(result.without_rows())
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """The adjusted probabilities; before ``adapt``, those of the wrapped classifier."""
        check_is_fitted(self)
        self._warn_if_not_adapted()
        probs = self._call_estimator("predict_proba", X)
        if self.adjustment_ is None:
            return np.asarray(probs)
        return np.asarray(self.adjustment_.apply(probs, normalize=True, from_logits=False))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """The logarithms of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest adjusted probability."""
        check_is_fitted(self)
        if self.adjustment_ is None:
            self._warn_if_not_adapted()
            return self._call_estimator("predict", X)
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    @available_if(_has_decision_function)
    def decision_function(self, X: Any) -> FloatArray:
        """Log odds, or log probabilities of more than two classes; before ``adapt``, as the wrapped classifier."""
        check_is_fitted(self)
        if self.adjustment_ is None:
            self._warn_if_not_adapted()
            return self._call_estimator("decision_function", X)
        logs = self.predict_log_proba(X)
        return logs if logs.shape[1] > 2 else np.asarray(logs[:, 1] - logs[:, 0])

    def get_metadata_routing(self) -> MetadataRouter:
        """How metadata are passed to the wrapped classifier."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=mapping)
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.target_tags.required = inner.target_tags.required
        if inner.classifier_tags is not None:
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
            tags.classifier_tags.poor_score = inner.classifier_tags.poor_score
        return tags

    def _prior_adjustment(self, X: Any, known: RatesLike, sample_weight: ArrayLike | None) -> Result:
        """The prior probability adjustment; rows, if there are any, are only needed for its certificate."""
        old, classes = self.training_rates_, self.classes_.tolist()
        if old is None:
            raise BadOption(
                f"the class rates for which {type(self.estimator).__name__} was trained cannot be determined: it is "
                "frozen, or weights or samples the classes in an unknown way; pass them as old_rates="
            )
        probs = old[None] if X is None else self._call_estimator("predict_proba", X)
        reading = {"sample_weight": sample_weight, "normalize": True, "zeros": self.zeros}
        result = prior_adjusted(probs, old, known, classes=classes, keep_rows=False, **reading)
        return result if X is not None else result.without_guarantee()

    def _warn_if_not_adapted(self) -> None:
        if self.adjustment_ is None and self.rates is not None:
            message = "these predictions are not adjusted: call adapt(X) with rows of the target population first"
            warn(NotAdaptedWarning(message))

    def _call_estimator(self, method: str, X: Any) -> NDArray[Any]:
        """The result of a method of the wrapped classifier. If it does not check the columns, they are checked here."""
        if not hasattr(self.estimator_, "n_features_in_"):
            validate_data(self, X, reset=False, skip_check_array=True)
        return np.asarray(getattr(self.estimator_, method)(X))

    def _inner_fit_params(self, sample_weight: ArrayLike | None, fit_params: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of ``fit`` of the wrapped classifier besides X and y."""
        from sklearn import get_config

        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=sample_weight, **fit_params)
            return dict(routed.estimator.fit)
        if sample_weight is None:
            return dict(fit_params)
        if hasattr(self.estimator, "steps"):  # the weights are for the last step of a pipeline
            return {**fit_params, f"{self.estimator.steps[-1][0]}__sample_weight": sample_weight}
        parameters = inspect.signature(self.estimator.fit).parameters.values()
        takes_any = any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters)
        if not has_fit_parameter(self.estimator, "sample_weight") and not takes_any:
            raise BadOption(f"{type(self.estimator).__name__}.fit takes no sample_weight; leave it out")
        return {**fit_params, "sample_weight": sample_weight}

    def _checked(self, adjustment: Adjustment | str | os.PathLike[str]) -> Adjustment:
        """An adjustment, read from a file if it is a path, whose classes are those of the classifier."""
        loaded = adjustment if isinstance(adjustment, Adjustment) else load(adjustment)
        own, k = self.classes_.tolist(), loaded.model.n_classes
        if k != len(own) or (loaded.classes is not None and list(loaded.classes) != own):
            classes = f"{k} classes" if loaded.classes is None else f"the classes {quoted(loaded.classes)}"
            raise BadOption(f"the adjustment is for {classes}, but the classifier has the classes {quoted(own)}")
        return loaded
