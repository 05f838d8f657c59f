"""The number of usable cores, and a limit of BLAS to one thread."""

from __future__ import annotations

import functools
import os
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _SingleThreadedBlas:
    """A limit of BLAS to one thread.

    The thread that sets the limit also removes it. Other threads that enter meanwhile use the same limit.

    Not a counter over all threads whose last user removes the limit: with threadpoolctl, a thread that has set a limit
    keeps control of OpenBLAS while it lives, and changes by other threads have no effect.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: threading.Thread | None = None
        self._depth = 0
        self._limiter: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._owner is None:
                self._limiter = _controller().limit(limits=1, user_api="blas")
                self._owner = threading.current_thread()
            self._depth += self._owner is threading.current_thread()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._owner is not threading.current_thread():
                return
            self._depth -= 1
            if self._depth == 0:
                self._limiter.restore_original_limits()
                self._owner = None


_blas = _SingleThreadedBlas()


def single_threaded_blas(*, unless: bool = False) -> AbstractContextManager[None]:
    """Limit BLAS to one thread inside a ``with`` block. Several threads may do so at once.

    The threads of BLAS would compete with our own threads for the cores. On matrices of shape (k, k) they wait for each
    other longer than they compute, up to ten times as long on a busy machine. If ``unless`` is true, there is no
    limit; callers pass this for large matrices and for rows on a GPU.
    """
    return nullcontext() if unless else _blas


@functools.cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()  # cached, because it searches all loaded libraries
