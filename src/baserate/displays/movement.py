"""Change of single predictions by an adjustment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from baserate.displays.notebook import NotebookDisplay
from baserate.displays.pairs import as_pairs
from baserate.displays.panels import Panels
from baserate.displays.triangle import Triangle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(eq=False, repr=False)
class MovementDisplay(NotebookDisplay):
    """Predicted and adjusted probabilities of single rows.

    Three classes are drawn in one triangle. Otherwise there is one panel per class, with adjusted against predicted
    probability. Two classes have one panel. At most 12 classes are shown: those whose rates changed most. A few rows
    are drawn as points. Many rows are counted in cells.

    Attributes
    ----------
    movement : Triangle or Panels
        The data of the display: the rows, or the number of rows in each cell.
    axes_, figure_ : array of matplotlib Axes, and Figure
        Where the display was drawn; None before that.

    Examples
    --------
    >>> import baserate as br
    >>> probs = [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]]
    >>> display = br.MovementDisplay.from_predictions(probs, br.adjust(probs, [0.75, 0.25]).probs)
    >>> display.axes_[0].get_title(), display.movement.after.round(2).ravel()
    ('class 1', array([0.02, 0.1 , 0.28, 0.6 ]))
    """

    movement: Triangle | Panels
    axes_: NDArray[Any] | None = None
    figure_: Figure | None = None

    @classmethod
    def from_predictions(
        cls, probs: Any, adjusted: Any, *, classes: Sequence[Any] | None = None, axes: Any = None
    ) -> MovementDisplay:
        """Count the rows if there are many, and draw.

        Parameters
        ----------
        probs, adjusted : array-like or dataframe of shape (n, k)
            The predictions, and the adjusted predictions ``result.probs`` of the same rows.
        classes : sequence, optional
            Class names in column order. By default the column names of a dataframe.
        axes : matplotlib Axes or sequence of Axes, optional
            One per panel.
        """
        pairs = as_pairs(probs, adjusted, classes)
        movement = Triangle.from_pairs(pairs) if pairs.before.shape[1] == 3 else Panels.from_pairs(pairs)
        return cls(movement).plot(axes)

    def plot(self, axes: Axes | Sequence[Axes] | None = None) -> MovementDisplay:
        """Draw into ``axes``, one per panel, or into a new figure."""
        drawn = self.movement.new_axes() if axes is None else axes
        self.axes_ = np.atleast_1d(np.asarray(drawn, dtype=object))
        self.movement.draw(self.axes_.tolist())
        self.figure_ = self.axes_[0].get_figure(root=True)
        return self
