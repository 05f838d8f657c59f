"""How the Triton kernels are launched: their options, the number of programs, and where their sums go."""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from baserate.passes import triton_kernels, triton_products, triton_wide
from baserate.passes.triton_kernels import n_sums
from baserate.support.arrays import FloatArray

MOST_CURVED = 12
"""Most classes of a row that fit in one lane with the curvature."""

_MOST_PER_LANE = 16  # Without it.
_TILE_VALUES = 128  # Values of a tile for more classes.
_LANE_COLUMNS, _WRITTEN_COLUMNS = 32, 16  # The columns that a lane holds at most; fewer where rows are written.
_SCALED_VALUES = 1 << 26  # Values in float64 that are stored at a time for the curvature of many classes: 512 MiB.
_PROGRAMS_PER_CORE = 32  # Enough to hide the latency of memory, and few enough that adding up their sums costs little.
_LEAST_TILES = 8  # Tiles per program; for fewer, adding up the sums of its lanes would take longer than the rows.
_INTERPRETED_BLOCK = 1024  # The interpreter takes as long for many lanes as for few.


class PassInput(NamedTuple):
    """What a pass reads.

    Attributes
    ----------
    loss : "log" or "brier"
    raw : torch.Tensor of shape (n, k)
    weights : torch.Tensor of shape (n,), or None if each row counts 1
    are_logits : bool
    are_smoothed : bool
        Whether something is added to every probability.
    """

    loss: str
    raw: Any
    weights: Any
    are_logits: bool = False
    are_smoothed: bool = False


class _Tile(NamedTuple):
    """The shape of a tile for many classes, and the warps of its program."""

    columns: int
    rows: int
    warps: int


def launch(
    data: PassInput,
    settings: FloatArray,
    rows: Any = None,
    *,
    survey: bool = False,
    curvature: bool = False,
    diagonal: bool = False,
) -> FloatArray:
    """Run a pass, and wait for its sums. Without ``rows`` nothing is written.

    Returns
    -------
    array of shape (N_SUMS + 3k,), and after it what was asked for of the curvature
        Edge weights, those below the diagonal or all k * k; or the k numbers of the diagonal.
    """
    if diagonal or not _fits_a_lane(data.raw.shape[1], curvature):
        return _wait_for(_launch_wide, data, settings, rows, survey, curvature, diagonal)
    return _wait_for(_launch_per_lane, data, settings, rows, survey, curvature)


def launch_product(data: PassInput, settings: FloatArray, vector: FloatArray) -> FloatArray:
    """The curvature times a vector, for many classes, and then the number of rows that the kernel cannot compute."""
    return _wait_for(_launch_product, data, np.concatenate([settings, vector]))


def _wait_for(run: Callable[..., Any], data: PassInput, settings: FloatArray, *options: Any) -> FloatArray:
    """What a kernel returns, as a NumPy array."""
    on_device = torch.from_numpy(settings).to(data.raw.device, non_blocking=True)
    with device_of(data.raw):
        found: FloatArray = run(data, on_device, *options).cpu().numpy()
    return found


def launch_without_waiting(
    data: PassInput, settings: Any, line: Any, rows: Any = None, *, survey: bool = False, curvature: bool = False
) -> None:
    """Run a pass with settings that are on the device, and put its sums into ``line``. A lane must hold a row."""
    _launch_per_lane(data, settings, rows, survey, curvature, line)


def device_of(raw: Any) -> Any:
    """A context in which kernels run on the device of a tensor."""
    # Entering the context takes as long as a small kernel, so it is left out where it changes nothing.
    elsewhere = raw.device.type == "cuda" and raw.device.index != torch.cuda.current_device()
    return torch.cuda.device(raw.device) if elsewhere else contextlib.nullcontext()


