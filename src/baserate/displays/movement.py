"""How single predictions moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from baserate.displays.pairs import as_pairs
from baserate.displays.panels import Panels
from baserate.displays.triangle import Triangle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(eq=False)
class MovementDisplay:
    """How single predictions moved from the predicted to the adjusted probabilities.

    Three classes are one map of all predictions. Otherwise each class has a panel with adjusted against predicted
    probability: one panel for two classes, and of more than 12 classes those whose rates changed most. Few rows are
    drawn one by one, many are counted in cells.

    Attributes
    ----------
    movement : Triangle or Panels
        The data that are drawn: rows one by one, or the counts of cells.
    axes_, figure_ : array of matplotlib Axes, and Figure
        Where they were drawn; None before that.

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
        """Compute and draw.

        Parameters
        ----------
        probs, adjusted : array-like or dataframe of shape (n, k)
            The predictions, and ``result.probs``, row by row.
        classes : sequence, optional
            Names of the columns; by default those of a dataframe.
        axes : matplotlib Axes, or as many as there are panels, optional
        """
        pairs = as_pairs(probs, adjusted, classes)
        made = Triangle.of(pairs) if pairs.before.shape[1] == 3 else Panels.of(pairs)
        return cls(made).plot(axes)

    def plot(self, axes: Axes | Sequence[Axes] | None = None) -> MovementDisplay:
        """Draw into ``axes``, of which there must be one a panel, or into a new figure."""
        drawn = self.movement.new_axes() if axes is None else axes
        self.axes_ = np.atleast_1d(np.asarray(drawn, dtype=object))
        self.movement.draw(self.axes_.tolist())
        self.figure_ = self.axes_[0].get_figure(root=True)
        return self
