"""``baserate bench``: the time of an adjustment, relative to copying or reading the rows."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from baserate.adjust import adjust
from baserate.cli import options
from baserate.cli.exit_handling import handled_errors
from baserate.cli.invocation import Invocation
from baserate.core.contracts import Engine
from baserate.engines import open_rows
from baserate.inputs.row_source import RowSource
from baserate.rates import Rates


@click.command(
    short_help="Measure how fast this machine adjusts predictions.",
    epilog="""\b
Examples:
  baserate bench                                     a million random rows of ten classes, in memory
  baserate bench 'preds/*.parquet' --columns 'p_*'   your files, compared with only reading them
""",
)
@click.argument("source", metavar="[IN]", nargs=-1)
@click.option(
    "--rows",
    type=click.IntRange(100),
    default=1_000_000,
    show_default=True,
    help="Number of random rows, if there is no IN.",
)
@click.option(
    "--classes", type=click.IntRange(2), default=10, show_default=True, help="Number of classes of these rows."
)
@options.loss
@click.option(
    "--repeats", type=click.IntRange(1), default=5, show_default=True, help="Number of runs; their median is printed."
)
@options.reading
@options.dialect
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def bench(source: tuple[str, ...], rows: int, classes: int, repeats: int, **given: Any) -> None:
    """Time an adjustment on this machine, relative to copying the rows in memory or to reading the files once.

    The rates differ from the mean of the rows by a random factor per class. Nothing is written.
    """
    with handled_errors("nothing was changed"):
        call = Invocation(source, **given)
        figures = (
            _compare_with_scan(call, repeats) if source else _compare_with_copy(rows, classes, given["loss"], repeats)
        )
        if given["as_json"]:
            click.echo(json.dumps(figures, indent=1))
            return
        width = max(map(len, figures))
        for name, value in figures.items():
            click.echo(f"{name.ljust(width)}  {value:,}" if isinstance(value, int) else f"{name.ljust(width)}  {value}")


def _compare_with_copy(n_rows: int, classes: int, loss: str, repeats: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(classes, 0.5), size=n_rows)
    rates = _other_rates(probs.mean(axis=0))
    result = adjust(probs, rates, loss=loss)  # loads compiled kernels, which is not timed
    copy, solve = _medians([probs.copy, lambda: adjust(probs, rates, loss=loss)], repeats)
    return _figures(result, "copying", copy, solve)


def _compare_with_scan(call: Invocation, repeats: int) -> dict[str, Any]:
    def open_files() -> Engine:
        return open_rows(RowSource(probs=call.files, **call.row_options))

    engine = open_files()
    means = engine.map(lambda block: block.rows.astype(np.float64).sum(axis=0) / engine.n_rows)
    rates = Rates.exact(_other_rates(np.sum(list(means), axis=0)))

    def scan() -> None:
        for _ in open_files().map(lambda block: None):
            pass

    def solve() -> Any:
        return adjust(call.files, rates, loss=call["loss"], **call.row_options)

    return _figures(solve(), "a scan", *_medians([scan, solve], repeats))


def _other_rates(mean: Any) -> Any:
    rates = np.asarray(mean) * np.exp(np.random.default_rng(1).normal(size=len(mean)))
    return rates / rates.sum()


def _medians(calls: list[Callable[[], Any]], repeats: int) -> list[float]:
    """Median seconds of each call. Calls are interleaved, so that slow moments of the machine affect all of them."""
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for taken, call in zip(seconds, calls, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in seconds]


def _figures(result: Any, baseline: str, baseline_seconds: float, seconds: float) -> dict[str, Any]:
    return {
        "rows": result.n_rows,
        "classes": len(result.rates),
        "engine": result.engine,
        "passes": result.n_passes,
        f"{baseline} takes (ms)": round(1e3 * baseline_seconds, 2),
        "adjusting takes (ms)": round(1e3 * seconds, 2),
        f"times {baseline}": round(seconds / baseline_seconds, 2),
        "rows per second": int(result.n_rows / seconds),
        "largest error of a rate": float(f"{result.certificate.residual:.1e}"),
    }
