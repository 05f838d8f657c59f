"""Losses in torch, for rows that are on a GPU. They follow the conventions of :mod:`baserate.losses.base`.

Row maps that have a closed form use only operations that ``torch.export`` can trace, so that
:class:`baserate.torch.ShiftLayer` can use them, too: their number depends on the shapes, not on the values.
"""

from __future__ import annotations

from typing import Any

import torch

from baserate.losses.base import Loss
from baserate.losses.brier import Brier
from baserate.losses.log import Log
from baserate.losses.power import Power
from baserate.losses.ranked import RankedProbability
from baserate.losses.softened import Softened
from baserate.losses.spherical import Spherical
from baserate.passes.torch_base import Tensor, TorchLoss, laplacian
from baserate.passes.torch_power import TorchPower, TorchSoftened


class TorchLog(TorchLoss):
    """Log loss."""

    pins_zeros = True

    def phi(self, q: Tensor) -> Tensor:
        return torch.special.xlogy(q, q).sum(dim=1)

    def gradient(self, q: Tensor) -> Tensor:
        return torch.log(q) + 1.0

    def link(self, p: Tensor) -> Tensor:
        return torch.log(p)

    def link_logits(self, logits: Tensor) -> Tensor:
        return logits

    def row_map(self, x: Tensor, *, bounded: bool = True) -> Tensor:
        return torch.softmax(x, dim=-1)

    def conjugate(self, x: Tensor, a: Tensor) -> Tensor:
        return x.amax(dim=1) - torch.log(a.amax(dim=1))

    def slopes(self, a: Tensor, *, bounded: bool = True) -> Tensor:
        return a

    def jacobian(self, a: Tensor, weights: Tensor, *, bounded: bool = True) -> Tensor:
        return laplacian((a.T * weights) @ a)  # without the division by the sums of the slopes, which are 1

    def divergence(self, p: Tensor, q: Tensor) -> Tensor:
        ratio = torch.where(q > 0, torch.log(q) - torch.log(p), 0.0)
        return (torch.where(q > 0, q * ratio, 0.0) - q + p).sum(dim=1).clamp_min(0.0)

    def cost_of_sum(self, p: Tensor, a: Tensor) -> Tensor:
        return (1.0 - a.sum(dim=1)).clamp_min(0.0)


class TorchBrier(TorchLoss):
    """The Brier score."""

    def phi(self, q: Tensor) -> Tensor:
        return (q * q).sum(dim=1)

    def gradient(self, q: Tensor) -> Tensor:
        return 2.0 * q

    def row_map(self, x: Tensor, *, bounded: bool = True) -> Tensor:
        if bounded:
            return onto_simplex(0.5 * x)
        return 0.5 * x + (1.0 - 0.5 * x.sum(dim=-1, keepdim=True)) / x.shape[-1]

    def slopes(self, a: Tensor, *, bounded: bool = True) -> Tensor:
        return 0.5 * (a > 0).to(a.dtype) if bounded else torch.full_like(a, 0.5)

    def divergence(self, p: Tensor, q: Tensor) -> Tensor:
        return self.phi(q - p)


class TorchSpherical(TorchLoss):
    """The spherical score."""

    def phi(self, q: Tensor) -> Tensor:
        return (q * q).sum(dim=1).sqrt()

    def gradient(self, q: Tensor) -> Tensor:
        return q / (q * q).sum(dim=-1, keepdim=True).sqrt()

    def row_map(self, x: Tensor, *, bounded: bool = True) -> Tensor:
        u = _clipped_unit_vector(x) if bounded else _unit_vector(x)
        return u / u.sum(dim=-1, keepdim=True)

    def jacobian(self, a: Tensor, weights: Tensor, *, bounded: bool = True) -> Tensor:
        support = (a > 0).to(a.dtype) if bounded else torch.ones_like(a)
        scale = weights * self.phi(a)
        cross = (support.T * scale) @ a
        outer = (a.T * (scale * support.sum(dim=1))) @ a
        return torch.diag(scale @ support) - cross - cross.T + outer

    def divergence(self, p: Tensor, q: Tensor) -> Tensor:
        angle = self.gradient(q) - self.gradient(p)
        return 0.5 * self.phi(q) * (angle * angle).sum(dim=1)


