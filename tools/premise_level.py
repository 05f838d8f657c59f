"""Level and power of the test with which ``br.advise`` checks the assumption of prior adjustment.

    python tools/premise_level.py                                  # 2000 repetitions per cell, about 20 minutes
    python tools/premise_level.py --repetitions 200 --rows 50 100

Each repetition is a new target population: k normal classes in three dimensions, whose centres, separation and class
rates are random, with rates down to 0.01. The model is Bayes' rule for other random rates. For the level nothing else
has changed, so every rejection is an error. For the power the model is over-confident: its logits are doubled. The
columns "chi-square" show the test with the sample covariance that was used before.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from baserate.analysis.premise import check_premise
from baserate.rates import Rates

KINDS = ("exact", "population", "survey")
CLASSES = (2, 3, 5, 10)
ROWS = (50, 100, 300, 1000)
SEPARATIONS = (0.5, 1.0, 2.0, 4.0)
CASES = 100  # of the survey
LEVEL = 0.05
SMALLEST_RATE = 0.01


class Batch(NamedTuple):
    """Predictions of a batch, the class rates in training, and what is known about the class rates of the batch."""

    probs: np.ndarray
    old: np.ndarray
    known: dict[str, Rates]


class Rejected(NamedTuple):
    """Share of the batches in which the present test and the chi-square test reject, one number per kind of rates."""

    present: np.ndarray
    chi_square: np.ndarray


def random_rates(rng: np.random.Generator, k: int, concentration: float) -> np.ndarray:
    """Random class rates, none of which is much below the smallest one."""
    rates = np.maximum(rng.dirichlet(np.full(k, concentration)), SMALLEST_RATE)
    return rates / rates.sum()


def drawn_batch(rng: np.random.Generator, k: int, n: int, sharpen: float) -> Batch:
    """A batch from a random target population; the model is calibrated in training if ``sharpen`` is 1."""
    centres = rng.normal(size=(k, 3)) * rng.choice(SEPARATIONS)
    old, new = random_rates(rng, k, 2.0), random_rates(rng, k, 1.0)
    y = rng.choice(k, size=n, p=new)
    x = centres[y] + rng.normal(size=(n, 3))
    logits = sharpen * (np.log(old) - 0.5 * np.square(x[:, None] - centres).sum(axis=2))
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    known = {
        "exact": Rates.exact(np.bincount(y, minlength=k) / n),
        "population": Rates.of_population(new),
        "survey": Rates.from_counts(rng.multinomial(CASES, new)),
    }
    return Batch(probs / probs.sum(axis=1, keepdims=True), old, known)


def rejected(k: int, n: int, repetitions: int, *, n_draws: int, seed: int, sharpen: float = 1.0) -> Rejected:
    """How often both tests reject at the level of 5 %."""
    found = np.zeros((2, len(KINDS)))
    for repetition in range(repetitions):
        batch = drawn_batch(np.random.default_rng([seed, repetition, k, n]), k, n, sharpen)
        for j, kind in enumerate(KINDS):
            known, weights = batch.known[kind], np.full(n, 1 / n)
            q = batch.probs * (known.estimate() / batch.old)
            q /= q.sum(axis=1, keepdims=True)
            found[0, j] += check_premise(q, weights, known, n_draws=n_draws).p_value <= LEVEL
            found[1, j] += chi_square_p_value(q, known) <= LEVEL
    return Rejected(*(found / repetitions))


def chi_square_p_value(q: np.ndarray, known: Rates) -> float:
    """The former test: chi-square, with the sample covariance of the prior-adjusted rows ``q``."""
    from scipy.stats import chi2

    rates, n = known.estimate(), len(q)
    difference, of_mean = rates - q.mean(axis=0), np.cov(q, rowvar=False, bias=True) / n
    products = q.T @ q / n
    np.fill_diagonal(products, 0.0)
    of_labels = np.diag(products.sum(axis=1)) - products
    follows = of_labels / np.maximum(rates, 1e-300)
    rest = np.eye(len(rates)) - follows
    covariance = of_mean
    if known.kind == "exact":
        covariance = rest @ (of_labels / n) @ rest.T + follows @ of_mean @ follows.T
    elif known.kind == "counts":
        covariance = of_mean + rest @ ((np.diag(rates) - np.outer(rates, rates)) / CASES) @ rest.T
    variances, axes = np.linalg.eigh(covariance)
    varies, along = variances > 1e-10 * max(variances.max(), 1e-30), axes.T @ difference
    if np.abs(along[~varies]).max(initial=0.0) > 1e-9:
        return 0.0
    return float(chi2.sf((along[varies] ** 2 / variances[varies]).sum(), max(int(varies.sum()), 1)))


def table(options: argparse.Namespace) -> Iterator[str]:
    """Lines of the table, as they are computed."""
    yield "| classes | rows | rates | level | level, chi-square | power | power, chi-square |"
    yield "|--:|--:|---|--:|--:|--:|--:|"
    shared = {"n_draws": options.draws, "seed": options.seed}
    for k in options.classes:
        for n in options.rows:
            level = rejected(k, n, options.repetitions, **shared)
            power = rejected(k, n, options.power_repetitions, sharpen=2.0, **shared)
            for j, kind in enumerate(KINDS):
                figures = (level.present[j], level.chi_square[j], power.present[j], power.chi_square[j])
                yield f"| {k} | {n} | {kind} | {' | '.join(f'{100 * figure:.1f} %' for figure in figures)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=2000, help="batches per cell for the level")
    parser.add_argument("--power-repetitions", type=int, default=200, help="batches per cell for the power")
    parser.add_argument("--draws", type=int, default=99, help="simulated batches per test")
    parser.add_argument("--classes", type=int, nargs="+", default=list(CLASSES))
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--seed", type=int, default=0)
    for line in table(parser.parse_args()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
