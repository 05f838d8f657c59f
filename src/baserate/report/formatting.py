"""Numbers and names as they appear in a report."""

from __future__ import annotations

from typing import Any

import numpy as np

_LOSS_NAMES = {
    "log": "log loss",
    "brier": "Brier score",
    "spherical": "spherical loss",
    "ranked": "ranked probability loss",
}
_LONGEST_NAME = 60  # characters of a name in a sentence


def loss_phrase(about: dict[str, Any]) -> str:
    """The name of the loss of a result, as it is used in a sentence."""
    return _LOSS_NAMES.get(about["loss_key"], f"loss {about['loss_name']}")


def class_name(about: dict[str, Any], name: Any) -> str:
    """The name of a class of a result, or "class 0" if the classes have no names."""
    return str(name) if about["classes_named"] else f"class {name}"


def format_number(value: float) -> str:
    """A number in a sentence, with four decimals, or three digits if it is very small or large.

    Values below 1e-12 are not shown: they are rounding errors, which differ between machines.
    """
    value = float(value)
    if not np.isfinite(value):
        return "not defined" if np.isnan(value) else "infinite" if value > 0 else "-infinite"
    if 0 < abs(value) < 1e-12:
        return "below 1e-12"
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.3g}"


def shortened(name: str) -> str:
    """A name without its middle part if it is too long for a sentence."""
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME // 2]}…{name[-_LONGEST_NAME // 2 + 1 :]}"