class TorchRanked(TorchLoss):
    """The ranked probability score. ``steps`` are the numbers of thresholds between neighbouring classes."""

    def __init__(self, steps: Tensor) -> None:
        self.steps = steps

    def phi(self, q: Tensor) -> Tensor:
        return torch.cumsum(q, dim=1)[:, :-1].square() @ self._steps(q)

    def gradient(self, q: Tensor) -> Tensor:
        weighted = 2.0 * torch.cumsum(q, dim=-1)[..., :-1] * self._steps(q)
        sums = torch.cumsum(weighted.flip(-1), dim=-1).flip(-1)
        return torch.nn.functional.pad(sums, (0, 1))

    def row_map(self, x: Tensor, *, bounded: bool = True) -> Tensor:
        steps = self._steps(x)
        cumulative = (x[..., :-1] - x[..., 1:]) / (2.0 * steps)
        if bounded:
            cumulative = _isotonic(cumulative, steps).clamp(0.0, 1.0)
        first, last = cumulative[..., :1], 1.0 - cumulative[..., -1:]
        return torch.cat([first, cumulative[..., 1:] - cumulative[..., :-1], last], dim=-1)

    def jacobian(self, a: Tensor, weights: Tensor, *, bounded: bool = True) -> Tensor:
        # Probability moves only between neighbouring classes of the support. For each pair of classes, the rows count
        # that have both in their support and nothing between them.
        k = a.shape[1]
        position = torch.nn.functional.pad(torch.cumsum(self._steps(a), dim=0), (1, 0))
        support = a > 0 if bounded else torch.ones_like(a, dtype=torch.bool)
        edges = a.new_zeros((k, k))
        for left in range(k - 1):
            open_rows = support[:, left]
            for right in range(left + 1, k):
                pair = open_rows & support[:, right]
                edges[left, right] = 0.5 * (weights * pair).sum() / (position[right] - position[left])
                open_rows = open_rows & ~support[:, right]
        return laplacian(edges + edges.T)

    def divergence(self, p: Tensor, q: Tensor) -> Tensor:
        return self.phi(q - p)

    def _steps(self, like: Tensor) -> Tensor:
        return self.steps.to(dtype=like.dtype, device=like.device)


def onto_simplex(z: Tensor) -> Tensor:
    """The nearest points of the simplex."""
    z = z - z.amax(dim=-1, keepdim=True)
    ordered = torch.sort(z, dim=-1, descending=True).values
    sums = torch.cumsum(ordered, dim=-1)
    size = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
    # The j largest entries are in the support if together they exceed the j-th one by less than 1.
    inside = (sums - size * ordered < 1.0).to(z.dtype)
    n = inside.sum(dim=-1, keepdim=True)
    total = (ordered * inside).sum(dim=-1, keepdim=True)
    a = (z + (1.0 - total) / n).clamp_min(0.0)
    return a / a.sum(dim=-1, keepdim=True)


def _unit_vector(x: Tensor) -> Tensor:
    centred = x - x.mean(dim=-1, keepdim=True)
    squared = (1.0 - (centred * centred).sum(dim=-1, keepdim=True)) / x.shape[-1]
    return centred + torch.where(squared > 0, squared, torch.nan).sqrt()


def _clipped_unit_vector(x: Tensor) -> Tensor:
    """``max(0, x + theta)`` with norm 1."""
    x = x - x.amax(dim=-1, keepdim=True)
    ordered = torch.sort(x, dim=-1, descending=True).values
    sums, squares = torch.cumsum(ordered, dim=-1), torch.cumsum(ordered * ordered, dim=-1)
    size = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    # The j largest entries are in the support if the norm of what exceeds the j-th one is below 1.
    inside = (squares - 2.0 * ordered * sums + size * ordered * ordered < 1.0).to(x.dtype)
    n = inside.sum(dim=-1, keepdim=True)
    mean = (ordered * inside).sum(dim=-1, keepdim=True) / n
    spread = ((ordered - mean).square() * inside).sum(dim=-1, keepdim=True)
    theta = ((1.0 - spread) / n).clamp_min(0.0).sqrt() - mean
    for _ in range(2):  # Newton's method from there corrects the last digits
        u = (x + theta).clamp_min(0.0)
        theta = theta - ((u * u).sum(dim=-1, keepdim=True) - 1.0) / (2.0 * u.sum(dim=-1, keepdim=True))
    return (x + theta).clamp_min(0.0)


def _isotonic(z: Tensor, weights: Tensor) -> Tensor:
    """The nearest non-decreasing rows: entry i is the maximum over j <= i of the smallest mean from j to any l >= i."""
    k = z.shape[-1]
    means = []
    for j in range(k):
        sums = torch.cumsum(z[..., j:] * weights[j:], dim=-1) / torch.cumsum(weights[j:], dim=0)
        columns, lowest = [], sums[..., -1]
        for last in range(k - 1, j - 1, -1):
            lowest = torch.minimum(lowest, sums[..., last - j])
            columns.append(lowest)
        means.append(columns[::-1])
    out = []
    for i in range(k):
        largest = means[0][i]
        for j in range(1, i + 1):
            largest = torch.maximum(largest, means[j][i - j])
        out.append(largest)
    return torch.stack(out, dim=-1)


def torch_loss(loss: Loss, n_classes: int, device: Any = None) -> TorchLoss | None:
    """The same loss in torch, or None if there is none. ``n_classes`` is that of the rows it is used for."""
    kind = type(loss)  # that of this very class: a subclass may have changed the loss
    simple: dict[type[Loss], type[TorchLoss]] = {Log: TorchLog, Brier: TorchBrier, Spherical: TorchSpherical}
    if kind in simple:
        return simple[kind]()
    if isinstance(loss, Power) and kind is Power:
        return TorchPower(loss)
    if isinstance(loss, Softened) and kind is Softened and type(loss.loss) is Power:
        return TorchSoftened(loss)
    if isinstance(loss, RankedProbability) and kind is RankedProbability:
        return TorchRanked(torch.as_tensor(loss.thresholds(n_classes), dtype=torch.float64, device=device))
    return None
