"""Numbers by class as values that JSON can hold, which keep the types of the class names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from baserate.inputs.class_names import check_class_name

_BY_CLASS, _COUNTER = "number_by_class", "cases_by_label"


def as_plain_value(value: Any) -> Any:
    """A field of rates as a value that JSON can hold.

    JSON turns the class name 1 into the text "1". So a dict with other names than texts becomes a list of pairs, and a
    counter of labels always does, because it may leave out classes.
    """
    if isinstance(value, Mapping):
        for name in value:
            check_class_name(name)
        pairs = [[name, as_plain_value(number)] for name, number in value.items()]
        if isinstance(value, Counter):
            return {_COUNTER: pairs}
        return dict(pairs) if all(isinstance(name, str) for name in value) else {_BY_CLASS: pairs}
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, list):
        return [as_plain_value(one) for one in value]
    is_other_number = isinstance(value, (Real, Decimal)) and not isinstance(value, (int, float))
    return float(value) if is_other_number else value


def from_plain_value(value: Any) -> Any:
    """The field of rates that :func:`as_plain_value` has converted."""
    if isinstance(value, Mapping) and len(value) == 1:
        for name, kind in ((_COUNTER, Counter), (_BY_CLASS, dict)):
            if isinstance(value.get(name), list):
                return kind(dict(value[name]))
    return value
