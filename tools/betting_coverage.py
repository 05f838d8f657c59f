"""Measure how often sets of rates from labelled rows contain the rates of the batch, and how wide they are.

    python tools/betting_coverage.py --repetitions 200

The rows are labelled at random, without replacement. Widths are divided by those of `Rates.from_counts` with the same
labels for a batch of the same size, which is valid here, but ignores the predictions and that the labelled rows are
rows of the batch. The exit status is 1 if a set contains the rates too rarely and chance does not explain it.

Predictions are calibrated ("good"), three times too confident and biased ("bad"), independent of the labels
("useless"), or against the labels ("adversarial"). Rows are sorted by class, which is the hardest order.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

import baserate as br
from baserate.estimation.labelled import estimate_from_labels

CONFIDENCE = 0.95
RARE = 0.01
SEPARATION = 3.0
"""Of a class from the others, in standard deviations."""


class Cell(NamedTuple):
    """What is simulated: number of classes, rows and labels, kind of class rates and of predictions."""

    k: int
    n: int
    m: int
    rates: str
    predictions: str
    stratify: str | None = None


class Outcome(NamedTuple):
    """Share of sets that contain the rates, mean width and that of `from_counts`, and seconds per set."""

    coverage: float
    width: float
    counted_width: float
    seconds: float


KINDS = ("good", "bad", "useless", "adversarial")
CELLS = [
    Cell(k, n, m, rates, kind)
    for k, n, m, rates, kind in product((2, 3, 10), (200, 2000, 20000), (50, 200, 800), ("equal", "rare"), KINDS)
    if m < n
]


def simulate_batch(cell: Cell, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and labels of a batch."""
    k, n = cell.k, cell.n
    rates = np.full(k, 1.0 / k)
    if cell.rates == "rare":
        rates = np.array([1.0 - RARE * (k - 1)] + [RARE] * (k - 1))
    y = np.sort(rng.choice(k, size=n, p=rates))
    x = rng.normal(size=(n, k))
    if cell.predictions != "useless":
        x[np.arange(n), y] += SEPARATION
    scores = SEPARATION * x + np.log(rates)
    if cell.predictions == "bad":
        scores = 3.0 * scores + 3.0 * rng.normal(size=k)
    elif cell.predictions == "adversarial":
        scores = -scores
    scores -= scores.max(axis=1, keepdims=True)
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True), y


def simulate(cell: Cell, repetitions: int, seed: int = 0) -> Outcome:
    """Coverage and widths in one cell."""
    rng = np.random.default_rng([seed, cell.k, cell.n, cell.m, len(cell.rates), KINDS.index(cell.predictions)])
    inside, width, counted, seconds = 0, 0.0, 0.0, 0.0
    for _ in range(repetitions):
        probs, y = simulate_batch(cell, rng)
        drawn = br.draw_rows(probs, cell.m, stratify=cell.stratify, random_state=rng)
        start = time.perf_counter()
        rates = estimate_from_labels(probs, drawn, y[drawn.rows], confidence=CONFIDENCE)
        seconds += time.perf_counter() - start
        inside += rates.contains(np.bincount(y, minlength=cell.k) / cell.n)
        width += float(np.subtract(*rates.bounds()[::-1]).mean())
        counts = np.bincount(y[drawn.rows], minlength=cell.k)
        counted += float(np.subtract(*br.Rates.from_counts(counts, CONFIDENCE).bounds(cell.n)[::-1]).mean())
    return Outcome(inside / repetitions, width / repetitions, counted / repetitions, seconds / repetitions)


def is_too_low(coverage: float, repetitions: int) -> bool:
    """Whether chance does not explain a coverage below the confidence."""
    return bool(binom.cdf(round(coverage * repetitions), repetitions, CONFIDENCE) < 1e-4)


def main() -> None:
    """Print one line per cell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stratify", choices=["predicted"])
    parser.add_argument("--only", help="print only cells whose description contains this")
    arguments = parser.parse_args()
    failed = False
    print("  k      n    m rates  predictions   covered   width  /counts     ms")
    for cell in (cell._replace(stratify=arguments.stratify) for cell in CELLS):
        text = f"{cell.k:3} {cell.n:6} {cell.m:4} {cell.rates:6} {cell.predictions:12}"
        if arguments.only and arguments.only not in text:
            continue
        found = simulate(cell, arguments.repetitions, arguments.seed)
        low = is_too_low(found.coverage, arguments.repetitions)
        failed |= low
        print(
            f"{text} {found.coverage:8.3f} {found.width:7.4f} {found.width / found.counted_width:8.3f} "
            f"{1e3 * found.seconds:6.0f}{'  too low' if low else ''}",
            flush=True,
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
