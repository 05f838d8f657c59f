"""Makes what the README and docs/demo.md show: a picture, and what `baserate demo` prints; `make pictures` runs this.

The picture uses measurements of breast masses that come with scikit-learn. A model is trained where 37 % of the masses
are malignant. It is used where about 10 % are.
"""

from __future__ import annotations

import tempfile
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
from baserate.cli.story import story

DOCS = Path(__file__).parents[1] / "docs"
REPORT = "baserate-demo.html"
# These colours have enough contrast on white and on dark pages; the background of the picture is transparent.
ORANGE, BLUE, GREY = "#D9772B", "#3D8FCC", "#808080"


def demo_output() -> str:
    """What the demo prints."""
    with tempfile.TemporaryDirectory() as folder:
        text = "\n\n".join(story(Path(folder) / REPORT))
        return text.replace(f"{folder}/", "")


def write_demo(page: Path) -> None:
    """Write the output of the demo between the marks of a page."""
    before, rest = page.read_text(encoding="utf-8").split("<!-- demo -->\n")
    after = rest.split("<!-- /demo -->")[1]
    text = f"{before}<!-- demo -->\n```text\n{demo_output()}\n```\n<!-- /demo -->{after}"
    page.write_text(text, encoding="utf-8")


def new_hospital() -> tuple[np.ndarray, np.ndarray]:
    """Predicted probabilities of "malignant" and labels, in a hospital with few malignant masses."""
    data = load_breast_cancer(as_frame=True)
    x, y = data.data[["mean texture", "mean compactness"]], 1 - data.target.to_numpy()
    x_train, x_new, y_train, y_new = train_test_split(x, y, test_size=0.5, stratify=y, random_state=0)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(x_train, y_train)
    keep = np.random.default_rng(0).random(len(y_new)) < np.where(y_new == 1, 0.2, 1.0)
    return model.predict_proba(x_new[keep])[:, 1], y_new[keep]


def draw_rates(ax: Axes, probs: np.ndarray, adjusted: np.ndarray, rate: float) -> None:
    """Draw the mean prediction before and after, and the true rate."""
    names, values = ("as predicted", "adjusted"), (probs.mean(), adjusted.mean())
    ax.barh(names, [100 * value for value in values], color=(ORANGE, BLUE), height=0.55)
    ax.axvline(100 * rate, color=GREY, linestyle=":", linewidth=2)
    ax.annotate(
        "known prevalence", (100 * rate, 0.5), xytext=(6, 0), textcoords="offset points", color=GREY, va="center"
    )
    ax.invert_yaxis()
    ax.set_xlabel("mean prediction (%)")
    ax.set_title("Class rate", loc="left")


def draw_calibration(ax: Axes, probs: np.ndarray, adjusted: np.ndarray, y: np.ndarray) -> None:
    """Draw the predictions against the observed frequency in five bins of equal size."""
    bins = np.array_split(np.argsort(probs), 5)
    observed = [100 * y[rows].mean() for rows in bins]
    for name, values, colour, mark in (("as predicted", probs, ORANGE, "o--"), ("adjusted", adjusted, BLUE, "D-")):
        ax.plot([100 * values[rows].mean() for rows in bins], observed, mark, color=colour, label=name)
    ax.plot([0, 60], [0, 60], color=GREY, linestyle=":", linewidth=1)
    ax.set(xlabel="predicted probability (%)", ylabel="were malignant (%)", xlim=(0, 85), ylim=(-2, 60))
    ax.set_title("Predictions and outcomes", loc="left")
    ax.legend(frameon=False, labelcolor=GREY)


def draw_picture(path: Path) -> None:
    """Draw the picture of the README."""
    probs, y = new_hospital()
    adjusted = br.adjust(probs, y.mean()).probs
    style = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), GREY)
    with plt.rc_context({**style, "svg.hashsalt": "baserate", "svg.fonttype": "path"}):
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained", width_ratios=(1, 1.2))
        draw_rates(axes[0], probs, adjusted, y.mean())
        draw_calibration(axes[1], probs, adjusted, y)
        for ax in axes:
            ax.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)


def main() -> None:
    """Write both."""
    mpl.use("agg")
    draw_picture(DOCS / "pictures" / "new-hospital.svg")
    write_demo(DOCS / "demo.md")


if __name__ == "__main__":
    main()
