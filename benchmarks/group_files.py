"""Measure time and memory of rates per group on a Parquet file that is larger than memory may hold; see `make bench`.

The file has float32 predictions of four classes and a column with one of 1,000 groups. As in files.py, a scan and a
write with pyarrow and the adjustment run in processes of their own, and the adjustment is divided by one write and one
scan per pass. One scan reads the predictions and the groups.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from files import CLASSES, COLUMNS, GROUP, copy, in_new_process, peak_memory, pieces
from pages import fill

import baserate as br

N_GROUPS = 1000
LIMIT = 1024  # MiB


def make(path: Path, n: int) -> None:
    """Write a Parquet file of random predictions with a column of groups."""
    rng, writer = np.random.default_rng(1), None
    for piece in pieces(n):
        group = pa.array(rng.integers(N_GROUPS, size=len(piece), dtype=np.int16))
        table = piece.append_column("group", group)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=GROUP)
    if writer is not None:
        writer.close()


def rates() -> br.Rates:
    """Exact rates of all groups."""
    table = np.random.default_rng(2).dirichlet(np.full(len(CLASSES), 5.0), N_GROUPS)
    return br.Rates.by("group", {g: dict(zip(CLASSES, row.tolist(), strict=True)) for g, row in enumerate(table)})


def scan(path: Path, out: Path, loss: str) -> dict[str, Any]:
    """Time one scan of the predictions and the groups: the fastest of three."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        for _ in ds.dataset(path).scanner(columns=[*COLUMNS, "group"]).to_batches():
            pass
        seconds.append(time.perf_counter() - began)
    return {"seconds": min(seconds)}


def adjust(path: Path, out: Path, loss: str) -> dict[str, Any]:
    """Time one adjustment that writes a file, and measure the peak memory."""
    make(out, 200_000)
    br.adjust(out, rates(), loss=loss)  # loads modules and kernels
    began = time.perf_counter()
    result = br.adjust(path, rates(), loss=loss, out=out)
    seconds = time.perf_counter() - began
    return {
        "seconds": seconds,
        "passes": result.n_passes,
        "peak": peak_memory(),
        "residual": result.certificate.residual,
    }


def check(out: Path) -> float:
    """The largest difference between a wanted rate and the mean of the rows in the written file."""
    sums, counts = np.zeros((N_GROUPS, len(CLASSES))), np.zeros(N_GROUPS)
    for batch in pq.ParquetFile(out).iter_batches(GROUP, columns=["group", *COLUMNS]):
        group = batch.column(0).to_numpy()
        counts += np.bincount(group, minlength=N_GROUPS)
        for j in range(len(CLASSES)):
            sums[:, j] += np.bincount(group, batch.column(1 + j).to_numpy().astype(np.float64), minlength=N_GROUPS)
    wanted, _ = rates().bounds()
    return float(np.abs(sums / counts[:, None] - wanted).max())


def table(n: int, size: float, measured: dict[str, dict[str, Any]], error: float) -> str:
    """A Markdown table. A goal that was missed is marked."""
    done, one_scan, write = measured["adjust"], measured["scan"]["seconds"], measured["copy"]["seconds"]
    ratio = done["seconds"] / (done["passes"] * one_scan + write)
    peak = f"{done['peak']:,.0f} MiB (goal ≤ 1,024" + (")" if done["peak"] <= LIMIT else ", **missed**)")
    lines = [
        "| rows | groups | file | one scan | one write | adjust | in scans | passes | ratio | peak memory | error |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        f"| {n:,} | {N_GROUPS:,} | {size:.1f} GB | {one_scan:.1f} s | {write:.1f} s | {done['seconds']:.1f} s | "
        f"{done['seconds'] / one_scan:.1f} | {done['passes']} | {ratio:.2f} | {peak} | {error:.0e} |",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--folder", help="where the files are made; by default a temporary folder")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md")
    options = parser.parse_args()
    n = int(options.rows)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path, out = Path(folder, "in.parquet"), Path(folder, "out.parquet")
        make(path, n)
        scan(path, out, "log")  # so that the file is in the cache of the operating system for all measurements
        measured = {
            name: in_new_process(step, path, out, "log")
            for name, step in (("scan", scan), ("copy", copy), ("adjust", adjust))
        }
        text = table(n, path.stat().st_size / 1e9, measured, check(out))
    print(text)
    if options.docs:
        fill("docs/benchmarks.md", "group-files", text)


if __name__ == "__main__":
    main()
