"""Compare the running time of `br.adjust` for dataframes and for arrays; `make bench` runs this.

Prints the time for each kind of input, and divided by the time for an array. Conversions are included.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from pages import fill

import baserate as br

BASE = "NumPy array, by column"
KINDS = ("NumPy array, by row", BASE, "pandas", "polars", "pyarrow")


def make(p: np.ndarray) -> dict[str, Any]:
    """The same predictions as arrays and as dataframes."""
    names = [f"class {j}" for j in range(p.shape[1])]
    return {
        "NumPy array, by row": p,
        BASE: np.asfortranarray(p),  # the memory layout of dataframes
        "pandas": pd.DataFrame(p, columns=names),
        "polars": pl.DataFrame(p, schema=names),
        "pyarrow": pa.table({name: p[:, j] for j, name in enumerate(names)}),
    }


def measure(n: int, k: int, repeats: int) -> dict[str, dict[str, float]]:
    """Median seconds by loss and kind. The kinds take turns, so that other load on the machine affects all of them."""
    rng = np.random.default_rng(0)
    inputs, rates = make(rng.dirichlet(np.ones(k), size=n)), rng.dirichlet(np.full(k, 3.0))
    seconds: dict[str, dict[str, list[float]]] = {loss: {kind: [] for kind in KINDS} for loss in ("log", "brier")}
    for _ in range(repeats):
        for loss, by_kind in seconds.items():
            for kind in KINDS:
                start = time.perf_counter()
                answer = br.adjust(inputs[kind], rates, loss=loss).probs
                by_kind[kind].append(time.perf_counter() - start)
                assert type(answer) is type(inputs[kind])
    return {loss: {kind: statistics.median(s) for kind, s in by.items()} for loss, by in seconds.items()}


def table(n: int, k: int, medians: dict[str, dict[str, float]]) -> str:
    """A Markdown table."""
    lines = [
        f"| {n:,} x {k} | seconds, log | times the array | seconds, Brier | times the array |",
        "|---|---|---|---|---|",
    ]
    for kind in KINDS:
        cells = [f"{by[kind]:.3f} | {by[kind] / by[BASE]:.2f}" for by in medians.values()]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--docs", action="store_true", help="write the table into docs/scikit-learn.md")
    options = parser.parse_args()
    text = table(options.rows, options.classes, measure(options.rows, options.classes, options.repeats))
    print(text)
    if options.docs:
        fill("docs/scikit-learn.md", "dataframes", text)


if __name__ == "__main__":
    main()
