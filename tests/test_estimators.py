"""The scikit-learn estimators Adjuster and AdjustedClassifier."""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import skops.io
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.ensemble import BaggingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import baserate as br
from baserate.errors import BadOption, BadRates, NotAdaptedWarning

X, Y = load_iris(return_X_y=True)
RATES = [0.5, 0.3, 0.2]
FOREST = "bootstrap samples make a weight of 2 differ from a repeated row"


def expected_failures(estimator: Any) -> dict[str, str]:
    """The only two checks that fail, and why; they also fail for the forest that is wrapped."""
    if isinstance(getattr(estimator, "estimator", None), RandomForestClassifier):
        names = ("on_dense_data", "on_sparse_data")
        return {f"check_sample_weight_equivalence_{name}": FOREST for name in names}
    return {}


@parametrize_with_checks(
    [
        br.Adjuster(),
        br.Adjuster(br.Rates.between(0.02, 0.7), from_logits=True),
        br.Adjuster(br.Rates.between(0.02, 0.7), from_logits=True, loss="brier", bounded=False),
        br.AdjustedClassifier(LogisticRegression()),
        br.AdjustedClassifier(LogisticRegression(), method="prior"),
        br.AdjustedClassifier(HistGradientBoostingClassifier(max_iter=5)),
        br.AdjustedClassifier(RandomForestClassifier(n_estimators=5, random_state=0)),
        br.AdjustedClassifier(GaussianNB()),
        br.AdjustedClassifier(make_pipeline(PolynomialFeatures(), LogisticRegression())),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore")  # the data of the checks makes the wrapped models warn
def test_estimators_pass_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def shifted(y: Any = Y, share: float = 0.3) -> np.ndarray:
    """Numbers of rows among which the last class is rarer."""
    rng = np.random.default_rng(0)
    return np.flatnonzero((y != np.unique(y)[-1]) | (rng.random(len(y)) < share))


class TestAdjuster:
    def test_adjuster_gives_the_results_of_adjust_and_apply(self) -> None:
        p = np.random.default_rng(0).dirichlet(np.ones(3), size=50)
        w = np.random.default_rng(1).random(50)
        adjuster = br.Adjuster(RATES, loss="brier").fit(p, sample_weight=w)
        result = br.adjust(p, RATES, loss="brier", sample_weight=w)
        np.testing.assert_allclose(adjuster.transform(p), result.probs, atol=1e-12)
        np.testing.assert_allclose(adjuster.transform(p[:2]), result.apply(p[:2]), atol=1e-12)
        assert adjuster.adjustment_.certificate.loss_reduction == result.certificate.loss_reduction
        np.testing.assert_array_equal(br.Adjuster().fit(p).transform(p), p)

    @pytest.mark.parametrize(("kind", "library"), [("pandas", pd), ("polars", pl)])
    def test_set_output_and_column_names(self, kind: str, library: Any) -> None:
        p = pd.DataFrame(
            np.random.default_rng(0).dirichlet(np.ones(3), size=5), columns=list("abc"), index=range(5, 10)
        )
        adjuster = br.Adjuster({"c": 0.5, "a": 0.2, "b": 0.3}).set_output(transform=kind).fit(p)
        out = adjuster.transform(p)
        assert isinstance(out, library.DataFrame)
        assert list(out.columns) == adjuster.get_feature_names_out().tolist() == list("abc")
        np.testing.assert_allclose(out.to_numpy().mean(axis=0), [0.2, 0.3, 0.5], atol=1e-10)
        if kind == "pandas":
            assert out.index.tolist() == list(range(5, 10))
        with pytest.raises(ValueError, match="feature names should match"):
            adjuster.transform(p.rename(columns={"a": "z"}))

    def test_adjuster_in_a_pipeline_and_a_grid_search(self) -> None:
        p = np.random.default_rng(0).dirichlet(np.ones(3), size=90)
        pipe = make_pipeline(FunctionTransformer(), br.Adjuster(RATES))
        np.testing.assert_allclose(pipe.fit_transform(p).mean(axis=0), RATES, atol=1e-10)

        def score(adjuster: Any, rows: Any, y: Any) -> float:
            return -br.losses.Brier().score(adjuster.transform(rows), y)

        y = np.random.default_rng(1).choice(3, p=RATES, size=90)
        grid = GridSearchCV(br.Adjuster(), {"rates": [None, RATES], "loss": ["log", "brier"]}, scoring=score, cv=3)
        assert grid.fit(p, y).best_params_["rates"] == RATES
        assert clone(br.Adjuster(br.Rates.between(0.1, 0.6), zeros=1e-6)).zeros == 1e-6

    def test_metadata_routing_of_sample_weight(self) -> None:
        p, w = np.random.default_rng(0).dirichlet(np.ones(3), size=50), np.arange(1.0, 51)
        with config_context(enable_metadata_routing=True):
            pipe = make_pipeline(FunctionTransformer(), br.Adjuster(RATES).set_fit_request(sample_weight=True))
            pipe.fit(p, sample_weight=w)
        np.testing.assert_allclose(np.average(pipe.transform(p), axis=0, weights=w), RATES, atol=1e-10)


MODELS = {
    "logistic": LogisticRegression(max_iter=1000),
    "boosted": HistGradientBoostingClassifier(max_iter=10),
    "forest": RandomForestClassifier(n_estimators=10, random_state=0),  # hard zeros
    "calibrated inside": CalibratedClassifierCV(LogisticRegression(max_iter=1000), cv=3),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "columns": make_pipeline(ColumnTransformer([("scale", StandardScaler(), [0, 1])]), LogisticRegression()),
    "grid": GridSearchCV(LogisticRegression(max_iter=1000), {"C": [0.1, 1.0]}, cv=3),
}
try:
    from xgboost import XGBClassifier

    MODELS["xgboost"] = XGBClassifier(n_estimators=5)
except ImportError:
    pass
try:
    from lightgbm import LGBMClassifier

    MODELS["lightgbm"] = LGBMClassifier(n_estimators=5, verbose=-1)
except ImportError:
    pass


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # lightgbm warns if it gets an array
class TestAdjustedClassifier:
    @pytest.mark.parametrize("name", list(MODELS))
    def test_many_classifiers_can_be_adapted(self, name: str) -> None:
        new = X[shifted()]
        model = br.AdjustedClassifier(MODELS[name], loss="brier").fit(X, Y)
        raw = model.estimator_.predict_proba(new)
        np.testing.assert_array_equal(model.predict_proba(new), raw)
        np.testing.assert_array_equal(model.predict(new), model.estimator_.predict(new))
        rates = np.bincount(Y[shifted()]) / len(new)
        assert model.adapt(new, rates) is model
        adjusted = model.predict_proba(new)
        rounding = 1e-9 if raw.dtype == np.float64 else 1e-6  # float32 in, float32 out
        assert adjusted.dtype == raw.dtype
        np.testing.assert_allclose(adjusted.mean(axis=0, dtype=np.float64), rates, atol=rounding)
        np.testing.assert_array_equal(model.predict(new), model.classes_[adjusted.argmax(axis=1)])
        np.testing.assert_allclose(np.exp(model.predict_log_proba(new)), adjusted, atol=rounding)
        assert model.adjustment_.certificate.loss_reduction >= 0
        model.adapt(new, [0.4, 0.4, 0.2])
        np.testing.assert_allclose(model.predict_proba(new).mean(axis=0), [0.4, 0.4, 0.2], atol=rounding)

    def test_hard_zeros_of_a_forest_can_be_smoothed(self) -> None:
        forest = RandomForestClassifier(n_estimators=3, random_state=0)
        with pytest.raises(br.InfeasibleRates, match="zeros=1e-6"):
            br.AdjustedClassifier(forest).fit(X, Y).adapt(X[:40], RATES)
        model = br.AdjustedClassifier(forest, zeros=1e-6).fit(X, Y).adapt(X[:40], RATES)
        np.testing.assert_allclose(model.predict_proba(X[:40]).mean(axis=0), RATES, atol=1e-9)

    @pytest.mark.parametrize("labels", [["setosa", "versi", "virgi"], [10, 20, 30], [-1, 0, 1]])
    def test_rates_by_class_name(self, labels: list[Any]) -> None:
        y = np.array(labels)[Y]
        model = br.AdjustedClassifier(LogisticRegression(max_iter=1000)).fit(X, y)
        for rates in (
            dict(zip(labels[::-1], [0.2, 0.3, 0.5], strict=True)),
            pd.Series([0.2, 0.3, 0.5], index=labels[::-1]),
        ):
            model.adapt(X, rates)
            np.testing.assert_allclose(model.predict_proba(X).mean(axis=0), [0.5, 0.3, 0.2], atol=1e-9)
        assert set(model.predict(X)) <= set(labels)
        assert model.adjustment_.classes == tuple(labels)

    def test_two_boolean_classes(self) -> None:
        x, y = load_breast_cancer(return_X_y=True)
        model = br.AdjustedClassifier(make_pipeline(StandardScaler(), LogisticRegression())).fit(x, y == 1)
        before = model.decision_function(x)
        np.testing.assert_array_equal(before, model.estimator_.decision_function(x))
        model.adapt(x, {True: 0.2, False: 0.8})
        assert model.predict_proba(x)[:, 1].mean() == pytest.approx(0.2)
        assert model.predict(x).dtype == bool
        # All rows have the same shift, so all log odds change by the same constant.
        np.testing.assert_allclose(np.ptp(model.decision_function(x) - before), 0, atol=1e-6)

    def test_many_classes(self) -> None:
        rng = np.random.default_rng(0)
        y = np.arange(520) % 26
        x = np.eye(26)[y] + 0.5 * rng.normal(size=(520, 26))
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))[y]
        model = br.AdjustedClassifier(LogisticRegression(max_iter=300)).fit(x, letters)
        rates = dict.fromkeys("bcdefghijklmnopqrstuvwxyz", 0.02) | {"a": 0.5}
        model.adapt(x, rates)
        assert model.predict_proba(x)[:, 0].mean() == pytest.approx(0.5)
        assert model.decision_function(x).shape == (520, 26)

    def test_frozen_classifier_and_survey_counts(self) -> None:
        fitted = LogisticRegression(max_iter=1000).fit(X, Y)
        model = br.AdjustedClassifier(FrozenEstimator(fitted), br.Rates.from_counts([50, 30, 20])).fit(X, Y)
        assert model.estimator_.estimator is fitted
        model.adapt(X)
        assert model.adjustment_.certificate.confidence == 0.95
        assert model.adjustment_.certificate.batch_size == 150

    def test_sparse_matrices_and_dataframes(self) -> None:
        digits, y = load_digits(return_X_y=True)
        sparse = scipy.sparse.csr_matrix(digits)
        rates = np.linspace(1, 2, 10) / np.linspace(1, 2, 10).sum()
        model = br.AdjustedClassifier(LogisticRegression(max_iter=50, tol=1e-1)).fit(sparse, y).adapt(sparse, rates)
        np.testing.assert_allclose(model.predict_proba(sparse).mean(axis=0), rates, atol=1e-9)
        frame = pd.DataFrame(X, columns=list("abcd"))
        for rows in (frame, pl.DataFrame(frame)):
            named = br.AdjustedClassifier(LogisticRegression(max_iter=1000)).fit(rows, Y).adapt(rows, RATES)
            assert named.feature_names_in_.tolist() == list("abcd")
            np.testing.assert_allclose(named.predict_proba(rows).mean(axis=0), RATES, atol=1e-9)

    def test_inside_meta_estimators(self) -> None:
        model = br.AdjustedClassifier(LogisticRegression(max_iter=1000))
        p = cross_val_predict(model, X, Y, method="predict_proba", cv=3)
        np.testing.assert_array_equal(p, cross_val_predict(model.estimator, X, Y, method="predict_proba", cv=3))
        outside = CalibratedClassifierCV(model, cv=3).fit(X, Y)
        np.testing.assert_allclose(outside.predict_proba(X).sum(axis=1), 1)
        grid = GridSearchCV(model, {"estimator__C": [0.1, 1.0]}, cv=3).fit(X, Y)
        assert grid.best_estimator_.adapt(X, RATES).predict_proba(X).mean(axis=0) == pytest.approx(RATES)
        prior = br.AdjustedClassifier(LogisticRegression(max_iter=1000), method="prior")
        grid = GridSearchCV(prior, {"rates": [None, RATES]}, cv=3, scoring="neg_log_loss").fit(X, Y)
        assert grid.best_params_ == {"rates": None}  # the labels have equal class rates

    def test_sample_weight_is_used_by_fit_and_adapt(self) -> None:
        w = np.where(Y == 0, 5.0, 1.0)
        model = br.AdjustedClassifier(LogisticRegression(max_iter=1000)).fit(X, Y, sample_weight=w)
        plain = LogisticRegression(max_iter=1000).fit(X, Y, sample_weight=w)
        np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X))
        np.testing.assert_allclose(model.training_rates_, [5 / 7, 1 / 7, 1 / 7])
        new = np.random.default_rng(0).random(150)
        model.adapt(X, RATES, sample_weight=new)
        np.testing.assert_allclose(np.average(model.predict_proba(X), axis=0, weights=new), RATES, atol=1e-9)
        with config_context(enable_metadata_routing=True):
            inner = LogisticRegression(max_iter=1000).set_fit_request(sample_weight=True)
            routed = br.AdjustedClassifier(inner).set_fit_request(sample_weight=True)
            pipe = make_pipeline(FunctionTransformer(), routed).fit(X, Y, sample_weight=w)
        np.testing.assert_allclose(pipe.predict_proba(X), plain.predict_proba(X))

    @pytest.mark.parametrize(
        ("inner", "weight"),
        [
            (LogisticRegression(class_weight="balanced", max_iter=1000), "balanced"),
            (LogisticRegression(class_weight={0: 9.0, 1: 1.0}, max_iter=1000), {0: 9.0, 1: 1.0}),
            (make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced")), "balanced"),
            (RandomForestClassifier(10, class_weight="balanced_subsample", random_state=0), "balanced"),
            (CalibratedClassifierCV(LogisticRegression(class_weight="balanced", max_iter=1000)), None),
        ],
    )
    def test_training_rates_include_class_weights(self, inner: Any, weight: Any) -> None:
        x, y = load_breast_cancer(return_X_y=True)
        seen = np.bincount(y) / len(y)
        expected = {"balanced": np.array([0.5, 0.5]), None: seen}.get(weight if not isinstance(weight, dict) else "")
        if expected is None:
            expected = seen * [9, 1] / (seen @ [9, 1])
        model = br.AdjustedClassifier(inner).fit(StandardScaler().fit_transform(x), y)
        np.testing.assert_allclose(model.training_rates_, expected)

    def test_prior_recovers_true_probabilities_after_under_sampling_and_class_weights(self) -> None:
        # The true probabilities are known: two normal distributions, 2 % positive.
        rng = np.random.default_rng(0)
        y = rng.random(100_000) < 0.02
        x = rng.normal(2.0 * y)[:, None]
        truth = 1 / (1 + np.exp(2 - 2 * x[:, 0]) * 0.98 / 0.02)
        keep = y | (rng.random(len(y)) < 0.02)
        rates = [0.98, 0.02]
        sampled = br.AdjustedClassifier(LogisticRegression(), rates, method="prior").fit(x[keep], y[keep])
        weighted = br.AdjustedClassifier(LogisticRegression(class_weight="balanced"), rates, method="prior").fit(x, y)
        for model in (sampled, weighted):
            assert np.abs(model.estimator_.predict_proba(x)[:, 1] - truth).mean() > 0.1
            assert np.abs(model.predict_proba(x)[:, 1] - truth).mean() < 0.003
        given = br.AdjustedClassifier(LogisticRegression(), rates, method="prior", old_rates=[0.5, 0.5]).fit(
            x[keep], y[keep]
        )
        assert np.abs(given.predict_proba(x)[:, 1] - truth).mean() < 0.003

    @pytest.mark.parametrize(
        ("inner", "options"),
        [
            (LogisticRegression(class_weight="balanced"), {"sample_weight": True}),
            (RandomForestClassifier(20, class_weight="balanced", min_samples_leaf=100), {"sample_weight": True}),
            (SVC(probability=True, class_weight="balanced"), {}),
            (SVC(probability=True), {"sample_weight": True}),
            (BaggingClassifier(LogisticRegression(class_weight="balanced")), {"sample_weight": True}),
            (OneVsRestClassifier(LogisticRegression(class_weight="balanced")), {}),
            (FrozenEstimator(LogisticRegression().fit(X, Y == 1)), {}),
        ],
        ids=lambda value: type(value).__name__,
    )
    @pytest.mark.filterwarnings("ignore:The `probability` parameter")
    def test_unknown_training_rates_must_be_passed(self, inner: Any, options: dict[str, Any]) -> None:
        w = {"sample_weight": np.where(Y == 1, 5.0, 1.0)} if options else {}
        model = br.AdjustedClassifier(inner, method="prior").fit(X, Y == 1, **w)
        assert model.training_rates_ is None
        with pytest.raises(BadOption, match="pass them as old_rates="):
            model.adapt(rates=[0.9, 0.1])
        given = br.AdjustedClassifier(inner, [0.9, 0.1], method="prior", old_rates=[0.5, 0.5]).fit(X, Y == 1, **w)
        np.testing.assert_array_equal(given.training_rates_, [0.5, 0.5])

    def test_training_rates_from_priors_and_routed_weights(self) -> None:
        w, y = np.where(Y == 1, 5.0, 1.0), Y == 1
        with_priors = br.AdjustedClassifier(GaussianNB(priors=[0.5, 0.5])).fit(X, y)
        np.testing.assert_array_equal(with_priors.training_rates_, [0.5, 0.5])
        expected = [w[~y].sum() / w.sum(), w[y].sum() / w.sum()]
        pipe = br.AdjustedClassifier(make_pipeline(StandardScaler(), LogisticRegression()))
        np.testing.assert_allclose(pipe.fit(X, y, logisticregression__sample_weight=w).training_rates_, expected)
        np.testing.assert_allclose(pipe.fit(X, y, sample_weight=w).training_rates_, expected)
        grid = br.AdjustedClassifier(GridSearchCV(LogisticRegression(max_iter=1000), {"C": [1.0]}, cv=3))
        np.testing.assert_allclose(grid.fit(X, y, sample_weight=w).training_rates_, expected)
        with config_context(enable_metadata_routing=True):
            inner = LogisticRegression(max_iter=1000).set_fit_request(sample_weight=False)
            routed = br.AdjustedClassifier(inner).set_fit_request(sample_weight=True).fit(X, y, sample_weight=w)
        np.testing.assert_allclose(routed.training_rates_, [2 / 3, 1 / 3])

    @pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
    def test_training_rates_include_scale_pos_weight(self, name: str) -> None:
        if name not in MODELS:
            pytest.skip(f"{name} is not installed")
        model = br.AdjustedClassifier(clone(MODELS[name]).set_params(scale_pos_weight=2.0)).fit(X, Y == 1)
        np.testing.assert_allclose(model.training_rates_, [0.5, 0.5])

    def test_prior_method_needs_no_rows(self, tmp_path: Path) -> None:
        model = br.AdjustedClassifier(LogisticRegression(max_iter=1000), method="prior").fit(X, Y).adapt(rates=RATES)
        by_hand = br.prior_adjust(model.estimator_.predict_proba(X), [1 / 3] * 3, RATES).probs
        np.testing.assert_allclose(model.predict_proba(X), by_hand, atol=1e-12)
        assert "nothing is guaranteed, because the adjustment was made without rows" in repr(model.adjustment_)
        model.adjustment_.save(tmp_path / "shift.json")
        assert np.isnan(br.load(tmp_path / "shift.json").certificate.loss_reduction)

    def test_adjustment_fitted_on_logits_can_be_used(self) -> None:
        model = fitted()
        logits = np.log(model.predict_proba(X))
        model.adapt(adjustment=br.adjust(logits, RATES, from_logits=True, classes=[0, 1, 2]))
        np.testing.assert_allclose(model.predict_proba(X).mean(axis=0), RATES, atol=1e-9)
        with pytest.raises(BadOption, match="not both"):
            model.adapt(X, RATES, adjustment=model.adjustment_)

    def test_saved_adjustment_can_be_used(self, tmp_path: Path) -> None:
        model = br.AdjustedClassifier(LogisticRegression(max_iter=1000)).fit(X, Y).adapt(X[shifted()], RATES)
        model.adjustment_.save(tmp_path / "shift.json")
        other = br.AdjustedClassifier(LogisticRegression(max_iter=1000)).fit(X, Y)
        other.adapt(adjustment=tmp_path / "shift.json")
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
        other.adapt(adjustment=br.load(tmp_path / "shift.json"))
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
        named = br.AdjustedClassifier(LogisticRegression(max_iter=1000)).fit(X, np.array(list("abc"))[Y])
        with pytest.raises(
            BadOption, match="for the classes 0, 1, 2, but the classifier has the classes 'a', 'b', 'c'"
        ):
            named.adapt(adjustment=tmp_path / "shift.json")

    @pytest.mark.parametrize("rates", [RATES, br.Rates.between(0.2, 0.5), br.Rates.from_counts([5, 3, 2])])
    def test_fitted_estimators_survive_joblib_and_skops(self, rates: Any) -> None:
        model = br.AdjustedClassifier(LogisticRegression(max_iter=1000), rates).fit(X, Y).adapt(X)
        adjuster = br.Adjuster(rates).fit(model.estimator_.predict_proba(X))
        for estimator, predict in (
            (model, lambda m: m.predict_proba(X)),
            (adjuster, lambda m: m.transform(model.predict_proba(X))),
        ):
            buffer = io.BytesIO()
            joblib.dump(estimator, buffer)
            buffer.seek(0)
            np.testing.assert_array_equal(predict(joblib.load(buffer)), predict(estimator))
            data = skops.io.dumps(estimator)
            types = skops.io.get_untrusted_types(data=data)
            assert all(name.startswith("baserate.") for name in types)
            np.testing.assert_array_equal(predict(skops.io.loads(data, trusted=types)), predict(estimator))

    def test_warning_if_there_are_rates_but_adapt_was_not_called(self) -> None:
        model = br.AdjustedClassifier(LogisticRegression(max_iter=1000), RATES).fit(X, Y)
        for predict in (model.predict_proba, model.predict, model.decision_function):
            with pytest.warns(NotAdaptedWarning, match=r"these predictions are not adjusted: call adapt\(X\)"):
                predict(X)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.adapt(X).predict_proba(X)

    def test_fitting_again_removes_the_adjustment(self) -> None:
        model = br.AdjustedClassifier(LogisticRegression(max_iter=1000)).fit(X, Y).adapt(X, RATES)
        assert model.fit(X, Y).adjustment_ is None
        assert clone(model).estimator is not model.estimator


BAD: list[tuple[Any, type[Exception], str]] = [
    (lambda: br.AdjustedClassifier(RidgeClassifier()).fit(X, Y), BadOption, "RidgeClassifier has no predict_proba"),
    (
        lambda: br.AdjustedClassifier(LogisticRegression(), method="bga").fit(X, Y),
        BadOption,
        "method must be 'adjust' or 'prior', not 'bga'",
    ),
    (lambda: br.AdjustedClassifier(LogisticRegression()).adapt(X, RATES), NotFittedError, "not fitted yet"),
    (lambda: fitted().adapt(X), BadRates, "adapt needs the class rates of the target population"),
    (lambda: fitted().adapt(rates=RATES), BadOption, "adapt needs rows of the target population"),
    (lambda: fitted().adapt(X, [0.5, 0.5]), BadRates, "must be 3 numbers"),
    (
        lambda: fitted().adapt(X, {0: 0.5, 1: 0.3, 7: 0.2}),
        BadRates,
        "no entry for 2 (it has 0, 1, 7); 7 is not among the classes 0, 1, 2",
    ),
    (lambda: fitted().adapt(X[:, :2], RATES), ValueError, "X has 2 features, but LogisticRegression is expecting 4"),
    (lambda: fitted().adapt(X, RATES).predict_proba(X[:, :3]), ValueError, "X has 3 features"),
    (
        lambda: br.AdjustedClassifier(FrozenEstimator(LogisticRegression(max_iter=1000).fit(X, Y))).fit(X, Y + 1),
        br.errors.BadLabels,
        "y contains the classes 3, which the fitted classifier does not have",
    ),
    (
        lambda: br.AdjustedClassifier(CalibratedClassifierCV(RidgeClassifier())).fit(X, Y, sample_weight=[1, 2]),
        ValueError,
        "sample_weight",
    ),
    (lambda: br.Adjuster([0.4, 0.3, 0.2, 0.1]).fit(X), br.errors.BadProbabilities, "do not sum to 1"),
    (lambda: br.Adjuster(RATES).fit([[0.5, 0.5]]), BadRates, "must be 2 numbers"),
    (lambda: br.Adjuster(RATES).transform([[0.2, 0.3, 0.5]]), NotFittedError, "not fitted yet"),
]


def fitted() -> Any:
    return br.AdjustedClassifier(LogisticRegression(max_iter=1000)).fit(X, Y)


@pytest.mark.parametrize(("call", "error", "message"), BAD, ids=[case[2][:40] for case in BAD])
def test_bad_input_is_an_error(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()
