"""Keep the fixed shift, fit again, or do nothing: the figures, the levels of a series, the display and the messages."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from test_certify import predictions

import baserate as br


def batch(rng: np.random.Generator, rate: float, n: int = 400) -> tuple[Any, Any]:
    """P(positive) of rows of whom a share is positive, and their labels."""
    y = (rng.random(n) < rate).astype(int)
    return 1 / (1 + np.exp(-1.5 * (rng.normal(size=n) + 1.5 * y - 0.75))), y


def test_the_figures_are_those_of_certify_and_of_a_new_adjustment() -> None:
    rng = np.random.default_rng(0)
    result = br.adjust(*_probs_and_rate(rng, 0.1))
    new = [(name, *_probs_and_rate(rng, rate)) for name, rate in (("a", 0.1), ("b", 0.3), ("c", 0.5))]
    table = br.drift(result, new).to_frame()
    assert list(table["batch"]) == ["a", "b", "c"]
    assert (table["nothing"] == 0).all()
    for (_, p, rate), keep, refit in zip(new, table["keep"], table["refit"], strict=True):
        assert keep == pytest.approx(result.certify(p, rate).loss_reduction, rel=1e-12)
        assert refit == pytest.approx(br.adjust(p, rate).certificate.loss_reduction, rel=1e-9)
        assert refit >= max(keep, 0.0) - 1e-12
    assert table["confidence"].isna().all()


def _probs_and_rate(rng: np.random.Generator, rate: float) -> tuple[Any, float]:
    p, y = batch(rng, rate)
    return p, float(y.mean())


def test_the_true_change_lies_between_the_figures() -> None:
    rng = np.random.default_rng(1)
    for loss in ("log", "brier", "spherical"):
        p, y = batch(rng, 0.1)
        result = br.adjust(p, y.mean(), loss=loss)
        for rate in (0.05, 0.2, 0.6):
            p, y = batch(rng, rate)
            truth = float(y.mean())
            one = result.drift(p, br.Rates.between(truth - 0.04, truth + 0.04)).as_dict()
            refitted = br.adjust(p, br.Rates.between(truth - 0.04, truth + 0.04), loss=loss)
            before = result.loss.score(p, y)
            for after, name in ((result.apply(p), "keep"), (refitted.probs, "refit")):
                change = before - result.loss.score(after, y)
                assert one[name][0] - 1e-12 <= change <= one[f"{name}_at_most"][0] + 1e-12


def test_the_action_is_the_least_work_that_gives_up_no_more_than_the_tolerance() -> None:
    result = br.adjust([0.1, 0.4, 0.7, 0.9], 0.25)
    months = [("May", [0.1, 0.3, 0.7, 0.9], 0.25), ("June", [0.2, 0.3, 0.6, 0.9], 0.3), ("July", [0.3, 0.7], 0.5)]
    assert br.drift(result, months).actions == ["keep", "refit", "nothing"]
    assert br.drift(result, months, tolerance=0.0).actions[0] == "refit"
    assert br.drift(result, months, tolerance=0.05).actions == ["keep", "keep", "nothing"]
    assert result.drift(*months[1][1:]).actions == ["refit"]


def test_a_shift_under_which_the_loss_may_rise_is_not_kept() -> None:
    result, rates = br.adjust([0.3, 0.4, 0.5, 0.6], 0.43), br.Rates.between(0.40, 0.5)
    found = br.drift(result, [("May", [0.3, 0.4, 0.5, 0.6], rates)])
    figures = found.as_dict()
    assert -0.01 < figures["keep"][0] < 0
    assert figures["refit"][0] <= 0.01
    assert found.actions == ["nothing"]


def test_the_level_of_a_batch_is_named_if_labelled_rates_have_a_lower_one() -> None:
    rng = np.random.default_rng(3)
    result = br.adjust(*_probs_and_rate(rng, 0.2))
    p, y = batch(rng, 0.2)
    drawn = br.draw_rows(p, 100, random_state=0)
    for t, level in ((1, "0.969604"), (2, "0.992401"), (3, "0.996623")):  # the figures of the documentation
        low, enough = (
            br.estimate(p, labelled=drawn, y_labelled=y[drawn.rows], confidence=c) for c in (0.95, float(level))
        )
        with pytest.raises(br.BaserateError, match=f"estimate them again with confidence={level}\\n"):
            br.drift(result, [("May", p, low)], first=t)
        found = br.drift(result, [("May", p, enough)], first=t)
        assert "with 95 % confidence, all lines hold at once, if the labelled rows were drawn at random" in repr(found)


def test_levels_hold_for_all_batches_at_once() -> None:
    rng = np.random.default_rng(2)
    result = br.adjust(*_probs_and_rate(rng, 0.2))
    p = batch(rng, 0.2)[0]
    series = [(t, p, br.Rates.from_counts(40, total=200, confidence=0.5)) for t in range(1, 5)]
    found = br.drift(result, series, confidence=0.9)
    levels = 1 - found.to_frame()["confidence"]
    assert levels.to_numpy() == pytest.approx([0.1 * 6 / np.pi**2 / t**2 for t in range(1, 5)])
    assert sum(0.1 * 6 / np.pi**2 / t**2 for t in range(1, 100_000)) < 0.1
    assert found.confidence == 0.9
    assert "with 90 % confidence, all lines hold at once, if for each batch, the survey and these" in repr(found)
    assert br.drift(result, series[2:], confidence=0.9, first=3).as_dict()["keep"] == found.as_dict()["keep"][2:]
    wanted = result.certify(p, br.Rates.from_counts(40, total=200, confidence=1 - levels[1])).loss_reduction
    assert found.as_dict()["keep"][1] == pytest.approx(wanted, rel=1e-12)
    alone = result.drift(p, br.Rates.from_counts(40, total=200, confidence=0.5))
    assert alone.confidence == 0.5


def test_batches_may_be_dicts_with_options_and_dataframes() -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(predictions(rng, 2, 50), columns=["no", "yes"])
    result = br.adjust(frame, {"no": 0.6, "yes": 0.4})
    batches = [
        {"name": "first", "probs": frame, "rates": {"yes": 0.3}, "sample_weight": np.ones(50)},
        {"probs": 3 * frame, "rates": {"yes": 0.3}, "normalize": True},
    ]
    found = br.drift(result, batches)
    assert found.as_dict()["batch"] == ["first", "batch 2"]
    assert found.as_dict()["keep"][0] == pytest.approx(found.as_dict()["keep"][1])
    assert isinstance(found.to_frame("polars"), pl.DataFrame)
    assert "keep" in found._repr_html_()


def test_a_batch_that_cannot_be_fitted_again_is_still_certified() -> None:
    result = br.adjust([[0.5, 0.5], [0.9, 0.1]], [0.5, 0.5])
    found = result.drift([[1.0, 0.0], [0.5, 0.5]], [0.25, 0.75])  # only one row can be of class 1
    assert np.isnan(found.as_dict()["refit"][0])
    assert np.isfinite(found.as_dict()["keep"][0])


def test_prior_adjustments_are_compared_with_a_fit_for_log_loss() -> None:
    rng = np.random.default_rng(4)
    p, rate = _probs_and_rate(rng, 0.3)
    result = br.prior_adjust(p, 0.5, 0.3)
    found = result.drift(p, rate).as_dict()
    assert found["refit"][0] == pytest.approx(br.adjust(p, rate).certificate.loss_reduction, rel=1e-9)


def test_the_display_shows_every_batch_and_marks_new_fits() -> None:
    result = br.adjust([0.1, 0.4, 0.7, 0.9], 0.25)
    months = [("May", [0.1, 0.3, 0.7, 0.9], 0.25), ("June", [0.2, 0.3, 0.6, 0.9], 0.3), ("July", [0.3, 0.7], 0.5)]
    display = br.DriftDisplay.from_batches(result, months)
    assert display.ax_ is not None
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["May", "June", "July"]
    keep = next(line for line in display.ax_.lines if line.get_label() == "keep: at least")
    assert keep.get_ydata() == pytest.approx(display.drift.as_dict()["keep"])
    dotted = [line.get_xdata()[0] for line in display.ax_.lines if line.get_linestyle() == ":"]
    assert dotted == [1]
    _, ax = plt.subplots()
    assert br.DriftDisplay(result.drift(*months[0][1:])).plot(ax=ax).ax_ is ax
    plt.close("all")


def grouped() -> Any:
    return br.adjust([0.2, 0.4, 0.3, 0.1], br.Rates.by("g", {"x": 0.1, "y": 0.3}), groups=["x", "x", "y", "y"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda result: br.drift(result, []), "batches is empty"),
        (lambda result: br.drift(result, None), "batches must be a list of .*, not NoneType"),
        (lambda result: br.drift(result, {"May": ([0.2], 0.3)}), "batches must be a list of .*, not dict"),
        (lambda result: br.drift(result, [([0.2], 0.3)]), r"batch 1 must be a tuple .*, not a tuple of 2"),
        (lambda result: br.drift(result, [{"probs": [0.2]}]), "batch 1 has no rates"),
        (lambda result: br.drift(result, [{"probs": [0.2], "rates": 0.3, "loss": "log"}]), "unexpected entry 'loss'"),
        (lambda result: br.drift("shift.json", [("a", [0.2], 0.3)]), "must be an adjustment, not str"),
        (lambda result: br.drift(result, [("a", [0.2], 0.3)], confidence=2), "confidence must be a number between"),
        (lambda result: br.drift(result, [("a", [0.2], 0.3)], tolerance=-1), "tolerance must be 0 or a positive numb"),
        (lambda result: br.drift(result, [("a", [0.2], 0.3)], first=0), "first must be a whole number from 1 to"),
        (lambda result: br.drift(result, [("a", [0.2], 0.3)], first=10**200), "first must be a whole number from 1 to"),
        (lambda result: br.drift(result, [("a", [0.2], br.Rates.by("g", {"x": 0.1}))]), "these are rates per group"),
        (lambda result: br.drift(grouped(), [("a", [0.2], 0.3)]), "has a shift per group"),
    ],
)
def test_messages(call: Any, message: str) -> None:
    with pytest.raises(br.BaserateError, match=message):
        call(br.adjust([0.1, 0.4, 0.7, 0.9], 0.25))


def test_a_fit_that_zeros_make_impossible_is_named_so() -> None:
    text = str(br.drift(br.adjust([0.1, 0.4, 0.7, 0.9], 0.25), [("a", [0.0, 0.0, 0.0], 0.5)]))
    assert "A new fit is impossible where zeros in the predictions do not allow the rates." in text
    assert text.splitlines()[-1].split()[-2] == "impossible"


def test_an_error_names_its_batch() -> None:
    result = br.adjust([0.1, 0.4, 0.7, 0.9], 0.25)
    with pytest.raises(br.BaserateError) as caught:
        br.drift(result, [("May", [0.2], 0.3), ("June", [1.2], 0.3)])
    assert caught.value.__notes__ == ["This was the batch 'June'."]
