"""What is computed on a block of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from baserate.core.contracts.blocks import (
    Block,
    CellChunk,
    DualSums,
    FirstSums,
    ProductSums,
    SolvedCells,
    SurveySums,
    WrittenBlock,
    WrittenSums,
)
from baserate.support.arrays import BLOCK_VALUES, BoolArray, FloatArray, IndexArray

if TYPE_CHECKING:
    from baserate.core.cells.sums import CellDualSums, CellSurveySums, CellWrittenSums
    from baserate.core.contracts.engine import Engine
    from baserate.core.row_model import RowModel


class RowPasses(ABC):
    """What is computed on a block of rows, for one row model.

    A shift has one number per kept class, shape (k,), or (C, k) where blocks have cells.
    """

    name: ClassVar[str]
    """Shown in ``Adjustment.engine``."""
    array_module: ClassVar[str | None] = None
    """The arrays that these passes work on; None leaves it to :meth:`for_rows`."""
    block_values: ClassVar[int] = BLOCK_VALUES
    """How many values a block should have."""
    is_default: ClassVar[bool] = False
    """Whether ``Adjustment.engine`` need not mention these passes."""
    reuses_curvature: ClassVar[bool] = False
    """Whether passes without the curvature are so much faster that it is summed only once, if the start is good."""
    sums_cells: ClassVar[bool] = False
    """Whether the passes for rates per group are implemented: ``survey_cells``, ``reduce_cells``, ``write_cells``."""
    multiplies: ClassVar[bool] = False
    """Whether products with the curvature are implemented: ``reduce_diagonal`` and ``multiply``."""
    model: RowModel

    @classmethod
    @abstractmethod
    def for_rows(cls, model: RowModel, rows: Engine, kernels: str) -> Self | None:
        """The passes for a model and the blocks of an engine, or None if they do not support them.

        Only asked for engines with the ``array_module`` of these passes.

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
        """The adjusted rows, and :class:`WrittenSums`.

        With ``check``, rows that were not surveyed are checked first, and no sums are returned.
        """

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

    def solves(self, rows: Engine) -> bool:
        """Whether :meth:`solve` is for problems with these rows."""
        return False

    def solve(self, block: Block, rates: FloatArray, target: Any, sample: Block | None = None) -> WrittenBlock | None:
        """Solve a problem with exact rates that lies in one block; its sums are a :class:`SolvedBlock`.

        ``sample`` has some of the rows. Their solution is the start. None if the problem is not an easy one.
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
