"""scikit-learn's dialect: a transformer of probabilities, and a classifier that can be taken to another place."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from baserate.adjustment import Adjustment, load
from baserate.errors import BadOption, BadRates, NotAdaptedWarning, warn
from baserate.estimators.training_rates import training_rates
from baserate.inputs.dataframes import is_frame
from baserate.inputs.validation import as_rates, as_weights, listed
from baserate.losses.base import Loss
from baserate.rates import Rates, RatesLike
from baserate.result.record import Result
from baserate.solving import adjusted, prior_adjusted
from baserate.support.arrays import FloatArray


class Adjuster(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Adjust a matrix of predicted probabilities, as a transformer.

    ``fit`` learns the shift from predictions of the new place; ``transform`` applies it to these or any other rows.

    Parameters
    ----------
    rates : array-like of shape (k,), dict, Series or Rates, optional
        Class rates of the rows that are fitted; names are those of the columns. None leaves predictions as they are,
        the baseline in a grid search.
    loss, bounded, from_logits, normalize, zeros, tol, max_passes
        As in :func:`adjust`.

    Attributes
    ----------
    adjustment_ : Adjustment or None
        With the certificate; None if ``rates`` is.
    n_features_in_ : int
        Number of classes.
    feature_names_in_ : array of str
        Names of the classes, if the predictions were a dataframe.

    Examples
    --------
    >>> import baserate as br
    >>> adjuster = br.Adjuster(rates=[0.3, 0.7]).fit([[0.7, 0.3], [0.4, 0.6]])
    >>> adjuster.transform([[0.5, 0.5]]).round(3)
    array([[0.241, 0.759]])
    """

    def __init__(
        self,
        rates: Any = None,
        *,
        loss: str | Loss = "log",
        bounded: bool = True,
        from_logits: bool = False,
        normalize: bool = False,
        zeros: str | float = "keep",
        tol: float = 1e-10,
        max_passes: int = 500,
    ) -> None:
        self.rates = rates
        self.loss = loss
        self.bounded = bounded
        self.from_logits = from_logits
        self.normalize = normalize
        self.zeros = zeros
        self.tol = tol
        self.max_passes = max_passes

    def fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the shift.

        Parameters
        ----------
        X : array-like or dataframe of shape (n, k)
            Predicted probabilities.
        y : ignored
        sample_weight : array-like of shape (n,), optional
        """
        raw = self._read(X, reset=True)
        as_weights(sample_weight, len(raw))
        self.adjustment_ = None
        # Without rates every mean is possible, and the probabilities are left as they are.
        rates = Rates.between(None, None) if self.rates is None and (self.normalize or self.from_logits) else self.rates
        if rates is not None:
            result = adjusted(
                raw,
                rates,
                loss=self.loss,
                bounded=self.bounded,
                sample_weight=sample_weight,
                from_logits=self.from_logits,
                normalize=self.normalize,
                zeros=self.zeros,
                classes=list(X.columns) if is_frame(X) and hasattr(X, "columns") else None,
                tol=self.tol,
                max_passes=self.max_passes,
                keep_rows=False,
            )
            self.adjustment_ = Adjustment.of(result.without_rows())
        return self

    def transform(self, X: Any) -> Any:
        """Adjusted probabilities of any rows."""
        check_is_fitted(self)
        raw = self._read(X, reset=False)
        if self.adjustment_ is None:
            return raw.copy()
        return self.adjustment_.apply(raw, normalize=self.normalize)

    def _read(self, X: Any, reset: bool) -> NDArray[Any]:
        # A logit of -inf is a probability of 0; what else is wrong with logits is told with row and column later.
        checks = {"ensure_all_finite": not self.from_logits, "ensure_non_negative": not self.from_logits}
        raw = validate_data(self, X, reset=reset, ensure_min_features=2 if reset else 1, **checks)
        return np.asarray(raw)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "adjustment_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = not self.from_logits
        return tags


def _has_decision_function(self: AdjustedClassifier) -> bool:
    return hasattr(getattr(self, "estimator_", self.estimator), "decision_function")


class AdjustedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are adjusted to the class rates of the place where it is used.

    ``fit`` trains the wrapped classifier, and ``adapt`` learns the shift for a new place from rows without labels.
    Before ``adapt`` it behaves as the wrapped classifier. ``adapt`` may be called again as the place changes.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        Wrap a fitted one in ``sklearn.frozen.FrozenEstimator``.
    rates : array-like of shape (k,), dict, Series or Rates, optional
        Class rates of the new place, in the order of ``classes_`` or by class name; may be given to ``adapt`` instead.
    method : "adjust" or "prior", default "adjust"
        "adjust" projects the predictions for the rows given to ``adapt`` onto the rates, see :func:`adjust`. "prior" is
        Bayes' rule from the rates in training to the new ones, see :func:`prior_adjust`; it needs no new rows, so with
        ``rates`` it is done by ``fit``.
    loss, bounded, zeros, tol, max_passes
        As in :func:`adjust`.
    old_rates : array-like of shape (k,), dict or Series, optional
        For "prior": the rates that the classifier was trained for. By default those of the labels given to ``fit``,
        weighted by ``sample_weight`` and by the ``class_weight`` of the wrapped classifier.

    Attributes
    ----------
    estimator_ : fitted classifier
    classes_ : array of shape (k,)
    training_rates_ : array of shape (k,) or None
        The rates that the classifier was trained for: ``old_rates``, or as the labels and weights given to ``fit`` say.
        None where that cannot be told; then "prior" asks for ``old_rates``.
    adjustment_ : Adjustment or None
        With its certificate; None before ``adapt``.

    Examples
    --------
    After under-sampling, true probabilities in one line:

    >>> import numpy as np, baserate as br
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> x = np.r_[rng.normal(0, 1, (500, 1)), rng.normal(2, 1, (500, 1))]       # as many positives as negatives
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
            Whatever the wrapped classifier takes.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Reaches the wrapped classifier, and the rates that it is said to be trained for.
        **fit_params
            Passed on to the wrapped classifier.
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
        routed = self._routed(sample_weight, fit_params)
        self.estimator_ = clone(self.estimator).fit(X, y, **routed)
        self.classes_ = self.estimator_.classes_
        reached = [value for name, value in routed.items() if name.rsplit("__", 1)[-1] == "sample_weight"]
        self.training_rates_ = training_rates(self.estimator_, self.classes_, y, *(reached[:1] or [None]))
        if self.old_rates is not None:
            k = len(self.classes_)
            self.training_rates_ = as_rates(self.old_rates, tuple(self.classes_.tolist()), k, what="old_rates")
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
        """Learn the shift for a new place.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe
            Rows of the new place, without labels.
        rates : array-like of shape (k,), dict, Series or Rates, optional
            Class rates among these rows; by default those of the constructor.
        sample_weight : array-like of shape (n,), optional
        adjustment : Adjustment or path, optional
            Take this shift, or that of a file written by ``Adjustment.save``, in place of learning one.
        """
        check_is_fitted(self)
        if adjustment is not None:
            if X is not None or rates is not None:
                raise BadOption("adapt either learns a shift from X and rates or takes an adjustment, not both")
            self.adjustment_ = self._taken(adjustment).without_rows()
            return self
        known = self.rates if rates is None else rates
        if known is None:
            raise BadRates(
                "adapt needs the class rates of the new place: adapt(X, rates) or AdjustedClassifier(rates=...)"
            )
        if self.method == "prior":
            result = self._by_prior(X, known, sample_weight)
        elif X is None:
            raise BadOption("adapt needs rows of the new place, without labels: adapt(X, rates)")
        else:
            result = adjusted(
                self._ask("predict_proba", X, adapting=True),
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
        """Adjusted probabilities; before ``adapt``, those of the wrapped classifier."""
        check_is_fitted(self)
        probs = self._ask("predict_proba", X)
        if self.adjustment_ is None:
            return np.asarray(probs)
        return np.asarray(self.adjustment_.apply(probs, normalize=True, from_logits=False))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest adjusted probability."""
        check_is_fitted(self)
        if self.adjustment_ is None:
            return np.asarray(self._ask("predict", X))
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    @available_if(_has_decision_function)
    def decision_function(self, X: Any) -> FloatArray:
        """Log odds, or log probabilities of several classes; before ``adapt`` that of the wrapped classifier."""
        check_is_fitted(self)
        if self.adjustment_ is None:
            return np.asarray(self._ask("decision_function", X))
        logs = self.predict_log_proba(X)
        return logs if logs.shape[1] > 2 else np.asarray(logs[:, 1] - logs[:, 0])

    def get_metadata_routing(self) -> MetadataRouter:
        """How metadata reach the wrapped classifier."""
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

    def _by_prior(self, X: Any, known: RatesLike, sample_weight: ArrayLike | None) -> Result:
        """Bayes' rule; rows, if there are any, only serve its certificate."""
        if self.training_rates_ is None:
            raise BadOption(
                f"the rates that {type(self.estimator).__name__} was trained for cannot be told: it is frozen, or "
                "weighs classes in a way that is not known here; pass them as old_rates="
            )
        old, classes = self.training_rates_, self.classes_.tolist()
        probs = old[None] if X is None else self._ask("predict_proba", X, adapting=True)
        result = prior_adjusted(
            probs, old, known, sample_weight=sample_weight, normalize=True, zeros=self.zeros, classes=classes
        )
        return result if X is not None else result.without_guarantee()

    def _ask(self, method: str, X: Any, *, adapting: bool = False) -> NDArray[Any]:
        """What the wrapped classifier says; if it does not check the columns itself, they are checked here."""
        if self.adjustment_ is None and self.rates is not None and not adapting:
            warn(
                NotAdaptedWarning(
                    "rates were given, but not the rows of the new place: call adapt(X). "
                    "These predictions are not adjusted"
                )
            )
        if not hasattr(self.estimator_, "n_features_in_"):
            validate_data(self, X, reset=False, skip_check_array=True)
        return np.asarray(getattr(self.estimator_, method)(X))

    def _routed(self, sample_weight: ArrayLike | None, fit_params: Mapping[str, Any]) -> dict[str, Any]:
        from sklearn import get_config

        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=sample_weight, **fit_params)
            return dict(routed.estimator.fit)
        if sample_weight is None:
            return dict(fit_params)
        if hasattr(self.estimator, "steps"):  # a pipeline passes it on to its last step
            return {**fit_params, f"{self.estimator.steps[-1][0]}__sample_weight": sample_weight}
        takes = inspect.signature(self.estimator.fit).parameters.values()
        if not has_fit_parameter(self.estimator, "sample_weight") and all(p.kind != p.VAR_KEYWORD for p in takes):
            raise BadOption(f"{type(self.estimator).__name__}.fit takes no sample_weight; leave it out")
        return {**fit_params, "sample_weight": sample_weight}

    def _taken(self, adjustment: Adjustment | str | os.PathLike[str]) -> Adjustment:
        taken = adjustment if isinstance(adjustment, Adjustment) else load(adjustment)
        ours = self.classes_.tolist()
        k = taken.model.n_classes
        if k != len(ours) or (taken.classes is not None and list(taken.classes) != ours):
            theirs = f"{k} classes" if taken.classes is None else listed(taken.classes)
            raise BadOption(f"the adjustment is for {theirs}, but the classifier knows {listed(ours)}")
        return taken
