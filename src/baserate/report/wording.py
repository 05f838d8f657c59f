"""Numbers and names as a reader wants them."""

from __future__ import annotations

import numpy as np

from baserate.losses.base import short_name
from baserate.result.record import Result

_NAMES = {
    "log": "log loss",
    "brier": "Brier score",
    "spherical": "spherical loss",
    "ranked": "ranked probability loss",
}


_LONGEST = 60  # characters of a name in a sentence


def loss_name(result: Result) -> str:
    """What the loss is called in a sentence."""
    name = short_name(result.loss)
    return _NAMES.get(name, f"loss {name}")


def number(value: float) -> str:
    """Four digits; below 1e-12 lies rounding, another on every machine."""
    value = float(value)
    if not np.isfinite(value):
        return "not defined" if np.isnan(value) else "infinite" if value > 0 else "-infinite"
    if 0 < abs(value) < 1e-12:
        return "below 1e-12"
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.3g}"


def signed(value: float) -> str:
    """The same with a sign."""
    return f"+{number(value)}" if value > 0 else number(value)


def short(name: str) -> str:
    """A name that fits into a sentence."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}…{name[-_LONGEST // 2 + 1 :]}"
