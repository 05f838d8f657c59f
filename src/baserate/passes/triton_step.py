"""Newton's step on a GPU: one program computes the next shift from the sums of a pass."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def newton_step(
    settings, state, goal, line, edges,
    K: tl.constexpr, COLUMNS: tl.constexpr, BRIER: tl.constexpr, ORDER: tl.constexpr, SAFE: tl.constexpr,
):  # fmt: skip
    """Take a full Newton step from the sums of a pass, and write the settings of the next pass.

    settings : pointer to the settings of the kernels
    state : pointer to the residual of the last evaluation, their number, and the shift
    goal : pointer to the rates, the weight of a row, the tolerance, and the tolerance relative to a rate
    line : pointer to the sums of the pass
    edges : pointer to the edge weights below the diagonal
    ORDER : 2 if they belong to the current shift, 1 if they belong to an earlier one
    SAFE : the factor by which a predicted error must be below the tolerance
    """
    if tl.load(settings + K + 4) == 0.0:
        i = tl.arange(0, COLUMNS)
        row, column, within = i[:, None], i[None, :], i < K
        weight, tol, relative = tl.load(goal + K), tl.load(goal + K + 1), tl.load(goal + K + 2)
        # The curvature is the graph Laplacian of the edge weights, scaled as in ``rate_set_step.solve_centred``.
        upper, lower = tl.maximum(row, column), tl.minimum(row, column)
        edge = tl.load(edges + upper * (upper - 1) // 2 + lower, mask=(row != column) & (upper < K), other=0.0)
        diagonal = tl.sum(edge, axis=1) * weight
        scale = tl.sqrt(tl.maximum(diagonal, 1e-200))
        ones = tl.where(within, scale, 0.0)
        ones = ones / tl.sqrt(tl.sum(ones * ones))
        matrix = tl.where(row == column, diagonal[:, None], -edge * weight) / scale[:, None] / scale[None, :]
        # Curvature along the all-ones direction makes the matrix regular.
        matrix = tl.where((row == column) & (row >= K), 1.0, matrix + ones[:, None] * ones[None, :])
        wanted = tl.load(goal + i, mask=within, other=0.0)
        gradient = wanted - tl.load(line + 8 + K + i, mask=within, other=0.0) * weight
        right = gradient / scale
        for j in range(K):  # Gauss-Jordan elimination; a positive definite matrix needs no pivoting
            pivot_row = tl.sum(tl.where(row == j, matrix, 0.0), axis=0)
            pivot = tl.sum(tl.where(i == j, pivot_row, 0.0))
            factors = tl.where(i == j, pivot - 1.0, tl.sum(tl.where(column == j, matrix, 0.0), axis=1))
            right -= factors * (tl.sum(tl.where(i == j, right, 0.0)) / pivot)
            matrix -= factors[:, None] * (pivot_row / pivot)[None, :]
        shift = tl.load(state + 2 + i, mask=within, other=0.0) + right / scale
        shift -= tl.sum(wanted * tl.where(within, shift, 0.0))
        tl.store(state + 2 + i, shift, mask=within)
        highest = tl.max(tl.where(within, shift, -1e300), axis=0)
        lowest = tl.min(tl.where(within, shift, 1e300), axis=0)
        if BRIER:
            tl.store(settings + i, 0.5 * shift, mask=within)
            tl.store(settings + K + 3, 8 * 2.220446049250313e-16 * (4 + tl.maximum(highest, -lowest)))
        else:
            centre = 0.5 * (highest + lowest)
            tl.store(settings + i, tl.exp(shift - centre), mask=within)
            tl.store(settings + K + 2, centre)
        # As in ``core.newton``, the last step need not be evaluated if the steps before predict its error. (Here every
        # step counts, since a wrong prediction shows in the written rows.)
        residual = tl.max(tl.abs(gradient), axis=0)
        least = tl.minimum(tol, relative * tl.min(tl.where(within, wanted, 1.0), axis=0))
        pace = residual / tl.load(state + 0)
        error = residual * pace
        if ORDER == 2:
            error = error * pace
        slowest: tl.constexpr = 1e-2 if ORDER == 2 else 1e-1
        done = (residual <= least) | ((pace < slowest) & (SAFE * error <= least))
        # Hard zeros and invalid rows are for the general search.
        given_up = (tl.load(line + 3) > 0.0) | (tl.load(line + 7) > 0.0)
        tl.store(settings + K + 4, tl.where(given_up, 2.0, done.to(tl.float64)))
        tl.store(state + 0, residual)
        tl.store(state + 1, tl.load(state + 1) + 1.0)


@triton.jit
def leave_sample(settings, state, K: tl.constexpr, NO_RESIDUAL: tl.constexpr):
    """Go on from the solution for a sample to a search on all rows, or give up if there is none.

    settings, state : as above
    NO_RESIDUAL : the residual before the first evaluation
    """
    solved = tl.load(settings + K + 4) == 1.0
    tl.store(settings + K + 4, tl.where(solved, 0.0, 2.0))
    tl.store(state + 0, NO_RESIDUAL)
    tl.store(state + 1, 0.0)
