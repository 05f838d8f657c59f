"""The claims of the paper about averages, which are decided by intervals over data sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from baserate.study.claims import VERDICTS, Claim
from baserate.study.contrasts import CellCount, Contrast, Decision, diagnosis
from baserate.study.intervals import MIN_DATASETS, Interval, Ratios, rank_correlation
from baserate.study.tables import LOSS_NAMES, format_count, rows_of

Frame = Any  # a pandas DataFrame

_OTHER = {"brier": "log", "log": "brier"}
_NO_TASK = "There is no such task."
_ALMOST_NO_LOSS = (
    "A relative reduction divides by the loss before adjustment, so a data set with almost no loss can outweigh all "
    "others."
)


def beats_ppa_by_means(frame: Frame, measure: str, needed: int) -> Claim:
    """In at least ``needed`` of the 15 cells, BGA has a larger mean relative reduction than PPA."""
    text = f"On average, BGA reduces {LOSS_NAMES[measure]} more than PPA in {needed} of the 15 cells of the figure"
    paper = f"{needed}/15 cells"
    contrast = Contrast.of(frame, measure, f"bga-{measure}", "ppa")
    decide = partial(_by_cells, needed=needed)
    decision = decide(contrast.means)
    cells = CellCount.of(contrast.means).cells
    if cells < 15:
        why = f"Only {cells} of the 15 cells have tasks."
        return Claim(text, paper, decision.ours, None, why)
    why = _why(contrast.means, 0.0, contrast.tasks, decide)
    wins = contrast.wins.over_all_cells()
    beside = (
        f"{_pooled(contrast, 'BGA', 'PPA')}; BGA beats PPA {_by_share(wins).ours} ({_ends(wins.intervals()[0], '.1%')})"
    )
    return Claim(text, paper, *_of(decision, why), beside)


def beats_ppa_with_wrong_rates(frame: Frame, measure: str) -> Claim:
    """With approximate rates, BGA leaves a lower loss than PPA in more than half of the tasks."""
    name = LOSS_NAMES[measure]
    text = f"With wrong rates, BGA for {name} often still reduces {name} more than PPA: in more than half of the tasks"
    contrast = Contrast.of(frame[frame["error"] != 0], measure, f"bga-{measure}", "ppa")
    return _in_most_tasks(contrast, ("BGA", "PPA"), text, "often")


def right_loss_beats_wrong_loss(frame: Frame, measure: str) -> Claim:
    """BGA for the measured loss leaves a lower loss than BGA for the other loss in more than half of the tasks."""
    name, other = LOSS_NAMES[measure], LOSS_NAMES[_OTHER[measure]]
    text = (
        f"The right loss beats the wrong loss: in most tasks, {name} is lower with BGA for it than with BGA for {other}"
    )
    contrast = Contrast.of(frame, measure, f"bga-{measure}", f"bga-{_OTHER[measure]}")
    return _in_most_tasks(contrast, ("the right loss", "the wrong loss"), text, "as expected")


def reduces_with_wrong_rates(frame: Frame, measure: str) -> Claim:
    """With approximate rates, BGA reduces the loss in more than half of the tasks."""
    name = LOSS_NAMES[measure]
    text = f"With wrong rates, BGA for {name} still reduces {name} in more than half of the tasks"
    rows = rows_of(frame[frame["error"] != 0], f"bga-{measure}", measure)
    rows = rows[rows[f"{measure}_before"] > 0]
    if not len(rows):
        return Claim(text, "often", "no such task", None, _NO_TASK)
    before = rows[f"{measure}_before"]
    shares = Ratios.of(rows["dataset"], (rows[f"{measure}_after"] < before).astype(float))
    why = _why(shares, 0.5, rows.assign(before=before), _by_share)
    return Claim(text, "often", *_of(_by_share(shares), why))


def amount_and_distance(frame: Frame) -> Claim:
    """The distance between old and new rates is correlated with the amount of the shift."""
    text = "The distance between old and new rates is correlated with the amount of the shift, but not determined by it"
    shifted = frame.drop_duplicates(["set", "shift"])
    found = rank_correlation(shifted["dataset"], shifted["amount"].to_numpy(), shifted["distance"].to_numpy())
    ours = f"rank correlation {found.value:.2f} over {format_count(len(shifted), 'shifted set')}"
    positive, determined = found.is_above(0.0), found.is_above(0.99)
    holds = False if positive is False or determined else (True if positive and determined is False else None)
    n = shifted["dataset"].nunique()
    why = "" if holds else _sentence(_few(n)) or _sentence(_undecided(holds))
    return Claim(text, "stated", ours, holds, why, _certainty(found, n, ".2f"))


def _in_most_tasks(contrast: Contrast, names: tuple[str, str], text: str, paper: str) -> Claim:
    if not len(contrast.tasks):
        return Claim(text, paper, "no such task", None, _NO_TASK)
    shares = contrast.wins.over_all_cells()
    count = CellCount.of(contrast.means)
    by_means = f"the mean relative reduction is larger for {names[0]} in {count.value}/{count.cells} cells"
    bounds = "" if _few(len(shares.datasets)) else f" (95% interval: {count.low} to {count.high})"
    why = _why(shares, 0.5, contrast.tasks, _by_share)
    return Claim(text, paper, *_of(_by_share(shares), why), f"{by_means}{bounds}; {_pooled(contrast, *names)}")


def _of(decision: Decision, why: str) -> tuple[str, bool | None, str, str]:
    """The fields of a claim from ``ours`` to ``certainty``."""
    return decision.ours, decision.holds, why, decision.certainty


def _by_cells(means: Ratios, *, needed: int) -> Decision:
    count = CellCount.of(means)
    n = len(means.datasets)
    certainty = _few(n) or f"95% interval: {count.low} to {count.high} cells, {format_count(n, 'data set')}"
    holds = True if count.low >= needed else (False if count.high < needed else None)
    return Decision(f"{count.value}/{count.cells} cells", certainty, holds)


def _by_share(shares: Ratios) -> Decision:
    interval = shares.intervals()[0]
    certainty = _certainty(interval, len(shares.datasets), ".1%")
    return Decision(f"in {interval.value:.1%} of tasks", certainty, interval.is_above(0.5))


def _certainty(interval: Interval, n_datasets: int, style: str) -> str:
    return _few(n_datasets) or f"{_ends(interval, style)}, {format_count(n_datasets, 'data set')}"


def _ends(interval: Interval, style: str) -> str:
    if np.isnan(interval.low):
        return "no interval"
    return f"95% interval: {interval.low:{style}} to {interval.high:{style}}"


def _few(n_datasets: int) -> str:
    """Why there is no interval; empty if there is one."""
    if n_datasets >= MIN_DATASETS:
        return ""
    return f"no interval: {format_count(n_datasets, 'data set')}, and at least {MIN_DATASETS} are needed"


def _pooled(contrast: Contrast, first: str, second: str) -> str:
    """What the adjusters do to the pooled loss."""
    reductions = zip((first, second), contrast.pooled_reductions(), strict=True)
    text = "the pooled loss " + " and ".join(f"{_change(value)} with {name}" for name, value in reductions)
    difference = contrast.pooled.over_all_cells().intervals()[0]
    if not np.isfinite(difference.value):
        return text
    return f"{text} (difference {difference.value:.1%}; {_ends(difference, '.1%')})"


def _change(reduction: float) -> str:
    if not np.isfinite(reduction):
        return "becomes infinite"
    return f"{'falls' if reduction >= 0 else 'rises'} by {abs(reduction):.1%}"


def _why(ratios: Ratios, threshold: float, tasks: Frame, decide: Callable[[Ratios], Decision]) -> str:
    """Why a claim does not hold or is undecided: the data sets with the largest share of the statistic."""
    decision = decide(ratios)
    if decision.holds:
        return ""
    few = _few(len(ratios.datasets))
    if few:
        return _sentence(few)
    sentences = [_sentence(_undecided(decision.holds))]
    typical = float(tasks["before"].median())
    for number, found in enumerate(diagnosis(ratios, threshold, tasks, decide)):
        left = " that is left" if number else ""
        sentences.append(
            f"{found.dataset} has {found.share:.1%} of the statistic{left}. Its loss before adjustment has the median "
            f"{found.median_loss:.2g} and the minimum {found.smallest_loss:.1g}, while the median of all tasks "
            f"is {typical:.2g}."
        )
        # Only means of relative reductions, which are compared with 0, depend on the loss before adjustment.
        if threshold == 0 and number == 0 and found.share > 0.5 and found.smallest_loss < typical / 10:
            sentences.append(_ALMOST_NO_LOSS)
        result, too = found.result, " too" if number else ""
        sentences.append(f"Without it{too}: {result.ours}, {result.certainty}, {VERDICTS[result.holds]}.")
    return " ".join(sentences)


def _undecided(holds: bool | None) -> str:
    return "the interval does not decide it" if holds is None else "the interval contradicts it"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""
