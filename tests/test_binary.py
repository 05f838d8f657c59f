"""Two classes: one number per row, and one number for the rate."""

from __future__ import annotations

import itertools
from decimal import Decimal
from fractions import Fraction
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import baserate as br
from baserate.errors import BadOption, BadProbabilities, BadRates, BaserateError

mpl.use("Agg")

P = np.array([0.1, 0.4, 0.7, 0.02, 0.55, 0.25])
BOTH = np.column_stack([1 - P, P])
Y = np.array([0, 1, 1, 0, 0, 0])
LOGITS = np.log(P / (1 - P))

VECTORS = {
    "list": P.tolist(),
    "tuple": tuple(P),
    "array": P,
    "column": P[:, None],
    "pandas": pd.Series(P, index=list("uvwxyz"), name="ill"),
    "pandas without a name": pd.Series(P),
    "pandas nullable": pd.Series(P, dtype="Float64", name="ill"),
    "pandas pyarrow": pd.Series(P, dtype="double[pyarrow]", name="ill"),
    "polars": pl.Series("ill", P),
    "pyarrow": pa.array(P),
    "pyarrow chunked": pa.chunked_array([P[:2], P[2:]]),
}

RATES = {
    "number": 0.2,
    "NumPy number": np.float32(0.2),
    "zero-dimensional array": np.array(0.2),
    "Decimal": Decimal("0.2"),
    "Fraction": Fraction(1, 5),
    "pair": [0.8, 0.2],
    "dict": {"ill": 0.2},
    "dict of both": {"not ill": 0.8, "ill": 0.2},
    "exact": br.Rates.exact(0.2),
    "between": br.Rates.between(0.1, 0.2),
    "at most": br.Rates.between(None, 0.2),
    "between by name": br.Rates.between({"ill": 0.1}, {"ill": 0.2}),
    "near": br.Rates.near(0.15, 0.05),
    "parsed": br.Rates.parse("20%"),
    "parsed bounds": br.Rates.parse("0.1..0.2"),
}


def numbers(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=np.float64).reshape(-1)


@pytest.mark.parametrize("rates", RATES.values(), ids=RATES)
def test_one_number_per_row_is_adjusted_like_two_columns(rates: Any) -> None:
    expected = br.adjust(BOTH, [0.8, 0.2])
    result = br.adjust(P, rates)
    assert result.probs.shape == P.shape
    assert_allclose(result.probs, expected.probs[:, 1], atol=1e-8)
    assert_allclose(result.probs.mean(), 0.2, atol=1e-8)
    assert_allclose(result.certificate.loss_reduction, expected.certificate.loss_reduction, atol=1e-8)


@pytest.mark.parametrize("p", VECTORS.values(), ids=VECTORS)
def test_the_answer_has_the_kind_shape_index_and_name_of_the_predictions(p: Any) -> None:
    answer = br.adjust(p, 0.2).probs
    assert_allclose(numbers(answer), br.adjust(BOTH, [0.8, 0.2]).probs[:, 1], atol=1e-12)
    if isinstance(p, (list, tuple)):
        assert isinstance(answer, np.ndarray)
        assert answer.shape == P.shape
        return
    assert type(answer) is type(p)
    assert len(answer) == len(p)
    for name in ("name", "dtype", "type", "shape"):
        assert getattr(answer, name, None) == getattr(p, name, None), name
    if isinstance(p, pd.Series):
        pd.testing.assert_index_equal(answer.index, p.index)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", [lambda p: pd.Series(p), lambda p: pl.Series("p", p), lambda p: pa.array(p)])
def test_a_series_keeps_its_dtype(make: Any, dtype: str) -> None:
    p = make(P.astype(dtype))
    answer = br.adjust(p, 0.2).probs
    assert getattr(answer, "dtype", None) == getattr(p, "dtype", None)
    assert getattr(answer, "type", None) == getattr(p, "type", None)


