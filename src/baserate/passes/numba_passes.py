"""The passes of log loss and the Brier score as compiled kernels, each a few times the cost of reading the data.

They need numba (``pip install "baserate[fast]"``). Compiling takes about two seconds, once per machine, and loading
compiled code less than half a second, once per process. So small inputs use NumPy, unless the setting is "always".
"""

from __future__ import annotations

import functools
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from baserate.core import sampling
from baserate.core.cells.sums import CellDualSums, CellSurveySums, total_by_cell
from baserate.core.contracts import (
    Block,
    CellChunk,
    DualSums,
    Engine,
    FirstSums,
    ProductSums,
    RowPasses,
    SolvedBlock,
    SolvedCells,
    SurveySums,
    WrittenBlock,
    WrittenSums,
    total,
)
from baserate.core.curvature_choice import FEW_CLASSES
from baserate.core.fit import EASY_PASSES
from baserate.core.newton import TRUST_REGION, Target, relative_tolerance
from baserate.core.row_model import NO_CURVATURE, RowModel
from baserate.errors import warn
from baserate.inputs.reading import Naming
from baserate.losses.base import Loss, laplacian
from baserate.passes.kernels.layout import (
    CENTRE,
    CURVATURE,
    DONE,
    FIRST_OFFSET,
    SURVEY,
    WIDEST,
    WRITE,
    initial_state,
    initial_sums,
)
from baserate.passes.numba_cells import CellKernel, order_by_cell
from baserate.passes.numpy_passes import NumpyPasses
from baserate.support.arrays import BoolArray, FloatArray, IndexArray, rows_per_block
from baserate.support.garbage import without_garbage_collection

LARGE_VALUES = 100_000
"""Inputs with at least this many values use kernels by default, even if they have to be compiled first."""

_BLOCK_VALUES = 1 << 19  # A fraction of a millisecond of work, in which Python is not needed.


class KernelSums(NamedTuple):
    """What a compiled pass sums up besides vectors and matrices, in the order of ``kernels.layout``."""

    value: float
    magnitude: float
    offset: float
    zeros: float
    lowest: float
    divergence: float
    shortfall: float


class LossKernel(ABC):
    """What distinguishes the kernels of one loss: how they take the shift, and what their sums mean."""

    name: str

    def supports(self, shift: FloatArray) -> bool:
        """Whether the kernel can compute a pass at this shift."""
        return True

    @abstractmethod
    def prepared(self, shift: FloatArray) -> tuple[FloatArray, float]:
        """The shift in the form that the compiled pass expects."""

    @abstractmethod
    def survey(self, sums: KernelSums, mean: FloatArray, weights: FloatArray) -> SurveySums:
        """The survey of a block."""

    @abstractmethod
    def divergence(self, sums: KernelSums, shift: FloatArray, mean: FloatArray) -> FloatArray:
        """The divergence of the adjusted rows, whose mean is ``mean``, from the predictions."""


class LogKernel(LossKernel):
    """Log loss: a shift multiplies probabilities by ``exp(shift)``."""

    name = "log"

    def supports(self, shift: FloatArray) -> bool:
        return bool(np.ptp(shift) <= WIDEST)

    def prepared(self, shift: FloatArray) -> tuple[FloatArray, float]:
        centre = 0.5 * float(shift.min() + shift.max())
        return np.exp(shift - centre), centre

    def survey(self, sums: KernelSums, mean: FloatArray, weights: FloatArray) -> SurveySums:
        ceiling = -np.log(sums.lowest) * weights.sum()
        return SurveySums(mean, np.zeros(()), np.asarray(sums.zeros), np.asarray(ceiling), weights @ weights)

    def divergence(self, sums: KernelSums, shift: FloatArray, mean: FloatArray) -> FloatArray:
        # By Fenchel's identity, with conj(link(p)) = 0. The last term is what rounding adds.
        return np.asarray(shift @ mean - sums.value + sums.divergence)


