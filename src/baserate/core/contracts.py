"""The two contracts on which everything else is built.

:class:`RowPasses` is what is computed on a block of rows: a survey that checks the rows, the sums of the dual function
at a shift, and the adjusted rows. :class:`Engine` is where the rows are: in memory, in files, on a cluster. Whoever can
sum over rows can solve the problem, so an engine knows no mathematics, and passes know nothing of files or clusters.

Sums are named tuples of float64 arrays that add field by field, see :func:`total`. Two extensions fit without a change:

- *Rates per group.* A block may carry the cell (combination of groups) of each row in ``Block.cells``. Passes that sum
  over the rows of each cell are :meth:`RowPasses.survey_cells`, ``reduce_cells`` and ``write_cells``. They take one
  shift per cell, shape (C, k), and return the sums of the cells that a block contains; see
  :mod:`baserate.core.cells.sums`.
- *Other arrays.* ``Block.rows`` may be any array that the passes of the engine understand, such as a tensor on a GPU.
  ``Engine.array_module`` says which, passes accept or decline it in ``RowPasses.for_rows``, and only sums,
  which are NumPy arrays of k numbers, leave a block. ``Block.as_numpy`` copies a block for statistics of single rows.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from baserate.errors import BadGroups
from baserate.inputs.columns import Columns
from baserate.inputs.group_combinations import Combinations
from baserate.inputs.reading import NUMBERED, Naming
from baserate.inputs.row_source import Form, RowSource
from baserate.progress import SILENT, Progress
from baserate.support.answer_types import FLOAT64, AnswerTypes
from baserate.support.arrays import BLOCK_VALUES, BoolArray, FloatArray, IndexArray

if TYPE_CHECKING:
    from baserate.core.cells.sums import CellDualSums, CellSurveySums, CellWrittenSums
    from baserate.core.row_model import RowModel

T = TypeVar("T")
S = TypeVar("S", bound=tuple[Any, ...])


@dataclass(frozen=True)
class Block:
    """Some consecutive rows.

    Attributes
    ----------
    rows : array of shape (m, k)
        The rows as the caller passed them.
    weights : array of shape (m,)
        Weights of the rows; those of all blocks sum to 1.
    start : int
        Number of the first row in the whole input.
    scratch : array of shape (m, k), optional
        Memory for these rows that keeps its values between passes until the adjusted rows are written. Its dtype is
        that of the answer.
    cells : int array of shape (m,), optional
        The cell of each row, for rates per group; None if all rows share one shift.
    """

    rows: Any
    weights: FloatArray
    start: int
    scratch: NDArray[Any] | None = None
    cells: IndexArray | None = None

    def as_numpy(self) -> Block:
        """The block with NumPy arrays. Engines whose blocks hold other arrays override this."""
        return self

    def split(self, n_rows: int) -> Iterator[Block]:
        """The block in pieces of at most ``n_rows`` rows."""
        for first in range(0, len(self.weights), n_rows):
            piece = slice(first, first + n_rows)
            yield replace(
                self,
                rows=self.rows[piece],
                weights=self.weights[piece],
                start=self.start + first,
                scratch=None if self.scratch is None else self.scratch[piece],
                cells=None if self.cells is None else self.cells[piece],
            )


class SurveySums(NamedTuple):
    """Sums that do not depend on the shift.

    Attributes
    ----------
    mean : array of shape (k,)
        Weighted sum of the predictions.
    offset : float
        Weighted sum of ``conj(eta)``, the constant of the dual function.
    zeros : float
        Number of hard zeros, for losses that cannot move them.
    ceiling : float
        Upper bound on the weighted sum of divergences that any adjustment can reach.
    squared_weights : float
    """

    mean: FloatArray
    offset: FloatArray
    zeros: FloatArray
    ceiling: FloatArray
    squared_weights: FloatArray


class DualSums(NamedTuple):
    """Sums of the dual function at a shift.

    Attributes
    ----------
    conjugate : float
        Weighted sum of ``conj(eta + shift)``.
    magnitude : float
        Weighted sum of its absolute values, from which the rounding error is estimated.
    mean : array of shape (k,)
        Weighted sum of the adjusted rows.
    curvature : array of shape (k, k), or (0, 0) if it was not requested
        Weighted sum of the Jacobians of the row map. For :meth:`RowPasses.reduce_diagonal` only its diagonal, (k,).
    """

    conjugate: FloatArray
    magnitude: FloatArray
    mean: FloatArray
    curvature: FloatArray


class ProductSums(NamedTuple):
    """The curvature at a shift times a vector, shape (k,)."""

    product: FloatArray


class FirstSums(NamedTuple):
    """Survey and dual sums of one pass."""

    survey: SurveySums
    dual: DualSums


class WrittenSums(NamedTuple):
    """Weighted sums over adjusted rows as they are returned, after rounding to the dtype of the answer.

    Attributes
    ----------
    divergence : float
        Sum of the divergences of the rows from the predictions.
    mean : array of shape (k,)
        Sum of the rows, for all classes.
    shortfall : float
        How far the fall of the loss may be below the dual value, because the rows are not exactly those that belong to
        the shift; see :meth:`baserate.core.row_model.RowModel.shortfall`.
    exact_mean : array of shape (k,)
        Sum of the rows before rounding. The search uses it, so that the shift does not depend on the dtype.
    """

    divergence: FloatArray
    mean: FloatArray
    shortfall: FloatArray
    exact_mean: FloatArray


class WrittenBlock(NamedTuple):
    """Adjusted rows of a block, and sums over them."""

    rows: Any
    sums: Any


@dataclass(frozen=True)
class SumsOf:
    """A task that returns only the sums of another one, for engines that compute the rows when they are needed."""

    task: Callable[[Block], WrittenBlock]

    def __call__(self, block: Block) -> Any:
        """The sums of a block."""
        return self.task(block).sums


class SolvedBlock(NamedTuple):
    """A problem whose rows all lie in one block, solved and written by compiled code.

    Attributes
    ----------
    shift : array of shape (k,)
    n_passes : int
        Passes over the block, the survey and the writing included.
    survey : SurveySums
    written : WrittenSums
    """

    shift: FloatArray
    n_passes: int
    survey: SurveySums
    written: WrittenSums


class CellChunk(NamedTuple):
    """Some consecutive cells of rows in memory, which are not copied.

    Attributes
    ----------
    raw : array of shape (n, k)
        All rows as the caller passed them.
    weights : array of shape (n,), or None if all rows have the same weight
    order : int array of shape (m,)
        The numbers of the rows of the chunk, in the order of their cells.
    starts : int array of shape (u + 1,)
        Where the rows of each cell start in ``order``, and m.
    first : int
        Number of the first cell.
    answer : array of shape (n, k)
        Where adjusted rows go.
    """

    raw: Any
    weights: FloatArray | None
    order: IndexArray
    starts: IndexArray
    first: int
    answer: Any


class SolvedCells(NamedTuple):
    """Cells that were solved and written by compiled code, each as a problem of its own whose weights sum to 1.

    Attributes
    ----------
    cells : int array of shape (u,)
    n_passes : int array of shape (u,)
    shifts : array of shape (u, k)
        0 for classes of rate 0.
    before : array of shape (u, k)
        Mean prediction.
    offset, ceiling, squared_weights : array of shape (u,)
        See :class:`SurveySums`.
    divergence, mean, shortfall, exact_mean : arrays
        See :class:`WrittenSums`.
    """

    cells: IndexArray
    n_passes: IndexArray
    shifts: FloatArray
    before: FloatArray
    offset: FloatArray
    ceiling: FloatArray
    squared_weights: FloatArray
    divergence: FloatArray
    mean: FloatArray
    shortfall: FloatArray
    exact_mean: FloatArray


class RowPasses(ABC):
    """What is computed on a block of rows, for one row model.

    A shift has one number per kept class, shape (k,), or (C, k) where blocks have cells.
    """

    name: ClassVar[str]
    """Shown in ``Adjustment.engine``."""
    block_values: ClassVar[int] = BLOCK_VALUES
    """How many values a block should have."""
    is_default: ClassVar[bool] = False
    """Whether ``Adjustment.engine`` need not mention these passes."""
    reuses_curvature: ClassVar[bool] = False
    """Whether passes without the curvature are so much faster that it is summed only once, if the start is good."""
    solves_blocks: ClassVar[bool] = False
    """Whether :meth:`solve` can solve small problems."""
    sums_cells: ClassVar[bool] = False
    """Whether the passes for rates per group are implemented: ``survey_cells``, ``reduce_cells``, ``write_cells``."""
    multiplies: ClassVar[bool] = False
    """Whether products with the curvature are implemented: ``reduce_diagonal`` and ``multiply``."""
    model: RowModel

    @classmethod
    @abstractmethod
    def for_rows(cls, model: RowModel, rows: Engine, kernels: str) -> Self | None:
        """The passes for a model and the blocks of an engine, or None if they do not support them.

        Parameters
        ----------
        model : RowModel
        rows : Engine
        kernels : "auto", "off" or "always"
            The setting for compiled kernels. The choice depends on the arguments only, not on earlier calls.
        """

    @abstractmethod
    def survey(self, block: Block) -> SurveySums:
        """Check the rows, and sum what does not depend on the shift."""

    @abstractmethod
    def reduce(self, block: Block, shift: FloatArray, *, curvature: bool = True) -> DualSums:
        """The sums of the dual function at a shift, for rows that were surveyed."""

    @abstractmethod
    def write(self, block: Block, shift: FloatArray, *, check: bool = False) -> WrittenBlock:
        """The adjusted rows, and :class:`WrittenSums`. ``check`` is for rows that were not surveyed; it has no sums."""

    def reduce_diagonal(self, block: Block, shift: FloatArray) -> DualSums:
        """What :meth:`reduce` returns, with the diagonal of the curvature instead of the matrix.

        With many classes, the matrix costs k times as much as the rest of a pass. The search then needs its diagonal,
        and products with it. They are for losses with :meth:`baserate.losses.base.Loss.slopes`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not multiply with the curvature")

    def multiply(self, block: Block, shift: FloatArray, vector: FloatArray) -> ProductSums:
        """The product of the curvature at a shift with a vector of shape (k,), for rows that were surveyed."""
        raise NotImplementedError(f"{type(self).__name__} does not multiply with the curvature")

    def with_model(self, model: RowModel) -> RowPasses:
        """The passes for a changed model of the same rows. Passes are dataclasses with a field ``model``."""
        return replace(self, model=model)  # type: ignore[type-var]  # subclasses are dataclasses

    def first(self, block: Block, shift: FloatArray, *, curvature: bool = True) -> FirstSums:
        """Survey and dual sums from one pass."""
        return FirstSums(self.survey(block), self.reduce(block, shift, curvature=curvature))

    def measure(self, block: Block, shift: FloatArray) -> WrittenSums:
        """The sums of :meth:`write`, where the adjusted rows are not needed."""
        return cast(WrittenSums, self.write(replace(block, scratch=None), shift).sums)

    def solve(self, block: Block, rates: FloatArray, target: Any) -> WrittenBlock | None:
        """Solve a small problem with exact rates that lies in one block; its sums are a :class:`SolvedBlock`.

        None if the problem is not an easy one.
        """
        raise NotImplementedError(f"{type(self).__name__} does not solve blocks")

    def survey_cells(self, block: Block, allowed: BoolArray) -> CellSurveySums:
        """Check the rows, and sum what does not depend on the shift over the rows of each cell.

        ``allowed``, of shape (C, k), says to which classes the rows of a cell may give probability.
        """
        raise NotImplementedError(f"{type(self).__name__} does not sum over cells")

    def reduce_cells(self, block: Block, shifts: FloatArray, *, curvature: bool = True) -> CellDualSums:
        """The sums of the dual function over the rows of each cell, for rows that were surveyed.

        ``shifts`` has shape (C, k). A shift of -inf means that the cell must not give probability to a class.
        """
        raise NotImplementedError(f"{type(self).__name__} does not sum over cells")

    def write_cells(self, block: Block, shifts: FloatArray, *, check: bool = False) -> WrittenBlock:
        """The adjusted rows, and :class:`CellWrittenSums`. ``check`` is for rows that were not surveyed."""
        raise NotImplementedError(f"{type(self).__name__} does not sum over cells")

    def solve_cells(
        self, chunk: CellChunk, rates: FloatArray, easy: BoolArray, target: Any, *, store: bool, order: int = 2
    ) -> SolvedCells | None:
        """Solve cells that are problems of their own with exact rates; None if these passes cannot do that.

        Parameters
        ----------
        chunk : CellChunk
        rates : array of shape (u, k)
        easy : bool array of shape (u,)
            The cells to be solved. Those that turn out to be difficult are left out of the result.
        target : Target
        store : bool
            Whether adjusted rows are written to ``chunk.answer``.
        order : 0 or 2
            With 2, the last step is not evaluated if the steps before predict its error; with 0 every step is.
        """
        return None

    def order_by_cell(self, cells: IndexArray, n_cells: int) -> tuple[IndexArray, IndexArray]:
        """The numbers of the rows in the order of their cells, and where the rows of each cell start, (C + 1,)."""
        from scipy.sparse import csr_array

        # Row i of the matrix has one entry, in the column of its cell. Its columns are the rows of each cell. The
        # conversion counts, which takes a tenth of the time of a sort.
        n = len(cells)
        by_row = csr_array((np.empty(n, dtype=np.int8), cells, np.arange(n + 1)), shape=(n, n_cells))
        by_column = by_row.tocsc()
        return by_column.indices.astype(np.intp, copy=False), by_column.indptr.astype(np.intp, copy=False)

    def measure_cells(self, block: Block, shifts: FloatArray) -> CellWrittenSums:
        """The sums of :meth:`write_cells`, where the adjusted rows are not needed."""
        return cast("CellWrittenSums", self.write_cells(replace(block, scratch=None), shifts).sums)


