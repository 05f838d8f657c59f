"""Rows in the partitions of a table that a cluster computes when it is needed: what Spark and Ray have in common.

Work is sent to each partition, and sums come back. The first pass counts the rows and collects their weights and
groups. The second one also returns some rows as a sample. The answer is a table that adjusts its rows when they are
needed.
"""

from __future__ import annotations

import copy
import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from baserate.core.contracts import Block, LazyAnswer, LazyEngine, WrittenBlock
from baserate.core.sampling import collected_size
from baserate.engines.arrow_blocks import ArrowColumns
from baserate.engines.arrow_clusters.tables import ClusterTable
from baserate.engines.arrow_clusters.workers import (
    AdjustBatches,
    Batches,
    BatchReader,
    Fold,
    Outcome,
    Summarise,
    Summary,
)
from baserate.engines.memory import MemoryEngine
from baserate.engines.partitions import SAMPLE_VALUES, CellFinder, sample_engine
from baserate.errors import BadProbabilities, BadWeights
from baserate.inputs.group_combinations import CombinationIndex, Combinations
from baserate.inputs.reading import Naming
from baserate.inputs.validation import quoted_name
from baserate.support.answer_types import AnswerTypes
from baserate.support.arrays import BLOCK_VALUES, IndexArray, sum_by

T = TypeVar("T")

FAN_IN = 32
"""Outcomes that are joined at once. If there are more partitions, they are joined on the cluster first."""

_LARGEST_WEIGHT = 1e150  # The square of the sum of all weights must be finite.
_UNKNOWN_VALUES = 1 << 24  # Assumed values of a table that was not counted: enough to use kernels.


class AnswerTask(NamedTuple):
    """A task whose rows are the answer."""

    task: Callable[[Block], WrittenBlock]
    block_values: int


@dataclass(frozen=True, eq=False)
class AdjustedTable(LazyAnswer):
    """The adjusted rows of a table, which the cluster computes when they are needed.

    Attributes
    ----------
    native : object
        A table of the same kind, with all columns.
    names : tuple of str
        The columns with probabilities.
    select : callable
        Returns some columns of a table, by their names.
    """

    native: Any
    names: tuple[str, ...]
    select: Callable[[Any, list[str]], Any]

    def columns(self) -> Any:
        return self.select(self.native, list(self.names))

    def frame(self) -> Any:
        return self.native


