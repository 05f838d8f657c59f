"""The compiled passes and Newton's step for each loss and dtype."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import from_dtype, types

from baserate.passes.kernels.brier import brier_pass
from baserate.passes.kernels.compiler import from_cache_or_compiler
from baserate.passes.kernels.log import log_pass
from baserate.passes.kernels.newton import advance
from baserate.passes.kernels.wide import wide_brier_pass, wide_log_pass
from baserate.passes.kernels.wide_curvature import (
    wide_brier_diagonal,
    wide_brier_product,
    wide_log_diagonal,
    wide_log_product,
)

PASSES = {"log": log_pass, "brier": brier_pass, "log wide": wide_log_pass, "brier wide": wide_brier_pass}

PRODUCTS = {"log": wide_log_product, "brier": wide_brier_product}
DIAGONALS = {"log": wide_log_diagonal, "brier": wide_brier_diagonal}


@functools.cache
def compiled_pass(name: str, dtype: np.dtype[Any], answer_dtype: np.dtype[Any]) -> Callable[..., int]:
    """The compiled pass for a loss and the dtypes of predictions and adjusted rows, from the cache if it is there.

    One signature is used for all memory layouts, also of read-only arrays. A signature per layout would save less time
    than the second that each additional compilation takes.
    """
    table, vector = types.Array(types.float64, 2, "C"), types.Array(types.float64, 1, "C")
    signature = (
        types.Array(from_dtype(dtype), 2, "A", readonly=True),
        types.Array(types.float64, 1, "C", readonly=True),
        types.Array(types.float64, 1, "C", readonly=True),
        types.float64,
        types.Array(types.intp, 1, "C", readonly=True),
        *(types.float64, types.float64, types.intp),
        *(vector, vector, table, vector, types.Array(from_dtype(answer_dtype), 2, "A")),
        types.none if answer_dtype == np.float64 else vector,
    )
    return from_cache_or_compiler(PASSES[name], signature)


@functools.cache
def compiled_product(name: str, dtype: np.dtype[Any]) -> Callable[..., None]:
    """The compiled product with the curvature for a loss and the dtype of predictions, in row-major order.

    Only then are its loops vectorized. They read the predictions themselves, where other passes read a copy of a row.
    """
    fixed, vector = types.Array(types.float64, 1, "C", readonly=True), types.Array(types.float64, 1, "C")
    raw = types.Array(from_dtype(dtype), 2, "C", readonly=True)
    return from_cache_or_compiler(PRODUCTS[name], (raw, fixed, fixed, fixed, types.float64, vector))


@functools.cache
def compiled_diagonal(name: str, dtype: np.dtype[Any]) -> Callable[..., int]:
    """The compiled pass for the diagonal of the curvature, in the same way."""
    fixed, vector = types.Array(types.float64, 1, "C", readonly=True), types.Array(types.float64, 1, "C")
    raw, number = types.Array(from_dtype(dtype), 2, "C", readonly=True), types.float64
    return from_cache_or_compiler(DIAGONALS[name], (raw, fixed, fixed, number, number, vector, vector, vector))


@functools.cache
def compiled_advance() -> Callable[..., int]:
    """The compiled function ``advance``, from the cache on disk if it is there."""
    vector, table, fixed = types.float64[::1], types.float64[:, ::1], types.Array(types.float64, 1, "C", readonly=True)
    signature = (
        *(types.boolean, fixed, fixed, types.float64, types.float64),
        *(vector, vector, vector, table, vector, vector, table, vector, types.intp),
    )
    return from_cache_or_compiler(advance, signature)
