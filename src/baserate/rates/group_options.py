"""Checks of the arguments of :meth:`baserate.Rates.by`."""

from __future__ import annotations

from typing import Any

import numpy as np

from baserate.errors import BadOption, BadRates
from baserate.inputs.group_labels import quoted_group
from baserate.inputs.validation import as_confidence, as_flag, is_number, quoted, quoted_name
from baserate.rates.group_sets import decimals_allowance
from baserate.rates.group_table import GroupTable

KINDS = ("rates", "counts", "population")


def as_keys(keys: Any) -> tuple[Any, ...]:
    """The columns that define the groups."""
    names = list(keys) if isinstance(keys, (list, tuple)) else [keys]
    if not names or any(name is None or isinstance(name, (list, dict, set)) for name in names):
        raise BadOption(f"the groups must be the name of a column or a list of names, not {quoted_name(keys)}")
    if len(set(names)) < len(names):
        raise BadOption(f"the groups contain the column {quoted([n for n in names if names.count(n) > 1][:1])} twice")
    return tuple(names)


def check_options(
    kind: str, table: GroupTable, *, confidence: Any, joint: Any, design_effect: Any, unlisted: Any
) -> None:
    """Raise if an option has an invalid value."""
    if kind not in KINDS:
        raise BadOption(f"kind must be 'rates', 'counts' or 'population', not {quoted_name(kind)}")
    if table.is_counts and kind == "population":
        raise BadOption("kind is 'population', but the table has a column 'count'; leave kind out")
    as_confidence(confidence, BadRates)
    if not is_number(design_effect) or not 1 <= float(design_effect) < np.inf:
        raise BadRates(f"design_effect must be a number of at least 1, not {quoted_name(design_effect)}")
    as_flag("joint", joint)
    if unlisted not in ("raise", "free"):
        raise BadOption(f"unlisted must be 'raise' or 'free', not {quoted_name(unlisted)}")


def as_rounding(rounding: Any, table: GroupTable, of: str) -> float:
    """The allowance for rounded numbers."""
    if rounding is None:
        return 0.0
    if of != "rates":
        raise BadOption("rounding is for tables of rates; counts and rates of a population have bounds of their own")
    if isinstance(rounding, str) and rounding == "auto":
        return decimals_allowance(np.concatenate([table.low, table.high]))
    if not is_number(rounding) or not 0 <= float(rounding) < 0.5:
        raise BadOption(
            "rounding must be the largest rounding error of a rate, such as 0.005, or 'auto', not "
            f"{quoted_name(rounding)}"
        )
    return float(rounding)


def check_numbers(table: GroupTable, keys: tuple[Any, ...], of: str) -> None:
    """Raise if counts or rates of a population are not such numbers."""
    low, labels = table.low, table.labels
    if not np.array_equal(low, table.high, equal_nan=True):
        raise BadRates(f"{'counts' if of == 'counts' else 'rates of a population'} are one number each, not bounds")
    given = ~np.isnan(low)
    bad = given & ((low < 0) | ~np.isfinite(low))
    if of == "counts":
        if table.is_one_number and given.any():
            raise BadRates(
                "counts need one column per class; one number per group does not say how many cases there were"
            )
        bad |= given & (low != np.floor(low))
    else:
        bad |= given & (low > 1)
    if bad.any():
        i, j = (int(index[0]) for index in np.nonzero(bad))
        name = f"class {quoted_name(table.classes[j])}" if table.classes is not None else f"class {j}"
        rule = "counts must be whole numbers of cases" if of == "counts" else "rates must be between 0 and 1"
        raise BadRates(f"the entry of {name} in {quoted_group(keys, labels[i])} is {low[i, j]:g}; {rule}")
