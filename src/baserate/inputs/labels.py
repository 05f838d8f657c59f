"""Conversion of true labels to column numbers or to a matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.errors import BadLabels, Option
from baserate.inputs.class_names import same_text
from baserate.inputs.validation import quoted

_CLASSES = Option("classes", "[...]")


def as_targets(
    y: ArrayLike, shape: tuple[int, ...], classes: tuple[Any, ...] | None = None, *, one_column: bool = False
) -> NDArray[np.float64]:
    """Labels as a matrix of shape (n, k): one-hot rows, or the given class probabilities.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, k)
        Class names, column numbers if ``classes`` is None, or class probabilities.
    shape : tuple
        Shape (n, k) of the predictions.
    classes : tuple, optional
        Class names in column order.
    one_column : bool
        Whether the predictions are probabilities of the second of two classes. Then 0 and 1 are accepted as labels even
        if the classes have names.
    """
    y = _as_array(y)
    if y.ndim == 2:
        return _check_matrix(y, (shape[0], shape[1]))
    return np.eye(shape[1])[as_columns(y, shape, classes, one_column=one_column)]


def as_columns(
    y: ArrayLike, shape: tuple[int, ...], classes: tuple[Any, ...] | None = None, *, one_column: bool = False
) -> NDArray[np.intp]:
    """Labels as n column numbers. A one-hot matrix would need k times the memory."""
    n, k = shape
    y = _as_array(y)
    if y.shape != (n,):
        raise BadLabels(f"y has shape {y.shape}, but there are {n} predictions of {k} classes; pass {n} labels")
    if classes is not None:
        return _column_numbers(y, classes, one_column=one_column)
    if one_column and y.dtype.kind == "f" and np.isin(y, (0, 1)).all():
        y = y.astype(np.intp)
    if y.dtype.kind not in "iub":
        raise BadLabels(
            f"y contains {y.dtype} values, but the columns have no names; pass column numbers 0 to {k - 1}, for "
            "instance np.searchsorted(classes, y) if classes is the sorted list of class names"
        )
    outside = np.flatnonzero((y < 0) | (y >= k))
    if outside.size:
        raise BadLabels(f"y[{outside[0]}] is {y[outside[0]]}, but the columns are numbered 0 to {k - 1}")
    return y.astype(np.intp)


def match_labels(values: Sequence[Any], classes: Sequence[Any], *, one_column: bool = False) -> list[int | None]:
    """The number of the class that each label stands for; None for a label that is no class.

    A label may be a name in another type than the class has: 1, 1.0, True and "1" can be the same class. It stands for
    the only class with the same text, else for the only class with the same number.

    Parameters
    ----------
    values : sequence
    classes : sequence
    one_column : bool
        Whether the table has only the probability of the second of two classes. Then 0 and 1, or false and true, also
        stand for the two classes, whatever their names, unless these are other numbers.

    Examples
    --------
    >>> match_labels([1, 2.0, " 3", "03", "cat"], ["1", "2", "3"])
    [0, 1, 2, 2, None]
    >>> match_labels([0, "true", "fraud", "fine"], ["not fraud", "fraud"], one_column=True)
    [0, 1, 1, None]
    """
    times = Counter(str(name).strip() for name in classes)
    texts = {str(name).strip(): j for j, name in enumerate(classes) if times[str(name).strip()] == 1}
    numbers: dict[Decimal, list[int]] = {}
    for j, name in enumerate(classes):
        if (number := _number(name)) is not None:
            numbers.setdefault(number, []).append(j)
    if one_column and all(numbers.get(Decimal(j), [j]) == [j] for j in (0, 1)):
        numbers |= {Decimal(0): [0], Decimal(1): [1]}
    return [_matching_class(value, texts, numbers) for value in values]


def _matching_class(value: Any, texts: Mapping[str, int], numbers: Mapping[Decimal, list[int]]) -> int | None:
    text = str(value).strip()
    if text in texts:
        return texts[text]
    number = _number(text)
    found = [] if number is None else numbers.get(number, [])
    return found[0] if len(found) == 1 else None


def _number(name: Any) -> Decimal | None:
    """The number that a text means, without rounding; true and false are 1 and 0."""
    text = str(name).strip()
    if text.lower() in ("true", "false"):
        return Decimal(text.lower() == "true")
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _as_array(y: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(y)
    except ValueError:
        raise BadLabels("y is not an array: its rows have different lengths") from None


def _column_numbers(y: NDArray[Any], classes: tuple[Any, ...], *, one_column: bool) -> NDArray[np.intp]:
    """Column numbers of class names."""
    try:
        names, inverse = np.unique(y, return_inverse=True)
    except TypeError:
        raise BadLabels(
            "y mixes values that cannot be sorted, such as None and strings; drop or convert them"
        ) from None
    position = {name: j for j, name in enumerate(classes)}
    others = [name for name in names.tolist() if name not in position]
    matched = dict(zip(others, match_labels(others, classes, one_column=one_column), strict=True))
    unknown = [name for name in others if matched[name] is None]
    if unknown:
        raise BadLabels(
            f"y contains {quoted(unknown)}, which is not among the classes {quoted(classes)}"
            f"{same_text(unknown, classes)}{f'; name the classes by {_CLASSES}' if one_column else ''}",
            options=[_CLASSES] if one_column else [],
        )
    found = position | matched
    return np.array([found[name] for name in names.tolist()], dtype=np.intp)[inverse]


def _check_matrix(y: NDArray[np.generic], shape: tuple[int, int]) -> NDArray[np.float64]:
    if y.shape != shape:
        raise BadLabels(f"y has shape {y.shape}, but the predictions have shape {shape}")
    if y.dtype.kind not in "iubf":
        raise BadLabels(f"y contains {y.dtype} values; a label matrix must be numeric")
    targets = y.astype(np.float64)
    sums = targets.sum(axis=1)
    bad = np.flatnonzero(~((targets >= 0).all(axis=1) & (np.abs(sums - 1) < 1e-6)))
    if bad.size:
        raise BadLabels(
            f"row {bad[0]} of y sums to {sums[bad[0]]:.6g}, and its smallest entry is {targets[bad[0]].min():g}; the "
            "entries of a label matrix must be 0 or more, and each row must sum to 1"
        )
    return targets
