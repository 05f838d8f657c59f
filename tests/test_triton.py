"""The Triton kernels, on a GPU or in Triton's interpreter; see the target test-torch of the Makefile."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import kernel_setting
from torch_support import Problem, as_layout, assert_agrees, on_device, random_kernel_problem

import baserate as br
from baserate.core.contracts import Block
from baserate.core.dual import Dual
from baserate.core.row_model import RowModel
from baserate.engines.memory import MemoryEngine
from baserate.engines.torch_tensors import TensorEngine
from baserate.inputs.reading import Reading
from baserate.passes import choose_passes
from baserate.support.answer_types import AnswerTypes

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
P = np.random.default_rng(4).dirichlet([1.0, 0.3, 2.0], 1500)
RATES = [0.3, 0.3, 0.4]

__all__ = ["on_device"]

pytestmark = [
    pytest.mark.skipif(
        DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1", reason="needs TRITON_INTERPRET=1"
    ),
    pytest.mark.usefixtures("on_device"),
]


def solve(rows: Any, rates: Any = RATES, **options: Any) -> br.Adjustment:
    with kernel_setting("always"):
        return br.adjust(rows, rates, **options)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_problems_have_the_solution_of_numpy(first: int) -> None:
    engines = []
    with kernel_setting("always"):
        for seed in range(first, first + 10):
            engines.append(assert_agrees(random_kernel_problem(seed, DEVICE), tol=1e-12).engine)
    assert engines.count("torch, triton") >= 7


@pytest.mark.stress
def test_many_random_problems_have_the_solution_of_numpy() -> None:
    with kernel_setting("always"):
        for seed in range(5000, 5500):
            assert_agrees(random_kernel_problem(seed, DEVICE), tol=1e-12)


@pytest.mark.parametrize("loss", ["log", "brier"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_kernels_agree_with_plain_torch(loss: str, dtype: str) -> None:
    rows = as_layout(P, dtype, "slice", DEVICE)
    ours, plain = solve(rows, loss=loss, tol=1e-12), br.adjust(rows, RATES, loss=loss, tol=1e-12)
    assert (ours.engine, plain.engine) == ("torch, triton", "torch")
    assert ours.shift == pytest.approx(plain.shift, abs=1e-10)
    assert ours.certificate.loss_reduction == pytest.approx(plain.certificate.loss_reduction, abs=1e-12)
    assert (ours.probs - plain.probs).abs().max() <= 1e-9
    assert ours.rates == pytest.approx(ours.probs.double().mean(dim=0).cpu().numpy(), abs=1e-13)


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_apply_writes_and_checks_in_one_pass(loss: str) -> None:
    rows = as_layout(P, "float32", "rows", DEVICE)
    result = solve(rows, loss=loss)
    with kernel_setting("always"):
        assert torch.equal(result.apply(rows), result.probs)
        rows[1200, 0] = torch.nan
        with pytest.raises(br.errors.BadProbabilities, match="row 1200, column 0 is nan"):
            result.apply(rows)


def test_many_rows_that_kernels_leave_to_torch_are_adjusted() -> None:
    unchanged = solve(as_layout(P, "float64", "rows", DEVICE), P.mean(axis=0))
    new = as_layout(np.tile(P, (60, 1)), "float64", "rows", DEVICE)
    with kernel_setting("always"):
        assert torch.allclose(unchanged.apply(new), new, rtol=0, atol=1e-15)


def test_tiny_probabilities_and_far_logits_are_left_to_torch() -> None:
    logits = np.log(P)
    logits[3] = [0.0, -900.0, -1.0]
    rows = as_layout(logits, "float64", "rows", DEVICE)
    expected = br.adjust(logits, RATES, from_logits=True, tol=1e-12)
    result = solve(rows, from_logits=True, tol=1e-12)
    assert result.shift == pytest.approx(expected.shift, abs=1e-10)
    assert result.probs[3, 1] > 0
    assert result.certificate.loss_reduction == pytest.approx(expected.certificate.loss_reduction, abs=1e-12)


def test_float32_rows_are_rounded_up_where_they_would_be_zero() -> None:
    p = P.copy()
    p[5] = [1 - 1e-44, 1e-44, 0.0]
    rows = as_layout(p, "float64", "rows", DEVICE)
    result, expected = solve(rows, dtype="float32"), br.adjust(p, RATES, dtype="float32")
    assert result.probs[5].tolist() == expected.probs[5].tolist()
    assert result.probs[5, 1] > 0
    assert result.probs[5, 2] == 0


@pytest.mark.parametrize("options", [{}, {"zeros": 1e-4}, {"from_logits": True}])
@pytest.mark.parametrize(("k", "dtype"), [(14, "float32"), (37, "float64"), (37, "float32")])
@pytest.mark.parametrize("loss", ["log", "brier"])
def test_many_classes_have_the_solution_of_numpy(loss: str, k: int, dtype: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(k)
    p, rates = rng.dirichlet(np.ones(k), 500), rng.dirichlet(np.full(k, 5.0))
    if loss == "brier":
        rates = np.where(np.arange(k) == 3, 0.0, rates) / (1.0 - rates[3])
    weights = torch.as_tensor(rng.random(500), device=DEVICE) if k == 14 else None
    rows = as_layout(np.log(p) + 1.0 if "from_logits" in options else p, dtype, "slice", DEVICE)
    with kernel_setting("always"):
        result = assert_agrees(Problem(rows, rates, {"loss": loss, "sample_weight": weights, **options}))
    assert result.engine == "torch, triton"


@pytest.mark.parametrize("kernels", ["always", "off"])
@pytest.mark.parametrize(
    ("loss", "dtype", "kind"),
    [
        ("log", "float64", "plain"),
        ("log", "float32", "weighted"),
        ("log", "float64", "smoothed"),
        ("log", "float32", "logits"),
        ("log", "float64", "class without rate"),
        ("brier", "float64", "plain"),
        ("brier", "float32", "weighted"),
        ("brier", "float64", "class without rate"),
        (br.losses.Power(1.5), "float64", "weighted"),
    ],
)
def test_no_matrix_is_computed_for_hundreds_of_classes(
    loss: Any, dtype: str, kind: str, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    k, n = 270, 400 if loss == "brier" else 1000
    rng = np.random.default_rng(k)
    logits = 2.0 * rng.normal(size=(n, k))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    rates = rng.dirichlet(np.full(k, 5.0))
    if kind == "class without rate":
        rates = np.where(np.arange(k) == 3, 0.0, rates) / (1.0 - rates[3])
    options: dict[str, Any] = {"loss": loss, "from_logits": kind == "logits"}
    if kind == "weighted":
        options["sample_weight"] = torch.as_tensor(rng.random(n), device=DEVICE)
    if kind == "smoothed":
        options["zeros"] = 1e-5
    rows = as_layout(logits if kind == "logits" else p, dtype, "slice", DEVICE)
    monkeypatch.setattr(Dual, "evaluate", lambda *args, **options: pytest.fail("sums the matrix"))
    with kernel_setting(kernels):
        result = assert_agrees(Problem(rows, rates, options), tol=1e-12)
    assert ("triton" in result.engine) == (kernels == "always" and isinstance(loss, str))


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_products_that_kernels_leave_to_torch(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from baserate.passes import triton_launch

    k = 260
    rng = np.random.default_rng(k)
    p, rates = rng.dirichlet(np.full(k, 0.5), 800), rng.dirichlet(np.full(k, 5.0))
    rows = as_layout(p, "float64", "rows", DEVICE)
    expected = solve(rows, rates, loss=loss)
    launch, lost = triton_launch.launch_product, itertools.cycle([False, True])

    def every_other_one(*args: Any) -> Any:
        line = launch(*args)
        return np.append(np.zeros(k), 1.0) if next(lost) else line

    monkeypatch.setattr(triton_launch, "launch_product", every_other_one)
    result = solve(rows, rates, loss=loss)
    assert result.shift == pytest.approx(expected.shift, abs=1e-8)
    assert result.n_passes == expected.n_passes  # a wrong product would cost further ones


def passes_on(p: Any, loss: Any, module: str, *, logits: bool = False, unrated: bool = False) -> tuple[Any, Block]:
    """The passes for some rows, as NumPy arrays or as a tensor for kernels, and these rows as one block."""
    k = p.shape[1]
    kept = np.arange(int(unrated), k)
    model = RowModel(loss, True, k, kept, Reading(from_logits=logits))
    weights = np.random.default_rng(1).dirichlet(np.ones(len(p)))
    if module == "numpy":
        host = MemoryEngine(p, weights)
        return choose_passes(model, host, "off"), next(host.map(lambda block: replace(block, scratch=None)))
    on_device = torch.as_tensor(p, device=DEVICE), torch.as_tensor(weights, device=DEVICE)
    rows = TensorEngine(*on_device, AnswerTypes.of_array(np.dtype(np.float64)))
    rows._are_logits = logits
    return choose_passes(model, rows, "always"), next(rows.map(lambda block: block, 1 << 62))


@pytest.mark.parametrize("case", ["plain", "wide shift", "far logits", "little left", "predictions lost to rounding"])
@pytest.mark.parametrize("loss", [br.losses.Log(), br.losses.Brier()])
def test_diagonals_and_products_are_those_of_numpy(loss: Any, case: str) -> None:
    k, n = 257, 30
    rng = np.random.default_rng(3)
    p, options = rng.dirichlet(np.ones(k), n), {"logits": case == "far logits", "unrated": case == "little left"}
    if case == "far logits":
        p = np.log(p)
        p[4, 7] = -1000.0
    if case == "little left":  # almost all probability of a row is on a class of rate 0
        p[5] = 1e-300
        p[5, 0] = 1.0
    shift, vector = rng.normal(size=k - int(options["unrated"])), rng.normal(size=k - int(options["unrated"]))
    if case == "wide shift":
        shift *= 800.0 / np.ptp(shift)
    elif case == "predictions lost to rounding":
        shift *= 1e15 if isinstance(loss, br.losses.Brier) else 1.0
    (ours, tensors), (plain, arrays) = (passes_on(p, loss, module, **options) for module in ("torch", "numpy"))
    assert ours.name == "triton"
    plain.survey(arrays)
    found, expected = ours.reduce_diagonal(tensors, shift), plain.reduce_diagonal(arrays, shift)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(found.curvature, expected.curvature, rtol=1e-9, atol=1e-14)
    assert found.conjugate == pytest.approx(float(expected.conjugate), rel=1e-11)
    product = ours.multiply(tensors, shift, vector).product
    np.testing.assert_allclose(product, plain.multiply(arrays, shift, vector).product, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_many_classes_are_checked(loss: str) -> None:
    p = np.random.default_rng(8).dirichlet(np.ones(20), 300)
    p[200, 7] = np.nan
    with pytest.raises(br.errors.BadProbabilities, match="row 200, column 7 is nan"):
        solve(as_layout(p, "float32", "rows", DEVICE), np.full(20, 0.05), loss=loss)


def test_equal_calls_have_equal_results() -> None:
    rows = as_layout(P, "float32", "rows", DEVICE)
    first, second = solve(rows), solve(rows)
    assert first.shift.tolist() == second.shift.tolist()
    assert first.certificate.loss_reduction == second.certificate.loss_reduction
    assert torch.equal(first.probs, second.probs)


def test_small_tensors_do_not_wait_for_a_compiler() -> None:
    assert br.adjust(as_layout(P, "float32", "rows", DEVICE), RATES).engine == "torch"


def test_the_kernels_can_be_compiled_for_a_gpu(tmp_path: Path) -> None:
    code = """
        import warnings; warnings.simplefilter("ignore")
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
        from baserate.passes import triton_kernels as kernels, triton_products as products, triton_wide as wide
        from baserate.passes.triton_step import leave_sample, newton_step

        def compile_for_gpu(kernel, chosen):
            types = dict.fromkeys("weights settings scaled out state goal line edges".split(), "*fp64")
            types |= dict.fromkeys(("raw", "rows"), "*fp32")
            types |= dict.fromkeys(chosen, "constexpr")
            signature = {name: types.get(name, "i32") for name in kernel.arg_names}
            target = GPUTarget("cuda", 90, 32)
            found = triton.compile(ASTSource(kernel, signature, chosen), target=target, options={"num_warps": 2})
            assert ".f64" in found.asm["ptx"]

        few = dict(K=3, BLOCK=64, CURVATURE=True, ROUND=True, LOGITS=False, WEIGHTED=True)
        many = dict(K=20, COLUMNS=32, ROWS=4, SCALED=True, DIAGONAL=True, ROUND=True, LOGITS=False, WEIGHTED=True)
        all_flags = {kernels.log_pass: few, kernels.brier_pass: few, wide.log_wide: many, wide.brier_wide: many}
        for kernel, flags in all_flags.items():
            extreme = {name: True for name in ("SMOOTH", "UNDERFLOW") if name in kernel.arg_names}
            for chosen in (
                flags | dict(SURVEY=True, WRITE=False) | dict.fromkeys(extreme, False),
                flags | dict(SURVEY=True, WRITE=False, LOGITS=True) | extreme,
                flags | dict(SURVEY=False, WRITE=True) | dict.fromkeys(extreme, False),
                flags | dict(SURVEY=False, WRITE=True, WEIGHTED=False) | extreme,
            ):
                compile_for_gpu(kernel, chosen)
        for kernel in products.log_product, products.brier_product:
            for flag in True, False:
                compile_for_gpu(kernel, dict(K=300, COLUMNS=512, ROWS=1, LOGITS=flag, WEIGHTED=flag))
        for brier, order in (True, 2), (False, 1):
            compile_for_gpu(newton_step, dict(K=5, COLUMNS=16, BRIER=brier, ORDER=order, SAFE=2.0))
        compile_for_gpu(leave_sample, dict(K=5, NO_RESIDUAL=1e-100))
    """
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "TRITON_INTERPRET": "0"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
