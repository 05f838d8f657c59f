"""One picture of each display, from data that come with scikit-learn.

Ten classes: a model that reads digits meets a place where large ones are rare (the story of ``baserate demo``). Three
classes: a model that tells wines apart meets a cellar with few of the first kind.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import baserate as br
from baserate.cli.story import two_places

DPI = 110


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Predictions for noisy scans from a place where large digits are rare, and what the scans show."""
    x_train, y_train, x_new, y_new = two_places()
    return LogisticRegression(max_iter=3000).fit(x_train, y_train).predict_proba(x_new), y_new


def wines() -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Predictions from three measurements, for a cellar with few wines of the first kind."""
    data = load_wine()
    model = make_pipeline(StandardScaler(), LogisticRegression())
    probs = cross_val_predict(model, data.data[:, [0, 2, 7]], data.target, cv=5, method="predict_proba")
    rng = np.random.default_rng(0)
    keep = rng.random(len(probs)) < np.array([0.05, 0.5, 1.0])[data.target]
    return probs[keep], data.target[keep], [f"wine {name.removeprefix('class_')}" for name in data.target_names]


def year() -> br.Drift:
    """A shift of the first month of a simulated year, in which the prevalence of a disease rises from 10 % to 60 %."""
    rng = np.random.default_rng(0)

    def month(rate: float) -> tuple[np.ndarray, np.ndarray]:
        ill = rng.random(2000) < rate
        return 1 / (1 + np.exp(-1.5 * (rng.normal(size=2000) + 1.5 * ill - 0.75))), ill

    probs, ill = month(0.1)
    result = br.adjust(probs, ill.mean())
    batches = []
    for number, rate in enumerate(np.linspace(0.1, 0.6, 12), start=1):
        probs, ill = month(rate)
        survey = br.Rates.from_counts(int(ill[rng.integers(2000, size=400)].sum()), total=400)
        batches.append((f"2025-{number:02d}", probs, survey))
    return br.drift(result, batches)


def drawn() -> dict[str, Any]:
    """Every display by the name of its picture."""
    probs, y = digits()
    rates = np.bincount(y, minlength=10) / len(y)
    result = br.adjust(probs, rates)
    cellar, kinds, names = wines()
    shares = np.bincount(kinds, minlength=3) / len(kinds)
    adjusted = br.adjust(cellar, shares).probs
    roughly = br.Rates.between(np.maximum(rates - 0.01, 0.0), rates + 0.01)
    bounded, unbounded = (br.adjust(cellar, shares, loss="brier", bounded=b).probs for b in (True, False))
    apart = np.minimum(np.abs(bounded - cellar).max(axis=1), np.abs(bounded - unbounded).max(axis=1))
    few = [int(np.where(unbounded.min(axis=1) < -0.1, apart, 0.0).argmax()), *range(0, len(cellar), 8)]
    return {
        "rates": br.RatesDisplay.from_predictions(probs, roughly),
        "movement": br.MovementDisplay.from_predictions(probs, result.probs),
        "movement-map": br.MovementDisplay.from_predictions(cellar, adjusted, classes=names),
        "reliability": br.ReliabilityDisplay.from_predictions(probs, result.probs, y),
        "rate-sensitivity": br.RateSensitivityDisplay.from_adjustment(result),
        "sensitivity": br.SensitivityDisplay.from_predictions(probs, rates),
        "comparison": br.ComparisonDisplay.from_predictions(probs, y, rates, old_rates=np.full(10, 0.1)),
        "drift": br.DriftDisplay(year()).plot(),
        "geometry": br.GeometryDisplay.from_predictions(cellar[few], shares, classes=names),
        "geometry-two-rows": br.GeometryDisplay.from_predictions([[0.9, 0.1], [0.3, 0.7]], [0.75, 0.25]),
    }


def main() -> None:
    """Draw and write all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("pictures"))
    arguments = parser.parse_args()
    mpl.use("agg")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, display in drawn().items():
        path = arguments.out / f"{name}.png"
        display.figure_.savefig(path, dpi=DPI, metadata={"Software": None})  # the same file on every run
        print(f"wrote {path}, {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
