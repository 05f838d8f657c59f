"""Equal calls give equal results to the last bit, whatever ran before in the process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import number_of_cases, random_loss, random_set

import baserate as br

N_PROBLEMS = number_of_cases(200)


def random_problem(seed: int) -> dict[str, Any]:
    """A random problem: any loss, sizes on both sides of the limit for compiled kernels, weights, sets of rates."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.choice([3, 40, 200, 1000, 20_000])), int(rng.integers(2, 9))
    loss = random_loss(rng, k) if n <= 200 else ["log", "brier"][rng.integers(2)]
    p = rng.dirichlet(np.full(k, 0.7), size=n) + 1e-9
    rates: Any = rng.dirichlet(np.full(k, 3.0))
    weights = rng.uniform(0.1, 1.0, size=n) if rng.random() < 0.3 else None
    return {
        "probs": (p / p.sum(axis=1, keepdims=True)).astype(rng.choice([np.float64, np.float32])),
        "rates": random_set(rng, rates) if rng.random() < 0.3 else rates,
        "loss": loss,
        "sample_weight": weights,
        "normalize": True,
    }


def digest(result: br.Adjustment) -> str:
    """A fingerprint of probs, shift and certificate."""
    certificate = result.certificate
    numbers = [certificate.loss_reduction, certificate.gap, certificate.residual]
    parts = [result.probs, result.shift, certificate.sensitivity, np.array(numbers)]
    text = result.engine + "".join(hashlib.sha256(np.ascontiguousarray(part).tobytes()).hexdigest() for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()


def digests(seeds: list[int]) -> list[str]:
    return [digest(br.adjust(**random_problem(seed))) for seed in seeds]


def fresh_digests(seeds: list[int]) -> list[str]:
    """The same in a new process."""
    return run_fresh(f"import test_determinism; print(*test_determinism.digests({seeds}))")


def run_fresh(code: str, **environment: str) -> list[str]:
    """The words that a new process prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_results_do_not_depend_on_earlier_calls() -> None:
    seeds = list(range(N_PROBLEMS))
    in_order = digests(seeds)
    shuffled = np.random.default_rng(1).permutation(seeds).tolist()
    again = dict(zip(shuffled, digests(shuffled), strict=True))
    assert [again[seed] for seed in seeds] == in_order
    assert len(set(in_order)) == N_PROBLEMS
    # In a new process, small problems first: nothing that a large problem loads has been loaded before.
    small = [seed for seed in seeds if random_problem(seed)["probs"].size < 100_000]
    large = [seed for seed in seeds if seed not in small]
    assert large
    fresh = dict(zip([*small, *large], fresh_digests([*small, *large]), strict=True))
    assert [fresh[seed] for seed in seeds] == in_order


def test_one_problem_alone_in_a_process_gives_the_same_result() -> None:
    seed = next(seed for seed in range(N_PROBLEMS) if random_problem(seed)["probs"].shape[0] == 200)
    p = np.random.default_rng(0).dirichlet(np.ones(4), size=60_000)
    br.adjust(p, [0.4, 0.3, 0.2, 0.1])  # loads the kernels, which a small problem must not use
    assert fresh_digests([seed]) == digests([seed])


def digest_of(n_classes: int, loss: str = "log") -> str:
    """A problem with smoothed zeros that is large enough for kernels."""
    rng = np.random.default_rng(3)
    p, rates = rng.dirichlet(np.full(n_classes, 0.5), size=20_000), rng.dirichlet(np.full(n_classes, 3.0))
    return digest(br.adjust(p, rates, loss=loss, zeros=1e-6))


@pytest.mark.parametrize(
    ("n_classes", "loss"),
    [(8, "brier"), *(pytest.param(k, "log", marks=pytest.mark.stress) for k in (8, 60))],  # few and many classes
)
def test_a_process_that_compiles_kernels_and_one_that_loads_them_agree(
    tmp_path: Path, n_classes: int, loss: str
) -> None:
    code = f"import test_determinism as t; print(t.digest_of({n_classes}, {loss!r}))"
    compiled, loaded = (run_fresh(code, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert list(tmp_path.rglob("*.nbc"))
    assert compiled == loaded
