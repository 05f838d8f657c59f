"""The number of usable cores, threads that work on blocks, and a limit of BLAS to one thread."""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

S = TypeVar("S")
T = TypeVar("T")


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def worker_pool(threads: int) -> ThreadPoolExecutor:
    """Threads that work on blocks."""
    # Kept for the next pass: on a busy core a new thread may wait as long for its first turn as a pass takes.
    return ThreadPoolExecutor(threads, thread_name_prefix="baserate")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=worker_pool.cache_clear)  # a child process has the pool, but not its threads


def in_order(pool: ThreadPoolExecutor, task: Callable[[S], T], blocks: Iterator[S], ahead: int) -> Iterator[T]:
    """Run a task on each item in a pool, at most ``ahead`` at a time, and yield the results in order."""
    # Not Executor.map: it would queue every block at once, and hold the results of all that finish early.
    waiting = [pool.submit(task, block) for block in itertools.islice(blocks, ahead)]
    try:
        while waiting:
            yield waiting.pop(0).result()
            waiting.extend(pool.submit(task, block) for block in itertools.islice(blocks, 1))
    finally:  # after an error nothing continues in the background
        for future in waiting:
            future.cancel()
        wait(waiting)


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
