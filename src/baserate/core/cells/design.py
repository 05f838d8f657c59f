"""Rates per group in the form that the solver uses: margins, cells, and the design that connects them.

A *margin* is a partition of the rows into groups, with what is known about the class rates of each group. Several
margins may overlap. A *cell* is the set of rows that belong to the same group in every margin. Passes sum over the rows
of each cell, and the solver works on these sums only:

    shift of a cell      s_c = sum over margins m of lam[m][members[m, c]]
    gradient             of a group: its weight times its wanted rates, minus the sum over its cells of the mean
    curvature            D' diag(J_c) D, where D maps the shifts of groups to those of cells

The rates of a group are means over its rows, so they are multiplied by the weight of the group wherever they meet sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from baserate.rates.regions import Region
from baserate.support.arrays import BoolArray, FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class Margin:
    """A partition of the rows, and the possible class rates of each of its groups.

    Attributes
    ----------
    name : str
        The columns that define the groups, for messages: "region", or "state, age".
    labels : sequence of length G
        The groups, for messages.
    low, high : array of shape (G, k)
        Tightened bounds of the rates; see :class:`baserate.rates.sets.RateSet`. They are equal where a rate is exact,
        and 0 and 1 where nothing is known.
    regions : dict
        The curved region that limits the rates of a group as well, by the number of the group.
    known : bool array of shape (G,)
        Whether anything is known about a group. The shift of the others is 0.
    """

    name: str
    labels: Sequence[Any]
    low: FloatArray
    high: FloatArray
    known: BoolArray
    regions: Mapping[int, Region] = field(default_factory=dict)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.low)


@dataclass(frozen=True, eq=False)
class CellDesign:
    """Which group of each margin a cell belongs to.

    Attributes
    ----------
    margins : tuple of Margin
    members : int array of shape (M, C)
        The number of the group of each cell in each margin.
    """

    margins: tuple[Margin, ...]
    members: IndexArray

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return int(self.members.shape[1])
