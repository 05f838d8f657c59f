"""The power family in torch; see :mod:`baserate.losses.power` and :mod:`baserate.losses.softened`."""

from __future__ import annotations

import torch

from baserate.losses.power import Power
from baserate.losses.softened import Softened
from baserate.passes.torch_base import Tensor
from baserate.passes.torch_separable import TorchSeparable, root_of_increasing

_NEAR_ONE = 0.1  # If beta is closer to 1 than this, the powers are computed with expm1 and log1p.


class TorchPower(TorchSeparable):
    """Power loss."""

    def __init__(self, loss: Power) -> None:
        self.beta, self.pins_zeros, self.flat_at_zero = loss.beta, loss.pins_zeros, loss.flat_at_zero

    def f(self, q: Tensor) -> Tensor:
        return torch.where(q != 0, q * self._deformed_log(q), 0.0)

    def df(self, q: Tensor) -> Tensor:
        return self.beta * self._deformed_log(q) + 1.0

    def ddf(self, q: Tensor) -> Tensor:
        return self.beta * q ** (self.beta - 2.0)

    def link(self, p: Tensor) -> Tensor:
        if abs(self.beta - 1.0) < _NEAR_ONE:
            return self.beta * self._deformed_log(p)
        return self.beta / (self.beta - 1.0) * p ** (self.beta - 1.0)

    def inverse_link(self, x: Tensor) -> Tensor:
        b = self.beta - 1.0
        if b == 0:
            return torch.exp(x)
        if b == 1:
            return 0.5 * x
        if abs(b) < _NEAR_ONE:
            return torch.exp(torch.log1p((b * x / self.beta).clamp_min(-1.0)) / b)
        return (b * x / self.beta).clamp_min(0.0) ** (1.0 / b)

    def _deformed_log(self, q: Tensor) -> Tensor:
        b = self.beta - 1.0
        if abs(b) >= _NEAR_ONE:
            return (q**b - 1.0) / b
        log = torch.log(q)
        return torch.expm1(b * log) / b if b else log


class TorchSoftened(TorchSeparable):
    """Power loss plus a tiny multiple of the Brier score."""

    def __init__(self, loss: Softened) -> None:
        assert isinstance(loss.loss, Power)
        self.loss, self.share = TorchPower(loss.loss), loss.share

    def f(self, q: Tensor) -> Tensor:
        return self.loss.f(q) + self.share * q**2

    def df(self, q: Tensor) -> Tensor:
        return self.loss.df(q) + 2.0 * self.share * q

    def ddf(self, q: Tensor) -> Tensor:
        return self.loss.ddf(q) + 2.0 * self.share

    def link(self, p: Tensor) -> Tensor:
        return self.loss.link(p) + 2.0 * self.share * p

    def inverse_link(self, x: Tensor) -> Tensor:
        x = torch.maximum(x, self.loss.link(torch.zeros_like(x[:1, :1])))
        zero = self.loss.link(torch.zeros_like(x[:1, :1]))
        high = torch.minimum(self.loss.inverse_link(x), (x - zero) / (2.0 * self.share))
        q, low = high, 0.4 * high
        for _ in range(12):
            step = (self.link(q) - x) / self.ddf(q)
            previous, q = q, torch.minimum(torch.maximum(q - step, low), high)
            if ((q - previous).abs() <= 5e-16 * q).all():
                return q
        rest = step.abs() > 1e-15 * q
        if rest.any():  # Newton's method alone is certain to converge only if the derivative is convex
            wanted = x[rest].reshape(-1, 1)
            found, _, _ = root_of_increasing(
                lambda t: (self.link(t) - wanted, self.ddf(t)),
                low[rest].reshape(-1, 1),
                high[rest].reshape(-1, 1),
                2e-16 * wanted.abs(),
            )
            q = q.masked_scatter(rest, found[:, 0])
        return q
