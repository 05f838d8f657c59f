"""The two figures of GeometryDisplay: a triangle for three classes, and a plane for two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.displays.simplex import draw_simplex, from_plane, note_below, to_plane
from baserate.displays.style import BLUE, GREEN, ORANGE, RED, class_labels, hide_top_and_right_spines
from baserate.losses.base import Loss, short_name
from baserate.support.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GRID = 241  # points per axis at which the divergence is computed
_N_LEVELS = 7  # curves of equal divergence


@dataclass(frozen=True, eq=False)
class Example:
    """Predictions with their bounded and unbounded adjustment, and the row to draw.

    Attributes
    ----------
    before, bounded, unbounded : array of shape (n, k)
        Predictions, and their bounded (BGA) and unbounded (UGA) general adjustment.
    bounded_path, unbounded_path : array of shape (m, k)
        Positions of the row as the shift grows from 0 to the fitted shift.
    wanted : array of shape (k,)
        The requested rates. For a rate set, the rates that BGA chose from it.
    row : int
    loss : Loss
    classes : tuple or None
        Class names in column order.
    """

    before: FloatArray
    bounded: FloatArray
    unbounded: FloatArray
    bounded_path: FloatArray
    unbounded_path: FloatArray
    wanted: FloatArray
    row: int
    loss: Loss
    classes: tuple[Any, ...] | None

    @property
    def same(self) -> bool:
        """Whether both adjustments are equal."""
        return bool(np.abs(self.bounded - self.unbounded).max() < 1e-9)


def draw_triangle(ax: Axes, data: Example) -> None:
    """Draw one row of three classes in the triangle, with the other rows and the mean in the background."""
    others = np.delete(np.arange(len(data.before)), data.row)
    points = to_plane(np.concatenate([data.before, data.bounded, data.unbounded]))
    draw_simplex(ax, class_labels(data.classes, range(3), prefix="class "), points)
    _draw_triangle_levels(ax, data)
    if len(others) <= 50:
        ax.plot(*to_plane(data.before[others]).T, "o", color="0.6", markersize=3, label="other predictions")
    mean, wanted = (tuple(to_plane(point)) for point in (data.before.mean(axis=0), data.wanted))
    ax.annotate("", wanted, mean, arrowprops={"arrowstyle": "->", "color": GREEN, "linestyle": "--"})
    ax.plot(*mean, "P", color=GREEN, markerfacecolor="white", markersize=8, linestyle="none", label="mean prediction")
    ax.plot(*wanted, "*", color=GREEN, markersize=13, linestyle="none", label="requested rates = mean after adjustment")
    if not data.same:
        ax.plot(*to_plane(data.unbounded_path).T, color=RED, linestyle="--", linewidth=1.4, zorder=2.5)
    ax.plot(*to_plane(data.bounded_path).T, color=BLUE, linewidth=1.8, zorder=2.6)
    _draw_ends(ax, to_plane([rows[data.row] for rows in (data.before, data.unbounded, data.bounded)]), data)
    note_below(ax, f"curves: equal {short_name(data.loss)} divergence from p; straight lines: every 25 %")


def _draw_triangle_levels(ax: Axes, data: Example) -> None:
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    x, y = np.meshgrid(np.linspace(left, right, _GRID), np.linspace(low, high, _GRID))
    q = from_plane(np.stack([x, y], axis=-1)).reshape(-1, 3)
    _draw_contours(ax, x, y, _divergence(data.loss, data.before[data.row], q).reshape(x.shape))


def draw_plane(ax: Axes, data: Example) -> None:
    """Draw the probability of class 1 in one row against its mean in the other rows."""
    n = len(data.before)
    ends = np.array([_in_plane(rows[:, 1], data.row) for rows in (data.before, data.unbounded, data.bounded)])
    visible = np.concatenate([ends, [[0.0, 0.0], [1.0, 1.0]]])
    low, high = visible.min(axis=0) - 0.1, visible.max(axis=0) + 0.1
    ax.set_xlim(low[0], high[0])
    ax.set_ylim(low[1], high[1])
    ax.fill([0, 1, 1, 0], [0, 0, 1, 1], facecolor="0.96", edgecolor="0.25", linewidth=1.2, zorder=0)
    if n == 2:
        _draw_plane_levels(ax, data, low, high)
    if n > 1:
        _draw_constraint(ax, float(data.wanted[1]), n, low[0], high[0])
    if not data.same:
        ax.plot(*ends[[0, 1]].T, color=RED, linestyle="--", linewidth=1.4)
    ax.plot(*ends[[0, 2]].T, color=BLUE, linewidth=1.8)
    _draw_ends(ax, ends, data)
    (name,) = class_labels(data.classes, [1], prefix="class ")
    note = f"\ncurves: equal mean {short_name(data.loss)} divergence from p" if n == 2 else ""
    ax.set_xlabel(f"probability of {name} in row {data.row}{note}")
    ax.set_ylabel(f"{'its' if n == 2 else 'its mean'} probability in the other row{'' if n == 2 else 's'}")
    ax.set_aspect("equal")
    ax.locator_params(nbins=6)
    hide_top_and_right_spines(ax)


def _in_plane(column: FloatArray, row: int) -> FloatArray:
    """The probability in one row, and its mean in the other rows."""
    others = np.delete(column, row)
    return np.array([column[row], others.mean() if len(others) else 0.0])


def _draw_constraint(ax: Axes, rate: float, n: int, left: float, right: float) -> None:
    """Draw the line on which the mean of all rows is the requested rate, and its part within [0, 1]."""
    ends = np.array([left, right])
    ax.plot(ends, (n * rate - ends) / (n - 1), color=GREEN, ls="-.", linewidth=1.2, label="mean = requested rates")
    inside = np.array([max(0.0, n * rate - (n - 1)), min(1.0, n * rate)])
    ax.plot(
        inside, (n * rate - inside) / (n - 1), color=GREEN, linewidth=4, alpha=0.5, label="and entries within [0, 1]"
    )


def _draw_plane_levels(ax: Axes, data: Example, low: FloatArray, high: FloatArray) -> None:
    x, y = np.linspace(low[0], high[0], _GRID), np.linspace(low[1], high[1], _GRID)
    divergence = [
        _divergence(data.loss, data.before[row], np.stack([1 - values, values], axis=1))
        for row, values in ((data.row, x), (1 - data.row, y))
    ]
    _draw_contours(ax, x, y, 0.5 * (divergence[0][None, :] + divergence[1][:, None]))


def _divergence(loss: Loss, p: FloatArray, q: FloatArray) -> FloatArray:
    """Divergence from ``p`` to each row of ``q``; NaN where the loss is not defined."""
    defined = (q >= loss.domain.low).all(axis=1)
    d = np.full(len(q), np.nan)
    d[defined] = loss.divergence(np.broadcast_to(p, (int(defined.sum()), len(p))), q[defined])
    return np.where(np.isfinite(d), d, np.nan)


def _draw_contours(ax: Axes, x: FloatArray, y: FloatArray, d: FloatArray) -> None:
    top = np.nanmax(d)
    # The divergence grows like the square of the distance from p, so squared levels give evenly spaced curves.
    levels = top * (np.arange(1, _N_LEVELS + 1) / (_N_LEVELS + 1)) ** 2
    ax.contour(x, y, d, levels=levels, colors=ORANGE, linewidths=0.7, alpha=0.8, zorder=1)


def _draw_ends(ax: Axes, points: FloatArray, data: Example) -> None:
    """Draw the prediction, its unbounded and its bounded adjustment."""
    style: dict[str, Any] = {"linestyle": "none", "zorder": 4}
    p, u, b = points
    ax.plot(*p, marker="o", color="black", markerfacecolor="white", markersize=9, label=f"p: row {data.row}", **style)
    if data.same:
        ax.plot(*b, marker="s", color=BLUE, markersize=8, label="adjusted", **style)
        return
    ax.plot(*u, marker="^", color=RED, markersize=9, label="unbounded adjustment", **style)
    ax.plot(*b, marker="s", color=BLUE, markersize=8, label="bounded adjustment", **style)
