"""The four shifts: deleted rows, changed labels, rates after the shift, and shifts that are impossible."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import cases

import baserate as br
from baserate.analysis.shifts import KINDS
from baserate.errors import BadLabels, BadOption, ImpossibleShift


def labels(seed: int, n: int = 400, k: int = 4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.choice(k, size=n, p=rng.dirichlet(np.full(k, 2.0)))


def rates_of(y: np.ndarray) -> dict[Any, float]:
    names, counts = np.unique(y, return_counts=True)
    return dict(zip(names.tolist(), (counts / counts.sum()).tolist(), strict=True))


seeds = st.integers(0, 2**31)
amounts = st.floats(0.1, 0.5)


@given(seeds, st.integers(2, 7))
@cases(100)
def test_majority_classes_are_the_smallest_group_that_holds_more_than_half(seed: int, k: int) -> None:
    pi = np.random.default_rng(seed).dirichlet(np.ones(k))
    found = br.shifts.majority(pi)
    assert pi[found].sum() > 0.5
    assert (np.diff(pi[found]) <= 0).all()
    for fewer in itertools.combinations(range(k), len(found) - 1):
        assert pi[list(fewer)].sum() <= 0.5


def test_classes_with_exactly_half_of_the_rows_are_not_a_majority() -> None:
    assert br.shifts.majority([0.5, 0.5]).tolist() == [0, 1]
    assert br.shifts.majority([0.1] * 5 + [0.5]).tolist() == [5, 0]  # summing 0.1 five times is not exactly 0.5


@given(seeds, amounts)
@cases(100)
def test_prior_shift_lowers_the_share_of_the_majority_by_the_amount(seed: int, amount: float) -> None:
    y = labels(seed)
    try:
        shifted = br.shifts.prior(y, amount, seed=seed)
    except ImpossibleShift:  # a class had too few rows
        assume(False)
    in_majority = np.isin(y, shifted.majority)
    assert np.isin(np.flatnonzero(~in_majority), shifted.rows).all(), "no minority row is deleted"
    assert (shifted.y == y[shifted.rows]).all(), "no label changes"
    assert (np.diff(shifted.rows) > 0).all()
    share = np.isin(shifted.y, shifted.majority).mean()
    assert abs(share - (in_majority.mean() - amount)) <= 1 / len(shifted.rows)


@given(seeds, amounts)
@cases(100)
def test_concept_shift_gives_minority_labels_to_majority_rows(seed: int, amount: float) -> None:
    y = labels(seed)
    shifted = br.shifts.concept(y, amount, seed=seed)
    changed = shifted.y != y
    in_majority = np.isin(y, shifted.majority)
    assert (shifted.rows == np.arange(len(y))).all(), "no row is deleted"
    assert changed.sum() == round(amount * in_majority.sum())
    assert in_majority[changed].all()
    assert not np.isin(shifted.y[changed], shifted.majority).any()


def test_concept_shift_draws_the_new_labels_uniformly() -> None:
    y = np.repeat(["big", "a", "b", "c"], [30_000, 30, 20, 10])
    shifted = br.shifts.concept(y, 0.4, seed=1)
    new = shifted.y[shifted.y != y]
    counts = [int((new == name).sum()) for name in "abc"]
    assert sum(counts) == 12_000
    assert max(abs(count - 4000) for count in counts) < 4 * np.sqrt(12_000 * 2 / 9)


@given(seeds, amounts)
@cases(60)
def test_covariate_shift_deletes_rows_of_one_class_with_the_lowest_values(seed: int, amount: float) -> None:
    rng = np.random.default_rng(seed)
    y = labels(seed)
    features = rng.normal(size=(len(y), 5)) + y[:, None] * rng.normal(size=5)
    shifted = br.shifts.covariate(y, features, amount)
    smallest = shifted.majority[-1]
    correlations = [abs(np.corrcoef(column, y == smallest)[0, 1]) for column in features.T]
    assert correlations[shifted.feature] == pytest.approx(max(correlations))
    deleted = np.setdiff1d(np.arange(len(y)), shifted.rows)
    assert len(deleted) == round(amount * (y == smallest).sum())
    assert (y[deleted] == smallest).all(), "only rows of this class are deleted"
    assert (shifted.y == y[shifted.rows]).all(), "no label changes"
    kept = features[shifted.rows[shifted.y == smallest], shifted.feature]
    if len(deleted):
        assert features[deleted, shifted.feature].max() <= kept.min()


def test_covariate_shift_uses_the_smallest_majority_class() -> None:
    y = np.repeat(["x", "y", "z"], [40, 35, 25])
    shifted = br.shifts.covariate(y, np.arange(100.0)[:, None], 0.2)
    assert shifted.majority == ("x", "y")
    assert sorted(set(range(100)) - set(shifted.rows.tolist())) == list(range(40, 47)), "the lowest fifth of class y"


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_only_numeric_columns_of_a_dataframe_are_features(kind: Any) -> None:
    y = np.repeat(["a", "b"], [60, 40])
    frame = kind({"name": ["x"] * 100, "noise": np.tile([1.0, 2.0], 50), "useful": np.arange(100)})
    assert br.shifts.covariate(y, frame, 0.5).feature == "useful"


def test_dataframes_with_integer_names_without_numbers_and_with_missing_values() -> None:
    y = np.repeat(["a", "b"], [60, 40])
    assert br.shifts.covariate(y, pd.DataFrame({0: np.arange(100), 1: 1.0}), 0.5).feature == 0
    with pytest.raises(ImpossibleShift, match="needs a numeric feature"):
        br.shifts.covariate(y, pd.DataFrame({"name": ["x"] * 100}), 0.5)
    gaps = pl.DataFrame({"age": [None, *range(99)]})
    assert br.shifts.covariate(y, gaps, 0.5).rows[0] == 0, "rows with a missing value are deleted last"


@pytest.mark.parametrize("value", [0.1, 1e-200, 1e308, -7.3])
def test_constant_features_are_ignored_and_the_scale_does_not_matter(value: float) -> None:
    y = np.repeat([0, 1], [600, 400])
    with pytest.raises(ImpossibleShift, match="that varies"):
        br.shifts.covariate(y, np.full((1000, 1), value), 0.3)
    features = np.column_stack([np.tile([0.0, 1.0], 500), value * (y == 0) * np.linspace(0.5, 1, 1000)])
    assert br.shifts.covariate(y, features, 0.3).feature == 1


def test_combined_shift_reports_a_class_that_vanishes_in_an_early_step() -> None:
    y = np.repeat([0, 1, 2], [1, 1, 1])
    with pytest.raises(ImpossibleShift) as caught:
        br.shifts.combined(y, None, 0.45)
    assert caught.value.cause == "a class would vanish"


def test_rows_with_a_missing_feature_are_deleted_last() -> None:
    y = np.repeat([0, 1], [6, 4])
    feature = np.array([np.nan, 1, 2, 3, 4, 5, 9, 9, 9, 9.0])
    shifted = br.shifts.covariate(y, feature[:, None], 0.5)
    assert shifted.rows.tolist() == [0, 4, 5, 6, 7, 8, 9]


def test_combined_shift_equals_the_three_shifts_in_sequence() -> None:
    rng = np.random.default_rng(3)
    y = np.repeat(["a", "b", "c"], [800, 120, 80])  # large enough to stay the majority after each shift
    features = rng.normal(size=(1000, 3)) + (y == "a")[:, None] * [0.1, 2.0, 0.5]
    whole = br.shifts.combined(y, features, 0.15, seed=7)
    one = np.random.default_rng(7)
    first = br.shifts.prior(y, 0.15, seed=one)
    second = br.shifts.concept(first.y, 0.15, seed=one)
    third = br.shifts.covariate(second.y, features[first.rows], 0.15)
    assert (whole.rows == first.rows[third.rows]).all()
    assert (whole.y == third.y).all()
    assert whole.feature == third.feature == 1


@pytest.mark.parametrize("kind", KINDS)
def test_result_has_the_rates_and_depends_on_the_seed(kind: str) -> None:
    rng = np.random.default_rng(0)
    y = np.array(["ill", "well", "dead"])[rng.choice(3, size=500, p=[0.25, 0.65, 0.1])]
    features = rng.normal(size=(500, 2)) + (y == "well")[:, None]
    shifted = br.shifts.shift(kind, y, features, 0.3, seed=5)
    assert shifted.classes == ("dead", "ill", "well")
    assert dict(zip(shifted.classes, shifted.old_rates, strict=True)) == pytest.approx(rates_of(y))
    assert dict(zip(shifted.classes, shifted.rates, strict=True)) == pytest.approx(rates_of(shifted.y))
    assert shifted.distance == pytest.approx(sum((shifted.rates - shifted.old_rates) ** 2))
    assert shifted.kind == kind
    again = br.shifts.shift(kind, y, features, 0.3, seed=5)
    assert (again.rows == shifted.rows).all()
    assert (again.y == shifted.y).all()
    other = br.shifts.shift(kind, y, features, 0.3, seed=6)
    same = len(other.rows) == len(shifted.rows) and (other.rows == shifted.rows).all() and (other.y == shifted.y).all()
    assert same == (kind == "covariate"), "only the covariate shift is not random"


@pytest.mark.parametrize(
    ("call", "cause", "message"),
    [
        (lambda: br.shifts.prior([0] * 6 + [1] * 5, 0.5454), "a class would vanish", "would vanish"),
        (lambda: br.shifts.prior([0] * 11 + [1] * 9, 0.7), "a class would vanish", "hold 0.550 of the rows"),
        (lambda: br.shifts.prior([0, 1, 0, 1], 0.2), "there is no minority class", "are majority classes"),
        (lambda: br.shifts.concept(["a", "b", "a", "b"], 0.2), "there is no minority class", "'a', 'b'"),
        (lambda: br.shifts.covariate([0, 0, 1], None, 0.2), "no numeric feature varies", "needs a numeric feature"),
        (lambda: br.shifts.covariate([0, 0, 1], [[2.0]] * 3, 0.2), "no numeric feature varies", "that varies"),
        (lambda: br.shifts.covariate([0, 0, 1], [[1.0], [2.0], [3.0]], 0.9), "a class would vanish", "class 0"),
    ],
)
def test_impossible_shifts_state_the_cause(call: Any, cause: str, message: str) -> None:
    with pytest.raises(ImpossibleShift, match=message) as caught:
        call()
    assert caught.value.cause == cause


def test_impossible_shift_can_be_pickled() -> None:
    with pytest.raises(ImpossibleShift) as caught:
        br.shifts.prior([0, 1], 0.2)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.cause) == (str(caught.value), caught.value.cause)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: br.shifts.prior([0, 0, 1], 0), BadOption, "between 0 and 1, not 0"),
        (lambda: br.shifts.prior([0, 0, 1], 1.5), BadOption, r"not 1\.5"),
        (lambda: br.shifts.prior([0, 0, 1], "much"), BadOption, "not 'much'"),
        (lambda: br.shifts.prior([], 0.2), BadLabels, "at least one row"),
        (lambda: br.shifts.prior([[0, 1]], 0.2), BadLabels, r"shape \(1, 2\)"),
        (lambda: br.shifts.prior([0.0, np.nan], 0.2), BadLabels, "row 1 is missing"),
        (lambda: br.shifts.prior(np.array(["a", "a", np.nan], dtype=object), 0.2), BadLabels, "row 2 is missing"),
        (lambda: br.shifts.prior([0, 0, 1], 0.2, seed=-1), BadOption, "integer of at least 0"),
        (lambda: br.shifts.misstated([0.7, 0.3], [0], np.nan), BadOption, "between -1 and 1, not nan"),
        (lambda: br.shifts.misstated([0.7, 0.3], [0.5], 0.1), BadOption, "positions of classes, 0 to 1"),
        (lambda: br.shifts.misstated([0.7, 0.3], [2], 0.1), BadOption, "positions of classes"),
        (lambda: br.shifts.prior(pd.Series(["a", "a", pd.NA], dtype="string"), 0.2), BadLabels, "row 2 is missing"),
        (lambda: br.shifts.prior(np.array(["2020", "NaT"], dtype="datetime64[D]"), 0.2), BadLabels, "row 1 is missing"),
        (lambda: br.shifts.prior(np.array([0, "b", "a"], dtype=object), 0.2), BadLabels, "mixes labels"),
        (lambda: br.shifts.prior(np.array([0, None, "a"], dtype=object), 0.2), BadLabels, "row 1 is missing"),
        (lambda: br.shifts.covariate([0, 0, 1], [[1.0], [2.0]], 0.2), BadOption, "there are 3 labels"),
        (lambda: br.shifts.combined([0] * 9 + [1], [["x"]] * 10, 0.2), BadOption, "must contain numbers"),
        (lambda: br.shifts.shift("sideways", [0, 0, 1], None, 0.2), BadOption, "no shift 'sideways'"),
    ],
)
def test_invalid_arguments_are_rejected(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


@given(seeds, st.integers(2, 8), st.sampled_from([0.0, 0.01, -0.01, 0.02, -0.02, 0.04, -0.04, 0.08, -0.08]))
@cases(200)
def test_misstated_rates_differ_by_the_error_and_sum_to_one(seed: int, k: int, error: float) -> None:
    pi = np.random.default_rng(seed).dirichlet(np.full(k, 3.0))
    large = br.shifts.majority(pi)
    rest = np.setdiff1d(np.arange(k), large)
    taken = error * len(large) / max(len(rest), 1)
    if error and (not rest.size or (pi[large] + error).min() < 0 or (pi[rest] - taken).min() < 0):
        with pytest.raises(ImpossibleShift, match=r"would be|there is no class"):
            br.shifts.misstated(pi, large, error)
        return
    stated = br.shifts.misstated(pi, large, error)
    assert stated.sum() == pytest.approx(1, abs=1e-12)
    assert stated[large] == pytest.approx(pi[large] + error, abs=1e-15)
    assert stated[rest] == pytest.approx(pi[rest] - taken, abs=1e-15)


def test_misstated_rejects_a_rate_of_0_for_a_class_that_occurs() -> None:
    with pytest.raises(ImpossibleShift, match="class 1 would get the rate 0") as caught:
        br.shifts.misstated([0.92, 0.08], [0], 0.08)
    assert caught.value.cause == "a class that occurs would get the rate 0"
    with pytest.raises(ImpossibleShift, match=r"class 0 would be 1\.0050"):
        br.shifts.misstated([0.925, 0.075], [0], 0.08)
    assert br.shifts.misstated([0.7, 0.3, 0.0], [0], 0.0).tolist() == [0.7, 0.3, 0.0]
