"""Run files, the common format of all predictions in the study.

A run contains the predictions of one model on one data set. A prediction set is one fold of a run. Every corpus writes
one Parquet file per run, with these columns:

``fold``
    int, the fold of the cross-validation in which the row was predicted.
``y``
    string, the true class.
``p_<class>``
    float64, the predicted probability, one column per class.
``x_<feature>``
    float64, optional: numeric features for the covariate shift, NaN where missing.

The metadata of the file contain the names of the data set and of the model. A run is written whatever its quality;
:class:`Rules` decides, when the run is read, which of its folds are used.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baserate.errors import BadFile, BadOption
from baserate.support.arrays import FloatArray, IndexArray
from baserate.support.atomic_files import write_atomically

_META = b"baserate.run"
_ROW_SUM_TOLERANCE = 1e-3  # probabilities in files are often rounded to a few digits


@dataclass(frozen=True)
class Rules:
    """Which predictions the study uses; the defaults are the paper's.

    Attributes
    ----------
    min_rows : int
        Prediction sets with fewer rows are discarded.
    max_rows : int
        Prediction sets with more rows are sampled down to this number.
    max_classes : int
        Runs with more classes are discarded.
    hard_scores : bool
        Whether runs with scores of exactly 0 or 1 are used. Such scores can make the log loss infinite.
    """

    min_rows: int = 500
    max_rows: int = 1000
    max_classes: int = 8
    hard_scores: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.min_rows <= self.max_rows:
            raise BadOption(
                f"min_rows is {self.min_rows} and max_rows is {self.max_rows}; 2 <= min_rows <= max_rows is required"
            )
        if self.max_classes < 2:
            raise BadOption(f"max_classes is {self.max_classes}, but it must be at least 2")


@dataclass(frozen=True, eq=False)
class PredictionSet:
    """Predictions of one model for rows that it was not trained on.

    Attributes
    ----------
    name : str
        ``"dataset/model/fold"``, unique within a corpus.
    probs : array of shape (n, k)
    y : array of int
        Position of the true class of each row.
    classes : tuple of str
    features : array of shape (n, d)
    training_rates : array of shape (k,)
        Class rates in the other folds. If the run has only one fold, the class rates in that fold.
    """

    name: str
    dataset: str
    model: str
    fold: int
    probs: FloatArray
    y: IndexArray
    classes: tuple[str, ...]
    features: FloatArray
    training_rates: FloatArray


@dataclass(frozen=True)
class RunSummary:
    """How many folds of a run the study uses (``taken``), and why it does not use the others (``reason``)."""

    dataset: str
    model: str
    rows: int
    classes: int
    folds: int
    taken: int
    reason: str
    source: str


def write_run(
    path: Path,
    *,
    dataset: str,
    model: str,
    fold: NDArray[Any],
    y: Sequence[str] | NDArray[Any],
    probs: FloatArray,
    classes: Sequence[str],
    features: Mapping[str, FloatArray],
    source: str,
) -> None:
    """Write a run file atomically."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {"fold": np.asarray(fold, dtype=np.int32), "y": pa.array([str(label) for label in y])}
    columns |= {f"p_{name}": np.ascontiguousarray(probs[:, j]) for j, name in enumerate(classes)}
    columns |= {f"x_{name}": np.asarray(values, dtype=np.float64) for name, values in features.items()}
    about = {"dataset": dataset, "model": model, "classes": list(classes), "source": source}
    table = pa.table(columns).replace_schema_metadata({_META: json.dumps(about)})
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(path) as file:
        pq.write_table(table, file, compression="zstd")


@dataclass(frozen=True, eq=False)
class Run:
    """A run that was read from its file; ``sets`` contains the folds that meet the rules."""

    summary: RunSummary
    sets: dict[int, PredictionSet] = field(repr=False)


