"""Sums over the rows of a tile from ``first`` to ``stop``, such as those of a cell, or of a group."""

from __future__ import annotations

from baserate.passes.kernels.compiler import part
from baserate.passes.kernels.layout import LOWEST, OFFSET, SIZE, VALUE, ZEROS


@part
def survey_run(tile, w, first, stop, before, sums):
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


@part
def sum_run(a, w, first, stop, mean):
    """Add the weighted rows to ``mean``."""
    for c in range(a.shape[0]):
        total = 0.0
        for r in range(first, stop):
            total += w[r] * a[c, r]
        mean[c] += total


@part
def edges_of_run(h, w, first, stop, scaled, edges):
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


@part
def values_of_run(values, w, first, stop, constant, sums):
    """Add the weighted values, each plus a constant, and the sizes of these terms to the sums."""
    value, size = 0.0, 0.0
    for r in range(first, stop):
        v = values[r] + constant
        value += w[r] * v
        size += w[r] * abs(v)
    sums[VALUE] += value
    sums[SIZE] += size


@part
def add_run(values, w, first, stop):
    """The weighted sum of one value per row."""
    total = 0.0
    for r in range(first, stop):
        total += w[r] * values[r]
    return total
