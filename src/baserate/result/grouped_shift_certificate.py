"""What the fixed shifts of groups guarantee on rows for which they were not fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from baserate.errors import BadGroups, BadRates
from baserate.inputs.dataframes import from_columns
from baserate.inputs.group_labels import Label, group_name
from baserate.rates import Margins
from baserate.result.facts import json_number
from baserate.result.grouped_certificate import level_sentence, tables_in_sets
from baserate.result.shift_certificate import ShiftCertificate, title
from baserate.result.text import class_name
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.numbers import counted, format_column
from baserate.support.summary import Summary, Table

_MAX_GROUPS = 12  # Groups in a printed table; of more, those with the smallest guarantees.


class CertifiedGroups(NamedTuple):
    """What is guaranteed for each group of a single margin.

    Attributes
    ----------
    keys : tuple
    labels : list of tuples
    n_rows : int array of shape (G,)
    loss_reduction : array of shape (G,)
    """

    keys: tuple[Any, ...]
    labels: list[Label]
    n_rows: IndexArray
    loss_reduction: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class GroupedShiftCertificate(ShiftCertificate):
    """The guarantee of the shifts of groups on other rows, for all rows together.

    It has the attributes of :class:`ShiftCertificate`. ``largest_fall`` is not computed (inf).

    Attributes
    ----------
    known : Margins
        What is known about the rates of the groups.
    batch_sizes : tuple of int arrays
        For each margin, the number of rows of each group for which the rates were interpreted.
    groups : CertifiedGroups or None
        What is guaranteed for each group; None if groups overlap.
    """

    batch_sizes: tuple[IndexArray, ...] = ()
    groups: CertifiedGroups | None = None

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Not defined: each group has its own bounds."""
        raise BadRates("each group has its own bounds; take those of the rates: rates.bounds(batch_size)")

    def holds_for(self, *tables: Any) -> bool:
        """Whether the guarantee holds if these are the class rates of the groups; one table per margin."""
        assert isinstance(self.known, Margins)
        return tables_in_sets(self.known, self.batch_sizes, tables)

    def by_group(self, *, backend: str | None = None) -> Any:
        """What is guaranteed for each group, as a dataframe with one row per group.

        Parameters
        ----------
        backend : "pandas", "polars" or "pyarrow", optional
            The dataframe library.

        Returns
        -------
        dataframe
            The columns that define the groups, ``n_rows`` and ``loss_reduction``.
        """
        if self.groups is None:
            raise BadGroups("the groups overlap, so there is no guarantee for single groups; see loss_reduction")
        keys, labels, n_rows, fall = self.groups
        columns = {str(key): [label[j] for label in labels] for j, key in enumerate(keys)}
        return from_columns({**columns, "n_rows": n_rows.tolist(), "loss_reduction": fall.tolist()}, backend)

    def to_json(self) -> dict[str, Any]:
        """The figures as plain JSON values."""
        figures = {
            "rows": self.n_rows,
            "loss": repr(self.loss),
            "loss_reduction": json_number(self.loss_reduction),
            "condition": self.condition,
        }
        if self.groups is None:
            return {**figures, "groups": None}
        lines = zip(self.groups.labels, self.groups.n_rows.tolist(), self.groups.loss_reduction, strict=True)
        listed = [
            {"group": group_name(label), "rows": n, "loss_reduction": json_number(fall)} for label, n, fall in lines
        ]
        return {**figures, "by": list(map(str, self.groups.keys)), "groups": listed}

    def summary(self) -> Summary:
        """What a person sees of the certificate, in terminals and notebooks."""
        head = f"{title(self.n_rows, len(self.before))}, rates per group"
        if self.groups is None:
            return Summary(head, [*self._statements(), level_sentence("all rows")])
        keys, labels, n_rows, fall = self.groups
        shown = np.sort(np.argsort(fall, kind="stable")[:_MAX_GROUPS])
        table = Table.of(
            {
                ", ".join(map(str, keys)) or "group": [class_name(group_name(labels[i]) or "all rows") for i in shown],
                "rows": [f"{n:,}" for n in n_rows[shown]],
                "loss falls by": format_column(fall[shown], signed=True),
            }
        )
        hidden = len(fall) - len(shown)
        notes = [f"... and {counted(hidden, 'group')} with larger guarantees"] if hidden else []
        return Summary(head, self._statements(), [table], notes)
