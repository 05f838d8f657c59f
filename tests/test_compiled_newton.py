"""Newton's steps in compiled code: each part by its definition, and whole problems against the general method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cells_support import random_rows
from support import KERNEL_LOSSES, Array, loss_id

import baserate as br
from baserate.core.contracts import Block
from baserate.core.newton import TRUST_REGION, Target
from baserate.core.row_model import RowModel
from baserate.core.start import steps_of
from baserate.engines.memory import MemoryEngine
from baserate.inputs.reading import Reading
from baserate.losses import Loss
from baserate.losses.base import laplacian
from baserate.passes import choose_passes
from baserate.passes.kernels import newton
from baserate.passes.kernels.layout import (
    CURVATURE,
    DONE,
    EARLIER,
    N_SUMS,
    NOT_EASY,
    OFFSET,
    PREVIOUS,
    RADIUS,
    SURVEY,
    VALUE,
    WRITE,
    ZEROS,
    initial_state,
)
from baserate.rates.sets import RateSet

with_kernel = pytest.mark.parametrize("loss", KERNEL_LOSSES, ids=loss_id)
RATES = np.array([0.1, 0.2, 0.3, 0.4])
ERROR = np.array([1e-4, -1e-4, 0.0, 0.0])


def model_of(loss: Loss, k: int) -> RowModel:
    return RowModel(loss, True, k, np.arange(k), Reading())


@with_kernel
def test_lengths_are_those_of_the_general_method(loss: Loss) -> None:
    step = np.array([0.3, -0.2, 0.05, 1.0])
    steps = steps_of(model_of(loss, 4), RateSet.point(RATES), RATES, by_products=False)
    assert newton._length(loss.name == "brier", step, RATES) == pytest.approx(steps.length(step), rel=1e-12)


def test_steps_solve_the_newton_equations() -> None:
    rng = np.random.default_rng(1)
    for k in (2, 3, 7):
        edges, gradient, step = np.tril(rng.uniform(0.01, 1, size=(k, k)), -1), rng.normal(size=k), np.full(k, 9.0)
        gradient -= gradient.mean()
        curvature = laplacian(edges + edges.T)
        assert newton._newton_step(edges, gradient, np.empty((k, k)), step)
        np.testing.assert_allclose(curvature @ step, gradient, rtol=0, atol=1e-12)
        assert step[-1] == 0
        np.testing.assert_array_equal(edges, edges.T)


def test_a_singular_curvature_has_no_step() -> None:
    edges = np.zeros((4, 4))
    edges[1, 0], edges[3, 2] = 0.5, 0.5  # no row can move probability between the two pairs
    assert not newton._newton_step(edges, np.array([0.1, 0.1, -0.1, -0.1]), np.empty((4, 4)), np.empty(4))
    edges[2, 1] = 1e-13
    assert not newton._newton_step(edges, np.array([0.1, 0.1, -0.1, -0.1]), np.empty((4, 4)), np.empty(4))


class Call:
    """The arguments of ``advance`` at a first point, of which a test changes some."""

    first_step: Array
    answer: int

    def __init__(self, loss: Loss) -> None:
        self.brier, k = loss.name == "brier", len(RATES)
        self.shift, self.before, self.mean, self.prepared = np.zeros(k), np.full(k, 0.25), RATES.copy(), np.zeros(k)
        self.edges, self.sums = np.tril(np.full((k, k), 0.1), -1), np.zeros(N_SUMS)
        self.work, self.state = np.zeros((k + 3, k)), initial_state()

    def advance(self, todo: int, tol: float = 1e-10, relative: float = 1.0) -> Any:
        return newton.advance(
            self.brier, TRUST_REGION, RATES, tol, relative, self.shift, self.before, self.mean, self.edges, self.sums,
            self.prepared, self.work, self.state, todo,
        )  # fmt: skip


@with_kernel
def test_the_first_shift_moves_the_mean_to_the_rates(loss: Loss) -> None:
    call = Call(loss)
    call.sums[OFFSET] = 0.7
    assert call.advance(SURVEY) == CURVATURE
    assert RATES @ call.shift == pytest.approx(0.0, abs=1e-15)
    moved = loss.row_map(loss.link(call.before[None]) + call.shift)
    np.testing.assert_allclose(moved[0], RATES, rtol=1e-12)
    centre = 0.5 * (call.shift.min() + call.shift.max())
    expected = 0.5 * call.shift if call.brier else np.exp(call.shift - centre)
    np.testing.assert_allclose(call.prepared, expected, rtol=1e-14)
    assert not call.mean.any()
    assert not call.edges.any()


@with_kernel
def test_predictions_that_have_the_rates_are_left_to_the_general_method(loss: Loss) -> None:
    call = Call(loss)
    call.before[:] = RATES
    assert call.advance(SURVEY) == NOT_EASY


@pytest.mark.parametrize(("loss", "answer"), [(br.losses.Log(), NOT_EASY), (br.losses.Brier(), CURVATURE)], ids=str)
def test_hard_zeros_and_shifts_that_overflow_are_not_easy_under_log_loss_alone(loss: Loss, answer: int) -> None:
    call = Call(loss)
    call.sums[ZEROS] = 1.0
    assert call.advance(SURVEY) == answer
    call = Call(loss)
    call.before[:] = [1e-300, 0.3, 0.3, 0.4]
    assert call.advance(SURVEY) == answer


@with_kernel
@pytest.mark.parametrize("error", [0.0, 0.9e-10, 1.1e-10, 1e-3])
def test_rows_are_returned_only_if_they_have_the_rates(loss: Loss, error: float) -> None:
    call = Call(loss)  # the shift is 0, so the gap between primal and dual value is 0 whatever the rates are
    call.mean += [error, -error, 0.0, 0.0]
    assert call.advance(WRITE) == (DONE if error < 1e-10 else NOT_EASY)


@with_kernel
def test_rows_are_returned_only_if_their_loss_is_near_the_bound(loss: Loss) -> None:
    for size, answer in ((5.0, DONE), (20.0, NOT_EASY)):
        call = Call(loss)
        call.shift[:] = [size, -size, 0.0, 0.0]
        call.mean += [0.9e-10, -0.9e-10, 0.0, 0.0]  # a gap of 1.8e-10 times the size, where 1e-9 is allowed
        assert call.advance(WRITE) == answer


@with_kernel
def test_small_rates_need_a_small_error(loss: Loss) -> None:
    call = Call(loss)
    call.mean += [5e-11, -5e-11, 0.0, 0.0]
    assert call.advance(WRITE, relative=1e-9) == DONE
    assert call.advance(WRITE, relative=1e-10) == NOT_EASY  # 0.1 may be wrong by 1e-11


@with_kernel
def test_the_rows_of_a_first_point_that_has_the_rates_are_written(loss: Loss) -> None:
    call = Call(loss)
    call.sums[VALUE] = -1.0
    assert call.advance(CURVATURE) == WRITE
    call = Call(loss)
    call.sums[VALUE], call.mean[:] = -1.0, [0.101, 0.199, 0.3, 0.4]
    assert call.advance(CURVATURE) == CURVATURE


@with_kernel
@pytest.mark.parametrize("value", [-1e-9, np.inf, np.nan])
def test_a_point_that_is_worse_than_no_shift_is_left_to_the_general_method(loss: Loss, value: float) -> None:
    call = Call(loss)
    call.sums[VALUE], call.mean[:] = -value, [0.101, 0.199, 0.3, 0.4]
    assert call.advance(CURVATURE) == NOT_EASY


@with_kernel
def test_steps_beyond_the_trust_region_are_left_to_the_general_method(loss: Loss) -> None:
    for stiffness, answer in ((0.1, CURVATURE), (1e-6, NOT_EASY)):
        call = Call(loss)
        call.edges = np.tril(np.full((4, 4), stiffness), -1)
        call.sums[VALUE], call.mean[:] = -1.0, [0.101, 0.199, 0.3, 0.4]
        assert call.advance(CURVATURE) == answer


def second_point(loss: Loss, share: float, radius: float | None = None) -> Call:
    """A call of ``advance`` after a first step that gained this share of what the model predicted."""
    call = Call(loss)
    call.sums[VALUE], call.mean[:] = -1.0, [0.11, 0.19, 0.3, 0.4]
    assert call.advance(CURVATURE) == CURVATURE
    call.state[RADIUS] = call.state[RADIUS] if radius is None else radius
    gradient, call.first_step = np.array([-0.01, 0.01, 0.0, 0.0]), call.work[1].copy()
    curvature = laplacian(np.full((4, 4), 0.1) - 0.1 * np.eye(4))
    predicted = gradient @ call.first_step - 0.5 * call.first_step @ curvature @ call.first_step
    np.testing.assert_allclose(RATES @ call.shift, 0.0, atol=1e-16)
    call.sums[VALUE] = -1.0 - share * predicted
    call.mean[:], call.edges[:] = RATES + ERROR, np.tril(np.full((4, 4), 0.1), -1)
    call.answer = call.advance(CURVATURE)
    return call


@with_kernel
def test_a_step_with_a_poor_gain_is_left_to_the_general_method(loss: Loss) -> None:
    assert second_point(loss, 0.2).answer == NOT_EASY
    assert second_point(loss, 0.3).answer == CURVATURE


@with_kernel
def test_only_a_step_with_the_predicted_gain_is_extrapolated(loss: Loss) -> None:
    for share, trusted in ((0.8, False), (1.0, True)):
        call = second_point(loss, share)
        assert call.state[PREVIOUS] == pytest.approx(1e-4)
        assert call.state[EARLIER] == (pytest.approx(1e-2) if trusted else np.inf)


@with_kernel
def test_the_first_radius_is_thirty_sinkhorn_steps(loss: Loss) -> None:
    call = Call(loss)
    call.sums[VALUE], call.mean[:] = -1.0, [0.11, 0.19, 0.3, 0.4]
    call.advance(CURVATURE)
    gradient = np.array([-0.01, 0.01, 0.0, 0.0])
    steps = steps_of(model_of(loss, 4), RateSet.point(RATES), RATES, by_products=False)
    sinkhorn = 2 * gradient if loss.name == "brier" else gradient / RATES
    assert call.state[RADIUS] == pytest.approx(30 * steps.length(sinkhorn))


@with_kernel
def test_a_good_step_widens_the_trust_region(loss: Loss) -> None:
    steps = steps_of(model_of(loss, 4), RateSet.point(RATES), RATES, by_products=False)
    for share, widened in ((0.5, False), (1.0, True)):
        call = second_point(loss, share, radius=1e-3)
        length = steps.length(call.first_step)
        assert 4 * length > 1e-3
        # The error at the second point is small, so that its own step stays within the radius.
        assert call.state[RADIUS] == pytest.approx(4 * length if widened else 1e-3)


@with_kernel
@pytest.mark.parametrize("k", [2, 3, 8, 40])
def test_easy_problems_are_solved_in_as_many_passes_as_by_the_general_method(
    loss: Loss, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASERATE_KERNELS", "always")
    rng = np.random.default_rng(k)
    for _ in range(5):
        p, weights = random_rows(rng, 300, k), rng.dirichlet(np.ones(300))
        rates = weights @ p * rng.uniform(0.8, 1.2, size=k)
        rates /= rates.sum()
        passes = choose_passes(model_of(loss, k), MemoryEngine(p, weights))
        found = passes.solve(Block(p, weights, 0), rates, Target(1e-10, 500))
        assert found is not None
        with monkeypatch.context() as patch:
            patch.setattr(type(passes), "solves", lambda self, rows: False)
            general = br.adjust(p, rates, loss=loss, sample_weight=weights)
        assert found.sums.n_passes == general.n_passes
        np.testing.assert_allclose(found.rows, general.probs, rtol=0, atol=1e-12)
        np.testing.assert_allclose(weights @ found.rows, rates, rtol=0, atol=1e-10)
