"""Measure how often `Rates.from_counts` covers the rates of a batch, and how wide it is; `make coverage` runs this.

For each number of classes k, survey size m and batch size n, surveys and batches are drawn from one population with
skewed rates and very rare classes. The table shows the share of batches inside the rate set and its mean width,
averaged over classes and draws. For comparison it shows the width of exact beta-binomial prediction intervals per class
with a Bonferroni correction, which are computed with SciPy only.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from pages import fill
from scipy.stats import betabinom

import baserate as br

CELLS = list(product((2, 5, 20), (20, 200, 5000), (100, 10_000)))
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Cell:
    """The result for one combination of k, m and n."""

    k: int
    m: int
    n: int
    covered: float
    standard_error: float
    width: float
    bonferroni: float


def skewed(k: int) -> np.ndarray:
    """Rates that fall by the same factor from class to class, down to 1/1000 of the first."""
    rates = np.geomspace(1.0, 1e-3, k) if k > 2 else np.array([0.99, 0.01])
    return rates / rates.sum()


@cache
def beta_binomial(x: int, m: int, n: int, tail: float) -> tuple[int, int]:
    """Bounds on the count of a class in a batch of n rows, if x of m rows of the survey are of this class."""
    low = 0 if x == 0 else int(betabinom.ppf(tail, n, x, m - x + 1))
    high = n if x == m else int(betabinom.isf(tail, n, x + 1, m - x))
    return low, high


def simulate(k: int, m: int, n: int, draws: int, seed: int) -> Cell:
    """Simulate one combination of k, m and n."""
    rng, rates = np.random.default_rng([seed, k, m, n]), skewed(k)
    covered, width, other = 0, 0.0, 0.0
    for counts, batch in zip(rng.multinomial(m, rates, size=draws), rng.multinomial(n, rates, size=draws), strict=True):
        known = br.Rates.from_counts(counts, CONFIDENCE)
        low, high = known.bounds(n)
        covered += known.contains(batch / n, n)
        width += float((high - low).mean())
        ends = np.array([beta_binomial(int(x), m, n, (1 - CONFIDENCE) / (2 * k)) for x in counts])
        other += float((ends[:, 1] - ends[:, 0]).mean()) / n
    share = covered / draws
    # The standard error of the nominal share is used if it is larger, since at a share of 1 the estimate is 0.
    error = float(np.sqrt(max(share * (1 - share), CONFIDENCE * (1 - CONFIDENCE)) / draws))
    return Cell(k, m, n, share, error, width / draws, other / draws)


def table(cells: list[Cell]) -> str:
    """A Markdown table."""
    lines = [
        "| classes | survey | batch | covered (95 % asked) | mean width | Bonferroni beta-binomial |",
        "|---|---|---|---|---|---|",
    ]
    for c in cells:
        lines.append(f"| {c.k} | {c.m} | {c.n} | {100 * c.covered:.1f} % | {c.width:.4f} | {c.bonferroni:.4f} |")
    return "\n".join(lines)


def main() -> int:
    """Simulate all combinations, and return 1 if the coverage of one is too low or its rate set too wide."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--docs", action="store_true", help="write the table into docs/uncertain-rates.md")
    arguments = parser.parse_args()
    cells = []
    for k, m, n in CELLS:
        cells.append(simulate(k, m, n, arguments.draws, seed=0))
        print(cells[-1], flush=True)
    if arguments.docs:
        fill("docs/uncertain-rates.md", "coverage", table(cells))
    print(table(cells))
    return int(any(c.covered < CONFIDENCE - 3 * c.standard_error or c.width > c.bonferroni + 1e-12 for c in cells))


if __name__ == "__main__":
    sys.exit(main())
