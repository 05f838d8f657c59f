"""Root finding for many increasing functions of one variable at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from baserate.support.arrays import FloatArray, IndexArray

_MAX_STEPS = 200  # Bisection alone needs 60 for full precision; Newton's method usually needs 6.

Evaluate = Callable[[FloatArray, IndexArray], tuple[FloatArray, FloatArray]]


def root_of_increasing(
    evaluate: Evaluate,
    low: FloatArray,
    high: FloatArray,
    tolerance: FloatArray | float,
    start: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The roots of n increasing functions.

    Newton's method within a shrinking bracket. A step that leaves the bracket, or is longer than half of the step
    before, is replaced by bisection, or by a step twice as long as the one before if that is much shorter. Near a kink,
    Newton steps alone may have the right direction but a useless length.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(t, rows)`` returns values and slopes, both of shape (m, 1), of the functions with these numbers.
    low, high : array of shape (n, 1)
        A bracket for each root.
    tolerance : float or array of shape (n, 1)
        The search stops where the absolute value of the function is at most this.
    start : array of shape (n, 1), optional
        First guesses; by default ``high``.

    Returns
    -------
    root, low, high : array of shape (n, 1)
        The roots and the final brackets. If a function changes its sign between two neighbouring floating-point
        numbers, these are the bracket.
    """
    t = high.copy() if start is None else start.copy()
    result, rows = np.concatenate([t, low, high], axis=1), np.arange(len(t))
    small = np.broadcast_to(np.asarray(tolerance, dtype=np.float64), t.shape)
    last_length = np.full_like(t, np.inf)
    for _ in range(_MAX_STEPS):
        value, slope = evaluate(t, rows)
        high, low = np.where(value >= 0, t, high), np.where(value <= 0, t, low)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = t - value / slope
        # A step below the last digit says that the root is next to t, so the neighbouring number is tried.
        digit = np.spacing(np.abs(t))
        new = np.where(np.abs(new - t) < digit, t - np.copysign(digit, value), new)
        accepted = (new > low) & (new < high) & (np.abs(new - t) <= 0.5 * last_length)
        # Where t is near the root but the other end of the bracket is far away, growing steps beat bisection.
        longer = t - np.copysign(2.0 * last_length, value)
        other = np.where(8.0 * last_length < high - low, longer, 0.5 * (low + high))
        new = np.where(accepted, new, other)
        result[rows] = np.concatenate([t, low, high], axis=1)
        unfinished = ((np.abs(value) > small[rows]) & (new > low) & (new < high))[:, 0]
        if not unfinished.any():
            break
        last_length = np.abs(new - t)[unfinished]
        rows, t, low, high = rows[unfinished], new[unfinished], low[unfinished], high[unfinished]
    return result[:, :1], result[:, 1:2], result[:, 2:]
