"""What is wrong with rows, counted rather than refused at the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baserate.engines.base import Block, Engine, Sums, total
from baserate.inputs.reading import Reading
from baserate.support.arrays import FloatArray


@dataclass(frozen=True)
class Fault:
    """Rows that cannot be used, of one kind.

    Attributes
    ----------
    what : str
    n_rows : int
    first : str
        Where the first one is.
    advice : str
    """

    what: str
    n_rows: int
    first: str
    advice: str


@dataclass(frozen=True)
class Findings:
    """What was seen in all rows.

    Attributes
    ----------
    faults : list of Fault
    n_zeros : int
        Entries that are exactly 0.
    mean : array of shape (k,)
        Mean of the rows without a fault.
    """

    faults: list[Fault]
    n_zeros: int
    mean: FloatArray


class _Kind:
    def __init__(self, what: str, advice: str, test: Callable[[NDArray[Any]], Any]) -> None:
        self.what, self.advice, self.test = what, advice, test


def look(engine: Engine, reading: Reading) -> Findings:
    """Look at every row: one pass."""
    kinds, plain = _kinds(reading, engine.dtype or np.dtype(np.float64)), replace(reading, smoothing=0.0)
    counts, first = [0] * len(kinds), [""] * len(kinds)
    sums: list[Sums] = []
    for found, summed in engine.map(lambda block: _look(block, kinds, plain)):
        sums.append(summed)
        for i, (n_rows, row, column) in enumerate(found):
            if n_rows and not counts[i]:
                first[i] = engine.naming.row(row) if column is None else engine.naming.cell(row, column)
            counts[i] += n_rows
    weight, mean, zeros = total(sums)
    faults = [Fault(k.what, n, at, k.advice) for k, n, at in zip(kinds, counts, first, strict=True) if n]
    return Findings(faults, int(zeros), mean / weight if weight > 0 else np.full_like(mean, np.nan))


def _kinds(reading: Reading, dtype: np.dtype[Any]) -> list[_Kind]:
    if reading.from_logits:
        return [
            _Kind("missing or infinite", "drop or fill these rows", lambda raw: np.isnan(raw) | np.isposinf(raw)),
            _Kind("-inf in every class", "drop these rows", lambda raw: np.isneginf(raw).all(axis=1)),
        ]
    tolerance = reading.tolerance(dtype)
    kinds = [
        _Kind("missing or not finite", "drop or fill these rows", lambda raw: ~np.isfinite(raw)),
        _Kind("negative", "if these are logits or log probabilities, say from_logits=True", lambda raw: raw < 0),
        _Kind("0 in every class", "drop these rows", lambda raw: ~raw.any(axis=1)),
    ]
    if not reading.normalize:
        off = _Kind(
            "of a sum that is not 1",
            "say normalize=True to divide each row by its sum",
            lambda raw: np.abs(raw.sum(axis=1, dtype=np.float64) - 1) > tolerance,
        )
        kinds.append(off)
    return kinds


def _look(block: Block, kinds: list[_Kind], reading: Reading) -> tuple[list[tuple[int, int, int | None]], Sums]:
    """For each kind the number of rows, and the first of them; and sums over the rows without a fault."""
    good = np.ones(len(block.raw), dtype=bool)
    found = []
    with np.errstate(all="ignore"):
        for kind in kinds:
            bad = kind.test(block.raw)
            rows = (bad.any(axis=1) if bad.ndim == 2 else bad) & good  # a row has one fault, the first
            good &= ~rows
            at = int(rows.argmax())
            found.append((int(rows.sum()), block.start + at, int(bad[at].argmax()) if bad.ndim == 2 else None))
    weights, rows = block.weights[good], reading.clean(block.raw[good])
    p = np.exp(rows) if reading.from_logits else rows
    return found, (np.asarray(weights.sum()), weights @ p, np.asarray(float((p == 0).sum())))
