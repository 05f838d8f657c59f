"""All groups of a design in one numbering, and the sparse matrix that connects them with cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from baserate.core.cells.design import CellDesign
from baserate.core.cells.group_sets import GroupSets
from baserate.support.arrays import BoolArray, FloatArray, IndexArray


class Components(NamedTuple):
    """The component of each cell (-1 if it is in no known group) and of each group, and the number of components."""

    of_cell: IndexArray
    of_group: IndexArray
    number: int


@dataclass(frozen=True, eq=False)
class GroupLayout:
    """How groups and cells are connected, which does not depend on the rates.

    Attributes
    ----------
    design : CellDesign
    known : bool array of shape (G,)
        Whether anything is known about each group of all margins.
    """

    design: CellDesign
    known: BoolArray

    @property
    def n_groups(self) -> int:
        """Number of groups of all margins."""
        return len(self.known)

    @cached_property
    def offsets(self) -> IndexArray:
        """Number of the first group of each margin, and the number of groups."""
        return np.cumsum([0, *(margin.n_groups for margin in self.design.margins)])

    @cached_property
    def numbers(self) -> IndexArray:
        """The group of each cell in each margin, shape (M, C)."""
        return np.asarray(self.design.members + self.offsets[:-1, None], dtype=np.intp)

    @cached_property
    def is_partition(self) -> bool:
        """Whether there is one margin, and each of its groups is one cell."""
        return len(self.numbers) == 1 and bool((np.bincount(self.numbers[0], minlength=1) <= 1).all())

    @cached_property
    def matrix(self) -> Any:
        """The sparse matrix D of shape (C, G) that maps the shifts of known groups to those of cells."""
        from scipy.sparse import csr_array

        used = self.known[self.numbers]
        cells = np.broadcast_to(np.arange(self.design.n_cells), self.numbers.shape)[used]
        shape = (self.design.n_cells, self.n_groups)
        return csr_array((np.ones(used.sum()), (cells, self.numbers[used])), shape=shape)

    @cached_property
    def transposed(self) -> Any:
        """The transpose of :attr:`matrix`, which sums over the cells of each group."""
        return self.matrix.T.tocsr()

    @cached_property
    def pairs(self) -> tuple[IndexArray, Any]:
        """The pairs of known groups that have a cell in common, and a sparse matrix that sums over these cells.

        A pair is numbered ``first * G + second`` with ``first <= second``; a group forms a pair with itself.
        """
        from scipy.sparse import csr_array

        codes, cells = [], []
        for m, first in enumerate(self.numbers):
            for second in self.numbers[m:]:
                both = np.flatnonzero(self.known[first] & self.known[second])
                codes.append(first[both] * self.n_groups + second[both])
                cells.append(both)
        pairs, number = np.unique(np.concatenate(codes), return_inverse=True)
        of_cell = np.concatenate(cells)
        shape = (len(pairs), self.design.n_cells)
        return pairs, csr_array((np.ones(len(of_cell)), (number.ravel(), of_cell)), shape=shape)

    @cached_property
    def components(self) -> Components:
        """The groups that are connected by cells."""
        if self.is_partition:
            of_cell = np.where(self.known[self.numbers[0]], self.numbers[0], -1)
            return Components(of_cell, np.arange(self.n_groups), self.n_groups)
        from scipy.sparse import block_array, csr_array
        from scipy.sparse.csgraph import connected_components

        n_cells, n_groups = self.matrix.shape
        corner = csr_array((n_cells, n_cells)), csr_array((n_groups, n_groups))
        graph = block_array([[corner[0], self.matrix], [self.transposed, corner[1]]])
        _, label = connected_components(graph, directed=False)
        of_group = label[n_cells:]
        names, of_group = np.unique(of_group, return_inverse=True)
        renumbered = np.full(label.max() + 1, -1)
        renumbered[names] = np.arange(len(names))
        return Components(renumbered[label[:n_cells]], of_group.ravel(), len(names))


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of all margins, one margin after the other.

    G is the number of groups of all margins together. The guarantee splits by *component*: groups that have a cell in
    common are in the same component. Groups about which nothing is known connect nothing.

    Attributes
    ----------
    layout : GroupLayout
        How groups and cells are connected.
    sets : GroupSets
    allowed : bool array of shape (C, k)
        The classes to which the rows of each cell may give probability.
    """

    layout: GroupLayout
    sets: GroupSets
    allowed: BoolArray

    @classmethod
    def of(cls, design: CellDesign, *, bounded: bool) -> Groups:
        """The groups of a design. If predictions are bounded, cells exclude classes of rate 0."""
        known = np.concatenate([margin.known for margin in design.margins]).astype(np.bool_)
        layout = GroupLayout(design, known)
        regions = {
            int(first + g): region
            for first, margin in zip(layout.offsets, design.margins, strict=False)
            for g, region in margin.regions.items()
        }
        low, high = (np.concatenate([getattr(m, side) for m in design.margins]) for side in ("low", "high"))
        allowed = np.ones((design.n_cells, low.shape[1]), dtype=np.bool_)
        if bounded:
            for number in layout.numbers:
                allowed &= (high[number] > 0) | ~known[number][:, None]
        return cls(layout, GroupSets(low, high, regions), allowed)

    @property
    def design(self) -> CellDesign:
        """Margins, and the groups of each cell."""
        return self.layout.design

    @property
    def known(self) -> BoolArray:
        """Whether anything is known about each group."""
        return self.layout.known

    @property
    def n_groups(self) -> int:
        """Number of groups of all margins."""
        return len(self.layout.known)

    @property
    def offsets(self) -> IndexArray:
        """Number of the first group of each margin, and the number of groups."""
        return self.layout.offsets

    @property
    def numbers(self) -> IndexArray:
        """The group of each cell in each margin, shape (M, C)."""
        return self.layout.numbers

    @property
    def matrix(self) -> Any:
        """The sparse matrix D of shape (C, G) that maps the shifts of known groups to those of cells."""
        return self.layout.matrix

    @property
    def transposed(self) -> Any:
        """The transpose of :attr:`matrix`, which sums over the cells of each group."""
        return self.layout.transposed

    @property
    def component_of_cell(self) -> IndexArray:
        """The component of each cell; -1 for cells that are in no known group."""
        return self.layout.components.of_cell

    @property
    def component_of_group(self) -> IndexArray:
        """The component of each group."""
        return self.layout.components.of_group

    @property
    def n_components(self) -> int:
        """Number of components, those of empty groups and of groups about which nothing is known included."""
        return self.layout.components.number

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.sets.low.shape[1]

    @cached_property
    def free(self) -> BoolArray:
        """Which shifts may differ from 0, shape (G, k): those of known groups, for classes that some cell allows."""
        return (self.sum(self.allowed.astype(np.float64)) > 0) & self.known[:, None]

    def cell_shifts(self, shifts: FloatArray) -> FloatArray:
        """The shift of each cell, shape (C, k), from those of the groups; -inf for classes that are not allowed."""
        if self.layout.is_partition:
            of_cells = np.where(self.known[:, None], shifts, 0.0)[self.numbers[0]]
        else:
            of_cells = self.matrix @ shifts
        return np.where(self.allowed, of_cells, -np.inf)

    def sum(self, of_cells: FloatArray) -> FloatArray:
        """The sum over the cells of each known group; 0 for the others."""
        if self.layout.is_partition:  # which needs no sparse matrix
            sums = np.zeros((self.n_groups, *of_cells.shape[1:]))
            sums[self.numbers[0]] = of_cells
            sums[~self.known] = 0.0
            return sums
        flat = of_cells.reshape(len(of_cells), -1)
        return np.asarray(self.transposed @ flat).reshape(self.n_groups, *of_cells.shape[1:])

    def per_component(self, of_groups: FloatArray) -> FloatArray:
        """Numbers of the groups, summed over each component."""
        sums = np.bincount(self.component_of_group, of_groups, minlength=self.n_components)
        return sums.astype(np.float64, copy=False)

    def cells_per_component(self, of_cells: FloatArray) -> FloatArray:
        """Numbers of the cells, summed over each component."""
        inside = self.component_of_cell >= 0
        sums = np.bincount(self.component_of_cell[inside], of_cells[inside], minlength=self.n_components)
        return sums.astype(np.float64, copy=False)

    def by_margin(self, of_groups: Any) -> list[Any]:
        """An array with one row per group, split into one array per margin."""
        return np.split(of_groups, self.offsets[1:-1])

    def name(self, group: int) -> str:
        """The group for messages, such as "region 'north'"."""
        margin = int(np.searchsorted(self.offsets, group, side="right")) - 1
        of_margin = self.design.margins[margin]
        return f"{of_margin.name} {of_margin.labels[group - self.offsets[margin]]!r}"
