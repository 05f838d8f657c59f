"""How raw rows become probabilities, and how messages name rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baserate.errors import BadProbabilities, Option
from baserate.inputs.validation import quoted_name
from baserate.support.arrays import FloatArray, rows_per_block

NORMALIZE = Option("normalize", "True")
FROM_LOGITS = Option("from_logits", "True")
ADJUST_MULTILABEL = Option("br.adjust_multilabel")
"""Another function, as an option: the command line, which has no such function, says something else instead."""

# float32 and float64 get the same tolerance: the rows of a float32 model that were saved as float64 still have
# float32 rounding errors.
_SUM_TOLERANCE, _FLOAT16_SUM_TOLERANCE = 1e-5, 1e-2

_MULTILABEL_SUMS = 0.9, 1.1  # Entries in [0, 1] whose sums lie on both sides are taken for labels that can co-occur.


@dataclass(frozen=True)
class Naming:
    """Names of rows and columns for use in messages.

    Attributes
    ----------
    columns : tuple, optional
        Column names. If None, columns are named by their number.
    """

    columns: tuple[Any, ...] | None = None

    def row(self, i: int) -> str:
        """Name of row ``i``, counted over the whole input."""
        return f"row {i}"

    def cell(self, i: int, j: int) -> str:
        """Name of the entry in row ``i`` and column ``j``."""
        return f"{self.row(i)}, column {j if self.columns is None else quoted_name(self.columns[j])}"


NUMBERED = Naming()


@dataclass(frozen=True)
class Reading:
    """Checks raw rows and converts them to probabilities.

    Attributes
    ----------
    from_logits : bool
        Rows are logits or log probabilities. The converted rows are log probabilities.
    normalize : bool
        Rows may have any positive sum.
    smoothing : float
        Added to every probability before the row is divided by its sum again.
    """

    from_logits: bool = False
    normalize: bool = False
    smoothing: float = 0.0

    def check(self, raw: NDArray[Any], first_row: int, naming: Naming = NUMBERED) -> None:
        """Raise if a row is not a valid prediction.

        Parameters
        ----------
        raw : array of shape (m, k)
        first_row : int
            Number of the first of these rows in the whole input.
        naming : Naming
            Names of rows and columns for the message.
        """
        check = self._check_logits if self.from_logits else self._check_probs
        # Blocks have a fixed size here, so that the counts in the message do not depend on the engine's block size.
        size = rows_per_block(raw.shape[1])
        for start in range(0, len(raw), size):
            check(raw[start : start + size], first_row + start, naming)

    def clean(self, raw: NDArray[Any]) -> FloatArray:
        """Probabilities in float64 that sum to 1 per row, or log probabilities if ``from_logits``."""
        # Column-major order: sums along short rows then run over long columns, which takes a fifth of the time.
        rows = raw.astype(np.float64, order="F")
        if self.from_logits:
            return self._clean_logits(rows)
        if self.normalize:
            rows /= rows.max(axis=1, keepdims=True)  # so that the sum cannot overflow
        rows /= rows.sum(axis=1, keepdims=True)
        if self.smoothing:
            rows = (rows + self.smoothing) / (1.0 + rows.shape[1] * self.smoothing)
        return rows

    def tolerance(self, dtype: np.dtype[Any]) -> float:
        """Largest accepted difference between the sum of a row and 1."""
        is_float16 = dtype.kind == "f" and dtype.itemsize == 2  # in either byte order
        return _FLOAT16_SUM_TOLERANCE if is_float16 else _SUM_TOLERANCE

    def _clean_logits(self, rows: FloatArray) -> FloatArray:
        hard_zero = np.isneginf(rows)
        with np.errstate(over="ignore"):
            rows -= rows.max(axis=1, keepdims=True)
        # A finite logit never becomes a hard zero, however far it is below the largest logit of its row.
        np.maximum(rows, np.finfo(np.float64).min / 4, out=rows, where=~hard_zero)
        rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
        if self.smoothing:
            rows = np.logaddexp(rows, np.log(self.smoothing)) - np.log1p(rows.shape[1] * self.smoothing)
        return rows

    def _check_logits(self, raw: NDArray[Any], first_row: int, naming: Naming) -> None:
        bad = np.isnan(raw) | np.isposinf(raw)
        raise_if_any(bad, raw, first_row, naming, "logits must be finite or -inf (probability 0)")
        empty = np.flatnonzero(np.isneginf(raw).all(axis=1))
        if empty.size:
            row = naming.row(first_row + int(empty[0]))
            raise BadProbabilities(f"all logits of {row} are -inf; at least one must be finite")

    def _check_probs(self, raw: NDArray[Any], first_row: int, naming: Naming) -> None:
        if raw.dtype.kind == "f" and not self.normalize:
            # Not raw.sum(axis=1), which takes three times as long for short rows.
            error = np.abs(np.einsum("ij->i", raw, dtype=np.float64, casting="same_kind") - 1.0)
            if raw.min() >= 0 and error.max() <= self.tolerance(raw.dtype):  # the rest only finds out what is wrong
                return
        if raw.dtype.kind == "f":
            raise_if_any(~np.isfinite(raw), raw, first_row, naming, "probabilities must be finite")
        rule = f"probabilities must not be negative; for logits or log probabilities pass {FROM_LOGITS}"
        raise_if_any(raw < 0, raw, first_row, naming, rule, FROM_LOGITS)
        if self.normalize:
            empty = np.flatnonzero(~raw.any(axis=1))
            if empty.size:
                row = naming.row(first_row + int(empty[0]))
                raise BadProbabilities(f"all entries of {row} are 0, so it cannot be normalized")
            return
        sums = raw.sum(axis=1, dtype=np.float64)
        error = np.abs(sums - 1.0)
        n_bad = np.count_nonzero(error > self.tolerance(raw.dtype))
        if n_bad:
            worst = int(error.argmax())
            advice, options = _advice_on_sums(raw, sums)
            raise BadProbabilities(
                f"{n_bad} of the {len(raw)} rows starting at {naming.row(first_row)} do not sum to 1; the worst is "
                f"{naming.row(first_row + worst)}, which sums to {sums[worst]:.6g}. {advice}",
                options=options,
            )


def _advice_on_sums(raw: NDArray[Any], sums: FloatArray) -> tuple[str, list[Option]]:
    """What to do about rows that do not sum to 1, and the options that this mentions."""
    low, high = _MULTILABEL_SUMS
    if raw.max() <= 1 and sums.min() < low and sums.max() > high:
        return (
            f"For labels that can occur together, use {ADJUST_MULTILABEL}. For classes of which each row has exactly "
            "one, divide each row by its sum first",
            [ADJUST_MULTILABEL],
        )
    return (
        f"Pass {NORMALIZE} to divide each row by its sum, or {FROM_LOGITS} if these are logits",
        [NORMALIZE, FROM_LOGITS],
    )


def raise_if_any(
    bad: NDArray[np.bool_], raw: NDArray[Any], first_row: int, naming: Naming, rule: str, *options: Option
) -> None:
    """Raise an error about the first bad entry, if there is one."""
    if not bad.any():
        return
    rows = np.flatnonzero(bad.any(axis=1))
    i = int(rows[0])
    j = int(np.flatnonzero(bad[i])[0])
    more = f" ({rows.size} of the {len(raw)} rows checked together have such entries)" if rows.size > 1 else ""
    raise BadProbabilities(f"{naming.cell(first_row + i, j)} is {raw[i, j]}{more}; {rule}", options=options)
