"""Checks and copies of the arguments of :class:`baserate.Rates`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.errors import BadLabels, BadOption, BadRates
from baserate.inputs.class_numbers import series_to_dict
from baserate.inputs.labels import whole_numbers
from baserate.inputs.validation import quoted_name
from baserate.support.arrays import has_masked_entries

_MAX_BATCH = 2**53  # Larger whole numbers are not exact as floats.


def copied_numbers(value: Any) -> Any:
    """Copy an argument, so that later changes by the caller have no effect. Returns a dict, a list or one value."""
    if isinstance(value, Counter):
        return Counter({_python_value(name): _python_value(number) for name, number in value.items()})
    named = series_to_dict(value)
    if isinstance(named, Mapping):
        # A Series cannot contain None, so NaN means "unknown" there. In a dict NaN is an error.
        from_series = named is not value
        return {
            _python_value(name): None if from_series and number != number else _python_value(number)
            for name, number in named.items()
        }
    if isinstance(named, np.ndarray):
        return named.item() if named.ndim == 0 else named.copy()
    return list(map(_python_value, named)) if isinstance(named, (list, tuple)) else _python_value(named)


def _python_value(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def count_labels(y: ArrayLike) -> Counter[Any]:
    """How often each label occurs."""
    if has_masked_entries(y):
        raise BadLabels("labels are a masked array with masked entries; drop them first")
    try:
        labels = np.asarray(y)
    except ValueError:
        raise BadLabels("labels must be a list with one label per case, but some are lists") from None
    if labels.ndim != 1 or labels.size == 0:
        raise BadLabels(f"labels must be a list with one label per case, but have shape {labels.shape}")
    labels = whole_numbers(labels)
    if labels.dtype.kind == "f":
        raise BadLabels(
            "labels must be class names or whole numbers, but some are fractions, NaN, infinite or above 2**53"
        )
    try:
        return Counter(labels.tolist())
    except TypeError as error:
        raise BadLabels(f"labels must be class names or whole numbers: {error}") from None


def as_count(name: str, value: object) -> int:
    """A number of rows or draws, which is a whole number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise BadRates(f"{name} must be a whole number above 0, not {quoted_name(value)}")
    return int(value)


def as_batch_size(batch_size: object) -> int | None:
    """A number of rows as an int; None if it is not given."""
    if batch_size is None:
        return None
    if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)) or batch_size <= 0:
        raise BadOption(f"batch_size must be a whole number above 0, not {quoted_name(batch_size)}")
    if batch_size > _MAX_BATCH:
        raise BadOption(f"batch_size is {batch_size}, but must be at most 2**53")
    return int(batch_size)
