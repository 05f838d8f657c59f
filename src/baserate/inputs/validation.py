"""Validation of arguments: each function returns a checked value or raises an error that says what to do."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.errors import BadOption, BadProbabilities, BadRates, BadWeights, Option
from baserate.progress import SILENT, Progress
from baserate.support.arrays import FloatArray
from baserate.support.text import shortened

_RATES_TOLERANCE = 1e-6
_ROUNDING = 4 * np.finfo(np.float64).eps
_CLASSES = Option("classes", "[...]")
_ZEROS = Option("zeros")
_TWO_COLUMNS = "for two classes pass np.column_stack([1 - p, p])"


def as_matrix(probs: ArrayLike, *, what: str = "probs", one_row: bool = False) -> NDArray[Any]:
    """A numeric array of shape (n, k), without a copy if possible. The values are not checked yet.

    Parameters
    ----------
    probs : array-like
    what : str
        Name of the argument for messages.
    one_row : bool
        Whether a one-dimensional array is accepted as a single row.
    """
    if hasattr(probs, "toarray"):
        raise BadProbabilities(f"{what} is a sparse matrix; pass {what}.toarray()")
    try:
        values = np.asarray(probs)
    except ValueError as error:
        raise BadProbabilities(f"{what} is not a matrix: its rows have different lengths ({error})") from None
    if np.ma.isMaskedArray(probs) and np.ma.getmaskarray(probs).any():
        raise BadProbabilities(f"{what} is a masked array with masked entries; fill or drop those rows first")
    if values.dtype.kind not in "fiub":
        raise BadProbabilities(f"{what} must hold real numbers, but has dtype {values.dtype}{_dtype_hint(values)}")
    if one_row and values.ndim == 1:
        values = values[None, :]
    if values.ndim != 2:
        hint = f"; {_TWO_COLUMNS}" if values.ndim == 1 else ""
        raise BadProbabilities(f"{what} must have 2 dimensions (rows, classes), but has shape {values.shape}{hint}")
    n, k = values.shape
    if n == 0:
        raise BadProbabilities(f"{what} is empty: its shape is {values.shape}")
    if k < 2:
        hint = f"; {_TWO_COLUMNS}" if k == 1 else ""
        raise BadProbabilities(f"{what} has {k} column{'' if k == 1 else 's'}; at least 2 classes are needed{hint}")
    return values


def _dtype_hint(values: NDArray[Any]) -> str:
    if values.dtype.kind == "O":
        lengths = {len(row) for row in values.ravel() if isinstance(row, Sequence)}
        if len(lengths) > 1:
            return f": its rows have different lengths, {min(lengths)} to {max(lengths)}"
        return "; convert it with .astype(float), which fails at the first entry that is not a number"
    return "; take the real part" if values.dtype.kind == "c" else "; convert it with .astype(float)"


def as_smoothing(zeros: object) -> float:
    """The amount added to every probability according to the option ``zeros``: 0 for "keep", else the number."""
    if isinstance(zeros, str):
        if zeros == "keep":
            return 0.0
    elif is_number(zeros) and 0 < float(zeros) < 1:  # type: ignore[arg-type]  # it is a number
        return float(zeros)  # type: ignore[arg-type]  # it is a number
    raise BadOption(
        f"{_ZEROS} must be 'keep' or a number between 0 and 1 to add to every probability, such as 1e-6, not "
        f"{quoted_name(zeros)}",
        options=[_ZEROS],
    )


def as_flag(name: str, value: object) -> bool:
    """The value of a boolean option. Other values are refused, because the string "False" would count as True."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise BadOption(f"{name} must be True or False, not {value!r}")


def as_progress(progress: object) -> Progress:
    """The receiver of progress updates; one that ignores them for None."""
    if progress is None:
        return SILENT
    if isinstance(progress, Progress):
        return progress
    raise BadOption(
        f"progress must be an object of a subclass of baserate.progress.Progress, or None, not {quoted_name(progress)}"
    )


def as_classes(classes: object, n_classes: int) -> tuple[Any, ...] | None:
    """The class names in column order, converted from NumPy scalars to Python values."""
    if classes is None:
        return None
    if isinstance(classes, (str, bytes, set, frozenset, Mapping)) or not hasattr(classes, "__iter__"):
        raise BadOption(f"classes must be a list of {n_classes} names in the order of the columns, not {classes!r}")
    names = tuple(c.item() if isinstance(c, np.generic) else c for c in classes)
    if len(names) != n_classes:
        raise BadOption(f"classes has {len(names)} names, but there are {n_classes} columns")
    unhashable = [c for c in names if not isinstance(c, Hashable)]
    if unhashable:
        raise BadOption(
            f"class names must be plain values such as strings or numbers, not {quoted_name(unhashable[0])}"
        )
    times = Counter(names)  # not names.count, which takes minutes for 100,000 classes
    repeated = sorted({quoted_name(c) for c in names if times[c] > 1})
    if repeated:
        raise BadOption(f"classes contains {', '.join(repeated)} more than once")
    return names


