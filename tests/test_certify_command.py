"""The command ``baserate certify``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import run_command

import baserate as br


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files with old and new predictions, and a saved shift."""
    rng = np.random.default_rng(0)
    for name, n in (("old", 200), ("new", 300)):
        ill = rng.beta(1, 2, size=n)
        region = rng.choice(["north", "south"], size=n)
        frame = pd.DataFrame({"id": range(n), "healthy": 1 - ill, "ill": ill, "region": region, "w": 1 + ill})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    old = pd.read_csv(tmp_path / "old.csv")[["healthy", "ill"]]
    br.adjust(old, {"ill": 0.2, "healthy": 0.8}).save(tmp_path / "shift.json")
    return tmp_path


def certified(folder: Path, *arguments: str, code: int = 0) -> Any:
    done = run_command(folder, "certify", "new.csv", "--shift", "shift.json", *arguments, "--json", code=code)
    return json.loads(done.stdout)


def test_the_figures_are_those_of_the_library(folder: Path) -> None:
    found = certified(folder, "--rates", "ill=0.15..0.25", "--refit", "--weight", "w")
    frame = pd.read_csv(folder / "new.csv")
    result, rates = br.load(folder / "shift.json"), br.Rates.between({"ill": 0.15}, {"ill": 0.25})
    probs = frame[["healthy", "ill"]]
    wanted = result.certify(probs, rates, sample_weight=frame["w"])
    assert found["loss_reduction"] == pytest.approx(wanted.loss_reduction, rel=1e-9)
    assert found["rows"] == 300
    refit = br.adjust(probs, rates, sample_weight=frame["w"]).certificate.loss_reduction
    assert found["refit"] == pytest.approx(refit, rel=1e-9)
    assert found["action"] in ("keep", "refit", "nothing")


def test_the_bound_for_a_population_is_that_of_the_library(folder: Path) -> None:
    found = certified(folder, "--rates", "counts:ill=40,healthy=160", "--population", "--confidence", "0.9")
    probs = pd.read_csv(folder / "new.csv")[["healthy", "ill"]]
    survey = br.Rates.from_counts({"ill": 40, "healthy": 160}, confidence=0.9)
    wanted = br.load(folder / "shift.json").certify(probs, survey).for_population(0.9)
    assert found["population"]["loss_reduction"] == pytest.approx(wanted.loss_reduction, rel=1e-9)
    assert "95 % for the rows, 95 % for the rates" in found["population"]["condition"]


def test_the_text_says_what_is_guaranteed_and_on_which_condition(folder: Path) -> None:
    text = run_command(
        folder,
        "certify",
        "new.csv",
        "--shift",
        "shift.json",
        "--rates",
        "ill=0.2,healthy=0.8",
        "--population",
        "--refit",
    ).stdout
    assert "mean log loss falls by at least" in text
    assert "if these rows have the given class rates" in text
    assert "rows to come" in text
    assert "action" in text
    quiet = run_command(
        folder, "certify", "new.csv", "--shift", "shift.json", "--rates", "ill=0.2,healthy=0.8", "--quiet"
    )
    assert quiet.stdout == ""


def test_the_exit_code_tells_a_pipeline_whether_enough_is_guaranteed(folder: Path) -> None:
    certified(folder, "--rates", "ill=0.2,healthy=0.8", "--at-least", "0")
    found = certified(folder, "--rates", "ill=0.8,healthy=0.2", "--at-least", "0", code=4)
    assert found["loss_reduction"] < 0


def test_the_exit_code_is_about_the_population_if_it_was_asked_for(folder: Path) -> None:
    call = ("--rates", "ill=0.2,healthy=0.8", "--population", "--at-least")
    found = certified(folder, *call, "-1")
    rows, population = found["loss_reduction"], found["population"]["loss_reduction"]
    assert population < rows
    between = str((population + rows) / 2)
    certified(folder, *call, between, code=4)
    certified(folder, "--rates", "ill=0.2,healthy=0.8", "--at-least", between)


def test_rows_of_the_fit_guarantee_nothing_for_a_population(folder: Path) -> None:
    call = ("certify", "old.csv", "--shift", "shift.json", "--rates", "ill=0.2,healthy=0.8", "--at-least", "-1")
    run_command(folder, *call)
    assert "the bound does not hold" in " ".join(run_command(folder, *call, "--population", code=4).stdout.split())


def test_shifts_of_groups_are_certified_by_their_rates(folder: Path) -> None:
    (folder / "regions.csv").write_text("region,healthy,ill\nnorth,0.9,0.1\nsouth,0.7,0.3\n")
    by = ["--by", "region", "--rates-file", "regions.csv", "--columns", "healthy,ill"]
    run_command(folder, "fit", "old.csv", *by, "--save-shift", "shift.json", "--quiet")
    found = certified(folder, *by)
    assert [one["group"] for one in found["groups"]] == ["north", "south"]
    assert found["loss_reduction"] > 0
    text = run_command(folder, "certify", "new.csv", "--shift", "shift.json", *by).stdout
    assert "rates per group" in text


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "Missing option '--rates'"),
        (["--rates", "ill=0.2,healthy=0.9"], 1, "rates sum to 1.1"),
        (["--rates", "ill=0.2,cow=0.8"], 1, "cow"),
        (["--rates", "ill=0.2,healthy=0.8", "--unseen", "pooled"], 1, "--unseen is for the shifts of groups"),
        (["--rates", "ill=0.2,healthy=0.8", "--columns", "healthy,w"], 1, "w"),
        (["--rates", "ill=0.2,healthy=0.8", "--weight", "w", "--population"], 1, "unequal weights"),
        (["--rates", "ill=0.2,healthy=0.8", "--at-least", "much"], 2, "--at-least"),
        (["--rates", "ill=0.2,healthy=0.8", "--at-least", "nan"], 2, "--at-least must be a number, not nan"),
    ],
)
def test_messages(folder: Path, arguments: list[str], code: int, message: str) -> None:
    done = run_command(folder, "certify", "new.csv", "--shift", "shift.json", *arguments, code=code)
    assert message in done.stderr
