"""Measure how often sets of rates from labelled rows contain the rates of the batch, and how wide they are.

    python tools/betting_coverage.py --repetitions 2000 --jobs 2 --results coverage.jsonl --only "useless"

The rows are labelled at random, without replacement. Widths are divided by those of `Rates.from_counts` with the same
labels for a batch of the same size, which is valid here, but ignores the predictions and that the labelled rows are
rows of the batch. The exit status is 1 if a set contains the rates too rarely and chance does not explain it: in cells
whose coverage is exactly 95 %, fewer covered draws have a probability below 1e-4. Labelled rows are drawn several times
from each batch, because the confidence holds for every batch. Widths are those of the first 200 draws of a cell. After
these, the set is only computed if the tests reject the true counts. With ``--results``, an interrupted run continues.

Predictions are calibrated ("good"), three times too confident and biased ("bad"), independent of the labels
("useless"), or against the labels ("adversarial"). Rows are sorted by class, which is the hardest order.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

import baserate as br
from baserate.estimation.draws import random_order
from baserate.estimation.label_bounds import tests_of
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
    """Sums over draws: number, covered ones, and of those with widths: number, width, that of counts, seconds."""

    draws: int
    covered: int
    measured: int = 0
    widths: float = 0.0
    counted_widths: float = 0.0
    seconds: float = 0.0

    @classmethod
    def sum(cls, parts: list[Outcome]) -> Outcome:
        """The sums of parts."""
        return cls(*(sum(column) for column in zip(*parts, strict=True)))

    @property
    def coverage(self) -> float:
        return self.covered / self.draws

    @property
    def width(self) -> float:
        return self.widths / self.measured

    @property
    def counted_width(self) -> float:
        return self.counted_widths / self.measured


KINDS = ("good", "bad", "useless", "adversarial")
CELLS = [
    Cell(k, n, m, rates, kind)
    for n, k, m, rates, kind in product((200, 2000, 20000), (2, 3, 10), (50, 200, 800), ("equal", "rare"), KINDS)
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
    return Outcome.sum([draws_of(cell, size, seed, chunk) for chunk, size in _chunks(repetitions)])


def _chunks(repetitions: int) -> list[tuple[int, int]]:
    return [(i, min(_CHUNK, repetitions - start)) for i, start in enumerate(range(0, repetitions, _CHUNK))]


def draws_of(cell: Cell, repetitions: int, seed: int, chunk: int, with_widths: bool = True) -> Outcome:
    """The outcomes of draws of labelled rows."""
    kind, found = KINDS.index(cell.predictions), []
    rng = np.random.default_rng([seed, cell.k, cell.n, cell.m, len(cell.rates), kind, chunk])
    with single_threaded_blas():
        for number in range(repetitions):
            if number % _DRAWS_PER_BATCH == 0:
                probs, y = simulate_batch(cell, rng)
            # Not br.draw_rows, except for strata: it also computes widths to expect.
            rows = rng.choice(cell.n, cell.m, replace=False)
            if cell.stratify is not None:
                rows = br.draw_rows(probs, cell.m, stratify=cell.stratify, random_state=rng)
            if not with_widths and _is_surely_in(probs, y, rows):
                found.append(Outcome(1, 1))
            else:
                found.append(_one_draw(cell, probs, y, rows))
    return Outcome.sum(found)


def _is_surely_in(probs: np.ndarray, y: np.ndarray, rows: np.ndarray | br.DrawnRows) -> bool:
    """Whether no test rejects the true counts, so that the set contains them; much faster than the set."""
    strata = rows.strata if isinstance(rows, br.DrawnRows) else None
    draws = random_order(rows.rows if isinstance(rows, br.DrawnRows) else rows, strata)
    tests = tests_of(probs, draws, y[draws.rows], CONFIDENCE, stratified=strata is not None)
    return bool(tests.accepts(np.bincount(y, minlength=probs.shape[1]).astype(float)).all())


def _one_draw(cell: Cell, probs: np.ndarray, y: np.ndarray, rows: np.ndarray | br.DrawnRows) -> Outcome:
    labels = y[rows.rows if isinstance(rows, br.DrawnRows) else rows]
    start = time.perf_counter()
    rates = estimate_from_labels(probs, rows, labels, confidence=CONFIDENCE)
    seconds = time.perf_counter() - start
    counted = br.Rates.from_counts(np.bincount(labels, minlength=cell.k), CONFIDENCE).bounds(cell.n)
    widths = (float(np.subtract(high, low).mean()) for low, high in (rates.bounds(), counted))
    return Outcome(1, int(rates.contains(np.bincount(y, minlength=cell.k) / cell.n)), 1, *widths, seconds)


def is_too_low(coverage: float, repetitions: int) -> bool:
    """Whether chance does not explain a coverage below the confidence."""
    return bool(binom.cdf(round(coverage * repetitions), repetitions, CONFIDENCE) < 1e-4)


def outcomes(cells: list[Cell], arguments: argparse.Namespace) -> Iterator[tuple[Cell, Outcome]]:
    """The results of all cells, by several processes, until the time is over; those in the file are not repeated."""
    done, end, seed = _read(arguments.results), time.monotonic() + arguments.seconds, arguments.seed
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for cell in cells:
            if time.monotonic() > end:
                return
            parts, running = [], {}
            for chunk, size in _chunks(arguments.repetitions):
                with_widths = chunk * _CHUNK < arguments.widths
                key = json.dumps([*cell, seed, chunk, size, with_widths])
                if key in done:
                    parts.append(done[key])
                else:
                    running[key] = pool.submit(draws_of, cell, size, seed, chunk, with_widths)
            for key, future in running.items():
                parts.append(future.result())
                _append(arguments.results, key, parts[-1])
            yield cell, Outcome.sum(parts)


def _read(path: Path | None) -> dict[str, Outcome]:
    lines = path.read_text().splitlines() if path and path.exists() else []
    return {key: Outcome(*numbers) for key, numbers in map(json.loads, lines)}


def _append(path: Path | None, key: str, outcome: Outcome) -> None:
    if path:
        with path.open("a") as file:
            file.write(json.dumps([key, outcome]) + "\n")


def main() -> None:
    """Print one line per cell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--widths", type=int, default=200, help="compute whole sets, with widths, in so many draws")
    parser.add_argument("--results", type=Path, help="append results to this file, and repeat none that it contains")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no cell after this time")
    parser.add_argument("--stratify", choices=["predicted"])
    parser.add_argument("--table", action="store_true", help="print a table in Markdown, by kind of predictions")
    parser.add_argument("--only", help="print only cells whose description contains this")
    arguments = parser.parse_args()
    cells = [cell._replace(stratify=arguments.stratify) for cell in CELLS]
    cells = [cell for cell in cells if not arguments.only or arguments.only in description(cell)]
    print("  k      n    m rates  predictions   draws  covered    ± s.e.   width  /counts     ms", flush=True)
    found = []
    for cell, outcome in outcomes(cells, arguments):
        found.append((cell, outcome))
        print(_line(cell, outcome), flush=True)
    print(_summary(found, len(cells)))
    if arguments.table:
        print(_table(found))
    sys.exit(any(is_too_low(outcome.coverage, outcome.draws) for _, outcome in found))


