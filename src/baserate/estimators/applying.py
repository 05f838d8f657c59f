"""How estimators apply a fitted adjustment, with or without groups."""

from __future__ import annotations

from typing import Any

from baserate.adjustment import Adjustment
from baserate.adjustment.grouped import GroupedAdjustment
from baserate.errors import BadOption
from baserate.inputs.dataframes import is_dataframe
from baserate.inputs.group_columns import GROUPS
from baserate.rates import GroupedRates, Margins


def groups_in(table: Any, rates: Any) -> Any:
    """A table of features, if it has the columns by which rates per group are given, else None."""
    if not isinstance(rates, (GroupedRates, Margins)) or not is_dataframe(table):
        return None
    there = list(getattr(table, "column_names", None) or table.columns)
    return table if all(key in there for key in rates.keys) else None


def apply_adjustment(adjustment: Adjustment, probs: Any, groups: Any, unseen: str, **options: Any) -> Any:
    """Adjusted rows.

    Parameters
    ----------
    adjustment : Adjustment
    probs : array of shape (n, k)
    groups : dataframe, dict of arrays, array or None
        The groups of the rows, if the adjustment is to rates per group.
    unseen : "raise" or "pooled"
    **options
        Other options of ``Adjustment.apply``.
    """
    if isinstance(adjustment, GroupedAdjustment):
        return adjustment.apply(probs, groups=groups, unseen=unseen, **options)
    if groups is not None:
        raise BadOption(
            f"{GROUPS}= is for rates per group, but the adjustment has one shift for all rows; leave it out",
            options=[GROUPS],
        )
    return adjustment.apply(probs, **options)
