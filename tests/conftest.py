"""Shared by all tests: a deterministic Hypothesis profile, a registered example loss, and a finished study."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from study_support import make_plan, make_run, predictions, run_study

from baserate.study.findings import Findings
from baserate.study.run import Study
from baserate.study.runs import PredictionSet, Rules, read_run

ROOT = Path(__file__).parents[1]

settings.register_profile("default", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("default")

# Importing the file registers its loss, so that all tests of losses also run on this example.
_spec = importlib.util.spec_from_file_location("hierarchical_log", ROOT / "examples" / "hierarchical_log.py")
assert _spec is not None
assert _spec.loader is not None
sys.modules["hierarchical_log"] = importlib.util.module_from_spec(_spec)  # so that it is not imported a second time
_spec.loader.exec_module(sys.modules["hierarchical_log"])


@pytest.fixture
def real_predictions() -> Path:
    """Folder of real predictions; tests that use it are skipped if it is not set."""
    folder = os.environ.get("BASERATE_DATA")
    if not folder:
        pytest.skip("BASERATE_DATA is not set")
    return Path(folder)


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A small, finished study."""
    folder = tmp_path_factory.mktemp("study")
    predictions(6).to_parquet(folder / "mine.parquet")
    small = Study(folder / "out", make_plan(folder / "mine.parquet"))
    run_study(small)
    return small


@pytest.fixture(scope="session")
def tiny_study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A finished study of 3 prediction sets and 2 errors, for tests that run the same study again."""
    folder = tmp_path_factory.mktemp("tiny")
    predictions(3).to_parquet(folder / "mine.parquet")
    tiny = Study(folder / "out", make_plan(folder / "mine.parquet", errors=(0.0, 0.02)))
    run_study(tiny)
    return tiny


@pytest.fixture(scope="session")
def findings(study: Study) -> Findings:
    return Findings(study.folder)


@pytest.fixture
def figures_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of a page are drawn but not saved, for tests of its text; saving them takes most of the time."""
    import matplotlib.pyplot as plt

    from baserate.study.figures import FIGURES, draw

    def draw_all(frame: Any, folder: Path) -> list[Path]:
        for name in FIGURES:
            plt.close(draw(frame, name))
        return []

    monkeypatch.setattr("baserate.study.page.save_all", draw_all)


@pytest.fixture(scope="session")
def one_set(tmp_path_factory: pytest.TempPathFactory) -> PredictionSet:
    frame, folder = predictions(2, rows=200), tmp_path_factory.mktemp("run")
    path = make_run(
        folder / "run.parquet",
        frame[["p_a", "p_b", "p_c"]],
        frame["y"],
        frame["fold"],
        "abc",
        age=frame["age"].to_numpy(),
    )
    return read_run(path, Rules(50, 500), seed=0).sets[0]