def test_certain_predictions_of_whole_numbers_are_accepted() -> None:
    result = br.adjust([0, 1, 1, 0], br.Rates.between(0.4, 0.6))
    assert_array_equal(result.probs, [0.0, 1.0, 1.0, 0.0])
    assert_array_equal(br.adjust([False, True], 0.5).probs, [0.0, 1.0])


def test_one_dimensional_logits_are_log_odds_of_the_positive_class() -> None:
    result = br.adjust(LOGITS, 0.2, from_logits=True)
    assert_allclose(result.probs, br.adjust(P, 0.2).probs, atol=1e-12)
    assert_allclose(result.apply(LOGITS), result.probs, atol=1e-12)
    assert_allclose(result.apply(P, from_logits=False), result.probs, atol=1e-12)
    certain = br.adjust([-np.inf, np.inf, 0.0, 800.0], 0.5, from_logits=True).probs
    assert certain[0] == 0
    assert certain[1] == 1
    assert 0 < certain[2] < certain[3] < 1


def test_a_probability_below_one_is_never_returned_as_one() -> None:
    p = np.array([0.5, 1 - 1e-16, 1.0, 0.1])
    probs = br.adjust(p, 0.9).probs
    assert probs[1] < 1
    assert probs[2] == 1
    narrow = br.adjust(pd.Series(p, dtype="float32").clip(upper=np.nextafter(np.float32(1), 0)), 0.9).probs
    assert (narrow < 1).all()


@pytest.mark.parametrize(
    "rates",
    [br.Rates.of_population(0.2), br.Rates.from_counts(4, total=50), br.Rates.from_counts({"ill": 4}, total=50)],
    ids=["population", "counts", "counts by name"],
)
def test_sampled_rates_of_one_class_are_those_of_both(rates: br.Rates) -> None:
    two = br.Rates.of_population([0.8, 0.2]) if "population" in repr(rates) else br.Rates.from_counts([46, 4])
    result, expected = br.adjust(P, rates), br.adjust(BOTH, two)
    assert_allclose(result.certificate.bounds, expected.certificate.bounds)
    assert_allclose(result.probs, expected.probs[:, 1], atol=1e-12)


def test_near_one_number_is_an_interval_around_it() -> None:
    low, high = br.Rates.near(0.02, 0.005).bounds()
    assert_allclose([low[1], high[1]], [0.015, 0.025])
    low, high = br.Rates.near([0.2, 0.3, 0.5], 0.1, metric="largest").bounds()
    assert_allclose([low, high], [[0.1, 0.2, 0.4], [0.3, 0.4, 0.6]])


def test_one_bound_is_for_the_second_of_two_classes_and_for_each_of_more() -> None:
    low, high = br.adjust(BOTH, br.Rates.between(0.1, 0.95)).certificate.bounds
    assert_allclose([low[1], high[1]], [0.1, 0.95])
    three = br.adjust([[0.2, 0.3, 0.5]], br.Rates.between(0.25, None)).certificate.bounds[0]
    assert_allclose(three, [0.25, 0.25, 0.25])


def test_rates_of_one_class_can_be_printed_and_asked_for_their_bounds() -> None:
    assert repr(br.Rates.exact(0.02)) == "Rates: positive class 0.02"
    assert repr(br.Rates.near(0.02, 0.005)) == "Rates within 0.005 of positive class 0.02"
    assert repr(br.Rates.of_population(Fraction(1, 50))).startswith("Rates of a population: positive class 0.02")
    assert repr(br.Rates.from_counts(4, total=50)) == (
        "Rates counted in a survey of 50 cases: positive class 4; 95 % confidence"
    )
    assert_allclose(br.Rates.exact(0.02).bounds()[0], [0.98, 0.02])
    assert br.Rates.of_population(0.02).contains([0.98, 0.02])