def as_rates(rates: object, classes: tuple[Any, ...] | None, n_classes: int, *, what: str = "rates") -> FloatArray:
    """Class rates in column order. They sum to 1 within rounding."""
    rates = series_to_dict(rates, classes)
    if isinstance(rates, Mapping):
        rates = _from_mapping(rates, classes, n_classes, what)
    try:
        values = np.asarray(rates)
    except ValueError:
        raise BadRates(f"{what} must be {n_classes} numbers, one for each class, not {rates!r}") from None
    if values.shape != (n_classes,):
        raise BadRates(f"{what} must be {n_classes} numbers, one for each class, but have shape {values.shape}")
    if values.dtype.kind == "O":  # entries of several types, or of types that NumPy does not know
        entries = enumerate(values.tolist())
        values = np.array([as_float(value, f"the rate of {class_label(classes, j)}") for j, value in entries])
    if values.dtype.kind not in "fiub":
        hint = "take the real part" if values.dtype.kind == "c" else "convert them with float()"
        raise BadRates(f"{what} must be real numbers, but have dtype {values.dtype}; {hint}")
    pi = values.astype(np.float64)
    for bad, rule in ((~np.isfinite(pi), "finite"), (pi < 0, "0 or more")):
        if bad.any():
            j = int(np.flatnonzero(bad)[0])
            raise BadRates(f"the rate of {class_label(classes, j)} is {pi[j]}; {what} must be {rule}")
    with np.errstate(over="ignore"):
        total = float(pi.sum())
    if abs(total - 1.0) > _RATES_TOLERANCE:
        raise BadRates(f"{what} sum to {total:.6g}, not 1; to rescale them, divide each by their sum")
    # Rates that sum to 1 up to rounding stay as they are, since dividing 0.4 by their sum may give 0.4000000000000001.
    return pi if abs(total - 1.0) <= _ROUNDING else np.asarray(pi / total)


def one_per_class(
    given: object, classes: tuple[Any, ...] | None, n_classes: int, what: str, missing: float
) -> FloatArray:
    """One number per class, in column order.

    Parameters
    ----------
    given : number, sequence, dict, Series or None
        One number for all classes, one number per class, or a dict from class to number.
    classes : tuple or None
    n_classes : int
    what : str
        Name of the argument for messages.
    missing : float
        Value of classes whose number is None or absent.
    """
    given = series_to_dict(given, classes)
    if given is None or is_number(given):
        return np.full(n_classes, missing if given is None else float(cast(float, given)))
    if isinstance(given, Mapping):
        given = _from_mapping(given, classes, n_classes, what, missing)
    rule = f"{what} must be {n_classes} numbers, one for each class"
    if isinstance(given, (str, set, frozenset, bool)):
        raise BadRates(f"{rule}, not {given!r}")
    try:
        entries = list(cast(Iterable[Any], given))
    except TypeError:
        raise BadRates(f"{rule}, not {given!r}") from None
    if len(entries) != n_classes:
        raise BadRates(f"{rule}, but there are {len(entries)}")
    return np.array(
        [
            missing if value is None else as_float(value, f"{rule}; the entry of {class_label(classes, j)}")
            for j, value in enumerate(entries)
        ]
    )


def _from_mapping(
    numbers: Mapping[Any, Any], classes: tuple[Any, ...] | None, n_classes: int, what: str, missing: float | None = None
) -> list[Any]:
    if classes is None and set(numbers) == set(range(n_classes)):
        classes = tuple(range(n_classes))
    if classes is None:
        raise BadRates(
            f"{what} are given by class name, but the columns have no names. Pass {_CLASSES} with the names of the "
            f"{n_classes} columns, in their order",
            options=[_CLASSES],
        )
    absent = [c for c in classes if c not in numbers and missing is None]
    unknown = [c for c in numbers if c not in classes]
    if absent or unknown:
        parts = [f"{what} has no entry for {quoted(absent)} (it has {quoted(list(numbers))})"] if absent else []
        parts += [f"{quoted(unknown)} is not among the classes {quoted(classes)}"] if unknown else []
        raise BadRates("; ".join(parts) + difference_of_types(unknown, absent or classes))
    return [numbers.get(c, missing) for c in classes]


