"""Objects at gs:// and az://: the results of files on this machine, and complete or not at all.

`make test-stores` runs these tests, with servers on this machine. They are skipped where the servers are not installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloud_stores
import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from cloud_stores import CloudStore, azure_store, connection_string, google_store
from object_store import Exchange, cut, refuse
from stream_support import KINDS_OF_RATES, RATES, TOL, adjusted_in_memory, assert_same, exact_rates, rows
from support import ALL_LOSSES, loss_id

import baserate as br
from baserate.cli import main as command_line
from baserate.engines import files
from baserate.errors import BadFile, BadOption, BaserateError, MissingFile

AZURITE = Path(os.environ.get("BASERATE_AZURITE", "azurite"))


def installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in modules)


needs_google = pytest.mark.skipif(not installed("gcsfs", "gcp_storage_emulator"), reason="run by make test-stores")
needs_azure = pytest.mark.skipif(not installed("adlfs") or not AZURITE.exists(), reason="run by make test-stores")
pytestmark = pytest.mark.filterwarnings("ignore")  # the servers and clients use deprecated functions


@pytest.fixture(scope="module", params=[pytest.param("gs", marks=needs_google), pytest.param("az", marks=needs_azure)])
def running(request: pytest.FixtureRequest) -> Iterator[CloudStore]:
    with google_store() if request.param == "gs" else azure_store(AZURITE) as started:
        yield started


@pytest.fixture
def store(running: CloudStore, monkeypatch: pytest.MonkeyPatch) -> CloudStore:
    """An empty bucket. Baserate goes through the proxy, and the file system of the tests does not."""
    monkeypatch.setitem(fsspec.config.conf, running.protocol, running.settings)
    for name in running.direct.find(cloud_stores.SHELF):
        running.direct.rm_file(name)
    return running


def put(store: CloudStore, table: pa.Table, key: str = "in.parquet", **options: Any) -> str:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return put_bytes(store, buffer.getvalue(), key)


def put_bytes(store: CloudStore, content: bytes, key: str) -> str:
    store.direct.pipe_file(f"{cloud_stores.SHELF}/{key}", content)
    return store.url(key)


def content(store: CloudStore, key: str = "out.parquet") -> bytes:
    store.direct.invalidate_cache()
    return bytes(store.direct.cat_file(f"{cloud_stores.SHELF}/{key}"))


def get(store: CloudStore, key: str = "out.parquet") -> pa.Table:
    return pq.read_table(io.BytesIO(content(store, key)))


def names(store: CloudStore, folder: str = "") -> list[str]:
    store.direct.invalidate_cache()
    found = store.direct.find(f"{cloud_stores.SHELF}/{folder}")
    return [name.removeprefix(f"{cloud_stores.SHELF}/{folder}") for name in found]


@pytest.mark.parametrize(("loss", "k"), ALL_LOSSES, ids=loss_id)
def test_rows_of_every_loss_are_those_in_memory(store: CloudStore, loss: br.losses.Loss, k: int) -> None:
    table = rows(k=k, seed=k)
    out = store.url("out.parquet")
    found = br.adjust(put(store, table), exact_rates(k), columns="p_*", loss=loss, tol=TOL, out=out)
    assert_same(found, get(store), adjusted_in_memory(table, exact_rates(k), loss=loss))


@pytest.mark.parametrize("kind", KINDS_OF_RATES)
def test_rows_for_every_kind_of_rates_are_those_in_memory(
    store: CloudStore, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_HELD_VALUES", 0)  # as with files that are larger than memory
    table, rates = rows(), KINDS_OF_RATES[kind]
    source = put(store, table, row_group_size=200)
    found = br.adjust(source, rates, columns="p_*", tol=TOL, out=store.url("out.parquet"))
    assert_same(found, get(store), adjusted_in_memory(table, rates))


def test_folders_patterns_and_lists(store: CloudStore) -> None:
    halves = [rows(seed=1), rows(seed=2)]
    urls = [put(store, half, f"in/region={name}/p.parquet") for half, name in zip(halves, "ab", strict=True)]
    expected = adjusted_in_memory(pa.concat_tables(halves), RATES)
    for where in (store.url("in"), store.url("in/"), store.url("in/*/*.parquet"), urls):
        found = br.adjust(where, RATES, columns="p_*", tol=TOL)
        np.testing.assert_allclose(found.dual_shift, expected.dual_shift, atol=1e-12)
    out = store.url("adjusted/")
    br.adjust(store.url("in"), RATES, columns="p_*", out=out)
    assert names(store, "adjusted/") == ["_SUCCESS", "region=a/p.parquet", "region=b/p.parquet"]
    # A later run replaces the folder, and removes what it no longer contains.
    br.adjust(urls[0], RATES, columns="p_*", out=out)
    assert names(store, "adjusted/") == ["_SUCCESS", "p.parquet"]


def test_commands_accept_urls_everywhere(store: CloudStore) -> None:
    source = put(store, rows())
    rates = put_bytes(store, json.dumps(RATES).encode(), "rates.json")
    adjust = ["adjust", source, "--rates", rates, "--columns", "p_*", "--out", store.url("made/out.csv")]
    extra = ["--save-shift", store.url("made/shift.json"), "--report", store.url("made/page.md")]
    done = CliRunner().invoke(command_line, [*adjust, *extra])
    assert done.exit_code == 0, done.output
    apply = ["apply", source, "--shift", store.url("made/shift.json"), "--out", store.url("made/applied.csv")]
    assert CliRunner().invoke(command_line, apply).exit_code == 0
    assert content(store, "made/applied.csv") == content(store, "made/out.csv")
    assert b"mean" in content(store, "made/page.md")


def test_a_connection_that_is_cut_is_tried_again(store: CloudStore) -> None:
    table = rows(seed=3)
    source = put(store, table)
    with store.proxy.faults(cut(2, least=2000)):
        found = br.adjust(source, RATES, columns="p_*", tol=TOL, out=store.url("out.parquet"))
    assert_same(found, get(store), adjusted_in_memory(table, RATES))


def is_upload(exchange: Exchange) -> bool:
    return exchange.method in ("PUT", "POST")


def test_a_failed_upload_leaves_the_old_object(store: CloudStore) -> None:
    source, out = put(store, rows()), store.url("out.parquet")
    put_bytes(store, b"old", "out.parquet")
    with store.proxy.faults(refused_uploads(403)), pytest.raises(BadFile, match=f"{out} cannot be written"):
        br.adjust(source, RATES, columns="p_*", out=out)
    # The server keeps what it has received although the answer was changed: the new object is there as a whole.
    assert content(store) == b"old" or get(store).num_rows == 600
    assert br.adjust(source, RATES, columns="p_*", out=out).probs == out
    assert names(store) == ["in.parquet", "out.parquet"]


def refused_uploads(status: int) -> Callable[[Exchange], None]:
    fault = refuse("AuthorizationFailure", status)

    def only_uploads(exchange: Exchange) -> None:
        if is_upload(exchange):
            fault(exchange)

    return only_uploads


def test_a_bad_row_leaves_the_old_object(store: CloudStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_HELD_VALUES", 0)
    shift = adjusted_in_memory(rows(), RATES)
    put_bytes(store, b"old", "out.parquet")
    bad = [*rows().slice(0, 599).to_pylist(), {**rows().to_pylist()[-1], "p_cat": float("nan")}]
    source = put(store, pa.Table.from_pylist(bad), row_group_size=100)
    uploads: list[str] = []
    with (
        store.proxy.faults(lambda exchange: uploads.append(exchange.path) if is_upload(exchange) else None),
        pytest.raises(BaserateError, match=f"row 599 of {source}, column 'p_cat' is nan"),
    ):
        shift.apply(source, columns="p_*", out=store.url("out.parquet"))
    assert content(store) == b"old"
    assert uploads == []


def test_messages_about_credentials(store: CloudStore, monkeypatch: pytest.MonkeyPatch) -> None:
    source = put(store, rows())
    if store.protocol == "az":  # the server checks signatures
        wrong = {"connection_string": connection_string(store.proxy.url, "d3Jvbmc=")}
        monkeypatch.setitem(fsspec.config.conf, "az", wrong)
        fault: Any = contextlib.nullcontext()
    else:
        fault = store.proxy.faults(refuse("Invalid Credentials", 401))
    advice = {"az": "AZURE_STORAGE_CONNECTION_STRING", "gs": "GOOGLE_APPLICATION_CREDENTIALS"}[store.protocol]
    with fault, pytest.raises(BadFile, match=f"access was denied .*Check the credentials: set {advice}"):
        br.adjust(source, RATES, columns="p_*")


@pytest.mark.parametrize(
    ("where", "error", "message"),
    [
        ("shelf/nothing.parquet", MissingFile, "nothing.parquet does not exist; check the name"),
        ("no-such-bucket/x.parquet", MissingFile, "no-such-bucket/x.parquet does not exist; check .* of the bucket"),
        ("shelf/none/*.parquet", BadFile, r"no file matches ..://shelf/none/\*\.parquet"),
        ("shelf/empty.parquet", BadFile, "empty.parquet is empty: it has no bytes at all"),
        ("shelf/broken.parquet", BadFile, "broken.parquet is not a complete Parquet file"),
    ],
)
def test_messages_about_bad_urls(store: CloudStore, where: str, error: type[Exception], message: str) -> None:
    put_bytes(store, b"", "empty.parquet")
    put_bytes(store, b"PAR1\x00" + b"\x15" * 90, "broken.parquet")
    with pytest.raises(error, match=message):
        br.adjust(f"{store.protocol}://{where}", RATES, columns="p_*")


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (
            "no-such-bucket/out.parquet",
            MissingFile,
            "no-such-bucket/out.parquet .*check the name, and that of the buck",
        ),
        ("shelf/in/a.parquet", BadOption, "is also an input; write to another path"),
        ("shelf/theirs/", BadOption, "its content was not all written by baserate: it has no file _SUCCESS"),
    ],
)
def test_messages_about_bad_output(store: CloudStore, out: str, error: type[Exception], message: str) -> None:
    put(store, rows(), "in/a.parquet")
    put_bytes(store, b"a,b\n", "theirs/data.csv")
    before = {name: content(store, name) for name in names(store)}
    with pytest.raises(error, match=message):
        br.adjust(store.url("in/"), RATES, columns="p_*", out=f"{store.protocol}://{out}")
    assert {name: content(store, name) for name in names(store)} == before


def test_a_folder_whose_replacement_was_interrupted_is_refused_and_repaired(store: CloudStore) -> None:
    folder, out = store.url("in/"), store.url("adjusted/")
    for name in "abc":
        put(store, rows(seed=ord(name)), f"in/{name}.parquet")
    br.adjust(folder, RATES, columns="p_*", out=out)
    uploads: list[str] = []

    def fault(exchange: Exchange) -> None:
        if is_upload(exchange):
            uploads.append(exchange.path)
            if len(uploads) > 2:  # the marker and one file were uploaded
                refuse("AuthorizationFailure", 403)(exchange)

    with store.proxy.faults(fault), pytest.raises(BadFile, match="cannot be written"):
        br.adjust(folder, RATES, columns="p_*", out=out)
    assert "_SUCCESS" not in names(store, "adjusted/")
    with pytest.raises(BadFile, match=f"the folder {out} is incomplete: .* run it again"):
        br.adjust(out, RATES, columns="p_*")
    br.adjust(folder, RATES, columns="p_*", out=out)
    assert names(store, "adjusted/") == ["_SUCCESS", "a.parquet", "b.parquet", "c.parquet"]


def test_a_killed_upload_leaves_the_old_object_or_the_new_one(store: CloudStore, tmp_path: Path) -> None:
    # 96 MB are uploaded in several requests. The process is killed at requests that are spread over all of them.
    p = np.random.default_rng(0).dirichlet([1.0, 2.0, 3.0], size=4_000_000)
    table = pa.table({f"p_{name}": p[:, j] for j, name in enumerate(RATES)})
    pq.write_table(table, tmp_path / "in.parquet", compression="none", use_dictionary=False)
    command = [sys.executable, "-m", "baserate", "adjust", str(tmp_path / "in.parquet"), "--columns", "p_*"]
    command += ["--rates", "cat=0.2,dog=0.3,owl=0.5", "--out", store.url("out.parquet"), "--quiet"]
    environment = {**os.environ, f"FSSPEC_{store.protocol.upper()}": json.dumps(store.settings)}
    running: list[subprocess.Popen[bytes]] = []

    def run() -> int:
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
            running[:] = [process]
            try:
                return process.wait(200)
            finally:
                process.kill()

    uploads: list[str] = []
    with store.proxy.faults(lambda exchange: uploads.append(exchange.path) if is_upload(exchange) else None):
        assert run() == 0
    new = content(store)
    assert len(new) > 90_000_000
    assert len(uploads) >= 3
    for at in sorted({1, 2, len(uploads) // 2, len(uploads) - 1, len(uploads)}):
        put_bytes(store, b"old", "out.parquet")
        with store.proxy.faults(_kill_at(at, running)):
            assert run() == -signal.SIGKILL
        found = content(store)
        assert found in (b"old", new)
        assert found == b"old" or at == len(uploads)
    assert run() == 0
    assert content(store) == new
    assert names(store) == ["out.parquet"]


def _kill_at(number: int, running: list[subprocess.Popen[bytes]]) -> Callable[[Exchange], None]:
    """Kill a process before it gets the answer to its upload request of this number."""
    seen: list[str] = []

    def fault(exchange: Exchange) -> None:
        if is_upload(exchange):
            seen.append(exchange.path)
            if len(seen) == number:
                running[0].send_signal(signal.SIGKILL)

    return fault
