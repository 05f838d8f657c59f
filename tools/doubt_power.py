"""How often ``br.advise`` doubts right and wrong rates of a calibrated model, without labels and without old rates.

    python tools/doubt_power.py                      # 200 batches per cell, about 10 minutes
    python tools/doubt_power.py --batches 50 --classes 2 3

Each batch has 1000 rows. The model is calibrated by construction: the labels are drawn from its predictions. The stated
rates are those of the labels, or differ from them by so many points for one class, the difference being taken from the
other classes in proportion. The last column is the largest share that any test can reach that doubts right rates in
10 % of the batches, if the labels vary around the predictions like a normal distribution.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.stats import norm

import baserate as br

ROWS = 1000
CLASSES = (2, 3, 5, 10)
SEPARATIONS = (0.5, 1.0, 2.0, 4.0)
POINTS = (0.0, 0.05, 0.12)
LEVEL = 0.10


def predictions(rng: np.random.Generator, k: int, separation: float) -> np.ndarray:
    """Predictions of Bayes' rule for k normal classes in three dimensions with random centres and class rates."""
    rates = np.maximum(rng.dirichlet(np.full(k, 2.0)), 0.01)
    rates /= rates.sum()
    centres = rng.normal(size=(k, 3)) * separation
    x = centres[rng.choice(k, size=ROWS, p=rates)] + rng.normal(size=(ROWS, 3))
    logits = np.log(rates) - 0.5 * np.square(x[:, None] - centres).sum(axis=2)
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(probs / probs.sum(axis=1, keepdims=True))


def realised_rates(rng: np.random.Generator, probs: np.ndarray) -> np.ndarray:
    """Class rates of labels that are drawn from the predictions."""
    drawn = (rng.random((len(probs), 1)) > probs.cumsum(axis=1)[:, :-1]).sum(axis=1)
    return np.bincount(drawn, minlength=probs.shape[1]) / len(probs)


def stated_rates(rng: np.random.Generator, rates: np.ndarray, points: float) -> tuple[np.ndarray, int]:
    """Rates that are off by so many points for the largest class, and that class."""
    j = int(rates.argmax())
    error = points * (1 if rng.random() < 0.5 and rates[j] + points < 1 else -1)
    stated = rates * (1 - rates[j] - error) / (1 - rates[j])
    stated[j] = rates[j] + error
    return stated, j


def best_share(probs: np.ndarray, j: int, points: float) -> float:
    """The power of the best test of one class rate with level ``LEVEL``."""
    noise = np.sqrt((probs[:, j] * (1 - probs[:, j])).sum()) / len(probs)
    quantile = norm.ppf(1 - LEVEL / 2)
    return float(norm.cdf(points / noise - quantile) + norm.cdf(-points / noise - quantile))


def cell(k: int, separation: float, points: float, n_batches: int) -> tuple[float, float]:
    """Share of the batches in which the rates are doubted, and the largest possible share."""
    doubted, best = [], []
    for seed in range(n_batches):
        rng = np.random.default_rng([k, int(10 * separation), int(100 * points), seed])
        probs = predictions(rng, k, separation)
        rates = realised_rates(rng, probs)
        if rates.max() == 1:
            continue  # every class but one is missing, so no other rates are near
        stated, j = stated_rates(rng, rates, points)
        doubted.append(br.advise(probs, stated).doubtful)
        best.append(best_share(probs, j, points))
    return float(np.mean(doubted)), float(np.mean(best))


def table(classes: Sequence[int], n_batches: int) -> Iterator[str]:
    """Lines of the table, as they are computed, and the mean of each error of the rates."""
    yield "| rates off by | classes | separation | doubted | at most possible |"
    yield "|--:|--:|--:|--:|--:|"
    for points in POINTS:
        shares = []
        for k in classes:
            for separation in SEPARATIONS:
                doubted, best = cell(k, separation, points, n_batches)
                shares.append(doubted)
                yield f"| {points:.0%} | {k} | {separation:g} | {doubted:.1%} | {best:.1%} |"
        yield f"| {points:.0%} | all | all | {np.mean(shares):.1%} | |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=200, help="batches per cell")
    parser.add_argument("--classes", type=int, nargs="+", default=CLASSES)
    options = parser.parse_args()
    for line in table(options.classes, options.batches):
        print(line, flush=True)


if __name__ == "__main__":
    main()
