"""Time adjustments of tensors on a GPU beside torch alone and Sinkhorn's algorithm, in one run; `make gpu` runs this.

    python benchmarks/gpu.py                   # all sizes
    python benchmarks/gpu.py --rows 1000000    # one size with 10 classes
    python benchmarks/gpu.py --passes          # only the single passes, for several shapes of the kernels

Every time is the median of several calls with the device synchronised, and includes the writing of the adjusted rows.
"In copies" divides it by the time of ``probs.clone()`` in the same run. The alternatives are Newton's method in torch,
as it is and compiled by ``torch.compile``, and the Sinkhorn iteration of POT (Python Optimal Transport) in its torch
backend. If POT is not installed, its loop is run without it.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

import baserate as br
from baserate.passes import triton_launch

Tensor = torch.Tensor
DEVICE = "cuda"
TOL = 1e-10
SIZES = [(100_000_000, 10), (1_000_000, 10), (10_000_000, 100), (1_000_000, 1000)]


def problem(n: int, k: int, seed: int = 0) -> tuple[Tensor, np.ndarray]:
    """Over-confident random predictions in float32, and rates that differ from their mean."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    p = torch.empty((n, k), device=DEVICE)
    for start in range(0, n, 10_000_000):  # float64 of all rows would be too large
        rows = p[start : start + 10_000_000]
        logits = torch.randn(rows.shape, generator=generator, device=DEVICE) * 2
        rows.copy_(torch.softmax(logits, dim=1))
    rates = np.random.default_rng(seed).dirichlet(np.full(k, 5.0))
    return p, 0.5 * rates + 0.5 / k


