"""The rate sets of many groups as arrays: the same rules as in :mod:`baserate.rates.sets`, for all groups at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from baserate.errors import BadRates, Option
from baserate.inputs.class_numbers import RATES_TOLERANCE
from baserate.inputs.group_labels import Label, quoted_group
from baserate.inputs.validation import class_label
from baserate.rates.boxes import NARROW
from baserate.rates.regions import UNLIMITED, Region
from baserate.rates.sets import ROUNDING, RateSet
from baserate.support.arrays import BoolArray, FloatArray

ROUND = Option("Rates.by(..., rounding='auto')")
COUNTS = Option("Rates.by(..., kind='counts')")
_MOST_DECIMALS = 12  # Numbers with more decimals were not rounded for a table.


class KnownGroupSets(NamedTuple):
    """The possible rates of some groups.

    Attributes
    ----------
    low, high : array of shape (G, k)
        Tightened bounds.
    known : bool array of shape (G,)
        Whether anything is known about a group.
    regions : dict
        The curved region that limits the rates of a group as well, by the number of the group.
    """

    low: FloatArray
    high: FloatArray
    known: BoolArray
    regions: Mapping[int, Region]

    def rate_set(self, group: int) -> RateSet:
        """The set of one group."""
        return RateSet(self.low[group], self.high[group], self.regions.get(group, UNLIMITED))


def tightened(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds of shape (G, k) that are also limited by the bounds of the other classes; see ``RateSet.box``."""
    rise, fall = 1.0 - low.sum(axis=1, keepdims=True), high.sum(axis=1, keepdims=True) - 1.0
    tight_low, tight_high = high - fall, low + rise
    new_low = np.where(tight_low > low + NARROW, tight_low, low)
    new_high = np.where(tight_high < high - NARROW, tight_high, high)
    is_corner = np.minimum(rise, fall) <= NARROW
    corner = np.where(rise <= fall, low / np.maximum(low.sum(axis=1, keepdims=True), NARROW), 0.0)
    corner = np.where(rise > fall, high / high.sum(axis=1, keepdims=True), corner)
    return np.where(is_corner, corner, new_low), np.where(is_corner, corner, new_high)


def decimals_allowance(numbers: FloatArray) -> float:
    """Half a unit of the last decimal of a table of rounded numbers; 0 if the numbers do not look rounded."""
    decimals = max((_decimals(value) for value in np.unique(numbers[np.isfinite(numbers)]).tolist()), default=0)
    return 0.0 if decimals > _MOST_DECIMALS else 0.5 * 10.0**-decimals


def _decimals(value: float) -> int:
    digits, _, exponent = f"{value!r}".partition("e")
    return max(len(digits.partition(".")[2].rstrip("0")) - int(exponent or 0), 0)


def check_range(low: FloatArray, high: FloatArray, keys: Sequence[Any], labels: Sequence[Label], names: Any) -> None:
    """Raise if a number of a table of rates is not between 0 and 1, or a lower bound is above the upper one."""

    def where(bad: BoolArray) -> tuple[int, int, str, str]:
        i, j = (int(index[0]) for index in np.nonzero(bad))
        n_groups = int(bad.any(axis=1).sum())
        more = f" ({n_groups:,} groups have such entries)" if n_groups > 1 else ""
        of = "the positive class" if names is None and low.shape[1] == 1 else class_label(names, j)
        return i, j, f"{of} in {quoted_group(keys, labels[i])}", more

    for values in (low, high):
        if (bad := ~((values >= 0) & (values <= 1)) & ~np.isnan(values)).any():
            i, j, place, more = where(bad)
            raise BadRates(
                f"the rate of {place} is {values[i, j]:g}; rates must be between 0 and 1{more}. Divide percentages by "
                f"100; for the counts of a survey pass {COUNTS}",
                options=[COUNTS],
            )
    if (bad := low > high).any():
        i, j, place, more = where(bad)
        raise BadRates(f"the lower bound of {place} ({low[i, j]:g}) is above the upper bound ({high[i, j]:g}){more}")


def rescaled(all_rates: FloatArray, complete: BoolArray, keys: Sequence[Any], labels: Sequence[Label]) -> FloatArray:
    """The exact rates of the groups whose rates are complete. They sum to 1 in each group, up to rounding."""
    rates = all_rates[complete]
    sums = rates.sum(axis=1)
    if (bad := np.abs(sums - 1.0) > RATES_TOLERANCE).any():
        i, more = int(bad.argmax()), f" ({int(bad.sum()):,} groups do not sum to 1)" if bad.sum() > 1 else ""
        group = labels[int(np.flatnonzero(complete)[i])]
        raise BadRates(
            f"the rates of {quoted_group(keys, group)} sum to {sums[i]:.6g}, not 1{more}; divide each row by its "
            f"sum, or pass {ROUND} if the table was rounded",
            options=[ROUND],
        )
    off = np.abs(sums - 1.0) > 4 * np.finfo(np.float64).eps
    return np.where(off[:, None], rates / sums[:, None], rates)


def widened(
    low: FloatArray, high: FloatArray, rounding: float, keys: Sequence[Any], labels: Sequence[Label]
) -> tuple[FloatArray, FloatArray]:
    """Stated bounds with the allowance for rounding, and 0 and 1 where they are NaN because nothing is known."""
    low, high = low.copy(), high.copy()
    unknown = np.isnan(low)
    has_rest = ((low == high) | unknown).all(axis=1) & (unknown.sum(axis=1) == 1)
    if not rounding and has_rest.any():  # a single class has the rest, to the last digit
        rest = 1.0 - np.where(unknown, 0.0, low)[has_rest].sum(axis=1)
        at = np.flatnonzero(has_rest), unknown[has_rest].argmax(axis=1)
        low[at] = high[at] = np.where(np.abs(rest) <= ROUNDING, 0.0, rest)
    complete = ~np.isnan(low).any(axis=1) & (low == high).all(axis=1) & (low >= 0).all(axis=1)
    if not rounding and complete.any():
        low[complete] = high[complete] = rescaled(low, complete, keys, labels)
    low = np.where(np.isnan(low), 0.0, np.maximum(low - rounding, 0.0))
    high = np.where(np.isnan(high), 1.0, np.minimum(high + rounding, 1.0))
    return low, high


def check_sums(low: FloatArray, high: FloatArray, keys: Sequence[Any], labels: Sequence[Label]) -> None:
    """Raise if no rates of a group lie between its bounds and sum to 1."""
    for sums, bad, side, change in (
        (low.sum(axis=1), low.sum(axis=1) > 1.0 + ROUNDING, "lower", "lower"),
        (high.sum(axis=1), high.sum(axis=1) < 1.0 - ROUNDING, "upper", "raise"),
    ):
        if bad.any():
            i = int(bad.argmax())
            raise BadRates(
                f"the {side} bounds of {quoted_group(keys, labels[i])} sum to {sums[i]:.6g}, but class rates sum to 1; "
                f"{change} some of them"
            )
