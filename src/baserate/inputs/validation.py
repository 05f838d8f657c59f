"""What people pass, turned into arrays that the rest can trust, or refused with a message that helps."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.errors import BadOption, BadProbabilities, BadRates, BadWeights
from baserate.support.arrays import FloatArray, rows_of_a_block

# A float32 model saved as float64 still has float32 sums, so both get the same allowance.
_SUM_TOLERANCE = {np.dtype(np.float16): 1e-2}
_DEFAULT_SUM_TOLERANCE = 1e-5
_RATES_TOLERANCE = 1e-6


def as_matrix(probs: ArrayLike, *, what: str = "probs", one_row: bool = False) -> NDArray[Any]:
    """A numeric (n, k) array, not copied where that can be helped; its values are not looked at yet."""
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
        hint = "; for two classes pass np.column_stack([1 - p, p])" if values.ndim == 1 else ""
        raise BadProbabilities(f"{what} must have 2 dimensions (rows, classes), but has shape {values.shape}{hint}")
    n, k = values.shape
    if n == 0:
        raise BadProbabilities(f"{what} is empty: its shape is {values.shape}")
    if k < 2:
        raise BadProbabilities(
            f"{what} has {k} column{'' if k == 1 else 's'}; at least 2 classes are needed"
            + ("; for two classes pass np.column_stack([1 - p, p])" if k == 1 else "")
        )
    return values


def _dtype_hint(values: NDArray[Any]) -> str:
    if values.dtype.kind == "O":
        lengths = {len(row) for row in values.ravel() if isinstance(row, Sequence)}
        if len(lengths) > 1:
            return f": its rows have different lengths, {min(lengths)} to {max(lengths)}"
        return "; convert it with .astype(float) and see what does not convert"
    return "; take the real part" if values.dtype.kind == "c" else "; convert it with .astype(float)"


@dataclass(frozen=True)
class Naming:
    """What rows and columns are called in messages.

    Attributes
    ----------
    columns : tuple, optional
        Their names; without, they have numbers.
    """

    columns: tuple[Any, ...] | None = None

    def row(self, i: int) -> str:
        """A row by its number in the whole input."""
        return f"row {i}"

    def cell(self, i: int, j: int) -> str:
        """An entry by its row and the number of its column."""
        return f"{self.row(i)}, column {j if self.columns is None else repr(self.columns[j])}"


NUMBERED = Naming()


@dataclass(frozen=True)
class Reading:
    """How raw rows become probabilities: the options of the caller that concern single rows.

    Attributes
    ----------
    from_logits : bool
        Rows are logits or log probabilities, and stay in the log domain.
    normalize : bool
        Rows may have any positive sum.
    smoothing : float
        Added to every probability before the row is normalised again.
    """

    from_logits: bool = False
    normalize: bool = False
    smoothing: float = 0.0

    def check(self, raw: NDArray[Any], first_row: int, naming: Naming = NUMBERED) -> None:
        """Refuse rows that are not predictions, naming them by their number in the whole input."""
        check = self._check_logits if self.from_logits else self._check_probs
        # In pieces, so that what is said about the rows near the first bad one does not depend on who sums them.
        size = rows_of_a_block(raw.shape[1])
        for start in range(0, len(raw), size):
            check(raw[start : start + size], first_row + start, naming)

    def clean(self, raw: NDArray[Any]) -> FloatArray:
        """Rows that sum to 1, in float64; log probabilities if ``from_logits``."""
        rows = raw.astype(np.float64)
        if self.from_logits:
            return self._clean_logits(rows)
        if self.normalize:
            rows /= rows.max(axis=1, keepdims=True)  # so that the sum cannot overflow
        rows /= rows.sum(axis=1, keepdims=True)
        if self.smoothing:
            rows = (rows + self.smoothing) / (1.0 + rows.shape[1] * self.smoothing)
        return rows

    def tolerance(self, dtype: np.dtype[Any]) -> float:
        """How far the sum of a row may be from 1."""
        return _SUM_TOLERANCE.get(dtype, _DEFAULT_SUM_TOLERANCE)

    def _clean_logits(self, rows: FloatArray) -> FloatArray:
        impossible = np.isneginf(rows)
        with np.errstate(over="ignore"):
            rows -= rows.max(axis=1, keepdims=True)
        # A finite logit is no hard zero, however far it lies below the largest.
        np.maximum(rows, np.finfo(np.float64).min / 4, out=rows, where=~impossible)
        rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
        if self.smoothing:
            rows = np.logaddexp(rows, np.log(self.smoothing)) - np.log1p(rows.shape[1] * self.smoothing)
        return rows

    def _check_logits(self, raw: NDArray[Any], first_row: int, naming: Naming) -> None:
        bad = np.isnan(raw) | np.isposinf(raw)
        _refuse(bad, raw, first_row, naming, "logits must be finite or -inf (probability 0)")
        empty = np.flatnonzero(np.isneginf(raw).all(axis=1))
        if empty.size:
            row = naming.row(first_row + int(empty[0]))
            raise BadProbabilities(f"all logits of {row} are -inf; one class must be possible")

    def _check_probs(self, raw: NDArray[Any], first_row: int, naming: Naming) -> None:
        if raw.dtype.kind == "f":
            _refuse(~np.isfinite(raw), raw, first_row, naming, "probabilities must be finite")
        hint = "for logits or log probabilities pass from_logits=True"
        _refuse(raw < 0, raw, first_row, naming, f"probabilities must not be negative; {hint}")
        if self.normalize:
            empty = np.flatnonzero(~raw.any(axis=1))
            if empty.size:
                raise BadProbabilities(f"{naming.row(first_row + int(empty[0]))} is all 0 and cannot be normalised")
            return
        sums = raw.sum(axis=1, dtype=np.float64)
        off = np.abs(sums - 1.0)
        bad = np.flatnonzero(off > self.tolerance(raw.dtype))
        if bad.size:
            worst = int(off.argmax())
            raise BadProbabilities(
                f"{bad.size} of {len(raw)} rows from {naming.row(first_row)} on do not sum to 1; the worst is "
                f"{naming.row(first_row + worst)}, which sums to {sums[worst]:.6g}. Pass normalize=True to divide each "
                "row by its sum, or from_logits=True if these are logits"
            )


def _refuse(bad: NDArray[np.bool_], raw: NDArray[Any], first_row: int, naming: Naming, rule: str) -> None:
    if not bad.any():
        return
    rows = np.flatnonzero(bad.any(axis=1))
    i = int(rows[0])
    j = int(np.flatnonzero(bad[i])[0])
    more = f", and so are others near it ({rows.size} of {len(raw)} rows)" if rows.size > 1 else ""
    raise BadProbabilities(f"{naming.cell(first_row + i, j)} is {raw[i, j]}{more}; {rule}")


def as_smoothing(zeros: object) -> float:
    """The option ``zeros``: "keep", or the amount that is added to every probability."""
    if isinstance(zeros, str):
        if zeros == "keep":
            return 0.0
    elif isinstance(zeros, (int, float, np.number)) and not isinstance(zeros, bool) and 0 < float(zeros) < 1:
        return float(zeros)
    raise BadOption(f"zeros must be 'keep' or a number between 0 and 1 to smooth by, such as 1e-6, not {zeros!r}")


def as_flag(name: str, value: object) -> bool:
    """An option that is true or false and nothing else: the string "False" is neither."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise BadOption(f"{name} must be True or False, not {value!r}")


