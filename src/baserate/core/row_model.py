"""What is done to a single row, except for the shift.

With ``p`` a prediction and ``lam`` the shift, a row becomes ``a = row_map(link(p) + lam)``; see
:mod:`baserate.losses.base`. Names that users see map to those of the mathematics here: probs = p, shift = lam.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.core.contracts import DualSums
from baserate.errors import BadProbabilities, InfeasibleRates, Option
from baserate.inputs.reading import Naming, Reading
from baserate.losses.base import NONNEGATIVE, Loss, inner
from baserate.losses.softened import Softened
from baserate.rates.sets import RateSet
from baserate.support.answer_types import FLOAT64, AnswerTypes
from baserate.support.arrays import BoolArray, FloatArray, IndexArray

NO_CURVATURE = np.zeros((0, 0))
"""The curvature of a pass that was not asked for it."""

_EPS, _TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)

_BOUNDED = Option("bounded", "True")
_ZEROS = Option("zeros", "1e-6")


class AdjustedRows(NamedTuple):
    """Predictions, their dual points, and the adjusted rows, each of shape (m, k) for all classes.

    ``after`` holds the adjusted rows as they are returned, and ``exact`` those before rounding, both in float64. Rows
    that need no rounding are ``exact`` itself, and rows that need no adjustment are ``before`` itself.
    """

    before: FloatArray
    dual_points: FloatArray
    exact: FloatArray
    after: FloatArray


class _Falls(NamedTuple):
    """``r_j - shift_j`` of each row and kept class, up to a constant per row; see :meth:`RowModel.shortfall`.

    ``mean`` is its mean under the adjusted row, with what the sum of a rounded row costs.
    """

    by_class: FloatArray
    rounding: FloatArray
    possible: BoolArray
    mean: FloatArray


@dataclass(frozen=True, eq=False)
class RowModel:
    """How a row is read and adjusted, except for the shift.

    Attributes
    ----------
    loss : Loss
    bounded : bool
        Whether entries must stay in [0, 1].
    n_classes : int
    kept_classes : array of int
        The classes that may get probability; the others have rate 0. Shifts and dual points have these columns.
    reading : Reading
    limit_levels : array of int, optional
        For rates that are reached only in the limit of an infinite shift: a row gives probability only to the highest
        level among the classes that it allows.
    softness : float
        Share of Brier loss that was mixed in to make a problem solvable in floating point; see ``Softened``.
    answer_types : AnswerTypes
        The dtypes to which adjusted rows are rounded.
    solved_loss : Loss
        The loss whose divergence is minimised: ``loss``, or its softened form.
    keeps_all_classes : bool
        Whether every class may get probability.
    """

    loss: Loss
    bounded: bool
    n_classes: int
    kept_classes: IndexArray
    reading: Reading
    limit_levels: IndexArray | None = None
    softness: float = 0.0
    answer_types: AnswerTypes = FLOAT64

    solved_loss: Loss = field(init=False)
    keeps_all_classes: bool = field(init=False)

    def __post_init__(self) -> None:
        solved = Softened(self.loss, self.softness) if self.softness else self.loss
        object.__setattr__(self, "solved_loss", solved)  # the way to set a derived field of a frozen dataclass
        object.__setattr__(self, "keeps_all_classes", len(self.kept_classes) == self.n_classes)

    @cached_property
    def kept_loss(self) -> Loss:
        """The solved loss in the coordinates of the kept classes."""
        if self.keeps_all_classes:
            return self.solved_loss
        return self.solved_loss.on_face(self.kept_classes, self.n_classes)

    @cached_property
    def corner_values(self) -> FloatArray:
        """The generator at each corner of the simplex."""
        return self.solved_loss.corner_values(self.n_classes)

    def read(self, raw: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Predictions ``p`` of raw rows, and their dual points ``eta``, both (m, k) for all classes."""
        rows = self.reading.clean(raw)
        if self.reading.from_logits:
            return self.loss.probs_of_logits(rows), self.solved_loss.link_logits(rows)
        return rows, self.solved_loss.link(rows)

    def kept(self, columns: FloatArray) -> FloatArray:
        """The columns of the kept classes."""
        return columns if self.keeps_all_classes else columns[:, self.kept_classes]

    def shifted(self, eta: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The shifted dual points, and the adjusted rows ``a`` that belong to them."""
        # Column-major order: sums along short rows then run over long columns, which is twice as fast. For all arrays,
        # so that the last digits do not depend on the order of ``eta``.
        eta = np.asfortranarray(eta)
        x = eta + shift
        if self.limit_levels is not None:
            level = np.where(np.isneginf(eta), -1, self.limit_levels)
            x = np.where(level < level.max(axis=1, keepdims=True), -np.inf, x)
        if len(self.kept_classes) == 1 and self.bounded:
            return x, np.ones_like(x)
        return x, self.kept_loss.row_map(x, bounded=self.bounded)

    def dual_sums(self, eta: FloatArray, weights: FloatArray, shift: FloatArray, *, curvature: bool = True) -> DualSums:
        """The sums of the dual function over rows with the dual points ``eta`` of the kept classes."""
        x, a = self.shifted(eta, shift)
        conjugate = self.kept_loss.conjugate(x, a)
        curvature_sum = self.kept_loss.jacobian(a, weights, bounded=self.bounded) if curvature else NO_CURVATURE
        return DualSums(weights @ conjugate, weights @ np.abs(conjugate), weights @ a, curvature_sum)

    def diagonal_sums(self, eta: FloatArray, weights: FloatArray, shift: FloatArray) -> DualSums:
        """What :meth:`dual_sums` returns, with the diagonal of the curvature in its place, for losses with slopes."""
        x, a = self.shifted(eta, shift)
        conjugate, (h, share) = self.kept_loss.conjugate(x, a), self._slopes(a)
        return DualSums(weights @ conjugate, weights @ np.abs(conjugate), weights @ a, weights @ (h - h * share))

    def multiply(self, eta: FloatArray, weights: FloatArray, shift: FloatArray, vector: FloatArray) -> FloatArray:
        """The curvature at a shift times a vector, for losses with slopes."""
        h, share = self._slopes(self.shifted(eta, shift)[1])
        return weights @ (h * (vector - (share @ vector)[:, None]))

    def _slopes(self, a: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The slopes of adjusted rows, and each as a share of the sum of its row."""
        h = self.kept_loss.slopes(a, bounded=self.bounded)
        assert h is not None  # the loss has slopes, see ``Dual.uses_products``
        total = h.sum(axis=1, keepdims=True)
        return h, np.divide(h, total, out=np.zeros_like(h), where=total > 0)

    def with_all_classes(self, a: FloatArray) -> FloatArray:
        """Adjusted rows with a column for every class."""
        if self.keeps_all_classes:
            return a
        out = np.zeros((len(a), self.n_classes))
        out[:, self.kept_classes] = a
        return out

    def per_class(self, values: FloatArray, fill: float) -> FloatArray:
        """One number per class, from those of the kept classes."""
        if self.keeps_all_classes:
            return values.copy()
        out = np.full(self.n_classes, fill)
        out[self.kept_classes] = values
        return out

    def adjusted(self, raw: NDArray[Any], shift: FloatArray) -> AdjustedRows:
        """The adjustment of raw rows that were checked."""
        p, eta = self.read(raw)
        exact = self._adjusted(p, eta, shift)
        return AdjustedRows(p, eta, exact, self.answer_types.rounded(exact))

    def _adjusted(self, p: FloatArray, eta: FloatArray, shift: FloatArray) -> FloatArray:
        if not shift.any() and self.keeps_all_classes and self.limit_levels is None:
            return p  # unchanged, without the rounding error of link and row map
        x, a = self.shifted(self.kept(eta), shift)
        if self.loss.pins_zeros and a.min(initial=1.0) < _TINY:
            # A probability that underflowed would be a hard zero, and its loss infinite.
            a = np.where((a < _TINY) & (x > -np.inf), _TINY, a)
        return self.with_all_classes(a)

    def divergence(self, rows: AdjustedRows) -> FloatArray:
        """The divergence of the adjusted rows from the predictions, one value per row."""
        p, a = rows.before, rows.after
        divergence = self.loss.divergence(p, a)
        if a is rows.exact or divergence.all():
            return divergence
        # The gradient of a loss may lack a constant, and rounded rows do not sum to 1. The divergence of rows that are
        # nearly unchanged may then be below 0, for which ``Loss.divergence`` returns 0.
        with np.errstate(divide="ignore", invalid="ignore"):
            signed = self.loss.phi(a) - self.loss.phi(p) - inner(self.loss.gradient(p), a - p)
        return np.where(divergence == 0, signed, divergence)

    def shortfall(self, rows: AdjustedRows, shift: FloatArray) -> FloatArray:
        """How far the fall of the loss may be below the dual value, for each row.

        If class j is true, the loss of a row falls by ``r_j = loss(p, j) - loss(a, j)``. On labels with rates t the
        mean fall is at least the mean of ``min_j (r_j - shift_j)`` plus ``<shift, t>``, whatever the rows ``a`` are.
        For the rows that belong to the shift, ``r_j - shift_j`` is equal for all classes with a positive probability,
        and not less for the others. The minimum is then ``<a, r - shift> = d(p, a) - <shift, a>``, which is what the
        dual value counts. Rounding, underflow and softening make the minimum smaller; this returns by how much.

        A difference that may be a rounding error of the losses themselves is not counted. Labels to which ``p`` gives
        probability 0 are not considered if their loss is infinite before and after.

        Rows in float32 do not sum to 1 exactly; see :meth:`baserate.losses.base.Loss.cost_of_sum`.
        """
        return _shortfall(self._falls(rows, shift))

    def shortfall_and_surplus(self, rows: AdjustedRows, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How far the fall of the loss may be below and above the dual value, for each row.

        The fall is at most the mean of ``max_j (r_j - shift_j)`` plus ``<shift, t>``. For log loss, nearly all rows
        have a surplus of 0: the fall depends on the labels only through their rates.
        """
        falls = self._falls(rows, shift)
        most = np.where(falls.possible, falls.by_class - falls.rounding, -np.inf).max(axis=1)
        surplus = np.maximum(most - falls.mean, 0.0)
        if rows.after is not rows.exact:  # ``cost_of_sum`` may be too large by this, which is safe for the shortfall
            surplus += np.abs(rows.after.sum(axis=1) - 1.0)
        return _shortfall(falls), surplus

    def _falls(self, rows: AdjustedRows, shift: FloatArray) -> _Falls:
        eta = self.loss.link(rows.before) if self.softness else rows.dual_points
        old, new = self.kept(eta), self.kept(self.loss.link(rows.after))
        possible = old > -np.inf
        if self.limit_levels is not None:  # no labels with the wanted rates and a finite loss have the other classes
            possible &= self.kept(rows.after) > 0
        with np.errstate(invalid="ignore"):
            fall = new - old - shift
            rounding = 8 * _EPS * (np.abs(new) + np.abs(old) + np.abs(shift))
        rounding[np.isneginf(fall)] = 0.0  # a class that lost all of its probability, whose loss is infinite
        mean = inner(np.where(possible, fall, 0.0), self.kept(rows.after))
        if rows.after is not rows.exact:
            mean += self.loss.cost_of_sum(rows.before, rows.after)
        return _Falls(fall, rounding, possible, mean)

    def adjust_new_rows(self, raw: NDArray[Any], first_row: int, naming: Naming, shift: FloatArray) -> AdjustedRows:
        """The adjustment of raw rows that were not checked yet."""
        self.reading.check(raw, first_row, naming)
        p, eta = self.read(raw)
        self.check_support(self.kept(eta), first_row, naming)
        exact = self._adjusted(p, eta, shift)
        undefined = np.flatnonzero(np.isnan(exact).any(axis=1))
        if undefined.size:
            row = naming.row(first_row + int(undefined[0]))
            raise BadProbabilities(
                f"{row} has no unbounded adjustment by this shift; fit with {_BOUNDED}", options=[_BOUNDED]
            )
        return AdjustedRows(p, eta, exact, self.answer_types.rounded(exact))

    def check_support(self, eta: FloatArray, first_row: int, naming: Naming) -> None:
        """Reject rows that give probability only to classes of rate 0."""
        if not self.loss.pins_zeros:
            return
        unsupported = np.flatnonzero(np.isneginf(eta).all(axis=1))
        if unsupported.size:
            dropped = np.setdiff1d(np.arange(self.n_classes), self.kept_classes).tolist()
            raise InfeasibleRates(
                f"{naming.row(first_row + int(unsupported[0]))} gives probability only to classes whose rate is 0 "
                f"(columns {dropped}), so it cannot be adjusted; give them a rate above 0, drop the row, or pass "
                f"{_ZEROS} to smooth zeros",
                classes=self.kept_classes.tolist(),
                reachable=float("nan"),
                wanted=1.0,
                options=[_ZEROS],
            )


def _shortfall(falls: _Falls) -> FloatArray:
    least = np.where(falls.possible, falls.by_class + falls.rounding, np.inf).min(axis=1)
    return np.maximum(falls.mean - least, 0.0)


def is_bounded(loss: Loss, requested: bool) -> bool:
    """Whether entries must stay in [0, 1]: if that was requested, or if the loss is only defined there."""
    return requested or loss.domain == NONNEGATIVE


def kept_classes(rate_set: RateSet, bounded: bool) -> IndexArray:
    """The classes that may get probability: those of rate 0 do not, unless entries may be negative."""
    return (rate_set.high > 0).nonzero()[0] if bounded else np.arange(len(rate_set.high))
