"""Compare the confidence sets of ``br.estimate`` with those of QuaPy on the same draws; `make bench` runs this.

Cross-validated predictions for two data sets of scikit-learn are the population. Validation rows and batches are drawn
from it with replacement, and the rates of each batch from the uniform distribution on the simplex. A set covers if it
contains the realised rates of its batch. QuaPy's ``AggregativeBootstrap`` resamples the batch 500 times, its default.
All run on one core, and times are those of the processor, which other load does not change much.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from pages import fill
from sklearn import datasets
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import baserate as br

Array = np.ndarray
OURS = "`br.estimate`"


class Draw(NamedTuple):
    """Validation rows with their labels, the rows of a batch, and its realised rates."""

    p_val: Array
    y_val: Array
    p_new: Array
    rates: Array


class Found(NamedTuple):
    """Whether a set contains the realised rates, and the mean width of its bounds."""

    covers: bool
    width: float


class Row(NamedTuple):
    """A line of the table."""

    data: str
    name: str
    coverage: float
    width: float
    seconds: float


def predictions(name: str, components: int) -> tuple[Array, Array]:
    """Predictions of a model that sees a few principal components: with all features it would hardly make errors."""
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    model = make_pipeline(StandardScaler(), PCA(components, random_state=0), LogisticRegression(max_iter=1000))
    return cross_val_predict(model, x, y, method="predict_proba"), y


def draw(p: Array, y: Array, n_validation: int, n_rows: int, rng: np.random.Generator) -> Draw:
    k = p.shape[1]
    at = rng.integers(len(y), size=n_validation)
    counts = rng.multinomial(n_rows, rng.dirichlet(np.ones(k)))
    rows = np.concatenate([rng.choice(np.flatnonzero(y == c), counts[c]) for c in range(k)])
    return Draw(p[at], y[at], p[rows], counts / n_rows)


def by_moments(at: Draw) -> Found:
    rates = br.estimate(at.p_new, probs_val=at.p_val, y_val=at.y_val, on_refuted="everything")
    low, high = rates.bounds()
    region = rates.region
    inside = region is None or region.distance(at.rates) <= region.radius
    return Found(bool(inside), float((high - low).mean()))


class Given(ClassifierMixin, BaseEstimator):
    """A classifier for QuaPy, whose features are the predictions themselves."""

    def __init__(self, n_classes: int = 2) -> None:
        self.n_classes = n_classes

    def fit(self, x: Array, y: Array) -> Given:
        return self

    @property
    def classes_(self) -> Array:
        return np.arange(self.n_classes)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, x: Array) -> Array:
        return x

    def predict(self, x: Array) -> Array:
        return x.argmax(axis=1)


def by_quapy(method: str, region: str) -> Callable[[Draw], Found]:
    """QuaPy's bootstrap for one of its quantifiers. Intervals are joint, by Bonferroni's inequality."""

    def find(at: Draw) -> Found:
        from joblib import parallel_config
        from quapy.method import aggregative
        from quapy.method.confidence import AggregativeBootstrap

        k = len(at.rates)
        given = getattr(aggregative, method)(Given(k), fit_classifier=False, val_split=None)
        bootstrap = AggregativeBootstrap(given, region=region, bonferroni=True, random_state=0)
        with parallel_config("sequential"):
            _, found = bootstrap.fit(at.p_val, at.y_val).predict_conf(at.p_new)
        low, high = quapy_bounds(found)
        return Found(bool(found.coverage(at.rates)), float((high - low).mean()))

    return find


def quapy_bounds(region: Any) -> tuple[Array, Array]:
    """Bounds of all rates in a region of QuaPy, within 0 and 1."""
    if hasattr(region, "I_low"):
        return region.I_low, region.I_high
    reach = np.sqrt(region.chi2_critical_ * np.diag(region.cov_))
    return np.clip(region.mean_ - reach, 0, 1), np.clip(region.mean_ + reach, 0, 1)


METHODS: dict[str, Callable[[Draw], Found]] = {
    OURS: by_moments,
    "QuaPy, EM (`EMQ`), ellipse": by_quapy("EMQ", "ellipse"),
    "QuaPy, EM (`EMQ`), intervals": by_quapy("EMQ", "intervals"),
    "QuaPy, BBSE (`ACC`), ellipse": by_quapy("ACC", "ellipse"),
}
DATA = {"breast cancer, k = 2": ("breast_cancer", 2), "digits, k = 10": ("digits", 8)}


def compare(title: str, draws: int, n_validation: int, n_rows: int) -> list[Row]:
    """All methods on the same draws. The time is the median over the draws."""
    p, y = predictions(*DATA[title])
    found: dict[str, list[Found]] = {name: [] for name in METHODS}
    seconds: dict[str, list[float]] = {name: [] for name in METHODS}
    rng = np.random.default_rng(0)
    for _ in range(draws):
        at = draw(p, y, n_validation, n_rows, rng)
        for name, method in METHODS.items():
            began = time.process_time()
            found[name].append(method(at))
            seconds[name].append(time.process_time() - began)
    return [
        Row(
            title,
            name,
            float(np.mean([one.covers for one in found[name]])),
            float(np.mean([one.width for one in found[name]])),
            float(np.median(seconds[name])),
        )
        for name in METHODS
    ]


def table(rows: list[Row], draws: int) -> str:
    """A Markdown table, with numbers of covered batches, and times divided by ours."""
    lines = ["| data | confidence set | covered | mean width | time | times ours |", "|---|---|--:|--:|--:|--:|"]
    ours = {row.data: row.seconds for row in rows if row.name == OURS}
    for row in rows:
        ratio = f"{row.seconds / ours[row.data]:,.0f}" if row.name != OURS else "1"
        figures = f"{round(draws * row.coverage)} of {draws} | {row.width:.3f} | {1e3 * row.seconds:,.0f} ms | {ratio}"
        lines.append(f"| {row.data} | {row.name} | {figures} |")
    return "\n".join(lines)


def own_milliseconds(repeats: int, n_validation: int, n_rows: int) -> float:
    """The time of ``br.estimate`` for ten classes alone."""
    at = draw(*predictions(*DATA["digits, k = 10"]), n_validation, n_rows, np.random.default_rng(1))
    seconds = []
    for _ in range(repeats + 1):
        began = time.process_time()
        by_moments(at)
        seconds.append(time.process_time() - began)
    return 1e3 * float(np.median(seconds[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--validation", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--docs", action="store_true", help="write the table into docs/unknown-rates.md")
    options = parser.parse_args()
    sizes = options.validation, options.batch
    alone = own_milliseconds(options.repeats, *sizes)
    print(f"{OURS}: {alone:.1f} ms at k = 10, {sizes[0]} validation rows and {sizes[1]} rows of a batch (goal: <= 25)")
    rows = [row for title in DATA for row in compare(title, options.draws, *sizes)]
    text = table(rows, options.draws)
    print(text)
    if options.docs:
        fill("docs/unknown-rates.md", "quapy", text)


if __name__ == "__main__":
    main()