class Engine(ABC):
    """Runs tasks over blocks of rows, wherever the rows are.

    A task may run in another thread or process. It holds the passes and a shift, never the engine.
    """

    name: ClassVar[str]
    array_module: ClassVar[str] = "numpy"
    """The kind of arrays in its blocks."""
    in_memory: ClassVar[bool] = False
    """Whether the rows are in the memory of this process, so that writing them again is cheap."""
    takes_out: ClassVar[bool] = False
    """Whether the adjusted rows go to the path ``out=``."""

    n_rows: int
    n_classes: int
    weighted: bool = False
    """Whether rows may have unequal weights."""
    dtype: np.dtype[Any] | None = None
    """The dtype of every block, if it is the same for all."""
    answer_types: AnswerTypes = FLOAT64
    """The dtypes of the adjusted rows."""
    columns: Columns | None = None
    """The columns of a table that hold the probabilities."""
    one_column: bool = False
    """Whether the predictions are one number per row: the probability of the second of two classes."""
    form: Form | None = None
    """For a dataframe, a Series or a vector: what is needed to return the adjusted rows in the same form."""
    naming: Naming = NUMBERED
    """How rows and columns are named in messages."""
    progress: Progress = SILENT
    """Receives progress updates."""
    answers_lazily: bool = False
    """Whether its answer is a :class:`LazyAnswer`."""
    n_cells: int | None = None
    """Number of cells, if the blocks have them; see ``Block.cells``."""
    cell_weights: FloatArray | None = None
    """The weight of each cell, if it is known without a pass."""

    @property
    def n_values(self) -> int:
        """Number of values in all rows; an estimate where counting them would cost a pass."""
        return self.n_rows * self.n_classes

    @classmethod
    @abstractmethod
    def open(cls, source: RowSource) -> Self | None:
        """An engine on these predictions, or None if they are not of its kind."""

    @abstractmethod
    def map(self, task: Callable[[Block], T], block_values: int = BLOCK_VALUES) -> Iterator[T]:
        """Run a task on every block, and yield the results in the order of the rows.

        ``block_values`` is the number of values that a block should have, for engines that can choose.
        """

    def sum(self, task: Callable[[Block], S], block_values: int = BLOCK_VALUES) -> S:
        """Run a task that returns sums on every block, and add them up."""
        return self.fold(task, total, block_values)

    def fold(self, task: Callable[[Block], T], add: Callable[[Iterable[T]], T], block_values: int = BLOCK_VALUES) -> T:
        """Run a task on every block, and put its results together, where the blocks are if they are elsewhere.

        ``add`` makes one result of some results, at least one, in the order of the rows. It is also called with results
        of its own.
        """
        return add(self.map(task, block_values))

    @abstractmethod
    def write(self, task: Callable[[Block], WrittenBlock], block_values: int = BLOCK_VALUES) -> Iterator[Any]:
        """Run a task on every block, keep its rows in place of any that were kept before, and yield its sums."""

    def write_and_fold(
        self, task: Callable[[Block], WrittenBlock], add: Callable[[Iterable[T]], T], block_values: int = BLOCK_VALUES
    ) -> T:
        """Run a task on every block, keep its rows as :meth:`write` does, and put its sums together."""
        return add(self.write(task, block_values))

    def write_lazily(self, task: Callable[[Block], WrittenBlock], block_values: int = BLOCK_VALUES) -> None:
        """Keep the rows of a task whose sums are not needed. Engines that support it run the task later."""
        for _ in self.write(task, block_values):
            pass

    @abstractmethod
    def answer(self) -> Any:
        """The rows that :meth:`write` kept."""

    @abstractmethod
    def reopen(self) -> Self:
        """An engine on the same rows, with an answer of its own."""

    def group_combinations(self) -> Combinations:
        """The combinations of groups that occur among the rows, for an engine that was opened with ``group_keys``."""
        raise BadGroups(f"rates per group are not available for rows of the engine {self.name!r}")

    def with_cells(self, cell_of_combination: IndexArray, n_cells: int) -> Self:
        """The same rows in blocks with cells, each the cell of the combination of groups that the row has."""
        raise BadGroups(f"rates per group are not available for rows of the engine {self.name!r}")

    def sample(self, n_rows: int) -> Engine | None:
        """An engine on about ``n_rows`` of the rows, chosen at random but always the same ones.

        None if that would cost a pass. An engine may collect a sample during its first pass.
        """
        return None

    def sorted_by_cell(self, passes: RowPasses) -> Engine | None:
        """A copy of the rows in the order of their cells, or None if they cannot be put in order in memory.

        What it writes becomes the answer of this engine when :meth:`answer` of the copy is called.
        """
        return None

    def rows_by_cell(self, passes: RowPasses) -> RowsByCell | None:
        """The rows of each cell, without a copy of all rows; None if that would be slow.

        ``passes`` put the rows in order.
        """
        return None

    def describe(self, passes: RowPasses) -> str:
        """The name of engine and passes together, for ``Adjustment.engine``."""
        return self.name if passes.is_default else f"{self.name}, {passes.name}"


