"""The paper's figures: split violins of the relative reduction, one row per size of shift, one column per error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.study.tables import ABSOLUTE_ERRORS, MEASURES, SIZES
from baserate.support.arrays import FloatArray
from baserate.support.atomic_files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Frame = Any  # a pandas DataFrame

_LEFT, _RIGHT = "#0072B2", "#E69F00"  # blue and orange of Okabe and Ito; distinguishable in grey as well
_VIEW = (-0.6, 1.0)
_FEW = 20  # fewer values are drawn as points
_NAMES = {
    "bga-log": "BGA for log loss",
    "ppa": "prior probability adjustment (PPA)",
    "set-brier": "BGA to a rate set",
    "set-log": "BGA to a rate set",
}
_SHORT = {"brier": "Brier", "log": "log loss"}
_LEGEND = (
    "Above 0, the loss decreased. Solid line: mean, or a triangle at the lower edge if it is below -0.6. Dotted line: "
    "median. Percentages: tasks whose loss increased.\n"
    "Values below -0.6, including infinite ones, are not drawn; the width of a half violin is proportional to the "
    "share of its values that are drawn."
)
FIGURES = {
    "bga-and-ppa": (
        "Bounded general adjustment (BGA) for the measured loss, compared with prior probability adjustment (PPA)",
        ("{}", "BGA for {}"),
        "ppa",
    ),
    "brier-and-log": (
        "Bounded general adjustment (BGA) for the Brier score, compared with BGA for log loss",
        ("brier", "BGA for Brier"),
        "bga-log",
    ),
    "point-and-set": (
        "Bounded general adjustment (BGA) to the stated rates, compared with BGA to all rates that the error allows",
        ("{}", "BGA to the stated rates"),
        "set-{}",
    ),
}
"""For each figure: its title, the loss and the name of the left halves, and the adjuster of the right halves."""


def draw(frame: Frame, name: str) -> Figure:
    """Draw one figure: 3 x 5 violins for the Brier score on the left, and for log loss on the right."""
    import matplotlib.pyplot as plt

    title, (adjusted_for, left), right = FIGURES[name]
    figure = plt.figure(figsize=(15, 7.5), layout="constrained")
    figure.suptitle(title, fontsize=14)
    figure.supxlabel(_LEGEND, fontsize=10)
    panels: Any = figure.subfigures(1, 2, wspace=0.04)
    for panel, measure in zip(panels, MEASURES, strict=True):
        pair = (f"bga-{adjusted_for.format(measure)}", right.format(measure))
        _panel(panel, frame, measure, pair, left=left.format(_SHORT[measure]))
    return figure


def save_all(frame: Frame, folder: Path) -> list[Path]:
    """Save all figures in a folder, as PNG and as SVG; the same results give identical files."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with mpl.rc_context({"svg.hashsalt": "baserate", "svg.fonttype": "none"}):
        for name in FIGURES:
            figure = draw(frame, name)
            for suffix, about in ((".png", {"Software": None}), (".svg", {"Date": None})):
                paths.append(folder / f"{name}{suffix}")
                with write_atomically(paths[-1]) as file:
                    figure.savefig(file, format=suffix[1:], dpi=110, metadata=about)
            plt.close(figure)
    return paths


def _panel(panel: Any, frame: Frame, measure: str, pair: tuple[str, str], *, left: str) -> None:
    grid = panel.subplots(len(SIZES), len(ABSOLUTE_ERRORS), sharex=True, sharey=True)
    panel.suptitle(f"relative reduction of the {MEASURES[measure]}", fontsize=12)
    groups = dict(iter(frame.groupby(["size", "off", "adjuster"], observed=True)))
    for row, size in zip(grid, SIZES, strict=True):
        for ax, off in zip(row, ABSOLUTE_ERRORS, strict=True):
            for adjuster, side in zip(pair, ("low", "high"), strict=True):
                if (size, off, adjuster) in groups:
                    _half(ax, groups[size, off, adjuster][f"{measure}_reduction"].to_numpy(), side)
            _style(ax)
        row[0].set_ylabel(f"{size} shift", fontsize=11)
    for ax, off in zip(grid[0], ABSOLUTE_ERRORS, strict=True):
        ax.set_title("exact rates" if off == 0 else f"rates off by {off:g}", fontsize=10)
    panel.legend(
        handles=[_patch(_LEFT, left), _patch(_RIGHT, _NAMES[pair[1]])],
        loc="outside lower center",
        ncols=2,
        frameon=False,
        fontsize=10,
    )


def _half(ax: Axes, values: FloatArray, side: Any) -> None:
    """Draw half a violin of the visible values, with the mean and the percentage of all values."""
    values = values[~np.isnan(values)]
    if not len(values):
        return
    visible = values[values >= _VIEW[0]]
    colour, sign = (_LEFT, -1) if side == "low" else (_RIGHT, 1)
    if len(visible) < _FEW or np.ptp(visible) < 1e-9:
        ax.plot(np.full(len(visible), 0.4 * sign), visible, "o", color=colour, markersize=4)
    else:
        # matplotlib gives all violins the same width, even if some of their values are not visible.
        width = 1.8 * len(visible) / len(values)
        bodies: Any = ax.violinplot(visible, positions=[0.0], widths=width, points=80, side=side, showextrema=False)[
            "bodies"
        ]
        for body in bodies:
            body.set(facecolor=colour, edgecolor="none", alpha=0.85)
    mean, median = values.mean(), np.median(values)
    ax.plot([0, sign * 0.9], [median, median], color="black", linewidth=1.0, linestyle=(0, (1, 1.2)))
    if mean >= _VIEW[0]:
        ax.plot([0, sign * 0.9], [mean, mean], color="black", linewidth=2.0)
    else:
        ax.plot(sign * 0.45, _VIEW[0] + 0.05, marker="v", color="black", markersize=5)
    ax.annotate(
        _percent(float((values < -1e-12).mean())),
        (sign * 0.5, _VIEW[0]),
        xytext=(0, -2),
        textcoords="offset points",
        ha="center",
        va="top",
        fontsize=8,
        color="#333333",
    )


def _percent(share: float) -> str:
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def _style(ax: Axes) -> None:
    ax.axhline(0.0, color="#666666", linewidth=0.8, zorder=0)
    ax.set(xlim=(-1, 1), ylim=_VIEW, xticks=[], yticks=[-0.5, 0.0, 0.5, 1.0])
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.tick_params(labelsize=9)


def _patch(colour: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, alpha=0.85, label=label)
