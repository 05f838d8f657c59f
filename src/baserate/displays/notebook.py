"""How a display is shown as the last expression of a notebook cell."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class NotebookDisplay(ABC):
    """A display that notebooks show as its picture.

    Subclasses are dataclasses. Their fields whose names end in ``_`` are where the display was drawn.
    """

    figure_: Figure | None

    @abstractmethod
    def plot(self) -> Any:
        """Draw into a new figure."""

    def __repr__(self) -> str:
        """The name of the display and of its data, but not the data, which may be long arrays."""
        data = [field.name for field in fields(self) if not field.name.endswith("_")]  # type: ignore[arg-type]  # subclasses are dataclasses
        return f"<{type(self).__name__} of {', '.join(data)}>"

    def _repr_png_(self) -> bytes | None:
        """The picture, or None if the figure has a window or a widget that shows it."""
        import matplotlib.pyplot as plt
        from matplotlib.backend_bases import FigureManagerBase

        if self.figure_ is None:
            self.plot()
        figure = self.figure_
        assert figure is not None
        if plt.fignum_exists(getattr(figure, "number", -1)):
            if type(figure.canvas.manager) is not FigureManagerBase:
                return None
            # The inline backend shows all figures that are open at the end of a cell: this one a second time.
            plt.close(figure)
        picture = io.BytesIO()
        figure.savefig(picture, format="png", bbox_inches="tight")
        return picture.getvalue()
