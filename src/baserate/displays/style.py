"""Shared style of all displays: colours, class names and new figures.

The colours are those of Okabe and Ito, which colour-blind readers can distinguish. Figures may also be printed in grey,
so everything with its own colour also has its own marker, line style or hatch.
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
"""Colour map for counts. Its lightness increases steadily, so it can be read in grey."""

MAX_ROWS = 30
"""Maximum number of classes in one figure."""

_ROW_HEIGHT = 0.27  # inches per class
_MIN_ROW_HEIGHT = 0.19  # inches; below it, the names of neighbouring rows overlap
_NAME_WIDTH = 2.2  # inches
_NAME_LENGTH = 80  # characters; longer names never fit, so they are cut before their width is measured
_PAD = 0.08  # inches between elements, and at the edges


def _require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401  # tests whether it is installed
    except ImportError:
        raise ImportError('displays need matplotlib: pip install "baserate[plot]"') from None


def new_axes(n: int = 1, *, width: float = 6.4, height: float = 4.0, columns: int | None = None) -> Any:
    """Axes of a new figure: a single one, or an array of ``n`` axes with ``columns`` per row."""
    _require_matplotlib()
    import matplotlib.pyplot as plt
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    n_columns = n if columns is None else min(columns, n)
    n_rows = -(-n // n_columns)
    layout = ConstrainedLayoutEngine(w_pad=_PAD, h_pad=_PAD)
    figure, axes = plt.subplots(n_rows, n_columns, figsize=(width, height), layout=layout)
    if n == 1:
        return axes
    flat = np.ravel(axes)
    for ax in flat[n:]:
        figure.delaxes(ax)
    return flat[:n]


def new_axes_for_classes(names: Sequence[str], *, extra_height: float = 1.3) -> Axes:
    """Axes of a new figure with one row per class. It is wide enough for the class names."""
    width, height = 5.6 + max(map(text_width, names)), extra_height + _ROW_HEIGHT * max(len(names), 3)
    axes: Axes = new_axes(width=width, height=height)
    return axes


def max_rows(ax: Axes | None) -> int:
    """Number of classes that fit into the axes, with one row each."""
    figure = None if ax is None else ax.get_figure(root=True)
    if ax is None or figure is None:
        return MAX_ROWS
    height = ax.get_window_extent().height / figure.dpi
    return int(np.clip(height / _MIN_ROW_HEIGHT, 2, MAX_ROWS))


def indices_of_largest(values: FloatArray, n: int) -> IndexArray:
    """Indices of the ``n`` largest values, in increasing order of the index."""
    return np.sort(np.argsort(-values, kind="stable")[:n])


def text_width(line: str) -> float:
    """Width in inches of a line of text in the default font and size."""
    _require_matplotlib()
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    width: float = text_to_path.get_text_width_height_descent(line, FontProperties(), ismath=False)[0]
    return width / 72


def short_class_name(name: Any, inches: float = _NAME_WIDTH) -> str:
    """A class name as one line of plain text, cut in the middle if it is wider than ``inches``.

    Characters without a glyph become "?". Dollar signs are escaped, so that matplotlib does not parse a formula.
    """
    line = " ".join(str(name).split())
    glyphs = _glyphs()
    line = "".join(c if c == " " or ord(c) in glyphs else "?" for c in line)
    whole = line if len(line) <= _NAME_LENGTH else _cut_middle(line, _NAME_LENGTH)
    line, size, width = whole, len(whole), text_width(whole)
    while size > 1 and width > inches:
        size = max(min(size - 1, int(size * inches / width)), 1)
        line = _cut_middle(whole, size)
        width = text_width(line)
    return line.replace("$", r"\$")


@functools.cache
def _glyphs() -> frozenset[int]:
    """The characters that the default font can draw."""
    _require_matplotlib()
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return frozenset(get_font(findfont(FontProperties())).get_charmap())


def _cut_middle(line: str, size: int) -> str:
    """Both ends of a line. Not only its beginning: similar names often differ only at the end."""
    return f"{line[: (size - 1) // 2]}…{line[len(line) - size // 2 :]}"


def class_labels(
    classes: Sequence[Any] | None, which: Sequence[int] | IndexArray, inches: float = _NAME_WIDTH, prefix: str = ""
) -> list[str]:
    """Labels of some classes: their names, or ``prefix`` and the column number if they have no names."""
    return [f"{prefix}{j}" if classes is None else short_class_name(classes[j], inches) for j in which]


def label_rows(ax: Axes, names: Sequence[str]) -> None:
    """Label the rows of the axes with class names, the first at the top."""
    ax.set_yticks(np.arange(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_ylabel("class")
    ax.locator_params(axis="x", nbins=5)
    ax.tick_params(axis="y", length=0)
    ax.set_axisbelow(True)


def pale(colour: str) -> tuple[float, ...]:
    """The colour, mixed with white."""
    from matplotlib.colors import to_rgb

    return tuple(0.25 * c + 0.75 for c in to_rgb(colour))


def hide_top_and_right_spines(ax: Axes) -> None:
    """Hide the borders that have no scale."""
    ax.spines[["top", "right"]].set_visible(False)


def legend_above(ax: Axes, columns: int) -> None:
    """Draw the legend above the axes, where it covers no data."""
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
