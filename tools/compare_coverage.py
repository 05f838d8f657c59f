"""Measure how often the intervals of `br.compare` contain the effect, by simulation; `make compare-coverage` runs this.

    python tools/compare_coverage.py --repetitions 200

Predictions are calibrated for equal class rates. The labels have other rates (with shift) or the same (without). The
rates are taken from the labels of the batch, which is the hardest case: all procedures but the original predictions are
fitted to the labels that judge them. In a cluster, the class rates vary from cluster to cluster.

The effects are known from independent rows: for "new rows", each fitted adjustment is applied to 200,000 new rows; for
"these rows", it is the mean change in many other batches of the same size, each adjusted to its own rates.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import baserate as br

LOG = "log"
COMPARED = ("prior adjustment", "adjusted for log loss")
DIFFERENCE = "difference of the two"
TARGETS = ("these rows", "new rows")
DISTANCE = 1.5
"""Of the centres of the classes from the origin, in standard deviations."""

LOWEST = 0.93
"""The exit status is 1 if fewer intervals than this contain the effect, and chance does not explain it."""


class Setting(NamedTuple):
    """A simulated population and the size of a batch.

    Attributes
    ----------
    k, n : int
        Number of classes and of rows.
    shift : bool
        Whether the class rates differ from those for which the predictions are calibrated.
    cluster : int
        Number of rows per cluster; 1 for independent rows.
    """

    k: int
    n: int
    shift: bool
    cluster: int

    def __str__(self) -> str:
        rows = "independent rows" if self.cluster == 1 else f"clusters of {self.cluster}"
        return f"k={self.k}, n={self.n}, {'shift' if self.shift else 'no shift'}, {rows}"

    @property
    def rates(self) -> np.ndarray:
        """The class rates of the population."""
        rates = np.arange(self.k, 0, -1.0) if self.shift else np.ones(self.k)
        return rates / rates.sum()


class Batch(NamedTuple):
    """Predictions and labels."""

    probs: np.ndarray
    y: np.ndarray


SETTINGS = [
    Setting(k, n, shift, cluster)
    for shift, cluster in ((True, 1), (True, 10), (False, 1))
    for k, n in ((2, 100), (5, 100), (10, 200))
]


def draw(setting: Setting, n: int, cluster: int, rng: np.random.Generator) -> Batch:
    """Draw rows with normally distributed features; the predictions are Bayes' rule for equal class rates."""
    rates = setting.rates
    if cluster > 1:
        rates = np.repeat(rng.dirichlet(2 * setting.k * rates, size=n // cluster), cluster, axis=0)
    y = (rng.random((n, 1)) > np.cumsum(np.broadcast_to(rates, (n, setting.k)), axis=1)[:, :-1]).sum(axis=1)
    logits = DISTANCE * (rng.normal(size=(n, setting.k)) + DISTANCE * np.eye(setting.k)[y])
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    return Batch(probs / probs.sum(axis=1, keepdims=True), y)


def log_loss(probs: np.ndarray, y: np.ndarray) -> float:
    """The mean log loss."""
    return float(-np.log(probs[np.arange(len(y)), y]).mean())


def own_rates(batch: Batch, k: int) -> np.ndarray:
    """The class rates of the labels."""
    return np.bincount(batch.y, minlength=k) / len(batch.y)


def fits(batch: Batch, k: int) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """The fitted adjustment of each procedure, as a function of rows."""
    rates = own_rates(batch, k)
    prior = br.prior_adjust(batch.probs, np.full(k, 1 / k), rates)
    return {COMPARED[0]: prior.apply, COMPARED[1]: br.adjust(batch.probs, rates).apply}


def changes(fitted: dict[str, Callable[[np.ndarray], np.ndarray]], rows: Batch) -> dict[str, float]:
    """The change of log loss by each procedure on some rows, and the difference of the two."""
    before = log_loss(*rows)
    found = {name: log_loss(apply(rows.probs), rows.y) - before for name, apply in fitted.items()}
    return found | {DIFFERENCE: found[COMPARED[1]] - found[COMPARED[0]]}


def draw_complete(setting: Setting, rng: np.random.Generator) -> Batch:
    """Draw a batch in which every class occurs. A class of rate 0 would have an infinite loss on new rows."""
    while True:
        batch = draw(setting, setting.n, setting.cluster, rng)
        if own_rates(batch, setting.k).min() > 0:
            return batch


def simulate(
    setting: Setting, repetitions: int, n_new: int = 200_000, n_batches: int = 1000, seed: int = 0
) -> dict[tuple[str, str], float]:
    """The share of intervals that contain the effect, by target and procedure."""
    rng = np.random.default_rng([seed, *map(int, setting)])
    new = draw(setting, n_new, 1, rng)  # the expectation over new rows is the same in clusters
    sums: Counter[str] = Counter()
    for _ in range(n_batches):
        batch = draw_complete(setting, rng)
        sums.update(changes(fits(batch, setting.k), batch))
    on_average = {name: total / n_batches for name, total in sums.items()}
    covered: defaultdict[tuple[str, str], int] = defaultdict(int)
    groups = None if setting.cluster == 1 else np.arange(setting.n) // setting.cluster
    for repetition in range(repetitions):
        batch = draw_complete(setting, rng)
        effects = {"these rows": on_average, "new rows": changes(fits(batch, setting.k), new)}
        for target in TARGETS:
            found = intervals(batch, setting.k, groups, target, repetition)
            for name, (low, high) in found.items():
                covered[target, name] += low <= effects[target][name] <= high
    return {name: count / repetitions for name, count in covered.items()}


def intervals(
    batch: Batch, k: int, groups: np.ndarray | None, target: str, seed: int
) -> dict[str, tuple[float, float]]:
    """The intervals of the changes and of the difference of the two procedures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.errors.FewGroupsWarning)  # 10 clusters are few: this is what is measured
        table = br.compare(
            *batch,
            own_rates(batch, k),
            np.full(k, 1 / k),
            losses=[LOG],
            target=target,
            groups=groups,
            n_bootstrap=500,
            seed=seed,
        )
    versus = table.relative_to(COMPARED[0])
    cells = [(name, table, name) for name in COMPARED] + [(DIFFERENCE, versus, COMPARED[1])]
    found = {}
    for name, of, procedure in cells:
        i = of.procedures.index(procedure)
        found[name] = (float(of.low[i, 0]), float(of.high[i, 0]))
    return found


def main() -> int:
    """Simulate all settings; return 1 if a share is too low."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--batches", type=int, default=1000, help="batches whose mean is the effect on these rows")
    parser.add_argument("--settings", default=None, help="numbers of settings, such as 0,3; all by default")
    arguments = parser.parse_args()
    chosen = SETTINGS if arguments.settings is None else [SETTINGS[int(i)] for i in arguments.settings.split(",")]
    names, bad = (*COMPARED, DIFFERENCE), False
    print("| setting |" + "".join(f" {name}, {target} |" for target in TARGETS for name in names))
    print("|---|" + "---|" * len(TARGETS) * len(names))
    chance = 3 * np.sqrt(0.95 * 0.05 / arguments.repetitions)
    for setting in chosen:
        covered = simulate(setting, arguments.repetitions, n_batches=arguments.batches)
        shares = [covered[target, name] for target in TARGETS for name in names]
        bad |= min(shares) < min(LOWEST, 0.95 - chance)
        print(f"| {setting} |" + "".join(f" {100 * share:.1f} % |" for share in shares), flush=True)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
