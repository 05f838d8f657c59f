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


@pytest.mark.parametrize("validation", ["val.csv", "./val.csv", "v*.csv"])
def test_a_file_cannot_be_its_own_validation_data(folder: Path, validation: str) -> None:
    done = run_command(folder, "rates", "val.csv", "--validation", validation, "--labels", "y", code=1)
    assert "is both IN and --validation" in " ".join(done.stderr.split())


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
