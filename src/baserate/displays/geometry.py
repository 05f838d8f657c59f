"""The paper's Figure 1, drawn from numbers: what bounded and unbounded adjustment do to one prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.displays.geometry_views import Example, draw_plane, draw_triangle
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

_STEPS = 101  # of a path


@dataclass(eq=False)
class GeometryDisplay:
    """One prediction, its unbounded (UGA) and its bounded (BGA) adjustment, and the wanted rates.

    Of three classes, the picture is the triangle of all predictions of one row, with curves of equal divergence from
    its prediction and the paths on which the shift takes it away. Of two classes, it is the plane of the probability
    in that row and the mean probability in the others, where predictions that have the wanted rates are a line. With
    two rows, that is Figure 1 of the paper.

    Attributes
    ----------
    example : Example
        The data that are drawn.
    ax_, figure_ : matplotlib Axes and Figure
        Where they were drawn; None before that.

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
        """Adjust in both ways and draw.

        Parameters
        ----------
        probs : array-like or dataframe of shape (n, k)
            Predictions of two or three classes; a few rows are enough.
        rates : array-like of shape (k,), dict, Series or Rates
        loss : str or Loss, default "brier"
            For losses that are only defined above 0, such as "log", both adjustments are the same.
        row : int, default 0
            The prediction that is looked at.
        classes : sequence, optional
            Names of the columns; by default those of a dataframe.
        ax : matplotlib Axes, optional
        """
        pairs = as_pairs(probs, probs, classes)
        n, k = pairs.before.shape
        if k > 3:
            raise BadOption(f"only predictions of 2 or 3 classes can be drawn as geometry, not of {k}")
        if not isinstance(row, (int, np.integer)) or isinstance(row, bool) or not -n <= row < n:
            raise BadOption(f"row must be one of the row numbers 0 to {n - 1}, not {row!r}")
        options: dict[str, Any] = {"loss": loss, "classes": pairs.classes}
        inside, outside = (adjusted(pairs.before, rates, bounded=bounded, **options) for bounded in (True, False))
        p = inside.model.reading.clean(pairs.before)
        example = Example(
            before=p,
            bounded=inside.probs,
            unbounded=outside.probs,
            bounded_path=_path(inside, p[row], row),
            unbounded_path=_path(outside, p[row], row),
            wanted=inside.wanted,
            row=int(row) % n,
            loss=inside.loss,
            classes=inside.classes,
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
    """Where a prediction is on its way, as the shift grows from none to all."""
    ends = np.stack([p, result.probs[row]])
    model = result.model
    inside = p[model.kept_classes]  # a class of rate 0 has no way, only an end
    if len(inside) == 1 or not inside.any():
        return ends
    x = model.kept_loss.link((inside / inside.sum())[None, :])
    steps = np.linspace(0.0, 1.0, _STEPS)[:, None] * result.dual_shift
    way = np.zeros((_STEPS, len(p)))
    way[:, model.kept_classes] = model.kept_loss.row_map(x + steps, bounded=model.bounded)
    return np.concatenate([ends[:1], way, ends[1:]])
