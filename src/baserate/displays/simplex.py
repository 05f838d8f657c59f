"""Predictions of three classes as points in an equilateral triangle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from baserate.displays.style import GREY
from baserate.support.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT = float(np.sqrt(0.75))
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, HEIGHT]])
"""Corners of the triangle: the predictions that give class 0, 1 or 2 the probability 1."""

_GRID_LINES = (0.25, 0.5, 0.75)
_NAME_HEIGHT = 0.07  # relative to the side of the triangle


def to_plane(p: ArrayLike) -> FloatArray:
    """Points in the plane, shape (..., 2), for predictions of shape (..., 3)."""
    return np.asarray(p, dtype=np.float64) @ CORNERS


def from_plane(points: FloatArray) -> FloatArray:
    """Predictions, shape (..., 3), for points in the plane. Points outside the triangle have negative entries."""
    top = points[..., 1] / HEIGHT
    right = points[..., 0] - 0.5 * top
    return np.stack([1.0 - right - top, right, top], axis=-1)


def draw_simplex(ax: Axes, names: Sequence[str], view: FloatArray) -> None:
    """Draw the triangle with class names and grid lines every 25 %, in axes that contain the points ``view``."""
    for share in _GRID_LINES:
        for j in range(3):
            ends = np.zeros((2, 3))
            ends[:, j], ends[0, j - 1], ends[1, j - 2] = share, 1 - share, 1 - share
            ax.plot(*to_plane(ends).T, color="0.88", linewidth=0.7, zorder=0.5)
    ax.plot(*CORNERS[[0, 1, 2, 0]].T, color="0.25", linewidth=1.2, zorder=1.5)
    points = np.concatenate([CORNERS, view])
    low, high = points.min(axis=0) - 0.02, points.max(axis=0) + 0.02
    for j, (side, level) in enumerate((("left", "top"), ("right", "top"), ("center", "bottom"))):
        y = low[1] if level == "top" else high[1]  # outside the data
        ax.text(CORNERS[j][0], y, names[j], ha=side, va=level)
    ax.set_xlim(low[0], high[0])
    ax.set_ylim(low[1] - _NAME_HEIGHT, high[1] + _NAME_HEIGHT)
    ax.set_aspect("equal")
    ax.set_axis_off()


def note_below(ax: Axes, note: str) -> None:
    """Write a line of text below axes without labels."""
    ax.text(0.5, 0.0, note, transform=ax.transAxes, ha="center", va="top", fontsize="small", color=GREY)
