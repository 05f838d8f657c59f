"""The one look of all displays: colours, names of classes, new figures.

Colours are Okabe and Ito's, which colour-blind people can tell apart. A picture may also be printed in grey, so
whatever has a colour of its own has a marker, a line style or a hatch of its own, too.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.support.arrays import FloatArray, IndexArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREY = "#666666"
BLUE = "#0072B2"
ORANGE = "#E69F00"
RED = "#D55E00"
GREEN = "#009E73"
DENSITY = "cividis"
"""Colours of counts: their lightness rises with them, also in grey."""

ROWS = 30
"""Most classes in one picture; of more, those that matter most."""

_ROW = 0.27  # inches of a row with one class
_TIGHT_ROW = 0.19  # inches below which the names of neighbouring rows touch
_NAME = 2.2  # inches of a class name
_LONGEST = 80  # characters that are looked at; of text in the usual size, fewer fill the space
_PAD = 0.08  # inches between things, and to the edge


def _require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401, whether it is there
    except ImportError:
        raise ImportError('displays need matplotlib: pip install "baserate[plot]"') from None


def new_axes(n: int = 1, *, width: float = 6.4, height: float = 4.0, columns: int | None = None) -> Any:
    """Axes of a new figure: one, or an array of ``n`` in rows of ``columns``."""
    _require_matplotlib()
    import matplotlib.pyplot as plt
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    across = n if columns is None else min(columns, n)
    down = -(-n // across)
    figure, axes = plt.subplots(
        down, across, figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=_PAD, h_pad=_PAD)
    )
    if n == 1:
        return axes
    flat = np.ravel(axes)
    for ax in flat[n:]:
        figure.delaxes(ax)
    return flat[:n]


def rows_axes(names: Sequence[str], *, besides: float = 1.3) -> Axes:
    """A new figure with one row a class, as wide as their names need."""
    return new_axes(width=5.6 + max(map(width_of, names)), height=besides + _ROW * max(len(names), 3))


def rows_in(ax: Axes | None) -> int:
    """How many rows with a name each fit into given axes."""
    if ax is None:
        return ROWS
    height = ax.get_window_extent().height / ax.get_figure(root=True).dpi  # type: ignore[union-attr]
    return int(np.clip(height / _TIGHT_ROW, 2, ROWS))


def largest(size: FloatArray, most: int) -> IndexArray:
    """Positions of the ``most`` largest values, in rising order."""
    return np.sort(np.argsort(-size, kind="stable")[:most])


def width_of(line: str) -> float:
    """Inches of a line of text in the usual size."""
    _require_matplotlib()
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    width: float = text_to_path.get_text_width_height_descent(line, FontProperties(), ismath=False)[0]
    return width / 72


def name_of(name: Any, inches: float = _NAME) -> str:
    """A class name as one line of text that is no formula and not wider than ``inches``."""
    line = " ".join(str(name).split())
    glyphs = _glyphs()
    line = "".join(c if c == " " or ord(c) in glyphs else "?" for c in line)  # of the rest there is no picture
    whole = line if len(line) <= _LONGEST else _middle_cut(line, _LONGEST)
    line, size, width = whole, len(whole), width_of(whole)
    while size > 1 and width > inches:
        size = max(min(size - 1, int(size * inches / width)), 1)
        line = _middle_cut(whole, size)
        width = width_of(line)
    return line.replace("$", r"\$")


@functools.cache
def _glyphs() -> frozenset[int]:
    """The characters that the usual font can draw."""
    _require_matplotlib()
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return frozenset(get_font(findfont(FontProperties())).get_charmap())


def _middle_cut(line: str, size: int) -> str:
    """Both ends of a line: names that are alike often differ only at the end."""
    return f"{line[: (size - 1) // 2]}…{line[len(line) - size // 2 :]}"


def names_of(
    classes: Sequence[Any] | None, which: Sequence[int] | IndexArray, inches: float = _NAME, prefix: str = ""
) -> list[str]:
    """Names of some classes; their column numbers, after ``prefix``, if they have none."""
    return [f"{prefix}{j}" if classes is None else name_of(classes[j], inches) for j in which]


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """One row a class, the first on top."""
    ax.set_yticks(np.arange(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_ylabel("class")
    ax.locator_params(axis="x", nbins=5)
    ax.tick_params(axis="y", length=0)
    ax.set_axisbelow(True)


def plain(ax: Axes) -> None:
    """No lines where there is nothing to read."""
    ax.spines[["top", "right"]].set_visible(False)


def legend_above(ax: Axes, columns: int) -> None:
    """A legend that hides no data."""
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=columns,
        frameon=False,
        fontsize="small",
        borderaxespad=0.3,
        handletextpad=0.5,
        columnspacing=1.2,
    )
