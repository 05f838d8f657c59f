"""The rows of an open file, for repeated adjustment to other rates: all of them, and a sample for quick answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from baserate.adjust import adjust
from baserate.adjustment import Adjustment
from baserate.app.commands import Settings
from baserate.core.contracts import Block
from baserate.errors import BaserateError
from baserate.progress import Progress
from baserate.rates import Rates
from baserate.solving import Request, parse_request, read_predictions, solve_again
from baserate.solving.held_rows import HeldRows
from baserate.support.arrays import FloatArray
from baserate.tables import Files

HELD_VALUES = 40_000_000
"""Files with at most so many probabilities are held in memory, so that exact answers take no reading."""

TOO_MANY = f"The file has more than {HELD_VALUES // 1_000_000} million probabilities"

SAMPLE_VALUES = 200_000
SAMPLE_ROWS = 20_000
_FEWEST_ROWS = 500

_EXACT_KINDS = ("exact", "between")


class Matrix(NamedTuple):
    """Rows in memory."""

    probs: FloatArray
    weights: FloatArray | None

    def every(self, stride: int) -> Matrix:
        """Every n-th row."""
        weights = None if self.weights is None else self.weights[::stride]
        return Matrix(np.ascontiguousarray(self.probs[::stride]), weights)


@dataclass(eq=False)
class OpenRows:
    """The rows of one file, read in one way.

    Attributes
    ----------
    source : Files
        The file, by its path on this machine.
    held : HeldRows or None
        All rows; None if they are too many.
    whole : Matrix or None
    sample : Matrix
        Evenly spaced rows.
    n_rows : int
    effective_rows : int
        The number of rows of equal weight that vary by chance as much as all rows of the file.
    classes : tuple or None
        Names of the classes.
    one_column : bool
    dtype : str or None
        "float32" if the adjusted file has rounded numbers.
    """

    source: Files
    held: HeldRows | None
    whole: Matrix | None
    sample: Matrix
    n_rows: int
    effective_rows: int
    classes: tuple[Any, ...] | None
    one_column: bool
    dtype: str | None
    _present: dict[tuple[str, str], Adjustment] = field(default_factory=dict)

    @classmethod
    def read(cls, source: Files, settings: Settings, progress: Progress) -> OpenRows:
        """Read a file."""
        roles = settings.roles
        others = {"labels": roles.label} | {f"groups {name}": name for name in roles.groups}
        options = {**settings.reading, "progress": progress}
        anything = Rates.between(None, None)
        used = {what: name for what, name in others.items() if name is not None}
        request = parse_request(source, anything, other_columns=used, **options)
        rows = request.rows
        stride = sample_stride(rows.n_rows, rows.n_classes)
        held, whole = None, None
        if rows.n_rows * rows.n_classes <= HELD_VALUES:
            held = HeldRows.of(request)
            whole = Matrix(held.probs, held.weights)
            sample = whole.every(stride)
        else:
            probs, weights = read_predictions(request, stride)
            sample = Matrix(probs, weights if rows.weighted else None)
        effective = _effective_rows(request, held)
        dtype = "float32" if np.dtype(rows.answer_types.common) == np.float32 else None
        known = request.known
        return cls(source, held, whole, sample, rows.n_rows, effective, known.classes, rows.one_column, dtype)

    @property
    def sample_is_whole(self) -> bool:
        """Whether the sample has all rows."""
        return len(self.sample.probs) == self.n_rows

    def adjust_sample(self, rates: Rates, loss: str) -> Adjustment:
        """Adjust the sample to rates."""
        return self._adjust(self.sample, self.for_sample(rates), loss, "sample")

    def adjust_all(self, settings: Settings, rates: Any, progress: Progress) -> Adjustment:
        """Adjust all rows: in memory if they are held, else by passes over the file."""
        if self.whole is not None and settings.by is None:
            return self._adjust(self.whole, rates, settings.loss, "whole")
        return adjust(self.source, rates, loss=settings.loss, progress=progress, **settings.reading)

    def _adjust(self, matrix: Matrix, rates: Any, loss: str, which: str) -> Adjustment:
        present = self._present.get((which, loss))
        if present is not None:
            # Not what_if(): it would also write the adjusted rows, which are not shown.
            return Adjustment.of(solve_again(present, rates, keep_rows=False))
        probs = matrix.probs[:, 1] if self.one_column else matrix.probs
        options: dict[str, Any] = {"classes": self.classes, "sample_weight": matrix.weights, "dtype": self.dtype}
        found = adjust(probs, rates, loss=loss, **options)
        self._present[which, loss] = found
        return found

    def for_sample(self, rates: Rates) -> Rates:
        """Rates for the sample. Sets that depend on the number of rows keep the bounds that they have for all rows."""
        if self.sample_is_whole or rates.kind in _EXACT_KINDS:
            return rates
        n_classes = self.sample.probs.shape[1]
        low, high = rates.on(self.classes, n_classes).bounds(self.effective_rows)
        return Rates.between(low, high, classes=self.classes)

    def with_labels(self) -> HeldRows:
        """All rows, of which labels can be read. Raises if they are too many."""
        if self.held is None:
            raise BaserateError(
                f"{TOO_MANY}, so the procedures are not compared here. Run the command under “Compare the procedures” "
                "in step 4"
            )
        return self.held


def _effective_rows(request: Request, held: HeldRows | None) -> int:
    """The number of rows of equal weight that vary by chance as much as the rows of a request.

    It is computed from all rows, as the exact answer does: large weights may be missing from a sample.
    """
    if not request.rows.weighted:
        return request.rows.n_rows
    sums = [_sums(held.weights)] if held is not None else list(request.rows.map(_sums_of_block))
    total, squares = np.sum(sums, axis=0)
    return max(int((1 + 1e-9) * total**2 / squares), 1)


def _sums_of_block(block: Block) -> FloatArray:
    return _sums(block.as_numpy().weights)


def _sums(weights: Any) -> FloatArray:
    """The sum of the weights, and that of their squares."""
    return np.array([weights.sum(), weights @ weights])


def sample_stride(n_rows: int, n_classes: int) -> int:
    """The distance between two rows of a sample."""
    size = min(SAMPLE_ROWS, max(SAMPLE_VALUES // n_classes, _FEWEST_ROWS))
    return -(-n_rows // size)
