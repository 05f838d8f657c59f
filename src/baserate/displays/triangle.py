"""Predictions of three classes before and after an adjustment, drawn in a triangle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from baserate.displays.pairs import Pairs
from baserate.displays.simplex import CORNERS, draw_simplex, note_below, to_plane
from baserate.displays.style import BLUE, DENSITY, GREY, class_labels, legend_above, new_axes
from baserate.errors import BadOption
from baserate.support.arrays import FloatArray, IndexArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_POINTS = 200
"""Maximum number of rows that are drawn as points."""

_SIDE = 10  # cells per side of the triangle


@dataclass(frozen=True, eq=False)
class Triangle:
    """Predictions of three classes before and after an adjustment, per row or per cell of the triangle.

    Attributes
    ----------
    before, after : array of shape (m, 3)
        The predictions and adjusted predictions of each row, or their means over the rows of each cell.
    counts : array of shape (m,) or None
        Number of rows in each cell; None if each row is drawn.
    cells : array of shape (m, 3) or None
        Centres of the cells.
    classes : tuple or None
        Class names in column order.
    n_rows : int
    """

    before: FloatArray
    after: FloatArray
    counts: FloatArray | None
    cells: FloatArray | None
    classes: tuple[Any, ...] | None
    n_rows: int

    @classmethod
    def from_pairs(cls, pairs: Pairs) -> Triangle:
        """Keep the rows if they are few, else average them per cell."""
        n = len(pairs.before)
        if n <= MAX_POINTS:
            before, after = (np.asarray(rows, dtype=np.float64) for rows in (pairs.before, pairs.after))
            return cls(before, after, None, None, pairs.classes, n)
        size = (_SIDE + 1) ** 2
        counts, sums = np.zeros(size), np.zeros((6, size))
        for p, a in pairs.blocks():
            cell = _cell_numbers(p)
            counts += np.bincount(cell, minlength=size)
            sums += [np.bincount(cell, weights=column, minlength=size) for column in (*p.T, *a.T)]
        nonempty = np.flatnonzero(counts)
        mean = (sums[:, nonempty] / counts[nonempty]).T
        first, second = np.divmod(nonempty, _SIDE + 1)
        centres = np.stack([first, second, _SIDE - first - second], axis=1) / _SIDE
        return cls(mean[:, :3], mean[:, 3:], counts[nonempty], centres, pairs.classes, n)

    def new_axes(self) -> Any:
        """Axes of a new figure."""
        return new_axes(width=6.4, height=5.6)

    def draw(self, axes: Sequence[Axes]) -> None:
        """Draw into ``axes``, which must have one entry."""
        if len(axes) != 1:
            raise BadOption(f"axes must have one entry for three classes, but has {len(axes)}")
        ax = axes[0]
        start, end = to_plane(self.before), to_plane(self.after)
        draw_simplex(ax, class_labels(self.classes, range(3), _NAME_WIDTH, prefix="class "), end)
        if self.counts is None:
            self._draw_rows(ax, start, end)
        else:
            self._draw_cells(ax, self.counts, start, end)
        legend_above(ax, 2)
        note_below(ax, "straight lines: every 25 % of probability; 100 % in the corners")

    def _draw_rows(self, ax: Axes, start: FloatArray, end: FloatArray) -> None:
        ax.quiver(*start.T, *(end - start).T, color="0.6", **_TRUE_LENGTH)
        size = 6 if self.n_rows <= 50 else 4
        ax.plot(*start.T, "o", color=GREY, mfc="white", markersize=size, linestyle="none", label="as predicted")
        ax.plot(*end.T, "D", color=BLUE, markersize=size - 1, linestyle="none", label="adjusted")

    def _draw_cells(self, ax: Axes, counts: FloatArray, start: FloatArray, end: FloatArray) -> None:
        from matplotlib.collections import PolyCollection
        from matplotlib.colors import LogNorm
        from matplotlib.patches import Polygon

        assert self.cells is not None
        turns = np.deg2rad(30 + 60 * np.arange(6))
        hexagon = np.stack([np.cos(turns), np.sin(turns)], axis=1) / (_SIDE * np.sqrt(3))
        inside = Polygon(CORNERS, transform=ax.transData)
        norm = LogNorm(1, max(float(counts.max()), 10.0))
        drawn = PolyCollection(
            list(to_plane(self.cells)[:, None] + hexagon),
            array=counts,
            cmap=f"{DENSITY}_r",
            norm=norm,
            alpha=0.5,
            edgecolors="white",
            linewidths=0.5,
        )
        ax.add_collection(drawn, autolim=False)
        drawn.set_clip_path(inside)
        arrows = ax.quiver(*start.T, *(end - start).T, color=_DARK, edgecolor="white", linewidth=0.4, **_TRUE_LENGTH)
        arrows.set_zorder(3)
        ax.plot([], [], marker=r"$\rightarrow$", color=_DARK, markersize=12, linestyle="none", label=_ARROW_LABEL)
        figure = ax.get_figure(root=True)
        assert figure is not None
        figure.colorbar(drawn, ax=ax, label="rows per cell", shrink=0.7, pad=0.02)


_DARK = "0.1"  # visible on cells of any colour
_ARROW_LABEL = "mean change of the rows in a cell"
_NAME_WIDTH = 1.9  # inches of the name at a corner
_TRUE_LENGTH: dict[str, Any] = {
    "angles": "xy",
    "scale_units": "xy",
    "scale": 1.0,
    "width": 0.004,
    "minlength": 0.1,
    "zorder": 2,
}


def _cell_numbers(p: NDArray[Any]) -> IndexArray:
    """Number of the hexagonal cell that contains each prediction.

    The coordinates are rounded. The one with the largest rounding error is then changed so that their sum is kept.
    """
    scaled = np.clip(p, 0.0, 1.0).astype(np.float64) * _SIDE
    rounded = np.rint(scaled)
    worst = np.abs(rounded - scaled).argmax(axis=1)
    rows = np.arange(len(p))
    rounded[rows, worst] -= rounded.sum(axis=1) - _SIDE
    np.clip(rounded, 0, _SIDE, out=rounded)
    return (rounded[:, 0] * (_SIDE + 1) + rounded[:, 1]).astype(np.intp)
