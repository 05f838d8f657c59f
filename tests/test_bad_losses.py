"""Losses that cannot be used, and generators that define no proper loss, are refused with a point where they fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import baserate as br
from baserate import errors

P = [[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]]
R = [0.5, 0.3, 0.2]


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (
            "logloss",
            r"unknown loss 'logloss'; use one of 'brier', 'log', 'ranked', 'spherical' or an object of br\.losses",
        ),
        ("power", r"it needs parameters, so pass br\.losses\.Power\(\.\.\.\)"),
        (br.losses.Brier, r"pass an instance, Brier\(\.\.\.\), not the class"),
        (3, r"unknown loss 3"),
        (br.losses.Quadratic(np.eye(4)), r"Quadratic was made for 4 classes, but there are 3"),
    ],
)
def test_unknown_or_unfitting_losses(loss: Any, message: str) -> None:
    with pytest.raises(errors.BadLoss, match=message):
        br.adjust(P, R, loss=loss)


@pytest.mark.parametrize("beta", [0, -1, np.nan, np.inf, "2", None, True, 1j])
def test_bad_beta(beta: Any) -> None:
    with pytest.raises(errors.BadLoss, match="Power needs a"):
        br.losses.Power(beta)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), r"square matrix of at least 2 classes, not one of shape \(2, 3\)"),
        ([[1, 2], [0, 1]], r"not symmetric: entry \(0, 1\) is 2, \(1, 0\) is 0"),
        ([[1, np.nan], [np.nan, 1]], r"not finite"),
        ([[1, 0, 0], [0, 1, 0], [0, 0, -3]], r"not positive definite on vectors that sum to 0.*along \["),
        (np.ones((3, 3)), r"not positive definite"),
        ("abc", r"square matrix of real numbers, not 'abc'"),
        ([[1j, 0], [0, 1]], r"square matrix of real numbers"),
    ],
)
def test_bad_matrix(matrix: Any, message: str) -> None:
    with pytest.raises(errors.BadLoss, match=message):
        br.losses.Quadratic(matrix)


@pytest.mark.parametrize("weights", [[1, 0], [1, -1], [[1, 2]], [1, np.inf], "ab", [1j, 1]])
def test_bad_class_weights(weights: Any) -> None:
    with pytest.raises(errors.BadLoss, match="class weights must be finite numbers above 0"):
        br.losses.WeightedBrier(weights)


def square(q: np.ndarray) -> np.ndarray:
    return q**2


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ((square, lambda q: 3 * q, lambda q: 0 * q + 3), r"df is not the derivative of f: at q = 1e-06 it gives 3e-06"),
        (
            (square, lambda q: 2 * q, lambda q: 0 * q + 1),
            r"ddf is not the derivative of df: at q = .* it gives 1, but 2",
        ),
        (
            (square, lambda q: 2 * q, lambda q: 0 * q + 2, lambda x: x),
            r"df_inverse is not the inverse of df: at df\(q\), q =",
        ),
        (
            (lambda q: -(q**2), lambda q: -2 * q, lambda q: 0 * q - 2),
            r"f is not strictly convex: df is -2e-06 at q = 1e-06 and -0\.0002 at q = 0\.0001",
        ),
        (
            (lambda q: q**3 - q**2, lambda q: 3 * q**2 - 2 * q, lambda q: 6 * q - 2),
            r"f is not strictly convex",
        ),
        ((lambda q: 3 * q, lambda q: 0 * q + 3, lambda q: 0 * q), r"f is not strictly convex"),
        ((square, lambda q: 2.0, lambda q: 0 * q + 2), r"df must answer element by element, but gave shape \(\)"),
        ((square, "2q", lambda q: 0 * q + 2), r"df must be a function"),
        (
            (square, lambda q: 1 / 0, lambda q: 0 * q + 2),
            r"df failed on an array of numbers from 0 to 1: division by zero",
        ),
        ((lambda q: np.log(q - 0.5), lambda q: 2 * q, lambda q: 0 * q + 2), r"f is nan at 1e-06; it must be finite"),
        ((lambda q: 1 / q, lambda q: -(q**-2.0), lambda q: 2 * q**-3.0), r"f is inf at q = 0; .* infinite loss"),
        ((lambda q: q * np.log(q), lambda q: np.log(q) + 1, lambda q: 1 / q), r"f is nan at q = 0"),
    ],
)
def test_generators_that_define_no_proper_loss(functions: tuple[Any, ...], message: str) -> None:
    with pytest.raises(errors.BadLoss, match=message):
        br.losses.Separable(*functions)


class Wrong(br.losses.Loss):
    """Brier score with one method broken."""

    name = "wrong"

    def __init__(self, broken: str) -> None:
        self.broken = broken
        self.good = br.losses.Brier()

    def phi(self, q: Any) -> Any:
        return -self.good.phi(q) if self.broken == "convexity" else self.good.phi(q)

    def gradient(self, q: Any) -> Any:
        sign = {"gradient": 1.5, "convexity": -1.0}.get(self.broken, 1.0)
        return sign * self.good.gradient(q)

    def row_map(self, x: Any, *, bounded: bool = True) -> Any:
        return self.good.row_map(2 * x if self.broken == "row_map" else x, bounded=bounded)

    def jacobian(self, a: Any, weights: Any, *, bounded: bool = True) -> Any:
        return (2 if self.broken == "jacobian" else 1) * self.good.jacobian(a, weights, bounded=bounded)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("gradient", r"gradient is not the derivative of phi, for instance at p = \["),
        ("convexity", r"phi is not strictly convex, for instance at p = \["),
        ("row_map", r"row_map does not undo link, for instance at p = \["),
        ("jacobian", r"jacobian is not the derivative of row_map, for instance at p = \["),
    ],
)
def test_a_subclass_with_a_wrong_method_is_told_where(broken: str, message: str) -> None:
    with pytest.raises(errors.BadLoss, match=message):
        br.adjust(P, R, loss=Wrong(broken))


def test_a_wrong_loss_is_checked_even_beside_an_equal_looking_right_one() -> None:
    right = Wrong("nothing")
    br.adjust(P, R, loss=right)
    assert right == Wrong("gradient")  # they have the same params: none
    with pytest.raises(errors.BadLoss, match="gradient is not the derivative"):
        br.adjust(P, R, loss=Wrong("gradient"))


def test_shapes_of_divergences() -> None:
    for loss in (br.losses.Log(), br.losses.Brier(), br.losses.Power(1.5)):
        with pytest.raises(errors.BadProbabilities, match=r"p has shape \(2, 3\), but q has shape \(1, 3\)"):
            loss.divergence(P, P[:1])
    with pytest.raises(errors.BadProbabilities, match="dtype complex128"):
        br.losses.Log().score(np.array(P) + 0j, [0, 1])
    with pytest.raises(errors.BadLabels, match="but there are 0 predictions"):
        br.theory.class_rates(3, 3)


def test_a_right_subclass_passes_the_same_checks() -> None:
    np.testing.assert_allclose(br.adjust(P, R, loss=Wrong("nothing")).probs, br.adjust(P, R, loss="brier").probs)
