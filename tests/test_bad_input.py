"""Bad input raises an error that says what is wrong and where."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import baserate as br
from baserate import errors
from baserate.support import json_file

P = [[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]]
R = [0.5, 0.3, 0.2]


def with_entry(i: int, j: int, value: float, n: int = 100) -> np.ndarray:
    p = np.tile([0.7, 0.2, 0.1], (n, 1))
    p[i, j] = value
    return p


BAD_PROBS: list[tuple[Any, str]] = [
    (with_entry(42, 1, np.nan), r"row 42, column 1 is nan; probabilities must be finite"),
    (with_entry(99, 2, np.inf), r"row 99, column 2 is inf"),
    (with_entry(3, 0, -0.1), r"row 3, column 0 is -0\.1; probabilities must not be negative; .*from_logits=True"),
    (
        with_entry(7, 0, 0.8),
        r"1 of the 100 rows starting at row 0 do not sum to 1; .* row 7, which sums to 1\.1\. .*normalize=True",
    ),
    ([[7, 2, 1], [3, 3, 4]], r"2 of the 2 rows .* sums to 10"),
    (np.ones((2, 2, 2)), r"has shape \(2, 2, 2\)"),
    (np.empty((0, 3)), r"empty: its shape is \(0, 3\)"),
    ([], r"probs is empty"),
    (np.empty((2, 0)), r"0 columns"),
    ([["a", "b", "c"], ["d", "e", "f"]], r"must hold real numbers, but has dtype <U1"),
    ([[0.7, 0.3], [0.1, 0.2, 0.7]], r"rows have different lengths"),
    (np.array([[0.7, 0.2, 0.1]]) + 0j, r"dtype complex128; take the real part"),
    (np.array([[0.7, 0.2, 0.1]], dtype=object), r"dtype object; convert it with \.astype\(float\)"),
    (np.array([[0.7, None, 0.1]], dtype=object), r"dtype object"),
    (np.ma.masked_array([[0.7, 0.2, 0.1]], mask=[[0, 1, 0]]), r"masked entries"),
    (None, r"dtype object"),
    (["a", 1.0], r"real numbers"),
]


@pytest.mark.parametrize(("probs", "message"), BAD_PROBS, ids=range(len(BAD_PROBS)))
def test_bad_probabilities_are_refused(probs: Any, message: str) -> None:
    with pytest.raises(errors.BadProbabilities, match=message):
        br.adjust(probs, R)


@pytest.mark.parametrize("probs", [[0.7, 0.2, 0.1], [[1.0], [1.0]]])
def test_one_number_per_row_is_not_enough_for_three_classes(probs: Any) -> None:
    with pytest.raises(
        errors.BadRates, match=r"2 numbers.*one number per row is the probability of one of two classes"
    ):
        br.adjust(probs, R)


def test_row_numbers_in_messages_count_over_the_whole_input() -> None:
    with pytest.raises(errors.BadProbabilities, match="row 123456, column 2 is nan"):
        br.adjust(with_entry(123_456, 2, np.nan, n=200_000), R)


def test_message_on_sparse_matrices_names_toarray() -> None:
    from scipy.sparse import csr_array

    with pytest.raises(errors.BadProbabilities, match=r"sparse matrix; pass probs\.toarray\(\)"):
        br.adjust(csr_array(P), R)


def test_masked_entries_of_arguments_are_refused() -> None:
    # NumPy converts a masked array to its data, which has any number at a masked entry.
    def masked(values: Any, at: int) -> Any:
        return np.ma.masked_array(values, mask=np.arange(len(values)) == at)

    labels = np.arange(len(P)) % 3
    result = br.adjust(P, R)
    with pytest.raises(errors.BadWeights, match="sample_weight is a masked array"):
        br.adjust(P, R, sample_weight=masked(np.ones(len(P)), 1))
    with pytest.raises(errors.BadRates, match=r"rates are a masked array.*Rates\.between with None"):
        br.adjust(P, masked(R, 1))
    with pytest.raises(errors.BadLabels, match="y is a masked array"):
        br.compare(P, masked(labels, 1), R)
    with pytest.raises(errors.BadLabels, match="labels are a masked array"):
        br.Rates.from_labels(masked(labels, 1))
    with pytest.raises(errors.BadLabels, match="y_val is a masked array"):
        br.estimate(P, probs_val=P[::-1], y_val=masked(labels, 1))
    with pytest.raises(errors.BadLabels, match="y_labelled is a masked array"):
        br.estimate(P, labelled=[0, 1], y_labelled=masked([0, 1], 1))
    with pytest.raises(errors.BadOption, match="labelled is a masked array"):
        br.estimate(P, labelled=masked([0, 1], 1), y_labelled=[0, 1])
    with pytest.raises(errors.BadRates, match="radius is masked"):
        br.Rates.near(R, np.ma.masked)
    unmasked = np.ma.masked_array(R, mask=False)
    assert np.array_equal(br.adjust(P, unmasked).shift, result.shift)


BAD_RATES: list[tuple[Any, dict[str, Any], str]] = [
    ([0.5, 0.6, -0.1], {}, r"rate of class 2 is -0\.1; rates must be 0 or more"),
    ([0.5, np.nan, 0.5], {}, r"rate of class 1 is nan; rates must be finite"),
    ([0.5, 0.3, 0.3], {}, r"rates sum to 1\.1, not 1"),
    ([0.5, 0.5], {}, r"rates must be 3 numbers, one for each class, but have shape \(2,\)"),
    ([[0.5, 0.3, 0.2]], {}, r"shape \(1, 3\)"),
    (0.5, {}, r"rates is one number, 0\.5, but there are 3 classes; pass 3 numbers, or a dict"),
    (["a", "b", "c"], {}, r"must be real numbers, but have dtype <U1"),
    ([0.5, [0.3], 0.2], {}, r"must be 3 numbers"),
    (
        {"a": 0.5, "b": 0.5},
        {},
        r"rates are given by class name, but .*\. Pass classes=\[\.\.\.\] with the names of the 3 columns",
    ),
    ({"a": 0.5, "b": 0.5}, {"classes": ["a", "b", "c"]}, r"rates has no entry for 'c' \(it has 'a', 'b'\)"),
    (
        {"a": 0.5, "b": 0.3, "c": 0.1, "d": 0.1},
        {"classes": ["a", "b", "c"]},
        r"'d' is not among the classes 'a', 'b', 'c'",
    ),
    ([10**400, 1, 1], {}, r"the rate of class 0 is too large: a float can hold at most 1\.8e\+308"),
    ([0.5, None, 0.5], {}, r"the rate of class 1 is None, which is not a real number"),
    ([0.5, 0.5j, 0.5], {}, r"must be real numbers, but have dtype complex128; take the real part"),
    (["0.5", "0.3", "0.2"], {}, r"must be real numbers, but have dtype <U3; convert them with float\(\)"),
    ({"a": 0.5, "b": 0.3, "C": 0.2}, {"classes": ["a", "b", "c"]}, r"no entry for 'c' \(.*\); 'C' is not among"),
    (
        {1: 0.5, "1": 0.3, 3: 0.2},
        {"classes": ["1", "2", "3"]},
        r"1 \(int\) was not matched with '1' \(str\), because several names have this text; rename one$",
    ),
    (
        br.Rates.exact([0.5, 0.3, 0.2], classes=["1", "a", "b"]),
        {"classes": [1, 2, 3]},
        r"the rates have the classes 1, 'a', 'b', but the columns are 1, 2, 3; use the same class names for both",
    ),
]


@pytest.mark.parametrize(("rates", "options", "message"), BAD_RATES, ids=range(len(BAD_RATES)))
def test_bad_rates_are_refused(rates: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.BadRates, match=message):
        br.adjust(P, rates, **options)


def test_columns_whose_names_differ_in_type_from_those_of_the_rates_are_found(tmp_path: Path) -> None:
    frame = pd.DataFrame({"1": [0.2, 0.5], "0": [0.8, 0.5]})
    frame.to_csv(tmp_path / "in.csv", index=False)
    for probs in (frame, tmp_path / "in.csv"):
        np.testing.assert_allclose(br.adjust(probs, {1: 0.3, 0: 0.7}).rates, [0.3, 0.7], atol=1e-9)
    result = br.adjust(frame.rename(columns=int), {1: 0.3, 0: 0.7})
    result.apply(tmp_path / "in.csv", out=tmp_path / "out.csv")
    np.testing.assert_allclose(result.apply(frame), pd.read_csv(tmp_path / "out.csv"), atol=1e-9)
    np.testing.assert_allclose(result.apply(frame).mean(), [0.3, 0.7], atol=1e-9)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -1], r"sample_weight\[1\] is -1\.0; weights must be finite and 0 or more"),
        ([1, np.nan], r"sample_weight\[1\] is nan"),
        ([0, 0], r"all weights are zero"),
        ([1, 1, 1], r"shape \(2,\), one for each row, but has shape \(3,\)"),
        ([[1], [1]], r"but has shape \(2, 1\)"),
        (["a", "b"], r"real numbers"),
        ([1, [2]], r"one number per row"),
    ],
)
def test_bad_weights_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(errors.BadWeights, match=message):
        br.adjust(P, R, sample_weight=weights)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"zeros": "drop"}, r"zeros must be 'keep' or a number between 0 and 1 .*, such as 1e-6, not 'drop'"),
        ({"zeros": -1e-6}, r"not -1e-06"),
        ({"zeros": 0}, r"not 0"),
        ({"zeros": True}, r"not True"),
        ({"bounded": "no"}, r"bounded must be True or False, not 'no'"),
        ({"from_logits": 1}, r"from_logits must be True or False, not 1"),
        ({"normalize": None}, r"normalize must be True or False"),
        ({"tol": 0}, r"tol must be a number between 0 and 1, not 0"),
        ({"tol": "small"}, r"not 'small'"),
        ({"max_passes": 0}, r"max_passes must be a whole number above 0, not 0"),
        ({"max_passes": 2.5}, r"not 2\.5"),
        ({"classes": ["a", "b"]}, r"classes has 2 names, but there are 3 columns"),
        ({"classes": ["a", "b", "a"]}, r"classes contains 'a' more than once"),
        ({"progress": 3}, r"progress must be an object of a subclass of baserate\.progress\.Progress, or None, not 3"),
        ({"progress": False}, r"not False"),
        ({"classes": "abc"}, r"classes must be a list of 3 names"),
        ({"classes": {"a", "b", "c"}}, r"in the order of the columns, not \{"),
        ({"classes": [[0], [1], [2]]}, r"plain values such as strings or numbers, not \[0\]"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.BadOption, match=message):
        br.adjust(P, R, **options)


def test_a_saved_adjustment_cannot_be_loaded_with_another_loss(tmp_path: Path) -> None:
    path = tmp_path / "shift.json"
    br.adjust(P, R).save(path)
    assert br.load(path, loss="log").loss == br.losses.Log()
    with pytest.raises(errors.BadFile, match=r"saved for the loss \{'name': 'log'\}, not for \{'name': 'brier'\}"):
        br.load(path, loss="brier")


def test_bad_logits_are_refused() -> None:
    logits = np.zeros((5, 3))
    logits[2, 1] = np.nan
    with pytest.raises(errors.BadProbabilities, match=r"row 2, column 1 is nan; logits must be finite or -inf"):
        br.adjust(logits, R, from_logits=True)
    logits[2, 1] = np.inf
    with pytest.raises(errors.BadProbabilities, match=r"row 2, column 1 is inf"):
        br.adjust(logits, R, from_logits=True)
    logits[2] = -np.inf
    with pytest.raises(errors.BadProbabilities, match=r"all logits of row 2 are -inf"):
        br.adjust(logits, R, from_logits=True)


def test_rows_of_zeros_cannot_be_normalized() -> None:
    with pytest.raises(errors.BadProbabilities, match=r"all entries of row 1 are 0, so it cannot be normalized"):
        br.adjust([[1, 1, 2], [0, 0, 0]], R, normalize=True)


def test_prior_adjustment_refuses_old_rates_of_0_for_predicted_classes() -> None:
    with pytest.raises(errors.BadRates, match=r"the old rate of class 2 is 0, but it is predicted"):
        br.prior_adjust(P, [0.5, 0.5, 0], R)
    with pytest.raises(errors.BadRates, match=r"old_rates sum to 0\.5"):
        br.prior_adjust(P, [0.5, 0, 0], R)


def test_bad_labels_are_refused() -> None:
    brier = br.losses.Brier()
    for y, message in [
        ([0], r"shape \(1,\), but there are 2 predictions of 3 classes"),
        ([0, 3], r"y\[1\] is 3, but the columns are numbered 0 to 2"),
        ([0, -1], r"y\[1\] is -1"),
        (["a", "b"], r"y contains 'a', but the columns have no names; pass column numbers"),
        ([0.0, 0.5], r"y contains 0.5, but the columns have no names"),
        (np.eye(2), r"shape \(2, 2\), but the predictions have shape \(2, 3\)"),
        ([[1, 0, 0], [1, 1, 0]], r"row 1 of y sums to 2"),
        ([["a"] * 3] * 2, r"y contains 'a'; a label matrix must be numeric"),
        ([[2, -1, 0], [1, 0, 0]], r"row 0 of y sums to 1, and its smallest entry is -1"),
        ([[1, 0, 0], [1]], r"different lengths"),
    ]:
        with pytest.raises(errors.BadLabels, match=message):
            brier.score(P, y)


def test_apply_refuses_bad_rows() -> None:
    result = br.adjust(P, R)
    for rows, message in [
        ([[0.5, 0.5]], r"new_probs has 2 columns, but the adjustment was fitted on 3 classes"),
        ([[0.5, 0.5, 0.5]], r"1 of the 1 rows .* sums to 1\.5"),
        ([[np.nan, 0.5, 0.5]], r"row 0, column 0 is nan"),
        (0.5, r"has shape \(\)"),
    ]:
        with pytest.raises(errors.BadProbabilities, match=message):
            result.apply(rows)


def test_apply_names_the_row_without_an_unbounded_adjustment() -> None:
    flat = np.full((50, 3), 1 / 3)
    result = br.adjust(flat, [0.9, 0.05, 0.05], loss="spherical", bounded=False)
    with pytest.raises(
        errors.BadProbabilities, match=r"row 1 has no unbounded adjustment by this shift; .*bounded=True"
    ):
        result.apply([[1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]])


def test_apply_names_the_row_that_allows_only_classes_of_rate_0() -> None:
    result = br.adjust([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]], [0.5, 0.5, 0])
    with pytest.raises(
        br.InfeasibleRates, match=r"row 0 gives probability only to classes whose rate is 0 \(columns \[2\]\)"
    ):
        result.apply([0, 0, 1])


def test_warning_states_residual_and_gap_if_max_passes_is_reached() -> None:
    logits = 300 * np.random.default_rng(0).normal(size=(200, 10))
    with pytest.warns(
        br.NotConvergedWarning, match=r"after 3 passes with the rates off by 0\.\d+ \(tol=1e-10\) .*gap of"
    ):
        result = br.adjust(logits, np.full(10, 0.1), from_logits=True, max_passes=3)
    assert not result.converged
    assert "NOT CONVERGED" in repr(result)
    assert result.certificate.residual > 1e-10


def change_fields(path: Path, **changes: Any) -> None:
    document = json.loads(path.read_text())
    document.update(changes)
    path.write_text(json.dumps(document))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "shift.json"
    br.adjust(P, R).save(path)
    good = path.read_text()
    for changes, message in [
        ({"version": 1}, r"has format version 1, but this version of baserate reads only format version 2"),
        ({"format": "other"}, r"is not a saved adjustment"),
        ({"shift": [0, 0, 5]}, r"was changed after it was saved"),
        ({"checksum": "0" * 64}, r"was changed after it was saved"),
        ({"extra": 1}, r"was changed after it was saved"),
    ]:
        path.write_text(good)
        change_fields(path, **changes)
        with pytest.raises(errors.BadFile, match=message):
            br.load(path)
    for text, message in [
        ("", "is not a JSON file"),
        (good[:100], "is not a JSON file"),
        ("[1, 2]", "is not a saved adjustment"),
        (good.replace('"gap":', '"gap": NaN, "old":'), "is not a JSON file"),
        ("\x80\x81", "is not a"),
    ]:
        path.write_text(text)
        with pytest.raises(errors.BadFile, match=message):
            br.load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(errors.BadFile, match="is not a JSON file"):
        br.load(path)
    for load in (br.load, br.Rates.load):
        with pytest.raises(errors.BadFile, match=r"there is no file .*absent\.json; pass the path") as caught:
            load(tmp_path / "absent.json")
        assert isinstance(caught.value, FileNotFoundError)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def change_fields_and_checksum(path: Path, **changes: Any) -> None:
    """Change fields of a saved adjustment and update its checksum."""
    fields = json_file.read_json(path)
    fields.update(changes)
    json_file.write_json(path, fields)


INVALID_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"shift": [0.0, 1.0]}, r"shift must have 3 entries, but has 2"),
    ({"shift": ["a", "b", "c"]}, r"shift\[0\] must be a number, not 'a'"),
    ({"shift": None}, r"shift must be a list, not None"),
    ({"shift": [0, 0, 10**400]}, r"shift\[2\] must be between -1e\+300 and 1e\+300, not 1000"),
    ({"shift": [1e308, 1e308, 0]}, r"shift\[0\] must be between"),
    ({"shift": [True, 0, 0]}, r"shift\[0\] must be a number, not True"),
    ({"kept_classes": [0, 1, 7]}, r"kept_classes\[2\] must be a whole number from 0 to 2, not 7"),
    ({"kept_classes": [2, 1, 0]}, r"kept_classes must be increasing"),
    ({"kept_classes": [0, 1, 1]}, r"kept_classes must be increasing"),
    ({"kept_classes": [-1, 0, 1]}, r"kept_classes\[0\] must be a whole number"),
    ({"kept_classes": [0, 1, 10**400]}, r"kept_classes\[2\] must be a whole number"),
    ({"kept_classes": [0.0, 1.0, 2.0]}, r"kept_classes\[0\] must be a whole number from 0 to 2, not 0\.0"),
    ({"kept_classes": []}, r"kept_classes must be increasing"),
    ({"n_classes": "many"}, r"n_classes must be a whole number from 2 to \d+, not 'many'"),
    ({"n_classes": -3}, r"n_classes must be a whole number"),
    ({"n_classes": 10**9}, r"wanted must have 1000000000 entries, but has 3"),
    ({"n_classes": 10**400}, r"n_classes must be a whole number"),
    ({"n_classes": 2}, r"wanted must have 2 entries, but has 3"),
    ({"n_rows": -1}, r"n_rows must be a whole number from 0"),
    ({"batch_size": 0}, r"batch_size must be a whole number from 1"),
    ({"batch_size": 10**30}, r"batch_size must be a whole number from 1"),
    ({"bounded": "yes"}, r"bounded must be true or false, not 'yes'"),
    ({"loss": {"name": "secret"}}, r"unknown loss 'secret'"),
    ({"loss": {"name": ["log"]}}, r"unhashable"),
    ({"loss": {"name": "power", "beta": -1}}, r"beta of Power"),
    ({"loss": {"name": "power", "beta": 10**400}}, r"beta of Power"),
    ({"loss": {"name": "power", "gamma": 2}}, r"gamma"),
    ({"loss": {"name": "quadratic", "matrix": [[10**400, 0, 0], [0, 1, 0], [0, 0, 1]]}}, r"Quadratic"),
    ({"loss": {"name": "quadratic", "matrix": [[1, 0], [0, 1]]}}, r"has 2 classes, but the predictions have 3"),
    ({"loss": "log"}, r"loss must be an object, not 'log'"),
    ({"classes": ["a", "a", "b"]}, r"'a' more than once"),
    ({"classes": ["a", None, "b"]}, r"class names must be strings"),
    ({"smoothing": "x"}, r"smoothing must be a number, not 'x'"),
    ({"smoothing": -1.0}, r"smoothing must be a number from 0 to less than 1, not -1"),
    ({"smoothing": 10**400}, r"smoothing must be between"),
    ({"gap": 10**400}, r"gap must be between"),
    ({"levels": [0, 1]}, r"levels must have 3 entries, but has 2"),
    ({"levels": [0, 0, 1], "loss": {"name": "brier"}}, r"levels must be null"),
    ({"sensitivity": [1.0]}, r"sensitivity must have 3 entries, but has 1"),
    ({"known": {"kind": "exact", "values": [0.5, 0.5]}}, r"known must describe the rates of 3 classes, but"),
    ({"known": {"kind": "guess"}}, r"guess"),
    ({"known": {"kind": "counts", "counts": [10**400, 1, 1], "confidence": 0.9}}, r"class 0 is too large"),
    ({"active": [[5, "low", 0.1]]}, r"the class of active\[0\] must be a whole number from 0 to 2, not 5"),
    ({"active": [[0, "left", 0.1]]}, r"the side of active\[0\] must be low, high, exact or radius, not 'left'"),
    ({"active": [[0, "low"]]}, r"active\[0\] must be a class, a side and a value"),
    ({"procedure": "guess"}, r"procedure must be 'adjust' or 'prior', not 'guess'"),
]


@pytest.mark.parametrize(("changes", "message"), INVALID_FIELDS, ids=range(len(INVALID_FIELDS)))
def test_invalid_fields_are_refused_even_if_the_checksum_matches(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "shift.json"
    br.adjust(P, R).save(path)
    change_fields_and_checksum(path, **changes)
    with pytest.raises(errors.BadFile, match=rf"shift\.json does not describe an adjustment: .*{message}"):
        br.load(path)


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    path = tmp_path / "shift.json"
    br.adjust(P, R).save(path)
    fields = json_file.read_json(path)
    del fields["gap"]
    json_file.write_json(path, fields)
    with pytest.raises(errors.BadFile, match=r"shift\.json does not describe .*: the field 'gap' is missing"):
        br.load(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"gap":', '"gap": 1e999, "old":', r"not a JSON file: 1e999 is too large"),
        ('"gap":', '"gap": -Infinity, "old":', r"not a JSON file: -Infinity is not a number"),
        ('"gap":', '"gap": 0.5, "gap":', r"not a JSON file: the field 'gap' occurs more than once"),
        ('"gap":', '"extra": ' + 10**6 * "[" + 10**6 * "]" + ', "gap":', r"its values are nested too deeply"),
    ],
    ids=["1e999", "infinity", "twice", "nested"],
)
def test_malformed_json_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "shift.json"
    br.adjust(P, R).save(path)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(errors.BadFile, match=rf"shift\.json is .*{message}"):
        br.load(path)


def test_deep_nesting_is_refused_at_every_depth_around_the_limit_of_python(tmp_path: Path) -> None:
    path = tmp_path / "shift.json"
    br.adjust(P, R).save(path)
    good = path.read_text()
    for depth in range(850, 1000):  # some depths can be parsed, but are too deep for the checksum
        path.write_text(good.replace('"gap":', f'"extra": {depth * "["}{depth * "]"}, "gap":'))
        with pytest.raises(errors.BadFile, match=r"nested too deeply|was changed after it was saved"):
            br.load(path)


def test_loading_a_folder_or_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(errors.BadFile, match="is not a regular file"):
            br.load(path)


@pytest.mark.parametrize(
    ("call", "options"),
    [
        (lambda: br.adjust(with_entry(3, 0, -0.1), R), ["from_logits=True"]),
        (lambda: br.adjust(with_entry(3, 0, 0.1), R), ["normalize=True", "from_logits=True"]),
        (lambda: br.adjust(P, {"a": 0.5, "b": 0.3, "c": 0.2}), ["classes=[...]"]),
    ],
)
def test_errors_carry_the_options_that_their_messages_suggest(call: Any, options: list[str]) -> None:
    with pytest.raises(br.BaserateError) as caught:
        call()
    assert [str(option) for option in caught.value.options] == options
    assert all(option in str(caught.value) for option in options)


def test_every_error_is_a_value_error() -> None:
    for name in ("BadProbabilities", "BadRates", "BadWeights", "BadLabels", "BadOption", "BadLoss", "BadFile"):
        assert issubclass(getattr(errors, name), ValueError)
    assert issubclass(br.InfeasibleRates, br.BaserateError)
    assert issubclass(br.BaserateError, ValueError)


def test_prior_adjustment_needs_a_best_guess_above_0_for_every_class() -> None:
    with pytest.raises(br.errors.BadRates, match="the best estimate of the new rate of class 0 is 0"):
        br.prior_adjust([[0.2, 0.3, 0.5]], [0.3, 0.3, 0.4], br.Rates.near([0.0, 0.0, 1.0], 0.1))


@pytest.mark.parametrize("option", ["tol", "zeros", "max_passes", "classes"])
def test_integers_too_long_to_print_are_refused_with_a_short_message(option: str) -> None:
    value = 10**5000
    given = [value, value] if option == "classes" else -value if option == "max_passes" else value
    with pytest.raises(br.BaserateError, match="too long to print") as caught:
        br.adjust([[0.2, 0.8]], [0.5, 0.5], **{option: given})
    assert len(str(caught.value)) < 300