def read_run(path: Path, rules: Rules, seed: int) -> Run:
    """Read a run file and select the folds that meet the rules."""
    about, data = _read(path)
    folds = np.unique(data.fold).tolist()
    sets: dict[int, PredictionSet] = {}
    reason = rejection_reason(data.probs, about["classes"], rules)
    for number in folds if not reason else []:
        name = f"{about['dataset']}/{about['model']}/{number}"
        rows, why_rejected = _select_rows(data, number, rules, seed_of(seed, name, "sample"))
        reason = why_rejected or reason
        if not why_rejected:
            p, others = data.probs[rows], data.y[data.fold != number] if len(folds) > 1 else data.y
            sets[number] = PredictionSet(
                name=name,
                dataset=about["dataset"],
                model=about["model"],
                fold=number,
                probs=p / p.sum(axis=1, keepdims=True),
                y=data.y[rows],
                classes=tuple(about["classes"]),
                features=data.features[rows],
                training_rates=np.bincount(others, minlength=len(about["classes"])) / len(others),
            )
    counts = {"rows": len(data.y), "classes": len(about["classes"]), "folds": len(folds), "taken": len(sets)}
    return Run(RunSummary(about["dataset"], about["model"], **counts, reason=reason, source=about["source"]), sets)


class _AllRows(NamedTuple):
    """All rows of a run."""

    fold: IndexArray
    y: IndexArray
    probs: FloatArray
    features: FloatArray


def _read(path: Path) -> tuple[dict[str, Any], _AllRows]:
    """The metadata and the rows of a run file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise BadFile(f"{path} is damaged ({error}); delete it and run the study again to recreate it") from None
    try:
        about = json.loads(table.schema.metadata[_META])
    except (KeyError, TypeError):
        raise BadFile(f"{path} is not a run file of the study: it does not name its data set and model") from None
    position = {name: j for j, name in enumerate(about["classes"])}
    y = np.array([position[label] for label in table["y"].to_pylist()], dtype=np.intp)
    columns = [table[name].to_numpy() for name in table.column_names if name.startswith("x_")]
    features = np.column_stack(columns) if columns else np.empty((len(y), 0))
    probs = np.column_stack([table[f"p_{name}"].to_numpy() for name in about["classes"]])
    return about, _AllRows(table["fold"].to_numpy(), y, probs, features)


def _select_rows(data: _AllRows, fold: int, rules: Rules, seed: np.random.SeedSequence) -> tuple[IndexArray, str]:
    """The rows of a fold, sampled down to ``max_rows``, and the reason why the fold is rejected, or ""."""
    in_fold = data.fold == fold
    rows = np.flatnonzero(in_fold)
    if len(rows) < rules.min_rows:
        return rows, f"a fold has fewer than {rules.min_rows} rows"
    training_labels = data.y if in_fold.all() else data.y[~in_fold]
    if len(np.unique(training_labels)) < data.probs.shape[1]:
        return rows, "a class does not occur in the training data"
    if len(rows) > rules.max_rows:
        rows = np.sort(np.random.default_rng(seed).choice(rows, rules.max_rows, replace=False))
    return rows, ""


def label_text(value: Any) -> str:
    """A class label as text; 3.0 and 3 are the same class."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def seed_of(seed: int, *names: str) -> np.random.SeedSequence:
    """A random seed that depends only on the given seed and names, not on the order of computations."""
    return np.random.SeedSequence([seed, *(zlib.crc32(name.encode()) for name in names)])


def rejection_reason(probs: FloatArray, classes: Sequence[str], rules: Rules) -> str:
    """Why a run is rejected, or "" if it meets the rules."""
    if not 2 <= len(classes) <= rules.max_classes:
        return f"the number of classes is {len(classes)}, not 2 to {rules.max_classes}"
    if not np.isfinite(probs).all():
        return "a score is missing"
    outside = ((probs < 0) | (probs > 1)).any(axis=1)
    if outside.any():
        row = int(np.argmax(outside))
        value = probs[row].min() if probs[row].min() < 0 else probs[row].max()
        return f"a score is outside [0, 1], {value:g} in row {row}"
    error = np.abs(probs.sum(axis=1) - 1)
    if error.max() > _ROW_SUM_TOLERANCE:
        row = int(error.argmax())
        return f"the scores of row {row} sum to {probs[row].sum():.4f}, not to 1 within {_ROW_SUM_TOLERANCE:g}"
    if not rules.hard_scores and (probs.min() == 0 or probs.max() == 1):
        return "a score is exactly 0 or 1"
    return ""
