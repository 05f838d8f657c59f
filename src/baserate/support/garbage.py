"""Python's garbage collector."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Switch off the garbage collector, for code that creates many objects that stay.

    Otherwise a tenth of its time is spent looking for garbage. Threads may enter at the same time: the first one that
    entered switches the collector on again when it leaves.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
