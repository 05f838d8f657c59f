"""The adjustment problem and its dual: shapes and signs in one place.

With ``p`` the predictions (n, k), ``w`` the row weights (sum 1), ``T`` what is known about the rates, a convex set
whose simplest form is one point, and ``lam`` the shift (k):

    primal   minimise  sum_i w_i d(p_i, a_i)   over rows a_i of the simplex with  sum_i w_i a_i in T
    dual     g(lam) = sum_i w_i [ conj(eta_i) - conj(eta_i + lam) ] + h(lam),         eta_i = link(p_i)
             h(lam)     = min over t in T of <lam, t>
             gradient   t - sum_i w_i a_i(lam),         a_i(lam) = row_map(eta_i + lam),  t where that minimum is
             curvature  sum_i w_i J_i                   (of the first term)

Every value of the dual, not only its maximum, is a guarantee: on any labels whose weighted mean lies in ``T``, the mean
loss of the rows ``a(lam)`` is below that of ``p`` by at least ``g(lam)``. The rows that are written are floating-point
numbers near ``a(lam)``; what their rounding costs is measured when they are written. See docs/theory.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from baserate.core.contracts import Block, Engine, RowPasses, SolvedBlock, SurveySums, WrittenBlock, WrittenSums, total
from baserate.core.curvature_choice import fits_memory, many_classes
from baserate.core.newton import Point, Target
from baserate.core.products import ProductCurvature
from baserate.core.row_model import NO_CURVATURE, RowModel
from baserate.core.start import dual_point
from baserate.rates.sets import RateSet
from baserate.support.arrays import FloatArray


class Survey(NamedTuple):
    """What the first pass learns about the rows.

    Attributes
    ----------
    mean : array of shape (k,)
        Mean prediction.
    offset : float
        ``sum_i w_i conj(eta_i)``, from which the dual is measured.
    n_zeros : int
        Hard zeros among the predictions, for losses that cannot move them.
    ceiling : float
        No primal objective, and so no dual value, can exceed this.
    effective_rows : float
        ``1 / sum_i w_i^2``: n for equal weights (Kish's effective sample size).
    """

    mean: FloatArray
    offset: float
    n_zeros: int
    ceiling: float
    effective_rows: float

    @classmethod
    def of(cls, sums: SurveySums) -> Survey:
        """The survey of all rows from its sums."""
        effective = 1.0 / float(sums.squared_weights)
        return cls(sums.mean, float(sums.offset), int(sums.zeros), float(sums.ceiling), effective)


class Written(NamedTuple):
    """Means over the adjusted rows; see :class:`baserate.core.contracts.WrittenSums`."""

    divergence: float
    mean: FloatArray
    shortfall: float
    exact_mean: FloatArray

    @classmethod
    def of(cls, sums: WrittenSums) -> Written:
        """The means of all rows from their sums."""
        return cls(float(sums.divergence), sums.mean, float(sums.shortfall), sums.exact_mean)


@dataclass(frozen=True, eq=False)
class Dual:
    """The dual function of the rows that an engine holds.

    ``survey``, ``first``, ``evaluate``, ``evaluate_by_products``, ``multiply``, ``write`` and ``measure`` each take one
    pass over the rows.

    Attributes
    ----------
    rows : Engine
    passes : RowPasses
    rate_set : RateSet
        The possible rates, for all classes.
    kept_rate_set : RateSet
        The rate set in the coordinates of the kept classes.
    model : RowModel
        What is done to a row, except for the shift.
    """

    rows: Engine
    passes: RowPasses
    rate_set: RateSet
    kept_rate_set: RateSet
    model: RowModel

    @classmethod
    def of(cls, rows: Engine, passes: RowPasses, rate_set: RateSet) -> Dual:
        """The dual function of some rows."""
        return cls(rows, passes, rate_set, rate_set.restrict(passes.model.kept_classes), passes.model)

    def survey(self) -> Survey:
        """Check every row, and sum what does not depend on the shift."""
        return Survey.of(self.rows.sum(self.passes.survey, self.passes.block_values))

    def first(self, shift: FloatArray, *, curvature: bool = True) -> tuple[Survey, Point]:
        """The survey and the dual at a shift, from one pass."""
        task = partial(self.passes.first, shift=shift, curvature=curvature)
        sums = self.rows.sum(task, self.passes.block_values)
        survey = Survey.of(sums.survey)
        point = dual_point(shift, survey.offset, sums.dual, self.kept_rate_set)
        self.rows.progress.residual(point.residual)
        return survey, point

    def evaluate(self, survey: Survey, shift: FloatArray, *, curvature: bool = True) -> Point:
        """The dual at a shift, for rows that were surveyed and not written since."""
        task = partial(self.passes.reduce, shift=shift, curvature=curvature)
        sums = self.rows.sum(task, self.passes.block_values)
        point = dual_point(shift, survey.offset, sums, self.kept_rate_set)
        self.rows.progress.residual(point.residual)
        return point

    @property
    def uses_products(self) -> bool:
        """Whether the search multiplies with the curvature instead of computing it.

        It does so for many classes, if passes and loss support it and the rate set has no ball. A product is a pass, so
        up to 5000 classes the rows must be in memory, where a pass takes less time than the matrix.
        """
        cheap = self.rows.in_memory or not fits_memory(self.model)
        return cheap and self.passes.multiplies and many_classes(self.model, self.kept_rate_set)

    def evaluate_by_products(self, survey: Survey, shift: FloatArray) -> Point:
        """What :meth:`evaluate` returns, with a curvature whose products are passes over the rows."""
        sums = self.rows.sum(partial(self.passes.reduce_diagonal, shift=shift), self.passes.block_values)
        curvature = ProductCurvature(sums.curvature, partial(self.multiply, shift))
        point = dual_point(shift, survey.offset, (*sums[:3], curvature), self.kept_rate_set)
        self.rows.progress.residual(point.residual)
        return point

    def multiply(self, shift: FloatArray, vector: FloatArray) -> FloatArray:
        """The curvature at a shift times a vector."""
        task = partial(self.passes.multiply, shift=shift, vector=vector)
        return self.rows.sum(task, self.passes.block_values).product

    def write(self, shift: FloatArray) -> Written:
        """Write the adjusted rows."""
        task = partial(self.passes.write, shift=shift)
        return Written.of(self.rows.write_and_fold(task, total, self.passes.block_values))

    def measure(self, shift: FloatArray) -> Written:
        """What :meth:`write` returns, without keeping the rows."""
        return Written.of(self.rows.sum(partial(self.passes.measure, shift=shift), self.passes.block_values))

    def solve_in_one_block(self, target: Target, sample: Engine | None = None) -> SolvedBlock | None:
        """Solve and write a problem with exact rates whose rows all lie in one block, if the passes can do that.

        The search starts from the solution for a sample of the rows, if there is one.
        """
        rates = self.kept_rate_set.low
        blocks = [None] if sample is None else sample.map(lambda block: block, self.passes.block_values)
        (sampled,) = blocks  # all rows fit in one block, and so does a sample

        def task(block: Block) -> WrittenBlock:
            whole = len(block.weights) == self.rows.n_rows
            solved = self.passes.solve(block, rates, target, sampled) if whole else None
            return solved or WrittenBlock(block.rows[:0], None)

        solved, *_ = self.rows.write(task, self.passes.block_values)
        return solved if isinstance(solved, SolvedBlock) else None

    def written_point(self, shift: FloatArray, written: Written) -> Point:
        """The dual at a shift whose rows were written, without its curvature. Only its value has rounding errors."""
        mean, returned = written.exact_mean[self.model.kept_classes], written.mean[self.model.kept_classes]
        wanted = self.kept_rate_set.support(shift, mean)
        return Point(shift, written.divergence + float(shift @ (wanted - returned)), wanted, mean, NO_CURVATURE, 0.0)

    def with_rows(self, rows: Engine) -> Dual:
        """The dual of other rows of the same kind, such as a sample."""
        return replace(self, rows=rows)
