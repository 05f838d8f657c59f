"""What the page answers when a file is replaced while it is open, and when two tabs show the same file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from app_support import animals, run_here
from test_app_analyses import JOB, opened

from baserate.app.analyses import Analyses, Analysis
from baserate.app.answers import exact_answer, further_answer
from baserate.app.commands import shell_text
from baserate.app.jobs import Jobs
from baserate.errors import BadFile

BY_VALIDATION = {"kind": "validation", "validation_labels": "y"}
NUMBER = {"kind": "number", "entries": [{"class": "cat", "low": "20"}]}


class CommandsHere(Jobs):
    """Runs commands in this process, and then calls a function once, as if something happened meanwhile."""

    def __init__(self, meanwhile: Any) -> None:
        self.meanwhile = meanwhile

    def run_command(self, command: Sequence[str], folder: Path, job: Any) -> None:
        run_here([shell_text(list(command))], folder)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()


def test_an_estimate_from_a_replaced_validation_file_is_not_shown_for_the_new_one(tmp_path: Path) -> None:
    analysis = opened(animals(), tmp_path)
    wrong, right = animals(600, seed=1), animals(600, seed=1)
    wrong["y"] = wrong["y"].replace("dog", "cat")

    def upload(table: pd.DataFrame) -> None:
        table.to_csv(analysis.folder / "val.csv", index=False)
        analysis.add_file("validation", "val.csv")

    upload(right)
    jobs = CommandsHere(lambda: None)
    expected = exact_answer(analysis, BY_VALIDATION, jobs, JOB)["rates"]
    upload(wrong)
    jobs = CommandsHere(lambda: upload(right))
    assert exact_answer(analysis, BY_VALIDATION, jobs, JOB)["rates"] != expected  # the page does not wait for it
    assert exact_answer(analysis, BY_VALIDATION, jobs, JOB)["rates"] == expected


def named(path: Path, folder: Path) -> Analysis:
    """Open a file of the user where it is."""
    folder.mkdir()
    files: Any = SimpleNamespace(new_subfolder=lambda: folder)
    return Analyses(files, (path,)).open_named(0)


def test_a_file_that_another_program_changes_is_not_mixed_with_what_was_read(tmp_path: Path) -> None:
    path, jobs = tmp_path / "t.csv", CommandsHere(lambda: None)
    animals().to_csv(path, index=False)
    analysis = named(path, tmp_path / "page")
    exact_answer(analysis, NUMBER, jobs, JOB)
    animals(200, seed=1).to_csv(path, index=False)
    for work in (exact_answer, further_answer, Analysis.write_downloads):
        with pytest.raises(BadFile, match=r"The file t\.csv was changed, .*“Close file”, and open it again"):
            work(analysis, NUMBER, jobs, JOB)  # type: ignore[operator]  # all take these arguments
    assert not list(analysis.folder.rglob("t-adjusted.csv"))


def test_files_are_not_offered_if_another_program_changes_the_input_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    animals().to_csv(path, index=False)
    analysis = named(path, tmp_path / "page")
    jobs = CommandsHere(lambda: animals(200, seed=1).to_csv(path, index=False))
    with pytest.raises(BadFile, match="was changed"):
        analysis.write_downloads(NUMBER, jobs, JOB)
    assert not list(analysis.folder.rglob("t-adjusted.csv"))


def test_a_file_that_was_removed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    animals().to_csv(path, index=False)
    analysis = named(path, tmp_path / "page")
    path.unlink()
    with pytest.raises(BadFile, match=r"The file t\.csv was changed, moved or removed"):
        exact_answer(analysis, NUMBER, CommandsHere(lambda: None), JOB)
