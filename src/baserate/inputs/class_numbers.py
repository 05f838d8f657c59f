"""Numbers by class: rates, bounds and counts, given in the order of the columns or by class name."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from decimal import Decimal
from numbers import Real
from typing import Any, TypeGuard, cast

import numpy as np

from baserate.errors import BadRates, Option
from baserate.inputs.class_names import matched_names, same_text
from baserate.inputs.validation import class_label, quoted, quoted_name
from baserate.support.arrays import FloatArray, has_masked_entries

RATES_TOLERANCE = 1e-6
"""Rates whose sum differs from 1 by at most this are rescaled; others are refused."""

_ROUNDING = 4 * np.finfo(np.float64).eps
_CLASSES = Option("classes", "[...]")

ARRAY_LIKE = (np.ndarray, list, tuple)
"""The usual types of rates that are given by position."""


def as_rates(rates: object, classes: tuple[Any, ...] | None, n_classes: int, *, what: str = "rates") -> FloatArray:
    """Class rates in column order. They sum to 1 within rounding.

    Parameters
    ----------
    rates : number, array-like, dict or Series
        One number is the rate of the second of two classes. In a dict one class may be missing: it gets the rest.
    classes : tuple or None
    n_classes : int
    what : str
        Name of the argument for messages.
    """
    rates = series_to_dict(rates, classes)
    if isinstance(rates, str):
        raise BadRates(f"{what} is the text {quoted_name(rates)}; pass a number or a dict, or parse it by Rates.parse")
    if is_one_number(rates):
        rates = _of_two_classes(rates, n_classes, what)
    elif is_mapping(rates):
        rates = _from_mapping(_with_the_rest(rates, classes, n_classes), classes, n_classes, what)
    if has_masked_entries(rates):
        raise BadRates(
            f"{what} are a masked array with masked entries; for unknown rates pass Rates.between with None for them"
        )
    try:
        values = np.asarray(rates)
    except ValueError:
        raise BadRates(f"{what} must be {n_classes} numbers, one for each class, not {rates!r}") from None
    if values.ndim == 0:
        raise BadRates(f"{what} must be {n_classes} numbers, one for each class, not {quoted_name(rates)}")
    if values.shape != (n_classes,):
        raise BadRates(f"{what} must be {n_classes} numbers, one for each class, but have shape {values.shape}")
    if values.dtype.kind == "O":  # entries of several types, or of types that NumPy does not know
        entries = enumerate(values.tolist())
        values = np.array([as_float(value, f"the rate of {class_label(classes, j)}") for j, value in entries])
    if values.dtype.kind not in "fiub":
        hint = "take the real part" if values.dtype.kind == "c" else "convert them with float()"
        raise BadRates(f"{what} must be real numbers, but have dtype {values.dtype}; {hint}")
    pi = values.astype(np.float64)
    if not (pi.min(initial=0.0) >= 0 and pi.max(initial=0.0) < np.inf):
        rule, bad = ("0 or more", pi < 0) if np.isfinite(pi).all() else ("finite", ~np.isfinite(pi))
        j = int(np.flatnonzero(bad)[0])
        raise BadRates(f"the rate of {class_label(classes, j)} is {pi[j]}; {what} must be {rule}")
    with np.errstate(over="ignore"):
        total = float(pi.sum())
    if abs(total - 1.0) > RATES_TOLERANCE:
        bounds = f", or for bounds on one rate pass Rates.between({pi[0]:g}, {pi[1]:g})" if n_classes == 2 else ""
        raise BadRates(f"{what} sum to {total:.6g}, not 1; to rescale them, divide each by their sum{bounds}")
    # Rates that sum to 1 up to rounding stay as they are, since dividing 0.4 by their sum may give 0.4000000000000001.
    return pi if abs(total - 1.0) <= _ROUNDING else np.asarray(pi / total)


def is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Whether this is a mapping, such as a dict."""
    # Not isinstance alone: the first array in a process would be compared with every known kind of mapping.
    return not isinstance(value, ARRAY_LIKE) and isinstance(value, Mapping)


