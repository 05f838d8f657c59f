"""Draws docs/pictures/landing.svg: what an adjustment to a known prevalence does; `make pictures` runs this.

The example is that of the README and of docs/guides/new-hospital.md. The panels are one below the other and the letters
are large, so that they can be read on a phone.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from readme_demo import new_hospital
from sklearn.metrics import log_loss
from uncertain_rates import BLUE, GREY, ORANGE

import baserate as br


def bars(ax: Axes, values: dict[str, float], title: str, form: str) -> None:
    """One horizontal bar per value, the first on top, with its number at the end."""
    drawn = ax.barh(list(values), list(values.values()), color=[ORANGE, BLUE, GREY][: len(values)], height=0.62)
    ax.bar_label(drawn, [form.format(value) for value in values.values()], padding=5, fontsize=13)
    ax.invert_yaxis()
    ax.set_xlim(0, 1.25 * max(values.values()))
    ax.set_xticks([])
    ax.tick_params(axis="y", length=0, labelsize=13)
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.set_title(title, loc="left", fontsize=14)


def main() -> None:
    """Adjust the predictions to the prevalence, and draw prevalence and loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("landing.svg"))
    arguments = parser.parse_args()
    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "baserate"  # the same file on every run
    malignant, y = new_hospital()
    result = br.adjust(malignant, y.mean())
    before, after = (log_loss(y, p) for p in (malignant, result.probs))
    promised = before - result.certificate.loss_reduction
    figure, axes = plt.subplots(2, 1, figsize=(5, 4.2), layout="constrained", height_ratios=(1, 1.15))
    means = {"predicted": np.mean(malignant), "adjusted": np.mean(result.probs), "true": y.mean()}
    bars(axes[0], means, "Share of malignant masses", "{:.1%}")
    losses = {"predicted": before, "adjusted": after, "guaranteed\nbefore labels\nare known": promised}
    bars(axes[1], losses, "Log loss (lower is better)", "{:.3f}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(arguments.out, metadata={"Date": None} if arguments.out.suffix == ".svg" else None)
    print(f"wrote {arguments.out}: share {means}, loss {losses}")


if __name__ == "__main__":
    main()
