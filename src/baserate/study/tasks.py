"""Adjustment tasks: a prediction set, a shift, and stated class rates that may contain an error.

Every task has its own random seed, derived from the seed of the study and the name of the task. A task is therefore the
same whatever other tasks are run, in which order, and in how many processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from baserate.analysis import shifts
from baserate.errors import ImpossibleShift
from baserate.passes.choice import kernels_for_batches
from baserate.rates import Rates, RatesLike
from baserate.result.record import Result
from baserate.solving import adjusted, prior_adjusted
from baserate.study.runs import PredictionSet, seed_of
from baserate.support.arrays import FloatArray, IndexArray

ERRORS = (0.0, 0.01, -0.01, 0.02, -0.02, 0.04, -0.04, 0.08, -0.08)
"""Errors that are added to the rates of the majority classes."""

AMOUNTS = (0.1, 0.5)
"""The amount of a shift is drawn uniformly from this interval."""


@dataclass(frozen=True, eq=False)
class ShiftedSet:
    """A prediction set after a shift: predictions, true classes, and class rates before and after."""

    kind: str
    amount: float
    probs: FloatArray
    y: IndexArray
    rates: FloatArray
    majority: IndexArray
    training_rates: FloatArray
    distance: float


@dataclass(frozen=True, eq=False)
class Task:
    """Predictions that are adjusted to stated class rates.

    Attributes
    ----------
    shifted : ShiftedSet
    error : float
        The error that was added to the rate of each majority class.
    stated : array of shape (k,)
        The class rates that the adjuster is given.
    width : array of shape (k,)
        Absolute error of each stated rate.
    """

    shifted: ShiftedSet
    error: float
    stated: FloatArray
    width: FloatArray


@dataclass(frozen=True)
class Skipped:
    """A task that is impossible, with the reason."""

    kind: str
    error: float
    reason: str


def shifted_set(data: PredictionSet, kind: str, seed: int) -> ShiftedSet:
    """Apply one shift of a random amount to a prediction set."""
    rng = np.random.default_rng(seed_of(seed, data.name, kind))
    amount = float(rng.uniform(*AMOUNTS))
    shifted = shifts.shift(kind, data.y, data.features, amount, seed=rng)
    return ShiftedSet(
        kind,
        amount,
        data.probs[shifted.rows],
        shifted.y,
        np.bincount(shifted.y, minlength=len(data.classes)) / len(shifted.y),
        np.array(shifted.majority, dtype=np.intp),
        data.training_rates,
        shifted.distance,
    )


def make_task(shifted: ShiftedSet, error: float) -> Task:
    """The task of adjusting a shifted set to rates that contain the error."""
    stated = shifts.misstated(shifted.rates, shifted.majority, error)
    return Task(shifted, error, stated, np.abs(stated - shifted.rates))


def tasks_of(
    data: PredictionSet, seed: int, kinds: Sequence[str] = shifts.KINDS, errors: Sequence[float] = ERRORS
) -> Iterator[Task | Skipped]:
    """Yield one task, or the reason why it is skipped, for each combination of shift and error."""
    for kind in kinds:
        try:
            shifted = shifted_set(data, kind, seed)
        except ImpossibleShift as impossible:
            yield from (Skipped(kind, error, impossible.cause) for error in errors)
            continue
        for error in errors:
            try:
                yield make_task(shifted, error)
            except ImpossibleShift as impossible:
                yield Skipped(kind, error, impossible.cause)


_ALL_TASKS = 1 << 40  # Each adjustment is small, but there are thousands, so that compiled kernels are worth loading.


def _adjust(task: Task, rates: RatesLike, loss: str, *, bounded: bool = True) -> Result:
    kernels = kernels_for_batches(_ALL_TASKS)
    return adjusted(task.shifted.probs, rates, loss=loss, bounded=bounded, kernels=kernels)


def _adjust_to_interval(loss: str) -> Callable[[Task], Result]:
    """An adjuster to the interval of rates that is centred at the stated rates and just contains the true ones."""

    def run(task: Task) -> Result:
        low, high = np.maximum(task.stated - task.width, 0.0), np.minimum(task.stated + task.width, 1.0)
        return _adjust(task, Rates.between(low, high), loss)

    return run


ADJUSTERS: dict[str, Callable[[Task], Result]] = {
    "bga-brier": lambda task: _adjust(task, task.stated, "brier"),
    "bga-log": lambda task: _adjust(task, task.stated, "log"),
    "ppa": lambda task: prior_adjusted(task.shifted.probs, task.shifted.training_rates, task.stated),
    "set-brier": _adjust_to_interval("brier"),
    "set-log": _adjust_to_interval("log"),
    "uga-brier": lambda task: _adjust(task, task.stated, "brier", bounded=False),
}
"""The adjusters that are compared.

From the paper: bounded general adjustment (BGA) for two losses and prior probability adjustment (PPA). In addition: BGA
to a rate set (``set-*``) and unbounded general adjustment (UGA), which for the Brier score is additive.
"""
