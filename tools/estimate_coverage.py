"""Simulated coverage of the sets of ``br.estimate``, and the size of its test, under label shift.

Validation rows and batches are drawn with replacement from a set of real predictions with labels. The rates of each
batch are drawn from the uniform distribution on the simplex. A set covers if it contains the realised rates of its
batch.

    python tools/estimate_coverage.py --repetitions 2000 --sets imdb,hpc --validation 200,1000 --batch 200,2000
    python tools/estimate_coverage.py --repetitions 2000 --held-out --jobs 2

The prediction sets are those in ``$BASERATE_DATA/predictions``. The constants of the method were chosen on some of
them; ``--held-out`` takes only others. Without this folder, cross-validated predictions of logistic regression for the
data sets of scikit-learn are used. The draws depend on the seed only, not on the number of processes.

Columns: coverage of the ellipsoid with its Monte Carlo standard error; coverage of the box, which are all rates within
the bounds; mean width of the box, and of the ellipsoid along its axes; how often one of the tests (at 1 and at 0.1 %)
refutes the assumption, which is true here, with its standard error; milliseconds per estimate; draws in which every
class has 2 validation rows.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.engines import open_rows
from baserate.estimation.batch import Batch
from baserate.estimation.calibration import logarithms
from baserate.estimation.estimate import LEVEL, SHARES_LEVEL
from baserate.estimation.exact import exact_bounds
from baserate.estimation.features import class_moments
from baserate.estimation.moments import confidence_region
from baserate.estimation.shares import largest_misfit
from baserate.estimation.validation import row_model
from baserate.inputs.reading import Reading
from baserate.inputs.row_source import RowSource
from baserate.rates.ellipsoids import Ellipsoid
from baserate.support.threads import single_threaded_blas

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
"""Prediction sets on which the constants of the method were chosen."""

HELD_OUT = {
    "pcam_adaboost": ("pycalib_pcam", "adaboost"),
    "pcam_xgboost": ("pycalib_pcam", "xgboost"),
    "pcam_mondrian": ("pycalib_pcam", "mondrian_forest"),
    "pcam_forest": ("pycalib_pcam", "random_forest"),
    "mnist_mlp": ("pycalib_mnist", "mlp1"),
    "mnist_adaboost": ("pycalib_mnist", "adaboost"),
    "mnist_xgboost": ("pycalib_mnist", "xgboost"),
    "mnist_mondrian": ("pycalib_mnist", "mondrian_forest"),
    "mnist_forest": ("pycalib_mnist", "random_forest"),
    "mnist_cv": ("labelerrors_mnist", None),
    "cifar100": ("labelerrors_cifar100_f16", None),
    "cifar100_wide": ("netcal_cifar100_wideresnet", None),
}
"""Prediction sets that were not used to choose constants."""

_INSTALLED = ["sklearn_breast_cancer", "sklearn_digits"]
_CHUNK = 50
"""Draws per random number generator. It does not depend on the number of processes, so neither do the draws."""
_FEWEST_ROWS = 2  # validation rows of each class


class Cell(NamedTuple):
    """Coverage in repeated draws.

    Attributes
    ----------
    coverage, box_coverage : float
        Of the set itself, and of the box of its bounds; equal for ``method="exact"``, whose set is a box.
    width, axes : float
        Mean width of the bounds of a rate, and of the ellipsoid along its axes.
    size : float
        How often one of the tests refutes the assumption, which is true here.
    milliseconds : float
        Mean time of an estimate.
    repetitions : int
        Draws in which every class has enough validation rows.
    """

    coverage: float
    box_coverage: float
    width: float
    axes: float
    size: float
    milliseconds: float
    repetitions: int

    @classmethod
    def mean(cls, draws: list[Draw]) -> Cell:
        """The means over draws."""
        means = np.mean(draws, axis=0) if draws else np.full(len(Draw._fields), np.nan)
        return cls(*means.tolist(), len(draws))

    def error(self, share: float) -> float:
        """The Monte Carlo standard error of a share of the draws."""
        return float(np.sqrt(share * (1 - share) / self.repetitions)) if self.repetitions else np.nan


class Draw(NamedTuple):
    """What is measured in one draw; see :class:`Cell`."""

    covers: bool
    box_covers: bool
    width: float
    axes: float
    refutes: bool
    milliseconds: float


def load(name: str) -> tuple[Array, Array]:
    """Predictions and labels of one set."""
    if name.startswith("sklearn_"):
        return _installed(name.removeprefix("sklearn_"))
    file, model = (SETS | HELD_OUT)[name]
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


def rows_of_classes(y: Array, k: int) -> list[Array]:
    """The rows of each class."""
    return [np.flatnonzero(y == c) for c in range(k)]


def draw(
    probs: Array, y: Array, n_validation: int, n_rows: int, rng: np.random.Generator, of: list[Array] | None = None
) -> tuple[Array, ...]:
    """Validation rows and labels, the rows of a batch, and its realised rates; ``of`` are the rows of each class."""
    k = probs.shape[1]
    of = rows_of_classes(y, k) if of is None else of
    at = rng.integers(len(y), size=n_validation)
    counts = rng.multinomial(n_rows, rng.dirichlet(np.ones(k)))
    rows = np.concatenate([rng.choice(of[c], counts[c]) for c in range(k)])
    return probs[at], y[at], probs[rng.permutation(rows)], counts / n_rows


def simulate(
    probs: Array, y: Array, n_validation: int, n_rows: int, repetitions: int, method: str, seed: int = 0
) -> Cell:
    """Repeat an estimate with new draws."""
    return Cell.mean(draws_of(probs, y, n_validation, n_rows, repetitions, method, seed))


def draws_of(
    probs: Array, y: Array, n_validation: int, n_rows: int, repetitions: int, method: str, seed: int, chunk: int = 0
) -> list[Draw]:
    """Estimates with new draws, and whether they cover."""
    rng, k = np.random.default_rng([seed, n_validation, n_rows, chunk]), probs.shape[1]
    of, found = rows_of_classes(y, k), []
    with single_threaded_blas():
        for _ in range(repetitions):
            p_val, y_val, p_new, rates = draw(probs, y, n_validation, n_rows, rng, of)
            if method == "moments" and np.bincount(y_val, minlength=k).min() >= _FEWEST_ROWS:
                found.append(_by_moments(p_val, y_val, p_new, rates))
            elif method == "exact":
                found.append(_by_confusions(p_val, y_val, p_new, rates))
    return found


def _by_moments(p_val: Array, y_val: Array, p_new: Array, rates: Array) -> Draw:
    start = time.perf_counter()
    batch = Batch.of(open_rows(RowSource(probs=p_new)), row_model(p_new.shape[1], Reading()))
    logs = logarithms(p_val)
    is_spread_otherwise = largest_misfit(batch, logs, y_val).p_value < SHARES_LEVEL
    found = confidence_region(class_moments(batch, logs, y_val), len(p_new), 0.95)
    milliseconds = 1e3 * (time.perf_counter() - start)
    region = Ellipsoid.of(found.centre, found.covariance, found.radius)
    low, high = region.bounds()
    return Draw(
        covers=region.distance(rates) <= found.radius,
        box_covers=_is_between(low, rates, high),
        width=float((high - low).mean()),
        axes=2.0 * found.radius * float(np.linalg.norm(region.root, axis=0).mean()),
        refutes=is_spread_otherwise or found.p_value < LEVEL,
        milliseconds=milliseconds,
    )


def _by_confusions(p_val: Array, y_val: Array, p_new: Array, rates: Array) -> Draw:
    k, start = p_new.shape[1], time.perf_counter()
    batch = Batch.of(open_rows(RowSource(probs=p_new)), row_model(k, Reading()))
    bounds = exact_bounds(batch.most_probable, p_val.argmax(axis=1), y_val, 0.95)
    milliseconds = 1e3 * (time.perf_counter() - start)
    low, high = (np.zeros(k), np.zeros(k)) if bounds is None else (bounds.low, bounds.high)
    covers, width = _is_between(low, rates, high), float((high - low).mean())
    return Draw(covers, covers, width, width, bounds is None, milliseconds)


def _is_between(low: Array, rates: Array, high: Array) -> bool:
    return bool(((rates >= low - 1e-9) & (rates <= high + 1e-9)).all())


def cells(options: argparse.Namespace) -> Iterator[tuple[str, int, int, Cell]]:
    """The results of all cells that the command line names, by several processes."""
    keys = list(itertools.product(options.sets, options.validation, options.batch))
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = [(*key, _submitted(pool, *key, options)) for key in keys]
        for name, n_validation, n_rows, parts in waiting:
            yield name, n_validation, n_rows, Cell.mean([one for part in parts for one in part.result()])


def _submitted(
    pool: ProcessPoolExecutor, name: str, n_validation: int, n_rows: int, options: argparse.Namespace
) -> list[Future[list[Draw]]]:
    """One task per chunk of draws of a cell."""
    n = max(int(options.repetitions * min(1.0, 4000 / n_rows)), 1) if options.fewer else options.repetitions
    chunks = [min(_CHUNK, n - start) for start in range(0, n, _CHUNK)]
    return [
        pool.submit(_chunk, name, n_validation, n_rows, size, options.method, options.seed, number)
        for number, size in enumerate(chunks)
    ]


def _chunk(name: str, *arguments: Any) -> list[Draw]:
    return draws_of(*_loaded(name), *arguments)


_loaded = lru_cache(maxsize=2)(load)  # in each process


def main() -> int:
    """Print a table with one line per cell; the exit code is 1 if a cell is below the stated coverage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--sets", type=lambda text: text.split(","))
    parser.add_argument(
        "--held-out", action="store_true", help="prediction sets that were not used to choose constants"
    )
    for option, sizes in (("--validation", "200,1000,5000"), ("--batch", "200,2000,20000")):
        parser.add_argument(option, type=lambda text: [int(n) for n in text.split(",")], default=sizes)
    parser.add_argument("--method", choices=["moments", "exact"], default="moments")
    parser.add_argument("--fewer", action="store_true", help="fewer repetitions of large batches")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    known = list(HELD_OUT if options.held_out else SETS)
    options.sets = options.sets or (known if os.environ.get("BASERATE_DATA") else _INSTALLED)
    print(
        f"{'set':15}{'validation':>11}{'batch':>8}{'coverage':>17}{'box':>7}{'width':>8}{'axes':>8}{'size':>16}"
        f"{'ms':>7}{'draws':>7}"
    )
    worst = 1.0
    for name, n_validation, n_rows, cell in cells(options):
        if not cell.repetitions:
            print(f"{name:15}{n_validation:11,}{n_rows:8,}  too few validation rows of some class in every draw")
            continue
        print(
            f"{name:15}{n_validation:11,}{n_rows:8,}{cell.coverage:8.4f} ± {cell.error(cell.coverage):.4f}"
            f"{cell.box_coverage:7.3f}{cell.width:8.4f}{cell.axes:8.4f}{cell.size:7.4f} ± {cell.error(cell.size):.4f}"
            f"{cell.milliseconds:7.1f}{cell.repetitions:7,}",
            flush=True,
        )
        worst = min(worst, cell.coverage)
    return int(worst < 0.93)


if __name__ == "__main__":
    sys.exit(main())
