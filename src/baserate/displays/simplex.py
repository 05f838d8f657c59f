"""Predictions of three classes as points of a triangle."""

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
"""Where all probability is on class 0, 1 or 2."""

_LINES = (0.25, 0.5, 0.75)
_NAMES = 0.07  # height of a name, with side 1


def to_plane(p: ArrayLike) -> FloatArray:
    """Points of the plane, shape (..., 2), of predictions of shape (..., 3)."""
    return np.asarray(p, dtype=np.float64) @ CORNERS


def from_plane(points: FloatArray) -> FloatArray:
    """Predictions, shape (..., 3), of points of the plane; outside the triangle some are below 0."""
    top = points[..., 1] / HEIGHT
    right = points[..., 0] - 0.5 * top
    return np.stack([1.0 - right - top, right, top], axis=-1)


def draw_simplex(ax: Axes, names: Sequence[str], view: FloatArray) -> None:
    """The triangle with its names and a line every 25 %, in a window that holds the points ``view``."""
    for share in _LINES:
        for j in range(3):
            ends = np.zeros((2, 3))
            ends[:, j], ends[0, j - 1], ends[1, j - 2] = share, 1 - share, 1 - share
            ax.plot(*to_plane(ends).T, color="0.88", linewidth=0.7, zorder=0.5)
    ax.plot(*CORNERS[[0, 1, 2, 0]].T, color="0.25", linewidth=1.2, zorder=1.5)
    points = np.concatenate([CORNERS, view])
    low, high = points.min(axis=0) - 0.02, points.max(axis=0) + 0.02
    for j, (side, level) in enumerate((("left", "top"), ("right", "top"), ("center", "bottom"))):
        y = low[1] if level == "top" else high[1]  # beside the data, not on them
        ax.text(CORNERS[j][0], y, names[j], ha=side, va=level)
    ax.set_xlim(low[0], high[0])
    ax.set_ylim(low[1] - _NAMES, high[1] + _NAMES)
    ax.set_aspect("equal")
    ax.set_axis_off()


def note_below(ax: Axes, note: str) -> None:
    """A line below axes that have no label of their own."""
    ax.text(0.5, 0.0, note, transform=ax.transAxes, ha="center", va="top", fontsize="small", color=GREY)
