"""Newton's method alone, on concave functions that have nothing to do with predictions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support import Array

from baserate.core import newton, trust_region
from baserate.core.newton import Evaluate, Point, Target, learn_curvature, maximise
from baserate.core.trust_region import TrustRegion
from baserate.rates.sets import RateSet

RATES = np.array([0.2, 0.3, 0.5])
METRIC = np.diag(RATES) - np.outer(RATES, RATES)
CENTRE = np.eye(3) - 1 / 3
EXACT = RateSet.point(RATES)


def point(shift: Array, value: float, gradient: Array, curvature: Array, noise: float) -> Point:
    return Point(shift, value, RATES, RATES - gradient, curvature, noise)


def quadratic(peak: Array, curvature: Array) -> Evaluate:
    """A parabola with its maximum, 1, at ``peak``."""

    def evaluate(shift: Array) -> Point:
        away = shift - peak
        value = 1 - 0.5 * away @ curvature @ away
        return point(shift, float(value), -curvature @ away, curvature, 1e-16)

    return evaluate


def test_a_parabola_needs_one_step() -> None:
    peak = CENTRE @ [1.0, -2.0, 4.0]
    solution = maximise(quadratic(peak, CENTRE), np.zeros(3), TrustRegion(METRIC, EXACT), Target(1e-10, 50))
    assert solution.converged
    assert solution.n_passes == 2
    np.testing.assert_allclose(CENTRE @ solution.point.shift, peak, atol=1e-9)


@pytest.mark.parametrize("sharpness", [1.0, 30.0, 1000.0])
def test_an_almost_piecewise_linear_function_is_maximised(sharpness: float) -> None:
    # A soft maximum of planes, which is what the dual of over-confident predictions looks like.
    rng = np.random.default_rng(0)
    logits = sharpness * rng.normal(size=(50, 3))

    def evaluate(shift: Array) -> Point:
        x = logits + shift
        top = x.max(axis=1, keepdims=True)
        a = np.exp(x - top)
        total = a.sum(axis=1, keepdims=True)
        a /= total
        value = (
            shift @ RATES
            - (top + np.log(total)).mean()
            + np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1)).mean()
            + logits.max(1).mean()
        )
        curvature = np.diag(a.mean(axis=0)) - a.T @ a / len(a)
        return point(shift, float(value), RATES - a.mean(axis=0), curvature, 1e-14 * sharpness)

    solution = maximise(evaluate, np.zeros(3), TrustRegion(METRIC, EXACT), Target(1e-10, 200))
    assert solution.converged
    assert solution.point.residual <= 1e-10


def test_a_start_below_zero_is_replaced_by_zero() -> None:
    peak = np.zeros(3)
    solution = maximise(
        quadratic(peak, CENTRE), np.array([100.0, -50, -50]), TrustRegion(METRIC, EXACT), Target(1e-10, 50)
    )
    assert solution.converged
    assert solution.n_passes == 2


def test_the_number_of_passes_is_counted_and_limited() -> None:
    calls = []
    peak = CENTRE @ [1.0, -2.0, 4.0]
    slow = quadratic(peak, CENTRE)

    def evaluate(shift: Array) -> Point:
        calls.append(shift)
        there = slow(shift)
        # A curvature that is 100 times too large makes every step 100 times too short.
        return point(shift, there.value, there.gradient, 100 * there.curvature, there.noise)

    solution = maximise(evaluate, np.zeros(3), TrustRegion(METRIC, EXACT), Target(1e-10, 7))
    assert len(calls) == solution.n_passes == 7
    assert not solution.converged


def test_a_function_without_a_maximum_is_abandoned_at_its_ceiling() -> None:
    slope = CENTRE @ [1.0, 0.0, -0.5]

    def evaluate(shift: Array) -> Point:
        return point(shift, float(slope @ shift), slope, 1e-12 * CENTRE, 1e-16)

    solution = maximise(evaluate, np.zeros(3), TrustRegion(METRIC, EXACT), Target(1e-10, 100, ceiling=50.0))
    assert not solution.converged
    assert solution.n_passes < 30


def test_steps_stay_inside_the_domain() -> None:
    # sqrt(1 - |shift|^2) + <slope, shift>: infinitely steep at the edge of the unit ball, undefined beyond.
    slope = CENTRE @ [3.0, -1.0, -2.0]

    def evaluate(shift: Array) -> Point:
        c = CENTRE @ shift
        room = 1 - c @ c
        if room <= 0:
            return point(shift, -np.inf, np.full(3, np.nan), np.full((3, 3), np.nan), 0.0)
        root = np.sqrt(room)
        curvature = CENTRE / root + np.outer(c, c) / root**3
        return point(shift, float(root - 1 + slope @ c), slope - c / root, curvature, 1e-16)

    solution = maximise(evaluate, np.array([50.0, 0, 0]), TrustRegion(METRIC, EXACT), Target(1e-10, 100))
    assert solution.converged
    np.testing.assert_allclose(CENTRE @ solution.point.shift, slope / np.sqrt(1 + slope @ slope), atol=1e-9)


def slowing_quadratic(peak: Array, calls: list[Array]) -> Evaluate:
    """A smooth function with a varying curvature, so that Newton's method needs several steps."""

    def evaluate(shift: Array) -> Point:
        calls.append(shift)
        away = CENTRE @ (shift - peak)
        size = float(away @ away)
        value = 1 - 0.5 * size - 0.05 * size**2
        gradient = -(1 + 0.2 * size) * away
        curvature = (1 + 0.2 * size) * CENTRE + 0.4 * np.outer(away, away)
        return point(shift, value, gradient, curvature, 1e-16)

    return evaluate


