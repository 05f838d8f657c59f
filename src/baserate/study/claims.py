"""The claims of section 4 of the paper, each with the paper's result, the result of this study, and a verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baserate.study.reference import Comparison
from baserate.study.tables import format_count, format_integer, means, medians, n_tasks

Frame = Any  # a pandas DataFrame

ROUNDING = 1e-12
"""Smaller increases of a loss are attributed to rounding."""

NEAR_ZERO = (1e-3, 1e-2)
"""Relative reductions of mean losses below these thresholds are huge, because the denominator is almost 0."""

_NAMES = {"brier": "the Brier score", "log": "log loss"}
_THEOREM, _NOT_STATED = "guaranteed (theorem 4)", "not stated"
_OTHER_DATA = "The data sets and models differ from the paper's."
_NO_TASK = "There is no such task."
_LEGEND = (
    "BGA is bounded general adjustment, UGA is unbounded general adjustment, PPA is prior probability adjustment. "
    'Claims that start with "New:" are not in the paper.'
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
        None if the results of this study cannot decide it.
    why : str
        The reason why the claim does not hold or cannot be decided.
    """

    text: str
    paper: str
    ours: str
    holds: bool | None
    why: str = ""

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return {True: "holds", False: "does not hold", None: "cannot be decided"}[self.holds]


def claims(frame: Frame, n_sets: int, comparison: Comparison | None) -> list[Claim]:
    """Decide all claims by the results of a study with ``n_sets`` prediction sets."""
    exact = frame[frame["error"] == 0]
    found = [_size(frame, n_sets)]
    for measure, name in _NAMES.items():
        text = f"With exact rates, BGA for {name} reduces {name} in every task"
        found.append(_never_increases(text, _THEOREM, _rows_of(exact, f"bga-{measure}", measure), measure))
    for measure, name in _NAMES.items():
        text = f"PPA sometimes increases {name}, even with exact rates"
        found.append(_can_increase(text, "observed", _rows_of(exact, "ppa", measure), measure))
    found += [_beats_ppa(frame, "brier", 15), _beats_ppa(frame, "log", 13), _reduces_with_wrong_rates(frame)]
    text = "BGA for log loss can increase the Brier score, even with exact rates"
    found.append(_can_increase(text, "observed", _rows_of(exact, "bga-log", "brier"), "brier"))
    text = "New: BGA for the Brier score can increase log loss, even with exact rates"
    found.append(_can_increase(text, _NOT_STATED, _rows_of(exact, "bga-brier", "log"), "log"))
    found += [_bounded_beats_unbounded(exact), _amount_and_distance(frame)]
    for measure, name in _NAMES.items():
        text = f"New: BGA to a rate set that contains the true rates never increases {name}"
        found.append(_never_increases(text, _NOT_STATED, _rows_of(frame, f"set-{measure}", measure), measure))
    found.append(_failures(frame))
    return found + (_agreement(comparison) if comparison else [])


def _rows_of(frame: Frame, adjuster: str, measure: str) -> Frame:
    """The results of one adjuster for tasks with a finite loss before and a defined loss after adjustment.

    With hard scores, the loss before can be infinite, and some tasks cannot be adjusted.
    """
    rows = frame[(frame["adjuster"] == adjuster) & np.isfinite(frame[f"{measure}_before"])]
    return rows[rows[f"{measure}_after"].notna()]


def _size(frame: Frame, n_sets: int) -> Claim:
    tasks = n_tasks(frame)
    holds = n_sets >= 590 and tasks >= 17_527
    return Claim(
        "The claims are tested on at least as many prediction sets and tasks as in the paper",
        "590 sets, 17 527 tasks",
        f"{format_count(n_sets, 'set')}, {format_count(tasks, 'task')}",
        holds,
        "" if holds else "This corpus is smaller.",
    )


