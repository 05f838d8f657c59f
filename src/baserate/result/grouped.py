"""The result of an adjustment to rates per group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from baserate.inputs.dataframes import Frame
from baserate.result import group_text
from baserate.result.groups import GroupsResult
from baserate.result.record import Result
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.summary import Summary


@dataclass(frozen=True, eq=False, repr=False)
class GroupedResult(Result):
    """A result whose shift depends on the groups of a row.

    Attributes
    ----------
    dual_shift : array of shape (C, k)
        The shift of each cell, that is, of each combination of groups; -inf for a class that it must not have.
    groups : GroupsResult
        What was done to each group, and what is guaranteed about it.
    cell_groups : int array of shape (C,)
        The group of each cell in the first margin.
    """

    groups: GroupsResult
    cell_groups: IndexArray

    is_grouped = True

    @property
    def shift(self) -> dict[str, FloatArray]:  # type: ignore[override]  # one per margin
        """For each margin, an array with one row per group and one column per class, in the order of ``by_group()``.

        The shift of a row is the sum of those of its groups. Each has mean 0. -inf is for classes of rate 0.
        """
        return {margin.name: margin.centred_shift for margin in self.groups.margins}

    def by_group(self, margin: Any = None, *, backend: str | None = None) -> Any:
        """What was done to each group, as a dataframe with one row per group and class.

        Parameters
        ----------
        margin : str or list of str, optional
            One of several margins, by its columns.
        backend : "pandas", "polars" or "pyarrow", optional
            The dataframe library. By default that of the predictions.

        Returns
        -------
        dataframe
            Its first columns are those that define the groups; for several margins, ``margin`` and ``group``. Then
            follow

            - ``class``, and ``n_rows``, the number of rows of the group;
            - ``before``, the mean of the predictions, and ``achieved``, the mean of the adjusted predictions;
            - ``wanted``, the requested rate, or the one that was chosen between ``at_least`` and ``at_most``;
            - ``shift``: one number per group and class, which is the adjustment;
            - ``certified``: the mean loss falls by at least this much, for the rows that ``certified_for`` names: this
              group, if groups do not overlap; otherwise a set of groups that overlap, or all rows.
        """
        library = self.form.kind if backend is None and isinstance(self.form, Frame) else backend
        names = range(self.model.n_classes) if self.classes is None else self.classes
        shown = [1] if self.one_column else list(range(self.model.n_classes))
        return self.groups.table(margin, list(names), shown, library)

    def summary(self) -> Summary:
        """What a person sees of the result, in terminals and notebooks."""
        return group_text.summary(self)
