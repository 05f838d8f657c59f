"""Rows that were drawn at random to be labelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.numbers import counted, format_column, percent
from baserate.support.summary import Summary, Table


@dataclass(frozen=True, eq=False, repr=False)
class DrawnRows:
    """Rows to label, and how wide the intervals of the class rates will be.

    Attributes
    ----------
    rows : int array of shape (m,)
        Numbers of the rows to label, in the order in which they were drawn. They do not tell the strata: pass the
        whole object to :func:`baserate.estimate`, not its rows, if the rows were drawn from strata.
    n_rows : int
        Number of rows of the batch.
    confidence : float
        Of the intervals, for all classes jointly.
    widths_by_class : dict from int to array of shape (k,)
        The width of the interval of each class that is to be expected with so many labels, if the predictions are
        calibrated.
    strata : int array of shape (n,), optional
        The number of the stratum of each row of the batch; None if the rows were drawn from all rows.
    mean : array of shape (k,), optional
        Mean prediction of the batch; None if it need not be the same.
    """

    rows: IndexArray
    n_rows: int
    confidence: float
    widths_by_class: Mapping[int, FloatArray]
    strata: IndexArray | None = None
    mean: FloatArray | None = None

    def without_batch(self) -> Self:
        """These rows for other predictions of the same batch; only its number of rows is checked."""
        return replace(self, mean=None)

    @property
    def widths(self) -> dict[int, float]:
        """The width of the widest interval that is to be expected, by number of labels."""
        return {size: float(widths.max()) for size, widths in self.widths_by_class.items()}

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return self._summary().html()

    def _summary(self) -> Summary:
        how = "at random"
        if self.strata is not None:
            how = f"at random from each of {counted(len(np.unique(self.strata)), 'stratum', 'strata')}"
        mean = [float(widths.mean()) for widths in self.widths_by_class.values()]
        table = Table.of(
            {
                "labels": [f"{size:,}" for size in self.widths],
                "widest interval": format_column(list(self.widths.values())),
                "mean interval": format_column(mean),
            }
        )
        note = (
            f"Widths of the intervals of the class rates to expect at {percent(self.confidence)} confidence, if the "
            f"predictions are calibrated{'' if self.strata is None else '; with strata they are a little wider'}."
        )
        return Summary(f"{len(self.rows):,} of {self.n_rows:,} rows to label, drawn {how}", [], [table], [note])
