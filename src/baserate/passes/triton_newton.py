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
from baserate.passes.triton_kernels import FINISHED, N_SUMS, n_sums
from baserate.passes.triton_launch import PassInput, device_of, launch_without_waiting
from baserate.passes.triton_step import newton_step
from baserate.support.arrays import FloatArray

_MOST_EVALUATIONS = 5  # Easy problems need 3 to 5. A pass that is launched in vain takes microseconds.
_CORRECTIONS = 2  # Steps after the rows were written, each with the rows written again.

# Positions in the state: the residual of the last evaluation, and how many there were. After them, the shift.
_EVALUATIONS, _SHIFT = 1, 2
_GIVEN_UP = 2.0  # The state of the search in the settings.
_NO_RESIDUAL = 1e-100  # Before the first evaluation.
_COLUMNS = 16  # The classes, rounded up to a power of 2.


class Problem(NamedTuple):
    """Rows, and the rates that they are adjusted to.

    Attributes
    ----------
    data : PassInput
    rows : torch.Tensor of shape (n, k)
        Where the adjusted rows go.
    rates : array of shape (k,)
    weight : float
        What sums over rows have to be multiplied by.
    settings : array
        The settings of the first pass.
    start : array of shape (k,), optional
        The solution for a sample of the rows.
    """

    data: PassInput
    rows: Any
    rates: FloatArray
    weight: float
    settings: FloatArray
    start: FloatArray | None


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
    with device_of(problem.data.raw), np.errstate(all="ignore"):
        passes = _Search.begin(problem, target)
        for i in range(_MOST_EVALUATIONS):
            passes.evaluate(i)
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


class _Search(NamedTuple):
    """A search whose state is on the device. Its methods only launch kernels, except for ``read``."""

    problem: Problem
    memory: Any
    settings: Any
    state: Any
    goal: Any
    lines: Any

    @classmethod
    def begin(cls, problem: Problem, target: Target) -> Self:
        """Copy the problem to the device."""
        k, start = len(problem.rates), problem.start
        n_lines = _MOST_EVALUATIONS + 1
        state = [_NO_RESIDUAL, 0.0, *(np.zeros(k) if start is None else start)]
        goal = [*problem.rates, problem.weight, target.tol, relative_tolerance(target.tol)]
        front = torch.from_numpy(np.concatenate([problem.settings, state, goal]))
        sizes = [len(problem.settings), len(state), len(goal), n_lines * n_sums(k, True)]
        memory = torch.empty(sum(sizes), dtype=torch.float64, device=problem.data.raw.device)
        memory[: len(front)].copy_(front, non_blocking=True)
        settings, on_device, goals, lines = memory.split(sizes)
        return cls(problem, memory, settings, on_device, goals, lines.view(n_lines, -1))

    @property
    def learned(self) -> bool:
        """Whether the curvature at the start serves all steps. That of the Brier score has jumps."""
        return self.problem.start is not None and self.problem.data.loss == "log"

    def evaluate(self, i: int) -> None:
        """Launch evaluation number ``i`` of the dual, and the step that follows from it."""
        curvature = i == 0 or not self.learned
        launch_without_waiting(self.problem.data, self.settings, self.lines[i], survey=i == 0, curvature=curvature)
        self._step(self.lines[i], self.lines[i if curvature else 0], order=2 if curvature else 1)

    def write(self) -> None:
        """Launch the pass that writes the rows."""
        launch_without_waiting(self.problem.data, self.settings, self.lines[-1], self.problem.rows)

    def correct(self, latest: int) -> None:
        """Launch a step from the written rows, with the curvature of the latest evaluation."""
        self.settings[len(self.problem.rates) + FINISHED].zero_()
        self._step(self.lines[-1], self.lines[0 if self.learned else latest], order=1)

    def read(self) -> Found:
        """Wait for the device, and copy shift and sums from it."""
        found, k = self.memory.cpu().numpy(), len(self.problem.rates)
        state = found[len(self.settings) :][: len(self.state)]
        sums = found[-self.lines.numel() :].reshape(self.lines.shape)
        n_passes, given_up = int(state[_EVALUATIONS]) + 1, bool(found[k + FINISHED] == _GIVEN_UP)
        return Found(state[_SHIFT:], n_passes, given_up, sums[0], sums[-1, : n_sums(k, False)])

    def _step(self, line: Any, curved: Any, order: int) -> None:
        k = len(self.problem.rates)
        newton_step[(1,)](
            self.settings, self.state, self.goal, line, curved[N_SUMS + 3 * k :],
            K=k, COLUMNS=_COLUMNS, BRIER=self.problem.data.loss == "brier", ORDER=order, SAFE=SAFETY,
        )  # fmt: skip
