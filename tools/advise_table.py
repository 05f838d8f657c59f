"""What ``br.advise`` recommends on data sets of scikit-learn, and what following it does to the log loss.

    python tools/advise_table.py                    # about 5 minutes
    python tools/advise_table.py --batches 3 --details

Each data set is predicted by five-fold cross-validation, so that no model has seen the rows that it predicts. The
predictions then meet right and wrong rates. "If followed" is the change of the mean log loss by what is
recommended: adjustment to ``advice.rates``, prior adjustment, or nothing. "As stated" is that by ``br.adjust`` to the
stated rates. Below 0 is better. "Raised" is the share of batches in which the loss rose by more than 0.001.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import baserate as br

MAX_ROWS = 1000
SMALL = 30  # rows of a small batch
RAISED = 1e-3
SMALLEST = 1e-6  # probabilities below are raised to it, as with zeros=1e-6


class Data(NamedTuple):
    """Features and labels of a data set."""

    x: np.ndarray
    y: np.ndarray


class Batch(NamedTuple):
    """Predictions and labels of a batch, what is stated about its class rates, and the class rates in training."""

    probs: np.ndarray
    y: np.ndarray
    rates: br.Rates
    old: np.ndarray


class Row(NamedTuple):
    """What was recommended for a batch, and how the loss changes."""

    procedure: str
    doubtful: bool
    followed: float
    as_stated: float


def all_data() -> dict[str, Data]:
    """The data sets by name."""
    cancer, wine, iris, digits = (
        Data(*load(return_X_y=True))
        for load in (datasets.load_breast_cancer, datasets.load_wine, datasets.load_iris, datasets.load_digits)
    )
    diabetes = Data(*datasets.load_diabetes(return_X_y=True))
    sets = {"breast cancer": cancer, "wine": wine, "digits": digits, "iris": iris}
    sets |= {f"iris {a} and {b}": pair(iris, a, b) for a, b in ((0, 1), (1, 2))}
    sets["wine 0 and 1"] = pair(wine, 0, 1)
    sets["digits 3 and 8"] = pair(digits, 3, 8)
    binary = {"odd": digits.y % 2, "8": digits.y == 8, "1": digits.y == 1, "above 4": digits.y > 4, "9": digits.y == 9}
    sets |= {f"digits: {name}": Data(digits.x, y.astype(int)) for name, y in binary.items()}
    sets |= {
        f"diabetes above {q:g} %": Data(diabetes.x, (diabetes.y > np.percentile(diabetes.y, q)).astype(int))
        for q in (50, 75)
    }
    for i, (k, weight, flip) in enumerate(
        ((2, 0.5, 0.0), (2, 0.8, 0.05), (2, 0.93, 0.0), (3, 0.6, 0.02), (5, 0.4, 0.0))
    ):
        weights = [weight, *[(1 - weight) / (k - 1)] * (k - 1)]
        made = datasets.make_classification(
            2000, 12, n_informative=6, n_classes=k, weights=weights, flip_y=flip, class_sep=0.7, random_state=i
        )
        sets[f"generated: {k} classes, largest {weight:g}"] = Data(*made)
    sets["moons"] = Data(*datasets.make_moons(2000, noise=0.4, random_state=0))
    sets["circles"] = Data(*datasets.make_circles(2000, noise=0.3, factor=0.4, random_state=0))
    sets["blobs"] = Data(*datasets.make_blobs(2000, centers=4, cluster_std=4.0, random_state=0))
    sets["quantiles"] = Data(*datasets.make_gaussian_quantiles(n_samples=2000, n_classes=3, random_state=0))
    return sets


def pair(data: Data, a: int, b: int) -> Data:
    """The rows of two classes."""
    chosen = np.isin(data.y, (a, b))
    return Data(data.x[chosen], (data.y[chosen] == b).astype(int))


def predicted(name: str, data: Data) -> np.ndarray:
    """Out-of-fold predictions."""
    curved = name in ("moons", "circles", "quantiles")
    forest = RandomForestClassifier(min_samples_leaf=20, random_state=0)
    model = forest if curved else make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=1000))
    p = np.maximum(cross_val_predict(model, data.x, data.y, cv=5, method="predict_proba"), SMALLEST)
    return p / p.sum(axis=1, keepdims=True)


def rates_of(y: np.ndarray, k: int) -> np.ndarray:
    """Class rates of labels."""
    return np.bincount(y, minlength=k) / len(y)


Scenario = Callable[[Data, np.ndarray, np.random.Generator], Batch]


def sampled(data: Data, p: np.ndarray, rng: np.random.Generator, n: int = MAX_ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and labels of random rows."""
    rows = rng.permutation(len(data.y))[:n]
    return p[rows], data.y[rows]


def off_by(points: float) -> Scenario:
    """Stated rates that are off by so many points for the largest class, in either direction."""

    def make(data: Data, p: np.ndarray, rng: np.random.Generator) -> Batch:
        p, y = sampled(data, p, rng)
        rates, largest = rates_of(y, p.shape[1]), int(rates_of(y, p.shape[1]).argmax())
        error = points / 100 * (1 if rng.random() < 0.5 or not points else -1)
        if not 0.02 < rates[largest] + error < 0.98:
            error = -error
        stated = rates * (1 - rates[largest] - error) / (1 - rates[largest])
        stated[largest] = rates[largest] + error
        return Batch(p, y, br.Rates.exact(stated), rates_of(data.y, p.shape[1]))

    return make


