"""The passes over a block of rows: NumPy against the definitions of their sums, and the kernels against NumPy."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from support import ALL_LOSSES, Array, NoFallback, loss_id

import baserate as br
from baserate.core.contracts import Block, DualSums, RowPasses
from baserate.core.row_model import RowModel
from baserate.engines.memory import MemoryEngine
from baserate.errors import BadProbabilities
from baserate.inputs.reading import Reading
from baserate.losses import Loss
from baserate.passes import choose_passes
from baserate.passes.choice import kernels_for_batches
from baserate.passes.numba_passes import LARGE_VALUES, NumbaPasses
from baserate.passes.numpy_passes import NumpyPasses
from baserate.support.answer_types import AnswerTypes

KERNEL_LOSSES = [br.losses.Log(), br.losses.Brier()]
CLASSES = [2, 3, 4, 7, 90, 256, 257]
SIZES = [1, 63, 64, 65, 200]

with_kernel = pytest.mark.parametrize("loss", KERNEL_LOSSES, ids=loss_id)


def random_block(n: int, k: int, seed: int, *, zeros: float = 0.0, scratch: bool = False) -> Block:
    """Random predictions with random weights that sum to 1."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, 0.7), size=n) + 1e-9
    p[(rng.random(p.shape) < zeros) & (p < p.max(axis=1, keepdims=True))] = 0.0
    weights = rng.uniform(0.2, 2.0, size=n)
    p, weights = p / p.sum(axis=1, keepdims=True), weights / weights.sum()
    return Block(p, weights, 0, np.empty_like(p) if scratch else None)


def passes_of(kernels: str, loss: Loss, k: int, keep: Any = None, answer: str = "float64", **reading: Any) -> RowPasses:
    kept, types = np.arange(k) if keep is None else np.asarray(keep), AnswerTypes.of_array(np.dtype(answer))
    model = RowModel(loss, True, k, kept, Reading(**reading), answer_types=types)
    passes = choose_passes(model, MemoryEngine(np.full((2, k), 1 / k), None), kernels)
    assert isinstance(passes, NumbaPasses if kernels == "always" else NumpyPasses)
    return passes


def kernels_alone(loss: Loss, k: int, keep: Any = None, answer: str = "float64", **reading: Any) -> NumbaPasses:
    """Kernels that cannot leave a block to NumPy, which would hide what they cannot compute."""
    passes = passes_of("always", loss, k, keep, answer, **reading)
    assert isinstance(passes, NumbaPasses)
    return dataclasses.replace(passes, fallback=NoFallback())  # type: ignore[arg-type]  # on purpose


def random_shift(k: int, seed: int, size: float = 0.5) -> Array:
    return size * np.random.default_rng(seed).normal(size=k)


def assert_same_sums(fast: Any, plain: Any, rtol: float = 1e-13) -> None:
    for name in plain._fields:
        size = 1.0 + np.abs(getattr(plain, name)).max(initial=0.0)
        np.testing.assert_allclose(getattr(fast, name), getattr(plain, name), rtol=rtol, atol=rtol * size, err_msg=name)


# NumPy against the definitions


@pytest.mark.parametrize(("loss", "k"), ALL_LOSSES, ids=loss_id)
def test_survey_of_a_block_by_definition(loss: Loss, k: int) -> None:
    block = random_block(30, k, seed=1)
    p, w = block.rows, block.weights
    survey = NumpyPasses.survey(passes_of("off", loss, k), block)  # type: ignore[arg-type]  # checked by passes_of
    np.testing.assert_allclose(survey.mean, w @ p, rtol=1e-14)
    # Of all labels, the largest divergence from the predictions is that of the worst class in each row.
    worst = np.max([loss.divergence(p, np.tile(corner, (30, 1))) for corner in np.eye(k)], axis=0)
    assert float(survey.ceiling) == pytest.approx(float(w @ worst), rel=1e-9)
    assert float(survey.squared_weights) == pytest.approx(float(w @ w))
    assert float(survey.zeros) == 0
    eta = loss.link(p)
    assert float(survey.offset) == pytest.approx(float(w @ loss.conjugate(eta, p)), rel=1e-12, abs=1e-12)


def test_hard_zeros_are_counted_and_no_row_can_move_to_them() -> None:
    p = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
    block = Block(p, np.array([0.5, 0.25, 0.25]), 0)
    survey = passes_of("off", br.losses.Log(), 3).survey(block)
    assert float(survey.zeros) == 3
    assert float(survey.ceiling) == pytest.approx(0.5 * np.log(2) + 0.25 * np.log(5))
    assert float(passes_of("off", br.losses.Brier(), 3).survey(block).zeros) == 0  # Brier loss can move them


