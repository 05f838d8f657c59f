"""A scikit-learn classifier whose probabilities are adjusted to new class rates."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from baserate.adjustment import Adjustment, as_adjustment, load
from baserate.adjustment.grouped import GroupedAdjustment
from baserate.errors import AssumptionRefuted, BadOption, BadRates, NotAdaptedWarning, warn
from baserate.estimation.estimate import estimate as estimate_rates
from baserate.estimators.applying import apply_adjustment, groups_in
from baserate.estimators.frozen import FromFrozen, check_one_label_per_row, estimator_name, not_fitted_message
from baserate.estimators.held_out import HeldOut, check_estimate, fit_with_held_out
from baserate.estimators.training_check import warn_if_not_trained_for
from baserate.estimators.training_rates import training_rates, training_rows
from baserate.estimators.wrapped import check_has_probabilities, fit_arguments, predicted, unfitted
from baserate.inputs.class_numbers import as_rates, is_one_number
from baserate.inputs.validation import quoted
from baserate.losses.base import Loss
from baserate.rates import Rates, RatesLike
from baserate.result.record import Result
from baserate.solving import adjusted, prior_adjusted
from baserate.support.arrays import FloatArray


def _has_decision_function(self: AdjustedClassifier) -> bool:
    return hasattr(getattr(self, "estimator_", self.estimator), "decision_function")


class AdjustedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are adjusted to the class rates of the target population.

    ``fit`` trains the wrapped classifier. ``adapt`` learns the shift from unlabelled rows of the target population.
    Before ``adapt``, it predicts as the wrapped classifier does. ``adapt`` may be called again when the rates change.
    A model that is already fitted needs no ``fit``: ``AdjustedClassifier(FrozenEstimator(model)).adapt(X, rates)``.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        ``fit`` trains a copy of it. Wrap a classifier that is already fitted in ``sklearn.frozen.FrozenEstimator``.
    rates : array-like of shape (k,), dict, Series or Rates, optional
        Class rates of the target population, in the order of ``classes_`` or by class name; they may be passed to
        ``adapt`` instead.
    method : "adjust" or "prior", default "adjust"
        "adjust" makes the smallest change to the predictions for the rows passed to ``adapt`` that gives the class
        rates, see :func:`adjust`. "prior" is prior probability adjustment (PPA): Bayes' rule from the class rates in
        training to the new ones, see :func:`prior_adjust`. PPA needs no new rows, so ``fit`` makes it if ``rates`` is
        passed to the constructor. For a frozen classifier it needs ``old_rates``.
    loss, bounded, zeros, tol, max_passes
        As in :func:`adjust`.
    unseen : "raise" or "pooled", default "raise"
        For rates per group: what is done about groups that were not there in ``adapt``; see
        :meth:`GroupedAdjustment.apply`.
    old_rates : array-like of shape (k,), dict or Series, optional
        For "prior": the class rates for which the classifier was trained. By default the frequencies of the labels
        passed to ``fit``, after the samplers inside the wrapped classifier, weighted by ``sample_weight`` and by the
        class weights of the classifier. If its predictions for the training rows do not agree with these rates, ``fit``
        issues an ``errors.TrainingRatesWarning``. ``old_rates`` are not checked.
    estimate : bool or float, default False
        Whether ``fit`` keeps what is needed to estimate the class rates of new rows, so that ``adapt(X)`` needs no
        rates; see :func:`estimate`. ``True`` keeps cross-validated predictions of the training rows. They come from
        models that were fitted to 4/5 of the rows, so the condition of the estimate, that predictions within a class
        are distributed alike, holds only approximately. A number such as 0.2 is the share of rows that are held out
        of the training: these predictions are of the same model. For a frozen classifier, the rows passed to ``fit``
        are the validation rows; they must not be its training rows. To adjust calibrated predictions, wrap a
        calibrated classifier: the guarantee is then about its predictions.

    Attributes
    ----------
    estimator_ : fitted classifier
    classes_ : array of shape (k,)
    n_features_in_, feature_names_in_
        The columns of X, if known. Those of a frozen classifier are its own, like its classes.
    training_rates_ : array of shape (k,) or None
        The class rates for which the classifier was trained: ``old_rates``, or those of the labels passed to ``fit``
        after all samplers and weights. None if they cannot be determined; then "prior" requires ``old_rates``.
    adjustment_ : Adjustment or None
        The adjustment with its certificate; None before ``adapt``.
    validation_ : pair of arrays or None
        With ``estimate``: predictions of rows that were not used in training, and their labels.
    estimated_rates_ : Rates or None
        The rates that the last ``adapt`` estimated; None if it was given rates.

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

    A model that is already fitted, for new rows of which 1 % are positive:

    >>> from sklearn.frozen import FrozenEstimator
    >>> new = rng.normal(0.02, 1, (500, 1))
    >>> model = br.AdjustedClassifier(FrozenEstimator(LogisticRegression().fit(x, y))).adapt(new, [0.99, 0.01])
    >>> model.predict_proba(new).mean(axis=0).round(3)
    array([0.99, 0.01])
    """

    adjustment_: Adjustment | None = None
    validation_: HeldOut | None = None
    estimated_rates_: Rates | None = None

    def __init__(
        self,
        estimator: Any,
        rates: Any = None,
        *,
        method: str = "adjust",
        loss: str | Loss = "log",
        bounded: bool = True,
        zeros: str | float = "keep",
        unseen: str = "raise",
        old_rates: Any = None,
        tol: float = 1e-10,
        max_passes: int = 500,
        estimate: bool | float = False,
    ) -> None:
        self.estimator = estimator
        self.rates = rates
        self.method = method
        self.loss = loss
        self.bounded = bounded
        self.zeros = zeros
        self.unseen = unseen
        self.old_rates = old_rates
        self.tol = tol
        self.max_passes = max_passes
        self.estimate = estimate

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
        self._check_parameters()
        is_frozen = isinstance(self.estimator, FrozenEstimator)
        if is_frozen:
            self._use_frozen()
        if not (is_frozen and hasattr(self.estimator, "n_features_in_")):  # a frozen classifier has its own columns
            validate_data(self, X, skip_check_array=True)
        self.adjustment_ = self.validation_ = self.estimated_rates_ = None
        params = fit_arguments(self, sample_weight, fit_params)
        if self.estimate is False or is_frozen:
            self.estimator_ = unfitted(self.estimator).fit(X, y, **params)
        else:
            make = partial(unfitted, self.estimator)
            self.estimator_, self.validation_ = fit_with_held_out(make, X, y, params, self.estimate)
        self.classes_ = self.estimator_.classes_
        if self.estimate is not False and is_frozen:
            self.validation_ = HeldOut(self._call_estimator("predict_proba", X), np.asarray(y))
        weights = [value for name, value in params.items() if name.rsplit("__", 1)[-1] == "sample_weight"]
        rows = training_rows(self.classes_, y, *(weights[:1] or [None]))
        self.training_rates_ = training_rates(self.estimator_, rows)
        if self.old_rates is not None:
            self.training_rates_ = self._stated_old_rates()
        elif self.method == "prior" and self.training_rates_ is not None:
            probs = self._call_estimator("predict_proba", X)
            warn_if_not_trained_for(self.training_rates_, rows, probs, estimator_name(self.estimator))
        if self.method == "prior" and self.rates is not None:
            self.adapt()
        return self

    def adapt(
        self,
        X: Any = None,
        rates: RatesLike | None = None,
        *,
        groups: Any = None,
        sample_weight: ArrayLike | None = None,
        adjustment: Adjustment | str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn the shift for the target population.

        The other options of :func:`adjust` are parameters of the constructor: ``loss``, ``bounded``, ``zeros``, ``tol``
        and ``max_passes``. Their present values are used, so ``set_params`` changes them before the next call.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe
            Rows of the target population, without labels: whatever the wrapped classifier accepts.
        rates : array-like of shape (k,), dict, Series or Rates, optional
            Class rates of these rows, as in :func:`adjust`: in the order of ``classes_``, or by class name. By default
            those passed to the constructor. If there are none, and ``estimate`` was set in ``fit``, they are estimated:
            the predictions are adjusted to the confidence set of :func:`estimate`, and ``adjustment_`` says so.
        groups : dataframe, dict of arrays or array, optional
            The groups of the rows, for rates per group (:meth:`Rates.by`). By default the columns of ``X``, if it is a
            dataframe that has them. The same argument of ``predict_proba`` and ``predict`` says to which groups other
            rows belong.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows in the mean.
        adjustment : Adjustment or path, optional
            Use the shift of this adjustment, or of a file written by ``Adjustment.save``, instead of learning one.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If neither ``fit`` was called nor a fitted classifier is frozen.
        """
        if isinstance(self.estimator, FrozenEstimator):
            self._check_parameters()
            self._use_frozen()
        self._check_is_fitted()
        if adjustment is not None:
            if X is not None or rates is not None:
                raise BadOption("adapt takes either X and rates, to learn a shift, or an adjustment, not both")
            self.adjustment_ = self._checked(adjustment).without_rows()
            return self
        known = self.rates if rates is None else rates
        self.estimated_rates_ = None
        if known is None and self.validation_ is not None and X is not None:
            known = self.estimated_rates_ = self._estimated_rates(X)
        one_number = known.is_one_number if isinstance(known, Rates) else is_one_number(known)
        if one_number and len(self.classes_) == 2 and self.classes_.dtype.kind not in "biuf":
            raise BadRates(
                f"the rate is one number, but the classes are {quoted(self.classes_.tolist())}; say which class it is "
                f"for: {{{self.classes_.tolist()[1]!r}: ...}}"
            )
        if known is None:
            raise BadRates(
                "adapt needs the class rates of the target population: pass adapt(X, rates) or "
                "AdjustedClassifier(rates=...), or let it estimate them: AdjustedClassifier(estimate=True)"
            )
        if self.method == "prior":
            result = self._prior_adjustment(X, known, sample_weight)
        elif X is None:
            raise BadOption("adapt needs rows of the target population, without labels: pass adapt(X, rates)")
        else:
            result = adjusted(
                self._probs_to_adapt(X),
                known,
                loss=self.loss,
                bounded=self.bounded,
                groups=groups_in(X, known) if groups is None else groups,
                sample_weight=sample_weight,
                normalize=True,
                zeros=self.zeros,
                classes=self.classes_.tolist(),
                tol=self.tol,
                max_passes=self.max_passes,
                keep_rows=False,
            )
        self.adjustment_ = as_adjustment(result.without_rows())
        return self

    def predict_proba(self, X: Any, groups: Any = None) -> FloatArray:
        """The adjusted probabilities; before ``adapt``, those of the wrapped classifier.

        Parameters
        ----------
        X : array-like, sparse matrix or dataframe
        groups : dataframe, dict of arrays or array, optional
            The groups of the rows, for rates per group. By default the columns of ``X``.
        """
        self._check_is_fitted()
        self._warn_if_not_adapted()
        probs = self._call_estimator("predict_proba", X)
        if self.adjustment_ is None:
            return np.asarray(probs)
        if groups is None and isinstance(self.adjustment_, GroupedAdjustment):
            groups = groups_in(X, self.adjustment_.certificate.known)
        given = {"normalize": True, "from_logits": False}
        return np.asarray(apply_adjustment(self.adjustment_, probs, groups, self.unseen, **given))

    def predict_log_proba(self, X: Any, groups: Any = None) -> FloatArray:
        """The logarithms of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, groups=groups))

    def predict(self, X: Any, groups: Any = None) -> NDArray[Any]:
        """The class with the largest adjusted probability."""
        self._check_is_fitted()
        if self.adjustment_ is None:
            self._warn_if_not_adapted()
            return self._call_estimator("predict", X)
        return np.asarray(self.classes_[self.predict_proba(X, groups=groups).argmax(axis=1)])

    @available_if(_has_decision_function)
    def decision_function(self, X: Any, groups: Any = None) -> FloatArray:
        """Log odds, or log probabilities of more than two classes; before ``adapt``, as the wrapped classifier."""
        self._check_is_fitted()
        if self.adjustment_ is None:
            self._warn_if_not_adapted()
            return self._call_estimator("decision_function", X)
        logs = self.predict_log_proba(X, groups=groups)
        return logs if logs.shape[1] > 2 else np.asarray(logs[:, 1] - logs[:, 0])

    @FromFrozen
    def estimator_(self) -> Any:
        """The classifier that predicts."""
        return self.estimator

    @FromFrozen
    def classes_(self) -> Any:
        """The classes, in the order of the columns of ``predict_proba``."""
        return self.estimator_.classes_

    @FromFrozen
    def n_features_in_(self) -> Any:
        """The number of columns of X."""
        return self.estimator_.n_features_in_

    @FromFrozen
    def feature_names_in_(self) -> Any:
        """The names of the columns of X, if they were known in training."""
        return self.estimator_.feature_names_in_

    @FromFrozen
    def training_rates_(self) -> Any:
        """The class rates for which the classifier was trained, if they are known."""
        return None if self.old_rates is None else self._stated_old_rates()

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

    def _estimated_rates(self, X: Any) -> Rates:
        """The class rates of new rows, estimated with the validation rows that ``fit`` kept."""
        assert self.validation_ is not None
        probs, y = self.validation_
        try:
            return estimate_rates(
                self._probs_to_adapt(X), probs_val=probs, y_val=y, classes=self.classes_.tolist(), normalize=True
            )
        except AssumptionRefuted as error:
            error.add_note(
                "These are arguments of br.estimate, which takes the predictions of the wrapped classifier for X. Pass "
                "the rates that it returns to adapt: adapt(X, rates)."
            )
            raise

    def _prior_adjustment(self, X: Any, known: RatesLike, sample_weight: ArrayLike | None) -> Result:
        """The prior probability adjustment; rows, if there are any, are only needed for its certificate."""
        old = self.training_rates_ if self.old_rates is None else self._stated_old_rates()
        if old is None:
            raise BadOption(
                f"the class rates for which {estimator_name(self.estimator)} was trained cannot be determined: it is "
                "frozen, or weights or samples the classes in an unknown way; pass them as old_rates="
            )
        probs = old[None] if X is None else self._probs_to_adapt(X)
        reading = {"sample_weight": sample_weight, "normalize": True, "zeros": self.zeros}
        result = prior_adjusted(probs, old, known, classes=self.classes_.tolist(), keep_rows=False, **reading)
        return result if X is not None else result.without_guarantee()

    def _stated_old_rates(self) -> FloatArray:
        names = tuple(self.classes_.tolist())
        return as_rates(self.old_rates, names, len(names), what="old_rates")

    def _check_parameters(self) -> None:
        check_estimate(self.estimate)
        if self.method not in ("adjust", "prior"):
            raise BadOption(f"method must be 'adjust' or 'prior', not {self.method!r}")
        check_has_probabilities(self.estimator)

    def _check_is_fitted(self) -> None:
        check_is_fitted(self, msg=not_fitted_message(self.estimator))

    def _use_frozen(self) -> None:
        """Use the frozen classifier from now on, and forget what is known of one that was used before."""
        check_is_fitted(self.estimator, msg=not_fitted_message(self.estimator))
        if vars(self).get("estimator_") is self.estimator:
            return
        for name in (
            "adjustment_",
            "validation_",
            "estimated_rates_",
            "classes_",
            "n_features_in_",
            "feature_names_in_",
            "training_rates_",
        ):
            if name in vars(self):
                delattr(self, name)
        self.estimator_ = self.estimator

    def _warn_if_not_adapted(self) -> None:
        if self.adjustment_ is None and self.rates is not None:
            call = "adapt()" if self.method == "prior" else "adapt(X) with rows of the target population"
            warn(NotAdaptedWarning(f"these predictions are not adjusted: call {call} first"))

    def _probs_to_adapt(self, X: Any) -> NDArray[Any]:
        probs = self._call_estimator("predict_proba", X)
        if isinstance(self.estimator_, FrozenEstimator):  # otherwise ``fit`` has seen that each row has one label
            check_one_label_per_row(probs, estimator_name(self.estimator_))
        return probs

    def _call_estimator(self, method: str, X: Any) -> NDArray[Any]:
        """The result of a method of the wrapped classifier. If it does not check the columns, they are checked here."""
        if hasattr(self, "n_features_in_") and not hasattr(self.estimator_, "n_features_in_"):
            validate_data(self, X, reset=False, skip_check_array=True)
        return predicted(self.estimator_, method, X)

    def _checked(self, adjustment: Adjustment | str | os.PathLike[str]) -> Adjustment:
        """An adjustment, read from a file if it is a path, whose classes are those of the classifier."""
        loaded = adjustment if isinstance(adjustment, Adjustment) else load(adjustment)
        own, k = self.classes_.tolist(), loaded.model.n_classes
        if k != len(own) or (loaded.classes is not None and list(loaded.classes) != own):
            classes = f"{k} classes" if loaded.classes is None else f"the classes {quoted(loaded.classes)}"
            raise BadOption(f"the adjustment is for {classes}, but the classifier has the classes {quoted(own)}")
        return loaded
