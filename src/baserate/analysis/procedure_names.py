"""The names of the procedures in a comparison, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable

from baserate.losses.base import Loss, short_name

ORIGINAL = "as predicted"
PRIOR = "prior adjustment"
ADDITIVE = "additive"
_TO_LIKELY_RATES = ", to likely rates"

_EXPLAINED = {
    PRIOR: "Bayes' rule, from the class rates in training to the new ones",
    ADDITIVE: "adds one number to each column; entries can be below 0 or above 1",
}
_LIKELY_RATES = "the stated rate set; for exact rates, all rates that are likely in a random sample of this size"


def adjusted_for(loss: Loss) -> str:
    """The name of the smallest change by this loss to one vector of rates."""
    return f"adjusted for {short_name(loss)} loss"


def adjusted_to_likely_rates(loss: Loss) -> str:
    """The name of the smallest change by this loss to a rate set."""
    return f"{adjusted_for(loss)}{_TO_LIKELY_RATES}"


def legend(procedures: Iterable[str]) -> list[str]:
    """Explanations of the names, one line each. Names that explain themselves have none."""
    names = list(procedures)
    lines = [f"{name}: {text}" for name, text in _EXPLAINED.items() if name in names]
    if any(name.endswith(_TO_LIKELY_RATES) for name in names):
        lines.append(f"likely rates: {_LIKELY_RATES}")
    return lines
