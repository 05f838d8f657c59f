"""What a fixed shift guarantees on rows for which it was not fitted: sums over these rows.

With ``lam`` the shift and ``r_ij`` the fall of the loss of row i if its class is j, let ``c_i = min_j (r_ij - lam_j)``.
On all labels whose rates lie in T, the mean loss falls by at least ``sum_i w_i c_i + h(lam)``, whatever the rows are;
see :mod:`baserate.core.dual` for ``h``. For rows that were adjusted exactly, ``c_i = conj(eta_i) - conj(eta_i + lam)``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from baserate.core.contracts import Block, Engine
from baserate.core.mean_bound import BetSums, bet_sums
from baserate.core.row_model import AdjustedRows, RowModel
from baserate.inputs.reading import Naming
from baserate.losses import Brier, Power, Quadratic, RankedProbability
from baserate.losses.base import Loss
from baserate.support.answer_types import FLOAT64
from baserate.support.arrays import FloatArray, IndexArray


class FixedShiftSums(NamedTuple):
    """Weighted sums over rows as ``Adjustment.apply`` returns them.

    Attributes
    ----------
    least, most : float
        Sums of ``min_j (r_ij - lam_j)`` and ``max_j (r_ij - lam_j)``. They may be infinite.
    limit_least : float
        The former, without the classes that a limit at infinity excludes in a row.
    top_level : float
        Sum of the highest limit level among the classes that a row allows; 0 without limit levels.
    before, after : array of shape (k,)
        Sums of the predictions and of the adjusted rows.
    squared_weights : float
    bets : BetSums
        Sums of ``c_i`` before rounding, for a lower confidence bound on its mean.
    """

    least: FloatArray
    most: FloatArray
    limit_least: FloatArray
    top_level: FloatArray
    before: FloatArray
    after: FloatArray
    squared_weights: FloatArray
    bets: BetSums


@dataclass(frozen=True, eq=False)
class FixedShift:
    """A task that sums over the rows of a block.

    Attributes
    ----------
    model : RowModel
    shift : array
        The shift of the kept classes.
    naming : Naming
        How rows are named in messages.
    limits : pair of float, optional
        A lower bound on ``c_i`` for all possible rows, and a number above which it is cut off. None if there is none.
    """

    model: RowModel
    shift: FloatArray
    naming: Naming
    limits: tuple[float, float] | None

    def __call__(self, block: Block) -> FixedShiftSums:
        block = block.as_numpy()
        model, w = self.model, block.weights
        rows = model.adjust_new_rows(block.rows, block.start, self.naming, self.shift)
        plain = replace(model, limit_levels=None)
        least, most = row_bounds(plain, rows, self.shift)
        limit_least, top_level = least, np.zeros(len(w))
        if model.limit_levels is not None:
            limit_least = row_bounds(model, rows, self.shift)[0]
            allowed = np.where(np.isneginf(model.kept(rows.dual_points)), 0, model.limit_levels)
            top_level = allowed.max(axis=1).astype(np.float64)
        return FixedShiftSums(
            _weighted(w, least),
            _weighted(w, most),
            _weighted(w, limit_least),
            w @ top_level,
            w @ rows.before,
            w @ rows.after,
            w @ w,
            self._bets(plain, rows, least, block.start),
        )

    def _bets(self, model: RowModel, rows: AdjustedRows, least: FloatArray, start: int) -> BetSums:
        if rows.after is not rows.exact:  # rows of a population are float64: in float32, some may underflow
            rows = rows._replace(after=rows.exact)
            least = row_bounds(replace(model, answer_types=FLOAT64), rows, self.shift)[0]
        return bet_sums(least, start, self.limits)


def _weighted(weights: FloatArray, values: FloatArray) -> FloatArray:
    """A weighted sum of values that may be infinite in rows that do not count."""
    return np.asarray(weights @ np.where(weights > 0, values, 0.0))


def row_bounds(model: RowModel, rows: AdjustedRows, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``min_j (r_ij - lam_j)`` and ``max_j (r_ij - lam_j)`` of each row, over the kept classes."""
    if rows.after is rows.before:  # no row was changed; the shift is 0
        nothing = np.zeros(len(rows.after))
        return nothing, nothing
    a = model.kept(rows.after)
    value = model.divergence(rows) - a @ shift
    shortfall, surplus = model.shortfall_and_surplus(rows, shift)
    return value - shortfall, value + surplus


@dataclass(frozen=True, eq=False)
class ExcludedClasses:
    """A task for classes that the adjustment excludes, for losses under which they cost a finite amount.

    It returns the smallest and the largest ``r_ij`` of each class j relative to those of the other classes, which are
    the shifts with which the bounds hold for class j as well. Only for losses without ``pins_zeros``.

    Attributes
    ----------
    model : RowModel
    shift : array
    classes : int array
    naming : Naming
    """

    model: RowModel
    shift: FloatArray
    classes: IndexArray
    naming: Naming

    def __call__(self, block: Block) -> tuple[FloatArray, FloatArray]:
        block = block.as_numpy()
        rows = self.model.adjust_new_rows(block.rows, block.start, self.naming, self.shift)
        least, most = row_bounds(self.model, rows, self.shift)
        counted = block.weights > 0
        low, high = np.full(len(self.classes), np.inf), np.full(len(self.classes), -np.inf)
        for i, j in enumerate(self.classes):
            label = np.zeros_like(rows.before)
            label[:, j] = 1.0
            fall = self.model.loss.divergence(rows.before, label) - self.model.loss.divergence(rows.after, label)
            low[i] = np.where(counted, fall - least, np.inf).min(initial=np.inf)
            high[i] = np.where(counted, fall - most, -np.inf).max(initial=-np.inf)
        return low, high

    def run(self, rows: Engine) -> tuple[FloatArray, FloatArray]:
        """The extremes over all rows: one pass."""
        return rows.fold(self, _extremes)


def _extremes(parts: Iterable[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    """The least and the largest numbers of several parts."""
    low, high = zip(*parts, strict=True)
    return np.min(low, axis=0), np.max(high, axis=0)


def limits_of_rows(model: RowModel, shift: FloatArray) -> tuple[float, float] | None:
    """A lower bound on ``c_i`` over all possible rows, and a number above which it is cut off; None if unknown.

    In a bounded adjustment, ``conj(eta + lam) - conj(eta)`` is a mean of ``<lam, a>`` over rows ``a`` of the simplex
    (the gradient of ``conj`` along the way), so ``c_i`` lies between ``-max lam`` and ``-min lam``. A share of Brier
    loss that was mixed in changes this by at most twice the share. In an unbounded adjustment for a quadratic loss,
    ``c_i`` is a linear function of ``p``, so its extremes are at the corners of the simplex.
    """
    if model.limit_levels is not None:
        return None
    slack = 2.0 * model.softness + 1e-9 * (1.0 + float(np.abs(shift).max()))
    if model.bounded:
        return -float(shift.max()) - slack, -float(shift.min()) + slack
    if not _is_quadratic(model.loss):
        return None
    corners = np.eye(model.n_classes)
    eta = model.loss.link(corners)
    x, a = model.shifted(eta, shift)
    at_corners = model.loss.conjugate(eta, corners) - model.loss.conjugate(x, a)
    return float(at_corners.min()) - slack, float(at_corners.max()) + slack


def _is_quadratic(loss: Loss) -> bool:
    return isinstance(loss, (Brier, Quadratic, RankedProbability)) or (isinstance(loss, Power) and loss.beta == 2)
