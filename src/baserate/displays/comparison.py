"""Change of each loss by each adjustment procedure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.analysis.compare import Comparison, compare
from baserate.displays.style import BLUE, GREY, hide_top_and_right_spines, new_axes
from baserate.losses.base import short_name
from baserate.rates import RatesLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(eq=False)
class ComparisonDisplay:
    """Change of each loss by each procedure, with confidence intervals. There is one panel per loss.

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
        """Draw into ``axes``, one per loss, or into a new figure."""
        data = self.comparison
        rows, n_losses = np.arange(1, len(data.procedures)), len(data.losses)
        if axes is None:
            width = 6.4 if n_losses == 1 else 2.0 + 4.0 * n_losses
            axes = new_axes(n_losses, width=width, height=1.2 + 0.4 * len(rows))
        self.axes_ = np.atleast_1d(np.asarray(axes))
        for j, ax in enumerate(self.axes_):
            change, ends = data.change[1:, j], np.stack([data.low[1:, j], data.high[1:, j]])
            known = np.isfinite(change) & np.isfinite(ends).all(axis=0)
            ax.hlines(rows[known], *ends[:, known], color=BLUE, linewidth=2)
            ax.plot(change[known], rows[known], "o", color=BLUE)
            for row in rows[~known]:
                at_left_edge = ax.get_yaxis_transform()
                ax.text(
                    0.02,
                    row,
                    "not defined or infinite",
                    transform=at_left_edge,
                    color=GREY,
                    va="center",
                    fontsize="small",
                )
            ax.axvline(0.0, color=GREY, linewidth=0.8)
            ax.set_yticks(rows, data.procedures[1:] if j == 0 else [""] * len(rows))
            ax.set_ylim(len(rows) + 0.6, 0.4)
            ax.set_xlabel(f"change of mean {short_name(data.losses[j])} loss")
            ax.locator_params(axis="x", nbins=6)
            hide_top_and_right_spines(ax)
        self.figure_ = self.axes_[0].get_figure(root=True)
        return self
