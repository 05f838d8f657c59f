"""The claims of section 4 of the paper, in its order, and the verdicts on those that are about every single task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from baserate.study.average_claims import (
    amount_and_distance,
    beats_ppa_by_means,
    beats_ppa_with_wrong_rates,
    reduces_with_wrong_rates,
    right_loss_beats_wrong_loss,
)
from baserate.study.claims import Claim
from baserate.study.reference import Comparison
from baserate.study.tables import LOSS_NAMES, ROUNDING, format_count, format_integer, n_tasks, rows_of

Frame = Any  # a pandas DataFrame

_PROVED, _NOT_STATED = "guaranteed (theorem 4)", "not stated"
_EVERY_TASK = "a theorem; every task was checked"
_NO_TASK = "There is no such task."

_SOURCES = {
    "size": '4.1: "590 sets of predictions"; "In total, we recorded results for 17527 adjustment tasks"',
    "guarantee": '4.2: "Due to guaranteed reduction in loss the left sides of violins are all above 0."',
    "ppa increases brier": '4.2: "PPA can be seen to sometimes increase the loss"',
    "ppa increases log": '4.2: "Similar patterns of results can be seen in the right subfigure of Figure 1"',
    "means of brier": (
        '4.2: "BGA adjustment can sometimes increase the loss as well, but is on average still reducing loss more than '
        'PPA in all of the violin plots."'
    ),
    "means of log": '4.2: "mean proportional reduction of loss by BGA is higher than by PPA in 13 out of 15 cases"',
    "reduces": (
        'abstract: "when in practice the class distribution is known only approximately, there is often still a '
        'reduction in loss"'
    ),
    "beats ppa": (
        '5, conclusion: "BGA adjustment to an approximated class distribution often still reduces loss more than prior '
        'probability adjustment."'
    ),
    "wrong loss": (
        '4.2: "BGA aiming to reduce the wrong loss (log-loss) can actually increase loss (Brier score), even if the '
        'class distribution is known exactly."'
    ),
    "right loss": (
        '4.2: "Therefore, as expected, it is important to adjust by minimising the same divergence that is going to be '
        'used to test the method."'
    ),
    "bounded": '4.1: "UGA is dominated by BGA"',
    "amount": '4.2: "correlated to the shift amount parameter [epsilon], but not determined by it"',
    "failures": '4.1: "under rare conditions the optimizers could numerically fail, occurred 30 times out of 17527"',
}
"""Where the paper states a claim: the section, and its words."""


def paper_claims(frame: Frame, n_sets: int, comparison: Comparison | None) -> list[Claim]:
    """Decide all claims by the results of a study with ``n_sets`` prediction sets."""
    exact = frame[frame["error"] == 0]
    found = [("size", _size(frame, n_sets))]
    for measure, name in LOSS_NAMES.items():
        text = f"With exact rates, BGA for {name} reduces {name} in every task"
        found.append(("guarantee", _never_increases(text, _PROVED, rows_of(exact, f"bga-{measure}", measure), measure)))
    for measure, name in LOSS_NAMES.items():
        text = f"PPA sometimes increases {name}, even with exact rates"
        claim = _can_increase(text, "observed", rows_of(exact, "ppa", measure), measure)
        found.append((f"ppa increases {measure}", claim))
    found += [
        (f"means of {name}", beats_ppa_by_means(frame, name, of_15)) for name, of_15 in (("brier", 15), ("log", 13))
    ]
    found += [("reduces", reduces_with_wrong_rates(frame, measure)) for measure in LOSS_NAMES]
    found += [("beats ppa", beats_ppa_with_wrong_rates(frame, measure)) for measure in LOSS_NAMES]
    text = "BGA for log loss can increase the Brier score, even with exact rates"
    found.append(("wrong loss", _can_increase(text, "observed", rows_of(exact, "bga-log", "brier"), "brier")))
    text = "New: BGA for the Brier score can increase log loss, even with exact rates"
    found.append(("new", _can_increase(text, _NOT_STATED, rows_of(exact, "bga-brier", "log"), "log")))
    found += [("right loss", right_loss_beats_wrong_loss(frame, measure)) for measure in LOSS_NAMES]
    found += [("bounded", _bounded_beats_unbounded(exact)), ("amount", amount_and_distance(frame))]
    for measure, name in LOSS_NAMES.items():
        text = f"New: BGA to a rate set that contains the true rates never increases {name}"
        rows = rows_of(frame, f"set-{measure}", measure)
        found.append(("new", _never_increases(text, _NOT_STATED, rows, measure)))
    found.append(("failures", _failures(frame)))
    found += [("new", claim) for claim in (_agreement(comparison) if comparison else [])]
    return [replace(claim, source=_SOURCES.get(key, "")) for key, claim in found]


def _size(frame: Frame, n_sets: int) -> Claim:
    tasks = n_tasks(frame)
    holds = n_sets >= 590 and tasks >= 17_527
    return Claim(
        "The claims are tested on at least as many prediction sets and tasks as in the paper",
        "590 sets, 17 527 tasks",
        f"{format_count(n_sets, 'set')}, {format_count(tasks, 'task')}",
        holds,
        "" if holds else "This corpus is smaller.",
        "counted",
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
    return Claim(text, paper, ours, holds, "" if holds else "This contradicts the theorem.", _EVERY_TASK)


def _can_increase(text: str, paper: str, rows: Frame, measure: str) -> Claim:
    after = rows[f"{measure}_after"]
    increased, infinite = after > rows[f"{measure}_before"] + ROUNDING, int(np.isinf(after).sum())
    more = f", to infinity in {format_integer(infinite)}" if infinite else ""
    ours = f"in {format_integer(int(increased.sum()))} of {format_count(len(rows), 'task')}{more}"
    if not increased.any():
        return Claim(text, paper, ours, None, "It did not occur in these tasks.")
    where = rows[increased]["dataset"].nunique()
    certainty = f"one task is enough; it occurred in {where} of {format_count(rows['dataset'].nunique(), 'data set')}"
    return Claim(text, paper, ours, True, certainty=certainty)


def _bounded_beats_unbounded(exact: Frame) -> Claim:
    text = "With exact rates, UGA never has a lower Brier score than BGA"
    bounded, unbounded = (
        rows_of(exact, name, "brier").set_index(["set", "shift"])["brier_after"] for name in ("bga-brier", "uga-brier")
    )
    worse = int((bounded > unbounded + ROUNDING).sum())
    ours = f"{format_count(worse, 'exception')} in {format_count(len(bounded), 'task')}"
    if not len(bounded):
        return Claim(text, _PROVED, ours, None, _NO_TASK)
    why = "This contradicts the theorem." if worse else ""
    return Claim(text, _PROVED, ours, worse == 0, why, _EVERY_TASK)


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
        "every adjustment was checked",
    )


def _agreement(found: Comparison) -> list[Claim]:
    checked = min(found.brier_checked, found.log_checked)
    sample = "a random sample of the tasks was checked"
    close = max(found.brier_difference, found.log_difference) < 1e-5
    return [
        Claim(
            "PPA of this package equals the formula of Saerens, Latinne and Decaestecker",
            "by definition",
            f"largest difference {found.ppa_difference:.0e} in {format_count(found.tasks, 'random task')}",
            found.ppa_difference < 1e-12,
            certainty=sample,
        ),
        Claim(
            "BGA of this package equals the solution of a convex solver",
            "CVXPY",
            f"of {format_count(found.tasks, 'random task')}, the solver solved {found.brier_checked} for the Brier "
            f"score (largest difference {found.brier_difference:.0e}) and {found.log_checked} for log loss "
            f"({found.log_difference:.0e})",
            close if checked else None,
            "" if checked else "The solver reported no optimal solution.",
            sample,
        ),
    ]
