"""The *sweep*: a compiled solver of many small groups that are problems of their own.

It gathers the rows of a group into a tile, takes all Newton steps of the group there, while the rows are in the cache
of the processor, and writes the adjusted rows to where they belong. Steps are those of ``newton.advance``. A group that
is not easy is left to the general method.
"""

from __future__ import annotations

import numpy as np

from baserate.passes.kernels.compiler import part
from baserate.passes.kernels.instructions import fetch_to_read, fetch_to_write
from baserate.passes.kernels.layout import (
    CENTRE,
    CURVATURE,
    DONE,
    EARLIER,
    EPS,
    LARGE,
    LOWEST,
    MOVED,
    N_STATE,
    N_SUMS,
    NOT_EASY,
    OFFSET,
    PREVIOUS,
    SHORT,
    SIZE,
    SMALL,
    SURVEY,
    TINY,
    VALUE,
    WRITE,
    ZEROS,
)
from baserate.passes.kernels.log import round_log_tile
from baserate.passes.kernels.newton import advance
from baserate.passes.kernels.row_maps import finish_brier, finish_log, round_tile
from baserate.passes.kernels.runs import add_run, edges_of_run, sum_run, values_of_run

_AHEAD = 96  # Rows that are fetched into the cache before they are needed.


_advance = part(advance)


@part
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
            fetch_to_read(raw, ahead, j)
            if len(rows) > 0:
                fetch_to_write(rows, i, j)
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
        valid_sum = abs(row_sum[r] - 1.0) <= tolerance and row_sum[r] > SMALL and row_sum[r] < LARGE
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


@part
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


@part
def _scatter(a, order, keep, n_kept, rows):
    for r in range(len(order)):
        i = order[r]
        if n_kept < rows.shape[1]:
            for j in range(rows.shape[1]):
                rows[i, j] = 0.0
        for c in range(n_kept):
            rows[i, keep[c]] = a[c, r]


@part
def _group_pass_log(tile, a, w, lane, prepared, centre, todo, mean, edges, sums, rounded):
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
        if not finish_log(a, z, log_z):
            return False
        values_of_run(log_z, w, 0, m, centre, sums)
    else:
        if not finish_log(a, z, None):
            return False
        sums[VALUE], sums[SIZE] = -1.0, np.inf
    if todo & WRITE:
        n_lost = 0
        for c in range(k):
            for r in range(m):
                small = tile[c, r] > 0.0 and a[c, r] < TINY * max(z[r], 1.0)
                n_lost += small and z[r] > 1.0
                a[c, r] = TINY if small else a[c, r]
        if n_lost > 0:
            return False
    sum_run(a, w, 0, m, mean)
    if todo & CURVATURE:
        edges_of_run(a, w, 0, m, lane[2], edges)
    if rounded is not None and todo & WRITE:
        round_log_tile(a, k, w, log_z, centre, lane[3], lane[2], z, rounded, sums)
    return True


@part
def _group_pass_brier(tile, a, w, lane, prepared, todo, mean, edges, sums, rounded):
    """The same for the Brier score."""
    k, m = a.shape
    total, count, theta, kept = lane[0], lane[1], lane[2], lane[3]
    for r in range(m):
        kept[r] = k
    for c in range(k):
        for r in range(m):
            a[c, r] = tile[c, r] + prepared[c]
    if not finish_brier(a, total, count, theta, kept):
        return False
    for r in range(m):
        theta[r] = 0.0
    for c in range(k):
        for r in range(m):
            theta[r] += a[c, r] * (2.0 * (tile[c, r] + prepared[c]) - a[c, r])
    values_of_run(theta, w, 0, m, 0.0, sums)
    sum_run(a, w, 0, m, mean)
    if todo & CURVATURE:
        for r in range(m):
            count[r] = 0.5 * w[r] / count[r]
        for c in range(k):
            for r in range(m):
                a[c, r] = 1.0 if a[c, r] > 0.0 else 0.0
        edges_of_run(a, count, 0, m, theta, edges)
    if todo & WRITE:
        if rounded is not None:
            round_tile(a)
            sum_run(a, w, 0, m, rounded)
        for r in range(m):
            value, least, squares, largest = 0.0, np.inf, 0.0, 0.0
            for c in range(k):
                difference = tile[c, r] - a[c, r]
                fall = -2.0 * (difference + prepared[c])
                squares += difference * difference
                value += a[c, r] * fall
                least = fall if fall < least else least
                largest = max(largest, abs(prepared[c]))
            missing = value - least - 8.0 * EPS * (4.0 + 2.0 * largest)
            sums[MOVED] += w[r] * squares
            sums[SHORT] += w[r] * missing if missing > 0.0 else 0.0
    return True


def sweep(
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
                q += 1
        if ok:
            dropped = _survey_group(brier, x, lanes[1], ww, keep[:q], sums[g])
            squared_weights[g] = add_run(ww, ww, 0, m)
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
                        x, b, ww, lanes, prepared,
                        state[CENTRE], todo, kept_mean[:q], edges[:q, :q], sums[g],
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
