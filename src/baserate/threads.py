"""How many threads do the work, and that BLAS does not start its own beside them."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread.

    Beside our own threads its threads would fight for the cores; and on matrices of k x k they wait for each other
    longer than they work, a hundred times as long on a busy machine.
    """
    with _controller().limit(limits=1, user_api="blas"):
        yield


@functools.cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()  # looks through all loaded libraries, so once is enough
