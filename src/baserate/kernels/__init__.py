"""Fused passes over blocks of rows, for the losses that have one: a few times the cost of reading the data.

They need numba (``pip install "baserate[fast]"``) and are found automatically; without it NumPy does the same sums to
the last digits. Compiling takes a second or two, once a machine, and loading what was compiled half a second, once a
process. So small inputs wait for neither: they use what is already there.

The environment variable ``BASERATE_KERNELS`` decides otherwise: ``off`` never uses them, ``always`` does so for small
inputs, too, and demands that numba is installed.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from baserate.arrays import FloatArray, IndexArray
from baserate.engines.base import Block, Sums
from baserate.errors import BadOption
from baserate.inputs import Reading
from baserate.losses.base import Loss, laplacian

BLOCK_VALUES = 1 << 19
"""Values of a block that a kernel runs over: a fraction of a millisecond, in which Python is not needed."""

_WORTH_LOADING = 100_000  # Values from which on an input may wait for the compiler.
_MOST_CURVED = 48  # Classes up to which the kernel sums the curvature; beyond, BLAS does that better.
_LANES = 64  # Rows of a tile: some vectors long, and in the first-level cache for up to so many classes.
_WIDEST = 600.0  # Spread of a shift beyond which probabilities must stay logarithms.
_VARIABLE = "BASERATE_KERNELS"
_CHOICES = ("auto", "off", "always")

_NONE = np.zeros((0, 0))  # rows or a curvature that nobody asked for

_ready: set[tuple[str, np.dtype[np.generic]]] = set()
"""What this process has loaded or compiled."""


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
        return self.name != "log" or bool(np.ptp(shift) <= _WIDEST)

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
        survey = (before, offset, zeros, weight * height + offset, sums[fused.SQUARES])
        return tuple(np.asarray(value) for value in survey), (sums[fused.VALUE], sums[fused.SIZE], mean, curvature)

    def reduce(self, block: Block, shift: FloatArray, *, curved: bool) -> Sums | None:
        """The sums of the dual."""
        fused = _fused()
        places = self._run(block, shift, 0, curved)
        if places is None:
            return None
        _, mean, curvature, sums = places
        return sums[fused.VALUE], sums[fused.SIZE], mean, curvature

    def write(self, block: Block, shift: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """The adjusted rows, and the sums of their divergence from the predictions and of themselves."""
        fused = _fused()
        rows = np.empty(block.raw.shape) if block.scratch is None else block.scratch
        places = self._run(block, shift, fused.WRITE, False, rows)
        if places is None:
            return None
        _, mean, _, sums = places
        # For log loss by Fenchel's identity, with conj(link(p)) = 0.
        moved = sums[fused.MOVED] if self.name == "brier" else shift @ mean - sums[fused.VALUE]
        return rows, np.asarray(moved), mean

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
            self.reading.smoothing,
            np.inf if self.reading.normalize else self.reading.tolerance(self.dtype),
            _LANES,
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
    if dtype not in (np.float32, np.float64) or not dtype.isnative:
        return None
    if n_classes > _MOST_CURVED and len(keep) < n_classes:
        return None
    variant = _pass_name(name, n_classes)
    here = (variant, dtype) in _ready
    if not here and choice == "auto" and (n_values < _WORTH_LOADING or not _installed()):
        return None
    if not here:
        _fused().compiled(variant, dtype)
        _ready.add((variant, dtype))
    return Kernel(loss, name, keep, n_classes, reading, dtype)


def _pass_name(name: str, n_classes: int) -> str:
    return name if n_classes <= _MOST_CURVED else f"{name} wide"


def _choice() -> str:
    choice = os.environ.get(_VARIABLE, "auto")
    if choice not in _CHOICES:
        raise BadOption(f"the environment variable {_VARIABLE} is {choice!r}; it must be one of {', '.join(_CHOICES)}")
    return choice


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("numba") is not None


@functools.cache
def _fused() -> ModuleType:
    from baserate.kernels import fused

    return fused