def _never_increases(text: str, paper: str, rows: Frame, measure: str) -> Claim:
    decrease = rows[f"{measure}_before"] - rows[f"{measure}_after"]
    increased = int((decrease < -ROUNDING).sum())
    below_guarantee = int((decrease < rows["guaranteed"] - ROUNDING).sum())
    ours = (
        f"{format_count(increased, 'exception')} in {format_count(len(rows), 'task')}; "
        f"the decrease was below its guarantee in {format_integer(below_guarantee)}"
    )
    if not len(rows):
        return Claim(text, paper, ours, None, _NO_TASK)
    holds = increased == 0 and below_guarantee == 0
    return Claim(text, paper, ours, holds, "" if holds else "This contradicts the theorem.")


def _can_increase(text: str, paper: str, rows: Frame, measure: str) -> Claim:
    after = rows[f"{measure}_after"]
    increased, infinite = int((after > rows[f"{measure}_before"] + ROUNDING).sum()), int(np.isinf(after).sum())
    more = f", to infinity in {format_integer(infinite)}" if infinite else ""
    ours = f"in {format_integer(increased)} of {format_count(len(rows), 'task')}{more}"
    return Claim(
        text, paper, ours, True if increased else None, "" if increased else "It did not occur in these tasks."
    )


def _beats_ppa(frame: Frame, measure: str, paper: int) -> Claim:
    """Compare means, as the paper does."""
    text = f"On average, BGA reduces {_NAMES[measure]} more than PPA in {paper} of the 15 cells of the figure"
    wins, cells = _wins(frame, measure)
    ours = f"{wins}/{cells} cells"
    if cells < 15:
        return Claim(text, f"{paper}/15 cells", ours, None, f"Only {cells} of the 15 cells have tasks.")
    holds = wins >= paper
    return Claim(text, f"{paper}/15 cells", ours, holds, "" if holds else _why_not(frame, measure, wins))


def _why_not(frame: Frame, measure: str, wins: int) -> str:
    """Whether the claim would hold for medians, or without tasks with almost no loss before adjustment."""
    before = frame[f"{measure}_before"]
    without = {}
    for threshold in NEAR_ZERO:
        names = ", ".join(sorted(frame[before < threshold]["dataset"].unique()))
        if names:
            kept = frame[before >= threshold]
            share = 1 - n_tasks(kept) / n_tasks(frame)
            what = f"without the {share:.1%} of tasks with a loss below {threshold:g} before adjustment ({names})"
            without[what] = _wins(kept, measure)[0]
    reason = _OTHER_DATA
    if any(count > wins for count in without.values()):
        reason += (
            " Means of relative reductions are dominated by tasks with almost no loss before adjustment: for a nearly "
            "perfect model, an error of 0.01 in the rates can multiply the loss."
        )
    found = [f"{_wins(frame, measure, by_median=True)[0]}/15 cells by medians"]
    found += [f"{count}/15 by means {what}" for what, count in without.items()]
    return f"{reason} BGA is better in {'; '.join(found)}."


def _wins(frame: Frame, measure: str, *, by_median: bool = False) -> tuple[int, int]:
    """The number of cells of the figure where BGA is better than PPA, and of all cells that have tasks."""
    table = medians if by_median else means
    difference = table(frame, measure, f"bga-{measure}") - table(frame, measure, "ppa")
    return int((difference > 0).to_numpy().sum()), int(difference.notna().to_numpy().sum())


def _reduces_with_wrong_rates(frame: Frame) -> Claim:
    text = "With wrong rates, BGA still reduces the loss in more than half of the tasks"
    wrong = frame[frame["error"] != 0]
    parts = {measure: _rows_of(wrong, f"bga-{measure}", measure)[f"{measure}_reduction"] for measure in _NAMES}
    shares = {measure: float((values > 0).mean()) for measure, values in parts.items() if len(values)}
    if not shares:
        return Claim(text, "often", "no such task", None, "No task has wrong rates and a positive loss.")
    ours = "in " + " and ".join(f"{share:.1%} of tasks ({measure})" for measure, share in shares.items())
    holds = min(shares.values()) > 0.5
    return Claim(text, "often", ours, holds, "" if holds else _OTHER_DATA)


