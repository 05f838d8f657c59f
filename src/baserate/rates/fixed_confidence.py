"""Sets of rates that were computed for one confidence, and cannot be computed again for a higher one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from baserate.errors import BadRates, Option
from baserate.support.numbers import percent

if TYPE_CHECKING:
    from baserate.rates.interface import RatesInterface

    AnyRates = TypeVar("AnyRates", bound=RatesInterface)

_CONFIDENCE = Option("confidence")
_SAME_LEVEL = 1e-9  # Error probabilities whose ratio differs from 1 by less are the same, up to rounding.


def check_level(known: AnyRates, level: float) -> AnyRates:
    """The same rates, if their set holds with at least this confidence; otherwise raise."""
    own = known.certainty
    assert own is not None
    if 1.0 - own <= (1.0 - level) * (1.0 + _SAME_LEVEL):
        return known
    needed = _rounded_up(level)
    made, again = "estimated", "estimate them again"
    if known.kind == "samples":
        made, again = "computed from draws", "compute them again from the draws"
    raise BadRates(
        f"these rates were {made} with {percent(own)} confidence, but are needed with {_percent(needed)} here, "
        f"because the confidence is to hold for several statements at once; {again} with {_CONFIDENCE}={needed}",
        options=[_CONFIDENCE],
    )


def _rounded_up(level: float) -> str:
    """The level with enough digits that it is no lower, and its error probability hardly smaller."""
    decimals = max(6, int(np.ceil(-np.log10(1.0 - level))) + 3)
    scaled = level * 10.0**decimals
    return f"{np.ceil(scaled - 1e-3) / 10.0**decimals:.{decimals}f}".rstrip("0")


def _percent(level: str) -> str:
    return f"{100 * float(level):.10g} %"
