"""Predictions of several labels per row: br.adjust_multilabel."""

from __future__ import annotations

import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from scipy.optimize import brentq
from scipy.special import expit, logit

import baserate as br
from baserate.cli import main
from baserate.errors import BadLoss, BadOption, BadProbabilities, BadRates, BadWeights

P = np.random.default_rng(0).beta([1, 2, 3], [3, 2, 1], size=(60, 3))
NAMES = ["art", "news", "sport"]
RATES = [0.1, 0.6, 0.5]
BY_NAME = {"sport": 0.5, "art": 0.1, "news": 0.6}
INDEX = pd.Index([f"row {i}" for i in range(60)], name="id")

MAKE = {
    "pandas": lambda p: pd.DataFrame(p, columns=NAMES, index=INDEX[: len(p)]),
    "polars": lambda p: pl.DataFrame(p, schema=NAMES),
    "pyarrow": lambda p: pa.table({name: p[:, j] for j, name in enumerate(NAMES)}),
}


@pytest.fixture(params=list(MAKE))
def make(request: pytest.FixtureRequest) -> Any:
    return MAKE[request.param]


def as_pandas(frame: Any) -> pd.DataFrame:
    return frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()


def by_hand(p: np.ndarray, rate: float, weights: Any = None) -> np.ndarray:
    """Adjustment of one label for log loss: the same number is added to all log odds."""
    z = logit(p)
    shift = brentq(lambda s: np.average(expit(z + s), weights=weights) - rate, -50, 50, xtol=1e-14)
    return expit(z + shift)


@pytest.mark.parametrize("loss", ["log", "brier", "spherical"])
def test_each_label_is_adjusted_as_two_columns(loss: str) -> None:
    weights = np.random.default_rng(1).random(60)
    options = {"loss": loss, "sample_weight": weights}
    result = br.adjust_multilabel(P, RATES, **options)
    assert list(result.results) == [0, 1, 2] == list(result.labels)
    falls = []
    for j, rate in enumerate(RATES):
        two = br.adjust(np.column_stack([1 - P[:, j], P[:, j]]), [1 - rate, rate], **options)
        np.testing.assert_allclose(result.probs[:, j], two.probs[:, 1], atol=1e-12)
        falls.append(two.certificate.loss_reduction)
    assert list(result.certificate.loss_reductions.values()) == pytest.approx(falls)
    assert result.certificate.total == pytest.approx(sum(falls))
    assert result.certificate.mean == pytest.approx(sum(falls) / 3)
    assert (result.certificate.confidence, result.converged) == (None, True)
    np.testing.assert_allclose(np.average(result.probs, axis=0, weights=weights), RATES, atol=1e-9)
    np.testing.assert_allclose(result.before, np.average(P, axis=0, weights=weights))
    np.testing.assert_allclose(result.rates, RATES, atol=1e-9)


def test_log_loss_agrees_with_a_search_for_the_mean() -> None:
    weights = np.random.default_rng(1).random(60)
    result = br.adjust_multilabel(P.tolist(), RATES, sample_weight=weights)
    for j, rate in enumerate(RATES):
        np.testing.assert_allclose(result.probs[:, j], by_hand(P[:, j], rate, weights), atol=1e-9)


def test_the_loss_of_true_labels_falls_by_the_guaranteed_amount() -> None:
    y = np.random.default_rng(2).random(P.shape) < P**2
    result = br.adjust_multilabel(P, y.mean(axis=0))

    def loss(p: np.ndarray) -> float:
        return float(-np.log(np.where(y, p, 1 - p)).mean(axis=0).sum())

    # For log loss and exact rates the guarantee is an equality.
    assert loss(P) - loss(result.probs) == pytest.approx(result.certificate.total)
    assert result.certificate.total > 0.05


@pytest.mark.parametrize(
    "rates",
    [
        np.array(RATES),
        tuple(RATES),
        BY_NAME,
        pd.Series(BY_NAME),
        pd.Series(RATES),
        pl.Series(RATES),
        {"art": Decimal("0.1"), "news": br.Rates.exact([0.4, 0.6]), "sport": np.float32(0.5)},
        {"art": br.Rates.exact({"present": 0.1, "absent": 0.9}), "news": [0.6, 0.6], "sport": (0.5, 0.5)},
    ],
    ids=lambda rates: type(rates).__name__,
)
def test_rates_are_matched_by_label(rates: Any) -> None:
    expected = br.adjust_multilabel(P, RATES).probs
    np.testing.assert_allclose(br.adjust_multilabel(P, rates, classes=NAMES).probs, expected, atol=1e-9)
    np.testing.assert_allclose(br.adjust_multilabel(MAKE["pandas"](P), rates).probs, expected, atol=1e-9)


