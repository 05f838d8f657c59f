"""The class rates for which the classifier inside AdjustedClassifier was trained, and the check of its predictions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import RFE
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tool_support import load_tool

import baserate as br
from baserate.errors import BadOption, TrainingRatesWarning

table = load_tool("training_rates_table")
BALANCED = LogisticRegression(class_weight="balanced")


def rows(n: int = 4000, rates: tuple[float, ...] = (0.9, 0.1), seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = rng.choice(len(rates), n, p=rates)
    return rng.normal(size=(n, 3)) + 1.5 * np.eye(len(rates), 3)[y], y


def training_rates(classifier: Any, y: Any = None, **weights: Any) -> Any:
    """What AdjustedClassifier finds, without the check."""
    x, labels = rows()
    return br.AdjustedClassifier(classifier).fit(x, labels if y is None else y, **weights).training_rates_


class HiddenSampler(ClassifierMixin, BaseEstimator):
    """A classifier that drops most rows of class 0 and does not tell."""

    def fit(self, x: Any, y: Any) -> HiddenSampler:
        self.classes_ = np.unique(y)
        keep = (y == 1) | (np.arange(len(y)) % 9 == 0)
        self.model_ = LogisticRegression().fit(x[keep], y[keep])
        return self

    def predict_proba(self, x: Any) -> Any:
        return self.model_.predict_proba(x)


def build(name: str) -> Any:
    try:
        return table.CASES[name]()
    except ImportError as error:
        pytest.skip(f"{error.name} is not installed")


@pytest.mark.parametrize("name", list(table.CASES))
def test_prior_method_corrects_classifiers_that_weight_or_sample_the_classes(name: str) -> None:
    one = table.outcome(build(name), n=5000)
    assert one.before > 0.25
    assert one.after == pytest.approx(table.RATE, abs=0.0125)
    assert one.verdict == "corrected"


def test_the_table_of_training_rates_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    def missing() -> Any:
        raise ImportError

    chosen = {"missing": missing, "pipeline": table.weighted_pipeline, "hidden": lambda: HiddenSampler()}
    monkeypatch.setattr(table, "CASES", chosen)
    monkeypatch.setattr(table, "labelled_rows", lambda n, seed: rows(n, (0.95, 0.05), seed))
    table.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["pipeline", "hidden"]
    assert lines[2].endswith("| 0.050 | corrected |")
    assert lines[3].endswith("| warned |")


def test_unknown_sampling_is_noticed_by_the_predictions() -> None:
    x, y = rows()
    expected = (
        r"HiddenSampler do not agree .*the rate of class [01] is 0\.[19]\d*, but the mean prediction on the training "
        r"rows, weighted to these rates, is 0\.\d+\..* as old_rates="
    )
    with pytest.warns(TrainingRatesWarning, match=expected):
        br.AdjustedClassifier(HiddenSampler(), method="prior").fit(x, y)
    # Rates that the caller states are not checked, and "adjust" does not need the training rates.
    known = br.AdjustedClassifier(HiddenSampler(), [0.9, 0.1], method="prior", old_rates=[0.5, 0.5]).fit(x, y)
    assert known.predict_proba(x)[:, 1].mean() == pytest.approx(0.1, abs=0.01)
    br.AdjustedClassifier(HiddenSampler()).fit(x, y)


def test_the_warning_points_at_the_line_of_the_caller() -> None:
    x, y = rows()
    with pytest.warns(TrainingRatesWarning) as caught:
        br.AdjustedClassifier(HiddenSampler(), method="prior").fit(x, y)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "classifier",
    [
        LogisticRegression(C=1e-3),
        make_pipeline(StandardScaler(), BALANCED),
        LogisticRegression(class_weight={1: 20.0}),
        RandomForestClassifier(20, class_weight="balanced", random_state=0),
        RandomForestClassifier(20, min_samples_leaf=50, random_state=0),
        HistGradientBoostingClassifier(max_iter=5, class_weight="balanced"),
        DecisionTreeClassifier(),
        GaussianNB(),
        LinearDiscriminantAnalysis(priors=[0.5, 0.5]),
        CalibratedClassifierCV(AdaBoostClassifier(n_estimators=5)),
        BaggingClassifier(BALANCED, random_state=0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("n", [60, 2000])
def test_ordinary_classifiers_cause_no_warning(classifier: Any, n: int) -> None:
    x, y = rows(n)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TrainingRatesWarning)
        model = br.AdjustedClassifier(classifier, [0.7, 0.3], method="prior").fit(x, y)
    assert model.adjustment_ is not None


def test_an_uncalibrated_classifier_causes_a_warning() -> None:
    x, y = rows()
    with pytest.warns(TrainingRatesWarning, match="AdaBoostClassifier do not agree"):
        br.AdjustedClassifier(AdaBoostClassifier(n_estimators=20), method="prior").fit(x, y)


def test_row_weights_are_used_in_the_check() -> None:
    x, y = rows()
    w = np.where(y == 1, 9.0, 1.0)
    model = br.AdjustedClassifier(LogisticRegression(), [0.9, 0.1], method="prior").fit(x, y, sample_weight=w)
    assert model.training_rates_[1] == pytest.approx(0.5, abs=0.02)
    assert model.predict_proba(x)[:, 1].mean() == pytest.approx(0.1, abs=0.01)


class TestEnsembles:
    @pytest.mark.parametrize(
        "classifier",
        [
            BaggingClassifier(BALANCED, random_state=0),
            BaggingClassifier(make_pipeline(StandardScaler(), BALANCED), max_samples=0.2, random_state=0),
            VotingClassifier([("a", BALANCED), ("b", make_pipeline(StandardScaler(), BALANCED))], voting="soft"),
            StackingClassifier([("a", LogisticRegression())], final_estimator=BALANCED),
            FixedThresholdClassifier(BALANCED, threshold=0.3),
            RFE(BALANCED, n_features_to_select=2),
            GridSearchCV(make_pipeline(StandardScaler(), BALANCED), {"logisticregression__C": [1.0]}, cv=2),
        ],
        ids=lambda one: type(one).__name__,
    )
    def test_class_weights_inside_are_found(self, classifier: Any) -> None:
        np.testing.assert_allclose(training_rates(classifier), [0.5, 0.5])

    @pytest.mark.parametrize(
        "classifier",
        [
            BaggingClassifier(LogisticRegression(), random_state=0),
            VotingClassifier([("a", LogisticRegression()), ("b", GaussianNB())], voting="soft"),
            StackingClassifier([("a", BALANCED)], final_estimator=LogisticRegression()),
            CalibratedClassifierCV(BALANCED),
        ],
        ids=lambda one: type(one).__name__,
    )
    def test_without_weights_the_rates_are_those_of_the_labels(self, classifier: Any) -> None:
        np.testing.assert_allclose(training_rates(classifier), np.bincount(rows()[1]) / 4000)

    def test_members_trained_for_different_rates_have_no_common_rates(self) -> None:
        members = [("a", BALANCED), ("b", LogisticRegression())]
        assert training_rates(VotingClassifier(members, voting="soft")) is None

    @pytest.mark.parametrize(
        "classifier", [BaggingClassifier(BALANCED), AdaBoostClassifier(DecisionTreeClassifier(class_weight={1: 3.0}))]
    )
    def test_unsupported_combinations_are_not_guessed(self, classifier: Any) -> None:
        assert training_rates(classifier, sample_weight=np.ones(4000)) is None

    def test_class_names_are_numbers_inside_an_ensemble(self) -> None:
        weighted = LogisticRegression(class_weight={0: 1.0, 1: 9.0})
        names = np.array(["no", "yes"])[rows()[1]]
        expected = training_rates(weighted)
        np.testing.assert_allclose(training_rates(BaggingClassifier(weighted), names), expected, atol=0.02)
        voting = VotingClassifier([("a", weighted)], voting="soft")
        np.testing.assert_allclose(training_rates(voting, names), expected)


class TestImbalancedLearn:
    SAMPLERS = (
        *("RandomUnderSampler", "NearMiss", "TomekLinks", "EditedNearestNeighbours", "ClusterCentroids"),
        *("RandomOverSampler", "SMOTE", "BorderlineSMOTE", "ADASYN", "SMOTEENN", "SMOTETomek"),
        *("OneSidedSelection", "NeighbourhoodCleaningRule", "SVMSMOTE"),
    )

    @staticmethod
    def sampler(name: str, **options: Any) -> Any:
        pytest.importorskip("imblearn")
        from imblearn import combine, over_sampling, under_sampling

        modules = (combine, over_sampling, under_sampling)
        kind = next(getattr(module, name) for module in modules if hasattr(module, name))
        seed = {"random_state": 0} if "random_state" in kind().get_params() else {}
        return kind(**seed, **options)

    @pytest.mark.filterwarnings("ignore")  # of the samplers, about their parameters
    @pytest.mark.parametrize("name", SAMPLERS)
    def test_rates_are_those_of_the_sampled_labels(self, name: str) -> None:
        sampler = self.sampler(name)
        from imblearn.pipeline import make_pipeline as make_sampling_pipeline

        x, y = rows(600, (0.7, 0.2, 0.1))
        if name in ("SMOTE", "ClusterCentroids", "TomekLinks"):  # some others take only numbers
            y = np.array(["b", "a", "c"])[y]
        pipeline = make_sampling_pipeline(StandardScaler(), sampler, LogisticRegression())
        model = br.AdjustedClassifier(pipeline).fit(x, y)
        _, sampled = self.sampler(name).fit_resample(StandardScaler().fit_transform(x), y)
        expected = [np.mean(sampled == label) for label in model.classes_]
        assert not np.allclose(expected, [np.mean(y == label) for label in model.classes_], atol=1e-3)
        np.testing.assert_allclose(model.training_rates_, expected, atol=0.005)

    def test_rates_after_two_samplers_and_class_weights(self) -> None:
        over = self.sampler("RandomOverSampler", sampling_strategy=0.25)
        under = self.sampler("RandomUnderSampler", sampling_strategy=0.5)
        from imblearn.pipeline import make_pipeline as make_sampling_pipeline

        pipeline = make_sampling_pipeline(over, under, LogisticRegression(class_weight={1: 3.0}))
        np.testing.assert_allclose(training_rates(pipeline), [0.4, 0.6], atol=1e-3)  # 2 : 1, and 3 times the positives

    def test_unknown_samplers_ask_for_old_rates(self) -> None:
        imblearn = pytest.importorskip("imblearn")
        from imblearn.pipeline import make_pipeline as make_sampling_pipeline

        pipeline = make_sampling_pipeline(imblearn.FunctionSampler(), LogisticRegression())
        with pytest.raises(
            BadOption, match=r"weights or samples the classes in an unknown way; pass them as old_rates="
        ):
            br.AdjustedClassifier(pipeline, [0.9, 0.1], method="prior").fit(*rows())

    @pytest.mark.parametrize("name", ["BalancedRandomForestClassifier", "RUSBoostClassifier", "EasyEnsembleClassifier"])
    def test_balanced_ensembles_are_trained_for_the_rates_of_their_strategy(self, name: str) -> None:
        ensemble = pytest.importorskip("imblearn.ensemble")
        classifier = getattr(ensemble, name)(n_estimators=5, sampling_strategy=0.25, random_state=0)
        np.testing.assert_allclose(training_rates(classifier), [0.8, 0.2], atol=1e-2)

    def test_balanced_forest_with_class_weights(self) -> None:
        ensemble = pytest.importorskip("imblearn.ensemble")
        forest = ensemble.BalancedRandomForestClassifier(5, class_weight={0: 3.0, 1: 1.0}, random_state=0)
        np.testing.assert_allclose(training_rates(forest), [0.75, 0.25])

    def test_balanced_bagging_with_another_sampler(self) -> None:
        ensemble = pytest.importorskip("imblearn.ensemble")
        over = self.sampler("RandomOverSampler")
        bagging = ensemble.BalancedBaggingClassifier(LogisticRegression(), sampler=over, random_state=0)
        np.testing.assert_allclose(training_rates(bagging), [0.5, 0.5])


class TestBoosting:
    @pytest.mark.parametrize(
        ("options", "ratio"),
        [
            ({}, 1.0),
            ({"class_weights": [1.0, 4.0]}, 4.0),
            ({"class_weights": {0: 1.0, 1: 4.0}}, 4.0),
            ({"scale_pos_weight": 3.0}, 3.0),
            ({"auto_class_weights": "SqrtBalanced"}, None),
        ],
        ids=str,
    )
    def test_catboost_weights(self, options: dict[str, Any], ratio: float | None) -> None:
        catboost = pytest.importorskip("catboost")
        classifier = catboost.CatBoostClassifier(3, verbose=False, allow_writing_files=False, thread_count=1, **options)
        negatives, positives = np.bincount(rows()[1])
        ratio = np.sqrt(negatives / positives) if ratio is None else ratio
        expected = positives * ratio / (negatives + positives * ratio)
        assert training_rates(classifier)[1] == pytest.approx(expected)

    @pytest.mark.parametrize("options", [{"is_unbalance": True}, {"unbalance": True}, {"class_weight": "balanced"}])
    def test_lightgbm_weights(self, options: dict[str, Any]) -> None:
        lightgbm = pytest.importorskip("lightgbm")
        classifier = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1, **options)
        np.testing.assert_allclose(training_rates(classifier), [0.5, 0.5])
        bagging = BaggingClassifier(classifier, 2, random_state=0)
        np.testing.assert_allclose(training_rates(bagging), [0.5, 0.5])

    def test_lightgbm_ignores_is_unbalance_for_more_than_two_classes_unless_one_is_compared_with_all(self) -> None:
        lightgbm = pytest.importorskip("lightgbm")
        y = rows(rates=(0.7, 0.2, 0.1))[1]
        options = {"n_estimators": 3, "verbose": -1, "n_jobs": 1, "is_unbalance": True}
        np.testing.assert_allclose(training_rates(lightgbm.LGBMClassifier(**options), y), np.bincount(y) / 4000)
        assert training_rates(lightgbm.LGBMClassifier(objective="multiclassova", **options), y) is None
