"""Measure how the cost of a fit grows with rows, classes and workers, and write the tables of docs/scale.md.

``python benchmarks/scale.py PART ...`` measures some parts, and keeps their figures in benchmarks/scale.json. The parts
are ``files``, ``links``, ``classes``, ``driver``, and for each number of workers ``spark-1`` or ``dask-1``. ``python
benchmarks/scale.py --docs`` writes the tables and the prediction from these figures; `make scale` does all of it. Spark
needs Java.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pages import ROOT, fill

import baserate as br

RESULTS = ROOT / "benchmarks" / "scale.json"
CLASSES = "abcd"
COLUMNS = [f"p_{c}" for c in CLASSES]
RATES = dict(zip(CLASSES, (0.1, 0.2, 0.3, 0.4), strict=True))
GROUP = 1 << 20  # rows per row group
VALUES = 1 << 23  # of each matrix in the table of classes
CLUSTER_ROWS = 4_000_000  # in 4 files
WORKERS = (1, 2, 4)
DRIVER_ROWS = (200_000, 2_000_000, 20_000_000)

MACHINES, CORES, ROWS = 100, 16, 1e12  # what is predicted
READ = 1e9  # bytes per second that a machine of the prediction reads from its storage


def write(path: Path, n: int, seed: int = 0) -> None:
    """Write a Parquet file of random float32 predictions."""
    rng = np.random.default_rng(seed)
    writer = None
    for start in range(0, n, GROUP):
        p = np.exp(2 * rng.standard_normal((len(CLASSES), min(GROUP, n - start)), dtype=np.float32))
        p /= p.sum(axis=0)
        piece = pa.table({name: p[j] for j, name in enumerate(COLUMNS)})
        writer = writer or pq.ParquetWriter(path, piece.schema)
        writer.write_table(piece, row_group_size=GROUP)
    assert writer is not None
    writer.close()


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what was returned."""
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


def scan(paths: list[Path]) -> None:
    """Read all columns once."""
    for _ in ds.dataset(paths).scanner(columns=COLUMNS).to_batches():
        pass


def measured(paths: list[Path], *, scans: bool = True) -> dict[str, Any]:
    """A scan and a fit of some files."""
    scanned = min(timed(lambda: scan(paths))[0] for _ in range(3)) if scans else None
    seconds, result = timed(lambda: br.adjust([str(path) for path in paths], RATES, columns="p_*"))
    assert result.converged
    return {"rows": result.n_rows, "scan": scanned, "seconds": seconds, "passes": result.n_passes}


def files() -> list[dict[str, Any]]:
    """Fits of files of growing size, without output."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write(path, 9_000_000)
        measured([path])  # loads modules and kernels
        for n in (10**6, 10**7, 10**8):
            write(path, n)
            found.append(measured([path]))
    return found


def links() -> list[dict[str, Any]]:
    """A fit of 1e9 rows: ten names of a file of 1e8 rows, which stays in the cache of the operating system."""
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "part-0.parquet"
        write(first, 9_000_000)
        measured([first])
        write(first, 10**8)
        paths = [first, *(Path(folder) / f"part-{i}.parquet" for i in range(1, 10))]
        for path in paths[1:]:
            os.link(first, path)
        return [measured(paths, scans=False)]


def classes() -> list[dict[str, Any]]:
    """Fits of matrices with the same number of values, and of the bytes that a partition returns."""
    found = []
    for k in (2, 10, 100, 1000):
        n = VALUES // k
        p = np.random.default_rng(0).standard_gamma(1.0, size=(n, k)) + 1e-3
        p /= p.sum(axis=1, keepdims=True)
        rates = np.linspace(1, 2, k) / np.linspace(1, 2, k).sum()
        br.adjust(p[: n // 4], rates)
        seconds, result = timed(lambda p=p, rates=rates: br.adjust(p, rates))
        assert result.converged
        sums = br.core.contracts.DualSums(np.zeros(()), np.zeros(()), np.zeros(k), np.zeros((k, k)))
        found.append(
            {"classes": k, "rows": n, "seconds": seconds, "passes": result.n_passes, "bytes": len(pickle.dumps(sums))}
        )
    return found


def cluster(measure: Callable[[int, list[str]], dict[str, Any]], workers: int) -> list[dict[str, Any]]:
    """The same rows for each number of workers."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"part-{i}.parquet" for i in range(4)]
        for i, path in enumerate(paths):
            write(path, CLUSTER_ROWS // len(paths), seed=i)
        return [{"workers": workers, "rows": CLUSTER_ROWS} | measure(workers, [str(path) for path in paths])]


def on_spark(workers: int, paths: list[str]) -> dict[str, Any]:
    """A process of its own for each number of workers, since a JVM has one Spark context."""
    ran = subprocess.run(
        [sys.executable, __file__, "--spark-workers", str(workers), *paths], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr[-3000:])
    return dict(json.loads(ran.stdout.strip().splitlines()[-1]))


def spark_worker(workers: int, paths: list[str]) -> dict[str, Any]:
    """Scans and fits with Spark executors that have one core each."""
    sys.path.insert(0, str(ROOT / "tests"))
    from cluster_support import spark_cluster

    from baserate.engines.arrow_clusters.spark import SparkEngine

    received: list[int] = []
    run = SparkEngine._outcomes

    def counted(engine: SparkEngine, *arguments: Any) -> Any:
        outcomes = run(engine, *arguments)
        received.append(sum(len(pickle.dumps(one)) for one in outcomes))
        return outcomes

    SparkEngine._outcomes = counted  # type: ignore[method-assign]  # to count bytes
    settings = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.files.openCostInBytes": str(1 << 30),  # one partition per file
    }
    with spark_cluster(executors=workers, settings=settings) as cluster:
        df = cluster.session.read.parquet(*paths)
        br.adjust(df.limit(100_000), RATES, columns="p_*")  # starts the Python processes
        scanned, _ = timed(lambda: df.mapInArrow(_count, "n long").agg({"n": "sum"}).collect())
        received.clear()
        seconds, result = timed(lambda: br.adjust(df, RATES, columns="p_*"))
        received_in_fit = list(received)
        few = df.limit(1000).repartition(len(paths)).cache()
        few.count()
        overhead, small = timed(lambda: br.adjust(few, RATES, columns="p_*"))
    assert result.converged
    return {
        "scan": scanned,
        "seconds": seconds,
        "passes": result.n_passes,
        "overhead": overhead / (small.n_passes + 1),
        "bytes": received_in_fit,
    }


