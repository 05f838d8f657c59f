"""What is done to rows in torch: the methods of ``RowModel`` and ``Reading`` for tensors on any device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from baserate.core.contracts import Block
from baserate.core.row_model import RowModel
from baserate.inputs.reading import Naming, Reading
from baserate.passes.torch_base import Tensor, TorchLoss
from baserate.passes.torch_losses import torch_loss
from baserate.support.answer_types import AnswerTypes
from baserate.support.arrays import FloatArray, rows_per_block

_EPS, _TINY = torch.finfo(torch.float64).eps, torch.finfo(torch.float64).tiny
_LOWEST = torch.finfo(torch.float64).min / 4


class AdjustedTensors(NamedTuple):
    """As :class:`baserate.core.row_model.AdjustedRows`."""

    before: Tensor
    dual_points: Tensor
    exact: Tensor
    after: Tensor


@dataclass(frozen=True, eq=False)
class TorchRows:
    """A row model in torch. See the methods of :class:`baserate.core.row_model.RowModel`."""

    model: RowModel

    @cached_property
    def loss(self) -> TorchLoss:
        """The loss of the caller, for all classes."""
        return _required(torch_loss(self.model.loss, self.model.n_classes))

    @cached_property
    def solved_loss(self) -> TorchLoss:
        """The loss whose divergence is minimised, for all classes."""
        return _required(torch_loss(self.model.solved_loss, self.model.n_classes))

    @cached_property
    def kept_loss(self) -> TorchLoss:
        """The same for the kept classes."""
        return _required(torch_loss(self.model.kept_loss, len(self.model.kept_classes)))

    def read(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions and their dual points."""
        rows = cleaned(raw, self.model.reading)
        if self.model.reading.from_logits:
            return self.loss.probs_of_logits(rows), self.solved_loss.link_logits(rows)
        return rows, self.solved_loss.link(rows)

    def kept(self, columns: Tensor) -> Tensor:
        """The columns of the kept classes."""
        return columns if self.model.keeps_all_classes else columns[:, self._kept_on(columns)]

    def shifted(self, eta: Tensor, shift: FloatArray) -> tuple[Tensor, Tensor]:
        """The shifted dual points of the kept classes, and the adjusted rows that belong to them."""
        x = eta + on_device(shift, eta)
        if self.model.limit_levels is not None:
            levels = torch.as_tensor(self.model.limit_levels, device=eta.device)
            level = torch.where(torch.isneginf(eta), -1, levels)
            x = torch.where(level < level.amax(dim=1, keepdim=True), -torch.inf, x)
        if len(self.model.kept_classes) == 1 and self.model.bounded:
            return x, torch.ones_like(x)
        return x, self.kept_loss.row_map(x, bounded=self.model.bounded)

    def slopes(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """The slopes of adjusted rows, and each as a share of the sum of its row."""
        h = self.kept_loss.slopes(a, bounded=self.model.bounded)
        total = h.sum(dim=1, keepdim=True)
        return h, torch.where(total > 0, h / total, 0.0)

    def multiply(self, a: Tensor, weights: Tensor, vector: FloatArray) -> Tensor:
        """The curvature times a vector, from adjusted rows."""
        (h, share), v = self.slopes(a), on_device(vector, a)
        return weights @ (h * (v - (share @ v)[:, None]))

    def adjusted(self, raw: Tensor, shift: FloatArray) -> AdjustedTensors:
        """The adjustment of raw rows that were checked."""
        p, eta = self.read(raw)
        exact = self._adjusted(p, eta, shift)
        return AdjustedTensors(p, eta, exact, rounded(exact, self.model.answer_types))

    def _adjusted(self, p: Tensor, eta: Tensor, shift: FloatArray) -> Tensor:
        model = self.model
        if not shift.any() and model.keeps_all_classes and model.limit_levels is None:
            return p
        x, a = self.shifted(self.kept(eta), shift)
        if model.loss.pins_zeros:
            a = torch.where((a < _TINY) & (x > -torch.inf), _TINY, a)
        if model.keeps_all_classes:
            return a
        out = a.new_zeros((len(a), model.n_classes))
        out[:, self._kept_on(a)] = a
        return out

    def divergence(self, rows: AdjustedTensors) -> Tensor:
        """The divergence of the adjusted rows from the predictions."""
        divergence = self.loss.divergence(rows.before, rows.after)
        if rows.after is rows.exact:
            return divergence
        signed = self.loss.signed_divergence(rows.before, rows.after)
        return torch.where((divergence == 0) & ~torch.isnan(signed), signed, divergence)

    def shortfall(self, rows: AdjustedTensors, shift: FloatArray) -> Tensor:
        """How far the fall of the loss may be below the dual value, for each row."""
        eta = self.loss.link(rows.before) if self.model.softness else rows.dual_points
        old, new, after = self.kept(eta), self.kept(self.loss.link(rows.after)), self.kept(rows.after)
        move = on_device(shift, old)
        possible = old > -torch.inf
        if self.model.limit_levels is not None:
            possible = possible & (after > 0)
        fall = new - old - move
        rounding = 8 * _EPS * (new.abs() + old.abs() + move.abs())
        least = torch.where(possible, fall + rounding, torch.inf).amin(dim=1)
        mean = torch.where(possible & (after != 0), fall * after, 0.0).sum(dim=1)
        if rows.after is not rows.exact:
            mean = mean + self.loss.cost_of_sum(rows.before, rows.after)
        return (mean - least).clamp_min(0.0)

    def check(self, block: Block, naming: Naming) -> None:
        """Raise the error of NumPy if a row is not a valid prediction, or cannot be adjusted."""
        bad = _bad_rows(block.rows, self.model.reading)
        first = _first(bad)
        if first is not None:
            size = rows_per_block(self.model.n_classes)  # those that NumPy would have checked together
            start = (block.start + first) // size * size - block.start
            piece = next(block.split_at(max(start, 0), size)).as_numpy()  # type: ignore[attr-defined]  # of a tensor
            self.model.reading.check(piece.rows, piece.start, naming)

    def check_support(self, eta: Tensor, first_row: int, naming: Naming) -> None:
        """Reject rows that give probability only to classes of rate 0."""
        if not self.model.loss.pins_zeros or self.model.keeps_all_classes:
            return
        first = _first(torch.isneginf(eta).all(dim=1))
        if first is not None:
            self.model.check_support(eta[first : first + 1].cpu().numpy(), first_row + first, naming)

    def _kept_on(self, like: Tensor) -> Tensor:
        return torch.as_tensor(self.model.kept_classes, device=like.device)


def cleaned(raw: Tensor, reading: Reading) -> Tensor:
    """Probabilities in float64 that sum to 1 per row, or log probabilities; see ``Reading.clean``."""
    rows = raw.to(torch.float64)
    if reading.from_logits:
        return _cleaned_logits(rows, reading.smoothing)
    if reading.normalize:
        rows = rows / rows.amax(dim=1, keepdim=True)  # so that the sum cannot overflow
    rows = rows / rows.sum(dim=1, keepdim=True)
    if reading.smoothing:
        rows = (rows + reading.smoothing) / (1.0 + rows.shape[1] * reading.smoothing)
    return rows


def _cleaned_logits(rows: Tensor, smoothing: float) -> Tensor:
    hard_zero = torch.isneginf(rows)
    rows = rows - rows.amax(dim=1, keepdim=True)
    rows = torch.where(hard_zero, rows, rows.clamp_min(_LOWEST))
    rows = rows - torch.log(torch.exp(rows).sum(dim=1, keepdim=True))
    if smoothing:
        amount = torch.full_like(rows, smoothing).log()
        rows = torch.logaddexp(rows, amount) - float(np.log1p(rows.shape[1] * smoothing))
    return rows


def rounded(probs: Tensor, types: AnswerTypes) -> Tensor:
    """The rows as they are returned, but still in float64; ``probs`` itself if it needs no rounding."""
    if types.are_float64:
        return probs
    if types.columns is None:
        return round_to(probs, types.common)
    # The probability of the second of two classes. Readers take 1 minus it for the first one, which must not become 0.
    second = round_to(probs[:, 1], types.columns[0])
    below = 1.0 - torch.finfo(getattr(torch, types.columns[0])).eps / 2
    second = torch.where((second == 1) & (probs[:, 0] > 0), below, second)
    return torch.stack([1.0 - second, second], dim=1)


def round_to(probs: Tensor, name: str) -> Tensor:
    """Probabilities rounded to a dtype; see :func:`baserate.support.answer_types.round_to`."""
    dtype = getattr(torch, name)
    out = probs.to(dtype)
    if dtype == probs.dtype:
        return out
    back = out.to(probs.dtype)
    small = (probs > 0) & (probs < torch.finfo(dtype).tiny) & (back < probs)
    return torch.where(small, torch.nextafter(out, torch.ones_like(out)).to(probs.dtype), back)


def on_device(values: FloatArray, like: Tensor) -> Tensor:
    """A few numbers on the device of a tensor."""
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64)).to(like.device, non_blocking=True)


def sum_tolerance(raw: Tensor, reading: Reading) -> float:
    """How far the sum of a row may be from 1."""
    return reading.tolerance(np.dtype(np.float16 if raw.element_size() == 2 else np.float32))


def _bad_rows(raw: Tensor, reading: Reading) -> Tensor:
    """Which rows are not valid predictions."""
    if reading.from_logits:
        wrong = torch.isnan(raw) | torch.isposinf(raw)
        return wrong.any(dim=1) | torch.isneginf(raw).all(dim=1)
    wrong = (~torch.isfinite(raw) | (raw < 0)).any(dim=1)
    if reading.normalize:
        return wrong | ~(raw > 0).any(dim=1)
    error = (raw.sum(dim=1, dtype=torch.float64) - 1.0).abs()
    return wrong | (error > sum_tolerance(raw, reading))


def _first(bad: Tensor) -> int | None:
    """The number of the first row that is bad."""
    found = int(bad.to(torch.uint8).argmax())
    return found if bool(bad[found]) else None


def _required(loss: TorchLoss | None) -> TorchLoss:
    assert loss is not None  # the passes were chosen for this loss
    return loss
