"""Reliability diagram before and after an adjustment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from baserate.displays.curves import Curve, reliability_curve
from baserate.displays.notebook import NotebookDisplay
from baserate.displays.pairs import Pairs, as_pairs
from baserate.displays.style import BLUE, GREY, hide_top_and_right_spines, legend_above, new_axes, short_class_name
from baserate.errors import BadOption
from baserate.inputs.labels import as_columns
from baserate.inputs.validation import as_confidence, quoted, quoted_name
from baserate.support.numbers import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The histogram is below the curves in the same axes. Not in axes of its own: callers pass only one.
_HISTOGRAM_BOTTOM, _HISTOGRAM_HEIGHT = -0.3, 0.24
_ROWS_PER_BIN = 10  # at least, unless ``n_bins`` is given


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(NotebookDisplay):
    """Observed frequency against predicted probability, before and after an adjustment.

    Attributes
    ----------
    before, after : Curve
        The data of the display.
    what : str
        The event: "the most probable class" being the true one, or the name of a class.
    confidence : float
        Confidence level of the interval of each bin.
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn; None before that.

    Examples
    --------
    >>> import baserate as br
    >>> probs, y = [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]], [0, 0, 0, 1]
    >>> adjusted = br.adjust(probs, [0.75, 0.25]).probs
    >>> display = br.ReliabilityDisplay.from_predictions(probs, adjusted, y, n_bins=2)
    >>> display.before.predicted, display.before.observed
    (array([0.25, 0.8 ]), array([0. , 0.5]))
    >>> display.after.predicted.round(2), display.what
    (array([0.06, 0.44]), 'class 1')
    """

    before: Curve
    after: Curve
    what: str
    confidence: float
    ax_: Axes | None = None
    figure_: Figure | None = None

    @classmethod
    def from_predictions(
        cls,
        probs: Any,
        adjusted: Any,
        y: ArrayLike,
        *,
        kind: str | None = None,
        of: Any = None,
        n_bins: int | None = None,
        confidence: float = 0.95,
        classes: Sequence[Any] | None = None,
        ax: Axes | None = None,
    ) -> ReliabilityDisplay:
        """Compute the reliability curves and draw.

        Parameters
        ----------
        probs, adjusted : array-like or dataframe of shape (n, k)
            The predictions, and the adjusted predictions ``result.probs`` of the same rows.
        y : array-like of shape (n,)
            Labels: class names, or column numbers if the classes have no names.
        kind : "top" or "class", optional
            The predicted event: "top" if the most probable class of the row is the true one, "class" if the class
            ``of`` is the true one. By default "class" for two classes or if ``of`` is given, else "top".
        of : class name or column number, optional
            The class. By default the second of two classes.
        n_bins : int, optional
            Number of bins with about the same number of rows. Equal probabilities share a bin, so there may be fewer.
            By default 10, or fewer so that each bin has at least 10 rows.
        confidence : float, default 0.95
            Confidence level of the interval of each bin.
        classes : sequence, optional
            Class names in column order. By default the column names of a dataframe.
        ax : matplotlib Axes, optional
        """
        pairs = as_pairs(probs, adjusted, classes)
        if n_bins is None:
            n_bins = int(np.clip(len(pairs.before) // _ROWS_PER_BIN, 2, 10))
        if not isinstance(n_bins, (int, np.integer)) or isinstance(n_bins, bool) or n_bins < 1:
            raise BadOption(f"n_bins must be a whole number above 0, not {n_bins!r}")
        as_confidence(confidence)
        column = _event_column(kind, of, pairs)
        truth = as_columns(y, pairs.before.shape, pairs.classes, one_column=pairs.one_column)
        before, after = (
            reliability_curve(rows, column, truth, int(n_bins), confidence) for rows in (pairs.before, pairs.after)
        )
        what = "the most probable class" if column is None else _class_label(pairs, column)
        return cls(before, after, what, confidence).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> ReliabilityDisplay:
        """Draw into ``ax``, or into a new figure."""
        if ax is None:
            ax = new_axes(width=5.4, height=5.8)
        ax.axline((0.0, 0.0), slope=1.0, color=GREY, linestyle=":", linewidth=1.0)
        for curve, label, colour, marker, style, face in (
            (self.before, "as predicted", GREY, "o", "--", "white"),
            (self.after, "adjusted", BLUE, "D", "-", BLUE),
        ):
            ax.errorbar(
                curve.predicted,
                curve.observed,
                yerr=np.maximum([curve.observed - curve.low, curve.high - curve.observed], 0.0),
                color=colour,
                marker=marker,
                markerfacecolor=face,
                markersize=5,
                linestyle=style,
                linewidth=1.3,
                elinewidth=1.0,
                label=label,
            )
            heights = _HISTOGRAM_BOTTOM + _HISTOGRAM_HEIGHT * curve.histogram / self._highest_bar
            ax.stairs(heights, curve.edges, baseline=_HISTOGRAM_BOTTOM, color=colour, linestyle=style, linewidth=1.2)
        self._label_axes(ax)
        self.ax_, self.figure_ = ax, ax.get_figure(root=True)
        return self

    @property
    def _highest_bar(self) -> float:
        return float(max(self.before.histogram.max(), self.after.histogram.max()))

    def _label_axes(self, ax: Axes) -> None:
        edges = np.concatenate([self.before.edges, self.after.edges])
        ax.set_xlim(edges.min() - 0.02, edges.max() + 0.02)
        ax.set_ylim(_HISTOGRAM_BOTTOM, 1.03)
        ax.set_yticks(np.linspace(0.0, 1.0, 6))
        ax.axhline(0.0, color="0.85", linewidth=0.8, zorder=0)
        rows = counted(int(self._highest_bar), "row")
        ax.set_xlabel(f"probability of {short_class_name(self.what)}\nhistogram: the highest bar has {rows}")
        ax.set_ylabel(f"observed frequency\n(bars: {100 * self.confidence:g} % interval of each bin)")
        legend_above(ax, 2)
        hide_top_and_right_spines(ax)


def _event_column(kind: str | None, of: Any, pairs: Pairs) -> int | None:
    """Number of the column of the event, or None for the most probable class of each row."""
    k = pairs.before.shape[1]
    if kind is None:
        kind = "class" if k == 2 or of is not None else "top"
    if kind == "top" and of is None:
        return None
    if kind != "class":
        raise BadOption(f"kind must be 'class', or 'top' if of is None, but kind is {kind!r} and of is {of!r}")
    names = tuple(range(k)) if pairs.classes is None else pairs.classes
    if of is None and k == 2:
        return 1
    if of not in names:
        raise BadOption(f"of must be one of the classes {quoted(names)}, not {quoted_name(of)}")
    return names.index(of)


def _class_label(pairs: Pairs, column: int) -> str:
    return f"class {column}" if pairs.classes is None else str(pairs.classes[column])
