"""The base class of losses in torch, for rows that are on a GPU, and what they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch

Tensor = Any  # of torch, which has no types for those who check this package without it


class TorchLoss(ABC):
    """A loss in torch; the methods are those of :class:`baserate.losses.base.Loss`."""

    pins_zeros = False
    has_closed_map = True
    """Whether :meth:`row_map` can be exported."""

    @abstractmethod
    def phi(self, q: Tensor) -> Tensor:
        """The generator."""

    @abstractmethod
    def gradient(self, q: Tensor) -> Tensor:
        """Its gradient."""

    @abstractmethod
    def row_map(self, x: Tensor, *, bounded: bool = True) -> Tensor:
        """The predictions for dual points. Other dimensions than the last may have any sizes."""

    def slopes(self, a: Tensor, *, bounded: bool = True) -> Tensor:
        """The slopes of the row map, for losses that have them."""
        raise NotImplementedError(f"{type(self).__name__} has no slopes")

    def jacobian(self, a: Tensor, weights: Tensor, *, bounded: bool = True) -> Tensor:
        """The weighted sum of the derivatives of the row map. Losses without slopes override this."""
        return centred_outer(self.slopes(a, bounded=bounded), weights)

    def link(self, p: Tensor) -> Tensor:
        """The dual points of predictions."""
        return self.gradient(p)

    def link_logits(self, logits: Tensor) -> Tensor:
        """The dual points of normalised log probabilities."""
        return self.link(self.probs_of_logits(logits))

    def probs_of_logits(self, logits: Tensor) -> Tensor:
        """Probabilities of normalised log probabilities."""
        p = torch.exp(logits)
        if not self.pins_zeros:
            return p
        return torch.where(torch.isfinite(logits), p.clamp_min(torch.finfo(p.dtype).tiny), p)

    def conjugate(self, x: Tensor, a: Tensor) -> Tensor:
        """The conjugate at ``x``, if ``a`` belongs to it."""
        return inner(x, a) - self.phi(a)

    def divergence(self, p: Tensor, q: Tensor) -> Tensor:
        """The divergence from ``p`` to ``q``."""
        return self.signed_divergence(p, q).clamp_min(0.0)

    def signed_divergence(self, p: Tensor, q: Tensor) -> Tensor:
        """The same by its definition, which may be below 0 for rounded rows."""
        return self.phi(q) - self.phi(p) - inner(self.gradient(p), q - p)

    def cost_of_sum(self, p: Tensor, a: Tensor) -> Tensor:
        """What the loss gains because rounded rows do not sum to 1."""

        def constant(q: Tensor) -> Tensor:
            largest = q.argmax(dim=1, keepdim=True)
            return (self.gradient(q) - self.link(q)).gather(1, largest)[:, 0]

        return (constant(a) - constant(p)) * (a.sum(dim=1) - 1.0)


def inner(x: Tensor, a: Tensor) -> Tensor:
    """Inner products of the rows, with ``-inf * 0`` counted as 0."""
    return torch.where(a != 0, x * a, 0.0).sum(dim=1)


def laplacian(edges: Tensor) -> Tensor:
    """The graph Laplacian of a symmetric matrix of edge weights."""
    edges = edges - torch.diag(torch.diagonal(edges))
    return torch.diag(edges.sum(dim=1)) - edges


def centred_outer(h: Tensor, weights: Tensor) -> Tensor:
    """``sum_i w_i (diag(h_i) - h_i h_i' / sum(h_i))``, see :func:`baserate.losses.base.centred_outer`."""
    total = h.sum(dim=1)
    scale = torch.where(total > 0, weights / torch.where(total > 0, total, 1.0), 0.0)
    return laplacian((h.T * scale) @ h)
