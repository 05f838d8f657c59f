"""A small study of made-up predictions, for the tests of the study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from baserate.progress import SILENT
from baserate.study.findings import Findings
from baserate.study.own import OwnFiles
from baserate.study.run import Plan, Study
from baserate.study.runs import Rules, write_run

SMALL = Rules(min_rows=40, max_rows=60)


def predictions(folds: int, rows: int = 60, k: int = 3, seed: int = 0) -> pd.DataFrame:
    """A file as a user would have it: classes a, b, ...; over-confident probabilities; two features and a name."""
    rng = np.random.default_rng(seed)
    n = folds * rows
    y = rng.choice(k, size=n, p=[0.55, *np.full(k - 1, 0.45 / (k - 1))])
    logits = rng.normal(size=(n, k)) + 1.5 * np.eye(k)[y]
    p = np.exp(1.5 * logits)
    p /= p.sum(axis=1, keepdims=True)
    names = "abcdefgh"[:k]
    frame = pd.DataFrame({"y": np.array(list(names))[y], "fold": np.repeat(np.arange(folds), rows)})
    frame = frame.assign(**{f"p_{name}": p[:, j] for j, name in enumerate(names)})
    return frame.assign(age=rng.normal(size=n) + (y == 0), size=rng.normal(size=n), name="x")


def plan_of(file: Path, **options: Any) -> Plan:
    return Plan(OwnFiles((str(file),), fold="fold"), SMALL, **options)


def done(study: Study, jobs: int = 1) -> Findings:
    study.begin()
    study.run(study.collect(jobs, SILENT), jobs, SILENT)
    return Findings(study.folder)


def the_same(one: Path, other: Path) -> bool:
    left, right = (pd.read_parquet(path) for path in (one, other))
    return left.drop(columns="seconds").equals(right.drop(columns="seconds"))


def make_run(path: Path, probs: Any, y: Any, fold: Any, classes: Any = ("a", "b"), **features: Any) -> Path:
    write_run(
        path, dataset="d", model="m", fold=np.asarray(fold), y=y, probs=np.asarray(probs, dtype=float),
        classes=classes, features=features, source="here",
    )  # fmt: skip
    return path