@pytest.mark.parametrize(("loss", "k"), ALL_LOSSES, ids=loss_id)
def test_dual_sums_of_a_block_by_definition(loss: Loss, k: int) -> None:
    block, passes = random_block(20, k, seed=2), passes_of("off", loss, k)
    shift = 0.1 * random_shift(k, 3) * float(np.ptp(loss.link(np.full((1, k), 1 / k) * np.linspace(0.5, 1.5, k))) + 0.1)
    a = loss.row_map(loss.link(block.rows) + shift)
    sums = passes.reduce(block, shift)
    conjugate = loss.conjugate(loss.link(block.rows) + shift, a)
    assert float(sums.conjugate) == pytest.approx(float(block.weights @ conjugate), rel=1e-12)
    assert float(sums.magnitude) == pytest.approx(float(block.weights @ np.abs(conjugate)), rel=1e-12)
    np.testing.assert_allclose(sums.mean, block.weights @ a, rtol=1e-12)
    np.testing.assert_allclose(sums.curvature, loss.jacobian(a, block.weights), rtol=1e-12)
    assert passes.reduce(block, shift, curvature=False).curvature.shape == (0, 0)
    written = passes.write(block, shift)
    np.testing.assert_allclose(written.rows, a, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(written.sums.mean, block.weights @ a, rtol=1e-12)
    divergence = block.weights @ loss.divergence(block.rows, a)
    assert float(written.sums.divergence) == pytest.approx(float(divergence), rel=1e-9)


def test_a_shift_of_zero_leaves_every_digit_of_the_rows() -> None:
    block = random_block(70, 4, seed=4)
    for kernels in ("off", "always"):
        for loss in KERNEL_LOSSES:
            written = passes_of(kernels, loss, 4).write(block, np.zeros(4))
            np.testing.assert_array_equal(written.rows, Reading().clean(block.rows))
            assert float(written.sums.divergence) == 0


def test_dual_points_that_the_survey_kept_are_used_by_later_passes() -> None:
    block, shift = random_block(40, 3, seed=5, scratch=True), random_shift(3, 6)
    for loss in (br.losses.Power(1.5), br.losses.Power(0.5)):  # log and Brier keep predictions
        passes = passes_of("off", loss, 3)
        passes.survey(block)
        np.testing.assert_allclose(block.scratch, loss.link(block.rows), rtol=1e-13)
        assert_same_sums(passes.reduce(block, shift), passes.reduce(dataclasses.replace(block, scratch=None), shift))
        assert block.scratch is not None
        block.scratch[:] = loss.link(block.rows[::-1])
        other = dataclasses.replace(block, rows=block.rows[::-1], scratch=None)
        assert_same_sums(passes.reduce(block, shift), passes.reduce(other, shift))


# Kernels against NumPy


@with_kernel
@pytest.mark.parametrize("k", CLASSES)
@pytest.mark.parametrize("n", SIZES)
def test_kernels_compute_the_dual_sums_of_numpy(loss: Loss, k: int, n: int) -> None:
    block, shift = random_block(n, k, seed=n + k), random_shift(k, n, size=0.5 if loss == br.losses.Log() else 0.2)
    fast, plain = kernels_alone(loss, k), passes_of("off", loss, k)
    assert_same_sums(fast.reduce(block, shift), plain.reduce(block, shift))
    assert fast.reduce(block, shift, curvature=False).curvature.shape == (0, 0)
    first = fast.first(block, shift)
    assert_same_sums(first.dual, plain.reduce(block, shift))


@with_kernel
@pytest.mark.parametrize("k", CLASSES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("zeros", [0.0, 0.2])
def test_kernels_survey_a_block_like_numpy(loss: Loss, k: int, n: int, zeros: float) -> None:
    block = random_block(n, k, seed=n * k, zeros=zeros)
    fast, plain = kernels_alone(loss, k).survey(block), passes_of("off", loss, k).survey(block)
    np.testing.assert_allclose(fast.mean, plain.mean, rtol=1e-13)
    np.testing.assert_allclose(fast.offset, plain.offset, rtol=1e-13, atol=1e-14)
    assert float(fast.zeros) == float(plain.zeros)
    assert float(fast.squared_weights) == pytest.approx(float(plain.squared_weights), rel=1e-14)
    # The kernels know only the smallest probability of all rows, so their bound is looser, but still a bound.
    lowest = block.rows[block.rows > 0].min() if loss.pins_zeros else block.rows.min()
    squares = float(block.weights @ np.square(block.rows).sum(axis=1))
    expected = -np.log(lowest) if loss.pins_zeros else 1 - 2 * lowest + squares
    assert float(fast.ceiling) == pytest.approx(expected, rel=1e-12)
    assert float(fast.ceiling) >= float(plain.ceiling) - 1e-12


@with_kernel
@pytest.mark.parametrize("k", CLASSES)
@pytest.mark.parametrize("n", SIZES)
def test_kernels_write_the_rows_of_numpy(loss: Loss, k: int, n: int) -> None:
    block, shift = random_block(n, k, seed=n + k), random_shift(k, k, size=0.3)
    fast, plain = kernels_alone(loss, k), passes_of("off", loss, k)
    ours, theirs = fast.write(block, shift), plain.write(block, shift)
    np.testing.assert_allclose(ours.rows, theirs.rows, rtol=1e-13, atol=1e-15)
    assert_same_sums(ours.sums, theirs.sums)
    assert_same_sums(fast.measure(block, shift), theirs.sums)
    unchecked = fast.write(block, shift, check=True)
    np.testing.assert_allclose(unchecked.rows, theirs.rows, rtol=1e-13, atol=1e-15)
    assert unchecked.sums == ()


@with_kernel
@pytest.mark.parametrize("k", [3, 60, 257])
@pytest.mark.parametrize("answer", ["float64", "float32"])
def test_kernels_write_no_negative_zeros(loss: Loss, k: int, answer: str) -> None:
    block = random_block(130, k, seed=k, zeros=0.2)
    rows = kernels_alone(loss, k, answer=answer).write(block, random_shift(k, k, size=0.5)).rows
    assert (rows == 0).any()
    assert not np.signbit(rows).any()
    if k < 257:  # the kernels for more classes keep all of them
        block.rows[:, 1] += 0.01  # so that no row has the dropped class alone
        block.rows[:] /= block.rows.sum(axis=1, keepdims=True)
        rows = kernels_alone(loss, k, np.arange(1, k), answer).write(block, random_shift(k - 1, k, size=0.5)).rows
        assert not np.signbit(rows).any()


@with_kernel
@pytest.mark.parametrize("k", [3, 60, 257])
@pytest.mark.parametrize("size", [1e-6, 0.3])
@pytest.mark.parametrize(("smallest", "zeros"), [(0.0, 0.1), (3.3e-42, 0.1), (0.0, 0.99)])
def test_kernels_round_rows_to_float32_like_numpy(
    loss: Loss, k: int, size: float, smallest: float, zeros: float
) -> None:
    block, shift = random_block(130, k, seed=k, zeros=zeros), random_shift(k, k, size=size)
    if smallest:
        block.rows[::7, 0] = smallest
    block.rows[:] /= block.rows.sum(axis=1, keepdims=True)
    fast, plain = kernels_alone(loss, k, answer="float32"), passes_of("off", loss, k, answer="float32")
    ours, theirs = fast.write(block, shift), plain.write(block, shift)
    assert ours.rows.dtype == np.float32
    np.testing.assert_allclose(ours.rows, theirs.rows, rtol=1.2e-7, atol=1e-15)
    if smallest and loss.pins_zeros:  # numbers below the normal ones are rounded up, which kernels do not make use of
        assert theirs.sums.shortfall <= ours.sums.shortfall <= 1.1 * theirs.sums.shortfall
        theirs = theirs._replace(sums=theirs.sums._replace(shortfall=ours.sums.shortfall))
    assert_same_sums(ours.sums, theirs.sums)
    assert float(ours.sums.shortfall) > 1e-10  # rounded rows do not belong to the shift
    exact = kernels_alone(loss, k).write(block, shift).sums
    assert float(exact.shortfall) == 0
    np.testing.assert_allclose(ours.sums.exact_mean, exact.mean, rtol=1e-14)


@with_kernel
@pytest.mark.parametrize("n", [1, 64, 130])
def test_kernels_leave_out_classes_like_numpy(loss: Loss, n: int) -> None:
    block, keep, shift = random_block(n, 6, seed=n), [0, 2, 5], random_shift(3, n)
    fast, plain = kernels_alone(loss, 6, keep), passes_of("off", loss, 6, keep)
    assert_same_sums(fast.reduce(block, shift), plain.reduce(block, shift))
    ours, theirs = fast.write(block, shift), plain.write(block, shift)
    np.testing.assert_allclose(ours.rows, theirs.rows, rtol=1e-13, atol=1e-15)
    assert not ours.rows[:, [1, 3, 4]].any()
    assert_same_sums(ours.sums, theirs.sums)


@with_kernel
@pytest.mark.parametrize("k", [3, 60])
@pytest.mark.parametrize("reading", [{"smoothing": 0.01}, {"normalize": True}, {"normalize": True, "smoothing": 1e-3}])
def test_kernels_read_rows_like_numpy(loss: Loss, k: int, reading: dict[str, Any]) -> None:
    block, shift = random_block(100, k, seed=k), random_shift(k, 1, size=0.2)
    if "normalize" in reading:
        block = dataclasses.replace(block, rows=block.rows * np.random.default_rng(0).uniform(0.1, 9, size=(100, 1)))
    fast, plain = kernels_alone(loss, k, **reading), passes_of("off", loss, k, **reading)
    assert_same_sums(fast.reduce(block, shift), plain.reduce(block, shift))
    ours, theirs = fast.survey(block), plain.survey(block)
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-13)
    np.testing.assert_allclose(ours.offset, theirs.offset, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(fast.write(block, shift).rows, plain.write(block, shift).rows, rtol=1e-13, atol=1e-15)


@with_kernel
@pytest.mark.parametrize("n", [1, 6, 64])
@pytest.mark.parametrize("reading", [{}, {"smoothing": 0.01}, {"normalize": True}])
def test_kernels_multiply_with_the_curvature_of_many_classes(loss: Loss, n: int, reading: dict[str, Any]) -> None:
    block, shift, v = random_block(n, 257, seed=n), random_shift(257, n, size=0.02), random_shift(257, n + 1)
    fast, plain = kernels_alone(loss, 257, **reading), passes_of("off", loss, 257, **reading).reduce(block, shift)
    found = fast.reduce_diagonal(block, shift)
    assert_same_sums(found, plain._replace(curvature=np.diag(plain.curvature)))
    np.testing.assert_allclose(fast.multiply(block, shift, v).product, plain.curvature @ v, rtol=1e-11, atol=1e-15)


@with_kernel
@pytest.mark.parametrize("k", [3, 60])
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0, 300.0])
def test_kernels_agree_with_numpy_at_small_and_at_large_shifts(loss: Loss, k: int, size: float) -> None:
    block, shift = random_block(130, k, seed=7), random_shift(k, 8, size=size)
    fast, plain = passes_of("always", loss, k).reduce(block, shift), passes_of("off", loss, k).reduce(block, shift)
    assert isinstance(fast, DualSums)
    np.testing.assert_allclose(fast.mean, plain.mean, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(fast.curvature, plain.curvature, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(fast.conjugate, plain.conjugate, rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(fast.magnitude, plain.magnitude, rtol=1e-13, atol=1e-16)


@with_kernel
@pytest.mark.parametrize("k", [3, 60])
@pytest.mark.parametrize("sum_of_row", [1 + 2e-5, 1 - 2e-5, 1 + 5e-6])
def test_kernels_allow_the_same_rounding_of_row_sums_as_numpy(loss: Loss, k: int, sum_of_row: float) -> None:
    block = random_block(70, k, seed=9)
    rows = block.rows.copy()
    rows[66] *= sum_of_row
    block = dataclasses.replace(block, rows=rows)
    for kernels in ("always", "off"):
        passes = passes_of(kernels, loss, k)
        if abs(sum_of_row - 1) > 1e-5:
            with pytest.raises(BadProbabilities, match="row 66"):
                passes.survey(block)
        else:
            np.testing.assert_allclose(passes.write(block, random_shift(k, 1)).rows.sum(axis=1), 1, rtol=1e-13)


@pytest.mark.parametrize("kernels", ["off", "always"])
def test_products_that_underflow_before_the_division_do_not_cost_digits(kernels: str) -> None:
    p = np.tile([1e-300, 1.0, 1e-60], (70, 1))
    block = Block(p, np.full(70, 1 / 70), 0)
    rows = passes_of(kernels, br.losses.Log(), 3).write(block, np.array([-46.0, -46.0, 46.0])).rows
    np.testing.assert_allclose(rows[:, 0] / rows[:, 1], 1e-300, rtol=1e-12)


@pytest.mark.parametrize("kernels", ["off", "always"])
def test_probabilities_that_would_underflow_become_the_smallest_number(kernels: str) -> None:
    p = np.tile([2e-305, 1.0], (70, 1))  # by the shift, less than the smallest number but not 0
    block = Block(p, np.full(70, 1 / 70), 0)
    rows = passes_of(kernels, br.losses.Log(), 2).write(block, np.array([0.0, 12.0])).rows
    np.testing.assert_array_equal(rows[:, 0], np.finfo(np.float64).tiny)


@with_kernel
@pytest.mark.parametrize("order", ["C", "F"])
def test_scratch_memory_changes_no_digit(loss: Loss, order: Any) -> None:
    passes, shift = passes_of("off", loss, 7), random_shift(7, 2)
    block = random_block(501, 7, seed=8)
    rows = np.asarray(block.rows, order=order)
    with_scratch = dataclasses.replace(block, rows=rows, scratch=np.empty_like(rows))
    passes.survey(with_scratch)
    sums = passes.reduce(with_scratch, shift)
    without = passes.reduce(dataclasses.replace(block, rows=rows), shift)
    for name in sums._fields:
        np.testing.assert_array_equal(getattr(sums, name), getattr(without, name))


# Blocks and settings


def test_a_block_is_split_into_pieces_that_keep_their_place() -> None:
    rows, weights, scratch = np.arange(14.0).reshape(7, 2), np.arange(7.0), -np.arange(14.0).reshape(7, 2)
    block = Block(rows, weights, 100, scratch, np.arange(7))
    pieces = list(block.split(3))
    assert [piece.start for piece in pieces] == [100, 103, 106]
    assert [len(piece.weights) for piece in pieces] == [3, 3, 1]
    for piece in pieces:
        at = slice(piece.start - 100, piece.start - 100 + 3)
        np.testing.assert_array_equal(piece.rows, rows[at])
        np.testing.assert_array_equal(piece.weights, weights[at])
        assert piece.scratch is not None
        np.testing.assert_array_equal(piece.scratch, scratch[at])
        assert np.shares_memory(piece.scratch, scratch)
        np.testing.assert_array_equal(piece.cells, np.arange(7)[at])
    bare = next(Block(rows, weights, 0).split(5))
    assert bare.scratch is None
    assert bare.cells is None


def test_many_small_batches_use_kernels_from_the_same_size_as_one_large_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BASERATE_KERNELS", raising=False)
    assert kernels_for_batches(LARGE_VALUES) == "always"
    assert kernels_for_batches(LARGE_VALUES - 1) == "auto"
    monkeypatch.setenv("BASERATE_KERNELS", "off")
    assert kernels_for_batches(LARGE_VALUES) == "off"
    monkeypatch.delenv("BASERATE_KERNELS")
    n = LARGE_VALUES // 4
    p = np.full((n, 4), 0.25)
    model = RowModel(br.losses.Log(), True, 4, np.arange(4), Reading())
    assert isinstance(choose_passes(model, MemoryEngine(p, None)), NumbaPasses)
    assert isinstance(choose_passes(model, MemoryEngine(p[1:], None)), NumpyPasses)


def test_a_changed_model_keeps_the_kernels_if_they_support_it() -> None:
    block = random_block(64, 3, seed=1)
    rows = MemoryEngine(block.rows, None)
    model = RowModel(br.losses.Log(), True, 3, np.arange(3), Reading())
    passes = choose_passes(model, rows, "always")
    assert isinstance(passes, NumbaPasses)
    assert isinstance(passes.with_model(dataclasses.replace(model, kept_classes=np.arange(2))), NumbaPasses)
    assert isinstance(passes.with_model(dataclasses.replace(model, limit_levels=np.zeros(3, int))), NumpyPasses)


@with_kernel
def test_the_fall_of_the_loss_of_each_rounded_row_is_within_its_bounds(loss: Loss) -> None:
    # Whatever the true class, and whether log loss is -log a_y or, as for rows that do not sum to 1, -log a_y + s - 1.
    block, shift = random_block(300, 4, seed=11), 0.2 * random_shift(4, 11)
    model = RowModel(loss, True, 4, np.arange(4), Reading(), answer_types=AnswerTypes.of_array(np.dtype("float32")))
    rows = model.adjusted(block.rows, shift)
    shortfall, surplus = model.shortfall_and_surplus(rows, shift)
    np.testing.assert_array_equal(shortfall, model.shortfall(rows, shift))
    expected = model.divergence(rows) - rows.after @ shift
    corners = np.eye(4)
    falls = np.stack([loss.divergence(rows.before, np.tile(y, (300, 1))) for y in corners], axis=1)
    falls -= np.stack([loss.divergence(rows.after, np.tile(y, (300, 1))) for y in corners], axis=1)
    excess = rows.after.sum(axis=1, keepdims=True) - 1.0
    assert np.abs(excess).max() > 1e-8
    for extra in (0.0, excess) if loss == br.losses.Log() else (0.0,):
        above = falls + extra - shift - expected[:, None]
        assert (above <= surplus[:, None] + 1e-13).all()
        assert (above >= -shortfall[:, None] - 1e-13).all()
