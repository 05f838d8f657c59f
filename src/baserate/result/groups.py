"""What an adjustment to rates per group did to each group, and what is guaranteed about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from baserate.core.row_model import RowModel
from baserate.errors import BadOption
from baserate.inputs.dataframes import from_columns
from baserate.inputs.group_labels import GroupIndex, Label, group_name
from baserate.inputs.validation import quoted, quoted_name
from baserate.rates.margins import ALL_ROWS
from baserate.support.arrays import BoolArray, FloatArray, IndexArray

EACH_GROUP = "each group"


@dataclass(frozen=True, eq=False)
class MarginResult:
    """The groups of one margin; k is the number of classes.

    Attributes
    ----------
    name : str
    keys : tuple
        The columns that define the groups; empty if the only group has all rows.
    labels : list of tuples
        The values of each group in these columns; all are None for rows whose group is not in the table.
    n_rows, component : int array of shape (G,)
        Number of rows, and the connected component of each group.
    weight : array of shape (G,)
        The weight of its rows; those of all groups sum to 1.
    known : bool array of shape (G,)
        Whether anything is known about its rates.
    before, low, high, wanted, achieved : array of shape (G, k)
        Mean of the predictions, bounds of the requested rates, the rates that were chosen between them, and mean of
        the adjusted rows.
    shift : array of shape (G, k)
        -inf for a class that the group must not have.
    """

    name: str
    keys: tuple[Any, ...]
    labels: list[Label]
    n_rows: IndexArray
    component: IndexArray
    weight: FloatArray
    known: BoolArray
    before: FloatArray
    low: FloatArray
    high: FloatArray
    wanted: FloatArray
    achieved: FloatArray
    shift: FloatArray

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.labels)

    @property
    def is_exact(self) -> bool:
        """Whether all rates that are known are exact."""
        return bool((self.low == self.high)[self.known].all())

    @property
    def centred_shift(self) -> FloatArray:
        """The shift with mean 0 in each group, over the classes that it may have."""
        finite = np.isfinite(self.shift)
        mean = np.where(finite, self.shift, 0.0).sum(axis=1) / np.maximum(finite.sum(axis=1), 1)
        return self.shift - mean[:, None]

    @property
    def pooled_shift(self) -> FloatArray:
        """The mean shift of all groups by weight, for groups that were not there in the fit; shape (k,)."""
        shift = self.centred_shift
        finite = np.isfinite(shift)
        weight = np.where(finite, self.weight[:, None], 0.0)
        total = weight.sum(axis=0)
        mean = (weight * np.where(finite, shift, 0.0)).sum(axis=0)
        return np.divide(mean, total, out=np.full(len(total), -np.inf), where=total > 0)

    def find(self, labels: Sequence[Label]) -> list[int | None]:
        """The numbers of the groups with these values; None for those that were not there in the fit.

        If nothing was assumed about rows that are not in the table, all other rows are such rows.
        """
        return [self._unlisted if found is None else found for found in self._index.find_all(labels)]

    @cached_property
    def _index(self) -> GroupIndex:
        listed = self.labels if self._unlisted is None else self.labels[:-1]  # rows that are not in the table are last
        return GroupIndex(listed)

    @property
    def _unlisted(self) -> int | None:
        return self.n_groups - 1 if self.keys and self.labels and None in self.labels[-1] else None


@dataclass(frozen=True, eq=False)
class GroupsResult:
    """All margins of a result, and what is guaranteed about their connected components.

    Two groups are connected if they have rows in common. The groups of a single margin are not connected, so each of
    them is a component, and the guarantee holds for each of them.

    Attributes
    ----------
    margins : tuple of MarginResult
    certified : array of shape (number of components,)
        The mean loss of the rows of a component falls by at least this much.
    weight : array of shape (number of components,)
        The weight of the rows of a component.
    n_rows : int array of shape (number of components,)
    models : dict
        The row models of groups that need one of their own, by the number of the group, if there is one margin: hard
        zeros push their shift to infinity, or their loss had to be softened.
    """

    margins: tuple[MarginResult, ...]
    certified: FloatArray
    weight: FloatArray
    n_rows: IndexArray
    models: Mapping[int, RowModel] = field(default_factory=dict)

    @cached_property
    def guarantee_level(self) -> str:
        """What the guarantee is about: "each group", "all rows", or "each component"."""
        known = [margin.component[margin.known] for margin in self.margins]
        n_groups, n_components = sum(map(len, known)), len(np.unique(np.concatenate(known)))
        if n_groups == n_components:  # no two groups about which something is known have rows in common
            return EACH_GROUP
        return ALL_ROWS if n_components == 1 else "each component"

    def margin(self, name: Any) -> MarginResult:
        """The margin with a name, or with a list of columns."""
        wanted = ", ".join(map(str, name)) if isinstance(name, (list, tuple)) else name
        found = [margin for margin in self.margins if margin.name == wanted]
        if not found:
            names = [margin.name for margin in self.margins]
            raise BadOption(f"there is no margin {quoted_name(name)}; the margins are {quoted(names)}")
        return found[0]

    def table(self, margin: Any, classes: Sequence[Any], shown: Sequence[int], backend: Any = None) -> Any:
        """A dataframe with one row per group and class.

        Parameters
        ----------
        margin : str, list of str or None
            One margin; None for all.
        classes : sequence
            Names of all classes.
        shown : sequence of int
            The classes that the table has.
        backend : str, optional
            The dataframe library.
        """
        chosen = self.margins if margin is None else (self.margin(margin),)
        parts = [self._columns(one, classes, list(shown), by_key=len(chosen) == 1) for one in chosen]
        columns = {name: [value for part in parts for value in part[name]] for name in parts[0]}
        return from_columns(columns, backend)

    def _columns(
        self, margin: MarginResult, classes: Sequence[Any], shown: list[int], *, by_key: bool
    ) -> dict[str, list[Any]]:
        k = len(shown)

        def per_group(values: Sequence[Any]) -> list[Any]:
            return [value for value in values for _ in range(k)]

        groups = {str(key): per_group([label[j] for label in margin.labels]) for j, key in enumerate(margin.keys)}
        if not by_key or not margin.keys:
            names = [group_name(label) or ALL_ROWS for label in margin.labels]
            groups = {"margin": [margin.name] * (k * margin.n_groups), "group": per_group(names)}
        numbers = {
            "before": margin.before,
            "wanted": margin.wanted,
            "at_least": margin.low,
            "at_most": margin.high,
            "achieved": margin.achieved,
            "shift": margin.centred_shift,
        }
        return {
            **groups,
            "class": [classes[j] for j in shown] * margin.n_groups,
            "n_rows": per_group(margin.n_rows.tolist()),
            **{name: values[:, shown].ravel().tolist() for name, values in numbers.items()},
            "certified": per_group(self.certified[margin.component].tolist()),
            "certified_for": per_group([self.certified_for(int(c)) for c in margin.component]),
        }

    def certified_for(self, component: int) -> str:
        """What the guarantee of a component is about, in words."""
        if self.guarantee_level == EACH_GROUP:
            return "this group"
        if self.guarantee_level == ALL_ROWS:
            return ALL_ROWS
        return f"component {component + 1} of {len(self.certified):,} ({int(self.n_rows[component]):,} rows)"
