"""Time the answers of ``baserate app`` while a slider moves, on 1e6 rows of 10 classes; `make bench` runs this.

The server runs as users start it. The requests are those of the page, one after the other, and their time includes the
rendered HTML. The first answer, which reads the file, is not counted.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pages import fill

N_ROWS, N_CLASSES, N_QUICK, N_EXACT = 1_000_000, 10, 200, 20
QUICK_LIMIT, EXACT_LIMIT = 0.100, 0.500


class Client:
    """A client that sends what the page would send."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.base, self._origin = parts.path.rstrip("/"), f"http://{parts.netloc}"
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=120)

    def ask(self, path: str, value: Any = None) -> dict[str, Any]:
        method = "GET" if value is None else "POST"
        body = None if value is None else json.dumps(value)
        self._connection.request(method, self.base + path, body, {"Origin": self._origin})
        return json.loads(self._connection.getresponse().read())

    def finished(self, path: str, value: Any) -> dict[str, Any]:
        """The answer of a job, as soon as it is there."""
        status = self.ask(path, value)
        while status["state"] in ("waiting", "running"):
            time.sleep(0.01)
            status = self.ask(f"/job/{status['job']}")
        assert status["state"] == "done", status
        return status


def form(rng: np.random.Generator) -> dict[str, Any]:
    """Rates as a slider leaves them: one rate is moved, the others keep their proportions."""
    first = rng.integers(500, 4000)
    others = [(10_000 - first) // (N_CLASSES - 1)] * (N_CLASSES - 1)
    others[-1] += 10_000 - first - sum(others)
    entries = [{"class": f"c{j}", "low": f"{share / 100:.2f}"} for j, share in enumerate([first, *others])]
    return {"kind": "number", "loss": "log", "entries": entries}


def seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(folder: Path) -> dict[str, float]:
    """Times in seconds: the first answer, and quantiles of quick and exact ones."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(N_CLASSES, 0.5), size=N_ROWS)
    path = folder / "predictions.parquet"
    pq.write_table(pa.table({f"p_c{j}": probs[:, j] for j in range(N_CLASSES)}), path)
    command = [sys.executable, "-m", "baserate", "app", str(path), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found
        try:
            client = Client(found[0])
            page = client.ask("/open/0", {})["url"].removeprefix(client.base)
            first = seconds(lambda: client.finished(f"{page}/exact", form(rng)))
            client.finished(f"{page}/exact", form(rng))
            client.ask(f"{page}/quick", form(rng))
            quick = [seconds(lambda: client.ask(f"{page}/quick", form(rng))) for _ in range(N_QUICK)]
            exact = [seconds(lambda: client.finished(f"{page}/exact", form(rng))) for _ in range(N_EXACT)]
        finally:
            server.send_signal(signal.SIGINT)
    return {
        "first": first,
        "quick_median": float(np.median(quick)),
        "quick_95": float(np.quantile(quick, 0.95)),
        "exact_median": float(np.median(exact)),
        "exact_95": float(np.quantile(exact, 0.95)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", action="store_true", help="write the figures to docs/app.md")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if an answer takes too long")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder))
    ms = {name: f"{1000 * value:.0f} ms" for name, value in found.items()}
    text = (
        f"On 2 cores, with {N_ROWS:,} rows and {N_CLASSES} classes in a Parquet file: while a slider moves, 95 % of "
        f"the answers take less than {ms['quick_95']} (median {ms['quick_median']}). The exact answer takes "
        f"{ms['exact_median']} (95 %: {ms['exact_95']}). The first answer, which reads the file, takes "
        f"{found['first']:.1f} s (`python benchmarks/app.py --docs`)."
    )
    print(text)
    if options.docs:
        fill("docs/app.md", "app", textwrap.fill(text, 118))
    if options.check and (found["quick_95"] > QUICK_LIMIT or found["exact_95"] > EXACT_LIMIT):
        sys.exit("an answer takes too long")


if __name__ == "__main__":
    main()
