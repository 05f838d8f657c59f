"""An adjustment to rates per group: each row by the shifts of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from baserate import deploy
from baserate.adjustment.adjustment import Adjustment
from baserate.errors import BaserateError
from baserate.inputs.validation import as_flag
from baserate.progress import Progress
from baserate.result.grouped import GroupedResult
from baserate.result.grouped_shift_certificate import GroupedShiftCertificate
from baserate.solving import new_row_source
from baserate.solving.apply_groups import apply_group_shifts
from baserate.solving.certify_groups import certify_group_shifts
from baserate.solving.grouped import solve_groups_again


class GroupedAdjustment(GroupedResult, Adjustment):
    """Predictions that were adjusted to rates per group, and the shifts that can adjust further rows.

    It has the attributes of :class:`Adjustment`. ``rates``, ``wanted`` and ``before`` are means over all rows, and
    ``shift`` has one array per margin.

    Attributes
    ----------
    groups : GroupsResult
        What ``by_group()`` shows, as arrays.

    Examples
    --------
    >>> import baserate as br
    >>> rates = br.Rates.by("region", {"north": 0.1, "south": 0.3})
    >>> result = br.adjust([0.2, 0.4, 0.3, 0.1], rates, groups=["north", "north", "south", "south"])
    >>> table = result.by_group()
    >>> table[["region", "n_rows", "before", "wanted", "achieved"]].round(3).to_dict("list")
    {'region': ['north', 'south'], 'n_rows': [2, 2], 'before': [0.3, 0.2], 'wanted': [0.1, 0.3], 'achieved': [0.1, 0.3]}
    >>> result.apply([0.5], groups=["south"]).round(3)
    array([0.642])
    """

    def apply(
        self,
        new_probs: Any,
        *,
        groups: Any = None,
        unseen: str = "raise",
        from_logits: bool | None = None,
        normalize: bool = False,
        columns: str | Sequence[Any] | None = None,
        whole: bool = False,
        out: Any = None,
        dtype: Any = None,
        progress: Progress | None = None,
    ) -> Any:
        """Adjust other rows by the shifts of their groups.

        The certificate of the fit does not hold for other rows: neither their means nor a lower loss. Use it for rows
        of the same groups from the same population, and :meth:`certify` to see what is guaranteed for them.

        Parameters
        ----------
        new_probs, from_logits, normalize, columns, whole, out, dtype, progress
            As in :meth:`Adjustment.apply`.
        groups : dataframe, dict of arrays or array, optional
            The groups of the new rows, as in :func:`baserate.adjust`.
        unseen : "raise" or "pooled", default "raise"
            What is done about rows of groups that were not there in the fit: an error, or they get the mean shift of
            all groups, by their weights.
        """
        reading = {"from_logits": from_logits, "normalize": normalize, "columns": columns, "dtype": dtype}
        source = new_row_source(self, new_probs, groups=groups, out=out, progress=progress, **reading)
        return apply_group_shifts(self, source, unseen=unseen, whole=as_flag("whole", whole))

    def certify(
        self,
        new_probs: Any,
        rates: Any,
        *,
        groups: Any = None,
        unseen: str = "raise",
        sample_weight: ArrayLike | str | None = None,
        from_logits: bool | None = None,
        normalize: bool = False,
        columns: str | Sequence[Any] | None = None,
        dtype: Any = None,
        progress: Progress | None = None,
    ) -> GroupedShiftCertificate:
        """What the shifts guarantee on other rows, without labels, if something is known about the rates per group.

        Parameters
        ----------
        new_probs, sample_weight, from_logits, normalize, columns, dtype, progress
            As in :meth:`Adjustment.certify`.
        rates : Rates, Margins or table
            What is known about the class rates of the new rows, by the same columns as in the fit. A table is enough if
            there is one margin; see :meth:`Rates.by`.
        groups, unseen
            As in :meth:`apply`.

        Examples
        --------
        >>> import baserate as br
        >>> rates = br.Rates.by("region", {"north": 0.1, "south": 0.3})
        >>> result = br.adjust([0.2, 0.4, 0.3, 0.1], rates, groups=["north", "north", "south", "south"])
        >>> regions = ["north", "north", "south", "south"]
        >>> new = result.certify([0.3, 0.5, 0.2, 0.4], {"north": 0.1, "south": 0.2}, groups=regions)
        >>> new.by_group()["loss_reduction"].round(3).tolist()
        [0.224, -0.094]
        """
        reading = {"from_logits": from_logits, "normalize": normalize, "columns": columns, "dtype": dtype}
        source = new_row_source(
            self, new_probs, groups=groups, sample_weight=sample_weight, progress=progress, writes=False, **reading
        )
        return certify_group_shifts(self, source, rates, unseen=unseen)

    def to_sql(
        self,
        *,
        columns: str | Sequence[Any] | None = None,
        table: str | Sequence[str] = "predictions",
        dialect: str = "duckdb",
        keep: Sequence[str] | None = None,
        unseen: str = "null",
        shift_table: str | Sequence[str] | None = None,
    ) -> str:
        """The shifts as a SQL query that joins a table of rows with a table of shifts, by the columns of the groups.

        Parameters
        ----------
        columns, table, dialect, keep
            As in :meth:`Adjustment.to_sql`.
        unseen : "null" or "pooled", default "null"
            What is done about rows of groups that were not there in the fit: they become NULL, or they get the mean
            shift of all groups, by their weights.
        shift_table : str or sequence of str, optional
            Name for a table of shifts, if there are many groups. The text then has several statements, separated by
            semicolons: ``CREATE TABLE`` for each margin, and the query. By default the shifts are in the query itself.
        """
        given = {"columns": columns, "table": table, "dialect": dialect, "keep": keep}
        return deploy.to_sql(self, **given, unseen=unseen, shift_table=shift_table)  # type: ignore[arg-type]  # of a dict

    def what_if(self, rates: Any) -> GroupedAdjustment:
        """Adjust the same rows to other rates of the same groups.

        The predictions are read again, so they must not have been changed in place since.

        Parameters
        ----------
        rates : Rates, Margins or table
            Other rates by the same columns. A table is enough if there is one margin; see :meth:`Rates.by`.
        """
        if self.source is None:
            raise BaserateError("this adjustment has a shift but no rows; call adjust(probs, rates) instead")
        return type(self).of(solve_groups_again(self, rates))
