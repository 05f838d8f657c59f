"""The command `baserate study`: its output, its files and its exit codes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from study_support import predictions

from baserate.cli import main
from baserate.study.findings import Findings


def call(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["study", *arguments])


def test_all_steps_run_on_predictions_of_a_user(tmp_path: Path, figures_not_saved: None) -> None:
    file, out = tmp_path / "mine.csv", tmp_path / "out"
    predictions(3).to_csv(file, index=False)
    options = ("--predictions", str(file), "--fold", "fold", "--min-rows", "40", "--sample", "3", "--out", str(out))
    first = call(*options, "--jobs", "1")
    assert first.exit_code == 0, first.output
    assert "With exact rates, BGA for log loss reduces log loss in every task" in first.output
    assert f"wrote {out / 'pages' / 'README.md'}" in first.output
    assert call("claims", "--out", str(out)).stdout == first.stdout, "only the folder is needed"
    as_json = json.loads(call("claims", "--out", str(out), "--json").stdout)
    assert [claim["holds"] for claim in as_json] == [claim.holds for claim in Findings(out).claims]
    corpus = call("corpus", *options)
    assert "3 prediction sets from 1 runs" in corpus.output
    assert "mine/mine: 180 rows, 3 classes, 3 of 3 folds used" in corpus.output


def test_corpus_step_trains_the_selected_models(tmp_path: Path) -> None:
    result = call("corpus", "--datasets", "arrests", "--models", "naive-bayes", "--jobs", "1", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "arrests/naive-bayes: 5226 rows, 2 classes, 10 of 10 folds used\n" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("claims",), "there are no results in"),
        (("pages",), "there are no results in"),
        (("--predictions", "nowhere.parquet"), "nowhere.parquet"),
        (("--datasets", "iris"), "there is no data set 'iris'"),
        (("--min-rows", "2000"), "min_rows is 2000 and max_rows is 1000"),
        (("sideways",), "'sideways' is not one of"),
        (("claims", "--fresh"), "--fresh would delete the results"),
        (("--datasets", ","), "contains no names"),
        (("--seed", "-1"), "-1 is not in the range"),
        (("--label", "outcome"), "--label cannot be used with the offline corpus; add --predictions FILE"),
        (("--predictions", "x.csv", "--models", "logistic"), "--models cannot be used with your own predictions"),
        (("--predictions", "x.csv", "--corpus", "openml"), "--corpus cannot be used with your own predictions"),
        (("--openml-max-tasks", "3"), "--openml-max-tasks cannot be used with the offline corpus"),
    ],
)
def test_errors_are_one_line_with_an_exit_code(tmp_path: Path, arguments: Any, message: str) -> None:
    result = call(*arguments, "--out", str(tmp_path / "out"))
    assert result.exit_code != 0
    assert isinstance(result.exception, SystemExit), "an error message, not a traceback"
    assert message in result.output
    assert len([line for line in result.output.splitlines() if line.startswith("Error: ")]) == 1
    assert not (tmp_path / "out" / "settings.json").exists(), "no study was started"


def test_missing_package_is_reported_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "joblib" else found(name))
    result = call("--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert result.output == 'Error: the study needs joblib: pip install "baserate[study]"\n'
    assert not (tmp_path / "out").exists()


def test_ctrl_c_says_how_to_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictions(1).to_parquet(tmp_path / "mine.parquet")
    monkeypatch.setattr("baserate.study.run.Study.collect", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    result = call("--predictions", str(tmp_path / "mine.parquet"), "--out", str(tmp_path / "out"))
    assert result.exit_code == 130
    assert "run the same command again to resume" in result.output
