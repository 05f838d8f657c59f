"""Predictions as the study reads them: a run is one model on one data set, a prediction set one of its folds.

Every corpus brings its predictions into one form, a Parquet file a run:

``fold``
    int, the fold of the cross-validation in which the row was predicted.
``y``
    string, the true class.
``p_<class>``
    float64, the predicted probability, one column a class.
``x_<feature>``
    float64, numeric features for the covariate shift, NaN where missing. May be absent.

The name of the run, its data set and its model are in the metadata of the file. Nothing is judged when a run is
written: what the study takes is said by :class:`Rules` when the run is read.
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
from baserate.support.atomic_files import whole

_META = b"baserate.run"
_ROW_SUMS = 1e-3  # files with few digits are rounded this much; more than that is not a distribution


@dataclass(frozen=True)
class Rules:
    """Which predictions the study takes; the defaults are the paper's.

    Attributes
    ----------
    min_rows : int
        A prediction set with fewer rows is discarded.
    max_rows : int
        One with more is sampled down to this number.
    max_classes : int
    hard_scores : bool
        Whether a run may hold a score of exactly 0 or 1; under log loss such a score can cost infinitely much.
    """

    min_rows: int = 500
    max_rows: int = 1000
    max_classes: int = 8
    hard_scores: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.min_rows <= self.max_rows:
            raise BadOption(f"min_rows is {self.min_rows} and max_rows {self.max_rows}; there must be 2 <= min <= max")
        if self.max_classes < 2:
            raise BadOption(f"max_classes is {self.max_classes}; there are no classifiers for fewer than 2 classes")


@dataclass(frozen=True, eq=False)
class PredictionSet:
    """Predictions of one model for rows it was not trained on.

    Attributes
    ----------
    name : str
        ``"dataset/model/fold"``, unique in a corpus.
    probs : array of shape (n, k)
    y : array of int
        Column of the true class.
    classes : tuple of str
    features : array of shape (n, d)
    training_rates : array of shape (k,)
        Class rates in the other folds; of a run with one fold its own.
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
class Account:
    """What became of a run: how many of its folds are in the study, and why the others are not."""

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
    """Write a run in the form above; it appears when it is complete."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {"fold": np.asarray(fold, dtype=np.int32), "y": pa.array([str(label) for label in y])}
    columns |= {f"p_{name}": np.ascontiguousarray(probs[:, j]) for j, name in enumerate(classes)}
    columns |= {f"x_{name}": np.asarray(values, dtype=np.float64) for name, values in features.items()}
    about = {"dataset": dataset, "model": model, "classes": list(classes), "source": source}
    table = pa.table(columns).replace_schema_metadata({_META: json.dumps(about)})
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as file:
        pq.write_table(table, file, compression="zstd")


@dataclass(frozen=True, eq=False)
class Run:
    """A run as it was read; ``sets`` are its folds that meet the rules."""

    account: Account
    sets: dict[int, PredictionSet] = field(repr=False)


def read_run(path: Path, rules: Rules, seed: int) -> Run:
    """Read a run file and take the folds that meet the rules."""
    about, whole = _read(path)
    folds = np.unique(whole.fold).tolist()
    sets: dict[int, PredictionSet] = {}
    reason = unfit(whole.probs, about["classes"], rules)
    for number in folds if not reason else []:
        name = f"{about['dataset']}/{about['model']}/{number}"
        rows, why_not = _rows_of(whole, number, rules, seed_of(seed, name, "sample"))
        reason = why_not or reason
        if not why_not:
            p, others = whole.probs[rows], whole.y[whole.fold != number] if len(folds) > 1 else whole.y
            sets[number] = PredictionSet(
                name=name,
                dataset=about["dataset"],
                model=about["model"],
                fold=number,
                probs=p / p.sum(axis=1, keepdims=True),
                y=whole.y[rows],
                classes=tuple(about["classes"]),
                features=whole.features[rows],
                training_rates=np.bincount(others, minlength=len(about["classes"])) / len(others),
            )
    counts = {"rows": len(whole.y), "classes": len(about["classes"]), "folds": len(folds), "taken": len(sets)}
    return Run(Account(about["dataset"], about["model"], **counts, reason=reason, source=about["source"]), sets)


class _Whole(NamedTuple):
    """All rows of a run."""

    fold: IndexArray
    y: IndexArray
    probs: FloatArray
    features: FloatArray


def _read(path: Path) -> tuple[dict[str, Any], _Whole]:
    """What a run file says about itself, and its rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise BadFile(f"{path} is damaged ({error}); delete it, and it will be made again") from None
    try:
        about = json.loads(table.schema.metadata[_META])
    except (KeyError, TypeError):
        raise BadFile(f"{path} is not a run of the study: it says nothing of its data set and model") from None
    position = {name: j for j, name in enumerate(about["classes"])}
    y = np.array([position[label] for label in table["y"].to_pylist()], dtype=np.intp)
    columns = [table[name].to_numpy() for name in table.column_names if name.startswith("x_")]
    features = np.column_stack(columns) if columns else np.empty((len(y), 0))
    probs = np.column_stack([table[f"p_{name}"].to_numpy() for name in about["classes"]])
    return about, _Whole(table["fold"].to_numpy(), y, probs, features)


def _rows_of(whole: _Whole, fold: int, rules: Rules, seed: np.random.SeedSequence) -> tuple[IndexArray, str]:
    """The rows of a fold, at most as many as the rules allow; or why it cannot be taken."""
    inside = whole.fold == fold
    rows = np.flatnonzero(inside)
    if len(rows) < rules.min_rows:
        return rows, f"a fold has fewer than {rules.min_rows} rows"
    trained_on = whole.y if inside.all() else whole.y[~inside]
    if len(np.unique(trained_on)) < whole.probs.shape[1]:
        return rows, "a class does not occur where the model was trained"
    if len(rows) > rules.max_rows:
        rows = np.sort(np.random.default_rng(seed).choice(rows, rules.max_rows, replace=False))
    return rows, ""


def label_text(value: Any) -> str:
    """A class as text: 3.0 and 3 are one class."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def seed_of(seed: int, *names: str) -> np.random.SeedSequence:
    """A seed of one's own for everything that has a name, whatever else is run and in which order."""
    return np.random.SeedSequence([seed, *(zlib.crc32(name.encode()) for name in names)])


def unfit(probs: FloatArray, classes: Sequence[str], rules: Rules) -> str:
    """Why no fold of a run can be taken; empty if nothing speaks against it."""
    if not 2 <= len(classes) <= rules.max_classes:
        return f"{len(classes)} classes"
    if not np.isfinite(probs).all():
        return "a score is missing"
    outside = ((probs < 0) | (probs > 1)).any(axis=1)
    if outside.any():
        row = int(np.argmax(outside))
        value = probs[row].min() if probs[row].min() < 0 else probs[row].max()
        return f"a score is outside [0, 1], {value:g} in row {row}"
    off = np.abs(probs.sum(axis=1) - 1)
    if off.max() > _ROW_SUMS:
        row = int(off.argmax())
        return f"scores do not sum to 1 within {_ROW_SUMS:g}, but to {probs[row].sum():.4f} in row {row}"
    if not rules.hard_scores and (probs.min() == 0 or probs.max() == 1):
        return "a score is exactly 0 or 1"
    return ""
