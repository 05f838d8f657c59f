"""Class rates before and after an adjustment, and as they were wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.displays.style import (
    BLUE,
    GREY,
    ORANGE,
    largest,
    legend_above,
    name_rows,
    names_of,
    plain,
    rows_axes,
    rows_in,
)
from baserate.rates import RatesLike
from baserate.result.record import Result
from baserate.result.text import counted
from baserate.solving import adjusted
from baserate.support.arrays import FloatArray, IndexArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(eq=False)
class RatesDisplay:
    """Class rates as predicted, as adjusted and as wanted: one row a class.

    Where there are many classes, those that changed most are drawn, and the others counted.

    Attributes
    ----------
    before, rates, wanted : array of shape (k,)
        Mean of the predictions, mean of the adjusted rows, and the rates that were asked for.
    low, high : array of shape (k,)
        Smallest and largest wanted rate of each class; both equal ``wanted`` where the rates are exactly known.
    classes : tuple or None
        Names of the columns.
    shown_ : array of int
        Columns that were drawn, in the order of the rows; None before that.
    ax_, figure_ : matplotlib Axes and Figure
        Where they were drawn; None before that.

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
        """Draw an adjustment; it need not hold its rows."""
        low, high = result.certificate.bounds
        return cls(result.before, result.rates, result.wanted, low, high, result.classes).plot(ax=ax)

    @classmethod
    def from_predictions(cls, probs: Any, rates: RatesLike, *, ax: Axes | None = None, **options: Any) -> RatesDisplay:
        """Adjust and draw; takes the options of :func:`baserate.adjust`."""
        return cls.from_adjustment(adjusted(probs, rates, **options), ax=ax)

    def plot(self, ax: Axes | None = None) -> RatesDisplay:
        """Draw into ``ax``, or into a new figure."""
        shown = largest(np.abs(self.rates - self.before), rows_in(ax))
        names = names_of(self.classes, shown)
        if ax is None:
            ax = rows_axes(names)
        y = np.arange(len(shown))
        before, rates = 100 * self.before[shown], 100 * self.rates[shown]
        ax.hlines(y, before, rates, color=GREY, linewidth=1.2, zorder=1)
        ax.plot(before, y, "o", color=GREY, markerfacecolor="white", markersize=6, label="as predicted")
        ax.plot(rates, y, "D", color=BLUE, markersize=5, label="adjusted")
        self._draw_wanted(ax, shown)
        name_rows(ax, names)
        ax.use_sticky_edges = False  # or an interval that ends at 0 would lose its edge
        rest = len(self.before) - len(shown)
        note = f"\n{counted(rest, 'class')} that changed no more: not shown" if rest else ""
        ax.set_xlabel(f"class rate (%){note}")
        ax.grid(axis="y", color="0.92", linewidth=0.8, zorder=0)
        legend_above(ax, 3)
        plain(ax)
        self.shown_, self.ax_, self.figure_ = shown, ax, ax.get_figure(root=True)
        return self

    def _draw_wanted(self, ax: Axes, shown: IndexArray) -> None:
        """Intervals or points, behind what else is in the row."""
        y = np.arange(len(shown))
        wanted, low, high = (100 * values[shown] for values in (self.wanted, self.low, self.high))
        if (self.high > self.low).any():
            look: dict[str, Any] = {
                "facecolor": _pale(ORANGE),
                "edgecolor": ORANGE,
                "hatch": "////",
                "linewidth": 0.6,
                "zorder": 0.9,
            }
            ax.barh(y, high - low, left=low, height=0.72, label="wanted: any rate in here", **look)
        else:
            ax.plot(wanted, y, "|", color=ORANGE, markersize=16, markeredgewidth=3, label="wanted", zorder=1.9)


def _pale(colour: str) -> tuple[float, ...]:
    from matplotlib.colors import to_rgb

    return tuple(0.25 * c + 0.75 for c in to_rgb(colour))
