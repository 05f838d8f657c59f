"""AdjustedClassifier around a model that is already fitted."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import skops.io
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import get_scorer, log_loss
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted
from test_estimators import MODELS
from test_training_rates import HiddenSampler, table

import baserate as br
from baserate.errors import BadOption, BadProbabilities, BadRates, NotAdaptedWarning

X, Y = load_iris(return_X_y=True)
NEW = np.flatnonzero((Y != 2) | (np.arange(150) % 4 == 0))
"""Rows among which the last class is rare."""

RATES = [0.5, 0.3, 0.2]
LOGISTIC = LogisticRegression(max_iter=1000)
OTHERS = {
    "adaboost": AdaBoostClassifier(n_estimators=5),
    "bagging": BaggingClassifier(LOGISTIC, 3, random_state=0),
    "discriminant": LinearDiscriminantAnalysis(),
    "naive Bayes": GaussianNB(),
    "one against the rest": OneVsRestClassifier(LOGISTIC),
    "recursive elimination": RFE(LOGISTIC, n_features_to_select=2),
    "stacking": StackingClassifier([("a", LOGISTIC)], final_estimator=LOGISTIC),
    "tree": DecisionTreeClassifier(max_depth=2),
    "voting": VotingClassifier([("a", LOGISTIC), ("b", GaussianNB())], voting="soft"),
}
CLASSIFIERS = {**MODELS, **OTHERS, "fixed threshold": FixedThresholdClassifier(LOGISTIC), **table.CASES}
BINARY = {"fixed threshold", *table.CASES}


def build(name: str) -> Any:
    if name not in table.CASES:
        return clone(CLASSIFIERS[name])
    try:
        return table.CASES[name]()
    except ImportError as error:
        pytest.skip(f"{error.name} is not installed")


def frozen(model: Any = None, x: Any = X, y: Any = Y, **options: Any) -> Any:
    """An AdjustedClassifier around a fitted model, on which ``fit`` was not called."""
    return br.AdjustedClassifier(FrozenEstimator(clone(LOGISTIC if model is None else model).fit(x, y)), **options)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # lightgbm warns if it gets an array
@pytest.mark.parametrize("name", list(CLASSIFIERS))
def test_a_frozen_model_needs_no_fit(name: str) -> None:
    is_binary = name in BINARY
    y, rates = (Y == 2 if is_binary else Y), ([0.8, 0.2] if is_binary else RATES)
    inner = build(name).fit(X, y.astype(int))
    raw, classes = inner.predict_proba(X[NEW]), inner.predict(X[NEW])
    model = br.AdjustedClassifier(FrozenEstimator(inner), loss="brier")
    check_is_fitted(model)
    np.testing.assert_array_equal(model.predict_proba(X[NEW]), raw)
    np.testing.assert_array_equal(model.predict(X[NEW]), classes)
    np.testing.assert_array_equal(model.classes_, inner.classes_)
    assert getattr(model, "n_features_in_", 4) == 4
    assert model.adapt(X[NEW], rates) is model
    expected = br.adjust(raw, rates, loss="brier", normalize=True).probs
    np.testing.assert_allclose(model.predict_proba(X[NEW]), expected, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X[NEW]), model.classes_[expected.argmax(axis=1)])
    assert model.score(X[NEW], y[NEW]) == np.mean(model.predict(X[NEW]) == y[NEW])
    if hasattr(inner, "decision_function"):
        assert model.decision_function(X[NEW]).shape == ((len(NEW),) if is_binary else (len(NEW), 3))
    np.testing.assert_array_equal(inner.predict_proba(X[NEW]), raw)  # the model itself is not changed


@pytest.mark.parametrize(
    "rates",
    [
        np.array(RATES),
        {"c": 0.2, "a": 0.5, "b": 0.3},
        pd.Series([0.2, 0.5, 0.3], index=list("cab")),
        br.Rates.exact({"a": 0.5, "b": 0.3, "c": 0.2}),
        br.Rates.between({"c": 0.1}, {"c": 0.2}),
        br.Rates.near(RATES, 0.05),
        br.Rates.from_counts({"a": 50, "b": 30, "c": 20}),
        br.Rates.of_population(RATES),
    ],
    ids=lambda rates: type(rates).__name__,
)
def test_adapt_takes_the_rates_that_adjust_takes(rates: Any) -> None:
    model = frozen(y=np.array(list("abc"))[Y])
    weights = np.random.default_rng(0).random(150)
    model.adapt(X, rates, sample_weight=weights)
    raw = model.estimator_.predict_proba(X)
    expected = br.adjust(raw, rates, classes=list("abc"), sample_weight=weights, normalize=True)
    np.testing.assert_allclose(model.predict_proba(X), expected.probs, atol=1e-9)
    assert model.adjustment_.certificate.loss_reduction == pytest.approx(expected.certificate.loss_reduction)


def test_a_single_number_is_the_rate_of_the_second_class() -> None:
    model = frozen(y=Y == 2).adapt(X, 0.2)
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(0.2)


def test_the_columns_are_those_of_the_frozen_model() -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = frozen(x=frame)
    assert (model.n_features_in_, model.feature_names_in_.tolist()) == (4, list("abcd"))
    for rows in (frame, pl.DataFrame(frame)):
        np.testing.assert_allclose(model.adapt(rows, RATES).predict_proba(rows).mean(axis=0), RATES, atol=1e-9)
    with pytest.raises(ValueError, match="feature names should match"):
        model.adapt(frame.rename(columns={"a": "z"}), RATES)
    assert model.fit(X, Y).feature_names_in_.tolist() == list("abcd")
    assert not hasattr(frozen(), "feature_names_in_")
    sparse = scipy.sparse.csr_matrix(X)
    np.testing.assert_allclose(
        frozen(x=sparse).adapt(sparse, RATES).predict_proba(sparse).mean(axis=0), RATES, atol=1e-9
    )


def test_a_model_that_does_not_know_its_columns_causes_no_warning() -> None:
    frame, y = pd.DataFrame(X, columns=list("abcd")), Y == 2
    model = br.AdjustedClassifier(FrozenEstimator(HiddenSampler().fit(frame, y))).adapt(frame, [0.8, 0.2])
    assert model.predict_proba(frame)[:, 1].mean() == pytest.approx(0.2)
    assert not hasattr(model, "n_features_in_")
    assert model.fit(frame, y).n_features_in_ == 4  # only ``fit`` shows what the columns are
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict_proba(frame[["a", "b", "c"]])


ADVICE = r"AdjustedClassifier\(FrozenEstimator\(model\)\), with FrozenEstimator from sklearn\.frozen"


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        (LogisticRegression(), rf"not fitted yet\. Call fit\(X, y\) to train the LogisticRegression\. If .*{ADVICE}"),
        (
            clone(LOGISTIC).fit(X, Y),
            rf"but the LogisticRegression inside is\. .*{ADVICE}\. To train it again, call fit",
        ),
        (FrozenEstimator(LOGISTIC), r"the LogisticRegression in FrozenEstimator is not fitted\. Fit it before you"),
    ],
    ids=["not fitted", "fitted but not frozen", "frozen but not fitted"],
)
def test_a_model_that_is_not_fitted_or_not_frozen_is_an_error_that_says_what_to_do(inner: Any, message: str) -> None:
    model = br.AdjustedClassifier(inner)
    assert not hasattr(model, "classes_")
    for call in (
        lambda: model.adapt(X, RATES),
        *(lambda f=f: getattr(model, f)(X) for f in ("predict_proba", "predict")),
    ):
        with pytest.raises(NotFittedError, match=message):
            call()
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


def test_a_frozen_model_that_is_not_fitted_stays_so_after_fit() -> None:
    model = br.AdjustedClassifier(FrozenEstimator(LOGISTIC))
    with pytest.raises(NotFittedError, match="Fit it before you freeze it"):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


def test_options_are_checked_without_fit() -> None:
    with pytest.raises(BadOption, match="method must be 'adjust' or 'prior', not 'bga'"):
        frozen(method="bga").adapt(X, RATES)
    with pytest.raises(BadOption, match="RidgeClassifier has no predict_proba"):
        frozen(RidgeClassifier()).adapt(X, RATES)
    with pytest.raises(BadRates, match="adapt needs the class rates"):
        frozen().adapt(X)


def test_prior_with_a_frozen_model_needs_old_rates() -> None:
    model = frozen(method="prior")
    assert model.training_rates_ is None
    with pytest.raises(BadOption, match=r"for which LogisticRegression was trained .* it is frozen.* as old_rates="):
        model.adapt(rates=RATES)
    model.set_params(old_rates={1: 0.25, 0: 0.5, 2: 0.25}).adapt(rates=RATES)
    expected = br.prior_adjust(model.estimator_.predict_proba(X), [0.5, 0.25, 0.25], RATES).probs
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-12)
    np.testing.assert_array_equal(model.training_rates_, [0.5, 0.25, 0.25])
    with_rows = frozen(method="prior", old_rates=[0.5, 0.25, 0.25]).adapt(X, RATES)
    np.testing.assert_allclose(with_rows.predict_proba(X), expected, atol=1e-12)
    assert np.isfinite(with_rows.adjustment_.certificate.loss_reduction)


def test_a_frozen_model_with_rates_warns_until_it_is_adapted() -> None:
    model = frozen(rates=RATES)
    for predict in (model.predict_proba, model.predict, model.decision_function):
        with pytest.warns(NotAdaptedWarning, match=r"call adapt\(X\) with rows of the target population first"):
            predict(X)
    with pytest.warns(NotAdaptedWarning, match=r"not adjusted: call adapt\(\) first"):
        frozen(rates=RATES, method="prior", old_rates=[1 / 3] * 3).predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.adapt(X).predict_proba(X)


@pytest.mark.parametrize("is_adapted", [False, True])
def test_copies_predict_the_same(is_adapted: bool) -> None:
    model = frozen()
    if is_adapted:
        model.adapt(X, RATES)
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    data = skops.io.dumps(model)
    trusted = skops.io.get_untrusted_types(data=data)
    copies = [
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        joblib.load(buffer),
        skops.io.loads(data, trusted=trusted),
    ]
    for other in copies:
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(other.classes_, [0, 1, 2])
        np.testing.assert_allclose(other.adapt(X, [0.2, 0.3, 0.5]).predict_proba(X).mean(axis=0), [0.2, 0.3, 0.5])


def test_a_clone_is_not_adapted_and_has_the_same_model() -> None:
    model = frozen(loss="brier").adapt(X, RATES)
    other = clone(model)
    assert other.adjustment_ is None
    assert other.get_params()["estimator"] is model.get_params()["estimator"]
    np.testing.assert_array_equal(other.predict_proba(X), model.estimator.predict_proba(X))
    assert clone(br.AdjustedClassifier(clone(LOGISTIC))).adjustment_ is None


def test_adapting_after_the_model_was_replaced_uses_the_new_model() -> None:
    first, second = frozen().adapt(X, RATES), frozen(GaussianNB())
    before = first.predict_proba(X)
    first.set_params(estimator=second.estimator)
    np.testing.assert_array_equal(first.predict_proba(X), before)  # as with fit, it counts from the next call on
    np.testing.assert_array_equal(first.adapt(X, RATES).predict_proba(X), second.adapt(X, RATES).predict_proba(X))
    trained = br.AdjustedClassifier(clone(LOGISTIC)).fit(pd.DataFrame(X, columns=list("abcd")), Y)
    trained.set_params(estimator=second.estimator).adapt(X, RATES)
    np.testing.assert_array_equal(trained.predict_proba(X), second.predict_proba(X))
    assert not hasattr(trained, "feature_names_in_")
    assert trained.training_rates_ is None


def test_a_failed_adapt_keeps_the_last_adjustment() -> None:
    model = frozen().adapt(X, RATES)
    before = model.predict_proba(X)
    with pytest.raises(BadRates, match="must be 3 numbers"):
        model.adapt(X, [0.5, 0.5])
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_pipelines_around_and_inside() -> None:
    scaler = StandardScaler().fit(X)
    outside = make_pipeline(scaler, frozen(x=scaler.transform(X)))
    check_is_fitted(outside)
    outside[-1].adapt(outside[:-1].transform(X), RATES)
    np.testing.assert_allclose(outside.predict_proba(X).mean(axis=0), RATES, atol=1e-9)
    inside = frozen(make_pipeline(StandardScaler(), LOGISTIC)).adapt(X, RATES)
    np.testing.assert_allclose(inside.predict_proba(X), outside.predict_proba(X), atol=1e-9)


def test_searches_scorers_and_cross_validation() -> None:
    model = frozen(y=Y == 1)
    assert get_scorer("roc_auc")(model, X, Y == 1) == get_scorer("roc_auc")(model.estimator, X, Y == 1)
    grid = GridSearchCV(model, {"loss": ["log", "brier"]}, cv=3).fit(X, Y == 1)
    assert grid.best_estimator_.adapt(X, [0.9, 0.1]).predict_proba(X)[:, 1].mean() == pytest.approx(0.1)
    p = cross_val_predict(model, X, Y == 1, method="predict_proba", cv=3)
    np.testing.assert_allclose(p, model.predict_proba(X))
    assert "AdjustedClassifier" in model._repr_html_()


def test_a_saved_adjustment_can_be_used_by_a_frozen_model() -> None:
    model = frozen().adapt(X, RATES)
    np.testing.assert_array_equal(frozen().adapt(adjustment=model.adjustment_).predict_proba(X), model.predict_proba(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "classifier",
    [
        MLPClassifier((5,), max_iter=20, random_state=0),
        OneVsRestClassifier(LogisticRegression()),
        RandomForestClassifier(5, random_state=0),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_model_of_several_labels_is_refused(classifier: Any) -> None:
    x, y = make_multilabel_classification(100, n_classes=3, random_state=0)
    name = type(classifier).__name__
    with pytest.raises(BadProbabilities, match=rf"{name} (has|returns) .* to br\.adjust_multilabel"):
        br.AdjustedClassifier(FrozenEstimator(classifier.fit(x, y))).adapt(x, RATES)


class TestCalibrateThenAdjust:
    """The labels are those of two normal distributions, 10 % positive in training and 40 % among the new rows."""

    @staticmethod
    def rows(n: int, rate: float, seed: int) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        y = (rng.random(n) < rate).astype(int)
        return rng.normal(size=(n, 3)) + 1.5 * y[:, None] * [1.0, 0.0, 0.0], y

    def check(self, model: Any) -> None:
        x, y = self.rows(2000, 0.4, seed=2)
        calibrated = model.estimator_.predict_proba(x)
        np.testing.assert_array_equal(model.predict_proba(x), calibrated)
        model.adapt(x, [1 - y.mean(), y.mean()])
        adjusted = model.predict_proba(x)
        assert adjusted[:, 1].mean() == pytest.approx(y.mean())
        # For log loss and exact rates the guarantee is an equality.
        fall = log_loss(y, calibrated) - log_loss(y, adjusted)
        assert fall == pytest.approx(model.adjustment_.certificate.loss_reduction, abs=1e-9)
        assert fall > 0.05

    def test_with_cross_validation(self) -> None:
        x, y = self.rows(2000, 0.1, seed=0)
        calibrated = CalibratedClassifierCV(GaussianNB(), cv=3)
        self.check(br.AdjustedClassifier(calibrated).fit(x, y))
        self.check(br.AdjustedClassifier(FrozenEstimator(clone(calibrated).fit(x, y))))

    def test_with_a_model_that_is_already_fitted(self) -> None:
        x, y = self.rows(2000, 0.1, seed=0)
        fitted = AdaBoostClassifier(n_estimators=20, random_state=0).fit(x, y)
        x_cal, y_cal = self.rows(1000, 0.1, seed=1)
        model = br.AdjustedClassifier(CalibratedClassifierCV(FrozenEstimator(fitted))).fit(x_cal, y_cal)
        np.testing.assert_allclose(model.training_rates_, np.bincount(y_cal) / 1000)
        self.check(model)

    def test_calibration_and_prior_adjustment(self) -> None:
        x, y = self.rows(4000, 0.1, seed=0)
        model = br.AdjustedClassifier(CalibratedClassifierCV(GaussianNB(), cv=3), [0.6, 0.4], method="prior").fit(x, y)
        new, _ = self.rows(4000, 0.4, seed=2)
        assert model.predict_proba(new)[:, 1].mean() == pytest.approx(0.4, abs=0.02)