@pytest.mark.parametrize("rate", [0.3, np.float64(0.3), np.array(0.3), br.Rates.exact([0.7, 0.3])])
def test_one_rate_is_used_for_all_labels(rate: Any) -> None:
    np.testing.assert_allclose(br.adjust_multilabel(P, rate).probs.mean(axis=0), 0.3, atol=1e-9)


def test_bounds_and_surveys_per_label() -> None:
    low = P.mean(axis=0)
    survey = br.Rates.from_counts([90, 10])
    result = br.adjust_multilabel(P, [survey, (None, 0.2), (low[2] - 0.1, None)])
    np.testing.assert_allclose(result.rates[1:], [0.2, low[2]], atol=1e-9)
    np.testing.assert_allclose(result.probs[:, 2], P[:, 2], atol=1e-12)  # its mean is inside the bounds
    expected = br.adjust(np.column_stack([1 - P[:, 0], P[:, 0]]), survey)
    np.testing.assert_allclose(result.probs[:, 0], expected.probs[:, 1], atol=1e-9)
    assert result.certificate.confidence == pytest.approx(0.95)
    two = br.adjust_multilabel(P, {0: survey, 1: br.Rates.from_counts([80, 20], confidence=0.9)})
    assert two.certificate.confidence == pytest.approx(0.85)


def test_a_label_without_a_rate_is_left_as_it_is() -> None:
    result = br.adjust_multilabel(P, {1: 0.3})
    np.testing.assert_array_equal(result.probs[:, [0, 2]], P[:, [0, 2]])
    assert list(result.results) == [1]
    assert result.certificate.mean == pytest.approx(result.certificate.loss_reductions[1] / 3)
    np.testing.assert_array_equal(br.adjust_multilabel(P, [None, 0.3, None]).probs, result.probs)
    np.testing.assert_array_equal(result.apply(P), result.probs)
    logits = br.adjust_multilabel(logit(P), {1: 0.3}, from_logits=True)
    np.testing.assert_allclose(logits.probs, result.probs, atol=1e-9)


def test_logits_give_the_same_result_as_probabilities() -> None:
    result = br.adjust_multilabel(logit(P), RATES, from_logits=True)
    np.testing.assert_allclose(result.probs, br.adjust_multilabel(P, RATES).probs, atol=1e-9)
    np.testing.assert_allclose(result.apply(logit(P[:4])), result.probs[:4], atol=1e-9)
    np.testing.assert_allclose(result.apply(P[:4], from_logits=False), result.probs[:4], atol=1e-9)
    certain = br.adjust_multilabel([[np.inf], [-np.inf], [-800.0], [1.0]], 0.5, from_logits=True).probs[:, 0]
    assert (certain[0], certain[1]) == (1, 0)
    assert certain.mean() == pytest.approx(0.5)


def test_zeros_are_smoothed_on_request() -> None:
    p = np.where(P < 0.3, 0.0, P)
    smooth = br.adjust_multilabel(p, RATES, zeros=1e-6)
    assert (smooth.probs > 0).all()
    np.testing.assert_allclose(smooth.rates, RATES, atol=1e-9)
    assert (br.adjust_multilabel(p, RATES).probs[p == 0] == 0).all()


def test_unbounded_adjustment_adds_the_same_number_to_each_row() -> None:
    result = br.adjust_multilabel(P, RATES, loss="brier", bounded=False)
    np.testing.assert_allclose(result.probs, P + np.array(RATES) - P.mean(axis=0), atol=1e-9)


