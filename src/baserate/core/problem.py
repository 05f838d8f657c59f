"""The adjustment problem and its dual: shapes and signs in one place.

With ``p`` the predictions (n, k), ``w`` the row weights (sum 1), ``T`` what is known of the rates, a convex set whose
simplest form is one point, and ``lam`` the shift (k):

    primal   minimise  sum_i w_i d(p_i, a_i)   over rows a_i of the simplex with  sum_i w_i a_i in T
    dual     g(lam) = sum_i w_i [ conj(eta_i) - conj(eta_i + lam) ] + h(lam),         eta_i = link(p_i)
             h(lam)     = min over t in T of <lam, t>
             gradient   t - sum_i w_i a_i(lam),         a_i(lam) = row_map(eta_i + lam),  t where that minimum is
             curvature  sum_i w_i J_i                   (of the first term)

Every value of the dual, not only its maximum, is a guarantee: the mean loss of the rows ``a(lam)`` on any labels
whose weighted mean lies in ``T`` is below that of ``p`` by at least ``g(lam)``. See docs/theory.md.

Names that users see map to these once, here: probs = p, sample_weight = w, rates = T, shift = lam.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.core.newton import Point, Solution, Target, solve
from baserate.engines.base import Block, Engine, Sums, total
from baserate.errors import BadProbabilities, InfeasibleRates
from baserate.inputs.reading import Naming, Reading
from baserate.losses.base import Loss
from baserate.losses.softened import Softened
from baserate.passes.numba_passes import BLOCK_VALUES, MOST_EASY, Climbed, Kernel, kernel_for
from baserate.rates.sets import RateSet
from baserate.support.arrays import CACHED, FloatArray, IndexArray

_EPS = float(np.finfo(np.float64).eps)
_NONE = np.zeros((0, 0))  # the curvature of a pass that was not asked for it


@dataclass(frozen=True, eq=False)
class RowModel:
    """What is done to one row, but for the shift.

    Attributes
    ----------
    loss : Loss
    bounded : bool
        Whether entries must stay in [0, 1].
    n_classes : int
    keep : array of int
        The classes that may get probability; the others have rate 0. ``shift`` and dual rows have these columns.
    reading : Reading
    levels : array of int, optional
        Rates that are reached only in the limit of an infinite shift: a row gives probability only to the highest
        level among the classes that it allows.
    softness : float
        Share of Brier loss that was mixed in to make a problem solvable in floating point; see ``Softened``.
    """

    loss: Loss
    bounded: bool
    n_classes: int
    keep: IndexArray
    reading: Reading
    levels: IndexArray | None = None
    softness: float = 0.0

    @cached_property
    def solved_loss(self) -> Loss:
        """The loss whose divergence is minimised: ``loss``, or its softened form."""
        return Softened(self.loss, self.softness) if self.softness else self.loss

    @cached_property
    def face(self) -> Loss:
        """That loss in the coordinates of the kept classes."""
        whole = len(self.keep) == self.n_classes
        return self.solved_loss if whole else self.solved_loss.on_face(self.keep, self.n_classes)

    @cached_property
    def corners(self) -> FloatArray:
        """The generator at each corner of the simplex."""
        return self.solved_loss.phi(np.eye(self.n_classes))

    def probs(self, rows: FloatArray) -> FloatArray:
        """Predictions (m, k) of clean rows."""
        return self.loss.probs_of_logits(rows) if self.reading.from_logits else rows

    def dual_points(self, rows: FloatArray) -> FloatArray:
        """``eta``: the dual points of clean rows, for all classes."""
        return self.solved_loss.link_logits(rows) if self.reading.from_logits else self.solved_loss.link(rows)

    def kept(self, columns: FloatArray) -> FloatArray:
        """The columns of the kept classes."""
        return columns if len(self.keep) == self.n_classes else columns[:, self.keep]

    def at(self, eta: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The shifted dual points, and the adjusted rows ``a`` that belong to them."""
        # Column by column in memory: sums along short rows then run over long columns, twice as fast.
        x = np.asfortranarray(eta) + shift
        if self.levels is not None:
            level = np.where(np.isneginf(eta), -1, self.levels)
            x = np.where(level < level.max(axis=1, keepdims=True), -np.inf, x)
        if len(self.keep) == 1 and self.bounded:
            return x, np.ones_like(x)
        return x, self.face.row_map(x, bounded=self.bounded)

    def widen(self, a: FloatArray) -> FloatArray:
        """Adjusted rows with all classes."""
        if len(self.keep) == self.n_classes:
            return a
        out = np.zeros((len(a), self.n_classes))
        out[:, self.keep] = a
        return out

    def spread(self, values: FloatArray, fill: float) -> FloatArray:
        """One number for each class, from those of the kept classes."""
        out = np.full(self.n_classes, fill)
        out[self.keep] = values
        return out

    def adjusted(self, raw: NDArray[Any], first_row: int, naming: Naming, shift: FloatArray) -> FloatArray:
        """Rows that were never seen, checked and adjusted."""
        self.reading.check(raw, first_row, naming)
        eta = self.kept(self.dual_points(self.reading.clean(raw)))
        self.refuse_stranded(eta, first_row, naming)
        a = self.widen(self.at(eta, shift)[1])
        lost = np.flatnonzero(np.isnan(a).any(axis=1))
        if lost.size:
            row = naming.row(first_row + int(lost[0]))
            raise BadProbabilities(f"{row} has no unbounded adjustment by this shift; fit with bounded=True")
        return a

    def refuse_stranded(self, eta: FloatArray, first_row: int, naming: Naming) -> None:
        """Refuse rows that give probability only to classes of rate 0."""
        if not self.loss.pins_zeros:
            return
        stranded = np.flatnonzero(np.isneginf(eta).all(axis=1))
        if stranded.size:
            dropped = np.setdiff1d(np.arange(self.n_classes), self.keep).tolist()
            raise InfeasibleRates(
                f"{naming.row(first_row + int(stranded[0]))} gives probability only to classes whose rate is 0 "
                f"(columns {dropped}), so it cannot be adjusted; give them a rate above 0, drop the row, or pass "
                "zeros=1e-6 to smooth zeros",
                classes=self.keep.tolist(),
                reachable=float("nan"),
                wanted=1.0,
            )


