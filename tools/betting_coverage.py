"""Measure how often sets of rates from labelled rows contain the rates of the batch, and how wide they are.

    python tools/betting_coverage.py --repetitions 2000 --jobs 2 --only "useless"

The rows are labelled at random, without replacement. Widths are divided by those of `Rates.from_counts` with the same
labels for a batch of the same size, which is valid here, but ignores the predictions and that the labelled rows are
rows of the batch. The exit status is 1 if a set contains the rates too rarely and chance does not explain it: in cells
whose coverage is exactly 95 %, fewer covered draws have a probability below 1e-4. Labelled rows are drawn several times
from each batch, because the confidence holds for every batch.

Predictions are calibrated ("good"), three times too confident and biased ("bad"), independent of the labels
("useless"), or against the labels ("adversarial"). Rows are sorted by class, which is the hardest order.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

import baserate as br
from baserate.estimation.labelled import estimate_from_labels
from baserate.support.threads import single_threaded_blas

CONFIDENCE = 0.95
RARE = 0.01
SEPARATION = 3.0
"""Of a class from the others, in standard deviations."""

_CHUNK = 50  # draws with one random number generator, whatever the number of processes
_DRAWS_PER_BATCH = 10


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

    @classmethod
    def mean(cls, draws: list[Outcome]) -> Outcome:
        """The means over draws."""
        return cls(*np.mean(draws, axis=0).tolist())


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
    chunks = [min(_CHUNK, repetitions - start) for start in range(0, repetitions, _CHUNK)]
    return Outcome.mean([draw for chunk, size in enumerate(chunks) for draw in draws_of(cell, size, seed, chunk)])


def draws_of(cell: Cell, repetitions: int, seed: int, chunk: int) -> list[Outcome]:
    """The outcomes of single draws of labelled rows."""
    kind, found = KINDS.index(cell.predictions), []
    rng = np.random.default_rng([seed, cell.k, cell.n, cell.m, len(cell.rates), kind, chunk])
    with single_threaded_blas():
        for number in range(repetitions):
            if number % _DRAWS_PER_BATCH == 0:
                probs, y = simulate_batch(cell, rng)
            found.append(_one_draw(cell, probs, y, rng))
    return found


def _one_draw(cell: Cell, probs: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Outcome:
    # Not br.draw_rows, except for strata: it also computes widths to expect.
    rows = rng.choice(cell.n, cell.m, replace=False)
    drawn = rows if cell.stratify is None else br.draw_rows(probs, cell.m, stratify=cell.stratify, random_state=rng)
    labels = y[rows if cell.stratify is None else drawn.rows]
    start = time.perf_counter()
    rates = estimate_from_labels(probs, drawn, labels, confidence=CONFIDENCE)
    seconds = time.perf_counter() - start
    counted = br.Rates.from_counts(np.bincount(labels, minlength=cell.k), CONFIDENCE).bounds(cell.n)
    widths = (float(np.subtract(high, low).mean()) for low, high in (rates.bounds(), counted))
    return Outcome(float(rates.contains(np.bincount(y, minlength=cell.k) / cell.n)), *widths, seconds)


def is_too_low(coverage: float, repetitions: int) -> bool:
    """Whether chance does not explain a coverage below the confidence."""
    return bool(binom.cdf(round(coverage * repetitions), repetitions, CONFIDENCE) < 1e-4)


def outcomes(cells: list[Cell], arguments: argparse.Namespace) -> Iterator[tuple[Cell, Outcome]]:
    """The results of all cells, by several processes, until the time is over."""
    n, end = arguments.repetitions, time.monotonic() + arguments.seconds
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for cell in cells:
            if time.monotonic() > end:
                return
            sizes = [min(_CHUNK, n - start) for start in range(0, n, _CHUNK)]
            parts = [pool.submit(draws_of, cell, size, arguments.seed, i) for i, size in enumerate(sizes)]
            yield cell, Outcome.mean([one for part in parts for one in part.result()])


def main() -> None:
    """Print one line per cell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no cell after this time")
    parser.add_argument("--stratify", choices=["predicted"])
    parser.add_argument("--only", help="print only cells whose description contains this")
    arguments = parser.parse_args()
    n, failed, widest = arguments.repetitions, 0, 0.0
    cells = [cell._replace(stratify=arguments.stratify) for cell in CELLS]
    cells = [cell for cell in cells if not arguments.only or arguments.only in description(cell)]
    print(f"{n:,} draws per cell")
    print("  k      n    m rates  predictions   covered    ± s.e.   width  /counts     ms")
    done = 0
    for cell, found in outcomes(cells, arguments):
        low, error = is_too_low(found.coverage, n), np.sqrt(found.coverage * (1 - found.coverage) / n)
        done, failed = done + 1, failed + low
        ratio = found.width / found.counted_width
        widest = max(widest, ratio if cell.m >= 200 else 0.0)
        print(
            f"{description(cell)} {found.coverage:8.4f} {error:9.4f} {found.width:7.4f} {ratio:8.3f} "
            f"{1e3 * found.seconds:6.1f}{'  too low' if low else ''}",
            flush=True,
        )
    print(f"{done} of {len(cells)} cells; {failed} below {CONFIDENCE:.0%} beyond chance; ", end="")
    print(f"widest with at least 200 labels: {widest:.3f} of from_counts")
    sys.exit(failed > 0)


def description(cell: Cell) -> str:
    """The cell as the beginning of a line."""
    return f"{cell.k:3} {cell.n:6} {cell.m:4} {cell.rates:6} {cell.predictions:12}"


if __name__ == "__main__":
    main()
