"""What the page answers when a file is replaced while it is open, and when two tabs show the same file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from app_support import animals, run_here
from test_app_analyses import JOB, opened

from baserate.app.answers import exact_answer
from baserate.app.commands import shell_text

BY_VALIDATION = {"kind": "validation", "validation_labels": "y"}


class CommandsHere:
    """Runs commands in this process, and then calls a function once, as if something happened meanwhile."""

    def __init__(self, meanwhile: Any) -> None:
        self.meanwhile = meanwhile

    def run_command(self, command: list[str], folder: Path, job: Any) -> None:
        run_here([shell_text(command)], folder)
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
    jobs: Any = CommandsHere(lambda: None)
    expected = exact_answer(analysis, BY_VALIDATION, jobs, JOB)["rates"]
    upload(wrong)
    jobs = CommandsHere(lambda: upload(right))
    assert exact_answer(analysis, BY_VALIDATION, jobs, JOB)["rates"] != expected  # the page does not wait for it
    assert exact_answer(analysis, BY_VALIDATION, jobs, JOB)["rates"] == expected
