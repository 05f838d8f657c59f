"""Rates that are saved and loaded: all types of numbers and class names, and files that nothing here has written."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import baserate as br
from baserate.errors import BadFile, BadOption
from baserate.support.json_file import RATES, write_json

COVARIANCE = np.array([[0.02, -0.015, -0.005], [-0.015, 0.02, -0.005], [-0.005, -0.005, 0.01]])
RNG = np.random.default_rng(0)


def loaded(rates: br.Rates, folder: Path) -> br.Rates:
    """The same rates from a file."""
    rates.save(folder / "rates.json")
    return br.Rates.load(folder / "rates.json")


NUMBERS: list[Callable[[], br.Rates]] = [
    lambda: br.Rates.exact(np.float32(0.25)),
    lambda: br.Rates.exact(Fraction(1, 4)),
    lambda: br.Rates.exact({"a": Decimal("0.25"), "b": Decimal("0.75")}),
    lambda: br.Rates.exact({np.str_("a"): np.float32(0.25), np.str_("b"): np.float64(0.75)}),
    lambda: br.Rates.between(np.float32(0.25), np.float64(0.5)),
    lambda: br.Rates.between({"a": np.float32(0.25)}, {"a": Fraction(1, 2)}),
    lambda: br.Rates.near(np.float32(0.25), np.float32(0.125)),
    lambda: br.Rates.near(np.float32(0.5), np.float32(1), metric=[[0.01, -0.01], [-0.01, 0.01]]),
    lambda: br.Rates.of_population({"a": np.float32(0.25)}, np.float32(0.5)),
    lambda: br.Rates.from_counts({"a": np.int64(3)}, total=np.int64(9)),
    lambda: br.Rates.from_counts(np.int64(3), total=np.int64(9), design_effect=np.float32(1.5)),
    lambda: br.Rates.from_samples(RNG.dirichlet([2, 3, 5], 50), np.float32(0.75)),
    lambda: br.Rates.from_samples(pd.Series(np.random.default_rng(0).beta(2, 3, 50), name="a")),
]


@pytest.mark.parametrize("make", NUMBERS)
def test_numbers_of_all_types_can_be_saved(make: Callable[[], br.Rates], tmp_path: Path) -> None:
    rates = make()
    again = loaded(rates, tmp_path)
    k = rates.n_classes or 2
    classes = ("b", "a", "c")[:k]
    np.testing.assert_allclose(again.on(classes, k).bounds(), rates.on(classes, k).bounds(), rtol=1e-12)


@pytest.mark.parametrize("names", [(1, 2), (True, False), (1.0, 2.5), ("1", "2"), (1, "1"), (np.int64(4), np.int64(5))])
@pytest.mark.parametrize("kind", ["exact", "between", "near", "of_population", "from_counts"])
def test_the_types_of_class_names_are_kept(names: tuple[Any, Any], kind: str, tmp_path: Path) -> None:
    rates = dict(zip(names, [0.25, 0.75], strict=True))
    known = {
        "exact": lambda: br.Rates.exact(rates),
        "between": lambda: br.Rates.between(rates, None),
        "near": lambda: br.Rates.near(rates, 0.1),
        "of_population": lambda: br.Rates.of_population(rates),
        "from_counts": lambda: br.Rates.from_counts(dict.fromkeys(names, 5)),
    }[kind]()
    again = loaded(known, tmp_path)
    assert repr(again) == repr(known)
    classes = tuple(name.item() if isinstance(name, np.generic) else name for name in names[::-1])
    np.testing.assert_array_equal(again.on(classes, 2).bounds(), known.on(classes, 2).bounds())


@pytest.mark.parametrize("labels", [[1, 1, 1], [0, 2, 2], ["a", "a"]])
def test_labels_of_a_survey_in_which_classes_are_absent_can_be_saved(labels: list[Any], tmp_path: Path) -> None:
    survey = br.Rates.from_labels(labels)
    classes = ("a", "b", "c") if labels[0] == "a" else None
    again = loaded(survey, tmp_path)
    np.testing.assert_array_equal(again.on(classes, 3).bounds(), survey.on(classes, 3).bounds())


@pytest.mark.parametrize("name", [("a", 1), None, float("nan"), pd.Timestamp("2024-01-01")])
def test_class_names_that_json_cannot_hold_are_refused(name: Any, tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    for rates in (br.Rates.between({name: 0.2}, None), br.Rates.exact([0.2, 0.8], classes=[name, "b"])):
        with pytest.raises(BadOption, match="class names must be strings, finite numbers or booleans to be saved"):
            rates.save(path)
    assert not path.exists()


def description(rates: br.Rates) -> dict[str, Any]:
    """The description of rates in a file, which can be changed."""
    return json.loads(json.dumps(rates.to_json()))


def estimated() -> br.Rates:
    y_val = RNG.integers(3, size=300)
    y = RNG.integers(3, size=300)
    p_val, p = (np.eye(3)[labels] * 0.6 + RNG.dirichlet([1, 1, 1], 300) * 0.4 for labels in (y_val, y))
    return br.estimate(p, probs_val=p_val, y_val=y_val)


def labelled() -> br.Rates:
    p = RNG.dirichlet([2, 3, 4], 300)
    return br.estimate(p, labelled=np.arange(0, 300, 5), y_labelled=p[::5].argmax(axis=1))


def from_samples() -> br.Rates:
    return br.Rates.from_samples(RNG.dirichlet([2, 3, 5], 50))


WRONG: list[tuple[Callable[[], br.Rates], dict[str, Any], str]] = [
    (estimated, {"values": [0.2, 0.3]}, "class"),
    (estimated, {"values": [0.9, 0.9, 0.9]}, r"values sum to 2\.7, not 1"),
    (estimated, {"values": [1.5, -0.25, -0.25]}, "values must be 0 or more"),
    (estimated, {"values": [1.0, 0.0, 0.0]}, "the estimate is not within its bounds"),
    (estimated, {"low": [0.9, 0.9, 0.9], "high": [0.1, 0.1, 0.1]}, r"the lower bound.* is above the upper bound"),
    (estimated, {"high": [2.0, 1.0, 1.0]}, "bounds must be between 0 and 1"),
    (estimated, {"low": ["a", "b", "c"]}, "could not convert"),
    (estimated, {"mean": [[0.2], [0.3], [0.5]]}, "mean must be 3 finite numbers, one for each class"),
    (estimated, {"centre": [0.2, 0.2, 0.2]}, r"centre sums to 0\.6, not 1"),
    (estimated, {"covariance": [[1, 0], [0, 1], [0, 0]]}, r"metric has shape \(3, 2\)"),
    (estimated, {"covariance": (-COVARIANCE).tolist()}, "has a negative variance in some direction"),
    (estimated, {"covariance": [[1, 0, 0], [1, 1, 0], [0, 0, 1]]}, "is not symmetric"),
    (estimated, {"covariance": None}, "centre, covariance and radius belong together"),
    (estimated, {"radius": -1}, "radius must be 0 or a positive number, not -1"),
    (estimated, {"confidence": 95}, "confidence must be a number between 0 and 1, such as 0.95, not 95"),
    (estimated, {"method": "labelled"}, "method must be one of 'moments', 'exact', not 'labelled'"),
    (estimated, {"p_value": 7}, "p_value must be a number between 0 and 1, not 7"),
    (estimated, {"n_rows": 0.5}, r"n_rows must be a whole number above 0, not 0\.5"),
    (estimated, {"n_validation": -1}, "n_validation must be a whole number above 0, not -1"),
    (estimated, {"future": 1}, "'estimated' rates have no field 'future'; a newer version of baserate may have"),
    (labelled, {"n_labelled": 0}, "n_labelled must be a whole number above 0, not 0"),
    (labelled, {"values": [0.9, 0.9, 0.9]}, r"sum to 2\.7, not 1"),
    (labelled, {"values": [1.0, 0.0, 0.0]}, "the estimate is not within its bounds"),
    (from_samples, {"n_draws": "many"}, "n_draws must be a whole number above 0, not 'many'"),
    (from_samples, {"confidence": 1}, "confidence must be a number between 0 and 1"),
    (from_samples, {"covariance": (-COVARIANCE).tolist()}, "has a negative variance in some direction"),
    (
        from_samples,
        {"kind": "histogram"},
        "the kind of rates is 'histogram', but this version .* knows only 'between', ",
    ),
    (from_samples, {"kind": ["samples"]}, r"the kind of rates is \['samples'\]"),
]


@pytest.mark.parametrize(("make", "changes", "message"), WRONG)
def test_files_with_impossible_rates_are_refused(
    make: Callable[[], br.Rates], changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "rates.json"
    write_json(path, {"classes": None, "rates": description(make()) | changes}, RATES)
    with pytest.raises(BadFile, match=rf"rates\.json does not describe a set of class rates: .*{message}"):
        br.Rates.load(path)


def test_a_saved_adjustment_is_not_taken_for_rates(tmp_path: Path) -> None:
    shift, rates = tmp_path / "shift.json", tmp_path / "rates.json"
    br.adjust([0.2, 0.4], 0.1).save(shift)
    br.Rates.exact(0.1).save(rates)
    message = "it is a saved adjustment, which Adjustment.save wrote; pass a file that Rates.save wrote"
    for read in (br.Rates.load, br.Rates.parse):
        with pytest.raises(BadFile, match=message):
            read(str(shift))
    with pytest.raises(BadFile, match=r"it is a saved set of class rates, which Rates\.save wrote; pass a file that"):
        br.load(rates)


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    numbers = description(estimated())
    del numbers["high"]
    write_json(tmp_path / "rates.json", {"classes": None, "rates": numbers}, RATES)
    with pytest.raises(BadFile, match="the field 'high' of 'estimated' rates is missing"):
        br.Rates.load(tmp_path / "rates.json")


def test_rates_by_group_with_class_names_of_numpy_can_be_saved(tmp_path: Path) -> None:
    rates = br.Rates.by("g", {"n": {np.int64(3): 0.1, np.int64(4): 0.9}})
    assert loaded(rates, tmp_path).classes == (3, 4)


def test_rates_of_a_group_with_an_infinite_label_can_be_saved(tmp_path: Path) -> None:
    probs, groups = np.linspace(0.05, 0.5, 40), np.repeat([1.5, np.inf], 20)
    rates = br.Rates.by("g", {1.5: 0.1, np.inf: 0.2})
    result = br.adjust(probs, rates, groups=groups)
    again = br.adjust(probs, loaded(rates, tmp_path), groups=groups)
    np.testing.assert_array_equal(again.probs, result.probs)
    result.save(tmp_path / "shift.json")
    found = br.load(tmp_path / "shift.json").apply(probs, groups=groups)
    np.testing.assert_allclose(found, result.probs, rtol=1e-12)


def test_a_class_name_that_is_too_long_to_print_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="to be saved, not a value of type int that is too long to print"):
        br.Rates.exact({10**5000: 0.2, 1: 0.8}).save(tmp_path / "rates.json")


def test_rates_are_saved_only_where_they_can_be_parsed_again(tmp_path: Path) -> None:
    rates = br.Rates.between(0.01, 0.03)
    with pytest.raises(BadOption, match=r"rates\.txt does not end in \.json, but the rates are written as JSON"):
        rates.save(tmp_path / "rates.txt")
    assert not list(tmp_path.iterdir())
    for name in ("rates.json", "RATES.JSON"):
        rates.save(tmp_path / name)
        assert str(br.Rates.parse(str(tmp_path / name))) == str(rates)
