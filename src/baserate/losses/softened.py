"""A separable loss plus a tiny multiple of the Brier score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from baserate.errors import BadLoss
from baserate.losses.base import Loss
from baserate.losses.separable import SeparableLoss, invert
from baserate.support.arrays import FloatArray


class Softened(SeparableLoss):
    """``loss + share * Brier``, for losses whose second derivative is 0 at 0.

    With such a loss (Power with beta above 2), a change of the last digit of a dual point may change a small
    probability noticeably. The requested rates may then lie between those of two neighbouring floating-point shifts.
    Adding 1e-10 times the Brier score makes the row map Lipschitz continuous. It changes objective and guarantee
    by at most twice this share; what it really costs is measured when the rows are written.
    """

    name = "softened"
    builtin = True

    def __init__(self, loss: Loss, share: float) -> None:
        if not isinstance(loss, SeparableLoss):
            raise BadLoss(f"only a separable loss can be combined with the Brier score, not {loss!r}")
        self.loss = loss
        self.share = share
        self.domain = loss.domain

    def f(self, q: FloatArray) -> FloatArray:
        return self.loss.f(q) + self.share * q**2

    def df(self, q: FloatArray) -> FloatArray:
        return self.loss.df(q) + 2.0 * self.share * q

    def ddf(self, q: FloatArray) -> FloatArray:
        return self.loss.ddf(q) + 2.0 * self.share

    def link(self, p: FloatArray) -> FloatArray:
        return self.loss.link(p) + 2.0 * self.share * p

    def inverse_link(self, x: FloatArray) -> FloatArray:
        link_at_zero = float(self.loss.link(np.zeros(1))[0])
        x = np.maximum(x, link_at_zero)
        # Each part alone would need a larger q. So the smaller one is an upper bound, and at most twice the solution.
        high = np.minimum(self.loss.inverse_link(x), (x - link_at_zero) / (2.0 * self.share))
        q, low = high, 0.4 * high
        for _ in range(12):
            step = (self.link(q) - x) / self.ddf(q)
            previous, q = q, np.minimum(np.maximum(q - step, low), high)
            # The last digit decides whether tight tolerances are met, but rounding may change it in every step.
            if (np.abs(q - previous) <= 5e-16 * q).all():
                return q
        rest = np.abs(step) > 1e-15 * q
        if rest.any():  # Newton's method alone is certain to converge only if the derivative is convex
            q[rest] = invert(self.link, self.ddf, x[rest], low[rest], high[rest])
        return q

    def params(self) -> Mapping[str, Any]:
        return {"loss": self.loss, "share": self.share}
