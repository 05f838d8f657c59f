"""The command ``baserate rates``: which files it accepts, and the confidence of the rates that it saves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import run_command

import baserate as br


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Validation data with a column of labels, and new predictions."""
    rng = np.random.default_rng(0)
    for name, n, rate in (("val", 300, 0.5), ("new", 400, 0.2)):
        ill = rng.random(n) < rate
        p = 1 / (1 + np.exp(-rng.normal(2.0 * ill - 1)))
        frame = pd.DataFrame({"healthy": 1 - p, "ill": p, "y": np.where(ill, "ill", "healthy")})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("out", ["new.csv", "./val.csv", "link.csv"])
def test_an_input_is_not_overwritten(folder: Path, out: str) -> None:
    (folder / "link.csv").symlink_to(folder / "val.csv")
    before = [(folder / name).read_bytes() for name in ("new.csv", "val.csv")]
    call = ("rates", "new.csv", "--validation", "val.csv", "--labels", "y", "--out", out)
    done = run_command(folder, *call, code=1)
    assert "is named twice, so one file would overwrite the other" in " ".join(done.stderr.split())
    assert [(folder / name).read_bytes() for name in ("new.csv", "val.csv")] == before


def test_outputs_are_not_written_where_a_later_run_would_read_them(folder: Path) -> None:
    for name in ("new", "val"):
        (folder / f"{name}s").mkdir()
        (folder / f"{name}.csv").rename(folder / f"{name}s" / "1.csv")
    call = ("rates", "news", "--validation", "vals", "--labels", "y", "--columns", "healthy,ill", "--out")
    run_command(folder, *call, "rates.json")
    for out in ("news/rates.json", "vals/rates.json"):
        done = run_command(folder, *call, out, code=1)
        assert "so a later run on this input would also read it" in " ".join(done.stderr.split())
    fit = ("fit", "news", "--rates", "rates.json", "--columns", "healthy,ill")
    for option, out in (("--save-shift", "news/shift.json"), ("--report", "news/report.html")):
        done = run_command(folder, *fit, option, out, code=1)
        assert "so a later run on this input would also read it" in " ".join(done.stderr.split())
    run_command(folder, *call, "news/_rates.json")  # files whose names begin with _ are not read
    run_command(folder, *fit)


@pytest.mark.parametrize("validation", ["val.csv", "./val.csv", "v*.csv", "link.csv", "hard.csv"])
def test_a_file_cannot_be_its_own_validation_data(folder: Path, validation: str) -> None:
    (folder / "link.csv").symlink_to(folder / "val.csv")
    (folder / "hard.csv").hardlink_to(folder / "val.csv")
    done = run_command(folder, "rates", "val.csv", "--validation", validation, "--labels", "y", code=1)
    assert "is both IN and --validation" in " ".join(done.stderr.split())


def test_a_name_with_a_star_is_the_name_of_a_file(folder: Path) -> None:
    (folder / "new.csv").rename(folder / "*.csv")
    run_command(folder, "rates", "*.csv", "--validation", "val.csv", "--labels", "y", "--out", "rates.json")
    assert (folder / "rates.json").exists()


def test_a_file_in_a_folder_cannot_be_its_own_validation_data(folder: Path) -> None:
    (folder / "months").mkdir()
    (folder / "months" / "may.csv").hardlink_to(folder / "val.csv")
    done = run_command(folder, "rates", "months", "--validation", "months/may.csv", "--labels", "y", code=1)
    assert "may.csv is in both IN and --validation; the validation data must be other rows" in " ".join(
        done.stderr.split()
    )


@pytest.mark.parametrize("out", ["rates.txt", "rates", "rates.csv", "rates.json.gz"])
def test_rates_are_written_only_to_names_that_the_option_rates_accepts(folder: Path, out: str) -> None:
    call = ("rates", "new.csv", "--validation", "val.csv", "--labels", "y")
    done = run_command(folder, *call, "--out", out, code=1)
    assert f"{out} does not end in .json, but the rates are written as JSON" in " ".join(done.stderr.split())
    assert not (folder / out).exists()
    run_command(folder, *call, "--out", "RATES.JSON")
    assert "95 %" in run_command(folder, "fit", "new.csv", "--rates", "RATES.JSON", "--columns", "healthy,ill").stdout


