"""How kernels are compiled, and kept in numba's cache on disk.

The cache does not notice changes in other files. The names of the compiled functions therefore contain a digest of all
files of this package, parts of which are compiled into them. ``fastmath`` allows sums in any order. It does not allow
the compiler to assume that there are no NaN or infinite values, because the checks look for them.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from importlib import resources
from typing import Any, cast

from numba import njit

from baserate.support.garbage import without_garbage_collection

# Without a function for callers in C, which nobody calls.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}

part = njit(**_OPTIONS)
"""Compile a part of a pass. It is compiled into the passes that call it, and cached with them."""

# Both save time. Without a wrapper for Python, only compiled code may call the part. (numba compiles its own functions
# like this.) ``no_rewrites`` also switches off the removal of dead branches, so no argument may be None.
_FOR_COMPILED_CODE: dict[str, Any] = {"no_cpython_wrapper": True, "no_rewrites": True}

inlined_part = njit(forceinline=True, **_FOR_COMPILED_CODE, **_OPTIONS)
"""The same, always inlined. Otherwise the process that compiles a pass may call a copy of the part that was compiled
separately, and whose last bits differ from those of the cached code.
"""


@functools.cache
def _digest() -> str:
    files = [file for file in resources.files(__package__).iterdir() if file.name.endswith(".py")]
    sources = [file.read_bytes() for file in sorted(files, key=lambda file: file.name)]
    return hashlib.sha256(b"".join(sources)).hexdigest()[:12]


def from_cache_or_compiler(function: Callable[..., Any], signature: tuple[Any, ...]) -> Callable[..., Any]:
    """The function compiled for the types of its arguments, from the cache on disk if it is there."""
    if not function.__qualname__.endswith(_digest()):
        function.__qualname__ = f"{function.__qualname__}_{_digest()}"
    with without_garbage_collection():
        # Without a writable folder, on a full disk or with a damaged file, each process compiles again.
        try:
            dispatcher = njit(cache=True, **_OPTIONS)(function)
            dispatcher.compile(signature)
        except Exception:
            dispatcher = njit(**_OPTIONS)(function)
            dispatcher.compile(signature)
    dispatcher.disable_compile()
    return cast(Callable[..., Any], dispatcher)
