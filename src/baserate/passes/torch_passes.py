"""The passes in torch, for tensors on a GPU: log loss, Brier, power, spherical and ranked scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from baserate.core.contracts import (
    Block,
    DualSums,
    Engine,
    ProductSums,
    RowPasses,
    SurveySums,
    WrittenBlock,
    WrittenSums,
)
from baserate.core.row_model import NO_CURVATURE, RowModel
from baserate.errors import BadLoss
from baserate.inputs.reading import Naming
from baserate.support.arrays import FloatArray

if TYPE_CHECKING:
    from baserate.passes.torch_rows import TorchRows

_HOST_VALUES, _DEVICE_VALUES = 1 << 17, 1 << 24  # Values of a block: what fits a cache, and 128 MiB of float64.


@dataclass(frozen=True, eq=False)
class TorchPasses(RowPasses):
    """The formulas of the NumPy passes in torch, in float64.

    Attributes
    ----------
    model : RowModel
    naming : Naming
    on_host : bool
        Whether the tensors are in the memory of the host.
    """

    model: RowModel
    naming: Naming
    on_host: bool = False

    name = "torch"
    array_module = "torch"
    is_default = True
    multiplies = True

    @classmethod
    def for_rows(cls, model: RowModel, rows: Engine, kernels: str) -> Self | None:
        from baserate.passes.torch_losses import torch_loss

        if torch_loss(model.loss, model.n_classes) is None:
            raise BadLoss(
                f"{model.loss!r} has no implementation for tensors on a GPU; log, Brier, power, spherical and ranked "
                "losses have one. Pass probs.cpu().numpy(), which is adjusted on the CPU"
            )
        return cls(model, rows.naming, getattr(rows, "on_host", False))

    @property
    def block_values(self) -> int:  # type: ignore[override]  # a property of the instance here
        return _HOST_VALUES if self.on_host else _DEVICE_VALUES

    def survey(self, block: Block) -> SurveySums:
        import torch

        rows, model = self._rows, self.model
        w: Any = block.weights
        rows.check(block, self.naming)
        p, eta = rows.read(block.rows)
        rows.check_support(rows.kept(eta), block.start, self.naming)
        conjugate = rows.solved_loss.conjugate(eta, p)
        height = torch.from_numpy(model.corner_values).to(p.device) - eta
        zeros = w.new_zeros(())
        if model.loss.pins_zeros:
            pinned = torch.isneginf(eta)
            height = torch.where(pinned, -torch.inf, height)
            zeros = pinned.sum().to(torch.float64)
        ceiling = w @ (height.amax(dim=1) + conjugate)
        return SurveySums(*_to_numpy(w @ p, w @ conjugate, zeros, ceiling, w @ w))

    def reduce(self, block: Block, shift: FloatArray, *, curvature: bool = True) -> DualSums:
        rows, w = self._rows, block.weights
        x, a = rows.shifted(rows.kept(rows.read(block.rows)[1]), shift)
        conjugate = rows.kept_loss.conjugate(x, a)
        curvature_sum = [rows.kept_loss.jacobian(a, w, bounded=self.model.bounded)] if curvature else []
        conjugate, magnitude, mean, *rest = _to_numpy(w @ conjugate, w @ conjugate.abs(), w @ a, *curvature_sum)
        return DualSums(conjugate, magnitude, mean, rest[0] if curvature else NO_CURVATURE)

    def reduce_diagonal(self, block: Block, shift: FloatArray) -> DualSums:
        rows, w = self._rows, block.weights
        x, a = rows.shifted(rows.kept(rows.read(block.rows)[1]), shift)
        conjugate, (h, share) = rows.kept_loss.conjugate(x, a), rows.slopes(a)
        return DualSums(*_to_numpy(w @ conjugate, w @ conjugate.abs(), w @ a, w @ (h - h * share)))

    def multiply(self, block: Block, shift: FloatArray, vector: FloatArray) -> ProductSums:
        rows = self._rows
        a = rows.shifted(rows.kept(rows.read(block.rows)[1]), shift)[1]
        return ProductSums(*_to_numpy(rows.multiply(a, block.weights, vector)))

    def write(self, block: Block, shift: FloatArray, *, check: bool = False) -> WrittenBlock:
        import torch

        rows, model = self._rows, self.model
        w: Any = block.weights
        if check:
            rows.check(block, self.naming)
            rows.check_support(rows.kept(rows.read(block.rows)[1]), block.start, self.naming)
        done = rows.adjusted(block.rows, shift)
        answer = done.after.to(getattr(torch, model.answer_types.common))
        if check:
            self._check_defined(block, shift, done.after)
            return WrittenBlock(answer, ())
        if done.after is done.before:
            (mean,) = _to_numpy(w @ done.after)
            return WrittenBlock(answer, WrittenSums(np.zeros(()), mean, np.zeros(()), mean))
        shortfall = torch.where(w > 0, rows.shortfall(done, shift), 0.0)
        sums = _to_numpy(w @ rows.divergence(done), w @ done.after, w @ shortfall, w @ done.exact)
        return WrittenBlock(answer, WrittenSums(*sums))

    def with_model(self, model: RowModel) -> RowPasses:
        return replace(self, model=model)

    @cached_property
    def _rows(self) -> TorchRows:
        from baserate.passes.torch_rows import TorchRows

        return TorchRows(self.model)

    def _check_defined(self, block: Block, shift: FloatArray, after: Any) -> None:
        """Raise the error of NumPy for a row that has no unbounded adjustment by this shift."""
        undefined = after.isnan().any(dim=1)
        if not self.model.bounded and bool(undefined.any()):
            row = int(undefined.nonzero()[0, 0])
            one = next(block.split_at(row, 1)).as_numpy()  # type: ignore[attr-defined]  # blocks of tensors have it
            self.model.adjust_new_rows(one.rows, one.start, self.naming, shift)


def _to_numpy(*sums: Any) -> list[FloatArray]:
    """Sums on the host, copied there all at once."""
    import torch

    flat = torch.cat([one.reshape(-1) for one in sums]).cpu().numpy()
    found, start = [], 0
    for one in sums:
        found.append(flat[start : start + one.numel()].reshape(tuple(one.shape)))
        start += one.numel()
    return found
