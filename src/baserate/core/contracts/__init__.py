"""The two contracts on which everything else is built.

:class:`RowPasses` is what is computed on a block of rows: a survey that checks the rows, the sums of the dual function
at a shift, and the adjusted rows. :class:`Engine` is where the rows are: in memory, in files, on a cluster. Solving
a problem needs only sums over rows. So engines contain no mathematics, and passes do not depend on files or clusters.

Sums are named tuples of float64 arrays that add field by field, see :func:`total`. Two extensions fit without a change:

- *Rates per group.* A block may carry the cell (combination of groups) of each row in ``Block.cells``. Passes that sum
  over the rows of each cell are :meth:`RowPasses.survey_cells`, ``reduce_cells`` and ``write_cells``. They take one
  shift per cell, shape (C, k), and return the sums of the cells that a block contains; see
  :mod:`baserate.core.cells.sums`.
- *Other arrays.* ``Block.rows`` may be any array that the passes of the engine understand, such as a tensor on a GPU.
  ``Engine.array_module`` and ``RowPasses.array_module`` say which, and only sums, which are NumPy arrays of k numbers,
  leave a block. ``Block.as_numpy`` copies a block for statistics of single rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import TypeVar

from baserate.core.contracts.blocks import (
    Block,
    CellChunk,
    DualSums,
    FirstSums,
    ProductSums,
    SolvedBlock,
    SolvedCells,
    SurveySums,
    WrittenBlock,
    WrittenSums,
    total,
)
from baserate.core.contracts.engine import Engine, LazyAnswer, LazyEngine, RowsByCell
from baserate.core.contracts.passes import RowPasses

__all__ = [
    "Block",
    "CellChunk",
    "DualSums",
    "Engine",
    "FirstSums",
    "LazyAnswer",
    "LazyEngine",
    "ProductSums",
    "RowPasses",
    "RowsByCell",
    "SolvedBlock",
    "SolvedCells",
    "SurveySums",
    "WrittenBlock",
    "WrittenSums",
    "implementations",
    "total",
]

T = TypeVar("T")


def implementations(contract: type[T], own: Sequence[type[T]], method: str) -> Iterator[type[T]]:
    """All classes that implement a contract: first those from outside this package, then ``own`` in their order.

    A class that inherits ``method`` from one of our own would only answer for it, so it is left out.
    """
    found = list(contract.__subclasses__())
    for cls in found:
        found.extend(cls.__subclasses__())
    for cls in dict.fromkeys(found):
        if cls in own or inspect.isabstract(cls):
            continue
        definer = next(base for base in cls.__mro__ if method in vars(base))
        if definer not in own:
            yield cls
    yield from own
