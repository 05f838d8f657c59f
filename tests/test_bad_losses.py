"""Invalid losses are refused, with a message that names a point where the check fails."""

from __future__ import annotations

import contextlib
import gc
import warnings
from typing import Any

import numpy as np
import pytest

import baserate as br
from baserate import errors
from baserate.losses import check

P = [[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]]
R = [0.5, 0.3, 0.2]


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (
            "logloss",
            r"unknown loss 'logloss'; pass one of 'brier', 'log', 'ranked', 'spherical', or an object from br\.losses",
        ),
        ("power", r"the loss 'power' needs parameters; pass br\.losses\.Power\(\.\.\.\)"),
        (br.losses.Brier, r"loss is the class Brier; pass an instance, such as Brier\(\.\.\.\)"),
        (3, r"unknown loss 3"),
        (br.losses.Quadratic(np.eye(4)), r"this Quadratic loss has 4 classes, but the predictions have 3"),
    ],
)
def test_unknown_losses_and_wrong_numbers_of_classes_are_refused(loss: Any, message: str) -> None:
    with pytest.raises(errors.BadLoss, match=message):
        br.adjust(P, R, loss=loss)


@pytest.mark.parametrize("beta", [0, -1, np.nan, np.inf, "2", None, True, 1j, 1e300, 101, 10**400, 1e-300])
def test_invalid_beta_is_refused(beta: Any) -> None:
    with pytest.raises(errors.BadLoss, match=r"beta of Power must be a number from 1e-100 to 100, not"):
        br.losses.Power(beta)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), r"square matrix with at least 2 rows, not one of shape \(2, 3\)"),
        ([[1, 2], [0, 1]], r"not symmetric: entry \(0, 1\) is 2, but entry \(1, 0\) is 0"),
        ([[1, np.nan], [np.nan, 1]], r"NaN or infinite entries"),
        ([[1, 0, 0], [0, 1, 0], [0, 0, -3]], r"not positive definite on vectors that sum to 0.*in the direction \["),
        (np.ones((3, 3)), r"not positive definite"),
        ("abc", r"square matrix of real numbers, not 'abc'"),
        ([[10**400, 0], [0, 1]], r"square matrix of real numbers"),
        (1e-300 * np.eye(3), r"largest entry of .* is 1e-300, but it must be between 1e-100 and 1e\+100\. If you mult"),
        (1e300 * np.eye(3), r"largest entry of .* is 1e\+300, but it must be between 1e-100 and 1e\+100"),
        ([[1.7e308, 1e308], [-1e308, 1.7e308]], r"not symmetric"),
        ([[1j, 0], [0, 1]], r"square matrix of real numbers"),
    ],
)
def test_invalid_matrix_is_refused(matrix: Any, message: str) -> None:
    with pytest.raises(errors.BadLoss, match=message):
        br.losses.Quadratic(matrix)


@pytest.mark.parametrize("weights", [[1, 0], [1, -1], [[1, 2]], [1, np.inf], "ab", [1j, 1], [10**400, 1]])
def test_invalid_class_weights_are_refused(weights: Any) -> None:
    with pytest.raises(errors.BadLoss, match="class weights must be finite numbers above 0"):
        br.losses.WeightedBrier(weights)


def square(q: np.ndarray) -> np.ndarray:
    return q**2


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ((square, lambda q: 3 * q, lambda q: 0 * q + 3), r"df is not the derivative of f: at q = 1e-06 it is 3e-06"),
        (
            (square, lambda q: 2 * q, lambda q: 0 * q + 1),
            r"ddf is not the derivative of df: at q = .* it is 1, but should be 2",
        ),
        (
            (square, lambda q: 2 * q, lambda q: 0 * q + 2, lambda x: x),
            r"df_inverse is not the inverse of df: at df\(q\) with q =",
        ),
        (
            (lambda q: -(q**2), lambda q: -2 * q, lambda q: 0 * q - 2),
            r"f is not strictly convex, because df does not increase: it is -2e-06 at q = 1e-06 and -0\.0002 at",
        ),
        (
            (lambda q: q**3 - q**2, lambda q: 3 * q**2 - 2 * q, lambda q: 6 * q - 2),
            r"f is not strictly convex",
        ),
        ((lambda q: 3 * q, lambda q: 0 * q + 3, lambda q: 0 * q), r"f is not strictly convex"),
        (
            (lambda q: (q - 0.5) ** 4, lambda q: 4 * (q - 0.5) ** 3, lambda q: 12 * (q - 0.5) ** 2),
            r"f is not strictly convex: ddf is 0 at q = 0\.5, but must be above 0",
        ),
        ((square, lambda q: 2.0, lambda q: 0 * q + 2), r"df must return one value per element: it returned shape \(\)"),
        ((square, "2q", lambda q: 0 * q + 2), r"df must be a function"),
        (
            (square, lambda q: 1 / 0, lambda q: 0 * q + 2),
            r"df failed on an array of numbers from 0 to 1: division by zero",
        ),
        ((lambda q: np.log(q - 0.5), lambda q: 2 * q, lambda q: 0 * q + 2), r"f is nan at 1e-06, but must be finite"),
        ((lambda q: 1 / q, lambda q: -(q**-2.0), lambda q: 2 * q**-3.0), r"f is inf at q = 0, .* infinite loss"),
        ((lambda q: q * np.log(q), lambda q: np.log(q) + 1, lambda q: 1 / q), r"f is nan at q = 0"),
    ],
)
def test_functions_that_define_no_proper_loss_are_refused(functions: tuple[Any, ...], message: str) -> None:
    with pytest.raises(errors.BadLoss, match=message):
        br.losses.Separable(*functions)