def _bounded_beats_unbounded(exact: Frame) -> Claim:
    text = "With exact rates, UGA never has a lower Brier score than BGA"
    bounded, unbounded = (
        _rows_of(exact, name, "brier").set_index(["set", "shift"])["brier_after"] for name in ("bga-brier", "uga-brier")
    )
    worse = int((bounded > unbounded + ROUNDING).sum())
    ours = f"{format_count(worse, 'exception')} in {format_count(len(bounded), 'task')}"
    if not len(bounded):
        return Claim(text, _THEOREM, ours, None, _NO_TASK)
    return Claim(text, _THEOREM, ours, worse == 0, "This contradicts the theorem." if worse else "")


def _amount_and_distance(frame: Frame) -> Claim:
    text = "The distance between old and new rates is correlated with the amount of the shift, but not determined by it"
    shifted = frame.drop_duplicates(["set", "shift"])
    correlation = float(shifted["amount"].rank().corr(shifted["distance"].rank())) if len(shifted) > 1 else np.nan
    ours = f"rank correlation {correlation:.2f} over {format_count(len(shifted), 'shifted set')}"
    if len(shifted) < 30:
        return Claim(text, "stated", ours, None, "There are too few shifted sets.")
    holds = 0 < correlation < 0.99
    return Claim(text, "stated", ours, holds, "" if holds else _OTHER_DATA)


def _failures(frame: Frame) -> Claim:
    tried = frame[frame["impossible"].isna()]
    failed = int((~tried["converged"]).sum())
    return Claim(
        "New: no adjustment fails numerically",
        "ECOS failed in 30 of 17 527 tasks",
        f"{format_integer(failed)} of {format_count(len(tried), 'adjustment')} failed; "
        f"at most {int(tried['passes'].max())} passes",
        failed == 0,
        "They did not reach the tolerance." if failed else "",
    )


def _agreement(found: Comparison) -> list[Claim]:
    checked = min(found.brier_checked, found.log_checked)
    close = max(found.brier_difference, found.log_difference) < 1e-5
    return [
        Claim(
            "PPA of this package equals the formula of Saerens, Latinne and Decaestecker",
            "by definition",
            f"largest difference {found.ppa_difference:.0e} in {format_count(found.tasks, 'random task')}",
            found.ppa_difference < 1e-12,
        ),
        Claim(
            "BGA of this package equals the solution of a convex solver",
            "CVXPY",
            f"of {format_count(found.tasks, 'random task')}, the solver solved {found.brier_checked} for the Brier "
            f"score (largest difference {found.brier_difference:.0e}) and {found.log_checked} for log loss "
            f"({found.log_difference:.0e})",
            close if checked else None,
            "" if checked else "The solver reported no optimal solution.",
        ),
    ]


def claims_text(found: Sequence[Claim]) -> str:
    """The claims with their verdicts as text for a terminal."""
    lines = [_wrapped(_LEGEND, 0), ""]
    for number, claim in enumerate(found, 1):
        lines.append(_wrapped(f"{number:2d}. {claim.text}", 4))
        lines += [
            _wrapped(f"    {source:7}{result}", 11)
            for source, result in (("paper:", claim.paper), ("here:", claim.ours))
        ]
        lines.append(_wrapped(f"    {claim.verdict}" + (f". {claim.why}" if claim.why else ""), 4))
    n_hold = sum(bool(claim.holds) for claim in found)
    return "\n".join([*lines, "", f"{n_hold} of {len(found)} claims hold."])


def _wrapped(line: str, indent: int) -> str:
    return textwrap.fill(line, 110, subsequent_indent=" " * indent, break_on_hyphens=False)
