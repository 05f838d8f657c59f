"""Compare baserate with basic operations on the same data, such as a copy or a matrix product.

Run as a program, this file measures the memory of one large call in its own process.
"""

from __future__ import annotations

import functools
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from peers import BOTH, PEERS, in_turns, ours, problem, seconds_of

import baserate as br

MANY = 10_000_000
PIECE = 1_000_000
QUICK = ("POT sinkhorn", "POT smooth_ot_semi_dual", "SciPy L-BFGS-B")
"""Alternatives that are fast enough to be shown in the pictures."""

TOO_SLOW = 5.0
"""An alternative that takes longer than this, in seconds, is not tried on larger data."""

MIB = 2**20


@functools.cache
def many_rows() -> tuple[np.ndarray, np.ndarray]:
    """10 million easy rows in float32, generated in pieces to save memory."""
    rng, p = np.random.default_rng(0), np.empty((MANY, 10), dtype=np.float32)
    for start in range(0, MANY, PIECE):
        p[start : start + PIECE] = rng.dirichlet(np.ones(10), size=PIECE)
    return p, rng.dirichlet(np.full(10, 3.0))


def our_calls(p: np.ndarray, rates: np.ndarray, losses: tuple[str, ...] = BOTH) -> dict[str, Any]:
    return {loss: functools.partial(ours, p, rates, loss) for loss in losses}


def limits() -> list[dict[str, Any]]:
    """Time as a multiple of a copy or of a matrix product, and memory in addition to input and result."""
    return [
        *against_copy("float64", *problem("easy", 1_000_000, 10), repeats=25, goals={"log": 5, "brier": 8}),
        *float32_limits(),
        *against_product(),
    ]


def float32_limits() -> list[dict[str, Any]]:
    """The same for float32. The spherical score has no compiled kernel, so it shows what NumPy does."""
    p, rates = many_rows()
    return [
        *against_copy("float32", p, rates, repeats=9, goals={"log": 4, "brier": 7}),
        *(extra_memory(loss, MANY) for loss in BOTH),
        *against_copy("float32", p[:PIECE], rates, repeats=3, goals={"spherical": None}),
        extra_memory("spherical", PIECE),
    ]


def against_copy(
    dtype: str, p: np.ndarray, rates: np.ndarray, repeats: int, goals: dict[str, float | None]
) -> list[dict[str, Any]]:
    """The time of each loss in ``goals`` as a multiple of a copy."""
    plain = {"probs.copy()": p.copy, "probs.sum()": p.sum}
    seconds = in_turns(plain | our_calls(p, rates, tuple(goals)), repeats)
    return as_multiples(f"{len(p):,} x {p.shape[1]}, {dtype}", "probs.copy()", seconds, goals)


def against_product() -> list[dict[str, Any]]:
    p, rates = problem("easy", 50_000, 1000)
    calls = {"probs.T @ probs": lambda: p.T @ p, "log": lambda: ours(p, rates, "log")}
    return as_multiples("50,000 x 1000, float64", "probs.T @ probs", in_turns(calls, repeats=3), {"log": 3})


def as_multiples(case: str, unit: str, seconds: dict[str, float], goals: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "case": case,
            "what": what,
            "seconds": taken,
            "value": taken / seconds[unit],
            "unit": f"times {unit}",
            "goal": goals.get(what),
        }
        for what, taken in seconds.items()
    ]


def extra_memory(loss: str, n: int) -> dict[str, Any]:
    """The peak memory of a call on float32 rows. It should be that of a float32 answer and 100 MB more."""
    done = subprocess.run([sys.executable, __file__, loss, str(n)], capture_output=True, text=True, check=True)
    row = {"case": f"{n:,} x 10, float32", "what": loss, "seconds": None, "unit": "MiB more than the input"}
    return row | {"value": float(done.stdout) / MIB, "goal": int((4 * 10 * n + 1e8) / MIB)}


