"""Adjustment tasks: a prediction set, a shift, and rates that are stated with an error.

All that is random in a task comes from a seed of its own, made of the study's seed and the task's name, so that a task
is the same whatever else is run, in which order and in how many processes.
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
"""Errors in the rates of the majority classes."""

AMOUNTS = (0.1, 0.5)
"""The amount of a shift is uniform between these."""


@dataclass(frozen=True, eq=False)
class ShiftedSet:
    """A prediction set after a shift: predictions, true classes, and how the class rates changed."""

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
    """Predictions to adjust to stated rates that may be off by a known amount.

    Attributes
    ----------
    shifted : ShiftedSet
    error : float
        What was added to the rate of each majority class.
    stated : array of shape (k,)
        The rates that the adjuster is told.
    width : array of shape (k,)
        By how much each of them is off, without the sign.
    """

    shifted: ShiftedSet
    error: float
    stated: FloatArray
    width: FloatArray


@dataclass(frozen=True)
class Skipped:
    """A task that cannot be made, and why."""

    kind: str
    error: float
    reason: str


def shifted_set(data: PredictionSet, kind: str, seed: int) -> ShiftedSet:
    """The prediction set after one shift of a random amount."""
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


def task(shifted: ShiftedSet, error: float) -> Task:
    """The task to adjust a shifted set to rates with this error."""
    stated = shifts.misstated(shifted.rates, shifted.majority, error)
    return Task(shifted, error, stated, np.abs(stated - shifted.rates))


def tasks_of(
    data: PredictionSet, seed: int, kinds: Sequence[str] = shifts.KINDS, errors: Sequence[float] = ERRORS
) -> Iterator[Task | Skipped]:
    """All tasks of a prediction set, and what had to be skipped, one entry a combination of shift and error."""
    for kind in kinds:
        try:
            shifted = shifted_set(data, kind, seed)
        except ImpossibleShift as obstacle:
            yield from (Skipped(kind, error, obstacle.cause) for error in errors)
            continue
        for error in errors:
            try:
                yield task(shifted, error)
            except ImpossibleShift as obstacle:
                yield Skipped(kind, error, obstacle.cause)


_ALL_TASKS = 1 << 40  # Each adjustment is small, but there are thousands, so that compiled kernels are worth loading.


def _adjust(given: Task, rates: RatesLike, loss: str, *, bounded: bool = True) -> Result:
    kernels = kernels_for_batches(_ALL_TASKS)
    return adjusted(given.shifted.probs, rates, loss=loss, bounded=bounded, kernels=kernels)


def _to_set(loss: str) -> Callable[[Task], Result]:
    """Adjust to all rates as far from the stated ones as these are from the truth, on either side."""

    def run(given: Task) -> Result:
        low, high = np.maximum(given.stated - given.width, 0.0), np.minimum(given.stated + given.width, 1.0)
        return _adjust(given, Rates.between(low, high), loss)

    return run


ADJUSTERS: dict[str, Callable[[Task], Result]] = {
    "bga-brier": lambda given: _adjust(given, given.stated, "brier"),
    "bga-log": lambda given: _adjust(given, given.stated, "log"),
    "ppa": lambda given: prior_adjusted(given.shifted.probs, given.shifted.training_rates, given.stated),
    "set-brier": _to_set("brier"),
    "set-log": _to_set("log"),
    "uga-brier": lambda given: _adjust(given, given.stated, "brier", bounded=False),
}
"""The paper's three adjusters, and ours: BGA to a set of rates, and unbounded (additive) adjustment."""
