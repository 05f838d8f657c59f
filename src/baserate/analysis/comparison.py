"""The result of a comparison: means, changes and intervals, as numbers, table and text."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from baserate.analysis import procedure_names
from baserate.analysis.bootstrap import Bootstrap, GroupSums, Intervals, bootstrap_intervals
from baserate.analysis.cross_fitting import corrections
from baserate.analysis.measures import Measure
from baserate.errors import BadOption, Option
from baserate.inputs import dataframes as frames
from baserate.inputs.validation import quoted, quoted_name
from baserate.losses.base import Loss
from baserate.progress import SILENT, Progress
from baserate.result.facts import json_number
from baserate.support.arrays import FloatArray
from baserate.support.numbers import NumberFormat, format_column, number_format, percent
from baserate.support.summary import Summary, Table

THESE_ROWS, NEW_ROWS = "these rows", "new rows"

_JOINT_INTERVALS = "joint intervals: valid for all procedures at once; use them for the procedure that turned out best"


class Evidence(NamedTuple):
    """What the intervals of a comparison are computed from.

    Attributes
    ----------
    groups : GroupSums
    fold_means : array of shape (p, l, K, K)
        See :class:`baserate.analysis.cross_fitting.CrossFit`.
    share : float
        Share of the rows that the folds have.
    n_classes : int
    target : str
    bootstrap : Bootstrap
    """

    groups: GroupSums
    fold_means: FloatArray
    share: float
    n_classes: int
    target: str
    bootstrap: Bootstrap

    def intervals(self, base: int, progress: Progress = SILENT) -> Intervals:
        """Intervals of the differences between each procedure and the procedure ``base``."""
        with np.errstate(invalid="ignore"):
            found = corrections(self.fold_means - self.fold_means[base])
        first, second = np.nan_to_num(found.first) * self.share, np.nan_to_num(found.second) * self.share**2
        added = second
        if self.target == THESE_ROWS:
            added = np.maximum(first, 0.0) + 2 * second / (self.n_classes - 1)
        return bootstrap_intervals(self.groups, base, added, self.bootstrap, progress)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Mean losses of several procedures, compared with those of the original predictions.

    Attributes
    ----------
    procedures : tuple of str
        The first one is "as predicted", the original predictions.
    losses : tuple of Loss
    mean : array of shape (p, l)
        Mean loss of each procedure, and its value of each metric; NaN where it is not defined, see ``notes``. For the
        target "new rows" it is estimated by cross-fitting.
    change : array of shape (p, l)
        ``mean`` minus that of ``reference``: for a loss, below 0 is better.
    low, high : array of shape (p, l)
        Confidence interval of each ``change``, paired: all procedures are compared on the same rows.
    confidence : float
        Confidence level of the intervals.
    notes : tuple of str
        Which procedures and losses could not be computed, and why, and where the rates contradict the labels.
    kind : object
        The dataframe library of the predictions; None if they were no dataframe.
    joint_low, joint_high : array of shape (p, l)
        Intervals that contain the changes of all procedures at once with this confidence, separately for each loss or
        metric. Use them for the procedure that turned out best.
    metrics : tuple of str
        Names of the metrics, whose columns come after those of the losses.
    target : "these rows" or "new rows"
        What the intervals are about; see :func:`compare`.
    reference : str
        The procedure that the others are compared with.
    options : tuple of Option
        The options that the notes mention.
    measures : tuple of Measure
        The losses and metrics, in the order of the columns.
    evidence : Evidence
        What the intervals are computed from.
    """

    procedures: tuple[str, ...]
    losses: tuple[Loss, ...]
    mean: FloatArray
    change: FloatArray
    low: FloatArray
    high: FloatArray
    confidence: float
    notes: tuple[str, ...]
    kind: Any = None
    joint_low: FloatArray = field(kw_only=True)
    joint_high: FloatArray = field(kw_only=True)
    target: str = field(kw_only=True)
    reference: str = field(kw_only=True)
    options: tuple[Option, ...] = field(kw_only=True, default=())
    measures: tuple[Measure, ...] = field(kw_only=True)
    evidence: Evidence = field(kw_only=True)

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(measure.name for measure in self.measures[len(self.losses) :])

    def relative_to(self, procedure: str) -> Self:
        """The same comparison, with differences from another procedure instead of the original predictions.

        The intervals are paired: they are about the difference on the same rows, so they are usually much shorter than
        the intervals of the two changes suggest.

        Parameters
        ----------
        procedure : str
            One of ``procedures``.

        Examples
        --------
        >>> import baserate as br
        >>> p = [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]]
        >>> comparison = br.compare(p, [0, 0, 0, 1], [0.75, 0.25], losses=["brier"])
        >>> comparison.relative_to("additive").change.round(4)
        array([[ 0.1512],
               [ 0.    ],
               [-0.0204],
               [ 0.1512]])
        """
        if procedure not in self.procedures:
            raise BadOption(
                f"procedure is {quoted_name(procedure)}, but the compared procedures are {quoted(self.procedures)}"
            )
        base = self.procedures.index(procedure)
        _, low, high, joint_low, joint_high = self.evidence.intervals(base)
        with np.errstate(invalid="ignore"):
            change = self.mean - self.mean[base]
        return replace(
            self, change=change, low=low, high=high, joint_low=joint_low, joint_high=joint_high, reference=procedure
        )

    def as_dict(self) -> dict[str, list[Any]]:
        """Columns of a table with one row per procedure and loss or metric."""
        cells = [(i, j) for j in range(len(self.measures)) for i in range(len(self.procedures))]
        columns: dict[str, list[Any]] = {
            "procedure": [self.procedures[i] for i, _ in cells],
            "loss": [self.measures[j].name for _, j in cells],
        }
        for name in ("mean", "change", "low", "high", "joint_low", "joint_high"):
            columns[name] = [float(getattr(self, name)[cell]) for cell in cells]
        return columns

    def to_json(self) -> dict[str, Any]:
        """Everything that the comparison shows, as plain JSON values; None for numbers that are NaN or infinite."""
        columns = ("mean", "change", "low", "high", "joint_low", "joint_high")
        return {
            "target": self.target,
            "reference": self.reference,
            "confidence": self.confidence,
            "measures": [
                {
                    "name": measure.name,
                    "higher_is_better": measure.higher_is_better,
                    "procedures": [
                        {"procedure": name} | {one: json_number(getattr(self, one)[i, j]) for one in columns}
                        for i, name in enumerate(self.procedures)
                    ],
                }
                for j, measure in enumerate(self.measures)
            ],
            "notes": list(self.notes),
        }

    def to_frame(self, backend: str | None = None) -> Any:
        """The table as a dataframe.

        Parameters
        ----------
        backend : "pandas", "polars" or "pyarrow", optional
            By default the library of the predictions, or the first of these that is installed.
        """
        return frames.from_columns(self.as_dict(), self.kind if backend is None else backend)

    def table(self, j: int, *, joint: bool = True) -> Table:
        """The table of one loss or metric, with one row per procedure.

        Parameters
        ----------
        j : int
            Number of its column in ``mean``.
        joint : bool, default True
            Whether the table has the joint intervals.
        """
        measure, base = self.measures[j], self.procedures.index(self.reference)
        direction = " (higher is better)" if measure.higher_is_better else ""
        means = format_column(self.mean[:, j])
        others = [i for i in range(len(self.procedures)) if i != base and np.isfinite(self.change[i, j])]
        # One format for changes and their intervals, which are compared with each other.
        form = number_format(self.change[others, j], signed=True)
        rows = []
        for i, (name, mean) in enumerate(zip(self.procedures, means, strict=True)):
            numbers = ["", "", ""]
            if i in others:
                single, jointly = (self.low[i, j], self.high[i, j]), (self.joint_low[i, j], self.joint_high[i, j])
                numbers = [form(self.change[i, j]), _interval(form, *single), _interval(form, *jointly)]
            rows.append((name, mean, *numbers)[: 5 if joint else 4])
        level = f"{percent(self.confidence)} interval"
        header = (f"{measure.title}{direction}", "mean", "change", level, "joint interval")
        return Table(header[: 5 if joint else 4], rows)

    def legend(self, *, joint: bool = True) -> list[str]:
        """What the table and its procedures mean, one line each."""
        where = {THESE_ROWS: "other batches like this one, each adjusted separately", NEW_ROWS: "new rows"}[self.target]
        base = [] if self.reference == self.procedures[0] else [f"changes: relative to {self.reference}"]
        jointly = [_JOINT_INTERVALS] if joint else []
        return [*procedure_names.legend(self.procedures), *base, f"intervals: for the mean change in {where}", *jointly]

    def __repr__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return self._summary().html()

    def _summary(self) -> Summary:
        tables = [self.table(j) for j in range(len(self.measures))]
        return Summary("", (), tables, [*self.legend(), *(f"note: {note}" for note in self.notes)])


def _interval(form: NumberFormat, low: float, high: float) -> str:
    if not np.isfinite([low, high]).all():
        return "unknown"
    return f"{form(low)} to {form(high)}"