def as_classes(classes: object, n_classes: int) -> tuple[Any, ...] | None:
    """Names of the columns, as plain Python values."""
    if classes is None:
        return None
    if isinstance(classes, (str, bytes, set, frozenset, Mapping)) or not hasattr(classes, "__iter__"):
        raise BadOption(f"classes must be a list of {n_classes} names in the order of the columns, not {classes!r}")
    names = tuple(c.item() if isinstance(c, np.generic) else c for c in classes)
    if len(names) != n_classes:
        raise BadOption(f"classes has {len(names)} names, but there are {n_classes} columns")
    odd = [c for c in names if not isinstance(c, Hashable)]
    if odd:
        raise BadOption(f"class names must be plain values such as strings or numbers, not {odd[0]!r}")
    repeated = sorted({repr(c) for c in names if names.count(c) > 1})
    if repeated:
        raise BadOption(f"classes names {', '.join(repeated)} more than once")
    return names


def as_rates(rates: object, classes: tuple[Any, ...] | None, n_classes: int, *, what: str = "rates") -> FloatArray:
    """Class rates in the order of the columns, summing to 1."""
    rates = by_name(rates, classes)
    if isinstance(rates, Mapping):
        rates = _from_mapping(rates, classes, n_classes, what)
    try:
        values = np.asarray(rates)
    except ValueError:
        raise BadRates(f"{what} must be {n_classes} numbers, one for each class, not {rates!r}") from None
    if values.dtype.kind not in "fiub":
        raise BadRates(f"{what} must be real numbers, but have dtype {values.dtype}")
    if values.shape != (n_classes,):
        raise BadRates(f"{what} must be {n_classes} numbers, one for each class, but have shape {values.shape}")
    pi = values.astype(np.float64)
    for bad, rule in ((~np.isfinite(pi), "finite"), (pi < 0, "0 or more")):
        if bad.any():
            j = int(np.flatnonzero(bad)[0])
            raise BadRates(f"the rate of {label(classes, j)} is {pi[j]}; {what} must be {rule}")
    with np.errstate(over="ignore"):
        total = float(pi.sum())
    if abs(total - 1.0) > _RATES_TOLERANCE:
        raise BadRates(f"{what} sum to {total:.6g}, not 1; if they are proportions, divide them by their sum")
    return np.asarray(pi / total)