def kept_classes(region: RateSet, bounded: bool) -> IndexArray:
    """The classes that may get probability: those of rate 0 do not, unless other entries may be negative."""
    return np.flatnonzero(region.high > 0) if bounded else np.arange(len(region.high))


@dataclass(frozen=True)
class Survey:
    """What the first pass learns.

    Attributes
    ----------
    mean : array of shape (k,)
        Mean prediction.
    offset : float
        ``sum_i w_i conj(eta_i)``, what the dual is measured from.
    n_zeros : int
        Exact zeros among the predictions.
    ceiling : float
        No primal objective, and so no dual value, can be above this.
    effective_rows : float
        ``1 / sum_i w_i^2``: n for equal weights (Kish's effective sample size).
    """

    mean: FloatArray
    offset: float
    n_zeros: int
    ceiling: float
    effective_rows: float
    passes: int
    """1, or 0 if it was done in passing."""


class Written(NamedTuple):
    """What the last pass learns: the mean divergence of the adjusted rows from the predictions, and their mean."""

    moved: float
    mean: FloatArray


_SURVEYED = 5  # sums of a survey


def _as_survey(sums: Sums, passes: int) -> Survey:
    mean, offset, zeros, ceiling, squares = sums
    return Survey(mean, float(offset), int(zeros), float(ceiling), 1.0 / float(squares), passes)


