"""Passes over rows with rates per group, and a sort of rows by counting.

A *cell pass* is a pass over a block whose rows have the shifts of their cells. Like the other passes, it copies some
rows at a time into a tile, whose inner loops run over rows. Consecutive rows of the same cell form a *run*, over which
sums are added up. So rows that are ordered by cell are summed by the vector units of the processor, but rows in any
order are correct.

Arguments of a cell pass, where C is the number of cells of the block:

raw, weights, smoothing, tolerance, todo, rows
    As in other passes.
cells : array of shape (n,)
    The cell of each row, minus the number of the first cell of the block.
factor : array of shape (C, k)
    For log loss ``exp(shift - centre)``, and for the Brier score ``shift / 2``. A class that a cell must not give
    probability has 0 and -inf.
centre : array of shape (C,)
before, mean, rounded : arrays of shape (C, k)
edges : array of shape (C, k, k)
sums : array of shape (C, N_SUMS)
"""

from __future__ import annotations

import numpy as np

from baserate.passes.kernels.compiler import part
from baserate.passes.kernels.layout import ABSENT, CURVATURE, DONE, MOVED, SHORT, SURVEY, WRITE
from baserate.passes.kernels.log import round_log_tile
from baserate.passes.kernels.row_maps import (
    brier_shortfall,
    brier_values,
    finish_brier,
    finish_log,
    lift_log,
    round_tile,
)
from baserate.passes.kernels.runs import add_run, edges_of_run, sum_run, survey_run, values_of_run
from baserate.passes.kernels.tiles import load_tile

_LANES = 64


@part
def _shifts_of_lanes(cells, start, size, factor, own, of_lane):
    """The cell of each lane, and its shift. Lanes after the last row have the shift of the last row."""
    for r in range(len(of_lane)):
        of_lane[r] = cells[start + min(r, size - 1)]
    for r in range(len(of_lane)):
        for c in range(factor.shape[1]):
            own[c, r] = factor[of_lane[r], c]


@part
def _end_of_run(of_lane, first, size):
    stop = first + 1
    while stop < size and of_lane[stop] == of_lane[first]:
        stop += 1
    return stop


@part
def _store_tile(a, start, size, rows):
    for r in range(size):
        for c in range(a.shape[0]):
            rows[start + r, c] = a[c, r]


def cell_log_pass(
    raw, weights, cells, factor, centre, smoothing, tolerance, todo, before, mean, edges, sums, rows, rounded
):
    """A cell pass for log loss. Returns DONE, or a row in whose tile it found something that it cannot compute."""
    n, k = raw.shape
    lanes = _LANES
    tile, a, own, w = np.empty((k, lanes)), np.empty((k, lanes)), np.empty((k, lanes)), np.empty(lanes)
    z, log_z, spare, of_lane = np.empty(lanes), np.empty(lanes), np.empty(lanes), np.empty(lanes, np.int64)
    run_a, run_z = np.empty((k, lanes)), np.empty((3, lanes))
    for start in range(0, n, lanes):
        size = min(lanes, n - start)
        if not load_tile(raw, weights, start, tile, w, z, log_z, smoothing, tolerance):
            return start
        _shifts_of_lanes(cells, start, size, factor, own, of_lane)
        for c in range(k):
            for r in range(lanes):
                a[c, r] = tile[c, r] * own[c, r]
        if not finish_log(a, z, log_z):
            return start
        if todo & WRITE and not lift_log(tile, a, z, own):
            return start
        first = 0
        while first < size:
            stop, q = _end_of_run(of_lane, first, size), of_lane[first]
            if todo & SURVEY:
                survey_run(tile, w, first, stop, before[q], sums[q])
            values_of_run(log_z, w, first, stop, centre[q], sums[q])
            sum_run(a, w, first, stop, mean[q])
            if todo & CURVATURE:
                edges_of_run(a, w, first, stop, spare, edges[q])
            if rounded is not None and todo & WRITE:
                m = stop - first
                for c in range(k):
                    for r in range(m):
                        run_a[c, r] = a[c, first + r]
                round_log_tile(
                    run_a[:, :m], k, w[first:stop], log_z[first:stop], centre[q], run_z[0, :m], run_z[1, :m],
                    run_z[2, :m], rounded[q], sums[q],
                )  # fmt: skip
                for c in range(k):
                    for r in range(m):
                        a[c, first + r] = run_a[c, r]
            first = stop
        if todo & WRITE:
            _store_tile(a, start, size, rows)
    return DONE


def cell_brier_pass(
    raw, weights, cells, factor, centre, smoothing, tolerance, todo, before, mean, edges, sums, rows, rounded
):
    """A cell pass for the Brier score."""
    n, k = raw.shape
    lanes = _LANES
    tile, a, own, w = np.empty((k, lanes)), np.empty((k, lanes)), np.empty((k, lanes)), np.empty(lanes)
    total, count, theta, of_lane = np.empty(lanes), np.empty(lanes), np.empty(lanes), np.empty(lanes, np.int64)
    kept = np.empty(lanes)
    for start in range(0, n, lanes):
        size = min(lanes, n - start)
        if not load_tile(raw, weights, start, tile, w, total, theta, smoothing, tolerance):
            return start
        _shifts_of_lanes(cells, start, size, factor, own, of_lane)
        for r in range(lanes):
            kept[r] = 0.0
        for c in range(k):
            for r in range(lanes):
                there = own[c, r] > ABSENT
                kept[r] += there
                a[c, r] = tile[c, r] + own[c, r] if there else ABSENT
        if not finish_brier(a, total, count, theta, kept):
            return start
        brier_values(tile, a, own, theta)
        first = 0
        while first < size:
            stop, q = _end_of_run(of_lane, first, size), of_lane[first]
            if todo & SURVEY:
                survey_run(tile, w, first, stop, before[q], sums[q])
            values_of_run(theta, w, first, stop, 0.0, sums[q])
            sum_run(a, w, first, stop, mean[q])
            first = stop
        if todo & WRITE:
            if rounded is not None:
                round_tile(a)
            brier_shortfall(tile, a, own, w, total, theta)
            first = 0
            while first < size:
                stop, q = _end_of_run(of_lane, first, size), of_lane[first]
                sums[q, MOVED] += add_run(total, w, first, stop)
                sums[q, SHORT] += add_run(theta, w, first, stop)
                if rounded is not None:
                    sum_run(a, w, first, stop, rounded[q])
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
                edges_of_run(a, count, first, stop, theta, edges[q])
                first = stop
    return DONE


def count_cells(cells, counts):
    """Count the rows of each cell."""
    for i in range(len(cells)):
        counts[cells[i]] += 1
    return DONE


def place_rows(cells, first, places, order):
    """Put the numbers of rows, the first of which is ``first``, to the next places of their cells."""
    for i in range(len(cells)):
        c = cells[i]
        order[places[c]] = first + i
        places[c] += 1
    return DONE
