"""Dask collections: the same results as in memory on every scheduler, lazily, with little data transfer."""

from __future__ import annotations

import logging
import os
import pickle
import pickletools
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.delayed import delayed
from distributed import Client, LocalCluster
from stream_support import CLASSES, KINDS_OF_RATES, TOL, adjusted_in_memory, rows
from support import ALL_LOSSES, Array, assert_certified, loss_id

import baserate as br
from baserate.engines.dask import memory as dask_memory
from baserate.engines.dask.collections import partitioned
from baserate.engines.dask.engine import DaskEngine
from baserate.errors import Option
from baserate.inputs.columns import ColumnSelection
from baserate.progress import Progress

RATES = {"a": 0.2, "b": 0.3, "c": 0.5}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    with (
        LocalCluster(processes=True, n_workers=2, threads_per_worker=1, dashboard_address=None) as workers,
        Client(workers, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(params=["threads", "synchronous", "cluster"])
def scheduler(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every scheduler of Dask."""
    if request.param != "cluster":
        with dask.config.set(scheduler=request.param):
            yield
        return
    with request.getfixturevalue("cluster").as_current(), dask.config.set(scheduler="distributed"):
        yield


def predictions(n: int = 3000, k: int = 3, seed: int = 0) -> Array:
    return np.random.default_rng(seed).dirichlet(np.ones(k), size=n)


def frame(n: int = 3000) -> pd.DataFrame:
    made = pd.DataFrame(predictions(n), columns=["p_a", "p_b", "p_c"], index=pd.RangeIndex(n, name="id") * 2 + 7)
    return made.assign(weight=np.random.default_rng(1).random(n), text="other")


def assert_same(lazy: br.Adjustment, known: br.Adjustment, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(lazy.dual_shift, known.dual_shift, rtol=0, atol=atol)
    np.testing.assert_allclose(lazy.rates, known.rates, rtol=0, atol=atol)
    assert lazy.certificate.loss_reduction == pytest.approx(known.certificate.loss_reduction, rel=1e-9, abs=1e-11)
    np.testing.assert_allclose(np.asarray(lazy.probs.compute()), np.asarray(known.probs), rtol=0, atol=atol)


@pytest.mark.parametrize(("loss", "k"), ALL_LOSSES, ids=loss_id)
def test_every_loss_gives_the_same_result_as_in_memory(loss: br.losses.Loss, k: int) -> None:
    p = predictions(400, k)
    rates = np.linspace(1, 2, k) / np.linspace(1, 2, k).sum()
    known = br.adjust(p, rates, loss=loss)
    lazy = br.adjust(da.from_array(p, chunks=(90, 2)), rates, loss=loss)
    assert lazy.engine.startswith("dask")
    assert lazy.converged
    assert_same(lazy, known)


@pytest.mark.parametrize("kind", KINDS_OF_RATES)
def test_every_kind_of_rates_gives_the_same_result_as_in_memory(kind: str) -> None:
    table, rates = rows(), KINDS_OF_RATES[kind]
    known = adjusted_in_memory(table, rates)
    lazy = br.adjust(dd.from_pandas(table.to_pandas(), npartitions=4), rates, columns="p_*", tol=TOL)
    assert_same(lazy, known)
    if kind not in ("groups", "margins", "pairs"):  # an array has no columns of groups
        p = np.column_stack([table[f"p_{name}"] for name in CLASSES[:3]])
        array = br.adjust(da.from_array(p, chunks=(170, 3)), rates, classes=CLASSES[:3], tol=TOL)
        assert_same(array, known)


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("loss", ["log", "spherical"])
def test_every_scheduler_gives_the_same_result(loss: str) -> None:
    p = predictions(40_000)  # enough rows for a search that starts from a sample
    options: dict[str, Any] = {
        "loss": loss,
        "tol": 1e-13,
    }  # the samples differ, so the search stops at slightly different shifts
    known = br.adjust(p, [0.2, 0.3, 0.5], **options)
    lazy = br.adjust(da.from_array(p, chunks=(9000, 3)), [0.2, 0.3, 0.5], **options)
    assert_same(lazy, known)
    with dask.config.set(scheduler="synchronous"):
        again = br.adjust(da.from_array(p, chunks=(9000, 3)), [0.2, 0.3, 0.5], **options)
    np.testing.assert_array_equal(lazy.shift, again.shift)


@pytest.mark.usefixtures("scheduler")
def test_dataframe_keeps_its_kind_index_names_and_dtypes() -> None:
    df = frame().astype({"p_a": "float32", "p_b": "float32"})
    ddf = dd.from_pandas(df, npartitions=4)
    known = br.adjust(df, RATES, columns="p_*")
    lazy = br.adjust(ddf, RATES, columns="p_*")
    assert lazy.classes == ("a", "b", "c")
    assert lazy.probs.divisions == ddf.divisions
    assert dict(lazy.probs.dtypes) == dict(known.probs.dtypes)
    pd.testing.assert_frame_equal(lazy.probs.compute(), known.probs, atol=1e-7)
    pd.testing.assert_frame_equal(lazy.apply(ddf).compute(), known.apply(df), atol=1e-7)
    np.testing.assert_allclose(lazy.shift, known.shift, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize(
    ("dtype", "expected"), [("float16", "float32"), ("float32", "float32"), ("float64", "float64")]
)
def test_a_lazy_array_has_the_dtype_of_the_predictions(dtype: str, expected: str) -> None:
    p = predictions().astype(dtype)
    lazy, known = (br.adjust(rows, [0.2, 0.3, 0.5]) for rows in (da.from_array(p, chunks=(400, 3)), p))
    for array in (lazy.probs, lazy.apply(da.from_array(p, chunks=(400, 3)))):
        assert array.dtype == array.compute().dtype == expected
        np.testing.assert_allclose(array.compute(), known.probs, rtol=0, atol=1.2e-7)
    residual = np.abs(lazy.probs.mean(axis=0, dtype=float).compute() - lazy.wanted).max()
    assert lazy.certificate.residual == pytest.approx(residual, rel=0, abs=1e-15)
    assert lazy.certificate.loss_reduction == pytest.approx(known.certificate.loss_reduction, abs=1e-10)


@pytest.mark.usefixtures("scheduler")
def test_a_requested_dtype_is_that_of_lazy_rows() -> None:
    array, ddf = da.from_array(predictions(), chunks=(400, 3)), dd.from_pandas(frame(), npartitions=4)
    for native, options in ((array, {}), (ddf, {"columns": "p_*"})):
        lazy = br.adjust(native, br.Rates.exact(list(RATES.values())), dtype="float32", **options)
        for out in (lazy.probs, lazy.what_if([0.3, 0.3, 0.4]).probs, lazy.apply(native, dtype="float32")):
            dtypes = [out.dtype] if native is array else list(out.dtypes)
            assert set(dtypes) == {np.asarray(out.compute()).dtype} == {np.dtype("float32")}


def test_partitions_may_be_empty_or_of_unknown_length(tmp_path: Path) -> None:
    p = predictions()
    p = p[np.argsort(p[:, 0])]
    chosen = p[:, 0] > 0.4
    array = da.from_array(p, chunks=(500, 3))
    masked = array[array[:, 0] > 0.4]  # the first partitions are empty now, which Dask does not know
    known = br.adjust(p[chosen], [0.6, 0.3, 0.1])
    assert_same(br.adjust(masked, [0.6, 0.3, 0.1]), known)
    df = frame()
    dd.from_pandas(df, npartitions=3).to_parquet(tmp_path)
    table = dd.read_parquet(tmp_path)
    kept = df[df.p_a > 0.9]
    assert_same(
        br.adjust(table, RATES, columns="p_*", sample_weight="weight"),
        br.adjust(df, RATES, columns="p_*", sample_weight=df.weight),
    )
    assert_same(br.adjust(table[table.p_a > 0.9], RATES, columns="p_*"), br.adjust(kept, RATES, columns="p_*"))


def test_result_has_the_partitions_of_the_files(tmp_path: Path) -> None:
    # By default Dask joins partitions of files of which only few columns are read.
    wide = pd.DataFrame(np.random.default_rng(0).random((400, 30))).add_prefix("x").join(frame(400).reset_index())
    dd.from_pandas(wide, npartitions=8).to_parquet(tmp_path)
    table = dd.read_parquet(tmp_path)
    lazy = br.adjust(table, RATES, columns="p_*", sample_weight=table["weight"])
    assert lazy.probs.npartitions == table.npartitions
    assert_same(lazy, br.adjust(wide, RATES, columns="p_*", sample_weight=wide["weight"]))


@pytest.mark.parametrize("kind", ["name", "series", "pandas", "array", "other chunks", "numpy", "list"])
def test_every_kind_of_weights(kind: str) -> None:
    df = frame(600)
    ddf, w = dd.from_pandas(df, npartitions=3), df.weight.to_numpy()
    array = da.from_array(df[["p_a", "p_b", "p_c"]].to_numpy(), chunks=(250, 3))
    given: dict[str, tuple[Any, Any]] = {
        "name": (ddf, "weight"),
        "series": (ddf, ddf["weight"] * 1e300),  # whose sum overflows
        "pandas": (ddf, df["weight"]),
        "array": (array[array[:, 0] >= 0], da.from_array(w, chunks=250)),
        "other chunks": (array, da.from_array(w, chunks=77)),
        "numpy": (array, w),
        "list": (array, w.tolist()),
    }
    rows, weights = given[kind]
    options = {"columns": "p_*"} if rows is ddf else {}
    known = br.adjust(df[["p_a", "p_b", "p_c"]].to_numpy(), [0.2, 0.3, 0.5], sample_weight=w)
    assert_same(br.adjust(rows, [0.2, 0.3, 0.5], sample_weight=weights, **options), known)
    sampled = br.Rates.from_counts([20, 30, 50])  # needs the effective number of rows
    known = br.adjust(df[["p_a", "p_b", "p_c"]].to_numpy(), sampled, sample_weight=w)
    assert br.adjust(rows, sampled, sample_weight=weights, **options).certificate.batch_size == (
        known.certificate.batch_size
    )


@pytest.mark.parametrize("n_counting", [10_000, 1])
def test_search_can_start_from_a_weighted_sample(n_counting: int) -> None:
    p, w = predictions(40_000), np.random.default_rng(2).random(40_000)
    w[:-n_counting] = 0  # if only one row counts, it is not in the sample
    lazy = br.adjust(da.from_array(p, chunks=(9000, 3)), [0.2, 0.3, 0.5], sample_weight=w, tol=1e-13)
    assert_same(lazy, br.adjust(p, [0.2, 0.3, 0.5], sample_weight=w, tol=1e-13))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (da.from_array(np.r_[np.ones(14), np.nan, np.ones(5)], chunks=10), r"sample_weight\[14\] is nan"),
        (da.from_array(np.r_[np.ones(14), -1, np.ones(5)], chunks=7), r"sample_weight\[14\] is -1.0"),
        (da.zeros(20, chunks=10), "all weights are zero"),
        (da.ones(19, chunks=10), r"must have shape \(20,\), one for each row, but has \(19,\)"),
        (delayed(1), "one number for each row, but is a Dask Delayed"),
        (da.ones((20, 1), chunks=10), "one number for each row, but is a Dask Array"),
        (dd.from_pandas(pd.Series(np.ones(20)), npartitions=1), "1 partitions, but there are 2"),
        (dd.from_pandas(pd.Series(np.ones(18)), npartitions=2), "partition 0 has 10 rows, but 9 weights"),
        (da.from_array(np.array(["x"] * 20), chunks=10), "real numbers, but has dtype <U1"),
        (np.ones(19), r"must have shape \(20,\)"),
        ("w", "names the column 'w', but probs is a Dask array"),
    ],
)
def test_bad_weights_are_errors(weights: Any, message: str) -> None:
    with pytest.raises(br.errors.BadWeights, match=message):
        br.adjust(da.from_array(predictions(20), chunks=(10, 3)), [0.2, 0.3, 0.5], sample_weight=weights)


def test_missing_column_of_weights_is_an_error() -> None:
    with pytest.raises(br.errors.BadWeights, match="names the column 'w', which probs does not have"):
        br.adjust(dd.from_pandas(frame(20), npartitions=2), RATES, columns="p_*", sample_weight="w")


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        (da.ones(5), r"2 dimensions \(rows, classes\), but has shape \(5,\); for two classes"),
        (da.ones((5, 1)), "probs has 1 column; at least 2"),
        (da.ones((0, 3)), r"probs is empty: its shape is \(0, 3\)"),
        (da.ones((5, 3), chunks=2)[da.zeros(5, chunks=2) > 1], r"probs is empty: its shape is \(0, 3\)"),
        (da.ones((5, 3), dtype="complex64"), "must hold real numbers, but has dtype complex64"),
        (dd.from_pandas(frame(5), npartitions=1), "column 'text' of probs contains String values"),
        (dd.from_pandas(frame(5), npartitions=1)[["p_a"]], "probs has 1 column; at least 2"),
        (dd.from_pandas(frame(5), npartitions=1)["p_a"], "must have 2 dimensions .* but is a Dask Series"),
        (dd.from_pandas(frame(5), npartitions=1)[["p_a", "p_b", "p_a"]], "several columns of one name"),
        (da.ones((5, 5), chunks=2)[:, da.ones(5, chunks=2) > 0], "unknown number of columns"),
        (delayed(1), "but is a Dask Delayed"),
    ],
)
def test_bad_shapes_are_errors_before_anything_is_computed(probs: Any, message: str) -> None:
    with pytest.raises(br.errors.BadProbabilities, match=message):
        br.adjust(probs, [0.2, 0.3, 0.5])


def test_columns_of_an_array_cannot_be_selected() -> None:
    with pytest.raises(br.errors.BadOption, match="columns= selects columns of a dataframe, but probs is a Dask Array"):
        br.adjust(da.ones((5, 3)), [0.2, 0.3, 0.5], columns="p_*")


@pytest.mark.usefixtures("scheduler")
def test_errors_name_bad_rows_and_impossible_rates() -> None:
    p = predictions(1000)
    p[[600, 990], 1] = np.nan
    with pytest.raises(br.errors.BadProbabilities, match="row 600, column 1 is nan"):
        br.adjust(da.from_array(p, chunks=(170, 3)), [0.2, 0.3, 0.5])
    ddf = dd.from_pandas(pd.DataFrame(p, columns=list("abc")), npartitions=5)
    with pytest.raises(br.errors.BadProbabilities, match="row 600, column 'b' is nan"):
        br.adjust(ddf, RATES)
    zeros = np.array([[1.0, 0, 0], [0, 1, 0]] * 20)
    with pytest.raises(br.InfeasibleRates, match=r"class 2 would need a mean of 0.5, but no row gives it") as caught:
        br.adjust(da.from_array(zeros, chunks=(9, 3)), [0.2, 0.3, 0.5])
    assert caught.value.classes == [2]
    with pytest.raises(br.InfeasibleRates, match="row 0 gives probability only to classes whose rate is 0"):
        br.adjust(da.from_array(zeros, chunks=(9, 3)), [0, 0, 1])


def test_limit_at_infinity_gives_the_same_result_as_in_memory() -> None:
    p = np.array([[1.0, 0.0], [0.4, 0.6]] * 20)
    lazy = br.adjust(da.from_array(p, chunks=(9, 2)), [0.5, 0.5])
    np.testing.assert_array_equal(lazy.probs.compute(), br.adjust(p, [0.5, 0.5]).probs)


def test_errors_keep_their_attributes_when_pickled() -> None:
    first = br.InfeasibleRates("message", classes=["a"], reachable=0.1, wanted=0.2, options=[Option("zeros", "1e-6")])
    second = br.errors.ImpossibleShift("message", "cause")
    for error in (first, second):
        back = pickle.loads(pickle.dumps(error))
        assert type(back) is type(error)
        assert str(back) == "message"
        assert vars(back) == vars(error)


def counted(calls: list[int], p: Array, n_chunks: int) -> da.Array:
    """An array that appends to ``calls`` whenever one of its chunks is computed."""

    def note(chunk: Array) -> Array:
        calls.append(1)
        return chunk

    return da.from_array(p, chunks=(len(p) // n_chunks, p.shape[1])).map_blocks(note, meta=np.empty((0, 0)))


def test_input_is_read_once_and_result_is_lazy(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []
    with caplog.at_level(logging.INFO, logger="baserate"):
        result = br.adjust(counted(calls, predictions(), 4), [0.2, 0.3, 0.5])
    assert len(calls) == 4
    assert "persisted 0.1 MB of predictions in this machine's memory" in caplog.text
    computed: list[Any] = []
    with dask.callbacks.Callback(pretask=lambda key, *_: computed.append(key)):
        lazy = result.probs
        assert isinstance(lazy, da.Array)
        assert lazy.chunks == ((750,) * 4, (3,))
        assert not computed
        lazy[:10].compute()
    assert len(computed) < 12  # of one partition
    assert len(calls) == 4
    other = result.what_if([0.5, 0.3, 0.2])
    assert len(calls) == 4
    assert_certified_lazy(other)


def assert_certified_lazy(result: br.Adjustment) -> None:
    from dataclasses import replace

    assert_certified(replace(result, answer=result.probs.compute()))


def test_input_that_does_not_fit_into_memory_is_read_in_each_pass(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dask_memory, "_free_here", lambda: 1000.0)
    calls: list[int] = []
    with caplog.at_level(logging.INFO, logger="baserate"):
        result = br.adjust(counted(calls, predictions(), 4), [0.2, 0.3, 0.5])
    assert len(calls) == 4 * result.n_passes
    assert "the predictions (0.1 MB) are read again in each pass: they do not fit into half of" in caplog.text


def test_nothing_is_persisted_on_a_scheduler_that_keeps_nothing(caplog: pytest.LogCaptureFixture) -> None:
    parts = da.from_array(predictions(), chunks=(700, 3)).to_delayed().ravel().tolist()
    with dask.config.set(scheduler="processes"), caplog.at_level(logging.INFO, logger="baserate"):
        assert dask_memory.persisted(parts, 1) is None
    assert "read again in each pass: the workers of this scheduler keep nothing" in caplog.text


def test_free_memory_is_determined_without_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    known = dask_memory._free_here()
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert 0 < dask_memory._free_here() <= 2 * known
    monkeypatch.delattr(os, "sysconf")
    assert dask_memory._free_here() == 0


@pytest.mark.parametrize("unknown", [False, True])
def test_apply_is_lazy(unknown: bool) -> None:
    calls: list[int] = []
    p = predictions()
    result = br.adjust(p, [0.2, 0.3, 0.5])
    rows = counted(calls, p, 4)
    if unknown:
        rows = rows[rows[:, 0] >= 0]
    adjusted = result.apply(rows)
    assert not calls
    np.testing.assert_allclose(adjusted.compute(), result.probs, rtol=0, atol=1e-12)
    p[800, 2] = np.nan
    p[0] *= 2
    bad = da.from_array(p, chunks=(750, 3))
    where = "row 50 of partition 1" if unknown else "row 800"
    with pytest.raises(br.errors.BadProbabilities, match=f"^{where}, column 2 is nan"):
        result.apply(bad[bad[:, 0] >= 0] if unknown else bad).partitions[1].compute()
    with pytest.raises(br.errors.BadProbabilities, match=r"rows starting at row 0( of partition 0)? do not sum to 1"):
        result.apply(bad[bad[:, 0] >= 0] if unknown else bad).partitions[0].compute()


def test_apply_matches_columns_by_name() -> None:
    df = frame(100)
    result = br.adjust(df, RATES, columns="p_*")
    ddf = dd.from_pandas(df[["text", "p_c", "p_a", "p_b"]], npartitions=2)
    pd.testing.assert_frame_equal(result.apply(ddf).compute(), result.probs)
    with pytest.raises(br.errors.BadProbabilities, match="new_probs has 2 columns, but the adjustment was fitted on 3"):
        br.adjust(df[["p_a", "p_b", "p_c"]].to_numpy(), [0.2, 0.3, 0.5]).apply(da.ones((4, 2)))


def test_prior_adjustment_and_logits_give_the_same_results_as_in_memory() -> None:
    p = predictions()
    array = da.from_array(p, chunks=(700, 3))
    assert_same(
        br.prior_adjust(array, [0.3, 0.3, 0.4], [0.2, 0.3, 0.5]), br.prior_adjust(p, [0.3, 0.3, 0.4], [0.2, 0.3, 0.5])
    )
    logits = br.adjust(da.log(array), [0.2, 0.3, 0.5], from_logits=True)
    assert_same(logits, br.adjust(np.log(p), [0.2, 0.3, 0.5], from_logits=True))


def test_results_of_dask_collections_can_be_saved_and_pickled(tmp_path: Path) -> None:
    result = br.adjust(da.from_array(predictions(), chunks=(700, 3)), [0.2, 0.3, 0.5])
    result.save(tmp_path / "shift.json")
    np.testing.assert_array_equal(br.load(tmp_path / "shift.json").shift, result.shift)
    copy = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(copy.probs.compute(), result.probs.compute())


class Killer(Progress):
    """Kills a worker between two passes."""

    def __init__(self, pid: int) -> None:
        self.pid, self.residuals, self.passes_after = pid, 0, 0

    def begin(self, what: str, n_rows: int) -> None:
        self.passes_after += self.residuals >= 2

    def residual(self, value: float) -> None:
        self.residuals += 1
        if self.residuals == 2:
            os.kill(self.pid, signal.SIGKILL)


def test_dead_worker_does_not_change_the_result(cluster: Client) -> None:
    p = predictions(5000)
    array = da.from_array(p, chunks=(500, 3))
    with cluster.as_current(), dask.config.set(scheduler="distributed"):
        undisturbed = br.adjust(array, [0.2, 0.3, 0.5])
        killer = Killer(min(cluster.run(os.getpid).values()))
        result = br.adjust(array, [0.2, 0.3, 0.5], progress=killer)
        assert killer.passes_after >= 1
        cluster.wait_for_workers(2)
        assert killer.pid not in cluster.run(os.getpid).values()
        np.testing.assert_array_equal(result.shift, undisturbed.shift)
        np.testing.assert_array_equal(result.probs.compute(), br.adjust(array, [0.2, 0.3, 0.5]).probs.compute())


def test_a_key_always_has_the_same_task_in_all_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise the cluster warns about deadlocks: "Detected different run_spec for key ...".
    monkeypatch.setattr(
        dask_memory, "_free_here", lambda: 0.0
    )  # nothing is persisted, so all graphs begin at the input
    raw = da.random.default_rng(3).random((800, 3), chunks=(100, 3))
    rows = raw / raw.sum(axis=1, keepdims=True)
    in_passes = dict(partitioned(rows, ColumnSelection(None)).delayed()[0].dask)
    for answer in (br.adjust(rows, [0.2, 0.3, 0.5]).probs, br.adjust(rows, [0.2, 0.3, 0.5]).apply(rows)):
        in_answer = dict(dask.optimize(answer)[0].dask)
        common = in_passes.keys() & in_answer.keys()
        assert len(common) >= 8
        assert {key: repr(in_passes[key]) for key in common} == {key: repr(in_answer[key]) for key in common}


def bytes_received(monkeypatch: pytest.MonkeyPatch, n: int) -> list[int]:
    """The number of bytes that the client receives in each pass over n rows."""
    sizes: list[int] = []

    def measured(*args: Any, **kwargs: Any) -> Any:
        results = dask.compute(*args, **kwargs)
        sizes.append(len(pickle.dumps(results)))
        return results

    with monkeypatch.context() as patched:
        patched.setattr("dask.base.compute", measured)
        rows = da.from_array(predictions(n, 10), chunks=(n // 10, 10))
        br.adjust(rows, np.linspace(1, 2, 10) / np.linspace(1, 2, 10).sum())
    return sizes


def test_bytes_received_do_not_grow_with_the_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many, most = (bytes_received(monkeypatch, n) for n in (10_000, 100_000, 400_000))
    largest = max(few)
    assert largest < 20_000  # ten partitions with 10 x 10 numbers, and the names of their fields
    for sizes in (many, most):
        assert max(sizes[1:]) <= largest
        assert sizes[0] < 8 * (1 << 17) + 2 * largest  # with the sample, a megabyte at most


def test_tasks_contain_neither_the_engine_nor_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks: list[bytes] = []
    run = DaskEngine._run

    def record(engine: DaskEngine, function: Any, task: bytes, block_values: int) -> list[Any]:
        tasks.append(task)
        return run(engine, function, task, block_values)

    monkeypatch.setattr(DaskEngine, "_run", record)
    for n in (1000, 100_000):
        tasks.clear()
        br.adjust(da.from_array(predictions(n), chunks=(n // 4, 3)), [0.2, 0.3, 0.5])
        assert len(tasks) >= 3
        assert max(map(len, tasks)) < 1500  # a partition has at least 6000 bytes
        for task in tasks:
            modules = {name for _, name, _ in pickletools.genops(task) if isinstance(name, str)}
            assert "baserate.core.row_model" in modules
            assert not [name for name in modules if name.startswith(("baserate.engines", "dask"))]


CLIENT = """
import resource, sys
import dask.array as da, numpy as np, baserate as br
from distributed import Client

def made(block_info=None):
    (start, stop), (_, k) = block_info[None]["array-location"]
    return np.random.default_rng(start).dirichlet(np.ones(k), size=stop - start)

if __name__ == "__main__":
    with Client(sys.argv[1]):
        for n in map(int, sys.argv[2:]):
            rows = da.map_blocks(made, chunks=((n // 20,) * 20, (10,)), dtype=float)
            result = br.adjust(rows, np.linspace(1, 2, 10) / np.linspace(1, 2, 10).sum())
            mean = result.probs.mean(axis=0).compute()
            assert np.abs(mean - result.wanted).max() < 1e-9
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def test_memory_of_the_client_does_not_grow_with_the_number_of_rows(cluster: Client, tmp_path: Path) -> None:
    script = tmp_path / "client.py"
    script.write_text(CLIENT)
    command = [sys.executable, script, cluster.scheduler.address, "100000", "1000000"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    few, many = map(int, ran.stdout.split())
    assert many - few < 20 * 2**20  # the additional rows have 69 MiB
