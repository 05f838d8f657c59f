"""Check rows and count what is wrong with them, rather than raising at the first bad one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.core.contracts import Block, Engine, total
from baserate.errors import Option
from baserate.inputs.reading import Reading
from baserate.support.arrays import FloatArray

_NOT_FINITE = "with missing or infinite entries"
_FROM_LOGITS, _NORMALIZE = Option("from_logits", "True"), Option("normalize", "True")


@dataclass(frozen=True)
class Fault:
    """Rows that cannot be used, for one reason.

    Attributes
    ----------
    what : str
    n_rows : int
    first : str
        Where the first one is.
    advice : str
    options : tuple of Option
        The options that the advice mentions.
    """

    what: str
    n_rows: int
    first: str
    advice: str
    options: tuple[Option, ...] = ()


@dataclass(frozen=True)
class RowCheck:
    """What was found in all rows.

    Attributes
    ----------
    faults : list of Fault
    n_zeros : int
        Hard zeros.
    mean : array of shape (k,)
        Mean of the rows without a fault.
    """

    faults: list[Fault]
    n_zeros: int
    mean: FloatArray


class _Rule(NamedTuple):
    what: str
    advice: str
    is_broken: Callable[[NDArray[Any]], Any]
    options: tuple[Option, ...] = ()


class _BrokenRule(NamedTuple):
    """How many rows of a block break a rule, and the first of them, with a column if it is one entry."""

    n_rows: int
    row: int
    column: int | None


class _GoodSums(NamedTuple):
    """Sums over the rows without a fault."""

    weight: FloatArray
    mean: FloatArray
    zeros: FloatArray


def check_rows(engine: Engine, reading: Reading) -> RowCheck:
    """Check every row: one pass."""
    rules = _rules(reading, engine.dtype or np.dtype(np.float64))
    counts, first = [0] * len(rules), [""] * len(rules)
    sums: list[_GoodSums] = []
    for found, good in engine.map(partial(_check_block, reading)):
        sums.append(good)
        for i, broken in enumerate(found):
            if broken.n_rows and not counts[i]:
                first[i] = _place(engine, broken)
            counts[i] += broken.n_rows
    weight, mean, zeros = total(sums)
    faults = [Fault(r.what, n, at, r.advice, r.options) for r, n, at in zip(rules, counts, first, strict=True) if n]
    return RowCheck(faults, int(zeros), mean / weight if weight > 0 else np.full_like(mean, np.nan))


def _place(engine: Engine, broken: _BrokenRule) -> str:
    if broken.column is None:
        return engine.naming.row(broken.row)
    return engine.naming.cell(broken.row, broken.column)


def _rules(reading: Reading, dtype: np.dtype[Any]) -> list[_Rule]:
    if reading.from_logits:
        return [
            _Rule(
                "with missing or infinite entries",
                "drop or fill these rows",
                lambda raw: np.isnan(raw) | np.isposinf(raw),
            ),
            _Rule("with -inf in every class", "drop these rows", lambda raw: np.isneginf(raw).all(axis=1)),
        ]
    advice = f"if these are logits or log probabilities, pass {_FROM_LOGITS}"
    rules = [
        _Rule(_NOT_FINITE, "drop or fill these rows", lambda raw: ~np.isfinite(raw)),
        _Rule("with negative entries", advice, lambda raw: raw < 0, (_FROM_LOGITS,)),
        _Rule("with 0 in every class", "drop these rows", lambda raw: ~raw.any(axis=1)),
    ]
    if not reading.normalize:
        tolerance = reading.tolerance(dtype)
        rules.append(
            _Rule(
                "with a sum other than 1",
                f"pass {_NORMALIZE} to divide each row by its sum",
                lambda raw: np.abs(raw.sum(axis=1, dtype=np.float64) - 1) > tolerance,
                (_NORMALIZE,),
            )
        )
    return rules


def _check_block(reading: Reading, block: Block) -> tuple[list[_BrokenRule], _GoodSums]:
    block = block.as_numpy()
    good = np.ones(len(block.rows), dtype=bool)
    found = []
    with np.errstate(all="ignore"):
        for rule in _rules(reading, block.rows.dtype):
            bad = rule.is_broken(block.rows)
            rows = (bad.any(axis=1) if bad.ndim == 2 else bad) & good  # only the first fault of a row counts
            good &= ~rows
            at = int(rows.argmax())
            column = int(bad[at].argmax()) if bad.ndim == 2 else None
            found.append(_BrokenRule(int(rows.sum()), block.start + at, column))
    weights = block.weights[good]
    rows = replace(reading, smoothing=0.0).clean(block.rows[good])
    p = np.exp(rows) if reading.from_logits else rows
    return found, _GoodSums(np.asarray(weights.sum()), weights @ p, np.asarray(float((p == 0).sum())))
