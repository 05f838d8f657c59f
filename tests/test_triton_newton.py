"""Newton's method in Triton kernels, on a GPU or in Triton's interpreter; see the target test-torch of the Makefile."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from support import kernel_setting
from torch_support import Problem, as_layout, assert_agrees, on_device

import baserate as br
from baserate.engines import torch_tensors

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

__all__ = ["on_device"]

pytestmark = [
    pytest.mark.skipif(DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1", reason="needs TRITON_INTERPRET"),
    pytest.mark.usefixtures("on_device"),
]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each search in kernels found."""
    from baserate.passes import triton_newton

    answers: list[Any] = []
    search = triton_newton.search

    def recorded(*args: Any) -> Any:
        answers.append(search(*args))
        return answers[-1]

    monkeypatch.setattr(triton_newton, "search", recorded)
    return answers


def predictions(n: int, k: int, sharpness: float, seed: int = 0) -> Any:
    logits = sharpness * np.random.default_rng(seed).normal(size=(n, k))
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def rates_near(p: Any, share: float) -> Any:
    """Rates between the mean prediction and a fixed vector."""
    k = p.shape[1]
    other = np.random.default_rng(k).dirichlet(np.full(k, 3.0))
    return (1.0 - share) * p.mean(axis=0) + share * other


def solve(p: Any, rates: Any, dtype: str = "float64", **options: Any) -> br.Adjustment:
    with kernel_setting("always"):
        return assert_agrees(Problem(as_layout(p, dtype, "rows", DEVICE), rates, options), tol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [2, 12])
@pytest.mark.parametrize("loss", ["log", "brier"])
def test_easy_problems_are_solved_in_kernels(loss: str, k: int, weighted: bool, found: list[Any]) -> None:
    p = predictions(2000, k, 1.5)
    weights = torch.as_tensor(np.random.default_rng(1).random(2000), device=DEVICE) if weighted else None
    result = solve(p, rates_near(p, 0.4), loss=loss, sample_weight=weights)
    assert len(found) == 1
    assert found[0] is not None
    assert result.n_passes == found[0].n_passes <= 8
    np.testing.assert_allclose(result.shift - result.shift[0], found[0].shift - found[0].shift[0], atol=1e-14)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each search read from the device, and which of its passes over all rows were not skipped."""
    from baserate.passes import triton_newton
    from baserate.passes.triton_kernels import SIZE

    searches: list[Any] = []
    read = triton_newton._Search.read

    def recorded(search: Any) -> Any:
        searches.append((read(search), search.rows.lines[:, SIZE].cpu().numpy() > 0))
        return searches[-1][0]

    monkeypatch.setattr(triton_newton._Search, "read", recorded)
    return searches


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_large_problems_start_from_a_sample(
    loss: str, found: list[Any], reads: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_tensors, "_WORTH_SAMPLING", 50_000)
    p = predictions(17_000, 4, 1.5)
    result = solve(p, rates_near(p, 0.3), loss=loss)
    assert len(found) == 1
    assert found[0] is not None
    assert result.n_passes == found[0].n_passes <= 8
    # The first read follows the evaluations and the pass that writes the rows, each further one a correction.
    assert result.n_passes == reads[0][1].sum() + len(reads) - 1
    weights = torch.as_tensor(np.random.default_rng(2).random(len(p)), device=DEVICE)
    solve(p, rates_near(p, 0.3), loss=loss, sample_weight=weights)
    assert found[1] is not None


def test_a_sample_that_is_not_easy_leaves_the_problem_to_the_general_method(
    found: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_tensors, "_WORTH_SAMPLING", 50_000)
    p = np.maximum(predictions(17_000, 3, 30.0), 1e-9)
    p /= p.sum(axis=1, keepdims=True)
    solve(p, [0.9, 0.09, 0.01])
    assert found == [None]


def test_if_the_sample_is_not_solved_no_other_row_is_read(reads: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from baserate.passes import triton_newton

    monkeypatch.setattr(torch_tensors, "_WORTH_SAMPLING", 50_000)
    monkeypatch.setattr(triton_newton, "_SAMPLE_EVALUATIONS", 2)  # too few
    p = predictions(17_000, 3, 1.5)
    solve(p, rates_near(p, 0.3))
    ((last, done),) = reads
    assert last.given_up
    assert not done.any()


@pytest.mark.parametrize("row", [1, 16_000])
def test_an_invalid_row_of_a_large_problem_is_named(
    row: int, found: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_tensors, "_WORTH_SAMPLING", 50_000)
    p = predictions(17_000, 3, 1.0)
    p[row] = [0.5, np.nan, 0.5]
    with kernel_setting("always"), pytest.raises(br.errors.BadProbabilities, match=f"row {row}, column 1 is nan"):
        br.adjust(as_layout(p, "float32", "rows", DEVICE), [0.2, 0.3, 0.5])
    assert found == [None]


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_too_few_steps_are_corrected_after_the_rows_were_written(
    loss: str, found: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from baserate.passes import triton_newton

    p = predictions(2000, 4, 1.0)
    solve(p, rates_near(p, 0.2), loss=loss)
    monkeypatch.setattr(triton_newton, "_MOST_EVALUATIONS", found[0].n_passes - 2)
    result = solve(p, rates_near(p, 0.2), loss=loss)
    assert found[1] is not None
    assert result.certificate.residual <= 1e-12


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_difficult_problems_are_left_to_the_general_method(dtype: str, found: list[Any]) -> None:
    p = np.maximum(predictions(500, 3, 30.0), 1e-9)
    p /= p.sum(axis=1, keepdims=True)
    solve(p, [0.9, 0.09, 0.01], dtype)
    assert found == [None]


def test_hard_zeros_are_left_to_the_general_method(found: list[Any]) -> None:
    p = predictions(300, 3, 1.0)
    p[7] = [0.5, 0.0, 0.5]
    solve(p, rates_near(p, 0.4))
    assert found == [None]


def test_an_invalid_row_is_named(found: list[Any]) -> None:
    p = predictions(300, 3, 1.0)
    p[123, 1] = np.nan
    with kernel_setting("always"), pytest.raises(br.errors.BadProbabilities, match="row 123, column 1 is nan"):
        br.adjust(as_layout(p, "float32", "rows", DEVICE), [0.2, 0.3, 0.5])
    assert found == [None]


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_rows_that_have_the_rates_already_are_returned_unchanged(loss: str) -> None:
    p = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]])
    with kernel_setting("always"):
        result = br.adjust(as_layout(p, "float64", "rows", DEVICE), [0.375, 0.375, 0.25], loss=loss)
    assert result.probs.tolist() == p.tolist()
    assert result.shift.tolist() == [0.0, 0.0, 0.0]
