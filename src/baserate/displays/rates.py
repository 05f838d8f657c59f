"""Class rates before and after an adjustment, and the requested rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.displays.notebook import NotebookDisplay
from baserate.displays.style import (
    BLUE,
    GREY,
    ORANGE,
    class_labels,
    hide_top_and_right_spines,
    indices_of_largest,
    label_rows,
    legend_above,
    max_rows,
    new_axes_for_classes,
    pale,
)
from baserate.rates import RatesLike
from baserate.result.grouped import GroupedResult
from baserate.result.record import Result
from baserate.solving import adjusted
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.numbers import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(eq=False, repr=False)
class RatesDisplay(NotebookDisplay):
    """Predicted, adjusted and requested class rates, with one row per class.

    If there are too many classes, those whose rates changed most are shown.

    Attributes
    ----------
    before, rates, wanted : array of shape (k,)
        Mean of the predictions, mean of the adjusted predictions, and the requested rates.
    low, high : array of shape (k,)
        Smallest and largest rate of each class in the requested rate set. Both equal ``wanted`` if the rates are known
        exactly.
    classes : tuple or None
        Class names in column order.
    shown_ : array of int
        Numbers of the columns that were drawn, from top to bottom; None before that.
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn; None before that.

    Examples
    --------
    >>> import baserate as br
    >>> probs = [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]]
    >>> display = br.RatesDisplay.from_predictions(probs, br.Rates.between([0.7, None], [0.8, None]))
    >>> display.before, display.rates.round(3)
    (array([0.475, 0.525]), array([0.7, 0.3]))
    >>> display.ax_.get_xlabel()
    'class rate (%)'
    """

    before: FloatArray
    rates: FloatArray
    wanted: FloatArray
    low: FloatArray
    high: FloatArray
    classes: tuple[Any, ...] | None = None
    shown_: IndexArray | None = None
    ax_: Axes | None = None
    figure_: Figure | None = None

    @classmethod
    def from_adjustment(cls, result: Result, *, ax: Axes | None = None) -> RatesDisplay:
        """Draw the rates of an adjustment. It does not need to have rows.

        For rates per group, these are means over all rows; see :class:`GroupRatesDisplay` for single groups.
        """
        low, high = (result.wanted,) * 2 if isinstance(result, GroupedResult) else result.certificate.bounds
        return cls(result.before, result.rates, result.wanted, low, high, result.classes).plot(ax=ax)

    @classmethod
    def from_predictions(cls, probs: Any, rates: RatesLike, *, ax: Axes | None = None, **options: Any) -> RatesDisplay:
        """Adjust and draw. ``options`` are passed to :func:`baserate.adjust`."""
        return cls.from_adjustment(adjusted(probs, rates, **options), ax=ax)

    def plot(self, ax: Axes | None = None) -> RatesDisplay:
        """Draw into ``ax``, or into a new figure."""
        shown = indices_of_largest(np.abs(self.rates - self.before), max_rows(ax))
        names = class_labels(self.classes, shown)
        if ax is None:
            ax = new_axes_for_classes(names)
        y = np.arange(len(shown))
        before, rates = 100 * self.before[shown], 100 * self.rates[shown]
        ax.hlines(y, before, rates, color=GREY, linewidth=1.2, zorder=1)
        ax.plot(before, y, "o", color=GREY, markerfacecolor="white", markersize=6, label="as predicted")
        ax.plot(rates, y, "D", color=BLUE, markersize=5, label="adjusted")
        self._draw_wanted(ax, shown)
        label_rows(ax, names)
        ax.use_sticky_edges = False  # Otherwise the edge of an interval that starts at 0 would be hidden.
        hidden = len(self.before) - len(shown)
        note = f"\nnot shown: {counted(hidden, 'class')} with smaller changes" if hidden else ""
        ax.set_xlabel(f"class rate (%){note}")
        ax.grid(axis="y", color="0.92", linewidth=0.8, zorder=0)
        legend_above(ax, 3)
        hide_top_and_right_spines(ax)
        self.shown_, self.ax_, self.figure_ = shown, ax, ax.get_figure(root=True)
        return self

    def _draw_wanted(self, ax: Axes, shown: IndexArray) -> None:
        """Draw the requested rates as points, or as intervals behind the other marks."""
        y = np.arange(len(shown))
        wanted, low, high = (100 * values[shown] for values in (self.wanted, self.low, self.high))
        if (self.high > self.low).any():
            style: dict[str, Any] = {
                "facecolor": pale(ORANGE),
                "edgecolor": ORANGE,
                "hatch": "////",
                "linewidth": 0.6,
                "zorder": 0.9,
            }
            ax.barh(y, high - low, left=low, height=0.72, label="requested: any rate in the interval", **style)
        else:
            ax.plot(wanted, y, "|", color=ORANGE, markersize=16, markeredgewidth=3, label="requested", zorder=1.9)
