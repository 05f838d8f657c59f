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
    """The thread that sets the limit is the one that takes it back; others go along with it meanwhile.

    One count for all threads, with the last one to leave taking it back, would be simpler; but threadpoolctl lets a
    thread that has set a limit control OpenBLAS for as long as it lives, and does not listen to others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: threading.Thread | None = None
        self._depth = 0
        self._limiter: Any = None

    def enter(self) -> None:
        with self._lock:
            if self._owner is None:
                self._limiter = _controller().limit(limits=1, user_api="blas")
                self._owner = threading.current_thread()
            self._depth += self._owner is threading.current_thread()

    def leave(self) -> None:
        with self._lock:
            if self._owner is not threading.current_thread():
                return
            self._depth -= 1
            if self._depth == 0:
                self._limiter.restore_original_limits()
                self._owner = None


_blas = _SingleThreadedBlas()


@contextlib.contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread, also if several threads ask for it at once; afterwards it is as it was.

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
