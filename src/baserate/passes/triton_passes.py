"""The passes of log loss and the Brier score as Triton kernels, for large tensors on a GPU.

Triton comes with torch on Linux. Compiling a kernel takes about a second, once per machine, so small inputs use torch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from baserate.core.contracts import (
    Block,
    DualSums,
    Engine,
    FirstSums,
    ProductSums,
    RowPasses,
    SolvedBlock,
    SurveySums,
    WrittenBlock,
    WrittenSums,
    total,
)
from baserate.core.newton import Point, Target
from baserate.core.row_model import NO_CURVATURE, RowModel
from baserate.errors import warn
from baserate.inputs.reading import Naming
from baserate.losses.base import laplacian
from baserate.passes.torch_passes import TorchPasses
from baserate.support.arrays import FloatArray, IndexArray, rows_per_block

LARGE_VALUES = 1_000_000
"""Inputs with at least this many values use Triton by default."""

MOST_CLASSES = 4096
"""Rows with more classes do not fit into the registers of a program."""

_WIDEST = 600.0  # Largest range of a shift for log loss; exp(shift) of a larger one could overflow or underflow.
_DROPPED = -1e30  # Half the shift of classes of rate 0, for the Brier score; a number of float32.
_EPS = float(np.finfo(np.float64).eps)


class _PassResult(NamedTuple):
    """The sums of a pass, weighted, for all classes. ``curved`` is what was summed of the curvature."""

    sums: FloatArray
    before: FloatArray
    mean: FloatArray
    rounded: FloatArray
    curved: FloatArray


@dataclass(frozen=True, eq=False)
class TritonPasses(RowPasses):
    """Fused passes; what they cannot compute, and rows that need an error message, go to :class:`TorchPasses`."""

    model: RowModel
    naming: Naming
    loss: str
    fallback: TorchPasses

    name = "triton"
    array_module = "torch"
    block_values = 1 << 62  # one block
    reuses_curvature = True
    multiplies = True

    @classmethod
    def for_rows(cls, model: RowModel, rows: Engine, kernels: str) -> Self | None:
        if kernels == "off":
            return None
        loss = vars(type(model.loss)).get("kernel")  # that of this very class: a subclass may have changed the loss
        large = kernels == "always" or rows.n_values >= LARGE_VALUES
        device = getattr(rows, "device", None)
        if loss is None or not large or device is None or not _supports(model) or not is_installed():
            return None
        if device.type != "cuda" and not _launching().is_interpreted():
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

    def reduce_diagonal(self, block: Block, shift: FloatArray) -> DualSums:
        done = self._run(block, shift, diagonal=True)
        if done is None:
            return self._in_torch(block, functools.partial(self.fallback.reduce_diagonal, shift=shift))
        return self._dual_sums(done, False)._replace(curvature=done.curved[self.model.kept_classes])

    def multiply(self, block: Block, shift: FloatArray, vector: FloatArray) -> ProductSums:
        model, weight = self.model, block.equal_weight  # type: ignore[attr-defined]  # blocks of tensors have it
        in_torch = functools.partial(self.fallback.multiply, shift=shift, vector=vector)
        if not self._reaches(shift):
            return self._in_torch(block, in_torch)
        of_all_classes = model.per_class(vector, fill=0.0)
        line = _launching().launch_product(self._input(block), self._settings(shift, block), of_all_classes)
        if line[-1]:  # rows that the kernel cannot compute
            return self._in_torch(block, in_torch)
        return ProductSums(line[:-1][model.kept_classes] * (1.0 if weight is None else weight))

    def write(self, block: Block, shift: FloatArray, *, check: bool = False) -> WrittenBlock:
        rows = self._space_for_rows(block)
        unchanged = not shift.any()  # torch returns such rows without rounding error
        writes = self.model.answer_types.columns is None and not unchanged
        done = self._run(block, shift, survey=check, rows=rows) if writes else None
        if done is None or (check and not self._is_supported(done)):
            return self._write_in_torch(block, shift, check, rows)
        return WrittenBlock(rows, () if check else self._written_sums(done, shift))

    def solves(self, rows: Engine) -> bool:
        return self.model.n_classes <= _launching().MOST_CURVED and self.model.answer_types.columns is None

    def solve(
        self, block: Block, rates: FloatArray, target: Target, sample: Block | None = None
    ) -> WrittenBlock | None:
        from baserate.passes import triton_newton

        def rows_of(some: Block) -> Any:
            weight = some.equal_weight  # type: ignore[attr-defined]  # blocks of tensors have it
            return triton_newton.Rows(self._input(some), 1.0 if weight is None else weight)

        rows, settings = self._space_for_rows(block), self._settings(np.zeros(len(rates)), block)
        sampled = None if sample is None else rows_of(sample)
        problem = triton_newton.Problem(rows_of(block), sampled, rows, rates, settings)

        def is_solution(shift: FloatArray, sums: FloatArray) -> bool:
            mean = self._result(block, sums).mean
            point = Point(shift, 0.0, rates, mean, NO_CURVATURE, 0.0)
            return bool(sums[_kernels().INVALID] == 0 and np.ptp(shift) <= _WIDEST and target.satisfied(point))

        found = triton_newton.search(problem, target, is_solution)
        if found is None:
            return None
        survey = self._survey(block, self._result(block, found.first))
        if float(np.abs(survey.mean - rates).max()) <= 1e-15:  # the general method returns such rows as they are
            return None
        written = self._written_sums(self._result(block, found.written), found.shift)
        return WrittenBlock(rows, SolvedBlock(found.shift, found.n_passes, survey, written))

    def _written_sums(self, done: _PassResult, shift: FloatArray) -> WrittenSums:
        is_rounded = self.model.answer_types.common == "float32"
        returned = done.rounded if is_rounded else done.mean
        divergence = done.sums[_kernels().MOVED]
        if self.loss == "log":  # By Fenchel's identity, with conj(link(p)) = 0. The kernel sums what rounding adds.
            divergence += shift @ returned[self.model.kept_classes] - done.sums[_kernels().VALUE]
        shortfall = np.asarray(done.sums[_kernels().SHORT])
        return WrittenSums(np.asarray(divergence), returned, shortfall, done.mean)

    def _survey(self, block: Block, done: _PassResult) -> SurveySums:
        kernels, weight = _kernels(), block.equal_weight  # type: ignore[attr-defined]  # blocks of tensors have it
        squared = len(block.weights) * weight**2 if weight is not None else float(block.weights @ block.weights)
        offset, zeros, ceiling = (done.sums[i] for i in (kernels.OFFSET, kernels.ZEROS, kernels.CEILING))
        return SurveySums(done.before, *map(np.asarray, (offset, zeros, ceiling, squared)))

    def _dual_sums(self, done: _PassResult, curvature: bool) -> DualSums:
        kernels, kept = _kernels(), self.model.kept_classes
        value, size = np.asarray(done.sums[kernels.VALUE]), np.asarray(done.sums[kernels.SIZE])
        if not curvature:
            return DualSums(value, size, done.mean[kept], NO_CURVATURE)
        edges = _edges(done.curved, self.model.n_classes)
        if not self.model.keeps_all_classes:
            edges = edges[np.ix_(kept, kept)]
        return DualSums(value, size, done.mean[kept], laplacian(edges))

    def _is_supported(self, done: _PassResult) -> bool:
        """Whether every row certainly gives probability to some class of positive rate."""
        zeros = done.sums[_kernels().ZEROS]
        return self.model.keeps_all_classes or self.loss != "log" or zeros == 0

    def _reaches(self, shift: FloatArray) -> bool:
        """Whether the kernels can compute a pass at this shift."""
        return self.loss != "log" or bool(np.ptp(shift) <= _WIDEST)

    def _run(self, block: Block, shift: FloatArray, rows: Any = None, **options: bool) -> _PassResult | None:
        """One pass over a block; None if the kernel cannot compute it or met a row that is not a prediction."""
        if not self._reaches(shift):
            return None
        line = _launching().launch(self._input(block), self._settings(shift, block), rows, **options)
        return None if line[_kernels().INVALID] else self._result(block, line)

    def _input(self, block: Block) -> Any:
        reading, equal = self.model.reading, block.equal_weight is not None  # type: ignore[attr-defined]  # as above
        weights = None if equal else block.weights
        return _launching().PassInput(self.loss, block.rows, weights, reading.from_logits, bool(reading.smoothing))

    def _result(self, block: Block, line: FloatArray) -> _PassResult:
        """The sums of a pass, multiplied by the weight of each row."""
        kernels, k = _kernels(), self.model.n_classes
        weight = block.equal_weight  # type: ignore[attr-defined]  # blocks of tensors have it
        zeros, line = line[kernels.ZEROS], line * (1.0 if weight is None else weight)
        line[kernels.ZEROS] = zeros
        ends = [kernels.N_SUMS + i * k for i in range(4)]
        before, mean, rounded = (line[start : start + k] for start in ends[:3])
        return _PassResult(line[: ends[0]], before, mean, rounded, line[ends[3] :])

    def _settings(self, shift: FloatArray, block: Block) -> FloatArray:
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
        return np.concatenate([of_class, [reading.smoothing, tolerance, centre, rounding, 0.0]])

    def _space_for_rows(self, block: Block) -> Any:
        """Memory for the adjusted rows of a block: that of the answer if it is there."""
        if block.scratch is not None:
            return block.scratch
        import torch

        return torch.empty_like(block.rows, dtype=getattr(torch, self.model.answer_types.common))

    def _in_torch(self, block: Block, task: Callable[[Block], Any]) -> Any:
        return total(map(task, self._pieces(block)))

    def _write_in_torch(self, block: Block, shift: FloatArray, check: bool, rows: Any) -> WrittenBlock:
        sums = []
        for piece in self._pieces(block):
            written = self.fallback.write(piece, shift, check=check)
            first = piece.start - block.start
            rows[first : first + len(written.rows)] = written.rows
            sums.append(written.sums)
        return WrittenBlock(rows, () if check else total(sums))

    def _pieces(self, block: Block) -> Iterator[Block]:
        return block.split(rows_per_block(self.model.n_classes, self.fallback.block_values))


def _edges(found: FloatArray, k: int) -> FloatArray:
    """Edge weights as a symmetric matrix, from those below the diagonal or from all."""
    if len(found) == k * k:
        return found.reshape(k, k)
    edges = np.zeros((k, k))
    edges[_below_diagonal(k)] = found
    return edges + edges.T


@functools.cache
def _below_diagonal(k: int) -> tuple[IndexArray, IndexArray]:
    return np.tril_indices(k, -1)


def _supports(model: RowModel) -> bool:
    plain = model.bounded and model.limit_levels is None and not model.softness
    return plain and 2 <= model.n_classes <= MOST_CLASSES


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
def _launching() -> Any:
    from baserate.passes import triton_launch

    return triton_launch


@functools.cache
def _kernels() -> Any:
    from baserate.passes import triton_kernels

    return triton_kernels