def _launch_per_lane(data: PassInput, settings: Any, rows: Any, survey: bool, curvature: bool, line: Any = None) -> Any:
    """Run a kernel whose lanes hold a row each."""
    loss, raw, weights, are_logits, are_smoothed = data
    n, k = raw.shape
    block, warps = _shape(loss)
    out = _space_for_sums(raw, -(-n // block), n_sums(k, curvature))
    target = out if rows is None else rows
    flags: dict[str, Any] = _flags(data, rows, survey)
    run = triton_kernels.log_pass
    if loss == "brier":
        run, flags["COMMON"] = triton_kernels.brier_pass, math.lcm(*range(1, k + 1)) if curvature else 1
    run[(len(out),)](
        raw, out if weights is None else weights, settings, target, out, n, *raw.stride(), *target.stride(),
        K=k, BLOCK=block, CURVATURE=curvature, SMOOTH=are_smoothed,
        UNDERFLOW=are_logits or raw.dtype == torch.float64, **flags, **_options(warps),
    )  # fmt: skip
    return out.sum(dim=0) if line is None else torch.sum(out, dim=0, out=line[: out.shape[1]])


def _launch_wide(data: PassInput, settings: Any, rows: Any, survey: bool, curvature: bool, diagonal: bool) -> Any:
    """Run a kernel for many classes; for the curvature, on some rows at a time."""
    raw, weights, k = data.raw, data.weights, data.raw.shape[1]
    tile = _tile(k, writes=rows is not None)
    run = triton_wide.log_wide if data.loss == "log" else triton_wide.brier_wide
    sums, edges = 0.0, torch.zeros((k, k) if curvature else 0, dtype=torch.float64, device=raw.device)
    size = max(_SCALED_VALUES // k, 1) if curvature else len(raw)
    scaled = torch.empty((min(size, len(raw)), k), dtype=torch.float64, device=raw.device) if curvature else edges
    for start in range(0, len(raw), size):
        piece = raw[start : start + size]
        out = _space_for_sums(raw, -(-len(piece) // tile.rows), n_sums(k, False) + (k if diagonal else 0))
        target = out if rows is None else rows[start : start + size]
        of_rows = out if weights is None else weights[start : start + size]
        run[(len(out),)](
            piece, of_rows, settings, target, scaled, out, len(piece), *piece.stride(), *target.stride(),
            K=k, COLUMNS=tile.columns, ROWS=tile.rows, SCALED=curvature, DIAGONAL=diagonal,
            **_flags(data, rows, survey), **_options(tile.warps),
        )  # fmt: skip
        sums = sums + out.sum(dim=0)
        if curvature:
            done = scaled[: len(piece)]
            edges.addmm_(done.T, done)
    return torch.cat([sums, edges.reshape(-1)])


def _launch_product(data: PassInput, settings: Any) -> Any:
    """Run a kernel that multiplies with the curvature. After the settings there is the vector."""
    raw, weights, k = data.raw, data.weights, data.raw.shape[1]
    tile = _tile(k, writes=False)
    run = triton_products.log_product if data.loss == "log" else triton_products.brier_product
    out = _space_for_sums(raw, -(-len(raw) // tile.rows), k + 1)
    run[(len(out),)](
        raw, out if weights is None else weights, settings, out, len(raw), *raw.stride(),
        K=k, COLUMNS=tile.columns, ROWS=tile.rows, LOGITS=data.are_logits, WEIGHTED=weights is not None,
        **_options(tile.warps),
    )  # fmt: skip
    return out.sum(dim=0)


def _flags(data: PassInput, rows: Any, survey: bool) -> dict[str, bool]:
    return {
        "SURVEY": survey,
        "WRITE": rows is not None,
        "ROUND": rows is not None and rows.dtype == torch.float32,
        "LOGITS": data.are_logits,
        "WEIGHTED": data.weights is not None,
    }


def _space_for_sums(raw: Any, n_tiles: int, length: int) -> Any:
    """A line of sums for each program."""
    programs = min(-(-n_tiles // _LEAST_TILES), _PROGRAMS_PER_CORE * _cores(raw.device))
    return torch.empty((programs, length), dtype=torch.float64, device=raw.device)


def _options(warps: int) -> dict[str, Any]:
    return {} if is_interpreted() else {"num_warps": warps, "enable_fp_fusion": True}


def _fits_a_lane(k: int, curvature: bool) -> bool:
    """Whether a lane can hold a row and its sums."""
    return k <= (MOST_CURVED if curvature else _MOST_PER_LANE)


def _tile(k: int, *, writes: bool) -> _Tile:
    columns = 1 << (k - 1).bit_length()
    rows = max(_TILE_VALUES // columns, 1) if not is_interpreted() else 64
    return _Tile(columns, rows, max(columns // (32 * (_WRITTEN_COLUMNS if writes else _LANE_COLUMNS)), 1))


def _shape(loss: str) -> tuple[int, int]:
    """Rows per tile, and warps: one row per lane."""
    if is_interpreted():
        return _INTERPRETED_BLOCK, 1
    # The search for theta ends when it ends in all lanes, which is cheap to find out within one warp.
    return (64, 2) if loss == "log" else (32, 1)


def is_interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@functools.cache
def _cores(device: Any) -> int:
    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