def median_time(call: Callable[[], Any], seconds: float = 2.0, least: int = 3) -> float:
    """The median time of a call in milliseconds, after one call that is not counted."""
    call()
    times: list[float] = []
    started = time.perf_counter()
    while len(times) < least or (time.perf_counter() - started < seconds and len(times) < 50):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def newton_pass(p: Tensor, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Adjusted rows, their mean and the curvature, in plain torch."""
    a = p.double() * torch.exp(shift)
    a = a / a.sum(dim=1, keepdim=True)
    mean = a.mean(dim=0)
    return a, mean, torch.diag(mean) - a.T @ a / len(a)


def newton(p: Tensor, rates: np.ndarray, one_pass: Callable[..., Any] = newton_pass) -> tuple[Tensor, float]:
    """Newton's method for log loss in plain torch: the adjusted rows, and the error of their rates."""
    wanted = torch.as_tensor(rates, device=p.device)
    shift = torch.zeros_like(wanted)
    for _ in range(30):
        a, mean, bend = one_pass(p, shift)
        residual = float((wanted - mean).abs().max())
        if residual <= TOL:
            break
        shift = shift + torch.linalg.lstsq(bend + 1.0 / len(bend), wanted - mean).solution
    return a.float(), residual


def sinkhorn(p: Tensor, rates: np.ndarray) -> tuple[Tensor, float]:
    """The Sinkhorn iteration of POT: the adjusted rows, and the error of their rates."""
    rows = p.double()
    wanted = torch.as_tensor(rates, device=p.device)
    weights = torch.full((len(p),), 1.0 / len(p), dtype=torch.float64, device=p.device)
    try:
        import ot
    except ImportError:
        v = torch.full_like(wanted, 1.0 / len(wanted))
        for _ in range(1000):
            u = weights / (rows @ v)
            mean = v * (rows.T @ u)
            if float((mean - wanted).abs().max()) <= TOL:
                break
            v = wanted / (rows.T @ u)
        plan = u[:, None] * rows * v
    else:
        cost = -torch.log(rows.clamp_min(1e-300))
        plan = ot.sinkhorn(weights, wanted, cost, reg=1.0, stopThr=TOL, numItermax=1000)
    residual = float((plan.sum(dim=0) - wanted).abs().max())
    return (plan * len(p)).float(), residual


def ours(p: Tensor, rates: np.ndarray, loss: str) -> tuple[str, float, str]:
    """The time of an adjustment, and a note about its accuracy."""

    def call() -> br.Adjustment:
        return br.adjust(p, rates, loss=loss)

    result = call()
    note = f"{result.n_passes} passes, residual {result.certificate.residual:.1e}, {result.engine}"
    return f"baserate, {loss}", median_time(call), note


def alternatives(p: Tensor, rates: np.ndarray, *, compiled: bool) -> Iterator[tuple[str, float, str]]:
    """Other ways to solve the problem for log loss."""
    calls: dict[str, Callable[[], tuple[Tensor, float]]] = {"torch, Newton": lambda: newton(p, rates)}
    if compiled:
        fast = torch.compile(newton_pass)
        calls["torch.compile, Newton"] = lambda: newton(p, rates, fast)
    calls["POT, Sinkhorn"] = lambda: sinkhorn(p, rates)
    for name, call in calls.items():
        try:
            residual = call()[1]
            yield name, median_time(call, 3.0), f"residual {residual:.1e}"
        except torch.OutOfMemoryError:
            yield name, float("nan"), "out of memory"
        torch.cuda.empty_cache()


def compare(n: int, k: int, *, compiled: bool = True) -> None:
    """Print a table for one size."""
    p, rates = problem(n, k)
    copy = median_time(p.clone)
    print(f"\n{n:,} x {k}, float32: a copy takes {copy:.3f} ms", flush=True)
    rows = [ours(p, rates, loss) for loss in ("log", "brier")]
    for name, took, note in itertools.chain(rows, alternatives(p, rates, compiled=compiled)):
        print(f"  {name:24} {took:10.3f} ms  {took / copy:8.1f} copies   {note}", flush=True)


def agreement(n: int, k: int) -> None:
    """Print how far shift and guarantee are from those that NumPy or compiled code finds on the CPU."""
    p, rates = problem(n, k)
    for loss in ("log", "brier"):
        result, expected = br.adjust(p, rates, loss=loss), br.adjust(p.cpu().numpy(), rates, loss=loss)
        shift = np.abs(result.shift - expected.shift).max()
        ours, theirs = result.certificate.loss_reduction, expected.certificate.loss_reduction
        written = result.probs.double().mean(dim=0).cpu().numpy()
        print(
            f"{n:,} x {k}, {loss}: shift within {shift:.1e}, guarantee within {abs(ours - theirs):.1e} of the CPU, "
            f"reported mean within {np.abs(written - result.rates).max():.1e} of the written rows",
            flush=True,
        )


def single_passes(n: int, k: int) -> None:
    """Print the times of single kernels, for several shapes."""
    p, _ = problem(n, k)
    rows = torch.empty_like(p)
    kinds = {
        "survey": {"survey": True, "curvature": False},
        "survey, curvature": {"survey": True, "curvature": True},
        "curvature": {"survey": False, "curvature": True},
        "mean": {"survey": False, "curvature": False},
        "write": {"survey": False, "curvature": False},
    }
    shape_of, programs = triton_launch._shape, triton_launch._PROGRAMS_PER_CORE
    for loss in ("log", "brier"):
        of_class = np.linspace(0.9, 1.1, k) if loss == "log" else np.linspace(-0.05, 0.05, k)
        settings = np.concatenate([of_class, [0.0, 1e-5, 0.0, 1e-14, 0.0]])
        for kind, options in kinds.items():
            found = []
            for lanes, per_core in itertools.product((32, 64, 128), (8, 24, 64)):
                triton_launch._shape = lambda loss, lanes=lanes: (lanes, lanes // 32)
                triton_launch._PROGRAMS_PER_CORE = per_core
                target = rows if kind == "write" else None
                run = partial(triton_launch.launch, triton_launch.PassInput(loss, p, None), settings, target, **options)
                found.append((median_time(run, 0.2), lanes, per_core))
            best = ", ".join(f"{took:.2f} ({lanes}, {per})" for took, lanes, per in sorted(found)[:4])
            print(f"{loss:6} {kind:18} {best} ... {max(found)[0]:.2f} ms", flush=True)
    triton_launch._shape, triton_launch._PROGRAMS_PER_CORE = shape_of, programs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, help="only this number of rows, with 10 classes")
    parser.add_argument("--passes", action="store_true", help="only the single passes")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="torch")
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    if options.passes:
        single_passes(options.rows or 100_000_000, 10)
        return
    sizes = [(options.rows, 10)] if options.rows else SIZES
    agreement(min(sizes[0][0], 10_000_000), 10)
    for n, k in sizes:
        compare(n, k, compiled=not options.no_compile)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
