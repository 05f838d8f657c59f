"""Log loss with many classes, compared with one product of the predictions with themselves; `make bench` runs this.

Each case runs in its own process, which also measures its largest memory. `python benchmarks/many_classes.py --docs`
writes the table of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any, NamedTuple

import numpy as np
from pages import fill

import baserate as br

PAGE = "docs/benchmarks.md"
MOST_CLASSES = 5000
"""With more classes, the product is not measured, because it alone would take gigabytes and minutes."""


class Case(NamedTuple):
    """The size of a problem, the factor of its logits (0 for easy predictions), and what it may take at most."""

    n: int
    k: int
    scale: float
    most_products: float | None = None
    most_seconds: float | None = None
    most_gigabytes: float | None = None


CASES = (
    Case(50_000, 1000, 0, most_products=3),
    Case(50_000, 1000, 15, most_products=20),
    Case(20_000, 1000, 15, most_products=20),
    Case(5_000, 1000, 60),
    Case(20_000, 20_000, 0, most_seconds=30, most_gigabytes=8),
    Case(20_000, 20_000, 15, most_seconds=30, most_gigabytes=8),
)


def problem(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Easy or over-confident predictions, computed in place to save memory, and rates."""
    rng = np.random.default_rng(0)
    if case.scale:
        p = rng.standard_normal((case.n, case.k))
        p *= case.scale
        p -= p.max(axis=1, keepdims=True)
        np.exp(p, out=p)
    else:
        p = rng.standard_exponential((case.n, case.k))
    p /= p.sum(axis=1, keepdims=True)
    return p, rng.dirichlet(np.full(case.k, 3.0))


def measure(case: Case) -> dict[str, Any]:
    """One call, after a call on a few rows that loads the kernels."""
    p, rates = problem(case)
    br.adjust(p[:500], rates, tol=1e-3)
    start = time.perf_counter()
    result = br.adjust(p, rates)
    found: dict[str, Any] = {"seconds": time.perf_counter() - start, "passes": result.n_passes}
    found |= {"residual": result.certificate.residual, "converged": result.converged}
    del result
    found["gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    if case.k <= MOST_CLASSES:
        found["product"] = min(seconds_of_product(p) for _ in range(3))
    return found


def seconds_of_product(p: np.ndarray) -> float:
    start = time.perf_counter()
    p.T @ p
    return time.perf_counter() - start


def measure_apart(case: Case) -> dict[str, Any]:
    """Measure in a new process."""
    done = subprocess.run(
        [sys.executable, __file__, "--case", json.dumps(case)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def line(case: Case, found: dict[str, Any]) -> str:
    """One line of the table."""
    data = f"over-confident (logits times {case.scale:g})" if case.scale else "easy"
    products = found["seconds"] / found["product"] if "product" in found else None
    cells = [
        f"{case.n:,} x {case.k:,}",
        data,
        str(found["passes"]),
        f"{found['residual']:.0e}" + ("" if found["converged"] else ", not converged"),
        _with_goal(found["seconds"], case.most_seconds, ".2f"),
        _with_goal(products, case.most_products, ".1f"),
        _with_goal(found["gigabytes"], case.most_gigabytes, ".1f"),
    ]
    return f"| {' | '.join(cells)} |"


def _with_goal(value: float | None, most: float | None, form: str) -> str:
    if value is None:
        return ""
    goal = "" if most is None else f" (≤ {most:g}{'' if value <= most else ': **missed**'})"
    return format(value, form) + goal


HEADER = """| size | predictions | passes | largest error of a rate | seconds | times `probs.T @ probs` | peak GB |
|---|---|--:|--:|--:|--:|--:|"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", action="store_true", help="write the table into the documentation")
    parser.add_argument("--case", help="measure one case in this process, and print the figures")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(Case(*json.loads(options.case)))))
        return
    lines = [HEADER]
    for case in CASES:
        lines.append(line(case, measure_apart(case)))
        print(lines[-1], flush=True)
    if options.docs:
        fill(PAGE, "many-classes", "\n".join(lines))


if __name__ == "__main__":
    main()
