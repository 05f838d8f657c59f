"""A curvature that is learnt from the passes instead of summed in them.

The curvature of n rows costs n k^2; the rest of a pass n k. From some number of classes on it is cheaper to take it
from a sample of the rows, and to correct it by what each step shows: how much the mean has moved along it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from baserate.core.newton import Point
from baserate.support.arrays import FloatArray


class Secant:
    """The dual function, with an estimate of its curvature.

    Parameters
    ----------
    evaluate : callable
        The dual at a shift, without its curvature.
    curvature : array of shape (k, k)
        A first estimate.
    last : Point, optional
        Where the function is known already.
    """

    def __init__(
        self, evaluate: Callable[[FloatArray], Point], curvature: FloatArray, last: Point | None = None
    ) -> None:
        self._evaluate, self._curvature, self._last = evaluate, curvature, last

    def __call__(self, shift: FloatArray) -> Point:
        """The dual at a shift, with the estimate as it is after that."""
        point = self._evaluate(shift)
        if self._last is not None and np.isfinite(point.value):
            self._learn(point.shift - self._last.shift, point.mean - self._last.mean)
        self._last = point if np.isfinite(point.value) else self._last
        return replace(point, curvature=self._curvature)

    def _learn(self, step: FloatArray, moved: FloatArray) -> None:
        """Change the estimate the least (in the sense of Broyden, Fletcher, Goldfarb and Shanno) to fit one step."""
        bend = self._curvature @ step
        known, seen = float(step @ bend), float(step @ moved)
        if min(known, seen) > 1e-14 * max(known, seen):
            self._curvature = self._curvature - np.outer(bend, bend / known) + np.outer(moved, moved / seen)
