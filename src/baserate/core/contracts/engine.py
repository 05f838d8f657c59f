"""Where the rows are: in memory, in files, on a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from baserate.core.contracts.blocks import Block, CellChunk, SumsOf, WrittenBlock, total
from baserate.errors import BadGroups
from baserate.inputs.columns import Columns
from baserate.inputs.reading import NUMBERED, Naming
from baserate.inputs.row_source import Form, RowSource
from baserate.progress import SILENT, Progress
from baserate.support.answer_types import FLOAT64, AnswerTypes
from baserate.support.arrays import BLOCK_VALUES, FloatArray, IndexArray

if TYPE_CHECKING:
    from baserate.core.contracts.passes import RowPasses
    from baserate.inputs.group_combinations import Combinations

T = TypeVar("T")
S = TypeVar("S", bound=tuple[Any, ...])


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
        """Run a task on every block and combine the results. Clusters combine them where the blocks are.

        ``add`` combines one or more results, in the order of the rows, into one. Its results may be passed to it again.
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


class LazyEngine(Engine):
    """An engine whose adjusted rows are computed when they are read, so that a pass over them returns only sums."""

    @abstractmethod
    def write_lazily(self, task: Callable[[Block], WrittenBlock], block_values: int = BLOCK_VALUES) -> None:
        """Keep a task, whose rows are the answer."""

    def write(self, task: Callable[[Block], WrittenBlock], block_values: int = BLOCK_VALUES) -> Iterator[Any]:
        self.write_lazily(task, block_values)
        return self.map(SumsOf(task), block_values)

    def write_and_fold(
        self, task: Callable[[Block], WrittenBlock], add: Callable[[Iterable[T]], T], block_values: int = BLOCK_VALUES
    ) -> T:
        self.write_lazily(task, block_values)
        return self.fold(SumsOf(task), add, block_values)


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
