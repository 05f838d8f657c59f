"""The page with 10 million rows and an upload of 5 GB: progress, cancellation, and nothing left; about 2 minutes."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from app_support import Server, Watched, running_browser, running_server

for package in ("starlette", "uvicorn"):
    pytest.importorskip(package)

pytestmark = pytest.mark.stress
N_ROWS = 10_000_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Predictions of three classes for 10 million rows."""
    path = tmp_path_factory.mktemp("large") / "large.parquet"
    rng = np.random.default_rng(0)
    with pq.ParquetWriter(path, pa.schema([(f"p_{c}", pa.float32()) for c in "abc"])) as writer:
        for _ in range(10):
            p = rng.dirichlet([2.0, 1.0, 0.5], size=N_ROWS // 10).astype(np.float32)
            writer.write_table(pa.table({f"p_{c}": p[:, j] for j, c in enumerate("abc")}))
    return path


@pytest.fixture(scope="module")
def server(large: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("temporary"), str(large)) as started:
        yield started


def page_of(server: Server) -> str:
    _, body, _ = server.ask("/open/0", "POST")
    return str(json.loads(body)["url"]).removeprefix(f"/{server.token}")


def answer_of(server: Server, path: str, value: Any) -> dict[str, Any]:
    _, body, _ = server.ask(path, "POST", json.dumps(value))
    status = json.loads(body)
    while status["state"] in ("waiting", "running"):
        time.sleep(0.1)
        status = json.loads(server.ask(f"/job/{status['job']}")[1])
    assert status["state"] == "done", status
    return dict(status)


def test_ten_million_rows_on_the_page(server: Server) -> None:
    with running_browser() as browser:
        watched = Watched(browser.new_page())
        watched.watch("http://{}:{}".format(*server.address))
        page = watched.page
        page.set_default_timeout(300_000)
        page.goto(server.url)
        page.click(".open")
        page.wait_for_selector("#rates-form")
        page.fill(".panel:not([hidden]) [data-class=a] .low", "40")
        page.wait_for_selector(".answer[data-exact=yes]")
        assert page.inner_text("#shows") == "Exact answer for all 10,000,000 rows."
        slider = page.locator(".panel:not([hidden]) [data-class=a] .low-slider")
        slider.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(".answer[data-exact=no]")
        assert page.inner_text("#shows").startswith("Quick answer from a sample of")
        page.wait_for_selector(".answer[data-exact=yes]")
        page.click("#write")
        page.wait_for_selector("#write-work:not([hidden])")
        page.click("#write-work .cancel")
        page.wait_for_selector("#write-problem:not([hidden])")
        assert page.inner_text("#write-problem") == "Cancelled. Nothing was changed."
        folder = server.temporary / server.left_over()[0] / page.url.rpartition("/")[2]
        # Besides the file, only the rates of the answers are left, which are small.
        files = [entry for entry in folder.rglob("*") if entry.is_file()]
        assert [file.name for file in files if file.stat().st_size > 10_000] == ["large.parquet"]
        assert not [file for file in files if "adjusted" in file.name]
        page.click("#write")
        page.wait_for_selector("#downloads a")
        assert watched.problems == []


def test_5_gb_against_a_limit_of_1_gb(server: Server) -> None:
    def five_gigabytes() -> Iterator[bytes]:
        chunk = b"0.25,0.25,0.5\n" * 70_000
        for _ in range(5 * 10**9 // len(chunk)):
            yield chunk

    before = sorted(server.temporary.rglob("*"))
    try:
        status, body, _ = server.ask("/upload?name=big.csv", "POST", five_gigabytes(), encode_chunked=True)
        assert status == 413
        assert b"limit for uploads" in body
    except (BrokenPipeError, ConnectionResetError):
        pass  # the server has closed the connection before everything was sent
    end = time.monotonic() + 20
    while sorted(server.temporary.rglob("*")) != before:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_kill_in_the_middle_of_a_download_leaves_nothing(large: Path, tmp_path: Path) -> None:
    with running_server(tmp_path, str(large)) as server:
        path = page_of(server)
        form = {"kind": "number", "entries": [{"class": "a", "low": "40"}]}
        written = answer_of(server, f"{path}/write", form)["answer"]["html"]
        (link,) = re.findall(r'href="([^"]+)" download="large-adjusted.parquet"', written)
        host, port = server.address
        connection = http.client.HTTPConnection(host, port, timeout=60)
        connection.request("GET", link)
        answer = connection.getresponse()
        assert answer.status == 200
        assert len(answer.read(1 << 20)) == 1 << 20
        connection.close()  # this client is gone; the server goes on
        assert server.ask("/")[0] == 200
        os.kill(server.process.pid, signal.SIGKILL)
        end = time.monotonic() + 20
        while server.left_over():
            assert time.monotonic() < end
            time.sleep(0.1)
    assert large.exists()
