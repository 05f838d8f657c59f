"""Other tolerances than the default, the number of passes over the data, and what the guarantee loses by softening."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from support import COMMON_LOSSES, Array, assert_certified, loss_id, mean_loss

import baserate as br
from baserate.engines.memory import MemoryEngine
from baserate.losses import Loss

TOLERANCES = [1e-4, 1e-6, 1e-12]


def sharp_rows(n: int, k: int, sharpness: float, seed: int) -> Array:
    """Predictions of a model whose logits are normal with this standard deviation."""
    logits = sharpness * np.random.default_rng(seed).normal(size=(n, k))
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def random_rates(k: int, seed: int) -> Array:
    return np.random.default_rng(seed).dirichlet(np.full(k, 5.0))


# Tolerances


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize("loss", COMMON_LOSSES, ids=loss_id)
@pytest.mark.parametrize("kernels", ["off", "always"])
def test_rates_are_reached_to_the_requested_tolerance(
    tol: float, loss: Loss, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASERATE_KERNELS", kernels)
    for k, seed in [(2, 0), (3, 1), (6, 2)]:
        p, rates = sharp_rows(200, k, 2.0, seed), random_rates(k, seed)
        result = br.adjust(p, rates, loss=loss, tol=tol)
        assert result.converged
        assert np.abs(result.probs.mean(axis=0) - rates).max() <= tol + 1e-15
        assert result.certificate.residual <= tol
        assert result.certificate.gap <= 10 * tol


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize("loss", COMMON_LOSSES, ids=loss_id)
def test_the_guarantee_holds_for_labels_with_these_rates_at_every_tolerance(tol: float, loss: Loss) -> None:
    rng = np.random.default_rng(3)
    for k in (2, 4):
        p, y = sharp_rows(40, k, 2.0, seed=k), np.eye(k)[rng.integers(k, size=40)]
        result = br.adjust(p, y.mean(axis=0), loss=loss, tol=tol)
        fall = mean_loss(loss, p, y, None) - mean_loss(loss, result.probs, y, None)
        assert fall >= result.certificate.loss_reduction - 1e-12
        exact = br.adjust(p, y.mean(axis=0), loss=loss).certificate.loss_reduction
        assert result.certificate.loss_reduction == pytest.approx(exact, abs=20 * tol + 1e-9)


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize("loss", COMMON_LOSSES, ids=loss_id)
def test_bounds_on_rates_hold_to_the_requested_tolerance(tol: float, loss: Loss) -> None:
    p = sharp_rows(150, 4, 2.0, seed=4)
    for rates in (
        br.Rates.between([0.4, 0.1, 0.0, 0.0], [0.5, 0.2, 1.0, 0.1]),
        br.Rates.near([0.4, 0.3, 0.2, 0.1], 0.05),
    ):
        result = br.adjust(p, rates, loss=loss, tol=tol)
        assert result.converged
        assert result.certificate.residual <= tol
        assert rates.rate_set(150).distance(result.rates) <= tol + 1e-15


@pytest.mark.parametrize("loss", COMMON_LOSSES, ids=loss_id)
@pytest.mark.parametrize("n_rows", [300, 20_000])
def test_a_looser_tolerance_never_takes_more_passes(loss: Loss, n_rows: int) -> None:
    p, rates = sharp_rows(n_rows, 4, 3.0, seed=5), random_rates(4, 5)
    passes = [br.adjust(p, rates, loss=loss, tol=tol).n_passes for tol in (1e-3, 1e-6, 1e-9, 1e-12)]
    assert passes == sorted(passes)
    assert passes[0] < passes[-1] or passes[-1] <= 4


def test_a_rare_class_gets_its_digits_right_at_a_loose_tolerance() -> None:
    # An error of 1e-6 would be a thousand times this rate.
    result = br.adjust(sharp_rows(500, 3, 1.0, seed=6), [1e-9, 0.4, 0.6 - 1e-9], tol=1e-6)
    assert result.rates[0] == pytest.approx(1e-9, rel=0.05)


# Numbers of passes


@pytest.mark.parametrize("loss", ["log", "brier"])
@pytest.mark.parametrize("k", [2, 10])
def test_many_ordinary_rows_take_at_most_6_passes(loss: str, k: int) -> None:
    for seed in range(3):
        p = np.random.default_rng(seed).dirichlet(np.ones(k), size=100_000)
        result = br.adjust(p, random_rates(k, seed), loss=loss)
        assert_certified(result)
        assert 3 <= result.n_passes <= 6


@pytest.mark.parametrize("loss", ["log", "brier"])
@pytest.mark.parametrize("k", [2, 10])
@pytest.mark.parametrize("sharpness", [10.0, 100.0])
def test_many_over_confident_rows_take_at_most_25_passes(loss: str, k: int, sharpness: float) -> None:
    for seed in range(2):
        result = br.adjust(sharp_rows(100_000, k, sharpness, seed), random_rates(k, seed), loss=loss)
        assert_certified(result)
        assert result.n_passes <= 25


@pytest.mark.parametrize("kernels", ["off", "always"])
@pytest.mark.parametrize("loss", COMMON_LOSSES, ids=loss_id)
@pytest.mark.parametrize("k", [2, 5, 10])
def test_small_ordinary_problems_take_at_most_10_passes(
    loss: Loss, k: int, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASERATE_KERNELS", kernels)
    for seed in range(5):
        p = np.random.default_rng(seed).dirichlet(np.ones(k), size=300)
        result = br.adjust(p, random_rates(k, seed), loss=loss)
        assert_certified(result)
        assert result.n_passes <= 10


@pytest.mark.parametrize("loss", COMMON_LOSSES, ids=loss_id)
def test_bounds_on_rates_take_at_most_12_passes(loss: Loss) -> None:
    for seed in range(5):
        p, rates = np.random.default_rng(seed).dirichlet(np.ones(4), size=300), random_rates(4, seed)
        for known in (br.Rates.between(0.9 * rates, 1.1 * rates), br.Rates.near(rates, 0.02)):
            result = br.adjust(p, known, loss=loss)
            assert result.converged
            assert result.n_passes <= 12


# Losses that are flat at 0


@pytest.mark.parametrize("loss", ["log", "brier", "spherical", br.losses.Power(8), br.losses.Power(20)], ids=str)
@pytest.mark.parametrize(
    ("p", "rates"),
    [
        ([[0.9, 0.1], [0.5, 0.5], [0.4, 0.6]], [1 / 3, 2 / 3]),
        ([[1, 0], [0.5, 0.5], [0.4, 0.6]], [1 / 3, 2 / 3]),  # under log loss a limit at infinity
        ([[1, 0, 0], [0.5, 0.5, 0], [0.5, 0.3, 0.2], [0.1, 0.2, 0.7]], [0.25, 0.5, 0.25]),
        ([[1, 0, 0], [0.5, 0.5, 0], [0.5, 0.3, 0.2], [0.1, 0.2, 0.7]], [0.5, 0.5, 0]),  # an impossible class
        ([[0.9, 0.1], [0.5, 0.5], [0.4, 0.6]], [0.6, 0.4]),
        ([[0.8, 0.1, 0.1], [0.3, 0.3, 0.4]], br.Rates.between([0.2, 0.3, 0.1], [0.3, 0.6, 0.4])),
        ([[0.8, 0.2, 0], [0.3, 0.7, 0]], br.Rates.between([0.3, 0.3, 0], [0.6, 0.6, 0.1])),
        ([[0.8, 0.1, 0.1], [0.3, 0.3, 0.4]], br.Rates.near([0.7, 0.3, 0], 0.2, metric="chi2")),
        ([[0.8, 0.1, 0.1], [0.3, 0.3, 0.4]], br.Rates.near([0.2, 0.8, 0], 0.02, metric="chi2")),
    ],
    ids=[
        "ordinary",
        "limit",
        "zeros",
        "impossible class",
        "the rates of the predictions",
        "bounds",
        "bounds, unpredicted class",
        "in a ball without it",
        "to a ball without it",
    ],
)
def test_the_number_of_passes_is_how_often_the_rows_are_read(
    p: Any, rates: Any, loss: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_read = 0
    read = MemoryEngine.map

    def counted(self: MemoryEngine, *args: Any) -> Any:
        nonlocal n_read
        n_read += 1
        return read(self, *args)

    monkeypatch.setattr(MemoryEngine, "map", counted)
    assert br.adjust(p, rates, loss=loss).n_passes == n_read
    n_read = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.errors.NotConvergedWarning)
        stopped = br.adjust(p, rates, loss=loss, max_passes=2)
    assert stopped.n_passes == n_read


@pytest.mark.parametrize("seed", [0, 3])
def test_softening_is_subtracted_from_the_guarantee_and_added_to_the_gap(seed: int) -> None:
    # Under so flat a loss the problem is solved with a trace of Brier loss.
    rng = np.random.default_rng(seed)
    p, rates = rng.dirichlet(np.full(20, 0.5), size=10), rng.dirichlet(np.ones(20))
    result = br.adjust(p, rates, loss=br.losses.Power(12), tol=1e-6)
    share = result.model.softness
    assert 0 < share <= 1e-8
    moved = mean_loss(result.loss, p, result.probs, None)
    slack = float(result.shift @ (rates - result.probs.mean(axis=0)))
    shortfall = moved + slack - result.certificate.loss_reduction
    assert 0 < shortfall <= 2 * share  # the most that it can cost
    assert result.certificate.gap == pytest.approx(abs(slack) + shortfall, rel=1e-3)


# Rates that leave a single class


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize(
    "loss",
    [*COMMON_LOSSES, br.losses.WeightedBrier([1.0, 2.0, 3.0]), br.losses.Quadratic(np.diag([1.0, 2.0, 3.0]) + 0.1)],
    ids=loss_id,
)
def test_a_rate_of_1_gives_all_probability_to_that_class(loss: Any, bounded: bool) -> None:
    result = br.adjust(sharp_rows(30, 3, 1.0, seed=7), [0.0, 1.0, 0.0], loss=loss, bounded=bounded)
    assert_certified(result, bounded=bounded)
    if bounded:
        np.testing.assert_array_equal(result.probs, np.tile([0.0, 1.0, 0.0], (30, 1)))