def test_quadratic_convergence_saves_the_last_evaluation() -> None:
    peak = CENTRE @ [1.0, -2.0, 0.5]
    every: list[Array] = []
    fewer: list[Array] = []
    known = maximise(slowing_quadratic(peak, every), np.zeros(3), TrustRegion(METRIC, EXACT), Target(1e-10, 50))
    found = maximise(
        slowing_quadratic(peak, fewer), np.zeros(3), TrustRegion(METRIC, EXACT), Target(1e-10, 50), order=2
    )
    assert known.converged
    assert not known.extrapolated
    assert found.extrapolated
    assert len(fewer) == found.n_passes < len(every)
    np.testing.assert_allclose(CENTRE @ found.point.shift, peak, atol=1e-10)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6, 1e-8])
def test_every_step_is_evaluated_unless_an_order_of_convergence_is_given(tol: float) -> None:
    peak = CENTRE @ [1.0, -2.0, 0.5]
    known = maximise(slowing_quadratic(peak, []), np.zeros(3), TrustRegion(METRIC, EXACT), Target(tol, 50))
    assert known.converged
    assert not known.extrapolated


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-8, 1e-12])
def test_a_larger_tolerance_is_reached_in_no_more_passes(tol: float) -> None:
    peak = CENTRE @ [1.0, -2.0, 0.5]
    loose = maximise(slowing_quadratic(peak, []), np.zeros(3), TrustRegion(METRIC, EXACT), Target(tol, 50))
    strict = maximise(slowing_quadratic(peak, []), np.zeros(3), TrustRegion(METRIC, EXACT), Target(1e-13, 50))
    assert loose.converged
    assert loose.point.residual <= tol
    assert loose.n_passes <= strict.n_passes


def test_a_learned_curvature_satisfies_the_secant_equation() -> None:
    rng = np.random.default_rng(3)
    root = rng.normal(size=(3, 3)) @ CENTRE
    estimate, true = CENTRE, root.T @ root + 0.1 * CENTRE
    start, step = CENTRE @ [0.5, 0.2, -0.1], CENTRE @ [0.3, -0.1, 0.4]
    before = Point(start, 0.0, RATES, RATES, estimate, 0.0)
    after = learn_curvature(Point(start + step, 0.1, RATES, RATES + true @ step, np.zeros((0, 0)), 0.0), before)
    np.testing.assert_allclose(after.curvature @ step, true @ step, atol=1e-14)
    np.testing.assert_allclose(after.curvature, after.curvature.T, atol=1e-14)
    assert np.linalg.eigvalsh(after.curvature).min() > -1e-12
    outside = learn_curvature(Point(step, -np.inf, RATES, RATES, np.zeros((0, 0)), 0.0), before)
    assert outside.curvature is estimate


def scripted(*points: Point) -> Evaluate:
    """A function whose values are given in advance, whatever the shift."""
    waiting = list(points)

    def evaluate(shift: Array) -> Point:
        there = waiting.pop(0)
        return point(shift, there.value, there.gradient, there.curvature, there.noise)

    return evaluate


SLOPE = CENTRE @ [0.1, 0.0, -0.1]


