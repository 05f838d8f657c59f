"""Roots of many rising functions of one number at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from baserate.support.arrays import FloatArray, IndexArray

_MAX_STEPS = 200  # Bisection alone needs 60 for full precision; Newton usually needs 6.

Evaluate = Callable[[FloatArray, IndexArray], tuple[FloatArray, FloatArray]]


def rising_root(
    evaluate: Evaluate,
    low: FloatArray,
    high: FloatArray,
    tolerance: FloatArray | float,
    start: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Where each of n rising functions is 0.

    Newton's method inside a shrinking bracket. A step that leaves the bracket, or is more than half of the one before,
    is replaced by bisection, since next to a kink Newton's steps can be right in direction and useless in length.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(t, rows)`` gives values and slopes, both of shape (m, 1), of the functions with the numbers ``rows``.
    low, high : array of shape (n, 1)
        A bracket for each root.
    tolerance : float or array of shape (n, 1)
        A value this close to 0 is as good as 0.
    start : array of shape (n, 1), optional
        By default ``high``.

    Returns
    -------
    root, low, high : array of shape (n, 1)
        The root, and the bracket that is left of it: where a function jumps over 0 between two neighbouring numbers,
        those two.
    """
    t = high.copy() if start is None else start.copy()
    answer, rows = np.concatenate([t, low, high], axis=1), np.arange(len(t))
    good = np.broadcast_to(np.asarray(tolerance, dtype=np.float64), t.shape)
    last = np.full_like(t, np.inf)
    for _ in range(_MAX_STEPS):
        value, slope = evaluate(t, rows)
        high, low = np.where(value >= 0, t, high), np.where(value <= 0, t, low)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = t - value / slope
        trusted = (step > low) & (step < high) & (np.abs(step - t) <= 0.5 * last)
        step = np.where(trusted, step, 0.5 * (low + high))
        answer[rows] = np.concatenate([t, low, high], axis=1)
        busy = ((np.abs(value) > good[rows]) & (step > low) & (step < high))[:, 0]
        if not busy.any():
            break
        last = np.abs(step - t)[busy]
        rows, t, low, high = rows[busy], step[busy], low[busy], high[busy]
    return answer[:, :1], answer[:, 1:2], answer[:, 2:]
