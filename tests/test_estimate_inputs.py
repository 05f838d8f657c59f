"""Estimates from unusual predictions, and from predictions and labels in all forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import baserate as br
from baserate.errors import BadOption

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
