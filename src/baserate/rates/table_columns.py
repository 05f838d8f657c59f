"""Which column of the predictions each column of a table of rates per group belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.errors import BadRates, Option
from baserate.inputs.class_names import matched_names, same_text
from baserate.inputs.validation import quoted
from baserate.support.arrays import FloatArray

if TYPE_CHECKING:
    from baserate.rates.by_group import GroupedRates

_CLASSES = Option("classes", "[...]")


def prediction_columns(rates: GroupedRates, classes: tuple[Any, ...] | None, n_classes: int) -> list[int]:
    """The column of the predictions for each column of the table.

    Parameters
    ----------
    rates : GroupedRates
    classes : tuple or None
        Names of the columns of the predictions.
    n_classes : int
        Number of columns of the predictions.
    """
    width = rates.low.shape[1]
    if rates.one_number:
        if n_classes != 2 and not np.isnan(rates.low).all():
            raise BadRates(
                f"the table by {rates.name} has one rate per group, but there are {n_classes} classes; pass one "
                "column per class"
            )
        return [1]
    if rates.classes is None or classes is None:
        if rates.classes is not None and rates.classes != tuple(range(n_classes)):
            raise BadRates(
                f"the table by {rates.name} names the classes {quoted(rates.classes)}, but the columns have no "
                f"names. Pass {_CLASSES} with the names of the {n_classes} columns, in their order",
                options=[_CLASSES],
            )
        if width != n_classes:
            raise BadRates(f"the table by {rates.name} has {width} rates per group, but there are {n_classes} classes")
        return list(range(width))
    meant = matched_names(rates.classes, classes)
    if unknown := [name for name in meant if name not in classes]:
        raise BadRates(
            f"{quoted(unknown)} in the table by {rates.name} is not among the classes {quoted(classes)}"
            f"{same_text(unknown, classes)}; if the table has other columns, pass classes=[...] to Rates.by"
        )
    return [classes.index(name) for name in meant]


def spread(values: FloatArray, columns: Sequence[int], n_classes: int) -> FloatArray:
    """The numbers of a table in the columns of the predictions; NaN in those that it does not name."""
    out = np.full((len(values), n_classes), np.nan)
    out[:, columns] = values
    return out