class BrierKernel(LossKernel):
    """The Brier score: a shift moves probabilities by ``shift / 2``."""

    name = "brier"

    def prepared(self, shift: FloatArray) -> tuple[FloatArray, float]:
        return 0.5 * shift, 0.0

    def survey(self, sums: KernelSums, mean: FloatArray, weights: FloatArray) -> SurveySums:
        lowest = 0.0 if sums.zeros else sums.lowest
        ceiling = weights.sum() * (1.0 - 2.0 * lowest) + sums.offset
        return SurveySums(mean, np.asarray(sums.offset), np.zeros(()), np.asarray(ceiling), weights @ weights)

    def divergence(self, sums: KernelSums, shift: FloatArray, mean: FloatArray) -> FloatArray:
        return np.asarray(sums.divergence)


KERNELS: dict[str, LossKernel] = {kernel.name: kernel for kernel in (LogKernel(), BrierKernel())}


class _PassResult(NamedTuple):
    before: FloatArray
    mean: FloatArray
    curvature: FloatArray
    sums: KernelSums
    rounded_mean: FloatArray | None  # None if the rows are float64


@dataclass(frozen=True, eq=False)
class NumbaPasses(RowPasses):
    """Compiled passes; blocks that they cannot compute, or whose rows need an error message, go to NumPy."""

    model: RowModel
    naming: Naming
    dtype: np.dtype[Any]
    kernel: LossKernel
    fallback: NumpyPasses

    name = "numba"
    array_module = "numpy"
    block_values = _BLOCK_VALUES
    sums_cells = True

    @classmethod
    def for_rows(cls, model: RowModel, rows: Engine, kernels: str) -> Self | None:
        large = kernels == "always" or rows.n_values >= LARGE_VALUES
        if not large or rows.dtype is None or kernels == "off":
            return None
        kernel = kernel_of(model.loss, rows.dtype)
        if rows.n_cells is not None and model.n_classes > FEW_CLASSES:
            return None
        if kernel is None or not _supports(model) or not is_installed():  # last, since it imports numba
            return None
        fallback = NumpyPasses(model, rows.naming, uses_scratch=False)
        return cls(model, rows.naming, rows.dtype, kernel, fallback)

    def solves(self, rows: Engine) -> bool:
        small = rows.n_rows < 4 * sampling.MIN_ROWS and rows.n_values <= self.block_values
        return small and not self._is_wide and self._writes_rows

    def with_model(self, model: RowModel) -> RowPasses:
        if not _supports(model):
            return NumpyPasses(model, self.naming)
        return replace(self, model=model, fallback=replace(self.fallback, model=model))

    def survey(self, block: Block) -> SurveySums:
        return self.first(block, np.zeros(len(self.model.kept_classes)), curvature=False).survey

    def first(self, block: Block, shift: FloatArray, *, curvature: bool = True) -> FirstSums:
        done = self._run(block, shift, SURVEY, curvature)
        if done is None:
            return self._in_numpy(block, functools.partial(self.fallback.first, shift=shift, curvature=curvature))
        survey = self.kernel.survey(done.sums, done.before, block.weights)
        return FirstSums(survey, _dual_sums(done))

    def reduce(self, block: Block, shift: FloatArray, *, curvature: bool = True) -> DualSums:
        done = self._run(block, shift, 0, curvature)
        if done is None:
            return self._in_numpy(block, functools.partial(self.fallback.reduce, shift=shift, curvature=curvature))
        return _dual_sums(done)

    @property
    def multiplies(self) -> bool:  # type: ignore[override]  # a property of the instance here
        return self._is_wide

    def reduce_diagonal(self, block: Block, shift: FloatArray) -> DualSums:
        k = len(shift)
        mean, diagonal, sums = np.zeros(k), np.zeros(k), initial_sums()
        task = functools.partial(self.fallback.reduce_diagonal, shift=shift)
        if not self.kernel.supports(shift):
            return self._in_numpy(block, task)
        done = _kernels().compiled_diagonal(self.kernel.name, self.dtype)(
            np.ascontiguousarray(block.rows), block.weights, *self.kernel.prepared(shift),
            self.model.reading.smoothing, mean, diagonal, sums,
        )  # fmt: skip
        if done != DONE:
            return self._in_numpy(block, task)
        found = KernelSums(*sums)
        return DualSums(np.asarray(found.value), np.asarray(found.magnitude), mean, diagonal)

    def multiply(self, block: Block, shift: FloatArray, vector: FloatArray) -> ProductSums:
        if not self.kernel.supports(shift):
            return self._in_numpy(block, functools.partial(self.fallback.multiply, shift=shift, vector=vector))
        product, (prepared, _) = np.zeros(len(shift)), self.kernel.prepared(shift)
        _kernels().compiled_product(self.kernel.name, self.dtype)(
            np.ascontiguousarray(block.rows), block.weights, prepared, vector, self.model.reading.smoothing, product
        )
        return ProductSums(product)

    def write(self, block: Block, shift: FloatArray, *, check: bool = False) -> WrittenBlock:
        rows = self._space_for_rows(block)
        todo = WRITE | (SURVEY if check else 0)
        unchanged = not shift.any()  # NumPy returns such rows without rounding error
        done = None if unchanged or not self._writes_rows else self._run(block, shift, todo, False, rows)
        if done is None:
            return self._write_in_numpy(block, shift, check, rows)
        if check:
            return WrittenBlock(rows, ())
        return WrittenBlock(rows, self._written_sums(done.sums, shift, done.mean, done.rounded_mean))

    def solve(
        self, block: Block, rates: FloatArray, target: Target, sample: Block | None = None
    ) -> WrittenBlock | None:
        k = len(rates)
        rows = self._space_for_rows(block)
        run, advance = _kernels().compiled_pass(self.kernel.name, self.dtype, rows.dtype), _kernels().compiled_advance()
        is_brier, relative = self.kernel.name == "brier", relative_tolerance(target.tol)
        shift, before, mean = np.zeros(k), np.zeros(k), np.zeros(k)
        prepared, centre = self.kernel.prepared(shift)
        edges, work, state, sums = np.zeros((k, k)), np.zeros((k + 3, k)), initial_state(), initial_sums()
        state[CENTRE] = centre
        todo, n_passes, rounded = SURVEY, 0, _sums_of_rounded_rows(rows, k)
        keep, limits, where = self.model.kept_classes, self._limits, (before, mean, edges, sums, rows, rounded)
        while todo >= 0 and n_passes < EASY_PASSES:
            stopped = run(block.rows, block.weights, prepared, state[CENTRE], keep, *limits, todo, *where)
            if stopped != DONE:
                return None
            todo = advance(
                is_brier, TRUST_REGION, rates, target.tol, relative, shift, before, mean, edges, sums, prepared,
                work, state, todo,
            )  # fmt: skip
            n_passes += 1
        if todo != DONE:
            return None
        found = KernelSums(*sums)._replace(offset=state[FIRST_OFFSET])
        written = self._written_sums(found, shift, mean, rounded)
        survey = self.kernel.survey(found, before, block.weights)
        return WrittenBlock(rows, SolvedBlock(shift, n_passes, survey, written))

    def survey_cells(self, block: Block, allowed: BoolArray) -> CellSurveySums:
        shifts = np.where(allowed, 0.0, -np.inf)
        done = self._cells.run(block, shifts, SURVEY, curvature=False)
        if done is None:
            return self._cells_in_numpy(block, functools.partial(self.fallback.survey_cells, allowed=allowed))
        return self._cells.survey(block, done)

    def reduce_cells(self, block: Block, shifts: FloatArray, *, curvature: bool = True) -> CellDualSums:
        done = self._cells.run(block, shifts, 0, curvature=curvature)
        if done is None:
            task = functools.partial(self.fallback.reduce_cells, shifts=shifts, curvature=curvature)
            return self._cells_in_numpy(block, task)
        return self._cells.dual_sums(done)

    def write_cells(self, block: Block, shifts: FloatArray, *, check: bool = False) -> WrittenBlock:
        rows = self._space_for_rows(block)
        unchanged = not shifts.any(axis=1).all()  # NumPy returns such rows without rounding error
        todo = WRITE | (SURVEY if check else 0)
        writes = self._writes_rows and not unchanged
        done = self._cells.run(block, shifts, todo, curvature=False, rows=rows) if writes else None
        if done is None:
            return self._write_cells_in_numpy(block, shifts, check, rows)
        return WrittenBlock(rows, self._cells.written_sums(done, shifts))

    def solve_cells(
        self, chunk: CellChunk, rates: FloatArray, easy: BoolArray, target: Target, *, store: bool, order: int = 2
    ) -> SolvedCells | None:
        if not self._writes_rows:
            return None
        return self._cells.solve(chunk, rates, easy, target, store=store, order=order)

    def order_by_cell(self, cells: IndexArray, n_cells: int) -> tuple[IndexArray, IndexArray]:
        if cells.dtype != np.int64 or not cells.flags.c_contiguous:
            return super().order_by_cell(cells, n_cells)
        return order_by_cell(cells, n_cells)

    @property
    def _cells(self) -> CellKernel:
        """The compiled passes over cells."""
        answer = np.dtype(self.model.answer_types.common if self._writes_rows else np.float64)
        return CellKernel(self.kernel.name, self.dtype, answer, *self._limits)

    def _cells_in_numpy(self, block: Block, task: Callable[[Block], Any]) -> Any:
        assert block.cells is not None
        present = np.unique(block.cells)
        pieces = block.split(rows_per_block(self.model.n_classes))
        found = total_by_cell(map(task, pieces), int(present[-1]) + 1)
        return type(found)(present, *(values[present] for values in found[1:]))

    def _write_cells_in_numpy(self, block: Block, shifts: FloatArray, check: bool, rows: NDArray[Any]) -> WrittenBlock:
        def write(piece: Block) -> Any:
            written = self.fallback.write_cells(piece, shifts, check=check)
            first = piece.start - block.start
            rows[first : first + len(written.rows)] = written.rows
            return written.sums

        return WrittenBlock(rows, self._cells_in_numpy(block, write))

    def _written_sums(
        self, sums: KernelSums, shift: FloatArray, mean: FloatArray, rounded_mean: FloatArray | None
    ) -> WrittenSums:
        returned = mean if rounded_mean is None else rounded_mean
        divergence, shortfall = self.kernel.divergence(sums, shift, returned), np.asarray(sums.shortfall)
        of_all_classes, exact = (self.model.per_class(one, fill=0.0) for one in (returned, mean))
        return WrittenSums(divergence, of_all_classes, shortfall, exact)

    def _space_for_rows(self, block: Block) -> NDArray[Any]:
        """Memory for the adjusted rows of a block: that of the answer if it is there."""
        dtype = self.model.answer_types.common
        if block.scratch is not None and block.scratch.dtype == dtype:
            return block.scratch
        return np.empty(block.rows.shape, dtype)

    @property
    def _writes_rows(self) -> bool:
        """Whether the kernels can write the adjusted rows: all columns have one dtype, which is float32 or float64."""
        types = self.model.answer_types
        return types.columns is None and types.common in ("float32", "float64")

    @property
    def _is_wide(self) -> bool:
        """Whether rows are so long that the pass runs along them, and leaves the curvature to BLAS."""
        return self.model.n_classes > FEW_CLASSES

    @property
    def _limits(self) -> tuple[float, float]:
        """What is added to a probability, and how far a row's sum may be from 1."""
        reading = self.model.reading
        return reading.smoothing, np.inf if reading.normalize else reading.tolerance(self.dtype)

    def _in_numpy(self, block: Block, task: Callable[[Block], Any]) -> Any:
        return total(map(task, block.split(rows_per_block(self.model.n_classes))))

    def _write_in_numpy(self, block: Block, shift: FloatArray, check: bool, rows: NDArray[Any]) -> WrittenBlock:
        sums = []
        for piece in block.split(rows_per_block(self.model.n_classes)):
            written = self.fallback.write(piece, shift, check=check)
            first = piece.start - block.start
            rows[first : first + len(written.rows)] = written.rows
            sums.append(written.sums)
        return WrittenBlock(rows, () if check else total(sums))

    def _run(
        self, block: Block, shift: FloatArray, todo: int, curvature: bool, rows: NDArray[Any] | None = None
    ) -> _PassResult | None:
        """One compiled pass over a block; None if it cannot compute the pass or met a row that is not a prediction."""
        if not self.kernel.supports(shift):
            return None
        k = self.model.n_classes
        before, mean, sums, edges = np.zeros(k), np.zeros(k), initial_sums(), NO_CURVATURE
        if curvature and self._is_wide:
            todo, rows = todo | WRITE, np.empty(block.rows.shape)
        elif curvature:
            todo, edges = todo | CURVATURE, np.zeros((k, k))
        if rows is None:  # in the dtype of the answer, so that one compiled pass can do everything
            rows = np.empty((0, 0), self.model.answer_types.common if self._writes_rows else np.float64)
        rounded = _sums_of_rounded_rows(rows, k)
        name = f"{self.kernel.name} wide" if self._is_wide else self.kernel.name
        prepared, centre = self.kernel.prepared(shift)
        stopped = _kernels().compiled_pass(name, self.dtype, rows.dtype)(
            block.rows, block.weights, self.model.per_class(prepared, fill=0.0), centre, self.model.kept_classes,
            *self._limits, todo, before, mean, edges, sums, rows, rounded,
        )  # fmt: skip
        if stopped != DONE:
            return None
        kept = self.model.kept_classes
        if curvature and self._is_wide:
            edges = self.model.loss.jacobian(rows, block.weights)
        elif curvature:  # the kernel fills what lies below the diagonal
            edges = laplacian(edges + edges.T)[np.ix_(kept, kept)]
        rounded = None if rounded is None else rounded[kept]
        return _PassResult(before, mean[kept], edges, KernelSums(*sums), rounded)