def test_a_dict_may_leave_out_the_class_that_has_the_rest() -> None:
    three = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    expected = br.adjust(three, [0.5, 0.2, 0.3])
    for rates in ({"a": 0.5, "b": 0.2}, br.Rates.exact({"a": 0.5, "b": 0.2})):
        assert_allclose(br.adjust(three, rates, classes=list("abc")).probs, expected.probs, atol=1e-9)


def test_a_dict_with_some_of_the_classes_leaves_the_others_free() -> None:
    three = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    bounds = br.Rates.between([0.5, None, None], [0.5, None, None])
    expected = br.adjust(three, bounds)
    assert_allclose(br.adjust(three, {"a": 0.5}, classes=list("abc")).probs, expected.probs, atol=1e-9)
    assert_allclose(br.adjust(three, {0: 0.5}).probs, expected.probs, atol=1e-9)
    with pytest.raises(BadRates, match="no entry for 'c'"):  # a class without a rate would get rate 0 unseen
        br.adjust(three, {"a": 0.5, "b": 0.5}, classes=list("abc"))


def test_the_positive_class_is_named_after_the_rates_or_the_series() -> None:
    assert br.adjust(P, 0.2).classes is None
    assert br.adjust(P, {"ill": 0.2}).classes == ("not ill", "ill")
    assert br.adjust(pd.Series(P, name="ill"), 0.2).classes == ("not ill", "ill")
    assert br.adjust(pd.Series(P, name="p_ill"), {"ill": 0.2, "well": 0.8}).classes == ("well", "ill")
    assert br.adjust(P, {"ill": 0.2, "well": 0.8}, classes=["well", "ill"]).classes == ("well", "ill")
    with pytest.raises(BadRates, match=r"not known to which of them it belongs; pass classes=\[\.\.\.\] with both"):
        br.adjust(P, {"ill": 0.2, "well": 0.8})
    with pytest.raises(BadRates, match="name 3 classes"):
        br.adjust(P, {"a": 0.2, "b": 0.3, "c": 0.5})


def test_one_class_is_printed_as_one_line() -> None:
    text = repr(br.adjust(P, 0.2))
    assert "positive  " in text
    assert "changed less" not in text
    assert len(text.split("class  ")[1].splitlines()) == 2
    assert "ill    " in repr(br.adjust(P, {"ill": 0.2}))


def test_further_rows_are_adjusted_one_number_at_a_time_or_many() -> None:
    result = br.adjust(P, 0.2)
    assert_allclose(result.apply(P), result.probs, atol=1e-12)
    assert_allclose(result.apply(float(P[0])), result.probs[0], atol=1e-12)
    assert np.ndim(result.apply(0.3)) == 0
    assert_allclose(result.apply([0.1, 0.4]), result.probs[:2], atol=1e-12)
    assert_allclose(result.apply(BOTH)[:, 1], result.probs, atol=1e-12)
    series = result.apply(pd.Series(P, index=list("uvwxyz"), name="score"))
    assert series.name == "score"
    assert list(series.index) == list("uvwxyz")
    assert_allclose(br.adjust(BOTH, 0.2).apply([0.6, 0.4]).sum(), 1.0)  # one row of two classes


def test_a_saved_shift_still_takes_one_number_per_row(tmp_path: Any) -> None:
    result = br.adjust(pd.Series(P, name="ill"), br.Rates.from_counts(4, total=50))
    result.save(tmp_path / "shift.json")
    loaded = br.load(tmp_path / "shift.json")
    assert_allclose(loaded.apply(P), result.probs, atol=1e-12)
    assert loaded.classes == ("not ill", "ill")
    assert "changed less" not in repr(loaded)


def test_other_rates_of_the_same_rows_can_be_one_number() -> None:
    result = br.adjust(P, 0.2).what_if(0.3)
    assert_allclose(result.probs, br.adjust(P, 0.3).probs, atol=1e-9)


def test_prior_adjustment_takes_two_numbers() -> None:
    odds = P / (1 - P) * (0.02 / 0.98) / (0.5 / 0.5)
    assert_allclose(br.prior_adjust(P, 0.5, 0.02).probs, odds / (1 + odds), atol=1e-12)


