"""Rates per group in scikit-learn: the transformer, the classifier, and metadata routing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import baserate as br
from baserate.errors import BadGroups, BadOption

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 2))
Y = (X[:, 0] + RNG.normal(size=600) > 0).astype(int)
SITE = np.where(RNG.random(600) < 0.5, "a", "b")
RATES = br.Rates.by("site", {"a": 0.2, "b": 0.7})
MODEL = LogisticRegression().fit(X, Y)
PROBS = MODEL.predict_proba(X)
ADJUSTED = br.adjust(PROBS, RATES, groups=SITE).probs


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_the_transformer_takes_groups() -> None:
    adjuster = br.Adjuster(RATES).fit(PROBS, groups=SITE)
    np.testing.assert_allclose(adjuster.transform(PROBS, groups=SITE), ADJUSTED, atol=1e-12)
    np.testing.assert_allclose(br.Adjuster(RATES).fit_transform(PROBS, groups=SITE), ADJUSTED, atol=1e-12)
    with pytest.raises(BadGroups, match="it is not known to which group each row belongs"):
        adjuster.transform(PROBS)
    with pytest.raises(BadGroups, match="were not there in the fit"):
        adjuster.transform(PROBS[:1], groups=["c"])
    pooled = clone(adjuster).set_params(unseen="pooled").fit(PROBS, groups=SITE)
    assert pooled.transform(PROBS[:1], groups=["c"]).shape == (1, 2)


def test_groups_are_refused_where_the_rates_are_not_per_group() -> None:
    adjuster = br.Adjuster([0.5, 0.5]).fit(PROBS)
    with pytest.raises(BadOption, match="has one shift for all rows"):
        adjuster.transform(PROBS, groups=SITE)


def test_groups_reach_the_transformer_by_metadata_routing(routing: None) -> None:
    adjuster = br.Adjuster(RATES).set_fit_request(groups=True).set_transform_request(groups=True)
    pipe = make_pipeline(adjuster)
    np.testing.assert_allclose(pipe.fit(PROBS, groups=SITE).transform(PROBS, groups=SITE), ADJUSTED, atol=1e-12)


def test_the_classifier_adapts_each_group() -> None:
    model = br.AdjustedClassifier(FrozenEstimator(MODEL)).adapt(X, RATES, groups=SITE)
    np.testing.assert_allclose(model.predict_proba(X, groups=SITE), ADJUSTED, atol=1e-12)
    assert isinstance(model.adjustment_, br.GroupedAdjustment)
    np.testing.assert_array_equal(model.predict(X, groups=SITE), ADJUSTED.argmax(axis=1))
    np.testing.assert_allclose(model.predict_log_proba(X, groups=SITE), np.log(ADJUSTED))
    odds = np.log(ADJUSTED[:, 1] / ADJUSTED[:, 0])
    np.testing.assert_allclose(model.decision_function(X, groups=SITE), odds)
    with pytest.raises(BadGroups):
        model.predict_proba(X)


def test_the_classifier_finds_the_groups_among_its_features() -> None:
    frame = pd.DataFrame(X, columns=["u", "v"]).assign(site=(SITE == "b").astype(float))
    inner = LogisticRegression().fit(frame, Y)
    rates = br.Rates.by("site", {0.0: 0.2, 1.0: 0.7})
    model = br.AdjustedClassifier(FrozenEstimator(inner), rates).adapt(frame)
    means = pd.Series(model.predict_proba(frame)[:, 1]).groupby(SITE).mean()
    np.testing.assert_allclose(means, [0.2, 0.7], atol=1e-9)


def test_groups_reach_predict_by_metadata_routing(routing: None) -> None:
    model = br.AdjustedClassifier(FrozenEstimator(MODEL)).set_predict_proba_request(groups=True)
    model.adapt(X, RATES, groups=SITE)
    pipe = make_pipeline(model)
    np.testing.assert_allclose(pipe.predict_proba(X, groups=SITE), ADJUSTED, atol=1e-12)


def test_an_adjustment_with_groups_can_be_passed_on() -> None:
    fitted = br.adjust(PROBS, RATES, groups=SITE)
    model = br.AdjustedClassifier(FrozenEstimator(MODEL)).adapt(adjustment=fitted)
    np.testing.assert_allclose(model.predict_proba(X, groups=SITE), ADJUSTED, atol=1e-12)