@dataclass(frozen=True, eq=False)
class Problem:
    """One adjustment problem on the rows that an engine holds."""

    engine: Engine
    model: RowModel
    region: RateSet
    """The rates that are possible, for all classes."""

    @cached_property
    def kept_rate_set(self) -> RateSet:
        """The region in the coordinates of the kept classes."""
        return self.region.take(self.model.keep)

    @cached_property
    def kernel(self) -> Kernel | None:
        """The fused passes for these rows, where there are any; NumPy does the others."""
        model, engine = self.model, self.engine
        if engine.dtype is None or model.levels is not None or model.softness:
            return None
        rows = (engine.dtype, engine.n_values)
        return kernel_for(model.loss, model.bounded, model.keep, model.n_classes, model.reading, rows)

    @cached_property
    def survey(self) -> Survey:
        """Check every row, and sum what does not depend on the shift."""
        if self.kernel is None:
            return _as_survey(self.engine.sum(self._survey_block), passes=1)
        sums = self._first_pass(self.kernel, np.zeros(len(self.model.keep)), curved=False)
        return _as_survey(sums[:_SURVEYED], passes=1)

    def evaluate(self, shift: FloatArray, *, curved: bool = True) -> Point:
        """The dual at one shift: one pass over the rows, and at the first time one that also surveys them."""
        if self.kernel is None or not self.kernel.takes(shift):
            self.survey  # noqa: B018  # first, since it fills the scratch
            sums = self.engine.sum(lambda block: self._reduce_block(self._eta(block), block.weights, shift, curved))
        elif "survey" not in vars(self):
            both = self._first_pass(self.kernel, shift, curved)
            vars(self)["survey"] = _as_survey(both[:_SURVEYED], passes=0)
            sums = both[_SURVEYED:]
        else:
            kernel = self.kernel
            sums = self.engine.sum(lambda block: self._fused_reduce(kernel, block, shift, curved), BLOCK_VALUES)
        point = self._point(shift, self.survey.offset, sums)
        self.engine.progress.residual(point.residual)
        return point

    def _first_pass(self, kernel: Kernel, shift: FloatArray, curved: bool) -> Sums:
        def task(block: Block) -> Sums:
            both = kernel.survey_and_reduce(block, shift, curved=curved)
            if both is None:  # rows that NumPy refuses, or knows how to take
                both = self._survey_block(block), self._reduce_block(self._eta(block), block.weights, shift, curved)
            return *both[0], *both[1]

        return self.engine.sum(task, BLOCK_VALUES)

    def _fused_reduce(self, kernel: Kernel, block: Block, shift: FloatArray, curved: bool) -> Sums:
        sums = kernel.reduce(block, shift, curved=curved)
        return self._reduce_block(self._eta(block), block.weights, shift, curved) if sums is None else sums

    def _point(self, shift: FloatArray, offset: float, sums: Sums) -> Point:
        conjugate, size, mean, curvature = sums
        inside = np.isfinite(conjugate) and bool(np.isfinite(mean).all())
        wanted = self.kept_rate_set.support(shift, mean) if inside else np.full_like(shift, np.nan)
        drift = float(shift @ wanted)
        value = offset - float(conjugate) + drift
        noise = _EPS * (float(size) + abs(offset) + abs(drift))
        return Point(shift, value if np.isfinite(value) else -np.inf, wanted, mean, curvature, noise)

    def at_once(self, target: Target) -> tuple[Solution, Written] | None:
        """Solve and write a small problem with little Python between the passes; None if it has to be the long way.

        The steps are those of the long way, and so is the answer.
        """
        engine, kernel, region = self.engine, self.kernel, self.kept_rate_set
        small = engine.in_memory and engine.n_rows * engine.n_classes <= BLOCK_VALUES
        if not small or kernel is None or not kernel.climbs:
            return None
        if not region.is_point or len(region.low) < engine.n_classes or target.max_passes < MOST_EASY:
            return None
        found: list[Climbed] = []

        def task(block: Block) -> tuple[FloatArray, Sums]:
            whole = len(block.raw) == engine.n_rows
            climbed = kernel.climb(block, region.low, target.tol, target.relative) if whole else None
            found.extend([climbed] if climbed else [])
            return (climbed.rows if climbed else np.empty((0, engine.n_classes))), ()

        list(engine.write(task, BLOCK_VALUES))
        if not found:
            return None
        done, rates = found[0], region.low
        vars(self)["survey"] = Survey(done.before, done.offset, 0, np.inf, 1.0 / done.squares, passes=1)
        value = done.moved + float(done.shift @ (rates - done.mean))
        point = Point(done.shift, value, rates, done.mean, _NONE, 0.0)
        return Solution(point, done.passes - 2, converged=True), Written(done.moved, done.mean)

    def finish(self, shift: FloatArray) -> Written:
        """Write the adjusted rows."""
        self.survey  # noqa: B018  # first, since it checks the rows and uses the space of the answer
        kernel = self.kernel
        if kernel is None or not shift.any() or not kernel.takes(shift):
            moved, mean = total(self.engine.write(lambda block: self._finish_block(block, shift)))
        else:
            moved, mean = total(self.engine.write(lambda block: self._fused_finish(kernel, block, shift), BLOCK_VALUES))
        return Written(float(moved), mean)

    def apply(self, shift: FloatArray) -> None:
        """Write rows that are only to be adjusted, by a shift that is known: one pass at most."""
        kernel = self.kernel if self.kernel is not None and self.kernel.takes(shift) else None

        def task(block: Block) -> tuple[FloatArray, Sums]:
            done = None if kernel is None else kernel.write(block, shift, check=True)
            return (
                self.model.adjusted(block.raw, block.start, self.engine.naming, shift) if done is None else done[0]
            ), ()

        self.engine.put_off(task, CACHED if kernel is None else BLOCK_VALUES)

    def at(self, shift: FloatArray, written: Written) -> Point:
        """The dual where rows were written, but for its curvature."""
        mean = written.mean[self.model.keep]
        wanted = self.kept_rate_set.support(shift, mean)
        return Point(shift, written.moved + float(shift @ (wanted - mean)), wanted, mean, _NONE, 0.0)

    def anew(self) -> Problem:
        """The same problem, of which nothing is known."""
        return Problem(self.engine, self.model, self.region)

    def _fused_finish(self, kernel: Kernel, block: Block, shift: FloatArray) -> tuple[FloatArray, Sums]:
        done = kernel.write(block, shift)
        if done is None:
            return self._finish_block(block, shift)
        rows, moved, mean = done
        return rows, (moved, self.model.spread(mean, fill=0.0))

    @cached_property
    def start(self) -> Point:
        """A shift to start from, and its rates: right if all rows were their mean."""
        mean = self.survey.mean[self.model.keep]
        return self.guess(np.zeros_like(mean), mean)

    def guess(self, shift: FloatArray, mean: FloatArray) -> Point:
        """The answer if all rows were alike, and had this mean at this shift. For log loss, a Sinkhorn step."""
        loss, region = self.model.face, self.kept_rate_set
        one = mean[None] / mean.sum() if mean.any() else region.nearest(mean)[None]
        eta = loss.link(one)
        if region.is_point or self.model.levels is not None:
            wanted = region.nearest(one[0])
            step = (loss.link(wanted[None]) - eta)[0] if region.distance(one[0]) > _EPS else np.zeros_like(mean)
            new = shift + np.where(np.isfinite(step), step, 0.0)
            return Point(new - wanted @ new, 0.0, wanted, one[0], self._metric(wanted), 0.0)
        offset = float(loss.conjugate(eta, one)[0])
        near = shift + self._towards(one[0])
        eta = eta - shift

        def evaluate(x: FloatArray) -> Point:
            return self._point(x, offset, self._reduce_block(eta, np.ones(1), x))

        return solve(evaluate, near, self._metric(region.nearest(one[0])), region, Target(1e-6, 50)).point

    def _towards(self, one: FloatArray) -> FloatArray:
        """The shift that takes one row into a box of rates, where the loss knows it: for log loss ``clip(c one)``."""
        loss, region = self.model.face, self.kept_rate_set
        stiffness = loss.stiffness(one)
        if stiffness is None or region.ball is not None or region.distance(one) <= _EPS:
            return np.zeros_like(one)
        wanted = region.nearest(one, stiffness)
        step = (loss.link(wanted[None]) - loss.link(one[None]))[0]
        free = (wanted > region.low) & (wanted < region.high)
        if free.any():
            step[free] = step[free][0]  # but for rounding they are equal, and that would look like a bound
        return np.where(np.isfinite(step), step, 0.0)

    def metric(self) -> FloatArray:
        """The curvature that the dual would have if every row were the wanted rates."""
        return self._metric(self.start.wanted)

    def _metric(self, rates: FloatArray) -> FloatArray:
        # A class that may be at 0 but need not stay there has to be able to move.
        inside = np.maximum(rates, 1e-3 * self.kept_rate_set.high)
        return self.model.face.jacobian(inside[None] / inside.sum(), np.ones(1), bounded=self.model.bounded)

    def with_model(self, **changes: object) -> Problem:
        """The same rows under a changed model."""
        return Problem(self.engine, replace(self.model, **changes), self.region)  # type: ignore[arg-type]  # names are checked by replace

    def with_region(self, region: RateSet) -> Problem:
        """The same rows for other rates; what was learned about them is kept if it still holds."""
        keep = kept_classes(region, self.model.bounded)
        changed = Problem(self.engine, replace(self.model, keep=keep), region)
        if "survey" in vars(self) and np.array_equal(keep, self.model.keep):
            vars(changed)["survey"] = self.survey
        return changed

    def _survey_block(self, block: Block) -> Sums:
        model = self.model
        model.reading.check(block.raw, block.start, self.engine.naming)
        rows = model.reading.clean(block.raw)
        p, eta = model.probs(rows), model.dual_points(rows)
        model.refuse_stranded(model.kept(eta), block.start, self.engine.naming)
        if block.scratch is not None and self.kernel is None:
            block.scratch[:, : len(model.keep)] = model.kept(eta)
        # Also if classes are dropped this is the conjugate over the whole simplex, where p lies.
        conjugate = model.solved_loss.conjugate(eta, p)
        height = model.corners - eta
        zeros = np.zeros(())
        if model.loss.pins_zeros and (pinned := np.isneginf(eta)).any():
            height[pinned] = -np.inf
            zeros = np.asarray(pinned.sum(), dtype=np.float64)
        height = height.max(axis=1)
        w = block.weights
        with np.errstate(invalid="ignore"):  # a loss that overflows is refused when its dual is found not to be finite
            ceiling = w @ (height + conjugate)
        return w @ p, w @ conjugate, zeros, ceiling, w @ w

    def _eta(self, block: Block) -> FloatArray:
        if block.scratch is not None and self.kernel is None:  # a kernel leaves it empty
            return block.scratch[:, : len(self.model.keep)]
        return self.model.kept(self.model.dual_points(self.model.reading.clean(block.raw)))

    def _reduce_block(self, eta: FloatArray, w: FloatArray, shift: FloatArray, curved: bool = True) -> Sums:
        face = self.model.face
        x, a = self.model.at(eta, shift)
        conjugate = face.conjugate(x, a)
        curvature = face.jacobian(a, w, bounded=self.model.bounded) if curved else _NONE
        return w @ conjugate, w @ np.abs(conjugate), w @ a, curvature

    def _finish_block(self, block: Block, shift: FloatArray) -> tuple[FloatArray, Sums]:
        rows = self.model.reading.clean(block.raw)
        p, w = self.model.probs(rows), block.weights
        if not shift.any() and len(shift) == self.model.n_classes and self.model.levels is None:
            return p, (np.zeros(()), w @ p)  # without the rounding of a way there and back
        # Not from the scratch: that holds the rows of the last model that was surveyed, which may have been given up.
        _, a = self.model.at(self.model.kept(self.model.dual_points(rows)), shift)
        a = self.model.widen(a)
        return a, (w @ self.model.loss.divergence(p, a), w @ a)
