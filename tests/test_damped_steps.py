"""Steps for many classes: the first radius, the accuracy of a step, and how the damping follows success and failure."""

from __future__ import annotations

import numpy as np
import pytest
from support import Array

from baserate.core.damped_steps import DampedSteps
from baserate.core.newton import Point
from baserate.core.products import CentredDiagonal
from baserate.rates.sets import RateSet

RATES = np.array([0.1, 0.2, 0.3, 0.4])
GRADIENT = np.array([0.02, -0.01, 0.01, -0.02])
EXACT = RateSet.point(RATES)
BOX = RateSet.box(0.9 * RATES, 1.1 * RATES)


def point(curvature: Array, gradient: Array = GRADIENT) -> Point:
    return Point(np.zeros(4), 0.0, RATES, RATES - gradient, curvature, 0.0)


def steps_after(*shares: float) -> DampedSteps:
    """Steps after some that had these shares of their predicted gain."""
    steps = DampedSteps(CentredDiagonal(RATES), EXACT)
    for share in shares:
        steps.adapt(share, length=0.0)
    return steps


def test_the_first_radius_is_thirty_sinkhorn_steps() -> None:
    steps = DampedSteps(CentredDiagonal(RATES), EXACT)
    steps.begin(point(np.eye(4)))
    step = GRADIENT / RATES
    expected = 30 * np.sqrt(RATES @ step**2 - (RATES @ step) ** 2)  # the standard deviation of the step
    assert steps._radius == pytest.approx(expected)
    steps.adapt(1.0, length=expected)
    assert steps._radius == pytest.approx(4 * expected)


@pytest.mark.parametrize(
    ("shares", "damping"),
    [
        ([], 1e-6),
        ([0.1], 1e-3),  # the least that is useful after a failure
        ([0.1, 0.1], 16e-3),
        ([0.1, 0.1, 0.1], 1.024),
        ([0.1, 0.5, 0.1], 4e-3),  # a fair step ends a row of failures
        ([0.1, 1.0], 1e-3 / 3),
        ([0.1, 1.0, 1.0], 1e-3 / 3 / 12),
        ([0.1, 1.0, 0.5, 1.0], 1e-3 / 9),  # and a row of successes
        ([0.1, 1.0, 1.0, 1.0, 1.0], 1e-15),  # as good as none
        ([1.0], 1e-15),
    ],
)
def test_damping_falls_with_good_steps_and_rises_with_poor_ones(shares: list[float], damping: float) -> None:
    assert steps_after(*shares)._damping == pytest.approx(damping)


def test_a_step_is_as_accurate_as_the_model_deserves() -> None:
    diagonal = np.array([0.5, 0.4, 0.3, 0.2])
    for scale in (1.0, 1e-3):
        size = np.sqrt((scale**2 * GRADIENT**2 / diagonal).sum())  # about the length of the step
        for rate_set, most in ((EXACT, 0.3), (BOX, 1e-3)):
            steps = DampedSteps(CentredDiagonal(RATES), rate_set)
            found = steps._accuracy(point(np.diag(diagonal), scale * GRADIENT))
            assert found == pytest.approx(min(most, np.sqrt(size)), rel=1e-4)


@pytest.mark.parametrize("rate_set", [EXACT, BOX])
def test_steps_are_short_enough_and_uphill(rate_set: RateSet) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        root = rng.normal(size=(4, 4)) - rng.normal(size=4)
        root -= root.mean(axis=1, keepdims=True)
        here = point(1e-6 * root.T @ root, np.array([0.2, -0.1, 0.1, -0.2]))
        steps = DampedSteps(CentredDiagonal(RATES), rate_set)
        steps.begin(here)
        new, predicted, n_products = steps.propose(here, 1000)
        assert predicted > 0
        assert steps.length(new) <= 1.2 * steps._radius
        assert n_products > 0
