"""Measure time and memory of `br.adjust` on Parquet files; `make bench` runs this.

For each size a Parquet file of float32 predictions with a column of ids is generated. Three processes, one after the
other, measure a scan of its columns with pyarrow, a write of its rows with pyarrow, and `br.adjust` with `out=`. The
ratio is the time of the adjustment divided by the time of one write and of one scan per pass. At last the result is
compared with the result in memory.

With `--layouts`, files of the same number of rows are written in other ways: with small and with large row groups, and
with further columns. Memory should not depend on it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pages import fill

import baserate as br

CLASSES = "abcd"
COLUMNS = [f"p_{c}" for c in CLASSES]
RATES = dict(zip(CLASSES, (0.1, 0.2, 0.3, 0.4), strict=True))
GROUP = 1 << 20  # rows per row group
COMPARED = 1_000_000  # rows that are compared with the result in memory


class Layout(NamedTuple):
    """How a file is written: rows per row group, and float64 columns beside the ids and the predictions."""

    group: int = GROUP
    further: int = 0


PLAIN = Layout()
LAYOUTS = [Layout(100_000), Layout(1_000_000), Layout(10_000_000), Layout(1_000_000, further=20)]


def pieces(n: int, layout: Layout = PLAIN) -> Any:
    """Yield random predictions, one row group at a time."""
    rng = np.random.default_rng(0)
    for start in range(0, n, layout.group):
        p = np.exp(2 * rng.standard_normal((len(CLASSES), min(layout.group, n - start)), dtype=np.float32))
        p /= p.sum(axis=0)
        ids = np.arange(start, start + p.shape[1])
        further = {f"x{i}": rng.random(len(ids)) for i in range(layout.further)}
        yield pa.table({"id": ids} | {name: p[j] for j, name in enumerate(COLUMNS)} | further)


def make(path: Path, n: int, layout: Layout = PLAIN) -> None:
    """Write a Parquet file of random predictions."""
    with pq.ParquetWriter(path, next(pieces(1, layout)).schema) as writer:
        for piece in pieces(n, layout):
            writer.write_table(piece, row_group_size=layout.group)


def scan(path: Path, out: Path, loss: str) -> dict[str, Any]:
    """Time one scan: the fastest of three, because the first one in a process also allocates memory."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        for _ in ds.dataset(path).scanner(columns=COLUMNS).to_batches():
            pass
        seconds.append(time.perf_counter() - began)
    return {"seconds": min(seconds)}


def copy(path: Path, out: Path, loss: str) -> dict[str, Any]:
    """Time one write of all rows. Reading them is not timed."""
    file, seconds = pq.ParquetFile(path), 0.0
    with pq.ParquetWriter(out, file.schema_arrow) as writer:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            began = time.perf_counter()
            writer.write_table(table, row_group_size=len(table))
            seconds += time.perf_counter() - began
    return {"seconds": seconds}


def adjust(path: Path, out: Path, loss: str) -> dict[str, Any]:
    """Time one adjustment that writes a file, and measure the peak memory."""
    make(out, 200_000)
    br.adjust(out, RATES, loss=loss)  # loads modules and kernels
    began = time.perf_counter()
    result = br.adjust(path, RATES, columns="p_*", loss=loss, out=out)
    seconds = time.perf_counter() - began
    result.save(out.with_suffix(".json"))
    return {"seconds": seconds, "passes": result.n_passes, "peak": peak_memory()}


