"""Compare a few ratios of running times with those in ratios.json; `make bench-check` runs this.

Each ratio is the processor time of a call of the package divided by that of a plain operation on the same data, both
measured in the same run. Not elapsed time, which depends more on other processes. Processor time is the sum over all
threads, so it does not show whether they run in parallel; `make bench` measures elapsed time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import files
import numpy as np
import pyarrow.dataset as ds
from peers import problem
from threadpoolctl import threadpool_limits

import baserate as br

RATIOS = Path(__file__).with_name("ratios.json")
WORSE = 1.25
"""The check fails if a ratio is more than this many times the committed one."""

SECONDS = 10.0
"""Time that is spent on each case."""


class Case(NamedTuple):
    """A call of the package, and the plain operation that it is compared with."""

    name: str
    ours: Callable[[], Any]
    plain: Callable[[], Any]


def cases(folder: Path) -> Iterator[Case]:
    """Make the data of one case at a time, so that only one is in memory."""
    p, rates = problem("easy", 1_000_000, 10)
    yield Case("1,000,000 x 10, log / copy", lambda: br.adjust(p, rates, loss="log"), copy_of(p))
    yield Case("1,000,000 x 10, Brier / copy", lambda: br.adjust(p, rates, loss="brier"), copy_of(p))
    p, rates = problem("easy", 200_000, 10)
    power = br.losses.Power(1.5)
    yield Case("200,000 x 10, Power(1.5) / probs**1.5", lambda: br.adjust(p, rates, loss=power), lambda: p**1.5)
    p, rates = problem("easy", 10_000, 1000)
    yield Case("10,000 x 1000, log / probs.T @ probs", lambda: br.adjust(p, rates, loss="log"), product_of(p))
    yield many_batches()
    yield comparison()
    yield parquet(folder / "in.parquet")


def copy_of(p: np.ndarray) -> Callable[[], None]:
    """Copy into an existing array. Not ``p.copy``: its time also depends on how the system allocates memory."""
    target = p.copy()
    return lambda: np.copyto(target, p)


def product_of(p: np.ndarray) -> Callable[[], None]:
    """Multiply on one thread, because BLAS threads that wait for each other also use processor time."""

    def product() -> None:
        with threadpool_limits(1, user_api="blas"):
            p.T @ p

    return product


def many_batches(batches: int = 200, n: int = 1000, k: int = 8) -> Case:
    """Many small problems, compared with multiplying the rows by weights and normalising them once."""
    rng = np.random.default_rng(1)
    problems = [(rng.dirichlet(np.ones(k), size=n), rng.dirichlet(np.full(k, 3.0))) for _ in range(batches)]

    def reweight() -> list[np.ndarray]:
        weighted = (p * rates for p, rates in problems)
        return [rows / rows.sum(axis=1, keepdims=True) for rows in weighted]

    return Case(f"{batches} batches of {n} x {k} / reweighting", lambda: br.adjust_many(problems), reweight)


def comparison(n: int = 15_000, n_bootstrap: int = 2000) -> Case:
    """A comparison of all procedures with intervals, compared with one adjustment of the same rows."""
    rng, (p, rates) = np.random.default_rng(2), problem("easy", n, 2)
    y, old = (rng.random(n) < p[:, 1]).astype(int), [0.5, 0.5]
    return Case(
        f"compare {n:,} x 2 / one adjust",
        lambda: br.compare(p, y, rates, old, n_bootstrap=n_bootstrap),
        lambda: br.adjust(p, rates),
    )


def parquet(path: Path, n: int = 1_000_000) -> Case:
    """A Parquet file, compared with reading its columns once."""
    files.make(path, n)

    def scan() -> None:
        for _ in ds.dataset(path).scanner(columns=files.COLUMNS).to_batches():
            pass

    return Case("1,000,000 x 4, Parquet / scan", lambda: br.adjust(path, files.RATES), scan)


class Times:
    """The processor times that were measured for a case."""

    def __init__(self, case: Case) -> None:
        self.case, self.ours, self.plain = case, [], []
        case.ours()  # loads the kernels and starts the threads
        case.plain()

    def measure(self) -> float:
        """Measure both calls in turns for some seconds, and return the ratio of the medians of all times so far."""
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end or len(self.ours) < 5:
            self.ours.append(processor_seconds(self.case.ours))
            self.plain.append(processor_seconds(self.case.plain))
        return statistics.median(self.ours) / statistics.median(self.plain)


def processor_seconds(call: Callable[[], Any], at_least: float = 0.02) -> float:
    """Return the processor time of a call; the mean of several if it is short."""
    start, count = time.process_time(), 0
    while (spent := time.process_time() - start) < at_least:
        call()
        count += 1
    return spent / count


def measure_all(committed: dict[str, float]) -> dict[str, float]:
    """Measure all ratios. One that is too high is measured up to two more times before the check fails."""
    ratios = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder)):
            times, limit = Times(case), WORSE * committed.get(case.name, np.inf)
            for _ in range(3):
                ratios[case.name] = times.measure()
                if ratios[case.name] <= limit:
                    break
            print(line(case.name, committed.get(case.name), ratios[case.name]), flush=True)
    return ratios


def line(name: str, before: float | None, now: float) -> str:
    """One line of the table."""
    if before is None:
        return f"{name:<40} {'-':>9} {now:9.2f} {'new':>8}"
    change = now / before - 1
    return f"{name:<40} {before:9.2f} {now:9.2f} {change:+8.0%}" + ("  worse" if now > WORSE * before else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the ratios of this run to ratios.json")
    update = parser.parse_args().update
    os.environ["BASERATE_KERNELS"] = "always"  # small batches use kernels, as ``adjust_many`` does by default
    known = json.loads(RATIOS.read_text(encoding="utf-8")) if RATIOS.exists() else {"cores": None, "ratios": {}}
    committed, cores = known["ratios"], os.cpu_count()
    if known["cores"] not in (None, cores):
        print(f"The committed ratios were measured on {known['cores']} cores; this machine has {cores}.\n")
    print(f"{'':<40} {'committed':>9} {'now':>9} {'change':>8}")
    ratios = measure_all(committed)
    if update:
        rounded = {name: float(f"{ratio:.3g}") for name, ratio in ratios.items()}
        RATIOS.write_text(json.dumps({"cores": cores, "ratios": rounded}, indent=1) + "\n", encoding="utf-8")
        return
    if ratios.keys() != committed.keys():
        sys.exit("\nThe cases are not those of ratios.json. Run benchmarks/check.py --update and commit the file.")
    if any(now > WORSE * committed[name] for name, now in ratios.items()):
        sys.exit(f"\nA ratio is more than {WORSE - 1:.0%} worse than the committed one.")


if __name__ == "__main__":
    main()