class TestDataframes:
    def test_type_names_and_index_are_kept(self, make: Any) -> None:
        frame = make(P)
        result = br.adjust_multilabel(frame, BY_NAME)
        assert type(result.probs) is type(frame)
        assert list(as_pandas(result.probs).columns) == NAMES == list(result.labels)
        np.testing.assert_allclose(as_pandas(result.probs), br.adjust_multilabel(P, RATES).probs, atol=1e-12)
        np.testing.assert_array_equal(as_pandas(frame), P)
        if isinstance(frame, pd.DataFrame):
            pd.testing.assert_index_equal(result.probs.index, INDEX)

    def test_dtypes_are_kept(self, make: Any) -> None:
        frame = make(P.astype(np.float32))
        assert as_pandas(br.adjust_multilabel(frame, BY_NAME).probs).dtypes.tolist() == [np.float32] * 3
        whole = pd.DataFrame({"a": [0, 1, 1], "b": np.float32([0.1, 0.4, 0.6])})
        assert br.adjust_multilabel(whole, {"b": 0.5}).probs.dtypes.tolist() == [np.int64, np.float32]

    def test_other_columns_are_kept_in_their_place(self, make: Any) -> None:
        frame = make(P)
        extra = {"id": [f"u{i}" for i in range(60)]}
        if isinstance(frame, pd.DataFrame):
            frame.insert(1, "id", extra["id"])
        elif isinstance(frame, pl.DataFrame):
            frame = frame.insert_column(1, pl.Series("id", extra["id"]))
        else:
            frame = frame.add_column(1, "id", pa.array(extra["id"]))
        with pytest.raises(BadProbabilities, match=r"column 'id' .* select .* columns=\[\.\.\.\]"):
            br.adjust_multilabel(frame, BY_NAME)
        result = br.adjust_multilabel(frame, BY_NAME, columns=["sport", "art", "news"])
        after = as_pandas(result.probs)
        assert list(after.columns) == ["art", "id", "news", "sport"]
        assert after["id"].tolist() == extra["id"]
        np.testing.assert_allclose(after[NAMES], br.adjust_multilabel(P, RATES).probs, atol=1e-12)
        pd.testing.assert_frame_equal(as_pandas(result.apply(frame)), after)

    def test_patterns_multiple_levels_and_numbers_as_column_names(self) -> None:
        frame = pd.DataFrame(P, columns=[f"p_{name}" for name in NAMES]).assign(age=37)
        result = br.adjust_multilabel(frame, BY_NAME, columns="p_*")
        assert result.labels == tuple(NAMES)
        pd.testing.assert_frame_equal(result.apply(frame), result.probs)
        levels = pd.MultiIndex.from_product([["p"], NAMES], names=["what", "label"])
        deep = br.adjust_multilabel(pd.DataFrame(P, columns=levels), RATES).probs
        pd.testing.assert_index_equal(deep.columns, levels)
        numbered = br.adjust_multilabel(pd.DataFrame(P, columns=[2, 1, 0]), {2: 0.1, 1: 0.6, 0: 0.5})
        np.testing.assert_allclose(numbered.probs, br.adjust_multilabel(P, RATES).probs, atol=1e-12)

    def test_apply_matches_columns_by_name(self, make: Any) -> None:
        result = br.adjust_multilabel(make(P), BY_NAME)
        turned = make(P).select(NAMES[::-1]) if not isinstance(make(P), pd.DataFrame) else make(P)[NAMES[::-1]]
        np.testing.assert_allclose(as_pandas(result.apply(turned))[NAMES], as_pandas(result.probs), atol=1e-12)
        np.testing.assert_allclose(result.apply(P), as_pandas(result.probs), atol=1e-12)
        named = br.adjust_multilabel(P, BY_NAME, classes=NAMES)
        np.testing.assert_allclose(as_pandas(named.apply(turned))[NAMES], named.probs, atol=1e-12)
        np.testing.assert_allclose(as_pandas(br.adjust_multilabel(P, RATES).apply(make(P))), named.probs, atol=1e-12)
        with pytest.raises(BadProbabilities, match="new_probs has no column 'sport'"):
            result.apply(pd.DataFrame(P[:, :2], columns=NAMES[:2]))


def test_apply_takes_one_row() -> None:
    result = br.adjust_multilabel(MAKE["pandas"](P), BY_NAME)
    row = MAKE["pandas"](P).iloc[5]
    np.testing.assert_allclose(result.apply(P[5]), result.probs.iloc[5], atol=1e-12)
    np.testing.assert_allclose(result.apply(row[::-1]), result.probs.iloc[5], atol=1e-12)
    for fitted in (result, br.adjust_multilabel(P, RATES)):
        with pytest.raises(BadProbabilities, match=r"new_probs has 2 columns, but .* was fitted on 3 labels"):
            fitted.apply(P[:, :2])
    np.testing.assert_allclose(fitted.apply(dict(enumerate(P[5]))), fitted.probs[5], atol=1e-12)
    with pytest.raises(BadProbabilities, match="rows have different lengths"):
        br.adjust_multilabel(P, RATES).apply([[0.1, 0.2, 0.3], [0.1]])


def test_a_single_label() -> None:
    np.testing.assert_allclose(br.adjust_multilabel(P[:, :1], [0.1]).probs, br.adjust_multilabel(P, RATES).probs[:, :1])


def test_whole_numbers_and_booleans_are_probabilities() -> None:
    result = br.adjust_multilabel([[True, False], [False, True], [True, True]], [0.5, 0.4], loss="brier")
    np.testing.assert_allclose(result.probs.mean(axis=0), [0.5, 0.4], atol=1e-9)


