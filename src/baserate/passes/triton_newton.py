"""Newton's method on a GPU for easy problems with exact rates: the host waits only once, when the rows are written.

Between two passes, a kernel with one program reads the sums of the last pass and computes the next shift. So the host
can launch all passes without waiting for any. Nothing guards these full Newton steps. The residual of the written rows
shows whether they converged; if not, the problem is left to the general method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from baserate.core.newton import SAFETY, Target, relative_tolerance
from baserate.core.sampling import TOLERANCE
from baserate.passes.triton_kernels import FINISHED, N_SUMS, n_sums
from baserate.passes.triton_launch import PassInput, device_of, launch_without_waiting
from baserate.passes.triton_step import leave_sample, newton_step
from baserate.support.arrays import FloatArray

_MOST_EVALUATIONS = 5  # Easy problems need 3 to 5. A pass that is launched in vain takes microseconds.
_SAMPLE_EVALUATIONS = 7  # Of a sample. Its rows are not written, so there are no corrections.
_CORRECTIONS = 2  # Steps after the rows were written, each with the rows written again.

# Positions in the state: the residual of the last evaluation, and how many there were. After them, the shift.
_RESIDUAL, _EVALUATIONS, _SHIFT = 0, 1, 2
_GIVEN_UP = 2.0  # The state of the search in the settings.
_NO_RESIDUAL = 1e-100  # Before the first evaluation.
_COLUMNS = 16  # The classes, rounded up to a power of 2.


class Rows(NamedTuple):
    """Rows that a search reads, and what sums over them have to be multiplied by."""

    data: PassInput
    weight: float


class Problem(NamedTuple):
    """Rows, and the rates that they are adjusted to.

    Attributes
    ----------
    rows : Rows
    sample : Rows, optional
        Some of the rows, whose solution is the start.
    answer : torch.Tensor of shape (n, k)
        Where the adjusted rows go.
    rates : array of shape (k,)
    settings : array
        The settings of the first pass, whose shift is 0.
    """

    rows: Rows
    sample: Rows | None
    answer: Any
    rates: FloatArray
    settings: FloatArray


class Found(NamedTuple):
    """A shift, and the sums of the passes that led to it, without the weight of the rows.

    Attributes
    ----------
    shift : array of shape (k,)
    n_passes : int
    given_up : bool
        Whether a pass met hard zeros or invalid rows.
    first, written : array
        The sums of the first pass, which checked the rows, and of the last, which wrote them.
    """

    shift: FloatArray
    n_passes: int
    given_up: bool
    first: FloatArray
    written: FloatArray


def search(problem: Problem, target: Target, is_solution: Callable[[FloatArray, FloatArray], bool]) -> Found | None:
    """Write the rows for the shift that leads to the rates; None if full Newton steps do not find it.

    ``is_solution`` says whether a shift, and the sums of the pass that wrote the rows, are a solution.
    """
    # Steps that fail show in the written rows. (Triton's interpreter would warn, since it computes with NumPy.)
    with device_of(problem.rows.data.raw), np.errstate(all="ignore"):
        passes = _Search.begin(problem, target)
        if passes.sample is not None:
            passes.solve_sample(passes.sample)
        for i in range(_MOST_EVALUATIONS):
            passes.evaluate(passes.rows, i, learned=passes.learned)
        passes.write()
        found = passes.read()
        latest = found.n_passes - 2
        for _ in range(_CORRECTIONS):
            if found.given_up or is_solution(found.shift, found.written):
                break
            passes.correct(latest)
            passes.write()
            found = passes.read()
        return found if not found.given_up and is_solution(found.shift, found.written) else None


class _RowsOnDevice(NamedTuple):
    """Rows, the goal of a step (see ``triton_step``), and a line of sums for each pass."""

    data: PassInput
    goal: Any
    lines: Any


class _Search(NamedTuple):
    """A search whose state is on the device. Its methods only launch kernels, except for ``read``."""

    problem: Problem
    memory: Any
    settings: Any
    state: Any
    rows: _RowsOnDevice
    sample: _RowsOnDevice | None

    @classmethod
    def begin(cls, problem: Problem, target: Target) -> Self:
        """Copy the problem to the device."""
        rows, sample, _, rates, settings = problem
        n_lines, state = _MOST_EVALUATIONS + 1, np.zeros(_SHIFT + len(rates))
        state[_RESIDUAL] = _NO_RESIDUAL
        front = [settings, state, _goal(rates, rows.weight, target.tol)]
        if sample is not None:
            front.append(_goal(rates, sample.weight, TOLERANCE))
        sizes = [len(part) for part in front]
        sizes.append(n_lines * n_sums(len(rates), True))
        memory = torch.empty(sum(sizes), dtype=torch.float64, device=rows.data.raw.device)
        memory[: -sizes[-1]].copy_(torch.from_numpy(np.concatenate(front)), non_blocking=True)
        parts = memory.split(sizes)
        lines = parts[-1].view(n_lines, -1)
        of_sample = None
        if sample is not None:
            of_sample = _RowsOnDevice(sample.data, parts[3], lines.new_empty(_SAMPLE_EVALUATIONS, lines.shape[1]))
        return cls(problem, memory, parts[0], parts[1], _RowsOnDevice(rows.data, parts[2], lines), of_sample)

    @property
    def learned(self) -> bool:
        """Whether the curvature at the start serves all steps. That of the Brier score has jumps."""
        return self.sample is not None and self.rows.data.loss == "log"

    def solve_sample(self, sample: _RowsOnDevice) -> None:
        """Launch the search on the sample. If it fails, all further passes are skipped, because the search gives up."""
        for i in range(_SAMPLE_EVALUATIONS):
            self.evaluate(sample, i, learned=False)
        leave_sample[(1,)](self.settings, self.state, K=len(self.problem.rates), NO_RESIDUAL=_NO_RESIDUAL)

    def evaluate(self, rows: _RowsOnDevice, i: int, *, learned: bool) -> None:
        """Launch evaluation number ``i`` of the dual, and the step that follows from it."""
        curvature = i == 0 or not learned
        launch_without_waiting(rows.data, self.settings, rows.lines[i], survey=i == 0, curvature=curvature)
        self._step(rows, rows.lines[i], rows.lines[i if curvature else 0], order=2 if curvature else 1)

    def write(self) -> None:
        """Launch the pass that writes the rows."""
        launch_without_waiting(self.rows.data, self.settings, self.rows.lines[-1], self.problem.answer)

    def correct(self, latest: int) -> None:
        """Launch a step from the written rows, with the curvature of the latest evaluation."""
        self.settings[len(self.problem.rates) + FINISHED].zero_()
        lines = self.rows.lines
        self._step(self.rows, lines[-1], lines[0 if self.learned else latest], order=1)

    def read(self) -> Found:
        """Wait for the device, and copy shift and sums from it."""
        found, k = self.memory.cpu().numpy(), len(self.problem.rates)
        state = found[len(self.settings) :][: len(self.state)]
        sums = found[-self.rows.lines.numel() :].reshape(self.rows.lines.shape)
        n_passes, given_up = int(state[_EVALUATIONS]) + 1, bool(found[k + FINISHED] == _GIVEN_UP)
        return Found(state[_SHIFT:], n_passes, given_up, sums[0], sums[-1, : n_sums(k, False)])

    def _step(self, rows: _RowsOnDevice, line: Any, curved: Any, order: int) -> None:
        k = len(self.problem.rates)
        newton_step[(1,)](
            self.settings, self.state, rows.goal, line, curved[N_SUMS + 3 * k :],
            K=k, COLUMNS=_COLUMNS, BRIER=rows.data.loss == "brier", ORDER=order, SAFE=SAFETY,
        )  # fmt: skip


def _goal(rates: FloatArray, weight: float, tol: float) -> FloatArray:
    """What a step needs to know about some rows."""
    return np.concatenate([rates, [weight, tol, relative_tolerance(tol)]])
