"""Compare the running time and the accuracy of baserate with other packages; `make bench` runs this.

All packages get the same data in the same run. The tables show accuracies next to times, since some are fast but wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import limits
import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter
from pages import ROOT, comparison_table, fill, readme_sentences
from peers import BOTH, OURS, PEERS, WITHOUT, in_turns, measure_apart

import baserate as br

Row = dict[str, Any]

PAGE = "docs/benchmarks.md"
RESULTS = Path(__file__).with_name("results.json")
PACKAGES = ("baserate", "numpy", "scipy", "numba", "cvxpy", "ecos", "scs", "osqp", "clarabel", "POT", "ipfn", "probcal")
PACKAGES += ("rank-preserving-calibration",)

LIMIT = 60.0
"""Time limit for another package, in seconds."""


def small(n: int = 1000, k: int = 8, batches: int = 1000) -> list[Row]:
    """One small problem, with and without compiled kernels, and ``adjust_many`` on many small problems."""
    rows = []
    os.environ["BASERATE_KERNELS"] = "always"  # the processes that measure inherit it
    for loss in BOTH:
        for name in (OURS, WITHOUT, *able(loss, k)):
            row = measure_apart(LIMIT, name=name, data="easy", n=n, k=k, loss=loss)
            rows.append(row | {"goal": 200 if name in ("CVXPY + ECOS", "CVXPY + OSQP") else None})
        per_batch = seconds_per_batch(n, k, batches, loss)
        one = next(row["seconds"] for row in rows if (row["loss"], row["name"]) == (loss, OURS))
        rows.append(
            {
                "loss": loss,
                "name": f"adjust_many, one of {batches}",
                "seconds": per_batch,
                "times_ours": per_batch / one,
            }
        )
    del os.environ["BASERATE_KERNELS"]
    return rows


def able(loss: str, k: int) -> list[str]:
    """Names of the alternatives that support a loss and a number of classes."""
    return [name for name, peer in PEERS.items() if peer.can_do(loss, k)]


def seconds_per_batch(n: int, k: int, batches: int, loss: str) -> float:
    """Median time of ``adjust_many``, divided by the number of batches."""
    rng = np.random.default_rng(1)
    problems = [(rng.dirichlet(np.ones(k), size=n), rng.dirichlet(np.full(k, 3.0))) for _ in range(batches)]
    return in_turns({"all": lambda: br.adjust_many(problems, loss=loss)}, repeats=3)["all"] / batches


def alternatives(n: int = 100_000) -> list[Row]:
    """Measure every alternative in its own process. One that fails is not tried on other data with the same loss."""
    rows: list[Row] = []
    for data, k in (("easy", 10), ("over-confident", 10), ("easy", 2)):
        for loss in BOTH:
            for name in (OURS, *able(loss, k)):
                failed = any(r["name"] == name and r["loss"] == loss and "failure" in r for r in rows)
                what = {"name": name, "data": data, "n": n, "k": k, "loss": loss}
                rows.append(what | {"failure": "not tried"} if failed else measure_apart(LIMIT, **what))
                rows[-1]["goal"] = goal(rows[-1])
    return rows


def goal(row: Row) -> str:
    """How many times faster baserate should be; on over-confident rows, only than alternatives that are accurate."""
    if row["name"] == OURS or "failure" in row:
        return ""
    if row["data"] == "easy":
        return "> 1"
    return "≥ 10" if row["residual"] <= 1e-9 else ""


class Section(NamedTuple):
    """A function that measures, and for each column of the table its heading and the text of a cell."""

    measure: Callable[[], list[Row]]
    columns: dict[str, Callable[[Row], str]]


def column(name: str, form: str = "", scale: float = 1.0) -> Callable[[Row], str]:
    """Return a function that formats a value of a row, or gives an empty text if the row has no such value."""

    def text(row: Row) -> str:
        value = row.get(name)
        if value is None or isinstance(value, str):
            return value or ""
        return format(value if scale == 1 else scale * value, form)

    return text


def goal_at_most(row: Row) -> str:
    """The goal of a row, marked if it was missed."""
    if row["goal"] is None:
        return ""
    return f"{row['goal']}" if row["value"] <= row["goal"] else f"{row['goal']}: **missed**"


def milliseconds(row: Row) -> str:
    """The time as text, or why there is none."""
    return row["failure"] if "failure" in row else f"{1e3 * row['seconds']:,.2f}"


def nanoseconds_per_row(name: str) -> Callable[[Row], str]:
    """Return a function that formats a time, divided by the number of rows."""
    return lambda row: f"{1e9 * row[name] / row['n']:.1f}" if name in row else ""


ACCURACY = {
    "largest error of a rate": column("residual", ".0e"),
    "of a row's sum": column("row_error", ".0e"),
    "objective": column("objective", ".9f"),
}
QUICK_NAMES = tuple(f"{name}, {loss}" for name in limits.QUICK for loss in BOTH if PEERS[name].can_do(loss, 10))

SECTIONS = {
    "limits": Section(
        limits.limits,
        {
            "size": column("case"),
            "what": column("what"),
            "seconds": column("seconds", ".4f"),
            "value": column("value", ".2f"),
            "unit": column("unit"),
            "goal, at most": goal_at_most,
        },
    ),
    "small": Section(
        small,
        {
            "1000 x 8": column("loss"),
            "solver": column("name"),
            "ms": milliseconds,
            "times ours": column("times_ours", ",.1f"),
            "goal, at least": column("goal"),
        }
        | ACCURACY,
    ),
    "alternatives": Section(
        alternatives,
        {
            "data": lambda row: f"{row['data']}, {row['n']:,} x {row['k']}",
            "loss": column("loss"),
            "solver": column("name"),
            "ms": milliseconds,
            "times ours": column("times_ours", ",.1f"),
            "goal": column("goal"),
        }
        | ACCURACY,
    ),
    "passes": Section(
        limits.passes,
        {
            "n": column("n", ","),
            "k": column("k"),
            "data": column("data"),
            "loss": column("loss"),
            "passes": column("passes"),
            "goal, at most": column("goal"),
            "largest error of a rate": column("residual", ".0e"),
            "gap": column("gap", ".0e"),
            "ms": column("milliseconds", ",.1f"),
        },
    ),
    "rows": Section(
        limits.rows,
        {"n": column("n", ","), "dtype": column("dtype")}
        | {name: nanoseconds_per_row(name) for name in ("probs.copy()", *BOTH, *QUICK_NAMES)},
    ),
    "classes": Section(
        limits.classes,
        {"k": column("k"), "passes, log": column("passes, log"), "passes, Brier": column("passes, brier")}
        | {name: column(name, ",.2f", 1e3) for name in ("probs.copy()", *BOTH, *QUICK_NAMES)},
    ),
    "start": Section(limits.start, {"what": column("what"), "milliseconds": column("seconds", ",.1f", 1e3)}),
}


def table(columns: dict[str, Callable[[Row], str]], rows: Iterable[Row]) -> str:
    """A Markdown table."""
    lines = [list(columns), ["---"] * len(columns)]
    lines += [[text(row) for text in columns.values()] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# Colours of Okabe and Ito, which colour-blind people can distinguish.
COLOURS = {
    "probs.copy()": "#666666",
    "baserate": "#0072B2",
    "POT sinkhorn": "#E69F00",
    "POT smooth_ot_semi_dual": "#CC79A7",
    "SciPy L-BFGS-B": "#009E73",
}


def draw(rows: list[Row], x: str, label: str) -> plt.Figure:
    """Plot seconds against ``x``, with solid lines for log loss, dashed lines for Brier, and names at the right."""
    figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
    ends = {}
    for name in ("probs.copy()", *BOTH, *QUICK_NAMES):
        points = [(row[x], row[name]) for row in rows if name in row]
        who = "baserate" if name in BOTH else name.rpartition(", ")[0] or name
        style = {"marker": "s", "linestyle": "--"} if name.endswith("brier") else {"marker": "o"}
        ax.plot(*zip(*points, strict=True), color=COLOURS[who], markersize=4, **style)
        full = f"baserate, {name}" if name in BOTH else name
        ends[full.replace("brier", "Brier")] = (*points[-1], COLOURS[who])
    ax.set(xscale="log", yscale="log", xlabel=label, ylabel="seconds (median)")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25)
    name_lines(ax, ends)
    return figure


def name_lines(ax: plt.Axes, ends: dict[str, tuple[float, float, str]]) -> None:
    """Write the names next to the ends of the lines, moved apart where they would overlap."""
    low, high = np.log(ax.get_ylim())
    heights, least = {}, 0.0
    for name, (_, y, _) in sorted(ends.items(), key=lambda item: item[1][1]):
        heights[name] = max(least, (np.log(y) - low) / (high - low))
        least = heights[name] + 0.06
    for name, (x, y, colour) in ends.items():
        ax.annotate(
            name,
            (x, y),
            xytext=(1.03, heights[name]),
            textcoords="axes fraction",
            color=colour,
            va="center",
            fontsize=9,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "alpha": 0.5},
        )


def write(found: dict[str, list[Row]]) -> None:
    """Write the results to results.json, the tables into the documentation, and the pictures next to it."""
    for name, rows in found.items():
        fill(PAGE, name, table(SECTIONS[name].columns, rows))
    if "small" in found:
        fill("README.md", "bench", readme_sentences(found["small"], os.cpu_count()))
    if "alternatives" in found:
        fill("docs/comparison.md", "comparison", comparison_table(found["alternatives"]))
    for name, x, file in (("rows", "n", "benchmarks-n.svg"), ("classes", "k", "benchmarks-k.svg")):
        if name in found:
            save_picture(found[name], x, ROOT / "docs" / file)
    known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    versions = {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}
    figures = {"versions": versions, "cores": os.cpu_count(), "sections": known.get("sections", {}) | found}
    RESULTS.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def save_picture(rows: list[Row], x: str, path: Path) -> None:
    """Draw times against the number of rows or classes."""
    if x == "n":
        rows, label = [row for row in rows if row["dtype"] == "float64"], "rows (10 classes, float64)"
    else:
        label = "classes (20,000 rows)"
    with mpl.rc_context({"svg.hashsalt": "baserate", "svg.fonttype": "none"}):
        figure = draw(rows, x, label)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", action="store_true", help="write the results into the documentation")
    parser.add_argument("--only", choices=SECTIONS, help="measure one section")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # solvers warn about their accuracy, which is measured here
    found = {}
    for name in [options.only] if options.only else SECTIONS:
        found[name] = SECTIONS[name].measure()
        print(f"\n{name}\n\n{table(SECTIONS[name].columns, found[name])}", flush=True)
    if options.docs:
        write(found)


if __name__ == "__main__":
    main()
