"""How many threads do the work, and that BLAS does not start its own beside them."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from typing import Any


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _SingleThreadedBlas:
    """Counts who wants BLAS on one thread: the first sets it, the last gives back what it found."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limiter: Any = None

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._limiter = _controller().limit(limits=1, user_api="blas")

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limiter.restore_original_limits()


_blas = _SingleThreadedBlas()


@contextlib.contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread, also if several threads ask for it at once.

    Beside our own threads its threads would fight for the cores; and on matrices of k x k they wait for each other
    longer than they work, ten times as long on a busy machine.
    """
    _blas.enter()
    try:
        yield
    finally:
        _blas.leave()


@functools.cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()  # looks through all loaded libraries, so once is enough