def test_the_printed_table_has_one_row_per_label() -> None:
    result = br.adjust_multilabel(MAKE["pandas"](P), {"news": 0.3, "sport": (0.1, 0.25)})
    lines = repr(result).splitlines()
    assert lines[0] == "Bounded adjustment of each label for Log(): 60 rows, 3 labels"
    assert f"falls by at least {result.certificate.total:.4g}, their mean by" in lines[1]
    assert lines[2] == "  1 label without a rate is left unchanged"
    table = [line.split() for line in lines[4:]]
    assert table[0] == ["label", "before", "at", "least", "at", "most", "achieved", "loss", "reduction"]
    before = [f"{value:.4f}" for value in P.mean(axis=0)]
    fall = {label: f"{value:.4f}" for label, value in result.certificate.loss_reductions.items()}
    assert table[1] == ["art", before[0], "-", "-", before[0], "-"]
    assert table[2] == ["news", before[1], "0.3000", "0.3000", "0.3000", fall["news"]]
    assert table[3] == ["sport", before[2], "0.1000", "0.2500", "0.2500", fall["sport"]]
    exact = repr(br.adjust_multilabel(P, 0.3)).splitlines()
    assert exact[3].split() == ["label", "before", "wanted", "achieved", "loss", "reduction"]
    assert "<table>" in result._repr_html_()


def test_the_printed_table_is_short_and_safe() -> None:
    p = np.random.default_rng(0).random((20, 40))
    result = br.adjust_multilabel(p, 0.3, classes=["\x1b[31m", *range(39)])
    assert repr(result).splitlines()[-1] == "  ... and 10 labels that changed less"
    assert "\x1b" not in repr(result)
    survey = br.adjust_multilabel(p, br.Rates.from_counts([9990, 10], confidence=0.999))
    assert "all rates from surveys are as stated with a confidence of at least 0.96" in repr(survey)


def test_labels_that_did_not_converge_are_named() -> None:
    with pytest.warns(br.NotConvergedWarning):
        result = br.adjust_multilabel(P, {0: 0.1, 1: P[:, 1].mean()}, loss="spherical", max_passes=1)
    assert not result.converged
    assert "NOT CONVERGED: 0" in repr(result)


def test_results_are_adjustments_and_can_be_pickled(tmp_path: Path) -> None:
    result = br.adjust_multilabel(MAKE["pandas"](P), BY_NAME)
    news = result.results["news"]
    assert isinstance(news, br.Adjustment)
    assert news.classes == ("absent", "present")
    assert news.what_if({"present": 0.7, "absent": 0.3}).rates[1] == pytest.approx(0.7)
    news.save(tmp_path / "news.json")
    assert br.load(tmp_path / "news.json").shift == pytest.approx(news.shift)
    again = pickle.loads(pickle.dumps(result))
    pd.testing.assert_frame_equal(again.apply(MAKE["pandas"](P)), result.probs)
    assert repr(again) == repr(result)


def test_an_impossible_rate_names_the_label() -> None:
    p = P.copy()
    p[:, 1] = 0.0
    with pytest.raises(br.InfeasibleRates, match=r"^label 'news': class 'present' would need a mean of 0\.6") as caught:
        br.adjust_multilabel(MAKE["pandas"](p), BY_NAME)
    assert caught.value.classes == ["present"]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(br.InfeasibleRates, match=r"^label 1: class 'absent' would need a mean of 0\.4"):
        br.adjust_multilabel(np.where(np.arange(3) == 1, 1.0, P), RATES)


BAD: list[tuple[Any, Any, type[Exception], str]] = [
    (
        P + 0.5,
        {},
        BadProbabilities,
        r"row \d+, column \d is 1\.\d+ .*between 0 and 1; for logits pass from_logits=True",
    ),
    (-P, {}, BadProbabilities, r"row 0, column 0 is -0\.\d+ .*between 0 and 1"),
    (np.full((2, 3), np.nan), {}, BadProbabilities, r"row 0, column 0 is nan .*between 0 and 1"),
    (np.full((2, 3), np.nan), {"from_logits": True}, BadProbabilities, "row 0, column 0 is nan .*logit"),
    (MAKE["pandas"](P + 1), {}, BadProbabilities, r"row 0, column 'art' is 1\..* by columns=\[\.\.\.\]"),
    (P[0], {}, BadProbabilities, r"must have 2 dimensions .* has shape \(3,\)$"),
    (P[:, :0], {}, BadProbabilities, "has 0 columns; at least 1 label is needed"),
    (
        [np.column_stack([1 - p, p]) for p in P.T],
        {},
        BadProbabilities,
        r"np\.column_stack\(\[p\[:, 1\] for p in probs\]",
    ),
    (P, {"columns": ["a"]}, BadOption, "columns= selects columns of a dataframe, but probs is a ndarray"),
    (P, {"classes": ["a", "b"]}, BadOption, "classes has 2 names, but there are 3 columns"),
    (P, {"sample_weight": [1, 2]}, BadWeights, r"^sample_weight must have shape \(60,\)"),
    (P, {"loss": "cosine"}, BadLoss, "^.*cosine"),
    (P, {"tol": 2}, BadOption, "^tol must be"),
    (P, {"from_logits": "no"}, BadOption, "from_logits must be True or False"),
]


