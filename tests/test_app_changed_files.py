"""What the page answers when a file is replaced while it is open, and when two tabs show the same file."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from app_support import animals, run_here
from test_app_analyses import JOB, opened

from baserate.app.analyses import Analyses, Analysis
from baserate.app.answers import exact_answer, further_answer, quick_answer
from baserate.app.commands import shell_text
from baserate.app.jobs import Jobs
from baserate.app.private_folder import PrivateFolder
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


def test_files_of_two_tabs_are_kept_apart(tmp_path: Path) -> None:
    analysis, jobs = opened(animals(), tmp_path), CommandsHere(lambda: None)

    def written(share: str) -> Path:
        form = NUMBER | {"entries": [{"class": "cat", "low": share}]}
        folder, files = analysis.write_downloads(form, jobs, JOB)
        assert {"t-adjusted.csv", "shift.json", "report.html"} < set(files)
        path = analysis.written(folder, "t-adjusted.csv")
        assert path is not None
        return path

    first, second = written("20"), written("80")
    assert pd.read_csv(first)["p_cat"].mean() == pytest.approx(0.2, abs=1e-5)
    assert pd.read_csv(second)["p_cat"].mean() == pytest.approx(0.8, abs=1e-5)
    for share in ("30", "40"):
        written(share)
    assert not first.exists()  # the number of large files is limited
    assert analysis.written(first.parent.name, first.name) is None
    assert second.exists()


def test_entered_rates_of_other_answers_do_not_change_a_file_that_is_offered(tmp_path: Path) -> None:
    table = pd.DataFrame(np.full((30, 20), 0.05), columns=[f"p_{j:02d}" for j in range(20)])
    analysis, jobs = opened(table, tmp_path), CommandsHere(lambda: None)

    def form(share: str) -> dict[str, Any]:
        return NUMBER | {"entries": [{"class": f"{j:02d}", "low": share} for j in range(15)]}

    page = exact_answer(analysis, form("2"), jobs, JOB)
    assert list(page["needed_files"]) == ["rates.json"]
    path = analysis.written(page["folder"], "rates.json")
    assert path is not None
    assert analysis.loaded is not None
    quick_answer(analysis, analysis.loaded, analysis.settings(form("3")))
    exact_answer(analysis, form("4"), jobs, JOB)
    further_answer(analysis, form("5"), jobs, JOB)
    assert set(json.loads(path.read_text()).values()) == {0.02}
    assert not list(analysis.folder.glob(".*"))


def test_named_files_that_cannot_be_read_have_a_message(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(BadFile, match=r"folder\.csv contains no files"):
        named(tmp_path / "folder.csv", tmp_path / "first")
    with pytest.raises(BadFile, match=r"[Tt]here is no file .*gone\.csv"):
        named(tmp_path / "gone.csv", tmp_path / "second")


def test_a_full_disk_is_a_message_and_not_an_internal_error() -> None:
    pytest.importorskip("starlette")
    from baserate.app.views import Views

    async def upload(request: Any) -> Any:
        path = folder.path / "0123456789abcdef" / ".0123.part" / "a.csv"
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    folder = PrivateFolder()
    try:
        views = Views("", Analyses(folder, ()), Jobs(folder), 10**6)
        view: Any = views._with_messages(upload)
        answer = asyncio.run(view(None))
        assert json.loads(bytes(answer.body)) == {"problem": "No space left on device: a.csv"}
    finally:
        folder.remove()


def test_commands_of_a_file_whose_name_begins_like_an_option_can_be_run(tmp_path: Path) -> None:
    analysis, jobs = opened(animals(), tmp_path, "-x.csv"), CommandsHere(lambda: None)
    page = exact_answer(analysis, NUMBER, jobs, JOB)
    assert page["commands"][0].startswith("baserate adjust ./-x.csv ")
    folder, files = analysis.write_downloads(NUMBER, jobs, JOB)
    assert "-x-adjusted.csv" in files
    assert analysis.written(folder, "-x-adjusted.csv") is not None
    run_here([page["compares"]], tmp_path)
    animals(600, seed=1).to_csv(tmp_path / "val.csv", index=False)
    analysis.add_file("validation", "val.csv")
    assert exact_answer(analysis, BY_VALIDATION, jobs, JOB)["commands"][0].startswith("baserate rates ./-x.csv ")
