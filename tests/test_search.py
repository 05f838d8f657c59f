"""Steps of the solver on their own: samples, starts, the metric, limits on passes, and what a fit reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import Array, assert_certified

import baserate as br
from baserate.core import fit as fit_module
from baserate.core import sampling, search
from baserate.core.dual import Dual
from baserate.core.feasibility import Blockage
from baserate.core.fit_messages import advice_on_convergence, infeasible_rates
from baserate.core.row_model import RowModel
from baserate.core.search import Stop
from baserate.core.start import guess, metric
from baserate.engines.memory import MemoryEngine
from baserate.inputs.reading import Reading
from baserate.losses import Loss
from baserate.passes import choose_passes
from baserate.rates.sets import RateSet


def rows(n: int, k: int, seed: int, spread: float = 1.0) -> Array:
    return np.random.default_rng(seed).dirichlet(np.full(k, spread), size=n)


def model_of(loss: Loss, k: int) -> RowModel:
    return RowModel(loss, True, k, np.arange(k), Reading())


def dual_of(p: Array, rates: Any, loss: Loss, kernels: str = "off") -> Dual:
    engine = MemoryEngine(p, None)
    rate_set = rates if isinstance(rates, RateSet) else RateSet.point(np.asarray(rates))
    return Dual.of(engine, choose_passes(model_of(loss, p.shape[1]), engine, kernels), rate_set)


# Samples


@pytest.mark.parametrize(
    ("n_rows", "smooth", "size"),
    [
        (15_999, True, None),
        (16_000, True, 4_000),
        (16_000, False, 4_000),
        (640_000, True, 10_000),
        (1_000_000, True, 15_625),
        (1_000_000, False, 62_500),
    ],
)
def test_one_row_in_64_or_in_16_is_sampled_but_at_least_4000(n_rows: int, smooth: bool, size: int | None) -> None:
    assert sampling.sample_size(n_rows, smooth=smooth) == size


@pytest.mark.parametrize(
    ("n_rows", "n_classes", "max_values", "size"),
    [
        (15_999, 2, 10**9, None),
        (16_000, 2, 10**9, 4_000),
        (1_000_000, 2, 10**9, 62_500),
        (1_000_000, 100, 10**6, 10_000),
        (1_000_000, 1_000, 10**6, 1_000),
        (1_000_000, 1_001, 10**6, None),
    ],
)
def test_collected_samples_fit_the_memory_and_are_large_enough_to_be_a_guide(
    n_rows: int, n_classes: int, max_values: int, size: int | None
) -> None:
    assert sampling.collected_size(n_rows, n_classes, max_values=max_values) == size


def test_sampled_rows_are_groups_of_8_neighbours_spread_evenly_over_all_rows() -> None:
    found = sampling.sampled_rows(100_000, 4_000)
    assert len(found) == 4_000
    assert found.min() >= 0
    assert found.max() < 100_000
    assert (np.diff(found) > 0).all()
    groups = found.reshape(500, 8)
    np.testing.assert_array_equal(np.diff(groups, axis=1), 1)
    np.testing.assert_array_equal(groups[:, 0] // 200, np.arange(500))  # one group in each stretch of 200 rows
    np.testing.assert_array_equal(groups[:, 7] // 200, np.arange(500))
    np.testing.assert_array_equal(found, sampling.sampled_rows(100_000, 4_000))
    assert len(np.unique(groups[:, 0] % 200)) > 50  # at random places, since the rows may be periodic


# Where the search starts


@pytest.mark.parametrize("loss", [br.losses.Log(), br.losses.Brier(), br.losses.Power(1.5)])
def test_if_all_rows_are_equal_the_first_guess_is_the_solution(loss: Loss) -> None:
    row, rates = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.3, 0.2])
    start = guess(model_of(loss, 3), RateSet.point(rates), np.zeros(3), row)
    np.testing.assert_allclose(loss.row_map(loss.link(row[None]) + start.shift), rates[None], atol=1e-12)
    box = RateSet.box(np.array([0.4, 0.0, 0.1]), np.array([0.6, 0.35, 0.4]))
    start = guess(model_of(loss, 3), box, np.zeros(3), row)
    moved = loss.row_map(loss.link(row[None]) + start.shift)[0]
    result = br.adjust(row[None], br.Rates.between([0.4, 0.0, 0.1], [0.6, 0.35, 0.4]), loss=loss)
    np.testing.assert_allclose(moved, result.probs[0], atol=1e-6)


def test_steps_are_measured_by_the_curvature_at_the_rates() -> None:
    rates = np.array([0.2, 0.3, 0.5])
    exact = metric(model_of(br.losses.Log(), 3), RateSet.point(rates), rates)
    np.testing.assert_allclose(exact, np.diag(rates) - np.outer(rates, rates), atol=1e-15)


def test_a_class_that_may_be_at_zero_can_still_move() -> None:
    box = RateSet.box(np.array([0.0, 0.2, 0.2]), np.array([0.4, 0.7, 0.8]))
    inside = np.array([0.0004, 0.4, 0.6]) / 1.0004
    found = metric(model_of(br.losses.Log(), 3), box, np.array([0.0, 0.4, 0.6]))
    np.testing.assert_allclose(found, np.diag(inside) - np.outer(inside, inside), atol=1e-15)
    assert found[0, 0] > 0


def test_a_present_shift_is_only_used_as_a_start_if_it_is_nearer() -> None:
    p = rows(3000, 4, seed=1)
    first = br.adjust(p, [0.1, 0.2, 0.3, 0.4])
    near, again = [0.101, 0.199, 0.3, 0.4], br.adjust(p, [0.101, 0.199, 0.3, 0.4])
    assert first.what_if(near).n_passes < again.n_passes
    np.testing.assert_allclose(first.what_if(near).probs, again.probs, atol=1e-10)
    almost_mean = p.mean(axis=0) + np.array([1e-6, -1e-6, 0, 0])
    back = first.what_if(almost_mean)
    assert_certified(back)
    assert back.n_passes <= br.adjust(p, almost_mean).n_passes


# Limits


@pytest.mark.parametrize(("tol", "smallest"), [(1e-3, 1e-10), (1e-10, 1e-10), (3e-12, 3e-12), (1e-15, 1e-12)])
def test_a_flat_loss_is_softened_less_where_the_tolerance_is_tight(tol: float, smallest: float) -> None:
    shares = list(fit_module.shares(tol))
    assert shares[0] == 1e-4
    assert shares[-1] == smallest
    assert shares == sorted(shares, reverse=True)


def test_limits_on_passes_leave_at_least_one() -> None:
    stop = Stop(1e-6, 10)
    assert stop.after(4) == Stop(1e-6, 6)
    assert stop.after(9) == stop.after(10) == stop.after(50) == Stop(1e-6, 1)
    assert stop.at_most(3) == Stop(1e-6, 3)
    assert stop.at_most(30) == stop


@pytest.mark.parametrize("max_passes", [1, 2, 3, 5, 8])
@pytest.mark.filterwarnings("ignore::baserate.NotConvergedWarning")
def test_no_more_passes_than_allowed_are_spent_on_the_search(max_passes: int) -> None:
    for n in (200, 20_000):
        logits = 30 * np.random.default_rng(2).normal(size=(n, 5))
        result = br.adjust(logits, [0.6, 0.1, 0.1, 0.1, 0.1], from_logits=True, max_passes=max_passes)
        assert result.n_passes <= max_passes + 3  # besides the search, rows are surveyed, checked and written
        assert result.converged or max_passes < 20


def test_a_guarantee_close_to_the_largest_possible_one_is_found() -> None:
    # Both rows must give up nearly all of their probability, which is nearly the largest possible change.
    p = np.array([[1e-300, 1.0], [1e-200, 1.0]])
    result = br.adjust(p, [1 - 1e-9, 1e-9])
    assert result.converged
    assert result.certificate.residual <= 1e-10
    assert result.certificate.loss_reduction == pytest.approx(np.log(10) * 250, rel=1e-6)


# What a fit reports


@pytest.mark.parametrize("loss", [br.losses.Log(), br.losses.Brier()])
def test_the_compiled_solver_of_small_problems_reports_what_the_general_one_does(loss: Loss) -> None:
    p, rates, stop = rows(300, 4, seed=3), [0.4, 0.3, 0.2, 0.1], Stop(1e-10, 100)
    small = fit_module.solve_easy_problem(dual_of(p, rates, loss, "always"), stop)
    general = fit_module.fit(dual_of(p, rates, loss), stop, keep_rows=True)
    assert small is not None
    assert small.n_passes == general.n_passes
    assert small.solution.n_passes == general.solution.n_passes
    assert small.solution.converged
    assert not small.solution.extrapolated
    np.testing.assert_allclose(small.survey.mean, general.survey.mean, rtol=1e-13)
    assert small.survey.effective_rows == pytest.approx(300)
    np.testing.assert_allclose(small.written.mean, general.written.mean, rtol=1e-12)
    assert small.written.divergence == pytest.approx(general.written.divergence, rel=1e-11)
    np.testing.assert_allclose(small.solution.point.wanted, rates)
    assert small.solution.point.value == pytest.approx(general.solution.point.value, rel=1e-9)


@pytest.mark.parametrize(
    "case", ["enough rows for a sample", "few passes allowed", "an interval", "a class left out", "no kernels"]
)
def test_other_problems_are_left_to_the_general_solver(case: str) -> None:
    p = rows(16_000 if case == "enough rows for a sample" else 300, 4, seed=4)
    rates: Any = [0.4, 0.3, 0.2, 0.1]
    stop = Stop(1e-10, 14 if case == "few passes allowed" else 15)
    if case == "an interval":
        rates = RateSet.box(np.array([0.4, 0.1, 0.1, 0.1]), np.array([0.5, 0.3, 0.3, 0.3]))
    if case == "a class left out":
        model = RowModel(br.losses.Log(), True, 4, np.arange(3), Reading())
        engine = MemoryEngine(p, None)
        dual = Dual.of(engine, choose_passes(model, engine, "always"), RateSet.point(np.array([0.4, 0.3, 0.3, 0.0])))
    else:
        dual = dual_of(p, rates, br.losses.Log(), "off" if case == "no kernels" else "always")
    assert fit_module.solve_easy_problem(dual, stop) is None
    assert fit_module.solve_easy_problem(dual_of(rows(15_999, 4, 5), [0.4, 0.3, 0.2, 0.1], br.losses.Log(), "always"),
                                          Stop(1e-10, 15)) is not None  # fmt: skip


def test_a_point_at_written_rows_is_the_dual_there() -> None:
    p, rates = rows(200, 3, seed=6), np.array([0.5, 0.3, 0.2])
    dual = dual_of(p, rates, br.losses.Log())
    shift = np.array([0.3, -0.1, -0.2])
    evaluated, written = dual.evaluate(dual.survey(), shift), dual.written_point(shift, dual.write(shift))
    assert written.value == pytest.approx(evaluated.value, rel=1e-12)
    np.testing.assert_allclose(written.mean, evaluated.mean, rtol=1e-12)
    np.testing.assert_array_equal(written.wanted, rates)
    measured = dual.measure(shift)
    assert measured.divergence == pytest.approx(dual.write(shift).divergence, rel=1e-14)


def test_rates_that_are_uncertain_by_a_sample_work_with_weights_and_many_rows() -> None:
    # The survey is made before the search here, because the number of rows that count depends on the weights.
    rng = np.random.default_rng(7)
    p, weights = rows(20_000, 3, seed=7), rng.uniform(0.5, 1.5, size=20_000)
    known = br.Rates.from_counts([30, 50, 20])
    result = br.adjust(p, known, sample_weight=weights)
    assert result.converged
    assert result.n_passes <= 10
    assert result.certificate.residual <= 1e-10
    effective = int(weights.sum() ** 2 / (weights**2).sum())
    assert abs(result.certificate.batch_size - effective) <= 1
    equal = br.adjust(p, known, sample_weight=np.full(20_000, 0.3))
    assert equal.certificate.batch_size == 20_000
    np.testing.assert_allclose(equal.probs, br.adjust(p, known).probs, atol=1e-9)


# Softening


def softness_per_step(tol: float, monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], br.Adjustment]:
    shares: list[float] = []

    def recorded(search_: search.Search, *args: Any) -> Any:
        shares.append(search_.dual.model.softness)
        return search.search_from(search_, *args)

    monkeypatch.setattr(fit_module, "search_from", recorded)
    rng = np.random.default_rng(0)
    p, rates = rng.dirichlet(np.full(20, 0.5), size=10), rng.dirichlet(np.ones(20))
    return shares, br.adjust(p, rates, loss=br.losses.Power(12), tol=tol)


@pytest.mark.parametrize(("tol", "smallest"), [(1e-3, 1e-10), (1e-6, 1e-10), (5e-11, 5e-11), (1e-11, 1e-11)])
def test_softening_falls_by_factors_of_10_to_the_tolerance_or_less(
    tol: float, smallest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares, result = softness_per_step(tol, monkeypatch)
    steps = np.unique(np.maximum(10.0 ** np.arange(-4.0, -13.0, -1.0), smallest))[::-1]
    assert np.unique(np.array(shares).round(15))[::-1] == pytest.approx([*steps, 0.0])
    assert shares[0] == 0  # first without
    assert shares[1:] == sorted(shares[1:], reverse=True)
    assert result.converged


# Many classes


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_with_many_classes_few_passes_sum_the_curvature(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "FEW_CLASSES", 20)
    summed: list[bool] = []
    evaluate = Dual.evaluate

    def recorded(self: Dual, survey: Any, shift: Array, *, curvature: bool = True) -> Any:
        summed.append(curvature)
        return evaluate(self, survey, shift, curvature=curvature)

    monkeypatch.setattr(Dual, "evaluate", recorded)
    p, rates = rows(20_000, 30, seed=8), rows(1, 30, seed=9, spread=5.0)[0]
    result = br.adjust(p, rates, loss=loss)
    assert_certified(result)
    assert summed.count(True) <= 1  # at the start of the smallest sample
    assert summed.count(False) >= 2


def test_the_curvature_is_summed_if_learning_it_takes_too_many_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_LEARNED_PASSES", 2)
    dual = dual_of(rows(200, 5, seed=8), rows(1, 5, seed=9)[0], br.losses.Brier())
    begun = fit_module.begin(dual, Stop(1e-10, 50))
    start = search.Start(dual.evaluate(begun.survey, np.zeros(5)), order=0, learned=True)
    assert search.search_from(begun, start, begun.stop).converged


# Messages


def test_numbers_that_differ_in_late_digits_are_shown_with_them() -> None:
    dual = dual_of(np.array([[0.7, 0.3], [0.4, 0.6]]), [0.5, 0.5], br.losses.Log())
    for reachable, shown in ((0.25, "0.25"), (0.3 - 1e-9, "0.299999999"), (0.3 - 1e-16, "0.29999999999999988")):
        error = infeasible_rates(dual, None, Blockage(np.array([1]), reachable, 0.3, 1))
        assert f"at most {shown};" in str(error)
        assert "together" not in str(error)
        assert "give it a probability" in str(error)
    both = infeasible_rates(dual, ["cat", "dog"], Blockage(np.array([0, 1]), 0.1, 0.3, 1))
    assert "class 'cat' and class 'dog' would need a mean of 0.3 together" in str(both)
    nobody = infeasible_rates(dual, None, Blockage(np.arange(8), 0.0, 0.3, 0))
    assert str(nobody).startswith(
        "class 0, class 1, class 2, class 3, class 4 and 3 more would need a mean of 0.3 together, but no row gives "
        "them a probability above 0, which allows at most 0;"
    )


def test_zeros_are_only_mentioned_where_they_may_be_the_reason() -> None:
    for loss, reading, mentioned in (
        (br.losses.Log(), Reading(), True),
        (br.losses.Log(), Reading(smoothing=1e-6), False),
        (br.losses.Brier(), Reading(), False),
        (br.losses.Brier(), Reading(smoothing=1e-6), False),
    ):
        advice, options = advice_on_convergence(RowModel(loss, True, 2, np.arange(2), reading))
        assert ("predictions close to 0" in advice) == mentioned
        assert ("zeros" in [option.name for option in options]) == mentioned
