"""The passes of log loss and the Brier score as Triton kernels, for large tensors on a GPU.

Triton comes with torch on Linux. Compiling a kernel takes about a second, once per machine, so small inputs use torch.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from baserate.core.contracts import (
    Block,
    DualSums,
    Engine,
    FirstSums,
    RowPasses,
    SurveySums,
    WrittenBlock,
    WrittenSums,
    total,
)
from baserate.core.row_model import NO_CURVATURE, RowModel
from baserate.errors import warn
from baserate.inputs.reading import Naming
from baserate.losses.base import laplacian
from baserate.passes.torch_passes import TorchPasses
from baserate.support.arrays import FloatArray, IndexArray, rows_per_block

LARGE_VALUES = 1_000_000
"""Inputs with so many values use Triton by default."""

MOST_CLASSES = 4096
"""Rows with more classes do not fit into the registers of a program."""

_MOST_PER_LANE, _MOST_CURVED = 16, 12  # Most classes of a row that fit in one lane, without and with the curvature.
_TILE_VALUES, _LANE_COLUMNS = 128, 16  # Values of a tile for more classes, and the columns that a lane holds at most.
_SCALED_VALUES = 1 << 26  # Values in float64 that are stored at a time for the curvature of many classes: 512 MiB.
_WIDEST = 600.0  # Largest range of a shift for log loss; exp(shift) of a larger one could overflow or underflow.
_DROPPED = -1e30  # Half the shift of classes of rate 0, for the Brier score; a number of float32.
_PROGRAMS_PER_CORE = 32  # Enough to hide the latency of memory, and few enough that adding up their sums costs little.
_INTERPRETED_BLOCK = 1024  # The interpreter takes as long for many lanes as for few.
_EPS = float(np.finfo(np.float64).eps)


class _PassResult(NamedTuple):
    """The sums of a pass, weighted, for all classes."""

    sums: FloatArray
    before: FloatArray
    mean: FloatArray
    rounded: FloatArray
    edges: FloatArray


@dataclass(frozen=True, eq=False)
class TritonPasses(RowPasses):
    """Fused passes; what they cannot compute, and rows that need an error message, go to :class:`TorchPasses`."""

    model: RowModel
    naming: Naming
    loss: str
    fallback: TorchPasses

    name = "triton"
    block_values = 1 << 62  # one block
    reuses_curvature = True

    @classmethod
    def for_rows(cls, model: RowModel, rows: Engine, kernels: str) -> Self | None:
        if rows.array_module != "torch" or kernels == "off":
            return None
        loss = vars(type(model.loss)).get("kernel")  # that of this very class: a subclass may have changed the loss
        large = kernels == "always" or rows.n_values >= LARGE_VALUES
        device = getattr(rows, "device", None)
        can_run = device is not None and (device.type == "cuda" or is_interpreted())
        if loss is None or not large or not can_run or not _supports(model) or not is_installed():
            return None
        fallback = TorchPasses.for_rows(model, rows, kernels)
        assert fallback is not None
        return cls(model, rows.naming, loss, fallback)

    def with_model(self, model: RowModel) -> RowPasses:
        fallback = replace(self.fallback, model=model)
        return replace(self, model=model, fallback=fallback) if _supports(model) else fallback

    def survey(self, block: Block) -> SurveySums:
        return self.first(block, np.zeros(len(self.model.kept_classes)), curvature=False).survey

    def first(self, block: Block, shift: FloatArray, *, curvature: bool = True) -> FirstSums:
        done = self._run(block, shift, survey=True, curvature=curvature)
        if done is None or not self._is_supported(done):
            return self._in_torch(block, functools.partial(self.fallback.first, shift=shift, curvature=curvature))
        return FirstSums(self._survey(block, done), self._dual_sums(done, curvature))

    def reduce(self, block: Block, shift: FloatArray, *, curvature: bool = True) -> DualSums:
        done = self._run(block, shift, curvature=curvature)
        if done is None:
            return self._in_torch(block, functools.partial(self.fallback.reduce, shift=shift, curvature=curvature))
        return self._dual_sums(done, curvature)

    def write(self, block: Block, shift: FloatArray, *, check: bool = False) -> WrittenBlock:
        rows = self._space_for_rows(block)
        unchanged = not shift.any()  # torch returns such rows without rounding error
        writes = self.model.answer_types.columns is None and not unchanged
        done = self._run(block, shift, survey=check, rows=rows) if writes else None
        if done is None or (check and not self._is_supported(done)):
            return self._write_in_torch(block, shift, check, rows)
        if check:
            return WrittenBlock(rows, ())
        is_rounded = self.model.answer_types.common == "float32"
        returned = done.rounded if is_rounded else done.mean
        divergence = done.sums[_kernels().MOVED]
        if self.loss == "log":  # By Fenchel's identity, with conj(link(p)) = 0. The kernel sums what rounding adds.
            divergence += shift @ returned[self.model.kept_classes] - done.sums[_kernels().VALUE]
        shortfall = np.asarray(done.sums[_kernels().SHORT])
        return WrittenBlock(rows, WrittenSums(np.asarray(divergence), returned, shortfall, done.mean))

    def _survey(self, block: Block, done: _PassResult) -> SurveySums:
        kernels, weight = _kernels(), block.equal_weight  # type: ignore[attr-defined]  # blocks of tensors have it
        squared = len(block.weights) * weight**2 if weight is not None else float(block.weights @ block.weights)
        offset, zeros, ceiling = (done.sums[i] for i in (kernels.OFFSET, kernels.ZEROS, kernels.CEILING))
        return SurveySums(done.before, *map(np.asarray, (offset, zeros, ceiling, squared)))

    def _dual_sums(self, done: _PassResult, curvature: bool) -> DualSums:
        kernels, kept = _kernels(), self.model.kept_classes
        value, size = np.asarray(done.sums[kernels.VALUE]), np.asarray(done.sums[kernels.SIZE])
        bend = laplacian(done.edges[np.ix_(kept, kept)]) if curvature else NO_CURVATURE
        return DualSums(value, size, done.mean[kept], bend)

    def _is_supported(self, done: _PassResult) -> bool:
        """Whether every row certainly gives probability to some class of positive rate."""
        zeros = done.sums[_kernels().ZEROS]
        return self.model.keeps_all_classes or self.loss != "log" or zeros == 0

    def _run(
        self, block: Block, shift: FloatArray, *, survey: bool = False, curvature: bool = False, rows: Any = None
    ) -> _PassResult | None:
        """One pass over a block; None if the kernel cannot compute it or met a row that is not a prediction."""
        if self.loss == "log" and np.ptp(shift) > _WIDEST:
            return None
        kernels, k = _kernels(), self.model.n_classes
        weight = block.equal_weight  # type: ignore[attr-defined]  # blocks of tensors have it
        line = launch(
            self.loss,
            block.rows,
            None if weight is not None else block.weights,
            self._params(shift, block),
            rows,
            survey=survey,
            curvature=curvature,
            logits=self.model.reading.from_logits,
        )
        if line[kernels.INVALID]:
            return None
        zeros = line[kernels.ZEROS]
        line *= 1.0 if weight is None else weight
        line[kernels.ZEROS] = zeros
        ends = [kernels.N_SUMS + i * k for i in range(4)]
        before, mean, rounded = (line[start : start + k] for start in ends[:3])
        return _PassResult(line[: ends[0]], before, mean, rounded, _edges(line[ends[3] :], k))

    def _params(self, shift: FloatArray, block: Block) -> FloatArray:
        """What the kernel needs to know about the shift and about how rows are read."""
        from baserate.passes.torch_rows import sum_tolerance

        model, centre, rounding = self.model, 0.0, 0.0
        if self.loss == "log":
            centre = 0.5 * float(shift.min() + shift.max())
            of_class = model.per_class(np.exp(shift - centre), fill=0.0)
        else:
            of_class = model.per_class(0.5 * shift, fill=_DROPPED)
            rounding = 8 * _EPS * (4 + float(np.abs(shift).max()))
        reading = model.reading
        tolerance = np.inf if reading.normalize else sum_tolerance(block.rows, reading)
        return np.concatenate([of_class, [reading.smoothing, tolerance, centre, rounding]])

    def _space_for_rows(self, block: Block) -> Any:
        """Memory for the adjusted rows of a block: that of the answer if it is there."""
        if block.scratch is not None:
            return block.scratch
        import torch

        return torch.empty_like(block.rows, dtype=getattr(torch, self.model.answer_types.common))

    def _in_torch(self, block: Block, task: Callable[[Block], Any]) -> Any:
        return total(map(task, block.split(rows_per_block(self.model.n_classes, self.fallback.block_values))))

    def _write_in_torch(self, block: Block, shift: FloatArray, check: bool, rows: Any) -> WrittenBlock:
        def write(piece: Block) -> Any:
            written = self.fallback.write(piece, shift, check=check)
            first = piece.start - block.start
            rows[first : first + len(written.rows)] = written.rows
            return written.sums

        sums = self._in_torch(block, write)
        return WrittenBlock(rows, sums)


def launch(
    loss: str, raw: Any, weights: Any, params: FloatArray, rows: Any, *, survey: bool, curvature: bool, logits: bool
) -> FloatArray:
    """Run a kernel, and add up the sums of its programs. Without ``rows`` nothing is written.

    Returns
    -------
    array of shape (N_SUMS + 3k,), with the edge weights after it if the curvature was asked for
        Those below the diagonal, or all k * k.
    """
    import torch

    settings = torch.from_numpy(params).to(raw.device, non_blocking=True)
    write = rows is not None
    flags = {
        "SURVEY": survey,
        "WRITE": write,
        "ROUND": write and rows.dtype == torch.float32,
        "LOGITS": logits,
        "WEIGHTED": weights is not None,
    }
    on_device = torch.cuda.device(raw.device) if raw.device.type == "cuda" else contextlib.nullcontext()
    run = _launch_wide
    if _fits_a_lane(raw.shape[1], curvature):
        run = _launch_per_lane
        flags["SMOOTH"] = bool(params[raw.shape[1] + _kernels().SMOOTHING])
        flags["UNDERFLOW"] = logits or raw.dtype == torch.float64
    with on_device:
        found: FloatArray = run(loss, raw, weights, settings, rows, curvature, flags).cpu().numpy()
    return found


def _launch_per_lane(
    loss: str, raw: Any, weights: Any, settings: Any, rows: Any, curvature: bool, flags: dict[str, bool]
) -> Any:
    """Run a kernel whose lanes hold a row each."""
    kernels, (n, k) = _kernels(), raw.shape
    block, warps = _shape(loss, curvature)
    out = _space_for_sums(raw, -(-n // block), kernels.n_sums(k, curvature))
    target = out if rows is None else rows
    run = kernels.log_pass if loss == "log" else kernels.brier_pass
    run[(len(out),)](
        raw, out if weights is None else weights, settings, target, out, n, *raw.stride(), *target.stride(),
        K=k, BLOCK=block, CURVATURE=curvature, **flags, **_options(warps),
    )  # fmt: skip
    return out.sum(dim=0)


def _launch_wide(
    loss: str, raw: Any, weights: Any, settings: Any, rows: Any, curvature: bool, flags: dict[str, bool]
) -> Any:
    """Run a kernel for many classes; for the curvature, on some rows at a time."""
    import torch

    from baserate.passes import triton_wide

    k = raw.shape[1]
    columns = 1 << (k - 1).bit_length()
    in_tile = max(_TILE_VALUES // columns, 1) if not is_interpreted() else 64
    warps = max(columns // (32 * _LANE_COLUMNS), 1)
    run = triton_wide.log_wide if loss == "log" else triton_wide.brier_wide
    sums, edges = 0.0, torch.zeros((k, k) if curvature else 0, dtype=torch.float64, device=raw.device)
    size = max(_SCALED_VALUES // k, 1) if curvature else len(raw)
    scaled = torch.empty((min(size, len(raw)), k), dtype=torch.float64, device=raw.device) if curvature else edges
    for start in range(0, len(raw), size):
        piece = raw[start : start + size]
        out = _space_for_sums(raw, -(-len(piece) // in_tile), _kernels().n_sums(k, False))
        target = out if rows is None else rows[start : start + size]
        of_rows = out if weights is None else weights[start : start + size]
        run[(len(out),)](
            piece, of_rows, settings, target, scaled, out, len(piece), *piece.stride(), *target.stride(),
            K=k, COLUMNS=columns, ROWS=in_tile, SCALED=curvature, **flags, **_options(warps),
        )  # fmt: skip
        sums = sums + out.sum(dim=0)
        if curvature:
            done = scaled[: len(piece)]
            edges.addmm_(done.T, done)
    return torch.cat([sums, edges.reshape(-1)])


def _space_for_sums(raw: Any, n_tiles: int, n_sums: int) -> Any:
    """A line of sums for each program."""
    import torch

    programs = min(n_tiles, _PROGRAMS_PER_CORE * _cores(raw.device))
    return torch.empty((programs, n_sums), dtype=torch.float64, device=raw.device)


def _options(warps: int) -> dict[str, Any]:
    return {} if is_interpreted() else {"num_warps": warps, "enable_fp_fusion": True}


def _fits_a_lane(k: int, curvature: bool) -> bool:
    """Whether a lane can hold a row and its sums."""
    return k <= (_MOST_CURVED if curvature else _MOST_PER_LANE)


def _edges(found: FloatArray, k: int) -> FloatArray:
    """Edge weights as a symmetric matrix, from those below the diagonal or from all; 0 if there are none."""
    if len(found) == k * k:
        return found.reshape(k, k)
    edges = np.zeros((k, k))
    if len(found):
        edges[_below_diagonal(k)] = found
        edges += edges.T
    return edges


@functools.cache
def _below_diagonal(k: int) -> tuple[IndexArray, IndexArray]:
    return np.tril_indices(k, -1)


def _shape(loss: str, curvature: bool) -> tuple[int, int]:
    """Rows per tile, and warps: one row per lane."""
    if is_interpreted():
        return _INTERPRETED_BLOCK, 1
    # The search for theta ends when it ends in all lanes, which is cheap to find out within one warp.
    return (64, 2) if loss == "log" else (32, 1)


def _supports(model: RowModel) -> bool:
    plain = model.bounded and model.limit_levels is None and not model.softness
    return plain and 2 <= model.n_classes <= MOST_CLASSES


def is_interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@functools.cache
def _cores(device: Any) -> int:
    import torch

    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@functools.cache
def is_installed() -> bool:
    """Whether Triton is installed and can be imported."""
    try:
        _kernels()
    except ImportError as error:
        warn(RuntimeWarning(f"Triton cannot be imported, so torch is used, which is slower: {error}"))
        return False
    return True


@functools.cache
def _kernels() -> Any:
    from baserate.passes import triton_kernels

    return triton_kernels
