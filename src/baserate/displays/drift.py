"""What a fixed shift guarantees over time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.analysis.drift import REFIT, Drift, drift
from baserate.displays.notebook import NotebookDisplay
from baserate.displays.style import (
    BLUE,
    GREY,
    ORANGE,
    hide_top_and_right_spines,
    legend_above,
    new_axes,
    pale,
    short_class_name,
)
from baserate.losses.base import short_name
from baserate.result.record import Result
from baserate.support.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_NAMES = 12  # Names of batches below the axis; of more, every second, third, ... is shown.


@dataclass(eq=False, repr=False)
class DriftDisplay(NotebookDisplay):
    """The guaranteed fall of the loss on each batch: with the fixed shift, and after a new fit.

    The area is where the change with the fixed shift may be. Below 0, the loss may rise. A vertical line marks the
    batches for which a new fit is recommended.

    Attributes
    ----------
    drift : Drift
        The data of the display.
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn; None before that.

    Examples
    --------
    >>> import baserate as br
    >>> result = br.adjust([0.1, 0.4, 0.7, 0.9], 0.25)
    >>> months = [("May", [0.2, 0.3, 0.6, 0.9], 0.3), ("June", [0.3, 0.4, 0.6, 0.7], 0.2)]
    >>> display = br.DriftDisplay.from_batches(result, months)
    >>> display.ax_.get_ylabel()
    'fall of mean log loss'
    """

    drift: Drift
    ax_: Axes | None = None
    figure_: Figure | None = None

    @classmethod
    def from_batches(
        cls, result: Result, batches: Iterable[Any], *, ax: Axes | None = None, **options: Any
    ) -> DriftDisplay:
        """Compare and draw. ``options`` are passed to :func:`baserate.drift`."""
        return cls(drift(result, batches, **options)).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> DriftDisplay:
        """Draw into ``ax``, or into a new figure."""
        columns = self.drift.as_dict()
        n = len(columns["batch"])
        if ax is None:
            ax = new_axes(width=max(6.4, min(2.0 + 0.6 * n, 14.0)), height=4.2)
        at = np.arange(n)
        keep, most, refit = (_drawable(columns[name]) for name in ("keep", "keep_at_most", "refit"))
        if n > 1:
            ax.fill_between(at, keep, most, color=pale(BLUE), linewidth=0, label="keep: where the change may be")
        else:
            ax.vlines(at, keep, most, color=pale(BLUE), linewidth=8, label="keep: where the change may be")
        ax.plot(at, refit, "s--", color=ORANGE, markersize=4, label="refit: at least")
        ax.plot(at, keep, "o-", color=BLUE, markersize=5, label="keep: at least")
        ax.axhline(0.0, color=GREY, linewidth=1.0, label="do nothing")
        for i in [i for i, action in enumerate(columns["action"]) if action == REFIT]:
            ax.axvline(i, color=GREY, linewidth=0.8, linestyle=":", zorder=0)
        self._label(ax, columns["batch"])
        self.ax_, self.figure_ = ax, ax.get_figure(root=True)
        return self

    def _label(self, ax: Axes, names: list[Any]) -> None:
        step = -(-len(names) // _MOST_NAMES)
        shown = np.arange(0, len(names), step)
        ax.set_xticks(shown, [short_class_name(names[i], 1.0) for i in shown], rotation=30 if len(names) > 6 else 0)
        ax.set_xlim(-0.5, len(names) - 0.5)
        ax.set_xlabel("batch (dotted line: fit again)" if REFIT in self.drift.actions else "batch")
        ax.set_ylabel(f"fall of mean {short_name(self.drift.loss)} loss")
        legend_above(ax, columns=2)
        hide_top_and_right_spines(ax)


def _drawable(values: list[float]) -> FloatArray:
    """The values, with NaN where they are infinite."""
    numbers = np.array(values, dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)
