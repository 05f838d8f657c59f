"""Adjusted against predicted probability, one panel a class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.displays.pairs import Pairs
from baserate.displays.style import BLUE, DENSITY, GREY, largest, names_of, new_axes, plain
from baserate.errors import BadOption
from baserate.result.text import counted
from baserate.support.arrays import FloatArray, IndexArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 1000
"""Most rows that are drawn one by one."""

MOST = 12
"""Most panels."""

_BINS = 50
_COLUMNS = 4
_NAME = 1.9  # inches of a name above a panel
_REACHES = (0.02, 0.05, 0.1, 0.2, 0.5)  # to which panels reach, where no probability is larger


@dataclass(frozen=True, eq=False)
class Panels:
    """Adjusted against predicted probability of some classes: points, or counts in square cells.

    Attributes
    ----------
    shown : array of shape (m,)
        Columns that have a panel.
    classes : tuple or None
        Names of all columns.
    before, after : array of shape (n, m) or None
        The probabilities, if there are few rows.
    counts : array of shape (m, 50, 50) or None
        If there are many: rows in cells of predicted and adjusted probability.
    view : tuple
        Smallest and largest adjusted probability that can be seen; adjusted without bounds, they may leave [0, 1].
    reach : float
        Largest predicted probability that can be seen: 1, or less where there are so many classes that all are small.
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
    def of(cls, pairs: Pairs) -> Panels:
        """Choose the classes and count the rows."""
        n, k = pairs.before.shape
        # The two panels of two classes would be one another, turned around.
        shown = np.array([1]) if k == 2 else largest(np.abs(pairs.change()), MOST)
        ends = [(a[:, shown].min(), a[:, shown].max()) for _, a in pairs.blocks()]
        view = min(0.0, *(float(low) for low, _ in ends)), max(1.0, *(float(high) for _, high in ends))
        highest = max(float(max(p[:, shown].max(), a[:, shown].max())) for p, a in pairs.blocks())
        reach = next((limit for limit in _REACHES if highest <= limit), 1.0) if view == (0.0, 1.0) else 1.0
        view = view if view != (0.0, 1.0) else (0.0, reach)
        if n <= FEW:
            before, after = (np.asarray(rows[:, shown], dtype=np.float64) for rows in (pairs.before, pairs.after))
            return cls(shown, pairs.classes, before, after, None, view, reach, n, k)
        return cls(shown, pairs.classes, None, None, _counts(pairs, shown, view, reach), view, reach, n, k)

    @property
    def _across(self) -> int:
        """Panels in a row: as few as fill the same number of rows."""
        return -(-len(self.shown) // -(-len(self.shown) // _COLUMNS))

    def new_axes(self) -> Any:
        """A new figure with a panel a class."""
        m, across = len(self.shown), self._across
        if m == 1:
            return new_axes(width=4.8, height=4.2)
        return new_axes(m, columns=across, width=2.3 * across + 0.8, height=2.3 * -(-m // across) + 0.5)

    def draw(self, axes: Sequence[Axes]) -> None:
        """Draw each class into its axes."""
        if len(axes) != len(self.shown):
            raise BadOption(f"{counted(len(self.shown), 'panel')} cannot be drawn into {len(axes)} axes")
        image, names = None, names_of(self.classes, self.shown, _NAME, prefix="class ")
        for i, ax in enumerate(axes):
            ax.axline((0.0, 0.0), slope=1.0, color=GREY, linestyle=":", linewidth=1.0)
            if self.counts is None:
                self._points(ax, i)
            else:
                image = self._cells(ax, i)
            ax.set_title(names[i], fontsize="medium")
            self._finish(ax)
        figure = axes[0].get_figure(root=True)
        if image is not None and figure is not None:
            figure.colorbar(image, ax=list(axes), label="rows in a cell", shrink=0.8, pad=0.02)
        for i, ax in enumerate(axes):
            ax.set_xlabel("predicted probability" if i + self._across >= len(axes) else "")
            ax.set_ylabel("adjusted probability" if i % self._across == 0 else "")
        hidden = self.n_classes - len(self.shown)
        if hidden and self.n_classes > 2 and figure is not None and not figure.get_supxlabel():
            figure.supxlabel(f"{counted(hidden, 'class')} that changed no more: not shown", fontsize="medium")

    def _points(self, ax: Axes, i: int) -> None:
        assert self.before is not None
        assert self.after is not None
        size, alpha = (5, 0.8) if self.n_rows <= 100 else (3, 0.4)
        ax.plot(self.before[:, i], self.after[:, i], "o", color=BLUE, markersize=size, alpha=alpha, mew=0)

    def _cells(self, ax: Axes, i: int) -> Any:
        from matplotlib.colors import LogNorm

        assert self.counts is not None
        # One scale for all panels, or the same colour would mean different counts.
        norm = LogNorm(1, max(float(self.counts.max()), 10.0))
        seen = np.ma.masked_equal(self.counts[i].T, 0)
        x, y = np.linspace(0.0, self.reach, _BINS + 1), np.linspace(*self.view, _BINS + 1)
        return ax.pcolormesh(x, y, seen, cmap=f"{DENSITY}_r", norm=norm, rasterized=True)

    def _finish(self, ax: Axes) -> None:
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
        plain(ax)


def _counts(pairs: Pairs, shown: IndexArray, view: tuple[float, float], reach: float) -> FloatArray:
    """Rows in each cell, for each class; by hand, because np.histogram2d takes ten times as long."""
    counts = np.zeros((len(shown), _BINS * _BINS), dtype=np.int64)
    low, high = view
    for p, a in pairs.blocks():
        for i, j in enumerate(shown):
            x = np.clip(p[:, j] * (_BINS / reach), 0, _BINS - 1).astype(np.intp)
            y = np.clip((a[:, j] - low) * (_BINS / (high - low)), 0, _BINS - 1).astype(np.intp)
            counts[i] += np.bincount(x * _BINS + y, minlength=_BINS * _BINS)
    return counts.reshape(-1, _BINS, _BINS).astype(np.float64)