def test_rates_can_be_written_to_standard_output(folder: Path) -> None:
    call = ("rates", "new.csv", "--validation", "val.csv", "--labels", "y")
    run_command(folder, *call, "--out", "rates.json")
    done = run_command(folder, *call, "--out", "-")
    assert done.stdout == (folder / "rates.json").read_text()
    assert "Class rates of 400 rows" in done.stderr
    assert not (folder / "-").exists()
    as_json = run_command(folder, *call, "--out", "-", "--json")
    assert as_json.stdout == done.stdout
    assert '"validation_rows": 300' in as_json.stderr


@pytest.fixture
def one_column(folder: Path) -> Path:
    """The same files with one column of probabilities, and labels in several forms."""
    for name in ("val", "new"):
        frame = pd.read_csv(folder / f"{name}.csv")
        ill = frame.y == "ill"
        labels = {"y": frame.y, "number": ill.astype(int), "flag": ill, "three": frame.y.where(frame.index > 2, "dead")}
        scores = pd.DataFrame({"score": frame.ill})
        (scores.assign(**labels) if name == "val" else scores).to_csv(folder / f"{name}.csv", index=False)
    return folder


@pytest.mark.parametrize("labels", ["number", "flag"])
def test_one_column_of_probabilities_is_of_class_1_if_labels_are_numbers(one_column: Path, labels: str) -> None:
    call = ("rates", "new.csv", "--validation", "val.csv", "--json")
    found = run_command(one_column, *call, "--labels", labels).stdout
    named = run_command(one_column, *call, "--labels", "y", "--classes", "healthy,ill").stdout
    assert found.replace("not score", "healthy").replace("score", "ill") == named


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            "y",
            "but the only column with probabilities is 'score', and it is not known to which class it belongs; pass ",
        ),
        ("y", "pass --classes NAME,NAME with both names, the name for this column last"),
        ("three", "--labels has 3 classes, 'dead', 'healthy', 'ill', but the only column"),
        ("score", "column 'score' of --validation contains numbers such as '0."),
        ("none", "val.csv has no column 'none' with labels"),
    ],
)
def test_mistakes_about_labels_are_explained_by_the_options(one_column: Path, labels: str, message: str) -> None:
    done = run_command(one_column, "rates", "new.csv", "--validation", "val.csv", "--labels", labels, code=1)
    assert message in " ".join(done.stderr.split())


def test_confidence_cannot_contradict_that_of_saved_rates(folder: Path) -> None:
    new, val = (pd.read_csv(folder / f"{name}.csv") for name in ("new", "val"))
    br.estimate(new[["healthy", "ill"]], probs_val=val[["healthy", "ill"]], y_val=val.y).save(folder / "e.json")
    call = ("fit", "new.csv", "--rates", "e.json", "--columns", "healthy,ill")
    done = run_command(folder, *call, "--confidence", "0.999", code=1)
    assert "--confidence is 0.999, but the rates in e.json were saved with confidence 0.95" in " ".join(
        done.stderr.split()
    )
    for same in ((), ("--confidence", "0.95")):
        assert "95 % confidence" in " ".join(run_command(folder, *call, *same).stdout.split())


def test_each_by_needs_its_own_file(folder: Path) -> None:
    done = run_command(folder, "fit", "new.csv", "--by", "y", code=2)
    assert "--by is given once, and --rates-file 0 times" in " ".join(done.stderr.split())


@pytest.mark.parametrize("weighted", [True, False])
def test_rates_of_other_rows_are_refused_with_advice_that_can_be_followed(folder: Path, weighted: bool) -> None:
    run_command(folder, "rates", "new.csv", "--validation", "val.csv", "--labels", "y", "--out", "rates.json")
    new = pd.read_csv(folder / "new.csv").assign(w=lambda table: 1.0 + table.index % 3)
    (new if weighted else new[:-50]).to_csv(folder / "new.csv", index=False)
    weight = ["--weight", "w"] if weighted else []
    call = ("adjust", "new.csv", "--columns", "healthy,ill", "--rates", "rates.json", *weight, "--out", "out.csv")
    said = " ".join(run_command(folder, *call, code=1).stderr.split())
    assert ("unequal weights count as fewer rows); leave --weight out, or" in said) == weighted
    assert ("weight" in said) == weighted
    assert "estimate the rates of these rows with baserate rates" in said
    new.assign(g="a").to_csv(folder / "new.csv", index=False)
    pd.DataFrame({"g": ["a"], "ill": [""]}).to_csv(folder / "g.csv", index=False)
    if weighted:
        by_group = run_command(folder, *call, "--by", "g", "--rates-file", "g.csv", code=1)
        assert "unequal weights count as fewer rows" in " ".join(by_group.stderr.split())
