"""The power (Tsallis) family, which contains log loss and the Brier score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from baserate.errors import BadLoss
from baserate.inputs.validation import is_number, quoted_name
from baserate.losses.base import NONNEGATIVE, REAL, Loss
from baserate.losses.registry import register
from baserate.losses.separable import SeparableLoss
from baserate.support.arrays import FloatArray

_NEAR_ONE = 0.1  # If beta is closer to 1 than this, the powers are computed with expm1 and log1p.
_MIN_BETA = 1e-100  # Smaller values differ from 0 only by rounding.
_MAX_BETA = 100.0  # Larger powers of a probability underflow.


@register
class Power(SeparableLoss):
    """Power loss, from ``phi(q) = sum_j (q_j^beta - q_j) / (beta - 1)``.

    Parameters
    ----------
    beta : float
        From 1e-100 to 100. ``beta=1`` is log loss and ``beta=2`` is the Brier score. The larger it is, the less
        small probabilities contribute. With ``beta <= 1`` the loss is infinite if the true class has probability 0.

    Examples
    --------
    >>> import baserate as br
    >>> p, y = [[0.7, 0.2, 0.1]], [1]
    >>> [round(br.losses.Power(beta).score(p, y), 4) for beta in (1, 1.5, 2)]
    [1.6094, 1.3651, 1.14]
    """

    name = "power"
    builtin = True

    def __init__(self, beta: float) -> None:
        if not is_number(beta) or not _MIN_BETA <= beta <= _MAX_BETA:
            raise BadLoss(
                f"beta of Power must be a number from {_MIN_BETA:g} to {_MAX_BETA:g}, not {quoted_name(beta)}"
            )
        self.beta = float(beta)
        self.domain = REAL if self.beta == 2 else NONNEGATIVE
        self.pins_zeros = self.beta <= 1

    def f(self, q: FloatArray) -> FloatArray:
        log = self._deformed_log(q)
        return np.multiply(q, log, where=q != 0, out=np.zeros_like(q))

    def df(self, q: FloatArray) -> FloatArray:
        return self.beta * self._deformed_log(q) + 1.0

    def ddf(self, q: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", over="ignore"):
            return self.beta * q ** (self.beta - 2.0)

    def link(self, p: FloatArray) -> FloatArray:
        if abs(self.beta - 1.0) < _NEAR_ONE:
            return self.beta * self._deformed_log(p)
        # The constant of the derivative is left out, because adding it would round small probabilities.
        with np.errstate(divide="ignore", over="ignore"):
            return self.beta / (self.beta - 1.0) * p ** (self.beta - 1.0)

    def inverse_link(self, x: FloatArray) -> FloatArray:
        b = self.beta - 1.0
        if b == 0:
            return np.exp(x)
        if b == 1:
            return 0.5 * x
        with np.errstate(divide="ignore", over="ignore"):
            if abs(b) < _NEAR_ONE:
                return np.exp(np.log1p(np.maximum(b * x / self.beta, -1.0)) / b)
            return np.maximum(b * x / self.beta, 0.0) ** (1.0 / b)

    def _deformed_log(self, q: FloatArray) -> FloatArray:
        """``(q^b - 1) / b`` for ``b = beta - 1``, and ``log q`` for b = 0."""
        b = self.beta - 1.0
        with np.errstate(divide="ignore", over="ignore"):
            if abs(b) >= _NEAR_ONE:
                return (q**b - 1.0) / b
            log: FloatArray = np.log(q)
            return np.expm1(b * log) / b if b else log

    def params(self) -> Mapping[str, Any]:
        return {"beta": self.beta}

    @classmethod
    def examples(cls) -> list[tuple[Loss, int]]:
        return [(cls(beta), k) for beta in (0.1, 0.5, 1 - 1e-6, 1.0, 1 + 1e-6, 1.5, 2.0, 3.0) for k in (2, 4)]
