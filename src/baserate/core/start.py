"""Where the search for the shift starts, and how its steps are measured.

Everything here is computed from k numbers, the mean of the rows: the problem is solved as if all rows were equal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from baserate.core.curvature_choice import many_classes
from baserate.core.damped_steps import DampedSteps
from baserate.core.newton import Point, Steps, Target, maximise
from baserate.core.products import CentredDiagonal, ProductCurvature
from baserate.core.row_model import NO_CURVATURE, RowModel
from baserate.core.trust_region import TrustRegion
from baserate.losses.base import Loss
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray

_EPS = float(np.finfo(np.float64).eps)
_GUESS_PASSES = 15  # Evaluations for one row; 3 to 8 are usual, and a start need not be exact.


def dual_point(
    shift: FloatArray, offset: float, sums: tuple[FloatArray, FloatArray, FloatArray, Any], rate_set: RateSet
) -> Point:
    """The dual function at a shift, from the sums of a pass (see ``DualSums``)."""
    conjugate, magnitude, mean, curvature = sums
    inside = math.isfinite(conjugate) and bool(np.isfinite(mean).all())
    wanted = rate_set.support(shift, mean) if inside else np.full_like(shift, np.nan)
    support = float(shift @ wanted)
    value = offset - float(conjugate) + support
    # A row whose conjugate is almost 0 is the logarithm of a number near 1, or a difference of numbers of that size.
    noise = _EPS * (1.0 + float(magnitude) + abs(offset) + abs(support))
    return Point(shift, value if math.isfinite(value) else -np.inf, wanted, mean, curvature, noise)


def guess(model: RowModel, rate_set: RateSet, shift: FloatArray, mean: FloatArray) -> Point:
    """The solution if all rows were equal and had this mean at this shift. For log loss, a Sinkhorn step.

    ``rate_set`` and ``mean`` are those of the kept classes.
    """
    loss = model.kept_loss
    row = mean / mean.sum() if mean.any() else rate_set.nearest(mean)
    eta = loss.link(row[None])
    if rate_set.is_point or model.limit_levels is not None:
        wanted = rate_set.nearest(row)
        step = (loss.link(wanted[None]) - eta)[0] if rate_set.distance(row) > _EPS else np.zeros_like(mean)
        new = shift + np.where(np.isfinite(step), step, 0.0)
        return Point(new - wanted @ new, 0.0, wanted, row, NO_CURVATURE, 0.0)
    offset = float(loss.conjugate(eta, row[None])[0])
    near = shift + _step_into_box(loss, rate_set, row)
    eta = eta - shift

    def evaluate(x: FloatArray) -> Point:
        if not many_classes(model, rate_set):
            return dual_point(x, offset, model.dual_sums(eta, np.ones(1), x), rate_set)
        sums = model.diagonal_sums(eta, np.ones(1), x)
        curvature = ProductCurvature(sums.curvature, lambda v: model.multiply(eta, np.ones(1), x, v))
        return dual_point(x, offset, (*sums[:3], curvature), rate_set)

    steps = steps_of(model, rate_set, rate_set.nearest(row), by_products=many_classes(model, rate_set))
    most = _GUESS_PASSES if isinstance(steps, TrustRegion) else 10 * _GUESS_PASSES  # products count, and cost little
    return maximise(evaluate, near, steps, Target(1e-6, most)).point


def steps_of(model: RowModel, rate_set: RateSet, rates: FloatArray, *, by_products: bool) -> Steps:
    """How the steps of Newton's method are chosen, near these rates."""
    if not by_products:
        return TrustRegion(metric(model, rate_set, rates), rate_set)
    h = model.kept_loss.slopes(_inner_row(rate_set, rates), bounded=model.bounded)
    assert h is not None
    return DampedSteps(CentredDiagonal(h[0]), rate_set)


def metric(model: RowModel, rate_set: RateSet, rates: FloatArray) -> FloatArray:
    """The curvature that the dual would have if every row were ``rates``, in which steps are measured."""
    return model.kept_loss.jacobian(_inner_row(rate_set, rates), np.ones(1), bounded=model.bounded)


def _inner_row(rate_set: RateSet, rates: FloatArray) -> FloatArray:
    # A class that may be at 0 but need not stay there has to be able to move.
    inside = np.maximum(rates, 1e-3 * rate_set.high)
    return inside[None] / inside.sum()


def nearer_start(
    model: RowModel, rate_set: RateSet, direct: Point, present: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """A start from a present shift and the mean of the rows at it, unless ``direct`` from the predictions is nearer."""
    shift, mean = present
    steps = steps_of(model, rate_set, direct.wanted, by_products=many_classes(model, rate_set))
    continued = guess(model, rate_set, shift, mean).shift
    return continued if steps.length(continued - shift) < steps.length(direct.shift) else direct.shift


def _step_into_box(loss: Loss, rate_set: RateSet, row: FloatArray) -> FloatArray:
    """The shift that moves one row into a box of rates, if the loss knows it: for log loss ``clip(c * row)``."""
    stiffness = loss.stiffness(row)
    if stiffness is None or rate_set.is_curved or rate_set.distance(row) <= _EPS:
        return np.zeros_like(row)
    wanted = rate_set.nearest(row, stiffness)
    step = (loss.link(wanted[None]) - loss.link(row[None]))[0]
    free = (wanted > rate_set.low) & (wanted < rate_set.high)
    if free.any():
        step[free] = step[free][0]  # They are equal except for rounding, which would look like a binding bound.
    return np.where(np.isfinite(step), step, 0.0)
