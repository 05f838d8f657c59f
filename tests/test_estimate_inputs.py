"""Estimates from unusual predictions, and from predictions and labels in all forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray

import baserate as br
from baserate.errors import BadLabels, BadOption

Array = NDArray[Any]
RNG = np.random.default_rng(0)


def predictions(n: int, rate: float) -> tuple[Array, Array]:
    """Probabilities of the second of two classes, and the labels."""
    y = (RNG.random(n) < rate).astype(int)
    return 1 / (1 + np.exp(-RNG.normal(2.0 * y - 1.0))), y


@pytest.mark.parametrize("k", [2, 3])
def test_a_perfect_classifier_is_never_refuted(k: int) -> None:
    values = np.array([[0.95, 0.05], [0.05, 0.95]]) if k == 2 else np.eye(3)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        y_val, y = rng.integers(k, size=300), rng.choice(k, 500, p=[0.6, 0.4] if k == 2 else [0.6, 0.3, 0.1])
        rates = br.estimate(values[y], probs_val=values[y_val], y_val=y_val)  # no AssumptionRefuted
        assert rates.contains(np.bincount(y, minlength=k) / len(y))


@pytest.mark.parametrize("n", [100, 300, 400])
def test_constant_predictions_say_nothing_about_the_rates(n: int) -> None:
    for seed in range(40):
        y_val = (np.random.default_rng(seed).random(300) < 0.5).astype(int)
        low, high = br.estimate(np.full(n, 0.5), probs_val=np.full(300, 0.5), y_val=y_val).bounds()
        assert low.max() < 0.01
        assert high.min() > 0.99


def test_validation_rows_in_the_batch_are_only_reported_if_they_cannot_be_equal_by_chance() -> None:
    p_val, y_val = predictions(600, 0.5)
    p_new, _ = predictions(500, 0.3)
    with pytest.raises(BadOption, match="are also rows of the batch"):
        br.estimate(np.concatenate([p_val, p_new]), probs_val=p_val, y_val=y_val)
    rounded = p_val.round()
    assert br.estimate(np.concatenate([rounded, p_new.round()]), probs_val=rounded, y_val=y_val).p_value > 0.01


@pytest.mark.parametrize("y", ["column", "array"])
@pytest.mark.parametrize("prefix", ["", "p_"])
@pytest.mark.parametrize("missing", [False, True])
def test_columns_of_dataframes_are_matched_to_the_labels(y: str, prefix: str, missing: bool) -> None:
    rng = np.random.default_rng(1)
    names = np.array(["a", "b", "c"])
    p_val, p_new = rng.dirichlet([2, 2, 2], 300), rng.dirichlet([2, 2, 2], 200)
    y_val = (p_val.cumsum(axis=1) > rng.random((300, 1))).argmax(axis=1)
    if missing:
        p_val, y_val = p_val[y_val > 0], y_val[y_val > 0]
    plain = br.estimate(p_new, probs_val=p_val, y_val=y_val)
    new = pd.DataFrame(p_new, columns=[prefix + name for name in names])[[prefix + name for name in "cab"]]
    frame = pd.DataFrame(p_val, columns=[prefix + name for name in names])
    labels: Any = names[y_val]
    if y == "column":
        frame, labels = frame.assign(y=labels), "y"
    found = br.estimate(new, probs_val=frame, y_val=labels)
    assert found.classes == ("c", "a", "b")
    np.testing.assert_allclose(found.on(("a", "b", "c"), 3).bounds(), plain.bounds(), atol=1e-9)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1, None, 1], dtype=object),
        np.array([0, 1, np.nan, 1], dtype=object),
        pd.Series([0, 1, pd.NA, 1], dtype="Int64"),
        pd.Series(["no", "yes", None, "yes"]),
        pd.Series(["no", "yes", None, "yes"], dtype="string"),
        pd.Series(["no", "yes", None, "yes"], dtype="category"),
        pd.to_datetime(pd.Series(["2020-01-01", "2020-01-01", None, "2020-01-01"])),
    ],
    ids=["None", "NaN", "Int64", "text", "string", "category", "datetime"],
)
@pytest.mark.parametrize("in_dataframe", [False, True])
def test_missing_labels_are_reported_by_their_row(labels: Any, in_dataframe: bool) -> None:
    p_new, p_val = np.linspace(0.1, 0.9, 9), np.array([0.2, 0.8, 0.4, 0.6])
    given: dict[str, Any] = {"probs_val": p_val, "y_val": labels}
    if in_dataframe:
        given = {"probs_val": pd.DataFrame({"p": p_val, "y": labels}), "y_val": "y", "columns": "p"}
    with pytest.raises(BadLabels, match=r"y_val\[2\] is (None|NaN|NaT|<NA>); give every validation row a label"):
        br.estimate(pd.DataFrame({"p": p_new}) if in_dataframe else p_new, **given)


@pytest.mark.parametrize(
    "rows",
    [[1, None, 3], [1, np.nan, 3], pd.Series([1, None, 3], dtype="Int64"), [True, None, False], pd.Index([1, None, 3])],
    ids=["None", "NaN", "Int64", "mask", "index"],
)
def test_missing_row_numbers_are_reported_by_their_place(rows: Any) -> None:
    with pytest.raises(BadOption, match=r"labelled\[1\] is (None|NaN|<NA>); pass only the rows that were labelled"):
        br.estimate(np.linspace(0.1, 0.9, 9), labelled=rows, y_labelled=[0, 1, 1])


@pytest.mark.parametrize("validation", ["./val.csv", "v*.csv", "link.csv", "hard.csv", "folder"])
def test_a_file_cannot_be_its_own_validation_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, validation: str
) -> None:
    monkeypatch.chdir(tmp_path)
    p, y = predictions(100, 0.5)
    pd.DataFrame({"no": 1 - p, "yes": p, "y": np.where(y, "yes", "no")}).to_csv("val.csv", index=False)
    Path("folder").mkdir()
    Path("link.csv").symlink_to("val.csv")
    for name in ("hard.csv", "folder/val.csv"):
        Path(name).hardlink_to("val.csv")
    for new, val in (("val.csv", validation), (validation, "val.csv")):
        with pytest.raises(BadOption, match=r"\.csv is in both probs_new and probs_val; the validation data must be"):
            br.estimate(new, probs_val=val, y_val="y")


def test_probabilities_are_not_taken_for_labels() -> None:
    (p_new, _), (p_val, _) = predictions(300, 0.3), predictions(300, 0.5)
    new, val = (pd.DataFrame({"no": 1 - p, "yes": p}) for p in (p_new, p_val))
    with pytest.raises(BadLabels, match=r"y_val contains numbers such as 0\.\d+, which seem to be probabilities; pass"):
        br.estimate(new, probs_val=val, y_val="yes")
    with pytest.raises(BadLabels, match=r"y_val contains numbers such as 0\.\d+, which seem to be probabilities; pass"):
        br.estimate(p_new, probs_val=p_val, y_val=p_val)


def test_two_queries_are_not_taken_for_the_same_rows() -> None:
    (p_new, _), (p_val, y_val) = predictions(300, 0.3), predictions(300, 0.5)
    new, val = (pl.LazyFrame({"no": 1 - p, "yes": p}) for p in (p_new, p_val))
    labels = np.where(y_val, "yes", "no")
    found = br.estimate(new, probs_val=val, y_val=labels, columns=["no", "yes"])
    np.testing.assert_allclose(found.bounds(), br.estimate(p_new, probs_val=p_val, y_val=y_val).bounds())


def test_the_label_column_is_left_out_if_the_batch_is_an_array() -> None:
    p_val, y_val = predictions(300, 0.5)
    p_new, _ = predictions(400, 0.2)
    both, new = np.column_stack([1 - p_val, p_val]), np.column_stack([1 - p_new, p_new])
    frame = pd.DataFrame(both, columns=["no", "yes"]).assign(y=y_val)
    found = br.estimate(new, probs_val=frame, y_val="y")
    plain = br.estimate(new, probs_val=both, y_val=y_val)
    np.testing.assert_allclose(found.bounds(), plain.bounds(), atol=1e-9)


@pytest.mark.parametrize("option", ["method", "on_refuted"])
def test_an_array_is_no_name_of_an_option(option: str) -> None:
    p_val, y_val = predictions(300, 0.5)
    with pytest.raises(BadOption, match=f"{option} must be one of"):
        br.estimate(p_val[:100] / 2, probs_val=p_val, y_val=y_val, **{option: np.array(["raise", "exact"])})