def scaled_square(scale: float) -> br.losses.Separable:
    return br.losses.Separable(
        lambda q: scale * q**2, lambda q: 2 * scale * q, lambda q: np.full_like(q, 2 * scale), domain=br.losses.REAL
    )


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_functions_that_are_too_large_or_too_small_are_refused(scale: float) -> None:
    with pytest.raises(
        errors.BadLoss, match=r"values above 1e\+100 or below 1e-100 cannot .* multiply f by a constant"
    ):
        scaled_square(scale)


@pytest.mark.parametrize(
    "loss",
    [
        scaled_square(1e-90),
        scaled_square(1e90),
        br.losses.Quadratic(1e-99 * np.eye(3)),
        br.losses.Quadratic(1e99 * np.array([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])),
        br.losses.Power(1e-100),
        br.losses.Power(100),
        br.losses.Separable(
            lambda q: np.where(q > 0, q * np.log(np.where(q > 0, q, 1)), 0), lambda q: np.log(q) + 1, lambda q: 1 / q
        ),
    ],
    ids=["1e-90 q^2", "1e90 q^2", "1e-99 I", "1e99 M", "beta 1e-100", "beta 100", "q log q"],
)
def test_extreme_losses_give_no_warnings_of_numpy(loss: br.losses.Loss) -> None:
    some_zeros = [[1, 0, 0], [0.2, 0.3, 0.5], [0, 0.5, 0.5], [0.1, 0.1, 0.8], [0.5, 0.5 - 1e-300, 1e-300]]
    for rates in ([0.3, 0.3, 0.4], [0.4, 0.1, 0.5], br.Rates.between(0.1, 0.6)):
        for bounded in (True, False):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", br.NotConvergedWarning)
                with contextlib.suppress(br.BaserateError):  # some have no unbounded adjustment
                    result = br.adjust(some_zeros, rates, loss=loss, bounded=bounded)
                    assert np.isfinite(result.apply(some_zeros)).all()
                    assert loss.score(some_zeros, [0, 1, 2, 2, 1]) >= 0


class BrierWithOneFault(br.losses.Loss):
    """Brier score with one incorrect method."""

    name = "brier_with_one_fault"

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.correct = br.losses.Brier()

    def phi(self, q: Any) -> Any:
        return -self.correct.phi(q) if self.fault == "convexity" else self.correct.phi(q)

    def gradient(self, q: Any) -> Any:
        sign = {"gradient": 1.5, "convexity": -1.0}.get(self.fault, 1.0)
        return sign * self.correct.gradient(q)

    def row_map(self, x: Any, *, bounded: bool = True) -> Any:
        return self.correct.row_map(2 * x if self.fault == "row_map" else x, bounded=bounded)

    def jacobian(self, a: Any, weights: Any, *, bounded: bool = True) -> Any:
        return (2 if self.fault == "jacobian" else 1) * self.correct.jacobian(a, weights, bounded=bounded)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("gradient", r"gradient is not the derivative of phi, for example at p = \["),
        ("convexity", r"phi is not strictly convex, for example at p = \["),
        ("row_map", r"row_map is not the inverse of link, for example at p = \["),
        ("jacobian", r"jacobian is not the derivative of row_map, for example at p = \["),
    ],
)
def test_a_subclass_with_an_incorrect_method_is_refused(fault: str, message: str) -> None:
    with pytest.raises(errors.BadLoss, match=message):
        br.adjust(P, R, loss=BrierWithOneFault(fault))


def test_an_incorrect_loss_is_checked_even_if_it_equals_one_that_was_checked() -> None:
    correct = BrierWithOneFault("none")
    br.adjust(P, R, loss=correct)
    assert correct == BrierWithOneFault("gradient")  # both have no params
    with pytest.raises(errors.BadLoss, match="gradient is not the derivative"):
        br.adjust(P, R, loss=BrierWithOneFault("gradient"))


def test_a_loss_is_checked_once_and_gets_no_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[int] = []
    check_generator = check._check_generator
    monkeypatch.setattr(check, "_check_generator", lambda loss, k: checked.append(k) or check_generator(loss, k))
    loss = BrierWithOneFault("none")
    attributes = set(vars(loss))
    for _ in range(3):
        br.adjust(P, R, loss=loss)
    br.adjust([[0.4, 0.6]], [0.5, 0.5], loss=loss)
    assert checked == [3, 2], "once for each number of classes"
    assert set(vars(loss)) == attributes
    key = id(loss)
    assert key in check._PASSED
    del loss
    gc.collect()
    assert key not in check._PASSED


def test_divergence_and_score_refuse_wrong_shapes_and_types() -> None:
    for loss in (br.losses.Log(), br.losses.Brier(), br.losses.Power(1.5)):
        with pytest.raises(errors.BadProbabilities, match=r"p has shape \(2, 3\), but q has shape \(1, 3\)"):
            loss.divergence(P, P[:1])
    with pytest.raises(errors.BadProbabilities, match="dtype complex128"):
        br.losses.Log().score(np.array(P) + 0j, [0, 1])
    with pytest.raises(errors.BadLabels, match="but there are 0 predictions"):
        br.theory.class_rates(3, 3)


def test_a_correct_subclass_passes_the_checks() -> None:
    np.testing.assert_allclose(
        br.adjust(P, R, loss=BrierWithOneFault("none")).probs, br.adjust(P, R, loss="brier").probs
    )