def one_per_class(
    given: object, classes: tuple[Any, ...] | None, n_classes: int, what: str, missing: float
) -> FloatArray:
    """A number for each column: from one for all, from a sequence, or from a dict by class; None is ``missing``."""
    given = by_name(given, classes)
    if given is None or is_number(given):
        return np.full(n_classes, missing if given is None else float(given))  # type: ignore[arg-type]
    if isinstance(given, Mapping):
        given = _from_mapping(given, classes, n_classes, what, missing)
    rule = f"{what} must be {n_classes} numbers, one for each class"
    if isinstance(given, (str, set, frozenset, bool)):
        raise BadRates(f"{rule}, not {given!r}")
    try:
        entries = list(given)  # type: ignore[call-overload]
        if any(isinstance(v, str) for v in entries):
            raise TypeError
        values = np.array([missing if v is None else float(v) for v in entries])
    except (TypeError, ValueError):
        raise BadRates(f"{rule}, not {given!r}") from None
    if values.shape != (n_classes,):
        raise BadRates(f"{rule}, but there are {len(values)}")
    return values


def _from_mapping(
    numbers: Mapping[Any, Any], classes: tuple[Any, ...] | None, n_classes: int, what: str, missing: float | None = None
) -> list[Any]:
    if classes is None and set(numbers) == set(range(n_classes)):
        classes = tuple(range(n_classes))
    if classes is None:
        raise BadRates(f"{what} go by name: pass classes= with the names of the {n_classes} columns, in their order")
    absent = [c for c in classes if c not in numbers and missing is None]
    unknown = [c for c in numbers if c not in classes]
    if absent or unknown:
        parts = [f"{what}, which name {listed(list(numbers))}, has no rate for {listed(absent)}"] if absent else []
        parts += [f"{listed(unknown)} is not among the classes {listed(classes)}"] if unknown else []
        raise BadRates("; ".join(parts))
    return [numbers.get(c, missing) for c in classes]


def by_name(values: object, classes: tuple[Any, ...] | None = None) -> object:
    """A Series with an index of names as a dict; anything else, also a Series that is only numbered, as it is.

    Where the numbers of the index are themselves the names of the classes, they are names.
    """
    index = getattr(values, "index", None)
    if index is None or callable(index) or not hasattr(values, "to_numpy"):
        return values
    names = list(index)
    if len(set(names)) < len(names):
        raise BadRates(f"the index of the Series names {listed([c for c in names if names.count(c) > 1][:1])} twice")
    numbered = all(not isinstance(c, (bool, np.bool_)) for c in names) and names == list(range(len(names)))
    if numbered and (classes is None or set(classes) != set(names)):
        return np.asarray(values)
    return dict(zip(names, list(np.asarray(values)), strict=True))


def is_number(value: object) -> bool:
    """Whether a value is one real number, and not True or False."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def as_weights(sample_weight: ArrayLike | None, n_rows: int) -> FloatArray | None:
    """Row weights that sum to 1, or None for equal ones."""
    if sample_weight is None:
        return None
    try:
        values = np.asarray(sample_weight)
    except ValueError:
        raise BadWeights("sample_weight must be a list of numbers, one for each row") from None
    if isinstance(sample_weight, str):
        raise BadWeights(f"sample_weight is the name {sample_weight!r}, but here it must be the weights themselves")
    if values.dtype.kind not in "fiub":
        raise BadWeights(f"sample_weight must hold real numbers, but has dtype {values.dtype}")
    if values.shape != (n_rows,):
        raise BadWeights(f"sample_weight must have shape ({n_rows},), one for each row, but has {values.shape}")
    w = values.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if bad.size:
        raise BadWeights(f"sample_weight[{bad[0]}] is {w[bad[0]]}; weights must be finite and 0 or more")
    if not w.any():
        raise BadWeights("all weights are zero; at least one row must count")
    w /= w.max()  # so that the sum cannot overflow
    return np.asarray(w / w.sum())


def weighted_mean(values: FloatArray, sample_weight: ArrayLike | None) -> float:
    """Mean of one value a row; a row of weight 0 does not count even if its value is infinite."""
    weights = as_weights(sample_weight, len(values))
    if weights is None:
        return float(values.mean())
    return float(weights[weights > 0] @ values[weights > 0])


def label(classes: tuple[Any, ...] | None, j: int) -> str:
    """What to call a class in a message."""
    return f"class {j}" if classes is None else f"class {classes[j]!r}"


def listed(names: Sequence[Any]) -> str:
    """The first names of a list, for a message."""
    shown = ", ".join(repr(c) for c in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
