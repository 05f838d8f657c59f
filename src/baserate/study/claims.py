"""The claims of section 4 of the paper, each with the paper's figure, ours, and whether it holds here."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from baserate.study.reference import Comparison
from baserate.study.tables import means, medians, n_tasks

Frame = Any  # a pandas DataFrame

ROUNDING = 1e-12
"""A loss that rises by less has not risen."""

NEAR_ZERO = (1e-3, 1e-2)
"""Mean losses below these before adjustment make a relative reduction a division by almost nothing."""


@dataclass(frozen=True)
class Claim:
    """A claim, what the paper found, what was found here, and why they differ if they do."""

    text: str
    paper: str
    ours: str
    holds: bool
    why: str = ""


def claims(frame: Frame, n_sets: int, comparison: Comparison | None) -> list[Claim]:
    """All claims, judged by the results."""
    exact = frame[frame["error"] == 0]
    found = [
        _size(frame, n_sets),
        _never_rises("BGA for the Brier score at exact rates reduces it in every task", exact, "bga-brier", "brier"),
        _never_rises("BGA for log loss at exact rates reduces it in every task", exact, "bga-log", "log"),
        *(
            _can_rise(f"PPA sometimes raises {name}, even at exact rates", exact, "ppa", m)
            for m, name in _NAMES.items()
        ),
        _beats_ppa(frame, "brier", 15),
        _beats_ppa(frame, "log", 13),
        _still_reduces(frame),
        _can_rise(
            "BGA for log loss, the wrong loss, can raise the Brier score even at exact rates", exact, "bga-log", "brier"
        ),
        _can_rise(
            "Ours: BGA for the Brier score, the wrong loss, can raise log loss even at exact rates",
            exact,
            "bga-brier",
            "log",
            "not stated",
        ),
        _dominated(exact),
        _amount_and_distance(frame),
        _never_rises(
            "Ours: BGA to a set of rates that covers the error never raises the Brier score",
            frame,
            "set-brier",
            "brier",
            ours=True,
        ),
        _never_rises(
            "Ours: BGA to a set of rates that covers the error never raises log loss",
            frame,
            "set-log",
            "log",
            ours=True,
        ),
        _failures(frame),
    ]
    return found + (_compared(comparison) if comparison else [])


_NAMES = {"brier": "the Brier score", "log": "log loss"}


def _size(frame: Frame, n_sets: int) -> Claim:
    tasks = n_tasks(frame)
    return Claim(
        "The claims below rest on so many prediction sets and adjustment tasks",
        "590 sets, 17 527 tasks",
        f"{n_sets} sets, {_number(tasks)} tasks",
        n_sets >= 590 and tasks >= 17_527,
    )


def _never_rises(text: str, frame: Frame, adjuster: str, measure: str, *, ours: bool = False) -> Claim:
    rows = frame[frame["adjuster"] == adjuster]
    fall = rows[f"{measure}_before"] - rows[f"{measure}_after"]
    rose, less = int((fall < -ROUNDING).sum()), int((fall < rows["guaranteed"] - ROUNDING).sum())
    return Claim(
        text,
        "not stated" if ours else "guaranteed (theorem 4)",
        f"{rose} exceptions in {_number(len(rows))} tasks, {less} fell by less than certified",
        rose == 0 and less == 0,
    )


def _can_rise(text: str, frame: Frame, adjuster: str, measure: str, paper: str = "seen") -> Claim:
    rows = frame[frame["adjuster"] == adjuster]
    rose = int((rows[f"{measure}_after"] > rows[f"{measure}_before"] + ROUNDING).sum())
    infinite = int((rows[f"{measure}_after"] == float("inf")).sum())
    more = f", to infinity in {_number(infinite)}" if infinite else ""
    return Claim(text, paper, f"in {_number(rose)} of {_number(len(rows))} tasks{more}", rose > 0)


def _beats_ppa(frame: Frame, measure: str, paper: int) -> Claim:
    """By means, as in the paper; beside it by medians, and without tasks that had almost no loss to begin with."""
    wins, cells = _wins(frame, measure)
    holds = wins >= paper
    return Claim(
        f"BGA reduces {_NAMES[measure]} more than PPA, on average, in {paper} of the 15 cells of the figure",
        f"{paper}/15 cells",
        f"{wins}/{cells} cells",
        holds,
        "" if holds else _why_not(frame, measure, wins, cells),
    )


def _why_not(frame: Frame, measure: str, wins: int, cells: int) -> str:
    before = frame[f"{measure}_before"]
    without = {}
    for least in NEAR_ZERO:
        kept = frame[before >= least]
        names = ", ".join(sorted(frame[before < least]["dataset"].unique()))
        share = 1 - n_tasks(kept) / n_tasks(frame)
        what = f"without the {share:.1%} of tasks whose loss was below {least:g} before" + (
            f" ({names})" if names else ""
        )
        without[what] = _wins(kept, measure)[0]
    reason = "Other data and other models."
    if max(without.values()) > wins:
        reason += (
            " A mean of relative reductions is ruled by tasks that had almost no loss to begin with: where a model is "
            "nearly perfect, rates that are off by a hundredth cost many times what there was."
        )
    median = _wins(frame, measure, by_median=True)[0]
    found = [f"{count}/{cells} {what}" for what, count in without.items()]
    return f"{reason} By medians {median}/{cells}; by means {'; '.join(found)}."


def _wins(frame: Frame, measure: str, *, by_median: bool = False) -> tuple[int, int]:
    """Cells of the figure where BGA does at least as well as PPA, and all cells that have tasks."""
    table = medians if by_median else means
    ahead = table(frame, measure, f"bga-{measure}") - table(frame, measure, "ppa")
    return int((ahead >= 0).to_numpy().sum()), int(ahead.notna().to_numpy().sum())


def _still_reduces(frame: Frame) -> Claim:
    wrong = frame[frame["error"] != 0]
    shares = {
        measure: float((wrong[wrong["adjuster"] == f"bga-{measure}"][f"{measure}_reduction"] > 0).mean())
        for measure in _NAMES
    }
    return Claim(
        "With rates that are off, BGA can raise the loss, but still reduces it more often than not",
        "usually",
        f"reduced in {shares['brier']:.1%} of tasks (Brier) and {shares['log']:.1%} (log)",
        all(0.5 < share < 1 for share in shares.values()),
    )


def _dominated(exact: Frame) -> Claim:
    bounded, unbounded = (
        exact[exact["adjuster"] == name].set_index(["set", "shift"])["brier_after"]
        for name in ("bga-brier", "uga-brier")
    )
    worse = int((bounded > unbounded + ROUNDING).sum())
    return Claim(
        "UGA is dominated by BGA: at exact rates its Brier score is never below BGA's",
        "guaranteed (theorem 4)",
        f"{worse} exceptions in {_number(len(bounded))} tasks",
        worse == 0,
    )


def _amount_and_distance(frame: Frame) -> Claim:
    shifted = frame.drop_duplicates(["set", "shift"])
    correlation = float(shifted["amount"].rank().corr(shifted["distance"].rank()))
    return Claim(
        "The distance between old and new rates is correlated with the amount of the shift, but not determined by it",
        "noted",
        f"rank correlation {correlation:.2f}",
        0 < correlation < 0.99,
    )


def _failures(frame: Frame) -> Claim:
    failed = int((~frame["converged"]).sum())
    return Claim(
        "Ours: no adjustment fails numerically",
        "ECOS failed in 30 of 17 527 tasks",
        f"{failed} of {_number(len(frame))} adjustments failed; most passes {int(frame['passes'].max())}",
        failed == 0,
    )


def _compared(found: Comparison) -> list[Claim]:
    return [
        Claim(
            "PPA here is the formula of Saerens, Latinne and Decaestecker",
            "the definition",
            f"largest difference {found.ppa_difference:.0e} on {found.tasks} random tasks",
            found.ppa_difference < 1e-12,
        ),
        Claim(
            "BGA here is the answer of a convex optimiser",
            "CVXPY",
            f"largest difference {found.brier_difference:.0e} (Brier, {found.brier_checked} tasks) and "
            f"{found.log_difference:.0e} (log, {found.log_checked} tasks that it solved) of {found.tasks} random tasks",
            max(found.brier_difference, found.log_difference) < 1e-5,
        ),
    ]


def _number(value: int) -> str:
    """With thin groups of three digits, as people write large numbers."""
    return f"{value:,}".replace(",", " ")


def text(found: Sequence[Claim]) -> str:
    """For a terminal."""
    lines = []
    for number, claim in enumerate(found, 1):
        verdict = "holds" if claim.holds else "does not hold"
        lines.append(_wrapped(f"{number:2d}. {claim.text}", "    "))
        lines += [f"    {what:7}{found}" for what, found in (("paper:", claim.paper), ("here:", claim.ours))]
        lines.append(_wrapped(f"    {verdict}" + (f". {claim.why}" if claim.why else ""), "    "))
    held = sum(claim.holds for claim in found)
    return "\n".join([*lines, "", f"{held} of {len(found)} claims hold."])


def _wrapped(line: str, indent: str) -> str:
    return textwrap.fill(line, 110, subsequent_indent=indent, break_on_hyphens=False)
