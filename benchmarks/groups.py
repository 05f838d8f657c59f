"""Compare the running time of rates per group with alternatives, each in one run; `make bench` runs this.

Every ratio divides two times that were measured in turns, the fastest of several each, because other load on the
machine only adds time. Times include the sorting of the rows and the writing of the answer. One table is measured with
`br.adjust`, several tables with the solver that it calls. The alternative for overlapping margins is iterative
proportional fitting (IPF) with the same compiled pass.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pages import fill
from peers import seconds_of
from scipy.optimize import brentq
from scipy.special import expit, logit

import baserate as br
from baserate.core.cells.design import CellDesign, Margin
from baserate.core.cells.dual import CellDual
from baserate.core.cells.fit import CellFit, fit_cells
from baserate.core.cells.sums import total_by_cell
from baserate.core.row_model import RowModel
from baserate.core.search import Stop
from baserate.engines.memory import MemoryEngine
from baserate.inputs.reading import Reading
from baserate.passes import choose_passes

Array = np.ndarray
TOL = 1e-9

RAKE = """
suppressMessages(library(survey))
folder <- commandArgs(trailingOnly = TRUE)[1]
units <- read.csv(file.path(folder, "units.csv"), colClasses = c(p = "numeric"), stringsAsFactors = TRUE)
units$row <- factor(units$row); units$a <- factor(units$a); units$b <- factor(units$b)
design <- svydesign(ids = ~1, weights = ~p, data = units)
totals <- lapply(c("row", "a", "b"), function(name) {
  table <- read.csv(file.path(folder, paste0(name, ".csv")), colClasses = c("factor", "numeric"))
  names(table) <- c(name, "Freq"); table })
