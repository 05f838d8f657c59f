"""The compiled passes for rates per group, for each loss and dtype."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import from_dtype, types

from baserate.passes.kernels.cells import cell_brier_pass, cell_log_pass, count_cells, place_rows
from baserate.passes.kernels.compiler import from_cache_or_compiler
from baserate.passes.kernels.groups import sweep


def _vectors(readonly: bool, dimensions: int, item: Any = types.float64, layout: Any = "C") -> Any:
    return types.Array(item, dimensions, layout, readonly=readonly)


@functools.cache
def compiled_pass(name: str, dtype: np.dtype[Any], answer_dtype: np.dtype[Any]) -> Callable[..., int]:
    """The compiled cell pass of a loss, for the dtypes of predictions and adjusted rows."""
    signature = (
        _vectors(True, 2, from_dtype(dtype), "A"),
        _vectors(True, 1),
        _vectors(True, 1, types.int64),
        *(_vectors(True, 2), _vectors(True, 1), types.float64, types.float64, types.intp),
        *(_vectors(False, 2), _vectors(False, 2), _vectors(False, 3), _vectors(False, 2)),
        _vectors(False, 2, from_dtype(answer_dtype), "A"),
        types.none if answer_dtype == np.float64 else _vectors(False, 2),
    )
    return from_cache_or_compiler(cell_log_pass if name == "log" else cell_brier_pass, signature)


@functools.cache
def compiled_sort() -> tuple[Callable[..., int], Callable[..., int]]:
    """The two compiled parts of a sort by counting."""
    fixed, vector = _vectors(True, 1, types.int64), _vectors(False, 1, types.int64)
    count = from_cache_or_compiler(count_cells, (fixed, vector))
    return count, from_cache_or_compiler(place_rows, (fixed, types.int64, vector, vector))


@functools.cache
def compiled_sweep(dtype: np.dtype[Any], answer_dtype: np.dtype[Any]) -> Callable[..., Any]:
    """The compiled solver of many groups, for the dtypes of predictions and adjusted rows."""
    signature = (
        types.boolean,
        _vectors(True, 2, from_dtype(dtype), "A"),
        *(_vectors(True, 1), _vectors(True, 1, types.int64), _vectors(True, 1, types.int64)),
        *(_vectors(False, 1, types.boolean), _vectors(True, 2), types.float64, types.float64, _vectors(True, 1)),
        *(types.float64, types.float64, types.intp, types.boolean),
        *(_vectors(False, 2), _vectors(False, 2), _vectors(False, 2), _vectors(False, 2), _vectors(False, 1)),
        _vectors(False, 1, types.int64),
        _vectors(False, 2, from_dtype(answer_dtype), "A"),
        types.none if answer_dtype == np.float64 else _vectors(False, 2),
    )
    return from_cache_or_compiler(sweep, signature)