def test_a_start_that_was_evaluated_on_purpose_is_kept_below_zero() -> None:
    start = point(CENTRE @ [1.0, 0, 0], -0.5, SLOPE, CENTRE, 1e-16)
    there = scripted(point(np.zeros(3), 0.3, 0 * SLOPE, CENTRE, 1e-16))
    solution = maximise(there, start, TrustRegion(METRIC, EXACT), Target(1e-10, 50))
    assert solution.converged
    assert solution.n_passes == 2
    assert np.abs(solution.point.shift).max() > 0.5


def test_a_start_outside_the_domain_is_replaced_by_zero_and_counted() -> None:
    outside = point(np.zeros(3), -np.inf, np.full(3, np.nan), CENTRE, 0.0)
    at_zero = point(np.zeros(3), 0.0, 0 * SLOPE, CENTRE, 1e-16)
    for start in (np.array([5.0, -5, 0]), point(np.array([5.0, -5, 0]), -np.inf, np.full(3, np.nan), CENTRE, 0.0)):
        evaluated = (outside, at_zero) if isinstance(start, np.ndarray) else (at_zero,)
        solution = maximise(scripted(*evaluated), start, TrustRegion(METRIC, EXACT), Target(1e-10, 50))
        assert solution.converged
        assert solution.n_passes == 2
        assert not solution.point.shift.any()


@pytest.mark.parametrize(("value", "returned"), [(0.2, 0.2), (0.9, 0.9), (-0.2, 0.5)])
def test_short_of_the_target_the_most_accurate_point_is_returned_unless_it_guarantees_less_than_nothing(
    value: float, returned: float
) -> None:
    start = point(CENTRE @ [1.0, 0, 0], 0.5, SLOPE, 1e-3 * CENTRE, 1e-16)
    lower_but_nearer = point(np.zeros(3), value, 0.01 * SLOPE, CENTRE, 1e-16)
    solution = maximise(scripted(lower_but_nearer), start, TrustRegion(METRIC, EXACT), Target(1e-10, 2))
    assert not solution.converged
    assert solution.point.value == returned


def test_sixty_failed_steps_in_a_row_end_the_search() -> None:
    start = point(np.zeros(3), 0.5, SLOPE, CENTRE, 1e-16)
    calls = []

    def always_lower(shift: Array) -> Point:
        calls.append(shift)
        return point(shift, 0.4, SLOPE, CENTRE, 1e-16)

    solution = maximise(always_lower, start, TrustRegion(METRIC, EXACT), Target(1e-10, 500))
    assert not solution.converged
    assert len(calls) == 60
    lengths = [float(np.linalg.norm(CENTRE @ (shift - start.shift))) for shift in calls]
    for before, after in itertools.pairwise(lengths[:20]):
        assert 0.15 * before <= after <= 0.32 * before  # a quarter of the failed step, within the accuracy of a step


def test_relative_accuracy_costs_at_most_six_passes_after_the_tolerance_is_reached() -> None:
    # Each step removes half of the error, and a rate of 1e-9 would need thirty of them to have its digits right.
    rates = np.array([1e-9, 0.4, 0.6 - 1e-9])
    peak = CENTRE @ [2.0, -2.0, 4.0]
    residuals = []

    def evaluate(shift: Array) -> Point:
        away = shift - peak
        there = Point(shift, float(1 - 0.5 * away @ CENTRE @ away), rates, rates + CENTRE @ away, 2 * CENTRE, 1e-16)
        residuals.append(there.residual)
        return there

    solution = maximise(evaluate, np.zeros(3), TrustRegion(CENTRE, RateSet.point(rates)), Target(1e-4, 500))
    assert solution.converged
    assert sum(residual <= 1e-4 for residual in residuals) == 6
    assert solution.point.residual == min(residuals)


def test_a_rate_of_zero_that_is_exactly_reached_satisfies_the_target() -> None:
    rates = np.array([0.0, 0.4, 0.6])
    assert Target(1e-10, 5).satisfied(Point(np.zeros(3), 0.0, rates, rates, CENTRE, 0.0))
    off = np.array([1e-12, 0.4, 0.6 - 1e-12])
    assert not Target(1e-10, 5).satisfied(Point(np.zeros(3), 0.0, rates, off, CENTRE, 0.0))


