"""Who sums the rows.

An engine holds the rows, wherever they are, cuts them into blocks and runs a task on each. It knows nothing of
the maths: tasks come from :mod:`baserate.core.problem`. Two verbs are all that the rest asks of it:

- ``map(task)`` runs a task on every block and yields the answers, in the order of the rows; ``sum(task)`` adds them up;
- ``write(task)`` runs a task that answers ``(rows, sums)``, keeps the rows as the answer, yields the sums.

How long a block should be is the task's business, not the engine's: a task says what it can make use of. An engine that
can also answer ``sample(n)`` saves whole passes: the problem is first solved on a few rows.

Sums over rows are made of the answers by :func:`total`, in block order and with compensation, so that neither the
number of threads nor a billion rows change the last digits.

A task may run in another process, to which it travels with the problem that it belongs to, and that with its engine. So
an engine whose rows are elsewhere is pickled without them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.inputs.reading import NUMBERED, Naming
from baserate.progress import SILENT, Progress
from baserate.support.arrays import CACHED, FloatArray

T = TypeVar("T")
Sums = tuple[FloatArray, ...]


@dataclass(frozen=True)
class Block:
    """Some consecutive rows.

    Attributes
    ----------
    raw : array of shape (m, k)
        The rows as the caller gave them.
    weights : array of shape (m,)
    start : int
        Number of the first row in the whole input.
    scratch : array of shape (m, k), optional
        Space of these rows that survives from task to task, for what is dear to compute anew. An engine that has
        none to give leaves it out.
    """

    raw: NDArray[Any]
    weights: FloatArray
    start: int
    scratch: FloatArray | None = None


class Engine(ABC):
    """Runs tasks over blocks of rows."""

    name: ClassVar[str]
    with_kernels: ClassVar[str]
    """Its name if numba works on its blocks."""
    last_resort: ClassVar[bool] = False
    n_rows: int
    n_classes: int
    weighted: bool
    """Whether rows may have unequal weights."""
    dtype: np.dtype[Any] | None = None
    """What the rows of every block are made of, if it is the same for all."""
    in_memory: ClassVar[bool] = False
    """Whether the rows are at hand, so that what :meth:`write` kept may as well be written again."""
    naming: Naming = NUMBERED
    """What rows and columns are called in messages."""
    progress: Progress = SILENT
    """Who is told how far the work is."""

    @property
    def n_values(self) -> int:
        """How many numbers the rows have; a guess where counting them would cost a pass."""
        return self.n_rows * self.n_classes

    @classmethod
    @abstractmethod
    def open(cls, probs: Any, sample_weight: ArrayLike | None) -> Self | None:
        """An engine on these predictions, or None if they are not of its kind."""

    @abstractmethod
    def map(self, task: Callable[[Block], T], block_values: int = CACHED) -> Iterator[T]:
        """Run a task on every block; the answers come in the order of the rows.

        ``block_values`` is how many values a block should have, for an engine that can choose.
        """

    def sum(self, task: Callable[[Block], Sums], block_values: int = CACHED) -> Sums:
        """Run a task on every block, and add up the answers; where blocks are far away, there."""
        return total(self.map(task, block_values))

    @abstractmethod
    def write(self, task: Callable[[Block], tuple[FloatArray, Sums]], block_values: int = CACHED) -> Iterator[Sums]:
        """Run a task on every block and keep the rows that it answers, in place of any that were kept before."""

    def put_off(self, task: Callable[[Block], tuple[FloatArray, Sums]], block_values: int = CACHED) -> None:
        """Have the rows written of which no sums are wanted: at once, or by an engine that can, when they are."""
        for _ in self.write(task, block_values):
            pass

    @abstractmethod
    def answer(self) -> Any:
        """What :meth:`write` kept."""

    @abstractmethod
    def again(self) -> Self:
        """An engine on the same rows, with an answer of its own."""

    def sample(self, n_rows: int) -> Engine | None:
        """An engine on about so many of the rows, drawn at random but always the same ones.

        None if that would cost a pass. An engine may be able to after its first pass, in which it saw them all.
        """
        return None


def total(parts: Iterable[Sums]) -> Sums:
    """Sum tuples of arrays, one a block, by Neumaier's compensated summation."""
    sums: list[FloatArray] = []
    lost: list[FloatArray] = []
    for part in parts:
        if not sums:
            sums = [np.array(value, dtype=np.float64) for value in part]
            continue
        lost = lost or [np.zeros_like(value) for value in sums]
        for i, value in enumerate(part):
            new = sums[i] + value
            with np.errstate(invalid="ignore"):  # an infinite value is told by the sum itself
                lost[i] += np.where(np.abs(sums[i]) >= np.abs(value), (sums[i] - new) + value, (value - new) + sums[i])
            sums[i] = new
    if not lost:  # one block
        return tuple(sums)
    return tuple(np.where(np.isfinite(value), value + rest, value) for value, rest in zip(sums, lost, strict=True))
