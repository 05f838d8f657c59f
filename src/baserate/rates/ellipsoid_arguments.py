"""Arguments of the constructors of ellipsoids of rates: matrices and draws, checked and converted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baserate.errors import BadRates, Option
from baserate.inputs.class_names import matched_names
from baserate.inputs.class_numbers import series_to_dict, sum_is_below_one
from baserate.inputs.dataframes import column_names
from baserate.inputs.validation import as_classes, as_confidence, is_number, quoted, quoted_name
from baserate.rates.ellipsoids import Ellipsoid
from baserate.support.arrays import FloatArray, has_masked_entries
from baserate.support.numbers import counted

_METRIC, _CLASSES = Option("metric"), Option("classes")
_SYMMETRY = 1e-8  # relative to the largest entry; covariances that were printed and read again are less exact than sums
_ROUNDING = 1e-15  # of entries that are differences of rates, whatever their size
_SUM_TOLERANCE = 1e-3  # of a draw: posterior samplers often return float32


def near_by_matrix(values: Any, radius: Any, metric: Any, classes: Any) -> dict[str, Any]:
    """The fields of an ellipsoid from the arguments of :meth:`Rates.near`, and the names of the classes."""
    values, matrix = series_to_dict(values), _as_numbers(metric, _METRIC, "a matrix of numbers, one row per class")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise BadRates(f"{_METRIC} has shape {matrix.shape}; pass a matrix of shape (k, k)", options=[_METRIC])
    names, k = _checked_classes(classes), len(matrix)
    if names is None and isinstance(values, Mapping) and len(values) == k:
        names = tuple(values)
    rows, columns = _classes_of_rows_and_columns(metric, names)
    if columns:
        names = tuple(columns) if names is None else names
        row_order = _order_of_classes(rows, names, f"the rows of {_METRIC}", [_METRIC])
        matrix = matrix[np.ix_(row_order, _order_of_classes(columns, names, f"the columns of {_METRIC}", [_METRIC]))]
    elif isinstance(values, Mapping) and (classes is not None or names is None):
        raise BadRates(
            f"with a dict or a Series of rates and no names in {_METRIC}, the rows of {_METRIC} have the order of the "
            f"rates; pass the rates of all {k} classes, and leave out {_CLASSES}=",
            options=[_METRIC, _CLASSES],
        )
    return {"classes": names, "values": values, "covariance": matrix, "radius": radius}


def _classes_of_rows_and_columns(metric: Any, classes: tuple[Any, ...] | None) -> tuple[list[Any], list[Any]]:
    """The classes of the rows and columns of a matrix. If one side has no names, it has those of the other."""
    index = getattr(metric, "index", None)  # only pandas has one; in other dataframes only the columns have names
    rows = [] if index is None or callable(index) else list(index)
    columns = column_names(metric)
    rows, columns = (labels if _name_classes(labels, classes) else [] for labels in (rows, columns))
    return rows or columns, columns or rows


def _name_classes(labels: list[Any], classes: tuple[Any, ...] | None) -> bool:
    """Whether these are names of classes. Labels 0, 1, 2, ... only number rows, unless the classes have these names."""
    numbered = labels == list(range(len(labels))) and not any(isinstance(label, (bool, np.bool_)) for label in labels)
    return not numbered or (classes is not None and set(labels) == set(classes) and len(labels) > 0)


def _order_of_classes(
    labels: list[Any], classes: tuple[Any, ...], what: str, options: Sequence[Option] = ()
) -> list[int]:
    """The place of each class among the labels of rows or columns."""
    found = matched_names(labels, classes)
    if len(found) != len(classes) or set(found) != set(classes):
        raise BadRates(
            f"{what} are {quoted(labels)}, but the classes are {quoted(classes)}; use the same names for both, or pass "
            "an array in the order of the classes",
            options=options,
        )
    return [found.index(name) for name in classes]


def _checked_classes(classes: Any) -> tuple[Any, ...] | None:
    return as_classes(classes, len(classes) if hasattr(classes, "__len__") else 0)


def _as_numbers(given: Any, what: str | Option, kind: str) -> FloatArray:
    """An array of real numbers."""
    options = [what] if isinstance(what, Option) else []
    if has_masked_entries(given):
        raise BadRates(f"{what} is a masked array with masked entries; leave them out, or fill them", options=options)
    try:
        values = np.asarray(given)
        if values.dtype.kind in "fiuO":
            return values.astype(np.float64)
    except (TypeError, ValueError):
        raise BadRates(f"{what} must be {kind}", options=options) from None
    hint = "; take the real part" if values.dtype.kind == "c" else ""
    raise BadRates(f"{what} must be {kind}, but has dtype {values.dtype}{hint}", options=options)


def around_draws(draws: Any, confidence: float, classes: Any) -> dict[str, Any]:
    """The fields of an ellipsoid from the arguments of :meth:`Rates.from_samples`."""
    as_confidence(confidence, BadRates)
    names, name = _checked_classes(classes), None
    rows = _as_numbers(draws, "draws", "numbers, with one row per draw and one column per class")
    if rows.ndim == 1 or rows.shape[1:] == (1,):
        name = _class_of_column(draws, names)
        rows = _of_two_classes(rows.ravel(), name, names)
    elif _name_classes(columns := column_names(draws), names):
        names = tuple(columns) if names is None else names
        rows = rows[:, _order_of_classes(columns, names, "the columns of draws")]
    centre, covariance, radius = _ellipsoid_of(_checked_draws(rows), confidence)
    values = centre if name is None or names is not None else {name: float(centre[1])}
    if isinstance(values, dict) and not sum_is_below_one(values):
        raise BadRates(
            f"all draws of {quoted_name(name)} are 1; pass {_CLASSES}= with the names of both classes",
            options=[_CLASSES],
        )
    fields = {"values": values, "covariance": covariance, "radius": radius}
    return {"classes": names, **fields, "confidence": float(confidence), "n_draws": len(rows)}


def _ellipsoid_of(rows: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray, float]:
    """The centre, covariance matrix and radius of an ellipsoid that holds this share of the draws."""
    m, least = len(rows), _least_draws(confidence)
    if m < least:
        raise BadRates(
            f"{counted(m, 'draw')} {'is' if m == 1 else 'are'} too few for a confidence of {confidence:g}; pass at "
            f"least {least}"
        )
    centre = rows.mean(axis=0)
    covariance = np.atleast_2d(np.cov(rows, rowvar=False))
    if not covariance.any():
        return centre, covariance, 0.0
    distances = np.linalg.norm((rows - centre) @ Ellipsoid.of(centre, covariance, 1.0).whitening.T, axis=1)
    return centre, covariance, float(np.sort(distances)[_draws_inside(m, confidence) - 1]) * (1 + 1e-9)


def _draws_inside(n_draws: int, confidence: float) -> int:
    """How many draws the set must hold: one more than their share, as for a draw still to come."""
    return int(np.ceil(confidence * (n_draws + 1)))


def _least_draws(confidence: float) -> int:
    """The smallest number of draws that is enough for this confidence."""
    least = max(int(1 / (1 - confidence)) - 2, 2)
    while _draws_inside(least, confidence) > least:
        least += 1
    return least


def _of_two_classes(rates: FloatArray, name: Any, classes: tuple[Any, ...] | None) -> FloatArray:
    """Rates of both classes from those of the class with this name, or of the second one without a name."""
    if classes is None or name is None:
        return np.column_stack([1.0 - rates, rates])
    found = matched_names([name], classes)[0]
    if len(classes) != 2 or found not in classes:
        raise BadRates(
            f"the column of draws is {quoted_name(name)}, but the classes are {quoted(classes)}; pass the name of one "
            "of two classes, or an array with the rates of the second class"
        )
    return np.column_stack([rates, 1.0 - rates] if found == classes[0] else [1.0 - rates, rates])


def _class_of_column(draws: Any, classes: tuple[Any, ...] | None) -> Any:
    """The name of the only column of a dataframe, or of a Series; None if it has none, or only the default number."""
    labels = column_names(draws) or [getattr(draws, "name", None)]
    return labels[0] if labels[0] not in (None, "") and _name_classes(labels, classes) else None


def _checked_draws(rows: FloatArray) -> FloatArray:
    if rows.ndim != 2 or rows.shape[1] < 2:
        raise BadRates(f"draws must have one row per draw and one column per class, but their shape is {rows.shape}")
    for bad, rule in (
        (~np.isfinite(rows).all(axis=1), "has values that are not finite"),
        ((rows < -_SUM_TOLERANCE).any(axis=1), "has a rate below 0"),
        (np.abs(rows.sum(axis=1) - 1.0) > _SUM_TOLERANCE, "does not sum to 1"),
    ):
        if bad.any():
            i = int(bad.argmax())
            more = f" ({int(bad.sum()):,} draws are like that)" if bad.sum() > 1 else ""
            raise BadRates(f"draw {i} {rule}: {quoted(rows[i].round(6).tolist())}{more}")
    rows = np.maximum(rows, 0.0)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def checked_radius(radius: Any) -> float:
    """The radius of an ellipsoid as a number."""
    if not is_number(radius) or not 0 <= float(radius) < np.inf:
        raise BadRates(f"radius must be 0 or a positive number, not {quoted_name(radius)}")
    return float(radius)


def checked_covariance(matrix: Any, k: int) -> FloatArray:
    """The covariance matrix, of which only the part that keeps the sum of rates counts."""
    found = _as_numbers(matrix, _METRIC, "a matrix of numbers, one row per class")
    allowed = max(_SYMMETRY * float(np.abs(found).max(initial=0.0)), _ROUNDING)
    if found.shape != (k, k):
        problem = f"has shape {found.shape}, but there are {k} classes; pass a matrix of shape ({k}, {k})"
    elif not np.isfinite(found).all():
        problem = "has entries that are not finite"
    elif np.abs(found - found.T).max() > allowed:
        problem = "is not symmetric; pass a covariance matrix"
    elif np.linalg.eigvalsh((found + found.T) / 2)[0] < -allowed:
        problem = "has a negative variance in some direction; pass a covariance matrix"
    else:
        centred = found - found.mean(axis=0)
        centred = centred - centred.mean(axis=1, keepdims=True)
        return np.asarray((centred + centred.T) / 2)
    raise BadRates(f"{_METRIC} {problem}", options=[_METRIC])
