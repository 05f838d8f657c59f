"""The solver alone, on concave functions that have nothing to do with predictions."""

from __future__ import annotations

import numpy as np
import pytest
from support import Array

from baserate.core.newton import Point, Target, solve
from baserate.rates.sets import RateSet

RATES = np.array([0.2, 0.3, 0.5])
METRIC = np.diag(RATES) - np.outer(RATES, RATES)
CENTRE = np.eye(3) - 1 / 3
EXACT = RateSet.point(RATES)


def point(shift: Array, value: float, gradient: Array, curvature: Array, noise: float) -> Point:
    return Point(shift, value, RATES, RATES - gradient, curvature, noise)


def quadratic(peak: Array, curvature: Array) -> object:
    """A parabola with its maximum, 1, at ``peak``."""

    def evaluate(shift: Array) -> Point:
        away = shift - peak
        value = 1 - 0.5 * away @ curvature @ away
        return point(shift, float(value), -curvature @ away, curvature, 1e-16)

    return evaluate


def test_a_parabola_takes_one_step() -> None:
    peak = CENTRE @ [1.0, -2.0, 4.0]
    solution = solve(quadratic(peak, CENTRE), np.zeros(3), METRIC, EXACT, Target(1e-10, 50))
    assert solution.converged
    assert solution.n_passes == 2
    np.testing.assert_allclose(CENTRE @ solution.point.shift, peak, atol=1e-9)


@pytest.mark.parametrize("sharpness", [1.0, 30.0, 1000.0])
def test_a_ridge_that_is_all_but_a_kink(sharpness: float) -> None:
    # Soft maximum of a few planes, as the dual of over-confident predictions looks.
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

    solution = solve(evaluate, np.zeros(3), METRIC, EXACT, Target(1e-10, 200))
    assert solution.converged
    assert solution.point.residual <= 1e-10


def test_a_bad_start_is_dropped_for_zero() -> None:
    peak = np.zeros(3)
    solution = solve(quadratic(peak, CENTRE), np.array([100.0, -50, -50]), METRIC, EXACT, Target(1e-10, 50))
    assert solution.converged
    assert solution.n_passes == 2


def test_passes_are_counted_and_kept_to() -> None:
    calls = []
    peak = CENTRE @ [1.0, -2.0, 4.0]
    slow = quadratic(peak, CENTRE)

    def evaluate(shift: Array) -> Point:
        calls.append(shift)
        there = slow(shift)  # type: ignore[operator]
        # A curvature that is 100 times too large makes every step 100 times too short.
        return point(shift, there.value, there.gradient, 100 * there.curvature, there.noise)

    solution = solve(evaluate, np.zeros(3), METRIC, EXACT, Target(1e-10, 7))
    assert len(calls) == solution.n_passes == 7
    assert not solution.converged


def test_a_function_without_a_maximum_is_given_up_at_its_ceiling() -> None:
    slope = CENTRE @ [1.0, 0.0, -0.5]

    def evaluate(shift: Array) -> Point:
        return point(shift, float(slope @ shift), slope, 1e-12 * CENTRE, 1e-16)

    solution = solve(evaluate, np.zeros(3), METRIC, EXACT, Target(1e-10, 100, ceiling=50.0))
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

    solution = solve(evaluate, np.array([50.0, 0, 0]), METRIC, EXACT, Target(1e-10, 100))
    assert solution.converged
    np.testing.assert_allclose(CENTRE @ solution.point.shift, slope / np.sqrt(1 + slope @ slope), atol=1e-9)
