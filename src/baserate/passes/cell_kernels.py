"""Compiled passes over rows with rates per group, and a compiled solver of many small groups.

A *cell pass* is a pass over a block whose rows have the shifts of their cells. Like the passes in ``fused_kernels``, it
copies some rows at a time into a tile, whose inner loops run over rows. Consecutive rows of the same cell form a *run*,
over which sums are added up. So rows that are ordered by cell are summed by the vector units of the processor, but rows
in any order are correct.

The *sweep* solves groups that are problems of their own. It gathers the rows of a group into a tile, takes all Newton
steps of the group there, while the rows are in the cache of the processor, and writes the adjusted rows to where they
belong. Steps are those of ``fused_kernels._advance``. A group that is not easy is left to the general method.

Arguments of a cell pass, where C is the number of cells of the block:

raw, weights, smoothing, tolerance, todo, rows
    As in ``fused_kernels``.
cells : array of shape (n,)
    The cell of each row, minus the number of the first cell of the block.
factor : array of shape (C, k)
    For log loss ``exp(shift - centre)``, and for the Brier score ``shift / 2``. A class that a cell must not give
    probability has 0 and -inf.
centre : array of shape (C,)
before, mean, rounded : arrays of shape (C, k)
edges : array of shape (C, k, k)
sums : array of shape (C, N_SUMS)

numba's cache on disk does not notice changes in other files. The names of the compiled functions therefore contain a
digest of ``fused_kernels``, parts of which are compiled into them.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, njit, types
from numba.extending import intrinsic

from baserate.passes import fused_kernels
from baserate.passes.fused_kernels import (
    _EPS,
    _LARGE,
    _OPTIONS,
    _SMALL,
    _TINY,
    CURVATURE,
    DONE,
    EARLIER,
    LOWEST,
    MOVED,
    N_STATE,
    N_SUMS,
    NOT_EASY,
    OFFSET,
    PREVIOUS,
    SHORT,
    SIZE,
    SURVEY,
    VALUE,
    WRITE,
    ZEROS,
    _from_cache_or_compiler,
    _inlined_part,
    _load,
    _logs,
    _part,
    _round_log_tile,
    _to_float32,
)

_LANES = 64
_AHEAD = 96  # Rows that are fetched into the cache before they are needed.
_ABSENT = -1e300  # The dual point of a class that must not get probability.

_advance = njit(**_OPTIONS)(fused_kernels._advance)


@_part
def _survey_run(tile, w, first, stop, before, sums):
    """Add the rows of a run to the sums that do not depend on the shift."""
    for j in range(tile.shape[0]):
        total, squares, lowest, zeros = 0.0, 0.0, 2.0, 0.0
        for r in range(first, stop):
            v = tile[j, r]
            total += w[r] * v
            squares += w[r] * v * v
            lowest = v if 0.0 < v < lowest else lowest
            zeros += v == 0.0
        before[j] += total
        sums[OFFSET] += squares
        sums[ZEROS] += zeros
        sums[LOWEST] = min(sums[LOWEST], lowest)


@_part
def _sum_run(a, w, first, stop, mean):
    for c in range(a.shape[0]):
        total = 0.0
        for r in range(first, stop):
            total += w[r] * a[c, r]
        mean[c] += total


@_part
def _edges_of_run(h, w, first, stop, scaled, edges):
    """Add ``sum_r w_r h_cr h_dr`` to ``edges[c, d]`` for each pair of classes ``c > d``. ``scaled`` is scratch."""
    for c in range(1, h.shape[0]):
        for r in range(first, stop):
            scaled[r] = h[c, r] * w[r]
        for d in range(0, c - 1, 2):  # two classes at a time, so that ``scaled`` is read half as often
            one, two = 0.0, 0.0
            for r in range(first, stop):
                one += scaled[r] * h[d, r]
                two += scaled[r] * h[d + 1, r]
            edges[c, d] += one
            edges[c, d + 1] += two
        if c % 2:
            total = 0.0
            for r in range(first, stop):
                total += scaled[r] * h[c - 1, r]
            edges[c, c - 1] += total


@_part
def _values_of_run(values, w, first, stop, constant, sums):
    value, size = 0.0, 0.0
    for r in range(first, stop):
        v = values[r] + constant
        value += w[r] * v
        size += w[r] * abs(v)
    sums[VALUE] += value
    sums[SIZE] += size


@_part
def _finish_log(a, z, log_z, spare, z_bits, spare_bits):
    """Normalise the rows of a tile, and return whether all sums are in range. ``z`` becomes the inverse of the sum."""
    k, lanes = a.shape
    for r in range(lanes):
        z[r] = 0.0
    for c in range(k):
        for r in range(lanes):
            z[r] += a[c, r]
    _logs(z, log_z, spare, z_bits, spare_bits)
    n_out_of_range = 0
    for r in range(lanes):
        n_out_of_range += not (z[r] > _SMALL and z[r] < _LARGE)
        z[r] = 1.0 / z[r]
    for c in range(k):
        for r in range(lanes):
            a[c, r] *= z[r]
    return n_out_of_range == 0


@_part
def _normalise(a, z):
    """The same without the logarithms."""
    k, lanes = a.shape
    for r in range(lanes):
        z[r] = 0.0
    for c in range(k):
        for r in range(lanes):
            z[r] += a[c, r]
    n_out_of_range = 0
    for r in range(lanes):
        n_out_of_range += not (z[r] > _SMALL and z[r] < _LARGE)
        z[r] = 1.0 / z[r]
    for c in range(k):
        for r in range(lanes):
            a[c, r] *= z[r]
    return n_out_of_range == 0


@_part
def _lift_log(tile, a, z, allowed):
    """Replace entries that underflowed by the smallest number, as in ``_log_pass``; False if digits were lost."""
    n_lost = 0
    for c in range(a.shape[0]):
        for r in range(a.shape[1]):
            small = allowed[c, r] > 0.0 and tile[c, r] > 0.0 and a[c, r] < _TINY * max(z[r], 1.0)
            n_lost += small and z[r] > 1.0
            a[c, r] = _TINY if small else a[c, r]
    return n_lost == 0


@_part
def _finish_brier(a, total, count, theta, n_kept):
    """Project the rows of a tile onto the simplex, and return whether they are in range."""
    k, lanes = a.shape
    for r in range(lanes):
        total[r] = -1.0
    for c in range(k):
        for r in range(lanes):
            total[r] += a[c, r] if a[c, r] > _ABSENT else 0.0
    for r in range(lanes):
        theta[r] = -total[r] / n_kept[r]
    for _ in range(k + 1):
        for r in range(lanes):
            total[r] = -1.0
            count[r] = 0.0
        for c in range(k):
            for r in range(lanes):
                v = a[c, r] + theta[r]
                total[r] += v if v > 0.0 else 0.0
                count[r] += 1.0 if v > 0.0 else 0.0
        n_moving = 0
        for r in range(lanes):
            step = total[r] / count[r]
            n_moving += step > 4e-16 * max(1.0, abs(theta[r]))
            theta[r] -= step
        if n_moving == 0:
            break
    for r in range(lanes):
        total[r] = 0.0
        count[r] = 0.0
    for c in range(k):
        for r in range(lanes):
            v = a[c, r] + theta[r]
            a[c, r] = v if v > 0.0 else 0.0
            total[r] += a[c, r]
            count[r] += 1.0 if v > 0.0 else 0.0
    n_out_of_range = 0
    for r in range(lanes):
        n_out_of_range += not (total[r] > 0.5 and total[r] < 2.0)
        total[r] = 1.0 / total[r]
    for c in range(k):
        for r in range(lanes):
            a[c, r] *= total[r]
    return n_out_of_range == 0


@_part
def _brier_values(tile, a, half, values):
    """The conjugate of each row, ``<x, a> - |a|^2``."""
    for r in range(a.shape[1]):
        values[r] = 0.0
    for c in range(a.shape[0]):
        for r in range(a.shape[1]):
            values[r] += a[c, r] * (2.0 * (tile[c, r] + half[c, r]) - a[c, r]) if a[c, r] > 0.0 else 0.0


@_part
def _brier_shortfall(tile, a, half, w, moved, short):
    """The divergence and the shortfall of each row of a tile, after rounding; see ``RowModel.shortfall``."""
    k, lanes = a.shape
    for r in range(lanes):
        total, least, squares, largest = 0.0, np.inf, 0.0, 0.0
        for c in range(k):
            difference = tile[c, r] - a[c, r]
            squares += difference * difference
            if half[c, r] > _ABSENT:
                fall = -2.0 * (difference + half[c, r])
                total += a[c, r] * fall
                least = fall if fall < least else least
                largest = max(largest, abs(half[c, r]))
        missing = total - least - 8.0 * _EPS * (4.0 + 2.0 * largest)
        moved[r] = squares
        short[r] = missing if missing > 0.0 else 0.0


@_part
def _add_run(values, w, first, stop):
    total = 0.0
    for r in range(first, stop):
        total += w[r] * values[r]
    return total


@_inlined_part
def _round_tile(a):
    for c in range(a.shape[0]):
        for r in range(a.shape[1]):
            a[c, r] = _to_float32(a[c, r])


@_part
def _shifts_of_lanes(cells, start, size, factor, own, of_lane):
    """The cell of each lane, and its shift. Lanes after the last row have the shift of the last row."""
    for r in range(len(of_lane)):
        of_lane[r] = cells[start + min(r, size - 1)]
    for r in range(len(of_lane)):
        for c in range(factor.shape[1]):
            own[c, r] = factor[of_lane[r], c]


@_part
def _end_of_run(of_lane, first, size):
    stop = first + 1
    while stop < size and of_lane[stop] == of_lane[first]:
        stop += 1
    return stop


@_part
def _store_tile(a, start, size, rows):
    for r in range(size):
        for c in range(a.shape[0]):
            rows[start + r, c] = a[c, r]


def _cell_log_pass(
    raw, weights, cells, factor, centre, smoothing, tolerance, todo, before, mean, edges, sums, rows, rounded
):
    """A cell pass for log loss. Returns DONE, or a row in whose tile it found something that it cannot compute."""
    n, k = raw.shape
    lanes = _LANES
    tile, a, own, w = np.empty((k, lanes)), np.empty((k, lanes)), np.empty((k, lanes)), np.empty(lanes)
    z, log_z, spare, of_lane = np.empty(lanes), np.empty(lanes), np.empty(lanes), np.empty(lanes, np.int64)
    z_bits, spare_bits, unused, no_sums = z.view(np.int64), spare.view(np.int64), np.empty(k), np.empty(N_SUMS)
    run_a, run_z = np.empty((k, lanes)), np.empty((4, lanes))
    for start in range(0, n, lanes):
        size = min(lanes, n - start)
        if not _load(raw, weights, start, tile, w, z, log_z, smoothing, tolerance, unused, no_sums, False):
            return start
        _shifts_of_lanes(cells, start, size, factor, own, of_lane)
        for c in range(k):
            for r in range(lanes):
                a[c, r] = tile[c, r] * own[c, r]
        if not _finish_log(a, z, log_z, spare, z_bits, spare_bits):
            return start
        if todo & WRITE and not _lift_log(tile, a, z, own):
            return start
        first = 0
        while first < size:
            stop, q = _end_of_run(of_lane, first, size), of_lane[first]
            if todo & SURVEY:
                _survey_run(tile, w, first, stop, before[q], sums[q])
            _values_of_run(log_z, w, first, stop, centre[q], sums[q])
            _sum_run(a, w, first, stop, mean[q])
            if todo & CURVATURE:
                _edges_of_run(a, w, first, stop, spare, edges[q])
            if rounded is not None and todo & WRITE:
                m = stop - first
                for c in range(k):
                    for r in range(m):
                        run_a[c, r] = a[c, first + r]
                _round_log_tile(
                    run_a[:, :m], w[first:stop], log_z[first:stop], centre[q], run_z[0, :m], run_z[1, :m],
                    run_z[2, :m], rounded[q], sums[q],
                )  # fmt: skip
                for c in range(k):
                    for r in range(m):
                        a[c, first + r] = run_a[c, r]
            first = stop
        if todo & WRITE:
            _store_tile(a, start, size, rows)
    return DONE


def _cell_brier_pass(
    raw, weights, cells, factor, centre, smoothing, tolerance, todo, before, mean, edges, sums, rows, rounded
):
    """A cell pass for the Brier score."""
    n, k = raw.shape
    lanes = _LANES
    tile, a, own, w = np.empty((k, lanes)), np.empty((k, lanes)), np.empty((k, lanes)), np.empty(lanes)
    total, count, theta, of_lane = np.empty(lanes), np.empty(lanes), np.empty(lanes), np.empty(lanes, np.int64)
    kept, unused, no_sums = np.empty(lanes), np.empty(k), np.empty(N_SUMS)
    for start in range(0, n, lanes):
        size = min(lanes, n - start)
        if not _load(raw, weights, start, tile, w, total, theta, smoothing, tolerance, unused, no_sums, False):
            return start
        _shifts_of_lanes(cells, start, size, factor, own, of_lane)
        for r in range(lanes):
            kept[r] = 0.0
        for c in range(k):
            for r in range(lanes):
                there = own[c, r] > _ABSENT
                kept[r] += there
                a[c, r] = tile[c, r] + own[c, r] if there else _ABSENT
        if not _finish_brier(a, total, count, theta, kept):
            return start
        _brier_values(tile, a, own, theta)
        first = 0
        while first < size:
            stop, q = _end_of_run(of_lane, first, size), of_lane[first]
            if todo & SURVEY:
                _survey_run(tile, w, first, stop, before[q], sums[q])
            _values_of_run(theta, w, first, stop, 0.0, sums[q])
            _sum_run(a, w, first, stop, mean[q])
            first = stop
        if todo & WRITE:
            if rounded is not None:
                _round_tile(a)
            _brier_shortfall(tile, a, own, w, total, theta)
            first = 0
            while first < size:
                stop, q = _end_of_run(of_lane, first, size), of_lane[first]
                sums[q, MOVED] += _add_run(total, w, first, stop)
                sums[q, SHORT] += _add_run(theta, w, first, stop)
                if rounded is not None:
                    _sum_run(a, w, first, stop, rounded[q])
                first = stop
            _store_tile(a, start, size, rows)
        if todo & CURVATURE:
            for r in range(lanes):
                count[r] = 0.5 * w[r] / count[r]
            for c in range(k):
                for r in range(lanes):
                    a[c, r] = 1.0 if a[c, r] > 0.0 else 0.0
            first = 0
            while first < size:
                stop, q = _end_of_run(of_lane, first, size), of_lane[first]
                _edges_of_run(a, count, first, stop, theta, edges[q])
                first = stop
    return DONE


def _prefetch(write):
    """A function for compiled code that fetches an entry of a matrix into the cache without waiting for it."""

    def generate(context, builder, signature, arguments):
        matrix = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.ptrtoint(matrix.data, arguments[1].type)
        for axis in range(2):
            stride = builder.extract_value(matrix.strides, axis)
            address = builder.add(address, builder.mul(arguments[1 + axis], stride))
        pointer, integer = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [pointer, integer, integer, integer])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], fnty=function_type)
        near, is_data = integer(3), integer(1)
        builder.call(function, [builder.inttoptr(address, pointer), integer(write), near, is_data])
        return context.get_dummy_value()

    return intrinsic(lambda _, matrix, row, column: (types.void(matrix, types.intp, types.intp), generate))


_fetch_to_read, _fetch_to_write = _prefetch(0), _prefetch(1)


@_part
def _gather(raw, weights, order, first, stop, smoothing, tolerance, tile, row_sum, smallest, w, before, rows):
    """Fill a tile with the rows ``order[first:stop]`` of a group; False if one is not a valid prediction.

    The weights become those within the group. ``before`` gets the mean prediction. Rows of the next group, and the
    places where the adjusted rows go, are fetched into the cache on the way, because the rows of a group are scattered
    in memory.
    """
    m, k = stop - first, raw.shape[1]
    step = 1 if raw.strides[0] < raw.strides[1] else max(k - 1, 1)  # the columns of a row lie together, or each apart
    for r in range(m):
        i, ahead = order[first + r], order[min(first + r + _AHEAD, len(order) - 1)]
        for j in range(0, k, step):
            _fetch_to_read(raw, ahead, j)
            if len(rows) > 0:
                _fetch_to_write(rows, i, j)
        for j in range(k):
            tile[j, r] = raw[i, j]
        w[r] = weights[i] if len(weights) > 0 else 1.0
    total, n_invalid = 0.0, 0
    for r in range(m):
        row_sum[r] = 0.0
        smallest[r] = 1.0
        total += w[r]
    for j in range(k):
        for r in range(m):
            row_sum[r] += tile[j, r]
            smallest[r] = tile[j, r] if tile[j, r] < smallest[r] else smallest[r]
    scale = 1.0 / (1.0 + k * smoothing)
    for r in range(m):
        valid_sum = abs(row_sum[r] - 1.0) <= tolerance and row_sum[r] > _SMALL and row_sum[r] < _LARGE
        n_invalid += not (valid_sum and smallest[r] >= 0.0)
        row_sum[r] = scale / row_sum[r]
        smallest[r] = smallest[r] * row_sum[r] + smoothing * scale
        w[r] /= total
    if n_invalid > 0 or not total > 0.0:
        return False
    for j in range(k):
        mean = 0.0
        for r in range(m):
            tile[j, r] = tile[j, r] * row_sum[r] + smoothing * scale
            mean += w[r] * tile[j, r]
        before[j] = mean
    return True


@_part
def _survey_group(brier, tile, lowest, w, keep, sums):
    """What a survey sums besides the mean; then move the kept classes to the top of the tile.

    ``lowest`` has the smallest probability of each row. Returns the divergence that the other classes contribute.
    """
    k, m = tile.shape
    dropped, n_found = 0.0, 0
    for c in range(N_SUMS):
        sums[c] = 0.0
    if brier:
        for j in range(k):
            squares = 0.0
            for r in range(m):
                squares += w[r] * tile[j, r] * tile[j, r]
            sums[OFFSET] += squares
            if n_found < len(keep) and keep[n_found] == j:
                n_found += 1
            else:
                dropped += squares
    least = 2.0
    for r in range(m):
        v = lowest[r]
        if v == 0.0:  # hard zeros are rare, so only rows that have any are searched for their smallest positive one
            v = 2.0
            for j in range(k):
                sums[ZEROS] += tile[j, r] == 0.0
                v = tile[j, r] if 0.0 < tile[j, r] < v else v
        least = v if v < least else least
    sums[LOWEST] = least
    for c in range(len(keep)):
        if keep[c] != c:
            for r in range(m):
                tile[c, r] = tile[keep[c], r]
    return dropped


@_part
def _scatter(a, order, keep, n_kept, rows):
    for r in range(len(order)):
        i = order[r]
        if n_kept < rows.shape[1]:
            for j in range(rows.shape[1]):
                rows[i, j] = 0.0
        for c in range(n_kept):
            rows[i, keep[c]] = a[c, r]


@_part
def _group_pass_log(tile, a, w, lane, bits, spare_bits, prepared, centre, todo, mean, edges, sums, rounded):
    """One pass over a group in a tile, for log loss; False if it cannot compute the pass.

    The logarithms take half of the time of a pass, so only the last one computes the value of the dual function. The
    other ones state an unlimited rounding error of the value, and ``_advance`` then compares slopes.
    """
    k, m = a.shape
    for c in range(k):
        for r in range(m):
            a[c, r] = tile[c, r] * prepared[c]
    z, log_z = lane[0], lane[1]
    if todo & WRITE:
        if not _finish_log(a, z, log_z, lane[2], bits, spare_bits):
            return False
        _values_of_run(log_z, w, 0, m, centre, sums)
    else:
        if not _normalise(a, z):
            return False
        sums[VALUE], sums[SIZE] = -1.0, np.inf
    if todo & WRITE:
        n_lost = 0
        for c in range(k):
            for r in range(m):
                small = tile[c, r] > 0.0 and a[c, r] < _TINY * max(z[r], 1.0)
                n_lost += small and z[r] > 1.0
                a[c, r] = _TINY if small else a[c, r]
        if n_lost > 0:
            return False
    _sum_run(a, w, 0, m, mean)
    if todo & CURVATURE:
        _edges_of_run(a, w, 0, m, lane[2], edges)
    if rounded is not None and todo & WRITE:
        _round_log_tile(a, w, log_z, centre, lane[3], lane[2], z, rounded, sums)
    return True


@_part
def _group_pass_brier(tile, a, w, lane, prepared, todo, mean, edges, sums, rounded):
    """The same for the Brier score."""
    k, m = a.shape
    total, count, theta, kept = lane[0], lane[1], lane[2], lane[3]
    for r in range(m):
        kept[r] = k
    for c in range(k):
        for r in range(m):
            a[c, r] = tile[c, r] + prepared[c]
    if not _finish_brier(a, total, count, theta, kept):
        return False
    for r in range(m):
        theta[r] = 0.0
    for c in range(k):
        for r in range(m):
            theta[r] += a[c, r] * (2.0 * (tile[c, r] + prepared[c]) - a[c, r])
    _values_of_run(theta, w, 0, m, 0.0, sums)
    _sum_run(a, w, 0, m, mean)
    if todo & CURVATURE:
        for r in range(m):
            count[r] = 0.5 * w[r] / count[r]
        for c in range(k):
            for r in range(m):
                a[c, r] = 1.0 if a[c, r] > 0.0 else 0.0
        _edges_of_run(a, count, 0, m, theta, edges)
    if todo & WRITE:
        if rounded is not None:
            _round_tile(a)
            _sum_run(a, w, 0, m, rounded)
        for r in range(m):
            value, least, squares, largest = 0.0, np.inf, 0.0, 0.0
            for c in range(k):
                difference = tile[c, r] - a[c, r]
                fall = -2.0 * (difference + prepared[c])
                squares += difference * difference
                value += a[c, r] * fall
                least = fall if fall < least else least
                largest = max(largest, abs(prepared[c]))
            missing = value - least - 8.0 * _EPS * (4.0 + 2.0 * largest)
            sums[MOVED] += w[r] * squares
            sums[SHORT] += w[r] * missing if missing > 0.0 else 0.0
    return True


def _sweep(
    brier, raw, weights, order, starts, easy, rates, smoothing, tolerance, rules, tol, relative, most_passes, store,
    shifts, before, mean, sums, squared_weights, n_passes, rows, rounded,
):  # fmt: skip
    """Solve each group that is marked as easy, and mark those that turn out not to be.

    Group g has the rows ``order[starts[g]:starts[g + 1]]`` and should have the rates ``rates[g]``. The outputs have one
    row per group, and those of classes with rate 0 stay as they are. With ``store``, adjusted rows go to ``rows``.
    """
    n_groups, k = rates.shape
    largest = 1
    for g in range(n_groups):
        if easy[g]:
            largest = max(largest, starts[g + 1] - starts[g])
    # Flat arrays, because a part of the columns of a matrix is not contiguous, and loops over it are not vectorized.
    tile, a, w, lane = np.empty(k * largest), np.empty(k * largest), np.empty(largest), np.empty(4 * largest)
    keep, target, shift, prepared = np.empty(k, np.int64), np.empty(k), np.empty(k), np.empty(k)
    kept_before, kept_mean, kept_rounded = np.empty(k), np.empty(k), np.empty(k)
    edges, work, state = np.empty((k, k)), np.empty((k + 3, k)), np.empty(N_STATE)
    for g in range(n_groups):
        if not easy[g]:
            continue
        first, stop, q, dropped = starts[g], starts[g + 1], 0, 0.0
        m = stop - first
        ww, lanes, x = w[:m], lane[: 4 * m].reshape(4, m), tile[: k * m].reshape(k, m)
        ok = _gather(
            raw, weights, order, first, stop, smoothing, tolerance, x, lanes[0], lanes[1], ww, before[g],
            rows if store else rows[:0],
        )  # fmt: skip
        for j in range(k):
            if rates[g, j] > 0.0:
                keep[q] = j
                target[q] = rates[g, j]
                kept_before[q] = before[g, j]
                shift[q] = 0.0
                q += 1
        if ok:
            dropped = _survey_group(brier, x, lanes[1], ww, keep[:q], sums[g])
            squared_weights[g] = _add_run(ww, ww, 0, m)
            x, b = x[:q], a[: q * m].reshape(q, m)
        todo, passes = SURVEY if ok else NOT_EASY, 1
        for c in range(N_STATE):
            state[c] = 0.0
        state[EARLIER] = state[PREVIOUS] = np.inf
        while todo >= 0 and passes < most_passes:
            if todo != SURVEY:
                if rounded is not None:
                    for c in range(q):
                        kept_rounded[c] = 0.0
                if brier:
                    ok = _group_pass_brier(
                        x, b, ww, lanes, prepared, todo, kept_mean[:q], edges[:q, :q], sums[g],
                        None if rounded is None else kept_rounded[:q],
                    )  # fmt: skip
                else:
                    ok = _group_pass_log(
                        x, b, ww, lanes, lanes[0].view(np.int64), lanes[2].view(np.int64), prepared,
                        state[fused_kernels.CENTRE], todo, kept_mean[:q], edges[:q, :q], sums[g],
                        None if rounded is None else kept_rounded[:q],
                    )  # fmt: skip
                passes += 1
                if not ok:
                    todo = NOT_EASY
                    break
            todo = _advance(
                brier, rules, target[:q], tol, relative, shift[:q], kept_before[:q], kept_mean[:q], edges[:q, :q],
                sums[g], prepared[:q], work[: q + 3, :q], state, todo,
            )  # fmt: skip
        easy[g] = todo == DONE
        if todo == DONE:
            n_passes[g] = passes
            sums[g, MOVED] += dropped
            for c in range(q):
                shifts[g, keep[c]] = shift[c]
                mean[g, keep[c]] = kept_mean[c]
                if rounded is not None:
                    rounded[g, keep[c]] = kept_rounded[c]
            if store:
                _scatter(b, order[first:stop], keep, q, rows)


def _count(cells, counts):
    """Count the rows of each cell."""
    for i in range(len(cells)):
        counts[cells[i]] += 1
    return DONE


def _place(cells, first, places, order):
    """Put the numbers of rows, the first of which is ``first``, to the next places of their cells."""
    for i in range(len(cells)):
        c = cells[i]
        order[places[c]] = first + i
        places[c] += 1
    return DONE


@functools.cache
def _digest() -> str:
    return hashlib.sha256(inspect.getsource(fused_kernels).encode()).hexdigest()[:12]


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    if not function.__qualname__.endswith(_digest()):
        function.__qualname__ = f"{function.__qualname__}_{_digest()}"
    return function


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
    return _from_cache_or_compiler(_named(_cell_log_pass if name == "log" else _cell_brier_pass), signature)


@functools.cache
def compiled_sort() -> tuple[Callable[..., int], Callable[..., int]]:
    """The two compiled parts of a sort by counting."""
    fixed, vector = _vectors(True, 1, types.int64), _vectors(False, 1, types.int64)
    count = _from_cache_or_compiler(_named(_count), (fixed, vector))
    return count, _from_cache_or_compiler(_named(_place), (fixed, types.int64, vector, vector))


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
    return _from_cache_or_compiler(_named(_sweep), signature)