def peak_memory() -> float:
    """The peak memory of this process in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def in_new_process(measure: Callable[[Path, Path, str], dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Run a measurement in a new process, so that the peak memory is that of this measurement only."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, arguments)


def compare(path: Path, out: Path, loss: str) -> dict[str, float]:
    """Compare the shift and the adjusted rows with the result in memory, and check the rows that were written."""
    p = np.column_stack([c.to_numpy() for c in pq.read_table(path, columns=COLUMNS).columns])
    known = br.adjust(p, list(RATES.values()), loss=loss)
    written = next(pq.ParquetFile(out).iter_batches(COMPARED, columns=COLUMNS))
    rows = np.column_stack([column.to_numpy() for column in written.columns])
    of_file, first = br.load(out.with_suffix(".json")), slice(0, len(rows))
    assert np.abs(rows - known.probs[first]).max() < 1e-7, (
        "the written rows differ by more than the rounding to float32"
    )
    return {
        "shift": float(np.abs(of_file.shift - known.shift).max()),
        "rows": float(np.abs(of_file.apply(p[first]) - known.probs[first]).max()),
    }


def measure(folder: Path, n: int, loss: str, in_memory: bool, layout: Layout = PLAIN) -> dict[str, Any]:
    """Measure one size and loss."""
    path, out = folder / "in.parquet", folder / "out.parquet"
    make(path, n, layout)
    scan(path, out, loss)  # so that the file is in the cache of the operating system for all measurements
    figures = {
        name: in_new_process(step, path, out, loss)
        for name, step in (("scan", scan), ("copy", copy), ("adjust", adjust))
    }
    done = figures["adjust"]
    plain = done["passes"] * figures["scan"]["seconds"] + figures["copy"]["seconds"]
    differ = compare(path, out, loss) if in_memory else {"shift": None, "rows": None}
    return {
        "rows": n,
        "loss": loss,
        **layout._asdict(),
        "gigabytes": path.stat().st_size / 1e9,
        "scan": figures["scan"]["seconds"],
        "write": figures["copy"]["seconds"],
        "adjust": done["seconds"],
        "passes": done["passes"],
        "ratio": done["seconds"] / plain,
        "peak": done["peak"],
        **{f"{name} differs by": value for name, value in differ.items()},
    }


def table(found: list[dict[str, Any]]) -> str:
    """A Markdown table."""
    lines = [
        "| rows x 4, float32 | loss | file | one scan | one write | adjusted in | passes "
        "| times (passes x scan + write) | peak memory | rows differ from those in memory by |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        differs = "not compared" if one["rows differs by"] is None else f"{one['rows differs by']:.0e}"
        cells = [
            f"{one['rows']:.0e} | {one['loss']} | {one['gigabytes']:.2f} GB",
            *(f"{one[name]:.2f} s" for name in ("scan", "write", "adjust")),
            f"{one['passes']} | {one['ratio']:.2f} | {one['peak']:.0f} MiB | {differs}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def table_of_layouts(found: list[dict[str, Any]]) -> str:
    """A Markdown table."""
    lines = [
        "| rows x 4, float32 | rows per row group | further columns | file | adjusted in | passes "
        "| times (passes x scan + write) | peak memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        cells = [
            f"{one['rows']:.0e} | {one['group']:,} | {one['further']} | {one['gigabytes']:.2f} GB",
            f"{one['adjust']:.1f} s | {one['passes']} | {one['ratio']:.2f} | {one['peak']:.0f} MiB",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7, 1e8])
    parser.add_argument("--losses", nargs="+", default=["log", "brier"])
    parser.add_argument(
        "--most-in-memory",
        type=float,
        default=1e8,
        help="largest number of rows for which the result is also computed in memory",
    )
    parser.add_argument(
        "--folder", help="folder for the files, which need 5 GB for 1e8 rows, and 40 GB with further columns"
    )
    parser.add_argument("--json", help="also write the results to this file")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/files.md")
    parser.add_argument("--layouts", action="store_true", help="other layouts of one file with log loss instead")
    options = parser.parse_args()
    cases = [(n, loss, PLAIN) for n in options.rows for loss in options.losses]
    if options.layouts:
        cases = [(max(options.rows), "log", layout) for layout in LAYOUTS]
    found = []
    for n, loss, layout in cases:
        in_memory = n <= options.most_in_memory and not options.layouts
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            found.append(measure(Path(folder), int(n), loss, in_memory, layout))
        print(json.dumps(found[-1]), flush=True)
    text = table_of_layouts(found) if options.layouts else table(found)
    print(text)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.docs:
        fill("docs/files.md", "layouts" if options.layouts else "files", text)


if __name__ == "__main__":
    main()
