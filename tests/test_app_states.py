"""The page in every state with axe-core, when processes are killed, and when rows are many; 5 minutes on one core."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from app_support import Server, Watched, animals, running_browser, running_server

for package in ("starlette", "uvicorn"):
    pytest.importorskip(package)

pytestmark = pytest.mark.stress
AXE = os.environ.get("BASERATE_AXE")
N_ROWS, BLOCKS = 15_000_000, 15  # of 3 classes: more probabilities than the page holds in memory
RATES = {"cat": "20", "dog": "30", "owl": "50"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    animals().to_csv(folder / "animals.csv", index=False)
    animals(1500, seed=5).to_csv(folder / "validation.csv", index=False)
    shares = {"cat": [0.2, 0.3, 0.4], "dog": [0.5, 0.3, 0.3], "owl": [0.3, 0.4, 0.3]}
    pd.DataFrame({"region": ["north", "south", "east"], **shares}).to_csv(folder / "regions.csv", index=False)
    pd.DataFrame({"class": list(RATES), "rate": [0.2, 0.3, 0.5]}).to_csv(folder / "rates.csv", index=False)
    rng = np.random.default_rng(3)
    many = pd.DataFrame(rng.dirichlet(np.ones(50), size=150), columns=[f"p_{j:02d}" for j in range(50)])
    many.to_parquet(folder / "many.parquet", index=False)
    pd.DataFrame({"p_fraud": rng.beta(0.5, 12, 500)}).to_csv(folder / "fraud.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def very_large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with labels and more than 40 million probabilities."""
    path = tmp_path_factory.mktemp("large") / "large.parquet"
    rng = np.random.default_rng(0)
    fields = [*((f"p_{c}", pa.float32()) for c in "abc"), ("y", pa.string())]
    with pq.ParquetWriter(path, pa.schema(fields)) as writer:
        for _ in range(BLOCKS):
            p = rng.dirichlet([2.0, 1.0, 0.5], size=N_ROWS // BLOCKS).astype(np.float32)
            columns = {f"p_{c}": p[:, j] for j, c in enumerate("abc")}
            writer.write_table(pa.table(columns | {"y": pa.array(["a"] * len(p))}, pa.schema(fields)))
    return path


def fill_in(page: Any, rates: dict[str, str], side: str = "low") -> None:
    for name, share in rates.items():
        page.fill(f".panel:not([hidden]) .rate[data-class='{name}'] .{side}", share)


def wait_for_answer(page: Any) -> None:
    page.wait_for_selector(".answer[data-exact=yes]")
    page.wait_for_function("() => !document.querySelector('#further-work:not([hidden]), .old-answer')")


def open_all_details(page: Any) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")


@pytest.mark.skipif(not AXE, reason="BASERATE_AXE does not name the file axe.min.js")
@pytest.mark.parametrize("width", [360, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_state_of_the_page_has_a_serious_problem(width: int, scheme: str, files: Path, tmp_path: Path) -> None:
    names = [str(files / name) for name in ("animals.csv", "many.parquet", "fraud.csv")]
    script = Path(str(AXE)).read_text(encoding="utf-8")
    found: dict[str, Any] = {}
    with running_server(tmp_path, *names) as server, running_browser() as browser:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = context.new_page()
        page.set_default_timeout(60_000)

        def check(state: str) -> None:
            page.evaluate(script)
            violations = page.evaluate("axe.run()")["violations"]
            serious = [one for one in violations if one["impact"] in ("serious", "critical")]
            found[state] = [(one["id"], one["nodes"][0]["html"]) for one in serious]
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), state

        def open_file(name: str) -> None:
            page.goto(server.url)
            page.get_by_role("button", name=name, exact=True).click()
            page.wait_for_selector("#rates-form")

        page.goto(server.url)
        check("start")
        open_all_details(page)
        page.set_input_files("#file", {"name": "a.csv", "mimeType": "text/csv", "buffer": b"p_a,p_b\n"})
        page.wait_for_selector("#problem:not([hidden])")
        check("start with a message")
        open_file("animals.csv")
        check("opened")
        for kind in ("population", "range", "counts", "groups", "validation", "labels", "file"):
            page.check(f"input[name=kind][value={kind}]", force=True)
            check(f"question: {kind}")
        page.check("input[name=kind][value=number]", force=True)
        fill_in(page, RATES)
        wait_for_answer(page)
        check("answer with labels")
        open_all_details(page)
        check("answer with all details")
        page.click("#write")
        page.wait_for_selector("#downloads a")
        check("downloads")
        fill_in(page, {"cat": "90"})
        page.wait_for_selector("#problem:not([hidden])")
        check("message")
        page.evaluate("document.querySelectorAll('.work').forEach((work) => { work.hidden = false; })")
        check("progress")
        page.check("input[name=kind][value=groups]", force=True)
        page.set_input_files("[data-purpose=groups] input", str(files / "regions.csv"))
        wait_for_answer(page)
        check("answer for groups")
        page.check("input[name=kind][value=validation]", force=True)
        page.set_input_files("[data-purpose=validation] input", str(files / "validation.csv"))
        wait_for_answer(page)
        check("answer for a validation file")
        open_file("many.parquet")
        page.fill(".panel:not([hidden]) .add-name", "07")
        page.keyboard.press("Enter")
        fill_in(page, {"07": "12"})
        wait_for_answer(page)
        open_all_details(page)
        check("50 classes")
        open_file("fraud.csv")
        page.check("input[name=kind][value=range]", force=True)
        fill_in(page, {"p_fraud": "0,5"})
        fill_in(page, {"p_fraud": "1,5"}, "high")
        wait_for_answer(page)
        open_all_details(page)
        check("one column and a range")
        context.close()
    assert {state: problems for state, problems in found.items() if problems} == {}


def commands_of(server: Server) -> list[int]:
    """The processes of commands that a server has started."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == server.process.pid and b"\0-m\0baserate\0" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def wait_until(is_true: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_more_than_40_million_probabilities(very_large: Path, tmp_path: Path) -> None:
    with running_server(tmp_path, str(very_large)) as server, running_browser() as browser:
        watched = Watched(browser.new_page())
        watched.watch("http://{}:{}".format(*server.address))
        page = watched.page
        page.set_default_timeout(300_000)
        page.goto(server.url)
        page.click(".open")
        page.wait_for_selector("#rates-form")
        page.wait_for_function("() => document.querySelector('.mean').textContent")
        fill_in(page, {"a": "40"})
        page.wait_for_selector("#work:not([hidden])")
        assert page.is_visible("#work progress")
        page.wait_for_selector(".answer[data-exact=yes]")
        said = "The file is too large for memory, so it is read again for each answer."
        assert page.inner_text("#shows") == f"Exact answer for all 15,000,000 rows. {said}"
        page.wait_for_selector("#further h3")
        text = page.inner_text("#further")
        assert "The file has more than 40 million probabilities, so the procedures are not compared here." in text
        page.click("#write")
        page.wait_for_selector("#write-work:not([hidden])")
        wait_until(lambda: commands_of(server))
        os.kill(commands_of(server)[0], signal.SIGKILL)  # as the system does if memory is full
        page.wait_for_selector("#write-problem:not([hidden])")
        assert page.inner_text("#write-problem").startswith("The command was ended from outside")
        assert page.locator("#downloads a").count() == 0
        page.check("input[name=kind][value=labels]", force=True)
        page.click(".use-labels")
        page.wait_for_selector("#problem:not([hidden])")
        assert "so its labels are not counted here. Count them in another program" in page.inner_text("#problem")
        assert watched.problems == []
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        peak = int(status.partition("VmHWM:")[2].split()[0]) << 10
        print(f"peak memory of the server: {peak >> 20} MiB; the probabilities as numbers: {N_ROWS * 24 >> 20} MiB")
        assert peak < 1 << 30


def test_kill_in_the_very_middle_of_a_download(very_large: Path, tmp_path: Path) -> None:
    with running_server(tmp_path, str(very_large)) as server, running_browser() as browser:
        context = browser.new_context(accept_downloads=True)
        page = context.new_page()
        page.set_default_timeout(300_000)
        page.goto(server.url)
        page.click(".open")
        page.wait_for_selector("#rates-form")
        fill_in(page, {"a": "40"})
        page.wait_for_selector(".answer[data-exact=yes]")
        page.click("#write")
        page.wait_for_selector("#downloads a")
        path = page.get_attribute("#downloads a[download='large-adjusted.parquet']", "href")
        connection = http.client.HTTPConnection(*server.address, timeout=60)
        connection.request("GET", path)  # a client of which nothing else is known but that it reads slowly
        answer = connection.getresponse()
        size = int(answer.headers["Content-Length"])
        assert len(answer.read(1 << 20)) == 1 << 20
        os.kill(server.process.pid, signal.SIGKILL)
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):  # the client can tell
            answer.read()
        answer.close()
        connection.close()
        assert size > 20 << 20
        wait_until(lambda: not server.left_over())
        fill_in(page, {"a": "41"})  # the page is still open
        page.wait_for_selector("#problem:not([hidden])")
        assert page.inner_text("#problem") == "The server does not answer. Is it still running in the terminal?"
        assert page.locator("#downloads a").count() == 0
        context.close()
    assert very_large.exists()
