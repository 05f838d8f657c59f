"""Runs cases in processes of one core each, and goes on if one of them hangs or dies."""

from __future__ import annotations

import multiprocessing as mp
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

HANGING = 60.0
"""Seconds after which a case is given up."""

STARTING = 60.0
"""Seconds that the first case of a process may take in addition, for imports and kernels that are compiled."""

ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

Solve = Callable[[int, int], Any]


def serve(pipe: Connection, solve: Solve, seed: int) -> None:
    """Solve the cases that arrive until None arrives."""
    while (case := pipe.recv()) is not None:
        pipe.send(solve(seed, case))


@dataclass
class Worker:
    """A process that works on one case at a time."""

    solve: Solve
    seed: int
    case: int | None = None
    began: float = 0.0
    used: bool = False
    pipe: Connection = field(init=False)
    process: Any = field(init=False)

    def __post_init__(self) -> None:
        # Not a fork: the number of threads is read from the environment when NumPy is imported.
        context = mp.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, self.solve, self.seed), daemon=True)
        self.process.start()
        other.close()

    def start(self, case: int) -> None:
        """Give the process a case."""
        self.case, self.began = case, time.monotonic()
        self.pipe.send(case)

    def overdue(self, limit: float) -> bool:
        """Whether the case takes too long."""
        return time.monotonic() - self.began > (limit if self.used else limit + STARTING)

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


@dataclass
class Lost:
    """A case without an outcome, and why."""

    case: int
    reason: str


def run_cases(
    solve: Solve, seed: int, cases: Iterator[int], workers: int, seconds: float, hanging: float = HANGING
) -> Iterator[Any]:
    """The outcomes of the cases, as they arrive, until all are done or the time is over."""
    os.environ.update(ONE_CORE)
    deadline = time.monotonic() + seconds
    busy = []
    try:
        for _ in range(workers):
            if (case := next(cases, None)) is not None:
                busy.append(Worker(solve, seed))
                busy[-1].start(case)
        while busy:
            ready = wait([worker.pipe for worker in busy], timeout=0.5)
            for worker in list(busy):
                outcome = _outcome(worker, worker.pipe in ready, hanging)
                if outcome is None:
                    continue
                yield outcome
                busy.remove(worker)
                case = next(cases, None) if time.monotonic() < deadline else None
                if isinstance(outcome, Lost) or case is None:
                    worker.stop()
                if case is not None:
                    busy.append(Worker(solve, seed) if isinstance(outcome, Lost) else worker)
                    busy[-1].start(case)
    finally:
        for worker in busy:
            worker.stop()


def _outcome(worker: Worker, ready: bool, hanging: float) -> Any:
    """The outcome of a worker's case, or None while it works on it."""
    assert worker.case is not None
    if ready:
        try:
            outcome = worker.pipe.recv()
        except EOFError:
            worker.process.join()
            return Lost(worker.case, f"the process ended with status {worker.process.exitcode}")
        worker.used = True
        return outcome
    if worker.overdue(hanging):
        return Lost(worker.case, f"no answer after {time.monotonic() - worker.began:.0f} s")
    return None
