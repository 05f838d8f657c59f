"""Parts of losses on their own: softening, roots, numerical inverses, equality, and checks of users' losses."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from support import ALL_LOSSES, COMMON_LOSSES, Array, loss_id

import baserate as br
from baserate import errors
from baserate.losses import Loss
from baserate.losses.base import short_name
from baserate.losses.check import check_loss
from baserate.losses.projection import onto_simplex
from baserate.losses.roots import root_of_increasing
from baserate.losses.softened import Softened

R = [0.5, 0.3, 0.2]
P = [[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]]


def inner_points(k: int, n: int = 20, seed: int = 0) -> Array:
    return 0.98 * np.random.default_rng(seed).dirichlet(np.ones(k), size=n) + 0.02 / k


# Softened losses


SOFTENED = [
    Softened(br.losses.Power(3), 1e-2),
    Softened(br.losses.Power(8), 1e-4),
    Softened(br.losses.Power(12), 1e-10),
    Softened(br.losses.Separable(lambda q: q**4, lambda q: 4 * q**3, lambda q: 12 * q**2), 1e-3),
]
every_softened = pytest.mark.parametrize("loss", SOFTENED, ids=lambda loss: f"{loss.loss!r} {loss.share}")


@every_softened
def test_a_softened_loss_is_the_loss_plus_a_share_of_brier(loss: Softened) -> None:
    q = inner_points(4)
    brier = br.losses.Brier()
    np.testing.assert_allclose(loss.phi(q), loss.loss.phi(q) + loss.share * brier.phi(q), rtol=1e-14)
    np.testing.assert_allclose(loss.gradient(q), loss.loss.gradient(q) + loss.share * brier.gradient(q), rtol=1e-14)
    difference = loss.link(q) - loss.gradient(q)
    np.testing.assert_allclose(difference, np.broadcast_to(difference[:, :1], q.shape), atol=1e-12)


@every_softened
def test_derivatives_of_a_softened_loss_agree_with_finite_differences(loss: Softened) -> None:
    q, h = np.linspace(0.05, 0.95, 19), 1e-6
    np.testing.assert_allclose(loss.df(q), (loss.f(q + h) - loss.f(q - h)) / (2 * h), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(loss.ddf(q), (loss.df(q + h) - loss.df(q - h)) / (2 * h), rtol=1e-6, atol=1e-9)
    assert float(loss.ddf(np.zeros(1))[0]) == 2 * loss.share
    assert not loss.flat_at_zero


@every_softened
def test_the_inverse_of_a_softened_link_keeps_all_digits(loss: Softened) -> None:
    q = np.concatenate([10.0 ** np.linspace(-6, -1, 60), np.linspace(0.1, 1, 40)])[None]
    link_at_zero = float(loss.link(np.zeros(1))[0])
    x = loss.link(q)
    visible = x - link_at_zero > 1e-6 * abs(link_at_zero)
    np.testing.assert_allclose(loss.inverse_link(x)[visible], q[visible], rtol=1e-9)
    assert not loss.inverse_link(np.full((1, 3), link_at_zero - 1.0)).any()


@every_softened
def test_rows_of_a_softened_loss_satisfy_their_conditions(loss: Softened) -> None:
    rng = np.random.default_rng(1)
    p = inner_points(4, 40)
    np.testing.assert_allclose(loss.row_map(loss.link(p)), p, atol=1e-9)
    x = loss.link(p) + 0.3 * np.ptp(loss.link(p)) * rng.normal(size=p.shape)
    a = loss.row_map(x)
    np.testing.assert_allclose(a.sum(axis=1), 1, atol=1e-13)
    slope = loss.link(a) - x  # the same on the support of a row, and no smaller elsewhere
    inside = np.where(a > 0, slope, np.nan)
    assert (np.nanmax(inside, axis=1) - np.nanmin(inside, axis=1) <= 1e-10 * (1 + np.abs(x).max())).all()
    assert (np.where(a > 0, np.inf, slope).min(axis=1) >= np.nanmax(inside, axis=1) - 1e-10).all()


def test_the_jacobian_of_a_softened_loss_agrees_with_finite_differences() -> None:
    loss, p, h = SOFTENED[0], inner_points(4, 1), 1e-6
    x = loss.link(p)
    d = np.array([0.5, -0.2, -0.4, 0.1])
    numeric = (loss.row_map(x + h * d) - loss.row_map(x - h * d))[0] / (2 * h)
    np.testing.assert_allclose(loss.jacobian(p, np.ones(1)) @ d, numeric, rtol=1e-5)


def test_only_separable_losses_can_be_softened() -> None:
    with pytest.raises(errors.BadLoss, match="only a separable loss"):
        Softened(br.losses.Spherical(), 1e-3)


# Roots, inverses and projections


def test_roots_of_many_functions_at_once_and_their_brackets() -> None:
    roots = np.array([[-0.9], [0.0], [1e-9], [0.3], [0.5], [0.999]])
    exponent = np.array([[1.0], [3.0], [1.0], [5.0], [0.5], [1.0]])

    def evaluate(t: Array, rows: Any) -> tuple[Array, Array]:
        away, power = t - roots[rows], exponent[rows]
        with np.errstate(divide="ignore"):
            return np.sign(away) * np.abs(away) ** power, power * np.abs(away) ** (power - 1)

    low, high = np.full_like(roots, -1.0), np.full_like(roots, 1.0)
    found, below, above = root_of_increasing(evaluate, low, high, tolerance=0.0)
    np.testing.assert_allclose(found, roots, atol=1e-15)
    assert (below <= roots + 1e-100).all()  # near 0 the cube underflows to 0
    assert (above >= roots - 1e-100).all()
    assert (above - below <= 2.0).all()
    started, _, _ = root_of_increasing(evaluate, low, high, 0.0, start=np.full_like(roots, 0.7))
    np.testing.assert_allclose(started, roots, atol=1e-15)


def test_a_jump_over_zero_is_bracketed_by_neighbouring_numbers() -> None:
    def step(t: Array, rows: Any) -> tuple[Array, Array]:
        return np.where(t < 0.3, -1.0, 1.0), np.zeros_like(t)

    found, low, high = root_of_increasing(step, np.zeros((1, 1)), np.ones((1, 1)), 1e-12)
    assert float(low[0, 0]) < 0.3 <= float(high[0, 0])
    assert float(high[0, 0]) == np.nextafter(float(low[0, 0]), 1.0)
    assert float(found[0, 0]) == pytest.approx(0.3, abs=1e-15)


def test_root_finding_stops_where_the_value_is_within_the_tolerance() -> None:
    n_calls = 0

    def evaluate(t: Array, rows: Any) -> tuple[Array, Array]:
        nonlocal n_calls
        n_calls += 1
        return t**3 - 0.1, 3 * t**2

    found, _, _ = root_of_increasing(evaluate, np.zeros((1, 1)), np.ones((1, 1)), tolerance=1e-3)
    assert abs(float(found[0, 0]) ** 3 - 0.1) <= 1e-3
    assert n_calls <= 6


@pytest.mark.parametrize("loss", [br.losses.Brier(), br.losses.WeightedBrier([1.0, 2.0, 3.0, 1e-3])], ids=str)
def test_dual_points_that_are_very_far_apart_give_the_largest_one_all_probability(loss: Loss) -> None:
    for size in (1e3, 1e18, 1e30):
        a = loss.row_map(size * np.array([[0.0, -1.0, -3.0, -2.0], [-5.0, -4.0, 7.0, -7.0]]))
        np.testing.assert_array_equal(a, [[1, 0, 0, 0], [0, 0, 1, 0]])


def test_rounding_of_the_largest_entry_does_not_clip_all_of_a_row() -> None:
    rng = np.random.default_rng(0)
    for size in (1e16, 1e18, 1e30):
        spread = 10.0 ** rng.uniform(-1, 2, size=4)
        a = onto_simplex(size * rng.normal(size=(200, 4)), spread)
        np.testing.assert_allclose(a.sum(axis=1), 1, atol=1e-15)


def test_the_projection_of_a_quadratic_loss_ends_as_soon_as_no_class_would_lower_the_objective(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n_pivots = 0
    pivot = br.losses.Quadratic._pivot

    def counted(*args: Any) -> Any:
        nonlocal n_pivots
        n_pivots += 1
        return pivot(*args)

    monkeypatch.setattr(br.losses.Quadratic, "_pivot", counted)
    rng = np.random.default_rng(2)
    root = rng.normal(size=(5, 5))
    loss = br.losses.Quadratic(root @ root.T + 0.1 * np.eye(5))
    loss.row_map(3.0 * rng.normal(size=(50, 5)))
    assert 1 <= n_pivots <= 10


@pytest.mark.parametrize("beta", [0.5, 1.005, 1.5, 3.0])
def test_rows_of_a_power_loss_sum_to_1_to_the_last_digits(beta: float) -> None:
    rng, loss = np.random.default_rng(0), br.losses.Power(beta)
    a = loss.row_map(loss.link(rng.dirichlet(np.full(6, 0.5), size=400)) + rng.normal(size=6))
    assert np.abs(a.sum(axis=1) - 1).max() <= 5e-16


def test_an_entry_that_underflows_beside_two_others_is_positive() -> None:
    loss = br.losses.Power(1.005)
    link_at_zero = float(loss.link(np.zeros(1))[0])
    x = loss.link(np.array([[0.4, 0.6, 0.1]]))
    x[0, 2] = 0.999 * link_at_zero
    np.testing.assert_allclose(loss.row_map(x), [[0.4, 0.6, 0]], atol=1e-12)
    assert loss.row_map(x)[0, 2] > 0
    x[0, 2] = 1.1 * link_at_zero  # below the link of 0, so it is exactly 0
    assert loss.row_map(x)[0, 2] == 0


def test_the_domain_of_a_loss_says_whether_unbounded_entries_may_be_negative() -> None:
    assert str(br.losses.Log().domain) == "[0, inf)"
    assert str(br.losses.Brier().domain) == "(-inf, inf)"


@pytest.mark.parametrize("domain", [br.losses.REAL, br.losses.NONNEGATIVE])
def test_a_numerical_inverse_agrees_with_the_exact_one(domain: Any) -> None:
    numeric = br.losses.Separable(np.cosh, np.sinh, np.cosh, domain=domain)
    exact = br.losses.Separable(np.cosh, np.sinh, np.cosh, np.arcsinh, domain=domain)
    x = np.concatenate([np.sinh(np.linspace(-20, 20, 81)), [0.0, 1e-9, -1e-9, np.sinh(1), -np.sinh(1)]])[None]
    np.testing.assert_allclose(numeric.inverse_link(x), exact.inverse_link(x), rtol=1e-13, atol=1e-15)
    if domain == br.losses.NONNEGATIVE:
        np.testing.assert_array_equal(numeric.inverse_link(x)[x <= 0], 0.0)  # exactly, or they would count as support


@pytest.mark.parametrize("spread", [None, np.array([0.5, 2.0, 0.1, 1.0])])
def test_projection_onto_the_simplex_agrees_with_a_general_solver(spread: Array | None) -> None:
    rng = np.random.default_rng(2)
    z = rng.normal(size=(15, 4)) * rng.choice([0.1, 1.0, 10.0], size=(15, 1))
    weight = np.ones(4) if spread is None else 1 / spread
    for row, a in zip(z, onto_simplex(z, spread), strict=True):
        assert a.sum() == pytest.approx(1, abs=1e-14)
        assert a.min() >= 0
        best = min(
            minimize(
                lambda b, row=row: float(weight @ (b - row) ** 2),
                start,
                bounds=[(0, 1)] * 4,
                constraints={"type": "eq", "fun": lambda b: b.sum() - 1},
                method="SLSQP",
                options={"ftol": 1e-14},
            ).fun
            for start in (np.full(4, 0.25), a)
        )
        assert weight @ (a - row) ** 2 <= best + 1e-9 * (1 + best)


# Values, names and equality


@pytest.mark.parametrize(("loss", "k"), ALL_LOSSES, ids=loss_id)
def test_a_divergence_is_never_negative_even_by_rounding(loss: Loss, k: int) -> None:
    p = inner_points(k, 300, seed=3)
    nearby = p * (1 + 1e-9 * np.random.default_rng(4).normal(size=p.shape))
    nearby /= nearby.sum(axis=1, keepdims=True)
    assert (loss.divergence(p, p) >= 0).all()
    assert (loss.divergence(p, nearby) >= 0).all()


def test_losses_are_equal_if_class_and_parameters_are() -> None:
    losses = [
        *COMMON_LOSSES,
        br.losses.Power(1.6),
        br.losses.WeightedBrier([1, 2]),
        br.losses.Quadratic(np.diag([1, 2])),
    ]
    for i, one in enumerate(losses):
        for j, other in enumerate(losses):
            assert (one == other) == (i == j)
    assert br.losses.Power(1.5) == br.losses.Power(1.5)
    assert hash(br.losses.Power(1.5)) == hash(br.losses.Power(1.5))
    functions = (np.cosh, np.sinh, np.cosh)
    assert br.losses.Separable(*functions) == br.losses.Separable(*functions)
    assert br.losses.Separable(*functions) != br.losses.Separable(*functions, np.arcsinh)


def test_short_names_for_tables() -> None:
    assert short_name(br.losses.Log()) == "log"
    assert short_name(br.losses.RankedProbability()) == "rankedprobability"
    assert short_name(br.losses.Power(1.5)) == "Power(beta=1.5)"
    assert short_name(br.losses.Quadratic(np.eye(6))) == "Quadratic(...)"


def test_the_losses_of_the_package_are_registered() -> None:
    names = {cls.name for cls in br.losses.registered()}
    assert names >= {"brier", "log", "power", "quadratic", "ranked", "separable", "spherical", "weighted_brier"}


def test_only_losses_with_an_infinite_slope_at_zero_pin_zeros() -> None:
    assert [br.losses.Power(beta).pins_zeros for beta in (0.5, 1.0, 1 + 1e-9, 2.0)] == [True, True, False, False]
    assert [br.losses.Power(beta).flat_at_zero for beta in (1.0, 1.5, 2.0, 2.5, 8.0)] == [
        False,
        False,
        False,
        True,
        True,
    ]


# Quadratic losses


def test_the_number_of_classes_is_checked_before_rows_are_read() -> None:
    with pytest.raises(errors.BadLoss, match="this Quadratic loss has 4 classes, but the predictions have 3"):
        check_loss(br.losses.Quadratic(np.eye(4)), 3)


def test_a_loss_of_the_user_may_use_the_name_n_classes() -> None:
    class Named(br.losses.Brier):
        builtin = False

        def n_classes(self) -> int:
            return 3

    p, rates = [[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]], [0.2, 0.5, 0.3]
    assert br.adjust(p, rates, loss=Named()).shift == pytest.approx(br.adjust(p, rates, loss="brier").shift)


def test_a_diagonal_matrix_with_a_zero_is_still_a_loss() -> None:
    # It is positive definite on vectors that sum to 0, which is all that counts.
    loss = br.losses.Quadratic(np.diag([1.0, 1.0, 0.0]))
    rng = np.random.default_rng(5)
    x = loss.link(inner_points(3, 10)) + rng.normal(size=(10, 3))
    a = loss.row_map(x)
    grid = np.array([(i, j, 60 - i - j) for i in range(61) for j in range(61 - i)]) / 60
    for row, given in zip(x, a, strict=True):
        assert loss.phi(given[None])[0] - row @ given <= (loss.phi(grid) - grid @ row).min() + 1e-12
    result = br.adjust(inner_points(3, 50), [0.5, 0.3, 0.2], loss=loss)
    assert result.converged


def test_a_matrix_needs_at_least_two_classes() -> None:
    for matrix in ([[1.0]], 1.0, [1.0, 2.0], np.ones((0, 0))):
        with pytest.raises(errors.BadLoss, match="square matrix"):
            br.losses.Quadratic(matrix)
    assert br.losses.Quadratic(np.eye(2)).matrix.shape == (2, 2)


def test_the_message_about_an_indefinite_matrix_names_a_direction_in_which_it_fails() -> None:
    matrix = np.diag([2.0, 1.0, -3.0])
    with pytest.raises(errors.BadLoss, match="not positive definite") as caught:
        br.losses.Quadratic(matrix)
    numbers = re.search(r"in the direction \[([^\]]+)\]", str(caught.value))
    assert numbers is not None
    direction = np.array([float(text) for text in numbers[1].split()])
    assert direction.sum() == pytest.approx(0, abs=1e-3)
    assert direction @ matrix @ direction < 0


# Checks of users' losses


def test_a_constant_in_f_does_not_matter() -> None:
    # The large constant costs digits of the slope, for which the check has to allow.
    shifted = br.losses.Separable(lambda q: q**2 + 1e6, lambda q: 2 * q, lambda q: 0 * q + 2, lambda x: x / 2)
    np.testing.assert_allclose(br.adjust(P, R, loss=shifted).probs, br.adjust(P, R, loss="brier").probs, atol=1e-9)


def test_an_infinite_value_at_one_is_refused() -> None:
    def f(q: Array) -> Array:
        return -np.log(1 - q)

    with pytest.raises(errors.BadLoss, match="f is inf at q = 1"):
        br.losses.Separable(f, lambda q: 1 / (1 - q), lambda q: (1 - q) ** -2.0)


def test_convexity_below_zero_is_only_needed_on_all_reals() -> None:
    cubic = (lambda q: q**3 + q, lambda q: 3 * q**2 + 1, lambda q: 6 * q)
    assert br.losses.Separable(*cubic).domain == br.losses.NONNEGATIVE
    with pytest.raises(errors.BadLoss, match="not strictly convex"):
        br.losses.Separable(*cubic, domain=br.losses.REAL)


def test_an_inverse_is_checked_at_the_values_of_the_derivative() -> None:
    # The inverse is only defined there: it fails for arguments below 100.
    def inverse(x: Array) -> Array:
        assert (x >= 100).all()
        return (x - 100) / 2

    loss = br.losses.Separable(lambda q: q**2 + 100 * q, lambda q: 2 * q + 100, lambda q: 0 * q + 2, inverse)
    np.testing.assert_allclose(loss.inverse_link(np.array([[101.0]])), 0.5)


class AlmostBrier(br.losses.Loss):
    """Brier score in which one method is off by a small factor."""

    name = "almost_brier"

    def __init__(self, method: str, factor: float) -> None:
        self.method, self.factor = method, factor

    def _scaled(self, method: str, value: Array) -> Array:
        return value * (self.factor if method == self.method else 1.0)

    def phi(self, q: Array) -> Array:
        return br.losses.Brier().phi(q)

    def gradient(self, q: Array) -> Array:
        return self._scaled("gradient", br.losses.Brier().gradient(q))

    def link(self, p: Array) -> Array:
        return br.losses.Brier().gradient(p)

    def row_map(self, x: Array, *, bounded: bool = True) -> Array:
        return br.losses.Brier().row_map(x, bounded=bounded)

    def jacobian(self, a: Array, weights: Array, *, bounded: bool = True) -> Array:
        return self._scaled("jacobian", br.losses.Brier().jacobian(a, weights, bounded=bounded))


@pytest.mark.parametrize("method", ["gradient", "jacobian"])
@pytest.mark.parametrize("factor", [1.01, 0.99])
def test_methods_that_are_off_by_one_per_cent_are_refused(method: str, factor: float) -> None:
    with pytest.raises(errors.BadLoss, match=f"{method} is not the derivative"):
        br.adjust(P, R, loss=AlmostBrier(method, factor))
    assert br.adjust(P, R, loss=AlmostBrier(method, 1.0)).converged


def test_an_unbounded_entry_of_a_separable_loss_may_exceed_1() -> None:
    loss = br.losses.Separable(np.cosh, np.sinh, np.cosh, np.arcsinh, domain=br.losses.REAL)
    x = np.array([[0.0, -3.0, -3.0], [0.0, -40.0, -0.5]])
    a = loss.row_map(x, bounded=False)
    assert (a[:, 0] > 1).all()
    np.testing.assert_allclose(a.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(np.ptp(np.sinh(a) - x, axis=1), 0.0, atol=1e-10)


@pytest.mark.parametrize("root", [0.3, np.nextafter(0.3, 1)])  # with an even and an odd last digit
def test_a_root_between_two_neighbouring_numbers_ends_the_search(root: float) -> None:
    n_evaluations = 0

    def step(t: Array, rows: Any) -> tuple[Array, Array]:
        nonlocal n_evaluations
        n_evaluations += 1
        return np.where(t > root, 1.0, -1.0), np.ones_like(t)

    _, low, high = root_of_increasing(step, np.zeros((1, 1)), np.ones((1, 1)), tolerance=1e-16)
    assert low[0, 0] == root
    assert high[0, 0] == np.nextafter(root, 1)
    assert n_evaluations <= 70