def _sums_of_rounded_rows(rows: NDArray[Any], n_classes: int) -> FloatArray | None:
    return None if rows.dtype == np.float64 else np.zeros(n_classes)


def _dual_sums(done: _PassResult) -> DualSums:
    return DualSums(np.asarray(done.sums.value), np.asarray(done.sums.magnitude), done.mean, done.curvature)


def kernel_of(loss: Loss, dtype: np.dtype[Any]) -> LossKernel | None:
    """The kernel of a loss for rows of a dtype, if there is one."""
    name = vars(type(loss)).get("kernel")  # that of this very class: a subclass may have changed the loss
    return KERNELS.get(str(name)) if dtype in (np.float32, np.float64) and dtype.isnative else None


def _supports(model: RowModel) -> bool:
    plain = model.bounded and not model.reading.from_logits and model.limit_levels is None and not model.softness
    return plain and (model.n_classes <= FEW_CLASSES or model.keeps_all_classes)


@functools.cache
def is_installed() -> bool:
    """Whether numba is installed and can be imported."""
    try:
        _kernels()
    except Exception as error:  # an installation may also fail half-way
        if importlib.util.find_spec("numba") is not None:
            warn(RuntimeWarning(f"numba is installed but cannot be imported, so NumPy is used: {error}"))
        return False
    return True


@functools.cache
def _kernels() -> ModuleType:
    """The compiled code, which needs numba."""
    with without_garbage_collection():
        from baserate.passes.kernels import signatures

    return signatures