class LazyAnswer(ABC):
    """Adjusted rows that are computed when they are read, from a source that stays where it is."""

    @abstractmethod
    def columns(self) -> Any:
        """The columns with probabilities, as an object of the kind that the caller passed."""

    @abstractmethod
    def frame(self) -> Any:
        """The same with all other columns."""

    def __reduce__(self) -> Any:
        return _no_rows, ()  # a copy in a file or on another machine has no source


def _no_rows() -> None:
    return None


class RowsByCell(ABC):
    """Rows in memory, and which of them belong to each cell."""

    starts: IndexArray
    """Where the rows of each cell start in the order of the cells, and the number of rows: shape (C + 1,)."""

    @abstractmethod
    def rows_of_cell(self, cell: int) -> Engine:
        """An engine on the rows of one cell, with weights that sum to 1.

        What it writes becomes part of the answer of the whole when its :meth:`Engine.answer` is called.
        """

    @abstractmethod
    def map(self, task: Callable[[CellChunk], T]) -> Iterator[T]:
        """Run a task on every chunk of cells, and yield the results in order."""


def implementations(contract: type[T], own: Sequence[type[T]], method: str) -> Iterator[type[T]]:
    """All classes that implement a contract: first those from outside this package, then ``own`` in their order.

    A class that inherits ``method`` from one of our own would only answer for it, so it is left out.
    """
    found = list(contract.__subclasses__())
    for cls in found:
        found.extend(cls.__subclasses__())
    for cls in dict.fromkeys(found):
        definer = next(base for base in cls.__mro__ if method in vars(base))
        if definer not in own and not inspect.isabstract(cls):
            yield cls
    yield from own


