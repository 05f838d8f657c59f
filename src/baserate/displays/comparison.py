"""Change of each loss by each adjustment procedure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.analysis.compare import compare
from baserate.analysis.comparison import Comparison
from baserate.displays.notebook import NotebookDisplay
from baserate.displays.style import BLUE, GREY, hide_top_and_right_spines, new_axes
from baserate.rates import RatesLike
from baserate.support.numbers import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(eq=False, repr=False)
class ComparisonDisplay(NotebookDisplay):
    """Change of each loss and metric by each procedure, with confidence intervals. Each has its own panel.

    Attributes
    ----------
    comparison : Comparison
        The data of the display.
    axes_, figure_ : array of matplotlib Axes, and Figure
        Where the display was drawn; None before that.

    Examples
    --------
    >>> import baserate as br
    >>> probs = [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]]
    >>> display = br.ComparisonDisplay.from_predictions(probs, [0, 0, 0, 1], [0.75, 0.25])
    >>> [ax.get_xlabel() for ax in display.axes_]
    ['change of mean log loss', 'change of mean brier loss']
    """

    comparison: Comparison
    axes_: NDArray[Any] | None = None
    figure_: Figure | None = None

    @classmethod
    def from_predictions(cls, probs: Any, y: ArrayLike, rates: RatesLike, **options: Any) -> ComparisonDisplay:
        """Compare the procedures and draw. ``options`` are passed to :func:`baserate.compare`."""
        return cls(compare(probs, y, rates, **options)).plot()

    def plot(self, axes: Axes | Sequence[Axes] | None = None) -> ComparisonDisplay:
        """Draw into ``axes``, one per loss and metric, or into a new figure."""
        data = self.comparison
        shown = [i for i, name in enumerate(data.procedures) if name != data.reference]
        n_panels = len(data.measures)
        if axes is None:
            width = 6.4 if n_panels == 1 else 2.0 + 4.0 * n_panels
            axes = new_axes(n_panels, width=width, height=1.4 + 0.4 * len(shown))
        self.axes_ = np.atleast_1d(np.asarray(axes))
        for j, ax in enumerate(self.axes_):
            _plot_changes(ax, data, shown, j)
            names = [data.procedures[i].replace(", ", ",\n") if j == 0 else "" for i in shown]
            ax.set_yticks(np.arange(1, len(shown) + 1), names)
        self.axes_[0].set_title(
            f"{percent(data.confidence)} intervals for {data.target}; thin: jointly", loc="left", fontsize="small"
        )
        self.figure_ = self.axes_[0].get_figure(root=True)
        return self


def _plot_changes(ax: Axes, data: Comparison, shown: list[int], j: int) -> None:
    """Draw the changes of one loss or metric, with their intervals: a thick line, and a thin one for the joint one."""
    rows = np.arange(1, len(shown) + 1)
    change, low, high, joint_low, joint_high = (
        values[shown, j] for values in (data.change, data.low, data.high, data.joint_low, data.joint_high)
    )
    known = np.isfinite(change) & np.isfinite(low) & np.isfinite(high)
    ax.hlines(rows[known], joint_low[known], joint_high[known], color=BLUE, linewidth=0.8)
    ax.hlines(rows[known], low[known], high[known], color=BLUE, linewidth=2.5)
    ax.plot(change[known], rows[known], "o", color=BLUE)
    style: dict[str, Any] = {"color": GREY, "va": "center", "fontsize": "small"}
    for row in rows[~known]:
        ax.text(0.02, row, "not defined or infinite", transform=ax.get_yaxis_transform(), **style)
    ax.axvline(0.0, color=GREY, linewidth=0.8)
    ax.set_ylim(len(rows) + 0.6, 0.4)
    ax.set_xlabel(f"change of {data.measures[j].title}")
    ax.locator_params(axis="x", nbins=6)
    hide_top_and_right_spines(ax)
