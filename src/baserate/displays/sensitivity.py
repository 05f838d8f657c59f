"""Guaranteed loss reduction against the uncertainty of the rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from baserate.analysis.sensitivity import Sensitivity, sensitivity
from baserate.displays.notebook import NotebookDisplay
from baserate.displays.style import BLUE, hide_top_and_right_spines, new_axes
from baserate.losses.base import short_name
from baserate.rates import RatesLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(eq=False, repr=False)
class SensitivityDisplay(NotebookDisplay):
    """Guaranteed loss reduction against the largest error of a rate.

    Attributes
    ----------
    sensitivity : Sensitivity
        The data of the display.
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn; None before that.

    Examples
    --------
    >>> import baserate as br
    >>> probs = [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]]
    >>> display = br.SensitivityDisplay.from_predictions(probs, [0.75, 0.25])
    >>> display.ax_.get_ylabel()
    'guaranteed fall of mean log loss'
    """

    sensitivity: Sensitivity
    ax_: Axes | None = None
    figure_: Figure | None = None

    @classmethod
    def from_predictions(
        cls, probs: ArrayLike, rates: RatesLike, *, ax: Axes | None = None, **options: Any
    ) -> SensitivityDisplay:
        """Compute the guarantees and draw. ``options`` are passed to :func:`baserate.sensitivity`."""
        return cls(sensitivity(probs, rates, **options)).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> SensitivityDisplay:
        """Draw into ``ax``, or into a new figure."""
        if ax is None:
            ax = new_axes()
        data = self.sensitivity
        ax.plot(100 * data.widths, data.loss_reduction, color=BLUE, marker="o", markersize=4)
        ax.fill_between(100 * data.widths, 0.0, data.loss_reduction, color=BLUE, alpha=0.15, linewidth=0)
        ax.set_xlim(left=0.0)
        ax.set_ylim(bottom=0.0)
        ax.set_xlabel("largest error of a rate (percentage points)")
        ax.set_ylabel(f"guaranteed fall of mean {short_name(data.loss)} loss")
        hide_top_and_right_spines(ax)
        self.ax_, self.figure_ = ax, ax.get_figure(root=True)
        return self
