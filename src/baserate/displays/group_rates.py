"""The rates of one class in each group, before and after an adjustment, and the wanted rates."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.displays.notebook import NotebookDisplay
from baserate.displays.style import (
    BLUE,
    GREY,
    ORANGE,
    hide_top_and_right_spines,
    indices_of_largest,
    label_rows,
    legend_above,
    max_rows,
    new_axes,
    new_axes_for_classes,
    pale,
    short_class_name,
)
from baserate.errors import BadOption
from baserate.inputs.class_names import matched_names
from baserate.inputs.group_labels import group_name
from baserate.inputs.validation import class_label, quoted, quoted_name
from baserate.rates.margins import ALL_ROWS
from baserate.result.grouped import GroupedResult
from baserate.result.groups import MarginResult
from baserate.result.record import Result
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.numbers import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SINGLE_POINTS = 1000  # More groups than this are summarised.
_BINS = 250
_TICKS = 6


@dataclass(eq=False, repr=False)
class GroupRatesDisplay(NotebookDisplay):
    """The rate of one class in each group: as predicted, adjusted, and wanted.

    A few groups have one row each. Many groups are drawn along the horizontal axis: numbers and dates in their order,
    others by their adjusted rate. Thousands of groups are summarised: neighbouring groups form one point, and the band
    contains the predicted rates of 80 % of them.

    Attributes
    ----------
    names : list of str
        The groups.
    before, rates, wanted, low, high : array of shape (G,)
        Mean of the predictions, mean of the adjusted predictions, the requested rate, and its bounds. The bounds are 0
        and 1 if nothing is known about a group.
    n_rows : int array of shape (G,)
    margin, class_name : str
        What the groups and the class are called.
    is_ordered : bool
        Whether the order of the groups has a meaning.
    shown_ : array of int
        Numbers of the groups that were drawn, in the order of the drawing; None before that.
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn; None before that.

    Examples
    --------
    >>> import baserate as br
    >>> rates = br.Rates.by("region", {"north": 0.1, "south": (0.25, 0.4)})
    >>> result = br.adjust([0.2, 0.4, 0.3, 0.1], rates, groups=["north", "north", "south", "south"])
    >>> display = br.GroupRatesDisplay.from_adjustment(result)
    >>> display.names, display.rates.round(3)
    (['north', 'south'], array([0.1 , 0.25]))
    >>> display.ax_.get_xlabel()
    'rate of class 1 (%)'
    """

    names: list[str]
    before: FloatArray
    rates: FloatArray
    wanted: FloatArray
    low: FloatArray
    high: FloatArray
    n_rows: IndexArray
    margin: str
    class_name: str
    is_ordered: bool = False
    shown_: IndexArray | None = None
    ax_: Axes | None = None
    figure_: Figure | None = None

    @classmethod
    def from_adjustment(
        cls, result: Result, margin: Any = None, *, of: Any = None, ax: Axes | None = None
    ) -> GroupRatesDisplay:
        """Draw the groups of an adjustment. It does not need to have rows.

        Parameters
        ----------
        result : GroupedAdjustment
        margin : str or list of str, optional
            One of several margins, by its columns; by default the first.
        of : object, optional
            The class, by its name or number; by default the one whose rates changed most.
        ax : matplotlib Axes, optional
        """
        if not isinstance(result, GroupedResult):
            raise BadOption("this adjustment has no groups; use RatesDisplay.from_adjustment(result)")
        one = result.groups.margins[0] if margin is None else result.groups.margin(margin)
        j = _class_number(result, one, of)
        order = _natural_order(one)
        at = np.arange(one.n_groups) if order is None else order
        display = cls(
            names=[group_name(one.labels[i]) or ALL_ROWS for i in at],
            before=one.before[at, j],
            rates=one.achieved[at, j],
            wanted=one.wanted[at, j],
            low=one.low[at, j],
            high=one.high[at, j],
            n_rows=one.n_rows[at],
            margin=one.name,
            class_name=class_label(result.classes, j),
            is_ordered=order is not None,
        )
        return display.plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> GroupRatesDisplay:
        """Draw into ``ax``, or into a new figure."""
        few = len(self.names) <= max_rows(ax)
        ax = self._plot_rows(ax) if few else self._plot_along(ax)
        hide_top_and_right_spines(ax)
        self.ax_, self.figure_ = ax, ax.get_figure(root=True)
        return self

    def _plot_rows(self, ax: Axes | None) -> Axes:
        """One row per group."""
        shown = indices_of_largest(np.abs(self.rates - self.before), len(self.names))
        names = [f"{short_class_name(self.names[i])} ({self.n_rows[i]:,})" for i in shown]
        if ax is None:
            ax = new_axes_for_classes(names)
        y = np.arange(len(shown))
        before, rates = 100 * self.before[shown], 100 * self.rates[shown]
        ax.hlines(y, before, rates, color=GREY, linewidth=1.2, zorder=1)
        ax.plot(before, y, "o", color=GREY, markerfacecolor="white", markersize=6, label="as predicted")
        ax.plot(rates, y, "D", color=BLUE, markersize=5, label="adjusted")
        self._draw_wanted_rows(ax, shown)
        label_rows(ax, names)
        ax.use_sticky_edges = False
        ax.set_ylabel(f"{self.margin} (rows)")
        ax.set_xlabel(f"rate of {self.class_name} (%)")
        ax.grid(axis="y", color="0.92", linewidth=0.8, zorder=0)
        legend_above(ax, 3)
        self.shown_ = shown
        return ax

    def _draw_wanted_rows(self, ax: Axes, shown: IndexArray) -> None:
        y = np.arange(len(shown))
        low, high = 100 * self.low[shown], 100 * self.high[shown]
        exact = high - low < 1e-9
        if exact.any():
            style: dict[str, Any] = {"color": ORANGE, "markersize": 14, "markeredgewidth": 3, "zorder": 1.9}
            ax.plot(low[exact], y[exact], "|", label="wanted", **style)
        between = ~exact & ~((low <= 0) & (high >= 100))  # nothing is known about the others
        if between.any():
            bars: dict[str, Any] = {"facecolor": pale(ORANGE), "edgecolor": ORANGE, "hatch": "////", "linewidth": 0.6}
            width, label = (high - low)[between], "wanted: any rate in the interval"
            ax.barh(y[between], width, left=low[between], height=0.72, label=label, zorder=0.9, **bars)

    def _plot_along(self, ax: Axes | None) -> Axes:
        """Groups along the horizontal axis."""
        if ax is None:
            ax = new_axes(width=8.0, height=3.8)
        shown = np.arange(len(self.names)) if self.is_ordered else np.argsort(self.rates, kind="stable")
        if len(shown) <= _SINGLE_POINTS:
            self._draw_points(ax, shown)
        else:
            self._draw_bins(ax, shown)
        order = "" if self.is_ordered else ", from the lowest to the highest adjusted rate"
        ax.set_xlabel(f"{counted(len(shown), 'group')} by {self.margin}{order}")
        ax.set_ylabel(f"rate of {self.class_name} (%)")
        ax.set_axisbelow(True)
        ax.grid(axis="y", color="0.92", linewidth=0.8)
        if self.is_ordered:
            ticks = np.unique(np.linspace(0, len(shown) - 1, _TICKS).round().astype(int))
            ax.set_xticks(ticks, [short_class_name(self.names[i], 1.1) for i in ticks])
        legend_above(ax, 3)
        self.shown_ = shown
        return ax

    def _draw_points(self, ax: Axes, shown: IndexArray) -> None:
        x = np.arange(len(shown))
        size = 5.0 if len(shown) <= 150 else 3.0
        before, rates = 100 * self.before[shown], 100 * self.rates[shown]
        self._draw_wanted_band(ax, x, 100 * self.low[shown], 100 * self.high[shown])
        ax.plot(x, before, "o", color=GREY, markerfacecolor="white", markersize=size, label="as predicted", zorder=2)
        style: dict[str, Any] = {"linestyle": "-" if self.is_ordered else "None", "linewidth": 0.8}
        ax.plot(x, rates, marker="D", color=BLUE, markersize=0.8 * size, label=self._adjusted_label, zorder=3, **style)

    def _draw_bins(self, ax: Axes, shown: IndexArray) -> None:
        """Summaries of neighbouring groups."""
        bins = np.array_split(shown, _BINS)
        x = np.array([0.5 * (part[0] + part[-1]) for part in np.array_split(np.arange(len(shown)), _BINS)])

        def of(values: FloatArray, share: float) -> FloatArray:
            return 100 * np.array([np.quantile(values[part], share) for part in bins])

        self._draw_wanted_band(ax, x, of(self.low, 0.5), of(self.high, 0.5))
        band = "as predicted: median, and 80 % of the groups"
        ax.fill_between(x, of(self.before, 0.1), of(self.before, 0.9), color=GREY, alpha=0.25, linewidth=0, zorder=1)
        ax.plot(x, of(self.before, 0.5), "--", color=GREY, linewidth=1.2, label=band, zorder=2)
        ax.plot(x, of(self.rates, 0.5), "-", color=BLUE, linewidth=1.8, label=self._adjusted_label, zorder=3)

    @property
    def _adjusted_label(self) -> str:
        known = ~((self.low <= 0) & (self.high >= 1))
        return "adjusted, as wanted" if ((self.high - self.low)[known] < 1e-9).all() else "adjusted"

    def _draw_wanted_band(self, ax: Axes, x: FloatArray | IndexArray, low: FloatArray, high: FloatArray) -> None:
        known = ~((low <= 0) & (high >= 100))
        if not known.any() or (high - low)[known].max() < 1e-9:
            return  # the adjusted rates are the wanted ones
        colour = pale(ORANGE)
        ax.vlines(x[known], low[known], high[known], color=colour, linewidth=max(1.0, 300 / len(x)), zorder=0.9)
        ax.plot([], [], color=colour, linewidth=5, label="wanted: any rate in the interval")


def _class_number(result: GroupedResult, margin: MarginResult, of: Any) -> int:
    names: Sequence[Any] = range(result.model.n_classes) if result.classes is None else result.classes
    if of is None:
        if result.one_column:
            return 1
        return int((np.abs(margin.achieved - margin.before) * margin.weight[:, None]).sum(axis=0).argmax())
    (meant,) = matched_names([of], names)
    if meant not in names:
        raise BadOption(f"{quoted_name(of)} is not among the classes {quoted(list(names))}")
    return list(names).index(meant)


def _natural_order(margin: MarginResult) -> IndexArray | None:
    """The order of groups that are numbers or dates; None for others."""
    if len(margin.keys) != 1:
        return None
    values = [label[0] for label in margin.labels]
    dates = all(isinstance(value, datetime.date) for value in values)
    if not dates and not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return None
    try:
        return np.array(sorted(range(len(values)), key=values.__getitem__), dtype=np.intp)
    except TypeError:  # dates and datetimes cannot be compared
        return None
