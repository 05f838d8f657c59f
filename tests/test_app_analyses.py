"""What the page computes from an open file, without a server."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from app_support import animals, run_here

import baserate as br
from baserate.app.analyses import Analyses, Analysis
from baserate.app.answers import exact_answer, further_answer, quick_answer
from baserate.app.commands import compare_command, shell_text
from baserate.app.downloads import downloads
from baserate.app.jobs import Job
from baserate.app.wording import on_page

JOB = Job(lambda job: {}, threading.Semaphore())
NO_JOBS: Any = None  # no command is run
NO_FOLDER: Any = None  # files are put into a folder of the test


def opened(table: pd.DataFrame, folder: Path, name: str = "t.csv") -> Analysis:
    """Open a table as the page does."""
    table.to_csv(folder / name, index=False)
    return Analyses(NO_FOLDER, ()).add(folder, name)


def entries(given: dict[str, str]) -> list[dict[str, str]]:
    return [{"class": name, "low": text} for name, text in given.items()]


def test_rates_and_rates_in_training_have_their_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = tmp_path / "server"
    (server / "page").mkdir(parents=True)
    (server / "rates.json").write_text("{}")  # not a file of the user
    monkeypatch.chdir(server)
    table = animals().rename(columns={"p_cat": "p_cat, wild"})
    table["y"] = table["y"].replace("cat", "cat, wild")
    analysis = opened(table, server / "page")
    new, old = {"cat, wild": "20", "dog": "30", "owl": "50"}, {"cat, wild": "50", "dog": "25", "owl": "25"}
    form = {"kind": "number", "entries": entries(new), "old_rates": entries(old)}
    settings = analysis.settings(form)
    assert {"rates.json", "old-rates.json"} <= set(settings.needed_files) & set(downloads(settings))

    folder = analysis.folder / exact_answer(analysis, form, NO_JOBS, JOB)["folder"]
    shares = json.loads((folder / "old-rates.json").read_text())
    assert shares == {"cat, wild": 0.5, "dog": 0.25, "owl": 0.25}
    further = further_answer(analysis, form, NO_JOBS, JOB)
    probs = table[["p_cat, wild", "p_dog", "p_owl"]].to_numpy()
    rates = [np.array([float(text) / 100 for text in given.values()]) for given in (new, old)]
    found = br.compare(probs, table["y"].to_numpy(), rates[0], rates[1], classes=tuple(new), losses=("log", "brier"))
    shown = {row["procedure"]: [cell[0] for cell in row["cells"]] for row in further["comparison"]["rows"]}
    assert shown == {
        cells[0]: [cells[1], other[1]]
        for cells, other in zip(found.table(0, joint=False).rows, found.table(1, joint=False).rows, strict=True)
    }
    analysis.work.add_inputs(folder, analysis.inputs)
    run_here([shell_text(compare_command(settings))], folder)


@pytest.mark.parametrize(
    ("labelled", "premise"), [(400, "the labels are right"), (200, "the rows with labels were drawn at random")]
)
@pytest.mark.parametrize("other", ["owl", "a, b"])  # rates of such a class need a file
def test_the_guarantee_depends_on_what_is_known(labelled: int, premise: str, other: str, tmp_path: Path) -> None:
    table = animals().rename(columns={"p_owl": f"p_{other}"}).replace({"y": {"owl": other}})
    table["y"] = table["y"].where(table.index < labelled)
    analysis = opened(table, tmp_path)
    form: dict[str, Any] = {"kind": "labels"}
    assert exact_answer(analysis, form, NO_JOBS, JOB)["premise"] == premise
    summary = further_answer(analysis, form, NO_JOBS, JOB)["plausibility"]["summary"]
    assert summary.startswith("The rates were counted" if labelled == 400 else "The rates were estimated")
    form = {"kind": "number", "entries": entries({"cat": "20"})}
    assert exact_answer(analysis, form, NO_JOBS, JOB)["premise"] == "the rates you entered are right"


@pytest.mark.parametrize("held", [True, False])
def test_answers_from_a_sample_count_unequal_weights_as_fewer_rows(
    held: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not held:
        monkeypatch.setattr("baserate.app.what_if.HELD_VALUES", 1000)
    table = animals(7000).loc[lambda t: t.index.repeat(3)]  # every second row is a sample
    table["weight"] = np.where(np.arange(len(table)) % 6000 < 3, 5000, 1)
    analysis = opened(table.drop(columns=["y", "region"]), tmp_path)
    form = {"kind": "population", "entries": entries({"cat": "20", "dog": "30", "owl": "50"})}
    exact = exact_answer(analysis, form, NO_JOBS, JOB)
    assert analysis.loaded is not None
    assert (analysis.loaded.held is not None) == held
    assert not analysis.loaded.sample_is_whole
    assert analysis.loaded.effective_rows < 50
    quick = quick_answer(analysis, analysis.loaded, analysis.settings(form))
    for bound in ("at_least", "at_most"):
        assert [row[bound] for row in quick["rates"]] == [row[bound] for row in exact["rates"]]


def test_labels_of_some_rows_with_weights_are_refused_in_the_words_of_the_page(tmp_path: Path) -> None:
    table = animals()
    table["y"] = table["y"].where(table.index < 200)
    table["weight"] = 1 + table.index % 3
    with pytest.raises(br.BaserateError) as caught:
        exact_answer(opened(table, tmp_path), {"kind": "labels"}, NO_JOBS, JOB)
    assert "(unequal weights count as fewer rows); choose no column with weights in step 1" in on_page(caught.value)
    assert not re.search("sample_weight|br[.]", on_page(caught.value))
