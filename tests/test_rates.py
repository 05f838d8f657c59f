"""Rates: construction, bounds, membership, printing, and messages for invalid arguments."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import cases, random_set

import baserate as br
from baserate.errors import BadLabels, BadOption, BadRates
from baserate.rates import Rates

ABC = ["a", "b", "c"]
P = np.random.default_rng(0).dirichlet(np.ones(3), size=30)


@cases(150)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_bounds_are_the_smallest_and_largest_rates_in_the_set(seed: int, k: int) -> None:
    # Random members of the set never exceed the bounds, and each bound is the rate of some member.
    rng = np.random.default_rng(seed)
    centre = rng.dirichlet(np.ones(k))
    known = random_set(rng, centre)
    low, high = known.bounds()
    assert known.contains(centre)
    rate_set = known.rate_set(None)
    for sign, ends in ((1, low), (-1, high)):
        for j in range(k):
            direction = np.zeros(k)
            direction[j] = sign
            end = rate_set.support(direction, centre)
            assert known.contains(end / end.sum())
            assert end[j] == pytest.approx(ends[j], abs=1e-9)
    for _ in range(50):
        other = rng.dirichlet(np.ones(k))
        inside = centre + rng.random() * (other - centre)
        if known.contains(inside):
            assert (inside >= low - 1e-9).all()
            assert (inside <= high + 1e-9).all()


def test_bounds_of_other_classes_tighten_the_bounds_of_a_class() -> None:
    low, high = Rates.between([0.1, None, None], [0.2, 0.5, None]).bounds()
    np.testing.assert_allclose(low, [0.1, 0, 0.3])
    np.testing.assert_allclose(high, [0.2, 0.5, 0.9])


def test_bounds_and_members_of_balls_agree_with_hand_calculations() -> None:
    low, high = Rates.near([0.5, 0.3, 0.2], 0.1).bounds()
    reach = 0.1 * np.sqrt(2 / 3)  # the largest change of one class in a unit vector that sums to 0
    np.testing.assert_allclose(low, np.array([0.5, 0.3, 0.2]) - reach, atol=1e-12)
    np.testing.assert_allclose(high, np.array([0.5, 0.3, 0.2]) + reach, atol=1e-12)
    chi = Rates.near([0.5, 0.3, 0.2], 0.1, metric="chi2")
    # The largest rate of a class with value v is v + radius * sqrt(v (1 - v)).
    np.testing.assert_allclose(chi.bounds()[1], [v + 0.1 * np.sqrt(v * (1 - v)) for v in (0.5, 0.3, 0.2)], atol=1e-12)
    assert chi.contains([0.52, 0.3, 0.18])
    assert not chi.contains([0.6, 0.3, 0.1])
    assert Rates.near([0.5, 0.5, 0.0], 0.1, metric="chi2").bounds()[1][2] == 0
    assert Rates.near([0.5, 0.5, 0.0], 0.1).bounds()[1][2] > 0
    assert Rates.near([0.2, 0.8], 0).contains([0.2, 0.8])


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (Rates.exact([0.25, 0.75]), "Rates: class 0 0.25, class 1 0.75"),
        (Rates.exact({"b": 0.75, "a": 0.25}, classes=["a", "b"]), "Rates: a 0.25, b 0.75"),
        (Rates.between(0.1, 0.6), "Rates between 0.1 and 0.6"),
        (Rates.between([0.2, None, None], None, classes=ABC), "Rates: a at least 0.2, b at most 0.8, c at most 0.8"),
        (
            Rates.between([0.2, 0.3, 0.1], [0.2, 0.5, None]),
            "Rates: class 0 0.2, class 1 between 0.3 and 0.5, class 2 between 0.3 and 0.5",
        ),
        (Rates.between(None, None, classes=["a", "b"]), "Rates: a unknown, b unknown"),
        (Rates.near([0.2, 0.8], 0.05), "Rates within 0.05 (Euclidean distance) of class 0 0.2, class 1 0.8"),
        (
            Rates.near([0.2, 0.8], 0.05, metric="chi2"),
            "Rates within 0.05 (chi-square distance) of class 0 0.2, class 1 0.8",
        ),
        (
            Rates.from_counts([1200, 3]),
            "Rates counted in a survey of 1,203 cases: class 0 1200, class 1 3; 95 % confidence",
        ),
        (
            Rates.from_counts([1200, 3], design_effect=1.9),
            "Rates counted in a survey of 1,203 cases: class 0 1200, class 1 3; 95 % confidence, design effect 1.9",
        ),
        (Rates.from_labels(["x", "y", "x"], 0.9), "Rates counted in a survey of 3 cases: x 2, y 1; 90 % confidence"),
        (
            Rates.of_population([0.2, 0.8], 0.99),
            "Rates of a population: class 0 0.2, class 1 0.8; 99 % confidence for a batch",
        ),
        (
            Rates.exact(np.full(8, 0.125)),
            "Rates: " + "".join(f"class {j} 0.125, " for j in range(6)) + "and 2 more",
        ),
    ],
)
def test_repr_describes_the_rates_in_words(known: Rates, text: str) -> None:
    assert repr(known) == text


def test_class_names_may_be_in_any_order() -> None:
    for known in (
        Rates.exact({"c": 0.5, "a": 0.2, "b": 0.3}),
        Rates.exact([0.5, 0.3, 0.2], classes=["c", "b", "a"]),
        Rates.between([0.5, 0.3, 0.2], [0.5, 0.3, 0.2], classes=["c", "b", "a"]),
        Rates.near({"b": 0.3, "a": 0.2, "c": 0.5}, 0),
    ):
        result = br.adjust(P, known, classes=ABC)
        np.testing.assert_allclose(result.rates, [0.2, 0.3, 0.5], atol=1e-10)
    counts = Rates.from_counts({"c": 5, "a": 2}).on(tuple(ABC), 3)
    np.testing.assert_array_equal(counts.bounds()[0][1], 0)
    np.testing.assert_allclose(counts.estimate(), np.array([2.5, 0.5, 5.5]) / 8.5)


def test_class_names_of_the_rates_become_those_of_the_result() -> None:
    assert br.adjust(P, Rates.between(0.2, 0.5, classes=ABC)).classes == tuple(ABC)


@pytest.mark.parametrize(
    ("y", "options", "counts"),
    [
        ([0, 2, 2, 0, 0], {}, [3, 0, 2]),
        ([0, 1, 1], {}, [1, 2, 0]),  # no case of the third class
        (np.array([1.0, 0.0, 1.0]), {}, [1, 2, 0]),
        (["b", "a", "b"], {"classes": ABC}, [1, 2, 0]),
        ([10, 30, 10], {"classes": [10, 20, 30]}, [2, 0, 1]),
        ([-1, 1, 1], {"classes": [-1, 0, 1]}, [1, 0, 2]),
        (np.array(["b", None], dtype=object), {"classes": ["b", None, "c"]}, [1, 1, 0]),
    ],
)
def test_from_labels_is_from_counts_of_the_labels(y: Any, options: dict[str, Any], counts: list[int]) -> None:
    known = Rates.from_labels(y, **options)
    expected = Rates.from_counts(counts)
    np.testing.assert_array_equal(known.on(None, 3).bounds(100), expected.bounds(100))
    np.testing.assert_array_equal(br.adjust(P, known).probs, br.adjust(P, expected).probs)


def test_counters_single_numbers_and_whole_floats_are_accepted() -> None:
    named = Rates.from_counts(Counter("aabc"), classes=ABC)
    np.testing.assert_array_equal(named.bounds(), Rates.from_counts([2.0, 1.0, 1.0]).bounds())
    assert br.adjust(P, Rates.between(0.3, 0.4)).rates.min() >= 0.3 - 1e-10
    assert br.adjust(P, Rates.between({"a": 0.5}, None), classes=ABC).rates[0] == pytest.approx(0.5)


def test_bounds_of_huge_surveys_and_small_batches() -> None:
    low, high = Rates.from_counts([5 * 10**8, 5 * 10**8]).bounds(10**9)
    assert 0.4999 < low[0] < 0.5 < high[0] < 0.5001
    low, high = Rates.from_counts([3, 0, 2]).bounds(1)
    np.testing.assert_array_equal(low, [0, 0, 0])
    np.testing.assert_array_equal(high, [1, 1, 1])
    low, high = Rates.from_counts([1, 0]).bounds(5)
    np.testing.assert_array_equal((low, high), [[0, 0], [1, 1]])


def test_of_population_is_exact_without_a_batch_size() -> None:
    known = Rates.of_population([0.2, 0.8])
    np.testing.assert_array_equal(known.bounds(), [[0.2, 0.8], [0.2, 0.8]])
    assert not known.contains([0.21, 0.79])
    assert known.contains([0.21, 0.79], batch_size=100)
    assert not known.contains([0.21, 0.79], batch_size=10**6)


BAD: list[tuple[Any, type[br.BaserateError], str]] = [
    (lambda: Rates.between([0.5, 0.6], [1, 1]), BadRates, "the lower bounds sum to 1.1, but class rates sum to 1"),
    (lambda: Rates.between([0, 0], [0.5, 0.4]), BadRates, "the upper bounds sum to 0.9, but class rates sum to 1"),
    (
        lambda: Rates.between([0.5, 0.1], [0.4, 0.9]),
        BadRates,
        "the lower bound of class 0 (0.5) is above the upper bound (0.4)",
    ),
    (lambda: Rates.between(0.5, 0.4), BadRates, "the lower bound (0.5) is above the upper bound (0.4)"),
    (
        lambda: Rates.between({"a": 0.5}, {"a": 0.4}),
        BadRates,
        "the lower bound of class 'a' (0.5) is above the upper bound (0.4)",
    ),
    (
        lambda: Rates.between([-0.1, 0.1], 1),
        BadRates,
        "the lower bound of class 0 is -0.1; bounds must be between 0 and 1, or None",
    ),
    (
        lambda: Rates.between(None, [0.1, 1.2]),
        BadRates,
        "the upper bound of class 1 is 1.2; bounds must be between 0 and 1, or None",
    ),
    (lambda: Rates.between([np.nan, 0.1], 1), BadRates, "the lower bound of class 0 is nan"),
    (lambda: Rates.between(["x", 0.1], 1), BadRates, "low must be 2 numbers, one for each class"),
    (
        lambda: Rates.between([0.1, 0.2], [0.3, 0.4, 0.9]),
        BadRates,
        "high must be 2 numbers, one for each class, but there are 3",
    ),
    (lambda: Rates.between({"z": 0.1}, None, classes=ABC), BadRates, "'z' is not among the classes 'a', 'b', 'c'"),
    (
        lambda: Rates.from_counts([1, 2], 1.0),
        BadRates,
        "confidence must be a number between 0 and 1, such as 0.95, not 1.0",
    ),
    (lambda: Rates.from_counts([1, 2], 95), BadRates, "confidence must be a number between 0 and 1"),
    (lambda: Rates.from_labels(["a"], 0.0), BadRates, "confidence must be a number between 0 and 1"),
    (lambda: Rates.of_population([0.5, 0.5], "95%"), BadRates, "confidence must be a number between 0 and 1"),
    (lambda: Rates.from_counts([1, -2]), BadRates, "the count of class 1 is -2; counts must be 0 or more"),
    (
        lambda: Rates.from_counts([1.5, 2]),
        BadRates,
        "the count of class 0 is 1.5; counts must be whole numbers of cases, not rates",
    ),
    (lambda: Rates.from_counts([np.nan, 2]), BadRates, "the count of class 0 is nan; counts must be"),
    (lambda: Rates.from_counts([np.inf, 2]), BadRates, "the count of class 0 is inf; counts must be"),
    (lambda: Rates.from_counts([0, 0]), BadRates, "all counts are 0; a survey needs at least one case"),
    (lambda: Rates.from_counts([1e300, 1]), BadRates, "counts must not sum to more than 1e11; use Rates.of_population"),
    (lambda: Rates.from_counts([None, 2]), BadRates, "a count is None; use 0 for a class without cases"),
    (lambda: Rates.from_counts({"a": 3, "b": -3}), BadRates, "the count of class 'b' is -3"),
    (lambda: Rates.from_counts({}), BadRates, "all counts are 0"),
    (lambda: Rates.from_counts(5), BadRates, "counts is one number, 5; also pass total= with the number of all cases"),
    (lambda: Rates.exact(None), BadRates, "values must be a list or dict with one number per class, not None"),
    (lambda: Rates.exact([0.2, 0.8], classes=5), BadOption, "classes must be a list"),
    (lambda: Rates.exact([0.2, 0.8], classes=["a"]), BadRates, "classes has 1 name, but values has 2 numbers"),
    (lambda: Rates.between({0.1, 0.2}, 1.0), BadRates, "low must be"),
    (lambda: Rates.between(["0.1", "0.2"], None), BadRates, "low must be 2 numbers"),
    (lambda: Rates.from_counts([10**400, 1]), BadRates, "the entry of class 0 is too large: a float can hold"),
    (lambda: Rates.from_counts([1e308, 1e308]), BadRates, "counts must not sum to more than 1e11"),
    (lambda: Rates.from_counts([1j, 1]), BadRates, "the entry of class 0 is 1j, which is not a real number"),
    (lambda: Rates.from_counts(5, classes=["a", "b"]), BadRates, "counts is one number, 5; also pass total="),
    (lambda: Rates.from_counts([1, 2], 10**400), BadRates, "confidence must be a number between 0 and 1"),
    (lambda: Rates.exact([10**400, 1]), BadRates, "the rate of class 0 is too large"),
    (lambda: Rates.exact([Decimal("sNaN"), 1]), BadRates, "the rate of class 0 is not a number"),
    (lambda: Rates.exact(["0.5", "0.5"]), BadRates, "rates must be real numbers, but have dtype <U3; convert them"),
    (lambda: Rates.of_population([0.5j, 0.5]), BadRates, "have dtype complex128; take the real part"),
    (lambda: Rates.between([10**400, 0], None), BadRates, "the entry of class 0 is too large"),
    (lambda: Rates.between(10**400, None), BadRates, "low is too large: a float can hold at most"),
    (lambda: Rates.between([0.4, 0.5], [0.4, 0.5]), BadRates, "rates sum to 0.9, not 1; to rescale them, divide each"),
    (lambda: Rates.near([0.5, 0.5], 10**400), BadRates, "radius must be 0 or a positive number, not 1000"),
    (lambda: Rates.near([0.5, 0.5], np.complex128(1)), BadRates, "radius must be 0 or a positive number, not"),
    (lambda: Rates.parse(0.5), BadRates, "the text with the rates must be a string, not 0.5; write cat=0.2"),
    (lambda: Rates.from_labels([1e308, 1]), BadLabels, "labels must be class names or whole numbers"),
    (lambda: Rates.from_labels([{}, 1]), BadLabels, "labels must be class names or whole numbers: unhashable"),
    (lambda: Rates.from_labels([[1], [1, 2]]), BadLabels, "labels must be a list with one label per case"),
    (lambda: Rates.from_counts([1, 2]).bounds(10**30), BadOption, "but must be at most 2**53"),
    (lambda: Rates.between(True, True), BadRates, "low must be"),
    (lambda: Rates.from_labels([0.0, np.inf]), BadLabels, "labels must be class names or whole numbers"),
    (lambda: Rates.from_counts([5]), BadRates, "at least 2 classes"),
    (lambda: Rates.from_counts("12"), BadRates, "counts must be"),
    (lambda: Rates.from_labels([]), BadLabels, "labels must be a list with one label per case"),
    (lambda: Rates.from_labels([[0, 1]]), BadLabels, "labels must be a list with one label per case"),
    (lambda: Rates.from_labels([0.5, 1]), BadLabels, "labels must be class names or whole numbers"),
    (lambda: Rates.from_labels([0, 5]).on(None, 3), BadRates, "5 is not among the classes 0, 1, 2"),
    (lambda: Rates.from_labels([-1, 1]).on(None, 3), BadRates, "-1 is not among the classes 0, 1, 2"),
    (lambda: Rates.near([0.5, 0.5], -0.1), BadRates, "radius must be 0 or a positive number, not -0.1"),
    (lambda: Rates.near([0.5, 0.5], np.nan), BadRates, "radius must be 0 or a positive number"),
    (
        lambda: Rates.near([0.5, 0.5], 0.1, metric="l1"),
        BadOption,
        "metric must be 'euclidean', 'chi2' or 'largest', not 'l1'",
    ),
    (lambda: Rates.near([0.5, 0.6], 0.1), BadRates, "sum to 1.1, not 1"),
    (lambda: Rates.exact([0.5, 0.6]), BadRates, "rates sum to 1.1, not 1"),
    (lambda: Rates.exact([0.5, 0.5], classes=["a", "a"]), BadOption, "more than once"),
    (lambda: Rates.exact([0.5, 0.5], classes="ab"), BadOption, "classes must be a list"),
    (lambda: Rates.between({"a": 0.1}, 0.9).bounds(), BadRates, "the number of classes is not known; pass classes="),
    (lambda: Rates.from_counts([1, 2]).bounds(0), BadOption, "batch_size must be a whole number above 0, not 0"),
    (
        lambda: Rates.from_counts([1, 2]).contains([0.5, 0.5], 2.5),
        BadOption,
        "batch_size must be a whole number above 0",
    ),
    (lambda: Rates.exact([0.5, 0.5]).bounds("all"), BadOption, "batch_size must be a whole number above 0"),
    (lambda: Rates.from_counts([1, 2]).contains([0.5, 0.6]), BadRates, "values sum to 1.1, not 1"),
    (lambda: br.adjust(P, Rates.exact([0.5, 0.5])), BadRates, "must be 3 numbers"),
    (
        lambda: br.adjust(P, Rates.exact({"a": 0.5, "b": 0.5})),
        BadRates,
        "Pass classes=[...] with the names of the 3 columns",
    ),
    (
        lambda: br.adjust(P, Rates.between({"a": 0.5}, None)),
        BadRates,
        "low are given by class name, but the columns have no names. Pass classes=",
    ),
    (
        lambda: br.adjust(P, Rates.from_labels(["a", "b"])),
        BadRates,
        "counts are given by class name, but the columns have no names. Pass classes=",
    ),
    (
        lambda: br.adjust(P, Rates.between(0.1, 0.5, classes=["a", "b"])),
        BadRates,
        "the rates have 2 classes ('a', 'b'), but there are 3 columns",
    ),
    (
        lambda: br.adjust(P, Rates.between(0.1, 0.5, classes=["a", "b", "d"]), classes=ABC),
        BadRates,
        "the rates have the classes 'a', 'b', 'd', but the columns are 'a', 'b', 'c'",
    ),
    *(
        (
            partial(Rates.from_counts, [5, 5], design_effect=effect),
            BadRates,
            f"must be a number of at least 1, such as 1.9, not {effect!r}",
        )
        for effect in (0, -1.9, 0.5, float("nan"), float("inf"), None, True, "2")
    ),
    (
        lambda: Rates.parse("0.2,0.8", design_effect=1.9),
        BadRates,
        "design_effect is for the counts of a survey, but these are other rates: '0.2,0.8'; leave out design_effect",
    ),
    (lambda: br.adjust(P, Rates.between(0.4, 0.5)), BadRates, "the lower bounds sum to 1.2, but class rates sum to 1"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD, ids=[case[2][:50] for case in BAD])
def test_invalid_arguments_get_a_message_that_names_the_problem(
    call: Any, error: type[br.BaserateError], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_decimals_and_fractions_are_accepted() -> None:
    for quarter, rest in ((Fraction(1, 4), Fraction(3, 4)), (Decimal("0.25"), Decimal("0.75"))):
        np.testing.assert_array_equal(br.adjust([[0.5, 0.5]], [quarter, rest]).wanted, [0.25, 0.75])
        assert Rates.between([quarter, None], None).bounds()[0][0] == 0.25
    assert repr(Rates.from_counts([Decimal(2), Fraction(3)])) == repr(Rates.from_counts([2, 3]))


def test_rates_that_sum_to_one_up_to_rounding_are_not_changed() -> None:
    rates = [0.4, 0.3, 0.2, 0.1]
    assert sum(rates) != 1
    result = br.adjust(np.full((2, 4), 0.25), rates)
    assert [bound.value for bound in result.active] == rates
    assert result.wanted.tolist() == rates
    rounded = br.adjust(np.full((2, 3), 1 / 3), [0.3333333, 0.3333333, 0.3333333]).wanted
    np.testing.assert_allclose(rounded.sum(), 1, atol=1e-15)


@pytest.mark.parametrize("zeros", [1, 1.0, 1.5, 1.999, 2.0])
def test_smoothing_by_one_or_more_is_refused(zeros: float) -> None:
    with pytest.raises(BadOption, match=rf"zeros must be 'keep' or a number between 0 and 1\b.*, not {zeros!r}"):
        br.adjust(P, [0.2, 0.3, 0.5], zeros=zeros)


@pytest.mark.parametrize("level", [7, 0, 1, 95, "x", None, float("nan"), True])
@pytest.mark.parametrize(
    "rates",
    [
        br.Rates.exact([0.2, 0.8]),
        br.Rates.of_population([0.2, 0.8]),
        br.Rates.from_counts([2, 8]),
        br.Rates.from_samples(np.random.default_rng(0).dirichlet([2, 8], 50)),
        br.Rates.by("site", {"north": 0.1, "south": 0.2}),
        br.Margins(br.Rates.of_population([0.2, 0.8])),
    ],
    ids=["exact", "population", "counts", "samples", "groups", "margins"],
)
def test_a_confidence_is_between_0_and_1(rates: br.Rates, level: Any) -> None:
    with pytest.raises(br.BaserateError, match=r"level must be a number between 0 and 1, such as 0\.95, not"):
        rates.at_confidence(level)


def test_design_effects_are_used_stated_and_saved(tmp_path: Path) -> None:
    y = [0] * 50 + [1] * 30 + [2] * 20
    known = Rates.from_labels(y, 0.9, design_effect=2, classes=[0, 1, 2])
    for same in (Rates.from_counts([50, 30, 20], 0.9, design_effect=2), Rates.parse("counts:50,30,20", 0.9, 2)):
        np.testing.assert_array_equal(same.bounds(100), known.bounds(100))
    result = br.adjust(P, known)
    assert "with about 90 % confidence, if the survey has a design effect of at most 2 and these rows" in repr(result)
    result.save(tmp_path / "shift.json")
    assert repr(br.load(tmp_path / "shift.json").certificate.known) == repr(known)
    assert "design_effect" not in Rates.from_counts([50, 30, 20]).to_json()  # earlier versions can read it
