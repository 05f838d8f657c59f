"""What each rate is worth to the guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.displays.style import (
    BLUE,
    GREY,
    ORANGE,
    name_rows,
    names_of,
    plain,
    rows_axes,
    rows_in,
)
from baserate.losses.base import Loss, short_name
from baserate.rates import RatesLike
from baserate.result.record import Result
from baserate.result.text import counted
from baserate.solving import adjusted
from baserate.support.arrays import FloatArray, IndexArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_EXACT = "One percentage point moved from class A to class B changes the guarantee by about B's bar minus A's bar."
_BOUNDS = (
    "Raising the bound that holds a class by one percentage point changes the guarantee by about its bar; "
    "a class without a bar is held by none."
)
_WIDTH = 56  # characters of a line of the title


@dataclass(eq=False)
class RateSensitivityDisplay:
    """How much the guaranteed fall of the loss changes with each rate: one bar a class, the largest on top.

    Of many classes those with the longest bars are drawn, and the others counted.

    Attributes
    ----------
    sensitivity : array of shape (k,)
        Change of the guaranteed fall per unit of a rate, as in ``certificate.sensitivity``; NaN where the rate is 0.
    exact : bool
        Whether the rates are exactly known: then only differences between bars count.
    loss : Loss
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
        """Draw an adjustment; it need not hold its rows."""
        certificate = result.certificate
        return cls(certificate.sensitivity, certificate.known.kind == "exact", result.loss, result.classes).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls, probs: Any, rates: RatesLike, *, ax: Axes | None = None, **options: Any
    ) -> RateSensitivityDisplay:
        """Adjust and draw; takes the options of :func:`baserate.adjust`."""
        return cls.from_adjustment(adjusted(probs, rates, **options), ax=ax)

    def plot(self, ax: Axes | None = None) -> RateSensitivityDisplay:
        """Draw into ``ax``, or into a new figure."""
        shown = self._longest(rows_in(ax))
        names = names_of(self.classes, shown)
        if ax is None:
            ax = rows_axes(names, besides=1.8)
        bars = self.sensitivity[shown] / 100
        for sign, colour, hatch in ((bars >= 0, BLUE, None), (bars < 0, ORANGE, "////")):
            ax.barh(np.flatnonzero(sign), bars[sign], height=0.7, color=colour, hatch=hatch, edgecolor="white", lw=0)
        ax.axvline(0.0, color=GREY, linewidth=0.8)
        name_rows(ax, names)
        unit = f"change of the guaranteed fall of mean {short_name(self.loss)} loss\nper percentage point of the rate"
        ax.set_xlabel("\n".join([unit, *self._left_out(shown)]))
        ax.set_title(fill(_EXACT if self.exact else _BOUNDS, _WIDTH), loc="left", fontsize="small")
        plain(ax)
        self.shown_, self.ax_, self.figure_ = shown, ax, ax.get_figure(root=True)
        return self

    def _longest(self, most: int) -> IndexArray:
        """Columns with the longest bars, from the largest value to the smallest."""
        order = np.argsort(-np.abs(self.sensitivity), kind="stable")  # NaN comes last
        chosen = order[: min(most, int(np.isfinite(self.sensitivity).sum()))]
        return chosen[np.argsort(-self.sensitivity[chosen], kind="stable")]

    def _left_out(self, shown: IndexArray) -> list[str]:
        none = int(np.isnan(self.sensitivity).sum())
        shorter = len(self.sensitivity) - none - len(shown)
        notes = [f"{counted(shorter, 'class')} whose bars are no longer: not shown"] if shorter else []
        return notes + ([f"{counted(none, 'class')} of rate 0: no bar"] if none else [])
