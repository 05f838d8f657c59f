"""Conversion of true labels to column numbers or to a matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.errors import BadLabels, BaserateError, Option
from baserate.inputs.class_names import same_text
from baserate.inputs.validation import quoted, quoted_name
from baserate.support.arrays import BoolArray, has_masked_entries

_CLASSES = Option("classes", "[...]")
_LARGEST_EXACT = 2**53  # larger whole numbers are not exact as floats
_ADVICE = "give every row a label, or drop the rows without one"


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
    y = as_labels(y, "y", _ADVICE)
    if y.ndim == 2:
        return _check_matrix(y, (shape[0], shape[1]))
    return np.eye(shape[1])[as_columns(y, shape, classes, one_column=one_column)]


def as_columns(
    y: ArrayLike,
    shape: tuple[int, ...],
    classes: tuple[Any, ...] | None = None,
    *,
    one_column: bool = False,
    what: str | Option = "y",
    advice: str = _ADVICE,
) -> NDArray[np.intp]:
    """Labels as n column numbers. A one-hot matrix would need k times the memory."""
    n, k = shape
    options = [what] if isinstance(what, Option) else []
    y = whole_numbers(as_labels(y, what, advice))
    if y.shape != (n,):
        raise BadLabels(
            f"{what} has shape {y.shape}, but there are {n} predictions of {k} classes; pass {n} labels",
            options=options,
        )
    if classes is not None:
        return _column_numbers(y, classes, what, one_column=one_column)
    if y.dtype.kind in "iubf":
        outside = np.flatnonzero((y < 0) | (y >= k))
        if outside.size:
            label = quoted_name(y[outside[0]])
            raise BadLabels(
                f"{what}[{outside[0]}] is {label}, but the columns are numbered 0 to {k - 1}", options=options
            )
    if y.dtype.kind not in "iub":
        raise BadLabels(
            f"{what} contains {quoted_name(_no_column_number(y, k))}, but the columns have no names; pass column "
            f"numbers 0 to {k - 1}, for instance np.searchsorted(classes, y) if classes is the sorted list of class "
            "names",
            options=options,
        )
    return y.astype(np.intp)


def _no_column_number(y: NDArray[Any], n_columns: int) -> Any:
    """The first label that is not the number of a column."""
    if y.dtype.kind == "f":
        return y[y != np.floor(y)][0]
    return next((label for label in y.tolist() if not (_is_integer(label) and 0 <= label < n_columns)), y[0])


def whole_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers as integers, such as those of a column that once had missing values; others unchanged."""
    if values.dtype.kind != "f" or values.ndim != 1:
        return values
    numbers = values.astype(np.float64)
    are_whole = ((np.abs(numbers) <= _LARGEST_EXACT) & (numbers == np.floor(numbers))).all()
    return numbers.astype(np.int64) if are_whole else values


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def as_labels(y: ArrayLike, what: str | Option, advice: str, error: type[BaserateError] = BadLabels) -> NDArray[Any]:
    """Labels, or other values of rows, as an array. Masked and missing ones are refused.

    Integers in an array of objects become an array of integers.

    Parameters
    ----------
    y : array-like
    what : str or Option
        Name of the argument for messages.
    advice : str
        What to do about missing values, for messages.
    error : type
    """
    options = [what] if isinstance(what, Option) else []
    if has_masked_entries(y):
        raise error(f"{what} is a masked array with masked entries; {advice}", options=options)
    try:
        values = np.asarray(y)
    except ValueError:
        raise error(f"{what} is not an array: its rows have different lengths", options=options) from None
    if values.dtype.kind == "O" and values.ndim == 1 and all(map(_is_integer, values.tolist())):
        with suppress(OverflowError):
            values = values.astype(np.int64)
    missing = np.flatnonzero(_is_missing(values)) if values.ndim == 1 else np.array([], dtype=np.intp)
    if missing.size:
        value = str(values[missing[0]]).replace("nan", "NaN")
        raise error(f"{what}[{missing[0]}] is {value}; {advice}", options=options)
    return values


def _is_missing(values: NDArray[Any]) -> BoolArray:
    """Which values are None, NaN, NaT or the NA of pandas."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind in "mM":
        return np.asarray(np.isnat(values))
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=np.bool_)
    return np.array(
        [
            value is None
            or (isinstance(value, float) and value != value)
            or type(value).__name__ in ("NAType", "NaTType")
            for value in values.tolist()
        ]
    )


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


def _column_numbers(
    y: NDArray[Any], classes: tuple[Any, ...], what: str | Option, *, one_column: bool
) -> NDArray[np.intp]:
    """Column numbers of class names."""
    options = [what] if isinstance(what, Option) else []
    try:
        names, inverse = np.unique(y, return_inverse=True)
    except TypeError:
        raise BadLabels(
            f"{what} mixes values that cannot be sorted, such as numbers and strings; convert them", options=options
        ) from None
    position = {name: j for j, name in enumerate(classes)}
    others = [name for name in names.tolist() if name not in position]
    matched = dict(zip(others, match_labels(others, classes, one_column=one_column), strict=True))
    unknown = [name for name in others if matched[name] is None]
    if unknown:
        unnamed = one_column and classes[0] == f"not {classes[1]}"  # the other class was not named
        raise BadLabels(
            f"{what} contains {quoted(unknown)}, which is not among the classes {quoted(classes)}"
            f"{same_text(unknown, classes)}{f'; name the classes by {_CLASSES}' if unnamed else ''}",
            options=[*options, *([_CLASSES] if unnamed else [])],
        )
    found = position | matched
    return np.array([found[name] for name in names.tolist()], dtype=np.intp)[inverse]


def _check_matrix(y: NDArray[np.generic], shape: tuple[int, int]) -> NDArray[np.float64]:
    if y.shape != shape:
        raise BadLabels(f"y has shape {y.shape}, but the predictions have shape {shape}")
    if y.dtype.kind not in "iubf":
        raise BadLabels(f"y contains {quoted_name(y.flat[0])}; a label matrix must be numeric")
    targets = y.astype(np.float64)
    sums = targets.sum(axis=1)
    bad = np.flatnonzero(~((targets >= 0).all(axis=1) & (np.abs(sums - 1) < 1e-6)))
    if bad.size:
        raise BadLabels(
            f"row {bad[0]} of y sums to {sums[bad[0]]:.6g}, and its smallest entry is {targets[bad[0]].min():g}; the "
            "entries of a label matrix must be 0 or more, and each row must sum to 1"
        )
    return targets
