"""Adjusted against predicted probability, with one panel per class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.displays.pairs import Pairs
from baserate.displays.style import (
    BLUE,
    DENSITY,
    GREY,
    class_labels,
    hide_top_and_right_spines,
    indices_of_largest,
    new_axes,
)
from baserate.errors import BadOption
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.numbers import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_POINTS = 1000
"""Maximum number of rows that are drawn as points."""

MAX_PANELS = 12

_BINS = 50
_MAX_COLUMNS = 4
_NAME_WIDTH = 1.9  # inches of the name above a panel
_AXIS_LIMITS = (0.02, 0.05, 0.1, 0.2, 0.5)  # upper limits of the axes if all probabilities are small


@dataclass(frozen=True, eq=False)
class Panels:
    """Adjusted and predicted probabilities of some classes, as points or as counts in square cells.

    Attributes
    ----------
    shown : array of shape (m,)
        Numbers of the columns that have a panel.
    classes : tuple or None
        Names of all classes, in column order.
    before, after : array of shape (n, m) or None
        The probabilities, if there are at most 1000 rows.
    counts : array of shape (m, 50, 50) or None
        Number of rows in cells of predicted and adjusted probability, if there are more rows.
    view : tuple
        Limits of the vertical axis. Probabilities from an unbounded adjustment may be outside [0, 1].
    reach : float
        Upper limit of the horizontal axis. It is less than 1 if all probabilities are small.
    n_rows, n_classes : int
    """

    shown: IndexArray
    classes: tuple[Any, ...] | None
    before: FloatArray | None
    after: FloatArray | None
    counts: FloatArray | None
    view: tuple[float, float]
    reach: float
    n_rows: int
    n_classes: int

    @classmethod
    def from_pairs(cls, pairs: Pairs) -> Panels:
        """Choose the classes and count the rows."""
        n, k = pairs.before.shape
        # With two classes, the panel of class 0 would show the same as that of class 1, rotated by 180 degrees.
        shown = np.array([1]) if k == 2 else indices_of_largest(np.abs(pairs.change()), MAX_PANELS)
        ranges = [(a[:, shown].min(), a[:, shown].max()) for _, a in pairs.blocks()]
        view = min(0.0, *(float(low) for low, _ in ranges)), max(1.0, *(float(high) for _, high in ranges))
        highest = max(float(max(p[:, shown].max(), a[:, shown].max())) for p, a in pairs.blocks())
        reach = next((limit for limit in _AXIS_LIMITS if highest <= limit), 1.0) if view == (0.0, 1.0) else 1.0
        view = view if view != (0.0, 1.0) else (0.0, reach)
        if n <= MAX_POINTS:
            before, after = (np.asarray(rows[:, shown], dtype=np.float64) for rows in (pairs.before, pairs.after))
            return cls(shown, pairs.classes, before, after, None, view, reach, n, k)
        return cls(shown, pairs.classes, None, None, _counts(pairs, shown, view, reach), view, reach, n, k)

    @property
    def _n_columns(self) -> int:
        """Panels per row: the smallest number that does not need more rows of panels."""
        return -(-len(self.shown) // -(-len(self.shown) // _MAX_COLUMNS))

    def new_axes(self) -> Any:
        """Axes of a new figure with one panel per class."""
        n_panels, n_columns = len(self.shown), self._n_columns
        if n_panels == 1:
            return new_axes(width=4.8, height=4.2)
        n_rows = -(-n_panels // n_columns)
        return new_axes(n_panels, columns=n_columns, width=2.3 * n_columns + 0.8, height=2.3 * n_rows + 0.5)

    def draw(self, axes: Sequence[Axes]) -> None:
        """Draw each class into its axes."""
        if len(axes) != len(self.shown):
            raise BadOption(f"axes must have one entry per panel, {len(self.shown)} in total, but has {len(axes)}")
        image, names = None, class_labels(self.classes, self.shown, _NAME_WIDTH, prefix="class ")
        for i, ax in enumerate(axes):
            ax.axline((0.0, 0.0), slope=1.0, color=GREY, linestyle=":", linewidth=1.0)
            if self.counts is None:
                self._draw_points(ax, i)
            else:
                image = self._draw_cells(ax, i)
            ax.set_title(names[i], fontsize="medium")
            self._set_limits(ax)
        figure = axes[0].get_figure(root=True)
        if image is not None and figure is not None:
            figure.colorbar(image, ax=list(axes), label="rows per cell", shrink=0.8, pad=0.02)
        for i, ax in enumerate(axes):
            ax.set_xlabel("predicted probability" if i + self._n_columns >= len(axes) else "")
            ax.set_ylabel("adjusted probability" if i % self._n_columns == 0 else "")
        hidden = self.n_classes - len(self.shown)
        if hidden and self.n_classes > 2 and figure is not None and not figure.get_supxlabel():
            figure.supxlabel(f"not shown: {counted(hidden, 'class')} with smaller changes", fontsize="medium")

    def _draw_points(self, ax: Axes, i: int) -> None:
        assert self.before is not None
        assert self.after is not None
        size, alpha = (5, 0.8) if self.n_rows <= 100 else (3, 0.4)
        ax.plot(self.before[:, i], self.after[:, i], "o", color=BLUE, markersize=size, alpha=alpha, mew=0)

    def _draw_cells(self, ax: Axes, i: int) -> Any:
        from matplotlib.colors import LogNorm

        assert self.counts is not None
        # All panels have the same scale, so that a colour means the same count in each.
        norm = LogNorm(1, max(float(self.counts.max()), 10.0))
        nonempty = np.ma.masked_equal(self.counts[i].T, 0)
        x, y = np.linspace(0.0, self.reach, _BINS + 1), np.linspace(*self.view, _BINS + 1)
        return ax.pcolormesh(x, y, nonempty, cmap=f"{DENSITY}_r", norm=norm, rasterized=True)

    def _set_limits(self, ax: Axes) -> None:
        margin = 0.03
        low, high = self.view
        ax.set_xlim(-margin * self.reach, (1 + margin) * self.reach)
        ax.set_ylim(low - margin * (high - low), high + margin * (high - low))
        ticks = [0.0, 0.5 * self.reach, self.reach]
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        if self.view == (0.0, self.reach):
            ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        else:
            ax.locator_params(axis="y", nbins=4)
            ax.axhspan(0.0, 1.0, color="0.95", zorder=0)
        hide_top_and_right_spines(ax)


def _counts(pairs: Pairs, shown: IndexArray, view: tuple[float, float], reach: float) -> FloatArray:
    """Number of rows in each cell, per class. Not by np.histogram2d, which takes ten times as long."""
    counts = np.zeros((len(shown), _BINS * _BINS), dtype=np.int64)
    low, high = view
    for p, a in pairs.blocks():
        for i, j in enumerate(shown):
            x = np.clip(p[:, j] * (_BINS / reach), 0, _BINS - 1).astype(np.intp)
            y = np.clip((a[:, j] - low) * (_BINS / (high - low)), 0, _BINS - 1).astype(np.intp)
            counts[i] += np.bincount(x * _BINS + y, minlength=_BINS * _BINS)
    return counts.reshape(-1, _BINS, _BINS).astype(np.float64)
