"""Two adjusters compared in the same tasks, in three ways, and the data set that matters most in a comparison.

The paper compares means of relative reductions. A relative reduction divides by the loss before adjustment, so that a
task with almost no loss can outweigh all others. Two more statistics do not have this weakness: the sum of the losses
of all tasks (the pooled loss), and the share of tasks in which one adjuster leaves a lower loss than the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from baserate.study.intervals import Ratios
from baserate.study.tables import ABSOLUTE_ERRORS, ROUNDING, SIZES, rows_of

Frame = Any  # a pandas DataFrame

CELLS = tuple((size, off) for size in SIZES for off in ABSOLUTE_ERRORS)
"""The cells of the paper's figures: thirds of the shifted sets, and absolute errors of the stated rates."""

_TASK = ["set", "shift", "error"]
_MAX_LEFT_OUT = 3


class CellCount(NamedTuple):
    """The number of cells in which a statistic is above 0.

    ``low`` and ``high`` are the smallest and largest number that the intervals allow, ``cells`` is the number of cells
    with tasks.
    """

    value: int
    low: int
    high: int
    cells: int

    @classmethod
    def of(cls, ratios: Ratios) -> CellCount:
        intervals = [interval for interval in ratios.intervals() if not np.isnan(interval.value)]
        decided = [interval.is_above(0.0) for interval in intervals]
        above = sum(interval.value > 0 for interval in intervals)
        return cls(above, decided.count(True), len(decided) - decided.count(False), len(decided))


@dataclass(frozen=True, eq=False)
class Contrast:
    """Two adjusters, compared by one loss.

    Every statistic is positive, or above one half, if the first adjuster is better.

    Attributes
    ----------
    tasks : DataFrame
        One row per task that both adjusters solved: ``dataset``, ``cell``, and the losses ``before`` adjustment and
        after the ``first`` and the ``second`` adjuster.
    """

    tasks: Frame

    @classmethod
    def of(cls, frame: Frame, measure: str, first: str, second: str) -> Contrast:
        """Compare two adjusters in all tasks of the results that belong to a cell."""
        before, after = f"{measure}_before", f"{measure}_after"
        cell = {key: number for number, key in enumerate(CELLS)}
        one = rows_of(frame, first, measure)[[*_TASK, "dataset", "size", "off", before, after]]
        other = rows_of(frame, second, measure)[[*_TASK, after]]
        tasks = one.merge(other.rename(columns={after: "second"}), on=_TASK)
        tasks = tasks.rename(columns={before: "before", after: "first"})
        numbers = [cell.get(key, -1) for key in zip(tasks["size"], tasks["off"], strict=True)]
        tasks = tasks.assign(cell=np.array(numbers, dtype=int))
        return cls(tasks[tasks["cell"] >= 0])

    @cached_property
    def means(self) -> Ratios:
        """The paper's statistic: the difference of the mean relative reductions in each cell."""
        tasks = self.tasks[self.tasks["before"] > 0]
        difference = (tasks["second"] - tasks["first"]) / tasks["before"]
        return Ratios.of(tasks["dataset"], difference, cells=tasks["cell"], n_cells=len(CELLS))

    @cached_property
    def pooled(self) -> Ratios:
        """The difference of the pooled losses in each cell, divided by the pooled loss before adjustment."""
        tasks = self.tasks
        return Ratios.of(
            tasks["dataset"], tasks["second"] - tasks["first"], tasks["before"], cells=tasks["cell"], n_cells=len(CELLS)
        )

    @cached_property
    def wins(self) -> Ratios:
        """The share of tasks in each cell in which the first adjuster leaves a lower loss; ties count one half."""
        first, second = self.tasks["first"].to_numpy(), self.tasks["second"].to_numpy()
        lower, higher = first < second - ROUNDING, second < first - ROUNDING
        return Ratios.of(
            self.tasks["dataset"], (1.0 + lower - higher) / 2, cells=self.tasks["cell"], n_cells=len(CELLS)
        )

    def pooled_reductions(self) -> tuple[float, float]:
        """How much each adjuster reduces the sum of the losses of all tasks, relative to the sum before."""
        sums = self.tasks[["before", "first", "second"]].sum()
        first, second = (float(1 - sums[name] / sums["before"]) for name in ("first", "second"))
        return first, second


class Decision(NamedTuple):
    """What a statistic is, how sure that is, and whether a claim about it holds; None if it is undecided."""

    ours: str
    certainty: str
    holds: bool | None


class LeftOut(NamedTuple):
    """A data set that was left out to find the cause of a result.

    Its share of the statistic, its median and smallest loss before adjustment, and the result without it.
    """

    dataset: str
    share: float
    median_loss: float
    smallest_loss: float
    result: Decision


def diagnosis(
    ratios: Ratios, threshold: float, tasks: Frame, decide: Callable[[Ratios], Decision]
) -> Iterator[LeftOut]:
    """Leave out the data set with the largest share of a statistic, and yield what the statistic is without it.

    This is repeated for up to three data sets, as long as the next one outweighs all others together.
    """
    losses = tasks.groupby("dataset")["before"].agg(["median", "min"])
    for number in range(_MAX_LEFT_OUT):
        dataset, share = ratios.largest_share(threshold)
        if number and share <= 0.5:
            return
        ratios = ratios.without(dataset)
        if not len(ratios.datasets):
            return
        result = decide(ratios)
        median, smallest = losses.loc[dataset]
        yield LeftOut(dataset, share, float(median), float(smallest), result)
        if result.holds:
            return
