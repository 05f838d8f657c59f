"""Passes in NumPy that keep predictions, not dual points, in scratch memory; for losses with shorter formulas."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from baserate.core.contracts import Block, RowPasses
from baserate.core.row_model import RowModel
from baserate.passes.numpy_passes import NumpyPasses
from baserate.support.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class PredictionPasses(NumpyPasses):
    """Formulas for one loss; what they cannot compute is left to the general formulas."""

    @classmethod
    @abstractmethod
    def supports(cls, model: RowModel) -> bool:
        """Whether the formulas are those of the model."""

    def with_model(self, model: RowModel) -> RowPasses:
        return super().with_model(model) if self.supports(model) else NumpyPasses(model, self.naming, self.uses_scratch)

    def _kept_rows(self, block: Block) -> FloatArray:
        """The predictions of the kept classes."""
        kept = self._kept_points(block)
        if kept is not None:
            return kept
        # In the order of scratch memory, so that products have the same last digits with and without it.
        by_column = block.rows.strides[0] < block.rows.strides[1]
        return np.asarray(self.model.kept(self.model.reading.clean(block.rows)), order="F" if by_column else "C")

    def _dual_points(self, block: Block) -> FloatArray:
        return self.model.loss.link(self._kept_rows(block))