def difference_of_types(given: Sequence[Any], classes: Sequence[Any]) -> str:
    """The end of a message that says how class names differ in type and what to do; empty if they do not."""
    texts = {str(c): c for c in classes}
    pairs = [(c, texts[str(c)]) for c in given if texts.get(str(c), c) != c and type(texts[str(c)]) is not type(c)]
    if not pairs:
        return ""
    (one, other), kinds = pairs[0], [type(name).__name__ for name in pairs[0]]
    return (
        f". Class names of different types do not match: {quoted_name(one)} is of type {kinds[0]}, but "
        f"{quoted_name(other)} is of type {kinds[1]}; convert the names on one side, for example with "
        f"{kinds[1]}({quoted_name(one)})"
    )


def series_to_dict(values: object, classes: tuple[Any, ...] | None = None) -> object:
    """A dict from class to value if ``values`` is a Series whose index holds class names.

    An index 0, 1, 2, ... counts as positions, unless these numbers are the names of the classes. Anything else is
    returned unchanged.
    """
    index = getattr(values, "index", None)
    if index is None or callable(index) or not hasattr(values, "to_numpy"):
        return values
    names = list(index)
    if len(set(names)) < len(names):
        raise BadRates(f"the index of the Series contains {quoted([c for c in names if names.count(c) > 1][:1])} twice")
    positional = all(not isinstance(c, (bool, np.bool_)) for c in names) and names == list(range(len(names)))
    if positional and (classes is None or set(classes) != set(names)):
        return np.asarray(values)
    return dict(zip(names, list(np.asarray(values)), strict=True))


def is_number(value: object) -> bool:
    """Whether a value is a real number that a float can hold, and not a boolean."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return isinstance(value, (float, np.integer, np.floating))


def as_float(value: object, what: str) -> float:
    """A real number of any type as a float; ``what`` is the subject of the message if it is not one."""
    if not isinstance(value, (Real, Decimal, np.bool_)):
        raise BadRates(f"{what} is {value!r}, which is not a real number")
    try:
        return float(value)
    except OverflowError:
        raise BadRates(f"{what} is too large: a float can hold at most {sys.float_info.max:.2g}") from None
    except ValueError:  # the signalling NaN of Decimal
        raise BadRates(f"{what} is not a number") from None


def as_weights(sample_weight: ArrayLike | None, n_rows: int) -> FloatArray | None:
    """Row weights that sum to 1, or None for equal weights."""
    if sample_weight is None:
        return None
    try:
        values = np.asarray(sample_weight)
    except ValueError:
        raise BadWeights("sample_weight must be a list of numbers, one for each row") from None
    if isinstance(sample_weight, str):
        raise BadWeights(f"sample_weight is the string {quoted_name(sample_weight)}; pass one number for each row")
    if values.dtype.kind not in "fiub":
        raise BadWeights(f"sample_weight must hold real numbers, but has dtype {values.dtype}")
    if values.shape != (n_rows,):
        raise BadWeights(f"sample_weight must have shape ({n_rows},), one for each row, but has shape {values.shape}")
    w = values.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if bad.size:
        raise BadWeights(f"sample_weight[{bad[0]}] is {w[bad[0]]}; weights must be finite and 0 or more")
    if not w.any():
        raise BadWeights("all weights are zero; at least one must be positive")
    w /= w.max()  # so that the sum cannot overflow
    return np.asarray(w / w.sum())


def weighted_mean(values: FloatArray, sample_weight: ArrayLike | None) -> float:
    """Weighted mean of one value per row. Rows of weight 0 are ignored, even if their value is infinite."""
    weights = as_weights(sample_weight, len(values))
    if weights is None:
        return float(values.mean())
    return float(weights[weights > 0] @ values[weights > 0])


def class_label(classes: tuple[Any, ...] | None, j: int) -> str:
    """Name of class ``j`` for use in messages."""
    return f"class {j}" if classes is None else f"class {quoted_name(classes[j])}"


def quoted_name(name: object) -> str:
    """The name of a column or class, or another value, as Python code for use in messages; long ones are shortened."""
    try:
        return shortened(repr(name))
    except ValueError:  # Python does not print integers of more than 4300 digits
        return f"a value of type {type(name).__name__} that is too long to print"


def quoted(names: Sequence[Any]) -> str:
    """The first eight names and the number of the others, for use in messages."""
    shown = ", ".join(quoted_name(c) for c in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
