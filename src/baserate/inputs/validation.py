"""Validation of arguments: each function returns a checked value or raises an error that says what to do."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.errors import BadOption, BadProbabilities, BadWeights, BaserateError, Option
from baserate.progress import SILENT, Progress
from baserate.support.arrays import FloatArray, has_masked_entries
from baserate.support.text import shortened

_ZEROS, _DTYPE = Option("zeros"), Option("dtype")
_TWO_COLUMNS = "for two classes pass np.column_stack([1 - p, p])"


def as_matrix(probs: ArrayLike, *, what: str = "probs", one_row: bool = False, min_columns: int = 2) -> NDArray[Any]:
    """A numeric array of shape (n, k), without a copy if possible. The values are not checked yet.

    Parameters
    ----------
    probs : array-like
    what : str
        Name of the argument for messages.
    one_row : bool
        Whether a one-dimensional array is accepted as a single row.
    min_columns : int
        2 for classes; 1 for labels, of which a row may have any number.
    """
    if hasattr(probs, "toarray"):
        raise BadProbabilities(f"{what} is a sparse matrix; pass {what}.toarray()")
    try:
        values = np.asarray(probs)
    except ValueError as error:
        raise BadProbabilities(f"{what} is not a matrix: its rows have different lengths ({error})") from None
    if has_masked_entries(probs):
        raise BadProbabilities(f"{what} is a masked array with masked entries; fill or drop those rows first")
    if values.dtype.kind not in "fiub":
        raise BadProbabilities(f"{what} must hold real numbers, but has dtype {values.dtype}{_dtype_hint(values)}")
    if one_row and values.ndim == 1:
        values = values[None, :]
    if values.ndim != 2:
        hint = f"; {_TWO_COLUMNS}" if values.ndim == 1 and min_columns == 2 else ""
        raise BadProbabilities(f"{what} must have 2 dimensions (rows, classes), but has shape {values.shape}{hint}")
    n, k = values.shape
    if n == 0:
        raise BadProbabilities(f"{what} is empty: its shape is {values.shape}")
    if k < min_columns:
        hint = f"; {_TWO_COLUMNS}" if k == 1 else ""
        needed = "2 classes are" if min_columns == 2 else "1 label is"
        raise BadProbabilities(f"{what} has {k} column{'' if k == 1 else 's'}; at least {needed} needed{hint}")
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


def as_dtype(dtype: object) -> np.dtype[Any]:
    """The dtype of the adjusted rows that a caller asked for: float32 or float64."""
    try:
        found = np.dtype(dtype)  # type: ignore[call-overload]  # whatever a caller passed
    except (TypeError, ValueError):
        found = None
    if found not in (np.float32, np.float64) or not found.isnative:
        raise BadOption(
            f"{_DTYPE} must be 'float32', 'float64', or None for that of the predictions, not {quoted_name(dtype)}",
            options=[_DTYPE],
        )
    return cast("np.dtype[Any]", found)


def as_confidence(confidence: Any, error: type[BaserateError] = BadOption, *, what: str = "confidence") -> float:
    """A confidence, which must be a number between 0 and 1; ``what`` is the name of the argument."""
    if not is_number(confidence) or not 0 < float(confidence) < 1:
        raise error(f"{what} must be a number between 0 and 1, such as 0.95, not {quoted_name(confidence)}")
    return float(confidence)


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


def is_number(value: object) -> bool:
    """Whether a value is a real number that a float can hold, and not a boolean."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return isinstance(value, (float, np.integer, np.floating))


def as_weights(sample_weight: ArrayLike | None, n_rows: int) -> FloatArray | None:
    """Row weights that sum to 1, or None for equal weights."""
    if sample_weight is None:
        return None
    try:
        values = np.asarray(sample_weight)
    except ValueError:
        raise BadWeights("sample_weight must be a list with one number per row") from None
    if has_masked_entries(sample_weight):
        raise BadWeights("sample_weight is a masked array with masked entries; fill them, for instance with 0")
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
    if isinstance(name, np.generic) and name.dtype.kind in "biufU":
        name = name.item()  # 0.5 and not np.float64(0.5)
    try:
        return shortened(repr(name))
    except ValueError:  # Python does not print integers of more than 4300 digits
        return f"a value of type {type(name).__name__} that is too long to print"


def quoted(names: Sequence[Any]) -> str:
    """The first eight names and the number of the others, for use in messages."""
    shown = ", ".join(quoted_name(c) for c in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def suggestion(given: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known name that is most like it, or nothing."""
    import difflib  # only for messages

    near = difflib.get_close_matches(given.lower(), list(known), n=1) if isinstance(given, str) else []
    return f"; did you mean {quoted_name(near[0])}?" if near else ""
