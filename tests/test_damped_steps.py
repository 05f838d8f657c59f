"""Steps for many classes: the first radius, the accuracy of a step, and how the damping follows success and failure."""

from __future__ import annotations

import numpy as np
import pytest
from support import Array

from baserate.core import damped_steps
from baserate.core.damped_steps import DampedSteps
from baserate.core.newton import Point
from baserate.core.products import CentredDiagonal
from baserate.core.trust_region import LEAST_DAMPING
from baserate.rates.sets import RateSet

RATES = np.array([0.1, 0.2, 0.3, 0.4])
GRADIENT = np.array([0.02, -0.01, 0.01, -0.02])
EXACT = RateSet.point(RATES)
FIRST, USEFUL, RAISE = damped_steps._FIRST_DAMPING, damped_steps._USEFUL_DAMPING, damped_steps._RAISE
LOWER, MORE = damped_steps._LOWER, damped_steps._LOWER_MORE
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
        ([], FIRST),
        ([0.1], USEFUL),
        ([0.1, 0.1], USEFUL * RAISE**2),
        ([0.1, 0.1, 0.1], USEFUL * RAISE**5),
        ([0.1, 0.5, 0.1], USEFUL * RAISE),  # a fair step ends a series of failures
        ([0.1, 1.0], USEFUL / LOWER),
        ([0.1, 1.0, 1.0], USEFUL / LOWER**2 / MORE),
        ([0.1, 1.0, 0.5, 1.0], USEFUL / LOWER**2),  # a fair step also ends a series of successes
        ([0.1, 1.0, 1.0, 1.0, 1.0], LEAST_DAMPING),
        ([1.0], LEAST_DAMPING),
    ],
)
def test_damping_falls_with_good_steps_and_rises_with_poor_ones(shares: list[float], damping: float) -> None:
    assert steps_after(*shares)._damping == pytest.approx(damping)


def test_accuracy_follows_the_length_of_the_step() -> None:
    diagonal = np.array([0.5, 0.4, 0.3, 0.2])
    for rate_set, most in ((EXACT, damped_steps._ACCURACY), (BOX, damped_steps._BOX_ACCURACY)):
        steps, found = DampedSteps(CentredDiagonal(RATES), rate_set), []
        for scale in (1e3, 1e-6, 1e-8):
            found.append(steps._accuracy(point(np.diag(diagonal), scale * GRADIENT)))
        assert found[0] == most
        # The square root of the length, so that the error of a step is its length to the power of 1.5.
        assert found[1] == pytest.approx(np.sqrt(np.sqrt((1e-12 * GRADIENT**2 / diagonal).sum())), rel=1e-4)
        assert found[2] == pytest.approx(found[1] / 10, rel=1e-4)


@pytest.mark.parametrize("rate_set", [EXACT, BOX])
def test_steps_are_short_enough_and_uphill(rate_set: RateSet) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        root = rng.normal(size=(4, 4)) - rng.normal(size=4)
        root -= root.mean(axis=1, keepdims=True)
        here = point(1e-6 * root.T @ root, np.array([0.2, -0.1, 0.1, -0.2]))
        steps = DampedSteps(CentredDiagonal(RATES), rate_set)
        steps.begin(here)
        new, predicted, _, n_products = steps.propose(here, 1000)
        assert predicted > 0
        assert steps.length(new) <= 1.2 * steps._radius
        assert n_products > 0
