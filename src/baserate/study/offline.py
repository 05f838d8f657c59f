"""The default corpus: cross-validated predictions of several classifiers on data sets from installable packages."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from baserate.errors import BadOption
from baserate.inputs.validation import quoted
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
"""Well and badly calibrated classifiers, with scikit-learn's defaults except where training would take too long."""


@dataclass(frozen=True)
class Offline(Corpus):
    """Cross-validated predictions of every model on every data set.

    Attributes
    ----------
    datasets, models : tuple of str
        Names in ``DATA_SETS`` and ``MODELS``.
    folds : int
    max_rows : int
        Larger data sets are sampled down to this number of rows, so that training takes only minutes.
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
                raise BadOption(f"there is no {what} {quoted(unknown)}; choose from {', '.join(known)}")

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
    """Cross-validate one model on one data set, write the run file, and return the name of the run."""
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    rows = _load_cached(dataset, corpus.max_rows, 2 * corpus.folds, corpus.seed)
    # The seed depends only on the data set, so that all models have the same folds.
    seed = int(seed_of(corpus.seed, dataset, "folds").generate_state(1)[0])
    folds = StratifiedKFold(corpus.folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # models that have not converged are used as well, as in practice
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
def _load_cached(dataset: str, max_rows: int, min_members: int, seed: int) -> Labelled:
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