def test_a_shortened_step_is_about_as_long_as_the_radius() -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        root = rng.normal(size=(3, 3)) @ CENTRE * 10.0 ** rng.uniform(-3, 0)
        here = point(CENTRE @ rng.normal(size=3), 0.0, CENTRE @ rng.normal(size=3), root.T @ root + 1e-9 * CENTRE, 0.0)
        steps = TrustRegion(METRIC, EXACT)
        newton_length = steps.length(newton.newton_step(here, EXACT) - here.shift)
        radius = steps._radius = newton_length * 10.0 ** rng.uniform(-4, -0.5)
        new, predicted, *_ = steps.propose(here, 50)
        assert 0.7 * radius <= steps.length(new - here.shift) <= 1.2 * radius
        assert predicted > 0


def test_damping_that_one_step_needed_does_not_stay_for_the_next() -> None:
    here = point(np.zeros(3), 0.0, SLOPE, 1e-6 * CENTRE, 0.0)
    steps = TrustRegion(CENTRE, EXACT)
    steps._radius = 1e-14
    steps.propose(here, 50)
    assert steps._damping > 1e9
    steps._radius = np.inf
    np.testing.assert_allclose(steps.propose(here, 50).shift, SLOPE / (1.0 + 1e-6), atol=1e-15)  # damping 1
    np.testing.assert_allclose(steps.propose(here, 50).shift, SLOPE / (1e-4 + 1e-6), atol=1e-12)


def test_a_step_that_would_go_downhill_is_damped_in_few_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    # With a ball the second-order model may predict a loss until the damping is large; each trial costs a k x k system.
    here, n_trials = point(np.zeros(3), 0.0, SLOPE, CENTRE, 0.0), 0

    def downhill_unless_damped(rate_set: RateSet, matrix: Array, mean: Array, shift: Array) -> Array:
        nonlocal n_trials
        n_trials += 1
        damping = float(matrix[0, 0] / CENTRE[0, 0]) - 1.0
        return shift + (1e-3 if damping > 1e4 else -1e-3) * SLOPE

    monkeypatch.setattr(trust_region, "newton", downhill_unless_damped)
    steps = TrustRegion(CENTRE, EXACT)
    steps._radius = 1.0
    assert steps.propose(here, 50).predicted > 0
    assert 1e4 < steps._damping < 1e6
    assert n_trials <= 25


def test_where_rounding_hides_the_gain_it_is_computed_from_the_slopes() -> None:
    step = CENTRE @ [1e-9, 0, -1e-9]
    for noise in (1e-12, 1e-10):
        here, there = point(np.zeros(3), 1.0, SLOPE, CENTRE, noise), point(step, 1 - 1e-12, 0.5 * SLOPE, CENTRE, noise)
        assert newton._gain(here, there, step) == pytest.approx(0.75 * SLOPE @ step, rel=1e-12)
    clear = point(step, 1.0 + 1e-6, SLOPE, CENTRE, 1e-12)
    assert newton._gain(here, clear, step) == pytest.approx(1e-6)
    assert newton._gain(here, point(step, -np.inf, SLOPE, CENTRE, 0.0), step) == -np.inf


@pytest.mark.parametrize(
    ("before", "now", "order", "expected"),
    [
        (1e-2, 1e-5, 2, 1e-5 * 1e-6),
        (1e-2, 1e-5, 1, 1e-5 * 1e-3),
        (1e-2, 1e-3, 2, np.inf),  # slower than Newton's method near its solution
        (1e-2, 1.05e-3, 1, np.inf),
        (np.inf, 1e-9, 2, np.inf),
    ],
)
def test_the_error_of_the_next_step_is_predicted_from_the_last_two(
    before: float, now: float, order: int, expected: float
) -> None:
    assert newton._next_error(before, now, order) == pytest.approx(expected)


def test_the_predicted_gain_is_that_of_the_quadratic_model() -> None:
    rng = np.random.default_rng(5)
    box = RateSet.box(np.array([0.1, 0.1, 0.3]), np.array([0.4, 0.5, 0.7]))
    for _ in range(50):
        root = rng.normal(size=(3, 3)) @ CENTRE
        curvature, mean, shift, new = root.T @ root, rng.dirichlet(np.ones(3)), rng.normal(size=3), rng.normal(size=3)
        wanted = box.support(shift, mean)
        here = Point(shift, 0.0, wanted, mean, curvature, 0.0)
        step = new - shift
        model = -mean @ step - 0.5 * step @ curvature @ step
        rise = new @ box.support(new, mean) - shift @ wanted
        assert newton.predicted_gain(here, box, new, here.curvature @ (new - here.shift)) == pytest.approx(
            model + rise, abs=1e-12
        )
