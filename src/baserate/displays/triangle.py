"""How predictions of three classes moved in the triangle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from baserate.displays.pairs import Pairs
from baserate.displays.simplex import CORNERS, draw_simplex, note_below, to_plane
from baserate.displays.style import BLUE, DENSITY, GREY, legend_above, names_of, new_axes
from baserate.errors import BadOption
from baserate.support.arrays import FloatArray, IndexArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 200
"""Most rows that are drawn one by one."""

_SIDE = 10  # cells along a side


@dataclass(frozen=True, eq=False)
class Triangle:
    """Predictions of three classes before and after: rows one by one, or means of the rows in each cell.

    Attributes
    ----------
    before, after : array of shape (m, 3)
        Rows, or the mean of the predictions in a cell and the mean of what they became.
    counts : array of shape (m,) or None
        Rows in each cell; None if the rows are drawn one by one.
    cells : array of shape (m, 3) or None
        Centres of the cells.
    classes : tuple or None
        Names of the columns.
    n_rows : int
    """

    before: FloatArray
    after: FloatArray
    counts: FloatArray | None
    cells: FloatArray | None
    classes: tuple[Any, ...] | None
    n_rows: int

    @classmethod
    def of(cls, pairs: Pairs) -> Triangle:
        """Count the rows in each cell, if there are many."""
        n = len(pairs.before)
        if n <= FEW:
            before, after = (np.asarray(rows, dtype=np.float64) for rows in (pairs.before, pairs.after))
            return cls(before, after, None, None, pairs.classes, n)
        size = (_SIDE + 1) ** 2
        counts, sums = np.zeros(size), np.zeros((6, size))
        for p, a in pairs.blocks():
            cell = _cell_of(p)
            counts += np.bincount(cell, minlength=size)
            sums += [np.bincount(cell, weights=column, minlength=size) for column in (*p.T, *a.T)]
        full = np.flatnonzero(counts)
        mean = (sums[:, full] / counts[full]).T
        first, second = np.divmod(full, _SIDE + 1)
        centres = np.stack([first, second, _SIDE - first - second], axis=1) / _SIDE
        return cls(mean[:, :3], mean[:, 3:], counts[full], centres, pairs.classes, n)

    def new_axes(self) -> Any:
        """A new figure with one map."""
        return new_axes(width=6.4, height=5.6)

    def draw(self, axes: Sequence[Axes]) -> None:
        """Draw into the one axes."""
        if len(axes) != 1:
            raise BadOption(f"three classes are one map, not {len(axes)}")
        ax = axes[0]
        start, end = to_plane(self.before), to_plane(self.after)
        draw_simplex(ax, names_of(self.classes, range(3), _NAME, prefix="class "), end)
        if self.counts is None:
            self._rows(ax, start, end)
        else:
            self._cells(ax, self.counts, start, end)
        legend_above(ax, 2)
        note_below(ax, "straight lines: every 25 % of probability; a corner has 100 %")

    def _rows(self, ax: Axes, start: FloatArray, end: FloatArray) -> None:
        ax.quiver(*start.T, *(end - start).T, color="0.6", **_TRUE_LENGTH)
        size = 6 if self.n_rows <= 50 else 4
        ax.plot(*start.T, "o", color=GREY, mfc="white", markersize=size, linestyle="none", label="as predicted")
        ax.plot(*end.T, "D", color=BLUE, markersize=size - 1, linestyle="none", label="adjusted")

    def _cells(self, ax: Axes, counts: FloatArray, start: FloatArray, end: FloatArray) -> None:
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
        ax.plot([], [], marker=r"$\rightarrow$", color=_DARK, markersize=12, linestyle="none", label=_ARROW)
        figure = ax.get_figure(root=True)
        assert figure is not None
        figure.colorbar(drawn, ax=ax, label="rows in a cell", shrink=0.7, pad=0.02)


_DARK = "0.1"  # on cells of any colour, also in grey
_ARROW = "mean move of the rows of a cell"
_NAME = 1.9  # inches of a name at a corner
_TRUE_LENGTH: dict[str, Any] = {
    "angles": "xy",
    "scale_units": "xy",
    "scale": 1.0,
    "width": 0.004,
    "minlength": 0.1,
    "zorder": 2,
}


def _cell_of(p: NDArray[Any]) -> IndexArray:
    """The hexagon in which each prediction lies: its coordinates rounded so that their sum stays."""
    scaled = np.clip(p, 0.0, 1.0).astype(np.float64) * _SIDE
    near = np.rint(scaled)
    miss = near - scaled
    worst = np.abs(miss).argmax(axis=1)
    rows = np.arange(len(p))
    near[rows, worst] -= near.sum(axis=1) - _SIDE
    np.clip(near, 0, _SIDE, out=near)
    return (near[:, 0] * (_SIDE + 1) + near[:, 1]).astype(np.intp)
