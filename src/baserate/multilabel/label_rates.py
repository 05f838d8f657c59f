"""Parse the rates of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baserate.errors import BadRates, Option
from baserate.inputs.class_names import matched_names, same_text
from baserate.inputs.class_numbers import as_float, is_one_number, series_to_dict
from baserate.inputs.validation import quoted, quoted_name
from baserate.rates import Rates, RatesLike

_CLASSES = Option("classes", "[...]")


def rates_by_label(rates: Any, labels: tuple[Any, ...]) -> dict[Any, RatesLike]:
    """What is known about the rates of "absent" and "present" for each label that has a rate.

    Parameters
    ----------
    rates : number, sequence, dict, Series or Rates
        As in :func:`baserate.adjust_multilabel`.
    labels : tuple
    """
    entries = _entries(series_to_dict(rates, labels), labels)
    parsed = {label: _rates_of_label(entries[label], label) for label in labels if entries.get(label) is not None}
    if not parsed:
        raise BadRates(f"rates has no entry for any of the labels {quoted(labels)}")
    return parsed


def _entries(rates: Any, labels: tuple[Any, ...]) -> Mapping[Any, Any]:
    if isinstance(rates, Rates) or is_one_number(rates):
        return dict.fromkeys(labels, rates)
    if isinstance(rates, Mapping):
        meant = dict(zip(matched_names(list(rates), labels), rates.values(), strict=True))
        unknown = [label for label in meant if label not in labels]
        if unknown:
            message = f"rates has an entry for {quoted(unknown)}, but the labels are {quoted(labels)}"
            hint = same_text(unknown, labels) or f"; to name the labels of an array, pass {_CLASSES}"
            raise BadRates(message + hint, options=[_CLASSES] if str(_CLASSES) in hint else [])
        return meant
    rule = f"rates must be one number for all labels, or {len(labels)} numbers, one for each label"
    if isinstance(rates, (str, bytes, set, frozenset)) or not hasattr(rates, "__iter__"):
        raise BadRates(f"{rule}, not {quoted_name(rates)}")
    values = list(rates)
    if len(values) != len(labels):
        raise BadRates(f"{rule}, but there are {len(values)}")
    return dict(zip(labels, values, strict=True))


def _rates_of_label(entry: Any, label: Any) -> RatesLike:
    """The rates of "absent" and "present" from the entry of one label."""
    what = f"the rate of label {quoted_name(label)}"
    if isinstance(entry, Rates):
        return entry
    if isinstance(entry, (Sequence, np.ndarray)) and not isinstance(entry, (str, bytes)) and np.ndim(entry) > 0:
        bounds = list(entry)
        if len(bounds) != 2:
            raise BadRates(f"{what} has {len(bounds)} entries; pass a number, or a pair (low, high) of bounds")
        low, high = (
            no_bound if bound is None else _in_unit_interval(bound, f"a bound on {what}")
            for bound, no_bound in zip(bounds, (0.0, 1.0), strict=True)
        )
        if low > high:
            raise BadRates(f"the bounds on {what} are {low} and {high}; pass the smaller one first")
        return Rates.between(low, high)
    return _in_unit_interval(entry.item() if isinstance(entry, np.ndarray) else entry, what)


def _in_unit_interval(value: Any, what: str) -> float:
    number = as_float(value, what)
    if not 0 <= number <= 1:
        raise BadRates(f"{what} is {number}, but must be between 0 and 1")
    return number
