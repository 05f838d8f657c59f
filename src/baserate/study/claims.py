"""The claims of section 4 of the paper, each with the paper's figure, ours, and whether it holds here."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baserate.study.reference import Comparison
from baserate.study.tables import counted, means, medians, n_tasks, spaced

Frame = Any  # a pandas DataFrame

ROUNDING = 1e-12
"""A loss that rises by less has not risen."""

NEAR_ZERO = (1e-3, 1e-2)
"""Mean losses below these before adjustment make a relative reduction a division by almost nothing."""

_NAMES = {"brier": "the Brier score", "log": "log loss"}
_THEOREM, _OURS = "guaranteed (theorem 4)", "not stated"


@dataclass(frozen=True)
class Claim:
    """A claim and its verdict.

    Attributes
    ----------
    text : str
    paper, ours : str
        What the paper found, and what was found here.
    holds : bool or None
        None if these results cannot tell.
    why : str
        Why it does not hold, or cannot be told.
    """

    text: str
    paper: str
    ours: str
    holds: bool | None
    why: str = ""

    @property
    def verdict(self) -> str:
        """In words."""
        return {True: "holds", False: "does not hold", None: "cannot be told"}[self.holds]


def claims(frame: Frame, n_sets: int, comparison: Comparison | None) -> list[Claim]:
    """All claims, judged by the results."""
    exact = frame[frame["error"] == 0]
    found = [_size(frame, n_sets)]
    for measure, name in _NAMES.items():
        text = f"BGA for {name} at exact rates reduces it in every task"
        found.append(_never_rises(text, _THEOREM, _of(exact, f"bga-{measure}", measure), measure))
    for measure, name in _NAMES.items():
        text = f"PPA sometimes raises {name}, even at exact rates"
        found.append(_can_rise(text, "seen", _of(exact, "ppa", measure), measure))
    found += [_beats_ppa(frame, "brier", 15), _beats_ppa(frame, "log", 13), _still_reduces(frame)]
    text = "BGA for log loss, the wrong loss, can raise the Brier score even at exact rates"
    found.append(_can_rise(text, "seen", _of(exact, "bga-log", "brier"), "brier"))
    text = "Ours: BGA for the Brier score, the wrong loss, can raise log loss even at exact rates"
    found.append(_can_rise(text, _OURS, _of(exact, "bga-brier", "log"), "log"))
    found += [_dominated(exact), _amount_and_distance(frame)]
    for measure, name in _NAMES.items():
        text = f"Ours: BGA to a set of rates that covers the error never raises {name}"
        found.append(_never_rises(text, _OURS, _of(frame, f"set-{measure}", measure), measure))
    found.append(_failures(frame))
    return found + (_compared(comparison) if comparison else [])


def _of(frame: Frame, adjuster: str, measure: str) -> Frame:
    """Tasks of one adjuster that had a finite loss before; with hard scores some have not, or cannot be adjusted."""
    rows = frame[(frame["adjuster"] == adjuster) & np.isfinite(frame[f"{measure}_before"])]
    return rows[rows[f"{measure}_after"].notna()]


def _size(frame: Frame, n_sets: int) -> Claim:
    tasks = n_tasks(frame)
    holds = n_sets >= 590 and tasks >= 17_527
    return Claim(
        "The claims below rest on so many prediction sets and adjustment tasks",
        "590 sets, 17 527 tasks",
        f"{counted(n_sets, 'set')}, {counted(tasks, 'task')}",
        holds,
        "" if holds else "This corpus is smaller.",
    )


def _never_rises(text: str, paper: str, rows: Frame, measure: str) -> Claim:
    fall = rows[f"{measure}_before"] - rows[f"{measure}_after"]
    rose, less = int((fall < -ROUNDING).sum()), int((fall < rows["guaranteed"] - ROUNDING).sum())
    ours = f"{counted(rose, 'exception')} in {counted(len(rows), 'task')}, {less} fell by less than certified"
    if not len(rows):
        return Claim(text, paper, ours, None, "There is no such task.")
    return Claim(text, paper, ours, rose == 0 and less == 0, "This contradicts the theorem." if rose or less else "")


def _can_rise(text: str, paper: str, rows: Frame, measure: str) -> Claim:
    after = rows[f"{measure}_after"]
    rose, infinite = int((after > rows[f"{measure}_before"] + ROUNDING).sum()), int(np.isinf(after).sum())
    more = f", to infinity in {spaced(infinite)}" if infinite else ""
    ours = f"in {spaced(rose)} of {counted(len(rows), 'task')}{more}"
    return Claim(text, paper, ours, True if rose else None, "" if rose else "It did not happen in these tasks.")


def _beats_ppa(frame: Frame, measure: str, paper: int) -> Claim:
    """By means, as in the paper; beside it by medians, and without tasks that had almost no loss to begin with."""
    text = f"BGA reduces {_NAMES[measure]} more than PPA, on average, in {paper} of the 15 cells of the figure"
    wins, cells = _wins(frame, measure)
    ours = f"{wins}/{cells} cells"
    if cells < 15:
        return Claim(text, f"{paper}/15 cells", ours, None, f"Only {cells} of the 15 cells have tasks.")
    holds = wins >= paper
    return Claim(text, f"{paper}/15 cells", ours, holds, "" if holds else _why_not(frame, measure, wins))


def _why_not(frame: Frame, measure: str, wins: int) -> str:
    before = frame[f"{measure}_before"]
    without = {}
    for least in NEAR_ZERO:
        names = ", ".join(sorted(frame[before < least]["dataset"].unique()))
        if names:
            kept = frame[before >= least]
            share = 1 - n_tasks(kept) / n_tasks(frame)
            what = f"without the {share:.1%} of tasks whose loss was below {least:g} before ({names})"
            without[what] = _wins(kept, measure)[0]
    reason = "Other data and other models."
    if any(count > wins for count in without.values()):
        reason += (
            " A mean of relative reductions is ruled by tasks that had almost no loss to begin with: where a model is "
            "nearly perfect, rates that are off by a hundredth cost many times what there was."
        )
    found = [f"By medians {_wins(frame, measure, by_median=True)[0]}/15"]
    found += [f"by means {count}/15 {what}" for what, count in without.items()]
    return f"{reason} {'; '.join(found)}."


def _wins(frame: Frame, measure: str, *, by_median: bool = False) -> tuple[int, int]:
    """Cells of the figure where BGA does better than PPA, and all cells that have tasks."""
    table = medians if by_median else means
    ahead = table(frame, measure, f"bga-{measure}") - table(frame, measure, "ppa")
    return int((ahead > 0).to_numpy().sum()), int(ahead.notna().to_numpy().sum())


def _still_reduces(frame: Frame) -> Claim:
    text = "With rates that are off, BGA still reduces the loss more often than not"
    wrong = frame[frame["error"] != 0]
    parts = {measure: _of(wrong, f"bga-{measure}", measure)[f"{measure}_reduction"] for measure in _NAMES}
    shares = {measure: float((values > 0).mean()) for measure, values in parts.items() if len(values)}
    if not shares:
        return Claim(text, "often", "no such task", None, "No task has rates that are off and a loss to reduce.")
    ours = "in " + " and ".join(f"{share:.1%} of tasks ({measure})" for measure, share in shares.items())
    holds = min(shares.values()) > 0.5
    return Claim(text, "often", ours, holds, "" if holds else "Other data and other models.")


def _dominated(exact: Frame) -> Claim:
    text = "UGA is dominated by BGA: at exact rates its Brier score is never below BGA's"
    bounded, unbounded = (
        _of(exact, name, "brier").set_index(["set", "shift"])["brier_after"] for name in ("bga-brier", "uga-brier")
    )
    worse = int((bounded > unbounded + ROUNDING).sum())
    ours = f"{counted(worse, 'exception')} in {counted(len(bounded), 'task')}"
    if not len(bounded):
        return Claim(text, _THEOREM, ours, None, "There is no such task.")
    return Claim(text, _THEOREM, ours, worse == 0, "This contradicts the theorem." if worse else "")


def _amount_and_distance(frame: Frame) -> Claim:
    text = "The distance between old and new rates is correlated with the amount of the shift, but not determined by it"
    shifted = frame.drop_duplicates(["set", "shift"])
    correlation = float(shifted["amount"].rank().corr(shifted["distance"].rank())) if len(shifted) > 1 else np.nan
    ours = f"rank correlation {correlation:.2f} of {counted(len(shifted), 'shifted set')}"
    if len(shifted) < 30:
        return Claim(text, "noted", ours, None, "Too few to tell.")
    holds = 0 < correlation < 0.99
    return Claim(text, "noted", ours, holds, "" if holds else "Other data.")


def _failures(frame: Frame) -> Claim:
    tried = frame[frame["impossible"].isna()]
    failed = int((~tried["converged"]).sum())
    return Claim(
        "Ours: no adjustment fails numerically",
        "ECOS failed in 30 of 17 527 tasks",
        f"{spaced(failed)} of {counted(len(tried), 'adjustment')} failed; most passes {int(tried['passes'].max())}",
        failed == 0,
        "Their tolerance was not reached." if failed else "",
    )


def _compared(found: Comparison) -> list[Claim]:
    checked = min(found.brier_checked, found.log_checked)
    close = max(found.brier_difference, found.log_difference) < 1e-5
    return [
        Claim(
            "PPA here is the formula of Saerens, Latinne and Decaestecker",
            "the definition",
            f"largest difference {found.ppa_difference:.0e} on {counted(found.tasks, 'random task')}",
            found.ppa_difference < 1e-12,
        ),
        Claim(
            "BGA here is the answer of a convex optimiser",
            "CVXPY",
            f"largest difference {found.brier_difference:.0e} (Brier, {found.brier_checked} tasks that it solved) and "
            f"{found.log_difference:.0e} (log, {found.log_checked}) of {counted(found.tasks, 'random task')}",
            close if checked else None,
            "" if checked else "The optimiser solved none to its own satisfaction.",
        ),
    ]


def text(found: Sequence[Claim]) -> str:
    """For a terminal."""
    lines = []
    for number, claim in enumerate(found, 1):
        lines.append(_wrapped(f"{number:2d}. {claim.text}", 4))
        lines += [
            _wrapped(f"    {what:7}{said}", 11) for what, said in (("paper:", claim.paper), ("here:", claim.ours))
        ]
        lines.append(_wrapped(f"    {claim.verdict}" + (f". {claim.why}" if claim.why else ""), 4))
    held = sum(bool(claim.holds) for claim in found)
    return "\n".join([*lines, "", f"{held} of {len(found)} claims hold."])


def _wrapped(line: str, indent: int) -> str:
    return textwrap.fill(line, 110, subsequent_indent=" " * indent, break_on_hyphens=False)
