"""Downloads from OpenML, by a local server that can fail at any request."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openml_server import DataSet, OpenMLServer, Run, Task
from support import Array

from baserate.errors import BadOption
from baserate.progress import SILENT, Progress
from baserate.study import limited_http, openml_runs
from baserate.study.openml_runs import OpenMLRuns, ServerFailed
from baserate.study.runs import Rules, read_run

pytest.importorskip("arff", reason="openml is not installed")


@pytest.fixture(scope="module")
def openml(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The openml package, imported with other folders, since importing it creates folders in the home directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.setenv("OPENML_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        return pytest.importorskip("openml")


COINS, THREE = 60, 50


def truth_of(rows: int, classes: tuple[str, ...], seed: int) -> tuple[list[str], Array]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(len(classes), 2.0), size=rows).round(6).clip(1e-3, 0.99)
    return [classes[j] for j in rng.integers(len(classes), size=rows)], p


def predictions(labels: list[str], p: Array, classes: tuple[str, ...], seed: int = 0) -> str:
    """A predictions file with the rows in random order; row i is in fold i % 10."""
    head = "@relation x\n@attribute repeat numeric\n@attribute fold numeric\n@attribute row_id numeric\n"
    head += "".join(f"@attribute confidence.{name} numeric\n" for name in classes)
    head += f"@attribute prediction {{{','.join(classes)}}}\n@attribute correct {{{','.join(classes)}}}\n@data\n"
    order = np.random.default_rng(seed).permutation(len(labels)).tolist()
    return head + "\n".join(f"0,{i % 10},{i},{','.join(map(str, p[i]))},{classes[0]},{labels[i]}" for i in order)


COIN_LABELS, COIN_PROBS = truth_of(COINS, ("heads", "tails"), 1)
COIN_PROBS[:, 1] = 1 - COIN_PROBS[:, 0]
THREE_LABELS, THREE_PROBS = truth_of(THREE, ("a", "b", "c"), 2)
THREE_PROBS /= THREE_PROBS.sum(axis=1, keepdims=True)
NINE = tuple("abcdefghi")

COIN_DATA = "@relation coins\n@attribute id integer\n@attribute weight real\n@attribute class {heads,tails}\n@data\n"
COIN_DATA += "\n".join(f"{i},{i / 8},{label}" for i, label in enumerate(COIN_LABELS))
THREE_DATA = (
    "@relation three\n@attribute size numeric\n@attribute colour {red,'dark blue'}\n@attribute big {true,false}\n"
)
THREE_DATA += "@attribute note string\n@attribute age integer\n@attribute class {a,b,c}\n@data\n"
THREE_DATA += "\n".join(
    f"{'?' if i % 7 == 3 else i * 1.5},{'?' if i % 5 == 0 else 'red'},true,'n {i}',{300 + i},{label}"
    for i, label in enumerate(THREE_LABELS)
)


def small_openml() -> OpenMLServer:
    good = predictions(COIN_LABELS, COIN_PROBS, ("heads", "tails"))
    hard = COIN_PROBS.copy()
    hard[5] = [1.0, 0.0]
    three = predictions(THREE_LABELS, THREE_PROBS, ("a", "b", "c"), seed=3)
    return OpenMLServer(
        datasets={
            1: DataSet("coins", COIN_DATA, COINS, ("heads", "tails"), ignored="id"),
            2: DataSet("three/kinds", THREE_DATA, THREE, ("a", "b", "c")),
            3: DataSet("nine", "", THREE, NINE),
            4: DataSet("tiny", "", 10, ("a", "b")),
            5: DataSet("broken", "@relation x\n@attribute", THREE, ("heads", "tails")),
        },
        tasks={12: Task(2, 7), 11: Task(1), 13: Task(3), 14: Task(4), 15: Task(1, procedure=6), 16: Task(5)},
        runs={
            101: Run(11, good),
            102: Run(11, predictions(COIN_LABELS, hard, ("heads", "tails"))),
            103: Run(11, None),
            104: Run(11, good.replace("@data", "")),
            105: Run(12, three, flow="sklearn.pipeline.Pipeline(a=b.C/d, e='<f>')" + "x" * 100),
            106: Run(12, "", gone=True),
            107: Run(12, predictions(THREE_LABELS, np.full((THREE, 9), 1 / 9), NINE)),
            108: Run(12, three + f"\n0,0,{THREE},0.25,0.25,0.5,a,a"),
            109: Run(11, good),
            110: Run(13, good),
            111: Run(14, good),
            112: Run(15, good),
            113: Run(16, good),
            114: Run(16, good),
        },
    )


TAKEN = [101, 105, 109]


@pytest.fixture
def server(openml: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenMLServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(openml.config, "connection_n_retries", 1)
    with small_openml() as server:
        yield server


def corpus_of(server: OpenMLServer, **options: Any) -> OpenMLRuns:
    options = {
        "min_rows": 20,
        "pause": 0.25,
        "sleep": lambda seconds: server.events.append(f"sleep {seconds}"),
    } | options
    return OpenMLRuns(server=server.url, **options)


class Recorded(Progress):
    """Records, for every step, the number of finished units and the total, and all notes."""

    def __init__(self) -> None:
        self.done: dict[str, tuple[int, int]] = {}
        self.notes: list[str] = []

    def begin(self, what: str, n_rows: int) -> None:
        self.done[what] = 0, n_rows

    def rows(self, n_rows: int) -> None:
        what, (done, total) = self.done.popitem()
        self.done[what] = done + n_rows, total
        assert done + n_rows <= total

    def note(self, text: str) -> None:
        self.notes.append(text)


def names(runs: list[int]) -> list[str]:
    return [f"openml-run-{run}.parquet" for run in runs]


def reasons(folder: Path) -> dict[int, str]:
    files = (folder / "openml-notes").glob("verdict-*.json")
    return {int(path.stem.removeprefix("verdict-")): json.loads(path.read_text())["reason"] for path in files}


def table_of(path: Path) -> dict[str, list[Any]]:
    import pyarrow.parquet as pq

    return dict(pq.read_table(path).to_pydict())


def check_coins(folder: Path) -> None:
    """Check that the file of run 101 contains the data of the server; row i of the data is in fold i % 10."""
    coins = table_of(folder / "openml-run-101.parquet")
    rows = [int(8 * weight) for weight in coins["x_weight"]]
    assert sorted(rows) == list(range(COINS))
    assert coins["fold"] == [row % 10 for row in rows]
    assert coins["y"] == [COIN_LABELS[row] for row in rows]
    assert np.array_equal(np.column_stack([coins["p_heads"], coins["p_tails"]]), COIN_PROBS[rows])
    assert {name for name in coins if name.startswith("x_")} == {"x_weight"}, "the data set declares that id is ignored"


def check_run_files(folder: Path) -> None:
    """Check that the run files contain the data of the server."""
    check_coins(folder)
    three = table_of(folder / "openml-run-105.parquet")
    rows = [int(age) - 300 for age in three["x_age"]]
    assert sorted(rows) == list(range(THREE))
    assert three["y"] == [THREE_LABELS[row] for row in rows]
    size = np.array([np.nan if row % 7 == 3 else 1.5 * row for row in rows])
    assert np.array_equal(np.array(three["x_size"]), size, equal_nan=True)
    assert {name for name in three if name.startswith("x_")} == {"x_size", "x_age"}, "only numeric columns"


def test_usable_runs_are_written_and_others_get_a_reason(server: OpenMLServer, tmp_path: Path) -> None:
    progress = Recorded()
    files = corpus_of(server).collect(tmp_path, 4, progress)
    assert [path.name for path in files] == names(TAKEN)
    check_run_files(tmp_path)
    found = reasons(tmp_path)
    assert found[102] == "a score is exactly 0 or 1"
    assert "No prediction files for run 103" in found[103]
    assert "the predictions of run 104, line" in found[104]
    assert found[106] == "it has no predictions file: the server answered 404"
    assert found[107] == "the number of classes is 9, not 2 to 8"
    assert found[108] == "row_id 50 is outside the data set, which has 50 rows"
    assert "its data set cannot be read" in found[113]
    assert set(found) == {102, 103, 104, 106, 107, 108, 113, 114}
    assert progress.done == {"listing the runs of each task": (3, 3), "downloading runs": (11, 11)}
    assert progress.notes[-1] == f"run 114: {found[114]}"
    assert len(server.asked("/files/data/5")) == 1, "a broken data set is downloaded only once"
    assert len(server.asked("/files/data/2")) == 1
    assert not server.asked("/run/110") + server.asked("/run/111") + server.asked("/run/112")
    assert server.asked("/task/list/type/1/number_instances/20..1000000/number_classes/2..8/")


def test_study_can_read_the_run_files(server: OpenMLServer, tmp_path: Path) -> None:
    coins, three, again = corpus_of(server).collect(tmp_path, 1, SILENT)
    run = read_run(coins, Rules(min_rows=2), seed=0)
    assert run.summary.dataset == "coins-task-11"
    assert run.summary.model == "weka.NaiveBayes(1)-run-101"
    assert run.summary.taken == run.summary.folds == 10
    assert run.sets[3].features.shape[1] == 1
    assert sorted(run.sets[3].features[:, 0] * 8) == [3, 13, 23, 33, 43, 53]
    assert "run 101" in run.summary.source
    model = read_run(three, Rules(min_rows=2), seed=0).summary
    assert model.dataset == "three-kinds-task-12"
    assert len(model.model) < 70
    assert "/" not in model.model
    assert read_run(again, Rules(min_rows=2), seed=0).summary.model != run.summary.model


def test_second_collection_sends_no_requests(server: OpenMLServer, tmp_path: Path) -> None:
    first = corpus_of(server).collect(tmp_path, 1, SILENT)
    server.events.clear()
    assert corpus_of(server).collect(tmp_path, 1, SILENT) == first
    assert server.events == []


def test_hard_scores_are_kept_on_request(server: OpenMLServer, tmp_path: Path) -> None:
    files = corpus_of(server, tasks=(11,), keep_hard_scores=True).collect(tmp_path, 1, SILENT)
    assert [path.name for path in files] == names([101, 102, 109])


@pytest.mark.parametrize("page", [1, 2, 3])
def test_long_lists_are_requested_in_pages(
    server: OpenMLServer, tmp_path: Path, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openml_runs, "_PAGE", page)
    assert [path.name for path in corpus_of(server).collect(tmp_path, 1, SILENT)] == names(TAKEN)
    assert server.asked(f"/run/list/limit/{page}/offset/{page}/task/11")


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ({"runs_per_task": 1}, [101, 105]),
        ({"runs_per_task": 2, "tasks": (11,)}, [101, 109]),
        ({"max_tasks": 1}, [101, 109]),
        ({"tasks": (12, 13, 999)}, [105]),
        ({"max_classes": 2}, [101, 109]),
        ({"min_rows": 55}, [101, 109]),
        ({"max_rows": 55}, [105]),
        ({"runs": (109, 112, 101, 102)}, [101, 109, 112]),
        ({"runs": (999,)}, []),
    ],
    ids=str,
)
def test_options_select_runs(server: OpenMLServer, tmp_path: Path, options: dict[str, Any], runs: list[int]) -> None:
    assert [path.name for path in corpus_of(server, **options).collect(tmp_path, 1, SILENT)] == names(runs)


def test_unknown_run_gets_a_reason(server: OpenMLServer, tmp_path: Path) -> None:
    corpus_of(server, runs=(999,)).collect(tmp_path, 1, SILENT)
    assert reasons(tmp_path) == {999: "the server does not know this run"}


def test_there_is_a_pause_between_requests(server: OpenMLServer, tmp_path: Path) -> None:
    corpus_of(server, runs_per_task=1).collect(tmp_path, 1, SILENT)
    # The openml package itself sends this request whenever it lists tasks.
    events = [event for event in server.events if "estimationprocedure" not in event]
    requests = [i for i, event in enumerate(events) if not event.startswith("sleep")]
    assert requests[0] == 0
    assert all(events[i - 1] == "sleep 0.25" for i in requests[1:])


FAILURES = ["status", "close", "cut", "page"]


@pytest.mark.parametrize("kind", FAILURES)
@pytest.mark.parametrize(
    "where",
    [
        "/task/list",
        "/run/list/limit/10000/offset/0/task/12",
        "/run/105",
        "/predictions/105",
        "/data/2",
        "/files/data/2",
    ],
)
def test_server_failure_loses_no_downloads(server: OpenMLServer, tmp_path: Path, kind: str, where: str) -> None:
    if (kind, where) == ("page", "/files/data/2"):
        return  # tested by the next test
    corpus = corpus_of(server)
    server.failure = lambda path: kind if path.endswith(where) or f"{where}/type" in path else ""
    with pytest.raises(ServerFailed, match=r"cannot get .*127\.0\.0\.1.*downloads so far are kept in .*; run the same"):
        corpus.collect(tmp_path, 1, SILENT)
    kept = sorted(path.name for path in tmp_path.glob("*.parquet"))
    assert kept == ([] if "list" in where else names([101, 109]))
    assert not {105, 106} & set(reasons(tmp_path)), "a failure of the server does not reject a run"
    server.failure = lambda path: ""
    server.events.clear()
    assert [path.name for path in corpus.collect(tmp_path, 1, SILENT)] == names(TAKEN)
    check_run_files(tmp_path)
    assert not [name for name in kept if server.asked(f"/predictions/{name[11:14]}")], "nothing is downloaded twice"
    assert sorted(path.name for path in tmp_path.glob("*.parquet")) == names(TAKEN)


@pytest.mark.parametrize("checksum", [True, False])
def test_web_page_instead_of_a_data_set_is_requested_again_next_time(
    server: OpenMLServer, tmp_path: Path, checksum: bool
) -> None:
    server.datasets[2].checksum = checksum
    server.failure = lambda path: "page" if path == "/files/data/2" else ""
    assert [path.name for path in corpus_of(server).collect(tmp_path, 1, SILENT)] == names([101, 109])
    assert len(server.asked("/files/data/2")) == 1, "not once per run"
    assert not {105, 108} & set(reasons(tmp_path))
    server.failure = lambda path: ""
    assert [path.name for path in corpus_of(server).collect(tmp_path, 1, SILENT)] == names(TAKEN)
    check_run_files(tmp_path)


def test_runs_on_a_missing_data_set_get_a_reason(server: OpenMLServer, tmp_path: Path) -> None:
    server.failure = lambda path: "unknown" if path.endswith("xml/data/2") else ""
    assert [path.name for path in corpus_of(server).collect(tmp_path, 1, SILENT)] == names([101, 109])
    assert reasons(tmp_path)[105].startswith("data set 2 is not available")
    assert len(server.asked("/data/2")) == 1


@pytest.mark.parametrize("where", ["get_dataset", "OpenMLDataset.get_data"])
def test_full_disk_does_not_reject_the_run_or_blame_the_server(
    server: OpenMLServer, tmp_path: Path, openml: Any, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"openml.datasets.{where}", full)
    with pytest.raises(OSError, match="No space left") as caught:
        corpus_of(server, runs=(101,)).collect(tmp_path, 1, SILENT)
    assert not isinstance(caught.value, ServerFailed)
    assert reasons(tmp_path) == {}


@pytest.mark.parametrize(
    ("retry_after", "waits"), [("", [1.0, 2.0]), ("7", [7.0, 7.0]), ("Wed, 21 Oct 2015 07:28:00 GMT", [1.0, 2.0])]
)
def test_failed_download_is_repeated_after_the_required_delay(
    server: OpenMLServer,
    tmp_path: Path,
    openml: Any,
    retry_after: str,
    waits: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(openml.config, "connection_n_retries", 3)
    server.retry_after = retry_after
    server.failure = lambda path: "status" if "predictions" in path and len(server.asked("predictions")) < 3 else ""
    assert len(corpus_of(server, runs=(101,)).collect(tmp_path, 1, SILENT)) == 1
    assert [event for event in server.asked("sleep") if event != "sleep 0.25"] == [f"sleep {wait}" for wait in waits]
    assert len(server.asked("predictions")) == 3


@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("seconds", ["601", "999999999", "9" * 400])
def test_a_server_that_asks_for_a_very_long_delay_ends_the_collection(
    server: OpenMLServer, tmp_path: Path, openml: Any, attempts: int, seconds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openml.config, "connection_n_retries", attempts)
    server.retry_after = seconds
    server.failure = lambda path: "status" if "predictions" in path else ""
    shown = "inf" if len(seconds) > 300 else seconds
    with pytest.raises(
        ServerFailed, match=rf"500 .*; it asks for a delay of {shown} seconds, and more than 600 are not"
    ):
        corpus_of(server, runs=(101,)).collect(tmp_path, 1, SILENT)
    assert set(server.asked("sleep")) == {"sleep 0.25"}
    assert len(server.asked("predictions")) == 1


@pytest.mark.parametrize("kind", ["announced", "endless", "bomb"])
def test_predictions_and_data_sets_that_are_too_large_are_refused_with_a_reason(
    server: OpenMLServer, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_http, "MAX_BYTES", 10**6)
    server.failure = lambda path: kind if path in ("/files/predictions/101", "/files/data/2") else ""
    files = corpus_of(server, runs=(101, 105, 109)).collect(tmp_path, 1, SILENT)
    assert [path.name for path in files] == names([109])
    found = reasons(tmp_path)
    sent = "3000000000 bytes" if kind == "announced" else "more than 1000000 bytes"
    assert found[101] == (
        f"its predictions file is too large: the server sends {sent}; at most 1000000 bytes are accepted"
    )
    assert f"the server sends {sent}; at most 1000000 bytes are accepted" in found[105]


def test_a_list_that_is_too_large_is_a_failure_of_the_server(
    server: OpenMLServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_http, "MAX_BYTES", 10**6)
    server.failure = lambda path: "endless" if "/task/list" in path else ""
    with pytest.raises(ServerFailed, match=r"cannot get the list of tasks .* at most 1000000 bytes are accepted"):
        corpus_of(server).collect(tmp_path, 1, SILENT)


@pytest.mark.parametrize("where", ["/run/101", "/files/predictions/101", "/files/data/1"])
def test_a_server_that_sends_one_byte_at_a_time_is_not_waited_for(
    server: OpenMLServer, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_http, "MAX_SECONDS", 0.5)
    server.failure = lambda path: "trickle" if path.endswith(where) else ""
    with pytest.raises(ServerFailed, match=rf"the response of .*{where} was not complete after 0\.5 s"):
        corpus_of(server, runs=(101,)).collect(tmp_path, 1, SILENT)
    assert reasons(tmp_path) == {}


def test_limits_end_with_the_collection(server: OpenMLServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import requests

    monkeypatch.delenv("OPENML_SKIP_PARQUET", raising=False)
    before = requests.adapters.HTTPAdapter.send
    corpus_of(server, runs=(101,)).collect(tmp_path, 1, SILENT)
    assert requests.adapters.HTTPAdapter.send is before
    assert "OPENML_SKIP_PARQUET" not in os.environ


def test_redirections_are_followed_only_to_web_addresses(server: OpenMLServer, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(predictions(COIN_LABELS, COIN_PROBS, ("heads", "tails")))
    other = f"{server.host}/files/predictions/109"
    server.failure = lambda path: other if path == "/files/predictions/101" else ""
    assert len(corpus_of(server, runs=(101,)).collect(tmp_path / "a", 1, SILENT)) == 1
    server.failure = lambda path: secret.as_uri() if path == "/files/predictions/101" else ""
    with pytest.raises(ServerFailed, match="No connection adapters were found for 'file:"):
        corpus_of(server, runs=(101,)).collect(tmp_path / "b", 1, SILENT)
    server.failure = lambda path: ""
    server.runs[101].url = secret.as_uri()
    assert corpus_of(server, runs=(101,)).collect(tmp_path / "c", 1, SILENT) == []
    assert reasons(tmp_path / "c")[101].startswith("the address of its predictions file does not start with http")


HOSTILE_NAMES = ["../../x", "/etc/x", "con", "a" * 5000, "..", "x\\..\\y", "\u202e.txt"]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_names_from_the_server_do_not_become_paths(server: OpenMLServer, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "one" / "two" / "runs"
    server.datasets[1].name = server.runs[101].flow = name
    server.runs[109].data = name
    corpus = corpus_of(server, runs=(101, 109))
    assert [path.name for path in corpus.collect(folder, 1, SILENT)] == names([101])
    assert set(reasons(folder)) == {109}, "its data set has no number"
    check_coins(folder)
    summary = read_run(folder / names([101])[0], Rules(min_rows=2), seed=0).summary
    assert not {"/", "\\"} & {*summary.dataset, *summary.model}
    assert len(summary.dataset) < 70
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["two"]
    assert [path.name for path in (tmp_path / "one" / "two").iterdir()] == ["runs"]
    kept = {path.name for path in folder.rglob("*")}
    assert not [found for found in kept if len(found) > 100 or found in ("x", "con", "y")]


def test_lists_with_ids_that_are_not_numbers_are_a_failure_of_the_server(server: OpenMLServer, tmp_path: Path) -> None:
    collection = openml_runs._Collection(corpus_of(server), tmp_path, pytest.importorskip("openml"), SILENT)
    assert collection.ids([3, "2", np.int64(1), 2], "the list of runs") == [1, 2, 3]
    for bad in ("../../x", "-1", "1" * 19, "", None, 1.5, "\u0661"):
        with pytest.raises(ServerFailed, match=r"cannot get the list of runs .* is not an id of at most 18 digits"):
            collection.ids([1, bad], "the list of runs")


def test_delays_of_the_two_retry_policies() -> None:
    waits = [openml_runs._delay("robot", attempt) for attempt in range(1, 51)]
    assert waits == sorted(waits)
    assert 1 <= waits[0] < 3
    assert 59 < waits[-1] < 60
    assert [openml_runs._delay("human", attempt) for attempt in (1, 2, 5)] == [1, 2, 5]


def test_collection_can_be_interrupted_at_any_request_and_resumed(server: OpenMLServer, tmp_path: Path) -> None:
    class Stop(BaseException):
        pass

    def stop(seconds: float) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Stop

    for stops in range(100):
        left = 3 + stops % 2  # enough to download at least one run
        try:
            files = corpus_of(server, sleep=stop).collect(tmp_path, 1, SILENT)
            break
        except Stop:
            continue
    assert stops > 5
    assert [path.name for path in files] == names(TAKEN)
    check_run_files(tmp_path)


def test_incomplete_data_set_in_the_cache_is_downloaded_again(server: OpenMLServer, tmp_path: Path) -> None:
    corpus = corpus_of(server, runs=(101, 105))
    corpus.collect(tmp_path, 1, SILENT)
    (half,) = (tmp_path / "openml-cache").rglob("datasets/1/dataset.arff")
    half.write_text(half.read_text()[:200])
    for path in [
        *half.parent.glob("*.pkl*"),
        tmp_path / "openml-notes" / "data-1.json",
        *tmp_path.glob("*-101.parquet"),
    ]:
        path.unlink()
    corpus.collect(tmp_path, 1, SILENT)
    check_run_files(tmp_path)


@pytest.mark.parametrize("fails", [False, True])
def test_configuration_of_openml_is_restored(
    server: OpenMLServer, tmp_path: Path, openml: Any, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setenv("OPENML_CACHE_DIR", str(elsewhere))
    monkeypatch.setattr(openml.config, "apikey", "a secret")
    monkeypatch.setattr(logging.root, "handlers", [])
    before = openml.config.get_config_as_dict()
    if fails:
        server.failure = lambda path: "status"
        with pytest.raises(ServerFailed):
            corpus_of(server).collect(tmp_path / "runs", 1, SILENT)
    else:
        corpus_of(server).collect(tmp_path / "runs", 1, SILENT)
    assert openml.config.get_config_as_dict() == before
    assert logging.root.handlers == []
    assert not elsewhere.exists()
    assert not server.asked("secret")
    assert (tmp_path / "runs" / "openml-cache").exists() != fails


def test_settings_are_json_and_exclude_the_pause() -> None:
    corpus = OpenMLRuns(tasks=(1, 2), pause=3)
    assert json.loads(json.dumps(corpus.settings())) == corpus.settings()
    assert corpus.settings() == OpenMLRuns(tasks=(1, 2)).settings()
    assert corpus.settings() != OpenMLRuns(tasks=(1, 2), keep_hard_scores=True).settings()
    assert corpus.settings()["runs_per_task"] is None
    assert corpus.name == "openml"


@pytest.mark.parametrize(
    "options",
    [
        {"min_rows": 0},
        {"min_rows": 9, "max_rows": 8},
        {"max_classes": 1},
        {"runs_per_task": 0},
        {"max_tasks": -1},
        {"pause": -1.0},
        {"pause": float("nan")},
    ],
    ids=str,
)
def test_messages_name_invalid_options(options: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=next(reversed(options))):
        OpenMLRuns(**options)


def test_missing_openml_package_is_reported_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openml", None)
    with pytest.raises(ImportError, match=r'the OpenML corpus needs openml: pip install "baserate\[openml\]"'):
        OpenMLRuns().collect(tmp_path, 1, SILENT)