def _line(cell: Cell, found: Outcome) -> str:
    error = np.sqrt(found.coverage * (1 - found.coverage) / found.draws)
    return (
        f"{description(cell)} {found.draws:6} {found.coverage:8.4f} {error:9.4f} {found.width:7.4f} "
        f"{found.width / found.counted_width:8.3f} {1e3 * found.seconds / found.measured:6.1f}"
        f"{'  too low' if is_too_low(found.coverage, found.draws) else ''}"
    )


def _table(found: list[tuple[Cell, Outcome]]) -> str:
    """Lowest coverages, and the least and the largest width relative to `from_counts`, for each kind of predictions."""
    sizes = sorted({cell.m for cell, _ in found})
    lines = [
        f"| predictions | cells | covered at least | {' | '.join(f'{m} labels' for m in sizes)} |",
        f"|---|--:|--:|{'--:|' * len(sizes)}",
    ]
    for kind in KINDS:
        of_kind = [(cell, one) for cell, one in found if cell.predictions == kind]
        ratios = [[one.width / one.counted_width for cell, one in of_kind if cell.m == m] for m in sizes]
        if of_kind:
            widths = " | ".join(f"{min(one):.2f} to {max(one):.2f}" if one else "" for one in ratios)
            lowest = min(one.coverage for _, one in of_kind)
            lines.append(f"| {kind} | {len(of_kind)} | {lowest:.1%} | {widths} |")
    return "\n".join(lines)


def _summary(found: list[tuple[Cell, Outcome]], n_cells: int) -> str:
    below = sum(outcome.coverage < CONFIDENCE for _, outcome in found)
    too_low = sum(is_too_low(outcome.coverage, outcome.draws) for _, outcome in found)
    widest = max((one.width / one.counted_width for cell, one in found if cell.m >= 200), default=0.0)
    return (
        f"{len(found)} of {n_cells} cells; {below} below {CONFIDENCE:.0%}, {too_low} beyond chance; lowest "
        f"{min(outcome.coverage for _, outcome in found):.4f}; widest with at least 200 labels: {widest:.3f} of "
        "from_counts"
    )


def description(cell: Cell) -> str:
    """The cell as the beginning of a line."""
    return f"{cell.k:3} {cell.n:6} {cell.m:4} {cell.rates:6} {cell.predictions:12}"


if __name__ == "__main__":
    main()
