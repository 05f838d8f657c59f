"""Checked access to the fields of a saved adjustment."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baserate.support.arrays import FloatArray, IndexArray

_LARGEST = 1e300  # Larger numbers are refused, so that sums and differences of saved numbers cannot overflow.
MAX_ROWS = 2**53  # Larger numbers of rows are not exact as floats.


class FieldReader:
    """The fields of a saved adjustment.

    Each method returns the checked value of a field. It raises ValueError with the name of the field if the value has
    the wrong type, length or range.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def __getitem__(self, name: str) -> Any:
        """The value as it is in the file."""
        if name not in self._fields:
            raise ValueError(f"the field {name!r} is missing")
        return self._fields[name]

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def flag(self, name: str) -> bool:
        """True or false."""
        if not isinstance(self[name], bool):
            raise ValueError(f"{name} must be true or false, not {reprlib.repr(self[name])}")
        return bool(self[name])

    def text(self, name: str, *, one_of: Sequence[str] | None = None) -> str:
        """A string; with ``one_of``, one of these."""
        value = self[name]
        if not isinstance(value, str) or (one_of is not None and value not in one_of):
            expected = "a string" if one_of is None else " or ".join(map(repr, one_of))
            raise ValueError(f"{name} must be {expected}, not {reprlib.repr(value)}")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        """A JSON object."""
        if not isinstance(self[name], dict):
            raise ValueError(f"{name} must be an object, not {reprlib.repr(self[name])}")
        return dict(self[name])

    def number(self, name: str) -> float:
        """A finite number, or NaN for null."""
        return _as_number(self[name], name, missing=math.nan)

    def share(self, name: str) -> float:
        """A number from 0 to less than 1."""
        share = _as_number(self[name], name)
        if not 0 <= share < 1:
            raise ValueError(f"{name} must be a number from 0 to less than 1, not {share}")
        return share

    def whole(self, name: str, *, low: int = 0) -> int:
        """A whole number of at least ``low``, such as a number of rows."""
        return _as_whole(self[name], name, low, MAX_ROWS)

    def numbers(self, name: str, length: int) -> FloatArray:
        """A list of ``length`` finite numbers."""
        return np.array([_as_number(value, _entry(name, j)) for j, value in enumerate(self.list_of(name, length))])

    def numbers_or_nan(self, name: str, length: int) -> FloatArray:
        """A list of ``length`` finite numbers, with NaN for null."""
        values = enumerate(self.list_of(name, length))
        return np.array([_as_number(value, _entry(name, j), missing=math.nan) for j, value in values])

    def whole_numbers(self, name: str, length: int | None, *, below: int) -> IndexArray:
        """A list of ``length`` whole numbers from 0 to less than ``below``; None means any length."""
        values = enumerate(self.list_of(name, length))
        return np.array([_as_whole(value, _entry(name, j), 0, below - 1) for j, value in values], dtype=np.intp)

    def list_of(self, name: str, length: int | None = None) -> Sequence[Any]:
        """A list with ``length`` entries; None means any length."""
        values = self[name]
        if not isinstance(values, list):
            raise ValueError(f"{name} must be a list, not {reprlib.repr(values)}")
        if length is not None and len(values) != length:
            raise ValueError(f"{name} must have {length} entries, but has {len(values)}")
        return values

    def active_bounds(self, name: str, n_classes: int) -> list[tuple[int | None, str, float]]:
        """A list of bounds, each with the number of its class or None, its side and its value."""
        bounds = []
        for j, entry in enumerate(self.list_of(name)):
            where = _entry(name, j)
            if not isinstance(entry, list) or len(entry) != 3:
                raise ValueError(f"{where} must be a class, a side and a value, not {reprlib.repr(entry)}")
            of, side, value = entry
            if side not in ("low", "high", "exact", "radius"):
                raise ValueError(f"the side of {where} must be low, high, exact or radius, not {reprlib.repr(side)}")
            column = None if of is None else _as_whole(of, f"the class of {where}", 0, n_classes - 1)
            bounds.append((column, str(side), _as_number(value, f"the value of {where}")))
        return bounds


def _entry(name: str, j: int) -> str:
    return f"{name}[{j}]"


def _as_number(value: Any, what: str, missing: float | None = None) -> float:
    if value is None and missing is not None:
        return missing
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{what} must be a number, not {reprlib.repr(value)}")
    if not abs(value) <= _LARGEST:
        raise ValueError(f"{what} must be between -{_LARGEST:g} and {_LARGEST:g}, not {reprlib.repr(value)}")
    return float(value)


def _as_whole(value: Any, what: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{what} must be a whole number from {low} to {high}, not {reprlib.repr(value)}")
    return value