def print_extra_memory(loss: str, n: int) -> None:
    """Print the peak memory of a call in bytes, without its input."""
    p, rates = many_rows()
    ours(p[: n // 10], rates, loss)  # loads the kernels and starts the threads
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    ours(p[:n], rates, loss)
    print(memory("VmHWM") - before)


def memory(name: str) -> int:
    """A memory figure of this process in bytes, from /proc/self/status."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return 1024 * int(line.split()[1])


def passes() -> list[dict[str, Any]]:
    """The number of passes over the data."""
    rows = []
    for n, k in ((100_000, 2), (100_000, 10), (100_000, 100), (20_000, 1000)):
        for data in ("easy", "over-confident") if k < 1000 else ("easy",):
            p, rates = problem(data, n, k)
            goal = {"easy": 6, "over-confident": 25}[data] if n >= 100_000 else None
            rows += [passes_of(data, p, rates, loss, goal) for loss in BOTH]
    return rows + real_passes()


def real_passes() -> list[dict[str, Any]]:
    """The same for predictions of real models, if BASERATE_DATA names a folder with them."""
    if "BASERATE_DATA" not in os.environ:
        return []
    rows = []
    for file in sorted((Path(os.environ["BASERATE_DATA"]) / "predictions").glob("*.npz")):
        arrays = np.load(file)
        for name in (name for name in arrays.files if name.startswith("p__")):
            p, y = arrays[name], arrays["y"].astype(np.intp)
            rates = np.bincount(y, minlength=p.shape[1]) / len(y)
            label = f"{file.stem} {name.removeprefix('p__')}"
            rows += [passes_of(label, p, rates, loss, goal=None) for loss in BOTH]
    return rows


def passes_of(data: str, p: np.ndarray, rates: np.ndarray, loss: str, goal: int | None) -> dict[str, Any]:
    def call() -> br.Adjustment:
        return br.adjust(p, rates, loss=loss, normalize=True)

    result = call()
    return {
        "n": len(p),
        "k": p.shape[1],
        "data": data,
        "loss": loss,
        "passes": result.n_passes,
        "goal": goal,
        "residual": result.certificate.residual,
        "gap": result.certificate.gap,
        "milliseconds": 1e3 * statistics.median(seconds_of(call) for _ in range(3)),
    }


def rows() -> list[dict[str, Any]]:
    """Time by number of rows, with 10 classes. With float64 the fast alternatives are measured as well."""
    single, rates = many_rows()
    double, double_rates = problem("easy", 1_000_000, 10)
    slow: set[str] = set()
    found = [times(double[:n], double_rates, slow, {"n": n, "dtype": "float64"}) for n in (10_000, 100_000, 1_000_000)]
    found += [
        {"n": n, "dtype": "float32"} | in_turns({"probs.copy()": single[:n].copy} | our_calls(single[:n], rates), 7)
        for n in (10_000, 100_000, 1_000_000, MANY)
    ]
    return found


def classes() -> list[dict[str, Any]]:
    """Time by number of classes, with 20,000 rows."""
    slow: set[str] = set()
    found = []
    for k in (2, 5, 10, 20, 50, 100, 200, 500, 1000):
        p, rates = problem("easy", 20_000, k)
        counts = {f"passes, {loss}": br.adjust(p, rates, loss=loss).n_passes for loss in BOTH}
        found.append(times(p, rates, slow, {"k": k} | counts))
    return found


def times(p: np.ndarray, rates: np.ndarray, slow: set[str], row: dict[str, Any]) -> dict[str, Any]:
    """Return ``row`` with the seconds of all calls. Names of alternatives that are too slow are added to ``slow``."""
    row = row | in_turns({"probs.copy()": p.copy} | our_calls(p, rates), repeats=5)
    quick = {
        f"{name}, {loss}": functools.partial(PEERS[name].answer, p, rates, loss)
        for name in QUICK
        for loss in BOTH
        if PEERS[name].can_do(loss, p.shape[1]) and f"{name}, {loss}" not in slow
    }
    for name in QUICK:
        PEERS[name].answer(p[:100], rates, PEERS[name].losses[0])  # so that imports are not timed
    row |= in_turns(quick, repeats=3, enough=1.0, warm=False)
    slow |= {name for name in quick if row[name] > TOO_SLOW}
    return row


IMPORT = "import time, numpy; start = time.perf_counter(); import baserate; print(time.perf_counter() - start)"
FIRST_CALL = """
import time
import numpy as np
import baserate as br
p = np.random.default_rng(0).dirichlet(np.ones(10), size=100_000)
for _ in range(2):
    start = time.perf_counter()
    br.adjust(p, np.full(10, 0.1))
    print(time.perf_counter() - start)
"""

FIRST_SMALL_CALL = """
import sys, time
sys.path.insert(0, sys.argv[3])
from peers import PEERS, ours, problem
p, rates = problem("easy", 1000, 8)
answer = PEERS[sys.argv[1]].answer if sys.argv[1] in PEERS else ours
if sys.argv[1].startswith("CVXPY"):
    import cvxpy
start = time.perf_counter()
answer(p, rates, sys.argv[2])
print(time.perf_counter() - start)
assert "numba" not in sys.modules
"""


def start() -> list[dict[str, Any]]:
    """Times of the import and of the first call in a new process."""
    imports = statistics.median(run_in_new_process(IMPORT)[0] for _ in range(5))
    with tempfile.TemporaryDirectory() as cache:
        compiled, _ = run_in_new_process(FIRST_CALL, NUMBA_CACHE_DIR=cache)
        loaded = [run_in_new_process(FIRST_CALL, NUMBA_CACHE_DIR=cache) for _ in range(5)]
    return [
        {"what": "import baserate, after NumPy", "seconds": imports},
        {"what": "first call on 100,000 x 10, nothing compiled yet", "seconds": compiled},
        {"what": "the same in the next process", "seconds": statistics.median(first for first, _ in loaded)},
        {"what": "second call in a process", "seconds": statistics.median(second for _, second in loaded)},
        *first_small_calls(),
    ]


def first_small_calls() -> list[dict[str, Any]]:
    """The first call of a process on 1000 x 8, without numba, and that of CVXPY after its import."""
    names = {"log": ("baserate", "CVXPY + ECOS"), "brier": ("baserate", "CVXPY + OSQP")}
    calls = {f"{name}, {loss}": (name, loss) for loss, of_loss in names.items() for name in of_loss}
    seconds: dict[str, list[float]] = {what: [] for what in calls}
    for _ in range(7):
        for what, (name, loss) in calls.items():
            seconds[what] += run_in_new_process(FIRST_SMALL_CALL, name, loss, str(Path(__file__).parent))
    return [
        {"what": f"first call on 1000 x 8, {what}", "seconds": statistics.median(taken)}
        for what, taken in seconds.items()
    ]


def run_in_new_process(code: str, *arguments: str, **environment: str) -> list[float]:
    """Run code in a new process, and return the numbers that it prints."""
    # With bytecode, as after an installation. Where this is set, each process compiles all modules again.
    env = os.environ | {"PYTHONDONTWRITEBYTECODE": ""} | environment
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return [float(line) for line in done.stdout.split()]


if __name__ == "__main__":
    print_extra_memory(sys.argv[1], int(sys.argv[2]))
