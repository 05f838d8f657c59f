"""Simulated coverage of the sets of ``br.estimate``, and the size of its test, under label shift.

Validation rows and batches are drawn with replacement from a set of real predictions with labels. The rates of each
batch are drawn from the uniform distribution on the simplex. A set covers if it contains the realised rates of its
batch.

    python tools/estimate_coverage.py --repetitions 2000 --sets imdb,hpc --validation 200,1000 --batch 200,2000

The prediction sets are those in ``$BASERATE_DATA/predictions``. Without this folder, cross-validated predictions of
logistic regression for the data sets of scikit-learn are used.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.engines import open_rows
from baserate.estimation.batch import Batch
from baserate.estimation.calibration import logarithms
from baserate.estimation.estimate import LEVEL
from baserate.estimation.exact import exact_bounds
from baserate.estimation.features import class_moments
from baserate.estimation.moments import confidence_region
from baserate.estimation.validation import row_model
from baserate.inputs.reading import Reading
from baserate.inputs.row_source import RowSource
from baserate.rates.ellipsoids import Ellipsoid

Array = NDArray[Any]

SETS = {
    "imdb": ("labelerrors_imdb", None),
    "games": ("fivethirtyeight_us_games", None),
    "pcam": ("pycalib_pcam", None),
    "hpc": ("tidymodels_hpc_cv", None),
    "lenet": ("netcal_cifar10_lenet", None),
    "wideresnet": ("netcal_cifar10_wideresnet", None),
    "cifar10": ("labelerrors_cifar10", None),
    "20news": ("labelerrors_20news", None),
}


class Cell(NamedTuple):
    """Coverage in repeated draws.

    Attributes
    ----------
    coverage : float
    width : float
        Mean width of the bounds of a rate.
    size : float
        How often the test refutes the assumption, which is true here.
    milliseconds : float
        Mean time of an estimate.
    repetitions : int
        Draws in which every class has enough validation rows.
    """

    coverage: float
    width: float
    size: float
    milliseconds: float
    repetitions: int


def load(name: str) -> tuple[Array, Array]:
    """Predictions and labels of one set."""
    if name.startswith("sklearn_"):
        return _installed(name.removeprefix("sklearn_"))
    file, model = SETS[name]
    arrays = np.load(Path(os.environ["BASERATE_DATA"]) / "predictions" / f"{file}.npz", allow_pickle=True)
    first = next(key for key in arrays.files if key.startswith("p__"))
    probs = np.maximum(arrays[first if model is None else f"p__{model}"].astype(np.float64), 0.0)
    probs = np.column_stack([1.0 - probs, probs]) if probs.ndim == 1 else probs
    return probs / probs.sum(axis=1, keepdims=True), arrays["y"].astype(np.intp)


def _installed(name: str) -> tuple[Array, Array]:
    from sklearn import datasets
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return cross_val_predict(model, x, y, method="predict_proba"), y


def draw(probs: Array, y: Array, n_validation: int, n_rows: int, rng: np.random.Generator) -> tuple[Array, ...]:
    """Validation rows and labels, the rows of a batch, and its realised rates."""
    k = probs.shape[1]
    at = rng.integers(len(y), size=n_validation)
    counts = rng.multinomial(n_rows, rng.dirichlet(np.ones(k)))
    rows = np.concatenate([rng.choice(np.flatnonzero(y == c), counts[c]) for c in range(k)])
    return probs[at], y[at], probs[rng.permutation(rows)], counts / n_rows


def simulate(
    probs: Array, y: Array, n_validation: int, n_rows: int, repetitions: int, method: str, seed: int = 0
) -> Cell:
    """Repeat an estimate with new draws."""
    rng, k = np.random.default_rng([seed, n_validation, n_rows]), probs.shape[1]
    covered, widths, refuted, seconds = [], [], [], 0.0
    for _ in range(repetitions):
        p_val, y_val, p_new, rates = draw(probs, y, n_validation, n_rows, rng)
        if method == "moments" and np.bincount(y_val, minlength=k).min() < 2:
            continue
        start = time.perf_counter()
        batch = Batch.of(open_rows(RowSource(probs=p_new)), row_model(k, Reading()))
        if method == "moments":
            found = confidence_region(class_moments(batch, logarithms(p_val), y_val), n_rows, 0.95)
            seconds += time.perf_counter() - start
            region = Ellipsoid.of(found.centre, found.covariance, found.radius)
            covered.append(region.distance(rates) <= found.radius)
            low, high = region.bounds()
            refuted.append(found.p_value < LEVEL)
        else:
            bounds = exact_bounds(batch.most_probable, p_val.argmax(axis=1), y_val, 0.95)
            seconds += time.perf_counter() - start
            refuted.append(bounds is None)
            low, high = (np.zeros(k), np.zeros(k)) if bounds is None else (bounds.low, bounds.high)
            covered.append(bool(((rates >= low - 1e-9) & (rates <= high + 1e-9)).all()))
        widths.append(float((high - low).mean()))
    n = max(len(covered), 1)
    return Cell(sum(covered) / n, float(np.mean(widths or [0])), sum(refuted) / n, 1e3 * seconds / n, len(covered))


def cells(options: argparse.Namespace) -> Iterator[tuple[str, int, int, Cell]]:
    """The results of all cells that the command line names."""
    for name in options.sets:
        probs, y = load(name)
        for n_validation in options.validation:
            for n_rows in options.batch:
                repetitions = max(int(options.repetitions * min(1.0, 4000 / n_rows)), 1) if options.fewer else None
                n = repetitions or options.repetitions
                yield name, n_validation, n_rows, simulate(probs, y, n_validation, n_rows, n, options.method)


def main() -> int:
    """Print a table with one line per cell; the exit code is 1 if a cell is below the stated coverage."""
    known = list(SETS) if os.environ.get("BASERATE_DATA") else ["sklearn_breast_cancer", "sklearn_digits"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--sets", type=lambda text: text.split(","), default=known)
    for option, sizes in (("--validation", "200,1000,5000"), ("--batch", "200,2000,20000")):
        parser.add_argument(option, type=lambda text: [int(n) for n in text.split(",")], default=sizes)
    parser.add_argument("--method", choices=["moments", "exact"], default="moments")
    parser.add_argument("--fewer", action="store_true", help="fewer repetitions of large batches")
    options = parser.parse_args()
    print(f"{'set':12}{'validation':>11}{'batch':>8}{'coverage':>10}{'width':>8}{'size':>7}{'ms':>7}{'draws':>7}")
    worst = 1.0
    for name, n_validation, n_rows, cell in cells(options):
        print(
            f"{name:12}{n_validation:11,}{n_rows:8,}{cell.coverage:10.3f}{cell.width:8.3f}{cell.size:7.3f}"
            f"{cell.milliseconds:7.1f}{cell.repetitions:7,}",
            flush=True,
        )
        worst = min(worst, cell.coverage)
    return int(worst < 0.93)


if __name__ == "__main__":
    sys.exit(main())
