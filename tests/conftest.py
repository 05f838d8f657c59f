"""Shared by all tests: a deterministic Hypothesis profile, a registered example loss, and a finished study."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import support  # noqa: F401  # registers a loss, so that all tests of losses also run on this example
from hypothesis import settings
from study_support import make_plan, make_run, predictions, run_study

from baserate.study.findings import Findings
from baserate.study.run import Study
from baserate.study.runs import PredictionSet, Rules, read_run

settings.register_profile("default", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("default")

# With several workers, these files run first, in this order. If a long file came last, only one worker would be busy at
# the end.
LONG_FILES = [
    *("test_app", "test_site", "test_certificate", "test_cells", "test_commands", "test_object_stores", "test_study"),
    *("test_report", "test_app_security", "test_kernels", "test_dask", "test_procedure_commands", "test_determinism"),
    *("test_study_findings", "test_gallery", "test_hard_cases", "test_fuzz", "test_displays", "test_architecture"),
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    places = {name: place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


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
