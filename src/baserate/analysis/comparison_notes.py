"""Notes of a comparison: what is undefined or infinite, and why, and what contradicts what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from baserate.analysis.cross_fitting import LabelledRows
from baserate.analysis.label_check import contradiction, independent_rows
from baserate.analysis.measures import Measure
from baserate.errors import Option
from baserate.rates import Rates
from baserate.support.arrays import FloatArray
from baserate.support.numbers import counted

ZEROS = Option("zeros", "1e-6")
OPTIONS = (ZEROS, Option("loss", '"brier"'))
"""The options that notes can mention, also those in the messages of errors."""

FEW_GROUPS = 20
"""Intervals from fewer groups than this are unreliable."""


def comparison_notes(
    mean: FloatArray,
    predictions: Mapping[str, FloatArray],
    measures: Sequence[Measure],
    rows: LabelledRows,
    known: Rates,
) -> list[str]:
    """All notes that do not come from a fit.

    Parameters
    ----------
    mean : array of shape (p, l)
    predictions : dict of arrays of shape (n, k)
        The first are the original predictions.
    measures : sequence of Measure
    rows : LabelledRows
    known : Rates
        The stated rates.
    """
    notes = list(_undefined(mean, predictions, measures))
    notes += _infinite(mean, predictions, measures, rows)
    n_rows = independent_rows(rows.targets, rows.weights, rows.groups)
    contradicted = contradiction(known, rows.weights @ rows.targets, n_rows)
    return [*notes, *([] if contradicted is None else [contradicted])]


def few_groups(rows: LabelledRows) -> str | None:
    """A warning if there are few groups; else None."""
    if rows.groups is None or (n_groups := int(rows.groups.max()) + 1) >= FEW_GROUPS:
        return None
    return (
        f"there are only {counted(n_groups, 'group')}: with fewer than {FEW_GROUPS} the intervals may be too short; "
        "use smaller groups if these are independent"
    )


def _undefined(mean: FloatArray, predictions: Mapping[str, FloatArray], measures: Sequence[Measure]) -> Iterator[str]:
    for i, (name, p) in enumerate(predictions.items()):
        for j, measure in enumerate(measures):
            if np.isnan(mean[i, j]) and (p < 0).any():
                yield f"{name}: entries below 0 have no {measure.title.removeprefix('mean ')}"


def _infinite(
    mean: FloatArray, predictions: Mapping[str, FloatArray], measures: Sequence[Measure], rows: LabelledRows
) -> Iterator[str]:
    """Why losses are infinite: a class occurred to which a prediction gave probability 0."""
    occurred = rows.targets > 0
    was_zero = (rows.probs <= 0) & occurred
    for j, measure in enumerate(measures):
        infinite = [(name, p) for i, (name, p) in enumerate(predictions.items()) if np.isposinf(mean[i, j])]
        what = measure.title.removeprefix("mean ")
        names = [name for name, p in infinite if was_zero.any() and not ((p <= 0) & occurred & ~was_zero).any()]
        if names:
            n_rows = counted(int(was_zero.any(axis=1).sum()), "row")
            yield (
                f"{', '.join(names)}: the {what} is infinite, because the class of {n_rows} was predicted with "
                f"probability 0; pass {ZEROS} to smooth the zeros"
            )
        for name, p in infinite:
            made = int(((p <= 0) & occurred & ~was_zero).any(axis=1).sum())
            if made:
                yield (
                    f"{name}: the {what} is infinite, because this procedure gave probability 0 to the class of "
                    f"{counted(made, 'row')}; {ZEROS} does not prevent that"
                )
