"""Losses in torch whose generator is a sum over classes; the methods are those of ``baserate.losses.separable``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from baserate.passes.torch_base import Tensor, TorchLoss

_MAX_STEPS = 200
_MAX_SLOPE = 1e100


class TorchSeparable(TorchLoss):
    """A separable loss in torch, with the conventions of :class:`baserate.passes.torch_base.TorchLoss`."""

    flat_at_zero = False
    has_closed_map = False

    @abstractmethod
    def f(self, q: Tensor) -> Tensor:
        """The generator of one coordinate."""

    @abstractmethod
    def df(self, q: Tensor) -> Tensor:
        """Its derivative."""

    @abstractmethod
    def ddf(self, q: Tensor) -> Tensor:
        """Its second derivative."""

    @abstractmethod
    def link(self, p: Tensor) -> Tensor:
        """The derivative, up to a constant."""

    @abstractmethod
    def inverse_link(self, x: Tensor) -> Tensor:
        """The inverse of ``link``."""

    def phi(self, q: Tensor) -> Tensor:
        """The generator."""
        return self.f(q).sum(dim=1)

    def gradient(self, q: Tensor) -> Tensor:
        """Its gradient."""
        return self.df(q)

    def row_map(self, x: Tensor, *, bounded: bool = True) -> Tensor:
        """See :meth:`baserate.losses.separable.SeparableLoss.row_map`."""
        top = x.amax(dim=1, keepdim=True)
        gap = top - x
        low, high = torch.full_like(top, 1.0 / x.shape[1]), torch.ones_like(top)
        if not bounded:
            high = self._bracket_above(gap, high)

        def excess(s: Tensor) -> tuple[Tensor, Tensor]:
            a = self._entries(self.link(s) - gap, bounded)
            return _sum(a) - 1.0, self.ddf(s) * _sum(self.slopes(a, bounded=bounded))

        s, _, _ = root_of_increasing(excess, low, high, _rounding(x))
        a = self._entries(self.link(s) - gap, bounded)
        inexact = ((a.sum(dim=1) - 1.0).abs() > 1e-13).nonzero()[:, 0]
        if len(inexact):
            rounding = 2e-15 * (top.abs() + self.link(s).abs() + s * self.ddf(s))
            y = x[inexact] + (self.link(s) - top)[inexact]
            a[inexact] = self._refine(y, rounding[inexact], bounded)
        a = a / _sum(a)
        if bounded and not self.flat_at_zero:
            lost = (a == 0) & (self.link(s) - gap > self.link(torch.zeros_like(s)))
            a = torch.where(lost, torch.finfo(a.dtype).tiny, a)
        return a

    def slopes(self, a: Tensor, *, bounded: bool = True) -> Tensor:
        """See :meth:`baserate.losses.separable.SeparableLoss.slopes`."""
        h = (1.0 / self.ddf(a)).clamp_max(_MAX_SLOPE)
        return torch.where(a > 0, h, 0.0) if bounded else h

    def _refine(self, y: Tensor, width: Tensor, bounded: bool) -> Tensor:
        """See :meth:`baserate.losses.separable.SeparableLoss._refine`."""
        for _ in range(60):
            above, below = _sum(self._entries(y + width, bounded)), _sum(self._entries(y - width, bounded))
            too_narrow = (below > 1.0) | (above < 1.0)
            if not too_narrow.any():
                break
            width = torch.where(too_narrow, 2.0 * width, width)

        def excess(delta: Tensor) -> tuple[Tensor, Tensor]:
            a = self._entries(y + delta, bounded)
            return _sum(a) - 1.0, _sum(self.slopes(a, bounded=bounded))

        _, low, high = root_of_increasing(excess, -width, width, _rounding(y))
        below, above = self._entries(y + low, bounded), self._entries(y + high, bounded)
        rise = _sum(above) - _sum(below)
        share = torch.where(rise > 0, (1.0 - _sum(below)) / torch.where(rise > 0, rise, 1.0), 0.0)
        return below + share.clamp(0.0, 1.0) * (above - below)

    def _entries(self, y: Tensor, bounded: bool) -> Tensor:
        a = self.inverse_link(y)
        return a.clamp_min(0.0) if bounded else a

    def _bracket_above(self, gap: Tensor, high: Tensor) -> Tensor:
        for _ in range(200):
            too_small = _sum(self._entries(self.link(high) - gap, False)) < 1.0
            if not too_small.any():
                break
            high = torch.where(too_small, 2.0 * high, high)
        return high


def root_of_increasing(
    evaluate: Callable[[Tensor], tuple[Tensor, Tensor]], low: Tensor, high: Tensor, tolerance: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """The roots of many increasing functions, and their brackets; see :mod:`baserate.losses.roots`.

    Functions whose search has ended are evaluated with the others, at their roots.
    """
    t = high.clone()
    last_length = torch.full_like(t, torch.inf)
    done = torch.zeros_like(t, dtype=torch.bool)
    for _ in range(_MAX_STEPS):
        value, slope = evaluate(t)
        high = torch.where(~done & (value >= 0), t, high)
        low = torch.where(~done & (value <= 0), t, low)
        new = t - value / slope
        size = t.abs()
        digit = torch.nextafter(size, torch.full_like(t, torch.inf)) - size
        new = torch.where((new - t).abs() < digit, t - torch.copysign(digit, value), new)
        accepted = (new > low) & (new < high) & ((new - t).abs() <= 0.5 * last_length)
        longer = t - torch.copysign(2.0 * last_length, value)
        other = torch.where(8.0 * last_length < high - low, longer, 0.5 * (low + high))
        new = torch.where(accepted, new, other)
        done = done | ~((value.abs() > tolerance) & (new > low) & (new < high))
        if done.all():
            break
        last_length = torch.where(done, last_length, (new - t).abs())
        t = torch.where(done, t, new)
    return t, low, high


def _sum(a: Tensor) -> Tensor:
    return a.sum(dim=1, keepdim=True)


def _rounding(x: Tensor) -> float:
    return 1e-16 * (4.0 + float(x.shape[1]) ** 0.5)
