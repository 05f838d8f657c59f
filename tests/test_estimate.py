"""Estimates of unknown class rates: coverage by simulation, refusals, all kinds of input, and their use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

import baserate as br
from baserate.engines import open_rows
from baserate.errors import AssumptionRefuted, BadFile, BadLabels, BadRates
from baserate.estimation.batch import Batch
from baserate.estimation.calibration import calibrated, logarithms
from baserate.estimation.exact import exact_bounds
from baserate.estimation.moments import nearest_in_simplex
from baserate.estimation.shares import largest_misfit
from baserate.estimation.validation import row_model
from baserate.inputs.reading import Reading
from baserate.inputs.row_source import RowSource

Array = NDArray[Any]
NAMES = ["ant", "bee", "cat"]


def scored(y: Array, k: int, rng: np.random.Generator, signal: float = 2.0) -> Array:
    """Predictions of a classifier that is over-confident, with the same distribution in each class."""
    z = rng.normal(size=(len(y), k))
    z[np.arange(len(y)), y] += signal
    p = np.exp(1.5 * signal * z)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def shifted(
    seed: int, rates: Any, n_validation: int = 600, n: int = 1500, **options: Any
) -> tuple[Array, Array, Array, Array]:
    """Validation predictions with equal rates, their labels, the batch, and its labels."""
    rng, k = np.random.default_rng(seed), len(rates)
    y_val, y = rng.integers(k, size=n_validation), rng.choice(k, n, p=rates)
    return scored(y_val, k, rng, **options), y_val, scored(y, k, rng, **options), y


@pytest.mark.parametrize("rates", [[0.9, 0.1], [0.05, 0.25, 0.7], [0.02, 0.03, 0.05, 0.2, 0.7]])
def test_the_set_contains_the_realised_rates_as_often_as_stated(rates: list[float]) -> None:
    covered, refuted = [], 0
    for seed in range(150):
        p_val, y_val, p_new, y = shifted(seed, rates, 300, 400)
        found = br.estimate(p_new, probs_val=p_val, y_val=y_val, on_refuted="everything")
        refuted += found.refuted
        covered.append(found.contains(np.bincount(y, minlength=len(rates)) / len(y)))
    assert np.mean(covered) >= 0.92
    assert refuted <= 6


def test_the_exact_method_covers_and_is_wider() -> None:
    covered, widths = [], {"exact": 0.0, "moments": 0.0}
    for seed in range(60):
        p_val, y_val, p_new, y = shifted(seed, [0.1, 0.9], 60, 80)
        for method in widths:
            found = br.estimate(p_new, probs_val=p_val, y_val=y_val, method=method, on_refuted="everything")
            low, high = found.bounds()
            widths[method] += float((high - low).mean())
            if method == "exact":
                covered.append(found.contains(np.bincount(y, minlength=2) / len(y)))
    assert np.mean(covered) >= 0.95
    assert widths["exact"] > widths["moments"]


def test_more_validation_rows_and_more_rows_give_narrower_sets() -> None:
    def width(n_validation: int, n: int) -> float:
        p_val, y_val, p_new, _ = shifted(0, [0.2, 0.3, 0.5], n_validation, n)
        low, high = br.estimate(p_new, probs_val=p_val, y_val=y_val).bounds()
        return float((high - low).mean())

    assert width(5000, 5000) < width(500, 5000) < width(500, 100)
    assert width(5000, 5000) < width(5000, 300)


def test_adjusting_to_the_set_lowers_the_loss_by_at_least_the_guaranteed_amount() -> None:
    for seed in range(10):
        p_val, y_val, p_new, y = shifted(seed, [0.05, 0.25, 0.7])
        rates = br.estimate(p_new, probs_val=p_val, y_val=y_val)
        result = br.adjust(p_new, rates)
        if not rates.contains(np.bincount(y, minlength=3) / len(y)):
            continue
        at = np.arange(len(y))
        fall = np.log(result.probs[at, y] / p_new[at, y]).mean()
        assert fall >= result.certificate.loss_reduction - 1e-12
        assert result.certificate.loss_reduction > 0.01


def test_a_change_within_the_classes_is_refuted() -> None:
    p_val, y_val, _, y = shifted(0, [0.2, 0.3, 0.5])
    blurred = scored(y, 3, np.random.default_rng(1), signal=0.8)
    with pytest.raises(AssumptionRefuted, match=r"p-value .* labelled=.* on_refuted='everything'") as caught:
        br.estimate(blurred, probs_val=p_val, y_val=y_val)
    assert caught.value.p_value is not None
    assert caught.value.p_value < 0.01
    everything = br.estimate(blurred, probs_val=p_val, y_val=y_val, on_refuted="everything")
    np.testing.assert_array_equal(everything.bounds(), [[0.0] * 3, [1.0] * 3])
    np.testing.assert_allclose(br.adjust(blurred, everything).probs, blurred, rtol=1e-14)
    assert "was refuted" in str(everything)


def test_rates_that_no_class_rates_explain_are_refuted() -> None:
    rng = np.random.default_rng(0)
    y_val = rng.integers(2, size=1000)
    p_val = np.where(rng.random(1000) < 0.6, y_val, 1 - y_val)  # predictions that are right in 60 % of the rows
    p_new = np.full(1000, 1)  # but the batch is all of one kind, which no class rates give
    for method in ("moments", "exact"):
        with pytest.raises(AssumptionRefuted):
            br.estimate(0.1 + 0.8 * p_new, probs_val=0.1 + 0.8 * p_val, y_val=y_val, method=method)


@pytest.mark.parametrize("method", ["moments", "exact"])
@pytest.mark.parametrize("k", [2, 3])
def test_equal_predictions_are_refuted_if_those_of_the_validation_data_are_spread(k: int, method: str) -> None:
    p_val, y_val, p_new, _ = shifted(0, np.full(k, 1 / k))
    for row in p_new[np.random.default_rng(1).integers(len(p_new), size=20)]:
        with pytest.raises(AssumptionRefuted):
            br.estimate(np.tile(row, (500, 1)), probs_val=p_val, y_val=y_val, method=method)


def test_the_message_about_the_spread_names_the_predictions_and_both_shares() -> None:
    p_val, y_val, _, _ = shifted(0, [0.5, 0.5])
    middle = float(np.quantile(p_val[:, 1], 0.45))
    with pytest.raises(AssumptionRefuted, match=r"100 % of the batch .* for class 1, but no class .* more than") as one:
        br.estimate(np.full(500, middle), probs_val=p_val[:, 1], y_val=y_val)
    assert one.value.p_value is not None
    assert one.value.p_value < 0.001
    extremes = p_val[np.abs(p_val[:, 1] - 0.5) > 0.4]  # no doubtful predictions, which every class has
    with pytest.raises(AssumptionRefuted, match="p-value"):
        br.estimate(np.tile(extremes, (20, 1)), probs_val=p_val, y_val=y_val)


def test_the_test_of_the_spread_rarely_refutes_label_shift() -> None:
    rng, refuted = np.random.default_rng(0), 0
    for seed in range(300):
        p_val, y_val, p_new, _ = shifted(seed, rng.dirichlet(np.ones(3)), n_validation=60, n=40)
        batch = Batch.of(open_rows(RowSource(probs=p_new)), row_model(3, Reading()))
        refuted += largest_misfit(batch, logarithms(p_val), y_val).p_value < 0.05
    assert refuted <= 300 * 0.05


def test_classes_without_validation_rows_may_have_any_rate() -> None:
    p_val, y_val, p_new, _ = shifted(0, [0.2, 0.3, 0.5])
    seen = y_val != 2
    rates = br.estimate(p_new, probs_val=p_val[seen], y_val=y_val[seen])
    assert rates.method == "exact"
    assert rates.bounds()[1][2] == 1
    with pytest.raises(BadLabels, match="class 2 has 0 validation rows"):
        br.estimate(p_new, probs_val=p_val[seen], y_val=y_val[seen], method="moments")


def test_another_batch_is_refused() -> None:
    p_val, y_val, p_new, _ = shifted(0, [0.2, 0.3, 0.5])
    rates = br.estimate(p_new, probs_val=p_val, y_val=y_val)
    with pytest.raises(BadRates, match="batch of 1,500 rows, but are used for 600"):
        br.adjust(p_val, rates)
    other = shifted(1, [0.7, 0.2, 0.1])[2]
    with pytest.raises(BadRates, match="estimated for other predictions"):
        br.adjust(other, rates)
    assert br.adjust(other, rates.without_batch()).converged
    np.testing.assert_allclose(br.adjust(p_new, rates, zeros=1e-7).rates, br.adjust(p_new, rates).rates, atol=1e-3)


def test_columns_and_labels_are_matched_by_name() -> None:
    p_val, y_val, p_new, _ = shifted(0, [0.2, 0.3, 0.5])
    expected = br.estimate(p_new, probs_val=p_val, y_val=y_val)
    new, val = pd.DataFrame(p_new, columns=NAMES), pd.DataFrame(p_val, columns=NAMES)[["cat", "ant", "bee"]]
    labels = np.array(NAMES)[y_val]
    found = br.estimate(new, probs_val=val, y_val=labels)
    np.testing.assert_allclose(found.estimate(), expected.estimate())
    np.testing.assert_allclose(found.bounds(), expected.bounds())
    in_frame = br.estimate(new, probs_val=val.assign(y=labels), y_val="y")
    np.testing.assert_allclose(in_frame.bounds(), expected.bounds())
    reordered = br.adjust(new[["bee", "cat", "ant"]], found).probs[NAMES].to_numpy()
    np.testing.assert_allclose(reordered, br.adjust(p_new, expected).probs, atol=1e-9)


def test_one_number_per_row_means_the_positive_class() -> None:
    p_val, y_val, p_new, _ = shifted(0, [0.7, 0.3])
    two = br.estimate(p_new, probs_val=p_val, y_val=y_val)
    one = br.estimate(p_new[:, 1], probs_val=p_val[:, 1], y_val=y_val.astype(bool))
    np.testing.assert_allclose(one.bounds(), two.bounds())
    assert br.adjust(p_new[:, 1], one).probs.shape == (1500,)


def test_files_and_dask_give_the_same_sets(tmp_path: Path) -> None:
    import dask.array as da
    import dask.dataframe as dd

    p_val, y_val, p_new, _ = shifted(0, [0.2, 0.3, 0.5])
    columns = [f"p_{name}" for name in NAMES]
    new = pd.DataFrame(p_new, columns=columns).assign(id=range(len(p_new)))
    val = pd.DataFrame(p_val, columns=columns).assign(y=np.array(NAMES)[y_val])
    for part in range(3):
        new.iloc[part * 500 : (part + 1) * 500].to_parquet(tmp_path / f"new{part}.parquet")
    val[["y", *columns[::-1]]].to_csv(tmp_path / "val.csv", index=False)
    expected = br.estimate(p_new, probs_val=p_val, y_val=y_val).bounds()
    files = br.estimate(str(tmp_path / "new*.parquet"), probs_val=tmp_path / "val.csv", y_val="y")
    assert files.classes == tuple(NAMES)
    np.testing.assert_allclose(files.bounds(), expected, atol=1e-9)
    lazy = br.estimate(da.from_array(p_new, chunks=(400, 3)), probs_val=p_val, y_val=y_val)
    np.testing.assert_allclose(lazy.bounds(), expected, atol=1e-9)
    frame = dd.from_pandas(new[columns], npartitions=4)
    partitioned = br.estimate(frame, probs_val=val, y_val="y", classes=NAMES, columns=columns)
    np.testing.assert_allclose(partitioned.bounds(), expected, atol=1e-9)


def test_logits_give_the_same_sets_as_probabilities() -> None:
    p_val, y_val, p_new, _ = shifted(0, [0.2, 0.3, 0.5])
    plain = br.estimate(p_new, probs_val=p_val, y_val=y_val)
    logits = br.estimate(np.log(p_new) + 3, probs_val=np.log(p_val) - 1, y_val=y_val, from_logits=True)
    np.testing.assert_allclose(logits.bounds(), plain.bounds(), atol=1e-9)


def test_the_text_states_the_condition_and_the_test() -> None:
    p_val, y_val, p_new, _ = shifted(0, [0.2, 0.3, 0.5])
    rates = br.estimate(p_new, probs_val=p_val, y_val=y_val, confidence=0.9)
    assert rates.certainty == 0.9
    assert rates.condition().startswith(
        "with about 90 % confidence, if predictions within each class are distributed as in the validation data (not "
        "refuted, p = "
    )
    assert str(rates).startswith("Rates estimated for a batch of 1,500 rows from 600 labelled rows: class 0 ")
    html = rates._repr_html_()
    assert "at most" in html
    assert rates.condition() in str(br.adjust(p_new, rates))


def test_estimates_can_be_saved(tmp_path: Path) -> None:
    p_val, y_val, p_new, _ = shifted(0, [0.2, 0.3, 0.5])
    rates = br.estimate(p_new, probs_val=p_val, y_val=np.array(NAMES)[y_val], classes=NAMES)
    rates.save(tmp_path / "rates.json")
    loaded = br.Rates.load(tmp_path / "rates.json")
    assert str(loaded) == str(rates) == str(br.Rates.parse(str(tmp_path / "rates.json")))
    result = br.adjust(p_new, loaded, classes=NAMES)
    np.testing.assert_allclose(result.probs, br.adjust(p_new, rates, classes=NAMES).probs, atol=1e-12)
    result.save(tmp_path / "shift.json")
    assert str(br.load(tmp_path / "shift.json").certificate.known) == str(rates)
    with pytest.raises(BadFile, match="not a saved set of class rates"):
        br.Rates.load(tmp_path / "shift.json")


@pytest.mark.parametrize(
    "rates",
    [
        br.Rates.exact([0.2, 0.8]),
        br.Rates.between(0.1, 0.3),
        br.Rates.from_counts([3, 7], classes=["no", "yes"]),
        br.Rates.near([0.2, 0.3, 0.5], 0.1, metric="chi2"),
        br.Rates.of_population({"a": 0.2, "b": 0.8}),
        br.Rates.by("region", {"north": 0.1, "south": 0.3}),
    ],
    ids=lambda rates: rates.kind,
)
def test_all_kinds_of_rates_can_be_saved(rates: br.Rates, tmp_path: Path) -> None:
    rates.save(tmp_path / "rates.json")
    assert str(br.Rates.load(tmp_path / "rates.json")) == str(rates)


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    br.Rates.between(0.1, 0.3).save(path)
    path.write_text(path.read_text().replace("0.3", "0.4"))
    with pytest.raises(BadFile, match="was changed after it was saved"):
        br.Rates.load(path)


def test_groups_may_have_estimated_rates() -> None:
    p_val, y_val, north, _ = shifted(0, [0.2, 0.3, 0.5], n=500)
    south = shifted(1, [0.6, 0.2, 0.2], n=700)[2]
    rates = {
        name: br.estimate(rows, probs_val=p_val, y_val=y_val, confidence=0.975)
        for name, rows in (("north", north), ("south", south))
    }
    groups = np.repeat(["north", "south"], [500, 700])
    result = br.adjust(np.vstack([north, south]), br.Rates.by("region", rates), groups=groups)
    np.testing.assert_allclose(result.probs[:500], br.adjust(north, rates["north"]).probs, atol=1e-8)
    assert result.certificate.condition == (
        "with about 95 % confidence for all groups together, if predictions within each class of each group of region "
        "are distributed as in the validation data"
    )
    with pytest.raises(BadRates, match="other predictions"):
        br.adjust(np.vstack([north, south]), br.Rates.by("region", rates), groups=groups[::-1])


def test_no_set_of_rates_is_claimed_with_a_higher_confidence_than_its_own() -> None:
    p_val, y_val, batch, _ = shifted(0, [0.3, 0.7], n=400)
    estimate = br.estimate(batch, probs_val=p_val, y_val=y_val)
    draws = br.Rates.from_samples(np.random.default_rng(0).dirichlet([30, 70], 400))
    survey, result = br.Rates.from_counts([30, 70]), br.adjust(batch, [0.3, 0.7])
    groups = np.repeat(["north", "south"], [400, 400])
    for fixed in (estimate, draws):
        assert fixed.at_confidence(0.9) is fixed
        for use, level in (
            (lambda rates: br.Margins(rates, survey, confidence=0.95), r"0\.975"),
            (lambda rates: br.drift(result, [("May", batch, rates)]), r"0\.969604"),
            (
                lambda rates: br.adjust(
                    np.vstack([batch, batch]), br.Rates.by("region", {"north": rates, "south": rates}), groups=groups
                ),
                r"0\.975, or pass joint=False",
            ),
        ):
            with pytest.raises(BadRates, match=f"with 95 % confidence, but are needed.*again.*confidence={level}"):
                use(fixed)
        with pytest.raises(br.BaserateError, match=r"about these rows .* not about their population; pass the counts"):
            result.certify(batch, fixed).for_population()
    np.testing.assert_array_equal(survey.at_confidence(0.99).bounds(), br.Rates.from_counts([30, 70], 0.99).bounds())
    assert br.Rates.exact([0.3, 0.7]).at_confidence(0.99).certainty is None
    enough = br.estimate(batch, probs_val=p_val, y_val=y_val, confidence=0.969604)
    assert br.drift(result, [("May", batch, enough)]).confidence == 0.95


def test_groups_with_rates_of_several_kinds_state_what_is_assumed_about_each() -> None:
    p_val, y_val, batch, y = shifted(0, [0.3, 0.7], n=100)
    rates = {
        "a": br.estimate(batch, probs_val=p_val, y_val=y_val),
        "b": br.Rates.from_samples(np.random.default_rng(0).dirichlet([30, 70], 400)),
        "c": br.estimate(batch, labelled=np.arange(50), y_labelled=y[:50]),
        "d": br.Rates.from_counts([30, 70]),
        "e": br.Rates.exact([0.3, 0.7]),
    }
    groups = np.repeat(list(rates), 100)
    result = br.adjust(np.vstack([batch] * 5), br.Rates.by("site", rates, joint=False), groups=groups)
    for clause in (
        "the survey and the rows of each group of site with a survey are random samples",
        "the labelled rows of each group of site with labelled rows were drawn at random",
        "each group of site with estimated rates are distributed as in the validation data",
        "the draws of each group of site with draws represent what is known",
        "the class rates of the other groups of site are as given",
    ):
        assert clause in result.certificate.condition


def test_exact_bounds_of_perfect_predictions_are_nearly_the_predicted_rates() -> None:
    y = np.repeat([0, 1], [50_000, 50_000])
    found = exact_bounds(np.array([300_000.0, 700_000.0]), y, y, 0.95)
    assert found is not None
    np.testing.assert_allclose(found.low, [0.3, 0.7], atol=0.003)
    np.testing.assert_allclose(found.high, [0.3, 0.7], atol=0.003)


def test_the_nearest_rates_of_the_simplex_agree_with_a_quadratic_program() -> None:
    import cvxpy as cp

    rng = np.random.default_rng(0)
    for _ in range(20):
        root = rng.normal(size=(5, 5))
        root -= root.mean(axis=0)
        centre = rng.dirichlet(np.ones(5)) + 0.3 * (root @ rng.normal(size=5))
        rates, _ = nearest_in_simplex(centre, root @ root.T)
        t = cp.Variable(5)
        distance = cp.sum_squares(np.linalg.pinv(root) @ (t - centre))
        cp.Problem(cp.Minimize(distance), [t >= 0, cp.sum(t) == 1]).solve(solver="CLARABEL")
        np.testing.assert_allclose(rates, t.value, atol=1e-3)


def test_a_classifier_says_where_the_advice_of_a_refusal_is_to_be_passed() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=600)
    x = rng.normal(size=(600, 2)) + y[:, None]
    model = br.AdjustedClassifier(LogisticRegression(), estimate=True).fit(x, y)
    with pytest.raises(AssumptionRefuted) as caught:
        model.adapt(np.ones((500, 2)))
    assert "adapt(X, rates)" in caught.value.__notes__[0]


@pytest.mark.parametrize("share", [0.001, 0.999])
def test_a_share_that_leaves_a_class_without_rows_is_an_error_about_estimate(share: float) -> None:
    x, y = np.arange(40.0)[:, None], np.repeat([0, 1], 20)
    with pytest.raises(br.BaserateError, match=r"estimate is 0.\d+, so that [01] of 40 rows"):
        br.AdjustedClassifier(LogisticRegression(), estimate=share).fit(x, y)


def test_too_many_classes_for_covariance_matrices_are_refused() -> None:
    p = np.full((500, 500), 1 / 500)
    with pytest.raises(br.BaserateError, match=r"500 classes, but .* at most 400; label a few random rows"):
        br.estimate(p, probs_val=p.copy(), y_val=np.arange(500))


@pytest.mark.parametrize("estimate", [True, 0.3])
def test_a_classifier_adapts_without_rates(estimate: Any) -> None:
    rng = np.random.default_rng(0)

    def rows(rates: list[float], n: int) -> tuple[Array, Array]:
        y = rng.choice(3, n, p=rates)
        return np.eye(3)[y] * 1.5 + rng.normal(size=(n, 3)), np.array(NAMES)[y]

    x, y = rows([0.4, 0.3, 0.3], 1500)
    x_new, y_new = rows([0.05, 0.15, 0.8], 1000)
    model = br.AdjustedClassifier(LogisticRegression(), estimate=estimate).fit(x, y)
    model.adapt(x_new)
    assert model.estimated_rates_.contains({name: float(np.mean(y_new == name)) for name in NAMES})
    assert "with about 95 % confidence" in str(model.adjustment_)
    at = np.searchsorted(NAMES, y_new)
    before, after = (m.predict_proba(x_new)[np.arange(1000), at] for m in (model.estimator_, model))
    assert np.log(after).mean() - np.log(before).mean() >= model.adjustment_.certificate.loss_reduction - 1e-9
    model.adapt(x_new, [0.05, 0.15, 0.8])
    assert model.estimated_rates_ is None


def test_a_frozen_classifier_takes_the_rows_of_fit_as_validation_rows() -> None:
    from sklearn.frozen import FrozenEstimator

    rng = np.random.default_rng(0)
    y = rng.integers(2, size=900)
    x = rng.normal(size=(900, 1)) + 2 * y[:, None]
    trained = LogisticRegression().fit(x[:300], y[:300])
    model = br.AdjustedClassifier(FrozenEstimator(trained), estimate=True).fit(x[300:], y[300:])
    y_new = rng.random(800) < 0.1
    model.adapt(rng.normal(size=(800, 1)) + 2 * y_new[:, None])
    assert model.estimated_rates_.contains(float(y_new.mean()))


def test_without_estimate_a_classifier_asks_for_rates() -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    model = br.AdjustedClassifier(LogisticRegression()).fit(x, np.tile([0, 1], 25))
    with pytest.raises(BadRates, match="estimate=True"):
        model.adapt(x)


def test_the_command_line_estimates_rates_and_uses_them(tmp_path: Path) -> None:
    import json

    from click.testing import CliRunner

    from baserate.cli import main

    p_val, y_val, p_new, y = shifted(0, [0.2, 0.3, 0.5])
    columns = [f"p_{name}" for name in NAMES]
    pd.DataFrame(p_new, columns=columns).to_parquet(tmp_path / "new.parquet")
    val = pd.DataFrame(p_val, columns=columns).assign(y=np.array(NAMES)[y_val])
    val[[*columns[::-1], "y"]].to_parquet(tmp_path / "val.parquet")
    new, rates, out = (str(tmp_path / name) for name in ("new.parquet", "rates.json", "out.parquet"))
    given = ["rates", new, "--validation", str(tmp_path / "val.parquet"), "--labels", "y", "--out", rates]
    printed = CliRunner().invoke(main, given, catch_exceptions=False)
    assert printed.exit_code == 0, printed.output
    assert "at least" in printed.output
    facts = json.loads(CliRunner().invoke(main, [*given, "--json"], catch_exceptions=False).output)
    assert [one["class"] for one in facts["classes"]] == NAMES
    true_rates = np.bincount(y, minlength=3) / len(y)
    assert all(one["at_least"] < rate < one["at_most"] for one, rate in zip(facts["classes"], true_rates, strict=True))
    adjusted = CliRunner().invoke(main, ["adjust", new, "--rates", rates, "--out", out], catch_exceptions=False)
    assert adjusted.exit_code == 0, adjusted.output
    expected = br.adjust(p_new, br.estimate(p_new, probs_val=p_val, y_val=y_val)).probs
    np.testing.assert_allclose(pd.read_parquet(out)[columns].to_numpy(), expected, atol=1e-9)


def test_the_simulation_of_coverage_runs() -> None:
    from tool_support import load_tool

    tool = load_tool("estimate_coverage")
    probs, y = tool.load("sklearn_breast_cancer")
    for method in ("moments", "exact"):
        cell = tool.simulate(probs, y, 200, 300, 40, method)
        assert cell.coverage >= 0.85
        assert cell.coverage <= cell.box_coverage
        assert cell.error(0.5) == 0.5 / np.sqrt(40)
        assert cell.size <= 0.1
        assert 0 < cell.width < 0.5
    assert not set(tool.SETS) & set(tool.HELD_OUT)


@pytest.mark.parametrize("slope", [-80.0, -1.0, 0.05, 1.0, 80.0])
def test_calibrated_rows_are_those_of_softmax_for_all_slopes(slope: float) -> None:
    rng = np.random.default_rng(0)
    logs = logarithms(np.vstack([rng.dirichlet(np.full(4, 0.1), size=50), np.eye(4)]))
    theta = np.concatenate([[slope], [0.0, 1.0, -300.0, 20.0]])
    expected = softmax(slope * logs + theta[1:] + 0.5, axis=1)
    np.testing.assert_allclose(calibrated(logs, theta, 0.5), expected, rtol=1e-10, atol=1e-300)


def test_advice_on_estimated_rates_is_about_the_set() -> None:
    p_val, y_val, p_new, _ = shifted(0, [1 / 3, 1 / 3, 1 / 3], 500, 400)
    rates = br.estimate(p_new, probs_val=p_val, y_val=y_val)
    assert rates.contains(p_new.mean(axis=0))
    assert "leave the predictions as they are" in str(br.advise(p_new, rates))


def test_label_column_of_any_table_is_found_and_names_the_columns_of_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names, y = np.array(["ant", "bee"]), rng.integers(2, size=300)
    p = 1 / (1 + np.exp(-rng.normal(2.0 * y - 1.0)))
    validation = pd.DataFrame({"ant": 1 - p, "bee": p, "y": names[y]})
    new = pd.DataFrame({"ant": 1 - p[:200] ** 2, "bee": p[:200] ** 2})
    new.to_csv(tmp_path / "new.csv", index=False)
    expected = br.estimate(new, probs_val=validation[["ant", "bee"]], y_val=names[y], method="exact").bounds()
    for probs_new, probs_val in [
        (new, pa.Table.from_pandas(validation)),
        (pa.Table.from_pandas(new), pl.from_pandas(validation)),
        (tmp_path / "new.csv", validation),
        (tmp_path / "new.csv", pa.Table.from_pandas(validation)),
    ]:
        found = br.estimate(probs_new, probs_val=probs_val, y_val="y", method="exact")
        np.testing.assert_allclose(found.bounds(), expected)
    with pytest.raises(br.errors.BadOption, match="no column with this name; it has 'ant', 'bee', 'y'"):
        br.estimate(new, probs_val=pa.Table.from_pandas(validation), y_val="label")