def is_one_number(value: object) -> bool:
    """Whether this is a single real number of any type, and not a boolean."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "fiu"
    return isinstance(value, (Real, Decimal)) and not isinstance(value, (bool, np.bool_))


def leaves_classes_free(rates: Mapping[Any, Any], classes: tuple[Any, ...] | None, n_classes: int) -> bool:
    """Whether rates name only some of the classes, and leave a part of the probability to two or more others."""
    named = with_names_of(rates, classes, n_classes)
    known = range(n_classes) if classes is None else classes
    return 0 < len(named) < n_classes - 1 and set(named) <= set(known) and sum_is_below_one(named)


def _of_two_classes(rate: Any, n_classes: int, what: str) -> list[float]:
    value = as_float(rate.item() if isinstance(rate, np.ndarray) else rate, what)
    if n_classes != 2:
        raise BadRates(
            f"{what} is one number, {value:g}, but there are {n_classes} classes; pass {n_classes} numbers, or a dict "
            "such as {'name of a class': rate} that leaves the others free"
        )
    if not 0 <= value <= 1:
        raise BadRates(f"{what} is {value:g}; a rate must be between 0 and 1. Divide percentages by 100")
    return [1.0 - value, value]


def _with_the_rest(rates: Mapping[Any, Any], classes: tuple[Any, ...] | None, n_classes: int) -> Mapping[Any, Any]:
    """The same rates with what is left of 1 for the class that they do not name, if it is only one."""
    named = with_names_of(rates, classes, n_classes)
    if len(named) < n_classes:
        _check_rates(named)
    absent = [c for c in (range(n_classes) if classes is None else classes) if c not in named]
    if len(absent) != 1 or len(named) != n_classes - 1 or not sum_is_below_one(named):
        return named
    return {**named, absent[0]: 1.0 - sum(map(float, named.values()))}


def _check_rates(rates: Mapping[Any, Any]) -> None:
    """Raise if a rate of some classes is not a number between 0 and 1."""
    for name, value in rates.items():
        rate = as_float(value, f"the rate of class {quoted_name(name)}")
        if not 0 <= rate <= 1:
            raise BadRates(
                f"the rate of class {quoted_name(name)} is {rate:g}; a rate must be between 0 and 1. Divide "
                "percentages by 100"
            )


def sum_is_below_one(rates: Mapping[Any, Any]) -> bool:
    """Whether these are rates that leave something to further classes."""
    if not all(map(is_one_number, rates.values())):
        return False
    numbers = [as_float(value, "a rate") for value in rates.values()]
    return all(number >= 0 for number in numbers) and sum(numbers) < 1.0 - RATES_TOLERANCE


def with_names_of(numbers: Mapping[Any, Any], classes: tuple[Any, ...] | None, n_classes: int) -> Mapping[Any, Any]:
    """The same numbers by the names of the classes; without class names, by the numbers of the columns."""
    known = range(n_classes) if classes is None else classes
    return dict(zip(matched_names(list(numbers), known), numbers.values(), strict=True))


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
    if given is None or is_one_number(given):
        return np.full(n_classes, missing if given is None else as_float(given, what))
    if isinstance(given, Mapping):
        given = _from_mapping(given, classes, n_classes, what, missing)
    rule = f"{what} must be {n_classes} numbers, one for each class" if n_classes > 1 else f"{what} must be a number"
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
    if not numbers and missing is None:
        raise BadRates(f"{what} is empty; give at least one class and its rate")
    numbers = with_names_of(numbers, classes, n_classes)
    if classes is None and set(numbers) <= set(range(n_classes)):
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
        raise BadRates("; ".join(parts) + same_text(unknown, classes))
    return [numbers.get(c, missing) for c in classes]


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
