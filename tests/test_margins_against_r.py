"""Rates per group agree with calibration in R: ``survey::calibrate`` with raking, on rows and classes as units.

A unit is a row and a class, and its weight is the probability of the class. Raking changes the weights as little as
possible in relative entropy, so that the weights of each row sum to 1 and those of each group and class to its rate.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cells_support import Ints, margin, random_rows, rates_by_group, solve
from support import Array

import baserate as br

pytestmark = pytest.mark.stress

SCRIPT = """
suppressMessages(library(survey))
options(digits = 17)
folder <- commandArgs(trailingOnly = TRUE)[1]
units <- read.csv(file.path(folder, "units.csv"))
totals <- scan(file.path(folder, "totals.csv"), quiet = TRUE)
names(totals) <- setdiff(names(units), "p")
design <- svydesign(ids = ~1, weights = ~p, data = units)
formula <- reformulate(names(totals), intercept = FALSE)
calibrated <- calibrate(design, formula, totals, calfun = "raking", epsilon = 1e-13, maxit = 1000)
write.table(weights(calibrated), file.path(folder, "weights.csv"), row.names = FALSE, col.names = FALSE)
"""


@cache
def has_survey() -> bool:
    """Whether R and its package survey are installed."""
    if shutil.which("Rscript") is None:
        return False
    return subprocess.run(["Rscript", "-e", "library(survey)"], capture_output=True, check=False).returncode == 0


def calibrated(folder: Path, p: Array, groups: list[Ints], tables: list[Array]) -> Array:
    """The adjusted rows by R."""
    n, k = p.shape
    rows, classes = np.repeat(np.arange(n), k), np.tile(np.arange(k), n)
    columns, totals = [rows == i for i in range(n)], [1.0] * n
    for m, (of_row, table) in enumerate(zip(groups, tables, strict=True)):
        # The last class follows from the others, and the last group of later margins from the totals.
        for g in range(len(table) - (m > 0)):
            for j in range(k - 1):
                columns.append((of_row[rows] == g) & (classes == j))
                totals.append(float((of_row == g).sum() * table[g, j]))
    names = ["p", *(f"x{i}" for i in range(len(columns)))]
    units = np.column_stack([p.ravel(), *columns])
    np.savetxt(folder / "units.csv", units, delimiter=",", header=",".join(names), comments="", fmt="%.17g")
    np.savetxt(folder / "totals.csv", np.array(totals), fmt="%.17g")
    script = folder / "calibrate.R"
    script.write_text(SCRIPT, encoding="utf-8")
    subprocess.run(["Rscript", str(script), str(folder)], check=True, capture_output=True)
    return np.loadtxt(folder / "weights.csv").reshape(n, k)


@pytest.mark.parametrize(("seed", "sizes"), [(1, [4]), (2, [3, 2]), (3, [5, 4]), (4, [3, 3, 2])])
def test_rows_agree_with_survey_calibrate(tmp_path: Path, seed: int, sizes: list[int]) -> None:
    if not has_survey():
        pytest.skip("needs R with the package survey (Debian: r-cran-survey)")
    rng = np.random.default_rng(seed)
    p, groups = random_rows(rng, 60, 3), [rng.integers(size, size=60) for size in sizes]
    labels = rng.dirichlet(np.ones(3), size=60)
    tables = [rates_by_group(labels, g, size) for g, size in zip(groups, sizes, strict=True)]
    margins = [margin(f"m{i}", table) for i, table in enumerate(tables)]
    for kernels in ("off", "always"):
        _, rows = solve(p, groups, margins, br.losses.Log(), kernels=kernels)
        np.testing.assert_allclose(rows, calibrated(tmp_path, p, groups, tables), rtol=0, atol=1e-8)
