"""What all tests share: a seeded Hypothesis profile, the losses that the battery runs on, a study to look at."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import settings
from study_support import done, make_run, plan_of, predictions

from baserate.study.findings import Findings
from baserate.study.run import Study
from baserate.study.runs import PredictionSet, Rules, read_run

ROOT = Path(__file__).parents[1]

settings.register_profile("default", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("default")

# The one line that puts a loss of one's own through the whole battery: import the file that registers it.
_spec = importlib.util.spec_from_file_location("hierarchical_log", ROOT / "examples" / "hierarchical_log.py")
assert _spec is not None
assert _spec.loader is not None
_spec.loader.exec_module(importlib.util.module_from_spec(_spec))


@pytest.fixture
def real_predictions() -> Path:
    """Folder of real predictions; tests that want it are skipped where it is not given."""
    folder = os.environ.get("BASERATE_DATA")
    if not folder:
        pytest.skip("BASERATE_DATA is not set")
    return Path(folder)


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A small study that has been run."""
    folder = tmp_path_factory.mktemp("study")
    predictions(6).to_parquet(folder / "mine.parquet")
    work = Study(folder / "out", plan_of(folder / "mine.parquet"))
    done(work)
    return work


@pytest.fixture(scope="session")
def findings(study: Study) -> Findings:
    return Findings(study.folder)


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
