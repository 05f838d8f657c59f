"""A claim with the paper's result, the result of this study, and a verdict; and the claims as text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

VERDICTS = {True: "holds", False: "does not hold", None: "undecided"}

LEGEND = (
    "BGA is bounded general adjustment, UGA is unbounded general adjustment, PPA is prior probability adjustment. "
    'Claims that start with "New:" are not in the paper. A claim about an average holds, or does not hold, if a 95% '
    "interval decides it; otherwise it is undecided. The intervals come from resamples of whole data sets."
)


@dataclass(frozen=True)
class Claim:
    """A claim with its verdict.

    Attributes
    ----------
    text : str
    paper, ours : str
        The result of the paper, and the result of this study.
    holds : bool or None
        None if it is undecided: there are too few results, or the interval does not decide it.
    why : str
        The reason why the claim does not hold or is undecided.
    certainty : str
        How sure the result of this study is: its interval, or what was counted.
    beside : str
        The same comparison by other statistics.
    source : str
        Where the paper states the claim: the section, and its words.
    """

    text: str
    paper: str
    ours: str
    holds: bool | None
    why: str = ""
    certainty: str = ""
    beside: str = ""
    source: str = ""

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return VERDICTS[self.holds]


def claims_text(found: Sequence[Claim]) -> str:
    """The claims with their verdicts as text for a terminal."""
    lines = [_wrapped(LEGEND, 0), ""]
    for number, claim in enumerate(found, 1):
        lines.append(_wrapped(f"{number:2d}. {claim.text}", 4))
        parts = {"paper": claim.paper, "here": claim.ours, "sure": claim.certainty, "also": claim.beside}
        lines += [_wrapped(f"    {name + ':':7}{part}", 11) for name, part in parts.items() if part]
        lines.append(_wrapped(f"    {claim.verdict}" + (f". {claim.why}" if claim.why else ""), 4))
    return "\n".join([*lines, "", _summary(found)])


def _summary(found: Sequence[Claim]) -> str:
    counts = {verdict: sum(claim.verdict == verdict for claim in found) for verdict in VERDICTS.values()}
    return f"{len(found)} claims: " + ", ".join(f"{verdict}: {count}" for verdict, count in counts.items())


def _wrapped(line: str, indent: int) -> str:
    return textwrap.fill(line, 110, subsequent_indent=" " * indent, break_on_hyphens=False)
