"""A small study of simulated predictions, for the tests of the study."""

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
    """A table as a user may have it: classes a, b, ..., overconfident probabilities, two features and a name."""
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


def make_plan(file: Path, **options: Any) -> Plan:
    return Plan(OwnFiles((str(file),), fold="fold"), SMALL, **options)


def file_of(study: Study) -> Path:
    """The file with the predictions of a study that was planned by :func:`make_plan`."""
    assert isinstance(study.plan.corpus, OwnFiles)
    return Path(study.plan.corpus.files[0])


def run_study(study: Study, jobs: int = 1) -> Findings:
    study.prepare()
    study.run(study.collect(jobs, SILENT), jobs, SILENT)
    return Findings(study.folder)


def same_results(one: Path, other: Path) -> bool:
    """Whether two result files are equal, apart from the times."""
    left, right = (pd.read_parquet(path) for path in (one, other))
    return left.drop(columns="seconds").equals(right.drop(columns="seconds"))


def make_run(path: Path, probs: Any, y: Any, fold: Any, classes: Any = ("a", "b"), **features: Any) -> Path:
    write_run(
        path, dataset="d", model="m", fold=np.asarray(fold), y=y, probs=np.asarray(probs, dtype=float),
        classes=classes, features=features, source="here",
    )  # fmt: skip
    return path