def total(parts: Iterable[S]) -> S:
    """The sum of named tuples of arrays, one per block, by Neumaier's compensated summation.

    With compensation neither the number of blocks nor a billion rows cost digits. The order of the parts matters for
    the last bit, so engines yield them in the order of the rows. Parts are added as they arrive, not collected.
    """
    iterator = iter(parts)
    first = next(iterator)
    sums: list[FloatArray] = []
    lost: list[FloatArray] = []
    for part in iterator:
        if not sums:
            sums = [np.array(value, dtype=np.float64) for value in _leaves(first)]
            lost = [np.zeros_like(value) for value in sums]
        for i, value in enumerate(_leaves(part)):
            new = sums[i] + value
            with np.errstate(invalid="ignore"):  # an infinite value shows in the sum itself
                lost[i] += np.where(np.abs(sums[i]) >= np.abs(value), (sums[i] - new) + value, (value - new) + sums[i])
            sums[i] = new
    if not sums:
        return first
    whole = [np.where(np.isfinite(value), value + rest, value) for value, rest in zip(sums, lost, strict=True)]
    return cast(S, _rebuilt(first, iter(whole)))


def _leaves(part: Any) -> Iterator[Any]:
    """The arrays of a tuple, those of tuples within it included."""
    for field in part:
        if isinstance(field, tuple):
            yield from _leaves(field)
        else:
            yield field


def _rebuilt(like: Any, leaves: Iterator[FloatArray]) -> Any:
    """A tuple like another one with new arrays."""
    fields = [_rebuilt(field, leaves) if isinstance(field, tuple) else next(leaves) for field in like]
    return type(like)(*fields) if hasattr(like, "_fields") else tuple(fields)
