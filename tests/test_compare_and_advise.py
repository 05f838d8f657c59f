"""compare and advise: the losses of all procedures on labelled rows, and advice on which one to use."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest
from support import Array

import baserate as br
from baserate.errors import BadOption

mpl.use("agg")


def two_normals(n: int, rate: float, seed: int, sharpen: float = 1.0) -> tuple[Array, Array]:
    """Predictions that are calibrated for equal class rates, and labels of data with other class rates."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < rate).astype(int)
    logit = sharpen * (2 * rng.normal(2.0 * y) - 2)
    p = 1 / (1 + np.exp(-logit))
    return np.column_stack([1 - p, p]), y


P, Y = two_normals(2000, 0.1, seed=0)
RATES = np.bincount(Y) / len(Y)


class TestCompare:
    def test_mean_is_the_mean_loss_of_each_procedure(self) -> None:
        table = br.compare(P, Y, RATES, [0.5, 0.5], losses=["log", br.losses.Brier()], n_bootstrap=10)
        by_hand = {
            "as predicted": P,
            "prior (PPA)": br.prior_adjust(P, [0.5, 0.5], RATES).probs,
            "additive": br.additive(P, RATES).probs,
            "BGA log (multiplicative)": br.multiplicative(P, RATES).probs,
            "BGA brier": br.adjust(P, RATES, loss="brier").probs,
            "BGA log to a set": br.adjust(P, br.Rates.of_population(RATES)).probs,
            "BGA brier to a set": br.adjust(P, br.Rates.of_population(RATES), loss="brier").probs,
        }
        assert table.procedures == tuple(by_hand)
        for i, p in enumerate(by_hand.values()):
            assert table.mean[i, 1] == pytest.approx(br.losses.Brier().score(p, Y))
        log, best = br.losses.Log(), by_hand["BGA log (multiplicative)"]
        assert table.change[3, 0] == pytest.approx(log.score(best, Y) - log.score(P, Y))
        assert np.isnan(table.mean[2, 0])  # additive adjustment leaves [0, 1]
        assert "additive: entries below 0 have no log loss" in table.notes

    def test_prior_adjustment_is_best_if_only_the_class_rates_changed(self) -> None:
        table = br.compare(P, Y, RATES, [0.5, 0.5], losses=["log"])
        prior = table.procedures.index("prior (PPA)")
        assert table.mean[prior, 0] <= np.nanmin(table.mean[:, 0]) + 0.001  # BGA for log loss is nearly as good
        assert table.high[prior, 0] < 0

    def test_intervals_agree_with_the_normal_approximation(self) -> None:
        # The approximation is accurate for the mean of 2000 paired differences.
        table = br.compare(P, Y, RATES, losses=["brier"], n_bootstrap=4000)
        a = br.adjust(P, RATES, loss="brier").probs
        differences = ((a - np.eye(2)[Y]) ** 2).sum(axis=1) - ((P - np.eye(2)[Y]) ** 2).sum(axis=1)
        i = table.procedures.index("BGA brier")
        half = 1.96 * differences.std() / np.sqrt(len(differences))
        assert table.low[i, 0] == pytest.approx(differences.mean() - half, abs=0.1 * half)
        assert table.high[i, 0] == pytest.approx(differences.mean() + half, abs=0.1 * half)

    def test_weights_are_equivalent_to_repeated_rows(self) -> None:
        times = np.random.default_rng(0).integers(1, 4, size=200)
        weighted = br.compare(P[:200], Y[:200], RATES, losses=["brier"], sample_weight=times, n_bootstrap=5)
        p, y = np.repeat(P[:200], times, axis=0), np.repeat(Y[:200], times)
        repeated = br.compare(p, y, RATES, losses=["brier"], n_bootstrap=5)
        np.testing.assert_allclose(weighted.mean[:3], repeated.mean[:3], atol=1e-9)

    def test_rows_of_weight_0_are_ignored(self) -> None:
        p = np.vstack([[[1.0, 0.0]], P[:200]])
        y = np.concatenate([[1], Y[:200]])  # the first row has infinite log loss, but weight 0
        table = br.compare(p, y, RATES, losses="brier", sample_weight=np.r_[0, np.ones(200)], n_bootstrap=20)
        plain = br.compare(P[:200], Y[:200], RATES, losses=["brier", "brier"], n_bootstrap=20)
        np.testing.assert_allclose(table.mean, plain.mean)
        log = br.compare(p, y, RATES, losses="log", sample_weight=np.r_[0, np.ones(200)], n_bootstrap=20, zeros=1e-9)
        assert np.isfinite(log.mean[0, 0])

    def test_rate_sets_are_compared_and_results_are_reproducible(self) -> None:
        known = br.Rates.between(RATES - 0.02, RATES + 0.02, classes=["no", "yes"])
        bounds = br.compare(P, np.array(["no", "yes"])[Y], known, n_bootstrap=5)
        assert bounds.procedures == ("as predicted", "BGA log to a set", "BGA brier to a set")
        assert "one rate per class is needed" in bounds.notes[0]
        survey = br.Rates.from_counts([450, 50], classes=["no", "yes"])
        one, two = (br.compare(P, np.array(["no", "yes"])[Y], survey, n_bootstrap=50) for _ in range(2))
        np.testing.assert_array_equal(one.low, two.low)
        expected = br.losses.Brier().score(br.adjust(P, survey, loss="brier").probs, Y)
        assert one.mean[one.procedures.index("BGA brier to a set"), 1] == pytest.approx(expected)

    def test_procedures_that_hard_zeros_make_impossible_are_noted(self) -> None:
        p = np.array([[1.0, 0.0], [1.0, 0.0], [0.4, 0.6]])
        table = br.compare(p, [0, 1, 1], [0.2, 0.8], n_bootstrap=5)
        assert any(
            note.startswith("BGA log (multiplicative): class 1 would need a mean of 0.8") for note in table.notes
        )
        assert "BGA brier" in table.procedures
        assert "infinite" in repr(table)

    def test_comparison_as_dataframe_and_as_text(self) -> None:
        table = br.compare(P, Y, RATES, n_bootstrap=5)
        frame = table.to_frame()
        assert isinstance(frame, pd.DataFrame)
        assert list(frame.columns) == ["procedure", "loss", "mean", "change", "low", "high"]
        assert len(frame) == len(table.procedures) * 2
        assert table.to_frame("polars").shape == frame.shape
        assert "95 % interval of the change" in repr(table)
        with pytest.raises(BadOption, match="backend must be"):
            table.to_frame("excel")

    def test_comparison_display_has_one_panel_per_loss(self) -> None:
        from matplotlib import pyplot as plt

        display = br.ComparisonDisplay.from_predictions(P, Y, RATES, old_rates=[0.5, 0.5], n_bootstrap=20)
        assert len(display.axes_) == 2
        labels = [text.get_text() for text in display.axes_[0].get_yticklabels()]
        assert labels == list(display.comparison.procedures[1:])
        dots = display.axes_[1].get_lines()[0].get_xdata()
        np.testing.assert_allclose(dots, display.comparison.change[1:, 1])
        assert "not defined" in display.axes_[0].texts[0].get_text()
        _, ax = plt.subplots()
        assert br.ComparisonDisplay(br.compare(P, Y, RATES, losses=["log"], n_bootstrap=5)).plot([ax]).axes_[0] is ax
        plt.close("all")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"losses": []}, "losses is empty"),
            ({"bounded": False}, "compare does not take loss= and bounded="),
            ({"confidence": 95}, "confidence must be a number between 0 and 1"),
            ({"n_bootstrap": 0}, "n_bootstrap must be a whole number above 0"),
        ],
    )
    def test_bad_options_are_errors(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(BadOption, match=message):
            br.compare(P, Y, RATES, **options)


class TestAdvise:
    def test_p_values_are_uniform_if_only_the_class_rates_changed(self) -> None:
        p_values = []
        for seed in range(200):
            p, y = two_normals(300, 0.2, seed)
            advice = br.advise(p, np.bincount(y, minlength=2) / len(y), [0.5, 0.5])
            p_values.append(next(r.figure for r in advice.reasons if r.about == "premise"))
        share = np.mean(np.array(p_values) < 0.05)
        assert share <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
        assert kstest(p_values, "uniform").pvalue > 0.001  # uniform if the assumption is true

    @pytest.mark.parametrize("sharpen", [0.5, 1.7])
    def test_uncalibrated_classifiers_are_detected(self, sharpen: float) -> None:
        rejected = []
        for seed in range(50):
            p, y = two_normals(2000, 0.2, seed, sharpen)
            rejected.append(br.advise(p, np.bincount(y) / len(y), [0.5, 0.5]).procedure == "adjust")
        assert np.mean(rejected) > 0.9

    def test_certain_predictions_with_other_rates_reject_the_assumption(self) -> None:
        first = np.arange(1000) % 2 == 0
        p = np.where(first[:, None], [1.0, 1e-20], [1e-20, 1.0])
        advice = br.advise(p, [0.9, 0.1], [0.5, 0.5])
        assert advice.procedure == "adjust"
        assert "nan" not in repr(advice)

    def test_prior_adjustment_is_not_tested_for_rate_sets(self) -> None:
        for known in (br.Rates.near([0.6, 0.4], 0.4), br.Rates.between([0.5, 0.05], [0.95, 0.5])):
            advice = br.advise(P, known, [0.5, 0.5])
            assert "prior adjustment is not tested" in repr(advice)
            assert "has changed" not in repr(advice)

    def test_p_values_are_uniform_for_population_rates_and_surveys(self) -> None:
        rng, p_values = np.random.default_rng(0), {"population": [], "counts": []}
        for seed in range(200):
            p, _ = two_normals(300, 0.2, 1000 + seed)
            for known in (br.Rates.of_population([0.8, 0.2]), br.Rates.from_counts(rng.multinomial(100, [0.8, 0.2]))):
                reasons = br.advise(p, known, [0.5, 0.5]).reasons
                p_values[known.kind].append(next(r.figure for r in reasons if r.about == "premise"))
        for values in p_values.values():
            assert kstest(values, "uniform").pvalue > 0.001

    def test_adjustment_is_advised_for_uncalibrated_predictions(self) -> None:
        p, y = two_normals(3000, 0.1, seed=1, sharpen=0.3)
        rates = np.bincount(y) / len(y)
        advice = br.advise(p, rates, [0.5, 0.5], loss="brier")
        assert advice.procedure == "adjust"
        fall = br.adjust(p, rates, loss="brier").certificate.loss_reduction
        figures = {reason.about: reason.figure for reason in advice.reasons}
        assert figures["guarantee"] == pytest.approx(fall)
        assert figures["premise"] < 0.05
        assert f"{fall:.4g}" in advice.summary
        assert "more than the class rates has changed" in repr(advice)

    def test_advice_without_old_rates_and_without_a_guarantee(self) -> None:
        assert br.advise(P, RATES).procedure == "adjust"
        wide = br.advise(P, br.Rates.between(0.01, 0.99))
        assert wide.procedure == "none"
        assert "the guaranteed fall of the loss is 0" in wide.summary

    def test_advice_on_hard_zeros(self) -> None:
        p = np.array([[1.0, 0.0], [1.0, 0.0], [0.4, 0.6]])
        advice = br.advise(p, [0.2, 0.8])
        assert advice.procedure == "none"
        assert "out of reach by 0.46" in advice.summary
        assert "2 probabilities are exactly 0 and stay 0 under this loss" in repr(advice)
        assert br.advise(p, [0.2, 0.8], loss="brier").procedure == "adjust"
        assert br.advise(p, [0.2, 0.8], zeros=1e-3).procedure == "adjust"

    def test_every_reason_states_a_number(self) -> None:
        frame = pd.DataFrame(P, columns=["no", "yes"])
        for advice in (
            br.advise(frame, {"yes": 0.1, "no": 0.9}, [0.5, 0.5]),
            br.advise(P, br.Rates.between(0.01, 0.99)),
        ):
            for reason in advice.reasons:
                assert any(ch.isdigit() for ch in reason.says) or np.isnan(reason.figure), reason
            assert any(ch.isdigit() for ch in advice.summary)
