"""Measure how often the bound of `certify(...).for_population()` is correct, by simulation; `make certify-coverage`.

    python tools/certify_coverage.py --repetitions 2000

A population is a list of predictions and labels, from which rows are drawn with replacement, so that the expected fall
of the loss is known exactly. The shift is fitted on other rows. Beside the coverage, the table shows the median
distance of the bound from the expected fall, and that of Hoeffding's and of the empirical Bernstein bound (Maurer and
Pontil, 2009) from the same rows.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, NamedTuple

import numpy as np

import baserate as br
from baserate.core.fixed_shift import limits_of_rows

LOWEST = 0.95
"""The exit status is 1 if fewer bounds than this are correct, and chance does not explain it."""

POOL = 20_000


class Setting(NamedTuple):
    """A population, a loss and a number of rows.

    Attributes
    ----------
    population : "calibrated", "overconfident" or "rare"
        How predictions and labels are related. Of the last, 1 row in 100 has another distribution.
    loss : str
    k, n : int
        Number of classes and of rows.
    survey : int
        Number of cases that a survey counts; 0 if the rates of the population are known.
    bounded : bool
    """

    population: str
    loss: str
    k: int
    n: int
    survey: int = 0
    bounded: bool = True


SETTINGS = [
    *(Setting(kind, "log", 3, n) for kind in ("calibrated", "overconfident", "rare") for n in (20, 200, 2000)),
    *(Setting("overconfident", loss, 3, n) for loss in ("brier", "spherical") for n in (20, 200, 2000)),
    Setting("overconfident", "brier", 3, 200, bounded=False),
    Setting("rare", "log", 2, 200, survey=100),
    Setting("rare", "log", 10, 2000, survey=1000),
]


class Outcome(NamedTuple):
    """How many bounds were correct, and the median distances of three bounds from the expected fall."""

    covered: float
    betting: float
    bernstein: float
    hoeffding: float


def draw_pool(setting: Setting, rng: np.random.Generator, rates: Any) -> tuple[Any, Any]:
    """Predictions and labels of a population."""
    y = rng.choice(setting.k, p=rates, size=POOL)
    logits = rng.normal(size=(POOL, setting.k)) + 1.5 * np.eye(setting.k)[y]
    if setting.population == "overconfident":
        logits *= 2.0
    if setting.population == "rare":
        odd = rng.random(POOL) < 0.01
        logits[odd] = 8.0 * np.eye(setting.k)[rng.integers(setting.k, size=odd.sum())]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), y


def simulate(setting: Setting, repetitions: int, seed: int = 0, confidence: float = 0.95) -> Outcome:
    """Draw rows many times, and compare each bound with the expected fall."""
    rng = np.random.default_rng([seed, SETTINGS.index(setting) if setting in SETTINGS else 99])
    rates = np.arange(setting.k, 0, -1.0) ** 2
    rates /= rates.sum()
    p, y = draw_pool(setting, rng, rates)
    other, labels = draw_pool(setting, rng, rates)
    fit = br.adjust(
        other[:500], br.theory.class_rates(labels[:500], setting.k), loss=setting.loss, bounded=setting.bounded
    )
    expected = fit.loss.score(p, y) - fit.loss.score(fit.apply(p), y)
    true_rates = br.theory.class_rates(y, setting.k)
    limits = limits_of_rows(fit.model, fit.dual_shift)
    assert limits is not None
    found = []
    for _ in range(repetitions):
        rows = p[rng.integers(POOL, size=setting.n)]
        known: Any = true_rates
        if setting.survey:
            known = br.Rates.from_counts(np.bincount(y[rng.integers(POOL, size=setting.survey)], minlength=setting.k))
        certificate = fit.certify(rows, known)
        found.append([certificate.for_population(confidence).loss_reduction, *_others(certificate, limits, confidence)])
    bounds = np.array(found)
    distances = expected - np.median(bounds, axis=0)
    return Outcome(float((bounds[:, 0] <= expected + 1e-12).mean()), *map(float, distances))


def _others(certificate: Any, limits: tuple[float, float], confidence: float) -> tuple[float, float]:
    """The empirical Bernstein bound and Hoeffding's, for rates of a population that are known."""
    counts = certificate.sample.bets.counts.sum(axis=0)
    n, width = counts.sum(), limits[1] - limits[0]
    points = np.linspace(0.0, 1.0, len(counts))
    mean = counts @ points / n
    variance = counts @ (points - mean) ** 2 / max(n - 1, 1)
    needed = np.log(2.0 / (1.0 - confidence))
    bernstein = np.sqrt(2 * variance * needed / n) + 7 * needed / (3 * max(n - 1, 1))
    hoeffding = np.sqrt(-np.log(1.0 - confidence) / (2 * n))
    return certificate.loss_reduction - width * bernstein, certificate.loss_reduction - width * hoeffding


def main() -> int:
    """Print the table; the exit status is 1 if a bound is correct too rarely."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    allowed = LOWEST - 3 * np.sqrt(LOWEST * (1 - LOWEST) / options.repetitions)
    print("| population | loss | k | n | survey | correct | betting | Bernstein | Hoeffding |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    worst = 1.0
    for setting in SETTINGS:
        found = simulate(setting, options.repetitions, options.seed)
        worst = min(worst, found.covered)
        loss = setting.loss if setting.bounded else f"{setting.loss}, unbounded"
        numbers = " | ".join(f"{value:.4f}" for value in found[1:])
        print(
            f"| {setting.population} | {loss} | {setting.k} | {setting.n} | {setting.survey or ''} | "
            f"{100 * found.covered:.1f} % | {numbers} |",
            flush=True,
        )
    return int(worst < allowed)


if __name__ == "__main__":
    sys.exit(main())
