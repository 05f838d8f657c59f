"""Fit on a Spark cluster whose executors are processes of their own, and kill one of them between or inside passes.

Prints the shifts of the fits as JSON: one undisturbed, one with a death between two passes, one with a death inside a
pass. ``tests/test_clusters.py`` runs this in a process of its own, since a process can have only one Spark cluster.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
from cluster_support import spark_cluster

import baserate as br
from baserate.progress import Progress

RATES = {"a": 0.2, "b": 0.3, "c": 0.5}


def descendants(pid: int) -> set[int]:
    """The processes that a process has started, directly or not."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    children = set(map(int, found.stdout.split()))
    return children.union(*(descendants(child) for child in children))


def executors() -> list[int]:
    """The executors of this process."""
    command = ["pgrep", "-f", "CoarseGrainedExecutorBackend.*--executor-id"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return sorted(set(map(int, found.stdout.split())) & descendants(os.getpid()))


class Killer(Progress):
    """Kills a process at the begin of the third pass, or some time after it."""

    def __init__(self, find: Any, delay: float) -> None:
        self.find, self.delay, self.passes = find, delay, 0
        self.killed: list[int] = []

    def begin(self, what: str, n_rows: int) -> None:
        self.passes += 1
        if self.passes == 3 and self.delay:
            threading.Timer(self.delay, self.kill).start()
        elif self.passes == 3:
            self.kill()

    def kill(self) -> None:
        self.killed.append(self.find()[0])
        os.kill(self.killed[0], signal.SIGKILL)


def slow(batches: Any) -> Any:
    """Each batch takes some time, so that a death happens inside a pass."""
    for batch in batches:
        time.sleep(0.5)
        yield batch


def fit(df: Any, delay: float | None) -> dict[str, Any]:
    """A fit, with a death or without, and what became of the executors."""
    killer = None if delay is None else Killer(executors, delay)
    began = time.perf_counter()
    result = br.adjust(df, RATES, columns="p_*", progress=killer)
    return {
        "shift": result.shift.tolist(),
        "killed": [] if killer is None else killer.killed,
        "passes_after": 0 if killer is None else killer.passes - 3,
        "left": executors(),
        "seconds": time.perf_counter() - began,
    }


def main() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=600)
    whole = pa.table({"id": np.arange(600)} | {f"p_{c}": p[:, j] for j, c in enumerate("abc")})
    with spark_cluster(executors=2) as cluster:
        df = cluster.table(whole, (150, 150, 150, 150))
        slowly = df.mapInArrow(slow, df.schema)
        found = {"undisturbed": fit(df, None), "between": fit(df, 0.0), "inside": fit(slowly, 0.7)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
