"""Many classes: the curvature is multiplied with, and the results are those of the matrix."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support import Array
from toy_engine import ChunkEngine

import baserate as br
from baserate.core import coupling, curvature_choice, search
from baserate.core.conjugate_gradients import conjugate_gradients
from baserate.core.contracts import Block
from baserate.core.dual import Dual
from baserate.core.products import CentredDiagonal, DampedSystem
from baserate.core.row_model import RowModel
from baserate.engines.memory import MemoryEngine
from baserate.inputs.reading import Reading
from baserate.losses.base import Loss
from baserate.passes import choose_passes
from baserate.passes.numpy_brier import NumpyBrierPasses
from baserate.passes.numpy_log import NumpyLogPasses
from baserate.passes.numpy_passes import NumpyPasses
from baserate.rates.sets import RateSet

K = 300  # above the limit for the matrix
LOSSES: dict[str, Loss] = {"log": br.losses.Log(), "brier": br.losses.Brier(), "power": br.losses.Power(1.5)}


def predictions(n: int, k: int, seed: int, scale: float = 3.0, dtype: Any = np.float64) -> Array:
    """Predictions from normal logits; the larger the scale, the more confident."""
    logits = scale * np.random.default_rng(seed).normal(size=(n, k))
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (p / p.sum(axis=1, keepdims=True)).astype(dtype)


def class_rates(k: int, seed: int) -> Array:
    return np.random.default_rng(seed).dirichlet(np.full(k, 3.0))


def with_matrix(monkeypatch: pytest.MonkeyPatch, *args: Any, **options: Any) -> br.Adjustment:
    """The result of the method for few classes."""
    with monkeypatch.context() as context:
        context.setattr(curvature_choice, "FEW_CLASSES", 10**6)
        return br.adjust(*args, **options)


def assert_same(one: br.Adjustment, other: br.Adjustment, atol: float = 1e-7) -> None:
    assert one.converged
    assert other.converged
    assert one.certificate.residual <= 1e-8 + other.certificate.residual
    np.testing.assert_allclose(one.probs, other.probs, atol=atol)
    assert one.certificate.loss_reduction == pytest.approx(other.certificate.loss_reduction, abs=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1.0, 12.0])
def test_exact_rates_give_the_result_of_the_matrix(loss: str, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    p, rates = predictions(1200, K, 1, scale), class_rates(K, 2)
    weights = np.random.default_rng(3).uniform(0.2, 1.0, size=len(p))
    options = {"loss": LOSSES[loss], "sample_weight": weights}
    assert_same(br.adjust(p, rates, **options), with_matrix(monkeypatch, p, rates, **options))


@pytest.mark.parametrize("loss", ["log", "brier"])
@pytest.mark.parametrize("width", [0.02, 0.5])
def test_bounds_on_rates_give_the_result_of_the_matrix(
    loss: str, width: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    p, rates = predictions(1200, K, 4), class_rates(K, 5)
    known = br.Rates.between(rates * (1 - width), rates * (1 + width))
    assert_same(br.adjust(p, known, loss=loss), with_matrix(monkeypatch, p, known, loss=loss))


def test_balls_are_solved_with_the_matrix() -> None:
    p, rates = predictions(1200, K, 6, 1.0), class_rates(K, 7)
    result = br.adjust(p, br.Rates.near(rates, radius=0.01))
    assert result.converged
    assert np.linalg.norm(result.rates - rates) == pytest.approx(0.01, abs=1e-8)


def test_classes_of_rate_zero_and_hard_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    p, rates = predictions(1500, K, 8), class_rates(K, 9)
    p[p < 1e-5] = 0.0
    p /= p.sum(axis=1, keepdims=True)
    rates[:5] = 0.0
    rates /= rates.sum()
    result = br.adjust(p, rates)
    assert (result.probs[:, :5] == 0).all()
    assert (result.probs[p == 0] == 0).all()
    assert_same(result, with_matrix(monkeypatch, p, rates))


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_float32_and_column_major_rows(loss: str) -> None:
    p, rates = predictions(1500, K, 10, dtype=np.float32), class_rates(K, 11)
    wide = br.adjust(p.astype(np.float64), rates, loss=loss, normalize=True)
    for rows in (p, np.asfortranarray(p)):
        result = br.adjust(rows, rates, loss=loss)
        assert result.probs.dtype == np.float32
        np.testing.assert_allclose(result.probs, wide.probs, atol=2e-7)
        assert result.certificate.residual < 1e-7


def test_very_confident_predictions_converge() -> None:
    p, rates = predictions(2000, 400, 12, scale=100.0), class_rates(400, 13)
    result = br.adjust(p, rates, zeros=1e-300)
    assert result.converged
    assert result.certificate.residual <= 1e-10
    assert result.n_passes < 400


def test_no_matrix_is_computed_with_more_than_5000_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    k, eye = 5001, np.eye
    monkeypatch.setattr(np, "eye", lambda n, *args, **options: eye(n, *args, **options) if n < 5000 else 1 / 0)
    monkeypatch.setattr(Dual, "evaluate", lambda *args, **options: pytest.fail("sums the matrix"))
    p, rates = predictions(60, k, 14, 1.0), class_rates(k, 15)
    assert br.adjust(p, rates).converged
    assert br.adjust(p, br.Rates.between(0.9 * rates, 1.1 * rates)).converged
    p[p < 1e-7] = 0.0
    with monkeypatch.context() as numpy_only:
        numpy_only.setenv("BASERATE_KERNELS", "off")
        assert br.adjust(p, rates, normalize=True).converged


@pytest.mark.parametrize("loss", ["log", "brier"])
@pytest.mark.parametrize("n", [2, 20, 300])
def test_rates_within_bounds_are_found_with_fewer_rows_than_classes(loss: str, n: int) -> None:
    k = 300
    p, rates = predictions(n, k, 21, 4.0), class_rates(k, 22)
    for width in (0.01, 0.2):
        assert br.adjust(p, br.Rates.between((1 - width) * rates, (1 + width) * rates), loss=loss).converged


def test_a_search_by_products_ends_after_the_stated_number_of_passes() -> None:
    k = 6000
    p, rates = predictions(20, k, 23, 3.0), class_rates(k, 24)
    with pytest.warns(br.errors.NotConvergedWarning, match="stopped after"):
        result = br.adjust(p, br.Rates.between(0.8 * rates, 1.2 * rates), loss="brier", max_passes=60)
    assert result.n_passes <= 63  # with the passes that check and write the rows


@pytest.mark.parametrize("zeros", [False, True])
def test_no_search_and_a_search_within_bounds_allocate_no_matrix(zeros: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASERATE_KERNELS", "off")  # compiling them takes longer while memory is traced
    k = 6000
    p, rates = predictions(40, k, 16, 1.0), class_rates(k, 17)
    if zeros:
        p[p < 1e-5] = 0.0
        p /= p.sum(axis=1, keepdims=True)
    tracemalloc.start()
    try:
        prior = br.prior_adjust(p, np.full(k, 1 / k), rates)
        present = br.adjust(p, p.mean(axis=0))
        within_bounds = br.adjust(p, br.Rates.between(0.8 * rates, np.minimum(1.2 * rates + 1e-9, 1.0)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert prior.converged
    assert present.converged
    assert within_bounds.converged
    assert present.n_passes == 2  # a survey, and writing the rows
    np.testing.assert_allclose(present.probs, p, rtol=1e-12)
    assert peak < k * k  # bytes; a matrix of float64 takes 8 times as many


def dual_on(p: Array, loss: Loss, kernels: str, smoothing: float = 0.0) -> Dual:
    k = p.shape[1]
    model = RowModel(loss, True, k, np.arange(k), Reading(smoothing=smoothing))
    rows = MemoryEngine(p, np.random.default_rng(0).dirichlet(np.ones(len(p))))
    return Dual.of(rows, choose_passes(model, rows, kernels), RateSet.point(np.full(k, 1 / k)))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("smoothing", [0.0, 1e-3])
def test_products_are_those_of_the_matrix(loss: str, smoothing: float) -> None:
    for n in (1, 6, 203):  # compiled code takes four rows at a time
        rng = np.random.default_rng(n)
        p, shift, v = predictions(n, 60, n), rng.normal(size=60) * 0.1, rng.normal(size=60)
        for kernels in ("off", "always"):
            dual = dual_on(p, LOSSES[loss], kernels, smoothing)
            survey = dual.survey()
            point, by_products = dual.evaluate(survey, shift), dual.evaluate_by_products(survey, shift)
            np.testing.assert_allclose(by_products.curvature @ v, point.curvature @ v, atol=1e-15)
            np.testing.assert_allclose(by_products.curvature.diagonal(), np.diag(point.curvature), atol=1e-15)
            np.testing.assert_allclose(by_products.mean, point.mean, atol=1e-15)
            assert by_products.value == pytest.approx(point.value, rel=1e-12, abs=1e-14)


def test_shifts_that_overflow_are_left_to_numpy() -> None:
    p, v = predictions(50, 60, 1), np.random.default_rng(1).normal(size=60)
    shift = np.linspace(-400.0, 400.0, 60)
    compiled, plain = (dual_on(p, br.losses.Log(), kernels) for kernels in ("always", "off"))
    block = next(iter(compiled.rows.map(lambda block: replace(block, scratch=None))))
    assert isinstance(block, Block)
    np.testing.assert_allclose(compiled.passes.multiply(block, shift, v), plain.passes.multiply(block, shift, v))
    one, other = (dual.passes.reduce_diagonal(block, shift) for dual in (compiled, plain))
    np.testing.assert_allclose(one.mean, other.mean)
    assert one.conjugate == pytest.approx(other.conjugate)


def test_a_damped_system_is_solved_as_a_matrix_would_be() -> None:
    rng = np.random.default_rng(5)
    root = rng.normal(size=(30, 12))
    root -= root.mean(axis=1, keepdims=True)
    h = rng.uniform(0.5, 1.0, size=12)
    metric = CentredDiagonal(h)
    np.testing.assert_allclose(metric @ np.eye(12)[3], (np.diag(h) - np.outer(h, h) / h.sum())[3])
    system = DampedSystem(root.T @ root, metric, 0.1, accuracy=1e-12, most_steps=100)
    right = rng.normal(size=12)
    right -= right.mean()
    np.testing.assert_allclose(system @ system.solve(right).x, right, atol=1e-9)
    bound = np.arange(12) < 7
    matrix = np.column_stack([system @ column for column in np.eye(12)])
    np.testing.assert_allclose(system.diagonal(), np.diag(matrix))
    expected = np.linalg.solve(matrix[:7, :7], right[:7])
    np.testing.assert_allclose(system.solve_part(bound, right[:7]), expected, atol=1e-9)


def test_conjugate_gradients_stop_at_the_requested_accuracy_and_number_of_products() -> None:
    matrix, products = np.diag(np.linspace(1.0, 100.0, 40)), 0

    def multiply(v: Array) -> Array:
        nonlocal products
        products += 1
        return np.asarray(matrix @ v)

    right, scale = np.ones(40), np.ones(40)
    rough = conjugate_gradients(multiply, right, scale.__mul__, scale, accuracy=0.1, most_steps=100)
    assert products < 20
    np.testing.assert_allclose(rough.rest, right - matrix @ rough.x, atol=1e-12)
    assert np.linalg.norm(rough.rest) <= 0.1 * np.linalg.norm(right)
    products = 0
    conjugate_gradients(multiply, right, scale.__mul__, scale, accuracy=1e-12, most_steps=3)
    assert products == 3


def test_once_the_residual_is_halved_more_products_do_not_increase_it() -> None:
    rng = np.random.default_rng(6)
    scales = 10.0 ** rng.uniform(-1.5, 1.5, size=40)
    matrix, right = np.diag(scales), 1e6 * rng.normal(size=40)  # whose residual rises and falls on the way
    errors = []
    for most in range(1, 60):
        found = conjugate_gradients(
            matrix.__matmul__, right, np.ones(40).__mul__, np.ones(40), accuracy=1e-13, most_steps=most
        )
        np.testing.assert_allclose(found.rest, right - matrix @ found.x, rtol=0, atol=1e-3)
        errors.append(float(np.linalg.norm(found.rest)))
    # Before that, the last solution is returned and not the best one: a singular system must show by a long step.
    useful = [error for error in errors if error < 0.5 * np.linalg.norm(right)]
    assert len(useful) > 20
    assert useful == sorted(useful, reverse=True)


@pytest.mark.parametrize("k", [4, 60])
def test_classes_between_which_little_probability_flows_are_connected(k: int) -> None:
    # Two halves of the classes share one row of small weight, and its flow is small but visible.
    rng = np.random.default_rng(k)
    p, half = np.zeros((41, k)), k // 2
    p[:20, :half], p[20:40, half:] = rng.dirichlet(np.ones(half), size=20), rng.dirichlet(np.ones(k - half), size=20)
    for last, n_components in ((1.0, 1), (0.0, 2)):
        p[40, :half], p[40, half:] = 0.0, 0.0
        p[40, 0], p[40, half] = 1 - 0.4 * last, 0.4 * last
        weights = np.full(41, (1 - 1e-4) / 40)
        weights[40] = 1e-4
        model = RowModel(br.losses.Log(), True, k, np.arange(k), Reading())
        found = coupling._components_of_rows(model, np.zeros(k), weights @ p, Block(p, weights, 0))
        assert len(np.unique(found)) == n_components


@pytest.mark.parametrize("loss", LOSSES)
def test_the_matrix_is_computed_if_products_do_not_reach_the_rates(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    p, rates = predictions(500, K, 3), class_rates(K, 3)
    known = br.adjust(p, rates, loss=LOSSES[loss])
    monkeypatch.setattr(search, "_PRODUCT_PASSES", 2)
    matrices, reduce = 0, NumpyPasses.reduce

    def counted(self: NumpyPasses, *args: Any, **options: Any) -> Any:
        nonlocal matrices
        matrices += 1
        return reduce(self, *args, **options)

    for passes in (NumpyPasses, NumpyLogPasses, NumpyBrierPasses):
        monkeypatch.setattr(passes, "reduce", counted)
    monkeypatch.setenv("BASERATE_KERNELS", "off")
    result = br.adjust(p, rates, loss=LOSSES[loss])
    assert matrices > 0
    assert result.n_passes > 3
    assert_same(result, known)


def test_products_replace_the_matrix_where_rows_are_in_memory() -> None:
    p = predictions(20, K, 1)
    dual = dual_on(p, br.losses.Log(), "off", 0.0)
    assert dual.uses_products
    few = dual_on(p[:, :200] / p[:, :200].sum(axis=1, keepdims=True), br.losses.Log(), "off", 0.0)
    assert not few.uses_products
    elsewhere = replace(dual, rows=ChunkEngine([p], None))  # where a pass costs more than the matrix
    assert not elsewhere.uses_products


class RigidAtCorners(br.losses.Brier):
    """The Brier score, with rows that do not move once they are certain."""

    def slopes(self, a: Array, *, bounded: bool = True) -> Array:
        return np.where(a.max(axis=1, keepdims=True) == 1, 0.0, super().slopes(a, bounded=bounded))


def test_rows_that_do_not_move_add_nothing_to_products() -> None:
    p, w, v = np.array([[1.0, 0.0, 0.0], [0.5, 0.3, 0.2]]), np.array([0.6, 0.4]), np.array([1.0, 2.0, 4.0])
    model = RowModel(RigidAtCorners(), True, 3, np.arange(3), Reading())
    found = model.multiply(2 * p, w, np.zeros(3), v)
    np.testing.assert_allclose(found, 0.4 * 0.5 * (v - v.mean()), rtol=1e-12)
    diagonal = model.diagonal_sums(2 * p, w, np.zeros(3)).curvature
    np.testing.assert_allclose(diagonal, 0.4 * 0.5 * (1 - 1 / 3) * np.ones(3), rtol=1e-12)
