"""What estimated rates do to the loss: sets of ``br.estimate`` and point estimates, with label shift true or violated.

Validation rows and batches are drawn with replacement from real predictions with labels, and the rates of each batch
from the uniform distribution on the simplex. Each procedure adjusts the batch, and the change of its mean log loss is
averaged over batches. A batch whose rates ``br.estimate`` refuses to estimate stays as predicted.

    python tools/estimate_downstream.py --repetitions 200 --sets imdb,hpc --ways true,noise

The prediction sets are those of ``tools/estimate_coverage.py``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from estimate_coverage import load
from numpy.typing import NDArray
from scipy.special import softmax

import baserate as br
from baserate.estimation.calibration import calibrated, fit_calibration, logarithms

Array = NDArray[Any]

SMALLEST = 1e-6  # Predictions of 0 for the true class would make every mean loss infinite.
LABELS = (50, 200, 800)
SETS = {"imdb": "reviews, k = 2", "hpc": "jobs, k = 4", "lenet": "pictures, k = 10", "20news": "posts, k = 20"}


class Sample(NamedTuple):
    """Validation rows with labels, and a batch whose labels only the evaluation sees."""

    p_val: Array
    y_val: Array
    p: Array
    y: Array

    @property
    def rates(self) -> Array:
        return np.bincount(self.y, minlength=self.p.shape[1]) / len(self.y)

    @property
    def old_rates(self) -> Array:
        k = self.p.shape[1]
        return (np.bincount(self.y_val, minlength=k) + 0.5) / (len(self.y_val) + 0.5 * k)


class Population(NamedTuple):
    """Predictions and labels from which rows are drawn."""

    p: Array
    y: Array

    def of_classes(self, y: Array, rng: np.random.Generator, weights: Array | None = None) -> Array:
        """One row number for each label; within a class, rows are drawn with probabilities in proportion to weights."""
        rows = np.empty(len(y), dtype=np.intp)
        for c in np.unique(y):
            members = np.flatnonzero(self.y == c)
            chances = None if weights is None else weights[members] / weights[members].sum()
            rows[y == c] = rng.choice(members, int((y == c).sum()), p=chances)
        return rows

    def draw(self, n_validation: int, n_rows: int, rng: np.random.Generator, way: str) -> Sample:
        """Validation rows of this population, and a batch with other rates in which label shift is violated."""
        k = self.p.shape[1]
        at = rng.integers(len(self.y), size=n_validation)
        while np.bincount(self.y[at], minlength=k).min() < 2:  # moments need two rows of each class
            at = rng.integers(len(self.y), size=n_validation)
        y = rng.choice(k, n_rows, p=rng.dirichlet(np.ones(k)))
        return Sample(self.p[at], self.y[at], *WAYS[way](self, y, rng))


def label_shift(of: Population, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Only the class rates change."""
    return of.p[of.of_classes(y, rng)], y


