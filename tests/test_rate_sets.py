"""Rate sets: support function, distances, bounds, curvature and restriction, against independent references."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog
from support import Array

import baserate as br
from baserate.rates.balls import Ball, _leave_ball
from baserate.rates.regions import UNLIMITED
from baserate.rates.sets import RateSet

CENTRE = np.array([0.5, 0.3, 0.2])
EUCLIDEAN = Ball(CENTRE, np.ones(3), 0.1)
CHI_SQUARE = Ball(CENTRE, 1 / CENTRE, 0.15)
WIDE = Ball(CENTRE, np.ones(3), 0.35)  # reaches beyond the simplex
WIDE_CHI_SQUARE = Ball(CENTRE, 1 / CENTRE, 0.6)
BALLS = [EUCLIDEAN, CHI_SQUARE, WIDE, WIDE_CHI_SQUARE]
BALL_IDS = ["euclidean", "chi-square", "euclidean beyond the simplex", "chi-square beyond the simplex"]
every_ball = pytest.mark.parametrize("ball", BALLS, ids=BALL_IDS)


def whole_simplex(ball: Ball) -> RateSet:
    k = len(ball.centre)
    return RateSet.box(np.zeros(k), np.ones(k), ball)


def random_box(rng: np.random.Generator, k: int) -> tuple[Array, Array]:
    """Bounds around a random point of the simplex; some sides are unknown and some classes are fixed."""
    inside = rng.dirichlet(np.ones(k))
    low, high = np.maximum(inside - 0.3 * rng.random(k), 0), np.minimum(inside + 0.3 * rng.random(k), 1)
    low, high = np.where(rng.random(k) < 0.3, 0.0, low), np.where(rng.random(k) < 0.3, 1.0, high)
    fixed = rng.random(k) < 0.15
    return np.where(fixed, inside, low), np.where(fixed, inside, high)


def lowest_in_box(low: Array, high: Array, shift: Array) -> tuple[float, float]:
    """The least ``<shift, t>`` over rates between the bounds, and the multiplier of ``sum(t) = 1``."""
    found = linprog(shift, A_eq=np.ones((1, len(low))), b_eq=[1.0], bounds=np.column_stack([low, high]))
    assert found.status == 0
    return float(found.fun), float(found.eqlin.marginals[0])


def solve_convex(objective: object, t: cp.Variable, low: Array, high: Array, ball: Ball | None) -> float:
    """The least value of a convex function of the rates ``t``, by a cone solver."""
    constraints = [t >= low, t <= high, cp.sum(t) == 1]
    if ball is not None:
        constraints.append(cp.norm(cp.multiply(np.sqrt(ball.scale), t - ball.centre)) <= ball.radius)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert problem.status == "optimal"
    return float(problem.value)


def lowest_in_ball(ball: Ball, low: Array, high: Array, shift: Array) -> float:
    t = cp.Variable(len(shift))
    return solve_convex(shift @ t, t, low, high, ball)


def assert_inside(t: Array, low: Array, high: Array, ball: Ball | None = None) -> None:
    assert t.sum() == pytest.approx(1, abs=1e-12)
    assert (t >= low - 1e-12).all()
    assert (t <= high + 1e-12).all()
    if ball is not None:
        assert np.sqrt(ball.scale @ (t - ball.centre) ** 2) <= ball.radius * (1 + 1e-9)


def simplex_grid(steps: int) -> Array:
    """All rates of three classes that are multiples of ``1 / steps``."""
    i, j = np.meshgrid(np.arange(steps + 1), np.arange(steps + 1))
    i, j = i[i + j <= steps], j[i + j <= steps]
    return np.column_stack([i, j, steps - i - j]) / steps


# The support function


@pytest.mark.parametrize("k", [2, 3, 5, 9])
def test_support_of_a_box_agrees_with_linear_programming(k: int) -> None:
    rng = np.random.default_rng(k)
    for _ in range(60):
        low, high = random_box(rng, k)
        rate_set = RateSet.box(low, high)
        shift = rng.normal(size=k) if rng.random() < 0.7 else rng.integers(-1, 2, size=k).astype(float)
        t = rate_set.support(shift, rng.dirichlet(np.ones(k)))
        assert_inside(t, low, high)
        assert shift @ t == pytest.approx(lowest_in_box(low, high, shift)[0], abs=1e-9)


def test_among_equal_supporting_rates_the_nearest_is_returned() -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        low, high = random_box(rng, 4)
        rate_set, near = RateSet.box(low, high), rng.dirichlet(np.ones(4))
        shift = rng.integers(0, 2, size=4).astype(float)
        t = cp.Variable(4)
        at_most = lowest_in_box(low, high, shift)[0]
        problem = cp.Problem(
            cp.Minimize(cp.sum_squares(t - near)), [t >= low, t <= high, cp.sum(t) == 1, shift @ t <= at_most + 1e-10]
        )
        problem.solve(solver="CLARABEL")
        np.testing.assert_allclose(rate_set.support(shift, near), t.value, atol=1e-4)


@every_ball
def test_support_of_a_ball_agrees_with_a_cone_solver(ball: Ball) -> None:
    rng = np.random.default_rng(2)
    rate_set = whole_simplex(ball)
    for _ in range(25):
        shift = rng.normal(size=3) * 10.0 ** rng.uniform(-3, 3)
        t = rate_set.support(shift, CENTRE)
        assert_inside(t, np.zeros(3), np.ones(3), ball)
        size = np.abs(shift).max()  # the solver's tolerances are absolute
        lowest = size * lowest_in_ball(ball, np.zeros(3), np.ones(3), shift / size)
        assert shift @ t == pytest.approx(lowest, abs=1e-7 * np.ptp(shift))


@every_ball
def test_support_of_a_ball_is_not_above_any_point_of_a_fine_grid(ball: Ball) -> None:
    grid = simplex_grid(400)
    members = grid[((grid - ball.centre) ** 2 @ ball.scale) <= ball.radius**2]
    assert len(members) > 1000
    rng = np.random.default_rng(3)
    for _ in range(50):
        shift = rng.normal(size=3)
        lowest = shift @ whole_simplex(ball).support(shift, CENTRE)
        assert lowest <= (members @ shift).min() + 1e-12
        assert lowest >= (members @ shift).min() - 0.02 * np.ptp(shift)


@pytest.mark.parametrize("metric", ["euclidean", "chi-square"])
def test_support_of_a_ball_cut_by_a_box_agrees_with_a_cone_solver(metric: str) -> None:
    rng = np.random.default_rng(4)
    compared = 0
    for _ in range(60):
        centre = rng.dirichlet(np.full(5, 2.0))
        scale = np.ones(5) if metric == "euclidean" else 1 / centre
        ball = Ball(centre, scale, rng.uniform(0.1, 0.8))
        low = np.maximum(centre - rng.uniform(0, 0.3, 5), 0)
        high = np.minimum(centre + rng.uniform(0, 0.3, 5), 1)
        rate_set, shift = RateSet.box(low, high, ball), rng.normal(size=5)
        t = rate_set.support(shift, centre)
        assert_inside(t, low, high, ball)
        lowest = lowest_in_ball(ball, low, high, shift)
        assert shift @ t == pytest.approx(lowest, abs=1e-7 * np.ptp(shift))
        at_bound = (np.abs(t - rate_set.low) < 1e-9) | (np.abs(t - rate_set.high) < 1e-9)
        compared += bool(at_bound.any()) and ball.distance(t) > 0.999 * ball.radius
    assert compared >= 10  # both the box and the ball bind


def test_support_of_a_ball_does_not_depend_on_a_constant_or_on_the_scale_of_the_shift() -> None:
    shift = np.array([0.3, -1.0, 0.2])
    for ball in BALLS:
        t = ball.support(shift)
        np.testing.assert_allclose(ball.support(shift + 7.0), t, atol=1e-13)
        np.testing.assert_allclose(ball.support(1e-8 * shift), t, atol=1e-13)


def test_support_of_a_ball_whose_centre_does_not_sum_to_one() -> None:
    # Such balls occur where classes with a positive centre are dropped. The rates still sum to 1.
    ball = Ball(np.array([0.5, 0.3]), np.array([1.0, 2.0]), 0.3)
    t = ball.support(np.array([1.0, 0.0]))
    assert t.sum() == pytest.approx(1)
    # 1 (t - 0.5)^2 + 2 (1 - t - 0.3)^2 = 0.09, the smaller root:
    assert t[0] == pytest.approx(min(np.roots([3, -3.8, 0.25 + 2 * 0.49 - 0.09]).real))


def test_support_of_a_point_is_the_point() -> None:
    np.testing.assert_array_equal(RateSet.point(CENTRE).support(np.array([1.0, 0.0, -1.0]), np.ones(3) / 3), CENTRE)


def test_a_euclidean_ball_by_hand() -> None:
    # The steepest direction of sum 0 for the first class is (2, -1, -1) / sqrt(6).
    t = whole_simplex(EUCLIDEAN).support(np.array([1.0, 0.0, 0.0]), CENTRE)
    np.testing.assert_allclose(t, CENTRE - 0.1 * np.array([2, -1, -1]) / np.sqrt(6), atol=1e-14)


# Distance, nearest point, bounds and margin


def test_distance_to_a_box_is_the_largest_violation() -> None:
    rate_set = RateSet.box(np.array([0.1, 0.2, 0.0]), np.array([0.4, 0.6, 0.5]))
    assert rate_set.distance(np.array([0.3, 0.4, 0.3])) == 0
    assert rate_set.distance(np.array([0.05, 0.4, 0.55])) == pytest.approx(0.05)
    assert rate_set.distance(np.array([0.05, 0.75, 0.2])) == pytest.approx(0.15)
    assert rate_set.distance(np.array([0.75, 0.05, 0.2])) == pytest.approx(0.35)


def test_distance_to_a_ball_by_hand() -> None:
    along = np.array([1, -1, 0]) / np.sqrt(2)
    assert whole_simplex(EUCLIDEAN).distance(CENTRE + 0.1 * along) == pytest.approx(0, abs=1e-15)
    assert whole_simplex(EUCLIDEAN).distance(CENTRE + 0.13 * along) == pytest.approx(0.03)
    # The distance is converted to units of rates with the largest scale, here that of the third class.
    outside = CHI_SQUARE.distance(CENTRE + 0.2 * along) - CHI_SQUARE.radius
    assert outside > 0
    assert whole_simplex(CHI_SQUARE).distance(CENTRE + 0.2 * along) == pytest.approx(outside * np.sqrt(0.2))
    # A violated bound counts where it is worse than the ball.
    narrow = RateSet.box(np.zeros(3), np.array([1.0, 0.31, 1.0]), WIDE)
    assert narrow.distance(np.array([0.4, 0.4, 0.2])) == pytest.approx(0.09)


@every_ball
def test_distance_to_a_ball_is_at_most_the_distance_to_its_nearest_point(ball: Ball) -> None:
    rng = np.random.default_rng(5)
    rate_set = whole_simplex(ball)
    for _ in range(15):
        rates = rng.dirichlet(np.full(3, 0.5))
        t = cp.Variable(3)
        nearest = solve_convex(cp.norm(t - rates), t, np.zeros(3), np.ones(3), ball)
        assert (rate_set.distance(rates) > 1e-9) == (nearest > 1e-6)
        assert rate_set.distance(rates) <= nearest + 1e-7


@every_ball
def test_distance_is_zero_exactly_for_members_of_the_grid(ball: Ball) -> None:
    low, high = np.array([0.0, 0.1, 0.05]), np.array([0.6, 0.5, 1.0])
    rate_set = RateSet.box(low, high, ball)
    for t in simplex_grid(40):
        inside = (t >= low).all() and (t <= high).all() and ball.scale @ (t - ball.centre) ** 2 <= ball.radius**2
        assert (rate_set.distance(t) <= 1e-12) == inside


@pytest.mark.parametrize("weighted", [False, True])
def test_nearest_point_of_a_box_agrees_with_a_quadratic_program(weighted: bool) -> None:
    rng = np.random.default_rng(6)
    for _ in range(40):
        low, high = random_box(rng, 4)
        rates = rng.dirichlet(np.full(4, 0.7))
        scale = rng.uniform(0.2, 5.0, size=4) if weighted else np.ones(4)
        found = RateSet.box(low, high).nearest(rates, scale if weighted else None)
        assert_inside(found, low, high)
        t = cp.Variable(4)
        least = solve_convex(cp.sum(cp.multiply(scale, cp.square(t - rates))), t, low, high, None)
        assert scale @ (found - rates) ** 2 == pytest.approx(least, abs=1e-8)


@every_ball
def test_nearest_point_of_a_ball_is_a_member_and_leaves_members_where_they_are(ball: Ball) -> None:
    rng = np.random.default_rng(7)
    rate_set = whole_simplex(ball)
    for _ in range(60):
        rates = rng.dirichlet(np.full(3, 0.7))
        found = rate_set.nearest(rates)
        assert_inside(found, np.zeros(3), np.ones(3), ball)
        if rate_set.distance(rates) == 0:
            np.testing.assert_allclose(found, rates, atol=1e-12)
        else:
            assert ball.distance(found) == pytest.approx(ball.radius, rel=1e-9)
            # It lies on the straight line from the centre to the rates.
            direction = rates - ball.centre
            expected = ball.centre + direction * (ball.radius / ball.distance(rates))
            np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("k", [2, 3, 6])
def test_bounds_of_a_box_agree_with_linear_programming(k: int) -> None:
    rng = np.random.default_rng(10 + k)
    for _ in range(40):
        low, high = random_box(rng, k)
        found = RateSet.box(low, high).bounds()
        for j in range(k):
            one = np.eye(k)[j]
            assert found[0][j] == pytest.approx(lowest_in_box(low, high, one)[0], abs=1e-9)
            assert found[1][j] == pytest.approx(-lowest_in_box(low, high, -one)[0], abs=1e-9)


@every_ball
def test_bounds_of_a_ball_agree_with_a_cone_solver(ball: Ball) -> None:
    low, high = whole_simplex(ball).bounds()
    for j in range(3):
        one = np.eye(3)[j]
        assert low[j] == pytest.approx(lowest_in_ball(ball, np.zeros(3), np.ones(3), one), abs=1e-7)
        assert high[j] == pytest.approx(-lowest_in_ball(ball, np.zeros(3), np.ones(3), -one), abs=1e-7)


def test_bounds_that_leave_one_point_are_that_point() -> None:
    for low, high in (([0.2, 0.3, 0.5], [0.6, 0.4, 1.0]), ([0.0, 0.1, 0.2], [0.2, 0.3, 0.5])):
        rate_set = RateSet.box(np.array(low), np.array(high))
        assert rate_set.is_point
        np.testing.assert_allclose(rate_set.low, [0.2, 0.3, 0.5])
        np.testing.assert_array_equal(rate_set.stated, (low, high))


@pytest.mark.parametrize("k", [3, 4, 7])
def test_margin_is_the_multiplier_of_the_sum_in_the_linear_program(k: int) -> None:
    rng = np.random.default_rng(20 + k)
    compared = 0
    for _ in range(60):
        low, high = random_box(rng, k)
        rate_set, shift = RateSet.box(low, high), rng.normal(size=k)
        t = rate_set.support(shift, np.full(k, 1 / k))
        between = (t > rate_set.low + 1e-9) & (t < rate_set.high - 1e-9)
        if between.sum() != 1:
            continue  # at a corner the multiplier is not unique
        assert rate_set.limits.margin(shift) == shift[between][0]
        assert rate_set.limits.margin(shift) == pytest.approx(lowest_in_box(low, high, shift)[1], abs=1e-9)
        compared += 1
    assert compared >= 10


# Stated and tightened bounds


STATED = (np.array([0.1, 0.0, 0.0]), np.array([0.2, 0.5, 1.0]))
TIGHTENED = (np.array([0.1, 0.0, 0.3]), np.array([0.2, 0.5, 0.9]))


def test_bounds_are_tightened_and_the_stated_ones_are_kept() -> None:
    rate_set = RateSet.box(*STATED)
    np.testing.assert_allclose(rate_set.bounds(), TIGHTENED)
    np.testing.assert_array_equal(rate_set.stated, STATED)


def test_anchor_is_the_shift_of_a_class_between_its_stated_bounds() -> None:
    rate_set = RateSet.box(*STATED)
    shift = np.array([-1.0, -2.0, 4.0])
    # The third rate is at its tightened bound of 0.3, but far from those that were stated.
    assert rate_set.anchor(shift, np.array([0.2, 0.5, 0.3])) == 4.0
    assert rate_set.anchor(np.array([3.0, -2.0, -2.0]), np.array([0.1, 0.3, 0.6])) == -2.0
    assert rate_set.anchor(np.array([1.0, -2.0, 1.0]), np.array([0.15, 0.5, 0.35])) == 1.0
    # Rounding may leave a rate that is at its bound a last digit inside.
    assert rate_set.anchor(shift, np.array([np.nextafter(0.2, 0), 0.5, 0.3])) == 4.0
    # If no class is between its bounds, and for a ball, the anchor is the mean.
    corner = RateSet.box(np.array([0.1, 0.2, 0.3]), np.array([0.2, 0.5, 0.6]))
    assert corner.anchor(np.array([-1.0, -2.0, 6.0]), np.array([0.2, 0.5, 0.3])) == 1.0
    assert whole_simplex(EUCLIDEAN).anchor(np.array([-1.0, -2.0, 6.0]), CENTRE) == 1.0
    # A rate set that was made without stated bounds uses its own.
    assert RateSet(*TIGHTENED).anchor(np.array([-1.0, -2.0, 6.0]), np.array([0.2, 0.5, 0.3])) == 1.0


def active(result: br.Adjustment) -> list[tuple[object, str, float]]:
    return [(bound.of, bound.side, pytest.approx(bound.value)) for bound in result.active]


def test_active_bounds_are_reported_as_they_were_stated() -> None:
    # All three rates end at a bound of the tightened box; the user stated only those of the first two.
    probs = np.random.default_rng(0).dirichlet([5, 4, 1], size=50)
    result = br.adjust(probs, br.Rates.between([0.1, None, None], [0.2, 0.5, None]))
    np.testing.assert_allclose(result.rates, [0.2, 0.5, 0.3], atol=1e-9)
    assert active(result) == [(0, "high", 0.2), (1, "high", 0.5)]
    assert result.certificate.sensitivity[2] == 0
    assert (result.certificate.sensitivity[:2] < 0).all()


def test_active_bounds_are_the_stated_ones_also_where_a_class_has_rate_zero() -> None:
    probs = np.random.default_rng(0).dirichlet([5, 4, 1, 2], size=50)
    result = br.adjust(probs, br.Rates.between([0.1, None, None, 0], [0.2, 0.5, None, 0]))
    np.testing.assert_allclose(result.rates, [0.2, 0.5, 0.3, 0], atol=1e-9)
    assert active(result) == [(0, "high", 0.2), (1, "high", 0.5)]


@pytest.mark.parametrize("bound", [0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.38])
def test_one_stated_bound_of_two_classes_is_one_active_bound(bound: float) -> None:
    # For some of these bounds 1 - (1 - bound) differs from the bound in the last digit, and so does the rate.
    probs = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    for low, high, expected in (
        ([None, 1 - bound], None, (1, "low", 1 - bound)),
        ([1 - bound, None], None, (0, "low", 1 - bound)),
        (None, [bound, None], (0, "high", bound)),
        (None, [None, bound], (1, "high", bound)),
    ):
        result = br.adjust(probs, br.Rates.between(low, high))
        assert active(result) == [expected]
        assert np.flatnonzero(result.certificate.sensitivity).tolist() == [expected[0]]


def test_active_bounds_and_sensitivity_agree() -> None:
    rng = np.random.default_rng(0)
    for _ in range(150):
        k = int(rng.integers(2, 6))
        probs, rates = rng.dirichlet(np.ones(k), size=20), rng.dirichlet(np.ones(k))
        known = rng.random(k) < 0.6
        low = np.where(known, np.maximum(rates - 0.1 * rng.random(k), 0), 0.0)
        high = np.where(known, np.minimum(rates + 0.1 * rng.random(k), 1), 1.0)
        result = br.adjust(probs, br.Rates.between(low, high))
        assert [bound.of for bound in result.active] == np.flatnonzero(result.certificate.sensitivity).tolist()
        for bound in result.active:
            assert bound.value == (low if bound.side == "low" else high)[bound.of]


# Restriction to some classes


def test_restriction_to_some_classes_has_the_members_that_are_zero_elsewhere() -> None:
    keep = np.array([0, 2])
    for ball in (UNLIMITED, *BALLS, Ball(np.array([0.5, 0.1, 0.4]), np.array([1.0, 3.0, 2.0]), 0.4)):
        rate_set = RateSet.box(np.zeros(3), np.array([0.8, 0.0, 0.6]), ball)
        part = rate_set.restrict(keep)
        for first in np.linspace(0, 1, 401):
            t = np.array([first, 0.0, 1 - first])
            whole = (t <= [0.8, 0.0, 0.6]).all() and ball.distance(t) <= ball.radius
            assert (part.distance(t[keep]) <= 1e-12) == whole


def test_support_of_a_restriction_agrees_with_a_cone_solver() -> None:
    rng = np.random.default_rng(8)
    keep, gone = np.array([0, 2, 3]), np.array([False, True, False, False])
    centre = np.array([0.3, 0.05, 0.4, 0.25])
    for scale in (np.ones(4), 1 / centre):
        ball = Ball(centre, scale, 0.35)
        part = whole_simplex(ball).without(gone).restrict(keep)
        for _ in range(10):
            shift = rng.normal(size=4)
            t = part.support(shift[keep], centre[keep])
            lowest = lowest_in_ball(ball, np.zeros(4), np.where(gone, 0.0, 1.0), shift)
            assert shift[keep] @ t == pytest.approx(lowest, abs=1e-6)


def test_restriction_keeps_the_stated_bounds_of_its_classes() -> None:
    low, high = np.array([0.1, 0.0, 0.0, 0.0]), np.array([0.2, 0.0, 0.5, 1.0])
    part = RateSet.box(low, high).restrict(np.array([0, 2, 3]))
    np.testing.assert_allclose(part.bounds(), TIGHTENED)
    np.testing.assert_array_equal(part.stated, STATED)
    unstated = RateSet(low, high).restrict(np.array([0, 2, 3]))
    np.testing.assert_array_equal(unstated.stated, STATED)
    whole = RateSet.box(*STATED)
    assert whole.restrict(np.arange(3)) is whole


def test_without_some_classes_agrees_with_linear_programming() -> None:
    rng = np.random.default_rng(9)
    compared = 0
    for _ in range(60):
        low, high = random_box(rng, 4)
        gone = np.array([True, False, False, False])
        low[0] = 0.0
        if high[1:].sum() < 1:
            continue
        rest = RateSet.box(low, high).without(gone)
        closed = np.where(gone, 0.0, high)
        for j, sign in itertools.product(range(4), (1.0, -1.0)):
            direction = sign * np.eye(4)[j]
            lowest = lowest_in_box(low, closed, direction)[0]
            assert direction @ rest.support(direction, low) == pytest.approx(lowest, abs=1e-9)
        np.testing.assert_array_equal(rest.stated, (low, high))
        compared += 1
    assert compared >= 20


def test_without_some_classes_keeps_the_ball() -> None:
    rest = whole_simplex(WIDE).without(np.array([False, False, True]))
    assert rest.region is WIDE
    assert rest.high[2] == 0
    unstated = RateSet(np.zeros(3), np.ones(3)).without(np.array([False, False, True]))
    np.testing.assert_array_equal(unstated.stated, (np.zeros(3), np.ones(3)))


# Curvature of the support function of a ball


def central_differences(rate_set: RateSet, shift: Array, h: float = 1e-5) -> Array:
    """Minus the derivative of the supporting rates by the shift, column by column."""
    steps = h * np.eye(len(shift))
    moved = [rate_set.support(shift + s, CENTRE) - rate_set.support(shift - s, CENTRE) for s in steps]
    return -np.column_stack(moved) / (2 * h)


@every_ball
def test_curvature_of_a_ball_agrees_with_finite_differences(ball: Ball) -> None:
    rng = np.random.default_rng(10)
    rate_set = whole_simplex(ball)
    compared = 0
    for _ in range(40):
        shift = rng.normal(size=3) * 10.0 ** rng.uniform(-1, 1)
        rates = rate_set.support(shift, CENTRE)
        if ball.distance(rates) < ball.radius * (1 - 1e-9) or ((rates > 0) & (rates < 1e-3)).any():
            continue  # a corner of the simplex supports, or a kink is near
        given = rate_set.support_curvature(shift, rates)
        np.testing.assert_allclose(given, central_differences(rate_set, shift), atol=1e-5 * (1 + np.abs(given).max()))
        compared += given.any()
    assert compared >= 10


def test_curvature_on_a_face_of_more_classes_agrees_with_finite_differences() -> None:
    rng = np.random.default_rng(11)
    compared = 0
    for _ in range(200):
        centre = rng.dirichlet(np.ones(5))
        ball = Ball(centre, np.ones(5) if rng.random() < 0.5 else 1 / centre, rng.uniform(0.1, 0.5))
        rate_set, shift = whole_simplex(ball), rng.normal(size=5)
        rates = rate_set.support(shift, centre)
        near_kink = ((rates > 0) & (rates < 1e-3)).any() or (rates > 0).sum() < 3
        if ball.distance(rates) < ball.radius * (1 - 1e-9) or near_kink:
            continue
        steps = 1e-5 * np.eye(5)
        moved = [rate_set.support(shift + s, centre) - rate_set.support(shift - s, centre) for s in steps]
        if any(((rate_set.support(shift + s, centre) > 0) != (rates > 0)).any() for s in (*steps, *-steps)):
            continue  # the face changes
        given = rate_set.support_curvature(shift, rates)
        np.testing.assert_allclose(given, -np.column_stack(moved) / 2e-5, atol=1e-4 * (1 + np.abs(given).max()))
        compared += bool((rates == 0).any())
    assert compared >= 15  # with classes at a bound


def test_curvature_of_a_euclidean_ball_by_hand() -> None:
    # The support function is <shift, centre> - radius * |P shift|, with P the projection onto sum 0.
    shift = np.array([0.3, -1.0, 0.2])
    rate_set = whole_simplex(EUCLIDEAN)
    projection = np.eye(3) - 1 / 3
    direction = projection @ shift
    length = np.linalg.norm(direction)
    expected = 0.1 / length * (projection - np.outer(direction, direction) / length**2)
    given = rate_set.support_curvature(shift, rate_set.support(shift, CENTRE))
    np.testing.assert_allclose(given, expected, atol=1e-12)
    assert np.linalg.eigvalsh(given).min() > -1e-12
    # It is proportional to the radius and inversely proportional to the length of the shift.
    twice = whole_simplex(Ball(CENTRE, np.ones(3), 0.2))
    np.testing.assert_allclose(twice.support_curvature(shift, twice.support(shift, CENTRE)), 2 * given, atol=1e-12)
    np.testing.assert_allclose(rate_set.support_curvature(2 * shift, rate_set.support(shift, CENTRE)), given / 2)


def test_curvature_is_zero_where_the_ball_does_not_bind() -> None:
    shift = np.array([0.3, -1.0, 0.2])
    nothing = np.zeros((3, 3))
    box = RateSet.box(np.zeros(3), np.ones(3))
    np.testing.assert_array_equal(box.support_curvature(shift, np.array([0.0, 1.0, 0.0])), nothing)
    huge = whole_simplex(Ball(CENTRE, np.ones(3), 2.0))
    corner = huge.support(shift, CENTRE)
    np.testing.assert_array_equal(corner, [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(huge.support_curvature(shift, corner), nothing)
    on_sphere = whole_simplex(EUCLIDEAN).support(shift, CENTRE)
    np.testing.assert_array_equal(whole_simplex(EUCLIDEAN).support_curvature(np.ones(3), on_sphere), nothing)


def test_bounds_alone_have_no_boundary_that_is_reached_and_no_centre() -> None:
    assert not UNLIMITED.is_reached(CENTRE)
    with pytest.raises(TypeError, match="no centre"):
        _ = UNLIMITED.whitening


# The way out of a ball


@every_ball
def test_the_line_from_inside_a_ball_to_outside_is_cut_at_its_sphere(ball: Ball) -> None:
    rng = np.random.default_rng(12)
    for _ in range(50):
        direction = rng.normal(size=3)
        inside = ball.centre + rng.random() * 0.9 * ball.radius * direction / np.sqrt(ball.scale @ direction**2)
        outside = inside + rng.normal(size=3) * 10.0 ** rng.uniform(0.5, 2)
        found = _leave_ball(ball, inside, outside)
        assert ball.distance(found) == pytest.approx(ball.radius, rel=1e-12)
        fraction = (found - inside) / (outside - inside)
        assert 0 < fraction[0] < 1
        np.testing.assert_allclose(fraction, fraction[0], rtol=1e-9)


def test_the_line_from_the_sphere_outwards_is_cut_where_it_starts() -> None:
    ball = Ball(CENTRE, np.ones(3), 0.1)
    on_sphere = CENTRE + 0.1 * np.array([1.0, 0.0, 0.0])
    outside = CENTRE + np.array([1.1, 0.2, 0.0])
    np.testing.assert_allclose(_leave_ball(ball, on_sphere, outside), on_sphere, atol=1e-12)


@pytest.mark.parametrize("difference", [1e-15, 1e-12, 1e-3])
def test_classes_of_rate_0_do_not_disturb_the_support_of_a_ball(difference: float) -> None:
    centre = np.array([0.0, 0.0, 0.46, 0.54])
    rate_set = br.Rates.near(centre, 0.1, metric="chi2").rate_set(3)
    rates = rate_set.support(np.array([-0.3, -0.3, 0.1, 0.1 + difference]), np.array([0.2, 0.2, 0.3, 0.3]))
    assert rates.sum() == pytest.approx(1.0, abs=1e-14)
    assert rates[2] > 0.46  # the one with the smaller shift gets as much as the ball allows
    assert rate_set.distance(rates) <= 1e-12
    assert rate_set.distance(rates + np.array([0, 0, 1e-6, -1e-6])) > 1e-9


def test_squared_lengths_between_bounds_are_weighted_sums_of_squares() -> None:
    differences, scale = np.array([[0.1, -0.2, 0.1], [0.0, 0.3, -0.3]]), np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(UNLIMITED.squared_lengths(differences, scale), [0.01 + 0.08 + 0.04, 0.18 + 0.36])


@pytest.mark.parametrize("ball", BALLS, ids=BALL_IDS)
def test_the_boundary_of_a_ball_is_reached_up_to_rounding(ball: Ball) -> None:
    direction = np.array([1.0, -0.5, -0.5])
    direction *= ball.radius / ball.distance(ball.centre + direction)
    assert ball.is_reached(ball.centre + direction * (1 - 1e-12))
    assert not ball.is_reached(ball.centre + direction * (1 - 1e-6))
