"""Ours and CVXPY, the paper's way, on the same problem in the same run; `make bench` runs this.

Prints a table of times, ratios and accuracies: a fast wrong answer is not faster.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
from pages import fill

import baserate as br
from baserate.study.reference import cvxpy_answer

SOLVERS = {"log": ("ECOS", "SCS"), "brier": ("OSQP", "CLARABEL")}


def timed(call: Callable[[], np.ndarray], repeats: int) -> tuple[float, np.ndarray]:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        answer = call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), answer


def measure(n: int, k: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    p, rates = rng.dirichlet(np.ones(k), size=n), rng.dirichlet(np.full(k, 3.0))
    rows = []
    for loss, solvers in SOLVERS.items():
        measure_of = br.losses.as_loss(loss)
        br.adjust(p, rates, loss=loss)  # imports
        ours, answer = timed(lambda loss=loss: br.adjust(p, rates, loss=loss).probs, 21)
        rows.append(row(loss, "baserate", ours, ours, answer, p, rates, measure_of))
        for solver in solvers:
            theirs, answer = timed(lambda s=solver, loss=loss: cvxpy_answer(p, rates, loss, solver=s)[0], 3)
            rows.append(row(loss, f"CVXPY + {solver}", theirs, ours, answer, p, rates, measure_of))
    return rows


def row(
    loss: str,
    who: str,
    seconds: float,
    ours: float,
    a: np.ndarray,
    p: np.ndarray,
    rates: np.ndarray,
    by: br.losses.Loss,
) -> dict[str, Any]:
    return {
        "loss": loss,
        "who": who,
        "milliseconds": 1e3 * seconds,
        "times_ours": seconds / ours,
        "residual": float(np.abs(a.mean(axis=0) - rates).max()),
        "objective": float(by.divergence(p, np.maximum(a, 0)).mean()),
    }


def table(n: int, k: int, rows: list[dict[str, Any]]) -> str:
    lines = [
        f"| {n} x {k} | solver | ms (median) | times ours | largest error of a rate | objective |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['loss']} | {r['who']} | {r['milliseconds']:.2f} | {r['times_ours']:.0f} "
        f"| {r['residual']:.0e} | {r['objective']:.9f} |"
        for r in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--classes", type=int, default=8)
    parser.add_argument(
        "--readme", action="store_true", help="write the table into README.md, and the figures beside this file"
    )
    options = parser.parse_args()
    rows = measure(options.rows, options.classes, seed=0)
    text = table(options.rows, options.classes, rows)
    print(text)
    if options.readme:
        fill("README.md", "bench", text)
        versions = {"python": platform.python_version(), "numpy": np.__version__, "cvxpy": cp.__version__}
        figures = {"rows": options.rows, "classes": options.classes, "versions": versions, "results": rows}
        Path(__file__).with_name("results.json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
