"""Claims of the study about averages: intervals clustered by data set, three verdicts, and the cause of a failure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from study_support import synthetic_results
from support import number_of_cases

from baserate.study.claims import Claim, claims_text
from baserate.study.contrasts import CELLS, CellCount, Contrast
from baserate.study.intervals import MIN_DATASETS, Interval, Ratios, rank_correlation
from baserate.study.page_of_claims import claims_section, comparisons_section, comparisons_table
from baserate.study.paper_claims import paper_claims

Gain = Callable[[int, np.random.Generator], float]

ABOUT_AVERAGES = (
    "On average, BGA reduces the Brier score more than PPA",
    "On average, BGA reduces log loss more than PPA",
    "With wrong rates, BGA for the Brier score often still reduces the Brier score more than PPA",
    "With wrong rates, BGA for log loss often still reduces log loss more than PPA",
    "The right loss beats the wrong loss: in most tasks, the Brier score",
    "The right loss beats the wrong loss: in most tasks, log loss",
)


def always_better(_: int, rng: np.random.Generator) -> float:
    return 0.05 + 0.01 * rng.normal()


def always_worse(_: int, rng: np.random.Generator) -> float:
    return -0.05 + 0.01 * rng.normal()


def better_in_half_of_the_data_sets(dataset: int, rng: np.random.Generator) -> float:
    return (0.05 if dataset % 2 else -0.05) + 0.01 * rng.normal()


def claim(frame: pd.DataFrame, start: str) -> Claim:
    return next(one for one in paper_claims(frame, 60, None) if one.text.startswith(start))


def with_a_nearly_perfect_model(dataset: str = "d3") -> pd.DataFrame:
    """Results in which one data set has almost no log loss, which BGA multiplies if the rates are wrong."""
    frame = synthetic_results(always_better)
    rows = frame["dataset"] == dataset
    frame.loc[rows, ["log_before", "log_after"]] *= 5e-9
    spoiled = rows & (frame["adjuster"] == "bga-log") & (frame["error"] != 0)
    frame.loc[spoiled, "log_after"] = 1000 * frame.loc[spoiled, "log_before"]
    return frame


@pytest.mark.parametrize(
    ("gain", "holds", "verdict"),
    [
        (always_better, True, "holds"),
        (always_worse, False, "does not hold"),
        (better_in_half_of_the_data_sets, None, "undecided"),
    ],
)
def test_interval_decides_the_verdict_of_a_claim_about_averages(gain: Gain, holds: bool | None, verdict: str) -> None:
    found = paper_claims(synthetic_results(gain), 60, None)
    for start in ABOUT_AVERAGES:
        one = next(one for one in found if one.text.startswith(start))
        assert (one.holds, one.verdict) == (holds, verdict), start
        assert "95% interval" in one.certainty
        assert "10 data sets" in one.certainty
        assert bool(one.why) == (holds is not True)
    assert f"{verdict}: " in claims_text(found)


def test_claims_about_averages_show_pooled_loss_and_head_to_head_share() -> None:
    by_cells, in_tasks = (claim(synthetic_results(always_better), ABOUT_AVERAGES[number]) for number in (0, 2))
    assert "the pooled loss falls by 15.0% with BGA and falls by 10.0% with PPA" in by_cells.beside
    assert "BGA beats PPA in 100.0% of tasks (95% interval: 100.0% to 100.0%)" in by_cells.beside
    assert "larger for BGA in 12/12 cells (95% interval: 12 to 12)" in in_tasks.beside
    assert "the pooled loss falls by 14.9% with BGA" in in_tasks.beside


def test_the_two_claims_of_the_conclusion_and_of_figure_2_are_quoted() -> None:
    frame = synthetic_results(always_better)
    assert claim(frame, ABOUT_AVERAGES[3]).source.startswith('5, conclusion: "BGA adjustment to an approximated class')
    assert claim(frame, ABOUT_AVERAGES[5]).source.startswith('4.2: "Therefore, as expected, it is important to adjust')


def test_wrong_loss_with_infinite_log_loss_loses() -> None:
    frame = synthetic_results(always_better)
    infinite = (frame["adjuster"] == "bga-brier") & (frame["dataset"] != "d0")
    frame.loc[infinite, "log_after"] = np.inf
    found = claim(frame, ABOUT_AVERAGES[5])
    assert found.holds
    assert "the pooled loss falls by 15.0% with the right loss and becomes infinite with the wrong loss" in found.beside
    assert "nan" not in found.beside


def test_diagnosis_names_the_data_set_that_carries_the_statistic() -> None:
    found = claim(with_a_nearly_perfect_model("d3"), "On average, BGA reduces log loss")
    assert found.holds is None
    assert found.ours == "3/15 cells"
    assert "d3 has 100.0% of the statistic" in found.why
    assert "the median 2e-09 and the minimum 2e-09, while the median of all tasks is 0.4" in found.why
    assert "a data set with almost no loss can outweigh all others" in found.why
    assert "Without it: 15/15 cells, 95% interval: 15 to 15 cells, 9 data sets, holds." in found.why
    assert "BGA beats PPA in 91.1% of tasks" in found.beside, "the share of tasks does not depend on the size of losses"


def test_diagnosis_leaves_out_several_data_sets_if_each_outweighs_the_others() -> None:
    frame = with_a_nearly_perfect_model("d3")
    spoiled = (frame["dataset"] == "d7") & (frame["adjuster"] == "bga-log") & (frame["error"] != 0)
    frame.loc[spoiled, "log_after"] = 3 * frame.loc[spoiled, "log_before"]
    why = claim(frame, "On average, BGA reduces log loss").why
    assert why.index("d3 has 99") < why.index("d7 has ") < why.index("Without it too: 15/15 cells")


def test_diagnosis_of_a_claim_that_fails_everywhere_does_not_blame_one_data_set() -> None:
    why = claim(synthetic_results(always_worse), ABOUT_AVERAGES[0]).why
    assert why.startswith("The interval contradicts it. d")
    assert why.count("Without it") == 1
    assert "Without it: 0/15 cells, 95% interval: 0 to 0 cells, 9 data sets, does not hold." in why
    assert "almost no loss" not in why


def test_few_data_sets_give_no_interval_and_no_verdict() -> None:
    few = claim(synthetic_results(always_better, datasets=MIN_DATASETS - 1), ABOUT_AVERAGES[0])
    assert (few.ours, few.holds) == ("15/15 cells", None)
    assert few.why == "No interval: 5 data sets, and at least 6 are needed."
    assert claim(synthetic_results(always_better, datasets=MIN_DATASETS), ABOUT_AVERAGES[0]).holds


def test_clustered_interval_is_wider_if_tasks_of_a_data_set_are_identical() -> None:
    per_dataset = np.random.default_rng(0).normal(size=20)
    datasets, values = np.repeat(np.arange(20), 50), np.repeat(per_dataset, 50)
    clustered = Ratios.of(datasets, values).intervals()[0]
    naive = Ratios.of(np.arange(1000), values).intervals()[0]
    assert [clustered.value, naive.value] == pytest.approx([per_dataset.mean()] * 2)
    # Variances of means of 20 and of 1000 independent values differ by a factor of 50.
    assert (clustered.high - clustered.low) / (naive.high - naive.low) == pytest.approx(np.sqrt(50), rel=0.2)
    one_task_each = Ratios.of(np.arange(20), per_dataset).intervals()[0]
    assert [clustered.low, clustered.high] == pytest.approx([one_task_each.low, one_task_each.high])


def test_clustered_intervals_contain_the_true_value_in_95_percent_of_simulations() -> None:
    rng = np.random.default_rng(0)
    clustered, naive = [], []
    for number in range(number_of_cases(400)):
        datasets = np.repeat(np.arange(15), rng.integers(5, 30, 15))
        values = 0.3 + rng.normal(size=15)[datasets] + rng.normal(size=len(datasets))
        interval = Ratios.of(datasets, values).intervals()[0]
        clustered.append(interval.low <= 0.3 <= interval.high)
        if number < 40:
            interval = Ratios.of(np.arange(len(datasets)), values).intervals()[0]
            naive.append(interval.low <= 0.3 <= interval.high)
    assert 0.90 <= np.mean(clustered) <= 0.99
    assert np.mean(naive) < 0.75, "the bootstrap of single tasks misses the true value far too often"


def test_interval_of_a_mean_is_as_wide_as_the_interval_of_students_t() -> None:
    from scipy.stats import t

    values = np.random.default_rng(1).normal(size=12)
    interval = Ratios.of(np.arange(12), values).intervals()[0]
    width = 2 * t.ppf(0.975, 11) * values.std(ddof=1) / np.sqrt(12)
    assert interval.high - interval.low == pytest.approx(width, rel=0.1)


def test_joint_intervals_contain_all_true_values_more_often_than_single_ones() -> None:
    rng = np.random.default_rng(0)
    all_inside = {"joint": 0, "single": 0}
    n = number_of_cases(200)
    for _ in range(n):
        values = rng.normal(size=(30, 8))
        joint = Ratios(np.arange(30).astype(str), values, np.ones_like(values)).intervals()
        single = [Ratios.of(np.arange(30), column).intervals()[0] for column in values.T]
        for name, intervals in (("joint", joint), ("single", single)):
            all_inside[name] += all(one.low <= 0 <= one.high for one in intervals)
    assert all_inside["single"] < 0.8 * n
    assert all_inside["joint"] >= 0.88 * n


def test_intervals_are_the_same_in_every_run() -> None:
    values = np.random.default_rng(0).normal(size=40)
    one, two = (Ratios.of(np.arange(40) % 8, values).intervals() for _ in range(2))
    assert one == two


def test_cells_without_tasks_and_infinite_values_do_not_spoil_other_cells() -> None:
    datasets, cells = np.tile(np.arange(8), 3), np.repeat([0, 1, 3], 8)
    values = np.concatenate([np.linspace(1, 2, 8), np.full(8, np.inf), [-np.inf, *np.zeros(7)]])
    first, infinite, empty, once = Ratios.of(datasets, values, cells=cells, n_cells=4).intervals()
    assert 1 < first.low < first.value < first.high < 2
    assert infinite == Interval(np.inf, np.inf, np.inf)
    assert np.isnan(empty.value)
    assert empty.is_above(0.0) is None
    assert (once.value, once.low, once.high) == (-np.inf, -np.inf, 0.0)


def test_number_of_cells_has_the_bounds_that_the_intervals_allow() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([1.0, 1.0, 0.0, -1.0])
    values = centres + 0.1 * rng.normal(size=(12, 4))
    count = CellCount.of(Ratios(np.arange(12).astype(str), values, np.ones_like(values)))
    assert (count.low, count.high, count.cells) == (2, 3, 4)
    assert count.value in (2, 3)


def test_statistics_of_a_comparison_agree_with_their_definitions() -> None:
    frame = synthetic_results(better_in_half_of_the_data_sets)
    contrast = Contrast.of(frame, "log", "bga-log", "ppa")
    number = CELLS.index(("medium", 0.02))
    rows = frame[(frame["size"] == "medium") & (frame["off"] == 0.02)]
    bga, ppa = (rows[rows["adjuster"] == name].reset_index() for name in ("bga-log", "ppa"))
    assert contrast.means.values[number] == pytest.approx(bga["log_reduction"].mean() - ppa["log_reduction"].mean())
    pooled = (ppa["log_after"].sum() - bga["log_after"].sum()) / bga["log_before"].sum()
    assert contrast.pooled.values[number] == pytest.approx(pooled)
    assert contrast.wins.values[number] == pytest.approx((bga["log_after"] < ppa["log_after"]).mean())


def test_ties_count_as_half_a_win() -> None:
    contrast = Contrast.of(synthetic_results(lambda dataset, _: 0.0), "brier", "bga-brier", "ppa")
    assert contrast.wins.values == pytest.approx(np.full(15, 0.5))


def test_rank_correlation_agrees_with_spearman() -> None:
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    y = x + rng.normal(size=300)
    interval = rank_correlation(np.arange(300) % 20, x, y)
    assert interval.value == pytest.approx(spearmanr(x, y).statistic)
    assert interval.low < interval.value < interval.high
    assert interval.is_above(0.4)
    assert np.isnan(rank_correlation(np.zeros(300), x, y).low)


def test_page_says_how_sure_a_result_is_and_where_the_paper_states_it() -> None:
    frame = with_a_nearly_perfect_model()
    text = claims_section(paper_claims(frame, 60, None))
    assert "| 3/15 cells | 95% interval: 3 to 15 cells, 10 data sets | **undecided** |" in text
    assert "### Why some claims do not hold or are undecided" in text
    assert "d3 has 100.0% of the statistic" in text
    assert '- **7** Section 4.2: "mean proportional reduction of loss by BGA is higher' in text
    assert "absolute correlation" in text
    tables = comparisons_section(frame)
    assert tables.count("| high |") == 6
    assert "**log loss: share of tasks in which BGA leaves a lower loss than PPA**" in tables


def test_comparisons_csv_has_all_cells_of_all_pairs() -> None:
    table = comparisons_table(synthetic_results(always_better))
    assert len(table) == 2 * 2 * 3 * 15
    assert set(table["datasets"]) == {10}
    wins = table[table["statistic"] == "wins"]
    assert (wins["value"] == 1).all()
    assert ((table["low"] <= table["value"]) & (table["value"] <= table["high"])).all()
