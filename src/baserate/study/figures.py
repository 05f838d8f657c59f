"""The paper's figures: split violins of the relative reduction, a row a size of shift and a column an error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from baserate.study.tables import ABSOLUTE_ERRORS, MEASURES, SIZES
from baserate.support.arrays import FloatArray
from baserate.support.atomic_files import whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Frame = Any  # a pandas DataFrame

_LEFT, _RIGHT = "#0072B2", "#E69F00"  # Okabe and Ito's blue and orange; in grey one is dark and one light
_VIEW = (-0.6, 1.0)
_FEW = 20  # fewer values are shown one by one
_NAMES = {
    "bga-log": "BGA for log loss",
    "ppa": "prior adjustment (PPA)",
    "set-brier": "BGA to a set of rates",
    "set-log": "BGA to a set of rates",
}
_SHORT = {"brier": "Brier", "log": "log loss"}
_LEGEND = (
    "Above 0 the loss fell. Solid line: mean, or a triangle if it lies below the picture. Dotted line: median, missing "
    "if it does. Percentages: tasks whose loss rose.\n"
    "Values below -0.6, infinite ones among them, are not drawn, and a half is narrower by their share."
)
FIGURES = {
    "bga-and-ppa": (
        "Bounded adjustment (BGA) for the loss that is measured, beside prior adjustment (PPA)",
        ("{}", "BGA for {}"),
        "ppa",
    ),
    "brier-and-log": (
        "Bounded adjustment for the Brier score beside bounded adjustment for log loss",
        ("brier", "BGA for Brier"),
        "bga-log",
    ),
    "point-and-set": (
        "Adjusted to the stated rates, beside adjusted to all rates that the error allows",
        ("{}", "BGA to the stated rates"),
        "set-{}",
    ),
}
"""Names of the figures; their titles, the loss and the name of the left half, and the adjuster of the right half."""


def draw(frame: Frame, name: str) -> Figure:
    """One figure: Brier score on the left, log loss on the right, 3 x 5 violins each."""
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
    """Draw all figures into a folder, each as PNG and as SVG; the same results give the same files."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with mpl.rc_context({"svg.hashsalt": "baserate", "svg.fonttype": "none"}):
        for name in FIGURES:
            figure = draw(frame, name)
            for suffix, about in ((".png", {"Software": None}), (".svg", {"Date": None})):
                paths.append(folder / f"{name}{suffix}")
                with whole(paths[-1]) as file:
                    figure.savefig(file, format=suffix[1:], dpi=110, metadata=about)
            plt.close(figure)
    return paths


def _panel(panel: Any, frame: Frame, measure: str, pair: tuple[str, str], *, left: str) -> None:
    grid = panel.subplots(len(SIZES), len(ABSOLUTE_ERRORS), sharex=True, sharey=True)
    panel.suptitle(f"part of the {MEASURES[measure]} that adjustment removes", fontsize=12)
    groups = dict(iter(frame.groupby(["size", "off", "adjuster"], observed=True)))
    for row, size in zip(grid, SIZES, strict=True):
        for ax, off in zip(row, ABSOLUTE_ERRORS, strict=True):
            for adjuster, side in zip(pair, ("low", "high"), strict=True):
                if (size, off, adjuster) in groups:
                    _half(ax, groups[size, off, adjuster][f"{measure}_reduction"].to_numpy(), side)
            _dress(ax)
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
    """Half a violin of what can be seen; mean and percentage are of all values."""
    values = values[~np.isnan(values)]
    if not len(values):
        return
    seen = values[values >= _VIEW[0]]
    colour, sign = (_LEFT, -1) if side == "low" else (_RIGHT, 1)
    if len(seen) < _FEW or np.ptp(seen) < 1e-9:
        ax.plot(np.full(len(seen), 0.4 * sign), seen, "o", color=colour, markersize=4)
    else:
        # matplotlib gives all violins the same width; this one shows only part of its tasks.
        width = 1.8 * len(seen) / len(values)
        bodies: Any = ax.violinplot(seen, positions=[0.0], widths=width, points=80, side=side, showextrema=False)[
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


def _dress(ax: Axes) -> None:
    ax.axhline(0.0, color="#666666", linewidth=0.8, zorder=0)
    ax.set(xlim=(-1, 1), ylim=_VIEW, xticks=[], yticks=[-0.5, 0.0, 0.5, 1.0])
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.tick_params(labelsize=9)


def _patch(colour: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, alpha=0.85, label=label)
