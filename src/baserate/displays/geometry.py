"""Bounded and unbounded adjustment of one prediction, as in Figure 1 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.displays.geometry_views import Example, draw_plane, draw_triangle
from baserate.displays.notebook import NotebookDisplay
from baserate.displays.pairs import as_pairs
from baserate.displays.style import legend_above, new_axes
from baserate.errors import BadOption
from baserate.losses.base import Loss
from baserate.rates import RatesLike
from baserate.result.record import Result
from baserate.solving import adjusted
from baserate.support.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PATH_POINTS = 101


@dataclass(eq=False, repr=False)
class GeometryDisplay(NotebookDisplay):
    """One prediction with its bounded (BGA) and unbounded (UGA) general adjustment, and the requested rates.

    With three classes, the figure shows the triangle of all predictions for one row. It has curves of equal divergence
    from the prediction, and the paths along which the prediction moves as the shift grows.

    With two classes, the horizontal axis is the probability in the row, and the vertical axis the mean probability in
    the other rows. Predictions with the requested rates form a line. With two rows, this is Figure 1 of the paper.

    Attributes
    ----------
    example : Example
        The data of the display.
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn; None before that.

    References
    ----------
    Heiser, Allikivi, Kull, "Shift Happens: Adjusting Classifiers", ECML PKDD 2019, doi:10.48550/arXiv.2111.02529.

    Examples
    --------
    >>> import baserate as br
    >>> display = br.GeometryDisplay.from_predictions([[0.9, 0.1], [0.3, 0.7]], [0.75, 0.25])
    >>> display.example.unbounded.round(3)
    array([[ 1.05, -0.05],
           [ 0.45,  0.55]])
    >>> display.example.bounded.round(3)
    array([[1. , 0. ],
           [0.5, 0.5]])
    """

    example: Example
    ax_: Axes | None = None
    figure_: Figure | None = None

    @classmethod
    def from_predictions(
        cls,
        probs: Any,
        rates: RatesLike,
        *,
        loss: str | Loss = "brier",
        row: int = 0,
        classes: Sequence[Any] | None = None,
        ax: Axes | None = None,
    ) -> GeometryDisplay:
        """Compute both adjustments and draw.

        Parameters
        ----------
        probs : array-like or dataframe of shape (n, k)
            Predictions of two or three classes.
        rates : array-like of shape (k,), dict, Series or Rates
        loss : str or Loss, default "brier"
            For losses that are defined only for positive probabilities, such as "log", both adjustments are the same.
        row : int, default 0
            Number of the row to draw.
        classes : sequence, optional
            Class names in column order. By default the column names of a dataframe.
        ax : matplotlib Axes, optional
        """
        pairs = as_pairs(probs, probs, classes)
        n, k = pairs.before.shape
        if k > 3:
            raise BadOption(f"GeometryDisplay supports only 2 or 3 classes, but probs has {k}")
        if not isinstance(row, (int, np.integer)) or isinstance(row, bool) or not -n <= row < n:
            raise BadOption(f"row must be a row number from 0 to {n - 1}, not {row!r}")
        bounded, unbounded = (
            adjusted(pairs.before, rates, loss=loss, bounded=is_bounded, classes=pairs.classes)
            for is_bounded in (True, False)
        )
        p = bounded.model.reading.clean(pairs.before)
        example = Example(
            before=p,
            bounded=bounded.probs,
            unbounded=unbounded.probs,
            bounded_path=_path(bounded, p[row], row),
            unbounded_path=_path(unbounded, p[row], row),
            wanted=bounded.wanted,
            row=int(row) % n,
            loss=bounded.loss,
            classes=bounded.classes,
        )
        return cls(example).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> GeometryDisplay:
        """Draw into ``ax``, or into a new figure."""
        if ax is None:
            ax = new_axes(width=6.4, height=6.0)
        if self.example.before.shape[1] == 3:
            draw_triangle(ax, self.example)
        else:
            draw_plane(ax, self.example)
        legend_above(ax, 2)
        self.ax_, self.figure_ = ax, ax.get_figure(root=True)
        return self


def _path(result: Result, p: FloatArray, row: int) -> FloatArray:
    """Positions of a prediction as the shift grows from 0 to the fitted shift."""
    ends = np.stack([p, result.probs[row]])
    model = result.model
    kept = p[model.kept_classes]  # without classes of rate 0, which have no shift
    if len(kept) == 1 or not kept.any():
        return ends
    x = model.kept_loss.link((kept / kept.sum())[None, :])
    shifts = np.linspace(0.0, 1.0, _PATH_POINTS)[:, None] * result.dual_shift
    path = np.zeros((_PATH_POINTS, len(p)))
    path[:, model.kept_classes] = model.kept_loss.row_map(x + shifts, bounded=model.bounded)
    return np.concatenate([ends[:1], path, ends[1:]])
