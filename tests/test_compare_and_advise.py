"""compare and advise: the losses of all procedures on labelled rows, and advice on which one to use."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from support import Array, number_of_cases

import baserate as br
from baserate.errors import BadLabels, BadOption

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
            "prior adjustment": br.prior_adjust(P, [0.5, 0.5], RATES).probs,
            "additive": br.additive(P, RATES).probs,
            "adjusted for log loss": br.multiplicative(P, RATES).probs,
            "adjusted for brier loss": br.adjust(P, RATES, loss="brier").probs,
            "adjusted for log loss, to likely rates": br.adjust(P, br.Rates.of_population(RATES)).probs,
            "adjusted for brier loss, to likely rates": br.adjust(P, br.Rates.of_population(RATES), loss="brier").probs,
        }
        assert table.procedures == tuple(by_hand)
        for i, p in enumerate(by_hand.values()):
            assert table.mean[i, 1] == pytest.approx(br.losses.Brier().score(p, Y))
        log, best = br.losses.Log(), by_hand["adjusted for log loss"]
        assert table.change[3, 0] == pytest.approx(log.score(best, Y) - log.score(P, Y))
        assert np.isnan(table.mean[2, 0])  # additive adjustment leaves [0, 1]
        assert "additive: entries below 0 have no log loss" in table.notes

    def test_prior_adjustment_is_nearly_best_if_only_the_class_rates_changed(self) -> None:
        table = br.compare(P, Y, RATES, [0.5, 0.5], losses=["log"])
        prior = table.procedures.index("prior adjustment")
        assert table.mean[prior, 0] <= np.nanmin(table.mean[:, 0]) + 0.001  # adjustment for log loss is nearly as good
        assert table.high[prior, 0] < 0

    def test_intervals_agree_with_the_normal_approximation(self) -> None:
        # The approximation is accurate for the mean of 2000 paired differences.
        table = br.compare(P, Y, RATES, losses=["brier"], n_bootstrap=4000)
        a = br.adjust(P, RATES, loss="brier").probs
        differences = ((a - np.eye(2)[Y]) ** 2).sum(axis=1) - ((P - np.eye(2)[Y]) ** 2).sum(axis=1)
        i = table.procedures.index("adjusted for brier loss")
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
        assert bounds.procedures == (
            "as predicted",
            "adjusted for log loss, to likely rates",
            "adjusted for brier loss, to likely rates",
        )
        assert "one rate per class is needed" in bounds.notes[0]
        survey = br.Rates.from_counts([450, 50], classes=["no", "yes"])
        one, two = (br.compare(P, np.array(["no", "yes"])[Y], survey, n_bootstrap=50) for _ in range(2))
        np.testing.assert_array_equal(one.low, two.low)
        expected = br.losses.Brier().score(br.adjust(P, survey, loss="brier").probs, Y)
        assert one.mean[one.procedures.index("adjusted for brier loss, to likely rates"), 1] == pytest.approx(expected)

    def test_procedures_that_hard_zeros_make_impossible_are_noted(self) -> None:
        p = np.array([[1.0, 0.0], [1.0, 0.0], [0.4, 0.6]])
        table = br.compare(p, [0, 1, 1], [0.2, 0.8], n_bootstrap=5)
        assert any(note.startswith("adjusted for log loss: class 1 would need a mean of 0.8") for note in table.notes)
        assert "adjusted for brier loss" in table.procedures
        assert "infinite" in repr(table)

    def test_comparison_as_dataframe_and_as_text(self) -> None:
        table = br.compare(P, Y, RATES, n_bootstrap=5)
        frame = table.to_frame()
        assert isinstance(frame, pd.DataFrame)
        bounds = ["low", "high", "joint_low", "joint_high"]
        assert list(frame.columns) == ["procedure", "loss", "mean", "change", *bounds]
        assert len(frame) == len(table.procedures) * 2
        assert table.to_frame("polars").shape == frame.shape
        assert "95 % interval" in repr(table)
        with pytest.raises(BadOption, match="backend must be"):
            table.to_frame("excel")

    def test_procedures_have_plain_names_that_the_legend_explains(self) -> None:
        table = br.compare(P, Y, RATES, [0.5, 0.5], losses=["log"], n_bootstrap=20)
        plain = br.compare(P, Y, br.Rates.between(None, None), losses=["log"], n_bootstrap=20)
        explained = [
            "prior adjustment: Bayes' rule",
            "additive: adds one number",
            "likely rates: the stated rate set",
        ]
        for shown in (repr(table), html.unescape(table._repr_html_())):
            assert not re.search(r"BGA|PPA|UGA|to a set", shown)
            assert all(text in shown for text in explained)
        assert [text in repr(plain) for text in explained] == [False, False, True]

    def test_changes_and_their_intervals_have_the_same_decimals(self) -> None:
        table = br.compare(P, Y, RATES, [0.5, 0.5], losses=["log"], n_bootstrap=20).relative_to("adjusted for log loss")
        table = replace(table, change=np.where(table.change > 0, 0.00012, table.change))
        cells = [row[2:] for row in table.table(0).rows if row[2]]
        numbers = [number for row in cells for cell in row for number in cell.split(" to ")]
        assert {len(number.partition(".")[2]) for number in numbers} == {5}

    def test_comparison_display_has_one_panel_per_loss(self) -> None:
        from matplotlib import pyplot as plt

        display = br.ComparisonDisplay.from_predictions(P, Y, RATES, old_rates=[0.5, 0.5], n_bootstrap=20)
        assert len(display.axes_) == 2
        labels = [text.get_text().replace("\n", " ") for text in display.axes_[0].get_yticklabels()]
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


def same_population(n: int, rate: float, seed: int) -> tuple[Array, Array]:
    """Predictions that are calibrated in the population of the rows, and labels."""
    p, y = two_normals(n, rate, seed)
    return br.prior_adjust(p, [0.5, 0.5], [1 - rate, rate]).probs, y


def rates_of(y: Array) -> Array:
    return np.bincount(y, minlength=2) / len(y)


def figures(advice: br.Advice) -> dict[str, float]:
    return {reason.about: reason.figure for reason in advice.reasons}


class TestAdvise:
    def test_at_exact_rates_prior_adjustment_is_never_advised_and_its_extra_loss_is_stated(self) -> None:
        log = br.losses.Log()
        for seed, sharpen in ((0, 1.0), (1, 0.5), (2, 2.0)):
            p, y = two_normals(500, 0.2, seed, sharpen)
            advice = br.advise(p, rates_of(y), [0.5, 0.5])
            assert advice.procedure == "adjust"
            assert advice.loss == log
            prior = br.prior_adjust(p, [0.5, 0.5], rates_of(y)).probs
            extra = log.score(prior, y) - log.score(br.adjust(p, rates_of(y)).probs, y)
            assert figures(advice)["prior"] == pytest.approx(extra, abs=1e-9)
            assert extra >= 0

    def test_prior_adjustment_is_advised_for_rates_of_a_population(self) -> None:
        for known in (br.Rates.of_population([0.9, 0.1]), br.Rates.from_counts([180, 20])):
            advice = br.advise(P, known, [0.5, 0.5])
            assert advice.procedure == "prior"
            assert not advice.doubtful
            assert figures(advice)["premise"] > 0.05

    def test_a_change_of_the_class_rates_is_not_doubted_if_the_old_rates_are_known(self) -> None:
        doubted = []
        for seed in range(number_of_cases(80)):
            p, y = two_normals(1000, 0.2, seed)
            doubted.append(br.advise(p, rates_of(y), [0.5, 0.5]).doubtful)
        assert np.mean(doubted) <= 0.1

    @pytest.mark.parametrize("old_rates", [None, [0.78, 0.22]])
    def test_rates_that_are_off_by_5_points_are_doubted(self, old_rates: list[float] | None) -> None:
        doubted = []
        for seed in range(number_of_cases(40)):
            p, y = same_population(1000, 0.22, seed)
            off = 0.05 if seed % 2 else -0.05
            doubted.append(br.advise(p, rates_of(y) + np.array([off, -off]), old_rates).doubtful)
        assert np.mean(doubted) >= 0.95

    def test_right_rates_of_a_calibrated_model_are_not_doubted(self) -> None:
        rng, doubted = np.random.default_rng(0), []
        for seed in range(number_of_cases(80)):
            p, y = same_population(1000, 0.22, seed)
            survey = br.Rates.from_counts(rng.multinomial(200, [0.78, 0.22]))
            kinds = (rates_of(y), br.Rates.of_population([0.78, 0.22]), survey, br.Rates.near(rates_of(y), 0.02))
            doubted.append([br.advise(p, known).doubtful for known in kinds])
        standard_error = np.sqrt(0.1 * 0.9 / len(doubted))
        assert np.mean(doubted, axis=0).max() <= 0.1 + 2.0 * standard_error

    def test_following_the_advice_on_wrong_rates_does_not_raise_the_loss(self) -> None:
        p, y = same_population(1000, 0.22, seed=3)
        advice = br.advise(p, [0.9, 0.1])
        log = br.losses.Log()
        assert log.score(br.adjust(p, [0.9, 0.1]).probs, y) > log.score(p, y) + 0.03
        assert advice.procedure == "check"
        assert log.score(br.adjust(p, advice.rates).probs, y) <= log.score(p, y) + 1e-9
        assert advice.rates.contains([0.9, 0.1])
        assert advice.rates.contains(rates_of(y))
        assert "(1) the rates are wrong, or they are the rates of a population and not of these rows" in repr(advice)
        assert "Unlabelled rows cannot tell these apart" in repr(advice)

    def test_the_stakes_are_the_certificate_and_the_expected_rise(self) -> None:
        p, _ = same_population(400, 0.22, seed=3)
        advice = br.advise(p, [0.9, 0.1], loss="brier")
        result = br.adjust(p, [0.9, 0.1], loss="brier")
        found = figures(advice)
        assert found["guarantee"] == pytest.approx(result.certificate.loss_reduction)
        assert found["risk"] == pytest.approx(((result.probs - p) ** 2).sum(axis=1).mean())
        assert f"{found['guarantee']:.4g}" in advice.summary
        assert f"{found['risk']:.4g}" in advice.summary

    def test_wrong_rates_are_told_from_a_change_of_rates_by_the_old_rates(self) -> None:
        p, _ = same_population(1000, 0.22, seed=4)
        advice = br.advise(p, [0.9, 0.1], [0.78, 0.22])
        assert advice.procedure == "check"
        assert "A change of the class rates alone does not explain it" in repr(advice)
        assert "most likely rate of class" in repr(advice)

    def test_rates_of_a_population_that_were_stated_as_exact_are_recognised(self) -> None:
        found = []
        for seed in range(30):
            rng = np.random.default_rng(seed)
            y = (rng.random(50) < 0.3).astype(int)
            p = 1 / (1 + np.exp(-(4 * rng.normal(4.0 * y) - 8 + np.log(0.3 / 0.7))))
            advice = br.advise(np.column_stack([1 - p, p]), [0.7, 0.3])
            if advice.doubtful:
                found.append(advice.rates.kind)
        assert len(found) > 10  # the rates of 50 rows differ from those of the population
        assert np.mean([kind == "population" for kind in found]) > 0.8

    def test_rates_that_are_no_whole_numbers_of_rows_are_taken_as_those_of_a_population(self) -> None:
        p, _ = same_population(30, 0.22, seed=1)
        advice = br.advise(p, [0.7812345, 0.2187655])
        assert "0.2188 of class 1 would be 6.56 of these 30 rows" in repr(advice)
        assert advice.rates.kind == "population"
        assert "of a population" not in repr(br.advise(p, [23 / 30, 7 / 30]))
        assert "of a population" not in repr(br.advise(p, [0.77, 0.23]))  # 7 of 30, rounded to two digits

    def test_validation_data_clear_a_model_that_is_not_calibrated(self) -> None:
        p, y = two_normals(1000, 0.2, 5, sharpen=2.0)
        p_val, y_val = two_normals(1000, 0.5, 6, sharpen=2.0)
        without = br.advise(p, rates_of(y), [0.5, 0.5])
        assert without.doubtful
        assert without.procedure == "adjust"  # the rows did move towards the rates
        assert without.rates.contains(rates_of(y))
        advice = br.advise(p, rates_of(y), probs_val=p_val, y_val=y_val)
        assert not advice.doubtful
        assert figures(advice)["shift"] > 0.05
        wrong = br.advise(p, [0.65, 0.35], probs_val=p_val, y_val=y_val)
        assert wrong.doubtful
        assert figures(wrong)["shift"] <= 0.05

    def test_the_test_on_validation_data_keeps_its_level(self) -> None:
        rejected = []
        for seed in range(number_of_cases(120)):
            p, y = two_normals(150, 0.2, seed, sharpen=2.0)
            p_val, y_val = two_normals(150, 0.5, 1000 + seed, sharpen=2.0)
            known = [br.Rates.exact(rates_of(y)), br.Rates.of_population([0.8, 0.2])][seed % 2]
            rejected.append(figures(br.advise(p, known, probs_val=p_val, y_val=y_val))["shift"] <= 0.05)
        assert np.mean(rejected) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / len(rejected))

    @pytest.mark.parametrize(
        ("validation", "kind", "message"),
        [
            ({"probs_val": P}, BadOption, "needs both probs_val= and y_val="),
            ({"probs_val": P, "y_val": np.zeros(2000, dtype=int)}, BadLabels, "y_val has no rows of class 1"),
            ({"probs_val": P, "y_val": Y[:5]}, BadLabels, "pass 2000 labels"),
        ],
    )
    def test_bad_validation_data_are_errors(
        self, validation: dict[str, Any], kind: type[Exception], message: str
    ) -> None:
        with pytest.raises(kind, match=message):
            br.advise(P, RATES, **validation)

    def test_adjusting_for_log_loss_is_advised_for_brier_if_only_the_rates_changed(self) -> None:
        advice = br.advise(P, RATES, [0.5, 0.5], loss="brier")
        assert (advice.procedure, advice.loss) == ("adjust", br.losses.Log())
        brier = br.losses.Brier()
        better = brier.score(br.adjust(P, RATES, loss="brier").probs, Y) - brier.score(br.adjust(P, RATES).probs, Y)
        assert figures(advice)["loss"] == pytest.approx(better, rel=0.5)

    def test_certain_predictions_with_other_rates_are_doubted(self) -> None:
        first = np.arange(1000) % 2 == 0
        p = np.where(first[:, None], [1.0, 1e-20], [1e-20, 1.0])
        advice = br.advise(p, [0.9, 0.1], [0.5, 0.5])
        assert advice.procedure == "check"
        assert figures(advice)["premise"] < 0.01
        assert "nan" not in repr(advice)

    def test_prior_adjustment_is_not_tested_for_rate_sets(self) -> None:
        for known in (br.Rates.near([0.6, 0.4], 0.4), br.Rates.between([0.5, 0.05], [0.95, 0.5])):
            advice = br.advise(P, known, [0.5, 0.5])
            assert "prior adjustment is not tested" in repr(advice)
            assert "has changed" not in repr(advice)
            assert not advice.doubtful

    def test_a_set_far_from_the_predictions_is_doubted_at_its_nearest_member(self) -> None:
        advice = br.advise(P, br.Rates.between([0.85, 0.05], [0.95, 0.15]))
        assert advice.doubtful
        assert "a rate of 0.15 of class 1" in advice.summary

    def test_advice_without_a_guarantee(self) -> None:
        wide = br.advise(P, br.Rates.between(0.01, 0.99))
        assert wide.procedure == "none"
        assert "the guaranteed fall of the loss is 0" in wide.summary

    def test_advice_on_hard_zeros(self) -> None:
        p = np.array([[1.0, 0.0], [1.0, 0.0], [0.4, 0.6]])
        advice = br.advise(p, [0.2, 0.8])
        assert advice.procedure == "none"
        assert "make them impossible (too high by 0.46" in advice.summary
        assert "2 probabilities are exactly 0 and stay 0 under this loss" in repr(advice)
        assert br.advise(p, [0.2, 0.8], loss="brier").procedure == "check"
        assert br.advise(p, [0.2, 0.8], zeros=1e-3).procedure == "check"

    def test_every_reason_states_a_number(self) -> None:
        frame = pd.DataFrame(P, columns=["no", "yes"])
        for advice in (
            br.advise(frame, {"yes": 0.1, "no": 0.9}, [0.5, 0.5]),
            br.advise(frame, {"yes": 0.2, "no": 0.8}, probs_val=frame, y_val=np.array(["no", "yes"])[Y]),
            br.advise(P, br.Rates.between(0.01, 0.99)),
        ):
            for reason in advice.reasons:
                assert any(ch.isdigit() for ch in reason.says) or np.isnan(reason.figure), reason
            assert any(ch.isdigit() for ch in advice.summary)


def test_advice_trusts_rates_that_were_estimated_for_these_rows() -> None:
    rng = np.random.default_rng(0)

    def predictions(n: int, rate: float) -> tuple[np.ndarray, np.ndarray]:
        y = rng.random(n) < rate
        return 1 / (1 + np.exp(-rng.normal(2.0 * y - 1.0))), y

    (p_val, y_val), (p, y) = predictions(1000, 0.5), predictions(2000, 0.1)
    drawn = br.draw_rows(p, 400, random_state=0)
    for rates in (
        br.estimate(p, probs_val=p_val, y_val=y_val),
        br.estimate(p, labelled=drawn, y_labelled=y[drawn.rows]),
    ):
        advice = br.advise(p, rates)
        assert (advice.procedure, advice.doubtful) == ("adjust", False)
        assert "estimated for these rows" in advice.reasons[0].says
    low, high = br.estimate(p, probs_val=p_val, y_val=y_val).bounds()
    assert br.advise(p, br.Rates.between(low, high)).doubtful  # the same numbers from elsewhere would be doubtful