class ArrowClusterEngine(LazyEngine):
    """A table on a cluster whose partitions arrive as Arrow record batches."""

    answers_lazily = True

    def __init__(self, table: ClusterTable, answer_dtype: np.dtype[Any] | None, naming: type[Naming]) -> None:
        names, dtypes = table.columns.names, table.dtypes
        self._table = table
        self.columns = table.columns
        self.one_column, self.weighted = len(names) == 1, table.weight is not None
        self.n_classes = max(len(names), 2)
        self.naming = naming(names)
        self.dtype = np.dtype(np.float64) if self.one_column else np.result_type(*dtypes)
        self._dtypes = tuple((dtype if answer_dtype is None else answer_dtype).name for dtype in dtypes)
        self.answer_types = AnswerTypes.of_columns(self._dtypes)
        self._finder: CellFinder | None = None
        self._answer: AnswerTask | None = None
        self._sample: MemoryEngine | None = None
        self._has_read = False

    @staticmethod
    @abstractmethod
    def _select(native: Any, names: list[Any]) -> Any:
        """Some columns of a table."""

    @abstractmethod
    def _outcomes(
        self,
        work: Callable[[Batches, int], Outcome],
        columns: Sequence[str],
        join: Callable[[Sequence[Outcome]], Outcome] | None,
    ) -> list[Outcome]:
        """Run work on some columns of every partition, and return the outcomes in the order of the partitions.

        If there are many, the outcomes of neighbouring partitions are joined on the cluster; None for outcomes that
        must not be joined.
        """

    @abstractmethod
    def _adjusted(self, work: AdjustBatches) -> Any:
        """The table with the batches that work returns, which is done when they are needed."""

    @property
    def n_rows(self) -> int:  # type: ignore[override]  # Counted on first use, which takes a pass.
        """Number of rows."""
        return self._counted.n_rows

    @property
    def n_values(self) -> int:
        counted = "_counted" in vars(self)
        return self.n_rows * self.n_classes if counted else _UNKNOWN_VALUES

    def map(self, task: Callable[[Block], T], block_values: int = BLOCK_VALUES) -> Iterator[T]:
        work = self._fold(partial(_in_list, task), _chained, block_values)
        for outcome in self._read(work, None):
            yield from outcome.value or ()

    def fold(self, task: Callable[[Block], T], add: Callable[[Iterable[T]], T], block_values: int = BLOCK_VALUES) -> T:
        join = partial(Outcome.joined, add=add)
        outcome = join(self._read(self._fold(task, add, block_values), join))
        self._keep_sample(outcome)
        value: T = outcome.value
        return value

    def write_lazily(self, task: Callable[[Block], WrittenBlock], block_values: int = BLOCK_VALUES) -> None:
        self._answer = AnswerTask(task, block_values)

    def answer(self) -> AdjustedTable:
        assert self._answer is not None
        # Rows do not depend on their weights.
        reader = BatchReader(self._arrow_columns(weight=None), self._table.keys, finder=self._finder)
        adjusted = self._adjusted(AdjustBatches(reader, *self._answer, self._dtypes, self.answer_types.common))
        return AdjustedTable(adjusted, self._table.columns.names, self._select)

    def reopen(self) -> Self:
        rows = copy.copy(self)
        rows._answer = None
        return rows

    def group_combinations(self) -> Combinations:
        if self._table.keys is None:
            return super().group_combinations()
        found = self._counted.value.combinations
        weight = self._weight
        return found._replace(weight=found.weight / weight, squared_weight=found.squared_weight / weight**2)

    def with_cells(self, cell_of_combination: IndexArray, n_cells: int) -> Self:
        combinations = self.group_combinations()
        rows = self.reopen()
        rows.n_cells = n_cells
        rows._finder = CellFinder(CombinationIndex.of(combinations), cell_of_combination)
        rows.cell_weights = sum_by(cell_of_combination, combinations.weight, n_cells)
        return rows

    def sample(self, n_rows: int) -> MemoryEngine | None:
        if self._sample is None or n_rows >= self._sample.n_rows:
            return self._sample
        return self._sample.sample(n_rows)

    @cached_property
    def _counted(self) -> Outcome:
        """The number of rows, and the summary of their weights and groups: one pass over few columns."""
        table, join = self._table, partial(Outcome.joined, add=Summary.joined)
        work = Summarise(BatchReader(self._arrow_columns(), table.keys))
        needed = [*(table.keys or ()), *([] if table.weight is None else [table.weight])]
        found = join(self._outcomes(work, needed or table.columns.names[:1], join if table.keys else None))
        self._raise_error(found)
        if not found.n_rows:
            raise BadProbabilities(f"{table.what} has no rows")
        return found

    @property
    def _weight(self) -> float:
        weight, name = self._counted.value.weight, quoted_name(self._table.weight)
        if weight == 0:
            raise BadWeights(f"all weights in column {name} are zero; at least one row must count")
        if not weight <= _LARGEST_WEIGHT:
            raise BadWeights(f"the weights in column {name} sum to {weight:.3g}, which is too large; divide them")
        return float(weight)

    def _arrow_columns(self, *, weight: str | None = "") -> ArrowColumns:
        weight = self._table.weight if weight == "" else weight
        assert self.dtype is not None
        return ArrowColumns(self._table.columns.names, self.dtype, weight, self.naming)

    def _fold(self, task: Callable[[Block], Any], add: Callable[[Iterable[Any]], Any], block_values: int) -> Fold:
        reader = BatchReader(self._arrow_columns(), self._table.keys, self._weight, self._finder)
        size = None if self._has_read else collected_size(self.n_rows, self.n_classes, max_values=SAMPLE_VALUES)
        return Fold(reader, task, add, block_values, 0.0 if size is None else size / self.n_rows)

    def _read(self, work: Fold, join: Callable[[Sequence[Outcome]], Outcome] | None) -> list[Outcome]:
        """The outcomes of a pass over all rows. Raises the first error, and if there are other rows than before."""
        self.progress.begin("reading", self.n_rows)
        table = self._table
        needed = [*table.columns.names, *(table.keys or ()), *([] if table.weight is None else [table.weight])]
        found = self._outcomes(work, list(dict.fromkeys(needed)), join)
        whole = Outcome.joined([outcome._replace(value=None, sample=()) for outcome in found], _nothing)
        self._raise_error(whole)
        if whole.n_rows != self.n_rows:
            raise BadProbabilities(
                f"{table.what} had {self.n_rows:,} rows in the first pass and has {whole.n_rows:,} now; it must return "
                f"the same rows each time: {table.keep} first"
            )
        self.progress.rows(self.n_rows)
        return found

    def _keep_sample(self, outcome: Outcome) -> None:
        if not self._has_read:
            self._sample, self._has_read = sample_engine(outcome.sample), True

    def _raise_error(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            raise outcome.error


def _in_list(task: Callable[[Block], T], block: Block) -> list[T]:
    return [task(block)]


def _chained(lists: Iterable[list[T]]) -> list[T]:
    return list(itertools.chain.from_iterable(lists))


def _nothing(values: Iterable[Any]) -> None:
    for _ in values:
        pass
