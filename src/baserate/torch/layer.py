"""A fitted shift as a module of torch."""

from __future__ import annotations

import torch

from baserate.errors import BadLoss, BadOption
from baserate.passes.torch_base import Tensor, TorchLoss
from baserate.passes.torch_losses import torch_loss
from baserate.result.grouped import GroupedResult
from baserate.result.record import Result


class ShiftLayer(torch.nn.Module):
    """Adjusts predictions by a fitted shift, as ``Adjustment.apply`` does, but without checking them.

    It can be the last module of a network, and can be exported by ``torch.export`` and to ONNX. Its only state is the
    buffer ``shift``. It computes in the dtype of this buffer and returns the dtype of the input. To compute in float32,
    call ``layer.float()``.

    Parameters
    ----------
    result : Adjustment
        With log, Brier, spherical or ranked loss.
    from_logits : bool, optional
        Whether the input is logits; by default as in the fit. The output is always probabilities.

    Examples
    --------
    >>> import torch, baserate as br
    >>> result = br.adjust([[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7])
    >>> layer = result.to_torch()
    >>> layer(torch.tensor([[0.5, 0.5]])).round(decimals=3)
    tensor([[0.2410, 0.7590]])
    """

    def __init__(self, result: Result, *, from_logits: bool | None = None) -> None:
        super().__init__()
        if isinstance(result, GroupedResult):
            raise BadOption("a layer has one shift, but this adjustment has shifts of groups; use apply")
        model = result.model
        if model.limit_levels is not None:
            raise BadOption("these rates are only reached in a limit, which a layer cannot compute; use apply")
        self.loss, self.kept_loss = _exportable(result)
        self.from_logits = model.reading.from_logits if from_logits is None else bool(from_logits)
        self.smoothing, self.bounded, self.one_column = model.reading.smoothing, model.bounded, result.one_column
        self.n_classes, self.all_kept = model.n_classes, model.keeps_all_classes
        kept = torch.as_tensor(model.kept_classes)
        # Where each class is among the kept ones; those of rate 0 are at the end, where a column of zeros is added.
        places = torch.full((model.n_classes,), len(kept))
        places[kept] = torch.arange(len(kept))
        self.register_buffer("shift", torch.as_tensor(result.dual_shift, dtype=torch.float64))
        self.register_buffer("kept", kept, persistent=False)
        self.register_buffer("places", places, persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Adjusted probabilities of rows with k classes in the last dimension; all other dimensions are kept."""
        eta = self._dual_points(rows.to(self.shift.dtype))
        x = (eta if self.all_kept else eta.index_select(-1, self.kept)) + self.shift
        a = torch.ones_like(x) if x.shape[-1] == 1 else self.kept_loss.row_map(x, bounded=self.bounded)
        if self.loss.pins_zeros:  # a probability that underflows must not become a hard zero
            a = torch.where(x > -torch.inf, a.clamp_min(_tiny(rows, a)), a)
        if not self.all_kept:
            a = torch.cat([a, torch.zeros_like(a[..., :1])], dim=-1).index_select(-1, self.places)
        return (a[..., 1] if self.one_column else a).to(rows.dtype)

    def extra_repr(self) -> str:
        return f"{self.n_classes} classes, loss={type(self.loss).__name__.removeprefix('Torch').lower()!r}"

    def _dual_points(self, rows: Tensor) -> Tensor:
        if self.from_logits:
            if self.one_column:
                rows = torch.stack([torch.zeros_like(rows), rows], dim=-1)
            logs = torch.log_softmax(rows, dim=-1)
            if not self.smoothing:
                return self.loss.link_logits(logs)
            return self.loss.link(self._smoothed(torch.exp(logs)))
        if self.one_column:
            rows = torch.stack([1.0 - rows, rows], dim=-1)
        return self.loss.link(self._smoothed(rows / rows.sum(dim=-1, keepdim=True)))

    def _smoothed(self, p: Tensor) -> Tensor:
        return (p + self.smoothing) / (1.0 + self.n_classes * self.smoothing) if self.smoothing else p


def _tiny(rows: Tensor, a: Tensor) -> float:
    """The smallest normal number of the dtype of the result."""
    return max(torch.finfo(rows.dtype).tiny, torch.finfo(a.dtype).tiny)


def _exportable(result: Result) -> tuple[TorchLoss, TorchLoss]:
    """The loss in torch for all classes and for the kept ones, if its row map has a closed form."""
    model = result.model
    found = torch_loss(model.loss, model.n_classes), torch_loss(model.kept_loss, len(model.kept_classes))
    if found[0] is None or found[1] is None or not found[1].has_closed_map:
        raise BadLoss(
            f"{model.loss!r} has no closed formula in torch; log, Brier, spherical and ranked losses have one. "
            "Use apply, which takes tensors"
        )
    return found[0], found[1]