@pytest.mark.parametrize(("probs", "options", "error", "message"), BAD, ids=[case[3][:30] for case in BAD])
def test_bad_input_is_an_error(probs: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        br.adjust_multilabel(probs, 0.3, **options)
    assert isinstance(caught.value, br.BaserateError)
    assert all(str(option) in str(caught.value) for option in caught.value.options)


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ([0.1, 0.2], "one number for all labels, or 3 numbers, one for each label, but there are 2"),
        ("0.3", "one number for all labels.* not '0.3'"),
        (None, "one number for all labels.* not None"),
        ({}, "no entry for any of the labels 0, 1, 2"),
        ({"emu": 0.2}, r"entry for 'emu', but the labels are 0, 1, 2; .* pass classes=\[\.\.\.\]"),
        ({"1": 0.2, 1: 0.3}, r"'1' \(str\) was not matched with 1 \(int\), because several names have this text"),
        ({1: 1.2}, r"the rate of label 1 is 1\.2, but must be between 0 and 1"),
        ({1: np.nan}, "the rate of label 1 is nan, but must be between 0 and 1"),
        ({1: "half"}, "the rate of label 1 is 'half', which is not a real number"),
        ({1: (0.1, 0.2, 0.3)}, r"the rate of label 1 has 3 entries; pass a number, or a pair \(low, high\)"),
        ({1: (0.98, 0.02)}, r"the bounds on the rate of label 1 are 0\.98 and 0\.02; pass the smaller one first"),
        ({1: (0.1, 7)}, r"a bound on the rate of label 1 is 7\.0, but must be between 0 and 1"),
        ({1: br.Rates.exact([0.2, 0.3, 0.5])}, "^label 1: .*2 numbers"),
        ({1: br.Rates.exact({"no": 0.2, "yes": 0.8})}, "^label 1: .*'no'"),
    ],
)
def test_bad_rates_name_the_label(rates: Any, message: str) -> None:
    with pytest.raises(BadRates, match=message):
        br.adjust_multilabel(P, rates)


class TestSuggestion:
    """The error about rows that do not sum to 1 suggests adjust_multilabel if they look like several labels."""

    def test_rows_of_labels(self) -> None:
        with pytest.raises(
            BadProbabilities, match=r"For labels that can occur together, use br\.adjust_multilabel\. "
        ) as caught:
            br.adjust(P, [0.2, 0.3, 0.5])
        assert "normalize" not in str(caught.value)
        assert [str(option) for option in caught.value.options] == ["br.adjust_multilabel"]

    @pytest.mark.parametrize(
        "probs",
        [
            [[0.2, 0.3, 0.4], [0.3, 0.3, 0.35]],  # all sums are below 1
            [[0.2, 0.3, 0.4], [0.3, 0.3, 0.45]],  # they differ little
            [[7, 2, 1], [0.1, 0.1, 0.1]],  # not probabilities
        ],
    )
    def test_other_rows(self, probs: Any) -> None:
        with pytest.raises(BadProbabilities, match="Pass normalize=True to divide") as caught:
            br.adjust(probs, [0.2, 0.3, 0.5])
        assert "multilabel" not in str(caught.value)

    def test_the_command_line_does_not_mention_python(self, tmp_path: Path) -> None:
        pd.DataFrame(P, columns=NAMES).to_csv(tmp_path / "in.csv", index=False)
        words = ["--rates", "art=0.2,news=0.3,sport=0.5", "--out", str(tmp_path / "out.csv")]
        answer = CliRunner().invoke(main, ["adjust", str(tmp_path / "in.csv"), *words])
        assert answer.exit_code == 1
        assert "use a table with two columns, 1 - p and p, for each label, and adjust them one by one" in answer.output
        assert "br." not in answer.output
        assert "multilabel" not in answer.output