def test_additive_adjustment_adds_the_same_number() -> None:
    assert_allclose(br.additive(P, 0.2).probs, P + (0.2 - P.mean()), atol=1e-12)


@pytest.mark.parametrize("y", [Y, Y.astype(bool), Y.astype(float), Y.tolist()], ids=["int", "bool", "float", "list"])
@pytest.mark.parametrize("p", [P, pd.Series(P, name="ill")], ids=["array", "series"])
def test_procedures_are_compared_by_labels_0_and_1(p: Any, y: Any) -> None:
    found = br.compare(p, y, 1 / 3, 0.5, n_bootstrap=50)
    expected = br.compare(BOTH, Y, [2 / 3, 1 / 3], [0.5, 0.5], n_bootstrap=50)
    assert_allclose(found.mean, expected.mean)


def test_procedures_are_compared_by_labels_with_the_names_of_the_classes() -> None:
    names = np.where(Y == 1, "ill", "not ill")
    found = br.compare(P, names, {"ill": 1 / 3}, others={"mine": P}, n_bootstrap=50)
    assert_allclose(found.mean[1], found.mean[0])


def test_advice_takes_one_number_per_row() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(500) < 0.3
    p = 1 / (1 + np.exp(1 - 2 * rng.normal(2.0 * y)))
    both = np.column_stack([1 - p, p])
    one, two = br.advise(p, 0.1, 0.5), br.advise(both, [0.9, 0.1], [0.5, 0.5])
    assert one.procedure == two.procedure
    assert one.summary == two.summary
    validated = br.advise(pd.Series(p, name="ill"), 0.1, probs_val=p, y_val=y.astype(int))
    assert validated.procedure == br.advise(both, [0.9, 0.1], probs_val=both, y_val=y.astype(int)).procedure


def test_sensitivity_takes_one_number_per_row() -> None:
    one, two = br.sensitivity(P, {"ill": 0.2}), br.sensitivity(BOTH, [0.8, 0.2])
    assert_allclose(one.loss_reduction, two.loss_reduction, atol=1e-9)


def test_many_batches_may_be_vectors() -> None:
    one, other = br.adjust_many([(P, 0.2), (P[:3], 0.5)])
    assert_allclose([one.probs.mean(), other.probs.mean()], [0.2, 0.5], atol=1e-9)


def test_the_report_shows_the_shift_of_the_log_odds_that_the_printed_result_shows(tmp_path: Any) -> None:
    result = br.adjust([0.1, 0.4, 0.7, 0.9], 0.25)
    result.report(tmp_path / "report.md")
    shift = f"{np.diff(result.shift)[0]:+.4f}"
    assert shift in repr(result)
    assert shift in (tmp_path / "report.md").read_text()


def test_displays_and_reports_take_one_number_per_row(tmp_path: Any) -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=60)
    p = pd.Series(rng.random(60), name="ill")
    result = br.adjust(p, 0.3)
    br.MovementDisplay.from_predictions(p, result.probs)
    br.ReliabilityDisplay.from_predictions(p, result.probs, y)
    br.RatesDisplay.from_adjustment(result)
    result.report(tmp_path / "page.html", y=y, old_rates=0.5)
    assert "ill" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([0.1, 1.2], r"row 1 is 1\.2; probabilities must be between 0 and 1\. Divide percentages by 100; for logits"),
        ([10.0, 20.0, 0.5], r"row 0 is 10\.0; .* \(2 of 3 rows are not\)"),
        ([0.1, -0.1], r"row 1 is -0\.1"),
        ([0.1, np.nan], "row 1 is nan; probabilities must be finite"),
        (pd.Series([0.1, None], dtype="Float64"), "row 1 is nan"),
        (pd.Series(["a", "b"]), "real numbers"),
        (np.array([]), "probs is empty"),
        (pd.Series([], dtype=float), "probs is empty"),
    ],
    ids=str,
)
def test_bad_probabilities_are_named_by_row(p: Any, message: str) -> None:
    with pytest.raises(BadProbabilities, match=message):
        br.adjust(p, 0.2)


