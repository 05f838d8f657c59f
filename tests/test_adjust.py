"""The arguments of adjust and prior_adjust, and the results for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import assert_certified, kernel_setting

import baserate as br

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(4), size=60)
R = np.array([0.4, 0.3, 0.2, 0.1])


@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        np.ndarray.tolist,
        lambda p: tuple(map(tuple, p)),
        lambda p: np.repeat(p, 2, axis=0)[::2],
        lambda p: p[:, ::-1][:, ::-1],
        lambda p: p.astype(">f8"),
        lambda p: p.astype(np.longdouble),
        lambda p: np.lib.stride_tricks.as_strided(p, p.shape, p.strides, writeable=False),
        lambda p: np.ma.masked_array(p),
        memoryview,
    ],
)
def test_every_array_like_gives_the_same_result(convert: Any) -> None:
    np.testing.assert_allclose(br.adjust(convert(P), R).probs, br.adjust(P, R).probs, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float16, 1e-3), (np.float32, 1e-6), (np.float64, 0)])
def test_every_float_type_is_accepted(dtype: type, accuracy: float) -> None:
    result = br.adjust(P.astype(dtype), R)
    assert_certified(result)
    np.testing.assert_allclose(result.probs, br.adjust(P, R).probs, rtol=0, atol=accuracy)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kernels", ["off", "always"])
@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float16", "float32"), ("float32", "float32"), (">f4", "float32"), ("float64", "float64"), ("g", "float64")],
)
def test_the_answer_has_the_dtype_of_the_predictions(dtype: str, expected: str, kernels: str, order: Any) -> None:
    p = np.array(P, dtype=dtype, order=order)
    with kernel_setting(kernels):
        result = br.adjust(p, R)
        assert result.probs.dtype == np.dtype(expected)
        assert result.probs.flags.f_contiguous == p.flags.f_contiguous
        assert result.what_if(R[::-1]).probs.dtype == np.dtype(expected)
        assert result.apply(p).dtype == np.dtype(expected)
        assert result.apply(p[0]).dtype == np.dtype(expected)
        assert br.prior_adjust(p, R, R[::-1]).probs.dtype == np.dtype(expected)
        np.testing.assert_allclose(result.apply(p), result.probs, rtol=0, atol=1.2e-7)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_whole_numbers_give_float64(dtype: Any) -> None:
    result = br.adjust(np.eye(3, dtype=dtype)[[0, 0, 1, 2]], [0.4, 0.3, 0.3], loss="brier")
    assert result.probs.dtype == np.float64
    assert result.apply([1, 0, 0]).dtype == np.float64


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32")])
def test_another_dtype_can_be_requested(dtype: Any) -> None:
    narrow = P.astype(np.float32)
    assert br.adjust(P, R, dtype=dtype).probs.dtype == np.float32
    assert br.adjust(narrow, R, dtype="float64").probs.dtype == np.float64
    assert br.prior_adjust(P, R, R[::-1], dtype=dtype).probs.dtype == np.float32
    assert br.additive(P, R, dtype=dtype).probs.dtype == np.float32
    first, second = br.adjust_many([(P, R), {"probs": P, "rates": R, "dtype": "float64"}], dtype=dtype)
    assert (first.probs.dtype, second.probs.dtype) == (np.float32, np.float64)
    assert first.apply(P).dtype == np.float64
    assert first.apply(P, dtype=dtype).dtype == np.float32
    assert first.apply(narrow, dtype="float64").dtype == np.float64


@pytest.mark.parametrize("dtype", ["float16", "int64", "half a float", ">f4", np.longdouble, 32, [1, 2]])
def test_a_dtype_that_is_not_supported_is_refused(dtype: Any) -> None:
    with pytest.raises(br.errors.BadOption, match="dtype must be 'float32', 'float64', or None") as caught:
        br.adjust(P, R, dtype=dtype)
    assert [option.name for option in caught.value.options] == ["dtype"]
    with pytest.raises(br.errors.BadOption, match="dtype must be"):
        br.adjust(P, R).apply(P, dtype=dtype)


@pytest.mark.parametrize("loss", ["log", "brier", "spherical"])
@pytest.mark.parametrize("kernels", ["off", "always"])
def test_the_shift_does_not_depend_on_the_dtype_of_the_answer(loss: str, kernels: str) -> None:
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.ones(4), size=40_000).astype(np.float32)  # enough for a sample and an extrapolated step
    known = br.Rates.between([0.1, 0.2, 0.2, 0.0], [0.15, 0.25, 0.3, 1.0])
    for rates in (R, known):
        with kernel_setting(kernels):
            narrow, wide = (br.adjust(p, rates, loss=loss, dtype=dtype) for dtype in (None, "float64"))
        np.testing.assert_array_equal(narrow.shift, wide.shift)
        assert (narrow.n_passes, narrow.converged) == (wide.n_passes, True)
        np.testing.assert_array_equal(narrow.probs, wide.probs.astype(np.float32))


@pytest.mark.parametrize("kernels", ["off", "always"])
def test_positive_probabilities_stay_positive_in_float32(kernels: str) -> None:
    p = np.array([[1.0, 1e-300], [1.0, 1e-40], [0.5, 0.5], [0.2, 0.8]])
    with kernel_setting(kernels):
        result = br.adjust(p, [0.4, 0.6], dtype="float32")
        smallest = np.finfo(np.float32).smallest_subnormal
        assert result.probs.min() == smallest
        assert result.apply(p, dtype="float32").min() == smallest
    exact = br.adjust(p, [0.4, 0.6]).probs
    small = exact < np.finfo(np.float32).tiny
    assert (result.probs[small] >= exact[small]).all()  # rounded up, so that the loss of such a label does not rise
    assert result.certificate.loss_reduction == pytest.approx(
        br.adjust(p, [0.4, 0.6]).certificate.loss_reduction, abs=1e-6
    )


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.bool_])
def test_integers_0_and_1_are_accepted(dtype: type) -> None:
    rows = np.eye(3, dtype=dtype)[[0, 0, 1, 2]]
    result = br.adjust(rows, [0.4, 0.3, 0.3], loss="brier")
    assert_certified(result)


@pytest.mark.parametrize("loss", ["log", "brier", "spherical", "ranked"])
def test_inputs_are_not_changed(loss: str) -> None:
    p, rates, weights = P.copy(), R.copy(), RNG.random(len(P))
    copies = p.copy(), rates.copy(), weights.copy()
    p.flags.writeable = rates.flags.writeable = weights.flags.writeable = False
    result = br.adjust(p, rates, loss=loss, sample_weight=weights, normalize=True, zeros=1e-9)
    result.apply(p)
    for before, now in zip(copies, (p, rates, weights), strict=True):
        np.testing.assert_array_equal(before, now)
    assert not np.shares_memory(result.probs, p)


def test_rates_by_class_name_in_any_order() -> None:
    names = ["ant", "bee", "cat", "dog"]
    by_name = {"dog": 0.1, "ant": 0.4, "cat": 0.2, "bee": 0.3}
    result = br.adjust(P, by_name, classes=names)
    np.testing.assert_array_equal(result.probs, br.adjust(P, R).probs)
    assert result.classes == tuple(names)


def test_class_names_may_be_numbers() -> None:
    result = br.adjust(P, {3: 0.1, 2: 0.2, 1: 0.3, 0: 0.4}, classes=np.arange(4))
    assert result.classes == (0, 1, 2, 3)
    assert all(type(c) is int for c in result.classes)


def test_logits_and_log_probabilities_give_the_result_of_probabilities() -> None:
    expected = br.adjust(P, R).probs
    for logits in (np.log(P), np.log(P) + RNG.normal(size=(60, 1)), (np.log(P) - 500).tolist()):
        np.testing.assert_allclose(br.adjust(logits, R, from_logits=True).probs, expected, atol=1e-12)
    for loss in ("brier", "ranked"):
        result = br.adjust(np.log(P), R, loss=loss, from_logits=True)
        np.testing.assert_allclose(result.probs, br.adjust(P, R, loss=loss).probs, atol=1e-12)


def test_log_loss_of_logits_does_not_underflow() -> None:
    # As probabilities, all rows would be (1, 0), because exp(-1000) underflows to 0.
    logits = np.array([[0.0, -2000.0], [0.0, -3000.0], [0.0, -1000.0], [0.0, -4000.0]])
    result = br.adjust(logits, [0.5, 0.5], from_logits=True)
    assert_certified(result)
    assert result.probs[2, 1] == pytest.approx(1)
    assert result.probs[0, 1] == pytest.approx(1)
    assert result.probs[1, 1] == pytest.approx(0)
    assert result.shift[1] - result.shift[0] == pytest.approx(2500, abs=500)


def test_logit_of_minus_infinity_is_a_hard_zero() -> None:
    result = br.adjust([[0.0, -np.inf, 0.0], [0.0, 0.0, 0.0]], [0.4, 0.1, 0.5], from_logits=True)
    assert_certified(result)
    assert result.probs[0, 1] == 0


def test_finite_logit_is_not_a_hard_zero() -> None:
    logits = np.array([[0.0, -900.0], [0.0, -800.0], [-900.0, 0.0]])
    for loss in ("log", br.losses.Power(0.99)):
        assert_certified(br.adjust(logits, [0.5, 0.5], loss=loss, from_logits=True), relative=True)


def test_very_large_logits() -> None:
    result = br.adjust([[1e308, -1e308], [-1e308, 1e308], [0.0, 0.0]], [0.5, 0.5], from_logits=True)
    assert_certified(result)


def test_normalize_divides_rows_by_their_sums() -> None:
    scaled = P * RNG.uniform(0.1, 1e6, size=(60, 1))
    np.testing.assert_allclose(br.adjust(scaled, R, normalize=True).probs, br.adjust(P, R).probs, atol=1e-12)
    huge = np.array([[1e308, 1e308, 1e308], [1, 1, 2]])
    assert_certified(br.adjust(huge, [0.2, 0.3, 0.5], normalize=True))


def test_zeros_option_adds_to_every_probability() -> None:
    p = np.array([[1.0, 0.0, 0.0], [0.2, 0.8, 0.0]])
    smoothed = (p + 1e-3) / (1 + 3e-3)
    rates = [0.3, 0.3, 0.4]
    np.testing.assert_allclose(br.adjust(p, rates, zeros=1e-3).probs, br.adjust(smoothed, rates).probs, atol=1e-12)
    with np.errstate(divide="ignore"):
        logits = np.log(p)
    as_logits = br.adjust(logits, rates, zeros=1e-3, from_logits=True)
    np.testing.assert_allclose(as_logits.probs, br.adjust(smoothed, rates).probs, atol=1e-12)
    np.testing.assert_allclose(br.adjust(p, rates, zeros=1e-3).apply(p), br.adjust(smoothed, rates).probs, atol=1e-12)


def test_hard_zeros_stay_under_log_loss_and_move_under_brier() -> None:
    p = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    rates = [0.3, 0.2, 0.5]
    assert br.adjust(p, [0.4, 0.4, 0.2]).probs[0, 2] == 0
    assert br.adjust(p, rates, loss="brier").probs[0, 2] > 0


def test_scale_of_weights_does_not_matter() -> None:
    w = RNG.random(60)
    one, other = br.adjust(P, R, sample_weight=w), br.adjust(P, R, sample_weight=1e300 * w)
    np.testing.assert_allclose(one.probs, other.probs, atol=1e-12)
    np.testing.assert_allclose(np.average(one.probs, axis=0, weights=w), R, atol=1e-12)


def test_loose_tolerance_needs_fewer_passes_and_is_reached() -> None:
    logits = 100 * RNG.normal(size=(300, 8))
    loose = br.adjust(logits, np.full(8, 0.125), from_logits=True, tol=1e-3)
    tight = br.adjust(logits, np.full(8, 0.125), from_logits=True)
    assert loose.converged
    assert loose.certificate.residual <= 1e-3
    assert loose.n_passes < tight.n_passes


def test_unbounded_adjustment_for_log_loss_equals_bounded_adjustment() -> None:
    unbounded = br.adjust(P, R, bounded=False)
    assert not unbounded.bounded
    np.testing.assert_array_equal(unbounded.probs, br.adjust(P, R).probs)


def test_prior_adjustment_with_zero_rates() -> None:
    p = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]])
    result = br.prior_adjust(p, [0.5, 0.5, 0.0], [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(result.probs, [[1, 0, 0], [1, 0, 0]])
    kept = br.prior_adjust(p, [0.5, 0.5, 0.0], [0.2, 0.2, 0.6])
    np.testing.assert_allclose(kept.probs, p, atol=1e-15)


def test_prior_adjustment_undoes_undersampling() -> None:
    # A calibrated model trained on equal class rates, applied to data of which 1 % is positive.
    x = np.linspace(-3, 3, 7)
    trained = 1 / (1 + np.exp(-x))
    true = 0.01 * trained / (0.01 * trained + 0.99 * (1 - trained))
    result = br.prior_adjust(np.column_stack([1 - trained, trained]), [0.5, 0.5], [0.99, 0.01])
    np.testing.assert_allclose(result.probs[:, 1], true, rtol=1e-12)


def test_loss_whose_values_are_not_finite_is_an_error() -> None:
    class Overflowing(br.losses.Brier):
        name = "overflowing"
        builtin = False

        def row_map(self, x: Any, *, bounded: bool = True) -> Any:
            return np.where(x.max(axis=1, keepdims=True) > 1.9999, np.nan, super().row_map(x, bounded=bounded))

    with pytest.raises(br.errors.BadLoss, match="values that are not finite"):
        br.adjust([[1.0, 0.0], [1.0, 0.0]], [0.9999, 0.0001], loss=Overflowing())


@pytest.mark.parametrize("order", ["<", ">"])
def test_float16_rows_are_accepted_in_either_byte_order(order: str) -> None:
    p = np.array([[1 / 3, 1 / 3, 1 / 3], [0.2, 0.3, 0.5]], dtype=f"{order}f2")
    np.testing.assert_array_equal(
        br.adjust(p, [0.3, 0.3, 0.4]).probs, br.adjust(p.astype("=f2"), [0.3, 0.3, 0.4]).probs
    )
