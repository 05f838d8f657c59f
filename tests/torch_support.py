"""Random problems for tensors, and the same problem solved with NumPy on the CPU. Used by tests and by `make gpu`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from support import Array

import baserate as br
from baserate.engines import torch_tensors

torch = pytest.importorskip("torch")

LOSSES = [
    "log",
    "brier",
    "spherical",
    "ranked",
    br.losses.Power(0.5),
    br.losses.Power(1.5),
    br.losses.Power(2.5),
]
DTYPES = ["float64", "float32", "float16", "bfloat16"]
LAYOUTS = ["rows", "columns", "slice", "gradient"]


class Problem(NamedTuple):
    """Predictions as a tensor, and all other arguments of ``br.adjust``."""

    tensor: Any
    rates: Any
    options: dict[str, Any]

    def on_cpu(self) -> tuple[Array, dict[str, Any]]:
        """The predictions and options as NumPy arrays."""
        rows = self.tensor.detach().cpu()
        weights = self.options.get("sample_weight")
        options = dict(self.options)
        if weights is not None:
            options["sample_weight"] = weights.cpu().numpy()
        if rows.dtype == torch.bfloat16:
            rows = rows.double()
            if not options.get("from_logits"):
                rows = rows / rows.sum(dim=-1, keepdim=True)
            options["dtype"] = "float32"
        return rows.numpy(), options


def random_problem(seed: int, device: str) -> Problem:
    """A random problem: loss, rates, zeros, weights, dtype and layout."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(DTYPES, p=[0.4, 0.4, 0.1, 0.1]))
    return _random_problem(rng, device, int(rng.integers(2, 8)), dtype, LOSSES)


def random_kernel_problem(seed: int, device: str) -> Problem:
    """A random problem for kernels, of few kinds, because each kind has to be compiled."""
    rng = np.random.default_rng(seed)
    return _random_problem(rng, device, int(rng.choice([2, 4])), str(rng.choice(DTYPES[:2])), ["log", "brier"])


def _random_problem(rng: np.random.Generator, device: str, k: int, dtype: str, losses: list[Any]) -> Problem:
    n, layout = int(rng.integers(2, 400)), str(rng.choice(LAYOUTS))
    p = rng.dirichlet(np.full(k, rng.choice([0.3, 1.0, 5.0])), n)
    p = np.maximum(p, 1e-6)
    if rng.random() < 0.2:  # hard zeros, but every class keeps rows without any
        zero = (rng.random(p.shape) < 0.2) & (rng.random((n, 1)) < 0.5)
        zero[np.arange(n), p.argmax(axis=1)] = False
        p[zero] = 0.0
    p /= p.sum(axis=1, keepdims=True)
    options: dict[str, Any] = {"loss": losses[int(rng.integers(len(losses)))]}
    values = p
    if rng.random() < 0.25:
        options["from_logits"] = True
        with np.errstate(divide="ignore"):
            values = np.log(p) + rng.normal(size=(n, 1))
    elif rng.random() < 0.2:
        options["zeros"] = 1e-4
    if rng.random() < 0.4:
        options["sample_weight"] = torch.as_tensor(rng.random(n) + 0.01, device=device)
    mean = p.mean(axis=0)
    target = 0.7 * mean + 0.3 * rng.dirichlet(np.full(k, 3.0))
    kind = rng.random()
    rates: Any = target
    if kind < 0.2:
        rates = br.Rates.between(np.maximum(target - 0.02, 0), np.minimum(target + 0.02, 1))
    elif kind < 0.3:
        rates = br.Rates.near(target, 0.02)
    elif kind < 0.4 and options["loss"] == "brier":
        options["bounded"] = False
    elif kind < 0.5 and k > 2 and not (p == 0).any():
        target = target * (np.arange(k) > 0)
        rates = target / target.sum()
    return Problem(as_layout(values, dtype, layout, device), rates, options)


def as_layout(values: Array, dtype: str, layout: str, device: str) -> Any:
    """A tensor with these values in a dtype and a memory layout."""
    tensor = torch.as_tensor(values, device=device).to(getattr(torch, dtype))
    if layout == "columns":
        return tensor.T.contiguous().T
    if layout == "slice":
        wide = torch.zeros((2 * len(tensor), tensor.shape[1] + 3), dtype=tensor.dtype, device=device)
        wide[::2, 1:-2] = tensor
        return wide[::2, 1:-2]
    return tensor.requires_grad_() if layout == "gradient" else tensor


def assert_agrees(problem: Problem, tol: float = 1e-10) -> br.Adjustment:
    """Solve a problem with tensors and with NumPy, and compare the two.

    Where they take different steps, only the tolerance says how far apart their shifts may be.
    """
    rows, options = problem.on_cpu()
    expected = br.adjust(rows, problem.rates, tol=tol, **options)
    before = problem.tensor.detach().clone()
    result = br.adjust(problem.tensor, problem.rates, tol=tol, **problem.options)
    assert torch.equal(problem.tensor.detach(), before)
    probs = result.probs
    assert type(probs) is torch.Tensor
    assert probs.device == problem.tensor.device
    assert not probs.requires_grad
    wanted = torch.float64 if problem.tensor.dtype == torch.float64 else torch.float32
    assert probs.dtype == wanted
    assert result.converged == expected.converged
    finite = np.isfinite(expected.shift)
    assert np.array_equal(finite, np.isfinite(result.shift))
    ours, theirs = result.shift[finite], expected.shift[finite]
    assert np.abs(ours - theirs).max() <= 1e-10 * (1 + np.abs(theirs).max())
    atol = 1e-9 if wanted == torch.float64 else 1e-6
    assert np.abs(probs.cpu().numpy() - expected.probs).max() <= atol
    falls = result.certificate.loss_reduction, expected.certificate.loss_reduction
    # Shifts that differ by 1e-10 round some entries of float32 rows differently, which the guarantee includes.
    assert abs(falls[0] - falls[1]) <= (1e-12 if wanted == torch.float64 else 1e-10)
    return result


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors in the memory of the host are treated like those on a GPU, and not shared with NumPy."""
    monkeypatch.setattr(torch_tensors, "is_shared_with_numpy", lambda tensor: False)
