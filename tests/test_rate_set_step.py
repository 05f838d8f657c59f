"""Newton's step within a rate set, against a quadratic program that another solver solves."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog, minimize_scalar
from support import Array

from baserate.core import rate_set_step
from baserate.core.rate_set_step import newton, solve_centred
from baserate.rates.balls import Ball
from baserate.rates.sets import RateSet


def laplacian_of_rows(rng: np.random.Generator, k: int, n: int = 20, sharpness: float = 1.0) -> tuple[Array, Array]:
    """The curvature of the log loss on random predictions, and their mean."""
    rows = rng.dirichlet(np.full(k, 1 / sharpness), size=n)
    return np.diag(rows.mean(axis=0)) - rows.T @ rows / n, rows.mean(axis=0)


def random_box(rng: np.random.Generator, k: int) -> RateSet:
    """A box around a random point of the simplex; some sides are unknown and some classes are fixed."""
    inside = rng.dirichlet(np.ones(k))
    width = rng.choice([0.01, 0.1, 0.4])
    low, high = np.maximum(inside - width * rng.random(k), 0), np.minimum(inside + width * rng.random(k), 1)
    low, high = np.where(rng.random(k) < 0.3, 0.0, low), np.where(rng.random(k) < 0.3, 1.0, high)
    fixed = rng.random(k) < 0.2
    return RateSet.box(np.where(fixed, inside, low), np.where(fixed, inside, high))


def random_shift(rng: np.random.Generator, k: int) -> Array:
    """Zero, any numbers, or numbers of which some are equal."""
    return [np.zeros(k), rng.normal(size=k), rng.integers(-1, 2, size=k).astype(float)][rng.integers(3)]


def model_value(rate_set: RateSet, matrix: Array, mean: Array, shift: Array, x: Array) -> float:
    """What :func:`newton` maximises; the support function of a box is found by linear programming."""
    step = x - shift
    if not rate_set.is_curved:
        bounds = np.column_stack([rate_set.low, rate_set.high])
        lowest = linprog(x, A_eq=np.ones((1, len(x))), b_eq=[1.0], bounds=bounds).fun
    else:
        t = cp.Variable(len(x))
        lowest = _solved(x @ t, t, rate_set)
    return float(-mean @ step - 0.5 * step @ matrix @ step + lowest)


def _solved(objective: object, t: cp.Variable, rate_set: RateSet) -> float:
    constraints = [t >= rate_set.low, t <= rate_set.high, cp.sum(t) == 1]
    ball = rate_set.region
    if isinstance(ball, Ball):
        constraints.append(cp.norm(cp.multiply(np.sqrt(ball.scale), t - ball.centre)) <= ball.radius)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver="CLARABEL")
    assert problem.status == "optimal"
    return float(problem.value)


def quadratic_program(rate_set: RateSet, matrix: Array, mean: Array, shift: Array) -> tuple[float, Array]:
    """The least ``<shift, t> + 1/2 <t - mean, inverse (t - mean)>`` over rates t of the set, and these rates.

    This is the dual of the problem that :func:`newton` solves, so both have the same value.
    """
    values, vectors = np.linalg.eigh(matrix)
    root = vectors[:, 1:] / np.sqrt(values[1:])  # without the all-ones direction
    t = cp.Variable(len(mean))
    least = _solved(shift @ t + 0.5 * cp.sum_squares(root.T @ (t - mean)), t, rate_set)
    return least, np.asarray(t.value)


def assert_maximises(rate_set: RateSet, matrix: Array, mean: Array, shift: Array, x: Array) -> None:
    least, rates = quadratic_program(rate_set, matrix, mean, shift)
    # Every value of the model is at most ``least``, so a point that reaches it is a maximum.
    assert model_value(rate_set, matrix, mean, shift, x) == pytest.approx(least, abs=1e-6 * (1 + abs(least)))
    reached = mean + matrix @ (x - shift)
    np.testing.assert_allclose(reached, rates, atol=2e-3)
    assert rate_set.distance(reached) <= 1e-9
    # The shift supports these rates: they are where <x, t> is least.
    assert x @ reached == pytest.approx(x @ rate_set.support(x, reached), abs=1e-9 * (1 + np.abs(x).max()))


# Points


@pytest.mark.parametrize("k", [2, 3, 8])
def test_a_step_to_exact_rates_reaches_them(k: int) -> None:
    rng = np.random.default_rng(k)
    for _ in range(20):
        matrix, mean = laplacian_of_rows(rng, k)
        rates, shift = rng.dirichlet(np.ones(k)), random_shift(rng, k)
        x = newton(RateSet.point(rates), matrix, mean, shift)
        np.testing.assert_allclose(mean + matrix @ (x - shift), rates, atol=1e-10)


def test_solve_centred_solves_for_a_matrix_that_is_zero_along_the_ones() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        matrix = laplacian_of_rows(rng, 5)[0]
        gradient = rng.normal(size=5) * 1e-3
        gradient -= gradient.mean()
        step = solve_centred(matrix, gradient)
        np.testing.assert_allclose(matrix @ step, gradient, atol=1e-13)
        expected = np.linalg.pinv(matrix) @ gradient
        np.testing.assert_allclose(step - step.mean(), expected, atol=1e-8)


def test_solve_centred_keeps_the_digits_of_rare_classes() -> None:
    rates = np.array([1e-12, 1e-6, 1.0])
    rates /= rates.sum()
    matrix = np.diag(rates) - np.outer(rates, rates)
    gradient = matrix @ np.array([3.0, -2.0, 0.5])
    step = solve_centred(matrix, gradient)
    np.testing.assert_allclose(step - step[2], [2.5, -2.5, 0.0], rtol=1e-3)


# Boxes


@pytest.mark.parametrize("rounds", ["block pivoting", "active set"])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_step_in_a_box_agrees_with_a_quadratic_program(k: int, rounds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if rounds == "active set":
        monkeypatch.setattr(rate_set_step, "_PIVOTING_ROUNDS", 0)
    rng = np.random.default_rng(10 + k)
    for _ in range(30):
        matrix, mean = laplacian_of_rows(rng, k)
        rate_set, shift = random_box(rng, k), random_shift(rng, k)
        assert_maximises(rate_set, matrix, mean, shift, newton(rate_set, matrix, mean, shift))


def test_classes_between_their_bounds_get_exactly_the_same_shift() -> None:
    rng = np.random.default_rng(1)
    compared = 0
    for _ in range(50):
        matrix, mean = laplacian_of_rows(rng, 5)
        rate_set, shift = random_box(rng, 5), random_shift(rng, 5)
        x = newton(rate_set, matrix, mean, shift)
        reached = mean + matrix @ (x - shift)
        between = (reached > rate_set.low + 1e-9) & (reached < rate_set.high - 1e-9)
        assert len(set(x[between])) <= 1
        compared += between.sum() > 1
    assert compared >= 10


def test_mean_rates_inside_the_box_need_no_step() -> None:
    matrix, mean = laplacian_of_rows(np.random.default_rng(2), 4)
    rate_set = RateSet.box(mean - 0.05, mean + 0.05)
    np.testing.assert_allclose(newton(rate_set, matrix, mean, np.zeros(4)), 0, atol=1e-14)


def test_block_pivoting_ends_as_soon_as_no_bound_is_violated(monkeypatch: pytest.MonkeyPatch) -> None:
    n_solved = 0
    solve_for_state = rate_set_step._BoxStep._solve_for_state

    def counted(*args: Any) -> tuple[Array, Array]:
        nonlocal n_solved
        n_solved += 1
        return solve_for_state(*args)

    monkeypatch.setattr(rate_set_step._BoxStep, "_solve_for_state", counted)
    rng = np.random.default_rng(16)
    matrix, mean = laplacian_of_rows(rng, 4)
    newton(RateSet.box(mean - 0.05, mean + 0.05), matrix, mean, np.zeros(4))
    assert n_solved == 1
    for _ in range(50):
        matrix, mean = laplacian_of_rows(rng, 5)
        newton(random_box(rng, 5), matrix, mean, np.zeros(5))
    assert n_solved <= 51 * 6


def test_narrow_bounds_are_rarely_activated_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # All classes but one are at a bound. Pivoting may activate the last one as well, and must not begin again then.
    n_bound = 0
    bind = rate_set_step._BoxStep._bind

    def counted(*args: Any) -> bool:
        nonlocal n_bound
        n_bound += 1
        return bind(*args)

    monkeypatch.setattr(rate_set_step._BoxStep, "_bind", counted)
    rng = np.random.default_rng(3)
    for _ in range(50):
        matrix, mean = laplacian_of_rows(rng, 20, n=60, sharpness=10.0)
        rates = rng.dirichlet(np.full(20, 0.5))
        rate_set = RateSet.box(0.99 * rates, 1.01 * rates)
        x = newton(rate_set, matrix, mean, np.zeros(20))
        assert rate_set.distance(mean + matrix @ x) <= 1e-9
    assert n_bound <= 50 * 6


@pytest.mark.parametrize("k", [2, 3, 6, 12])
@pytest.mark.parametrize("sharpness", [1.0, 10.0])
def test_the_active_set_method_finds_the_same_maximum_as_block_pivoting(
    k: int, sharpness: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(20 + k)
    problems = []
    for _ in range(100):
        matrix, mean = laplacian_of_rows(rng, k, n=60, sharpness=sharpness)
        problems.append((random_box(rng, k), matrix, mean, random_shift(rng, k)))
    by_blocks = [newton(*problem) for problem in problems]
    monkeypatch.setattr(rate_set_step, "_PIVOTING_ROUNDS", 0)
    one_by_one = [newton(*problem) for problem in problems]
    for (rate_set, matrix, mean, shift), first, second in zip(problems, by_blocks, one_by_one, strict=True):
        size = 1 + np.abs(first - shift).max()
        np.testing.assert_allclose(second - second.mean(), first - first.mean(), rtol=0, atol=1e-6 * size)
        assert rate_set.distance(mean + matrix @ (second - shift)) <= 1e-9 * size


@pytest.mark.parametrize("rounds", ["block pivoting", "active set"])
def test_rates_in_a_corner_of_the_box(rounds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # No class is left between its bounds, so nothing but the sum of the bounds makes the rates sum to 1.
    if rounds == "active set":
        monkeypatch.setattr(rate_set_step, "_PIVOTING_ROUNDS", 0)
    rate_set = RateSet.box(np.array([0.1, 0.2, 0.3]), np.array([0.2, 0.5, 0.6]))
    corner = np.array([0.2, 0.5, 0.3])
    rng = np.random.default_rng(3)
    for _ in range(20):
        matrix = laplacian_of_rows(rng, 3)[0]
        mean = np.array([0.5, 0.45, 0.05]) + rng.uniform(-0.04, 0.04) * np.array([1, -1, 0])
        for shift in (np.zeros(3), np.array([-5.0, -4.0, 5.0]), np.array([5.0, 4.0, -5.0])):
            least, rates = quadratic_program(rate_set, matrix, mean, shift)
            x = newton(rate_set, matrix, mean, shift)
            assert model_value(rate_set, matrix, mean, shift, x) == pytest.approx(least, abs=1e-6 * (1 + abs(least)))
            if np.abs(rates - corner).max() < 1e-5:
                np.testing.assert_allclose(mean + matrix @ (x - shift), corner, atol=1e-9)


@pytest.mark.parametrize("rounds", ["block pivoting", "active set"])
def test_all_but_two_classes_fixed(rounds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if rounds == "active set":
        monkeypatch.setattr(rate_set_step, "_PIVOTING_ROUNDS", 0)
    rng = np.random.default_rng(4)
    rate_set = RateSet.box(np.array([0.1, 0.2, 0.0, 0.0]), np.array([0.1, 0.2, 1.0, 0.25]))
    for _ in range(20):
        matrix, mean = laplacian_of_rows(rng, 4)
        shift = random_shift(rng, 4)
        x = newton(rate_set, matrix, mean, shift)
        assert_maximises(rate_set, matrix, mean, shift, x)
        np.testing.assert_allclose((mean + matrix @ (x - shift))[:2], [0.1, 0.2], atol=1e-12)


def test_duplicate_classes_and_bounds_that_meet_exactly() -> None:
    # Two classes that cannot be told apart, with bounds that the unconstrained maximum touches exactly.
    mean = np.array([0.25, 0.25, 0.5])
    matrix = np.diag(mean) - np.outer(mean, mean)
    rate_set = RateSet.box(np.array([0.25, 0.25, 0.0]), np.array([0.4, 0.4, 0.5]))
    np.testing.assert_allclose(newton(rate_set, matrix, mean, np.zeros(3)), 0, atol=1e-12)
    x = newton(RateSet.box(np.array([0.3, 0.3, 0.0]), np.ones(3)), matrix, mean, np.zeros(3))
    assert x[0] == pytest.approx(x[1], abs=1e-12)
    np.testing.assert_allclose(mean + matrix @ x, [0.3, 0.3, 0.4], atol=1e-12)


# Balls


def ball_problem(rng: np.random.Generator, k: int, radius: float) -> tuple[RateSet, Array, Array]:
    centre = rng.dirichlet(np.full(k, 5.0))
    scale = np.ones(k) if rng.random() < 0.5 else 1 / centre
    rate_set = RateSet.box(np.zeros(k), np.ones(k), Ball(centre, scale, radius))
    return (rate_set, *laplacian_of_rows(rng, k))


def test_repeated_steps_with_a_ball_reach_the_solution_of_the_cone_program() -> None:
    # The support function of a ball is not quadratic, so one step is one iteration of Newton's method.
    rng = np.random.default_rng(5)
    for radius in (1e-6, 0.01, 0.05):
        for _ in range(8):
            rate_set, matrix, mean = ball_problem(rng, 4, radius)
            if rate_set.distance(mean) == 0:
                continue
            x = shift = np.zeros(4)
            for _ in range(30):
                x = newton(rate_set, matrix, mean + matrix @ (x - shift), x)
            least, rates = quadratic_program(rate_set, matrix, mean, shift)
            assert model_value(rate_set, matrix, mean, shift, x) == pytest.approx(least, abs=1e-6 * (1 + least))
            np.testing.assert_allclose(mean + matrix @ (x - shift), rates, atol=1e-4)


def support_function(ball: Ball, x: Array) -> float:
    """The least ``<x, t>`` in a ball around rates, in closed form; the ball must lie in the simplex."""
    spread = 1 / ball.scale
    away = x - spread @ x / spread.sum()
    return float(ball.centre @ x - ball.radius * np.sqrt(spread @ away**2))


def numeric_hessian(ball: Ball, x: Array, h: float = 1e-4) -> Array:
    """Second differences of the support function."""

    def second(i: Array, j: Array) -> float:
        corners = [(1, i + j), (-1, i - j), (-1, j - i), (1, -i - j)]
        return sum(sign * support_function(ball, x + h * corner) for sign, corner in corners) / (4 * h * h)

    return np.array([[second(i, j) for j in np.eye(len(x))] for i in np.eye(len(x))])


def test_a_step_with_a_ball_solves_the_second_order_model() -> None:
    rng = np.random.default_rng(6)
    compared = 0
    for _ in range(40):
        rate_set, matrix, mean = ball_problem(rng, 4, 0.1)
        shift, ball = rng.normal(size=4), rate_set.region
        assert isinstance(ball, Ball)
        rates = ball.support(shift)
        if (rates <= 0).any():
            continue
        step = newton(rate_set, matrix, mean, shift) - shift
        curvature = matrix - numeric_hessian(ball, shift)
        np.testing.assert_allclose(curvature @ step, rates - mean, atol=1e-5 * (1 + np.abs(step).max()))
        compared += 1
    assert compared >= 20


def test_the_first_step_towards_a_ball_is_the_best_along_its_normal() -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        rate_set, matrix, mean = ball_problem(rng, 4, 0.02)
        ball = rate_set.region
        assert isinstance(ball, Ball)
        if ball.distance(mean) <= ball.radius:
            continue
        shift = np.full(4, 0.7)
        step = newton(rate_set, matrix, mean, shift) - shift
        slope, bend = mean @ step, step @ matrix @ step
        # The support function is proportional to the length of the step.
        lowest = support_function(ball, step)
        best = minimize_scalar(lambda u, a=slope - lowest, b=bend: a * u + 0.5 * b * u * u, bracket=(0.0, 3.0))
        assert best.fun < 0
        assert best.x == pytest.approx(1, abs=1e-6)


def test_mean_rates_inside_a_ball_need_no_step() -> None:
    matrix, mean = laplacian_of_rows(np.random.default_rng(8), 3)
    rate_set = RateSet.box(np.zeros(3), np.ones(3), Ball(mean, np.ones(3), 0.1))
    inside = mean + np.array([0.01, -0.01, 0.0])
    x = newton(rate_set, matrix, inside, np.full(3, 0.4))
    assert np.ptp(x) < 1e-12  # a constant that is added to all classes is no step


@pytest.mark.parametrize("shift", [np.zeros(3), np.array([1.0, -2.0, 0.3])], ids=["from zero", "from elsewhere"])
def test_a_tiny_ball_is_as_good_as_a_point(shift: Array) -> None:
    matrix, mean = laplacian_of_rows(np.random.default_rng(9), 3)
    centre = np.array([0.2, 0.3, 0.5])
    rate_set = RateSet.box(np.zeros(3), np.ones(3), Ball(centre, np.ones(3), 1e-12))
    exact = newton(RateSet.point(centre), matrix, mean, shift)
    x = newton(rate_set, matrix, mean, shift)
    for _ in range(3):
        x = newton(rate_set, matrix, mean + matrix @ (x - shift), x)
    np.testing.assert_allclose(x - x.mean(), exact - exact.mean(), atol=1e-8)


def test_a_ball_that_reaches_beyond_the_simplex_converges_to_the_solution_of_the_cone_program() -> None:
    rng = np.random.default_rng(11)
    centre = np.array([0.03, 0.47, 0.3, 0.2])
    at_zero = 0
    for scale in (np.ones(4), np.array([1.0, 3.0, 2.0, 1.0])):
        rate_set = RateSet.box(np.zeros(4), np.ones(4), Ball(centre, scale, 0.15))
        for _ in range(8):
            rows = rng.dirichlet([0.2, 0.5, 2.0, 2.0], size=50)
            matrix, mean = np.diag(rows.mean(axis=0)) - rows.T @ rows / 50, rows.mean(axis=0)
            shift = np.array([4.0, 0.0, 0.0, 0.0])  # pushes the first rate to 0
            least, rates = quadratic_program(rate_set, matrix, mean, shift)
            x = shift
            for _ in range(100):  # half steps, since the first ones may be too long
                x = x + 0.5 * (newton(rate_set, matrix, mean + matrix @ (x - shift), x) - x)
            assert model_value(rate_set, matrix, mean, shift, x) == pytest.approx(least, abs=1e-5 * (1 + abs(least)))
            np.testing.assert_allclose(mean + matrix @ (x - shift), rates, atol=1e-3)
            at_zero += rates[0] < 1e-4
    assert at_zero >= 8


# Singular matrices


def curvature_without(k: int, *classes: int) -> Array:
    """The curvature of equal predictions that give some classes no probability."""
    rates = np.ones(k)
    rates[list(classes)] = 0
    rates /= max(rates.sum(), 1.0)
    return np.diag(rates) - np.outer(rates, rates)


MEAN, SHIFT = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, -0.3, 0.2, 0.1])
SETS = {
    "point": RateSet.point(np.array([0.4, 0.3, 0.2, 0.1])),
    "box": RateSet.box(np.array([0.3, 0.25, 0.15, 0.05]), np.array([0.5, 0.35, 0.25, 0.15])),
    "unknown sides": RateSet.box(np.array([0.4, 0.0, 0.0, 0.0]), np.array([1.0, 1.0, 0.2, 1.0])),
    "ball": RateSet.box(np.zeros(4), np.ones(4), Ball(np.array([0.4, 0.3, 0.2, 0.1]), np.ones(4), 0.05)),
}


@pytest.mark.parametrize("rounds", ["block pivoting", "active set"])
@pytest.mark.parametrize("rate_set", SETS.values(), ids=SETS)
@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((4, 4)),
        curvature_without(4, 0),
        curvature_without(4, 0, 1),
        np.kron(np.eye(2), [[0.2, -0.2], [-0.2, 0.2]]),
    ],
    ids=["zero", "one class without curvature", "two classes without curvature", "two pairs of classes"],
)
def test_a_singular_matrix_never_raises_and_never_lowers_the_model(
    matrix: Array, rate_set: RateSet, rounds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The model has no maximum. The solver adds damping where a step is not finite, too long, or does not gain.
    if rounds == "active set":
        monkeypatch.setattr(rate_set_step, "_PIVOTING_ROUNDS", 0)
    for shift in (np.zeros(4), SHIFT):
        with np.errstate(all="ignore"):
            x = newton(rate_set, matrix, MEAN, shift)
        if not np.isfinite(x).all() or np.abs(x).max() > 1e10:
            continue
        if rate_set.is_curved and np.ptp(shift) > 0:
            continue  # the curvature of the ball makes the matrix regular, and a plain Newton step may overshoot
        assert model_value(rate_set, matrix, MEAN, shift, x) >= model_value(rate_set, matrix, MEAN, shift, shift) - 1e-9


def test_a_matrix_of_zeros_gives_no_step_towards_a_ball() -> None:
    rate_set, _, mean = ball_problem(np.random.default_rng(8), 4, 0.02)
    shift = np.full(4, 0.3)  # all the same, where the support function has its kink
    np.testing.assert_array_equal(newton(rate_set, np.zeros((4, 4)), mean, shift), shift)


def test_a_matrix_of_zeros_has_no_finite_step_to_exact_rates() -> None:
    with np.errstate(all="ignore"):
        assert np.isnan(newton(SETS["point"], np.zeros((4, 4)), MEAN, SHIFT)).all()
        assert np.isnan(solve_centred(np.zeros((4, 4)), SETS["point"].low - MEAN)).all()


def test_a_matrix_that_is_not_finite_gives_a_step_that_is_not_finite() -> None:
    matrix = laplacian_of_rows(np.random.default_rng(12), 4)[0]
    matrix[0, 0] = np.nan
    for name, rate_set in SETS.items():
        with np.errstate(all="ignore"):
            assert not np.isfinite(newton(rate_set, matrix, MEAN, SHIFT)).all(), name