def test_a_missing_logit_is_named_by_row() -> None:
    with pytest.raises(BadProbabilities, match="row 1 is nan; logits must be finite"):
        br.adjust([0.1, np.nan], 0.2, from_logits=True)


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        (1.2, r"rates is 1\.2; a rate must be between 0 and 1\. Divide percentages by 100"),
        (np.nan, "rates is nan"),
        ([0.2, 0.3, 0.5], "2 numbers"),
        ("0.2", "rates is the text '0.2'; pass a number or a dict, or parse it by Rates.parse"),
        (True, "2 numbers"),
    ],
    ids=str,
)
def test_a_bad_rate_of_one_class_is_explained(rates: Any, message: str) -> None:
    with pytest.raises(BadRates, match=message):
        br.adjust(P, rates)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: br.Rates.from_counts(4), "pass total= with the number of all cases"),
        (lambda: br.Rates.from_counts(4, total=2), "sum to 4, which is more than the total of 2"),
        (lambda: br.Rates.from_counts({"a": 4}, total=2.5), "total must be the number of all cases, a whole number"),
        (lambda: br.Rates.from_counts([4, 46], total=50), "a list already has the counts of all classes"),
        (lambda: br.Rates.from_counts({"a": 1}, total=9).on(("a", "b", "c"), 3), "2 classes have no count"),
        (lambda: br.Rates.from_counts({"a": 1, "b": 2}, total=9).on(("a", "b"), 2), "all classes have counts"),
        (lambda: br.Rates.from_counts(1, total=9).on(("a", "b", "c"), 3), "one number, 1, but there are 3 classes"),
    ],
)
def test_a_total_that_does_not_fit_the_counts_is_explained(make: Any, message: str) -> None:
    with pytest.raises(BadRates, match=message):
        make()


def test_one_number_is_not_enough_for_more_classes_or_for_named_columns() -> None:
    with pytest.raises(BadRates, match=r"one number, 0\.2, but there are 3 classes; pass 3 numbers, or a dict"):
        br.adjust([[0.2, 0.3, 0.5]], 0.2)
    frame = pd.DataFrame({"ill": P, "well": 1 - P})
    for call in (
        lambda: br.adjust(frame, 0.2),
        lambda: br.adjust(frame, br.Rates.between(0.1, 0.2)),
        lambda: br.adjust(frame, {"ill": 0.2}).what_if(0.3),
        lambda: br.prior_adjust(frame, 0.5, {"ill": 0.2}),
        lambda: br.advise(frame, {"ill": 0.2}, 0.5),
        lambda: br.compare(frame, ["ill"] * 6, {"ill": 0.2}, 0.5),
    ):
        with pytest.raises(BadRates, match=r"may be in any order; say which class it is for: (old_)?rates=\{"):
            call()
    assert_allclose(br.adjust(frame, {"ill": 0.2}).rates, [0.2, 0.8], atol=1e-9)


@pytest.mark.parametrize(
    ("make", "kind"), [(pd.DataFrame, pd.DataFrame), (pl.DataFrame, pl.DataFrame), (pa.table, pa.Table)]
)
def test_one_column_of_a_dataframe_is_adjusted_and_the_others_are_kept(make: Any, kind: type) -> None:
    frame = make({"id": [6, 5, 4, 3, 2, 1], "ill": P, "text": list("abcdef")})
    for result in (br.adjust(frame, 0.2, columns="ill"), br.adjust(frame, {"ill": 0.2})):
        whole = result.frame
        assert isinstance(whole, kind)
        assert_allclose(numbers(whole["ill"]), br.adjust(P, 0.2).probs, atol=1e-12)
        assert numbers(whole["id"]).tolist() == [6, 5, 4, 3, 2, 1]
        assert list(getattr(whole, "column_names", whole.columns)) == ["id", "ill", "text"]


