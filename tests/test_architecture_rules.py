"""How the package is built: what a new loss takes, and what importing loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import baserate as br

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "baserate"


def test_the_documented_new_loss_is_one_short_file() -> None:
    lines = (ROOT / "examples" / "hierarchical_log.py").read_text().splitlines()
    assert len(lines) <= 80
    assert "hierarchical_log" in [cls.name for cls in br.losses.registered()]
    mentions = [path for path in PACKAGE.rglob("*.py") if "ierarchical" in path.read_text()]
    assert not mentions, "no other file has to know of it"


def test_a_name_can_be_taken_once() -> None:
    with pytest.raises(br.errors.BadLoss, match="the loss name 'log' is already used by Log"):

        @br.losses.register
        class Impostor(br.losses.Brier):
            name = "log"


def test_importing_does_not_load_what_may_never_be_needed() -> None:
    code = "import sys, baserate.cli; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {
        "scipy",
        "sklearn",
        "pandas",
        "polars",
        "matplotlib",
        "cvxpy",
        "pyarrow",
        "dask",
        "distributed",
        "numba",
        "tqdm",
    }
    assert not heavy & set(loaded)
