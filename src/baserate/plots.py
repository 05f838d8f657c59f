"""Displays: data first, drawn by ``plot(ax=None)``, in scikit-learn's manner. They need matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baserate.compare import Comparison, compare
from baserate.losses.base import short_name
from baserate.pose import RatesLike
from baserate.sensitivity import Sensitivity, sensitivity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GREY = "#666666"
_BLUE = "#0072B2"  # of Okabe and Ito's palette, which colour-blind people can tell apart


@dataclass(eq=False)
class SensitivityDisplay:
    """The guaranteed fall of the loss against how well the rates are known.

    Attributes
    ----------
    sensitivity : Sensitivity
        The data that are drawn.
    ax_, figure_ : matplotlib Axes and Figure
        Where they were drawn; None before that.

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
        """Compute and draw; takes the options of :func:`baserate.sensitivity`."""
        return cls(sensitivity(probs, rates, **options)).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> SensitivityDisplay:
        """Draw into ``ax``, or into a new figure."""
        if ax is None:
            ax = _new_axes()
        data = self.sensitivity
        ax.plot(100 * data.widths, data.loss_reduction, color=_BLUE, marker="o", markersize=4)
        ax.fill_between(100 * data.widths, 0.0, data.loss_reduction, color=_BLUE, alpha=0.15, linewidth=0)
        ax.set_xlim(left=0.0)
        ax.set_ylim(bottom=0.0)
        ax.set_xlabel("largest error of a rate (percentage points)")
        ax.set_ylabel(f"guaranteed fall of mean {short_name(data.loss)} loss")
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.get_figure(root=True)
        return self


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
        """Compute and draw; takes the options of :func:`baserate.compare`."""
        return cls(compare(probs, y, rates, **options)).plot()

    def plot(self, axes: Sequence[Axes] | None = None) -> ComparisonDisplay:
        """Draw into as many ``axes`` as there are losses, or into a new figure."""
        data = self.comparison
        rows = np.arange(1, len(data.procedures))
        drawn = _new_axes(len(data.losses), height=1.2 + 0.4 * len(rows)) if axes is None else np.asarray(axes)
        for j, ax in enumerate(np.atleast_1d(drawn)):
            change, ends = data.change[1:, j], np.stack([data.low[1:, j], data.high[1:, j]])
            known = np.isfinite(change) & np.isfinite(ends).all(axis=0)
            ax.hlines(rows[known], *ends[:, known], color=_BLUE, linewidth=2)
            ax.plot(change[known], rows[known], "o", color=_BLUE)
            for row in rows[~known]:
                left = ax.get_yaxis_transform()  # at the left edge, whatever the scale
                ax.text(
                    0.02, row, "not defined or infinite", transform=left, color=_GREY, va="center", fontsize="small"
                )
            ax.axvline(0.0, color=_GREY, linewidth=0.8)
            ax.set_yticks(rows, data.procedures[1:] if j == 0 else [""] * len(rows))
            ax.set_ylim(len(rows) + 0.6, 0.4)
            ax.set_xlabel(f"change of mean {short_name(data.losses[j])} loss")
            ax.spines[["top", "right"]].set_visible(False)
        self.axes_ = np.atleast_1d(drawn)
        self.figure_ = self.axes_[0].get_figure(root=True)
        return self


def _new_axes(n: int = 1, height: float = 4.0) -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError('plots need matplotlib: pip install "baserate[plot]"') from None
    width = 6.4 if n == 1 else 2.0 + 4.0 * n
    return plt.subplots(1, n, figsize=(width, height), layout="constrained")[1]
