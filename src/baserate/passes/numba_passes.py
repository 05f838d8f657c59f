"""Fused passes over blocks of rows, for the losses that have one: a few times the cost of reading the data.

They need numba (``pip install "baserate[fast]"``) and are found automatically; without it NumPy does the same sums to
the last digits. Compiling takes about three seconds, once a machine, and loading what was compiled half a second, once
a process. So small inputs wait for neither: they use what is already there.

The environment variable ``BASERATE_KERNELS`` decides otherwise: ``off`` never uses them, ``always`` does so for small
inputs, too, and demands that numba is installed.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from baserate.engines.base import Block, Sums
from baserate.errors import BadOption, warn
from baserate.inputs.reading import Reading
from baserate.losses.base import Loss, laplacian
from baserate.support.arrays import FloatArray, IndexArray

BLOCK_VALUES = 1 << 19
"""Values of a block that a kernel runs over: a fraction of a millisecond, in which Python is not needed."""

MOST_EASY = 15
"""Passes after which a small problem is not an easy one."""

_WORTH_LOADING = 100_000  # Values from which on an input may wait for the compiler.
_MOST_CURVED = 48  # Classes up to which the kernel sums the curvature; beyond, BLAS does that better.
_VARIABLE = "BASERATE_KERNELS"
_CHOICES = ("auto", "off", "always")

_NONE = np.zeros((0, 0))  # rows or a curvature that nobody asked for

_STEP = ("step", np.dtype(np.float64))
_ready: set[tuple[str, np.dtype[np.generic]]] = set()
"""What this process has loaded or compiled."""


class Climbed(NamedTuple):
    """A small problem, solved."""

    rows: FloatArray
    shift: FloatArray
    passes: int
    before: FloatArray
    offset: float
    squares: float
    """The sum of the squared weights."""
    moved: float
    mean: FloatArray


@dataclass(frozen=True, eq=False)
class Kernel:
    """The fused pass of one loss, as one reading of one kind of rows needs it."""

    loss: Loss
    name: str
    keep: IndexArray
    n_classes: int
    reading: Reading
    dtype: np.dtype[np.generic]

    def takes(self, shift: FloatArray) -> bool:
        """Whether the kernel can do this pass."""
        return self.name != "log" or bool(np.ptp(shift) <= _fused().WIDEST)

    @property
    def wide(self) -> bool:
        """Whether rows are so long that the pass runs along them, and leaves the curvature to BLAS."""
        return self.n_classes > _MOST_CURVED

    def survey_and_reduce(self, block: Block, shift: FloatArray, *, curved: bool) -> tuple[Sums, Sums] | None:
        """What does not depend on the shift, and the sums of the dual; None if a row is not an ordinary prediction."""
        fused = _fused()
        places = self._run(block, shift, fused.SURVEY, curved)
        if places is None:
            return None
        before, mean, curvature, sums = places
        weight = float(block.weights.sum())
        offset = sums[fused.OFFSET] if self.name == "brier" else 0.0
        # The generator at a corner minus the link of the smallest probability, for all rows of the block alike.
        lowest = sums[fused.LOWEST]
        height = 1.0 - 2.0 * (0.0 if sums[fused.ZEROS] else lowest) if self.name == "brier" else -np.log(lowest)
        zeros = sums[fused.ZEROS] if self.name == "log" else 0.0
        survey = (before, offset, zeros, weight * height + offset, block.weights @ block.weights)
        return tuple(np.asarray(value) for value in survey), (sums[fused.VALUE], sums[fused.SIZE], mean, curvature)

    def reduce(self, block: Block, shift: FloatArray, *, curved: bool) -> Sums | None:
        """The sums of the dual."""
        fused = _fused()
        places = self._run(block, shift, 0, curved)
        if places is None:
            return None
        _, mean, curvature, sums = places
        return sums[fused.VALUE], sums[fused.SIZE], mean, curvature

    def write(
        self, block: Block, shift: FloatArray, *, check: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """The adjusted rows, and the sums of their divergence from the predictions and of themselves.

        ``check`` is for rows that no other pass has seen.
        """
        fused = _fused()
        rows = np.empty(block.raw.shape) if block.scratch is None else block.scratch
        places = self._run(block, shift, fused.WRITE | (fused.SURVEY if check else 0), False, rows)
        if places is None:
            return None
        _, mean, _, sums = places
        # For log loss by Fenchel's identity, with conj(link(p)) = 0.
        moved = sums[fused.MOVED] if self.name == "brier" else shift @ mean - sums[fused.VALUE]
        return rows, np.asarray(moved), mean

    @property
    def climbs(self) -> bool:
        """Whether :meth:`climb` is there to be used."""
        return not self.wide and _STEP in _ready

    def climb(self, block: Block, rates: FloatArray, tol: float, relative: float) -> Climbed | None:
        """Solve and write a small problem with exact rates; None if it is not as easy as most."""
        fused, k, brier = _fused(), len(rates), self.name == "brier"
        run, advance = fused.compiled(self.name, self.dtype), fused.compiled_advance()
        rows = np.empty(block.raw.shape) if block.scratch is None else block.scratch
        shift, before, mean, prepared = np.zeros(k), np.zeros(k), np.zeros(k), np.full(k, 0.0 if brier else 1.0)
        edges, work, state, sums = np.zeros((k, k)), np.zeros((k + 3, k)), np.zeros(8), np.zeros(fused.N_SUMS)
        sums[fused.LOWEST], state[4:6] = 2.0, np.inf
        raw, weights, keep, smoothing, tolerance = block.raw, block.weights, self.keep, *self._limits
        todo, passes = fused.SURVEY, 0
        while todo >= 0 and passes < MOST_EASY:
            places = (before, mean, edges, sums, rows)
            if (
                run(raw, weights, prepared, state[7], keep, smoothing, tolerance, fused.LANES, todo, *places)
                != fused.DONE
            ):
                return None
            todo = advance(brier, rates, tol, relative, shift, before, mean, edges, sums, prepared, work, state, todo)
            passes += 1
        if todo != fused.DONE:
            return None
        moved = sums[fused.MOVED] if brier else shift @ mean - sums[fused.VALUE]
        return Climbed(rows, shift, passes, before, float(state[6]), float(weights @ weights), float(moved), mean)

    @property
    def _limits(self) -> tuple[float, float]:
        """What is added to a probability, and how far a row's sum may be from 1."""
        return self.reading.smoothing, np.inf if self.reading.normalize else self.reading.tolerance(self.dtype)

    def _run(
        self, block: Block, shift: FloatArray, todo: int, curved: bool, rows: FloatArray = _NONE
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
        fused, kept = _fused(), len(self.keep)
        before, mean, sums = np.zeros(self.n_classes), np.zeros(kept), np.zeros(fused.N_SUMS)
        edges = _NONE
        if curved and self.wide:
            todo, rows = todo | fused.WRITE, np.empty(block.raw.shape)
        elif curved:
            todo, edges = todo | fused.CURVATURE, np.zeros((kept, kept))
        sums[fused.LOWEST] = 2.0
        stopped = fused.compiled(_pass_name(self.name, self.n_classes), self.dtype)(
            block.raw,
            block.weights,
            *self._prepared(shift),
            self.keep,
            *self._limits,
            fused.LANES,
            todo,
            before,
            mean,
            edges,
            sums,
            rows,
        )
        if stopped != fused.DONE:
            return None
        if curved and self.wide:
            return before, mean, self.loss.jacobian(rows, block.weights), sums
        # The kernel fills what lies below the diagonal.
        return before, mean, laplacian(edges + edges.T) if curved else edges, sums

    def _prepared(self, shift: FloatArray) -> tuple[FloatArray, float]:
        """The shift as the compiled pass wants it: factors and the logarithm that was taken out of them, or halves."""
        if self.name == "brier":
            return 0.5 * shift, 0.0
        centre = 0.5 * float(shift.min() + shift.max())
        return np.exp(shift - centre), centre


def kernel_for(
    loss: Loss, bounded: bool, keep: IndexArray, n_classes: int, reading: Reading, raw: tuple[np.dtype[np.generic], int]
) -> Kernel | None:
    """The kernel for a problem, if there is one and it need not be waited for.

    ``raw`` is the dtype of the rows and the number of their values.
    """
    dtype, n_values = raw
    name = vars(type(loss)).get("kernel")  # its own, not that of a class that it changes
    choice = _choice()
    if choice == "off" or name is None or not bounded or reading.from_logits:
        return None
    if not _has_kernels(dtype):
        return None
    if n_classes > _MOST_CURVED and len(keep) < n_classes:
        return None
    variant = _pass_name(name, n_classes)
    here = (variant, dtype) in _ready
    if not here and not worth_loading(n_values):
        return None
    if not here:
        load(name, n_classes, dtype, all_of_it=choice == "always")
    return Kernel(loss, name, keep, n_classes, reading, dtype)


def load(name: str, n_classes: int, dtype: np.dtype[np.generic], *, all_of_it: bool) -> None:
    """Load or compile what inputs of this kind need.

    The step that small problems take between passes is left for another time if the pass had to be compiled, unless
    ``all_of_it`` is asked for: one wait is enough.
    """
    fused, variant = _fused(), _pass_name(name, n_classes)
    run = fused.compiled(variant, dtype)
    _ready.add((variant, dtype))
    if n_classes <= _MOST_CURVED and (all_of_it or fused.was_cached(run)):
        fused.compiled_advance()
        _ready.add(_STEP)


def prepare(loss: Loss, n_classes: int, dtype: np.dtype[Any], n_values: int) -> None:
    """Load the kernels, if there are any, for many inputs of this kind that have so many values in all."""
    name = vars(type(loss)).get("kernel")
    if name is not None and _has_kernels(dtype) and worth_loading(n_values):
        load(name, n_classes, dtype, all_of_it=True)


def worth_loading(n_values: int) -> bool:
    """Whether so many values may wait for the compiler."""
    choice = _choice()
    if choice == "always" and not _installed():
        raise BadOption(f'{_VARIABLE} is "always", but numba is not there; pip install "baserate[fast]"')
    return choice == "always" or (choice == "auto" and n_values >= _WORTH_LOADING and _installed())


def _has_kernels(dtype: np.dtype[Any]) -> bool:
    return dtype in (np.float32, np.float64) and dtype.isnative


def _pass_name(name: str, n_classes: int) -> str:
    return name if n_classes <= _MOST_CURVED else f"{name} wide"


def _choice() -> str:
    choice = os.environ.get(_VARIABLE, "auto")
    if choice not in _CHOICES:
        raise BadOption(f"the environment variable {_VARIABLE} is {choice!r}; it must be one of {', '.join(_CHOICES)}")
    return choice


@functools.cache
def _installed() -> bool:
    """Whether numba is there and works, tried once."""
    try:
        _fused()
    except Exception as error:  # also one that fails half-way
        if importlib.util.find_spec("numba") is not None:
            warn(RuntimeWarning(f"numba is installed but cannot be imported, so NumPy is used: {error}"))
        return False
    return True


@functools.cache
def _fused() -> ModuleType:
    from baserate.passes import fused_kernels as fused

    return fused