def test_there_is_no_dataframe_where_none_was_passed() -> None:
    with pytest.raises(BaserateError, match=r"there is no dataframe.*apply\(dataframe, whole=True\)"):
        _ = br.adjust(pd.Series(P), 0.2).frame
    with pytest.raises(BaserateError, match=r"there is no dataframe: .* are in probs \(Series\)"):
        _ = br.adjust(pd.Series(P), 0.2).frame
    with pytest.raises(
        BadOption, match="whole= is for a dataframe in memory, in Spark or in Ray, or for a query, but new_probs"
    ):
        br.adjust(P, 0.2).apply(P, whole=True)


@pytest.mark.parametrize("loss", ["log", "brier"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kernels", ["off", "always"])
def test_the_guarantee_holds_for_the_numbers_that_are_returned(
    loss: str, dtype: str, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASERATE_KERNELS", kernels)
    rng = np.random.default_rng(3)
    for _ in range(20):
        p = rng.choice([1e-12, 1e-4, 0.3, 0.6, 1 - 1e-4, 1 - 1e-7, 1 - 1e-16], size=6).astype(dtype)
        n_positive = int(rng.integers(1, 6))
        try:
            result = br.adjust(p, n_positive / 6, loss=loss)
        except br.InfeasibleRates:  # in float32 some of these numbers are 1
            continue
        assert result.probs.dtype == dtype
        for y in labellings(6, n_positive):
            before, after = mean_loss(p, y, loss), mean_loss(result.probs, y, loss)
            if np.isfinite(before):
                assert before - after >= result.certificate.loss_reduction - 1e-11


def labellings(n: int, n_positive: int) -> Any:
    for positive in itertools.combinations(range(n), n_positive):
        yield np.isin(np.arange(n), positive)


def mean_loss(p: np.ndarray, y: np.ndarray, loss: str) -> float:
    """The mean loss in two classes, where the first has 1 minus the probability of the second."""
    second = p.astype(np.float64)
    both = np.stack([1 - second, second])
    if loss == "brier":
        return float(((both - np.stack([~y, y])) ** 2).sum(axis=0).mean())
    with np.errstate(divide="ignore"):
        return float(-np.log(np.where(y, second, 1 - second)).mean())


def test_a_rate_of_one_class_by_name_is_exact_whatever_its_digits() -> None:
    for rate in (0.1, 0.2, 0.3):
        parsed = br.adjust(P, br.Rates.parse(f"ill={rate}"))
        assert parsed.certificate.known.kind == "exact"
        assert_allclose(
            br.prior_adjust(P, 0.5, br.Rates.parse(f"ill={rate}")).probs, br.prior_adjust(P, 0.5, rate).probs
        )


def test_rates_that_name_another_class_than_the_column_are_not_guessed() -> None:
    for call in (
        lambda: br.adjust(pd.Series(P, name="ill"), {"well": 0.98}),
        lambda: br.adjust(pd.DataFrame({"p_ill": P}), {"well": 0.98}, columns="p_ill"),
    ):
        with pytest.raises(BadRates, match=r"not known to which class it belongs; pass classes=\[\.\.\.\] with both"):
            call()
    both = br.adjust(pd.Series(P, name="ill"), {"well": 0.98}, classes=["well", "ill"])
    assert_allclose(both.probs.mean(), 0.02, atol=1e-9)


def test_0_and_1_name_the_negative_and_the_positive_class() -> None:
    for rates in ({0: 0.8}, {False: 0.8}, {1: 0.2}, {True: 0.2}, {0: 0.8, 1: 0.2}):
        assert_allclose(br.adjust(P, rates).probs.mean(), 0.2, atol=1e-9)
        assert_allclose(br.adjust(P, 0.3).what_if(rates).probs.mean(), 0.2, atol=1e-9)


def test_a_series_of_rates_is_matched_like_a_dict() -> None:
    assert_allclose(br.adjust(P, pd.Series({"ill": 0.2})).probs, br.adjust(P, {"ill": 0.2}).probs)


def test_unsigned_and_boolean_log_odds_are_numbers() -> None:
    signed = br.adjust([1.0, 2.0, 3.0], 0.5, from_logits=True).probs
    assert_allclose(br.adjust(np.array([1, 2, 3], dtype=np.uint8), 0.5, from_logits=True).probs, signed)


def test_a_series_named_0_keeps_its_name() -> None:
    assert br.adjust(pd.Series(P, name=0), 0.2).probs.name == 0


def test_sorting_the_dataframe_later_does_not_mix_up_its_rows() -> None:
    frame = pd.DataFrame({"id": [3, 1, 2], "ill": [0.1, 0.5, 0.9]})
    result = br.adjust(frame, {"ill": 0.4})
    frame.sort_values("id", inplace=True, ignore_index=True)
    assert result.frame["id"].tolist() == [3, 1, 2]
    assert_allclose(result.frame["ill"], br.adjust([0.1, 0.5, 0.9], 0.4).probs)


def test_other_floating_columns_are_left_alone_if_the_rates_name_all_classes_or_a_prefix() -> None:
    frame = pd.DataFrame({"age": [40.0, 50.0], "p_a": [0.2, 0.3], "p_b": [0.8, 0.7]})
    assert br.adjust(frame, {"b": 0.3}).frame["age"].tolist() == [40.0, 50.0]
    renamed = frame.rename(columns={"p_a": "a", "p_b": "b"})
    assert br.adjust(renamed, {"a": 0.7, "b": 0.3}).frame["age"].tolist() == [40.0, 50.0]


def test_a_saved_shift_finds_the_column_of_its_class(tmp_path: Any) -> None:
    frame = pd.DataFrame({"id": range(6), "p_ill": P})
    br.adjust(frame, {"ill": 0.2}).save(tmp_path / "shift.json")
    loaded = br.load(tmp_path / "shift.json")
    assert_allclose(loaded.apply(frame, whole=True)["p_ill"].mean(), 0.2, atol=1e-9)
    with pytest.raises(BadProbabilities, match="name the one with the probabilities of class 'ill': columns='name'"):
        loaded.apply(pd.DataFrame({"a": P, "b": P}))
    assert_allclose(loaded.apply(pd.DataFrame({"a": P, "b": P}), columns="b")["b"].mean(), 0.2, atol=1e-9)


def test_two_numbers_that_are_no_row_of_two_classes_are_explained() -> None:
    with pytest.raises(BadProbabilities, match=r"one row of the two classes, but it sums to 1\.1; to adjust"):
        br.adjust(BOTH, 0.2).apply([0.5, 0.6])


def test_a_pair_of_bounds_is_explained() -> None:
    with pytest.raises(BadRates, match=r"or for bounds on one rate pass Rates\.between\(0\.01, 0\.03\)"):
        br.adjust(P, (0.01, 0.03))


def test_percentages_in_a_dict_are_explained() -> None:
    with pytest.raises(BadRates, match=r"the rate of class 'ill' is 20; a rate must be between 0 and 1\. Divide"):
        br.adjust(P, {"ill": 20})


def test_rates_of_one_class_are_tested_for_membership() -> None:
    assert br.Rates.between(0.01, 0.03).contains(0.02)
    assert not br.Rates.between({"f": 0.01}, {"f": 0.03}).contains({"f": 0.04})
    assert br.Rates.between(Decimal("0.01"), Decimal("0.03")).contains(0.02)
    assert repr(br.Rates.between(0.01, None)) == "Rates at least 0.01"


def test_the_printed_shift_of_one_class_is_the_change_of_its_log_odds() -> None:
    result = br.adjust([0.5, 0.8], 0.3)
    change = np.log(result.probs[0] / (1 - result.probs[0]))
    assert f"{change:+.4f}" in repr(result)
