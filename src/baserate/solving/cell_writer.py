"""A task that adjusts the rows of a block, each by the shift of its cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from baserate.core.contracts import Block, RowPasses, WrittenBlock
from baserate.core.row_model import RowModel
from baserate.support.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class CellWriter:
    """Adjusts blocks with cells.

    Attributes
    ----------
    passes : RowPasses
    shifts : array of shape (C, k)
    models : dict
        The row models of cells that need one of their own, by the number of the cell: their rates are only reached in
        a limit, or their loss had to be softened.
    check : bool
        Whether the rows have to be checked first.
    """

    passes: RowPasses
    shifts: FloatArray
    models: Mapping[int, RowModel] = field(default_factory=dict)
    check: bool = True

    def __call__(self, block: Block) -> WrittenBlock:
        """The adjusted rows. The sums do not count the cells with models of their own."""
        written = self.passes.write_cells(block, self.shifts, check=self.check)
        assert block.cells is not None
        if not self.models:
            return written
        special = np.intersect1d(block.cells, list(self.models))
        rows = np.array(written.rows)
        for cell in special:
            at = np.flatnonzero(block.cells == cell)
            model = self.models[int(cell)]
            one = replace(block, rows=block.rows[at], weights=block.weights[at], scratch=None, cells=None)
            shift = self.shifts[cell][model.kept_classes]
            rows[at] = self.passes.with_model(model).write(one, shift, check=self.check).rows
        return WrittenBlock(rows, written.sums)
