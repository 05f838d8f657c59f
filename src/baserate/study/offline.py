"""The default corpus: real data from installable packages, cross-validated predictions of several classifiers."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from baserate.errors import BadOption
from baserate.inputs.validation import listed
from baserate.progress import Progress
from baserate.study.corpus import Corpus, in_parallel
from baserate.study.datasets import DATA_SETS, Labelled, load
from baserate.study.runs import seed_of, write_run


def _logistic(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


def _boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


def _adaboost(seed: int) -> Any:
    from sklearn.ensemble import AdaBoostClassifier

    return AdaBoostClassifier(random_state=seed)


def _network(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((32,), early_stopping=True, random_state=seed)


def _bayes(seed: int) -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB()


MODELS: dict[str, Callable[[int], Any]] = {
    "logistic": _logistic,
    "boosting": _boosting,
    "adaboost": _adaboost,
    "network": _network,
    "naive-bayes": _bayes,
}
"""Kinds of classifiers, well and badly calibrated, with scikit-learn's defaults as far as these end in time."""


@dataclass(frozen=True)
class Offline(Corpus):
    """Cross-validated predictions of each model for each data set.

    Attributes
    ----------
    datasets, models : tuple of str
        Names in ``DATA_SETS`` and ``MODELS``.
    folds : int
    max_rows : int
        A larger data set is sampled down before training, so that training ends in minutes.
    seed : int
    """

    datasets: tuple[str, ...] = tuple(dataset.name for dataset in DATA_SETS)
    models: tuple[str, ...] = tuple(MODELS)
    folds: int = 10
    max_rows: int = 10_000
    seed: int = 0
    name: str = field(default="offline", init=False)

    def __post_init__(self) -> None:
        for what, given, known in (
            ("data set", self.datasets, [dataset.name for dataset in DATA_SETS]),
            ("model", self.models, list(MODELS)),
        ):
            unknown = [name for name in given if name not in known]
            if unknown:
                raise BadOption(f"there is no {what} {listed(unknown)}; there are {', '.join(known)}")

    def settings(self) -> dict[str, Any]:
        import sklearn

        return {
            "corpus": self.name,
            "datasets": list(self.datasets),
            "models": list(self.models),
            "folds": self.folds,
            "max_rows": self.max_rows,
            "seed": self.seed,
            "scikit-learn": sklearn.__version__,
        }

    def collect(self, folder: Path, jobs: int, progress: Progress) -> list[Path]:
        plan = {
            folder / f"{dataset}-{model}.parquet": (dataset, model)
            for dataset in self.datasets
            for model in self.models
        }
        missing = [(path, *names) for path, names in plan.items() if not path.exists()]
        progress.begin("training models", len(plan))
        progress.skip(len(plan) - len(missing))
        calls = ((_train, (path, dataset, model, self)) for path, dataset, model in missing)
        for name in in_parallel(calls, jobs):
            progress.note(name)
            progress.rows(1)
        return list(plan)


def _train(path: Path, dataset: str, model: str, corpus: Offline) -> str:
    """Cross-validate one model on one data set and write the run."""
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    rows = _rows(dataset, corpus.max_rows, 2 * corpus.folds, corpus.seed)
    # A number of its own for each data set, so that all models have the same folds.
    seed = int(seed_of(corpus.seed, dataset, "folds").generate_state(1)[0])
    folds = StratifiedKFold(corpus.folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model that has not converged still makes predictions, as anywhere
        probs = cross_val_predict(
            _pipeline(rows, MODELS[model](corpus.seed)), rows.features, rows.y, cv=folds, method="predict_proba"
        )
    fold = np.empty(len(rows.y), dtype=int)
    for number, (_, test) in enumerate(folds.split(rows.features, rows.y)):
        fold[test] = number
    write_run(
        path,
        dataset=dataset,
        model=model,
        fold=fold,
        y=rows.y,
        probs=probs,
        classes=np.unique(rows.y).tolist(),
        features={name: rows.features[name].to_numpy() for name in rows.numeric},
        source=next(entry.source for entry in DATA_SETS if entry.name == dataset),
    )
    return f"{dataset}/{model}"


@functools.lru_cache(maxsize=2)
def _rows(dataset: str, max_rows: int, min_members: int, seed: int) -> Labelled:
    entry = next(entry for entry in DATA_SETS if entry.name == dataset)
    return load(entry, max_rows, min_members, seed)


def _pipeline(rows: Labelled, model: Any) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    one_hot = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=20, sparse_output=False)
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    return make_pipeline(make_column_transformer((numbers, rows.numeric), (one_hot, rows.nominal)), model)
