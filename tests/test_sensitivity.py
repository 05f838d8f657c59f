"""sensitivity: the guarantee as a function of how precisely the class rates are known, and its display."""

from __future__ import annotations

import builtins
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import baserate as br

mpl.use("agg")

P = np.random.default_rng(0).dirichlet([1, 2, 3], size=300)
RATES = [0.4, 0.35, 0.25]


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_each_width_equals_an_adjustment_between_bounds(loss: str) -> None:
    table = br.sensitivity(P, RATES, loss=loss)
    assert len(table.widths) == 11
    assert table.widths[0] == 0
    for width, loss_reduction, rates in zip(table.widths, table.loss_reduction, table.rates, strict=True):
        bounds = br.Rates.between(np.maximum(np.subtract(RATES, width), 0), np.minimum(np.add(RATES, width), 1))
        expected = br.adjust(P, bounds, loss=loss)
        assert loss_reduction == pytest.approx(expected.certificate.loss_reduction, abs=1e-9)
        np.testing.assert_allclose(rates, expected.rates, atol=1e-8)
    assert (np.diff(table.loss_reduction) <= 1e-12).all()
    assert table.loss_reduction[0] > table.loss_reduction[-2] > 0
    assert table.loss_reduction[-1] == pytest.approx(0, abs=1e-12)


def test_options_class_names_and_survey_counts() -> None:
    weights = np.random.default_rng(1).random(300)
    table = br.sensitivity(
        P, br.Rates.from_counts([40, 35, 25]), widths=[0, 0.5], classes=["a", "b", "c"], sample_weight=weights
    )
    estimate = np.array([40.5, 35.5, 25.5]) / 101.5
    np.testing.assert_allclose(table.rates[0], estimate, atol=1e-10)
    columns = table.as_dict()
    assert list(columns) == ["width", "loss_reduction", "rate a", "rate b", "rate c"]
    assert columns["rate b"][0] == pytest.approx(estimate[1])


@pytest.mark.parametrize("widths", [[], [-0.1], [1.1], [[0.1]], ["x"], 0.1, [np.nan]])
def test_bad_widths_are_errors(widths: Any) -> None:
    with pytest.raises(br.errors.BadOption, match="widths must be a list of numbers from 0 to 1"):
        br.sensitivity(P, RATES, widths=widths)


def test_rates_without_a_best_estimate_are_an_error() -> None:
    with pytest.raises(br.errors.BadRates, match="one rate per class is needed"):
        br.sensitivity(P, br.Rates.between(0.1, 0.6))


def test_sensitivity_display_shows_the_table() -> None:
    from matplotlib import pyplot as plt

    _, ax = plt.subplots()
    display = br.SensitivityDisplay.from_predictions(P, RATES, ax=ax, widths=[0, 0.05, 0.1])
    assert display.ax_ is ax
    (line,) = ax.get_lines()
    np.testing.assert_array_equal(line.get_xdata(), [0, 5, 10])
    np.testing.assert_array_equal(line.get_ydata(), display.sensitivity.loss_reduction)
    assert ax.get_xlabel() == "largest error of a rate (percentage points)"
    again = br.SensitivityDisplay(display.sensitivity)
    assert again.ax_ is None
    assert again.plot().figure_ is not ax.figure
    plt.close("all")


def test_error_without_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **options: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **options)

    display = br.SensitivityDisplay(br.sensitivity(P, RATES, widths=[0]))
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"baserate\[plot\]"):
        display.plot()
