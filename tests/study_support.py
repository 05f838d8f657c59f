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
from baserate.study.tasks import ADJUSTERS, ERRORS

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


def synthetic_results(gain: Any, datasets: int = 10, sets: int = 6, before: float = 0.4) -> pd.DataFrame:
    """Results in which BGA and PPA have known losses, for claims whose verdict is then known.

    ``gain(dataset, rng)`` is by how much BGA reduces the loss more than PPA in a task, relative to the loss before.
    PPA reduces every loss by one tenth, and BGA for the wrong loss reduces it as much as PPA.
    """
    rng = np.random.default_rng(0)
    rows = []
    for dataset in range(datasets):
        for number in range(sets):
            about = {"set": f"d{dataset}/m/{number}", "dataset": f"d{dataset}", "model": "m", "fold": number}
            about |= {"shift": "prior", "amount": rng.uniform(0.1, 0.5), "size": ("high", "medium", "low")[number % 3]}
            about |= {"distance": about["amount"] ** 2 + 0.05 * rng.uniform(), "impossible": None, "converged": True}
            for error in ERRORS:
                better = 0.9 - gain(dataset, rng)
                for adjuster in ADJUSTERS:
                    row = {
                        **about,
                        "error": error,
                        "off": abs(error),
                        "adjuster": adjuster,
                        "guaranteed": 0.0,
                        "passes": 3,
                    }
                    for measure in ("brier", "log"):
                        ratio = better if adjuster == f"bga-{measure}" else 0.9
                        row |= {f"{measure}_before": before, f"{measure}_after": before * ratio}
                        row[f"{measure}_reduction"] = 1 - ratio
                    rows.append(row)
    return pd.DataFrame(rows)
