"""Draws docs/pictures/procedures.svg and losses.svg: adjusted against predicted probability; `make pictures` runs this.

The predictions are those of a model for breast masses (data that come with scikit-learn), for a population where fewer
masses are malignant than in training. Both pictures show the probability of a malignant mass.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from uncertain_rates import GREY, new_place

import baserate as br

TRAINING_RATE = 0.37
STYLES = [("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#CC79A7", ":")]


def draw(path: Path, before: np.ndarray, curves: dict[str, np.ndarray], rate: float) -> None:
    """One curve per entry, which differ in colour and in line."""
    figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, label="unchanged")
    order = np.argsort(before)
    for (name, after), (colour, line) in zip(curves.items(), STYLES, strict=True):
        ax.plot(
            before[order],
            after[order],
            color=colour,
            linestyle=line,
            linewidth=2,
            label=f"{name}: mean {np.mean(after):.3f}",
        )
    ax.axhline(0, color=GREY, linewidth=0.5)
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("adjusted probability")
    ax.set_title(f"Requested rate {rate:.3f}, mean prediction {np.mean(before):.3f}", loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    print(f"wrote {path}: means { ({name: round(float(np.mean(after)), 3) for name, after in curves.items()}) }")


def main() -> None:
    """Adjust by several procedures and for several losses, and draw both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("pictures"))
    arguments = parser.parse_args()
    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "baserate"  # the same file on every run
    probs, y = new_place()
    p, rate = probs[:, 0], float(np.mean(y == 0))
    procedures = {
        "adjust": br.adjust(p, rate).probs,
        "prior_adjust": br.prior_adjust(p, TRAINING_RATE, rate).probs,
        "multiplicative": br.multiplicative(p, rate).probs,
        "additive": br.additive(p, rate).probs,
    }
    draw(arguments.out / "procedures.svg", p, procedures, rate)
    losses = {
        "Log": br.losses.Log(),
        "Brier": br.losses.Brier(),
        "Spherical": br.losses.Spherical(),
        "Power(1.5)": br.losses.Power(1.5),
    }
    curves = {name: br.adjust(p, rate, loss=loss).probs for name, loss in losses.items()}
    draw(arguments.out / "losses.svg", p, curves, rate)


if __name__ == "__main__":
    main()
