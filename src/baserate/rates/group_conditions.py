"""The condition of a guarantee for rates per group, which depends on where the rates of each group are from."""

from __future__ import annotations

from collections.abc import Sequence

from baserate.rates.base import Rates

_WITH = {
    "counts": "a survey",
    "population": "the rates of a population",
    "labelled": "labelled rows",
    "estimated": "estimated rates",
    "samples": "draws",
}
"""What the groups have, by the kind of their rates, in the order in which a condition mentions them."""


def group_assumptions(name: str, of: str | None, own: Sequence[Rates], *, others_assumed: bool) -> str:
    """What must be true for the sets of all groups, as clauses.

    Parameters
    ----------
    name : str
        The columns that define the groups.
    of : "counts", "population" or None
        The kind of the numbers in the table; None if they are rates.
    own : sequence of Rates
        The rates of groups that were given as objects.
    others_assumed : bool
        Whether the table also has rates that are assumed without a confidence.
    """
    sampled = [rates for rates in own if rates.certainty is not None and not getattr(rates, "refuted", False)]
    kinds = {rates.kind for rates in sampled} | ({of} if of else set())
    others_assumed |= any(rates.certainty is None for rates in own)
    clauses = []
    for kind in (kind for kind in _WITH if kind in kinds):
        is_only = len(kinds) == 1 and not others_assumed and len(sampled) in (0, len(own))
        groups = f"each group of {name}" + ("" if is_only else f" with {_WITH[kind]}")
        clauses.append(_clause(kind, groups))
    if others_assumed:
        clauses.append(f"the class rates of the other groups of {name} are as given")
    return ", and ".join(clauses) or f"the class rates of each group of {name} lie in their sets"


def _clause(kind: str, groups: str) -> str:
    """What is assumed about groups with rates of one kind."""
    if kind == "labelled":
        return f"the labelled rows of {groups} were drawn at random from the rows of the group"
    if kind == "estimated":
        return f"predictions within each class of {groups} are distributed as in the validation data"
    if kind == "samples":
        return f"the draws of {groups} represent what is known about the class rates of its rows"
    rows = "the survey and the rows" if kind == "counts" else "the rows"
    return f"{rows} of {groups} are random samples from the population of the group"
