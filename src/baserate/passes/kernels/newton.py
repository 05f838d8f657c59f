"""Newton's steps for small problems in compiled code."""

from __future__ import annotations

import math

import numpy as np

from baserate.passes.kernels.compiler import part
from baserate.passes.kernels.layout import (
    CENTRE,
    CONFIRMED,
    CURVATURE,
    DONE,
    EARLIER,
    EPS,
    FIRST_OFFSET,
    FIRST_RADIUS,
    GOOD,
    MOVED,
    NOISE,
    NOT_EASY,
    OFFSET,
    OVERSHOOT,
    POINT_NOISE,
    POINT_VALUE,
    POOR,
    PREDICTED,
    PREVIOUS,
    RADIUS,
    SAFETY,
    SHORT,
    SIZE,
    SURVEY,
    VALUE,
    WIDEN,
    WIDEST,
    WRITE,
    ZEROS,
)


@part
def _newton_step(edges, gradient, matrix, step):
    """Solve for the Newton step, and return whether the curvature is positive definite enough.

    The curvature is the Laplacian of the graph in ``edges``. The step of the last class is 0, which removes the free
    constant, and the remaining system is solved by Cholesky decomposition in ``matrix``.
    """
    k = len(gradient)
    m = k - 1
    for c in range(k):
        for d in range(c):
            edges[d, c] = edges[c, d]
    for c in range(m):
        total = 0.0
        for d in range(k):
            if d != c:
                total += edges[c, d]
        for d in range(c):
            matrix[c, d] = -edges[c, d]
        matrix[c, c] = total
        step[c] = gradient[c]
    for c in range(m):
        pivot = matrix[c, c]
        for d in range(c):
            entry = matrix[c, d]
            for e in range(d):
                entry -= matrix[c, e] * matrix[d, e]
            entry /= matrix[d, d]
            matrix[c, d] = entry
            pivot -= entry * entry
            step[c] -= entry * step[d]
        if not pivot > 1e-12 * matrix[c, c]:
            return False
        matrix[c, c] = math.sqrt(pivot)
        step[c] /= matrix[c, c]
    for c in range(m - 1, -1, -1):
        for d in range(c + 1, m):
            step[c] -= matrix[d, c] * step[d]
        step[c] /= matrix[c, c]
    step[m] = 0.0
    return True


@part
def _length(brier, step, rates):
    """The length of a step in the metric of :func:`baserate.core.start.metric`."""
    squares, total, k = 0.0, 0.0, len(step)
    for j in range(k):
        weight = 1.0 / k if brier else rates[j]
        squares += weight * step[j] * step[j]
        total += weight * step[j]
    return math.sqrt(max(squares - total * total, 0.0) * (0.5 * k if brier else 1.0))


def advance(brier, rules, rates, tol, relative, shift, before, mean, edges, sums, prepared, work, state, todo):
    """Take one Newton step between two passes over a small problem with exact rates, and prepare the next pass.

    It takes the same steps as :func:`baserate.core.newton.maximise` as long as every step is good, and gives up
    otherwise. ``before``, ``mean``, ``edges`` and ``sums`` were filled by the last pass. ``shift``, and ``prepared``,
    which is the shift in the form that a pass needs, are replaced by those of the next pass. ``work`` and ``state``
    must be kept between calls.
    """
    k = len(rates)
    matrix, gradient, step, last_gradient = work[3:], work[0], work[1], work[2]
    value, noise, predicted, radius = state[POINT_VALUE], state[POINT_NOISE], state[PREDICTED], state[RADIUS]
    earlier, previous, offset, centre = state[EARLIER], state[PREVIOUS], state[FIRST_OFFSET], 0.0
    if todo == SURVEY:
        distance = 0.0
        for j in range(k):
            distance = max(distance, abs(rates[j] - before[j]))
            # The solution if all rows were equal to their mean. The free constant is such that <rates, shift> = 0.
            shift[j] = 2.0 * (rates[j] - before[j]) if brier else math.log(rates[j] / before[j])
            centre += rates[j] * shift[j]
        if not distance > 1e-15 or (sums[ZEROS] > 0 and not brier):
            return NOT_EASY
        for j in range(k):
            shift[j] -= centre
        state[FIRST_OFFSET], todo = sums[OFFSET], CURVATURE
    else:
        drift, slope, residual, gap, least, satisfied = 0.0, 0.0, 0.0, 0.0, tol, True
        for j in range(k):
            gradient[j] = rates[j] - mean[j]
            drift += shift[j] * rates[j]
            gap += shift[j] * gradient[j]
            slope += 0.5 * (gradient[j] + last_gradient[j]) * step[j]
            residual = max(residual, abs(gradient[j]))
            least = min(least, relative * rates[j])
            satisfied = satisfied and abs(gradient[j]) <= min(tol, relative * rates[j])
        satisfied = satisfied and abs(gap) <= 10.0 * tol
        if todo == WRITE:
            return DONE if satisfied else NOT_EASY
        new_value = offset - sums[VALUE] + drift
        new_noise = EPS * (1.0 + sums[SIZE] + abs(offset) + abs(drift))
        if not (new_value >= 0.0 and new_value < np.inf):
            return NOT_EASY
        if radius == 0.0:
            for j in range(k):
                step[j] = 2.0 * gradient[j] if brier else gradient[j] / rates[j]
            radius = rules[FIRST_RADIUS] * _length(brier, step, rates)
        else:
            gain = new_value - value
            gain = gain if abs(gain) > rules[NOISE] * (noise + new_noise) else slope
            share = gain / max(predicted, 2.2250738585072014e-308)
            if not share >= rules[POOR]:
                return NOT_EASY
            earlier = previous if share > rules[CONFIRMED] else np.inf
            if share > rules[GOOD]:
                radius = max(radius, rules[WIDEN] * _length(brier, step, rates))
        if satisfied:
            todo = WRITE
        else:
            if not _newton_step(edges, gradient, matrix, step):
                return NOT_EASY
            if _length(brier, step, rates) > rules[OVERSHOOT] * radius:
                return NOT_EASY
            curvature, slope_along_step = 0.0, 0.0
            for c in range(k):
                slope_along_step += gradient[c] * step[c]
                for d in range(c):
                    curvature += edges[c, d] * (step[c] - step[d]) ** 2
                centre += rates[c] * (shift[c] + step[c])
            predicted = slope_along_step - 0.5 * curvature
            if not predicted > 0.0:
                return NOT_EASY
            for j in range(k):
                shift[j] += step[j] - centre
                last_gradient[j] = gradient[j]
            if residual < 0.01 * earlier < np.inf and rules[SAFETY] * residual * (residual / earlier) ** 2 <= least:
                todo = WRITE  # the last two steps predict that the error at the next point is small enough
        state[POINT_VALUE], state[POINT_NOISE], state[PREDICTED] = new_value, new_noise, predicted
        state[RADIUS], state[EARLIER], state[PREVIOUS] = radius, earlier, residual
    # Prepare the next pass: the shift in the form that it needs, and empty sums.
    low, high = shift[0], shift[0]
    for j in range(k):
        low, high = min(low, shift[j]), max(high, shift[j])
    centre = 0.0 if brier else 0.5 * (low + high)
    if high - low > WIDEST and not brier:
        return NOT_EASY
    state[CENTRE] = centre
    for j in range(k):
        prepared[j] = 0.5 * shift[j] if brier else math.exp(shift[j] - centre)
        mean[j] = 0.0
        for c in range(k):
            edges[j, c] = 0.0
    sums[VALUE], sums[SIZE], sums[MOVED], sums[SHORT] = 0.0, 0.0, 0.0, 0.0
    return todo
