"""Files in object stores: the results of files on this machine, complete or not at all, whatever the network does."""

from __future__ import annotations

import gc
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from object_store import Exchange, Fault, Store, cut, refuse, running_store, slow
from stream_support import KINDS_OF_RATES, RATES, TOL, adjusted_in_memory, assert_same, exact_rates, rows
from support import ALL_LOSSES, loss_id

import baserate as br
from baserate.cli import main as command_line
from baserate.engines import files
from baserate.errors import BadFile, BadOption, BaserateError, MissingFile
from baserate.progress import Progress
from baserate.support import remote_files

BUCKET = "shelf"
KEYS = {"key": "reader", "secret": "secret"}
# Few attempts, so that tests of a server that fails do not wait. They are settings of s3fs.
PATIENCE = {"retries": {"max_attempts": 0}, "read_timeout": 60}
IMPATIENCE = {"retries": {"max_attempts": 0}, "read_timeout": 0.5}


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with running_store() as running:
        yield running


@pytest.fixture(autouse=True)
def s3(store: Store, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An empty bucket, and a file system that is not used by baserate. Baserate goes through the proxy."""
    through_proxy = {**KEYS, "endpoint_url": store.proxy.url, "config_kwargs": PATIENCE}
    monkeypatch.setitem(fsspec.config.conf, "s3", through_proxy)
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 2)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    direct = fsspec.filesystem("s3", **KEYS, endpoint_url=store.url, config_kwargs={}, use_listings_cache=False)
    if not direct.exists(BUCKET):
        direct.mkdir(BUCKET)
    for name in direct.find(BUCKET):
        direct.rm_file(name)
    return direct


def put(s3: Any, table: pa.Table, key: str = "in.parquet", **options: Any) -> str:
    buffer = io.BytesIO()
    if key.endswith(".parquet"):
        pq.write_table(table, buffer, **options)
    elif key.endswith(".csv"):
        pcsv.write_csv(table, buffer)
    else:
        feather.write_feather(table, buffer, "uncompressed")
    s3.pipe_file(f"{BUCKET}/{key}", buffer.getvalue())
    return f"s3://{BUCKET}/{key}"


def get(s3: Any, key: str = "out.parquet") -> pa.Table:
    return pq.read_table(io.BytesIO(s3.cat_file(f"{BUCKET}/{key}")))


def parts_left(s3: Any) -> list[str]:
    """The uploads that were not completed."""
    return [one["Key"] for one in s3.call_s3("list_multipart_uploads", Bucket=BUCKET).get("Uploads", [])]


OUT = f"s3://{BUCKET}/out.parquet"


@pytest.mark.parametrize(("loss", "k"), ALL_LOSSES, ids=loss_id)
def test_rows_of_every_loss_are_those_in_memory(s3: Any, loss: br.losses.Loss, k: int) -> None:
    table = rows(k=k, seed=k)
    found = br.adjust(put(s3, table), exact_rates(k), columns="p_*", loss=loss, tol=TOL, out=OUT)
    assert_same(found, get(s3), adjusted_in_memory(table, exact_rates(k), loss=loss))


@pytest.mark.parametrize("kind", KINDS_OF_RATES)
def test_rows_for_every_kind_of_rates_are_those_in_memory(s3: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_HELD_VALUES", 0)  # as with files that are larger than memory
    table, rates = rows(), KINDS_OF_RATES[kind]
    found = br.adjust(put(s3, table, row_group_size=200), rates, columns="p_*", tol=TOL, out=OUT)
    assert_same(found, get(s3), adjusted_in_memory(table, rates))
    assert pq.ParquetFile(io.BytesIO(s3.cat_file(f"{BUCKET}/out.parquet"))).num_row_groups == 3


@pytest.mark.parametrize("suffix", ["parquet", "csv", "csv.gz", "arrow", "arrows", "npz"])
def test_every_format_is_written_and_read(s3: Any, suffix: str) -> None:
    table = rows()
    out = f"s3://{BUCKET}/out.{suffix}"
    assert br.adjust(put(s3, table), RATES, columns="p_*", out=out).probs == out
    again = br.adjust(out, RATES, columns="probs" if suffix == "npz" else "p_*")
    np.testing.assert_allclose(again.before, list(RATES.values()), atol=1e-9)
    assert parts_left(s3) == []


def test_folders_patterns_and_lists(s3: Any) -> None:
    halves = [rows(seed=1), rows(seed=2)]
    urls = [put(s3, half, f"in/region={name}/p.parquet") for half, name in zip(halves, "ab", strict=True)]
    folder, pattern = f"s3://{BUCKET}/in", f"s3://{BUCKET}/in/*/*.parquet"
    expected = adjusted_in_memory(pa.concat_tables(halves), RATES)
    for where in (folder, f"{folder}/", pattern, urls):
        found = br.adjust(where, RATES, columns="p_*", tol=TOL)
        np.testing.assert_allclose(found.dual_shift, expected.dual_shift, atol=1e-12)
    found = br.adjust(folder, RATES, columns="p_*", tol=TOL, out=f"s3://{BUCKET}/adjusted/")
    written = [name.removeprefix(f"{BUCKET}/adjusted/") for name in s3.find(f"{BUCKET}/adjusted")]
    assert written == ["_SUCCESS", "region=a/p.parquet", "region=b/p.parquet"]
    assert get(s3, "adjusted/region=b/p.parquet")["id"].to_pylist() == halves[1]["id"].to_pylist()
    # A later run replaces the folder, and removes what it no longer contains.
    br.adjust(urls[0], RATES, columns="p_*", out=f"s3://{BUCKET}/adjusted/")
    assert [name.rpartition("/")[2] for name in s3.find(f"{BUCKET}/adjusted")] == ["_SUCCESS", "p.parquet"]
    # Local files and URLs can be mixed, in both directions.
    assert br.adjust(f"s3://{BUCKET}/adjusted/", RATES, columns="p_*").n_rows == 600


def test_pages_on_the_web_and_other_file_systems_are_read(s3: Any, store: Store, tmp_path: Path) -> None:
    table = rows()
    put(s3, table)
    s3.chmod(f"{BUCKET}/in.parquet", "public-read")
    expected = adjusted_in_memory(table, RATES)
    for url in (f"{store.proxy.url}/{BUCKET}/in.parquet", f"simplecache::s3://{BUCKET}/in.parquet"):
        found = br.adjust(url, RATES, columns="p_*", tol=TOL, out="memory://folder/out.parquet")
        np.testing.assert_allclose(found.dual_shift, expected.dual_shift, atol=1e-12)
    memory = fsspec.filesystem("memory")
    assert memory.find("/folder") == ["/folder/out.parquet"]
    assert_same(found, pq.read_table(io.BytesIO(memory.cat_file("/folder/out.parquet"))), expected)
    br.adjust(put(s3, table), RATES, columns="p_*", out=f"file://{tmp_path}/out.parquet")
    assert br.adjust(tmp_path / "out.parquet", RATES, columns="p_*").n_rows == 600


def test_shifts_rates_and_reports_are_kept_in_the_store(s3: Any) -> None:
    table = rows()
    at = f"s3://{BUCKET}/kept"
    fitted = adjusted_in_memory(table, RATES)
    fitted.save(f"{at}/shift.json")
    np.testing.assert_array_equal(br.load(f"{at}/shift.json").dual_shift, fitted.dual_shift)
    KINDS_OF_RATES["counts"].save(f"{at}/counts.json")
    assert br.Rates.load(f"{at}/counts.json").to_json() == KINDS_OF_RATES["counts"].to_json()
    s3.pipe_file(f"{BUCKET}/kept/rates.csv", b"class,rate\ncat,0.2\ndog,0.3\nowl,0.5\n")
    np.testing.assert_array_equal(br.Rates.parse(f"{at}/rates.csv").estimate(), list(RATES.values()))
    s3.pipe_file(f"{BUCKET}/kept/by.csv", b"region,cat,dog,owl\nnorth,0.2,0.3,0.5\nsouth,0.25,0.3,0.45\n")
    by_file = adjusted_in_memory(table, br.Rates.by("region", f"{at}/by.csv"))
    np.testing.assert_allclose(by_file.rates, adjusted_in_memory(table, KINDS_OF_RATES["groups"]).rates, atol=1e-12)
    fitted.report(f"{at}/report.md")
    assert b"mean" in s3.cat_file(f"{BUCKET}/kept/report.md")
    fitted.to_onnx(f"{at}/model.onnx")
    assert s3.size(f"{BUCKET}/kept/model.onnx") > 100


def test_commands_accept_urls_everywhere(s3: Any, store: Store) -> None:
    source, at = put(s3, rows()), f"s3://{BUCKET}/made"
    s3.pipe_file(f"{BUCKET}/rates.json", json.dumps(RATES).encode())
    adjust = ["adjust", source, "--rates", f"s3://{BUCKET}/rates.json", "--columns", "p_*", "--out", f"{at}/out.csv"]
    extra = ["--save-shift", f"{at}/shift.json", "--report", f"{at}/page.md"]
    done = CliRunner().invoke(command_line, [*adjust, *extra])
    assert done.exit_code == 0, done.output
    assert f"wrote {at}/out.csv, {at}/shift.json, {at}/page.md" in done.output
    apply = ["apply", source, "--shift", f"{at}/shift.json", "--out", f"{at}/applied.csv"]
    assert CliRunner().invoke(command_line, apply).exit_code == 0
    assert s3.cat_file(f"{BUCKET}/made/applied.csv") == s3.cat_file(f"{BUCKET}/made/out.csv")
    twice = CliRunner().invoke(command_line, [*adjust, "--save-shift", f"{at}/out.csv"])
    assert twice.exit_code == 1
    assert f"{at}/out.csv is named twice" in twice.output


def test_a_connection_that_is_cut_is_tried_again(s3: Any, store: Store) -> None:
    table = rows(seed=3)
    source = put(s3, table)
    s3.chmod(f"{BUCKET}/in.parquet", "public-read")
    with store.proxy.faults(cut(2, least=2000)):
        found = br.adjust(source, RATES, columns="p_*", tol=TOL, out=OUT)
    assert_same(found, get(s3), adjusted_in_memory(table, RATES))
    web = f"{store.proxy.url}/{BUCKET}/in.parquet"
    with store.proxy.faults(cut(1, least=2000)):
        assert br.adjust(web, RATES, columns="p_*").n_rows == 600


def test_a_slow_server_is_waited_for(s3: Any, store: Store) -> None:
    source = put(s3, rows())
    with store.proxy.faults(slow(0.1)):
        assert br.adjust(source, RATES, columns="p_*", out=OUT).probs == OUT
    assert get(s3).num_rows == 600


FAULTS: dict[str, tuple[Fault, str]] = {
    "cut every time": (cut(10**6), r"cannot be read: .*Check the name and the connection"),
    "answers too late": (slow(0.7), r"cannot be read: .*[Tt]imeout.*Check the name and the connection"),
    "wrong credentials": (refuse("InvalidAccessKeyId", 403), r"access was denied .*AWS_ACCESS_KEY_ID"),
    "wrong secret": (refuse("SignatureDoesNotMatch", 403), r"access was denied .*Check the credentials"),
    "breaks down": (refuse("InternalError", 500), r"cannot be read: .*InternalError"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_messages_about_a_server_that_fails(s3: Any, store: Store, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = put(s3, rows())
    make, message = FAULTS[fault]
    if fault == "answers too late":
        monkeypatch.setitem(fsspec.config.conf, "s3", fsspec.config.conf["s3"] | {"config_kwargs": IMPATIENCE})
    with store.proxy.faults(make), pytest.raises(BadFile, match=f"s3://{BUCKET}/in.parquet {message}|{message}"):
        br.adjust(source, RATES, columns="p_*")


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_failed_upload_leaves_the_old_object_and_no_parts(s3: Any, store: Store, method: str) -> None:
    source = put(s3, rows())
    s3.pipe_file(f"{BUCKET}/out.parquet", b"old")
    begun: list[str] = []

    def fault(exchange: Exchange) -> None:
        if exchange.method == "POST" and "uploads" in exchange.path:
            begun.append(exchange.path)
        if exchange.method == method and "uploadId" in exchange.path:
            refuse("InternalError", 500)(exchange)

    # The server completes an upload although it answers with an error, so that a POST that fails leaves the new object.
    with store.proxy.faults(fault), pytest.raises(BadFile, match=f"{OUT} cannot be written: .*InternalError"):
        br.adjust(source, RATES, columns="p_*", out=OUT)
    assert len(begun) == 2  # one upload was a test of the permission
    assert parts_left(s3) == []
    if method == "PUT":
        assert s3.cat_file(f"{BUCKET}/out.parquet") == b"old"
    else:
        assert get(s3).num_rows == 600


def test_a_bad_row_leaves_the_old_object_and_no_parts(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_HELD_VALUES", 0)
    shift = adjusted_in_memory(rows(), RATES)
    source = put(s3, rows(), row_group_size=100)
    s3.pipe_file(f"{BUCKET}/out.parquet", b"old")
    bad = [*rows().slice(0, 599).to_pylist(), {**rows().to_pylist()[-1], "p_cat": float("nan")}]
    put(s3, pa.Table.from_pylist(bad), row_group_size=100)
    with pytest.raises(BaserateError, match=f"row 599 of {source}, column 'p_cat' is nan"):
        shift.apply(source, columns="p_*", out=OUT)
    assert s3.cat_file(f"{BUCKET}/out.parquet") == b"old"
    assert parts_left(s3) == []


def test_an_error_after_the_rows_were_uploaded_leaves_no_parts(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> Any:
        raise RuntimeError("after the upload")

    monkeypatch.setattr(files.FilesEngine, "answer", fail)
    with pytest.raises(RuntimeError, match="after the upload"):
        br.adjust(put(s3, rows()), RATES, columns="p_*", out=OUT)
    gc.collect()
    assert parts_left(s3) == []
    assert not s3.exists(f"{BUCKET}/out.parquet")


def test_an_object_that_is_replaced_while_it_is_read_is_noticed(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_HELD_VALUES", 0)
    source = put(s3, rows(), row_group_size=100)

    class Replace(Progress):
        def begin(self, what: str, total: int) -> None:
            put(s3, rows(seed=9), row_group_size=100)

    with pytest.raises(BadFile, match=r"was changed while it was being read|FileExpired"):
        br.adjust(source, RATES, columns="p_*", progress=Replace())


def test_a_folder_whose_replacement_was_interrupted_is_refused_and_repaired(s3: Any, store: Store) -> None:
    folder, out = f"s3://{BUCKET}/in/", f"s3://{BUCKET}/adjusted/"
    for name in "abc":
        put(s3, rows(seed=ord(name)), f"in/{name}.parquet")
    br.adjust(folder, RATES, columns="p_*", out=out)
    completed: list[str] = []

    def fault(exchange: Exchange) -> None:
        if exchange.method == "POST" and "uploadId" in exchange.path and "b.parquet" in exchange.path:
            completed.append(exchange.path)
            refuse("InternalError", 500)(exchange)

    with store.proxy.faults(fault), pytest.raises(BadFile, match=r"b\.parquet cannot be written"):
        br.adjust(folder, RATES, columns="p_*", out=out)
    assert not s3.exists(f"{BUCKET}/adjusted/_SUCCESS")
    with pytest.raises(BadFile, match=f"the folder {out} is incomplete: .* run it again"):
        br.adjust(out, RATES, columns="p_*")
    br.adjust(folder, RATES, columns="p_*", out=out)
    names = [name.rpartition("/")[2] for name in s3.find(f"{BUCKET}/adjusted")]
    assert names == ["_SUCCESS", "a.parquet", "b.parquet", "c.parquet"]
    assert br.adjust(out, RATES, columns="p_*").n_rows == 1800
    assert parts_left(s3) == []


BAD_INPUT = [
    (f"s3://{BUCKET}/nothing.parquet", MissingFile, "nothing.parquet does not exist; check the name"),
    ("s3://no-such-bucket/x.parquet", MissingFile, "The specified bucket does not exist; check the name"),
    (f"s3://{BUCKET}/none/*.parquet", BadFile, r"no file matches s3://shelf/none/\*\.parquet"),
    (f"s3://{BUCKET}/empty.parquet", BadFile, "s3://shelf/empty.parquet is empty: it has no bytes at all"),
    (f"s3://{BUCKET}/broken.parquet", BadFile, "s3://shelf/broken.parquet is not a complete Parquet file"),
    (f"s3://{BUCKET}/mixed/", BadFile, "also contains notes.pdf, which is not a table; select the files by a pattern"),
    ("moon://crater/x.parquet", BadOption, "Protocol not known: moon; the protocols s3://, gs://, az:// and https://"),
    (Path(f"s3://{BUCKET}/in.parquet"), BadOption, "is a URL with one slash; pass it as a string"),
    ("http://127.0.0.1:9/x.parquet", MissingFile, "does not exist, or its server cannot be reached"),
]


@pytest.mark.parametrize(("where", "error", "message"), BAD_INPUT, ids=[str(case[0]) for case in BAD_INPUT])
def test_messages_about_bad_urls(s3: Any, where: Any, error: type[Exception], message: str) -> None:
    put(s3, rows(), "mixed/a.parquet")
    s3.pipe_file(f"{BUCKET}/mixed/notes.pdf", b"%PDF-1.4")
    s3.pipe_file(f"{BUCKET}/empty.parquet", b"")
    s3.pipe_file(f"{BUCKET}/broken.parquet", b"PAR1\x00" + b"\x15" * 90)
    with pytest.raises(error, match=message):
        br.adjust(where, RATES, columns="p_*")


BAD_OUTPUT = [
    ("simplecache::file:///in.parquet", BadOption, "a chain of protocols, with ::, can only be read"),
    ("https://example.org/out.parquet", BadOption, "https:// can only be read; write to a path or another URL"),
    ("s3://no-such-bucket/out.parquet", MissingFile, "cannot be written: The specified bucket does not exist"),
    (f"s3://{BUCKET}/in/a.parquet", BadOption, "is also an input; write to another path"),
    (f"s3://{BUCKET}//in/a.parquet", BadOption, "is also an input; write to another path"),
    (f"s3a://{BUCKET}/in/a.parquet", BadOption, "is also an input; write to another path"),
    (f"s3://{BUCKET}/x/../in/a.parquet", BadOption, "is also an input; write to another path"),
    (f"simplecache::s3://{BUCKET}/in/a.parquet", BadOption, "a chain of protocols, with ::, can only be read"),
    (f"s3://{BUCKET}//in//out.parquet", BadOption, "is in the input folder .* a later run on this input"),
    (f"s3://{BUCKET}/in/", BadOption, "is also an input; write to another path"),
    (f"s3://{BUCKET}/in/sub/out.parquet", BadOption, "is in the input folder .* a later run on this input"),
    (f"s3://{BUCKET}/out.xyz", BadOption, "does not end with the suffix of a known format; for a folder, write .*xyz/"),
    (f"s3://{BUCKET}/theirs/", BadOption, "its content was not all written by baserate: it has no file _SUCCESS"),
    (f"s3://{BUCKET}/out.npy", BadOption, "cannot be written as NPY"),
]


@pytest.mark.parametrize(("out", "error", "message"), BAD_OUTPUT, ids=[case[0] for case in BAD_OUTPUT])
def test_messages_about_bad_output(s3: Any, out: str, error: type[Exception], message: str) -> None:
    put(s3, rows(), "in/a.parquet")
    s3.pipe_file(f"{BUCKET}/theirs/data.csv", b"a,b\n")
    before = {name: s3.cat_file(name) for name in s3.find(BUCKET)}
    with pytest.raises(error, match=message):
        br.adjust(f"s3://{BUCKET}/in/", RATES, columns="p_*", out=out)
    assert {name: s3.cat_file(name) for name in s3.find(BUCKET)} == before
    assert parts_left(s3) == []


@pytest.mark.parametrize("name", ["folder", "folder/", ""])
def test_a_shift_is_not_written_to_a_folder(s3: Any, name: str) -> None:
    put(s3, rows(), "folder/a.parquet")
    fitted = br.adjust(rows(), RATES, columns="p_*")
    for write in (fitted.save, fitted.to_onnx):
        with pytest.raises(BadFile, match="cannot be written: it is a folder; add the name of a file in it"):
            write(f"s3://{BUCKET}/{name}")
    assert s3.find(BUCKET) == [f"{BUCKET}/folder/a.parquet"]
    fitted.save(f"s3://{BUCKET}/folder/shift.json")
    fitted.save(f"s3://{BUCKET}/folder/shift.json")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://b/x", "s3a://b//x/"),
        ("s3://b/x", "s3://b/y/./../x"),
        ("az://c/x", "abfss://c@account.dfs.core.windows.net/x"),
        ("gs://b/x", "gcs:///b/x"),
        ("memory://b/x", "memory:///b/x"),
    ],
)
def test_spellings_of_one_url_have_one_identity(one: str, other: str) -> None:
    assert remote_files.RemoteFile(one).identity == remote_files.RemoteFile(other).identity
    assert remote_files.RemoteFile(one).identity != remote_files.RemoteFile(f"{other}2").identity


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*args: Any, **options: Any) -> Any:
        raise ImportError("Install it to access this")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    for protocol, package in {"gs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "s3": "s3fs", "https": "aiohttp"}.items():
        with pytest.raises(
            ImportError, match=rf'{protocol}://b/x.csv needs {package}: pip install "baserate\[cloud\]"'
        ):
            br.adjust(f"{protocol}://b/x.csv", RATES)
    with pytest.raises(ImportError, match=r"sftp://b/x\.csv needs another package: Install it to access this"):
        br.adjust("sftp://b/x.csv", RATES)


def test_saved_files_that_are_missing_or_cannot_be_written(s3: Any) -> None:
    with pytest.raises(MissingFile, match=r"s3://shelf/none\.json does not exist"):
        br.load(f"s3://{BUCKET}/none.json")
    with pytest.raises(BadOption, match="https:// can only be read"):
        adjusted_in_memory(rows(), RATES).save("https://example.org/shift.json")
    done = CliRunner().invoke(
        command_line, ["fit", put(s3, rows()), "--rates", "s3://no-such-bucket/rates.csv", "--columns", "p_*"]
    )
    assert done.exit_code == 1
    assert "The specified bucket does not exist" in done.output


def test_reading_again_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[int] = []

    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            attempts.append(1)
            raise TimeoutError("no answer")

    memory = fsspec.filesystem("memory")
    memory.pipe_file("/x.csv", b"1")
    monkeypatch.setattr(type(memory), "open", lambda *args, **options: Broken())
    with pytest.raises(BadFile, match=r"memory://x.csv cannot be read: TimeoutError: no answer"):
        remote_files.RemoteFile("memory://x.csv").read_bytes()
    assert len(attempts) == 3


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.stress)])
def test_a_killed_upload_leaves_the_old_object_or_the_new_one(
    s3: Any, store: Store, tmp_path: Path, kills: int
) -> None:
    # 12 MB are uploaded in parts of 5 MiB. The process is killed at requests that are spread over the whole run.
    pq.write_table(rows(250_000), tmp_path / "in.parquet", row_group_size=25_000, compression="none")
    command = [sys.executable, "-m", "baserate", "adjust", str(tmp_path / "in.parquet"), "--columns", "p_*"]
    command += ["--rates", "cat=0.2,dog=0.3,owl=0.5", "--out", OUT, "--quiet"]
    settings = {**KEYS, "endpoint_url": store.proxy.url, "default_block_size": 5 << 20}
    environment = {**os.environ, "FSSPEC_S3": json.dumps(settings), "AWS_DEFAULT_REGION": "us-east-1"}
    running: list[subprocess.Popen[bytes]] = []

    def run() -> int:
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
            running[:] = [process]
            try:
                return process.wait(400)
            finally:
                process.kill()

    uploading: list[str] = []

    def watch(exchange: Exchange) -> None:
        if "upload" in exchange.path:
            uploading.append(exchange.path)

    s3.pipe_file(f"{BUCKET}/out.parquet", b"old")
    with store.proxy.faults(watch):
        assert run() == 0
    new = s3.cat_file(f"{BUCKET}/out.parquet")
    assert len(uploading) >= 6  # of which at least three are parts
    found = []
    for kill in range(kills):
        s3.pipe_file(f"{BUCKET}/out.parquet", b"old")
        at = ((2 * kill + 1) * len(uploading)) // (2 * kills) + 1
        with store.proxy.faults(_kill_at(at, running)):
            assert run() == -signal.SIGKILL
        content = s3.cat_file(f"{BUCKET}/out.parquet")
        assert content in (b"old", new)
        found.append((content == new, len(parts_left(s3))))
        if any(parts for _, parts in found[-1:]) or kill == kills - 1:
            assert run() == 0
            assert s3.cat_file(f"{BUCKET}/out.parquet") == new
            assert parts_left(s3) == []
    assert any(parts for _, parts in found)  # some kills did interrupt an upload


def _kill_at(number: int, running: list[subprocess.Popen[bytes]]) -> Callable[[Exchange], None]:
    """Kill a process before it gets the answer to its request of this number that is about an upload."""
    seen: list[str] = []

    def fault(exchange: Exchange) -> None:
        if "upload" in exchange.path:
            seen.append(exchange.path)
            if len(seen) == number:
                running[0].send_signal(signal.SIGKILL)

    return fault


def test_an_object_that_a_pattern_of_a_query_matches_is_not_overwritten(store: Store, s3: Any) -> None:
    pl = pytest.importorskip("polars")
    for i in (1, 2, 3):
        with s3.open(f"{BUCKET}/q/{i}.parquet", "wb") as file:
            pq.write_table(rows(30), file)
    before = s3.cat(f"{BUCKET}/q/2.parquet")
    options = {"aws_endpoint_url": store.url, "aws_access_key_id": "reader", "aws_secret_access_key": "secret"}
    options |= {"aws_allow_http": "true", "aws_region": "us-east-1"}
    for name in ("q/*.parquet", "q/"):
        query = pl.scan_parquet(f"s3://{BUCKET}/{name}", storage_options=options)
        with pytest.raises(BadOption, match="is also an input"):
            br.adjust(query, RATES, columns="p_*", out=f"s3://{BUCKET}/q/2.parquet")
        br.adjust(query, RATES, columns="p_*", out=f"s3://{BUCKET}/other.parquet")
    assert s3.cat(f"{BUCKET}/q/2.parquet") == before