control <- list(maxit = 10000, epsilon = 1e-9, verbose = FALSE)
cat(system.time(rake(design, list(~row, ~a, ~b), totals, control = control))["elapsed"])
"""


class Problem(NamedTuple):
    """Rows with the group of each row in every margin, and the tables."""

    p: Array
    cells: Array
    design: CellDesign

    @classmethod
    def of(cls, p: Array, groups: Sequence[Array], sizes: Sequence[int], labels: Array, width: float = 0.0) -> Problem:
        """The tables are those of the labels, or lie within ``width`` of them."""
        members, cells = np.unique(np.stack(groups), axis=1, return_inverse=True)
        margins = []
        for number, (of_row, size) in enumerate(zip(groups, sizes, strict=True)):
            sums = np.stack([np.bincount(of_row, column, minlength=size) for column in labels.T], axis=1)
            rates = sums / sums.sum(axis=1, keepdims=True)
            low, high = np.maximum(rates - width, 0.0), np.minimum(rates + width, 1.0)
            margins.append(Margin(f"m{number}", range(size), low, high, np.ones(size, dtype=bool)))
        return cls(p, cells.ravel(), CellDesign(tuple(margins), members))

    def dual(self) -> CellDual:
        k = self.p.shape[1]
        rows = MemoryEngine(self.p, None, cells=self.cells, n_cells=self.design.n_cells)
        model = RowModel(br.losses.Log(), True, k, np.arange(k), Reading())
        return CellDual.of(rows, choose_passes(model, rows, "always"), self.design)

    def fit(self) -> CellFit:
        return fit_cells(self.dual(), Stop(TOL, 500), keep_rows=True)


def random_problem(n: int, k: int, sizes: Sequence[int], *, width: float = 0.0, same: float = 0.0) -> Problem:
    """Classes depend on the groups. With ``same``, this share of the rows has the same group in both margins."""
    rng = np.random.default_rng(0)
    groups = [rng.integers(size, size=n) for size in sizes]
    if same:
        groups[1] = np.where(rng.random(n) < same, groups[0], groups[1])
    p = np.exp(rng.normal(size=(n, k)))
    p /= p.sum(axis=1, keepdims=True)
    tilt = sum(rng.normal(size=(size, k))[g] for size, g in zip(sizes, groups, strict=True))
    truth = p * np.exp(0.5 * tilt)
    truth /= truth.sum(axis=1, keepdims=True)
    classes = (rng.random((n, 1)) > truth.cumsum(axis=1)).sum(axis=1).clip(max=k - 1)
    return Problem.of(p, groups, sizes, np.eye(k)[classes], width)


def fit_proportionally(problem: Problem, most_passes: int) -> tuple[int, float]:
    """IPF with the compiled pass on sorted rows: passes and the largest error of a rate at the end."""
    dual = problem.dual()
    rows = dual.rows.sorted_by_cell(dual.passes) or dual.rows
    passes, groups, n_cells = dual.passes, dual.groups, problem.design.n_cells
    weight = groups.sum(dual.rows.cell_weights)[:, None]
    shifts, n_passes = np.zeros((groups.n_groups, groups.n_classes)), 0
    while True:
        for margin in groups.by_margin(np.arange(groups.n_groups)):
            task = partial(passes.reduce_cells, shifts=groups.cell_shifts(shifts), curvature=False)
            mean = groups.sum(total_by_cell(rows.map(task, passes.block_values), n_cells).mean) / weight
            n_passes += 1
            error = float(np.abs(mean - groups.sets.low).max())
            if error <= TOL or n_passes >= most_passes:
                for _ in rows.write(
                    partial(passes.write_cells, shifts=groups.cell_shifts(shifts)), passes.block_values
                ):
                    pass
                rows.answer()
                return n_passes, error
            shifts[margin] += np.log(groups.sets.low[margin] / mean[margin])


class Row(NamedTuple):
    """A line of the table, with what is required of its ratio and of the number of passes."""

    what: str
    ours: float
    theirs: float
    passes: str
    n_passes: int = 0
    at_least: float = 0.0
    at_most: float = np.inf
    most_passes: float = np.inf

    @property
    def ratio(self) -> float:
        """How many times faster than the alternative; how many times slower if the goal is an upper limit."""
        return self.theirs / self.ours if self.at_least else self.ours / self.theirs

    @property
    def goal(self) -> str:
        ratio = f"≥ {self.at_least:g}" if self.at_least else f"≤ {self.at_most:g}"
        passes = "" if self.most_passes == np.inf else f", ≤ {self.most_passes:g} passes"
        met = self.at_least <= self.ratio <= self.at_most and self.n_passes <= self.most_passes
        return ratio + passes + ("" if met else ": **missed**")


def fastest(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """The seconds of each call, the fastest of several turns. Each call is made once before."""
    for call in calls.values():
        call()
    turns = [{name: seconds_of(call) for name, call in calls.items()} for _ in range(repeats)]
    return {name: min(turn[name] for turn in turns) for name in calls}


def one_table(problem: Problem) -> Callable[[], br.Adjustment]:
    """The call of `br.adjust` for a problem with one margin."""
    known = br.Rates.by("group", dict(enumerate(problem.design.margins[0].low.tolist())))
    groups = problem.design.members[0, problem.cells]
    return lambda: br.adjust(problem.p, known, groups=groups)


def many_groups(n: int, repeats: int) -> Row:
    k, n_groups = 5, n // 100
    problem = random_problem(n, k, [n_groups])
    rates = np.random.default_rng(1).dirichlet(np.full(k, 3.0))
    ours = one_table(problem)
    taken = fastest({"ours": ours, "overall": lambda: br.adjust(problem.p, rates)}, repeats)
    what = f"{n:,} x {k}, {n_groups:,} groups; overall rates of the same rows"
    return Row(what, taken["ours"], taken["overall"], str(ours().n_passes), at_most=2)


def binary_groups(repeats: int, n: int = 100_000, n_groups: int = 1000) -> Row:
    problem = random_problem(n, 2, [n_groups])
    groups, rates = problem.design.members[0, problem.cells], problem.design.margins[0].low[:, 1]

    def loop() -> Array:
        out, order = np.empty(n), np.argsort(groups, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(groups))])
        for g in range(n_groups):
            rows = order[starts[g] : starts[g + 1]]
            scores = logit(problem.p[rows, 1])
            shift = brentq(lambda x, s=scores, t=rates[g]: expit(s + x).mean() - t, -30, 30, xtol=1e-12)
            out[rows] = expit(scores + shift)
        return out

    ours = one_table(problem)
    taken = fastest({"ours": ours, "loop": loop}, 5 * repeats)
    what = f"{n:,} x 2, {n_groups:,} groups; a loop of scipy.optimize.brentq"
    return Row(what, taken["ours"], taken["loop"], str(ours().n_passes), at_least=10)


def overlapping(n: int, sizes: Sequence[int], k: int, at_least: float, *, same: float = 0.0, most: int = 1000) -> Row:
    problem = random_problem(n, k, sizes, same=same)
    fit = problem.fit()
    n_passes, error = fit_proportionally(problem, most)
    taken = fastest({"ours": problem.fit, "IPF": lambda: fit_proportionally(problem, most)}, 3)
    coincide = f", {same:.0%} coincide" if same else ""
    what = f"{n:,} x {k}, margins of {' + '.join(map(str, sizes))} groups{coincide}; IPF"
    stopped = f"{fit.n_passes}; IPF {n_passes:,}" + ("" if error <= TOL else f", which left an error of {error:.0e}")
    return Row(what, taken["ours"], taken["IPF"], stopped, fit.n_passes, at_least=at_least, most_passes=8)


def bounds(n: int, sizes: Sequence[int], k: int, repeats: int) -> Row:
    exact, boxes = random_problem(n, k, sizes), random_problem(n, k, sizes, width=0.01)
    passes = boxes.fit().n_passes
    taken = fastest({"bounds": boxes.fit, "exact": exact.fit}, repeats)
    what = f"{n:,} x {k}, {boxes.design.n_cells:,} cells, bounds; exact rates"
    return Row(what, taken["bounds"], taken["exact"], str(passes), passes, at_most=2, most_passes=10)


def rake_in_r(repeats: int, n: int = 500, k: int = 3, sizes: Sequence[int] = (5, 4)) -> Row | None:
    if shutil.which("Rscript") is None:
        return None
    problem = random_problem(n, k, sizes)
    rows, classes = np.repeat(np.arange(n), k), np.tile(np.arange(k), n)
    groups = problem.design.members[:, problem.cells]
    with tempfile.TemporaryDirectory() as folder:
        columns = {"row": rows, "a": groups[0][rows] * k + classes, "b": groups[1][rows] * k + classes}
        units = np.column_stack([problem.p.ravel(), *columns.values()])
        np.savetxt(Path(folder, "units.csv"), units, "%.17g", ",", header="p,row,a,b", comments="")
        np.savetxt(Path(folder, "row.csv"), np.column_stack([np.arange(n), np.ones(n)]), "%.17g", ",", header="x,n")
        for name, margin, of_row in zip("ab", problem.design.margins, groups, strict=True):
            counts = np.bincount(of_row, minlength=margin.n_groups)[:, None] * margin.low
            table = np.column_stack([np.arange(counts.size), counts.ravel()])
            np.savetxt(Path(folder, f"{name}.csv"), table, "%.17g", ",", header="x,n")
        Path(folder, "rake.R").write_text(RAKE, encoding="utf-8")
        done = subprocess.run(["Rscript", f"{folder}/rake.R", folder], capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr)
        return None
    ours = fastest({"ours": problem.fit}, 10 * repeats)["ours"]
    what = f"{n:,} x {k}, margins of {' + '.join(map(str, sizes))} groups; survey::rake in R"
    return Row(what, ours, float(done.stdout), str(problem.fit().n_passes), at_least=100)


def table(rows: Sequence[Row]) -> str:
    """A Markdown table."""
    lines = [
        "| what; compared with | seconds | the alternative | ratio | goal | passes |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for row in rows:
        numbers = f"{row.ours:.4f} | {row.theirs:.3f} | {row.ratio:,.2f} | {row.goal}"
        lines.append(f"| {row.what} | {numbers} | {row.passes} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the largest problem")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", help="part of the name of one of the measurements")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md")
    options = parser.parse_args()
    os.environ["BASERATE_KERNELS"] = "always"
    n, repeats = options.rows, options.repeats
    parts: dict[str, Callable[[], Row | None]] = {
        "many groups": lambda: many_groups(n, repeats),
        "brentq": lambda: binary_groups(repeats),
        "four margins": lambda: overlapping(n // 10, [50, 12, 8, 5], 5, 3),
        "coincide": lambda: overlapping(n // 50, [100, 100], 3, 40, same=0.95),
        "bounds": lambda: bounds(n // 10, [1000, 100], 3, repeats),
        "rake": lambda: rake_in_r(repeats),
    }
    rows = []
    for name, part in parts.items():
        if options.only is None or options.only in name:
            row = part()
            if row is not None:
                rows.append(row)
                print(table([row]).splitlines()[-1], flush=True)
    if options.docs:
        fill("docs/benchmarks.md", "groups", table(rows))


if __name__ == "__main__":
    main()
