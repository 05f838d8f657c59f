"""What each procedure does to each loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.analysis.compare import Comparison, compare
from baserate.displays.style import BLUE, GREY, new_axes, plain
from baserate.losses.base import short_name
from baserate.rates import RatesLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(eq=False)
class ComparisonDisplay:
    """How each procedure changes each loss, with its interval: one panel a loss.

    Attributes
    ----------
    comparison : Comparison
        The data that are drawn.
    axes_, figure_ : array of matplotlib Axes, and Figure
        Where they were drawn; None before that.

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
        """Compute and draw; takes the options of :func:`baserate.analysis.compare`."""
        return cls(compare(probs, y, rates, **options)).plot()

    def plot(self, axes: Axes | Sequence[Axes] | None = None) -> ComparisonDisplay:
        """Draw into as many ``axes`` as there are losses, or into a new figure."""
        data = self.comparison
        rows, m = np.arange(1, len(data.procedures)), len(data.losses)
        if axes is None:
            axes = new_axes(m, width=6.4 if m == 1 else 2.0 + 4.0 * m, height=1.2 + 0.4 * len(rows))
        self.axes_ = np.atleast_1d(np.asarray(axes))
        for j, ax in enumerate(self.axes_):
            change, ends = data.change[1:, j], np.stack([data.low[1:, j], data.high[1:, j]])
            known = np.isfinite(change) & np.isfinite(ends).all(axis=0)
            ax.hlines(rows[known], *ends[:, known], color=BLUE, linewidth=2)
            ax.plot(change[known], rows[known], "o", color=BLUE)
            for row in rows[~known]:
                left = ax.get_yaxis_transform()  # at the left edge, whatever the scale
                ax.text(0.02, row, "not defined or infinite", transform=left, color=GREY, va="center", fontsize="small")
            ax.axvline(0.0, color=GREY, linewidth=0.8)
            ax.set_yticks(rows, data.procedures[1:] if j == 0 else [""] * len(rows))
            ax.set_ylim(len(rows) + 0.6, 0.4)
            ax.set_xlabel(f"change of mean {short_name(data.losses[j])} loss")
            ax.locator_params(axis="x", nbins=6)
            plain(ax)
        self.figure_ = self.axes_[0].get_figure(root=True)
        return self
