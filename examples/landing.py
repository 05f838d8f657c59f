"""Draws docs/pictures/landing.svg: what an adjustment to a known prevalence does; `make pictures` runs this.

Real data: measurements of 569 breast masses that come with scikit-learn. A model is trained on one half, where 37 % are
malignant. It is used on the other half, from which most malignant masses are removed, so that 13 % are.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from sklearn.metrics import log_loss
from uncertain_rates import BLUE, GREY, ORANGE, new_place

import baserate as br


def bars(ax: Axes, values: dict[str, float], title: str, form: str) -> None:
    """One horizontal bar per value, the first on top, with its number at the end."""
    drawn = ax.barh(list(values), list(values.values()), color=[ORANGE, BLUE, GREY][: len(values)], height=0.62)
    ax.bar_label(drawn, [form.format(value) for value in values.values()], padding=5, fontsize=12)
    ax.invert_yaxis()
    ax.set_xlim(0, 1.18 * max(values.values()))
    ax.set_xticks([])
    ax.tick_params(axis="y", length=0, labelsize=12)
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.set_title(title, loc="left", fontsize=13)


def main() -> None:
    """Adjust the predictions to the prevalence, and draw prevalence and loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("landing.svg"))
    arguments = parser.parse_args()
    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "baserate"  # the same file on every run
    probs, y = new_place()
    malignant, ill = probs[:, 0], y == 0
    prevalence = np.mean(ill)
    result = br.adjust(malignant, prevalence)
    before, after = (log_loss(ill, p) for p in (malignant, result.probs))
    promised = before - result.certificate.loss_reduction
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 2.3), layout="constrained")
    means = {"predicted": np.mean(malignant), "adjusted": np.mean(result.probs), "true": prevalence}
    bars(axes[0], means, "Share of malignant masses", "{:.1%}")
    losses = {"predicted": before, "adjusted": after, "guaranteed\nbefore labels\nare known": promised}
    bars(axes[1], losses, "Log loss (lower is better)", "{:.3f}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(arguments.out, metadata={"Date": None} if arguments.out.suffix == ".svg" else None)
    print(f"wrote {arguments.out}: share {means}, loss {losses}")


if __name__ == "__main__":
    main()
