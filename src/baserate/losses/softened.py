"""A separable loss with a trace of Brier score mixed in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from baserate.errors import BadLoss
from baserate.losses.base import Loss
from baserate.losses.separable import SeparableLoss, inverted
from baserate.support.arrays import FloatArray


class Softened(SeparableLoss):
    """``loss + share * Brier``, for losses whose second derivative vanishes at 0.

    Under such a loss (Power with beta above 2) a change of a dual point in its last digit moves a small probability
    visibly, so that the wanted rates may lie between two neighbouring floating-point shifts. A share of 1e-10 of
    Brier score makes the map Lipschitz, and moves objective and guarantee by at most twice that share.
    """

    name = "softened"
    builtin = True

    def __init__(self, loss: Loss, share: float) -> None:
        if not isinstance(loss, SeparableLoss):
            raise BadLoss(f"only a separable loss can be softened, not {loss!r}")
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
        bottom = float(self.loss.link(np.zeros(1))[0])
        x = np.maximum(x, bottom)
        # Either part alone would need more, so the smaller of the two is an upper bound, and at most twice the answer.
        high = np.minimum(self.loss.inverse_link(x), (x - bottom) / (2.0 * self.share))
        q = high
        for _ in range(12):
            step = (self.link(q) - x) / self.ddf(q)
            q = np.clip(q - step, 0.4 * high, high)
        rest = np.abs(step) > 1e-15 * q
        if rest.any():  # Newton's method alone is sure to get there only if the derivative is convex
            q[rest] = inverted(self.link, self.ddf, x[rest], 0.4 * high[rest], high[rest])
        return q

    def params(self) -> Mapping[str, Any]:
        return {"loss": self.loss, "share": self.share}
