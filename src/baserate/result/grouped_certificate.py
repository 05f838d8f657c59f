"""What is guaranteed about an adjustment to rates per group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baserate.errors import BadOption, BadRates
from baserate.rates import GroupedRates, Margins
from baserate.result.certificate import Certificate
from baserate.result.text import accuracy, guarantee
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.numbers import counted
from baserate.support.summary import Summary


@dataclass(frozen=True, eq=False, repr=False)
class GroupedCertificate(Certificate):
    """The guarantee of an adjustment to rates per group, for all rows together.

    ``Adjustment.by_group`` has what is guaranteed about single groups, or about sets of groups that overlap.

    Attributes
    ----------
    loss_reduction, gap, residual, batch_size, approximate
        As in :class:`baserate.Certificate`. ``residual`` is the largest difference in any group.
    sensitivity : array of shape (k,)
        NaN: the guarantee depends on the rates of each group, by its shift.
    known : Margins
        What was known about the rates of the groups.
    batch_sizes : tuple of int arrays
        For each margin, the number of rows of each group for which the rates were interpreted.
    guarantee_level : str
        "each group" if the guarantee also holds for each group by itself, else "each component" or "all rows".
    """

    batch_sizes: tuple[IndexArray, ...] = ()
    guarantee_level: str = "each group"

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Not defined: each group has its own bounds; see ``Adjustment.by_group``."""
        raise BadRates("each group has its own bounds: result.by_group() has them as at_least and at_most")

    def holds_for(self, *tables: Any) -> bool:
        """Whether the guarantee holds if these are the class rates of the groups.

        Parameters
        ----------
        *tables
            One table per margin, in the forms of :meth:`baserate.Rates.by`; for rates of all rows, these rates.
        """
        assert isinstance(self.known, Margins)
        return tables_in_sets(self.known, self.batch_sizes, tables)

    def _summary(self) -> Summary:
        promise = guarantee(self.loss_reduction, self.condition)
        if np.isnan(self.loss_reduction):
            return Summary("Guarantee", [promise])
        title = f"Guarantee for {counted(self.batch_size, 'row')}, {len(self.sensitivity)} classes, rates per group"
        return Summary(title, [promise, level_sentence(self.guarantee_level), accuracy(self.residual, self.gap)])


def tables_in_sets(known: Margins, batch_sizes: Sequence[IndexArray], tables: Sequence[Any]) -> bool:
    """Whether the class rates of the groups in these tables, one per margin, are possible."""
    parts = known.parts
    if len(tables) != len(parts):
        names = ", ".join(known.names)
        raise BadOption(f"pass one table per margin, so {len(parts)} for {names}, not {len(tables)}")
    return all(
        part.contains(table, sizes) if isinstance(part, GroupedRates) else part.contains(table, int(sizes[0]))
        for part, table, sizes in zip(parts, tables, batch_sizes, strict=True)
    )


def level_sentence(level: str) -> str:
    """What the guarantee is about."""
    if level == "each group":
        return "the groups do not overlap, so the guarantee splits: by_group() has that of each group by itself"
    if level == "all rows":
        return "the groups overlap, so this holds for all rows together; the loss of a single group may rise"
    return (
        "some groups overlap, so this holds for all rows, and for each set of connected groups: by_group() has them; "
        "the loss of a single group may rise"
    )
