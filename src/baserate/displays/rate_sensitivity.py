"""Change of the guarantee per percentage point of each rate."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.displays.notebook import NotebookDisplay
from baserate.displays.style import (
    BLUE,
    GREY,
    ORANGE,
    class_labels,
    hide_top_and_right_spines,
    label_rows,
    max_rows,
    new_axes_for_classes,
)
from baserate.losses.base import Loss, short_name
from baserate.rates import RatesLike
from baserate.result.record import Result
from baserate.solving import adjusted
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.numbers import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_EXACT = "One percentage point moved from class A to class B changes the guarantee by about B's bar minus A's bar."
_BOUNDS = (
    "Raising the active bound of a class by one percentage point changes the guarantee by about its bar. "
    "A class without a bar has no active bound."
)
_TITLE_WIDTH = 56  # characters per line


@dataclass(eq=False, repr=False)
class RateSensitivityDisplay(NotebookDisplay):
    """Change of the guaranteed loss reduction per percentage point of each rate, with one bar per class.

    If there are too many classes, those with the longest bars are shown.

    Attributes
    ----------
    sensitivity : array of shape (k,)
        Change of the guaranteed loss reduction per unit of each rate, as in ``certificate.sensitivity``. NaN for
        classes with rate 0.
    exact : bool
        Whether the rates are known exactly. In this case only differences between bars have a meaning.
    loss : Loss
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
    >>> display = br.RateSensitivityDisplay.from_predictions(probs, [0.75, 0.25])
    >>> display.shown_
    array([0, 1])
    >>> print(display.ax_.get_title(loc="left"))
    One percentage point moved from class A to class B
    changes the guarantee by about B's bar minus A's bar.
    """

    sensitivity: FloatArray
    exact: bool
    loss: Loss
    classes: tuple[Any, ...] | None = None
    shown_: IndexArray | None = None
    ax_: Axes | None = None
    figure_: Figure | None = None

    @classmethod
    def from_adjustment(cls, result: Result, *, ax: Axes | None = None) -> RateSensitivityDisplay:
        """Draw the display of an adjustment. It does not need to have rows."""
        certificate = result.certificate
        return cls(certificate.sensitivity, certificate.known.kind == "exact", result.loss, result.classes).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls, probs: Any, rates: RatesLike, *, ax: Axes | None = None, **options: Any
    ) -> RateSensitivityDisplay:
        """Adjust and draw. ``options`` are passed to :func:`baserate.adjust`."""
        return cls.from_adjustment(adjusted(probs, rates, **options), ax=ax)

    def plot(self, ax: Axes | None = None) -> RateSensitivityDisplay:
        """Draw into ``ax``, or into a new figure."""
        shown = self._longest(max_rows(ax))
        names = class_labels(self.classes, shown)
        if ax is None:
            ax = new_axes_for_classes(names, extra_height=1.8)
        bars = self.sensitivity[shown] / 100
        for sign, colour, hatch in ((bars >= 0, BLUE, None), (bars < 0, ORANGE, "////")):
            ax.barh(np.flatnonzero(sign), bars[sign], height=0.7, color=colour, hatch=hatch, edgecolor="white", lw=0)
        ax.axvline(0.0, color=GREY, linewidth=0.8)
        label_rows(ax, names)
        unit = f"change of the guaranteed fall of mean {short_name(self.loss)} loss\nper percentage point of the rate"
        ax.set_xlabel("\n".join([unit, *self._notes_on_hidden(shown)]))
        ax.set_title(fill(_EXACT if self.exact else _BOUNDS, _TITLE_WIDTH), loc="left", fontsize="small")
        hide_top_and_right_spines(ax)
        self.shown_, self.ax_, self.figure_ = shown, ax, ax.get_figure(root=True)
        return self

    def _longest(self, n: int) -> IndexArray:
        """Numbers of the columns with the ``n`` longest bars, from the largest value to the smallest."""
        order = np.argsort(-np.abs(self.sensitivity), kind="stable")  # NaN comes last
        chosen = order[: min(n, int(np.isfinite(self.sensitivity).sum()))]
        return chosen[np.argsort(-self.sensitivity[chosen], kind="stable")]

    def _notes_on_hidden(self, shown: IndexArray) -> list[str]:
        without_bar = int(np.isnan(self.sensitivity).sum())
        hidden = len(self.sensitivity) - without_bar - len(shown)
        notes = [f"not shown: {counted(hidden, 'class')} with shorter bars"] if hidden else []
        return notes + ([f"not shown: {counted(without_bar, 'class')} with rate 0"] if without_bar else [])
