"""Numbers in tables: all numbers of a column have the same format."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

_ROUNDING = 1e-12  # Smaller numbers are rounding errors, which differ between machines.
# Numbers below this share of the largest one do not decide the format. In a signed column, which has differences, a
# number that is so much smaller than the others says only that there is hardly a difference.
_NEGLIGIBLE, _NEGLIGIBLE_DIFFERENCE = 1e-9, 1e-5
_MOST_DECIMALS = 6
_MOST_DIGITS = 10  # before and after the decimal point


@dataclass(frozen=True)
class NumberFormat:
    """The format of all numbers of a column.

    Attributes
    ----------
    decimals : int
    scientific : bool
    signed : bool
        Whether positive numbers have a plus sign.
    """

    decimals: int
    scientific: bool = False
    signed: bool = False

    def __call__(self, value: float) -> str:
        """The number as text; "undefined" if it is NaN."""
        if np.isnan(value):
            return "undefined"
        if np.isinf(value):
            return "infinite" if value > 0 else "-infinite"
        shown = 0.0 if abs(value) < _ROUNDING else float(value)
        return f"{shown:{'+' if self.signed else ''}z.{self.decimals}{'e' if self.scientific else 'f'}}"


def number_format(values: ArrayLike, *, signed: bool = False, min_decimals: int = 4) -> NumberFormat:
    """The format for the numbers of a column.

    All numbers have the same number of decimals, enough for two digits of the smallest one that is not 0 or negligible.
    If that takes more than 6 decimals, all numbers are scientific.

    Parameters
    ----------
    values : array-like of float
    signed : bool, default False
        Whether the numbers are differences, which have a plus sign if they are positive.
    min_decimals : int, default 4
        The least number of decimals, unless some numbers are 1000 or more.

    Examples
    --------
    >>> format_column([0.0123, 0.975])
    ['0.0123', '0.9750']
    >>> format_column([0.000123, 0.975])
    ['0.00012', '0.97500']
    >>> format_column([1.2e-07, 0.975])
    ['1.200e-07', '9.750e-01']
    >>> format_column([1.2e-07, -0.975], signed=True)
    ['+0.0000', '-0.9750']
    """
    sizes = np.abs(np.ravel(np.asarray(values, dtype=np.float64)))
    sizes = sizes[np.isfinite(sizes)]
    largest = sizes.max(initial=0.0)
    sizes = sizes[sizes >= max(_ROUNDING, (_NEGLIGIBLE_DIFFERENCE if signed else _NEGLIGIBLE) * largest)]
    if not sizes.size:
        return NumberFormat(min_decimals, signed=signed)
    n_whole = max(_exponent(largest) + 1, 1)
    needed = max(1 - _exponent(sizes.min()), 0)
    decimals = max(needed, min(min_decimals, min_decimals + 3 - n_whole), 0)
    if needed > _MOST_DECIMALS or n_whole + decimals > _MOST_DIGITS:
        return NumberFormat(3, scientific=True, signed=signed)
    return NumberFormat(decimals, signed=signed)


def format_column(values: Iterable[float], *, signed: bool = False, min_decimals: int = 4) -> list[str]:
    """The numbers of a column as text, in the same format; see :func:`number_format`."""
    listed = list(values)
    return list(map(number_format(listed, signed=signed, min_decimals=min_decimals), listed))


def _exponent(size: float) -> int:
    """The exponent of a positive number in scientific notation."""
    return int(np.floor(np.log10(size)))


def percent(confidence: float) -> str:
    """A confidence as text, such as "95 %". It is never rounded up to 100 %."""
    for digits in range(6, 18):
        text = f"{100 * confidence:.{digits}g}"
        if text != "100" or confidence >= 1:
            break
    return f"{text} %"


def counted(n: int, what: str, plural: str | None = None) -> str:
    """A number with its noun, in the plural unless it is 1: "1,000 rows", "2 classes"."""
    return f"{n:,} {what if n == 1 else plural or what + ('es' if what.endswith('s') else 's')}"
