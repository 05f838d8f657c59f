"""Who sums the rows: exactly, in order, without extra memory, and in one file each."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
import pytest
from support import Array, assert_certified
from threadpoolctl import threadpool_info

import baserate as br
from baserate.engines import memory as numpy_blocks
from baserate.engines.base import Block, Engine, Sums, total
from baserate.inputs.validation import as_weights


def test_sums_of_very_many_blocks_keep_their_digits() -> None:
    # 300 000 blocks are a billion rows. Plain summation would lose 4 digits here.
    rng = np.random.default_rng(0)
    parts = rng.random(300_000) * 10.0 ** rng.integers(-12, 1, size=300_000)
    (summed,) = total((np.array([value]),) for value in parts)
    assert summed[0] == pytest.approx(math.fsum(parts), rel=2e-16)


def test_large_terms_that_cancel_leave_the_small_ones() -> None:
    parts = [1e16, 1.0, -1e16, 1.0] * 1000
    (summed,) = total((np.array(value),) for value in parts)
    assert summed == 2000.0


def test_calls_from_several_threads_leave_blas_as_they_found_it() -> None:
    def blas_threads() -> list[int]:
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    p = np.random.default_rng(5).dirichlet(np.ones(4), size=60_000)
    br.adjust(p, [0.4, 0.3, 0.2, 0.1])  # what is loaded at the first call brings a BLAS of its own
    before = blas_threads()
    for workers in (1, 4, 2):  # the threads of one pool are gone when those of the next come
        with ThreadPoolExecutor(workers) as pool:
            answers = list(pool.map(lambda _: br.adjust(p, [0.4, 0.3, 0.2, 0.1]).shift, range(8)))
        assert blas_threads() == before
    for answer in answers:
        np.testing.assert_array_equal(answer, answers[0])


@pytest.mark.parametrize("loss", ["log", "brier", "spherical", "ranked"])
def test_threads_change_no_digit(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(5), size=60_000)
    answers = []
    for cores in (1, 4):
        monkeypatch.setattr(numpy_blocks, "cores", lambda cores=cores: cores)
        answers.append(br.adjust(p, [0.1, 0.3, 0.2, 0.2, 0.2], loss=loss))
    np.testing.assert_array_equal(answers[0].shift, answers[1].shift)
    np.testing.assert_array_equal(answers[0].probs, answers[1].probs)


def test_block_size_changes_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    p, w = rng.dirichlet(np.ones(3), size=5003), rng.random(5003)
    whole = br.adjust(p, [0.2, 0.3, 0.5], sample_weight=w)
    blocks = numpy_blocks.NumpyBlocks.map
    monkeypatch.setattr(numpy_blocks.NumpyBlocks, "map", lambda self, task, _=0: blocks(self, task, 300))
    cut = br.adjust(p, [0.2, 0.3, 0.5], sample_weight=w)
    np.testing.assert_allclose(cut.probs, whole.probs, rtol=0, atol=1e-13)


@pytest.mark.parametrize("loss", ["log", "brier", "spherical", "ranked"])
def test_no_array_of_the_size_of_the_input_but_the_answer(loss: str) -> None:
    p = np.random.default_rng(3).dirichlet(np.ones(10), size=600_000).astype(np.float32)
    br.adjust(p[:100], np.full(10, 0.1), loss=loss)  # imports
    tracemalloc.start()
    result = br.adjust(p, np.full(10, 0.1), loss=loss)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Blocks in flight are of fixed size, so the bound does not grow with the rows; here the answer is 46 MiB.
    assert peak - result.probs.nbytes < 36 * 2**20


class Chunks:
    """Predictions in pieces, as a file or a cluster would hold them."""

    def __init__(self, pieces: list[Array]) -> None:
        self.pieces = pieces


class ChunkEngine(Engine):
    """A whole new engine, as someone outside this package would write it."""

    name = "chunks"

    def __init__(self, pieces: list[Array], weights: Array | None) -> None:
        self.n_rows, self.n_classes = sum(map(len, pieces)), pieces[0].shape[1]
        self.pieces = pieces
        self.weights = np.full(self.n_rows, 1 / self.n_rows) if weights is None else weights
        self.weighted = weights is not None
        self.rows: list[Array] = []

    @classmethod
    def open(cls, probs: Any, sample_weight: Any) -> Self | None:
        if not isinstance(probs, Chunks):
            return None
        return cls(probs.pieces, as_weights(sample_weight, sum(map(len, probs.pieces))))

    def map(self, task: Callable[[Block], Any], block_values: int = 0) -> Iterator[Any]:
        start = 0
        for piece in self.pieces:
            yield task(Block(piece, self.weights[start : start + len(piece)], start))
            start += len(piece)

    def write(self, task: Callable[[Block], tuple[Array, Sums]], block_values: int = 0) -> Iterator[Sums]:
        self.rows = []
        for rows, sums in self.map(task):
            self.rows.append(rows)
            yield sums

    def answer(self) -> Array:
        return np.concatenate(self.rows)

    def again(self) -> Self:
        return type(self)(self.pieces, self.weights if self.weighted else None)


@pytest.mark.parametrize("loss", ["log", "brier", "spherical", "ranked", br.losses.Power(1.5), br.losses.Power(8)])
def test_a_new_engine_gives_the_same_answer_for_every_loss(loss: Any) -> None:
    rng = np.random.default_rng(4)
    p, w = rng.dirichlet(np.ones(4), size=100), rng.random(100)
    rates = [0.4, 0.3, 0.2, 0.1]
    known = br.adjust(p, rates, loss=loss, sample_weight=w)
    result = br.adjust(Chunks([p[:7], p[7:60], p[60:]]), rates, loss=loss, sample_weight=w)
    assert result.engine == "chunks"
    assert_certified(result)
    np.testing.assert_allclose(result.probs, known.probs, rtol=0, atol=1e-9)


def test_a_new_engine_gets_hard_zeros_and_row_numbers_right() -> None:
    p = np.array([[1.0, 0.0], [0.4, 0.6]])
    result = br.adjust(Chunks([p[:1], p[1:]]), [0.5, 0.5])
    np.testing.assert_array_equal(result.probs, [[1, 0], [0, 1]])
    with pytest.raises(br.errors.BadProbabilities, match="row 1, column 0 is nan"):
        br.adjust(Chunks([p[:1], p[1:] * np.nan]), [0.5, 0.5])
