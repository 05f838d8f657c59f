"""How single rows changed: one pass over the rows, wherever they are, that keeps only counts and a few rows."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from baserate.core.contracts import Block, Engine, WrittenBlock, total
from baserate.core.row_model import RowModel
from baserate.errors import BaserateError
from baserate.losses.base import Loss
from baserate.passes import choose_passes
from baserate.result.grouped import GroupedResult
from baserate.result.record import Result
from baserate.solving.cell_writer import CellWriter
from baserate.support.arrays import FloatArray

_EXTREME = 10  # Rows that are shown because they changed most.
_SAMPLED = 100_000  # Rows of which a picture is drawn.
_CHANGED = 1e-9  # The mean of unchanged rows differs by less than this when they are read again.


class ExtremeRow(NamedTuple):
    """A row that changed a lot.

    Attributes
    ----------
    row : str
        Its name in messages.
    divergence : float
        Divergence of the adjusted row from the prediction.
    before, after : array of shape (k,)
    """

    row: str
    divergence: float
    before: FloatArray
    after: FloatArray


@dataclass(frozen=True, eq=False)
class RowChanges:
    """What adjustment did to single rows.

    Attributes
    ----------
    zeros_before, zeros_after : int
        Hard zeros among the predictions and the adjusted rows.
    new_top_class : int
        Rows whose most probable class changed.
    before, after : array of shape (m, k)
        Predictions and adjusted rows: all of them, or an evenly spaced sample of very many.
    outside : int
        Adjusted entries below 0 or above 1, which only unbounded adjustment has.
    extremes : list of ExtremeRow
        The rows that changed most, in descending order.
    """

    zeros_before: int
    zeros_after: int
    new_top_class: int
    before: FloatArray
    after: FloatArray
    outside: int
    extremes: list[ExtremeRow]


class _Counts(NamedTuple):
    zeros_before: FloatArray
    zeros_after: FloatArray
    new_top_class: FloatArray
    outside: FloatArray
    mean: FloatArray


class _Candidate(NamedTuple):
    divergence: float
    row: int
    before: FloatArray
    after: FloatArray


class _Part(NamedTuple):
    counts: _Counts
    before: FloatArray
    after: FloatArray
    candidates: list[_Candidate]


def row_changes(result: Result) -> RowChanges:
    """What an adjustment did to single rows. The original rows must be available, so it cannot be a loaded one."""
    engine = _source(result)
    stride = -(-engine.n_rows // _SAMPLED)
    parts: list[_Part] = []
    extremes: list[_Candidate] = []
    for part in engine.map(partial(_changes, result.model, _adjuster(result, engine), stride)):
        extremes = heapq.nlargest(_EXTREME, [*extremes, *part.candidates], key=lambda one: (one.divergence, -one.row))
        parts.append(part._replace(candidates=[]))
    counts = total(part.counts for part in parts)
    if np.abs(counts.mean - result.before).max() > _CHANGED:
        raise BaserateError("the predictions were changed since they were adjusted; adjust them again")
    return RowChanges(
        zeros_before=int(counts.zeros_before),
        zeros_after=int(counts.zeros_after),
        new_top_class=int(counts.new_top_class),
        before=np.concatenate([part.before for part in parts]),
        after=np.concatenate([part.after for part in parts]),
        outside=int(counts.outside),
        extremes=[ExtremeRow(engine.naming.row(one.row), one.divergence, one.before, one.after) for one in extremes],
    )


def expected_loss(loss: Loss, changes: RowChanges) -> float:
    """The mean loss that the predictions are expected to have if the adjusted rows are the true probabilities."""
    p, a = changes.before, changes.after
    entropy = a @ loss.corner_values(a.shape[1]) - loss.phi(a)
    return float((entropy + loss.divergence(p, a)).mean())


class AllRows(NamedTuple):
    """All rows in memory.

    Attributes
    ----------
    before, after : array of shape (n, k)
        Predictions, each row with sum 1, and adjusted rows.
    weights : array of shape (n,), or None if they are equal
    """

    before: FloatArray
    after: FloatArray
    weights: FloatArray | None


def all_rows(result: Result) -> AllRows:
    """The predictions and adjusted rows of a result, read once more."""
    engine = _source(result)
    parts = list(engine.map(partial(_pairs, _adjuster(result, engine))))
    before, after, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    return AllRows(before, after, weights if engine.weighted else None)


def _source(result: Result) -> Engine:
    if result.source is None:
        raise BaserateError(
            "this adjustment has a shift but no rows; the original rows are not available, so their change cannot be "
            "computed"
        )
    return result.source


class _BothRows(NamedTuple):
    before: FloatArray
    after: FloatArray


def _adjuster(result: Result, engine: Engine) -> Callable[[Block], _BothRows]:
    """A task that returns the predictions and the adjusted rows of a block."""
    if not isinstance(result, GroupedResult):
        return partial(_adjusted, result.model, result.dual_shift)
    passes = choose_passes(result.model, engine)
    models = {
        cell: result.groups.models[group]
        for cell, group in enumerate(result.cell_groups)
        if group in result.groups.models
    }
    return partial(_adjusted_in_cells, result.model, CellWriter(passes, result.dual_shift, models, check=False))


def _adjusted(model: RowModel, shift: FloatArray, block: Block) -> _BothRows:
    rows = model.adjusted(block.rows, shift)
    return _BothRows(rows.before, rows.after)


def _adjusted_in_cells(model: RowModel, write: Callable[[Block], WrittenBlock], block: Block) -> _BothRows:
    rows = write(replace(block, scratch=None)).rows
    return _BothRows(model.read(block.rows)[0], np.asarray(rows, dtype=np.float64))


def _pairs(adjust: Callable[[Block], _BothRows], block: Block) -> tuple[FloatArray, FloatArray, FloatArray]:
    block = block.as_numpy()
    return *adjust(block), block.weights


def _changes(model: RowModel, adjust: Callable[[Block], _BothRows], stride: int, block: Block) -> _Part:
    p, a, weights = _pairs(adjust, block)
    with np.errstate(all="ignore"):
        # Where the divergence is not defined (an entry below 0), the row cannot be ranked and comes last.
        divergence = np.nan_to_num(model.loss.divergence(p, a), nan=-1.0, posinf=np.inf)
    largest = np.argsort(-divergence, kind="stable")[:_EXTREME]
    candidates = [_Candidate(float(divergence[i]), block.start + int(i), p[i].copy(), a[i].copy()) for i in largest]
    sampled = slice(-block.start % stride, None, stride)
    counts = _Counts(
        zeros_before=np.asarray((p == 0).sum()),
        zeros_after=np.asarray((a == 0).sum()),
        new_top_class=np.asarray((p.argmax(axis=1) != a.argmax(axis=1)).sum()),
        outside=np.asarray(((a < 0) | (a > 1)).sum()),
        mean=weights @ p,
    )
    return _Part(counts, p[sampled].copy(), a[sampled].copy(), candidates)
