"""Where the search for the shift starts, and how its steps are measured.

Everything here is computed from k numbers, the mean of the rows: the problem is solved as if all rows were equal.
"""

from __future__ import annotations

import numpy as np

from baserate.core.newton import Point, Target, maximise
from baserate.core.row_model import RowModel
from baserate.losses.base import Loss
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray

_EPS = float(np.finfo(np.float64).eps)
_GUESS_PASSES = 15  # Evaluations for one row; 3 to 8 are usual, and a start need not be exact.


def dual_point(
    shift: FloatArray, offset: float, sums: tuple[FloatArray, FloatArray, FloatArray, FloatArray], rate_set: RateSet
) -> Point:
    """The dual function at a shift, from the sums of a pass (see ``DualSums``)."""
    conjugate, magnitude, mean, curvature = sums
    inside = np.isfinite(conjugate) and bool(np.isfinite(mean).all())
    wanted = rate_set.support(shift, mean) if inside else np.full_like(shift, np.nan)
    drift = float(shift @ wanted)
    value = offset - float(conjugate) + drift
    noise = _EPS * (float(magnitude) + abs(offset) + abs(drift))
    return Point(shift, value if np.isfinite(value) else -np.inf, wanted, mean, curvature, noise)


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
        return Point(new - wanted @ new, 0.0, wanted, row, metric(model, rate_set, wanted), 0.0)
    offset = float(loss.conjugate(eta, row[None])[0])
    near = shift + _step_into_box(loss, rate_set, row)
    eta = eta - shift

    def evaluate(x: FloatArray, previous: Point | None) -> Point:
        return dual_point(x, offset, model.dual_sums(eta, np.ones(1), x), rate_set)

    lengths = metric(model, rate_set, rate_set.nearest(row))
    return maximise(evaluate, near, lengths, rate_set, Target(1e-6, _GUESS_PASSES)).point


def metric(model: RowModel, rate_set: RateSet, rates: FloatArray) -> FloatArray:
    """The curvature that the dual would have if every row were ``rates``, in which steps are measured."""
    # A class that may be at 0 but need not stay there has to be able to move.
    inside = np.maximum(rates, 1e-3 * rate_set.high)
    return model.kept_loss.jacobian(inside[None] / inside.sum(), np.ones(1), bounded=model.bounded)


def nearer_start(
    model: RowModel, rate_set: RateSet, direct: Point, present: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """A start from a present shift and the mean of the rows at it, unless ``direct`` from the predictions is nearer."""
    shift, mean = present
    lengths = metric(model, rate_set, direct.wanted)
    continued = guess(model, rate_set, shift, mean).shift
    step = continued - shift
    return continued if step @ lengths @ step < direct.shift @ lengths @ direct.shift else direct.shift


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
