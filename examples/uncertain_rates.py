"""What wrong rates do to an adjustment, and how a set of rates holds; `make pictures` runs this.

Real data: measurements of 569 breast masses that come with scikit-learn. A model is trained on one half, where 37 % are
malignant, and used on the other, from which most malignant ones are removed, so that 13 % are.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import baserate as br

ORANGE, BLUE, GREY = "#D55E00", "#0072B2", "#666666"
LOSS = br.losses.Log()
WIDTH = 0.10


def new_place() -> tuple[np.ndarray, np.ndarray]:
    """Predictions and labels of the second half."""
    x, y = load_breast_cancer(return_X_y=True)
    x_train, x_new, y_train, y_new = train_test_split(x[:, :5], y, test_size=0.5, stratify=y, random_state=0)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01)).fit(x_train, y_train)
    keep = np.random.default_rng(0).random(len(y_new)) < np.where(y_new == 0, 0.2, 1.0)  # 0 is malignant
    return model.predict_proba(x_new[keep]), y_new[keep]


def change(probs: np.ndarray, y: np.ndarray, rates: object) -> float:
    """How much the mean log loss changes by adjustment."""
    return LOSS.score(br.adjust(probs, rates).probs, y) - LOSS.score(probs, y)


def wrong_rates(ax: Axes, probs: np.ndarray, y: np.ndarray) -> None:
    """Loss against the error in the rate of malignant masses."""
    rates = np.bincount(y) / len(y)
    errors = np.linspace(-0.12, 0.18, 61)
    given = [rates + e * np.array([1, -1]) for e in errors]
    plain = [change(probs, y, q) for q in given]
    boxed = [change(probs, y, br.Rates.between(np.maximum(q - WIDTH, 0), np.minimum(q + WIDTH, 1))) for q in given]
    ax.axvspan(
        -100 * WIDTH, 100 * WIDTH, color=BLUE, alpha=0.10, linewidth=0, label="truth lies in the set: guaranteed"
    )
    ax.plot(100 * errors, plain, color=ORANGE, label="adjusted to the wrong rate")
    ax.plot(100 * errors, boxed, color=BLUE, linestyle="--", label="adjusted to that rate $\\pm$ 10 points")
    ax.set_xlabel("error of the given rate of malignant masses (points)")
    ax.set_ylabel("change of mean log loss")
    ax.set_title("A rate that is wrong by some points", loc="left")


def surveys(ax: Axes, probs: np.ndarray, y: np.ndarray, draws: int = 200) -> None:
    """Loss against the size of the survey from which the rates come."""
    rng, rates, sizes = np.random.default_rng(1), np.bincount(y) / len(y), (10, 20, 50, 100, 200, 500)
    for i, size in enumerate(sizes):
        counts = rng.multinomial(size, rates, size=draws)
        for offset, color, marker, known in (
            (-0.17, ORANGE, "o", lambda c: (c + 0.5) / (c.sum() + 1)),
            (0.17, BLUE, "D", br.Rates.from_counts),
        ):
            changes = [change(probs, y, known(c)) for c in counts]
            where = i + offset + rng.uniform(-0.11, 0.11, size=draws)
            ax.scatter(where, changes, s=5, color=color, marker=marker, alpha=0.35, linewidths=0, rasterized=True)
            ax.hlines(np.median(changes), i + offset - 0.14, i + offset + 0.14, color=color, linewidth=2.5)
    ax.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    ax.set_xlabel("cases in the survey")
    ax.set_title("Rates that come from a survey (200 surveys each)", loc="left")
    ax.scatter([], [], s=20, color=ORANGE, marker="o", label="adjusted to the survey's rates")
    ax.scatter([], [], s=20, color=BLUE, marker="D", label="adjusted to Rates.from_counts, 95 %")


def main() -> None:
    """Draw both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("uncertain-rates.svg"))
    arguments = parser.parse_args()
    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "baserate"  # the same file on every run
    probs, y = new_place()
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), sharey=True, layout="constrained")
    wrong_rates(axes[0], probs, y)
    surveys(axes[1], probs, y)
    for ax in axes:
        ax.axhline(0.0, color=GREY, linewidth=0.8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(loc="upper center", frameon=False, fontsize="small")
        ax.set_ylim(-0.08, 0.28)
    axes[1].text(5.5, 0.003, "as predicted", color=GREY, fontsize="small", ha="right", va="bottom")
    figure.savefig(arguments.out, metadata={"Date": None} if arguments.out.suffix == ".svg" else None, dpi=150)
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
