"""Engines and passes: exact sums, results in order, constant memory, and a new one of each in one file."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support import Array, assert_certified
from threadpoolctl import threadpool_info
from toy_engine import ChunkEngine, Chunks
from toy_passes import ListChunks, ListEngine, ListPasses

import baserate as br
from baserate.core.contracts import Block, total
from baserate.core.row_model import RowModel
from baserate.engines import memory
from baserate.inputs.reading import Reading
from baserate.passes import choose_passes
from baserate.support import threads


class Sum(NamedTuple):
    value: Any


class Pair(NamedTuple):
    one: Sum
    other: Any


@pytest.mark.parametrize("n", [30_000, pytest.param(300_000, marks=pytest.mark.stress)])
def test_sums_of_very_many_blocks_keep_their_digits(n: int) -> None:
    # 300 000 blocks are a billion rows. Plain summation would lose 4 digits of their sum.
    rng = np.random.default_rng(0)
    parts = rng.random(n) * 10.0 ** rng.integers(-12, 1, size=n)
    summed = total(Sum(np.array([value])) for value in parts)
    assert summed.value[0] == pytest.approx(math.fsum(parts), rel=2e-16)


def test_large_terms_that_cancel_leave_the_small_ones() -> None:
    parts = [1e16, 1.0, -1e16, 1.0] * 1000
    assert total(Sum(np.array(value)) for value in parts).value == 2000.0


def test_sums_of_any_shape_add_field_by_field() -> None:
    # Sums per group of rows have a leading axis of groups.
    rng = np.random.default_rng(1)
    parts = [Pair(Sum(rng.random((4, 3))), rng.random((4, 3, 3))) for _ in range(5)]
    summed = total(parts)
    assert isinstance(summed, Pair)
    np.testing.assert_allclose(summed.one.value, sum(part.one.value for part in parts), rtol=1e-15)
    np.testing.assert_allclose(summed.other, sum(part.other for part in parts), rtol=1e-15)


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def call_from_several_threads() -> None:
    p = np.random.default_rng(5).dirichlet(np.ones(4), size=60_000)
    br.adjust(p, [0.4, 0.3, 0.2, 0.1])  # the first call loads libraries that bring a BLAS of their own
    before = blas_threads()
    assert max(before) > 1, "a limit to one thread would not be noticed"
    for workers in (1, 4, 2):  # the threads of one pool have ended when those of the next start
        with ThreadPoolExecutor(workers) as pool:
            shifts = list(pool.map(lambda _: br.adjust(p, [0.4, 0.3, 0.2, 0.1]).shift, range(8)))
        assert blas_threads() == before
    for shift in shifts:
        np.testing.assert_array_equal(shift, shifts[0])


@pytest.mark.skipif(threads.cores() < 2, reason="BLAS has one thread here")
def test_calls_from_several_threads_leave_blas_settings_unchanged() -> None:
    # In a process of its own: `make test` limits BLAS to one thread.
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    code = "import test_engines; test_engines.call_from_several_threads()"
    folder = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, stderr=subprocess.PIPE, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("loss", ["log", "brier", "spherical", "ranked"])
def test_the_number_of_threads_changes_no_digit(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(5), size=60_000)
    results = []
    for cores in (1, 4):
        monkeypatch.setattr(memory, "cores", lambda cores=cores: cores)
        results.append(br.adjust(p, [0.1, 0.3, 0.2, 0.2, 0.2], loss=loss))
    np.testing.assert_array_equal(results[0].shift, results[1].shift)
    np.testing.assert_array_equal(results[0].probs, results[1].probs)


def test_the_block_size_changes_only_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    p, w = rng.dirichlet(np.ones(3), size=5003), rng.random(5003)
    whole = br.adjust(p, [0.2, 0.3, 0.5], sample_weight=w)
    blocks = memory.MemoryEngine.map
    monkeypatch.setattr(memory.MemoryEngine, "map", lambda self, task, _=0: blocks(self, task, 300))
    cut = br.adjust(p, [0.2, 0.3, 0.5], sample_weight=w)
    np.testing.assert_allclose(cut.probs, whole.probs, rtol=0, atol=1e-13)


@pytest.mark.parametrize("loss", ["log", "brier", "spherical", "ranked"])
def test_the_answer_is_the_only_array_of_the_size_of_the_input(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "cores", lambda: 2)  # each thread has blocks of its own
    p = np.random.default_rng(3).dirichlet(np.ones(10), size=600_000).astype(np.float32)
    with monkeypatch.context() as patch:
        patch.setenv("BASERATE_KERNELS", "always")
        br.adjust(p[:100], np.full(10, 0.1), loss=loss)  # imports, and compiles kernels if there are any
    tracemalloc.start()
    result = br.adjust(p, np.full(10, 0.1), loss=loss)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Blocks in flight have a fixed size, so the bound does not grow with the rows; here the answer is 23 MiB.
    assert peak - result.probs.nbytes < 36 * 2**20


@pytest.mark.parametrize("loss", ["log", "brier", "spherical", "ranked", br.losses.Power(1.5), br.losses.Power(8)])
def test_a_new_engine_gives_the_same_result_for_every_loss(loss: Any) -> None:
    rng = np.random.default_rng(4)
    p, w = rng.dirichlet(np.ones(4), size=100), rng.random(100)
    rates = [0.4, 0.3, 0.2, 0.1]
    known = br.adjust(p, rates, loss=loss, sample_weight=w)
    result = br.adjust(Chunks([p[:7], p[7:60], p[60:]]), rates, loss=loss, sample_weight=w)
    assert result.engine == "chunks"
    assert_certified(result)
    np.testing.assert_allclose(result.probs, known.probs, rtol=0, atol=1e-9)


def test_a_new_engine_handles_hard_zeros_and_names_rows() -> None:
    p = np.array([[1.0, 0.0], [0.4, 0.6]])
    result = br.adjust(Chunks([p[:1], p[1:]]), [0.5, 0.5])
    np.testing.assert_array_equal(result.probs, [[1, 0], [0, 1]])
    with pytest.raises(br.errors.BadProbabilities, match="row 1, column 0 is nan"):
        br.adjust(Chunks([p[:1], p[1:] * np.nan]), [0.5, 0.5])


def as_chunks(p: Array) -> Chunks:
    return Chunks([p[:30], p[30:]])


def as_lists(p: Array) -> ListChunks:
    return ListChunks([p[:30].tolist(), p[30:].tolist()])


@pytest.mark.parametrize("chunks", [as_chunks, as_lists])
def test_every_verb_works_with_a_new_engine_and_with_new_passes(chunks: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    p, new = rng.dirichlet(np.ones(3), size=80), rng.dirichlet(np.ones(3), size=40)
    y = rng.integers(3, size=80)
    known, result = br.adjust(p, [0.5, 0.3, 0.2]), br.adjust(chunks(p), [0.5, 0.3, 0.2])
    assert result.engine == ("chunks" if chunks is as_chunks else "chunks, lists")
    assert_certified(result)
    np.testing.assert_allclose(result.probs, known.probs, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.apply(chunks(new)), known.apply(new), rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        result.what_if([0.2, 0.3, 0.5]).probs, known.what_if([0.2, 0.3, 0.5]).probs, rtol=0, atol=1e-9
    )
    for r, name in ((known, "known.md"), (result, "new.md")):
        r.report(tmp_path / name, y=y)
    pages = [
        (tmp_path / name).read_text().replace(r.engine, "") for r, name in ((known, "known.md"), (result, "new.md"))
    ]
    assert "most probable class" in pages[0]
    assert pages[1].splitlines()[:20] == pages[0].splitlines()[:20]


def test_toy_engine_and_toy_passes_are_one_short_file_each() -> None:
    for name in ("toy_engine.py", "toy_passes.py"):
        assert len((Path(__file__).parent / name).read_text().splitlines()) <= 60


def test_a_subclass_that_inherits_how_it_opens_rows_does_not_replace_the_engine() -> None:
    class Derived(memory.MemoryEngine):
        name = "derived"

    result = br.adjust([[0.7, 0.3], [0.4, 0.6]], [0.3, 0.7])
    assert type(result.source) is memory.MemoryEngine
    assert Derived.name == "derived"


def test_defaults_of_engines(tmp_path: Path) -> None:
    p = np.random.default_rng(7).dirichlet(np.ones(3), size=10)
    rows = ChunkEngine([p[:4], p[4:]], None)
    assert rows.n_values == 30
    with pytest.raises(br.errors.BadOption, match="out= is where adjusted files go"):
        br.adjust(Chunks([p]), [0.5, 0.3, 0.2], out=tmp_path / "rows.npy")
    result = br.adjust(Chunks([p]), [0.5, 0.3, 0.2])
    assert isinstance(result.apply(p), np.ndarray)
    assert isinstance(result.apply(Chunks([p])), np.ndarray)
    with pytest.raises(br.errors.BadOption, match="whole= is for a dataframe"):
        result.apply(Chunks([p]), whole=True)


def test_defaults_of_passes() -> None:
    model = RowModel(br.losses.Log(), True, 3, np.arange(3), Reading())
    p = np.random.default_rng(8).dirichlet(np.ones(3), size=10)
    passes = ListPasses(model)
    assert not passes.sums_cells
    assert not passes.multiplies
    assert not passes.solves(ChunkEngine([p], None))
    numpy_passes = choose_passes(replace(model, loss=br.losses.Spherical()), memory.MemoryEngine(p, None))
    first = numpy_passes.first(Block(p, np.full(10, 0.1), 0), np.zeros(3))
    assert first.dual.curvature.shape == (3, 3)
    rows = ListEngine([p.tolist()], None)
    rows.n_cells = 2
    with pytest.raises(br.errors.BadOption, match="nothing can compute Log"):
        choose_passes(model, rows)
