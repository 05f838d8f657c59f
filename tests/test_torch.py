"""Tensors in, tensors out. Without a GPU, tensors of the host are treated like those on one where a test says so.

The reference is the same call with NumPy arrays, whose results other tests compare with closed forms and CVXPY, and for
the guarantee an enumeration of all labels.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_support import DTYPES, LOSSES, as_layout, assert_agrees, on_device, random_problem

import baserate as br
from baserate.errors import BadGroups, BadLoss, BadOption, BadProbabilities, BadWeights, OutOfDeviceMemory

torch = pytest.importorskip("torch")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
P = np.random.default_rng(1).dirichlet([1.0, 2.0, 0.5], 300)
RATES = [0.2, 0.3, 0.5]

__all__ = ["on_device"]


def tensor(values: Any = P, dtype: Any = torch.float64) -> Any:
    return torch.as_tensor(values, device=DEVICE).to(dtype)


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("first", range(0, 100, 25))
def test_random_problems_have_the_solution_of_numpy(first: int) -> None:
    for seed in range(first, first + 25):
        assert_agrees(random_problem(seed, DEVICE))


@pytest.mark.stress
@pytest.mark.usefixtures("on_device")
def test_two_thousand_random_problems_have_the_solution_of_numpy() -> None:
    for seed in range(1000, 3000):
        assert_agrees(random_problem(seed, DEVICE))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shared", [True, False])
def test_dtypes_follow_the_rules_of_numpy(dtype: str, shared: bool, request: pytest.FixtureRequest) -> None:
    if not shared:
        request.getfixturevalue("on_device")
    result = br.adjust(tensor(dtype=getattr(torch, dtype)), RATES)
    assert result.probs.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    assert br.adjust(tensor(dtype=getattr(torch, dtype)), RATES, dtype="float64").probs.dtype == torch.float64
    # For rates of 16-bit numbers, only their rounding counts: a row of bfloat16 is off by up to 0.4 %.
    assert result.probs.double().mean(dim=0).cpu().numpy() == pytest.approx(RATES, abs=1e-7)
    exact = br.adjust(P, RATES).probs
    assert result.probs.cpu().numpy() == pytest.approx(exact, abs=1e-6 if dtype.endswith(("32", "64")) else 0.02)


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_apply_what_if_and_prior_agree_with_numpy(loss: Any) -> None:
    result, expected = br.adjust(tensor(), RATES, loss=loss), br.adjust(P, RATES, loss=loss)
    new = np.random.default_rng(2).dirichlet([1.0, 1.0, 1.0], 50)
    applied = result.apply(tensor(new, torch.float32))
    assert applied.dtype == torch.float32
    assert applied.cpu().numpy() == pytest.approx(expected.apply(new), abs=1e-6)
    assert result.apply(new) == pytest.approx(expected.apply(new), abs=1e-9)  # an array is an array again
    assert result.apply(tensor(new[0])).cpu().numpy() == pytest.approx(expected.apply(new[0]), abs=1e-9)
    other = result.what_if([0.3, 0.3, 0.4])
    assert other.probs.device.type == DEVICE
    assert other.shift == pytest.approx(expected.what_if([0.3, 0.3, 0.4]).shift, abs=1e-9)
    prior = br.prior_adjust(tensor(), P.mean(axis=0), RATES)
    assert prior.probs.cpu().numpy() == pytest.approx(br.prior_adjust(P, P.mean(axis=0), RATES).probs, abs=1e-12)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("shape", [(300,), (300, 1)])
def test_vectors_are_probabilities_of_the_positive_class(
    shape: tuple[int, ...], logits: bool, shared: bool, request: pytest.FixtureRequest
) -> None:
    if not shared:
        request.getfixturevalue("on_device")
    p = P[:, 0]
    values = np.log(p / (1 - p)) if logits else p
    for dtype in ("float64", "float32"):
        rows = values.astype(dtype)
        result = br.adjust(tensor(rows.reshape(shape), getattr(torch, dtype)), 0.2, from_logits=logits)
        expected = br.adjust(rows, 0.2, from_logits=logits)
        assert tuple(result.probs.shape) == shape
        assert str(result.probs.dtype) == f"torch.{dtype}"
        assert result.probs.reshape(-1).cpu().numpy() == pytest.approx(expected.probs, abs=1e-7)
        assert result.certificate.loss_reduction == pytest.approx(expected.certificate.loss_reduction, abs=1e-12)
        new = result.apply(tensor(rows[:5], getattr(torch, dtype)))
        assert new.cpu().numpy() == pytest.approx(expected.probs[:5], abs=1e-7)


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("loss", ["log", "brier", "spherical"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_guarantee_holds_for_all_labels_of_the_returned_numbers(loss: str, dtype: Any) -> None:
    score = {"log": br.losses.Log(), "brier": br.losses.Brier(), "spherical": br.losses.Spherical()}[loss]
    p = np.random.default_rng(5).dirichlet([1.0, 1.0], 6).astype("float32")
    result = br.adjust(tensor(p, dtype), [0.5, 0.5], loss=loss)
    before, after = p.astype(np.float64), result.probs.double().cpu().numpy()
    before /= before.sum(axis=1, keepdims=True)
    falls = []
    for ones in itertools.combinations(range(6), 3):  # all labels with these rates
        y = np.isin(np.arange(6), ones).astype(int)
        falls.append(score.score(before, y) - score.score(after, y))
    assert min(falls) >= result.certificate.loss_reduction - 1e-14
    assert result.certificate.loss_reduction > 0


@pytest.mark.usefixtures("on_device")
def test_no_rows_are_copied_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    copy = torch.Tensor.cpu

    def counted(self: Any) -> Any:
        copied.append(self.numel())
        return copy(self)

    monkeypatch.setattr(torch.Tensor, "cpu", counted)
    weights = tensor(np.linspace(1, 2, 300))
    for loss in LOSSES:
        result = br.adjust(tensor(), RATES, loss=loss, sample_weight=weights)
        result.apply(tensor())
        result.what_if([0.3, 0.3, 0.4])
    assert copied
    assert max(copied) <= 30  # sums over 3 classes


def test_tensors_of_the_host_are_shared_with_numpy_and_can_have_groups() -> None:
    rows = torch.as_tensor(P)
    groups = np.where(np.arange(300) < 150, "a", "b")
    known = br.Rates.by("site", {"a": [0.2, 0.3, 0.5], "b": [0.3, 0.3, 0.4]})
    result = br.adjust(rows, known, groups=groups)
    assert type(result.probs) is torch.Tensor
    assert result.probs.numpy() == pytest.approx(br.adjust(P, known, groups=groups).probs, abs=1e-14)
    single = br.adjust(rows.requires_grad_(), RATES, sample_weight=torch.ones(300))
    assert not single.probs.requires_grad
    assert single.engine == br.adjust(P, RATES).engine
    assert single.probs.numpy() == pytest.approx(br.adjust(P, RATES).probs, abs=1e-14)


def test_the_layout_of_columns_is_kept() -> None:
    for layout in ("rows", "columns", "slice"):
        rows = as_layout(P, "float64", layout, DEVICE)
        assert br.adjust(rows, RATES).probs.stride() == ((1, 300) if layout == "columns" else (3, 1))


def _spoiled(value: float) -> Any:
    p = P.copy()
    p[17, 1] = value
    return p


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("options", [{}, {"from_logits": True}, {"normalize": True}], ids=str)
@pytest.mark.parametrize("value", [np.nan, -0.25, 0.9, np.inf, -np.inf])
def test_messages_about_rows_are_those_of_numpy(value: float, options: dict[str, bool]) -> None:
    p = _spoiled(value)
    expected = _message(p, options)
    assert _message(tensor(p), options) == expected
    if expected is not None:
        with pytest.raises(BadProbabilities, match="row 17"):
            br.adjust(tensor(P), RATES).apply(tensor(p), **options)


def _message(rows: Any, options: dict[str, bool]) -> str | None:
    try:
        br.adjust(rows, RATES, **options)
    except BadProbabilities as error:
        return str(error)
    return None


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize(
    ("rows", "options", "error", "message"),
    [
        (torch.ones((4, 2), dtype=torch.int64), {}, BadProbabilities, r"tensor of int64; .*probs\.float\(\)"),
        (torch.ones((4, 2), dtype=torch.bool), {}, BadProbabilities, "tensor of bool"),
        (torch.eye(3).to_sparse(), {}, BadProbabilities, r"to_dense\(\)"),
        (torch.eye(3, device="meta"), {}, BadProbabilities, r"meta.*probs\.cpu\(\)"),
        (torch.zeros((0, 3)), {}, BadProbabilities, "empty"),
        (torch.zeros((0,)), {}, BadProbabilities, "empty"),
        (torch.zeros((2, 3, 4)), {}, BadProbabilities, "2 dimensions"),
        (torch.eye(3), {"columns": ["a"]}, BadOption, "columns"),
        (torch.tensor([0.2, 1.5]), {}, BadProbabilities, r"row 1 is 1\.5.*between 0 and 1"),
    ],
)
def test_tensors_that_are_no_predictions(rows: Any, options: dict[str, Any], error: Any, message: str) -> None:
    rates = 0.5 if rows.ndim == 1 else np.full(rows.shape[1], 1 / rows.shape[1])
    with pytest.raises(error, match=message):
        br.adjust(rows if rows.device.type == "meta" else rows.to(DEVICE), rates, **options)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (torch.ones(300, device="meta"), r"sample_weight is on the device meta.*sample_weight\.to\(probs\.device\)"),
        (torch.ones(299), r"shape \(300,\)"),
        (-torch.ones(300), r"sample_weight\[0\] is -1"),
        (torch.zeros(300), "all weights are zero"),
        (torch.full((300,), torch.nan), "nan"),
        ([1.0], r"shape \(300,\)"),
    ],
)
def test_weights_that_are_no_weights(weights: Any, message: str, shared: bool, request: pytest.FixtureRequest) -> None:
    if not shared:
        request.getfixturevalue("on_device")
    if torch.is_tensor(weights) and weights.device.type == "cpu":
        weights = weights.to(DEVICE)
    with pytest.raises(BadWeights, match=message):
        br.adjust(tensor(), RATES, sample_weight=weights)


@pytest.mark.usefixtures("on_device")
def test_what_is_not_available_on_a_gpu_says_so() -> None:
    with pytest.raises(BadLoss, match=r"WeightedBrier.*no implementation.*probs\.cpu\(\)\.numpy\(\)"):
        br.adjust(tensor(), RATES, loss=br.losses.WeightedBrier([1, 2, 3]))
    with pytest.raises(BadGroups, match=r"probs\.cpu\(\)"):
        br.adjust(tensor(), br.Rates.by("site", {"a": RATES}), groups=["a"] * 300)
    with pytest.raises(br.InfeasibleRates, match="row 0 gives probability only to classes whose rate is 0"):
        br.adjust(tensor([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]]), [0.0, 0.5, 0.5])
    with pytest.raises(br.InfeasibleRates, match="class 2 would need a mean"):
        br.adjust(tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]), [0.1, 0.1, 0.8])


@pytest.mark.usefixtures("on_device")
def test_a_gpu_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tensor()
    before = rows.clone()

    def fail(*args: Any, **kwargs: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4 GiB. GPU 0 has")

    monkeypatch.setattr(torch, "empty_like", fail)
    with pytest.raises(OutOfDeviceMemory, match=r"too small.*probs, which was not changed.*probs\.cpu\(\)"):
        br.adjust(rows, RATES)
    assert torch.equal(rows, before)


@pytest.mark.usefixtures("on_device")
def test_sorted_rows_of_a_large_tensor_start_from_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baserate.engines.torch_tensors._WORTH_SAMPLING", 0)
    p = np.random.default_rng(3).dirichlet([1.0, 1.0, 1.0], 40_000)
    p = p[np.argsort(p[:, 0])]
    for weights in (None, np.linspace(0.5, 1.5, 40_000)):
        # Other rows are sampled on a GPU, so that only the tolerance says how far apart the two may be.
        result = br.adjust(tensor(p), RATES, sample_weight=None if weights is None else tensor(weights), tol=1e-13)
        expected = br.adjust(p, RATES, sample_weight=weights, tol=1e-13)
        assert result.shift == pytest.approx(expected.shift, abs=1e-10)
        assert result.n_passes <= 5  # the passes over the sample are not counted


@pytest.mark.usefixtures("on_device")
def test_reports_and_changes_of_single_rows(tmp_path: Path) -> None:
    from baserate.analysis.row_changes import row_changes

    for dtype in (torch.float64, torch.bfloat16):
        result = br.adjust(tensor(dtype=dtype), RATES)
        changes = row_changes(result)
        assert changes.zeros_before == 0
        assert changes.new_top_class == int((result.probs.argmax(dim=1) != tensor(dtype=dtype).argmax(dim=1)).sum())
    assert "0.5" in repr(br.adjust(tensor(), RATES))


def test_jax_arrays_on_the_cpu_need_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    monkeypatch.setitem(sys.modules, "torch", None)  # as if torch were not installed
    with jax.default_device(jax.devices("cpu")[0]):
        rows = jax.numpy.asarray(P.astype("float32"))
    result = br.adjust(rows, RATES)
    assert isinstance(result.probs, np.ndarray)
    np.testing.assert_allclose(result.rates, RATES, atol=1e-6)


def test_jax_arrays_stay_jax_arrays() -> None:
    jax = pytest.importorskip("jax")
    rows = jax.numpy.asarray(P.astype("float32"))
    result = br.adjust(rows, RATES)
    assert isinstance(result.probs, jax.Array)
    assert np.asarray(result.probs) == pytest.approx(br.adjust(P.astype("float32"), RATES).probs, abs=1e-7)
    assert isinstance(result.apply(rows), jax.Array)


def test_cupy_arrays_stay_cupy_arrays() -> None:
    cupy = pytest.importorskip("cupy")
    if DEVICE == "cpu":
        pytest.skip("CuPy needs a GPU")
    rows = cupy.asarray(P)
    result = br.adjust(rows, RATES)
    assert isinstance(result.probs, cupy.ndarray)
    assert cupy.asnumpy(result.probs) == pytest.approx(br.adjust(P, RATES).probs, abs=1e-9)


def test_torch_is_not_imported_for_arrays() -> None:
    code = "import sys, baserate as br; br.adjust([[.5, .5]], [.5, .5]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
