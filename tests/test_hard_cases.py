"""Problems on which simpler solvers fail."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from support import COMMON_LOSSES, Array, assert_certified, kernel_setting, loss_id, number_of_cases

import baserate as br
from baserate.losses import Loss

BETAS = [0.1, 0.5, 1 - 1e-6, 1 + 1e-6, 1.5, 3, 8]

each_loss = pytest.mark.parametrize("loss", COMMON_LOSSES, ids=loss_id)


def dirichlet(n: int, k: int, seed: int, spread: float = 1.0) -> Array:
    """Random predictions; a smaller ``spread`` gives more confident ones."""
    return np.random.default_rng(seed).dirichlet(np.full(k, spread), size=n)


@each_loss
@pytest.mark.parametrize("k", [3, 10, 50, 100])
@pytest.mark.parametrize("sharpness", [1, 5, 20, 100, 300])
def test_over_confident_predictions(loss: Loss, k: int, sharpness: int) -> None:
    rng = np.random.default_rng(k)
    logits = sharpness * 1.5 * rng.normal(size=(400, k))
    assert_certified(br.adjust(logits, rng.dirichlet(np.ones(k)), loss=loss, from_logits=True))


@each_loss
@pytest.mark.parametrize("sharpness", [1, 20])
@pytest.mark.parametrize(
    "rates",
    [[1e-12, 0.3, 0.7 - 1e-12], [1 - 1e-9, 5e-10, 5e-10], [1e-12, 1e-9, 1 - 1e-9 - 1e-12], [1e-6, 1e-3, 0.999 - 1e-6]],
)
def test_rates_close_to_0_and_1(loss: Loss, sharpness: int, rates: list[float]) -> None:
    logits = sharpness * np.random.default_rng(0).normal(size=(300, 3))
    assert_certified(br.adjust(logits, rates, loss=loss, from_logits=True))


def test_a_rate_of_1e_minus_12_has_a_small_relative_error() -> None:
    result = br.adjust(dirichlet(300, 3, seed=1), [1e-12, 0.4, 0.6 - 1e-12])
    assert result.rates[0] == pytest.approx(1e-12, rel=1e-5)


@pytest.mark.parametrize("loss", [*COMMON_LOSSES, *map(br.losses.Power, BETAS)], ids=loss_id)
def test_rates_equal_to_the_mean_change_nothing(loss: Loss) -> None:
    p = dirichlet(200, 5, seed=2)
    result = br.adjust(p, p.mean(axis=0), loss=loss)
    np.testing.assert_allclose(result.probs, p, rtol=0, atol=1e-12)
    assert result.certificate.loss_reduction <= 1e-15


@each_loss
def test_equal_rows_all_become_the_rates(loss: Loss) -> None:
    result = br.adjust(np.tile([0.2, 0.3, 0.5], (100, 1)), [0.5, 0.25, 0.25], loss=loss)
    assert_certified(result)
    np.testing.assert_allclose(result.probs, np.tile([0.5, 0.25, 0.25], (100, 1)), atol=1e-12)


@pytest.mark.parametrize("loss", COMMON_LOSSES[1:], ids=loss_id)
def test_one_hot_predictions(loss: Loss) -> None:
    rows = np.eye(4, dtype=np.int64)[np.random.default_rng(3).integers(4, size=300)]
    assert_certified(br.adjust(rows, [0.1, 0.2, 0.3, 0.4], loss=loss))


def test_one_hot_predictions_with_brier_match_the_solution_by_hand() -> None:
    # Three of four rows predict class 0, and their sum must fall from 3 to 2: each gives up 1/3. The fourth row stays.
    rows = np.array([[1, 0], [1, 0], [1, 0], [0, 1]])
    result = br.adjust(rows, [0.5, 0.5], loss="brier")
    np.testing.assert_allclose(result.probs, [[2 / 3, 1 / 3]] * 3 + [[0, 1]], atol=1e-12)
    assert result.certificate.loss_reduction == pytest.approx(3 / 4 * 2 / 9)


@each_loss
def test_two_classes(loss: Loss) -> None:
    assert_certified(br.adjust(dirichlet(2000, 2, seed=4), [0.01, 0.99], loss=loss))


@each_loss
def test_1000_classes(loss: Loss) -> None:
    assert_certified(br.adjust(dirichlet(300, 1000, seed=5), dirichlet(1, 1000, seed=6)[0], loss=loss))


@pytest.mark.parametrize("loss", [*COMMON_LOSSES, *map(br.losses.Power, BETAS)], ids=loss_id)
@pytest.mark.parametrize("k", [2, 3, 10])
def test_a_single_row_becomes_the_rates(loss: Loss, k: int) -> None:
    rates = dirichlet(1, k, seed=7, spread=3.0)[0]
    result = br.adjust(dirichlet(1, k, seed=8), rates, loss=loss)
    assert_certified(result)
    np.testing.assert_allclose(result.probs[0], rates, atol=1e-10)


@pytest.mark.parametrize("setting", ["off", "always"])
def test_rates_that_differ_from_the_mean_by_less_than_a_millionth_of_a_percent(setting: str) -> None:
    # At first, a step changes the dual function by less than its rounding error.
    p = np.array([[1.0, 1.97766755e-14], [1.31872172e-09, 0.999999999]])
    assert abs(p.mean(axis=0)[0] - 0.5) > 6e-10
    with kernel_setting(setting):
        result = br.adjust(p, [0.5, 0.5])
    assert abs(result.probs.mean(axis=0) - 0.5).max() <= 1e-10


@pytest.mark.parametrize("loss", [*COMMON_LOSSES, *map(br.losses.Power, BETAS)], ids=loss_id)
@pytest.mark.parametrize("k", [2, 3, 10])
def test_two_rows(loss: Loss, k: int) -> None:
    assert_certified(br.adjust(dirichlet(2, k, seed=9), dirichlet(1, k, seed=10)[0], loss=loss))


@each_loss
def test_a_single_row_with_positive_weight_becomes_the_rates(loss: Loss) -> None:
    p, rates = dirichlet(50, 4, seed=11), np.array([0.1, 0.2, 0.3, 0.4])
    weights = np.zeros(50)
    weights[7] = 3
    result = br.adjust(p, rates, loss=loss, sample_weight=weights)
    assert_certified(result)
    np.testing.assert_allclose(result.probs[7], rates, atol=1e-10)


@each_loss
def test_two_classes_with_equal_predictions(loss: Loss) -> None:
    p = dirichlet(200, 3, seed=12)
    with_copy = np.column_stack([p[:, 0] / 2, p[:, 0] / 2, p[:, 1], p[:, 2]])
    assert_certified(br.adjust(with_copy, [0.1, 0.3, 0.2, 0.4], loss=loss))


@pytest.mark.parametrize("loss", COMMON_LOSSES[1:], ids=loss_id)
def test_a_class_that_is_never_predicted_can_get_a_positive_rate(loss: Loss) -> None:
    p = np.column_stack([dirichlet(200, 3, seed=13), np.zeros(200)])
    result = br.adjust(p, [0.2, 0.3, 0.4, 0.1], loss=loss)
    assert_certified(result)


@each_loss
def test_classes_of_rate_0_get_probability_0(loss: Loss) -> None:
    result = br.adjust(dirichlet(200, 5, seed=14), [0.2, 0, 0.5, 0.3, 0], loss=loss)
    assert_certified(result)
    assert not result.probs[:, [1, 4]].any()
    assert np.isneginf(result.shift[[1, 4]]).all()
    assert np.isnan(result.certificate.sensitivity[[1, 4]]).all()


@each_loss
def test_a_rate_of_1_gives_one_hot_rows(loss: Loss) -> None:
    result = br.adjust(dirichlet(20, 3, seed=15), [0, 1, 0], loss=loss)
    assert_certified(result)
    np.testing.assert_array_equal(result.probs, np.tile([0.0, 1.0, 0.0], (20, 1)))


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("k", [3, pytest.param(5, marks=pytest.mark.stress), 10])
@pytest.mark.parametrize("spread", [0.2, 1.0])
def test_power_family(beta: float, k: int, spread: float) -> None:
    p = dirichlet(300, k, seed=16, spread=spread)
    assert_certified(br.adjust(p, dirichlet(1, k, seed=17)[0], loss=br.losses.Power(beta)))


def test_a_softened_result_reports_its_softness_and_a_larger_gap() -> None:
    # 0.02^7 is 1e-12, so no floating-point shift gives these rates exactly enough.
    p = dirichlet(25, 50, seed=18, spread=0.5)
    rates = dirichlet(1, 50, seed=19)[0]
    result = br.adjust(p, rates, loss=br.losses.Power(8))
    assert_certified(result)
    assert 0 < result.model.softness <= 1e-8
    assert 0 < result.certificate.gap <= 2 * result.model.softness
    np.testing.assert_allclose(result.apply(p), result.probs, atol=1e-9)


@pytest.mark.parametrize("k", [10, 30])
def test_ranked_probability_agrees_with_the_equivalent_quadratic_loss(k: int) -> None:
    p, rates = dirichlet(100, k, seed=20, spread=0.3), dirichlet(1, k, seed=21)[0]
    ranked = br.adjust(p, rates, loss="ranked")
    assert_certified(ranked)
    quadratic = br.adjust(p, rates, loss=br.losses.Quadratic(br.losses.RankedProbability.matrix(k)))
    assert_certified(quadratic)
    np.testing.assert_allclose(quadratic.probs, ranked.probs, atol=1e-9)


@pytest.mark.parametrize("max_passes", [51, 52, 60, 100])
@pytest.mark.filterwarnings("ignore::baserate.NotConvergedWarning")
def test_rows_and_shift_agree_if_softening_runs_out_of_passes(max_passes: int) -> None:
    p, rates = dirichlet(25, 50, seed=18, spread=0.5), dirichlet(1, 50, seed=19)[0]
    result = br.adjust(p, rates, loss=br.losses.Power(8), max_passes=max_passes)
    np.testing.assert_allclose(result.apply(p), result.probs, atol=1e-9)
    assert result.certificate.residual == pytest.approx(np.abs(result.probs.mean(axis=0) - rates).max())
    assert result.certificate.loss_reduction >= 0


@pytest.mark.parametrize("beta", [12, 20, 50])
@pytest.mark.parametrize("max_passes", [2, 40])
@pytest.mark.filterwarnings("ignore::baserate.NotConvergedWarning")
def test_the_guarantee_holds_for_large_beta_without_convergence(beta: float, max_passes: int) -> None:
    # The second derivative f'' spans 30 orders of magnitude, so some of these problems do not converge.
    loss = br.losses.Power(beta)
    rng = np.random.default_rng(24)
    for _ in range(number_of_cases(10)):
        p, y = rng.dirichlet(np.full(3, 0.5), size=6), rng.integers(3, size=6)
        result = br.adjust(p, np.bincount(y, minlength=3) / 6, loss=loss, max_passes=max_passes)
        assert loss.score(p, y) - loss.score(result.probs, y) >= result.certificate.loss_reduction - 1e-11


@pytest.mark.parametrize("beta", [8, 20, 50])
def test_rows_for_large_beta_satisfy_the_optimality_conditions(beta: float) -> None:
    loss = br.losses.Power(beta)
    rng = np.random.default_rng(25)
    x = np.concatenate(
        [[[1.0425, 0, 0], [1.0185, 0, 0]], loss.link(dirichlet(500, 3, seed=26)) + rng.normal(size=(500, 3))]
    )
    a = loss.row_map(x)
    slope = loss.link(a) - x  # equal on the support of a row, and at least as large elsewhere
    inside = np.where(a > 0, slope, np.nan)
    scale = 1 + np.abs(x).max(axis=1)
    np.testing.assert_allclose(a.sum(axis=1), 1, atol=1e-13)
    assert (np.nanmax(inside, axis=1) - np.nanmin(inside, axis=1) <= 1e-12 * scale * beta).all()
    assert (np.where(a > 0, np.inf, slope).min(axis=1) >= np.nanmin(inside, axis=1) - 1e-12 * scale * beta).all()


def test_a_quadratic_loss_may_be_indefinite_outside_the_simplex_plane() -> None:
    # On vectors that sum to 0 this matrix gives the Brier score. On other vectors it is indefinite.
    v = np.array([-10.0, 0.0, 3.0])
    matrix = np.eye(3) + v[:, None] + v[None, :]
    p, rates = dirichlet(100, 3, seed=27), [0.8, 0.1, 0.1]
    for bounded in (True, False):
        quadratic = br.adjust(p, rates, loss=br.losses.Quadratic(matrix), bounded=bounded)
        brier = br.adjust(p, rates, loss="brier", bounded=bounded)
        np.testing.assert_allclose(quadratic.probs, brier.probs, atol=1e-9)


def test_a_separable_loss_without_inverse_gives_the_same_zeros() -> None:
    with_inverse = br.losses.Separable(np.cosh, np.sinh, np.cosh, np.arcsinh)
    without_inverse = br.losses.Separable(np.cosh, np.sinh, np.cosh)
    p, rates = dirichlet(200, 5, seed=28), [0.6, 0.1, 0.1, 0.1, 0.1]
    one, other = (br.adjust(p, rates, loss=loss) for loss in (with_inverse, without_inverse))
    np.testing.assert_array_equal(one.probs == 0, other.probs == 0)
    assert (one.probs == 0).any()
    np.testing.assert_allclose(one.probs, other.probs, atol=1e-10)
    assert other.n_passes <= one.n_passes + 1


def test_a_row_that_predicts_only_a_class_of_rate_0() -> None:
    for loss in ("brier", br.losses.Power(3), "spherical", "ranked"):
        result = br.adjust([[1, 0, 0]], [0, 0.5, 0.5], loss=loss)
        assert_certified(result)
        np.testing.assert_allclose(result.probs, [[0, 0.5, 0.5]], atol=1e-10)


def test_unbounded_spherical_adjustment_warns_if_one_different_row_prevents_convergence() -> None:
    # The shift that 999 rows need is outside the domain of the remaining row.
    p = np.tile([0.7, 0.2, 0.1], (1000, 1))
    p[0] = [0.2, 0.3, 0.5]
    y = np.repeat([0, 1, 2], [100, 800, 100])
    with pytest.warns(br.NotConvergedWarning, match="stopped after"):
        result = br.adjust(p, [0.1, 0.8, 0.1], loss="spherical", bounded=False, max_passes=100)
    assert not result.converged
    reduction = result.loss.score(p, y) - result.loss.score(result.probs, y)
    assert reduction >= result.certificate.loss_reduction - 1e-12 > 0.1
    assert_certified(br.adjust(p, [0.1, 0.8, 0.1], loss="spherical"))


def test_the_warning_names_smoothing_where_predictions_near_0_have_losses_beyond_floating_point() -> None:
    p = [[1e-200, 1 - 1e-200], [1e-100, 1], [1e-90, 1], [0.5, 0.5]]
    with pytest.warns(br.NotConvergedWarning, match="pass zeros=1e-6 if the reason is predictions close to 0"):
        br.adjust(p, [0.9, 0.1], loss=br.losses.Power(0.5))
    assert br.adjust(p, [0.9, 0.1], loss=br.losses.Power(0.5), zeros=1e-6).converged
    with pytest.warns(br.NotConvergedWarning, match=r"raise max_passes or tol\. The guarantee"):
        br.adjust(p, [0.9, 0.1], loss=br.losses.Power(1.5), max_passes=1)
    with pytest.warns(br.NotConvergedWarning, match=r"raise max_passes or tol\. The guarantee"):
        br.adjust(p, [0.9, 0.1], loss=br.losses.Power(0.5), max_passes=1, zeros=1e-3)


def test_rows_of_an_unbounded_spherical_adjustment_that_stopped_early_sum_to_1_and_can_be_applied_again() -> None:
    rng = np.random.default_rng(0)
    n_stopped = 0
    for _ in range(number_of_cases(60)):
        k, n = int(rng.integers(2, 7)), int(rng.integers(2, 12))
        p, rates = rng.dirichlet(np.full(k, 0.3), size=n), rng.dirichlet(np.ones(k))
        weights = 10.0 ** rng.uniform(-16, 0, size=n)  # rows with little weight need very large entries
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", br.NotConvergedWarning)
            result = br.adjust(p, rates, loss="spherical", bounded=False, sample_weight=weights)
        if not result.converged:
            n_stopped += 1
            size = np.abs(result.probs).max(axis=1)
            assert (np.abs(result.probs.sum(axis=1) - 1) <= 1e-14 * size).all()
            np.testing.assert_array_equal(result.apply(p), result.probs)
    assert n_stopped >= number_of_cases(60) / 4


def test_unbounded_spherical_adjustment_to_rates_close_to_1() -> None:
    p = dirichlet(100, 4, seed=22)
    for rates in ([0.97, 0.01, 0.01, 0.01], [1 - 3e-9, 1e-9, 1e-9, 1e-9], [1.0, 0, 0, 0]):
        result = br.adjust(p, rates, loss="spherical", bounded=False)
        assert_certified(result, bounded=False)


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_denormal_probabilities(loss: str) -> None:
    p = np.array([[1.0, 5e-324], [1.0, 1e-300], [0.5, 0.5]])
    assert_certified(br.adjust(p, [0.3, 0.7], loss=loss))


@pytest.mark.stress
@pytest.mark.parametrize("loss", COMMON_LOSSES, ids=loss_id)
def test_ten_million_float32_rows(loss: Loss) -> None:
    rng = np.random.default_rng(23)
    p = np.concatenate([rng.dirichlet(np.ones(4), size=1_000_000).astype(np.float32) for _ in range(10)])
    assert_certified(br.adjust(p, [0.1, 0.2, 0.3, 0.4], loss=loss))


def test_a_class_with_a_tiny_rate_does_not_lose_all_probability() -> None:
    # Its rate is below the rounding error of the others, so the solution looks like one at infinity. A label of that
    # class would have an infinite log loss.
    p = np.array([[0.0, 0.12, 0.88], [0.0, 1.0, 0.0], [0.0, 0.52, 0.48], [1.0, 0.0, 0.0]])
    weights = np.array([2.8e-16, 3.47e-2, 2.5e-3, 2.28e-2]) / (2.8e-16 + 3.47e-2 + 2.5e-3 + 2.28e-2)
    rates = np.array([weights[3], 0.0, 4.6e-15])  # the last row can only be of the first class
    rates[1] = 1.0 - rates.sum()
    result = br.adjust(p, rates, sample_weight=weights)
    assert (result.probs[p > 0] > 0).all()


@pytest.mark.parametrize("kernels", ["off", "always"])
@pytest.mark.parametrize("exponent", [-100, -200, -230, -250, -280, -300, -307])
def test_rates_close_to_the_smallest_number_are_reached(exponent: int, kernels: str) -> None:
    rate = 10.0**exponent
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=200)
    with kernel_setting(kernels):
        result = br.adjust(p, [rate, 0.5, 0.5])
    assert_certified(result)
    assert result.rates[0] == pytest.approx(rate, rel=0.05)
