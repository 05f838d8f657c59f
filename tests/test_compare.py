"""compare: intervals for both targets, groups, differences, metrics and notes."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score
from support import Array
from tool_support import load_tool

import baserate as br
from baserate.analysis.bootstrap import Bootstrap, bootstrap_intervals, sum_by_group
from baserate.analysis.candidates import are_rates_of_labels, with_rates_of
from baserate.analysis.cross_fitting import LabelledRows, as_folds, corrections
from baserate.analysis.label_check import check_against_labels, independent_rows
from baserate.analysis.measures import AUC, Accuracy, CalibrationError, MeanCost
from baserate.errors import BadOption, FewGroupsWarning, Option, respell
from baserate.progress import SILENT, Progress

mpl.use("agg")


def labelled(n: int, k: int, seed: int, *, skew: float = 1.0) -> tuple[Array, Array]:
    """Predictions that are calibrated for equal class rates, and labels whose rates fall from class to class."""
    rng = np.random.default_rng(seed)
    rates = np.arange(k, 0, -1.0) ** skew
    y = rng.choice(k, size=n, p=rates / rates.sum())
    z = 1.5 * (rng.normal(size=(n, k)) + 1.5 * np.eye(k)[y])
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), y


def rates_of(y: Array, k: int) -> Array:
    return np.bincount(y, minlength=k) / len(y)


class TestTarget:
    def test_new_rows_are_adjusted_by_fits_without_them(self) -> None:
        p, y = labelled(200, 3, seed=0)
        table = br.compare(p, y, rates_of(y, 3), [1 / 3] * 3, losses=["log"], target="new rows", n_bootstrap=50)
        rows = LabelledRows(p, np.eye(3)[y], np.full(200, 1 / 200), None)
        folds = as_folds(rows, 10, seed=0)
        losses = np.empty(200)
        for m in range(10):
            rest, own = folds != m, folds == m
            fitted = br.adjust(p[rest], rates_of(y[rest], 3))
            losses[own] = -np.log(fitted.apply(p[own])[np.arange(own.sum()), y[own]])
        i = table.procedures.index("adjusted for log loss")
        assert table.mean[i, 0] == pytest.approx(losses.mean(), abs=1e-9)
        assert table.mean[0, 0] == pytest.approx(br.losses.Log().score(p, y))

    def test_stated_rates_are_not_estimated_again(self) -> None:
        p, y = labelled(100, 2, seed=1)
        stated = [0.6, 0.4]
        table = br.compare(p, y, stated, [0.5, 0.5], losses=["log"], target="new rows", n_bootstrap=20)
        prior = br.prior_adjust(p, [0.5, 0.5], stated).probs
        i = table.procedures.index("prior adjustment")
        assert table.mean[i, 0] == pytest.approx(br.losses.Log().score(prior, y))  # it does not depend on the rows

    @pytest.mark.parametrize(
        ("known", "expected"),
        [
            (br.Rates.exact([0.75, 0.25]), True),
            (br.Rates.exact([0.74, 0.26]), True),  # rounded: the same counts
            (br.Rates.exact([0.6, 0.4]), False),
            (br.Rates.of_population([0.75, 0.25]), True),
            (br.Rates.near([0.75, 0.25], 0.1), True),
            (br.Rates.from_counts([6, 2]), True),
            (br.Rates.from_counts([60, 40]), False),
            (br.Rates.between([0.7, 0.2], [0.8, 0.3]), False),
        ],
    )
    def test_rates_that_were_taken_from_the_labels_are_recognised(self, known: br.Rates, expected: bool) -> None:
        assert are_rates_of_labels(known.on(None, 2), np.array([0.75, 0.25]), 8) is expected

    def test_a_class_without_rows_outside_its_fold_does_not_get_rate_0(self) -> None:
        targets = np.eye(3)[[0, 0, 0, 1]]
        known = br.Rates.exact([0.5, 0.3, 0.2]).on(None, 3)
        found = with_rates_of(known, targets, np.full(4, 0.25), np.array([True, True, True]))
        assert found.estimate() == pytest.approx(np.array([6, 2, 1]) / 9)
        p, y = labelled(60, 3, seed=2)
        y = np.where(y == 2, 0, y)
        y[0] = 2  # the only row of class 2
        table = br.compare(p, y, rates_of(y, 3), losses=["log"], target="new rows", n_bootstrap=20)
        assert np.isfinite(table.mean[table.procedures.index("adjusted for log loss"), 0])

    def test_the_auc_does_not_change_if_all_rows_get_the_same_shift(self) -> None:
        p, y = labelled(150, 2, seed=3)
        table = br.compare(p, y, rates_of(y, 2), metrics=["auc"], target="new rows", n_bootstrap=20)
        i = table.procedures.index("adjusted for log loss")
        assert table.change[i, 2] == pytest.approx(0.0, abs=1e-12)

    def test_procedures_that_fail_without_a_fold_are_noted(self) -> None:
        p = np.tile([1.0, 0.0], (20, 1))
        p[:2] = 0.5
        y = np.r_[1, np.zeros(19, dtype=int)]
        table = br.compare(p, y, [0.95, 0.05], losses=["log"], target="new rows", n_bootstrap=20)
        noted = [note for note in table.notes if "not possible without a tenth of the rows" in note]
        assert bool(noted) == np.isnan(table.mean[table.procedures.index("adjusted for log loss"), 0])
        assert "intervals: for the mean change in new rows" in repr(table)

    @pytest.mark.parametrize(
        ("repetitions", "least"),
        [(10, 0.74), pytest.param(40, 0.85, marks=pytest.mark.stress)],  # 95 % minus 3 standard errors
    )
    def test_intervals_cover_the_effect(self, repetitions: int, least: float) -> None:
        # A small version of tools/compare_coverage.py.
        tool = load_tool("compare_coverage")
        setting = tool.Setting(k=5, n=100, shift=True, cluster=1)
        covered = tool.simulate(setting, repetitions=repetitions, n_new=20_000, n_batches=200, seed=5)
        assert len(covered) == 6
        assert min(covered.values()) >= least

    @pytest.mark.parametrize("repetitions", [10, pytest.param(20, marks=pytest.mark.stress)])
    def test_intervals_for_new_rows_do_not_follow_the_labels_that_the_rates_come_from(self, repetitions: int) -> None:
        # Nothing has changed, so every shift that is fitted to the labels does harm on new rows.
        tool = load_tool("compare_coverage")
        setting = tool.Setting(k=10, n=200, shift=False, cluster=1)
        covered = tool.simulate(setting, repetitions=repetitions, n_new=20_000, n_batches=20, seed=6)
        assert covered["new rows", "adjusted for log loss"] >= 0.8  # it was 0.03


class TestGroups:
    def test_intervals_of_repeated_rows_are_not_shorter_if_they_are_a_group(self) -> None:
        p, y = labelled(40, 2, seed=0)
        rates = [0.6, 0.4]
        alone = br.compare(p, y, rates, [0.5, 0.5], losses=["brier"])
        p10, y10, groups = np.repeat(p, 10, axis=0), np.repeat(y, 10), np.repeat(np.arange(40), 10)
        grouped = br.compare(p10, y10, rates, [0.5, 0.5], losses=["brier"], groups=groups)
        ignored = br.compare(p10, y10, rates, [0.5, 0.5], losses=["brier"])
        i = alone.procedures.index("prior adjustment")
        widths = [float(table.high[i, 0] - table.low[i, 0]) for table in (alone, grouped, ignored)]
        assert widths[1] == pytest.approx(widths[0], rel=0.15)
        assert widths[2] < 0.5 * widths[0]

    def test_the_order_and_the_names_of_groups_do_not_matter(self) -> None:
        p, y = labelled(200, 2, seed=4)
        groups = np.repeat(np.arange(40), 5)
        table = br.compare(p, y, [0.6, 0.4], losses=["brier"], groups=groups, n_bootstrap=50)
        named = br.compare(p, y, [0.6, 0.4], losses=["brier"], groups=[f"g{g:02}" for g in groups], n_bootstrap=50)
        np.testing.assert_array_equal(table.low, named.low)

    def test_few_groups_are_warned_about(self) -> None:
        p, y = labelled(90, 2, seed=5)
        with pytest.warns(FewGroupsWarning, match="there are only 9 groups"):
            table = br.compare(p, y, [0.6, 0.4], losses=["brier"], groups=np.arange(90) // 10, n_bootstrap=20)
        assert any("there are only 9 groups" in note for note in table.notes)

    @pytest.mark.parametrize(
        ("groups", "message"),
        [
            (np.zeros(3), r"groups has shape \(3,\), but there are 40 rows"),
            (np.zeros(40), "all rows are in one group"),
            (np.r_[np.nan, np.zeros(39)], "the group of row 0 is NaN"),
            ([None, "a"] * 20, "groups mixes values that cannot be sorted"),
        ],
    )
    def test_bad_groups_are_errors(self, groups: Any, message: str) -> None:
        p, y = labelled(40, 2, seed=6)
        with pytest.raises(BadOption, match=message):
            br.compare(p, y, [0.6, 0.4], groups=groups)


class TestIntervals:
    def test_many_rows_are_resampled_in_pools_with_the_same_intervals(self) -> None:
        rng = np.random.default_rng(0)
        rows = np.stack([np.zeros((1, 20_000)), rng.exponential(size=(1, 20_000))])
        groups = sum_by_group(rows, np.full(20_000, 1 / 20_000), None, seed=0)
        assert groups.sums.shape == (2, 1, 2048)
        found = bootstrap_intervals(groups, 0, np.zeros((2, 1)), Bootstrap(0.95, 2000, 0), SILENT)
        half = 1.96 * rows[1].std() / np.sqrt(20_000)
        assert found.difference[1, 0] == pytest.approx(rows[1].mean())
        assert found.high[1, 0] - found.difference[1, 0] == pytest.approx(half, rel=0.1)

    def test_differences_between_procedures_are_paired(self) -> None:
        p, y = labelled(500, 3, seed=7)
        table = br.compare(p, y, rates_of(y, 3), [1 / 3] * 3, losses=["log"])
        a, b = (table.procedures.index(name) for name in ("prior adjustment", "adjusted for log loss"))
        versus = table.relative_to("prior adjustment")
        assert versus.reference == "prior adjustment"
        assert versus.change[b, 0] == pytest.approx(table.mean[b, 0] - table.mean[a, 0])
        paired, apart = versus.high[b, 0] - versus.low[b, 0], table.high[b, 0] - table.low[b, 0]
        assert paired < 0.3 * apart  # the two procedures are nearly the same
        again = versus.relative_to("as predicted")
        np.testing.assert_array_equal(again.low, table.low)
        assert "changes: relative to prior adjustment" in repr(versus)
        with pytest.raises(BadOption, match="procedure is 'prior', but the compared procedures are"):
            table.relative_to("prior")

    def test_joint_intervals_cover_all_of_many_procedures_without_effect(self) -> None:
        # 20 predictions that differ from the original ones by noise: the best of them looks better by chance.
        rng, alone, together = np.random.default_rng(8), 0, 0
        for _ in range(100):
            rows = np.concatenate([np.zeros((1, 1, 60)), rng.normal(size=(20, 1, 60))])
            groups = sum_by_group(rows, np.full(60, 1 / 60), None, seed=0)
            found = bootstrap_intervals(groups, 0, np.zeros((21, 1)), Bootstrap(0.95, 400, 0), SILENT)
            alone += bool(((found.low <= 0) & (found.high >= 0)).all())
            together += bool(((found.joint_low <= 0) & (found.joint_high >= 0)).all())
        assert alone < 60
        assert together >= 86  # 95 % minus 4 standard errors

    def test_no_change_in_these_rows_does_not_mean_no_change_in_others(self) -> None:
        # The rates of these labels are those in training by chance, so that prior adjustment changes nothing.
        p, _ = labelled(100, 2, seed=12)
        table = br.compare(p, np.arange(100) % 2, [0.5, 0.5], [0.5, 0.5], losses=["log"], n_bootstrap=50)
        i = table.procedures.index("prior adjustment")
        assert table.change[i, 0] == pytest.approx(0.0, abs=1e-12)
        assert table.low[i, 0] < -1e-4
        assert table.high[i, 0] > 1e-4

    def test_one_row_has_no_interval(self) -> None:
        table = br.compare([[0.6, 0.4]], [0], br.Rates.between([0.7, 0.2], [0.8, 0.3]), losses=["brier"])
        assert np.isnan(table.low).all()
        assert "unknown" in repr(table)
        with pytest.raises(BadOption, match="the target 'new rows' needs at least 2 rows"):
            br.compare([[0.6, 0.4]], [0], [0.7, 0.3], target="new rows")

    def test_the_shift_that_varies_with_the_sample_makes_the_variance_larger(self) -> None:
        rng = np.random.default_rng(9)
        moved, slope = rng.normal(size=(2, 2000, 10))
        product = moved[:, :, None] * slope[:, None, :] / 9  # what moves the shift, times what the shift changes
        assert corrections(product).second.mean() == pytest.approx(1 / 100, rel=0.1)  # of means over 10 folds
        assert corrections(np.repeat(slope[:, None], 10, axis=1)).second.max() < 1e-20

    def test_progress_of_the_bootstrap_is_reported(self) -> None:
        class Received(Progress):
            begun: list[tuple[str, int]]
            done: int

            def begin(self, what: str, n_rows: int) -> None:
                self.begun.append((what, n_rows))
                self.done = 0

            def rows(self, n_rows: int) -> None:
                self.done += n_rows

        received = Received()
        received.begun, received.done = [], 0
        p, y = labelled(100, 2, seed=10)
        br.compare(p, y, [0.6, 0.4], losses=["log"], n_bootstrap=300, progress=received)
        assert received.begun[-1] == ("resampling", 300)
        assert received.done == 300
        assert ("cross-fitting additive", 10) in received.begun

    def test_large_inputs_take_a_few_seconds_at_most(self) -> None:
        p, y = labelled(15_000, 2, seed=11)
        start = time.process_time()
        br.compare(p, y, [0.6, 0.4], [0.5, 0.5])
        assert time.process_time() - start < 5  # about 0.4; it was 3 to 25


class TestMetrics:
    def test_metrics_agree_with_scikit_learn(self) -> None:
        p, y = labelled(300, 4, seed=0)
        weights = np.random.default_rng(0).random(300)
        w, targets = weights / weights.sum(), np.eye(4)[y]
        p = p.round(2)
        p /= p.sum(axis=1, keepdims=True)  # with ties
        accuracy = accuracy_score(y, p.argmax(axis=1), sample_weight=weights)
        assert Accuracy().contributions(p, targets, w) @ w == pytest.approx(accuracy)
        auc = np.mean([roc_auc_score(y == j, p[:, j], sample_weight=weights) for j in range(4)])
        assert AUC().contributions(p, targets, w) @ w == pytest.approx(auc)

    def test_the_influence_of_a_row_on_the_auc_is_its_derivative(self) -> None:
        p, y = labelled(50, 2, seed=1)
        targets, w = np.eye(2)[y], np.full(50, 1 / 50)
        contributions = AUC().contributions(p, targets, w)
        for i in range(0, 50, 7):
            more = w.copy()
            more[i] += 1e-6
            slope = (roc_auc_score(y, p[:, 1], sample_weight=more) - roc_auc_score(y, p[:, 1])) / 1e-6
            assert contributions[i] - contributions.mean() == pytest.approx(slope, abs=1e-3)

    def test_expected_calibration_error_by_its_definition(self) -> None:
        p, y = labelled(400, 3, seed=2)
        confidence, correct = p.max(axis=1), p.argmax(axis=1) == y
        total = 0.0
        for low, high in pairwise(np.linspace(0, 1, 16)):
            inside = (confidence > low) & (confidence <= high)
            if inside.any():
                total += inside.mean() * abs(confidence[inside].mean() - correct[inside].mean())
        found = CalibrationError().contributions(p, np.eye(3)[y], np.full(400, 1 / 400)).mean()
        assert found == pytest.approx(total)

    def test_cost_is_that_of_the_decisions_with_the_lowest_expected_cost(self) -> None:
        p, y = labelled(100, 2, seed=3)
        found = MeanCost(np.array([[0.0, 1.0], [5.0, 0.0]])).contributions(p, np.eye(2)[y], np.full(100, 0.01))
        treat = p[:, 1] > 1 / 6
        np.testing.assert_allclose(found, np.where(y == 1, 5.0 * ~treat, 1.0 * treat))

    def test_metrics_are_columns_after_the_losses(self) -> None:
        p, y = labelled(100, 2, seed=4)
        names = ["accuracy", "auc", "ece"]
        table = br.compare(p, y, [0.6, 0.4], metrics=names, costs=[[0, 1], [5, 0]], n_bootstrap=20)
        assert table.metrics == (*names, "cost")
        assert table.mean.shape == (len(table.procedures), 6)
        assert table.mean[0, 2] == pytest.approx(accuracy_score(y, p.argmax(axis=1)))
        assert table.as_dict()["loss"][-1] == "cost"
        assert "accuracy (higher is better)" in repr(table)
        display = br.ComparisonDisplay(table.relative_to("additive")).plot()
        assert display.axes_[2].get_xlabel() == "change of accuracy"
        assert next(text.get_text() for text in display.axes_[0].get_yticklabels()) == "as predicted"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"metrics": ["f1"]}, "metrics contains 'f1'; the metrics are 'accuracy', 'auc', 'ece'"),
            ({"costs": [1, 2]}, r"costs must be finite numbers .* but have shape \(2,\)"),
            ({"target": "population"}, "target must be 'these rows' or 'new rows', not 'population'"),
        ],
    )
    def test_bad_metrics_and_targets_are_errors(self, options: dict[str, Any], message: str) -> None:
        p, y = labelled(20, 2, seed=5)
        with pytest.raises(BadOption, match=message):
            br.compare(p, y, [0.6, 0.4], **options)


class TestNotes:
    def test_rates_that_contradict_the_labels_are_noted(self) -> None:
        p, y = labelled(300, 2, seed=0)
        labels = np.array(["a", "b"])[y]
        wrong = br.compare(p, labels, {"a": 0.2, "b": 0.8}, classes=["a", "b"], losses=["log"], n_bootstrap=20)
        (note,) = [note for note in wrong.notes if "contradict" in note]
        assert "the rate of class 'a' is stated as 0.2, but 0.5967 of the labels" in note
        right = br.compare(p, labels, {"a": 0.66, "b": 0.34}, classes=["a", "b"], losses=["log"], n_bootstrap=20)
        assert not any("contradict" in note for note in right.notes)

    def test_p_values_of_right_rates_are_uniform_at_most(self) -> None:
        rng, rates = np.random.default_rng(1), np.array([0.6, 0.3, 0.1])
        known = br.Rates.exact(rates).on(None, 3)
        p_values = [check_against_labels(known, rng.multinomial(80, rates) / 80, 80).p_value for _ in range(200)]
        assert np.mean(np.array(p_values) < 0.05) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)

    def test_the_p_value_agrees_with_the_exact_binomial_test(self) -> None:
        from scipy.stats import binom

        counts = np.arange(41)
        far = np.abs(counts / 40 - 0.3) >= abs(20 / 40 - 0.3) - 1e-12
        exact = binom.pmf(counts, 40, 0.3)[far].sum()
        found = check_against_labels(br.Rates.exact([0.3, 0.7]).on(None, 2), np.array([0.5, 0.5]), 40).p_value
        assert found == pytest.approx(exact, abs=0.003)

    @pytest.mark.parametrize(
        ("known", "contradicted"),
        [
            (br.Rates.between([0.4, 0.3], [0.7, 0.6]), False),
            (br.Rates.between([0.1, 0.7], [0.3, 0.9]), True),
            (br.Rates.near([0.1, 0.9], 0.05), True),
            (br.Rates.from_counts([50, 50]), False),
            (br.Rates.of_population([0.1, 0.9]), True),
            (br.Rates.exact([1.0, 0.0]), True),
        ],
    )
    def test_rate_sets_are_tested_at_their_nearest_rates(self, known: br.Rates, contradicted: bool) -> None:
        found = check_against_labels(known.on(None, 2), np.array([0.5, 0.5]), 100)
        assert (found.p_value < 0.01) is contradicted

    def test_groups_count_as_fewer_rows(self) -> None:
        targets = np.repeat(np.eye(2)[[0, 1, 0, 1, 0]], 20, axis=0)
        weights = np.full(100, 0.01)
        assert independent_rows(targets, weights, None) == 100
        assert independent_rows(targets, weights, np.repeat(np.arange(5), 20)) <= 5

    def test_infinite_losses_point_to_the_option_for_zeros(self) -> None:
        p, y = labelled(50, 2, seed=2)
        p[0], y[0] = [1.0, 0.0], 1
        table = br.compare(p, y, [0.6, 0.4], losses=["log"], n_bootstrap=20)
        (note,) = [note for note in table.notes if "infinite" in note]
        assert "the class of 1 row was predicted with probability 0; pass zeros=1e-6 to smooth" in note
        assert "as predicted" in note
        assert table.options == (Option("zeros", "1e-6"),)
        assert "pass --zeros 1e-6" in respell(note, table.options, lambda option: f"--{option.name} {option.value}")
        smoothed = br.compare(p, y, [0.6, 0.4], losses=["log"], n_bootstrap=20, zeros=1e-6)
        assert np.isfinite(smoothed.mean[0]).all()
        assert smoothed.options == ()

    def test_zeros_that_a_procedure_makes_are_not_blamed_on_the_predictions(self) -> None:
        p, y = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]]), [1, 0, 0, 0]
        table = br.compare(p, y, [0.75, 0.25], n_bootstrap=20)
        (note,) = [note for note in table.notes if "infinite" in note]
        assert note.startswith(
            "adjusted for brier loss: the log loss is infinite, because this procedure gave probability 0"
        )
        assert [option.name for option in table.options] == ["zeros"]