def _count(batches: Any) -> Any:
    yield pa.record_batch({"n": pa.array([sum(batch.num_rows for batch in batches)], pa.int64())})


def driver() -> list[dict[str, Any]]:
    """Memory of the driver of Spark, in a process of its own, for fits of more and more rows."""
    ran = subprocess.run([sys.executable, __file__, "--spark-driver"], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(ran.stderr[-3000:])
    return [json.loads(line) for line in ran.stdout.strip().splitlines()]


def spark_driver() -> None:
    """Print the memory of this process and of its JVM after each fit."""
    sys.path.insert(0, str(ROOT / "tests"))
    from cluster_support import spark_cluster

    with spark_cluster(settings={"spark.sql.execution.arrow.maxRecordsPerBatch": "50000"}) as cluster:
        jvm = cluster.session.sparkContext._gateway.proc.pid
        for n in DRIVER_ROWS:
            raw = cluster.session.range(0, n, 1, 8).selectExpr("id", "1.5D + (hash(id) % 100) / 101D as a")
            df = raw.selectExpr("id", "a / (a + 1) as p_a", "1 / (a + 1) as p_b")
            seconds, result = timed(lambda df=df: br.adjust(df, {"a": 0.3, "b": 0.7}, columns="p_*"))
            assert result.converged
            found = {"rows": n, "passes": result.n_passes, "seconds": seconds}
            print(json.dumps(found | {"python": peak_memory(os.getpid()), "jvm": peak_memory(jvm)}), flush=True)


def peak_memory(process: int) -> int:
    """The largest memory of a process so far, in MiB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return round(int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024)


def on_dask(workers: int, paths: list[str]) -> dict[str, Any]:
    """Fits with Dask workers that have one thread each. The rows are kept in their memory."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    with (
        LocalCluster(processes=True, n_workers=workers, threads_per_worker=1, dashboard_address=None) as started,
        Client(started),
    ):
        df = dd.read_parquet(paths)
        br.adjust(df, RATES, columns="p_*")
        seconds, result = timed(lambda: br.adjust(df, RATES, columns="p_*"))
        few = dd.from_pandas(df.head(1000), npartitions=len(paths))
        overhead, small = timed(lambda: br.adjust(few, RATES, columns="p_*"))
    # There is no scan to compare with: the workers still keep the rows of the first fit.
    return {"scan": None, "seconds": seconds, "passes": result.n_passes, "overhead": overhead / (small.n_passes + 1)}


PARTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "files": files,
    "links": links,
    "classes": classes,
    "driver": driver,
    **{f"spark-{n}": partial(cluster, on_spark, n) for n in WORKERS},
    **{f"dask-{n}": partial(cluster, on_dask, n) for n in WORKERS},
}


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table whose columns are numbers, except for the first."""
    lines = [head, ["--:"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rows_table(found: dict[str, Any]) -> str:
    """Time by number of rows."""
    rows = [
        [
            f"{one['rows']:,}",
            str(one["passes"]),
            f"{one['scan']:.2f} s" if one["scan"] else "",
            f"{one['seconds']:.2f} s",
            f"{one['seconds'] / one['passes'] / one['rows'] * 1e9:.1f} ns",
            f"{one['seconds'] / one['scan']:.1f}" if one["scan"] else "",
        ]
        for one in [*found["files"], *found.get("links", [])]
    ]
    return table(["rows", "passes", "one scan", "fit", "per row and pass", "fit in scans"], rows)


def classes_table(found: dict[str, Any]) -> str:
    """Time and bytes by number of classes."""
    rows = [
        [
            str(one["classes"]),
            f"{one['rows']:,}",
            str(one["passes"]),
            f"{one['seconds']:.2f} s",
            f"{one['seconds'] / one['passes'] / one['rows'] / one['classes'] * 1e9:.2f} ns",
            f"{one['bytes']:,}",
        ]
        for one in found["classes"]
    ]
    return table(["classes", "rows", "passes", "fit", "per value and pass", "bytes per partition and pass"], rows)


def workers_table(found: dict[str, Any]) -> str:
    """Time by number of workers."""
    rows = [
        [
            f"{name} {one['workers']}",
            str(one["passes"]),
            f"{one['scan']:.2f} s" if one["scan"] else "",
            f"{one['seconds']:.2f} s",
            f"{found[f'{part}-1'][0]['seconds'] / one['seconds']:.2f}",
            f"{one['seconds'] / one['scan']:.1f}" if one["scan"] else "",
            f"{one['overhead'] * 1e3:.0f} ms",
        ]
        for part, name in (("spark", "Spark"), ("dask", "Dask"))
        for workers in WORKERS
        for one in found.get(f"{part}-{workers}", [])
    ]
    head = ["workers", "passes", "one scan", "fit", "speed-up", "fit in scans", "pass over 1000 rows"]
    return table(head, rows)


def traffic(found: dict[str, Any]) -> str:
    """What the driver of Spark received."""
    received = found["spark-2"][0]["bytes"]
    largest = max(range(len(received)), key=received.__getitem__)
    others = [n for i, n in enumerate(received) if i != largest]
    return (
        f"In the fit with 2 executors above, the driver received {sum(received):,} bytes in {len(received)} jobs:\n"
        f"{received[largest]:,} with the sample, and at most {max(others):,} in each other job, for 64 MB of rows."
    )


def driver_table(found: dict[str, Any]) -> str:
    """Memory of the driver by number of rows."""
    rows = [
        [
            f"{one['rows']:,}",
            str(one["passes"]),
            f"{one['seconds']:.1f} s",
            f"{one['python']} MiB",
            f"{one['jvm']} MiB",
        ]
        for one in found["driver"]
    ]
    return table(["rows", "passes", "fit", "largest memory of the Python process", "of the JVM"], rows)


def prediction(found: dict[str, Any]) -> str:
    """The model with the measured figures, for many rows on many machines."""
    one = found["spark-2"][0]  # all cores of the machine are busy: beside the JVM, each executor has a Python process
    jobs = one["passes"] + 1
    per_row = (one["seconds"] / jobs - one["overhead"]) * one["workers"] / one["rows"]
    compute = ROWS * per_row / (MACHINES * CORES)
    width = len(CLASSES) * 4
    reading = ROWS * width / (MACHINES * READ)
    partitions = int(ROWS * width / 128e6)
    scheduling = partitions / 1000
    levels = max(int(np.ceil(np.log(partitions) / np.log(32))) - 1, 0)
    joins = levels * one["overhead"]
    total = jobs * (max(compute, reading) + scheduling + joins + one["overhead"])
    lines = [
        ["cost of a row in a pass, one core", f"c = {per_row * 1e9:.0f} ns", "measured: Spark, 2 executors on 2 cores"],
        ["jobs", f"P = {jobs}", "measured: the passes, and the count"],
        ["fixed cost of a job", f"{one['overhead'] * 1e3:.0f} ms", "measured: 1000 rows"],
        ["compute per job", f"{compute:,.0f} s", f"n c / ({MACHINES} x {CORES} cores)"],
        ["reading per job", f"{reading:,.0f} s", f"n x {width} bytes / ({MACHINES} x {READ / 1e9:.0f} GB/s)"],
        ["partitions", f"{partitions:,}", "of 128 MB"],
        ["scheduling per job", f"{scheduling:,.0f} s", "assumed: 1000 tasks per second on the driver"],
        ["joins of sums per job", f"{joins:.1f} s", f"{levels} levels of 32, each as long as a small job"],
        [
            "**fit**",
            f"**{total / 60:,.0f} minutes**",
            "P x (larger of compute and reading + scheduling + joins + fixed)",
        ],
    ]
    return "\n".join(["| | | how |", "|---|--:|---|", *(f"| {' | '.join(line)} |" for line in lines)])


def write_docs(found: dict[str, Any]) -> None:
    """Write the tables of the page."""
    for name, text in (
        ("rows", rows_table(found)),
        ("classes", classes_table(found)),
        ("workers", workers_table(found)),
        ("traffic", traffic(found)),
        ("driver", driver_table(found)),
        ("prediction", prediction(found)),
    ):
        fill("docs/scale.md", f"scale-{name}", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--docs", action="store_true", help="write the tables of docs/scale.md")
    parser.add_argument("--spark-workers", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--spark-driver", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.spark_driver:
        spark_driver()
        return
    if options.spark_workers:
        print(json.dumps(spark_worker(options.spark_workers, options.parts)))
        return
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for part in options.parts:
        found[part] = PARTS[part]()
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        print(part, json.dumps(found[part], indent=1))
    if options.docs:
        write_docs(found)


if __name__ == "__main__":
    main()