def changed_rates(data: Data, p: np.ndarray, rng: np.random.Generator) -> Batch:
    """Right rates after a change of the class rates: most rows of the largest class are deleted."""
    largest = rates_of(data.y, p.shape[1]).argmax()
    kept = np.flatnonzero((data.y != largest) | (rng.random(len(data.y)) < 0.3))
    kept = rng.permutation(kept)[:MAX_ROWS]
    rates = rates_of(data.y[kept], p.shape[1])
    return Batch(p[kept], data.y[kept], br.Rates.exact(rates), rates_of(data.y, p.shape[1]))


def small_batch(as_population: bool) -> Scenario:
    """Rates of the population for a small batch, stated as such or as if they were those of the batch."""

    def make(data: Data, p: np.ndarray, rng: np.random.Generator) -> Batch:
        rates = rates_of(data.y, p.shape[1])
        p, y = sampled(data, p, rng, SMALL)
        return Batch(p, y, br.Rates.of_population(rates) if as_population else br.Rates.exact(rates), rates)

    return make


def over_confident(data: Data, p: np.ndarray, rng: np.random.Generator) -> Batch:
    """Right rates, and a model whose logits are doubled, after a change of the class rates."""
    batch = changed_rates(data, p, rng)
    probs = np.maximum(batch.probs**2 / (batch.probs**2).sum(axis=1, keepdims=True), SMALLEST)
    return batch._replace(probs=probs / probs.sum(axis=1, keepdims=True))


def feature_shift(data: Data, p: np.ndarray, rng: np.random.Generator) -> Batch:
    """Right rates, and rows with a high value of the feature that varies most are more frequent."""
    feature = data.x[:, data.x.std(axis=0).argmax()]
    score = (feature - feature.mean()) / feature.std()
    kept = np.flatnonzero(rng.random(len(score)) < 1 / (1 + np.exp(-2 * score)))
    kept = rng.permutation(kept)[:MAX_ROWS]
    rates = rates_of(data.y[kept], p.shape[1])
    return Batch(p[kept], data.y[kept], br.Rates.exact(rates), rates_of(data.y, p.shape[1]))


SCENARIOS: dict[str, Scenario] = {
    "right rates, nothing changed": off_by(0),
    "right rates, class rates changed": changed_rates,
    "rates off by 2 points": off_by(2),
    "rates off by 5 points": off_by(5),
    "rates off by 12 points": off_by(12),
    f"population rates, stated as exact, {SMALL} rows": small_batch(as_population=False),
    f"population rates, stated as such, {SMALL} rows": small_batch(as_population=True),
    "over-confident model, class rates changed": over_confident,
    "feature shift, right rates": feature_shift,
}


def row(batch: Batch, *, with_old_rates: bool) -> Row:
    """Ask for advice and follow it."""
    advice = br.advise(batch.probs, batch.rates, batch.old if with_old_rates else None)
    answers = {
        "none": lambda: batch.probs,
        "prior": lambda: br.prior_adjust(batch.probs, batch.old, batch.rates).probs,
    }
    followed = answers.get(advice.procedure, lambda: br.adjust(batch.probs, advice.rates, loss=advice.loss).probs)()
    score = br.losses.Log().score
    before = score(batch.probs, batch.y)
    stated = score(br.adjust(batch.probs, batch.rates).probs, batch.y)
    return Row(advice.procedure, advice.doubtful, score(followed, batch.y) - before, stated - before)


def summary(name: str, old: bool, rows: list[Row]) -> str:
    """One line of the table."""
    followed, stated = np.array([r.followed for r in rows]), np.array([r.as_stated for r in rows])
    counts = Counter(r.procedure for r in rows)
    said = ", ".join(f"{procedure} {count / len(rows):.0%}" for procedure, count in counts.most_common())
    doubted = np.mean([r.doubtful for r in rows])
    changes = [f"{values.mean():+.4f} | {(values > RAISED).mean():.0%}" for values in (followed, stated)]
    return f"| {name} | {'yes' if old else 'no'} | {said} | {doubted:.0%} | {' | '.join(changes)} |"


def table(n_batches: int, *, details: bool) -> Iterator[str]:
    """Lines of the table, as they are computed."""
    sets = all_data()
    predictions = {name: predicted(name, data) for name, data in sets.items()}
    yield f"{len(sets)} data sets, {n_batches} batches of each"
    yield "| rates and model | old rates | recommended | doubt named | if followed | raised | as stated | raised |"
    yield "|---|---|---|--:|--:|--:|--:|--:|"
    for number, (scenario, make) in enumerate(SCENARIOS.items()):
        for old in (False, True):
            rows = []
            for i, (name, data) in enumerate(sets.items()):
                for seed in range(n_batches):
                    batch = make(data, predictions[name], np.random.default_rng([number, i, seed]))
                    rows.append(row(batch, with_old_rates=old))
                    if details:
                        yield f"    {name}: {rows[-1]}"
            yield summary(scenario, old, rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=1, help="batches of each data set")
    parser.add_argument("--details", action="store_true", help="also print one line per batch")
    options = parser.parse_args()
    for line in table(options.batches, details=options.details):
        print(line, flush=True)


if __name__ == "__main__":
    main()