def noise(of: Population, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Noise of standard deviation 1 on all logits, as from worse measurements."""
    p = of.p[of.of_classes(y, rng)]
    return softmax(np.log(p) + rng.normal(size=p.shape), axis=1), y


def temperature(of: Population, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Logits twice as large: the model is more confident than on the validation rows."""
    return softmax(2.0 * np.log(of.p[of.of_classes(y, rng)]), axis=1), y


def hard_rows(of: Population, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Within each class, only the half of the rows that is predicted worst."""
    own = of.p[np.arange(len(of.y)), of.y]
    medians = np.array([np.median(own[of.y == c]) for c in range(of.p.shape[1])])
    return of.p[of.of_classes(y, rng, (own <= medians[of.y]).astype(float))], y


def concept(of: Population, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """A tenth of the labels is replaced by random classes after the rows were predicted."""
    p, changed = of.p[of.of_classes(y, rng)], rng.random(len(y)) < 0.1
    return p, np.where(changed, rng.integers(of.p.shape[1], size=len(y)), y)


def new_kind(of: Population, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """A quarter of the rows of one class is a kind that is predicted like another class."""
    k = of.p.shape[1]
    one, other = rng.choice(k, 2, replace=False)
    shown = np.where((y == one) & (rng.random(len(y)) < 0.25), other, y)
    return of.p[of.of_classes(shown, rng)], y


def contamination(of: Population, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """A fifth of the predictions belong to other, ordinary rows. No test can notice: other rates explain them."""
    rows = of.of_classes(y, rng)
    wrong = rng.random(len(y)) < 0.2
    return of.p[np.where(wrong, rng.integers(len(of.y), size=len(y)), rows)], y


WAYS: dict[str, Callable[[Population, Array, np.random.Generator], tuple[Array, Array]]] = {
    "true": label_shift,
    "noise": noise,
    "temperature": temperature,
    "hard": hard_rows,
    "concept": concept,
    "kind": new_kind,
    "contamination": contamination,
}


def em_rates(p: Array, old_rates: Array, steps: int = 1000) -> Array:
    """Maximum likelihood by the EM algorithm (Saerens, Latinne, Decaestecker 2002)."""
    rates = old_rates
    for _ in range(steps):
        weighted = p * (rates / old_rates)
        new = (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
        if np.abs(new - rates).max() < 1e-7:
            break
        rates = new
    return np.asarray(new)


def bbse_rates(sample: Sample) -> Array:
    """Black-box shift estimation (Lipton, Wang, Smola 2018): the confusion matrix inverted; negative rates become 0."""
    k = sample.p.shape[1]
    joint = np.zeros((k, k))
    np.add.at(joint, (sample.p_val.argmax(axis=1), sample.y_val), 1.0 / len(sample.y_val))
    predicted = np.bincount(sample.p.argmax(axis=1), minlength=k) / len(sample.p)
    weights = np.linalg.lstsq(joint, predicted, rcond=None)[0]
    rates = np.maximum(weights * sample.old_rates, 0.0)
    return np.asarray(rates / rates.sum() if rates.sum() > 0 else sample.old_rates)


def adjusted(p: Array, rates: Any) -> Array:
    """Predictions adjusted for log loss. Rates of 0 are raised, or one row of this class would have infinite loss."""
    if not isinstance(rates, br.Rates):
        rates = np.maximum(rates, SMALLEST)
        rates = rates / rates.sum()
    return np.asarray(br.adjust(p, rates).probs)


def procedures(sample: Sample, rng: np.random.Generator) -> dict[str, Array | None]:
    """The predictions of the batch after each procedure; None if rates were refused.

    Point estimates go to ``br.adjust`` as exact rates. For EM this is the same as its own posteriors, which are
    ``br.prior_adjust`` to its rates: their mean is these rates, and only one reweighting of the classes has this mean.
    """
    theta = fit_calibration(logarithms(sample.p_val), sample.y_val)
    better = calibrated(logarithms(sample.p), theta)
    found: dict[str, Array | None] = {
        "true rates": adjusted(sample.p, sample.rates),
        "EM": adjusted(sample.p, em_rates(sample.p, sample.old_rates)),
        "BBSE": adjusted(sample.p, bbse_rates(sample)),
        "calibrated EM": adjusted(better, em_rates(better, sample.old_rates)),
        "box": None,
        "ellipsoid": None,
        "calibrate, then ellipsoid": None,
    }
    try:
        rates: Any = br.estimate(sample.p, probs_val=sample.p_val, y_val=sample.y_val)
    except br.errors.AssumptionRefuted:
        pass
    else:
        found["box"] = adjusted(sample.p, br.Rates.between(*rates.bounds()))
        found["ellipsoid"] = adjusted(sample.p, rates)
        found["calibrate, then ellipsoid"] = adjusted(better, rates.without_batch())
    for size in LABELS:
        drawn = br.draw_rows(sample.p, size, random_state=rng)
        rates = br.estimate(sample.p, labelled=drawn, y_labelled=sample.y[drawn.rows])
        found[f"{size} labels"] = adjusted(sample.p, rates)
    return found


class Line(NamedTuple):
    """The results of one procedure in one cell.

    Attributes
    ----------
    change : float
        Mean change of log loss, in thousandths of a nat.
    rises : float
        Share of batches in which log loss rises.
    refused : float
        Share of batches in which no rates were estimated.
    """

    change: float
    rises: float
    refused: float


def simulate(name: str, way: str, n_validation: int, n_rows: int, repetitions: int) -> dict[str, Line]:
    """Repeat one cell with new draws."""
    p, y = load(name)
    p = np.maximum(p, SMALLEST)
    of = Population(p / p.sum(axis=1, keepdims=True), y)
    rng = np.random.default_rng([list(WAYS).index(way), n_validation, n_rows])
    changes: dict[str, list[float]] = {}
    for _ in range(repetitions):
        sample = of.draw(n_validation, n_rows, rng, way)
        before = log_loss(sample.p, sample.y)
        for procedure, after in procedures(sample, rng).items():
            change = np.nan if after is None else log_loss(after, sample.y) - before
            changes.setdefault(procedure, []).append(change)
    return {procedure: _line(np.array(values)) for procedure, values in changes.items()}


def _line(changes: Array) -> Line:
    refused, changes = np.isnan(changes), np.nan_to_num(changes)
    return Line(1e3 * float(changes.mean()), float((changes > 1e-9).mean()), float(refused.mean()))


def log_loss(p: Array, y: Array) -> float:
    """Mean log loss."""
    return float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-300)).mean())


Cells = dict[tuple[str, str], dict[str, Line]]


def cells(options: argparse.Namespace) -> Cells:
    """The results of all cells that the command line names, by way and prediction set."""
    found: Cells = {}
    for way in options.ways:
        repetitions = options.repetitions if way == "true" else options.violated
        for name in options.sets:
            found[way, name] = simulate(name, way, options.validation, options.batch, repetitions)
            print(way, name, *(f"{p} {line.change:.0f}" for p, line in found[way, name].items()), sep=", ", flush=True)
    return found


def true_table(found: Cells) -> str:
    """A column per prediction set: change and share of rises."""
    columns = {SETS.get(name, name): lines for (way, name), lines in found.items() if way == "true"}
    rows = [[p, *(_cell(lines[p]) for lines in columns.values())] for p in next(iter(columns.values()))]
    kept = [_percent(lines["ellipsoid"].change / lines["true rates"].change) for lines in columns.values()]
    refused = [_percent(lines["ellipsoid"].refused) for lines in columns.values()]
    return _markdown(["", *columns], [*rows, ["*kept by the ellipsoid*", *kept], ["*refused*", *refused]])


def violated_table(found: Cells) -> str:
    """A column per way to violate label shift, with means over the prediction sets."""
    ways = list(dict.fromkeys(way for way, _ in found if way != "true"))
    means = {way: _mean_lines([lines for (one, _), lines in found.items() if one == way]) for way in ways}
    means["all"] = _mean_lines([lines for (way, _), lines in found.items() if way != "true"])
    rows = [[p, *(_cell(lines[p]) for lines in means.values())] for p in means["all"]]
    refused = [_percent(lines["ellipsoid"].refused) for lines in means.values()]
    return _markdown(["", *means], [*rows, ["*refused*", *refused]])


def _mean_lines(several: list[dict[str, Line]]) -> dict[str, Line]:
    return {p: Line(*np.mean([lines[p] for lines in several], axis=0)) for p in several[0]}


def _cell(line: Line) -> str:
    return f"{line.change:.0f} / {_per_hundred(line.rises)}".replace("-", "\N{MINUS SIGN}").replace(
        "\N{MINUS SIGN}0 ", "0 "
    )


def _percent(share: Any) -> str:
    return _per_hundred(share) + " %"


def _per_hundred(share: Any) -> str:
    return f"{100 * share:.1f}".removesuffix(".0")


def _markdown(heading: list[str], rows: list[list[str]]) -> str:
    lines = [heading, ["---", *["--:"] * (len(heading) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> int:
    """Print both tables: the mean change in thousandths of a nat, and the share of batches in which the loss rises."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100, help="batches per prediction set")
    parser.add_argument("--violated", type=int, default=30, help="batches per set and way to violate label shift")
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(SETS))
    parser.add_argument("--ways", type=lambda text: text.split(","), default=list(WAYS))
    parser.add_argument("--validation", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=2000)
    found = cells(parser.parse_args())
    if any(way == "true" for way, _ in found):
        print(f"\nlabel shift true\n\n{true_table(found)}")
    if any(way != "true" for way, _ in found):
        print(f"\nlabel shift violated\n\n{violated_table(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
